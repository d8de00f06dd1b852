"""Search among the classes of a large gallery: exactly, or with an index of FAISS that finds candidates.

The index groups the classes into lists of similar ones and stores each class in one byte for a dimension. A query is
compared with the classes of the nearest lists, and the best of them are compared by their exact distances.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gaussproto.errors import InputError, import_extra
from gaussproto.formulas.expanded import Expansion, expansion_of
from gaussproto.formulas.nearest import ExactSearch, Nearest, nearest_of_all, pair_distances
from gaussproto.mapped import MappedFile

SearchParameter = Literal["auto", "exact", "faiss"]
Check = Callable[[str, np.ndarray | None], None]

MANY = 100_000  # classes above which `auto` takes FAISS
LISTS = 4.0  # times the square root of the number of classes
SAMPLE = 40  # classes of a list from which its centre is learned
ROUNDS = 8  # of learning the centres
# Lists that a query is compared with, and candidates that are compared exactly beside those that are asked for. The
# first plan is taken that finds the nearest class of enough difficult queries, which lie between two near classes.
PLANS = ((48, 14), (96, 30), (192, 62), (384, 126), (768, 254))
ENOUGH, DIFFICULT = 0.99, 512
CANDIDATES = 2  # compared exactly for each class that is asked for
LEVEL = 0.5  # of the logarithm of a precision, beside the numbers of a prototype, when similar classes are grouped
BELOW = 2.0  # standard deviations by which the nearest classes of a list are nearer than their mean
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
        plan = np.array([*PLANS[0], 1000])
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
        return index.filled(*index.encoded(p, s)).planned(p, s)

    def planned(self, p: np.ndarray, s: np.ndarray | None) -> Index:
        """Return the index with the first plan that is good enough for these classes, or the last."""
        rng = np.random.default_rng(2)
        some = np.sort(rng.permutation(len(p))[:DIFFICULT])
        other = _nearest_in_parts(self.distance, p, s, p[some], 2).classes
        other = np.where(other[:, 0] == some, other[:, -1], other[:, 0])
        share = rng.uniform(0, 0.5, size=(len(some), 1))
        x = (1 - share) * p[some] + share * p[other]
        truth = _nearest_in_parts(self.distance, p, s, x, 1).distances[:, 0]
        for probes, spare in PLANS:
            index = replace(self, plan=np.array([probes, spare, 1]))
            found = FaissSearch(p, s, index, lambda name, rows: None)(x, 1).distances[:, 0]
            right = float((found <= truth * (1 + 1e-9)).mean())
            if right >= ENOUGH or (probes >= len(self.sizes) >= 1 and spare >= PLANS[-1][1]):
                break
        return replace(index, plan=np.array([probes, spare, max(1, int(1000 * right))]))

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


class FaissSearch:
    """Find candidates with an index, and compare them by their exact distances."""

    def __init__(self, p: np.ndarray, s: np.ndarray | None, index: Index, check: Check) -> None:
        self.p, self.s, self.index, self._check = p, s, index, check
        self.expansion = index.expansion
        self.removed = np.zeros(len(p), dtype=bool)
        self._bits = np.full(-(-len(p) // 8), 255, dtype=np.uint8)  # of the classes that are there
        check("index", None)
        self._faiss = index.opened()

    @property
    def nbytes(self) -> int:
        """The memory or the part of a file that the search takes beside the prototypes."""
        index = self.index
        parts = index.lists, index.groups, index.centres, index.spread, self._bits, self.removed
        return sum(part.nbytes for part in parts)

    def remove(self, c: int) -> None:
        """Never find a class again."""
        self.removed[c] = True
        self._bits[c // 8] &= ~np.uint8(1 << c % 8)

    def regrouped(self, slots: np.ndarray, C: int, p: np.ndarray, s: np.ndarray | None) -> FaissSearch:
        s = s if self.index.E else None
        return FaissSearch(p, s, self.index.regrouped(slots, C, p, s), lambda name, rows: None)

    def __call__(self, x: np.ndarray, k: int) -> Nearest:
        """Return the k nearest classes of the queries x (N, D)."""
        probes, spare, _ = self.index.plan.tolist()
        candidates = self._candidates(x, CANDIDATES * k + spare, probes)
        found = self._exact(x, candidates, k)
        few = found.classes[:, min(k, int((~self.removed).sum())) - 1] < 0
        if few.any():  # the lists were nearly empty
            candidates = self._candidates(x[few], CANDIDATES * k + spare, len(self.index.sizes))
            again = self._exact(x[few], candidates, k)
            if (again.classes[:, 0] < 0).any():  # the numbers of a query were too large
                again = nearest_of_all(self.index.distance, x[few], self.p, self.s, self.removed, k)
            found.classes[few], found.distances[few] = again
        return found

    def _candidates(self, x: np.ndarray, most: int, probes: int) -> np.ndarray:
        faiss = import_extra("faiss", "gallery")
        q, L = self.index.queries(x), len(self.index.sizes)
        most, probes = min(most, len(self.p)), min(probes, L)
        parameters = faiss.SearchParametersIVF(nprobe=probes)
        if self.removed.any():
            parameters.sel = faiss.IDSelectorBitmap(len(self._bits), faiss.swig_ptr(self._bits))
        if not self.index.product:
            return np.asarray(self._faiss.search(q, most, params=parameters)[1])
        parts = []
        for i in range(0, len(q), 256):
            some = q[i : i + 256]
            means = some @ self.index.centres.T  # of the squared distances of the classes in each list
            nearest = means - BELOW * np.sqrt(some**2 @ self.index.spread.T)
            lists = np.argpartition(nearest, probes - 1, axis=1)[:, :probes].astype(np.int64)
            values = np.take_along_axis(means, lists, axis=1)
            d, classes = np.empty((len(some), most), np.float32), np.empty((len(some), most), np.int64)
            arrays = (np.ascontiguousarray(each) for each in (-some, lists, -values))
            some, lists, values = arrays  # FAISS gets pointers to them
            pointers = [faiss.swig_ptr(each) for each in (some, lists, values, d, classes)]
            number = len(some)
            self._faiss.search_preassigned_c(number, pointers[0], most, *pointers[1:], False, parameters)
            parts.append(classes)
        return np.concatenate(parts) if parts else np.empty((0, most), dtype=int)

    def _exact(self, x: np.ndarray, candidates: np.ndarray, k: int) -> Nearest:
        rows, columns = np.nonzero((candidates >= 0) & (candidates < len(self.p)))
        classes = candidates[rows, columns]
        self._check("prototypes", classes)
        if self.s is not None:
            self._check("precisions", classes)
        d = pair_distances(self.index.distance, x, self.p, self.s, rows, classes)
        return Nearest.first(rows, classes, d, len(x), k)


def _nearest_in_parts(distance: str, p: np.ndarray, s: np.ndarray | None, x: np.ndarray, k: int) -> Nearest:
    """Return the k nearest classes exactly, with a part of the classes in memory at a time."""
    best = Nearest(np.empty((len(x), 0), dtype=int), np.empty((len(x), 0)))
    for i in range(0, len(p), BLOCK):
        found = ExactSearch(distance, p[i : i + BLOCK], None if s is None else s[i : i + BLOCK])(x, k)
        classes = np.concatenate([best.classes, found.classes + i], axis=1)
        d = np.concatenate([best.distances, found.distances], axis=1)
        order = d.argsort(axis=1, kind="stable")[:, :k]
        best = Nearest(np.take_along_axis(classes, order, axis=1), np.take_along_axis(d, order, axis=1))
    return best


Finder = ExactSearch | FaissSearch


def has_faiss() -> bool:
    try:
        import faiss  # noqa: F401
    except ImportError:
        return False
    return True


def check_search(search: Any) -> None:
    if search not in ("auto", "exact", "faiss"):
        raise InputError(f"search must be one of auto, exact, faiss (found {search!r})")


def _warn_of_misses(index: Index) -> None:
    right = int(index.plan[2])
    if right < 1000 * ENOUGH:
        warnings.warn(
            f"these classes are hard to search: the index finds the nearest class of {right / 10:g} % of difficult "
            "images; for all of them, pass search='exact', which is slower",
            stacklevel=2,
        )


def make_finder(
    distance: str, p: np.ndarray, s: np.ndarray | None, search: SearchParameter, stored: Index | None, check: Check
) -> Finder:
    """Return the search among classes. `stored` is the index of the gallery file, if it has one."""
    fits = stored is not None and stored.distance == distance and (0 if s is None else s.shape[1]) == stored.E
    if search == "faiss" or (search == "auto" and len(p) > MANY):
        if search == "faiss" or has_faiss():
            if not fits:
                check("prototypes", None)
            index = stored if fits else Index.of_classes(distance, p, s)
            if index is not None:
                _warn_of_misses(index)
                return FaissSearch(p, s, index, check)
        else:
            warnings.warn(
                f"searching all {len(p):,} classes for each image, because the package faiss is missing: for a faster "
                "search, run pip install 'gaussproto[gallery]'",
                stacklevel=2,
            )
    check("prototypes", None)
    return ExactSearch(distance, p, s)
