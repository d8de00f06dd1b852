"""The confidence of a classifier: distances, temperature, and thresholds for unknown images."""

from collections.abc import Callable
from numbers import Real
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from gaussproto.classifier.encoders.card import Card
from gaussproto.classifier.examples import Examples
from gaussproto.errors import InputError
from gaussproto.formulas.confidence import check_rate, distance_scale, probabilities, reject_threshold
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
        unknown: (N,) whether the image is far from every class.
        thresholds: (C,) the distance beyond which an image is far from a class. None without `reject`.
        names: (N,) the file of each image, or "".
        pixels: (N, channels, H, W) uint8, as the network sees them. None for vectors.
        images: the images as they were passed. None for vectors.
        blank: (N,) whether no ink was found in the image. Only prepared drawings can be blank.
    """

    distances: np.ndarray
    probabilities: np.ndarray
    unknown: np.ndarray
    thresholds: np.ndarray | None
    names: list[str]
    pixels: np.ndarray | None
    images: list[Any] | np.ndarray | None
    blank: np.ndarray


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
    return card.calibration.temperature * distance_scale(examples.shots.mean(), distance, in_distance)


def verdict(
    d: np.ndarray, thresholds: np.ndarray | None, card: Card, temperature: float | None, examples: Examples,
    distance: str, in_distance: bool,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Return the probability of each class (N, C) and whether each image is unknown (N,), from the distances (N, C)."""
    scale = temperature_of(card, temperature, examples, distance, in_distance)
    return probabilities(d, scale), is_unknown(d, thresholds, distance)


def class_thresholds(
    card: Card, rate: float | None, examples: Examples, distance: str, in_distance: bool
) -> np.ndarray | None:
    """Return the distance (C,) beyond which an image is far from a class. It is larger for a class of few examples."""
    if rate is None:
        return None
    calibration = card.calibration if distance == card.distance else None
    threshold = reject_threshold(examples.left_out(distance, in_distance), float(rate), calibration)
    shots, of_class = np.unique(examples.shots, return_inverse=True)
    return threshold * np.array([distance_scale(shot, distance, in_distance) for shot in shots.tolist()])[of_class]


def nearest_classes(
    measure: Callable[[np.ndarray], np.ndarray], x: np.ndarray, C: int, thresholds: np.ndarray | None, distance: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest of C classes (N,) and whether each image is unknown (N,), in blocks to save memory."""
    nearest, unknown = np.empty(len(x), dtype=int), np.empty(len(x), dtype=bool)
    block = max(1, PAIRS // C)
    for i in range(0, len(x), block):
        d = measure(x[i : i + block])
        nearest[i : i + block] = d.argmin(axis=1)
        unknown[i : i + block] = is_unknown(d, thresholds, distance)
    return nearest, unknown


def is_unknown(d: np.ndarray, thresholds: np.ndarray | None, distance: str) -> np.ndarray:
    """Return whether each image (N,) is far from every class. Without thresholds, none is."""
    if thresholds is None:
        return np.zeros(len(d), dtype=bool)
    # Copies of an example differ from it by no more than rounding errors.
    nothing = ROUNDING ** find_distance(distance).power * d.max(axis=1, keepdims=True)
    return np.asarray(np.all(d > thresholds + nothing, axis=1))
