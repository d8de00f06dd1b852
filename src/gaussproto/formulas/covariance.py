"""Raw encoder output -> precision, the inverse covariance of an embedding.

| covariance | raw numbers | precision s | S |
|---|---|---|---|
| none | 0 | - | the identity |
| radius | 1 | (N, 1) | s I |
| diagonal | D | (N, D) | diag(s) |
| full | D (D + 1) / 2 | (N, D, D) | L L^T |

A transform makes the raw numbers positive. Both are objects; subclass `Covariance` or `Transform` to write your own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gaussproto.errors import InputError
from gaussproto.formulas.named import find

if TYPE_CHECKING:
    from torch import Tensor


def is_dead(mean: float, std: float) -> bool:
    """Whether precisions with this mean and standard deviation are so alike that they weigh all images the same.

    >>> is_dead(2.0, 0.001), is_dead(2.0, 0.3)
    (True, False)
    """
    return std < 1e-3 * abs(mean)


class Transform:
    """Raw numbers -> positive numbers, component-wise.

    Subclass it, write `value`, and name the class as `module:Class` wherever a transform is named.

    Attributes:
        parameters: names and initial values of scalars that are learned; `value` and `onnx` get them by name.
    """

    parameters: Mapping[str, float] = {}

    def value(self, raw: Tensor, **parameters: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no value")

    def onnx(self, graph: Any, raw: str, name: str | None = None, **parameters: Any) -> str:
        """The same as nodes of an ONNX graph (`classifier/encoders/onnx_graph.py`); the last node gets `name`."""
        raise InputError(f"the transform {type(self).__name__} has no ONNX form: write its method `onnx`")


class Softplus(Transform):
    """s = 1 + softplus(s_raw): from 1 without limit; the paper's method a."""

    def value(self, raw: Tensor, **parameters: Tensor) -> Tensor:
        from torch.nn.functional import softplus

        return 1 + softplus(raw)

    def onnx(self, graph: Any, raw: str, name: str | None = None, **parameters: Any) -> str:
        return str(graph.add("Add", graph.add("Softplus", raw), graph.constant(1.0), name=name))


class Sigmoid(Transform):
    """s = 1 + span * sigmoid(s_raw): from 1 to 2, the paper's method b; with a span of 4 to 5, its method c."""

    def __init__(self, span: float = 1.0) -> None:
        self.span = span

    def value(self, raw: Tensor, **parameters: Tensor) -> Tensor:
        return 1 + self.span * raw.sigmoid()

    def onnx(self, graph: Any, raw: str, name: str | None = None, **parameters: Any) -> str:
        scaled = graph.add("Mul", graph.add("Sigmoid", raw), graph.constant(self.span))
        return str(graph.add("Add", scaled, graph.constant(1.0), name=name))


class LearnedSoftplus(Transform):
    """s = offset + scale * softplus(s_raw / div), with three learned scalars; the paper's method d."""

    parameters = {"offset": 1.0, "scale": 1.0, "div": 1.0}  # noqa: RUF012 (never changed)

    def value(self, raw: Tensor, **parameters: Tensor) -> Tensor:
        from torch.nn.functional import softplus

        return parameters["offset"] + parameters["scale"] * softplus(raw / parameters["div"])

    def onnx(self, graph: Any, raw: str, name: str | None = None, **parameters: Any) -> str:
        offset, scale, div = (graph.constant(parameters[part]) for part in ("offset", "scale", "div"))
        soft = graph.add("Softplus", graph.add("Div", raw, div))
        return str(graph.add("Add", graph.add("Mul", soft, scale), offset, name=name))


class Exp(Transform):
    """s = exp(s_raw): any positive number; the encoder decides the ratio of two precisions."""

    LARGEST = 15.0  # e^15 = 3e6: one image may outweigh all others, and float32 keeps their sum exact enough

    def value(self, raw: Tensor, **parameters: Tensor) -> Tensor:
        return raw.clamp(-self.LARGEST, self.LARGEST).exp()

    def onnx(self, graph: Any, raw: str, name: str | None = None, **parameters: Any) -> str:
        limits = graph.constant(-self.LARGEST), graph.constant(self.LARGEST)
        return str(graph.add("Exp", graph.add("Clip", raw, *limits), name=name))


class Covariance:
    """The shape of a learned covariance.

    Subclass it and name the class as `module:Class` wherever a covariance is named. What follows takes precisions of
    the shapes (N, 1), (N, D) and (N, D, D).
    """

    def raw_size(self, D: int) -> int:
        raise NotImplementedError(f"{type(self).__name__} has no raw_size")

    def shape(self, D: int) -> tuple[int, ...]:
        raise NotImplementedError(f"{type(self).__name__} has no shape")

    def precision(self, raw: Tensor, transform: Callable[[Tensor], Tensor], D: int) -> Tensor | None:
        """(N, raw_size) -> the precision of each image, or None."""
        raise NotImplementedError(f"{type(self).__name__} has no precision")

    def onnx(self, graph: Any, raw: str, transform: Callable[..., str], D: int) -> None:
        """The same as nodes of an ONNX graph, the last of them named `precision`."""
        raise InputError(f"the covariance {type(self).__name__} has no ONNX form: write its method `onnx`")


class Vanilla(Covariance):
    """No covariance: prototypes are means, and the distance is the plain one."""

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
    """L L^T: the transform gives the squared diagonal of L, so an L that is diagonal is the diagonal covariance."""

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
        padded = graph.add("Pad", parts, graph.constant([0, 0, 0, 1], np.int64))  # a zero at the end, for what is above
        place = np.full((D, D), D * (D + 1) // 2)
        place[np.diag_indices(D)] = np.arange(D)
        place[np.tril_indices(D, -1)] = np.arange(D, D * (D + 1) // 2)
        flat = graph.add("Gather", padded, graph.constant(place.ravel(), np.int64), axis=1)
        L = graph.add("Reshape", flat, graph.constant([0, D, D], np.int64))  # 0: as many as there are
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
