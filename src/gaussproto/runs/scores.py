"""Scores of networks: accuracies by way and shot, and how they were measured."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

from gaussproto.errors import InputError
from gaussproto.setting_types import Norm


class Result(BaseModel):
    """An immutable result that rejects unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Viewed(Result):
    """A result that depends on the number of views of each image."""

    views: int = 1

    @model_serializer(mode="wrap")
    def _without_one_view(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what earlier versions do not know, unless it says something."""
        content: dict[str, Any] = serialize(self)
        return {name: value for name, value in content.items() if name != "views" or value > 1}


def score_text(percent: float, interval: float | None = None, std: float | None = None, sign: str = "") -> str:
    """Format an accuracy or a difference in %. ± is always the 95 % interval; a standard deviation is called std.

    >>> score_text(96.7, 0.28), score_text(96.7, 0.28, 0.04), score_text(0.2, 0.25, sign="+")
    ('96.70 ± 0.28', '96.70 ± 0.28 (std 0.04)', '+0.20 ± 0.25')
    """
    text = f"{percent:{sign}.2f}" + ("" if interval is None else f" ± {interval:.2f}")
    return text + ("" if std is None else f" (std {std:.2f})")


class Score(Result):
    """The accuracy at one way and shot, as shares of 1.

    Attributes:
        way: number of classes to choose from.
        shot: number of supports (examples) of each class.
        accuracy: share of the queries that were classified correctly.
        interval: half of the 95 % interval over characters (Student's t). If they are few or score the same, it is at
            least Wilson's. None in some results of earlier versions.
        interval_episodes: half of the 95 % interval over random episodes, as most papers report it. None if all images
            of all classes were scored.
        std: standard deviation over several checkpoints, as the paper reports it. None for one checkpoint.

    Examples:
        >>> import gaussproto as gp
        >>> gp.Score(way=20, shot=1, accuracy=0.967, interval=0.0028).text()
        '96.70 ± 0.28'
    """

    way: int
    shot: int
    accuracy: float
    interval: float | None = None
    interval_episodes: float | None = None
    std: float | None = None

    def text(self, std: bool = True) -> str:
        """Return the accuracy in % with its interval and, if `std` is True, its standard deviation."""
        shown_std = 100 * self.std if std and self.std is not None else None
        return score_text(100 * self.accuracy, None if self.interval is None else 100 * self.interval, shown_std)


class Evaluation(Viewed):
    """The scores of a network, or the mean scores of several checkpoints, and how they were measured.

    `evaluate` returns it.

    Attributes:
        norm: "running" (inductive: each image independently) or "batch" (transductive: each group of images together).
        within_alphabet: whether each group was drawn from one alphabet.
        classes: number of test classes.
        rounds: how often the classes were divided into random groups.
        sampled: number of random episodes of each way and shot that were scored instead. None if all images were.
        views: number of views of each image whose embeddings were averaged.
        seed: seed of the groups or episodes.
        checkpoints: number of networks that were scored.
        scores: a `Score` for each way and shot.

    Examples:
        >>> import gaussproto as gp
        >>> test = gp.load_data(gp.DataConfig(data="strokes", rotations=False)).test.select(range(40))
        >>> evaluation = gp.evaluate(gp.load_network("drawings-small"), test, ways=[5, 20], shots=[1], rounds=1)
        >>> evaluation.ways, evaluation.classes
        ([5, 20], 40)
        >>> evaluation.score(way=5, shot=1).accuracy > evaluation.score(way=20, shot=1).accuracy
        True
    """

    norm: Norm
    within_alphabet: bool = False
    classes: int
    rounds: int
    sampled: int | None = None
    seed: int
    checkpoints: int
    scores: tuple[Score, ...]

    def find(self, way: int, shot: int) -> Score | None:
        """Return the score at a way and shot, or None if it was not measured."""
        return next((score for score in self.scores if (score.way, score.shot) == (way, shot)), None)

    def score(self, way: int, shot: int) -> Score:
        """Return the score at a way and shot. Raise InputError if it was not measured."""
        score = self.find(way, shot)
        if score is None:
            raise InputError(f"{way}-way {shot}-shot was not measured: pass this way and shot to `evaluate`")
        return score

    @property
    def ways(self) -> list[int]:
        return sorted({score.way for score in self.scores})

    @property
    def shots(self) -> list[int]:
        return sorted({score.shot for score in self.scores})


class Mistake(Result):
    """A wrong answer in Lake's challenge. All numbers count from 0."""

    run: int
    question: int
    right: int  # the example of the same character
    chosen: int  # the example that was chosen


class ChallengeScore(Viewed):
    """The result of Lake's one-shot challenge.

    Attributes:
        questions: number of questions.
        wrong: number of wrong answers in each run.
        mistakes: the wrong answers.
        views: number of views of each image whose embeddings were averaged.

    Examples:
        >>> score = ChallengeScore(questions=400, wrong=(1, 0, 4), mistakes=())
        >>> score.error, score.text()
        (0.0125, '1.25 % (95 % interval: 0.5 to 2.9)')
    """

    questions: int
    wrong: tuple[int, ...]
    mistakes: tuple[Mistake, ...]

    @property
    def error(self) -> float:
        return sum(self.wrong) / self.questions

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the error (Wilson), as if the questions were independent."""
        from scipy.stats import binomtest  # slow to import

        low, high = binomtest(sum(self.wrong), self.questions).proportion_ci(method="wilson")
        return float(low), float(high)

    def text(self) -> str:
        low, high = self.interval
        return f"{100 * self.error:.2f} % (95 % interval: {100 * low:.1f} to {100 * high:.1f})"


class RunEvaluation(Evaluation):
    """An evaluation of the weights of a run."""

    target: str  # the run or weights, as the user named it
    data: str
    split: str | None = None  # the file that named the test classes of other data
    checkpoint: Literal["last", "top"]
    episodes: tuple[int, ...] | None = None  # training episodes of each checkpoint

    @property
    def key(self) -> tuple[str, str | None, Norm, str, bool, int]:
        """The key of the evaluation: a run keeps one evaluation for each key."""
        return self.data, self.split, self.norm, self.checkpoint, self.within_alphabet, self.views

    @property
    def checkpoint_text(self) -> str:
        return "last checkpoint" if self.checkpoint == "last" else "mean of the best checkpoints in training"

    @property
    def description(self) -> str:
        within = ", groups within an alphabet" if self.within_alphabet else ""
        sampled = f", {self.sampled:,} random episodes" if self.sampled else ""
        views = f", mean of {self.views} views" if self.views > 1 else ""
        found = f"{self.classes:,} test classes{within}{sampled}{views}"
        return f"{self.data}, {self.norm} statistics, {self.checkpoint_text}, {found}"

    def merged_with(self, before: RunEvaluation | None) -> RunEvaluation:
        """Add the scores of an earlier evaluation, if it measured the same weights in the same way."""
        manner = {"episodes", "classes", "rounds", "sampled", "seed"}
        if before is None or self.model_dump(include=manner) != before.model_dump(include=manner):
            return self
        scores = {(score.way, score.shot): score for score in (*before.scores, *self.scores)}
        return self.model_copy(update={"scores": tuple(scores[task] for task in sorted(scores))})
