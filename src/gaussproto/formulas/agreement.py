"""Agreement: the probability that the label of a support is right, given all other supports."""

import math
from typing import Any, NamedTuple

import numpy as np

from gaussproto.formulas.distance import find_distance
from gaussproto.formulas.embedded import is_tensor, ones_like
from gaussproto.formulas.numeric import (
    as_like,
    constant,
    join,
    least,
    logaddexp,
    logsumexp,
    sigmoid,
    tiny,
    weighted_median,
    where,
)
from gaussproto.formulas.prototype import Supports, sizes, trusted

MAJORITY = 3  # supports of a class that can outvote one
AGREEMENT_STEPS = 4  # more change nothing
WRONG = 0.2  # the share of wrong labels that `agreement` expects
UNSEEN = 0.3  # the share of the wrong ones that belong to none of the classes
SHARPNESS = (
    12.0  # a support this share of a typical distance nearer to another class is e times less likely to be right
)
LEAST = 1e-3  # trust of a support that is surely wrong: a class of nothing else still has a mean
MOST_CLASSES = 2000  # that a support is compared with; of more classes, evenly spaced ones
FEWEST_CLASSES = 100  # that a support is compared with, of very many supports
COMPARED = 200_000_000  # pairs of a support and a class, at most, unless FEWEST_CLASSES need more
PAIRS = 1_000_000  # distances at once, few enough for the processor's cache


class Surroundings(NamedTuple):
    """What the supports of one class are compared with: a sample of the other classes, and what is typical of them."""

    p: np.ndarray  # (C, D)
    s: np.ndarray | None  # the metric of each class, or None
    variance: np.ndarray  # (C,) of each prototype
    T: float | None  # the temperature, or None if no class has three supports
    unseen: float  # the logarithm of the likelihood of a support that belongs to none of the classes


def agreement(supports: Supports, s: Any, few: Any, distance: str, in_distance: bool) -> Any:
    """Estimate the probability that each label is right, given the prototypes, and the prototypes, given it, in turn.

    A label is right with probability 1 - WRONG. The likelihood of a right support is exp(-d / T), as in the softmax of
    a classifier, where d is its distance from the mean of the others of its class. A wrong one belongs to another
    class, with the likelihood of that class, or to none, and then it is as far as the next class usually is.

    An image of low precision is far from everything, and so is a mean of such images. Distances are therefore divided
    by the standard deviation that the precisions predict, and images of high precision decide what is typical.
    """
    x, kind = supports.x, find_distance(distance)
    s = ones_like(x[..., :1]) if s is None else s
    size = sizes(s, x)  # (..., C, K) or (N,)
    w = supports.spread(supports.total(s) / _shots(supports, s)) + 0 * s  # at first, all count the same
    trust = ones_like(x[..., 0])
    power = 0.0 if in_distance else kind.power / 2  # the metric of the class already contains its precision
    with np.errstate(all="ignore"):  # callers check the result
        for _ in range(AGREEMENT_STEPS):
            p, s_class = supports.mean(w)
            others, s_others = supports.mean_of_others(w)
            of_class, of_others = _variances(supports, sizes(w, x), size)
            metric = s_others[(slice(None),) * (x.ndim - 1) + (None,)] if in_distance else None
            own = kind.value(x[..., None, :], others[..., None, :], metric)[..., 0, 0]
            own = own / (1 / size + of_others) ** power
            T = _typical(supports, own, size, few) / SHARPNESS + tiny(x)
            metric = s_class if in_distance else None
            nearest, among = _other_classes(supports, kind, p, metric, of_class, size, power, T)
            unseen = -_typical(supports, nearest, size, few) / T
            trust = _right(own, T, among, unseen)
            w = trusted(s, where(few, ones_like(trust), trust), x)
    return trust


def _right(own: Any, T: Any, among: Any, unseen: Any) -> Any:
    """Return the probability that the label of each support is right."""
    wrong = logaddexp(among + math.log(1 - UNSEEN), unseen + math.log(UNSEEN))
    odds = math.log((1 - WRONG) / WRONG) - own / T - wrong
    return sigmoid(odds).clip(LEAST)


def surroundings_of(
    x: np.ndarray, s: np.ndarray | None, labels: np.ndarray, trust: np.ndarray, distance: str, in_distance: bool
) -> Surroundings:
    """Return what a new class is compared with: the classes of these supports, after `support_trust`."""
    supports, kind = Supports(x, labels), find_distance(distance)
    s = ones_like(x[:, :1]) if s is None else s
    size, w = sizes(s, x), trusted(s, trust, x)
    few = supports.spread(supports.shots)[:, 0] < MAJORITY
    with np.errstate(all="ignore"):
        p, s_class = supports.mean(w)
        others, s_others = supports.mean_of_others(w)
        of_class, of_others = _variances(supports, sizes(w, x), size)
        metric = s_class if in_distance else None
        around = Surroundings(p, metric, of_class, None, 0.0)
        if few.all():
            return around
        power = 0.0 if in_distance else kind.power / 2
        own = kind.value(x[:, None], others[:, None], s_others[:, None] if in_distance else None)[:, 0, 0]
        T = _typical(supports, own / (1 / size + of_others) ** power, size, few) / SHARPNESS + tiny(x)
        nearest, _ = _other_classes(supports, kind, p, metric, of_class, size, power, T)
        return around._replace(T=float(T), unseen=float(-_typical(supports, nearest, size, few) / T))


def agreement_of_one(
    x: np.ndarray, s: np.ndarray | None, known: Surroundings, distance: str, in_distance: bool
) -> np.ndarray:
    """Return the agreement of the supports (N, D) of one class that joins many others, which stay as they are."""
    supports, kind = Supports(x, np.zeros(len(x), dtype=int), 1), find_distance(distance)
    s = ones_like(x[:, :1]) if s is None else s
    size, w = sizes(s, x), supports.spread(supports.total(s) / _shots(supports, s)) + 0 * s
    few, power = np.zeros(len(x), dtype=bool), 0.0 if in_distance else kind.power / 2
    trust = np.ones(len(x))
    with np.errstate(all="ignore"):
        for _ in range(AGREEMENT_STEPS):
            others, s_others = supports.mean_of_others(w)
            _, of_others = _variances(supports, sizes(w, x), size)
            own = kind.value(x[:, None], others[:, None], s_others[:, None] if in_distance else None)[:, 0, 0]
            own = own / (1 / size + of_others) ** power
            T = known.T if known.T is not None else _typical(supports, own, size, few) / SHARPNESS + tiny(x)
            d = _reduced(kind.value(x, known.p, known.s), size, known.variance, power)
            among = logsumexp(-d / T) - math.log(len(known.p))
            unseen = known.unseen if known.T is not None else -_typical(supports, d.min(axis=1), size, few) / T
            trust = _right(own, T, among, unseen)
            w = trusted(s, trust, x)
    return np.asarray(trust)


def _reduced(d: Any, size: Any, variance: Any, power: float) -> Any:
    """Divide distances of supports from classes by the standard deviation that the precisions predict."""
    return d if power == 0 else d / (1 / size[..., None] + variance[..., None, :]) ** power


def _variances(supports: Supports, w: Any, size: Any) -> tuple[Any, Any]:
    """Return the variance of each class's weighted mean, (..., C), and of the mean of the others for each support."""
    parts = w**2 / size
    total, squares = supports.total(w[..., None]), supports.total(parts[..., None])  # (..., C, 1)
    alone = supports.spread(supports.shots)[..., 0] <= 1
    rest = supports.spread(total)[..., 0] - w * ~alone
    of_others = (supports.spread(squares)[..., 0] - parts * ~alone) / rest**2
    return (squares / total**2)[..., 0], of_others


def _other_classes(
    supports: Supports, kind: Any, p: Any, metric: Any, variance: Any, size: Any, power: float, T: Any
) -> tuple[Any, Any]:
    """Return the distance of each support from the nearest other class, and the logarithm of its mean likelihood."""
    x, C = supports.x, p.shape[-2]
    if supports.labels is None:
        own = np.repeat(np.arange(C), x.shape[-2])
        x, size = (
            t.reshape(*t.shape[: supports.x.ndim - 3], len(own), *t.shape[supports.x.ndim - 1 :]) for t in (x, size)
        )
    else:
        own = np.asarray(supports.labels.cpu() if is_tensor(x) else supports.labels)
    most = min(MOST_CLASSES, max(FEWEST_CLASSES, COMPARED // len(own)))
    classes = evenly_spaced(C, most)
    if len(classes) < C:
        p, variance = p[..., classes, :], variance[..., classes]
        metric = None if metric is None else metric[classes]
    block = max(1, PAIRS // len(classes)) if x.ndim == 2 else len(own)
    parts = []
    for start in range(0, len(own), block):
        rows = slice(start, start + block)
        d = kind.value(x[..., rows, :], p, metric)
        d = _reduced(d, size[..., rows], variance, power)
        is_own = own[rows, None] == classes
        d = where(as_like(is_own, d), math.inf, d)
        parts.append((least(d), logsumexp(-d / T) - as_like(np.log((~is_own).sum(-1)), d)))
    nearest, among = (join(each) for each in zip(*parts, strict=True))
    return nearest.reshape(supports.x.shape[:-1]), among.reshape(supports.x.shape[:-1])


def evenly_spaced(C: int, most: int = MOST_CLASSES) -> np.ndarray:
    """Return the indices of at most `most` of C classes."""
    return np.unique(np.linspace(0, C - 1, min(C, most)).round().astype(int))


def _typical(supports: Supports, d: Any, size: Any, few: Any) -> Any:
    """Return the median over the supports of an episode, each weighted by its precision: a number or (..., 1, 1).

    Classes of one or two supports are left out. It is a constant, so that no gradient flows through it.
    """
    d, size = constant(d), constant(size)
    if supports.labels is not None:
        return weighted_median(d[~few], size[~few])
    lead = d.shape[:-2]
    return weighted_median(d.reshape(*lead, -1), size.reshape(*lead, -1))[..., None, None]


def _shots(supports: Supports, s: Any) -> Any:
    """Return the number of supports of each class, with as many axes as the precision of a class."""
    shots = supports.shots
    return shots[..., None] if s.ndim > supports.x.ndim else shots
