"""The results of a run: the types of `metrics.json` and of the lines of `log.jsonl`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError

from gaussproto.errors import InputError
from gaussproto.files import read_json
from gaussproto.formulas.confidence import Calibration
from gaussproto.provenance import Machine
from gaussproto.runs.scores import ChallengeScore as ChallengeScore
from gaussproto.runs.scores import Evaluation as Evaluation
from gaussproto.runs.scores import Result as Result
from gaussproto.runs.scores import RunEvaluation as RunEvaluation
from gaussproto.runs.scores import Score as Score
from gaussproto.runs.scores import score_text as score_text
from gaussproto.setting_types import Norm, first_problem

R = TypeVar("R", bound=Result)


class CurvePoint(Result):
    """Scores on the test classes at one point of the training."""

    episode: int
    norm: Norm = "running"
    scores: tuple[Score, ...]


class DamageStudy(Result):
    """The effect of damaged supports on the precision and the accuracy."""

    size: int  # side in pixels that damaged images were down-sampled to
    way: int
    shot: int
    rounds: int
    seed: int
    accuracy: tuple[float, ...]  # with 0, 1, ... damaged supports in every class; queries are clean
    precision_clean: float | None = None  # mean; None for a vanilla network
    precision_damaged: float | None = None
    precision_std: float | None = None  # standard deviation over clean images
    clean_is_higher: float | None = None  # share of pairs in which the clean image has the higher precision


class ConfidenceScore(Result):
    """The quality of probabilities and rejections at one way and shot. All but the likelihoods are shares of 1."""

    way: int
    shot: int
    accuracy: float
    ece_before: float  # expected calibration error at temperature 1
    ece_after: float
    nll_before: float  # negative log-likelihood, nats
    nll_after: float
    auroc: float  # share of pairs in which the unknown image is farther from its nearest class than the known one
    rate: float  # share of known images that the user accepts to reject
    known_rejected: float
    unknown_rejected: float


class CalibrationResult(Result):
    """The result of `gaussproto calibrate`."""

    target: str
    seed: int
    calibration: Calibration
    measured: tuple[ConfidenceScore, ...]


class Kept(Result):
    """A checkpoint that was kept for its training accuracy."""

    episode: int
    accuracy: float


class TrainingSummary(Result):
    """The length, the last loss and accuracy, and the origin of a training."""

    episodes: int
    seconds: float
    loss: float
    accuracy: float
    kept: tuple[Kept, ...]
    parameters: int
    seed: int
    init: str | None = None
    command: str | None = None
    commits: tuple[str | None, ...] = ()
    threads: tuple[int, ...] = ()  # of all processes together
    ranks: tuple[int, ...] = ()  # the numbers of processes
    lengthened: tuple[int, ...] = ()  # the episodes at which the run was lengthened


class Metrics(Result):
    """All results of a run: the content of its `metrics.json`.

    Attributes:
        version: version of the file format.
        training: length, time, last loss and accuracy, and origin of the training. None before it has finished.
        machine: the hardware and software versions.
        evaluations: the evaluations of the run, one for each data set, norm and choice of checkpoints.
        curve: scores of the snapshots, in the order of training.
        damage: the effect of damaged supports, if it was measured.
        challenge: the result of Lake's one-shot challenge, if it was measured.
        calibration: the result of `gaussproto calibrate`, if it was run.
        sha256: checksum of the file, which `gaussproto` compares when it reads the file.

    Examples:
        >>> import gaussproto as gp
        >>> from tempfile import TemporaryDirectory
        >>> config = gp.preset("demo", rotations=False, filters=(4, 4, 4), way=5, episodes=10)
        >>> with TemporaryDirectory() as folder:
        ...     run = gp.train(config, out=folder)
        ...     metrics = gp.Metrics.model_validate_json((run.folder / "metrics.json").read_text())
        >>> metrics.training.episodes, metrics.evaluations
        (10, ())
    """

    version: Literal[1] = 1
    training: TrainingSummary | None = None
    machine: Machine | None = None
    evaluations: tuple[RunEvaluation, ...] = ()
    curve: tuple[CurvePoint, ...] = ()
    damage: DamageStudy | None = None
    challenge: ChallengeScore | None = None
    calibration: CalibrationResult | None = None
    sha256: str | None = Field(default=None, exclude=True, repr=False)

    def evaluation(
        self, data: str, norm: Norm, checkpoint: str, split: str | None = None, within_alphabet: bool = False,
        views: int = 1,
    ) -> RunEvaluation | None:  # fmt: skip
        """Return the evaluation on this data with this norm and choice of checkpoints ("last" or "top"), or None."""
        key = (data, split, norm, checkpoint, within_alphabet, views)
        return next((each for each in self.evaluations if each.key == key), None)

    def with_evaluation(self, new: RunEvaluation) -> Metrics:
        evaluations = {each.key: each for each in self.evaluations}
        evaluations[new.key] = new.merged_with(evaluations.get(new.key))
        return self.model_copy(update={"evaluations": tuple(evaluations.values())})


class LogRecord(Result):
    """One line of `log.jsonl`: means over the episodes since the previous line.

    Attributes:
        version: version of the file format.
        episode: number of episodes trained so far.
        stage: index of the stage.
        loss: mean cross-entropy of a query, in nats.
        accuracy: share of the queries that were classified correctly.
        learning_rate: the learning rate.
        precision_mean: mean precision of the images. None for a vanilla network.
        precision_std: standard deviation of the precision over the images of an episode. None for a vanilla network.
        seconds: training time so far.
        crc32: checksum of the line, which `gaussproto` compares when it reads the file.

    Examples:
        >>> import gaussproto as gp
        >>> from tempfile import TemporaryDirectory
        >>> config = gp.preset("demo", rotations=False, filters=(4, 4, 4), way=5, episodes=10)
        >>> records = []
        >>> with TemporaryDirectory() as folder:
        ...     run = gp.train(config, out=folder, on_log=records.append)
        >>> records[-1].episode, 0 <= records[-1].accuracy <= 1
        (10, True)
    """

    version: Literal[1] = 1
    episode: int
    stage: int
    loss: float
    accuracy: float
    learning_rate: float
    precision_mean: float | None = None
    precision_std: float | None = None
    seconds: float
    crc32: str | None = Field(default=None, exclude=True, repr=False)


def read_metrics(path: Path) -> Metrics:
    return parse_result(Metrics, read_json(path), str(path))


def parse_json(kind: type[R], text: str, name: str) -> R:
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is not JSON ({error})") from None
    return parse_result(kind, tree, name)


def parse_result(kind: type[R], tree: Any, name: str) -> R:
    """Validate the content of a file. Errors call the file `name`."""
    version = tree.get("version") if isinstance(tree, dict) else None
    known = kind.model_fields["version"].default
    remedy = "train the run again" if kind is LogRecord else "remove it and evaluate the run again"
    if version != known:
        found = "none, as before the first release" if version is None else version
        raise InputError(f"{name} must have the format version {known} (found {found}): {remedy}")
    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        raise InputError(f"{name} is damaged ({first_problem(error)}): {remedy}") from None
