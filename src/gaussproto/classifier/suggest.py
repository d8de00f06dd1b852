"""Which images to label next: those that would teach the classifier most.

    value = (1 − (p₁ − p₂)) · min(1, s / s̃)

p₁ and p₂ are the two highest probabilities of an image, s is its precision, and s̃ the median precision of the examples.

After each choice, the values of the other images are multiplied by 1 − exp(−(d / 0.5 r)²), where d is their distance
from the chosen image and r the median distance between images. So the suggestions are uncertain, good and unlike.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gaussproto.errors import InputError
from gaussproto.formulas.confidence import precision_sizes

LEAST = 1e-3  # value of an image that the classifier is certain of, so that ties are broken by unlikeness
REACH = 0.5  # of the median distance between images: nearer ones are alike
SAMPLE = 200  # images whose distances give the median


@dataclass(frozen=True)
class Suggestion:
    """An image worth labelling.

    Attributes:
        index: its position in X.
        name: its file, or "".
        value: what it would teach when it was chosen, from 0 to 1. The first suggestion has the highest.
        label: its nearest class.
        probability: the probability of that class.
        other: the second most probable class.
    """

    index: int
    name: str
    value: float
    label: Any
    probability: float
    other: Any


def check_number(n: Any, what: str = "images to suggest") -> int:
    """Return n, or raise InputError unless it is a positive whole number."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise InputError(f"n must be a whole number of at least 1 (found {n!r}): it is how many {what}")
    return int(n)


def most_valuable(
    x: np.ndarray, s: np.ndarray | None, p: np.ndarray, blank: np.ndarray, examples: np.ndarray | None, n: int
) -> tuple[list[int], list[float]]:
    """Return the indices of at most n images, the most valuable first, and the value of each when it was chosen.

    Args:
        x: embeddings of the images, (N, D).
        s: their precisions, (N, E), or None.
        p: probabilities of the classes, (N, C).
        blank: (N,) images that are never chosen.
        examples: precisions of the labelled examples, or None.
        n: how many to choose.
    """
    first, second = np.sort(p, axis=1)[:, :-3:-1].T
    value = np.maximum(1 - (first - second), LEAST)
    if s is not None and examples is not None:
        value *= np.minimum(1, precision_sizes(s) / np.median(precision_sizes(examples)))
    value[blank] = 0
    x = x.astype(np.float64)
    sample = x[:: -(-len(x) // SAMPLE)]
    between = np.sqrt(np.maximum(0, ((sample[:, None] - sample[None]) ** 2).sum(axis=-1)))
    apart = between[np.triu_indices(len(sample), 1)]
    reach = REACH * float(np.median(apart)) if len(apart) else 0.0
    chosen: list[int] = []
    values: list[float] = []
    free = ~blank
    while len(chosen) < n and free.any():
        i = int(np.where(free, value, -1).argmax())
        chosen.append(i)
        values.append(float(value[i]))
        free[i] = False
        if reach:
            value *= -np.expm1(-(((x - x[i]) ** 2).sum(axis=1)) / reach**2)
    return chosen, values
