"""What figures show of a network: its embeddings in a plane, its precisions, its mistakes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gaussproto.data.damage import damage
from gaussproto.data.images import LabelledImages, Progress, as_float, silent
from gaussproto.errors import InputError
from gaussproto.evaluation.calibration import probabilities
from gaussproto.evaluation.protocol import embed_all
from gaussproto.evaluation.robustness import each_precision, share_higher
from gaussproto.model.covariance import is_dead
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.model.prototype import class_prototypes
from gaussproto.training.episode import sample_drawings

CHUNK = 2048  # queries compared at once with every class


@dataclass(frozen=True)
class Plane:
    """The plane of the two principal components of some embeddings."""

    middle: np.ndarray  # (D,)
    axes: np.ndarray  # (D, 2), orthonormal
    share: tuple[float, float]  # of the variance that lies along each

    def project(self, x: np.ndarray) -> np.ndarray:
        """(..., D) -> (..., 2)."""
        return np.asarray((x - self.middle) @ self.axes)

    def covariance(self, s: np.ndarray) -> np.ndarray:
        """What a precision, one number, (D,) or (D, D), leaves in the plane as a covariance: (2, 2)."""
        if s.ndim == 2:
            return np.asarray(self.axes.T @ np.linalg.solve(s, self.axes))
        return np.asarray(self.axes.T @ (self.axes / np.broadcast_to(s, len(self.axes))[:, None]))


def principal_plane(x: np.ndarray) -> Plane:
    """The plane in which embeddings (N, D) spread most; each axis points to where its largest weight is positive."""
    middle = x.mean(axis=0)
    _, sizes, directions = np.linalg.svd(np.asarray(x - middle, dtype=np.float64), full_matrices=False)
    if len(directions) < 2:  # two points, or embeddings of one number
        directions = np.concatenate([directions, np.zeros((2 - len(directions), x.shape[1]))])
        sizes = np.concatenate([sizes, np.zeros(2 - len(sizes))])
    axes = directions[:2].T
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), [0, 1]] < 0, -1, 1)
    power = sizes**2 / max(float((sizes**2).sum()), np.finfo(float).tiny)
    return Plane(middle, axes, (float(power[0]), float(power[1])))


@dataclass(frozen=True)
class EpisodeView:
    """An episode as a network sees it; arrays, float64."""

    names: tuple[str, ...]
    support: np.ndarray  # images (C, K, channels, H, W), uint8
    query: np.ndarray  # images (C, Q, channels, H, W), uint8
    x: np.ndarray  # (C, K, D)
    s: np.ndarray | None  # (C, K, E) or (C, K, D, D)
    x_query: np.ndarray  # (C, Q, D)
    p: np.ndarray  # (C, D)
    s_class: np.ndarray | None  # (C, E) or (C, D, D)
    d: np.ndarray  # (C, Q, C)
    in_distance: bool  # whether the class precision is the metric of the distances

    @property
    def probabilities(self) -> np.ndarray:
        """(C, Q, C): the softmax of minus the distances."""
        return probabilities(self.d)

    @property
    def hardest(self) -> tuple[int, int]:
        """The query (class, number) for which the two nearest classes are least apart."""
        near = np.sort(self.d, axis=-1)
        at = np.unravel_index((near[..., 1] - near[..., 0]).argmin(), near.shape[:2])
        return int(at[0]), int(at[1])

    @property
    def plane(self) -> Plane:
        """The principal plane of all its embeddings."""
        return principal_plane(np.concatenate([self.x, self.x_query], axis=1).reshape(-1, self.x.shape[-1]))


def view_episode(
    network: GaussianPrototypicalNetwork, images: LabelledImages, way: int, shot: int, query: int, seed: int = 0
) -> EpisodeView:
    """An episode of unturned classes drawn by the seed; smaller where there are not so many classes or images."""
    generator = torch.Generator().manual_seed(seed)
    able = [c for c in upright(images) if int(images.counts[c]) >= 2]
    if len(able) < 2:
        raise InputError("an episode needs two classes of two images or more: add images to the test classes")
    enough = [c for c in able if int(images.counts[c]) >= shot + query]
    able = enough if len(enough) >= min(way, len(able)) else able
    classes = torch.tensor(able)[torch.randperm(len(able), generator=generator)[:way]]
    fewest = int(images.counts[classes].min())
    shot = min(shot, fewest - 1)
    drawn = images.gather(classes, sample_drawings(images.counts[classes], min(shot + query, fewest), generator))
    x, s = embed_all(network, drawn.flatten(0, 1))
    x = x.cpu().unflatten(0, drawn.shape[:2])
    s = None if s is None else s.cpu().unflatten(0, drawn.shape[:2])
    s_shot = None if s is None else s[:, :shot]
    p, s_class = class_prototypes(x[:, :shot], s_shot)
    metric = s_class if network.config.in_distance else None
    with torch.no_grad():
        d = network.distances(x[:, shot:].flatten(0, 1), p, metric).unflatten(0, (len(classes), -1))
    return EpisodeView(
        tuple(images.classes[c] for c in classes.tolist()),
        drawn[:, :shot].numpy(),
        drawn[:, shot:].numpy(),
        _numbers(x[:, :shot]),
        None if s_shot is None else _numbers(s_shot),
        _numbers(x[:, shot:]),
        _numbers(p),
        None if s_class is None else _numbers(s_class),
        _numbers(d),
        metric is not None,
    )


def upright(images: LabelledImages) -> list[int]:
    """The classes that are no rotation of another."""
    return [c for c, name in enumerate(images.classes) if name == images.characters[c]]


def thinned(images: LabelledImages, most: int) -> LabelledImages:
    """At most so many of the unturned classes, evenly spaced."""
    classes = upright(images)
    step = max(1.0, len(classes) / most)
    return images.select([classes[int(i * step)] for i in range(min(most, len(classes)))])


@dataclass(frozen=True)
class Precisions:
    """The precision of images as they are, of the same with a part of them damaged, and of that part alone."""

    clean: np.ndarray  # (N,)
    partly: np.ndarray  # (N,)
    damaged: np.ndarray  # (M,)
    sizes: tuple[int, ...]  # pixels to a side that damaged images were brought down to

    @property
    def dead(self) -> bool:
        """Whether every image has the same precision."""
        return is_dead(float(self.clean.mean()), float(self.clean.std()))

    @property
    def clean_is_higher(self) -> float:
        """How often a clean image has a higher precision than a damaged one; ties count half."""
        return share_higher(self.clean, self.damaged)

    def sentence(self) -> str:
        """Which way damage moves the precision, in words."""
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
    share: float = 0.15,
    seed: int = 0,
    progress: Progress = silent,
    clean: np.ndarray | None = None,
) -> Precisions | None:
    """The precisions of images (N, channels, H, W), clean and with a share of them damaged; None if there are none.

    Args:
        network: whose precisions they are; each image is judged alone.
        images: as they are, uint8.
        share: of the images that are damaged.
        seed: of the choice.
        progress: called as they are embedded.
        clean: their precisions, if they are known already.
    """
    if network.config.covariance == "none":
        return None
    sizes = damage_sizes(images.shape[-1])
    generator = torch.Generator().manual_seed(seed)
    mixed, hit = damage(as_float(images), [(size, share / len(sizes)) for size in sizes], generator)
    if not bool((hit > 0).any()):  # a handful of images and bad luck
        mixed, hit = damage(as_float(images), [(sizes[-1], 1.0)])
    if clean is None:
        _, s = embed_all(network, images, progress)
        assert s is not None
        clean = each_precision(s.cpu())
    _, s = embed_all(network, mixed[hit > 0], lambda what, done, total: progress(f"{what} damaged images", done, total))
    assert s is not None
    partly = clean.copy()
    partly[hit.numpy() > 0] = damaged = each_precision(s.cpu())
    return Precisions(clean, partly, damaged, sizes)


@dataclass(frozen=True)
class ConfusedPair:
    """Two classes that are taken for each other; all counts are of queries."""

    classes: tuple[int, int]
    mistaken: tuple[int, int]  # of the first taken for the second, of the second for the first
    asked: tuple[int, int]
    examples: tuple[tuple[int, ...], tuple[int, ...]]  # images that were mistaken


@dataclass(frozen=True)
class Confusions:
    """The classes most often taken for each other when every class is a candidate."""

    way: int
    shot: int
    accuracy: float
    pairs: tuple[ConfusedPair, ...]


@torch.inference_mode()
def confusions(
    network: GaussianPrototypicalNetwork,
    images: LabelledImages,
    x: Tensor,
    s: Tensor | None,
    shot: int = 5,
    pairs: int = 8,
    seed: int = 0,
) -> Confusions:
    """Classify the images, embedded as x and s, among all their classes; each class gives `shot` of them as support."""
    shot = min(shot, int(images.counts.min()) - 1)
    if shot < 1:
        raise InputError("a support and a query need two images: a test class has only one")
    order = sample_drawings(images.counts, shot, torch.Generator().manual_seed(seed))
    support = images.starts[:, None] + order  # (C, K)
    p, s_class = network.prototypes(x[support], None if s is None else s[support])
    is_query = torch.ones(len(images), dtype=torch.bool)
    is_query[support.flatten()] = False
    queries = is_query.nonzero().flatten()
    answers = torch.cat([network.distances(x[part], p, s_class).argmin(dim=1) for part in queries.split(CHUNK)])
    truth = images.labels[queries]
    wrong = answers != truth
    found: dict[tuple[int, int], list[int]] = {}
    for image, a, b in torch.stack([queries[wrong], truth[wrong], answers[wrong]], dim=1).tolist():
        found.setdefault((a, b), []).append(image)
    both = {(min(pair), max(pair)) for pair in found}
    ranked = sorted(both, key=lambda ab: (-len(found.get(ab, [])) - len(found.get(ab[::-1], [])), ab))
    asked = (images.counts - shot).tolist()
    result = []
    for a, b in ranked[:pairs]:
        there, back = found.get((a, b), []), found.get((b, a), [])
        result.append(ConfusedPair((a, b), (len(there), len(back)), (asked[a], asked[b]), (tuple(there), tuple(back))))
    return Confusions(images.way, shot, float((~wrong).float().mean()), tuple(result))


def _numbers(t: Tensor) -> np.ndarray:
    return np.asarray(t.detach().double().numpy())
