"""Calibrate the confidence of a network on episodes, and measure it on classes never seen in training."""

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
FITTED_CLASSES = 1000  # at most; more would only change the third digit
QUERIES = 40_000  # for each way and shot, approximately


class Answers(NamedTuple):
    """Distances between queries and the prototypes of one or several episodes."""

    known: np.ndarray  # (N, way) of queries of the episode's classes
    truth: np.ndarray  # (N,) the class of each
    unknown: np.ndarray  # (M, way) of queries of other classes
    own: np.ndarray  # the `left_out_distances` of the supports


def calibrate(
    network: GaussianPrototypicalNetwork,
    images: LabelledImages,
    *,
    held_out: bool,
    seed: int = 0,
    progress: Progress = silent,
) -> confidence.Calibration:
    """Fit the temperature of the probabilities and the thresholds for unknown images to episodes of these classes.

    Pass classes that the network was not trained on, but not the test classes. On training classes the thresholds
    become too small, because their images are closer together than those of new classes.

    Args:
        network: the network to calibrate.
        images: at least three classes of at least two images each.
        held_out: whether the network was trained without these classes. The result records it.
        seed: of the episodes.
        progress: called as the images are embedded.

    Returns:
        The temperature and the thresholds, divided by the scale that depends on the number of examples.

    Examples:
        >>> import gaussproto as gp
        >>> network = gp.load_network("drawings-small")
        >>> images = gp.load_data(gp.DataConfig(data="strokes", rotations=False)).test.select(range(6))
        >>> calibration = gp.calibrate(network, images, held_out=True)
        >>> calibration.classes, 0 < calibration.temperature < 10
        (6, True)
        >>> calibration.threshold(0.05) < calibration.threshold(0.01)
        True
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
    """Compare the confidence of a network with its accuracy, on classes that it was not trained on.

    Args:
        network: the network to measure.
        images: the test classes.
        calibration: from `calibrate`. If None, the temperature is 1.
        ways: classes of an episode.
        shots: supports of each class.
        rate: the share of known images that may be rejected. Thresholds come from the supports where they are enough,
            otherwise from the calibration, as in the classifier.
        seed: of the episodes.
        progress: called as the images are embedded.

    Returns:
        One result for each way and shot.
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
    path: Path, data_root: Path | None = None, rate: float = 0.05, seed: int = 0, progress: Progress = silent,
    device: str = "cpu",
) -> tuple[confidence.Calibration, list[ConfidenceScore]]:  # fmt: skip
    """Calibrate the weights in a file on the data of their run, and measure them on its test classes.

    Fits on held-out alphabets if the run has any, otherwise on the training classes. Does not change the file.
    """
    checkpoint = load_checkpoint(path)
    network, data = checkpoint.network(device).eval(), checkpoint.config.data.for_evaluation()
    split = load_data(data, data_root, progress)
    held_out = data.holdout > 0
    fitted_on = split.test if held_out else split.train
    calibration = calibrate(network, fitted_on, held_out=held_out, seed=seed, progress=progress)
    test = load_data(data.model_copy(update={"holdout": 0}), data_root, progress).test if held_out else split.test
    if test.way < 3 or int(test.counts.min()) < 2:  # too few for an unknown class and a query of each class
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
    """Yield way, shot, scale of the distances, and episodes, reduced so that unknown classes and queries remain."""
    drawings = int(images.counts.min())
    if images.way < 3 or drawings < 2:
        found = f"found {images.way} classes, the smallest with {drawings} image{'s' * (drawings != 1)}"
        raise InputError(f"calibration needs at least three classes of two images each ({found}): add images")
    embedded = embed_all(network, images.images, progress).map(lambda t: t.cpu().double())
    possible = {min(way, images.way - 1) for way in ways}, {min(shot, drawings - 1) for shot in shots}
    for way, shot in product(*map(sorted, possible)):
        scale = confidence.distance_scale(shot, network.config.distance, network.config.in_distance)
        generator = torch.Generator().manual_seed(seed)
        episodes = []
        for _ in range(math.ceil(QUERIES / (way * (drawings - shot)))):
            classes = torch.randperm(images.way, generator=generator)[: 2 * way]  # the second half is unknown
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
