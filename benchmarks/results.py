"""Types of the benchmark results."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from gaussproto.files import read_json
from gaussproto.provenance import Machine
from gaussproto.runs.metrics import Result, Score, parse_result


class Effort(Result):
    """How long a case is measured."""

    rounds: int = 5  # worker processes for each side
    seconds: float = 3.0  # minimum in each process
    repetitions: int = 3  # minimum in each process


class Ratio(Result):
    """Ratio of the times of two sides: median, lowest and highest of the rounds."""

    median: float
    low: float
    high: float

    @property
    def inverse(self) -> Ratio:
        """The ratio with the sides exchanged."""
        return Ratio(median=1 / self.median, low=1 / self.high, high=1 / self.low)


class Cost(Result):
    """Time and memory of a piece of work, as medians over the rounds."""

    seconds: float
    memory: float  # peak of the process, GiB


class CaseResult(Result):
    """The cost of a case and of the work that it is compared with."""

    group: str
    name: str
    images: int  # that pass through the encoder in each repetition
    ours: Cost
    other: Cost | None = None
    speedup: Ratio | None = None  # the other time divided by ours
    gemm_share: float | None = None  # multiplications per second in a step, relative to a matrix product


class CurvePoint(Result):
    """The accuracy of a snapshot of a training."""

    seconds: float  # of training
    accuracy: float  # 20-way 1-shot


class Curve(Result):
    """A training, and the accuracy of its snapshots."""

    preset: str
    load: float | None = None  # seconds to read and, if the preset says so, prepare all drawings of Omniglot
    points: tuple[CurvePoint, ...]

    def time_to(self, goal: float) -> float | None:
        """Return the seconds of training after which the accuracy was first reached, or None."""
        return next((point.seconds for point in self.points if point.accuracy >= goal), None)

    @property
    def best(self) -> float:
        return max(point.accuracy for point in self.points)


class Report(Result):
    """The results of `make bench`."""

    version: Literal[1] = 1
    machine: Machine | None  # None if every case failed
    effort: Effort
    gemm_rate: float | None  # multiplications per second in a matrix product
    cases: tuple[CaseResult, ...]
    curves: tuple[Curve, ...] = ()

    def of(self, *groups: str) -> list[CaseResult]:
        """The cases of these groups."""
        return [case for case in self.cases if case.group in groups]


def read_report(path: Path) -> Report:
    """Read the report that `make bench ARGS=--json` printed."""
    return parse_result(Report, read_json(path), str(path))


class WorkerResult(Result):
    """The output of a worker process."""

    machine: Machine
    times: tuple[float, ...] = ()  # seconds of each repetition
    memory: int = 0  # peak of the process, bytes
    gemm_rate: float = 0.0
    multiplications: int | None = None  # of a step
    curve: Curve | None = None


class StartResult(Result):
    """The output of `benchmarks.start`: medians in seconds."""

    version: Literal[1] = 1
    machine: Machine
    draw_strokes: float
    show_help: float
    import_torch: float
    classify_drawing: float  # start Python, fit 25 examples of five classes and classify an image
    classify_photo: float | None = None  # None without the extra photo
    decode_omniglot: float | None = None  # None if Omniglot is not available
    load_cached_omniglot: float | None = None


class TaskAccuracy(Result):
    """The accuracy of one way and shot."""

    way: int
    shot: int
    accuracy: float


class DamagedExamples(Result):
    """The accuracy of the classifier with some examples damaged."""

    encoder: str
    accuracy: float
    share_damaged: float  # mean share of a damaged example in its prototype
    share_clean: float


class ClassifierResult(Result):
    """The output of `benchmarks.classifier`: the classifier on Omniglot."""

    version: Literal[1] = 1
    machine: Machine
    encoder: str
    by_files: tuple[TaskAccuracy, ...]
    by_protocol: tuple[Score, ...]
    predict_paths: float  # median seconds of predict for 1,000 files of 105 x 105 pixels
    predict_arrays: float  # the same for 1,000 arrays of 28 x 28 pixels
    damaged: tuple[DamagedExamples, ...]


class VectorScores(Result):
    """Accuracies of one kind of feature vectors."""

    vectors: str
    head: bool  # whether a Gaussian head was trained on vectors of the training classes
    scores: tuple[TaskAccuracy, ...]


class VectorsResult(Result):
    """The output of `benchmarks.vectors`: the classification of feature vectors."""

    version: Literal[1] = 1
    kinds: tuple[VectorScores, ...]
