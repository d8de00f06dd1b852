"""The paper's formulas in plain NumPy, one image and one class at a time, in float64."""

import numpy as np

TRANSFORMS = {
    "softplus": lambda s: 1 + np.log1p(np.exp(s)),
    "sigmoid": lambda s: 1 + 1 / (1 + np.exp(-s)),
    "wide_sigmoid": lambda s: 1 + 4 / (1 + np.exp(-s)),
    "learned_softplus": lambda s, offset=1.0, scale=1.0, div=1.0: offset + scale * np.log1p(np.exp(s / div)),
    "exp": np.exp,
}


def matrix(s, D):
    """A precision of any shape as the D x D matrix that it stands for."""
    s = np.asarray(s)
    return s if s.ndim == 2 else np.diag(np.broadcast_to(s, (D,)))


def prototype(x, s):
    """One class from its supports (K, D) and their precisions."""
    D = x.shape[1]
    S_class = sum(matrix(s_i, D) for s_i in s)
    weighted = sum(matrix(s_i, D) @ x_i for s_i, x_i in zip(s, x, strict=True))
    return np.linalg.inv(S_class) @ weighted, S_class


def distance(x, p, S, name):
    if name == "cosine":
        return 1 - x @ S @ p / np.sqrt((x @ S @ x) * (p @ S @ p))
    squared = (x - p) @ S @ (x - p)
    return squared ** {"squared_euclidean": 1, "euclidean": 1 / 2, "sqrt_euclidean": 1 / 4}[name]


def loss(d, truth):
    """Mean softmax cross-entropy of minus the distances (N, C)."""
    total = 0.0
    for row, y in zip(d, truth, strict=True):
        total += row[y] + np.log(np.exp(-row).sum())
    return total / len(d)
