"""How confident an answer is, and which images are unknown: temperature, calibration error, thresholds.

The images of a class scatter around its mean, and so does a prototype of K examples. Together, this makes distances
proportional to √(1 + 1/K). Dividing by this scale makes distances comparable for any number of examples, so one
temperature and one set of thresholds are enough.

An image whose precision s is lower than that of nearly all known images counts as farther away than it is:

    d′ = d · √(s₀ / s)      if s < s₀, otherwise d

s₀ is the precision that `LOW_SHARE` of the known images fall short of.
"""

import math
from numbers import Real
from typing import Annotated, Any, Self

import numpy as np
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from gaussproto.errors import InputError
from gaussproto.formulas.distance import find_distance
from gaussproto.formulas.embedded import Embedded, ones_like
from gaussproto.formulas.prototype import class_prototypes

BINS = 15  # the usual number
RATES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # shares of known images rejected, one threshold each
LOW_PRECISION = 0.3  # share of the highest precision in a class; an example below it does not resemble new images
LOW_SHARE = 0.05  # of the known images: their precision is so low that they count as farther away
EXPONENT = 0.5  # of the precision in the distance of such an image
# The mean of 5 views of an image is nearer to its class. Factors of a distance of exponent 1 and of the precision, from
# held-out alphabets and a network that had not seen them.
VIEWS_TEMPERATURE, VIEWS_THRESHOLD, VIEWS_PRECISION = 0.98, 0.83, 0.95

Threshold = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Evidence(BaseModel):
    """What a temperature does to classes that it was not fitted on. Errors and likelihoods are means over tasks.

    Attributes:
        fitted: the temperature of the highest likelihood on all classes, times the `distance_scale`.
        gain: by how much it lowers the negative log-likelihood of left-out classes, compared with T = 1, in nats.
        error: the standard error of the gain over classes.
        ece_before: the expected calibration error on left-out classes at T = 1.
        ece_after: the same at the fitted temperature.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    fitted: float = Field(gt=0, allow_inf_nan=False)
    gain: float
    error: float
    ece_before: float
    ece_after: float

    @property
    def helps(self) -> bool:
        """Whether the gain exceeds one standard error, and the calibration error does not rise."""
        return self.gain > self.error and self.ece_after <= self.ece_before


class Calibration(BaseModel):
    """The temperature and thresholds stored with weights, for distances divided by their `distance_scale`.

    Attributes:
        temperature: divides distances before the softmax.
        thresholds: the distance above which an image is rejected as unknown, for each of `RATES`.
        classes: the number of classes that it was fitted on.
        held_out: whether the network was trained without these classes.
        scaled: whether the temperature is a multiple of the `distance_scale`. False if it is 1, for lack of evidence.
        low_precision: s₀, below which an image counts as farther away. None if the network has no precision, and in
            calibrations of earlier versions.
        evidence: why the temperature was kept or not. None in calibrations of earlier versions.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: float = Field(gt=0, allow_inf_nan=False)
    thresholds: tuple[Threshold, ...] = Field(  # `limits` in files from before the first release
        min_length=len(RATES), max_length=len(RATES), validation_alias=AliasChoices("thresholds", "limits")
    )
    classes: int
    held_out: bool
    scaled: bool = True
    low_precision: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    evidence: Evidence | None = None

    @model_serializer(mode="wrap")
    def _without_defaults(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what earlier versions do not know, unless it says something."""
        fields = type(self).model_fields
        content: dict[str, Any] = serialize(self)
        return {name: value for name, value in content.items() if value != fields[name].default}

    def temperature_at(self, scale: float) -> float:
        """Return the temperature of distances with this `distance_scale`."""
        return self.temperature * (scale if self.scaled else 1.0)

    def for_views(self, power: float) -> Self:
        """Return the calibration for the mean of several views, for a distance with this exponent."""
        return self.model_copy(
            update={
                "temperature": self.temperature * (VIEWS_TEMPERATURE**power if self.scaled else 1.0),
                "thresholds": tuple(VIEWS_THRESHOLD**power * each for each in self.thresholds),
                "low_precision": None if self.low_precision is None else VIEWS_PRECISION * self.low_precision,
            }
        )

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


def precision_sizes(s: np.ndarray) -> np.ndarray:
    """Return one number for the precision of each image, (N, E) or (N, D, D) -> (N,): the mean over the directions."""
    return np.asarray(s.mean(axis=1) if s.ndim == 2 else s.trace(axis1=1, axis2=2) / s.shape[1], dtype=np.float64)


def low_precision(examples: Embedded[np.ndarray], labels: np.ndarray) -> float | None:
    """Return s₀ of labelled examples, the precision that `LOW_SHARE` of the good ones fall short of."""
    if examples.s is None:
        return None
    sizes = precision_sizes(examples.s)
    return float(np.quantile(sizes[_is_good(sizes, labels)], LOW_SHARE)) or None


def enlargement(s: np.ndarray | None, low: float | None, distance: str) -> np.ndarray | float:
    """Return the factors (N,) by which low precisions enlarge the distances of images, or 1 without precisions.

    >>> enlargement(np.array([[8.0], [4.0], [1.0]]), 4.0, "euclidean")
    array([1., 1., 2.])
    """
    if s is None or low is None:
        return 1.0
    short = low / np.maximum(precision_sizes(s), np.finfo(np.float64).tiny)
    return np.asarray(np.maximum(1.0, short) ** (EXPONENT * find_distance(distance).power))


def is_good(s: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return whether each example (N,) has at least 30 % of the highest precision of its class."""
    return _is_good(precision_sizes(s), labels)


def _is_good(sizes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    best = np.zeros(labels.max() + 1)
    np.maximum.at(best, labels, sizes)
    return np.asarray(sizes >= LOW_PRECISION * best[labels])


def left_out_distances(
    examples: Embedded[np.ndarray], labels: np.ndarray, distance: str, in_distance: bool, low: float | None = None
) -> np.ndarray:
    """Return the normalised distance of each example from the prototype of the other examples of its class.

    Two kinds of examples are skipped: those with less than 30 % of the highest precision of their class, which do not
    tell how far good images are, and those that are alone in their class. A class of two contributes one distance,
    because its two examples are equally far from each other.

    Args:
        examples: embedded examples, x (N, D) and s.
        labels: the class of each, (N,), from 0 to C - 1.
        distance: name of the distance.
        in_distance: whether the class precision is the metric around the prototype.
        low: s₀, below which a precision enlarges the distance. By default none does.
    """
    x = examples.x.astype(np.float64)
    s = ones_like(x[:, :1]) if examples.s is None else examples.s.astype(np.float64)
    good = is_good(s, labels)
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
    return np.asarray(d / scales[shots - 2] * enlargement(s, low, distance))


def examples_needed(rate: float) -> int:
    """Return how many distances of left-out examples set a threshold for this rate.

    >>> examples_needed(0.05)
    19
    """
    return math.ceil(1 / rate - 1e-9) - 1


def found_text(good: int, poor: int) -> str:
    """Return how many examples tell how far known images may be.

    >>> found_text(16, 24), found_text(16, 0)
    ('16, without 24 poor or doubtful ones', '16')
    """
    return f"{good}" + (f", without {poor} poor or doubtful ones" if poor else "")


def reject_threshold(own: np.ndarray, rate: float, calibration: Calibration | None, poor: int = 0) -> float:
    """Return the normalised distance that at most a share `rate` of known images exceeds.

    With enough examples it is a quantile of `own`, their `left_out_distances`: a new image is equally likely to take
    each of the n + 1 ranks among n examples. Otherwise it comes from the calibration.
    """
    if len(own) >= examples_needed(rate):
        return float(np.sort(own)[math.ceil((len(own) + 1) * (1 - rate) - 1e-9) - 1])
    if calibration is not None:
        return calibration.threshold(rate)
    raise InputError(
        f"reject={rate:g} needs {examples_needed(rate)} examples in classes of three or more (found "
        f"{found_text(len(own), poor)}), or calibrated weights: add examples, choose a higher rate, or run "
        "`gaussproto calibrate`"
    )
