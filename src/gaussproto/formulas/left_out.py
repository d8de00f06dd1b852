"""Leave-one-out: what a class is without one of its examples. NumPy only."""

from __future__ import annotations

import numpy as np

from gaussproto.formulas.embedded import Embedded, ones_like

EXACT = 16  # examples; in a larger class, one fewer changes the median so little that one step from it is enough
STEPS, CLOSE = 100, 1e-7  # of the iteration that finds a median, and the relative change that ends it
NUMBERS = 1 << 22  # at once, of a block


def left_out_prototypes(examples: Embedded[np.ndarray], labels: np.ndarray) -> Embedded[np.ndarray]:
    """Return for each example the prototype of its class without it, x (N, D) and s (N, ...), in float64.

    It takes one pass over the examples, adds and never subtracts, so that an example with a huge precision leaves no
    rounding errors behind. An example that is alone in its class gets NaN.

    >>> x = np.array([[0.0], [2.0], [4.0], [9.0]])
    >>> left_out_prototypes(Embedded(x), np.array([0, 0, 0, 1])).x.ravel().tolist()
    [3.0, 2.0, 1.0, nan]
    """
    x = examples.x.astype(np.float64)
    s = ones_like(x[:, :1]) if examples.s is None else examples.s.astype(np.float64)
    sx = s * x if s.ndim == 2 else (s @ x[..., None])[..., 0]
    others_s, others_sx = _sums_of_others(s, labels), _sums_of_others(sx, labels)
    alone = np.bincount(labels)[labels] == 1
    with np.errstate(all="ignore"):  # callers check the result
        if s.ndim == 2:
            p = others_sx / others_s
        else:
            others_s[alone] = np.eye(x.shape[1])
            p = np.linalg.solve(others_s, others_sx[..., None])[..., 0]
    p[alone] = np.nan
    return Embedded(p, None if examples.s is None else others_s)


def _sums_of_others(t: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return for each example the sum over the other examples of its class, (N, ...) -> (N, ...)."""
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels)
    starts = np.cumsum(counts) - counts
    total = np.zeros_like(t)
    before, after = np.zeros((len(counts), *t.shape[1:])), np.zeros((len(counts), *t.shape[1:]))
    for k in range(counts.max(initial=0)):
        (c,) = np.nonzero(counts > k)
        first, last = order[starts[c] + k], order[starts[c] + counts[c] - 1 - k]
        total[first] += before[c]
        total[last] += after[c]
        before[c] += t[first]
        after[c] += t[last]
    return total


def medians(x: np.ndarray, labels: np.ndarray, way: int) -> np.ndarray:
    """Return the geometric median of each class (way, D): the point with the smallest sum of distances.

    Less than half of the examples of a class cannot move it far, wherever they are.

    >>> medians(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [100.0, 100.0]]), np.zeros(4, dtype=int), 1).round(2)
    array([[0.5, 0.5]])
    """
    result = np.empty((way, x.shape[1]))
    for members in _groups_of_one_size(labels, way):
        C, K = members.shape
        block = max(1, NUMBERS // (K * x.shape[1]))
        for i in range(0, C, block):
            some = members[i : i + block]
            result[labels[some[:, 0]]] = _median(x[some].astype(np.float64))
    return result


def left_out_medians(x: np.ndarray, labels: np.ndarray, of_class: np.ndarray) -> np.ndarray:
    """Return for each example the geometric median of its class without it, (N, D). Alone in a class, it gets NaN.

    `of_class` are the `medians` of whole classes. In a class of many examples the result is one step away from it.
    """
    result = np.full(x.shape, np.nan)
    for members in _groups_of_one_size(labels, len(of_class)):
        C, K = members.shape
        block = max(1, NUMBERS // (K * x.shape[1]))
        for i in range(0, C, block):
            some = members[i : i + block]
            points = x[some].astype(np.float64)
            if K > EXACT:
                result[some] = _one_step(points, of_class[labels[some[:, 0]]])
                continue
            for k in range(K if K > 1 else 0):
                result[some[:, k]] = _median(np.delete(points, k, axis=1))
    return result


def _groups_of_one_size(labels: np.ndarray, way: int) -> list[np.ndarray]:
    """Return the indices of the examples of all classes of the same size, (classes, K), for each size."""
    order, counts = np.argsort(labels, kind="stable"), np.bincount(labels, minlength=way)
    starts = np.cumsum(counts) - counts
    sizes = [int(K) for K in np.unique(counts) if K]
    return [order[starts[counts == K][:, None] + np.arange(K)] for K in sizes]


def _median(points: np.ndarray) -> np.ndarray:
    """Return the geometric median of groups of points (G, K, D), by Weiszfeld's iteration from the mean."""
    p = points.mean(axis=1)
    if points.shape[1] < 3:
        return np.asarray(p)  # any point between two is a median
    for _ in range(STEPS):
        weights = _weights(points, p)
        q = (weights[..., None] * points).sum(axis=1) / weights.sum(axis=1)[:, None]
        moved, size = np.linalg.norm(q - p, axis=1), np.linalg.norm(points - q[:, None], axis=2).max(axis=1)
        p = q
        if (moved <= CLOSE * size).all():
            break
    return np.asarray(p)


def _one_step(points: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return one step of the iteration from p without each of the points in turn, (G, K, D)."""
    weights = _weights(points, p)
    total, weighted = weights.sum(axis=1), (weights[..., None] * points).sum(axis=1)
    left = weighted[:, None] - weights[..., None] * points
    return np.asarray(left / (total[:, None] - weights)[..., None])


def _weights(points: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return the weight of each point (G, K), the inverse of its distance from p, but finite at the distance 0."""
    r = np.linalg.norm(points - p[:, None], axis=2)
    least = 1e-6 * r.mean(axis=1, keepdims=True) + np.finfo(np.float64).tiny
    return np.asarray(1 / np.maximum(r, least))
