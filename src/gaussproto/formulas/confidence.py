"""How sure an answer is, and when an image is unknown: temperature, calibration error, thresholds on distances.

An image of a class scatters around its prototype, and so does a prototype of K examples around the middle of the class.
Together that makes distances grow as the root of 1 + 1/K. Divided by this scale, distances after few and after many
examples are alike, so one temperature and one set of thresholds serve every number of examples.
"""

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from gaussproto.errors import InputError
from gaussproto.formulas.distance import find_distance
from gaussproto.formulas.embedded import Embedded, ones_like
from gaussproto.formulas.prototype import class_prototypes

BINS = 15  # of equal width over the highest probability: the usual number
RATES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # shares of known images rejected, one threshold each
TEMPERATURES = (0.02, 50.0)  # networks are trained at 1; where no answer is wrong, the best would be 0
LOW_PRECISION = 0.5  # of the highest in a class: an example under it is not like the images to come


class Calibration(BaseModel):
    """What weights carry to tell how confident they are. Distances are divided by their `distance_scale`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: float = Field(gt=0)
    thresholds: tuple[float, ...] = Field(  # for each of RATES; called limits in files of before the first release
        min_length=len(RATES), max_length=len(RATES), validation_alias=AliasChoices("thresholds", "limits")
    )
    classes: int  # that it was fitted on
    held_out: bool  # whether the network had not seen them in training

    def threshold(self, rate: float) -> float:
        """The normalised distance from their own class that a share `rate` of images exceeds."""
        return float(np.interp(math.log(rate), np.log(RATES), self.thresholds))


def check_rate(rate: Any, name: str) -> None:
    """Raise InputError if `rate` is outside the range that thresholds were fitted for."""
    low, high = RATES[0], RATES[-1]
    if not (isinstance(rate, Real) and low <= float(rate) <= high):
        raise InputError(f"{name} must be a share of known images from {low:g} to {high:g} (found {rate!r})")


def distance_scale(shot: float, distance: str, in_distance: bool) -> float:
    """What distances to a prototype of `shot` examples are proportional to.

    With `in_distance` the class's precision, which is a sum over its examples, is the metric around the prototype.

    >>> distance_scale(4, "squared_euclidean", in_distance=False)
    1.25
    >>> distance_scale(4, "squared_euclidean", in_distance=True)
    5.0
    """
    kind = find_distance(distance)
    squared = shot + 1 if in_distance and not kind.scale_free else 1 + 1 / shot
    return float(squared ** (kind.power / 2))


def probabilities(d: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """(..., C): the softmax of minus the distances, divided by the temperature.

    >>> probabilities(np.array([[1.0, 1.0]])).tolist()
    [[0.5, 0.5]]
    """
    from scipy.special import softmax

    with np.errstate(over="ignore"):  # far is far, whatever the temperature
        return np.asarray(softmax((d.min(axis=-1, keepdims=True) - d) / temperature, axis=-1))


def negative_log_likelihood(d: np.ndarray, truth: np.ndarray, temperature: float = 1.0) -> float:
    """The mean of minus the logarithm of the probability of the true class, in nats."""
    from scipy.special import log_softmax

    return float(
        -log_softmax((d.min(axis=1, keepdims=True) - d) / temperature, axis=1)[np.arange(len(d)), truth].mean()
    )


def expected_calibration_error(p: np.ndarray, truth: np.ndarray) -> float:
    """How far the highest probability is from the share of right answers: the mean over 15 bins of equal width.

    >>> expected_calibration_error(np.array([[0.75, 0.25], [0.75, 0.25]]), np.array([0, 1]))
    0.25
    """
    confidence, right = p.max(axis=1), p.argmax(axis=1) == truth
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, confidence - right, BINS)  # of each bin, its size times the difference of the means
    return float(np.abs(gaps).sum() / len(p))


def fit_temperature(answers: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
    """The temperature with the least negative log-likelihood, which is a convex function of 1 / T.

    `answers` are distances (N, C) and true classes (N,), in sets of equal weight; C may differ between them.
    """
    from scipy.optimize import minimize_scalar

    def cost(log_temperature: float) -> float:
        return float(np.mean([negative_log_likelihood(d, truth, math.exp(log_temperature)) for d, truth in answers]))

    return math.exp(minimize_scalar(cost, bounds=np.log(TEMPERATURES), method="bounded").x)


def left_out_distances(
    examples: Embedded[np.ndarray], labels: np.ndarray, distance: str, in_distance: bool
) -> np.ndarray:
    """The normalised distance of each example from the prototype of the others of its class, one of 0 to C - 1.

    An example with less than half the precision of the best of its class does not tell how far good images are, so it
    is left out, as is one without others. Two examples are as far from each other either way, so a class of two gives
    one distance.
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
    """The normalised distance that at most `rate` of a class's own images exceed.

    It comes from the examples' own `left_out_distances` if there are enough: of n examples and one more that is like
    them, each is the farthest but k with probability 1 / (n + 1). Otherwise it comes from the calibration.
    """
    rank = math.ceil((len(own) + 1) * (1 - rate) - 1e-9)
    if rank <= len(own):
        return float(np.sort(own)[rank - 1])
    if calibration is not None:
        return calibration.threshold(rate)
    raise InputError(
        f"reject={rate:g} needs {math.ceil(1 / rate - 1e-9) - 1} examples in classes of three or more, or weights "
        f"calibrated by `gaussproto calibrate` (found {len(own)} and none): give more examples or a higher rate"
    )
