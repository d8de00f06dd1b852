"""Ask a classifier for the class of each of its own examples, as if that example had never been shown to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from gaussproto.classifier.confidence import PAIRS
from gaussproto.classifier.examples import Examples
from gaussproto.errors import InputError
from gaussproto.formulas.confidence import probabilities
from gaussproto.formulas.distance import find_distance
from gaussproto.formulas.embedded import Embedded
from gaussproto.formulas.left_out import left_out_medians, left_out_prototypes, medians

ROWS = 1 << 15  # examples of a block, at most


class Metric(NamedTuple):
    """How a classifier measures distances, and turns them into probabilities."""

    distance: str
    in_distance: bool  # whether the precision of the class is part of the distance
    temperature: float  # of a classifier with one example fewer


class LeftOut(NamedTuple):
    """The answers for N examples, each left out in turn. For an example that is alone in its class, they are of others.

    Attributes:
        answer: (N,) the class that the classifier gives the example.
        probability: (N,) the probability of this class.
        own_probability: (N,) the probability of the class that the example is in.
        looks_like: (N,) the nearest other class, measured from the medians of the classes.
        its_probability: (N,) the probability of that class.
        margin: (N,) how much nearer that class is than the example's own, in units of the usual distance of an example
            from its own class. NaN for an example that is alone.
        unit: the usual distance of an example from the median of the others of its class.
    """

    answer: np.ndarray
    probability: np.ndarray
    own_probability: np.ndarray
    looks_like: np.ndarray
    its_probability: np.ndarray
    margin: np.ndarray
    unit: float


def left_out_answers(examples: Examples, metric: Metric) -> LeftOut:
    """Answer with each example left out of its class.

    `answer` and `probability` are those of a classifier fitted without the example. They are exact for
    `prototype="mean"`. Other rules keep the trust in the remaining examples, which the fit would change a little.
    `looks_like` and `margin` come from geometric medians instead of prototypes: wrong examples pull a mean towards
    them, and a median hardly.
    """
    N, index = len(examples.labels), examples.index
    answer, near = np.empty(N, dtype=int), np.empty(N, dtype=int)
    probability, own_probability, its_probability = np.empty(N), np.empty(N), np.empty(N)
    own_distance, margin = np.empty(N), np.empty(N)
    blocks = left_out_distances(examples, metric), left_out_distances(examples, metric, robust=True)
    for (some, d), (_, robust) in zip(*blocks, strict=True):
        rows = np.arange(len(d))
        own = rows, index[some]
        own_distance[some], robust[own] = robust[own], np.inf
        near[some] = robust.argmin(axis=1)
        margin[some] = own_distance[some] - robust.min(axis=1)
        p = probabilities(d, metric.temperature)
        answer[some], probability[some] = d.argmin(axis=1), p.max(axis=1)
        own_probability[some], its_probability[some] = p[own], p[rows, near[some]]
    alone = (examples.shots == 1)[index]
    margin[alone] = np.nan
    usual = float(np.median(own_distance[~alone])) if not alone.all() else 1.0
    tiny = float(np.finfo(np.float64).tiny)
    return LeftOut(answer, probability, own_probability, near, its_probability, margin / max(usual, tiny), usual)


def left_out_distances(examples: Examples, metric: Metric, robust: bool = False) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield blocks of examples and their distances to all classes (n, C), where the own class is without the example.

    With `robust`, classes are represented by their geometric medians instead of their prototypes. For an example that
    is alone, its own class is infinitely far.
    """
    x, index = examples.embedded.x.astype(np.float64), examples.index
    others = left_out_prototypes(examples.counted, index)
    p, s_class = examples.prototypes
    own = others.x
    if robust:
        p = medians(examples.embedded.x, index, len(examples.classes))
        own = left_out_medians(examples.embedded.x, index, p)
    s_class, own_s = (s_class, others.s) if metric.in_distance else (None, None)
    alone = (examples.shots == 1)[index]
    measure: Callable[..., np.ndarray] = find_distance(metric.distance).value
    for start in range(0, len(x), block := max(1, min(ROWS, PAIRS // len(p)))):
        some = slice(start, start + block)
        there = ~alone[some]
        with np.errstate(all="ignore"):
            d = measure(x[some], p, s_class)
            rest = Embedded(own[some][there], None if own_s is None else own_s[some][there])
            left = measure(x[some][there][:, None], *rest.map(lambda t: t[:, None]))[:, 0, 0]
        d[np.flatnonzero(there), index[some][there]] = left
        if not np.isfinite(d).all():
            raise InputError("distances overflow: the input values are too large; rescale them")
        d[np.flatnonzero(~there), index[some][~there]] = np.inf
        yield some, d
