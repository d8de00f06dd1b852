"""Bad examples: does the precision notice a damaged image, and what does one in the support cost?"""

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from gaussproto.data.damage import damage, down_sample
from gaussproto.data.images import LabelledImages
from gaussproto.evaluation.protocol import ROUNDS, check_groups, groups_of_classes, nearest_is_own
from gaussproto.formulas.covariance import is_dead
from gaussproto.formulas.embedded import Embedded
from gaussproto.model.embed import embed_all
from gaussproto.model.network import GaussianPrototypicalNetwork, as_float
from gaussproto.progress import Progress, silent
from gaussproto.runs.metrics import DamageStudy

CHUNK = 4096  # images damaged at once


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
    """Score a network with some of its supports down-sampled to `size` pixels, under running statistics."""
    check_groups(images, [way], [shot], rounds)
    parts = [down_sample(as_float(part), size).mul(255).round().byte() for part in images.images.split(CHUNK)]
    clean = embed_all(network, images.images, progress)
    damaged = embed_all(network, torch.cat(parts), lambda what, *done: progress(f"{what} damaged", *done))
    generator = torch.Generator().manual_seed(seed)
    M = int(images.counts.min())
    right, asked = torch.zeros(shot + 1), 0
    for _, counted, index, _ in groups_of_classes(images, way, rounds, generator, drawings=M):
        asked += int(counted[..., shot:].sum())
        for bad in range(shot + 1):
            both = [damaged[index[..., :bad]], clean[index[..., bad:]]]
            mixed = Embedded.join(both, lambda parts: torch.cat(parts, dim=2))  # (G, way, M, D)
            hit = nearest_is_own(network, mixed, [shot])[:, :, shot:, 0].cpu()  # (G, way, M - shot)
            right[bad] += (hit & counted[..., shot:]).sum()
    precisions: dict[str, float] = {}
    if clean.s is not None:
        good, bad_ones = each_precision(clean.s), each_precision(damaged.s)
        precisions = {"precision_clean": float(good.mean()), "precision_std": float(good.std())}
        precisions |= {"precision_damaged": float(bad_ones.mean()), "clean_is_higher": share_higher(good, bad_ones)}
    accuracy = tuple((right / asked).tolist())
    return DamageStudy(size=size, way=way, shot=shot, rounds=rounds, seed=seed, accuracy=accuracy, **precisions)


def each_precision(s: Tensor | None) -> np.ndarray:
    """(N,): one number an image, the mean over its dimensions."""
    assert s is not None, "a vanilla network has no precision"
    each = s.diagonal(dim1=-2, dim2=-1) if s.dim() == 3 else s
    return np.asarray(each.double().mean(dim=-1).cpu().numpy())


def share_higher(some: np.ndarray, others: np.ndarray) -> float:
    """How often one of `some` is above one of `others`, the AUROC; ties count half."""
    truth = np.repeat([1, 0], [len(some), len(others)])
    return float(roc_auc_score(truth, np.concatenate([some, others])))


@dataclass(frozen=True)
class Precisions:
    """The precision of images as they are, of the same with a part of them damaged, and of that part alone."""

    clean: np.ndarray  # (N,)
    partly: np.ndarray  # (N,)
    damaged: np.ndarray  # (M,)
    sizes: tuple[int, ...]  # pixels to a side that damaged images were down-sampled to

    @property
    def dead(self) -> bool:
        return is_dead(float(self.clean.mean()), float(self.clean.std()))

    @property
    def clean_is_higher(self) -> float:
        return share_higher(self.clean, self.damaged)

    def sentence(self) -> str:
        clean, damaged = self.clean.mean(), self.damaged.mean()
        if self.dead:
            return f"The precision is dead: every image has {clean:.3g}, and the network is a vanilla one."
        way = "lowers" if damaged < clean else "raises"
        return (
            f"Damage {way} the precision: its mean is {clean:.3g} on clean and {damaged:.3g} on damaged images, and a "
            f"clean image has the higher one in {100 * self.clean_is_higher:.1f} % of pairs."
        )


def damage_sizes(side: int) -> tuple[int, ...]:
    """The sizes that a report damages to: 16, 12 and 8 pixels of 28, and in proportion."""
    return tuple(max(1, round(side * share / 7)) for share in (4, 3, 2))


def measure_precisions(
    network: GaussianPrototypicalNetwork,
    images: Tensor,
    seed: int = 0,
    progress: Progress = silent,
    clean: np.ndarray | None = None,
) -> Precisions | None:
    """The precisions of uint8 images (N, channels, H, W) with 15 % of them damaged; None for a vanilla network.

    `clean` are the precisions of the images as they are, (N,), if they are known already.
    """
    if network.config.covariance == "none":
        return None
    sizes = damage_sizes(images.shape[-1])
    generator = torch.Generator().manual_seed(seed)
    mixed, hit = damage(as_float(images), [(size, 0.15 / len(sizes)) for size in sizes], generator)
    if not bool((hit > 0).any()):  # a handful of images and bad luck
        mixed, hit = damage(as_float(images), [(sizes[-1], 1.0)])
    if clean is None:
        clean = each_precision(embed_all(network, images, progress).s)
    embedded = embed_all(network, mixed[hit > 0], lambda what, *done: progress(f"{what} damaged images", *done))
    partly = clean.copy()
    partly[hit.numpy() > 0] = damaged = each_precision(embedded.s)
    return Precisions(clean, partly, damaged, sizes)
