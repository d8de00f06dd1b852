"""Embeddings together with their precisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

A = TypeVar("A")  # torch.Tensor or numpy.ndarray
B = TypeVar("B")


@dataclass(frozen=True, eq=False)
class Embedded(Generic[A]):
    """Embeddings and their precisions, as tensors or NumPy arrays.

    Unpack it as `x, s = embedded`. An index selects from both.

    Attributes:
        x: embeddings, (..., D).
        s: precisions, (..., 1), (..., D) or (..., D, D), or None for a vanilla network.

    Examples:
        >>> import gaussproto as gp
        >>> import numpy as np
        >>> embedded = gp.Embedded(np.zeros((6, 64)), np.ones((6, 1)))
        >>> x, s = embedded[:2]
        >>> x.shape, s.shape
        ((2, 64), (2, 1))
    """

    x: A
    s: A | None = None

    def __iter__(self) -> Iterator[Any]:
        return iter((self.x, self.s))

    def __len__(self) -> int:
        return len(self.x)  # type: ignore[arg-type]

    def __getitem__(self, index: Any) -> Embedded[A]:
        return self.map(lambda t: t[index])

    def map(self, change: Callable[[Any], B]) -> Embedded[B]:
        """Apply a function to x and to s."""
        return Embedded(change(self.x), self.s if self.s is None else change(self.s))

    def unflatten(self, sizes: tuple[int, ...]) -> Embedded[A]:
        """Split the first axis of tensors into several, for example classes and drawings."""
        return self.map(lambda t: t.unflatten(0, sizes))

    def roll(self, turn: int) -> Embedded[A]:
        """Rotate the second axis of tensors by `turn` places."""
        return self.map(lambda t: t.roll(turn, dims=1))

    @classmethod
    def join(cls, parts: Iterable[Embedded[A]], how: Callable[[list[Any]], A]) -> Embedded[A]:
        """Combine several into one with `how`, for example `torch.cat` or `np.stack`."""
        parts = list(parts)
        s = [part.s for part in parts if part.s is not None]
        return cls(how([part.x for part in parts]), how(s) if s else None)


def is_tensor(t: Any) -> bool:
    """Return whether `t` is a torch tensor rather than a NumPy array, without importing torch."""
    return hasattr(t, "detach")


def ones_like(t: Any) -> Any:
    """Return ones of the same shape and type, without a gradient."""
    if is_tensor(t):
        return t.new_ones(t.shape)
    import numpy as np

    return np.ones_like(t)
