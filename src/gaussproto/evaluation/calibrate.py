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
from gaussproto.formulas.embedded import Embedded
from gaussproto.formulas.temperature import Answers, cross_fit
from gaussproto.model.embed import embed_all
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.progress import Progress, silent
from gaussproto.runs.checkpoint import load_checkpoint
from gaussproto.runs.metrics import ConfidenceScore

WAYS, FITTED_SHOTS, SHOTS = (5, 20), (1, 2, 3, 5), (1, 5)
FITTED_CLASSES = 1000  # at most; more would only change the third digit
QUERIES = 40_000  # for each way and shot, approximately


class Episode(NamedTuple):
    """Distances between the queries and the prototypes of an episode."""

    known: Answers  # to queries of the episode's classes
    unknown: np.ndarray  # (M, way) of queries of other classes
    s_known: np.ndarray | None  # (N, E) precisions of the queries
    s_unknown: np.ndarray | None
    own: np.ndarray  # the `left_out_distances` of the supports
    low: float | None  # the `low_precision` of the supports


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

    The temperature is tested on classes that are left out of its fit. It stays 1 if the fitted one does not lower the
    negative log-likelihood there by more than a standard error, or raises the calibration error. On training classes it
    never goes below 1: a network is more certain of them, with good reason, than it should be of new classes.

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
    distance = network.config.distance
    tasks, own, precisions = [], [], []
    for *_, episodes in _tasks(network, images, WAYS, FITTED_SHOTS, seed, progress):
        known = _join(episodes)
        tasks.append(known)
        own.append(known.d[np.arange(len(known.d)), known.truth] / known.scale)
        precisions += [episode.s_known for episode in episodes if episode.s_known is not None]
    s = np.concatenate(precisions) if precisions else None
    low = None if s is None else float(np.quantile(confidence.precision_sizes(s), confidence.LOW_SHARE)) or None
    far = np.concatenate(own) * confidence.enlargement(s, low, distance)
    evidence = cross_fit(tasks, np.random.default_rng(seed))
    used = evidence.helps and (held_out or evidence.fitted >= 1)
    return confidence.Calibration(
        temperature=evidence.fitted if used else 1.0,
        scaled=used,
        thresholds=tuple(np.quantile(far, 1 - np.array(confidence.RATES)).tolist()),
        classes=images.way,
        held_out=held_out,
        low_precision=low,
        evidence=evidence,
    )


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
    for way, shot, episodes in _tasks(network, images, ways, shots, seed, progress):
        d, truth, _, scale = _join(episodes)
        temperature = 1.0 if calibration is None else calibration.temperature_at(scale)
        rejected = [_rejected(episode, rate, calibration, network.config.distance) for episode in episodes]
        score = ConfidenceScore(
            way=way,
            shot=shot,
            accuracy=float((d.argmin(axis=1) == truth).mean()),
            ece_before=confidence.expected_calibration_error(confidence.probabilities(d), truth),
            ece_after=confidence.expected_calibration_error(confidence.probabilities(d, temperature), truth),
            nll_before=confidence.negative_log_likelihood(d, truth),
            nll_after=confidence.negative_log_likelihood(d, truth, temperature),
            auroc=share_higher(np.concatenate([episode.unknown.min(axis=1) for episode in episodes]), d.min(axis=1)),
            rate=rate,
            known_rejected=float(np.concatenate([known for known, _ in rejected]).mean()),
            unknown_rejected=float(np.concatenate([unknown for _, unknown in rejected]).mean()),
        )
        scores.append(score)
    return scores


def _rejected(
    episode: Episode, rate: float, calibration: confidence.Calibration | None, distance: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return which known and which unknown queries are rejected, as the classifier does it."""
    threshold = episode.known.scale * confidence.reject_threshold(episode.own, rate, calibration)
    own = len(episode.own) >= confidence.examples_needed(rate)
    low = episode.low if own or calibration is None else calibration.low_precision
    near = episode.known.d.min(axis=1) * confidence.enlargement(episode.s_known, low, distance)
    far = episode.unknown.min(axis=1) * confidence.enlargement(episode.s_unknown, low, distance)
    return near > threshold, far > threshold


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
) -> Iterator[tuple[int, int, list[Episode]]]:
    """Yield way, shot and episodes, reduced so that unknown classes and queries remain."""
    drawings = int(images.counts.min())
    if images.way < 3 or drawings < 2:
        found = f"found {images.way} classes, the smallest with {drawings} image{'s' * (drawings != 1)}"
        raise InputError(f"calibration needs at least three classes of two images each ({found}): add images")
    embedded = embed_all(network, images.images, progress).map(lambda t: t.cpu().double())
    characters = np.unique(images.characters, return_inverse=True)[1]  # (C,): rotations of a character are alike
    possible = {min(way, images.way - 1) for way in ways}, {min(shot, drawings - 1) for shot in shots}
    for way, shot in product(*map(sorted, possible)):
        generator = torch.Generator().manual_seed(seed)
        episodes = []
        for _ in range(math.ceil(QUERIES / (way * (drawings - shot)))):
            classes = torch.randperm(images.way, generator=generator)[: 2 * way]  # the second half is unknown
            index = images.starts[classes, None] + sample_drawings(images.counts[classes], drawings, generator)
            episodes.append(_episode(network, embedded, index, way, shot, characters[classes[:way].numpy()]))
        yield way, shot, episodes


def _episode(
    network: GaussianPrototypicalNetwork, embedded: Embedded[torch.Tensor], index: torch.Tensor, way: int, shot: int,
    characters: np.ndarray,
) -> Episode:  # fmt: skip
    distance, in_distance = network.config.distance, network.config.in_distance
    support, known, unknown = index[:way, :shot], index[:way, shot:].flatten(), index[way:, shot:].flatten()
    p, metric = network.prototypes(embedded[support])
    queries = embedded[torch.cat([known, unknown])]
    d = network.distances(queries.x, p, metric).numpy()
    examples = embedded[support.flatten()].map(lambda t: t.numpy())
    labels, truth = (np.repeat(np.arange(way), each) for each in (shot, index.shape[1] - shot))
    low = confidence.low_precision(examples, labels)
    own = confidence.left_out_distances(examples, labels, distance, in_distance, low)
    scale = confidence.distance_scale(shot, distance, in_distance)
    N, s = len(known), None if queries.s is None else queries.s.numpy()
    answers = Answers(d[:N], truth, characters[truth], scale)
    return Episode(answers, d[N:], None if s is None else s[:N], None if s is None else s[N:], own, low)


def _join(episodes: list[Episode]) -> Answers:
    d, truth, group = map(np.concatenate, zip(*(episode.known[:3] for episode in episodes), strict=True))
    return Answers(d, truth, group, episodes[0].known.scale)
