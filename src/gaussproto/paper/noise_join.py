"""Join a study of some networks with the published one of others, whose weights are not at hand."""

from collections.abc import Iterator

import numpy as np

from gaussproto.errors import InputError
from gaussproto.formulas.interval import student_interval
from gaussproto.paper.noise_scores import COMPARISONS, Comparison
from gaussproto.paper.rows import NOISE
from gaussproto.runs.noise import NoiseDifference, NoiseScore, NoiseStudy

SAME = ("data", "way", "shot", "rounds", "seed", "characters", "images")  # then the episodes are the same, too


def join_studies(published: NoiseStudy, measured: NoiseStudy) -> NoiseStudy:
    """Return the published study, in which the networks that were measured again are replaced with all their seeds.

    A difference between a network of each study has no interval over characters, because a study does not keep the
    accuracy of each character. Its interval over seeds is exact.
    """
    for name in SAME:
        one, other = getattr(published, name), getattr(measured, name)
        if one != other:
            raise InputError(f"the studies differ in {name} ({one} and {other}): measure both in the same way")
    replaced = {network.run for network in measured.networks}
    kept = [network for network in published.networks if network.run not in replaced]
    order = list(NOISE)
    networks = sorted([*kept, *measured.networks], key=lambda network: (network.seed, order.index(network.run)))
    every = [score for score in published.scores if score.network not in replaced] + list(measured.scores)
    scores = tuple(score for name in order for score in every if score.network == name)
    differences: list[NoiseDifference] = []
    for comparison in COMPARISONS:
        new = {comparison.one[0] in replaced, comparison.other[0] in replaced}
        if len(new) == 2:
            differences += _differences(comparison, scores)
        else:
            source = measured if new == {True} else published
            differences += [each for each in source.differences if each.comparison == comparison.name]
    changes = {"networks": tuple(networks), "scores": scores, "differences": tuple(differences)}
    return published.model_copy(update=changes)


def _differences(comparison: Comparison, scores: tuple[NoiseScore, ...]) -> Iterator[NoiseDifference]:
    ones, others = (
        {score.condition: score.by_seed for score in scores if (score.network, score.rule) == side}
        for side in (comparison.one, comparison.other)
    )
    for condition, one in ones.items():
        other = others.get(condition, {})
        by_seed = {seed: one[seed] - other[seed] for seed in one if seed in other}
        if by_seed:
            yield NoiseDifference(
                comparison=comparison.name,
                condition=condition,
                difference=float(np.mean(list(by_seed.values()))),
                by_seed=by_seed,
                over_seeds=student_interval(list(by_seed.values())) if len(by_seed) > 1 else None,
            )
