"""The classes that a classifier knows, and the search among them.

A small gallery is computed again after every change, so that it is always what `fit` with all examples gives. In a
large one that would take minutes. There a class is added or removed in a time that does not grow with the gallery: the
trust in the examples of the other classes stays, and all parts are joined only when somebody asks for the whole.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import lt
from threading import RLock
from typing import Any

import numpy as np

from gaussproto.classifier.examples import Examples
from gaussproto.classifier.index import Index
from gaussproto.classifier.search import (
    MANY,
    FaissSearch,
    Finder,
    SearchParameter,
    has_faiss,
    make_finder,
)
from gaussproto.classifier.view import View
from gaussproto.data.labels import PLAIN
from gaussproto.errors import InputError
from gaussproto.formulas.agreement import Surroundings, evenly_spaced
from gaussproto.formulas.embedded import Embedded
from gaussproto.formulas.nearest import ExactSearch

LARGE = 10_000  # classes; with more, a change leaves the other classes as they are
STEADY = 0.01  # share of the classes that may change before thresholds are computed again
SORTED = (*PLAIN, bytes)  # types of labels that one by one can be put in order

Metric = tuple[str, bool]  # the name of a distance, and whether the precision of the class is part of it


def is_large(C: int) -> bool:
    return C > LARGE


@dataclass
class _Changed:
    """A class that was added, or that got more examples, since the gallery was last joined."""

    slot: int  # by which a search knows it
    base: int | None  # the class in the gallery, if it was there
    rows: np.ndarray  # (K₀,) its examples there
    more: Embedded[np.ndarray]  # (K, D), (K, E) the new examples
    names: list[str]  # (K,)
    blank: np.ndarray | None  # (K,)
    order: list[int]  # (K,) when each was added
    prototype: Embedded[np.ndarray]  # (1, D), (1, E)
    trust: np.ndarray | None  # (K₀ + K,)

    @property
    def shots(self) -> int:
        return len(self.rows) + len(self.names)


class Known:
    """Examples to which classes are added one by one.

    Classes have slots, by which searches know them: those of the gallery first, then those that changed.
    """

    def __init__(
        self,
        examples: Examples,
        index: Index | None = None,
        check: Callable[[str, np.ndarray | None], None] | None = None,
    ) -> None:
        self._base, self._index, self._check = examples, index, check
        self._finders: dict[tuple[Metric, SearchParameter], tuple[Finder, ExactSearch]] = {}
        self._lock = RLock()
        self.arrays: Any = None
        self._start()

    def _start(self) -> None:
        self._changed: dict[Hashable, _Changed] = {}
        self._added: list[tuple[Hashable, int]] = []  # label and shots of each slot after those of the gallery
        self._gone: set[int] = set()  # slots
        self._forgotten = 0  # classes of the gallery
        self._around: Surroundings | None = None
        self._clock = 0
        self._total = len(self._base.embedded)
        self._type = _type_of_sorted(self._base.classes) if self.is_large else None

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what cannot be copied and is made again: the searches and the lock. A mapped file is read."""
        examples = self.examples
        return {"examples": examples}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["examples"])  # type: ignore[misc]

    @property
    def way(self) -> int:
        """The number of classes."""
        return len(self._base.classes) - len(self._gone) + len(self._added)

    @property
    def size(self) -> int:
        """The size of an embedding."""
        return int(self._base.prototypes.x.shape[1])

    @property
    def has_precisions(self) -> bool:
        return self._base.prototypes.s is not None

    @property
    def mean_shot(self) -> float:
        return self._total / self.way

    @property
    def most_shot(self) -> int:
        """At least the number of examples of the largest class."""
        return max([int(self._base.shots.max()), *(one.shots for one in self._changed.values())])

    @property
    def is_large(self) -> bool:
        return is_large(len(self._base.classes))

    @property
    def examples(self) -> Examples:
        """All examples, with the changes."""
        with self._lock:
            self._verify(None)
            if self._changed or self._gone:
                self._join()
            return self._base

    @property
    def representative(self) -> Examples:
        """The examples that tell how far images usually are: all of them, unless only a few have changed since."""
        few = len(self._changed) + self._forgotten <= STEADY * self.way
        return self._base if few and self.is_large else self.examples

    def with_more(
        self, embedded: Embedded[np.ndarray], labels: Sequence[Hashable], names: Sequence[str],
        blank: np.ndarray | None = None,
    ) -> Known:  # fmt: skip
        """Return these classes with more examples. A large gallery is changed in place."""
        one_by_one = self.is_large and len(labels) <= STEADY * self._total and self._type is not None
        if not one_by_one or any(type(label) is not self._type for label in labels):
            return Known(self.examples.with_more(embedded, labels, names, blank))
        if embedded.x.shape[1] != self._base.embedded.x.shape[1]:
            sizes = f"{embedded.x.shape[1]} and {self._base.embedded.x.shape[1]}"
            raise InputError(f"embeddings of examples must have one size (found {sizes}): fit again")
        rows: dict[Hashable, list[int]] = {}
        for i, label in enumerate(labels):
            rows.setdefault(label, []).append(i)
        with self._lock:
            slot = len(self._base.classes) + len(self._added)
            changed = [
                self._more(label, slot + j, embedded[members], members, names, blank)
                for j, (label, members) in enumerate(rows.items())
            ]
            for label, one in zip(rows, changed, strict=True):  # from here on nothing fails
                self._remove_slot(label)
                self._added.append((label, one.shots))
                self._changed[label] = one
                for _, tail in self._finders.values():
                    self._append(tail, one.prototype)
            self._clock += len(labels)
            self._total += len(labels)
        return self

    def _more(
        self, label: Hashable, slot: int, embedded: Embedded[np.ndarray], members: list[int], names: Sequence[str],
        blank: np.ndarray | None,
    ) -> _Changed:  # fmt: skip
        before, base = self._changed.get(label), self._place(label)
        rows = np.empty(0, dtype=int)
        if before is not None:
            base, rows = before.base, before.rows
        elif base is not None:
            rows = self._base.members_in_order(base)
            self._verify("embeddings", rows)
        new_names, order = [names[i] for i in members], [self._clock + i for i in members]
        new_blank = None if blank is None else blank[members]
        if before is not None:
            embedded = Embedded.join([before.more, embedded], np.concatenate)
            new_names, order = [*before.names, *new_names], [*before.order, *order]
            new_blank = None if before.blank is None or new_blank is None else np.concatenate([before.blank, new_blank])
        every = Embedded.join([self._base.embedded[rows], embedded], np.concatenate)
        prototype, trust = self._base.weighing.one_class(every, self._surroundings)
        return _Changed(slot, base, rows, embedded, new_names, new_blank, order, prototype, trust)

    def without(self, label: Hashable) -> Known:
        """Return these classes without one. A large gallery is changed in place."""
        if self._type is None or self.way <= LARGE:
            return Known(self.examples.without(label))
        with self._lock:
            changed, base = self._changed.get(label), self._place(label)
            if changed is None and base is None:
                raise InputError(f"unknown class {label!r}: choose one of the {self.way:,} classes in classes_")
            shots = changed.shots if changed is not None else int(self._base.shots[base])
            self._remove_slot(label)
            if changed is None or changed.base is not None:
                self._forgotten += 1
            self._changed.pop(label, None)
            self._total -= shots
        return self

    def _remove_slot(self, label: Hashable) -> None:
        changed = self._changed.get(label)
        slot = self._place(label) if changed is None else changed.slot
        if slot is None:
            return
        self._gone.add(slot)
        C = len(self._base.classes)
        for base, tail in self._finders.values():
            base.remove(slot) if slot < C else tail.remove(slot - C)

    def _place(self, label: Hashable) -> int | None:
        """Return the class of the gallery with this label, unless it was removed or has changed."""
        classes: list[Any] = self._base.classes
        if self._type is None or type(label) is not self._type:
            return None
        c = bisect_left(classes, label)
        return c if c < len(classes) and classes[c] == label and c not in self._gone else None

    def _surroundings(self) -> Surroundings:
        if self._around is None:
            base = self._base
            rows = np.concatenate([base.members_in_order(c) for c in evenly_spaced(len(base.classes)).tolist()])
            self._verify("embeddings", rows)
            _, index = np.unique(base.index[rows], return_inverse=True)
            trust = np.ones(len(rows)) if base.trust is None else base.trust[rows]
            self._around = base.weighing.surroundings(base.embedded[rows], index, trust)
        return self._around

    def view(self, metric: Metric, search: SearchParameter) -> View:
        """Return the classes as they are now, to search among them."""
        with self._lock:
            finder, tail = self._finder(metric, search)
            base = self._base
            return View(self.way, self.most_shot, base.classes, base.shots, self._added, finder, tail, self._lock)

    def stored(self, metric: Metric, search: SearchParameter) -> Index | None:
        """Return the index of the classes with all changes, to save it, or None if none is used."""
        with self._lock:
            C = len(self.examples.classes)
            if search == "exact" or (search == "auto" and (C <= MANY or not has_faiss())):
                return None
            finder = self._finder(metric, search)[0]
            return finder.index if isinstance(finder, FaissSearch) else None

    def _finder(self, metric: Metric, search: SearchParameter) -> tuple[Finder, ExactSearch]:
        key = metric, search
        if key not in self._finders:
            distance, in_distance = metric
            p, s = self._base.prototypes
            finder = make_finder(distance, p, s if in_distance else None, search, self._index, self._verify)
            tail = ExactSearch(distance, p[:0], s[:0] if in_distance and s is not None else None, finder.expansion)
            for slot in sorted(self._gone):
                if slot < len(p):
                    finder.remove(slot)
            for label, _ in self._added:
                one = self._changed.get(label)
                self._append(tail, one.prototype if one else Embedded(p[:1], None if s is None else s[:1]))
            for slot in self._gone:
                if slot >= len(p):
                    tail.remove(slot - len(p))
            self._finders[key] = finder, tail
        return self._finders[key]

    def _append(self, tail: ExactSearch, prototype: Embedded[np.ndarray]) -> None:
        tail.add(prototype.x, None if tail.s is None else prototype.s)

    def _join(self) -> None:
        """Put the changes into the gallery."""
        base, C = self._base, len(self._base.classes)
        ordered = sorted(self._changed.items())
        live = [one for _, one in ordered]
        kept = np.ones(C, dtype=bool)
        kept[[slot for slot in self._gone if slot < C]] = False
        stay = kept.copy()  # classes whose examples stay
        stay[[one.base for one in live if one.base is not None]] = True
        (old,) = np.nonzero(kept)
        every = [*(base.classes[c] for c in old.tolist()), *(label for label, _ in ordered)]
        rank = np.array(sorted(range(len(every)), key=every.__getitem__), dtype=int)  # type: ignore[arg-type]
        place = np.empty(len(every), dtype=int)
        place[rank] = np.arange(len(every))
        of_old = np.full(C, -1)
        of_old[old] = place[: len(old)]
        for j, one in enumerate(live):
            if one.base is not None:
                of_old[one.base] = place[len(old) + j]
        (rows,) = np.nonzero(stay[base.index])
        when = np.array([t for one in live for t in one.order], dtype=int).argsort(kind="stable")
        index = np.repeat(place[len(old) :], [len(one.names) for one in live])[when]
        more = Embedded.join([base.embedded[:0], *(one.more for one in live)], np.concatenate)[when]
        names = [name for one in live for name in one.names]
        trust, blank = base.trust, base.blank
        if trust is not None:
            trust = trust.copy()
            for one in live:
                assert one.trust is not None
                trust[one.rows] = one.trust[: len(one.rows)]
            new = [np.empty(0), *(one.trust[len(one.rows) :] for one in live if one.trust is not None)]
            trust = np.concatenate([trust[rows], np.concatenate(new)[when]])
        if blank is not None:
            parts = [one.blank for one in live]
            known = [part for part in parts if part is not None]
            blank = None if len(known) < len(parts) else np.concatenate([blank[rows], _joined(known)[when]])
        old_slots = np.concatenate([old, np.array([one.slot for one in live], dtype=int)])[rank]
        prototypes = Embedded.join([base.prototypes[old], *(one.prototype for one in live)], np.concatenate)[rank]
        finders, self._finders = self._finders, {}
        self._base = Examples(
            Embedded.join([base.embedded[rows], more], np.concatenate),
            [*(base.names[i] for i in rows.tolist()), *(names[i] for i in when.tolist())],
            [every[i] for i in rank.tolist()],
            np.concatenate([of_old[base.index[rows]], index]),
            prototypes,
            base.weighing,
            trust,
            blank,
        )
        self._check = None  # everything was verified and read
        self._index = None
        for key, (finder, _) in finders.items():
            if isinstance(finder, FaissSearch):
                p, s = self._base.prototypes
                finder = finder.regrouped(old_slots, C, p, s)
                empty = None if finder.s is None else finder.s[:0]
                self._finders[key] = finder, ExactSearch(key[0][0], p[:0], empty, finder.expansion)
        self._start()

    def _verify(self, name: str | None, rows: np.ndarray | None = None) -> None:
        """Raise InputError if a mapped file is damaged, there where it is read."""
        if self._check is not None:
            self._check(name or "", rows)


def _type_of_sorted(classes: list[Any]) -> type | None:
    """Return the type of labels, or None unless all have one, by which they are in order."""
    types = {type(label) for label in classes}
    ordered = len(types) == 1 and types <= set(SORTED) and all(map(lt, classes, islice(classes, 1, None)))
    return types.pop() if ordered else None


def _joined(parts: Iterable[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype=bool), *parts])
