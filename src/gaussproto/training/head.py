"""Train a small Gaussian head on feature vectors from any backbone, by episodes.

The head starts as a nearest-mean classifier. It learns a linear map that separates the classes better, and a precision
for each vector, so that a bad example counts for less.
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
    """Train a Gaussian head on feature vectors, to recognise new classes from a few vectors of each.

    Pass the head to a classifier: `GaussianPrototypeClassifier(head)`. The head starts as a nearest-mean classifier and
    learns a linear map and a precision for each vector.

    Args:
        X: feature vectors of training classes, (N, features), for example the output of a pretrained backbone.
        y: their labels, (N,). Classes of a single vector are skipped.
        embedding_dim: size of the embedding, by default that of the vectors.
        way: number of classes in an episode. With fewer classes, an episode has all of them.
        shot: number of supports of each class. Use two or more, since the precision cannot be learned from one.
        query: number of queries of each class. If the smallest class has too few vectors, queries are reduced first.
        episodes: number of training episodes. With 0 the head stays a nearest-mean classifier.
        learning_rate: learning rate of Adam.
        seed: seed of the weights and the episodes.

    Returns:
        The trained head, in evaluation mode.

    Examples:
        Train on ten classes, then fit a classifier to three vectors of each of two new classes:

        >>> import gaussproto as gp
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> y = np.repeat(np.arange(12), 8)  # 12 classes of 8 vectors
        >>> X = rng.normal(size=(12, 16))[y] + 0.1 * rng.normal(size=(96, 16))
        >>> head = gp.train_head(X[:80], y[:80], way=5, episodes=20)
        >>> clf = gp.GaussianPrototypeClassifier(head).fit(X[80::3], y[80::3])
        >>> clf.predict(X[[81, 95]]).tolist()
        [10, 11]
    """
    vectors = torch.tensor(check_array(X, dtype="float32"))
    labels = read_labels(y)
    if len(labels) != len(vectors):
        found = f"found {len(vectors)} and {len(labels)}"
        raise InputError(f"X and y must have the same length ({found}): pass one label for each vector")
    position = {label: c for c, label in enumerate(classes_of(labels))}
    index = torch.tensor([position[label] for label in labels])
    order, counts = index.argsort(stable=True), torch.bincount(index)
    enough = counts >= 2
    if int(enough.sum()) < 2:
        raise InputError(
            f"training needs at least two classes of two vectors each (found {int(enough.sum())}): add vectors"
        )
    for name, value, least in (("way", way, 2), ("shot", shot, 1), ("query", query, 1)):
        if value < least:
            raise InputError(f"{name} must be at least {least} (found {value})")
    starts, counts = (counts.cumsum(0) - counts)[enough], counts[enough]
    drawings = min(shot + query, int(counts.min()))
    shot = min(shot, drawings - 1)

    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):  # initial weights come from the global generator
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
