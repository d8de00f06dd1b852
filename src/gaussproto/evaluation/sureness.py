"""A network's calibration, fitted on episodes, and how well it then knows what it knows, on classes it has not seen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gaussproto.data.images import LabelledImages, Progress, silent
from gaussproto.data.load import load_data
from gaussproto.errors import InputError
from gaussproto.evaluation.calibration import (
    RATES,
    Calibration,
    expected_calibration_error,
    far_limit,
    fit_temperature,
    left_out_distances,
    negative_log_likelihood,
    probabilities,
    spread,
)
from gaussproto.evaluation.protocol import embed_all
from gaussproto.evaluation.robustness import share_higher
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.training.checkpoint import load_checkpoint
from gaussproto.training.episode import sample_drawings

WAYS, FITTED_SHOTS, SHOTS = (5, 20), (1, 2, 3, 5), (1, 5)
FITTED_CLASSES = 1000  # at most: more would change the third digit, and each is embedded
QUERIES = 40_000  # of each way and shot, about


@dataclass(frozen=True)
class Sureness:
    """What a network knows of its own answers, at one way and shot; all numbers but the likelihoods are shares of 1."""

    way: int
    shot: int
    accuracy: float
    ece_before: float  # expected calibration error at temperature 1
    ece_after: float
    nll_before: float  # negative log-likelihood, nats
    nll_after: float
    auroc: float  # of the smallest distance: share of pairs in which the unknown image is farther than the known one
    rate: float  # of false alarms that was asked for
    false_alarms: float  # images of known classes that were called unknown
    caught: float  # images of unknown classes that were called unknown


class Episode(NamedTuple):
    """Distances of the queries to the prototypes of an episode, and what its supports are to each other."""

    known: np.ndarray  # (N, way) queries of the episode's classes
    truth: np.ndarray  # (N,)
    unknown: np.ndarray  # (M, way) queries of other classes
    own: np.ndarray  # of the supports, as `left_out_distances` gives them


def calibrate(
    network: GaussianPrototypicalNetwork,
    images: LabelledImages,
    *,
    held_out: bool,
    seed: int = 0,
    progress: Progress = silent,
) -> Calibration:
    """Fit a temperature, and limits of the distance of an image from its own class, on episodes of these classes.

    Args:
        network: as it will be used.
        images: of known classes, best of such as the network has not seen, but not those that it is tested on.
        held_out: whether it has not seen them.
        seed: of the episodes.
        progress: called as the images are embedded.
    """
    generator = torch.Generator().manual_seed(seed)
    images = images.select(sorted(torch.randperm(images.way, generator=generator)[:FITTED_CLASSES].tolist()))
    ways, shots = _that_fit(images, WAYS, FITTED_SHOTS)
    x, s = _embed(network, images, progress)
    answers, own = [], []
    for way, shot in product(ways, shots):
        d, truth, _, _ = _join(_episodes(network, x, s, images, way, shot, seed))
        d = d / spread(shot, network.config.distance, network.config.in_distance)
        answers.append((d, truth))
        own.append(d[np.arange(len(d)), truth])
    limits = np.quantile(np.concatenate(own), 1 - np.array(RATES))
    return Calibration(
        temperature=fit_temperature(answers), limits=tuple(limits.tolist()), classes=images.way, held_out=held_out
    )


def measure(
    network: GaussianPrototypicalNetwork,
    images: LabelledImages,
    calibration: Calibration | None,
    *,
    ways: Sequence[int] = WAYS,
    shots: Sequence[int] = SHOTS,
    rate: float = 0.05,
    seed: int = 0,
    progress: Progress = silent,
) -> list[Sureness]:
    """How sure a network is and should be, on classes that it has not seen.

    Args:
        network: as it is used.
        images: of those classes.
        calibration: what it carries; without it the temperature stays 1.
        ways: classes that it knows; as many others, or as there are, are unknown.
        shots: examples of each.
        rate: of false alarms that is asked for; limits come from the examples, as in the classifier.
        seed: of the episodes.
        progress: called as the images are embedded.
    """
    ways, shots = _that_fit(images, ways, shots)
    x, s = _embed(network, images, progress)
    found = []
    for way, shot in product(ways, shots):
        width = spread(shot, network.config.distance, network.config.in_distance)
        episodes = list(_episodes(network, x, s, images, way, shot, seed))
        known, truth, unknown, _ = _join(episodes)
        limits = [width * far_limit(episode.own, rate, calibration) for episode in episodes]
        found.append(
            _sureness(
                (way, shot, rate),
                (known, truth, unknown),
                1.0 if calibration is None else width * calibration.temperature,
                np.repeat(limits, [len(episode.known) for episode in episodes]),
                np.repeat(limits, [len(episode.unknown) for episode in episodes]),
            )
        )
    return found


def calibrate_weights(
    path: Path, data_root: Path | None = None, rate: float = 0.05, seed: int = 0, progress: Progress = silent
) -> tuple[Calibration, list[Sureness]]:
    """Calibrate the weights of a file on their own data, and measure on its test classes; the file stays as it is.

    Fitted is on the alphabets that were held out of training if there are any, else on the training classes.
    """
    checkpoint = load_checkpoint(path)
    network, data = checkpoint.network().eval(), checkpoint.config.data
    split = load_data(data, data_root, progress)
    held_out = data.holdout > 0
    calibration = calibrate(
        network, split.test if held_out else split.train, held_out=held_out, seed=seed, progress=progress
    )
    test = load_data(data.model_copy(update={"holdout": 0}), data_root, progress).test if held_out else split.test
    if test.way < 3 or int(test.counts.min()) < 2:  # a class must be unknown, and an image of each be asked about
        return calibration, []
    return calibration, measure(network, test, calibration, rate=rate, seed=seed, progress=progress)


def _sureness(
    how: tuple[int, int, float],
    asked: tuple[np.ndarray, np.ndarray, np.ndarray],
    temperature: float,
    known_limits: np.ndarray,
    unknown_limits: np.ndarray,
) -> Sureness:
    way, shot, rate = how
    known, truth, unknown = asked
    near, far = known.min(axis=1), unknown.min(axis=1)
    return Sureness(
        way,
        shot,
        accuracy=float((known.argmin(axis=1) == truth).mean()),
        ece_before=expected_calibration_error(probabilities(known), truth),
        ece_after=expected_calibration_error(probabilities(known, temperature), truth),
        nll_before=negative_log_likelihood(known, truth),
        nll_after=negative_log_likelihood(known, truth, temperature),
        auroc=share_higher(far, near),
        rate=rate,
        false_alarms=float((near > known_limits).mean()),
        caught=float((far > unknown_limits).mean()),
    )


def _that_fit(images: LabelledImages, ways: Sequence[int], shots: Sequence[int]) -> tuple[list[int], list[int]]:
    """Those that leave a class unknown and a drawing of each class to ask about."""
    most_ways, most_shots = images.way - 1, int(images.counts.min()) - 1
    if most_ways < 2 or most_shots < 1:
        raise InputError(
            f"to measure how sure a network is takes three classes of two images or more (found {images.way} classes, "
            f"the smallest of {most_shots + 1})"
        )
    return (
        sorted({min(way, most_ways) for way in ways}),
        sorted({min(shot, most_shots) for shot in shots}),
    )


def _embed(
    network: GaussianPrototypicalNetwork, images: LabelledImages, progress: Progress
) -> tuple[Tensor, Tensor | None]:
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x, s = embed_all(network, images.images, progress)
    return x.cpu().double(), None if s is None else s.cpu().double()


def _episodes(
    network: GaussianPrototypicalNetwork,
    x: Tensor,
    s: Tensor | None,
    images: LabelledImages,
    way: int,
    shot: int,
    seed: int,
) -> Iterator[Episode]:
    """Random episodes of embedded images: `way` classes that are known, as many others (or as there are) unknown."""
    generator = torch.Generator().manual_seed(seed)
    drawings = int(images.counts.min())
    in_distance, distance = network.config.in_distance, network.config.distance
    labels = np.repeat(np.arange(way), shot)
    for _ in range(math.ceil(QUERIES / (way * (drawings - shot)))):
        classes = torch.randperm(images.way, generator=generator)[: 2 * way]
        index = images.starts[classes, None] + sample_drawings(images.counts[classes], drawings, generator)
        support, known = index[:way, :shot], index[:way, shot:].flatten()
        unknown = index[way:, shot:].flatten()
        p, metric = network.prototypes(x[support], None if s is None else s[support])
        d = network.distances(x[torch.cat([known, unknown])], p, metric).numpy()
        own = left_out_distances(
            x[support.flatten()].numpy(),
            None if s is None else s[support.flatten()].numpy(),
            labels,
            distance,
            in_distance,
        )
        truth = np.repeat(np.arange(way), drawings - shot)
        yield Episode(d[: len(known)], truth, d[len(known) :], own)


def _join(episodes: Iterator[Episode] | list[Episode]) -> Episode:
    known, truth, unknown, own = zip(*episodes, strict=True)
    return Episode(np.concatenate(known), np.concatenate(truth), np.concatenate(unknown), np.concatenate(own))
