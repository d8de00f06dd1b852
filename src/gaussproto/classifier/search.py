"""Search among the classes of a large gallery: exactly, or with an index of FAISS that finds candidates.

The index groups the classes into lists of similar ones. A query is compared with the classes of the nearest lists, and
the best of them are compared by their exact distances.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from gaussproto.classifier.index import BLOCK, Index
from gaussproto.errors import InputError, import_extra
from gaussproto.formulas.nearest import ExactSearch, Nearest, nearest_of_all, pair_distances

SearchParameter = Literal["auto", "exact", "faiss"]
Check = Callable[[str, np.ndarray | None], None]

MANY = 100_000  # classes above which `auto` takes FAISS
# Lists that a query is compared with, and candidates that are compared exactly beside those that are asked for. The
# first plan is taken that finds the nearest class of enough difficult queries, which lie between two near classes.
PLANS = ((48, 14), (96, 30), (192, 62), (384, 126), (768, 254))
ENOUGH, DIFFICULT = 0.99, 512
CANDIDATES = 2  # compared exactly for each class that is asked for
BELOW = 2.0  # standard deviations by which the nearest classes of a list are nearer than their mean


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


def learn_index(distance: str, p: np.ndarray, s: np.ndarray | None) -> Index | None:
    """Learn an index, and how many lists and candidates it needs. Return None if the distance is no inner product."""
    index = Index.of_classes(distance, p, s)
    if index is None:
        return None
    rng = np.random.default_rng(2)
    some = np.sort(rng.permutation(len(p))[:DIFFICULT])
    other = _nearest_in_parts(distance, p, s, p[some], 2).classes
    other = np.where(other[:, 0] == some, other[:, -1], other[:, 0])
    share = rng.uniform(0, 0.5, size=(len(some), 1))
    x = (1 - share) * p[some] + share * p[other]
    truth = _nearest_in_parts(distance, p, s, x, 1).distances[:, 0]
    for probes, spare in PLANS:
        index = replace(index, plan=np.array([probes, spare, 1]))
        found = FaissSearch(p, s, index, lambda name, rows: None)(x, 1).distances[:, 0]
        right = float((found <= truth * (1 + 1e-9)).mean())
        if right >= ENOUGH:
            break
    return replace(index, plan=np.array([probes, spare, max(1, int(1000 * right))]))


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
            index = stored if fits else learn_index(distance, p, s)
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
