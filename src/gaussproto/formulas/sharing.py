"""Sharing: every support counts in each class by the probability that it belongs to it.

A support with a wrong label is then not lost. It is an example of the class that it looks like. This pays where classes
overlap, because there a support is seldom surely right or surely wrong.
"""

from typing import Any

import numpy as np

from gaussproto.formulas.distance import Distance
from gaussproto.formulas.embedded import is_tensor, ones_like
from gaussproto.formulas.numeric import (
    as_like,
    constant,
    exp,
    join,
    least,
    log,
    tiny,
    weighted_median,
    where,
)
from gaussproto.formulas.prototype import Supports, sizes

STEPS = 8  # more change little
SHARPNESS = 6.0  # a support this share of a typical distance nearer to a class belongs to it e times more probably
WRONG, STRENGTH = 0.3, 10.0  # the share of wrong labels before anything is known, which counts like this many supports
MOST_WRONG = 0.9
UNSEEN = 0.2  # the share of the wrong ones that belong to none of the classes


def shares(supports: Supports, s: Any, start: Any, few: Any, kind: Distance, fewest: float) -> Any:
    """Estimate the probability that each support belongs to each class, (..., C, K, C) or (N, C).

    The prototypes and the probabilities are estimated in turn, as in `agreement`. A support belongs to its own class
    with probability 1 - E and to any other one with an equal part of E, before it is looked at. Its likelihood is
    exp(-d / T), where d is its distance from the mean of the other supports, each with its share. E is estimated too,
    from all supports of the episode.

    Args:
        supports: the supports.
        s: their precisions, or None. Only the mean over the dimensions is used.
        start: (..., C, K) or (N,), what each support counts in its class at first, when its precision is not used yet.
        few: (..., C, K) or (N,), true for the supports of classes that are too small to judge them.
        kind: the distance of supports from classes.
        fewest: the smallest share of a support in its own class.
    """
    own, x, size, known = _in_a_list(supports, s, few)
    own_class = as_like(np.eye(supports.way, dtype=bool)[own], x)  # (N, C)
    only = own_class * ones_like(x[..., :1])  # (..., N, C)
    shape = *supports.x.shape[:-1], supports.way
    if supports.way == 1 or not bool(known.any()):
        return only.reshape(shape)
    v = (only * (_of_classes(only, size) / only.sum(-2))[..., None, :]).sum(-1) * start.reshape(size.shape)
    E, share = WRONG * ones_like(x[..., :1, :1]), only
    with np.errstate(all="ignore"):  # callers check the result
        for _ in range(STEPS):
            d = _distances_from_others(x, share * v[..., None], size, kind)
            T = _typical((d * only).sum(-1), size, known) / SHARPNESS + tiny(x)
            nearest = _typical(least(where(own_class, d + float("inf"), d)), size, known)
            label = where(own_class, log(1 - E), log(E * (1 - UNSEEN) / (supports.way - 1)))
            unseen = log(E[..., 0] * UNSEEN) - (nearest / T + 0 * size)
            both = join([label - d / T[..., None], unseen[..., None]])
            both = exp(both + constant(least(-both))[..., None])
            share = both[..., :-1] / both.sum(-1)[..., None]
            share = where(own_class & (share < fewest), fewest + 0 * share, share)
            share = where(known[..., None], share, only)
            wrong = (1 - (share * only).sum(-1)).sum(-1)  # 0 in classes of few
            E = (STRENGTH * WRONG + wrong) / (STRENGTH + known.sum(-1))
            E, v = E.clip(0, MOST_WRONG)[..., None, None], size
    return share.reshape(shape)


def _in_a_list(supports: Supports, s: Any, few: Any) -> tuple[np.ndarray, Any, Any, Any]:
    """Return for the supports in a list their classes (N,), x (..., N, D), precision (..., N) and whether not `few`."""
    x = supports.x
    size = ones_like(x[..., 0]) if s is None else sizes(s, x)
    if supports.labels is not None:
        own = np.asarray(supports.labels.cpu() if is_tensor(supports.labels) else supports.labels)
        return own, x, size, ~few
    own = np.repeat(np.arange(supports.way), x.shape[-2])
    lead = x.shape[:-3]
    return own, x.reshape(*lead, len(own), x.shape[-1]), *(t.reshape(*lead, len(own)) for t in (size, ~few))


def _distances_from_others(x: Any, w: Any, size: Any, kind: Distance) -> Any:
    """Return the distance of each support from the mean of all others, with their weights w in each class, (..., N, C).

    Without a support of weight w, the mean of a class of weight W moves away from it by the factor W / (W - w). Like in
    `agreement`, distances are divided by the standard deviation that the precisions predict.
    """
    total = w.sum(-2)[..., None, :]
    rest = total - w
    rest = where(rest > 1e-6 * total, rest, total)  # alone in its class
    p = _of_classes(w, x) / total.swapaxes(-1, -2)
    d = kind.value(x, p, None) * (total / rest) ** kind.power
    parts = w**2 / size[..., None]
    variance = (parts.sum(-2)[..., None, :] - parts) / rest**2
    return d / (1 / size[..., None] + variance) ** (kind.power / 2)


def _of_classes(w: Any, t: Any) -> Any:
    """Sum over the supports, each with its weight in each class: (..., N) -> (..., C) or (..., N, D) -> (..., C, D)."""
    return (w * t[..., None]).sum(-2) if t.ndim < w.ndim else w.swapaxes(-1, -2) @ t


def _typical(d: Any, size: Any, known: Any) -> Any:
    """Return the median over the supports (..., N), each weighted by its precision. No gradient flows through it."""
    return weighted_median(constant(d), constant(size) * known)[..., None]
