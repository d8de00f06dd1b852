"""The classes of a gallery at one moment, to search among them while other threads change the gallery."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any

import numpy as np

from gaussproto.classifier.search import Finder
from gaussproto.formulas.nearest import ExactSearch, Nearest


@dataclass(frozen=True, eq=False)
class View:
    """What a query needs. Later changes add slots and remove classes, but no slot gets another class.

    Attributes:
        way: the number of classes.
        most_shot: at least the number of examples of the largest class.
        classes: the labels of the first slots, in order.
        shots: (C,) the number of their examples.
        added: the label and the number of examples of each further slot.
        finder: the search among the first slots.
        tail: the search among the further ones.
        lock: held while the classes are changed.
    """

    way: int
    most_shot: int
    classes: list[Any]
    shots: np.ndarray
    added: Sequence[tuple[Hashable, int]]
    finder: Finder
    tail: ExactSearch
    lock: RLock

    def nearest(self, x: np.ndarray, k: int) -> Nearest:
        """Return the slots of the k nearest classes of the queries x (N, D), and their exact distances."""
        found = self.finder(x, k)
        if not self.added:
            return found
        with self.lock:
            more = self.tail(x, k)
        slots = np.where(more.classes < 0, -1, more.classes + len(self.classes))
        return self._merged(Nearest(slots, more.distances), found, k)

    def _merged(self, a: Nearest, b: Nearest, k: int) -> Nearest:
        """Return the k nearest of both. Of equally near classes, the first in the order of their labels comes first."""
        slots, d = np.concatenate([a.classes, b.classes], axis=1), np.concatenate([a.distances, b.distances], axis=1)
        place = slots.astype(np.float64)
        ordered = np.sort(d, axis=1)
        tied = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
        C = len(self.classes)
        for i in tied.tolist():
            place[i] = [
                s if s < C else bisect_left(self.classes, self.added[s - C][0]) - 0.5 for s in slots[i].tolist()
            ]
        order = np.lexsort([place, d])[:, :k]
        return Nearest(np.take_along_axis(slots, order, axis=1), np.take_along_axis(d, order, axis=1))

    def labels_at(self, slots: np.ndarray) -> list[Hashable]:
        C = len(self.classes)
        return [self.classes[slot] if slot < C else self.added[slot - C][0] for slot in slots.tolist()]

    def shots_at(self, slots: np.ndarray) -> np.ndarray:
        """Return the number of examples of the classes in these slots, in the same shape."""
        C, flat = len(self.classes), slots.ravel()
        shots = self.shots[np.minimum(flat, C - 1)]
        for i in np.flatnonzero(flat >= C).tolist():
            shots[i] = self.added[flat[i] - C][1]
        return np.asarray(shots.reshape(slots.shape))
