"""Prototypes: from the supports of each class to one Gaussian."""

from typing import Any

import numpy as np

from gaussproto.errors import InputError
from gaussproto.formulas.embedded import is_tensor, ones_like


def class_prototypes(x: Any, s: Any = None, labels: Any = None, way: int | None = None) -> tuple[Any, Any]:
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
    if labels is not None:
        counts = np.bincount(labels.cpu() if is_tensor(labels) else labels, minlength=way or 0)
        if not counts.all():
            empty = np.flatnonzero(counts == 0).tolist()
            raise InputError(
                f"each of the {len(counts)} classes needs at least one support (classes {empty} have none)"
            )
        way = len(counts)
    elif x.shape[-2] == 0:
        raise InputError(f"each class needs at least one support (found embeddings of shape {tuple(x.shape)})")

    def total(t: Any, axis: int) -> Any:
        return t.sum(axis) if labels is None else _total(t, labels, way)

    with np.errstate(all="ignore"):  # callers check the result
        if s is None:
            return total(x, -2) / total(ones_like(x[..., :1]), -2), None
        if s.ndim == x.ndim:
            s_class = total(s, -2)
            return total(s * x, -2) / s_class, s_class
        s_class = total(s, -3)
        return _solve(s_class, total((s @ x[..., None])[..., 0], -2)), s_class


def support_shares(s: np.ndarray | None, s_class: np.ndarray | None, labels: np.ndarray) -> np.ndarray:
    """Return the share of each support in its prototype, (N,): tr(S_c⁻¹ Sᵢ) / D."""
    if s is None or s_class is None:
        return np.asarray(1 / np.bincount(labels)[labels])
    if s.ndim == 2:
        return np.asarray((s / s_class[labels]).mean(axis=1))
    return np.asarray(np.trace(np.linalg.solve(s_class[labels], s), axis1=1, axis2=2) / s.shape[1])


def _total(t: Any, labels: Any, way: int | None) -> Any:
    """Sum over the supports of each class, (N, ...) -> (way, ...)."""
    if is_tensor(t):
        return t.new_zeros(way, *t.shape[1:]).index_add(0, labels, t)
    total = np.zeros((way or 0, *t.shape[1:]), dtype=t.dtype)
    np.add.at(total, labels, t)
    return total


def _solve(s_class: Any, sx: Any) -> Any:
    """Solve S_c p = Σᵢ Sᵢ xᵢ. Tensors use float64: in float32 a steep S_c may not even be positive definite."""
    if not is_tensor(sx):
        return np.linalg.solve(s_class, sx[..., None])[..., 0]
    import torch

    return torch.linalg.solve_ex(s_class.double(), sx.double()[..., None]).result.squeeze(-1).to(sx.dtype)
