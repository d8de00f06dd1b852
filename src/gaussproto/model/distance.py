"""Queries and class Gaussians -> how far each query is from each class."""

from __future__ import annotations

import torch
from torch import Tensor

from gaussproto.config import Distance, roots_of


def distances(x: Tensor, p: Tensor, s_class: Tensor | None = None, distance: Distance = "euclidean") -> Tensor:
    r"""The distance of each query to each class, in the class's own metric.

    .. math:: d_c^2(x) = (x - p_c)^T S_c (x - p_c)

    `euclidean` is d, `squared_euclidean` is d^2, `sqrt_euclidean` is the root of d, and `cosine` is 1 minus the cosine
    of the angle between x and p_c under the inner product S_c.

    Args:
        x: queries, (..., N, D).
        p: prototypes, (..., C, D).
        s_class: class precisions, (..., C, 1), (..., C, D) or (..., C, D, D); without them the metric is the plain one.
        distance: its name.

    Returns:
        (..., N, C)

    >>> x, p = torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 0.0], [3.0, 0.0]])
    >>> distances(x, p)
    tensor([[5., 4.]])
    >>> distances(x, p, torch.tensor([[1.0], [4.0]]))
    tensor([[5., 8.]])
    """
    if distance == "cosine":
        xx, xp, pp = _products(x, p, s_class)
        tiny = torch.finfo(x.dtype).tiny
        return 1 - xp / (xx.clamp_min(tiny).sqrt() * pp.clamp_min(tiny).sqrt())

    # Rounding grows with the size of the products: measured from the middle of the prototypes they are small.
    middle = p.detach().mean(dim=-2, keepdim=True)
    xx, xp, pp = _products(x - middle, p - middle, s_class)
    squared = xx - 2 * xp + pp
    # Below this the difference is rounding; the root's slope, infinite at 0, stays finite.
    floor = (4 * torch.finfo(x.dtype).eps * (xx + pp)).detach().clamp_min(torch.finfo(x.dtype).tiny)
    squared = squared.clamp_min(floor)
    for _ in range(roots_of(distance)):
        squared = squared.sqrt()
    return squared


def comparable(x: Tensor, p: Tensor, s_class: Tensor | None = None, distance: Distance = "euclidean") -> Tensor:
    """For each query, (G, N, D), numbers in the order of its `distances` to the classes, (G, C, D): (G, C, N).

    To know which class is nearest takes no root and nothing that is the same for all classes: one matrix product.

    >>> x, p = torch.tensor([[[3.0, 4.0]]]), torch.tensor([[[0.0, 0.0], [3.0, 0.0]]])
    >>> comparable(x, p).argmin(dim=1), distances(x, p).argmin(dim=2)
    (tensor([[1]]), tensor([[1]]))
    """
    if distance == "cosine" or (s_class is not None and s_class.dim() == p.dim() + 1):
        return distances(x, p, s_class, distance).mT
    middle = p.mean(dim=-2, keepdim=True)
    x, p = x - middle, p - middle
    if s_class is None:
        return torch.baddbmm(p.square().sum(dim=-1, keepdim=True), p, x.mT, alpha=-2)
    power = x.square().sum(dim=-1, keepdim=True) if s_class.shape[-1] == 1 else x.square()
    sp = s_class * p
    squares = (sp * p).sum(dim=-1, keepdim=True)
    return torch.baddbmm(squares, torch.cat([-2 * sp, s_class], dim=-1), torch.cat([x, power], dim=-1).mT)


def _products(x: Tensor, p: Tensor, s: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """x^T S x (N, C), x^T S p (N, C) and p^T S p (1, C) as matrix products: no (N, C, D) tensor unless S is full."""
    if s is None:
        s = torch.ones_like(p[..., :1])
    if s.dim() == p.dim() + 1:
        sp = (s @ p[..., None]).squeeze(-1)
        xs = x[..., None, :, :] @ s  # (C, N, D)
        xx = (xs * x[..., None, :, :]).sum(dim=-1).mT
    else:
        sp = s * p
        power = x.square()
        xx = (power.sum(dim=-1, keepdim=True) if s.shape[-1] == 1 else power) @ s.mT
    return xx, x @ sp.mT, (p * sp).sum(dim=-1)[..., None, :]
