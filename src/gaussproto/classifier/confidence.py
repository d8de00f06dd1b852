"""The confidence of a classifier: distances, temperature, and thresholds for unknown images."""

import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from gaussproto.classifier.encoders.card import Card
from gaussproto.classifier.examples import Examples
from gaussproto.errors import ImageWarning, InputError
from gaussproto.formulas.confidence import (
    check_rate,
    distance_scale,
    enlargement,
    examples_needed,
    probabilities,
    reject_threshold,
)
from gaussproto.formulas.distance import find_distance
from gaussproto.formulas.trust import PrototypeRule

Weights = Literal["precision", "uniform"]  # what an example counts in its prototype

PAIRS = 1_000_000  # distances of a block
ROUNDING = 1e-6  # a Euclidean distance below this share of the largest is a rounding error


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

    def why_unknown(self, i: int) -> str | None:
        # For `explain`. It has no docstring, so that the API reference omits it.
        if not self.unknown[i]:
            return None
        if self.blank[i]:
            return "no ink"
        return "low precision and far from every class" if self.enlarged[i] > 1 else "far from every class"

    def threshold(self, i: int, c: int) -> float | None:
        # The distance from class c beyond which this image is far from it.
        if self.thresholds is None or self.blank[i]:
            return None
        return float(self.thresholds[c] / self.enlarged[i])


class Thresholds(NamedTuple):
    """The limits for unknown images, and where they come from."""

    distances: np.ndarray  # (C,) the distance beyond which an image is far from a class
    low_precision: float | None  # below which an image counts as farther away
    borrowed: bool  # whether they come from the calibration of the weights, because the examples are too few


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
    if prototype not in get_args(PrototypeRule):
        raise InputError(f"prototype must be one of {', '.join(get_args(PrototypeRule))} (found {prototype!r})")


def temperature_of(card: Card, given: float | None, examples: Examples, distance: str, in_distance: bool) -> float:
    """Return the temperature that the user passed, or that of the weights, or 1."""
    if given is not None:
        return float(given)
    if card.calibration is None or distance != card.distance:  # weights are calibrated for their own distance only
        return 1.0
    return card.calibration.temperature_at(distance_scale(examples.shots.mean(), distance, in_distance))


def class_thresholds(
    card: Card, rate: float | None, examples: Examples, distance: str, in_distance: bool
) -> Thresholds | None:
    """Return the limits for unknown images. An image may be farther from a class of few examples."""
    if rate is None:
        return None
    calibration = card.calibration if distance == card.distance else None
    own = examples.left_out(distance, in_distance)
    threshold = reject_threshold(own, float(rate), calibration)
    borrowed = len(own) < examples_needed(float(rate))
    low = examples.low_precision
    if borrowed and calibration is not None:
        low = None if low is None else calibration.low_precision
    shots, of_class = np.unique(examples.shots, return_inverse=True)
    scales = np.array([distance_scale(shot, distance, in_distance) for shot in shots.tolist()])
    return Thresholds(threshold * scales[of_class], low, borrowed)


def warn_of_borrowed(card: Card, rate: float, found: int) -> None:
    """Warn that the examples are too few for thresholds of their own, so that those of the weights are used."""
    held_out = card.calibration is not None and card.calibration.held_out
    kind = "classes held out of their training" if held_out else "the classes of their training"
    more = "" if held_out else ", which rejects more known images than asked for"
    warnings.warn(
        f"the examples are too few to tell how far known images may be (reject={rate:g} needs {examples_needed(rate)} "
        f"in classes of three or more, found {found}): using the thresholds of the weights, from {kind}{more}. If your "
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
    measure: Callable[[np.ndarray], np.ndarray], x: np.ndarray, C: int, thresholds: Thresholds | None,
    enlarged: np.ndarray, distance: str,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Return the nearest of C classes (N,) and whether each image is unknown (N,), in blocks to save memory."""
    nearest, unknown = np.empty(len(x), dtype=int), np.empty(len(x), dtype=bool)
    block = max(1, PAIRS // C)
    for i in range(0, len(x), block):
        d = measure(x[i : i + block])
        nearest[i : i + block] = d.argmin(axis=1)
        unknown[i : i + block] = is_unknown(d, thresholds, enlarged[i : i + block], distance)
    return nearest, unknown


def is_unknown(d: np.ndarray, thresholds: Thresholds | None, enlarged: np.ndarray, distance: str) -> np.ndarray:
    """Return whether each image (N,) is far from every class. Without thresholds, none is."""
    if thresholds is None:
        return np.zeros(len(d), dtype=bool)
    # Copies of an example differ from it by no more than rounding errors.
    nothing = ROUNDING ** find_distance(distance).power * d.max(axis=1, keepdims=True)
    far: np.ndarray = np.all(d > thresholds.distances / enlarged[:, None] + nothing, axis=1)
    return np.asarray(far | np.isinf(enlarged))


def probabilities_of(
    d: np.ndarray, card: Card, temperature: float | None, examples: Examples, distance: str, in_distance: bool
) -> np.ndarray:
    """Return the probability of each class (N, C) from the distances (N, C)."""
    return probabilities(d, temperature_of(card, temperature, examples, distance, in_distance))
