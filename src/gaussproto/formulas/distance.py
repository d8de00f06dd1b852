"""Distances of queries from classes. To add your own, subclass `Distance`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gaussproto.formulas.embedded import is_tensor, ones_like
from gaussproto.formulas.named import find

if TYPE_CHECKING:
    from torch import Tensor


DIFFERENCES = 1 << 22  # numbers at once, when the differences of pairs are formed


class Distance:
    """Base class of distances between queries and classes.

    To write your own, subclass it and define `value`. Then pass an object as the setting `distance`, or name the class
    as `module:Class`. `value` gets tensors in training and NumPy arrays in the classifier, so use operators and methods
    that both have: `x.sum(-1)`, `abs(x)`, `x ** 0.5`, `x.swapaxes(-1, -2)`.

    Attributes:
        power: how distances grow: if all embeddings are multiplied by a, distances are multiplied by a ** power.
        scale_free: whether distances are independent of the size of the class precision, as an angle is.

    Examples:
        >>> import gaussproto as gp
        >>> import numpy as np
        >>> class Manhattan(gp.Distance):
        ...     def value(self, x, p, s):
        ...         return abs(x[..., :, None, :] - p[..., None, :, :]).sum(-1)
        >>> Manhattan().value(np.array([[1.0, 2.0]]), np.array([[0.0, 0.0], [1.0, 1.0]]), s=None)
        array([[3., 1.]])
    """

    power: float = 1.0
    scale_free: bool = False

    def value(self, x: Any, p: Any, s: Any) -> Any:
        """Return the distance of each query from each class. Subclasses define this method.

        Args:
            x: queries, (..., N, D).
            p: prototypes, (..., C, D).
            s: class precisions, (..., C, 1), (..., C, D) or (..., C, D, D), or None for the plain distance.

        Returns:
            The distances, (..., N, C).
        """
        raise NotImplementedError(f"{type(self).__name__} must define the method `value`")

    def order(self, x: Any, p: Any, s: Any) -> Any:
        """Return numbers (..., C, N) in the order of each query's distances.

        Override it if the nearest class can be found faster than the distances.
        """
        return self.value(x, p, s).swapaxes(-1, -2)


class Euclidean(Distance):
    """d² = (x − p_c)ᵀ S_c (x − p_c), after 0, 1 or 2 square `roots`: d², d or √d."""

    def __init__(self, roots: int) -> None:
        self.roots = roots
        self.power = 2.0 ** (1 - roots)

    def value(self, x: Any, p: Any, s: Any) -> Any:
        # Rounding grows with the size of the products, so measure from the mean of the prototypes.
        middle = _constant(p).mean(-2)[..., None, :]
        xx, xp, pp = _products(x - middle, p - middle, s)
        squared = xx - 2 * xp + pp
        # A smaller difference is rounding. The limit also keeps the slope of the root finite.
        limits = _finfo(x)
        eps, tiny = float(limits.eps), float(limits.tiny)
        rounding = _constant(4 * eps * (xx + pp))
        squared = squared.clip(rounding.clip(tiny))
        if not _has_gradient(squared):  # training has no class so far away, and waits for no GPU
            lost = rounding > eps**0.5 * squared
            if bool(lost.any()):
                squared[lost] = _differences(x, p, s, lost).clip(tiny)
        for _ in range(self.roots):
            squared = _sqrt(squared)
        return squared

    def order(self, x: Any, p: Any, s: Any) -> Any:
        """Rank with one matrix product, without the root and the terms that are equal for all classes."""
        if not is_tensor(x) or x.dim() != 3 or (s is not None and s.dim() == p.dim() + 1):
            return super().order(x, p, s)
        import torch

        middle = p.mean(dim=-2, keepdim=True)
        if _rounds(x, p, middle):
            return super().order(x, p, s)
        x, p = x - middle, p - middle
        if s is None:
            return torch.baddbmm(p.square().sum(dim=-1, keepdim=True), p, x.mT, alpha=-2)
        power = x.square().sum(dim=-1, keepdim=True) if s.shape[-1] == 1 else x.square()
        sp = s * p
        squares = (sp * p).sum(dim=-1, keepdim=True)
        return torch.baddbmm(squares, torch.cat([-2 * sp, s], dim=-1), torch.cat([x, power], dim=-1).mT)


class Cosine(Distance):
    """1 minus the cosine of the angle between x and p_c in the metric S_c."""

    power = 2.0  # 1 - cos grows with the square of the angle, and the angle with the noise of the embedding
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
    """Return the distance of each query from each class, in the metric of the class.

        d_c² = (x − p_c)ᵀ S_c (x − p_c)

    `euclidean` is d, `squared_euclidean` is d², `sqrt_euclidean` is √d, and `cosine` is 1 minus the cosine of the angle
    between x and p_c in the metric S_c.

    Args:
        x: queries, (..., N, D). Tensors and NumPy arrays both work.
        p: prototypes, (..., C, D).
        s_class: class precisions, (..., C, 1), (..., C, D) or (..., C, D, D). By default S_c is the identity.
        distance: one of the names above, or `module:Class` for your own.

    Returns:
        The distances, (..., N, C).

    Examples:
        >>> import gaussproto as gp
        >>> import torch
        >>> x, p = torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 0.0], [3.0, 0.0]])
        >>> gp.distances(x, p)
        tensor([[5., 4.]])
        >>> gp.distances(x, p, torch.tensor([[1.0], [4.0]]))
        tensor([[5., 8.]])
    """
    value: Callable[..., Tensor] = find_distance(distance).value
    return value(x, p, s_class)


def _products(x: Any, p: Any, s: Any) -> tuple[Any, Any, Any]:
    """Return xᵀ S x (N, C), xᵀ S p (N, C) and pᵀ S p (1, C) without an array (N, C, D), unless S is full."""
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


def _differences(x: Any, p: Any, s: Any, pairs: Any) -> Any:
    """Return (x − p)ᵀ S (x − p) for the pairs of a query and a class that are true in `pairs` (..., N, C).

    It is exact but slow, because it forms the difference of every pair, in blocks to save memory.
    """
    *lead, N, C = pairs.shape
    D, full = x.shape[-1], s is not None and s.ndim == p.ndim + 1
    x, p = _broadcast(x, (*lead, N, D)), _broadcast(p, (*lead, C, D))
    s = None if s is None else _broadcast(s, (*lead, C, *s.shape[-2 if full else -1 :]))
    *groups, n, c = pairs.nonzero(as_tuple=True) if is_tensor(pairs) else pairs.nonzero()
    parts = []
    block = max(1, DIFFERENCES // (D * D if full else D))
    for start in range(0, len(n), block):
        *group, query, of_class = (i[start : start + block] for i in (*groups, n, c))
        d = x[(*group, query)] - p[(*group, of_class)]
        metric = None if s is None else s[(*group, of_class)]
        if full:
            parts.append(((metric @ d[..., None])[..., 0] * d).sum(-1))
        else:
            parts.append((d**2 if metric is None else metric * d**2).sum(-1))
    if is_tensor(x):
        import torch

        return torch.cat(parts)
    import numpy as np

    return np.concatenate(parts)


def _broadcast(t: Any, shape: tuple[int, ...]) -> Any:
    if is_tensor(t):
        return t.expand(shape)
    import numpy as np

    return np.broadcast_to(t, shape)


def _rounds(x: Any, p: Any, middle: Any) -> bool:
    """Return whether products of tensors could lose the differences between near classes, because others are far."""
    if p.shape[-2] < 2:
        return False
    largest = (p - middle).square().sum(-1).amax(-1).maximum((x - middle).square().sum(-1).amax(-1))  # (G,)
    nearest = (p[..., 1:, :] - p[..., :-1, :]).square().sum(-1).amin(-1)  # of classes that follow one another
    return bool((float(_finfo(x).eps) ** 0.5 * largest > nearest).any())


def _has_gradient(t: Any) -> bool:
    return is_tensor(t) and t.requires_grad


def _finfo(x: Any) -> Any:
    import numpy as np

    return np.finfo(str(x.dtype).removeprefix("torch."))


def _constant(t: Any) -> Any:
    return t.detach() if is_tensor(t) else t


def _sqrt(t: Any) -> Any:
    return t.sqrt() if is_tensor(t) else t**0.5
