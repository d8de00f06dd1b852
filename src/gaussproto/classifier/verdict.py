"""What a classifier says of an image: how far each class is, how probable, and whether it is none of them."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gaussproto.errors import InputError
from gaussproto.evaluation.calibration import (
    POWER,
    RATES,
    Calibration,
    far_limit,
    left_out_distances,
    probabilities,
    spread,
)

if TYPE_CHECKING:
    from gaussproto.classifier.estimator import GaussianPrototypeClassifier


ROUNDING = 1e-6  # a Euclidean distance that is nothing beside another


class Verdict(NamedTuple):
    """Of N images among C classes."""

    distances: np.ndarray  # (N, C)
    probabilities: np.ndarray  # (N, C) among the classes that are known
    unknown: np.ndarray  # (N,) whether it is far from every class
    limits: np.ndarray | None  # (C,) the distance beyond which an image is far from a class; None: nothing is far


def check_sureness(temperature: Any, reject: Any) -> None:
    """Say so if these parameters of a classifier cannot be."""
    if temperature is not None and not (isinstance(temperature, Real) and 0 < float(temperature) < float("inf")):
        raise InputError(
            f"temperature must be a positive number, or None for that of the weights (found {temperature!r})"
        )
    if reject is not None:
        check_rate(reject, "reject")


def check_rate(rate: Any, name: str) -> None:
    """Say so if a share of false alarms is none that limits were fitted for."""
    low, high = RATES[0], RATES[-1]
    if not (isinstance(rate, Real) and low <= float(rate) <= high):
        raise InputError(f"{name} must be a share of false alarms from {low:g} to {high:g} (found {rate!r})")


def judge(clf: GaussianPrototypeClassifier, d: np.ndarray) -> Verdict:
    """What a fitted classifier makes of distances (N, C) to its classes."""
    check_sureness(clf.temperature, clf.reject)
    distance, in_distance = clf.measured_by
    # Weights are calibrated for the distance that they were trained with, and for no other.
    calibration = clf.embedder_.calibration if distance == clf.embedder_.distance else None
    temperature = clf.temperature
    if temperature is None:
        mean_shot = len(clf.example_names_) / len(clf.classes_)
        width = spread(mean_shot, distance, in_distance)
        temperature = 1.0 if calibration is None else calibration.temperature * width
    limits = None if clf.reject is None else _limits(clf, calibration, float(clf.reject))
    unknown = np.zeros(len(d), dtype=bool)
    if limits is not None:
        # Examples that are copies of each other are no more than this apart, which is rounding.
        nothing = ROUNDING ** POWER[distance] * d.max(axis=1, keepdims=True)
        unknown = np.all(d > limits + nothing, axis=1)
    return Verdict(d, probabilities(d, float(temperature)), unknown, limits)


def _limits(clf: GaussianPrototypeClassifier, calibration: Calibration | None, rate: float) -> np.ndarray:
    """(C,): a class of few examples lets images be farther away."""
    position = {label: c for c, label in enumerate(clf.classes_.tolist())}
    labels = np.array([position[label] for label in clf.example_labels_.tolist()])
    own = left_out_distances(clf.example_embeddings_, clf.example_precisions_, labels, *clf.measured_by)
    limit = far_limit(own, rate, calibration)
    return np.array([limit * spread(shot, *clf.measured_by) for shot in np.bincount(labels).tolist()])
