"""The index of a large gallery: lists of similar classes, with a byte for each number, which FAISS searches.

A query is compared with the classes of the nearest lists (`search`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gaussproto.errors import import_extra
from gaussproto.formulas.expanded import Expansion, expansion_of
from gaussproto.mapped import MappedFile

LISTS = 4.0  # times the square root of the number of classes
SAMPLE = 40  # classes of a list from which its centre is learned
ROUNDS = 8  # of learning the centres
LEVEL = 0.5  # of the logarithm of a precision, beside the numbers of a prototype, when similar classes are grouped
FAST = 16  # FAISS is several times as fast on vectors of a multiple of this size
BLOCK = 1 << 16  # classes at once


# Of an index. The lists come last.
ARRAYS = ("middle", "units", "plan", "factors", "groups", "centres", "spread", "ranges", "sizes", "lists")


@dataclass(frozen=True, eq=False)
class Index:
    """The lists of an index of FAISS as arrays.

    Attributes:
        distance: the name of the distance.
        E: numbers of a precision in the distance, or 0.
        middle: (D,) from which prototypes are measured.
        units: (2,) the unit of length, and that of precisions.
        plan: (3,) the lists that a query is compared with, the candidates beside those that are asked for, and of how
            many of a thousand difficult queries that finds the nearest class, int64.
        factors: (w,) by which expanded classes are multiplied; they give all numbers of a class the same influence.
        groups: (L, n) the middle of each list among similar classes, float32.
        centres: (L, w) the mean of the numbers of the classes of each list, float32.
        spread: (L, w) their variance. Empty without precisions.
        ranges: (2 w,) lowest value and range of each number of a class, measured from the centre.
        sizes: (L,) the number of classes in each list.
        lists: for each list, the codes of its classes, a byte for each number, and then the classes, as int64.
        file: the file that holds the lists, and where they begin.
    """

    distance: str
    E: int
    middle: np.ndarray
    units: np.ndarray
    plan: np.ndarray
    factors: np.ndarray
    groups: np.ndarray
    centres: np.ndarray
    spread: np.ndarray
    ranges: np.ndarray
    sizes: np.ndarray
    lists: np.ndarray
    file: tuple[MappedFile, int] | None = None

    def check(self, C: int, D: int) -> None:
        """Raise ValueError unless the arrays can be an index of C classes, so that FAISS reads nothing else."""
        L, w = self.centres.shape
        n = self.features(np.zeros((1, D)), np.ones((1, self.E)) if self.E else None).shape[1]
        shapes = [(D,), (2,), (3,), self.factors.shape, (L, n), (L, w), (L, w) if self.E else (0, 0), (2 * w,), (L,)]
        parts = [getattr(self, name) for name in ARRAYS[:-1]]
        good = [part.shape for part in parts] == shapes and all(np.isfinite(part).all() for part in parts)
        zero = np.zeros((1, D))
        if not good or self.queries(zero).shape[1] != w or w % FAST or self.lists.shape != (self.offsets[-1] // 8,):
            raise ValueError("the arrays of its index have wrong shapes, or values that are not finite")
        types = [part.dtype for part in (self.groups, self.centres, self.spread, self.ranges, self.sizes, self.lists)]
        if types != [np.float32] * 4 + [np.int64] * 2 or (self.sizes < 0).any() or self.sizes.sum() != C:
            raise ValueError(f"its index does not have {C} classes")
        if self.plan.dtype != np.int64 or not (self.plan > 0).all():
            raise ValueError("the plan of its index is not of positive numbers")

    @property
    def width(self) -> int:
        return int(self.centres.shape[1])

    @property
    def expansion(self) -> Expansion:
        unit, scale = self.units.tolist()
        return Expansion(self.distance == "cosine", self.middle, unit, scale, self.E)

    @property
    def product(self) -> bool:
        """Whether classes are compared by inner products, because they have precisions, or else by distances."""
        return self.E > 0

    @classmethod
    def of_classes(cls, distance: str, p: np.ndarray, s: np.ndarray | None) -> Index | None:
        """Learn an index of classes, or return None if the distance is no inner product."""
        expansion = expansion_of(distance, p, s)
        if expansion is None:
            return None
        faiss = import_extra("faiss", "gallery")
        C = len(p)
        rng = np.random.default_rng(0)
        none = np.empty((0, 0), dtype=np.float32)
        units, E = np.array([expansion.unit, expansion.scale]), expansion.E
        sizes = np.empty(0, dtype=np.int64)
        plan = np.array([48, 14, 1000])
        index = cls(distance, E, expansion.middle, units, plan, none, none, none, none, none, sizes, sizes)
        like = index._plain_queries(p[np.sort(rng.permutation(C)[:BLOCK])])
        factors = np.sqrt((like.astype(np.float64) ** 2).mean(axis=0)) if E else np.ones(like.shape[1])
        index = replace(index, factors=np.maximum(factors, 1e-6).astype(np.float32))
        L = max(1, min(round(LISTS * C**0.5), C // SAMPLE))
        some = np.sort(rng.permutation(C)[: SAMPLE * L])
        p_some, s_some = p[some], None if s is None else s[some]
        features = index.features(p_some, s_some)
        means = faiss.Kmeans(features.shape[1], L, niter=ROUNDS, max_points_per_centroid=SAMPLE, seed=1)
        means.train(features)
        index = replace(index, groups=means.centroids.copy())
        sample, of = index.vectors(p_some, s_some), index._nearest_lists(features)
        centres, counts = np.zeros((L, sample.shape[1])), np.maximum(np.bincount(of, minlength=L), 1)[:, None]
        np.add.at(centres, of, sample)
        index = replace(index, centres=(centres / counts).astype(np.float32))
        residual = sample - index.centres[of]
        low, high = residual.min(axis=0), residual.max(axis=0)
        ranges = np.concatenate([low, np.maximum(high - low, 1e-9)]).astype(np.float32)
        spread = np.zeros_like(centres)
        np.add.at(spread, of, residual.astype(np.float64) ** 2)
        index = replace(index, ranges=ranges, spread=(spread / counts).astype(np.float32) if E else none)
        return index.filled(*index.encoded(p, s))

    def features(self, p: np.ndarray, s: np.ndarray | None) -> np.ndarray:
        """Return what makes classes similar (C, n), float32: their prototypes, and how precise they are."""
        plain = replace(self.expansion, E=0).queries(p)[:, :-1]
        if not self.E:
            return plain if self.distance == "cosine" else np.ascontiguousarray(plain[:, :-1])
        assert s is not None
        plain[:, -1] = LEVEL * np.log(s / self.units[1]).mean(axis=1)
        return plain

    def vectors(self, p: np.ndarray, s: np.ndarray | None) -> np.ndarray:
        """Return the numbers of classes (C, w), float32."""
        if self.E:
            return _filled_up(self.expansion.classes(p, s)[:, :-1] * self.factors)
        return _filled_up(self._plain_queries(p))

    def queries(self, x: np.ndarray) -> np.ndarray:
        """Return the numbers of queries (N, w), float32."""
        q = self._plain_queries(x)
        return _filled_up(q / self.factors if self.E else q)

    def _plain_queries(self, x: np.ndarray) -> np.ndarray:
        q = self.expansion.queries(x)[:, :-1]
        return np.ascontiguousarray(q if self.E or self.distance == "cosine" else q[:, :-1])

    def _nearest_lists(self, features: np.ndarray) -> np.ndarray:
        faiss = import_extra("faiss", "gallery")
        flat = faiss.IndexFlatL2(self.groups.shape[1])
        flat.add(self.groups)
        return np.asarray(flat.search(features, 1)[1][:, 0])

    def encoded(self, p: np.ndarray, s: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the list of each class (C,) and its code (C, w)."""
        of, codes = np.empty(len(p), dtype=np.int64), np.empty((len(p), self.width), dtype=np.uint8)
        low, width = self.ranges.reshape(2, -1)
        for i in range(0, len(p), BLOCK):
            some = slice(i, i + BLOCK)
            p_some, s_some = p[some], None if s is None else s[some]
            vectors = self.vectors(p_some, s_some)
            of[some] = self._nearest_lists(self.features(p_some, s_some))
            share = (vectors - self.centres[of[some]] - low) / width
            codes[some] = np.clip(share * 255, 0, 255).astype(np.uint8)  # as FAISS rounds
        return of, codes

    def filled(self, of: np.ndarray, codes: np.ndarray) -> Index:
        """Return the index with these classes in its lists. Each list has its codes, then its classes."""
        L, w = self.centres.shape
        order = np.argsort(of, kind="stable")
        sizes = np.bincount(of, minlength=L)
        starts = np.append(0, np.cumsum(sizes))
        parts: list[np.ndarray] = []
        for size, start in zip(sizes.tolist(), starts.tolist(), strict=False):
            members = order[start : start + size]
            block = np.zeros((padded(size), w), dtype=np.uint8)
            block[:size] = codes[members]
            parts += [block.ravel().view(np.int64), np.pad(members, (0, padded(size) - size))]
        return replace(self, sizes=sizes, lists=np.concatenate(parts), file=None)

    @cached_property
    def offsets(self) -> np.ndarray:
        """(L + 1,) where each list begins, in bytes."""
        return np.append(0, np.cumsum(padded(self.sizes) * (self.width + 8)))

    def contents(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the list of each class (C,) and its code (C, w), the opposite of `filled`."""
        C = int(self.sizes.sum())
        of, codes = np.empty(C, dtype=np.int64), np.empty((C, self.width), dtype=np.uint8)
        for number, (size, start) in enumerate(zip(self.sizes.tolist(), self.offsets.tolist(), strict=False)):
            room = padded(size)
            middle = start // 8 + room * self.width // 8
            members = self.lists[middle : middle + size]
            of[members] = number
            codes[members] = self.lists[start // 8 : middle].view(np.uint8).reshape(room, self.width)[:size]
        return of, codes

    def regrouped(self, slots: np.ndarray, C: int, p: np.ndarray, s: np.ndarray | None) -> Index:
        """Return the index of classes that had these slots. Those from C on are new."""
        of, codes = self.contents()
        known = slots < C
        new_of, new_codes = np.empty(len(slots), np.int64), np.empty((len(slots), self.width), np.uint8)
        new_of[known], new_codes[known] = of[slots[known]], codes[slots[known]]
        if not known.all():
            new_of[~known], new_codes[~known] = self.encoded(p[~known], None if s is None else s[~known])
        return self.filled(new_of, new_codes)

    def opened(self) -> Any:
        """Return FAISS's index of these lists. Lists in a file stay there."""
        faiss = import_extra("faiss", "gallery")
        L, w = self.centres.shape
        metric = faiss.METRIC_INNER_PRODUCT if self.product else faiss.METRIC_L2
        flat = faiss.IndexFlatL2(w)
        flat.add(np.ascontiguousarray(self.centres))
        index = faiss.IndexIVFScalarQuantizer(flat, w, L, faiss.ScalarQuantizer.QT_8bit, metric, True)
        faiss.copy_array_to_vector(np.ascontiguousarray(self.ranges), index.sq.trained)
        index.is_trained = True
        path = self.file and self.file[0].own_path
        if path and hasattr(faiss, "OnDiskInvertedLists"):
            index.replace_invlists(self._mapped(faiss, path), True)
        else:
            content = np.ascontiguousarray(self.lists).view(np.uint8)
            for number, (size, start) in enumerate(zip(self.sizes.tolist(), self.offsets.tolist(), strict=False)):
                ids = content[start + padded(size) * w :][: 8 * size].view(np.int64)
                part = content[start : start + size * w]
                if size:
                    index.invlists.add_entries(number, size, faiss.swig_ptr(ids), faiss.swig_ptr(part))
        index.ntotal = int(self.sizes.sum())
        return index

    def _mapped(self, faiss: Any, path: str) -> Any:
        assert self.file is not None
        _, begin = self.file
        lists = faiss.OnDiskInvertedLists()
        lists.nlist, lists.code_size, lists.read_only = len(self.sizes), self.width, True
        lists.filename, lists.totsize = path, Path(path).stat().st_size
        for size, start in zip(self.sizes.tolist(), self.offsets.tolist(), strict=False):
            one = faiss.OnDiskOneList()
            one.size, one.capacity, one.offset = size, padded(size), begin + start
            lists.lists.push_back(one)
        lists.do_mmap()
        lists.this.disown()
        return lists


def padded(size: Any) -> Any:
    """Return the places of a list, a multiple of 8, so that the numbers of its classes are aligned."""
    return -(-size // 8) * 8


def _filled_up(t: np.ndarray) -> np.ndarray:
    """Return vectors with zeros at their ends, of a size for which FAISS has its fastest code."""
    return np.pad(t, ((0, 0), (0, -t.shape[1] % FAST)))
