"""How sure an answer is, and when it is none: temperature, calibration error, limits on distances. Without torch.

An image of a class scatters around its prototype, and so does a prototype of K examples around the middle of the class.
Together that makes distances grow as the root of 1 + 1/K. Measured against this spread, distances after few and after
many examples are alike, so one temperature and one set of limits serve every number of examples.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from gaussproto.config import Distance
from gaussproto.errors import InputError
from gaussproto.files import write_then_rename

BINS = 15  # of equal width over the highest probability: the usual number
RATES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # false alarms for which weights carry a limit
TEMPERATURES = (0.02, 50.0)  # networks are trained at 1; where no answer is wrong, the best would be 0
POWER: dict[Distance, float] = {"sqrt_euclidean": 0.5, "euclidean": 1, "squared_euclidean": 2, "cosine": 2}
BAD = 0.5  # of the highest precision in a class: under it an example is not like the images to come
METADATA = "calibration"


class Calibration(BaseModel):
    """What weights carry to say how sure they are. Distances are measured against their `spread`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: float = Field(gt=0)
    limits: tuple[float, ...] = Field(min_length=len(RATES), max_length=len(RATES))  # for each of RATES
    classes: int  # that it was measured on
    held_out: bool  # whether the network had not seen them in training

    def limit(self, rate: float) -> float:
        """The distance from its own class, against the spread, that such a share of images exceeds."""
        return float(np.interp(math.log(rate), np.log(RATES), self.limits))


def spread(shot: float, distance: Distance, in_distance: bool) -> float:
    """What distances to a prototype of so many examples are in proportion to.

    Args:
        shot: how many examples the prototype has.
        distance: its name.
        in_distance: whether the class's precision, which is a sum over its examples, is the metric around it.

    >>> spread(4, "squared_euclidean", in_distance=False), spread(4, "squared_euclidean", in_distance=True)
    (1.25, 5.0)
    """
    squared = shot + 1 if in_distance and distance != "cosine" else 1 + 1 / shot  # an angle has no scale
    return float(squared ** (POWER[distance] / 2))


def probabilities(d: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """(..., C): the softmax of minus the distances, divided by the temperature.

    >>> probabilities(np.array([[1.0, 1.0]])).tolist()
    [[0.5, 0.5]]
    """
    z = (d.min(axis=-1, keepdims=True) - d) / temperature
    powers = np.exp(z)
    result: np.ndarray = powers / powers.sum(axis=-1, keepdims=True)
    return result


def negative_log_likelihood(d: np.ndarray, truth: np.ndarray, temperature: float = 1.0) -> float:
    """The mean of minus the logarithm of the probability of the true class, in nats."""
    z = (d.min(axis=1, keepdims=True) - d) / temperature
    return float(np.mean(np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(z)), truth]))


def expected_calibration_error(p: np.ndarray, truth: np.ndarray) -> float:
    """How far the highest probability is from the share that is right: the mean over 15 bins of equal width.

    >>> expected_calibration_error(np.array([[0.75, 0.25], [0.75, 0.25]]), np.array([0, 1]))
    0.25
    """
    sure, right = p.max(axis=1), p.argmax(axis=1) == truth
    place = np.minimum((sure * BINS).astype(int), BINS - 1)
    gaps = np.bincount(place, sure - right, BINS)  # of each bin, its size times the difference of the means
    return float(np.abs(gaps).sum() / len(p))


def fit_temperature(answers: Sequence[tuple[np.ndarray, np.ndarray]]) -> float:
    """The temperature of least negative log-likelihood; of 1 / T it is a convex function.

    Args:
        answers: distances (N, C) and true classes (N,), in sets that count alike; C may differ between them.
    """
    from scipy.optimize import minimize_scalar

    def cost(log_temperature: float) -> float:
        return float(np.mean([negative_log_likelihood(d, truth, math.exp(log_temperature)) for d, truth in answers]))

    low, high = np.log(TEMPERATURES)
    return math.exp(minimize_scalar(cost, bounds=(low, high), method="bounded").x)


def left_out_distances(
    x: np.ndarray, s: np.ndarray | None, labels: np.ndarray, distance: Distance, in_distance: bool
) -> np.ndarray:
    """How far each example is from the prototype of the others of its class, against the spread.

    A bad example, of less than half the precision of the best of its class, says nothing of how far good images are: it
    is passed over, as is one that has no others. Two examples are as far from each other as the other way round, so a
    class of two gives one distance.

    Args:
        x: (N, D) embeddings.
        s: (N, E) or (N, D, D) precisions, or None.
        labels: (N,) the class of each, from 0 to C - 1.
        distance: its name.
        in_distance: whether the class's precision is the metric around its prototype.
    """
    x, s = x.astype(np.float64), np.ones((len(x), 1)) if s is None else s.astype(np.float64)
    size = s.mean(axis=1) if s.ndim == 2 else s.trace(axis1=1, axis2=2)
    best = np.zeros(labels.max() + 1)
    np.maximum.at(best, labels, size)
    good = size >= BAD * best[labels]
    x, s, labels = x[good], s[good], labels[good]
    sx = s * x if s.ndim == 2 else (s @ x[:, :, None])[:, :, 0]
    s_class, sx_class = np.zeros((len(best), *s.shape[1:])), np.zeros((len(best), x.shape[1]))
    np.add.at(s_class, labels, s)
    np.add.at(sx_class, labels, sx)

    shots = np.bincount(labels)[labels]
    first = np.zeros(len(x), dtype=bool)
    first[np.unique(labels, return_index=True)[1]] = True
    used = (shots > 2) | ((shots == 2) & first)
    if not used.any():
        return np.empty(0)
    x, labels, shots = x[used], labels[used], shots[used]
    others, sx_others = s_class[labels] - s[used], sx_class[labels] - sx[used]
    p = sx_others / others if s.ndim == 2 else np.linalg.solve(others, sx_others[:, :, None])[:, :, 0]
    metric = others if in_distance else None
    if distance == "cosine":
        lengths = np.sqrt(_product(x, x, metric) * _product(p, p, metric))
        d = 1 - _product(x, p, metric) / np.maximum(lengths, np.finfo(np.float64).tiny)
    else:
        d = _product(x - p, x - p, metric) ** (POWER[distance] / 2)
    spreads = np.array([spread(shot, distance, in_distance) for shot in range(1, int(shots.max()))])
    result: np.ndarray = d / spreads[shots - 2]
    return result


def _product(a: np.ndarray, b: np.ndarray, S: np.ndarray | None) -> np.ndarray:
    """(N,): a^T S b of each pair."""
    Sb = b if S is None else S * b if S.ndim == 2 else (S @ b[:, :, None])[:, :, 0]
    result: np.ndarray = (a * Sb).sum(axis=1)
    return result


def far_limit(own: np.ndarray, rate: float, calibration: Calibration | None) -> float:
    """The distance, against the spread, beyond which an image of a known class is with this probability or less.

    From the examples themselves if there are enough: of n of them and one more that is like them, each is the farthest
    but k with probability 1 / (n + 1). Else from what the weights carry.

    Args:
        own: (n,) what `left_out_distances` gives.
        rate: the wanted share of false alarms.
        calibration: of the weights, or None.
    """
    rank = math.ceil((len(own) + 1) * (1 - rate) - 1e-9)
    if rank <= len(own):
        return float(np.sort(own)[rank - 1])
    if calibration is not None:
        return calibration.limit(rate)
    raise InputError(
        f"reject={rate:g} needs {math.ceil(1 / rate - 1e-9) - 1} examples in classes of three or more, or weights that "
        f"`gaussproto calibrate` has measured (found {len(own)} and none): give more examples or a higher rate"
    )


def read_calibration(path: Path) -> Calibration | None:
    """What a weights file carries, or None."""
    try:
        with safe_open(path, framework="numpy") as file:
            content = (file.metadata() or {}).get(METADATA)
        return None if content is None else Calibration.model_validate_json(content)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is not a readable safetensors file ({error})") from error
    except ValidationError as error:
        said = error.errors()[0]["msg"]
        raise InputError(f"{path} has a broken calibration ({said}): run `gaussproto calibrate` again") from None


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Put it into a weights file beside the weights: training that goes on writes other weights, without it."""
    with safe_open(path, framework="numpy") as file:
        metadata = dict(file.metadata() or {})
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    metadata[METADATA] = json.dumps(calibration.model_dump())
    with write_then_rename(path) as temporary:
        save_file(tensors, temporary, metadata=metadata)
