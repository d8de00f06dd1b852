"""The examples of a classifier and the prototypes computed from them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gaussproto.data.labels import classes_of
from gaussproto.errors import InputError, did_you_mean
from gaussproto.formulas.confidence import left_out_distances, low_precision
from gaussproto.formulas.embedded import Embedded
from gaussproto.formulas.prototype import class_prototypes, support_shares

SAME = 1e-4  # relative difference below which two embeddings belong to the same image, up to rounding


@dataclass(frozen=True, eq=False)
class Examples:
    """Labelled embeddings and the prototypes computed from them. Adding or removing examples makes a new object."""

    embedded: Embedded[np.ndarray]  # (N, D), (N, E)
    labels: list[Hashable]  # (N,)
    names: list[str]  # (N,) the file of each example, or ""
    classes: list[Hashable]  # (C,) each label once
    index: np.ndarray  # (N,) the class of each example
    prototypes: Embedded[np.ndarray]  # (C, D), (C, E)
    weights: np.ndarray  # (N,) the share of each example in its prototype
    uniform: bool = False  # whether all examples of a class count the same, whatever their precision
    _left_out: dict[tuple[str, bool], np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(
        cls, embedded: Embedded[np.ndarray], labels: Sequence[Hashable], names: Sequence[str], uniform: bool = False
    ) -> Examples:
        classes = classes_of(labels)
        if len(classes) < 2:
            raise InputError(
                f"a classifier needs at least two classes (found only one class, {classes[0]!r}): add another one"
            )
        position = {label: c for c, label in enumerate(classes)}
        index = np.array([position[label] for label in labels])
        x, s = _counted(embedded, uniform).map(lambda t: t.astype(np.float64))
        p, s_class = class_prototypes(x, s, index, len(classes))
        if not np.isfinite(p).all():
            raise InputError("the mean of the embeddings overflows: the input values are too large; rescale them")
        shares = support_shares(s, s_class, index)
        return cls(embedded, list(labels), list(names), classes, index, Embedded(p, s_class), shares, uniform)

    def with_more(self, embedded: Embedded[np.ndarray], labels: Sequence[Hashable], names: Sequence[str]) -> Examples:
        both = Embedded.join([self.embedded, embedded], np.concatenate)
        return Examples.of(both, [*self.labels, *labels], [*self.names, *names], self.uniform)

    def without(self, label: Hashable) -> Examples:
        if label not in self.classes:
            hint = did_you_mean(label, self.classes, f"choose one of the {len(self.classes)} classes in classes_")
            raise InputError(f"unknown class {label!r}: {hint}")
        keep = np.flatnonzero(self.index != self.classes.index(label)).tolist()
        labels, names = [self.labels[i] for i in keep], [self.names[i] for i in keep]
        return Examples.of(self.embedded[keep], labels, names, self.uniform)

    @property
    def shots(self) -> np.ndarray:
        """(C,) the number of examples of each class."""
        return np.bincount(self.index)

    def members(self, c: int) -> np.ndarray:
        """Return the indices of the examples of a class, the one with the highest weight first."""
        members = np.flatnonzero(self.index == c)
        return members[np.argsort(-self.weights[members], kind="stable")]

    def left_out(self, distance: str, in_distance: bool) -> np.ndarray:
        """Return the `left_out_distances` of the examples, sorted. They are computed once."""
        metric = distance, in_distance
        if metric not in self._left_out:
            counted = _counted(self.embedded, self.uniform)
            self._left_out[metric] = np.sort(left_out_distances(counted, self.index, *metric, self.low_precision))
        return self._left_out[metric]

    @cached_property
    def low_precision(self) -> float | None:
        """The precision below which an image counts as farther away. None if all examples count the same."""
        return low_precision(_counted(self.embedded, self.uniform), self.index)


def _counted(embedded: Embedded[np.ndarray], uniform: bool) -> Embedded[np.ndarray]:
    return Embedded(embedded.x) if uniform else embedded


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
