"""Fit the temperature of probabilities, and test it on classes that it was not fitted on."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gaussproto.formulas.confidence import Evidence, expected_calibration_error, negative_log_likelihood, probabilities

# Bounds of the fit. Training uses 1, and the bundled weights need 0.5 to 0.9 on new classes. Without a wrong answer,
# the likelihood would choose 0, and the first mistake would have a probability of 1.
TEMPERATURES = (0.25, 10.0)
FOLDS = 5
GRID = 25  # temperatures that the folds choose among
TESTED = 10_000  # queries of a task that the folds use, at most


class Answers(NamedTuple):
    """Answers at one way and shot.

    Attributes:
        d: (N, way) distances of queries from the prototypes.
        truth: (N,) the true class of each query, as an index of `d`.
        group: (N,) what each query is of. A group, for example a character, is fitted on or left out as a whole.
        scale: the `distance_scale`. The temperature is a multiple of it.
    """

    d: np.ndarray
    truth: np.ndarray
    group: np.ndarray
    scale: float = 1.0


def fit_temperature(
    answers: Sequence[tuple[np.ndarray, np.ndarray]], bounds: tuple[float, float] = TEMPERATURES
) -> float:
    """Return the temperature T with the smallest negative log-likelihood, a convex function of 1 / T.

    Args:
        answers: pairs of distances (N, C) and true classes (N,). All pairs have the same weight; N and C may differ.
        bounds: the lowest and the highest temperature.
    """
    from scipy.optimize import minimize_scalar

    def cost(log_temperature: float) -> float:
        return float(np.mean([negative_log_likelihood(d, truth, math.exp(log_temperature)) for d, truth in answers]))

    return math.exp(minimize_scalar(cost, bounds=np.log(bounds), method="bounded").x)


def cross_fit(tasks: Sequence[Answers], generator: np.random.Generator) -> Evidence:
    """Fit a temperature, and compare it with T = 1 on groups that were left out of the fit.

    The groups are divided into `FOLDS` parts. The queries of each part get the temperature that is best for the others.
    All tasks and all groups have the same weight.

    Args:
        tasks: the answers at each way and shot.
        generator: divides the groups.
    """
    fitted = fit_temperature([(task.d / task.scale, task.truth) for task in tasks])
    steps = [-(-len(task.d) // TESTED) for task in tasks]
    tasks = [
        Answers(task.d[::step], task.truth[::step], task.group[::step], task.scale)
        for task, step in zip(tasks, steps, strict=True)
    ]
    known = np.unique(np.concatenate([task.group for task in tasks]))
    tasks, groups = [task._replace(group=np.searchsorted(known, task.group)) for task in tasks], len(known)
    grid = np.geomspace(*TEMPERATURES, GRID)
    costs = np.nanmean([[_by_group(task, groups, T * task.scale) for T in grid] for task in tasks], axis=0)  # (T, G)
    at_one = np.nanmean([_by_group(task, groups, 1.0) for task in tasks], axis=0)  # (G,)
    fold = generator.permutation(groups) % FOLDS
    chosen = np.empty(groups, dtype=int)
    for part in np.unique(fold):
        others = fold != part if groups > 1 else fold == part  # one group cannot be left out: no evidence
        chosen[fold == part] = np.nanmean(costs[:, others], axis=1).argmin()
    gains = at_one - costs[chosen, np.arange(groups)]
    before, after = [], []
    for task in tasks:
        T = (grid[chosen[task.group]] * task.scale)[:, None]
        before.append(expected_calibration_error(probabilities(task.d), task.truth))
        after.append(expected_calibration_error(probabilities(task.d / T), task.truth))
    return Evidence(
        fitted=fitted,
        gain=float(gains.mean()) if groups > 1 else 0.0,
        error=float(gains.std(ddof=1) / math.sqrt(groups)) if groups > 1 else 0.0,
        ece_before=float(np.mean(before)),
        ece_after=float(np.mean(after)),
    )


def _by_group(task: Answers, groups: int, temperature: float) -> np.ndarray:
    """Return the mean negative log-likelihood of the queries of each group, or NaN if there are none."""
    from scipy.special import logsumexp

    d = (task.d.min(axis=1, keepdims=True) - task.d) / temperature
    costs = logsumexp(d, axis=1) - d[np.arange(len(d)), task.truth]
    with np.errstate(invalid="ignore"):
        return np.asarray(np.bincount(task.group, costs, groups) / np.bincount(task.group, minlength=groups))
