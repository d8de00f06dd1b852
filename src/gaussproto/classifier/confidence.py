"""The confidence of a classifier: distances, temperature, and thresholds for unknown images."""

import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from gaussproto.classifier.encoders.card import Card
from gaussproto.classifier.examples import Examples
from gaussproto.classifier.view import View
from gaussproto.errors import ImageWarning, InputError
from gaussproto.formulas.confidence import (
    check_rate,
    distance_scale,
    enlargement,
    examples_needed,
    found_text,
    probabilities,
    reject_threshold,
)
from gaussproto.formulas.distance import find_distance
from gaussproto.formulas.nearest import Nearest
from gaussproto.formulas.trust import PrototypeRule

Weights = Literal["precision", "uniform"]  # what an example counts in its prototype

PAIRS = 1_000_000  # distances of a block
FIRST = 8  # classes with which an image is compared at first, to reject it
ROUNDING = 1e-6  # a Euclidean distance below this share of the largest is a rounding error


class TopClasses(NamedTuple):
    """The k nearest of many classes, for N images.

    Attributes:
        labels: (N, k) the labels of the classes, the nearest first.
        distances: (N, k) the distances to their prototypes.
        probabilities: (N, k) their probabilities if the image shows one of these k classes.
        rest: (N,) a bound of the probability of all other classes together. With p from `probabilities`, the
            probability among all classes is between p * (1 - rest) and p.
        unknown: (N,) whether the image is far from every class, or blank. All False without `reject`.
        names: (N,) the file of each image, or "".
        blank: (N,) whether no ink was found in the image.
    """

    labels: np.ndarray
    distances: np.ndarray
    probabilities: np.ndarray
    rest: np.ndarray
    unknown: np.ndarray
    names: list[str]
    blank: np.ndarray


class Confidence(NamedTuple):
    """What a classifier says about N images and C classes.

    Attributes:
        distances: (N, C) the distance to each prototype.
        probabilities: (N, C) the probability of each class, if the image is of a known one.
        unknown: (N,) whether the image is far from every class, or blank. All False without `reject`.
        thresholds: (C,) the distance beyond which an image is far from a class. None without `reject`.
        names: (N,) the file of each image, or "".
        pixels: (N, channels, H, W) uint8, as the network sees them. None for vectors.
        images: the images as they were passed. None for vectors.
        blank: (N,) whether no ink was found in the image. Only prepared drawings can be blank.
        enlarged: (N,) the factor by which `reject` enlarges the distances of the image before it compares them with the
            thresholds. It is 1, or more if the precision of the image is lower than that of nearly all known images.
    """

    distances: np.ndarray
    probabilities: np.ndarray
    unknown: np.ndarray
    thresholds: np.ndarray | None
    names: list[str]
    pixels: np.ndarray | None
    images: list[Any] | np.ndarray | None
    blank: np.ndarray
    enlarged: np.ndarray

    def top(self, classes: np.ndarray, k: int) -> TopClasses:
        # The k nearest of these classes, for the commands. It has no docstring, so that the API reference omits it.
        order = self.distances.argsort(axis=1, kind="stable")[:, :k]
        d, p = (np.take_along_axis(each, order, axis=1) for each in self[:2])
        return TopClasses(classes[order], d, p, np.zeros(len(d)), self.unknown, self.names, self.blank)

    def why_unknown(self, i: int) -> str | None:
        # For `explain`. It has no docstring, so that the API reference omits it.
        if self.blank[i]:
            return "no ink"
        if not self.unknown[i]:
            return None
        return "low precision and far from every class" if self.enlarged[i] > 1 else "far from every class"

    def threshold(self, i: int, c: int) -> float | None:
        # The distance from class c beyond which this image is far from it.
        if self.thresholds is None or self.blank[i]:
            return None
        return float(self.thresholds[c] / self.enlarged[i])


class Thresholds(NamedTuple):
    """The limits for unknown images, and where they come from."""

    normalised: float  # the distance beyond which an image is far, divided by the distance scale of a class
    low_precision: float | None  # below which an image counts as farther away
    borrowed: bool  # whether they come from the calibration of the weights, because the examples are too few
    metric: tuple[str, bool]

    def at(self, shots: np.ndarray) -> np.ndarray:
        """Return the limits of classes with these numbers of examples. It is higher for few."""
        different, of_class = np.unique(shots, return_inverse=True)
        scales = np.array([distance_scale(shot, *self.metric) for shot in different.tolist()])
        return np.asarray(self.normalised * scales[of_class.reshape(shots.shape)])


def check_parameters(temperature: Any, reject: Any, weights: Any = "precision", prototype: Any = "mean") -> None:
    """Raise InputError if a parameter of a classifier is out of range."""
    if temperature is not None and not (isinstance(temperature, Real) and 0 < float(temperature) < float("inf")):
        raise InputError(
            f"temperature must be a positive number or None (found {temperature!r}): pass None to use the temperature "
            "of the weights"
        )
    if reject is not None:
        check_rate(reject, "reject")
    if weights not in get_args(Weights):
        raise InputError(f"weights must be one of {', '.join(get_args(Weights))} (found {weights!r})")
    rules = ("auto", *get_args(PrototypeRule))
    if prototype not in rules:
        raise InputError(f"prototype must be one of {', '.join(rules)} (found {prototype!r})")


def temperature_of(card: Card, given: float | None, mean_shot: float, distance: str, in_distance: bool) -> float:
    """Return the temperature that the user passed, or that of the weights, or 1."""
    if given is not None:
        return float(given)
    if card.calibration is None or distance != card.distance:  # weights are calibrated for their own distance only
        return 1.0
    return card.calibration.temperature_at(distance_scale(mean_shot, distance, in_distance))


def class_thresholds(
    card: Card, rate: float | None, examples: Examples, distance: str, in_distance: bool
) -> Thresholds | None:
    """Return the limits for unknown images."""
    if rate is None:
        return None
    calibration = card.calibration if distance == card.distance else None
    own = examples.left_out(distance, in_distance)
    threshold = reject_threshold(own, float(rate), calibration, examples.poor)
    borrowed = len(own) < examples_needed(float(rate))
    low = examples.low_precision
    if borrowed and calibration is not None:
        low = None if low is None else calibration.low_precision
    return Thresholds(threshold, low, borrowed, (distance, in_distance))


def warn_of_borrowed(card: Card, rate: float, found: int, poor: int = 0) -> None:
    """Warn that the examples are too few for thresholds of their own, so that those of the weights are used."""
    held_out = card.calibration is not None and card.calibration.held_out
    kind = "classes held out of their training" if held_out else "the classes of their training"
    more = "" if held_out else ", which rejects more known images than asked for"
    warnings.warn(
        f"the examples are too few to tell how far known images may be (reject={rate:g} needs {examples_needed(rate)} "
        f"in classes of three or more, found {found_text(found, poor)}): using the thresholds of the weights, from "
        f"{kind}{more}. If your "
        "images differ from these, another share of them is rejected: add examples",
        ImageWarning,
        stacklevel=4,
    )


def enlarged_distances(
    s: np.ndarray | None, blank: np.ndarray, thresholds: Thresholds | None, distance: str
) -> np.ndarray:
    """Return the factors (N,) by which `reject` enlarges the distances of images: for a low precision, or no ink."""
    if thresholds is None:
        return np.ones(len(blank))
    return np.where(blank, np.inf, enlargement(s, thresholds.low_precision, distance))


def nearest_classes(
    measure: Callable[[np.ndarray], np.ndarray], x: np.ndarray, C: int, limits: np.ndarray | None,
    enlarged: np.ndarray, distance: str,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Return the nearest of C classes (N,) and whether each image is unknown (N,), in blocks to save memory."""
    nearest, unknown = np.empty(len(x), dtype=int), np.empty(len(x), dtype=bool)
    block = max(1, PAIRS // C)
    for i in range(0, len(x), block):
        d = measure(x[i : i + block])
        nearest[i : i + block] = d.argmin(axis=1)
        unknown[i : i + block] = is_unknown(d, limits, enlarged[i : i + block], distance)
    return nearest, unknown


def is_unknown(d: np.ndarray, limits: np.ndarray | None, enlarged: np.ndarray, distance: str) -> np.ndarray:
    """Return whether each image (N,) is far from every class, (C,) or (N, C). Without limits, none is."""
    if limits is None:
        return np.zeros(len(d), dtype=bool)
    far: np.ndarray = np.all(d > limits / enlarged[:, None] + _nothing(d, distance), axis=1)
    return np.asarray(far | np.isinf(enlarged))


def _nothing(d: np.ndarray, distance: str) -> np.ndarray:
    """Return the rounding errors of the distances (N, 1). Copies of an example differ from it by no more."""
    return np.asarray(ROUNDING ** find_distance(distance).power * d.max(axis=1, keepdims=True))


def nearest_of_many(
    view: View, x: np.ndarray, k: int, thresholds: Thresholds | None, enlarged: np.ndarray
) -> tuple[Nearest, np.ndarray]:
    """Return the k nearest classes and whether each image is unknown (N,), without the distances to all classes.

    The nearest class need not be the one that knows the image, because a class of fewer examples has a higher limit.
    So more classes are compared until even the highest limit is below their distances.
    """
    find, C = view.nearest, view.way
    if thresholds is None:
        return _finite(find(x, k)), np.zeros(len(x), dtype=bool)
    more = min(C, max(k, FIRST))
    found = _finite(find(x, more))
    unknown, open_ = np.isinf(enlarged), np.flatnonzero(~np.isinf(enlarged))
    highest = float(thresholds.at(np.array([1, view.most_shot])).max())
    several = found
    while len(open_):
        d, larger = several.distances, enlarged[open_]
        if len(d) != len(open_):
            d, several = d[open_], Nearest(several.classes[open_], d[open_])
        limits = thresholds.at(view.shots_at(several.classes))
        far = is_unknown(d, limits, larger, thresholds.metric[0])
        beyond = d[:, -1] > highest / larger + _nothing(d, thresholds.metric[0])[:, 0]
        done = beyond | (more == C)
        unknown[open_[far & done]] = True
        open_ = open_[far & ~done]
        more = min(C, 8 * more)
        if len(open_):
            several = _finite(find(x[open_], more))
    return Nearest(found.classes[:, :k], found.distances[:, :k]), unknown


def _finite(found: Nearest) -> Nearest:
    if not np.isfinite(found.distances[:, 0]).all():
        raise InputError("distances overflow: the input values are too large; rescale them")
    return found


def probabilities_of(
    d: np.ndarray, card: Card, temperature: float | None, mean_shot: float, distance: str, in_distance: bool
) -> np.ndarray:
    """Return the probability of each class (N, C) from the distances (N, C)."""
    return probabilities(d, temperature_of(card, temperature, mean_shot, distance, in_distance))


def bound_of_rest(d: np.ndarray, C: int, temperature: float) -> np.ndarray:
    """Return the most that the probabilities of all C classes but the nearest (N, k) can sum to, (N,).

    None of the others is nearer than the last of these.
    """
    from scipy.special import expit, logsumexp

    k = d.shape[1]
    if k >= C:
        return np.zeros(len(d))
    return np.asarray(expit(np.log(C - k) - d[:, -1] / temperature - logsumexp(-d / temperature, axis=1)))
