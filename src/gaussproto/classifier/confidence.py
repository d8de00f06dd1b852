"""How confident a classifier is of its answers: probabilities, and whether an image is unknown."""

from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from gaussproto.classifier.encoders.card import Card
from gaussproto.classifier.examples import Examples
from gaussproto.errors import InputError
from gaussproto.formulas.confidence import check_rate, distance_scale, reject_threshold
from gaussproto.formulas.distance import find_distance

ROUNDING = 1e-6  # a Euclidean distance below this share of another is rounding


class Confidence(NamedTuple):
    """The answers for N images among C classes."""

    distances: np.ndarray  # (N, C)
    probabilities: np.ndarray  # (N, C) among the classes that are known
    unknown: np.ndarray  # (N,) whether it is far from every class
    thresholds: np.ndarray | None  # (C,) the distance beyond which an image is far from a class; None without `reject`
    names: list[str]  # (N,) the file of each image, or ""
    pixels: np.ndarray | None  # (N, channels, H, W) uint8, as the network sees them; None for vectors


def check_parameters(temperature: Any, reject: Any) -> None:
    """Raise InputError if these parameters of a classifier are out of range."""
    if temperature is not None and not (isinstance(temperature, Real) and 0 < float(temperature) < float("inf")):
        raise InputError(f"temperature must be a positive number or None, for the weights' own (found {temperature!r})")
    if reject is not None:
        check_rate(reject, "reject")


def temperature_of(card: Card, given: float | None, examples: Examples, distance: str, in_distance: bool) -> float:
    """The temperature that the user gave, or that of the weights, or 1."""
    if given is not None:
        return float(given)
    if card.calibration is None or distance != card.distance:  # calibrated for the distance of their training only
        return 1.0
    return card.calibration.temperature * distance_scale(examples.shots.mean(), distance, in_distance)


def class_thresholds(card: Card, rate: float, examples: Examples, distance: str, in_distance: bool) -> np.ndarray:
    """(C,) the distance beyond which an image is far from a class; a class of few examples has a larger one."""
    calibration = card.calibration if distance == card.distance else None
    threshold = reject_threshold(examples.left_out(distance, in_distance), rate, calibration)
    return np.array([threshold * distance_scale(shot, distance, in_distance) for shot in examples.shots.tolist()])


def is_unknown(d: np.ndarray, thresholds: np.ndarray | None, distance: str) -> np.ndarray:
    """(N,) whether an image is far from every class; without thresholds none is."""
    if thresholds is None:
        return np.zeros(len(d), dtype=bool)
    # Examples that are copies of each other are no more than this apart, which is rounding.
    nothing = ROUNDING ** find_distance(distance).power * d.max(axis=1, keepdims=True)
    return np.asarray(np.all(d > thresholds + nothing, axis=1))
