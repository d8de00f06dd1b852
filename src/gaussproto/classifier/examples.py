"""The examples of a classifier and the prototypes computed from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gaussproto.data.labels import classes_of
from gaussproto.errors import InputError, did_you_mean
from gaussproto.formulas.agreement import LEAST, MAJORITY, Surroundings, surroundings_of
from gaussproto.formulas.confidence import is_good, left_out_distances, low_precision
from gaussproto.formulas.embedded import Embedded
from gaussproto.formulas.prototype import Supports, class_prototypes, support_shares, trusted
from gaussproto.formulas.trust import PrototypeParameter, PrototypeRule, support_trust, trust_of_one

SHARED = 2_000_000  # pairs of an example and a class, at most, that `sharing` takes: a second or two and 200 MB
SAME = 1e-4  # relative difference below which two embeddings belong to the same image, up to rounding


@dataclass(frozen=True)
class Weighing:
    """What an example counts in the prototype of its class."""

    uniform: bool = False  # whether the precision is ignored
    prototype: PrototypeParameter = "mean"
    distance: str = "euclidean"  # between examples and classes
    in_distance: bool = False  # whether the precision of a class is part of the distance

    def rule(self, s: np.ndarray | None) -> PrototypeRule:
        """Return the rule for examples with these precisions, or None. Only a precision tells poor from wrong ones."""
        if self.prototype == "auto":
            return "mean" if s is None else "agreement"
        return self.prototype

    def __call__(
        self, embedded: Embedded[np.ndarray], index: np.ndarray, way: int, blank: np.ndarray | None = None
    ) -> Weighed:
        """Weigh the examples of `way` classes. `index` is the class of each, `blank` whether it has no ink."""
        x, s = self._measured(embedded)
        rule, trust, share = self.rule(embedded.s), None, None
        if rule == "sharing" and len(x) * way > SHARED:
            rule = "agreement"
        if rule != "mean":
            trust = np.ones(len(x))
            inked = np.ones(len(x), dtype=bool) if blank is None else ~blank
            if inked.any():  # blank ones say nothing about others
                some, (present, classes) = Embedded(x, s)[inked], np.unique(index[inked], return_inverse=True)
                with np.errstate(all="ignore"):  # the result is checked below
                    found = support_trust(
                        rule, some.x, some.s, classes, distance=self.distance, in_distance=self._metric(s)
                    )
                trust[inked] = found if found.ndim == 1 else found[np.arange(len(classes)), classes]
                trust[~inked & np.isin(index, index[inked])] = LEAST
                if found.ndim == 2:
                    share = trust[:, None] * (index[:, None] == np.arange(way))
                    share[np.ix_(inked, present)] = found
        return self._weighed(x, s, index, way, trust, share)

    def one_class(self, embedded: Embedded[np.ndarray], around: Callable[[], Surroundings]) -> Weighed:
        """Weigh the examples of a class that joins many others, its surroundings, which stay as they are."""
        x, s = self._measured(embedded)
        rule, trust = self.rule(embedded.s), None
        if rule != "mean":
            trust = np.ones(len(x))
            if len(x) >= MAJORITY:
                with np.errstate(all="ignore"):
                    trust = trust_of_one(rule, x, s, around, self.distance, self._metric(s))
        return self._weighed(x, s, np.zeros(len(x), dtype=int), 1, trust)

    def surroundings(self, embedded: Embedded[np.ndarray], index: np.ndarray, trust: np.ndarray) -> Surroundings:
        """Return what a new class is compared with, from the examples of some classes."""
        x, s = self._measured(embedded)
        return surroundings_of(x, s, index, trust, self.distance, self._metric(s))

    def counted(self, embedded: Embedded[np.ndarray], trust: np.ndarray | None) -> Embedded[np.ndarray]:
        """Return the examples with their precisions times how much they are trusted, as they count in prototypes."""
        x, s = self._measured(embedded)
        return Embedded(x, s if trust is None else trusted(np.ones((len(x), 1)) if s is None else s, trust, x))

    def shares(
        self, embedded: Embedded[np.ndarray], trust: np.ndarray | None, s_class: np.ndarray | None, index: np.ndarray
    ) -> np.ndarray:
        """Return the share of each example in its prototype, (N,)."""
        _, s = self._measured(Embedded(embedded.x[:0], embedded.s))
        if trust is None:
            return support_shares(s, s_class, index)
        if s is None:
            return np.asarray(trust / np.bincount(index, trust)[index])
        if self.prototype == "sharing":  # among the examples of the class itself
            s_class = Supports(embedded.x, index).total(trusted(s, trust, embedded.x))
        return support_shares(trusted(s, trust, embedded.x), s_class, index)

    def _measured(self, embedded: Embedded[np.ndarray]) -> tuple[np.ndarray, np.ndarray | None]:
        x, s = embedded.map(lambda t: t.astype(np.float64))
        return x, None if self.uniform else s

    def _metric(self, s: np.ndarray | None) -> bool:
        return self.in_distance and s is not None

    def _weighed(
        self, x: np.ndarray, s: np.ndarray | None, index: np.ndarray, way: int, trust: np.ndarray | None,
        share: np.ndarray | None = None,
    ) -> Weighed:  # fmt: skip
        with np.errstate(all="ignore"):
            p, s_class = class_prototypes(x, s, index, way, trust if share is None else share)
        if not np.isfinite(p).all():
            raise InputError("the mean of the embeddings overflows: the input values are too large; rescale them")
        return Weighed(Embedded(p, s_class), trust)


MEANS = Weighing()


class Weighed(NamedTuple):
    """The prototypes of C classes, and how much their N examples are trusted."""

    prototypes: Embedded[np.ndarray]  # (C, D), (C, E)
    trust: np.ndarray | None  # (N,) or None if all are trusted alike


@dataclass(frozen=True, eq=False)
class Examples:
    """Labelled embeddings and the prototypes computed from them. Adding or removing examples makes a new object."""

    embedded: Embedded[np.ndarray]  # (N, D), (N, E)
    names: list[str]  # (N,) the file of each example, or ""
    classes: list[Hashable]  # (C,) each label once
    index: np.ndarray  # (N,) the class of each example
    prototypes: Embedded[np.ndarray]  # (C, D), (C, E)
    weighing: Weighing
    trust: np.ndarray | None = None  # (N,) in each example, or None if all are trusted alike
    blank: np.ndarray | None = None  # (N,) whether no ink was found in the image; None if it is not known
    _left_out: dict[tuple[str, bool], np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(
        cls, embedded: Embedded[np.ndarray], labels: Sequence[Hashable], names: Sequence[str],
        weighing: Weighing = MEANS,
        blank: np.ndarray | None = None,
    ) -> Examples:  # fmt: skip
        classes = classes_of(labels)
        check_two(classes)
        position = {label: c for c, label in enumerate(classes)}
        index = np.array([position[label] for label in labels])
        prototypes, trust = weighing(embedded, index, len(classes), blank)
        return cls(embedded, list(names), classes, index, prototypes, weighing, trust, blank)

    @cached_property
    def labels(self) -> list[Hashable]:
        """(N,)"""
        return [self.classes[c] for c in self.index.tolist()]

    @cached_property
    def counted(self) -> Embedded[np.ndarray]:
        """(N, D), (N, E) as they count in the prototypes."""
        return self.weighing.counted(self.embedded, self.trust)

    @cached_property
    def weights(self) -> np.ndarray:
        """(N,) the share of each example in its prototype."""
        return self.weighing.shares(self.embedded, self.trust, self.prototypes.s, self.index)

    def with_more(
        self, embedded: Embedded[np.ndarray], labels: Sequence[Hashable], names: Sequence[str],
        blank: np.ndarray | None = None,
    ) -> Examples:  # fmt: skip
        both = Embedded.join([self.embedded, embedded], np.concatenate)
        known = None if self.blank is None or blank is None else np.concatenate([self.blank, blank])
        return Examples.of(both, [*self.labels, *labels], [*self.names, *names], self.weighing, known)

    def without(self, label: Hashable) -> Examples:
        if label not in self.classes:
            hint = did_you_mean(label, self.classes, f"choose one of the {len(self.classes)} classes in classes_")
            raise InputError(f"unknown class {label!r}: {hint}")
        return self.only(self.index != self.classes.index(label))

    def only(self, kept: np.ndarray) -> Examples:
        """Return the examples that are true in `kept` (N,)."""
        keep = np.flatnonzero(kept).tolist()
        labels, names = [self.labels[i] for i in keep], [self.names[i] for i in keep]
        blank = None if self.blank is None else self.blank[keep]
        return Examples.of(self.embedded[keep], labels, names, self.weighing, blank)

    @cached_property
    def shots(self) -> np.ndarray:
        """(C,) the number of examples of each class."""
        return np.bincount(self.index)

    @cached_property
    def _by_class(self) -> tuple[np.ndarray, np.ndarray]:
        """The examples in the order of their classes, and where each class begins."""
        return np.argsort(self.index, kind="stable"), np.append(0, np.cumsum(self.shots))

    def members_in_order(self, c: int) -> np.ndarray:
        """Return the indices of the examples of a class."""
        order, starts = self._by_class
        return order[starts[c] : starts[c + 1]]

    def members(self, c: int) -> np.ndarray:
        """Return the indices of the examples of a class, the one with the highest weight first."""
        members = self.members_in_order(c)
        return members[np.argsort(-self.weights[members], kind="stable")]

    def left_out(self, distance: str, in_distance: bool) -> np.ndarray:
        """Return the `left_out_distances` of the examples, sorted. They are computed once."""
        metric = distance, in_distance
        if metric not in self._left_out:
            known, index = self._inked(self.counted)
            self._left_out[metric] = np.sort(left_out_distances(known, index, *metric, self.low_precision))
        return self._left_out[metric]

    @cached_property
    def poor(self) -> int:
        """The number of examples that do not tell how far images usually are: poor, blank or doubtful ones."""
        known, index = self._inked(self.counted)
        good = len(index) if known.s is None else int(is_good(known.s, index).sum())
        return len(self.index) - good

    def _inked(self, embedded: Embedded[np.ndarray]) -> tuple[Embedded[np.ndarray], np.ndarray]:
        """Return the examples that are not blank, and the class of each, counted from 0."""
        if self.blank is None or not self.blank.any() or self.blank.all():
            return embedded, self.index
        return embedded[~self.blank], np.unique(self.index[~self.blank], return_inverse=True)[1]

    @cached_property
    def low_precision(self) -> float | None:
        """The precision below which an image counts as farther away. None if all examples count the same."""
        known = Embedded(self.embedded.x) if self.weighing.uniform else self.embedded
        return low_precision(*self._inked(known))


def check_two(classes: Sequence[Hashable]) -> None:
    if len(classes) < 2:
        raise InputError(
            f"a classifier needs at least two classes (found only one class, {classes[0]!r}): add another one"
        )


def not_known(
    known: np.ndarray, known_labels: Sequence[Hashable], x: np.ndarray, labels: Sequence[Hashable]
) -> list[int]:
    """Return the indices of the embeddings x that differ from all known ones with the same label, up to rounding.

    >>> not_known(np.eye(2), ["a", "b"], np.array([[1.0, 1e-9], [1.0, 0.0], [0.5, 0.5]]), ["a", "b", "a"])
    [1, 2]
    """
    members = defaultdict[str, list[int]](list)
    for i, label in enumerate(known_labels):
        members[str(label)].append(i)
    return [i for i, label in enumerate(labels) if not _is_among(known[members[str(label)]], x[i])]


def _is_among(known: np.ndarray, x: np.ndarray) -> bool:
    scale = float(np.abs(x).max()) or 1.0  # squares of large vectors would overflow
    with np.errstate(over="ignore"):
        distances = np.linalg.norm((known.astype(np.float64) - x) / scale, axis=1)
        return bool((distances <= SAME * np.linalg.norm(x / scale)).any())
