"""From the raw output of the encoder to the precision, the inverse covariance of an embedding.

| covariance | raw numbers | precision s | as a matrix S |
|---|---|---|---|
| none | 0 | - | the identity |
| radius | 1 | (N, 1) | s I |
| diagonal | D | (N, D) | diag(s) |
| full | D (D + 1) / 2 | (N, D, D) | L Lᵀ |

A covariance arranges the raw numbers, and a transform makes them positive. To add your own, subclass `Covariance` or
`Transform`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gaussproto.errors import InputError
from gaussproto.formulas.named import find

if TYPE_CHECKING:
    from torch import Tensor


def is_dead(mean: float, std: float) -> bool:
    """Return whether a precision is dead: so similar for all images that it gives them the same weight.

    >>> is_dead(2.0, 0.001), is_dead(2.0, 0.3)
    (True, False)
    """
    return std < 1e-3 * abs(mean)


class Transform:
    """Base class of transforms, which map each raw number to a positive number.

    To write your own, subclass it and define `value`. Then pass an object as the setting `transform`, or name the class
    as `module:Class`.

    Attributes:
        parameters: names and initial values of learned scalars. `value` and `onnx` get them as keyword arguments.

    Examples:
        >>> import gaussproto as gp
        >>> import torch
        >>> class Squared(gp.Transform):  # s = offset + raw², with a learned offset
        ...     parameters = {"offset": 1.0}
        ...     def value(self, raw, offset):
        ...         return offset + raw**2
        >>> Squared().value(torch.tensor([0.0, 2.0]), offset=torch.tensor(1.0))
        tensor([1., 5.])
    """

    parameters: Mapping[str, float] = {}

    def value(self, raw: Tensor, **parameters: Tensor) -> Tensor:
        """Return positive numbers of the shape of `raw`. Subclasses define this method."""
        raise NotImplementedError(f"{type(self).__name__} must define the method `value`")

    def onnx(self, graph: Any, raw: str, name: str | None = None, **parameters: Any) -> str:
        """Add the transform to an ONNX graph. Only export needs this method.

        Args:
            graph: has `add(operator, *inputs, name=None)` and `constant(value)`, which return names of tensors.
            raw: name of the raw numbers.
            name: name for the output of the last node.
            parameters: values of the learned scalars.

        Returns:
            The name of the output.
        """
        raise InputError(f"the transform {type(self).__name__} cannot be exported: define its method `onnx`")


class Softplus(Transform):
    """s = 1 + softplus(s_raw), above 1 without a limit. The paper's method a."""

    def value(self, raw: Tensor, **parameters: Tensor) -> Tensor:
        from torch.nn.functional import softplus

        return 1 + softplus(raw)

    def onnx(self, graph: Any, raw: str, name: str | None = None, **parameters: Any) -> str:
        return str(graph.add("Add", graph.add("Softplus", raw), graph.constant(1.0), name=name))


class Sigmoid(Transform):
    """s = 1 + span · sigmoid(s_raw), from 1 to 1 + span. The paper's method b (span 1) and c (span 4 to 5)."""

    def __init__(self, span: float = 1.0) -> None:
        self.span = span

    def value(self, raw: Tensor, **parameters: Tensor) -> Tensor:
        return 1 + self.span * raw.sigmoid()

    def onnx(self, graph: Any, raw: str, name: str | None = None, **parameters: Any) -> str:
        scaled = graph.add("Mul", graph.add("Sigmoid", raw), graph.constant(self.span))
        return str(graph.add("Add", scaled, graph.constant(1.0), name=name))


class LearnedSoftplus(Transform):
    """s = offset + scale · softplus(s_raw / div), with three learned scalars. The paper's method d."""

    parameters = {"offset": 1.0, "scale": 1.0, "div": 1.0}  # noqa: RUF012 (never modified)

    def value(self, raw: Tensor, **parameters: Tensor) -> Tensor:
        from torch.nn.functional import softplus

        return parameters["offset"] + parameters["scale"] * softplus(raw / parameters["div"])

    def onnx(self, graph: Any, raw: str, name: str | None = None, **parameters: Any) -> str:
        offset, scale, div = (graph.constant(parameters[part]) for part in ("offset", "scale", "div"))
        soft = graph.add("Softplus", graph.add("Div", raw, div))
        return str(graph.add("Add", graph.add("Mul", soft, scale), offset, name=name))


class Exp(Transform):
    """s = exp(s_raw), any positive number. A difference of s_raw is a ratio of precisions."""

    LARGEST = 15.0  # e^15 = 3e6: one image can outweigh all others, and float32 still adds the precisions up

    def value(self, raw: Tensor, **parameters: Tensor) -> Tensor:
        return raw.clamp(-self.LARGEST, self.LARGEST).exp()

    def onnx(self, graph: Any, raw: str, name: str | None = None, **parameters: Any) -> str:
        limits = graph.constant(-self.LARGEST), graph.constant(self.LARGEST)
        return str(graph.add("Exp", graph.add("Clip", raw, *limits), name=name))


class Covariance:
    """Base class of covariances, which turn the raw output of the encoder into precisions.

    To write your own, subclass it and define `raw_size`, `shape` and `precision`. Then pass an object as the setting
    `covariance`, or name the class as `module:Class`.

    Examples:
        >>> import gaussproto as gp
        >>> import torch
        >>> class Halves(gp.Covariance):  # two precisions, each for one half of the directions
        ...     def raw_size(self, D):
        ...         return 2
        ...     def shape(self, D):
        ...         return (D,)
        ...     def precision(self, raw, transform, D):
        ...         return transform(raw).repeat_interleave(D // 2, dim=1)
        >>> Halves().precision(torch.zeros(1, 2), torch.exp, D=4)
        tensor([[1., 1., 1., 1.]])
    """

    def raw_size(self, D: int) -> int:
        """Return the number of raw outputs for an embedding of D numbers."""
        raise NotImplementedError(f"{type(self).__name__} must define the method `raw_size`")

    def shape(self, D: int) -> tuple[int, ...]:
        """Return the shape of the precision of one image: (1,), (D,) or (D, D)."""
        raise NotImplementedError(f"{type(self).__name__} must define the method `shape`")

    def precision(self, raw: Tensor, transform: Callable[[Tensor], Tensor], D: int) -> Tensor | None:
        """Return the precision of each image.

        Args:
            raw: raw outputs, (N, raw_size).
            transform: makes numbers positive.
            D: size of the embedding.

        Returns:
            The precisions, (N, *shape), or None for a vanilla network.
        """
        raise NotImplementedError(f"{type(self).__name__} must define the method `precision`")

    def onnx(self, graph: Any, raw: str, transform: Callable[..., str], D: int) -> None:
        """Add the covariance to an ONNX graph, with `precision` as the name of the last output.

        Only export needs this method. See `Transform.onnx` for `graph`.
        """
        raise InputError(f"the covariance {type(self).__name__} cannot be exported: define its method `onnx`")


class Vanilla(Covariance):
    """No covariance: prototypes are plain means, and S is the identity."""

    def raw_size(self, D: int) -> int:
        return 0

    def shape(self, D: int) -> tuple[int, ...]:
        return ()

    def precision(self, raw: Tensor, transform: Callable[[Tensor], Tensor], D: int) -> Tensor | None:
        return None


class Radius(Covariance):
    """One number for all directions."""

    def raw_size(self, D: int) -> int:
        return 1

    def shape(self, D: int) -> tuple[int, ...]:
        return (self.raw_size(D),)

    def precision(self, raw: Tensor, transform: Callable[[Tensor], Tensor], D: int) -> Tensor | None:
        return transform(raw)

    def onnx(self, graph: Any, raw: str, transform: Callable[..., str], D: int) -> None:
        transform(raw, name="precision")


class Diagonal(Radius):
    """One number for each direction."""

    def raw_size(self, D: int) -> int:
        return D


class Full(Covariance):
    """A full matrix, S = L Lᵀ. The transform gives the squared diagonal of L, so a diagonal L equals `Diagonal`."""

    def raw_size(self, D: int) -> int:
        return D * (D + 1) // 2

    def shape(self, D: int) -> tuple[int, ...]:
        return D, D

    def precision(self, raw: Tensor, transform: Callable[[Tensor], Tensor], D: int) -> Tensor | None:
        import torch

        diagonal, rest = raw.split([D, D * (D - 1) // 2], dim=1)
        row, column = torch.tril_indices(D, D, offset=-1, device=raw.device)
        L = torch.diag_embed(transform(diagonal).sqrt())  # (N, D, D)
        L = L.index_put((torch.arange(len(raw), device=L.device)[:, None], row, column), rest)
        return L @ L.mT

    def onnx(self, graph: Any, raw: str, transform: Callable[..., str], D: int) -> None:
        import numpy as np

        sizes = graph.constant([D, D * (D - 1) // 2], np.int64)
        diagonal, rest = graph.add_many("Split", raw, sizes, names=["diagonal", "rest"], axis=1)
        parts = graph.add("Concat", graph.add("Sqrt", transform(diagonal)), rest, axis=1)
        padded = graph.add("Pad", parts, graph.constant([0, 0, 0, 1], np.int64))  # a zero to put above the diagonal
        place = np.full((D, D), D * (D + 1) // 2)
        place[np.diag_indices(D)] = np.arange(D)
        place[np.tril_indices(D, -1)] = np.arange(D, D * (D + 1) // 2)
        flat = graph.add("Gather", padded, graph.constant(place.ravel(), np.int64), axis=1)
        L = graph.add("Reshape", flat, graph.constant([0, D, D], np.int64))  # 0 keeps the number of images
        graph.add("MatMul", L, graph.add("Transpose", L, perm=[0, 2, 1]), name="precision")


TRANSFORMS: dict[str, Transform] = {
    "softplus": Softplus(),
    "sigmoid": Sigmoid(),
    "wide_sigmoid": Sigmoid(span=4.0),
    "learned_softplus": LearnedSoftplus(),
    "exp": Exp(),
}
COVARIANCES: dict[str, Covariance] = {"none": Vanilla(), "radius": Radius(), "diagonal": Diagonal(), "full": Full()}


def find_transform(name: str) -> Transform:
    return find(Transform, TRANSFORMS, name)


def find_covariance(name: str) -> Covariance:
    return find(Covariance, COVARIANCES, name)
