"""Train a small Gaussian head on feature vectors from any backbone, by episodes.

It starts as the plain nearest mean of the vectors and learns two things: a linear map in which classes lie further
apart, and the precision of each vector, so that a bad example counts for less.
"""

from typing import Any

import torch
from sklearn.utils import check_array

from gaussproto.data.labels import classes_of, read_labels
from gaussproto.episodes import sample_drawings
from gaussproto.errors import InputError
from gaussproto.model.head import GaussianHead
from gaussproto.training.step import episode_loss


def train_head(
    X: Any,
    y: Any,
    *,
    embedding_dim: int | None = None,
    way: int = 20,
    shot: int = 3,
    query: int = 5,
    episodes: int = 300,
    learning_rate: float = 1e-3,
    seed: int = 0,
) -> GaussianHead:
    """Train a Gaussian head by episodes on vectors of known classes; it then serves classes that it has not seen.

    Give it to a classifier: `GaussianPrototypeClassifier(train_head(X, y))`.

    Args:
        X: feature vectors (N, features), such as a backbone gives for images.
        y: the label of each.
        embedding_dim: size of the embedding; that of the vectors if not given.
        way: classes in an episode; all if there are fewer.
        shot: supports of each class; with one alone the precision would have nothing to weigh.
        query: queries of each class; fewer where the smallest class has not so many.
        episodes: length of the training; with 0 the head is the nearest mean.
        learning_rate: Adam's.
        seed: of the weights and of the episodes.
    """
    vectors = torch.tensor(check_array(X, dtype="float32"))
    labels = read_labels(y)
    if len(labels) != len(vectors):
        raise InputError(f"there are {len(vectors)} vectors and {len(labels)} labels: give one label for each")
    position = {label: c for c, label in enumerate(classes_of(labels))}
    index = torch.tensor([position[label] for label in labels])
    order, counts = index.argsort(stable=True), torch.bincount(index)
    enough = counts >= 2
    if int(enough.sum()) < 2 or shot < 1 or query < 1 or way < 2:
        raise InputError(
            "a head learns from two or more classes of two or more vectors each, with way from 2 and shot and query "
            f"from 1 on (found {int(enough.sum())} such classes, way {way}, shot {shot}, query {query})"
        )
    starts, counts = (counts.cumsum(0) - counts)[enough], counts[enough]
    drawings = min(shot + query, int(counts.min()))
    shot = min(shot, drawings - 1)

    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):  # the weights' initial values come from the global generator
        torch.default_generator.manual_seed(seed)
        head = GaussianHead(vectors.shape[1], embedding_dim)
    head.encoder.begin(vectors)
    optimizer = torch.optim.Adam(head.parameters(), lr=learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, episodes))
    for _ in range(episodes):
        chosen = torch.randperm(len(counts), generator=generator)[:way]
        drawn = starts[chosen, None] + sample_drawings(counts[chosen], drawings, generator)  # (C, K + Q)
        embedded = head.embed(vectors[order[drawn]].flatten(0, 1)).unflatten(drawn.shape)
        loss, _ = episode_loss(head, embedded, shot)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return head.eval()
