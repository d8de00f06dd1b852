"""The k nearest classes of queries, exactly, without all distances in memory. NumPy only.

Products in float32 give a lower and an upper bound of each distance (`expanded`). A class whose lower bound is above
the k-th lowest upper bound cannot be among the nearest. The few others are compared by their exact distances.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from gaussproto.formulas.distance import find_distance
from gaussproto.formulas.expanded import REMOVED, Expansion, expansion_of, in_range

QUERIES, BLOCK = 512, 1 << 18  # queries, and products, at once: they fit into the processor's cache
FIRST = 64  # classes that give the first bounds
PAIRS = 1 << 14  # exact distances at once
MANY = 1 << 20  # candidates of a block of queries; more are nearly equal, and need exact distances of all classes
DENSE = 1 << 20  # exact distances at once


class Nearest(NamedTuple):
    """The nearest classes of N queries. Of equally near classes, the first comes first."""

    classes: np.ndarray  # (N, k) indices, or -1 where there are fewer than k classes
    distances: np.ndarray  # (N, k) float64, infinite where there is no class

    @classmethod
    def first(cls, rows: np.ndarray, classes: np.ndarray, d: np.ndarray, N: int, k: int) -> Nearest:
        """Return the k nearest of each query, from pairs of a query and a class with their distance."""
        order = np.lexsort([classes, d, rows])
        rows, classes, d = rows[order], classes[order], d[order]
        place = np.arange(len(rows)) - np.searchsorted(rows, rows)
        kept = place < k
        result = cls(np.full((N, k), -1), np.full((N, k), np.inf))
        result.classes[rows[kept], place[kept]] = classes[kept]
        result.distances[rows[kept], place[kept]] = d[kept]
        return result


class Rows:
    """An array that grows at its end."""

    def __init__(self, first: np.ndarray) -> None:
        self._room, self._count = first, len(first)

    @property
    def array(self) -> np.ndarray:
        return self._room[: self._count]

    def add(self, rows: np.ndarray) -> None:
        need = self._count + len(rows)
        if need > len(self._room):
            room = np.empty((max(2 * need, 16), *self._room.shape[1:]), dtype=self._room.dtype)
            room[: self._count] = self.array
            self._room = room
        self._room[self._count : need] = rows
        self._count = need


class ExactSearch:
    """Find the nearest of C classes by comparing with all of them.

    Args:
        distance: the name of the distance.
        p: prototypes (C, D).
        s: class precisions (C, 1), (C, D) or (C, D, D), or None for the plain distance.
        expansion: how to expand the prototypes. By default as fits them.
    """

    def __init__(
        self, distance: str, p: np.ndarray, s: np.ndarray | None = None, expansion: Expansion | None = None
    ) -> None:
        self.distance, self.p, self.s = distance, p, s
        self.removed = np.zeros(len(p), dtype=bool)
        self.expansion = expansion or (expansion_of(distance, p, s) if len(p) else None)
        self.expanded = np.empty((len(p), 0), dtype=np.float32)
        if self.expansion is not None:
            self.expanded = self.expansion.classes(p, s)
            self._check_range(self.expanded)
        self._rows = [Rows(t) for t in (self.p, self.s, self.expanded, self.removed) if t is not None]

    def _check_range(self, expanded: np.ndarray) -> None:
        if not all(in_range(expanded[i : i + PAIRS]).all() for i in range(0, len(expanded), PAIRS)):
            self.expansion, self.expanded = None, np.empty((len(self.p), 0), dtype=np.float32)

    def add(self, p: np.ndarray, s: np.ndarray | None = None) -> None:
        """Add classes, in a time that does not grow with the number of classes."""
        expanded = np.empty((len(p), 0), dtype=np.float32)
        if self.expansion is not None:
            expanded = self.expansion.classes(p, s)
            if not in_range(expanded).all():
                self.expansion, self.expanded = None, np.empty((len(self.p), 0), dtype=np.float32)
                self._rows = [Rows(t) for t in (self.p, self.s, self.expanded, self.removed) if t is not None]
                expanded = expanded[:, :0]
        new = [
            t for t in (p, s if self.s is not None else None, expanded, np.zeros(len(p), dtype=bool)) if t is not None
        ]
        for rows, more in zip(self._rows, new, strict=True):
            rows.add(more)
        self.p, *_, self.expanded, self.removed = (rows.array for rows in self._rows)
        if self.s is not None:
            self.s = self._rows[1].array

    @property
    def nbytes(self) -> int:
        """The memory that the search takes beside the prototypes."""
        return self.expanded.nbytes + self.removed.nbytes

    def remove(self, c: int) -> None:
        """Never find a class again."""
        self.removed[c] = True
        if self.expansion is not None:
            self.expanded[c, -1] = REMOVED  # first: another thread may be searching
            self.expanded[c, :-1] = 0

    def __call__(self, x: np.ndarray, k: int) -> Nearest:
        """Return the k nearest classes of the queries x (N, D)."""
        parts = [self._some(x[i : i + QUERIES], k) for i in range(0, len(x), QUERIES)]
        if not parts:
            return Nearest(np.empty((0, k), dtype=int), np.empty((0, k)))
        return Nearest(*(np.concatenate(each) for each in zip(*parts, strict=True)))

    def _some(self, x: np.ndarray, k: int) -> Nearest:
        if self.expansion is None:
            return nearest_of_all(self.distance, x, self.p, self.s, self.removed, k)
        q = self.expansion.queries(x)
        fits = in_range(q)
        candidates = self._candidates(q, k) if fits.all() else None
        if candidates is None and len(x) > 1:  # find the queries that make trouble
            half = len(x) // 2
            parts = self._some(x[:half], k), self._some(x[half:], k)
            return Nearest(*(np.concatenate(each) for each in zip(*parts, strict=True)))
        if candidates is None:
            return nearest_of_all(self.distance, x, self.p, self.s, self.removed, k)
        rows, classes = candidates
        return Nearest.first(rows, classes, self.pairs(x, rows, classes), len(x), k)

    def pairs(self, x: np.ndarray, rows: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """Return the exact distance of each pair of a query and a class."""
        return pair_distances(self.distance, x, self.p, self.s, rows, classes)

    def _candidates(self, q: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Return pairs of a query and a class that contain the k nearest classes, or None if they are too many."""
        N, C = len(q), len(self.expanded)
        width = max(1, BLOCK // N)
        limit = np.full(N, np.inf, dtype=np.float32)  # the k-th lowest upper bound so far
        lowest = np.full((N, k), np.inf, dtype=np.float32)  # the k lowest upper bounds
        found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        count = 0
        for start, stop in _blocks(C, width):
            block = self.expanded[start:stop]
            low = q @ block.T
            (some,) = np.nonzero(low.min(axis=1) <= limit)
            if not len(some):
                continue
            of, columns = np.nonzero(low[some] <= limit[some, None])
            rows = some[of]
            lower = low[rows, columns]
            error = block[columns, -1]
            gone = error > REMOVED / 2
            upper = lower - np.float32(2.01) * q[rows, -1] * np.where(gone, np.float32(0), error)
            upper[gone | (lower > REMOVED / 2)] = np.inf
            _keep_lowest(lowest, rows, upper)
            limit = lowest.max(axis=1)
            good = lower <= np.minimum(limit, np.float32(REMOVED / 2))[rows]
            found.append((rows[good], columns[good] + start, lower[good]))
            count += int(good.sum())
            if count > MANY:
                found = [_within(found, limit)]
                count = len(found[0][0])
                if count > MANY // 2:
                    return None
        rows, classes, _ = _within(found, limit)
        return rows, classes


def nearest_of_all(
    distance: str, x: np.ndarray, p: np.ndarray, s: np.ndarray | None, removed: np.ndarray, k: int
) -> Nearest:
    """Compare the exact distances of all classes, for any distance. It is slow."""
    kind, N = find_distance(distance), len(x)
    x = x.astype(np.float64)
    width = max(1, DENSE // N)
    best = Nearest(np.full((N, k), -1), np.full((N, k), np.inf))
    for start in range(0, len(p), width):
        some = slice(start, start + width)
        metric = None if s is None else s[some].astype(np.float64)
        with np.errstate(all="ignore"):
            values = kind.value(x, p[some].astype(np.float64), metric)
        values[:, removed[some]] = np.inf
        rows, columns = np.nonzero(~(values >= best.distances[:, -1:]))  # NaN too, which callers report
        best = Nearest.first(
            np.concatenate([np.repeat(np.arange(N), k), rows]),
            np.concatenate([best.classes.ravel(), columns + start]),
            np.concatenate([best.distances.ravel(), values[rows, columns]]),
            N,
            k,
        )
    return best


def pair_distances(
    distance: str, x: np.ndarray, p: np.ndarray, s: np.ndarray | None, rows: np.ndarray, classes: np.ndarray
) -> np.ndarray:
    """Return the exact distances of pairs: query `rows[i]` of x (N, D) from class `classes[i]` of p (C, D)."""
    kind, d = find_distance(distance), np.empty(len(rows))
    with np.errstate(all="ignore"):  # callers check the result
        for i in range(0, len(rows), PAIRS):
            some = slice(i, i + PAIRS)
            metric = None if s is None else s[classes[some]][:, None].astype(np.float64)
            queries, prototypes = (t[:, None].astype(np.float64) for t in (x[rows[some]], p[classes[some]]))
            d[some] = kind.value(queries, prototypes, metric)[:, 0, 0]
    return d


def _blocks(C: int, width: int) -> Iterator[tuple[int, int]]:
    """Yield blocks of classes. The first are small: until there are bounds, every class is a candidate."""
    start, size = 0, min(FIRST, width)
    while start < C:
        yield start, min(start + size, C)
        start, size = start + size, min(2 * size, width)


def _within(
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]], limit: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the candidates whose lower bound is within the limit of their query."""
    empty = np.empty(0, dtype=int)
    start = empty, empty, np.empty(0, dtype=np.float32)
    rows, classes, lower = (np.concatenate(each) for each in zip(start, *found, strict=True))
    good = lower <= limit[rows]
    return rows[good], classes[good], lower[good]


def _keep_lowest(lowest: np.ndarray, rows: np.ndarray, values: np.ndarray) -> None:
    """Update the k lowest values of each row (N, k). `rows` is sorted."""
    starts = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
    of = rows[starts]
    k = lowest.shape[1]
    if k == 1:
        lowest[of, 0] = np.minimum(lowest[of, 0], np.minimum.reduceat(values, starts))
        return
    counts = np.diff(np.r_[starts, len(rows)])
    new = np.full((len(of), k + int(counts.max())), np.inf, dtype=np.float32)
    new[:, :k] = lowest[of]
    new[np.repeat(np.arange(len(of)), counts), k + np.arange(len(rows)) - np.repeat(starts, counts)] = values
    lowest[of] = np.partition(new, k - 1, axis=1)[:, :k]
