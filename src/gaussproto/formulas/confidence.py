"""How confident an answer is, and which images are unknown: temperature, calibration error, distance thresholds.

The images of a class scatter around its mean, and so does a prototype of K examples. Together, this makes distances
proportional to √(1 + 1/K). Dividing by this scale makes distances comparable for any number of examples, so one
temperature and one set of thresholds are enough.
"""

import math
from collections.abc import Sequence
from numbers import Real
from typing import Annotated, Any

import numpy as np
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from gaussproto.errors import InputError
from gaussproto.formulas.distance import find_distance
from gaussproto.formulas.embedded import Embedded, ones_like
from gaussproto.formulas.prototype import class_prototypes

BINS = 15  # the usual number
RATES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # shares of known images rejected, one threshold each
TEMPERATURES = (0.02, 50.0)  # bounds of the fit: training uses 1, and without any wrong answer the best would be 0
LOW_PRECISION = 0.5  # share of the highest precision in a class; an example below it does not resemble new images

Threshold = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Calibration(BaseModel):
    """The temperature and thresholds stored with weights, for distances divided by their `distance_scale`.

    Attributes:
        temperature: divides distances before the softmax.
        thresholds: the distance above which an image is rejected as unknown, for each of `RATES`.
        classes: the number of classes that it was fitted on.
        held_out: whether the network was trained without these classes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: float = Field(gt=0, allow_inf_nan=False)
    thresholds: tuple[Threshold, ...] = Field(  # `limits` in files from before the first release
        min_length=len(RATES), max_length=len(RATES), validation_alias=AliasChoices("thresholds", "limits")
    )
    classes: int
    held_out: bool

    def threshold(self, rate: float) -> float:
        """Return the distance from their own class that a share `rate` of images exceeds."""
        return float(np.interp(math.log(rate), np.log(RATES), self.thresholds))


def check_rate(rate: Any, name: str) -> None:
    """Raise InputError unless `rate` is in the range that thresholds are fitted for."""
    low, high = RATES[0], RATES[-1]
    if not (isinstance(rate, Real) and low <= float(rate) <= high):
        meaning = "it is the fraction of known images that may be wrongly rejected"
        raise InputError(f"{name} must be a number from {low:g} to {high:g} (found {rate!r}): {meaning}")


def distance_scale(shot: float, distance: str, in_distance: bool) -> float:
    """Return the scale of distances from a prototype of `shot` examples.

    With `in_distance`, distances also grow with the precision of the class, which is a sum over its examples.

    >>> distance_scale(4, "squared_euclidean", in_distance=False)
    1.25
    >>> distance_scale(4, "squared_euclidean", in_distance=True)
    5.0
    """
    kind = find_distance(distance)
    squared = shot + 1 if in_distance and not kind.scale_free else 1 + 1 / shot
    return float(squared ** (kind.power / 2))


def probabilities(d: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """Return the softmax of minus the distances over the temperature, (..., C) -> (..., C).

    >>> probabilities(np.array([[1.0, 1.0]])).tolist()
    [[0.5, 0.5]]
    """
    from scipy.special import softmax

    with np.errstate(over="ignore"):  # a class that is infinitely far has probability 0
        return np.asarray(softmax((d.min(axis=-1, keepdims=True) - d) / temperature, axis=-1))


def negative_log_likelihood(d: np.ndarray, truth: np.ndarray, temperature: float = 1.0) -> float:
    """Return the mean of minus the logarithm of the probability of the true class, in nats."""
    from scipy.special import log_softmax

    return float(
        -log_softmax((d.min(axis=1, keepdims=True) - d) / temperature, axis=1)[np.arange(len(d)), truth].mean()
    )


def expected_calibration_error(p: np.ndarray, truth: np.ndarray) -> float:
    """Return the mean gap between confidence and accuracy, over 15 bins of equal width.

    Confidence is the highest probability of each answer.

    >>> expected_calibration_error(np.array([[0.75, 0.25], [0.75, 0.25]]), np.array([0, 1]))
    0.25
    """
    confidence, right = p.max(axis=1), p.argmax(axis=1) == truth
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, confidence - right, BINS)  # per bin: its size times (mean confidence - accuracy)
    return float(np.abs(gaps).sum() / len(p))


def fit_temperature(answers: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
    """Return the temperature T with the smallest negative log-likelihood, a convex function of 1 / T.

    Args:
        answers: pairs of distances (N, C) and true classes (N,). All pairs have the same weight; N and C may differ.
    """
    from scipy.optimize import minimize_scalar

    def cost(log_temperature: float) -> float:
        return float(np.mean([negative_log_likelihood(d, truth, math.exp(log_temperature)) for d, truth in answers]))

    return math.exp(minimize_scalar(cost, bounds=np.log(TEMPERATURES), method="bounded").x)


def left_out_distances(
    examples: Embedded[np.ndarray], labels: np.ndarray, distance: str, in_distance: bool
) -> np.ndarray:
    """Return the normalised distance of each example from the prototype of the other examples of its class.

    Two kinds of examples are skipped: those with less than half the highest precision of their class, which do not tell
    how far good images are, and those that are alone in their class. A class of two contributes one distance, because
    its two examples are equally far from each other.

    Args:
        examples: embedded examples, x (N, D) and s.
        labels: the class of each, (N,), from 0 to C - 1.
        distance: name of the distance.
        in_distance: whether the class precision is the metric around the prototype.
    """
    x = examples.x.astype(np.float64)
    s = ones_like(x[:, :1]) if examples.s is None else examples.s.astype(np.float64)
    size = s.mean(axis=1) if s.ndim == 2 else s.trace(axis1=1, axis2=2)
    best = np.zeros(labels.max() + 1)
    np.maximum.at(best, labels, size)
    good = size >= LOW_PRECISION * best[labels]
    x, s, labels = x[good], s[good], labels[good]

    shots = np.bincount(labels)[labels]
    used, first = shots > 2, np.unique(labels, return_index=True)[1]
    used[first] = shots[first] > 1
    if not used.any():
        return np.empty(0)
    p, s_class = class_prototypes(x, s, labels)
    x, s, p, s_class, shots = x[used], s[used], p[labels[used]], s_class[labels[used]], shots[used]
    others = s_class - s
    if s.ndim == 2:
        p = (s_class * p - s * x) / others
    else:
        p = np.linalg.solve(others, s_class @ p[..., None] - s @ x[..., None])[..., 0]
    metric = others[:, None] if in_distance else None
    d = find_distance(distance).value(x[:, None], p[:, None], metric)[:, 0, 0]
    scales = np.array([distance_scale(shot, distance, in_distance) for shot in range(1, int(shots.max()))])
    return np.asarray(d / scales[shots - 2])


def reject_threshold(own: np.ndarray, rate: float, calibration: Calibration | None) -> float:
    """Return the normalised distance that at most a share `rate` of known images exceeds.

    With enough examples it is a quantile of `own`, their `left_out_distances`: a new image is equally likely to take
    each of the n + 1 ranks among n examples. Otherwise it comes from the calibration.
    """
    rank = math.ceil((len(own) + 1) * (1 - rate) - 1e-9)
    if rank <= len(own):
        return float(np.sort(own)[rank - 1])
    if calibration is not None:
        return calibration.threshold(rate)
    raise InputError(
        f"reject={rate:g} needs {math.ceil(1 / rate - 1e-9) - 1} examples in classes of three or more (found "
        f"{len(own)}), or calibrated weights: add examples, choose a higher rate, or run `gaussproto calibrate`"
    )
