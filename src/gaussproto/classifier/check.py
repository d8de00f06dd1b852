"""Check the examples of a classifier: how good it is, and which examples are probably wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from gaussproto.classifier.confidence import temperature_of
from gaussproto.classifier.duplicates import find_copies
from gaussproto.classifier.encoders.card import Encoder
from gaussproto.classifier.examples import Examples
from gaussproto.classifier.inputs import read_images
from gaussproto.classifier.learning import Learning, learning_curve
from gaussproto.classifier.left_out import LeftOut, Metric, left_out_answers
from gaussproto.errors import InputError
from gaussproto.formulas.interval import wilson_interval

Reason = Literal["unreadable", "blank", "duplicate", "looks like", "poor image", "alone"]

PLACES = ["blank", "duplicate", "looks like", "poor image", "alone", None]  # of reasons that are equally suspicious
# Chosen on alphabets that the network was not trained on, and on invented ones.
SUSPICIOUS = 0.5  # suspicion of an example that is listed
MARGIN, STEEP = 0.25, 12.0  # the margin at which an example is suspicious, and how fast the suspicion grows with it
POOR, STEEP_POOR = 0.4, 4.0  # the same for the precision relative to what is usual
POOR_BUT_RIGHT = 0.25  # if the others give the example its class: a thin pen lowers the precision to this at most


@dataclass(frozen=True)
class CheckedExample:
    """What a check says about one example.

    Attributes:
        index: the place of the example, as in `example_names_`.
        name: its file, or "".
        label: the class that it is in.
        reason: why it is suspicious, or None: `blank` (no ink was found), `duplicate` (of another example),
            `looks like` (another class), `poor image` (its precision is far below the usual, and very far if the others
            give it its class) or `alone` (in its class, so that it cannot be checked).
        suspicion: from 0 to 1. Examples from 0.5 on are suspicious.
        looks_like: the class that it is most like, apart from its own.
        probability: of that class, from a classifier without this example.
        margin: how much nearer it is to that class than to its own without it, in units of the usual distance of an
            example from its own class. NaN if it is alone.
        answer: the label that a classifier without this example gives it.
        precision: relative to what is usual in its class and in all of them. None if the encoder predicts none.
        copy: the index of an example that shows the same image, or None.
    """

    index: int
    name: str
    label: Hashable
    reason: Reason | None
    suspicion: float
    looks_like: Hashable
    probability: float
    margin: float
    answer: Hashable
    precision: float | None = None
    copy: int | None = None


class ConfusedPair(NamedTuple):
    """Two classes, and how many of their examples were taken for the other class, of how many."""

    classes: tuple[Hashable, Hashable]
    mistaken: tuple[int, int]
    examples: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Check:
    """What a check says about the examples of a classifier.

    Attributes:
        examples: all examples, the most suspicious first.
        accuracy: the share of examples that a classifier without them gives their own label. None if there are none
            to ask for.
        interval: the 95 % interval of the accuracy (Wilson).
        scored: the number of examples in the accuracy. Those that are alone in their class, or have a copy in it, are
            left out.
        classes: the number of classes.
        confused: the pairs of classes that are taken for each other most often.
        learning: the accuracy with fewer examples. None if most classes have only one.
        suspicion: (N,) the suspicion of each example, in the order of `example_names_`.
    """

    examples: list[CheckedExample]
    accuracy: float | None
    interval: tuple[float, float] | None
    scored: int
    classes: int
    confused: list[ConfusedPair]
    learning: Learning | None
    suspicion: np.ndarray

    @property
    def suspicious(self) -> list[CheckedExample]:
        """The examples that something is probably wrong with, the most suspicious first."""
        return [example for example in self.examples if example.reason is not None]

    def __repr__(self) -> str:
        score = "no accuracy" if self.accuracy is None else f"accuracy {100 * self.accuracy:.1f} %"
        return f"Check({len(self.suspicious)} of {len(self.examples)} examples are suspicious, {score})"


def check_examples(
    examples: Examples, encoder: Encoder, temperature: float | None, distance: str, in_distance: bool
) -> Check:
    """Check examples. See `GaussianPrototypeClassifier.check`."""
    shots, index = examples.shots, examples.index
    fewer = np.ones(len(index), dtype=bool)
    if shots.max() > 1:
        fewer[np.flatnonzero(shots[index] > 1)[0]] = False
    kind = distance, in_distance
    metric = Metric(*kind, temperature_of(encoder, temperature, examples.only(fewer).shots.mean(), *kind))
    left_out = left_out_answers(examples, metric)
    files = [name if name and Path(name).is_file() else "" for name in examples.names]
    copies = find_copies(examples.embedded.x, files)
    blank = _blank(examples, encoder, files)
    scored = (shots > 1)[index]
    for group in copies:
        same = np.bincount(index[group])[index[group]] > 1
        scored[group[same]] = False
    right, total = int((left_out.answer == index)[scored].sum()), int(scored.sum())
    rows = list(_judged(examples, left_out, copies, blank))
    suspicion = np.array([row.suspicion for row in rows])
    place = np.array([PLACES.index(row.reason) for row in rows])
    order = np.lexsort([-np.nan_to_num(left_out.margin, nan=-np.inf), place, -suspicion])
    return Check(
        [rows[i] for i in order],
        right / total if total else None,
        wilson_interval(right, total) if total else None,
        total,
        len(shots),
        _confused(examples, left_out.answer, scored),
        learning_curve(examples, metric, sum(row.reason not in (None, "alone", "poor image") for row in rows)),
        suspicion,
    )


def _judged(
    examples: Examples, left_out: LeftOut, copies: list[np.ndarray], blank: np.ndarray
) -> Iterator[CheckedExample]:
    """Yield a row for each example, with the reason of the highest suspicion."""
    index, classes = examples.index, examples.classes
    alone = (examples.shots == 1)[index]
    margin = np.where(alone, -np.inf, left_out.margin)
    precision = relative_precision(examples)
    wrong = _sigmoid(STEEP * (margin - MARGIN))
    sure = (left_out.answer == index) & (left_out.own_probability >= 0.5)
    poor = np.zeros(len(index))
    if precision is not None:
        poor = _sigmoid(STEEP_POOR * (np.log(np.where(sure, POOR_BUT_RIGHT, POOR)) - np.log(precision)))
    duplicate, copy, home = np.zeros(len(index)), np.full(len(index), -1), left_out.looks_like.copy()
    for group in copies:
        kept = group[np.argmin(left_out.margin[group])] if not alone[group].any() else group[0]
        across = index[group] != index[kept]
        duplicate[group[across]], copy[group], home[group[across]] = 1.0, kept, index[kept]
        duplicate[group[~across]] = SUSPICIOUS
        if across.any():
            copy[kept] = group[across][0]
        else:
            duplicate[kept], copy[kept] = 0.0, group[group != kept][0]
    for i in range(len(index)):
        found: list[tuple[float, Reason]] = [
            (float(blank[i]), "blank"),
            (float(duplicate[i]), "duplicate"),
            (float(wrong[i]), "looks like"),
            (float(poor[i]), "poor image"),
            (SUSPICIOUS * float(alone[i]), "alone"),
        ]
        suspicion, reason = max(found, key=lambda one: one[0])  # the first of equals
        yield CheckedExample(
            i,
            examples.names[i],
            examples.labels[i],
            reason if suspicion >= SUSPICIOUS else None,
            suspicion,
            classes[home[i]],
            float(left_out.its_probability[i]),
            float(left_out.margin[i]),
            classes[left_out.answer[i]],
            None if precision is None else float(precision[i]),
            int(copy[i]) if copy[i] >= 0 else None,
        )


def relative_precision(examples: Examples) -> np.ndarray | None:
    """Return the precision of each example (N,), relative to the median of the others of its class.

    If the median of all examples is higher, it counts instead, because all examples of a class may be poor.
    """
    s, index = examples.embedded.s, examples.index
    if s is None:
        return None
    size = np.log(s.mean(axis=1) if s.ndim == 2 else s.trace(axis1=1, axis2=2) / s.shape[1])
    usual = np.maximum(np.median(size), _median_of_others(size, index))
    return np.asarray(np.exp(size - usual))


def _median_of_others(t: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return for each number (N,) the median of the others of its class, or minus infinity if it is alone.

    >>> _median_of_others(np.array([1.0, 5.0, 3.0, 7.0]), np.array([0, 0, 0, 1])).tolist()
    [4.0, 2.0, 3.0, -inf]
    """
    order = np.lexsort([t, index])
    counts = np.bincount(index)
    K, start = np.repeat(counts, counts), np.repeat(np.cumsum(counts) - counts, counts)
    place = np.arange(len(t)) - start  # of each in its class, sorted

    def other(n: np.ndarray) -> np.ndarray:
        """Return the n-th of the others."""
        return np.asarray(t[order][start + np.minimum(n + (n >= place), K - 1)])

    middle = np.where(K > 1, (other((K - 2) // 2) + other((K - 1) // 2)) / 2, -np.inf)
    result = np.empty(len(t))
    result[order] = middle
    return result


def _blank(examples: Examples, encoder: Encoder, files: list[str]) -> np.ndarray:
    """Return whether no ink was found in each image. A gallery does not store it, so its files are read again."""
    if examples.blank is not None:
        return examples.blank
    blank = np.zeros(len(files), dtype=bool)
    if not encoder.takes_vectors and encoder.prepare == "ink":
        for i, file in enumerate(files):
            try:
                blank[i] = bool(file) and bool(read_images([file], [file], encoder.look).blank[0])
            except InputError:  # the file was replaced since
                continue
    return blank


def _confused(examples: Examples, answer: np.ndarray, scored: np.ndarray, most: int = 8) -> list[ConfusedPair]:
    index, classes = examples.index, examples.classes
    asked = np.bincount(index[scored], minlength=len(classes))
    wrong = scored & (answer != index)
    mistaken = Counter(zip(index[wrong].tolist(), answer[wrong].tolist(), strict=True))
    pairs = {(min(pair), max(pair)) for pair in mistaken}
    ranked = sorted(pairs, key=lambda pair: (-mistaken[pair] - mistaken[pair[::-1]], pair))
    return [
        ConfusedPair((classes[a], classes[b]), (mistaken[a, b], mistaken[b, a]), (int(asked[a]), int(asked[b])))
        for a, b in ranked[:most]
    ]


def _sigmoid(t: np.ndarray) -> np.ndarray:
    from scipy.special import expit

    return np.asarray(expit(t))
