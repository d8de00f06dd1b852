"""A small Gaussian head on feature vectors from any backbone, trained by episodes.

It starts as the plain nearest mean of the vectors and learns two things: a linear map in which classes lie further
apart, and the precision of each vector, so that a bad example counts for less.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from sklearn.utils import check_array
from torch import Tensor, nn

from gaussproto.classifier.labels import classes_of, read_labels
from gaussproto.config import NetworkConfig
from gaussproto.errors import InputError
from gaussproto.files import write_then_rename
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.training.episode import episode_loss, sample_drawings

HIDDEN = 32  # between a vector and its precision
METADATA = "gaussproto-head"


class GaussianHead(GaussianPrototypicalNetwork):
    """A Gaussian prototypical network whose images are vectors of `features` numbers.

    >>> head = GaussianHead(features=512, embedding_dim=64)
    >>> x, s = head.embed(torch.zeros(3, 512))
    >>> x.shape, s.shape
    (torch.Size([3, 64]), torch.Size([3, 1]))
    """

    def __init__(self, features: int, embedding_dim: int | None = None) -> None:
        D = embedding_dim or features
        config = NetworkConfig(
            embedding_dim=D, covariance="radius", transform="exp", precision_relu=False, weighting="prototype"
        )
        super().__init__(config, backbone=nn.Identity(), features=features)
        self.features = features
        self.encoder: _VectorEncoder = _VectorEncoder(features, D)

    def embed(self, images: Tensor) -> tuple[Tensor, Tensor | None]:
        """Vectors (N, features) -> embeddings x (N, D), precisions s (N, 1)."""
        x, s_raw = self.encoder(images).split(self.sizes, dim=1)
        return x, self.precision(s_raw)

    def save(self, path: Path | str) -> None:
        """Write the head to a safetensors file, which can then be named as an encoder."""
        tensors = {name: t.detach().cpu().contiguous().clone() for name, t in self.state_dict().items()}
        settings = {"features": self.features, "embedding_dim": self.config.embedding_dim}
        with write_then_rename(Path(path)) as temporary:
            save_file(tensors, temporary, metadata={METADATA: json.dumps(settings)})


class _VectorEncoder(nn.Module):
    """Centred and scaled vectors -> a linear map for x beside a small network for s_raw, which begins at 0."""

    mean: Tensor
    scale: Tensor

    def __init__(self, features: int, D: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("scale", torch.ones(()))  # one for all: the vectors' own metric stays
        self.embedding = nn.Linear(features, D, bias=False)
        last = nn.Linear(HIDDEN, 1)
        self.raw = nn.Sequential(nn.Linear(features, HIDDEN), nn.ReLU(), last)
        nn.init.eye_(self.embedding.weight)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)

    def begin(self, vectors: Tensor) -> None:
        """Take the middle and the size of the training vectors, and their widest directions if D is smaller."""
        self.mean.copy_(vectors.mean(dim=0))
        centred = vectors - self.mean
        self.scale.copy_(centred.square().mean().sqrt().clamp_min(1e-12))
        F, D = self.embedding.in_features, self.embedding.out_features
        if F > D:
            _, _, directions = torch.linalg.svd(centred / self.scale, full_matrices=False)
            with torch.no_grad():
                self.embedding.weight[: len(directions)] = directions[:D]

    def forward(self, vectors: Tensor) -> Tensor:
        """(N, features) -> (N, D + 1)."""
        v = (vectors - self.mean) / self.scale
        return torch.cat([self.embedding(v), self.raw(v)], dim=1)


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
    classes = classes_of(labels)
    position = {label: c for c, label in enumerate(classes)}
    index = torch.tensor([position[label] for label in labels])
    order, counts = index.argsort(stable=True), torch.bincount(index, minlength=len(classes))
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
        x, s = head.embed(vectors[order[drawn]].flatten(0, 1))
        s = None if s is None else s.unflatten(0, drawn.shape)
        loss, _ = episode_loss(head, x.unflatten(0, drawn.shape), s, shot)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return head.eval()
