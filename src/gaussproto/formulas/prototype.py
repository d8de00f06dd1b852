"""Prototypes: from the supports of each class to one Gaussian.

Every prototype is a weighted mean. The precision of a support is its weight, and it can be multiplied by a trust, which
says how well the support fits the others. `formulas/trust.py` computes it.
"""

from typing import Any

import numpy as np

from gaussproto.errors import InputError
from gaussproto.formulas.embedded import is_tensor, ones_like


def class_prototypes(
    x: Any, s: Any = None, labels: Any = None, way: int | None = None, trust: Any = None
) -> tuple[Any, Any]:
    """Combine the supports of each class into one Gaussian, the product of theirs.

        s_c = Σᵢ sᵢ
        p_c = s_c⁻¹ Σᵢ sᵢ xᵢ

    A support with a higher precision counts for more. Without precisions, the prototype is the plain mean. Tensors and
    NumPy arrays both work.

    Args:
        x: embeddings of the supports, (..., C, K, D). Pass (N, D) and `labels` if the classes differ in size.
        s: precisions, the shape of x with a last axis of 1 (radius) or D (diagonal), or with two, (D, D) (full).
        labels: the class of each support, (N,), from 0 to way - 1.
        way: the number of classes, by default the highest label + 1. Used only with `labels`.
        trust: numbers that multiply the precisions, for example from `support_trust`, (..., C, K) or (N,). With another
            axis, of length C, they say how much a support counts in each class.

    Returns:
        The prototypes (..., C, D) and the class precisions, shaped like s without K, or None without s.

    Examples:
        The first support has three times the precision of the second, so the prototype is closer to it.

        >>> import gaussproto as gp
        >>> import numpy as np
        >>> x, s = np.array([[0.0, 0.0], [1.0, 2.0]]), np.array([[3.0], [1.0]])
        >>> gp.class_prototypes(x[None], s[None])  # one class of two supports
        (array([[0.25, 0.5 ]]), array([[4.]]))
        >>> gp.class_prototypes(x, s, labels=np.array([0, 0]))
        (array([[0.25, 0.5 ]]), array([[4.]]))
    """
    supports = Supports(x, labels, way)
    with np.errstate(all="ignore"):  # callers check the result
        if s is None and trust is None:
            return supports.total(x) / supports.shots, None
        w = ones_like(x[..., :1]) if s is None else s
        if trust is not None and trust.ndim == x.ndim:
            p, s_class = _shared_mean(supports, w, trust)
        else:
            p, s_class = supports.mean(trusted(w, trust, x))
        return p, None if s is None else s_class


def trusted(s: Any, trust: Any, x: Any) -> Any:
    """Return the precisions of the supports x multiplied by their trust, (..., C, K) or (N,), or by 1."""
    return s if trust is None else s * trust[(...,) + (None,) * (s.ndim - x.ndim + 1)]


class Supports:
    """Embedded supports, either in classes of the same size, x (..., C, K, D), or in a list, x (N, D), with labels."""

    def __init__(self, x: Any, labels: Any = None, way: int | None = None) -> None:
        self.x, self.labels = x, labels
        if labels is not None:
            counts = np.bincount(labels.cpu() if is_tensor(labels) else labels, minlength=way or 0)
            if not counts.all():
                empty = np.flatnonzero(counts == 0).tolist()
                raise InputError(
                    f"each of the {len(counts)} classes needs at least one support (classes {empty} have none)"
                )
            self.way, self.fewest = len(counts), int(counts.min())
        elif x.shape[-2] == 0:
            raise InputError(f"each class needs at least one support (found embeddings of shape {tuple(x.shape)})")
        else:
            self.way, self.fewest = x.shape[-3], x.shape[-2]

    @property
    def shots(self) -> Any:
        """The number of supports of each class, (..., C, 1)."""
        return self.total(ones_like(self.x[..., :1]))

    def total(self, t: Any) -> Any:
        """Sum over the supports of each class. The shape of `t` begins like that of x without D."""
        return t.sum(self.x.ndim - 2) if self.labels is None else _total(t, self.labels, self.way)

    def spread(self, t: Any) -> Any:
        """Give each support the value of its class, the opposite of `total`."""
        if self.labels is not None:
            return t[self.labels]
        lead = self.x.ndim - 2  # the axes before K
        return t[(slice(None),) * lead + (None,)]

    def mean(self, s: Any) -> tuple[Any, Any]:
        """Return the weighted mean of each class and the sum of its weights."""
        s_class = self.total(s)
        return divide(self.total(times(s, self.x)), s_class), s_class

    def mean_of_others(self, s: Any) -> tuple[Any, Any]:
        """Return the weighted mean of the other supports of the class, and the sum of their weights.

        A support that is alone in its class stands for the others.
        """
        taken = trusted(s, self.spread(self.shots)[..., 0] > 1, self.x)
        s_others = self.spread(self.total(s)) - taken
        return divide(self.spread(self.total(times(s, self.x))) - times(taken, self.x), s_others), s_others


def _shared_mean(supports: Supports, s: Any, share: Any) -> tuple[Any, Any]:
    """Return the weighted mean of each class and the sum of its weights, if each support has a share in every class."""
    x, way = supports.x, supports.way
    lead = x.shape[: x.ndim - (3 if supports.labels is None else 2)]
    share = share.reshape(*lead, -1, way).swapaxes(-1, -2)  # (..., C, N)

    def total(t: Any) -> Any:
        own = t.shape[x.ndim - 1 :]
        return (share @ t.reshape(*lead, share.shape[-1], -1)).reshape(*lead, way, *own)

    s_class = total(s)
    return divide(total(times(s, x)), s_class), s_class


def times(s: Any, x: Any) -> Any:
    """Multiply vectors by precisions: numbers, diagonals or matrices."""
    return s * x if s.ndim == x.ndim else (s @ x[..., None])[..., 0]


def sizes(s: Any, x: Any) -> Any:
    """Return one number for each precision of x, the mean over its dimensions."""
    if s.ndim == x.ndim:
        return s.mean(-1)
    return s.diagonal(dim1=-2, dim2=-1).mean(-1) if is_tensor(s) else s.diagonal(axis1=-2, axis2=-1).mean(-1)


def divide(sx: Any, s: Any) -> Any:
    """Solve S x = sx, the opposite of `times`."""
    return sx / s if s.ndim == sx.ndim else _solve(s, sx)


def support_shares(s: np.ndarray | None, s_class: np.ndarray | None, labels: np.ndarray) -> np.ndarray:
    """Return the share of each support in its prototype, (N,): tr(S_c⁻¹ Sᵢ) / D."""
    if s is None or s_class is None:
        return np.asarray(1 / np.bincount(labels)[labels])
    if s.ndim == 2:
        return np.asarray((s / s_class[labels]).mean(axis=1))
    return np.asarray(np.trace(np.linalg.solve(s_class[labels], s), axis1=1, axis2=2) / s.shape[1])


def _total(t: Any, labels: Any, way: int) -> Any:
    """Sum over the supports of each class, (N, ...) -> (way, ...)."""
    if is_tensor(t):
        return t.new_zeros(way, *t.shape[1:]).index_add(0, labels, t)
    total = np.zeros((way, *t.shape[1:]), dtype=t.dtype)
    np.add.at(total, labels, t)
    return total


def _solve(s_class: Any, sx: Any) -> Any:
    """Solve S_c p = Σᵢ Sᵢ xᵢ. Tensors use float64: in float32 a steep S_c may not even be positive definite."""
    if not is_tensor(sx):
        return np.linalg.solve(s_class, sx[..., None])[..., 0]
    import torch

    return torch.linalg.solve_ex(s_class.double(), sx.double()[..., None]).result.squeeze(-1).to(sx.dtype)
