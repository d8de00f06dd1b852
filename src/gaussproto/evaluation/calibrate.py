"""Fit a network's calibration on episodes, and measure how well it then knows what it knows, on unseen classes."""

import math
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from gaussproto.data.images import LabelledImages
from gaussproto.data.load import load_data
from gaussproto.episodes import sample_drawings
from gaussproto.errors import InputError
from gaussproto.evaluation.robustness import share_higher
from gaussproto.formulas import confidence
from gaussproto.model.embed import embed_all
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.progress import Progress, silent
from gaussproto.runs.checkpoint import load_checkpoint
from gaussproto.runs.metrics import ConfidenceScore

WAYS, FITTED_SHOTS, SHOTS = (5, 20), (1, 2, 3, 5), (1, 5)
FITTED_CLASSES = 1000  # at most: more would change the third digit, and each is embedded
QUERIES = 40_000  # of each way and shot, about


class Answers(NamedTuple):
    """Distances of queries to the prototypes of an episode, or of several."""

    known: np.ndarray  # (N, way) queries of the episode's classes
    truth: np.ndarray  # (N,)
    unknown: np.ndarray  # (M, way) queries of other classes
    own: np.ndarray  # of the supports, as `left_out_distances` returns them


def calibrate(
    network: GaussianPrototypicalNetwork,
    images: LabelledImages,
    *,
    held_out: bool,
    seed: int = 0,
    progress: Progress = silent,
) -> confidence.Calibration:
    """Fit a temperature, and thresholds on the distance of an image from its own class, on episodes of these classes.

    Args:
        network: as it will be used.
        images: classes that the network has preferably not seen, but not those that it is tested on.
        held_out: whether it has not seen them.
        seed: of the episodes.
        progress: called as the images are embedded.
    """
    generator = torch.Generator().manual_seed(seed)
    images = images.select(sorted(torch.randperm(images.way, generator=generator)[:FITTED_CLASSES].tolist()))
    answers = []
    for *_, scale, episodes in _tasks(network, images, WAYS, FITTED_SHOTS, seed, progress):
        joined = _join(episodes)
        answers.append((joined.known / scale, joined.truth))
    own = np.concatenate([d[np.arange(len(d)), truth] for d, truth in answers])
    thresholds = tuple(np.quantile(own, 1 - np.array(confidence.RATES)).tolist())
    temperature = confidence.fit_temperature(answers)
    return confidence.Calibration(temperature=temperature, thresholds=thresholds, classes=images.way, held_out=held_out)


def measure_confidence(
    network: GaussianPrototypicalNetwork,
    images: LabelledImages,
    calibration: confidence.Calibration | None,
    *,
    ways: Sequence[int] = WAYS,
    shots: Sequence[int] = SHOTS,
    rate: float = 0.05,
    seed: int = 0,
    progress: Progress = silent,
) -> list[ConfidenceScore]:
    """How confident a network is and should be, on classes that it has not seen.

    Without a calibration the temperature stays 1. A share `rate` of known images may be rejected; the thresholds come
    from the examples, as in the classifier.
    """
    scores = []
    for way, shot, scale, episodes in _tasks(network, images, ways, shots, seed, progress):
        thresholds = [scale * confidence.reject_threshold(episode.own, rate, calibration) for episode in episodes]
        temperature = 1.0 if calibration is None else scale * calibration.temperature
        known, truth, unknown, _ = _join(episodes)
        near, far = known.min(axis=1), unknown.min(axis=1)
        score = ConfidenceScore(
            way=way,
            shot=shot,
            accuracy=float((known.argmin(axis=1) == truth).mean()),
            ece_before=confidence.expected_calibration_error(confidence.probabilities(known), truth),
            ece_after=confidence.expected_calibration_error(confidence.probabilities(known, temperature), truth),
            nll_before=confidence.negative_log_likelihood(known, truth),
            nll_after=confidence.negative_log_likelihood(known, truth, temperature),
            auroc=share_higher(far, near),
            rate=rate,
            known_rejected=float((near > np.repeat(thresholds, [len(one.known) for one in episodes])).mean()),
            unknown_rejected=float((far > np.repeat(thresholds, [len(one.unknown) for one in episodes])).mean()),
        )
        scores.append(score)
    return scores


def calibrate_weights(
    path: Path, data_root: Path | None = None, rate: float = 0.05, seed: int = 0, progress: Progress = silent
) -> tuple[confidence.Calibration, list[ConfidenceScore]]:
    """Calibrate the weights in a file on their own data, and measure on its test classes; the file stays as it is.

    Fits on held-out alphabets if the run has any, otherwise on the training classes.
    """
    checkpoint = load_checkpoint(path)
    network, data = checkpoint.network().eval(), checkpoint.config.data
    split = load_data(data, data_root, progress)
    held_out = data.holdout > 0
    fitted_on = split.test if held_out else split.train
    calibration = calibrate(network, fitted_on, held_out=held_out, seed=seed, progress=progress)
    test = load_data(data.model_copy(update={"holdout": 0}), data_root, progress).test if held_out else split.test
    if test.way < 3 or int(test.counts.min()) < 2:  # a class must be unknown, and an image of each be asked about
        return calibration, []
    return calibration, measure_confidence(network, test, calibration, rate=rate, seed=seed, progress=progress)


def _tasks(
    network: GaussianPrototypicalNetwork,
    images: LabelledImages,
    ways: Sequence[int],
    shots: Sequence[int],
    seed: int,
    progress: Progress,
) -> Iterator[tuple[int, int, float, list[Answers]]]:
    """Each way and shot that leaves a class unknown and queries of each class, its scale of distances, its episodes."""
    drawings = int(images.counts.min())
    if images.way < 3 or drawings < 2:
        found = f"found {images.way} classes, the smallest of {drawings}"
        raise InputError(f"to measure how sure a network is takes three classes of two images or more ({found})")
    embedded = embed_all(network, images.images, progress).map(lambda t: t.cpu().double())
    possible = {min(way, images.way - 1) for way in ways}, {min(shot, drawings - 1) for shot in shots}
    for way, shot in product(*map(sorted, possible)):
        scale = confidence.distance_scale(shot, network.config.distance, network.config.in_distance)
        generator = torch.Generator().manual_seed(seed)
        episodes = []
        for _ in range(math.ceil(QUERIES / (way * (drawings - shot)))):
            classes = torch.randperm(images.way, generator=generator)[: 2 * way]  # after the first `way`, unknown
            index = images.starts[classes, None] + sample_drawings(images.counts[classes], drawings, generator)
            support, known, unknown = index[:way, :shot], index[:way, shot:].flatten(), index[way:, shot:].flatten()
            p, metric = network.prototypes(embedded[support])
            d = network.distances(embedded.x[torch.cat([known, unknown])], p, metric).numpy()
            examples = embedded[support.flatten()].map(lambda t: t.numpy())
            labels, truth = (np.repeat(np.arange(way), each) for each in (shot, drawings - shot))
            own = confidence.left_out_distances(examples, labels, network.config.distance, network.config.in_distance)
            episodes.append(Answers(d[: len(known)], truth, d[len(known) :], own))
        yield way, shot, scale, episodes


def _join(episodes: list[Answers]) -> Answers:
    return Answers(*map(np.concatenate, zip(*episodes, strict=True)))
