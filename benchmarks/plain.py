"""A textbook implementation of the network. Ours is compared with it and must give the same numbers.

It has images as (N, C, H, W), one module after another, all differences of queries and prototypes in one (N, C, D)
tensor, and PyTorch's Adam and data loader. Radius covariance, Euclidean distance, the paper's softplus.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Sampler

from gaussproto.data.images import LabelledImages
from gaussproto.setting_types import FILTERS


class PlainNetwork(nn.Module):
    """Four blocks of convolution, batch norm, ReLU and max pooling. The last output is the raw precision."""

    def __init__(self, filters: Sequence[int], D: int) -> None:
        super().__init__()
        widths = [1, *filters, D + 1]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [
                nn.Conv2d(before, after, 3, padding=1, bias=False),
                nn.BatchNorm2d(after),
                nn.ReLU(),
                nn.MaxPool2d(2),
            ]
        self.layers = nn.Sequential(*layers, nn.Flatten())

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """(N, 1, 28, 28), from 0 to 1 → x (N, D), s (N, 1)."""
        images = images - images.mean(dim=(1, 2, 3), keepdim=True)
        y: Tensor = self.layers(images)
        return y[:, :-1], 1 + F.softplus(y[:, -1:])


def plain_network(encoder: str, D: int) -> PlainNetwork:
    return PlainNetwork(FILTERS[encoder], D)


def plain_loss(network: PlainNetwork, batch: Tensor, way: int, shot: int) -> Tensor:
    """Return the mean cross-entropy of an episode's queries."""
    x, s = network(batch)
    x, s = x.view(way, -1, x.shape[1]), s.view(way, -1, 1)
    s_support, x_support = s[:, :shot], x[:, :shot]
    s_class = s_support.sum(dim=1)  # (C, 1)
    p = (s_support * x_support).sum(dim=1) / s_class  # (C, D)
    queries = x[:, shot:].reshape(-1, x.shape[-1])
    difference = queries[:, None, :] - p[None, :, :]  # (N, C, D)
    d = (s_class * difference**2).sum(dim=2).sqrt()
    truth = torch.arange(way).repeat_interleave(x.shape[1] - shot)
    return F.cross_entropy(-d, truth)


def plain_step(
    network: PlainNetwork, optimizer: torch.optim.Optimizer, batch: Tensor, way: int, shot: int
) -> list[float]:
    """Train on one episode and return the loss."""
    optimizer.zero_grad()
    loss = plain_loss(network, batch, way, shot)
    (loss / way).backward()
    optimizer.step()
    return [loss.item()]


@torch.no_grad()
def plain_embed(network: PlainNetwork, images: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Embed all images in evaluation mode, `size` at a time."""
    network.eval()
    parts = [network(batch.float() / 255) for batch in images.split(size)]
    return torch.cat([x for x, _ in parts]), torch.cat([s for _, s in parts])


class PngFiles(Dataset[Tensor]):
    """A folder of CLASS/IMAGE.png files. Each image is read when it is needed."""

    def __init__(self, folder: Path, size: int = 28) -> None:
        self.size = size
        self.classes = [sorted(each.iterdir()) for each in sorted(folder.iterdir())]

    def __getitem__(self, where: tuple[int, int]) -> Tensor:
        """Return one image (1, size, size), from 0 to 1."""
        c, i = where
        with Image.open(self.classes[c][i]) as file:
            image = file.convert("L").resize((self.size, self.size), Image.Resampling.BILINEAR)
        return torch.from_numpy(np.asarray(image, dtype=np.float32) / 255)[None]


class EpisodeSampler(Sampler[list[tuple[int, int]]]):
    """Yields episodes without end: the class and number of each image."""

    def __init__(self, files: PngFiles, way: int, drawings: int) -> None:
        self.files, self.way, self.drawings = files, way, drawings

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        while True:
            classes = torch.randperm(len(self.files.classes))[: self.way].tolist()
            yield [
                (c, i) for c in classes for i in torch.randperm(len(self.files.classes[c]))[: self.drawings].tolist()
            ]


def plain_episodes(folder: Path, way: int, drawings: int, workers: int) -> Iterator[Tensor]:
    """Return an endless iterator of episodes (way * drawings, 1, 28, 28), read from PNG files by worker processes."""
    files = PngFiles(folder)
    loader: DataLoader[Tensor] = DataLoader(
        files, batch_sampler=EpisodeSampler(files, way, drawings), num_workers=workers
    )
    return iter(loader)


def write_png(images: LabelledImages, folder: Path) -> None:
    """Write one folder for each class and one file for each image."""
    for c, (start, count) in enumerate(zip(images.starts.tolist(), images.counts.tolist(), strict=True)):
        place = folder / f"{c:04d}"
        place.mkdir(parents=True)
        for i, image in enumerate(images.images[start : start + count, 0].numpy()):
            Image.fromarray(image).save(place / f"{i:02d}.png")
