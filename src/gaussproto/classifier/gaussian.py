"""The paper's prototypes and distances once more, in NumPy and float64, for answers that need no torch.

The same formulas as `model/prototype.py` and `model/distance.py`, which are for training; a test holds both together.
"""

from __future__ import annotations

import numpy as np

from gaussproto.config import Distance, roots_of


def class_prototypes(
    x: np.ndarray, s: np.ndarray | None, labels: np.ndarray, way: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """Embeddings (N, D), precisions (N, E), (N, D, D) or None, classes (N,) -> prototypes (C, D), class precisions.

    >>> class_prototypes(np.array([[0.0, 0.0], [1.0, 2.0]]), np.array([[3.0], [1.0]]), np.array([0, 0]), 1)
    (array([[0.25, 0.5 ]]), array([[4.]]))
    """
    with np.errstate(all="ignore"):  # the caller looks at what comes out
        if s is None:
            counts = np.bincount(labels, minlength=way)[:, None]
            return _total(x, labels, way) / counts, None
        s_class = _total(s, labels, way)
        if s.ndim == 2:
            return _total(s * x, labels, way) / s_class, s_class
        sx = _total((s @ x[..., None])[..., 0], labels, way)
        return np.linalg.solve(s_class, sx[..., None])[..., 0], s_class


def support_shares(s: np.ndarray | None, s_class: np.ndarray | None, labels: np.ndarray) -> np.ndarray:
    """(N,) the share that each support has in its prototype: tr(S_c^-1 S_i) / D."""
    shares: np.ndarray
    if s is None or s_class is None:
        shares = 1 / np.bincount(labels)[labels]
    elif s.ndim == 2:
        shares = (s / s_class[labels]).mean(axis=1)
    else:
        shares = np.trace(np.linalg.solve(s_class[labels], s), axis1=1, axis2=2) / s.shape[1]
    return shares


def distances(x: np.ndarray, p: np.ndarray, s_class: np.ndarray | None, distance: Distance) -> np.ndarray:
    """Queries (N, D), prototypes (C, D), class precisions (C, E), (C, D, D) or None -> d (N, C)."""
    d: np.ndarray
    tiny, eps = np.finfo(x.dtype).tiny, np.finfo(x.dtype).eps
    with np.errstate(all="ignore"):  # the caller looks at what comes out
        if distance == "cosine":
            xx, xp, pp = _products(x, p, s_class)
            d = 1 - xp / (np.sqrt(np.maximum(xx, tiny)) * np.sqrt(np.maximum(pp, tiny)))
            return d
        middle = p.mean(axis=0)
        xx, xp, pp = _products(x - middle, p - middle, s_class)
        d = np.maximum(xx - 2 * xp + pp, np.maximum(4 * eps * (xx + pp), tiny))  # less is rounding
        for _ in range(roots_of(distance)):
            d = np.sqrt(d)
        return d


def _total(t: np.ndarray, labels: np.ndarray, way: int) -> np.ndarray:
    """The sum over each class's supports."""
    total = np.zeros((way, *t.shape[1:]))
    np.add.at(total, labels, t)
    return total


def _products(x: np.ndarray, p: np.ndarray, s: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x^T S x (N, C), x^T S p (N, C) and p^T S p (C,)."""
    if s is None:
        s = np.ones((len(p), 1))
    if s.ndim == 3:
        sp = (s @ p[..., None])[..., 0]
        xx = ((x @ s) * x).sum(axis=-1).T  # (C, N, D) on the way
    else:
        sp = s * p
        power = x**2
        xx = (power.sum(axis=1, keepdims=True) if s.shape[1] == 1 else power) @ s.T
    return xx, x @ sp.T, (p * sp).sum(axis=1)
