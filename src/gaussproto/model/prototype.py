"""Support points -> one Gaussian for each class."""

from __future__ import annotations

import torch
from torch import Tensor

from gaussproto.errors import InputError


def class_prototypes(
    x: Tensor, s: Tensor | None = None, labels: Tensor | None = None, way: int | None = None
) -> tuple[Tensor, Tensor | None]:
    r"""The product of the Gaussians of each class's supports.

    .. math:: s_c = \sum_i s_i \qquad p_c = s_c^{-1} \sum_i s_i x_i

    The precision may have one entry for all directions (radius), one for each (diagonal), or be a matrix (full).
    Without a precision the prototype is the mean and the class has none either.

    Args:
        x: embeddings, (..., C, K, D) for equal shots; or (N, D) with `labels`, for unequal ones.
        s: precisions, like x with a last axis of 1 or D, or with two last axes (D, D).
        labels: (N,) the class of each support, from 0 to way - 1.
        way: the number of classes, if labels are given; else it is C.

    Returns:
        The prototypes, (..., C, D), and the class precisions, like s without its K axis.

    >>> x, s = torch.tensor([[[0.0, 0.0], [1.0, 2.0]]]), torch.tensor([[[3.0], [1.0]]])
    >>> class_prototypes(x, s)
    (tensor([[0.2500, 0.5000]]), tensor([[4.]]))
    >>> class_prototypes(x[0], s[0], labels=torch.tensor([0, 0]))
    (tensor([[0.2500, 0.5000]]), tensor([[4.]]))
    """
    full = s is not None and s.dim() == x.dim() + 1
    if labels is not None:
        counts = torch.bincount(labels, minlength=way or 0)
        if not bool(counts.all()):
            empty = (counts == 0).nonzero().flatten().tolist()
            raise InputError(f"each of the {len(counts)} classes needs at least one support; classes {empty} have none")
    elif x.shape[-2] == 0:
        raise InputError(f"each class needs at least one support (found embeddings of shape {tuple(x.shape)})")

    def total(t: Tensor, axis: int) -> Tensor:
        if labels is None:
            return t.sum(dim=axis)
        return t.new_zeros(len(counts), *t.shape[1:]).index_add(0, labels, t)

    if s is None:
        ones = torch.ones_like(x[..., :1])
        return total(x, -2) / total(ones, -2), None
    if not full:
        s_class = total(s, -2)
        return total(s * x, -2) / s_class, s_class
    s_class = total(s, -3)
    sx = total((s @ x[..., None]).squeeze(-1), -2)
    # Small matrices, but steep ones: in single precision they may not even be positive definite any more.
    p = torch.linalg.solve_ex(s_class.double(), sx.double()[..., None]).result.squeeze(-1)
    return p.to(x.dtype), s_class
