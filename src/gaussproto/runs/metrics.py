"""The results of a run, each with a type: `metrics.json` and the lines of `log.jsonl`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from gaussproto.errors import InputError
from gaussproto.files import read_json
from gaussproto.formulas.confidence import Calibration
from gaussproto.provenance import Machine
from gaussproto.setting_types import Norm

R = TypeVar("R", bound="Result")


class Result(BaseModel):
    """Something that was measured."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def score_text(percent: float, interval: float | None = None, std: float | None = None, sign: str = "") -> str:
    """An accuracy or a difference in %: ± is always the 95 % interval, and a standard deviation is called std.

    >>> score_text(96.7, 0.28), score_text(96.7, 0.28, 0.04), score_text(0.2, 0.25, sign="+")
    ('96.70 ± 0.28', '96.70 ± 0.28 (std 0.04)', '+0.20 ± 0.25')
    """
    text = f"{percent:{sign}.2f}" + ("" if interval is None else f" ± {interval:.2f}")
    return text + ("" if std is None else f" (std {std:.2f})")


class Score(Result):
    """Accuracy of one way and shot; all numbers are shares of 1."""

    way: int
    shot: int
    accuracy: float
    interval: float  # 95 %: 1.96 standard errors of the mean over the characters of the test set
    std: float | None = None  # standard deviation over the checkpoints, as the paper reports it; None if there is one

    def text(self, std: bool = True) -> str:
        shown_std = 100 * self.std if std and self.std is not None else None
        return score_text(100 * self.accuracy, 100 * self.interval, shown_std)


class Evaluation(Result):
    """The scores of one or several networks, and how they were measured."""

    norm: Norm
    classes: int
    rounds: int
    seed: int
    checkpoints: int
    scores: tuple[Score, ...]

    def find(self, way: int, shot: int) -> Score | None:
        return next((score for score in self.scores if (score.way, score.shot) == (way, shot)), None)

    def score(self, way: int, shot: int) -> Score:
        score = self.find(way, shot)
        if score is None:
            raise InputError(f"{way}-way {shot}-shot was not measured: ask `evaluate` for it")
        return score

    @property
    def ways(self) -> list[int]:
        return sorted({score.way for score in self.scores})

    @property
    def shots(self) -> list[int]:
        return sorted({score.shot for score in self.scores})


class RunEvaluation(Evaluation):
    """An evaluation of a run's weights."""

    target: str  # the run or weights, as it was named
    data: str
    split: str | None = None  # the file that named the test classes of other data
    checkpoint: Literal["last", "top"]
    episodes: tuple[int, ...] | None = None  # of training that each checkpoint had seen

    @property
    def key(self) -> tuple[str, str | None, Norm, str]:
        """A run has one evaluation for each."""
        return self.data, self.split, self.norm, self.checkpoint

    @property
    def checkpoint_text(self) -> str:
        return "last checkpoint" if self.checkpoint == "last" else "mean of the checkpoints best in training"

    @property
    def description(self) -> str:
        return f"{self.data}, {self.norm} statistics, {self.checkpoint_text}, {self.classes:,} test classes"

    def merged_with(self, before: RunEvaluation | None) -> RunEvaluation:
        """With the ways and shots of an earlier evaluation of the same weights, measured in the same manner."""
        manner = {"episodes", "classes", "rounds", "seed"}
        if before is None or self.model_dump(include=manner) != before.model_dump(include=manner):
            return self
        scores = {(score.way, score.shot): score for score in (*before.scores, *self.scores)}
        return self.model_copy(update={"scores": tuple(scores[task] for task in sorted(scores))})


class CurvePoint(Result):
    """Scores on the test classes part of the way through a training."""

    episode: int
    norm: Norm = "running"
    scores: tuple[Score, ...]


class DamageStudy(Result):
    """What damage does to the precision of images and to the accuracy of prototypes made of them."""

    size: int  # pixels to a side that a damaged image was down-sampled to
    way: int
    shot: int
    rounds: int
    seed: int
    accuracy: tuple[float, ...]  # with 0, 1, ... of the supports of every class damaged; queries are clean
    precision_clean: float | None = None  # the mean; None for a vanilla network
    precision_damaged: float | None = None
    precision_std: float | None = None  # standard deviation over clean images
    clean_is_higher: float | None = None  # share of pairs in which the clean image has the higher precision


class ConfidenceScore(Result):
    """How well a network knows what it knows, at one way and shot; all but the likelihoods are shares of 1."""

    way: int
    shot: int
    accuracy: float
    ece_before: float  # expected calibration error at temperature 1
    ece_after: float
    nll_before: float  # negative log-likelihood, nats
    nll_after: float
    auroc: float  # share of pairs in which the unknown image is farther from its nearest class than the known one
    rate: float  # share of known images that may be rejected
    known_rejected: float
    unknown_rejected: float


class CalibrationResult(Result):
    """What `gaussproto calibrate` found."""

    target: str
    seed: int
    calibration: Calibration
    measured: tuple[ConfidenceScore, ...]


class Kept(Result):
    """A checkpoint that is kept for its training accuracy."""

    episode: int
    accuracy: float


class TrainingSummary(Result):
    """How a training went, and what it came from."""

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
    threads: tuple[int, ...] = ()


class Metrics(Result):
    """Everything that was measured of a run: the content of `metrics.json`."""

    version: Literal[1] = 1
    training: TrainingSummary | None = None
    machine: Machine | None = None
    evaluations: tuple[RunEvaluation, ...] = ()
    curve: tuple[CurvePoint, ...] = ()
    damage: DamageStudy | None = None
    calibration: CalibrationResult | None = None

    def evaluation(self, data: str, norm: Norm, checkpoint: str, split: str | None = None) -> RunEvaluation | None:
        key = (data, split, norm, checkpoint)
        return next((each for each in self.evaluations if each.key == key), None)

    def with_evaluation(self, new: RunEvaluation) -> Metrics:
        evaluations = {each.key: each for each in self.evaluations}
        evaluations[new.key] = new.merged_with(evaluations.get(new.key))
        return self.model_copy(update={"evaluations": tuple(evaluations.values())})


class LogRecord(Result):
    """One line of `log.jsonl`: means over the episodes since the line before."""

    version: Literal[1] = 1
    episode: int
    stage: int
    loss: float  # mean cross-entropy of a query, in nats
    accuracy: float
    learning_rate: float
    precision_mean: float | None = None
    precision_std: float | None = None  # standard deviation over the images of an episode
    seconds: float  # of training so far


def read_metrics(path: Path) -> Metrics:
    return parse_result(Metrics, read_json(path), str(path))


def parse_result(kind: type[R], tree: Any, name: str) -> R:
    """Check what a file holds; errors call the file `name`."""
    version = tree.get("version") if isinstance(tree, dict) else None
    known = kind.model_fields["version"].default
    remedy = "train the run again" if kind is LogRecord else "measure it again"
    if version != known:
        found = "without a version, from before the first release" if version is None else f"of version {version}"
        raise InputError(f"{name} is {found}, and this gaussproto reads version {known}: {remedy}")
    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(map(str, problem["loc"]))
        raise InputError(f"{name} is damaged ({where}: {problem['msg']}): {remedy}") from None
