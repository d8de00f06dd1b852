"""Bad examples: does the precision notice a damaged image, and what does one in the support cost?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gaussproto.data.damage import down_sample
from gaussproto.data.images import LabelledImages, Progress, as_float, silent
from gaussproto.evaluation.protocol import ROUNDS, check_asked, embed_all, groups, hits
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.training.episode import sample_drawings

CHUNK = 4096  # images damaged at once


@dataclass(frozen=True)
class DamageStudy:
    """What damage does to the precision of images and to the accuracy of prototypes made of them."""

    size: int  # pixels to a side that a damaged image was brought down to
    way: int
    shot: int
    rounds: int
    seed: int
    accuracy: tuple[float, ...]  # with 0, 1, ... of the supports of every class damaged; queries are clean
    precision_clean: float | None  # the mean; None for a vanilla network
    precision_damaged: float | None
    spread: float | None  # standard deviation of the precision over clean images
    clean_is_higher: float | None  # share of pairs in which the clean image has the higher precision

    def as_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        return asdict(self)


@torch.inference_mode()
def damage_study(
    network: GaussianPrototypicalNetwork,
    images: LabelledImages,
    *,
    size: int = 7,
    way: int = 20,
    shot: int = 5,
    rounds: int = ROUNDS["running"],
    seed: int = 0,
    progress: Progress = silent,
) -> DamageStudy:
    """Score a network with some of its supports down-sampled to `size` pixels, each image judged alone."""
    check_asked(images, [way], [shot], rounds)
    parts = [down_sample(as_float(part), size).mul(255).round().byte() for part in images.images.split(CHUNK)]
    damaged = torch.cat(parts)
    x, s = embed_all(network, images.images, progress)
    x_bad, s_bad = embed_all(network, damaged, lambda what, done, total: progress(f"{what} damaged", done, total))
    generator = torch.Generator().manual_seed(seed)
    M = int(images.counts.min())
    right, asked = torch.zeros(shot + 1), 0
    for _ in range(rounds):
        index = images.starts[:, None] + sample_drawings(images.counts, M, generator)  # (C, M)
        for group, counted in groups(images.way, way, generator):
            asked += int(counted.sum()) * (M - shot)
            for bad in range(shot + 1):
                x_group = _with_bad(x, x_bad, index[group], bad)  # (G, way, M, D)
                s_group = None if s is None or s_bad is None else _with_bad(s, s_bad, index[group], bad)
                hit = hits(network, x_group, s_group, [shot])[:, :, shot:, 0].cpu()  # (G, way, M - shot)
                right[bad] += (hit & counted[..., None]).sum()
    accuracy = tuple((right / asked).tolist())
    if s is None or s_bad is None:
        return DamageStudy(size, way, shot, rounds, seed, accuracy, None, None, None, None)
    clean, bad_ones = each_precision(s.cpu()), each_precision(s_bad.cpu())
    return DamageStudy(
        size,
        way,
        shot,
        rounds,
        seed,
        accuracy,
        float(clean.mean()),
        float(bad_ones.mean()),
        float(clean.std()),
        share_higher(clean, bad_ones),
    )


def each_precision(s: Tensor) -> np.ndarray:
    """(N,): one number an image, the mean over its dimensions."""
    each = s.diagonal(dim1=-2, dim2=-1) if s.dim() == 3 else s
    return np.asarray(each.double().mean(dim=-1).numpy())


def share_higher(some: np.ndarray, others: np.ndarray) -> float:
    """How often one of `some` is above one of `others`; ties count half. Also known as the AUROC.

    >>> share_higher(np.array([1.0, 2.0, 3.0]), np.array([2.0]))
    0.5
    """
    order = np.sort(some)
    below = np.searchsorted(order, others, side="left")
    not_above = np.searchsorted(order, others, side="right")
    return float(1 - (below + not_above).mean() / (2 * len(order)))


def _with_bad(good: Tensor, bad: Tensor, index: Tensor, count: int) -> Tensor:
    return torch.cat([bad[index[..., :count]], good[index[..., count:]]], dim=index.dim() - 1)
