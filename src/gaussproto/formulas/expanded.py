"""Distances as inner products: an expanded query times an expanded prototype orders the classes of a query. NumPy only.

    d_c² = s_c |x − p_c|² = ⟨(x, |x|², 1), (−2 s_c p_c, s_c, s_c |p_c|²)⟩          D + 2 numbers for a radius
    d_c² = Σⱼ s_cj (xⱼ − p_cj)² = ⟨(x, x², 1), (−2 s_c p_c, s_c, Σⱼ s_cj p_cj²)⟩    2D + 1 for a diagonal

Without a precision |x|² is equal for all classes and is left out, and a cosine takes the prototypes at length 1.

The products are in float32. Its rounding error is at most γ |q| |e|, and one more number in both vectors subtracts it,
so that the product is a lower bound of the exact one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gaussproto.formulas.distance import Cosine, Euclidean, find_distance

LARGEST = 1e15  # number in an expanded vector: products stay finite
UNIT = 2.0**-24  # relative rounding error of float32
ROWS = 1024  # expanded at once
SAMPLE = 4096  # classes that give the units
REMOVED = 1e30  # the last number of a class that is never found


@dataclass(frozen=True, eq=False)
class Expansion:
    """How to expand classes and queries. They are measured from `middle`, in units of `unit`."""

    cosine: bool
    middle: np.ndarray  # (D,)
    unit: float  # a typical distance of a prototype from the middle
    scale: float  # a typical precision
    E: int  # numbers of a precision, or 0

    @property
    def width(self) -> int:
        """The size of an expanded vector."""
        D = len(self.middle)
        return (D if self.cosine else D + 1 + self.E) + 1

    @property
    def rounding(self) -> float:
        return (self.width + 8) * UNIT

    def classes(self, p: np.ndarray, s: np.ndarray | None) -> np.ndarray:
        """Return expanded prototypes (C, width), float32."""
        result = np.empty((len(p), self.width), dtype=np.float32)
        for i in range(0, len(p), ROWS):
            some = slice(i, i + ROWS)
            with np.errstate(over="ignore"):  # callers check the result
                result[some] = self._classes(p[some], None if s is None or self.cosine else s[some])
        return result

    def _classes(self, p: np.ndarray, s: np.ndarray | None) -> np.ndarray:
        with np.errstate(all="ignore"):  # callers check the result
            p = self._from_middle(p)
            if self.cosine:
                e = -_at_length_1(p)
            elif s is None:
                e = np.concatenate([-2 * p, (p**2).sum(axis=1, keepdims=True)], axis=1)
            else:
                s = s.astype(np.float64) / self.scale
                squares = (s * p**2).sum(axis=1, keepdims=True)
                e = np.concatenate([-2 * s * p, s, squares], axis=1)
            error = self.rounding * np.linalg.norm(e, axis=1, keepdims=True)
            return np.concatenate([e, -error], axis=1)

    def queries(self, x: np.ndarray) -> np.ndarray:
        """Return expanded queries (N, width), float32."""
        with np.errstate(all="ignore"):
            x = self._from_middle(x)
            if self.cosine:
                q = _at_length_1(x)
            else:
                squares = {0: x[:, :0], 1: (x**2).sum(axis=1, keepdims=True)}.get(self.E, x**2)
                q = np.concatenate([x, squares, np.ones((len(x), 1))], axis=1)
            return np.concatenate([q, np.linalg.norm(q, axis=1, keepdims=True)], axis=1).astype(np.float32)

    def _from_middle(self, t: np.ndarray) -> np.ndarray:
        return np.asarray((t.astype(np.float64) - self.middle) / self.unit)


def expansion_of(distance: str, p: np.ndarray, s: np.ndarray | None) -> Expansion | None:
    """Return how to expand these classes, or None if the distance is no inner product, or numbers are out of range."""
    kind = find_distance(distance)
    D = p.shape[1]
    if type(kind) is Cosine and (s is None or s.shape[1:] == (1,)):  # a radius does not change an angle
        return Expansion(True, np.zeros(D), 1.0, 1.0, 0)
    if type(kind) is not Euclidean or (s is not None and s.ndim == 3):
        return None
    some = p[:: -(-len(p) // SAMPLE)].astype(np.float64)
    with np.errstate(all="ignore"):
        middle = some.mean(axis=0)
        unit = float(np.sqrt(np.median(((some - middle) ** 2).sum(axis=1)))) or 1.0
        scale = 1.0 if s is None else float(np.median(s[:: -(-len(s) // SAMPLE)]))
    if not (np.isfinite(middle).all() and 0 < unit < np.inf and 0 < scale < np.inf):
        return None
    return Expansion(False, middle, unit, scale, 0 if s is None else s.shape[1])


def in_range(t: np.ndarray) -> np.ndarray:
    """Return whether each expanded vector (N, width) can be multiplied without an overflow."""
    if len(t) == 0:
        return np.zeros(0, dtype=bool)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.maximum(t.max(axis=1), -t.min(axis=1)) < LARGEST)  # False for NaN


def _at_length_1(t: np.ndarray) -> np.ndarray:
    return np.asarray(t / np.maximum(np.linalg.norm(t, axis=1, keepdims=True), np.finfo(np.float64).tiny))
