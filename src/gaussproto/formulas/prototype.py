"""Support points -> one Gaussian for each class."""

from typing import Any

import numpy as np

from gaussproto.errors import InputError
from gaussproto.formulas.embedded import is_tensor, ones_like


def class_prototypes(x: Any, s: Any = None, labels: Any = None, way: int | None = None) -> tuple[Any, Any]:
    r"""The product of the Gaussians of each class's supports.

    .. math:: s_c = \sum_i s_i \qquad p_c = s_c^{-1} \sum_i s_i x_i

    The precision may have one entry for all directions (radius), one for each (diagonal), or be a matrix (full).
    Without a precision the prototype is the mean, and the class has none either. Tensors or NumPy arrays.

    Args:
        x: embeddings, (..., C, K, D) for equal shots; or (N, D) with `labels`, for unequal ones.
        s: precisions, like x with a last axis of 1 or D, or with two last axes (D, D).
        labels: (N,) the class of each support, from 0 to way - 1.
        way: the number of classes, if labels are given; else it is C.

    Returns:
        The prototypes, (..., C, D), and the class precisions, like s without its K axis.

    >>> x, s = np.array([[[0.0, 0.0], [1.0, 2.0]]]), np.array([[[3.0], [1.0]]])
    >>> class_prototypes(x, s)
    (array([[0.25, 0.5 ]]), array([[4.]]))
    >>> class_prototypes(x[0], s[0], labels=np.array([0, 0]))
    (array([[0.25, 0.5 ]]), array([[4.]]))
    """
    if labels is not None:
        counts = np.bincount(labels.cpu() if is_tensor(labels) else labels, minlength=way or 0)
        if not counts.all():
            empty = np.flatnonzero(counts == 0).tolist()
            raise InputError(f"each of the {len(counts)} classes needs at least one support; classes {empty} have none")
        way = len(counts)
    elif x.shape[-2] == 0:
        raise InputError(f"each class needs at least one support (found embeddings of shape {tuple(x.shape)})")

    def total(t: Any, axis: int) -> Any:
        return t.sum(axis) if labels is None else _total(t, labels, way)

    with np.errstate(all="ignore"):  # the caller checks the result
        if s is None:
            return total(x, -2) / total(ones_like(x[..., :1]), -2), None
        if s.ndim == x.ndim:
            s_class = total(s, -2)
            return total(s * x, -2) / s_class, s_class
        s_class = total(s, -3)
        return _solve(s_class, total((s @ x[..., None])[..., 0], -2)), s_class


def support_shares(s: np.ndarray | None, s_class: np.ndarray | None, labels: np.ndarray) -> np.ndarray:
    """(N,) the share that each support has in its prototype: tr(S_c^-1 S_i) / D."""
    if s is None or s_class is None:
        return np.asarray(1 / np.bincount(labels)[labels])
    if s.ndim == 2:
        return np.asarray((s / s_class[labels]).mean(axis=1))
    return np.asarray(np.trace(np.linalg.solve(s_class[labels], s), axis1=1, axis2=2) / s.shape[1])


def _total(t: Any, labels: Any, way: int | None) -> Any:
    """The sum over the supports of each class, (N, ...) -> (way, ...)."""
    if is_tensor(t):
        return t.new_zeros(way, *t.shape[1:]).index_add(0, labels, t)
    total = np.zeros((way or 0, *t.shape[1:]), dtype=t.dtype)
    np.add.at(total, labels, t)
    return total


def _solve(s_class: Any, sx: Any) -> Any:
    """S^-1 (S x) in double precision: in single, a steep matrix may not even be positive definite."""
    if not is_tensor(sx):
        return np.linalg.solve(s_class, sx[..., None])[..., 0]
    import torch

    return torch.linalg.solve_ex(s_class.double(), sx.double()[..., None]).result.squeeze(-1).to(sx.dtype)
