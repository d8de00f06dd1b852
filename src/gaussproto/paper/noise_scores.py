"""The accuracies and paired differences of the study of bad examples, from what was measured."""

from typing import NamedTuple

import numpy as np

from gaussproto.evaluation.noise import Accuracies, Rule
from gaussproto.formulas.interval import student_interval
from gaussproto.paper.rows import NOISE
from gaussproto.runs.noise import Condition, NoiseDifference, NoiseScore


class Comparison(NamedTuple):
    """Two networks and rules, the second of which is subtracted."""

    name: str
    one: tuple[str, Rule]
    other: tuple[str, Rule]


VANILLA, SEVERAL, WEIGHTED = "small-none", "small-several", "small-weighted"
COMPARISONS = (
    Comparison("paper, radius", ("small-radius", "weighted mean"), (VANILLA, "plain mean")),
    Comparison("paper, diagonal", ("small-diagonal", "weighted mean"), (VANILLA, "plain mean")),
    Comparison("ours, precision", (WEIGHTED, "weighted mean"), (SEVERAL, "plain mean")),
    Comparison("ours, agreement", (SEVERAL, "agreement"), (SEVERAL, "plain mean")),
    Comparison("ours", (WEIGHTED, "agreement"), (SEVERAL, "plain mean")),
    Comparison("ours, against precision", (WEIGHTED, "agreement"), (WEIGHTED, "weighted mean")),
    Comparison("ours, against agreement", (WEIGHTED, "agreement"), (SEVERAL, "agreement")),
    Comparison("agreement, against median", (WEIGHTED, "agreement"), (WEIGHTED, "median")),
    Comparison("damage in training", (SEVERAL, "plain mean"), (VANILLA, "plain mean")),
)

Measured = dict[tuple[str, int], dict[Condition, Accuracies]]  # by run and seed


def scores_of(measured: Measured) -> list[NoiseScore]:
    scores = []
    for network in NOISE:
        by_seed = {seed: found for (name, seed), found in measured.items() if name == network}
        known = ((condition, rule) for found in by_seed.values() for condition in found for rule in found[condition])
        for condition, rule in dict.fromkeys(known):
            values = {seed: found[condition][rule] for seed, found in by_seed.items() if condition in found}
            mean, each, interval = _over_characters(values)
            scores.append(
                NoiseScore(
                    network=network, rule=rule, condition=condition, accuracy=mean, by_seed=each, interval=interval
                )
            )
    return scores


def differences_of(measured: Measured) -> list[NoiseDifference]:
    differences = []
    for name, (one, rule), (other, other_rule) in COMPARISONS:
        pairs = {
            seed: (found, measured[other, seed])
            for (network, seed), found in measured.items()
            if network == one and (other, seed) in measured
        }
        known = (condition for found, base in pairs.values() for condition in found if condition in base)
        for condition in dict.fromkeys(known):
            values = {
                seed: found[condition][rule] - base[condition][other_rule]
                for seed, (found, base) in pairs.items()
                if condition in found and condition in base
            }
            mean, each, interval = _over_characters(values)
            differences.append(
                NoiseDifference(
                    comparison=name,
                    condition=condition,
                    difference=mean,
                    by_seed=each,
                    interval=interval,
                    over_seeds=student_interval(list(each.values())) if len(each) > 1 else None,
                )
            )
    return differences


def _over_characters(values: dict[int, np.ndarray]) -> tuple[float, dict[int, float], float | None]:
    """Return the mean over seeds and characters, the means of the seeds, and half the interval over characters."""
    by_character = np.mean(list(values.values()), axis=0)
    by_seed = {seed: float(value.mean()) for seed, value in values.items()}
    interval = student_interval(by_character) if len(by_character) > 1 else None
    return float(by_character.mean()), by_seed, interval
