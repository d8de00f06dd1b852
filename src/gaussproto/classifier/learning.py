"""Would more examples help? The accuracy of a classifier with fewer examples than it has."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from gaussproto.classifier.confidence import nearest_classes
from gaussproto.classifier.examples import Examples
from gaussproto.classifier.left_out import Metric
from gaussproto.formulas.distance import find_distance
from gaussproto.formulas.interval import Z

MOST = 10  # examples of a class
ROUNDS = 10  # random choices of the examples
QUERIES = 2000  # of a round, at most
DISTANCES = 100_000_000  # in all rounds together, about
GAIN = 0.01  # of the accuracy: less is not worth the work


class Learning(NamedTuple):
    """The accuracy with 1 to m examples of each class, of the same images in all of them.

    Attributes:
        accuracy: (m,) the share of right answers with 1, 2, ..., m examples of each class.
        images: the number of different images that were classified.
        start: the number of examples that `gain` starts from, about m / 2.
        gain: what the accuracy gained from `start` to m examples.
        interval: the 95 % interval of the gain.
        helps: whether more examples would help. None if that is not clear.
        suspicious: the number of blank, copied and probably wrong examples among them.
    """

    accuracy: list[float]
    images: int
    start: int
    gain: float
    interval: tuple[float, float]
    helps: bool | None
    suspicious: int = 0

    def text(self) -> str:
        """Say in plain words whether more examples would help."""
        m = len(self.accuracy)
        if m == 1:
            return "It takes three examples of most classes to tell whether more would help."
        before, after = (f"{100 * self.accuracy[k - 1]:.1f} %" for k in (self.start, m))
        change = f"{100 * self.gain:+.1f} points ({100 * self.interval[0]:+.1f} to {100 * self.interval[1]:+.1f})"
        few = f"{self.start} example{'s' * (self.start > 1)} of each class"
        evidence = f"with {few} the accuracy is {before}, with {m} it is {after}: {change}"
        if self.accuracy[-1] > 1 - GAIN / 2:
            return f"There is hardly any room for improvement: with {m} of each class, the accuracy is {after}."
        mistakes = (1 - self.accuracy[-1]) * self.images
        if self.helps is not False and self.suspicious > mistakes / 2:
            return f"Repair the suspicious examples first, because wrong ones look like a lack of examples: {evidence}."
        if self.helps is None:
            return f"It is not clear whether more examples would help: {evidence}."
        if self.helps:
            return f"More examples would probably help: {evidence}."
        return f"More examples like these would hardly help: {evidence}."


def learning_curve(examples: Examples, metric: Metric, suspicious: int = 0) -> Learning | None:
    """Return the accuracy with 1 to m examples of each class. m is one less than most classes have, but at most 10.

    Each round draws the examples at random, and classifies others of the classes that have more than m. A class with
    fewer keeps all. Return None if most classes have only one example.
    """
    index, shots, C = examples.index, examples.shots, len(examples.classes)
    m = min(MOST, int(np.median(shots)) - 1)
    if m < 1:
        return None
    rng = np.random.default_rng(0)
    right, asked = np.zeros((m, len(index))), np.zeros(len(index))
    total = min(QUERIES, int((shots[shots > m] - m).sum()))
    for _ in range(max(1, min(ROUNDS, DISTANCES // (m * total * C)))):
        place = _random_places(index, rng)
        (queries,) = np.nonzero((place >= m) & (shots[index] > m))
        queries = rng.permutation(queries)[:total]
        asked[queries] += 1
        x = examples.embedded.x[queries].astype(np.float64)
        for k in range(1, m + 1):
            p, s_class = examples.only(place < k).prototypes
            s_class = s_class if metric.in_distance else None
            measure = partial(find_distance(metric.distance).value, p=p, s=s_class)
            answers, _ = nearest_classes(measure, x, C, None, np.ones(len(x)), metric.distance)
            right[k - 1, queries] += answers == index[queries]
    used = asked > 0
    shares = right[:, used] / asked[used]
    accuracy, n, start = shares.mean(axis=1), int(used.sum()), max(1, m // 2)
    change = shares[m - 1] - shares[start - 1]
    half = Z * math.sqrt(float((change**2).sum()) + 1) / n  # as if one more image had changed: never empty
    gain = float(change.mean())
    low, high = gain - half, gain + half
    helps = None if m == 1 else True if low > 0 and gain >= GAIN else False if high < GAIN else None
    return Learning(accuracy.tolist(), n, start, gain, (low, high), helps, suspicious)


def _random_places(index: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the place of each example in a random order of its class, (N,)."""
    order = np.lexsort([rng.random(len(index)), index])
    counts = np.bincount(index)
    starts = np.cumsum(counts) - counts
    place = np.empty(len(index), dtype=int)
    place[order] = np.arange(len(index)) - np.repeat(starts, counts)
    return place
