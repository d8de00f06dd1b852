"""Damaged images: how they change the precision, and what they cost in accuracy as supports."""

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from gaussproto.data.damage import damage, down_sample
from gaussproto.data.images import LabelledImages
from gaussproto.evaluation.nearest import nearest_is_own
from gaussproto.evaluation.protocol import ROUNDS, check_groups, groups_of_classes
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
    """Score a network with 0, 1, ... `shot` supports of every class damaged, with running statistics.

    A damaged image is down-sampled to `size` x `size` pixels and enlarged again. Queries are clean.

    Args:
        network: the network to score.
        images: the test classes.
        size: side in pixels of a down-sampled image.
        way: classes of a group.
        shot: supports of each class.
        rounds: how often the classes are grouped at random.
        seed: of the groupings.
        progress: called as the images are embedded.

    Returns:
        The accuracy for each number of damaged supports, and the mean precision of clean and of damaged images.

    Examples:
        >>> import gaussproto as gp
        >>> test = gp.load_data(gp.DataConfig(data="strokes", rotations=False)).test
        >>> study = gp.damage_study(gp.load_network("drawings-small"), test.select(range(20)), shot=3)
        >>> len(study.accuracy), study.precision_clean > study.precision_damaged
        (4, True)
    """
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
    """Return one number for each image (N,): the mean over the dimensions of its precision."""
    assert s is not None, "a vanilla network has no precision"
    each = s.diagonal(dim1=-2, dim2=-1) if s.dim() == 3 else s
    return np.asarray(each.cpu().double().mean(dim=-1).numpy())


def share_higher(some: np.ndarray, others: np.ndarray) -> float:
    """Return the share of pairs in which the value of `some` is higher (the AUROC). Ties count half."""
    truth = np.repeat([1, 0], [len(some), len(others)])
    return float(roc_auc_score(truth, np.concatenate([some, others])))


@dataclass(frozen=True)
class Precisions:
    """The precisions of clean and of damaged images."""

    clean: np.ndarray  # (N,) of the images as they are
    partly: np.ndarray  # (N,) of the same images, some of them damaged
    damaged: np.ndarray  # (M,) of the damaged ones alone
    sizes: tuple[int, ...]  # sides in pixels that they were down-sampled to

    @property
    def dead(self) -> bool:
        return is_dead(float(self.clean.mean()), float(self.clean.std()))

    @property
    def clean_is_higher(self) -> float:
        return share_higher(self.clean, self.damaged)

    def sentence(self) -> str:
        clean, damaged = self.clean.mean(), self.damaged.mean()
        if self.dead:
            return f"The precision is dead: it is {clean:.3g} for every image, as in a vanilla network."
        way = "lowers" if damaged < clean else "raises"
        return (
            f"Damage {way} the precision: the mean is {clean:.3g} for clean images and {damaged:.3g} for damaged ones. "
            f"A clean image has the higher precision in {100 * self.clean_is_higher:.1f} % of pairs."
        )


def damage_sizes(side: int) -> tuple[int, ...]:
    """Return the sizes to which a report down-samples images: 16, 12 and 8 pixels of 28, or in proportion."""
    return tuple(max(1, round(side * share / 7)) for share in (4, 3, 2))


def measure_precisions(
    network: GaussianPrototypicalNetwork,
    images: Tensor,
    seed: int = 0,
    progress: Progress = silent,
    clean: np.ndarray | None = None,
) -> Precisions | None:
    """Measure the precisions of uint8 images (N, channels, H, W), then damage 15 % of them and measure again.

    Pass the precisions `clean` (N,) of the undamaged images if you have them. Returns None for a vanilla network.
    """
    if network.config.covariance == "none":
        return None
    sizes = damage_sizes(images.shape[-1])
    generator = torch.Generator().manual_seed(seed)
    mixed, hit = damage(as_float(images), [(size, 0.15 / len(sizes)) for size in sizes], generator)
    if not bool((hit > 0).any()):  # can happen with very few images
        mixed, hit = damage(as_float(images), [(sizes[-1], 1.0)])
    if clean is None:
        clean = each_precision(embed_all(network, images, progress).s)
    embedded = embed_all(network, mixed[hit > 0], lambda what, *done: progress(f"{what} damaged images", *done))
    partly = clean.copy()
    partly[hit.numpy() > 0] = damaged = each_precision(embedded.s)
    return Precisions(clean, partly, damaged, sizes)
