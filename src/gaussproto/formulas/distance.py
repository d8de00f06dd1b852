"""How far queries are from classes. A distance is one object; see `Distance` to write your own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gaussproto.formulas.embedded import is_tensor, ones_like
from gaussproto.formulas.named import find

if TYPE_CHECKING:
    from torch import Tensor


class Distance:
    """A distance between queries and class Gaussians: all that training, evaluation and the classifier ask of it.

    Subclass it, write `value`, and name the class as `module:Class` wherever a distance is named. `value` gets tensors
    in training and NumPy arrays in the classifier, so write it with operators and methods that both have: `x.sum(-1)`,
    `abs(x)`, `x ** 0.5`, `x.swapaxes(-1, -2)`.

    Attributes:
        power: when all embeddings are multiplied by a, distances are multiplied by a ** power.
        scale_free: whether distances do not depend on the size of the class precision, as an angle does not.
    """

    power: float = 1.0
    scale_free: bool = False

    def value(self, x: Any, p: Any, s: Any) -> Any:
        """Queries (..., N, D), prototypes (..., C, D), class precisions or None -> distances (..., N, C)."""
        raise NotImplementedError(f"{type(self).__name__} has no value")

    def order(self, x: Any, p: Any, s: Any) -> Any:
        """Numbers (..., C, N) in the order of each query's distances, for when only the nearest class matters."""
        return self.value(x, p, s).swapaxes(-1, -2)


class Euclidean(Distance):
    r"""d, or d^2, or the root of d, where :math:`d_c^2(x) = (x - p_c)^T S_c (x - p_c)`."""

    def __init__(self, roots: int) -> None:
        self.roots = roots  # square roots taken of d^2
        self.power = 2.0 ** (1 - roots)

    def value(self, x: Any, p: Any, s: Any) -> Any:
        # Rounding grows with the size of the products: measured from the middle of the prototypes they are small.
        middle = _constant(p).mean(-2)[..., None, :]
        xx, xp, pp = _products(x - middle, p - middle, s)
        squared = xx - 2 * xp + pp
        # Below this the difference is rounding; the root's slope, infinite at 0, stays finite.
        limits = _finfo(x)
        squared = squared.clip(_constant(4 * float(limits.eps) * (xx + pp)).clip(float(limits.tiny)))
        for _ in range(self.roots):
            squared = _sqrt(squared)
        return squared

    def order(self, x: Any, p: Any, s: Any) -> Any:
        """One matrix product: no root, and nothing that is the same for all classes."""
        if not is_tensor(x) or x.dim() != 3 or (s is not None and s.dim() == p.dim() + 1):
            return super().order(x, p, s)
        import torch

        middle = p.mean(dim=-2, keepdim=True)
        x, p = x - middle, p - middle
        if s is None:
            return torch.baddbmm(p.square().sum(dim=-1, keepdim=True), p, x.mT, alpha=-2)
        power = x.square().sum(dim=-1, keepdim=True) if s.shape[-1] == 1 else x.square()
        sp = s * p
        squares = (sp * p).sum(dim=-1, keepdim=True)
        return torch.baddbmm(squares, torch.cat([-2 * sp, s], dim=-1), torch.cat([x, power], dim=-1).mT)


class Cosine(Distance):
    """1 minus the cosine of the angle between x and p_c under the inner product S_c."""

    power = 2.0  # of the noise of an embedding, to which the angle's square is proportional
    scale_free = True

    def value(self, x: Any, p: Any, s: Any) -> Any:
        xx, xp, pp = _products(x, p, s)
        tiny = float(_finfo(x).tiny)
        return 1 - xp / (_sqrt(xx.clip(tiny)) * _sqrt(pp.clip(tiny)))


DISTANCES: dict[str, Distance] = {
    "euclidean": Euclidean(roots=1),
    "squared_euclidean": Euclidean(roots=0),
    "sqrt_euclidean": Euclidean(roots=2),
    "cosine": Cosine(),
}


def find_distance(name: str) -> Distance:
    own = DISTANCES.get(name) if isinstance(name, str) else None
    return own or find(Distance, DISTANCES, name)


def distances(x: Tensor, p: Tensor, s_class: Tensor | None = None, distance: str = "euclidean") -> Tensor:
    r"""The distance of each query to each class, in the class's own metric.

    .. math:: d_c^2(x) = (x - p_c)^T S_c (x - p_c)

    `euclidean` is d, `squared_euclidean` is d^2, `sqrt_euclidean` is the root of d, and `cosine` is 1 minus the cosine
    of the angle between x and p_c under the inner product S_c.

    Args:
        x: queries, (..., N, D), a tensor or an array.
        p: prototypes, (..., C, D).
        s_class: class precisions, (..., C, 1), (..., C, D) or (..., C, D, D); without them S_c is the identity.
        distance: its name.

    Returns:
        (..., N, C)

    >>> import torch
    >>> x, p = torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 0.0], [3.0, 0.0]])
    >>> distances(x, p)
    tensor([[5., 4.]])
    >>> distances(x, p, torch.tensor([[1.0], [4.0]]))
    tensor([[5., 8.]])
    """
    value: Callable[..., Tensor] = find_distance(distance).value
    return value(x, p, s_class)


def _products(x: Any, p: Any, s: Any) -> tuple[Any, Any, Any]:
    """x^T S x (N, C), x^T S p (N, C) and p^T S p (1, C) as matrix products: no (N, C, D) array unless S is full."""
    if s is None:
        s = ones_like(p[..., :1])
    if s.ndim == p.ndim + 1:
        sp = (s @ p[..., None])[..., 0]
        xs = x[..., None, :, :] @ s  # (C, N, D)
        xx = (xs * x[..., None, :, :]).sum(-1).swapaxes(-1, -2)
    else:
        sp = s * p
        power = x**2
        xx = (power.sum(-1)[..., None] if s.shape[-1] == 1 else power) @ s.swapaxes(-1, -2)
    return xx, x @ sp.swapaxes(-1, -2), (p * sp).sum(-1)[..., None, :]


def _finfo(x: Any) -> Any:
    import numpy as np

    return np.finfo(str(x.dtype).removeprefix("torch."))


def _constant(t: Any) -> Any:
    return t.detach() if is_tensor(t) else t


def _sqrt(t: Any) -> Any:
    return t.sqrt() if is_tensor(t) else t**0.5
