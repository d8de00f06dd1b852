"""What a figure or a page may ask of a run; each thing is read or measured once, when it is first asked for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gaussproto.config import DataConfig, Norm, RunConfig, read_config
from gaussproto.data.images import LabelledImages, Progress, silent
from gaussproto.data.load import load_data
from gaussproto.errors import InputError
from gaussproto.evaluation.protocol import Evaluation, Score, evaluate, usual_shots, usual_ways
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.report.curves import TestPoint, TrainingCurve
from gaussproto.training.checkpoint import Checkpoint, load_checkpoint
from gaussproto.training.run_folder import RunFolder


@dataclass(frozen=True)
class Scored:
    """One evaluation of a run, as `metrics.json` has it."""

    data: str
    norm: Norm
    checkpoint: str  # last or top
    classes: int
    scores: tuple[Score, ...]

    def score(self, way: int, shot: int) -> Score | None:
        """The score of that way and shot, if it was measured."""
        return next((score for score in self.scores if (score.way, score.shot) == (way, shot)), None)

    @property
    def words(self) -> str:
        """How it was measured."""
        return f"{self.data}, {self.norm} statistics, {self.checkpoint_words}, {self.classes:,} test classes"

    @property
    def checkpoint_words(self) -> str:
        """Which weights were scored."""
        return "last checkpoint" if self.checkpoint == "last" else "mean of the checkpoints best in training"


class RunSource:
    """A run folder, opened for reading.

    Args:
        run: where it is.
        data_root: where Omniglot's files are, as for `load_data`.
        progress: called as images are read and embedded.
        loaded: test images by their configuration, to share among runs.
    """

    def __init__(
        self,
        run: RunFolder,
        data_root: Path | None = None,
        progress: Progress = silent,
        loaded: dict[DataConfig, LabelledImages] | None = None,
    ) -> None:
        if not run.path.exists():
            raise InputError(f"there is no run folder {run.path}")
        if not run.config.exists():
            raise InputError(f"{run.path} is not a run folder: it has no config.json")
        self.run, self.data_root = run, data_root
        self._progress = progress
        self.loaded: dict[DataConfig, LabelledImages] = {} if loaded is None else loaded
        self.name = run.path.resolve().name
        self.not_scored = ""  # why an evaluation failed

    def progress(self, what: str, done: int, total: int | None) -> None:
        """Report progress under the run's own name."""
        self._progress(f"{self.name}: {what}", done, total)

    @cached_property
    def config(self) -> RunConfig:
        """Its settings."""
        return read_config(self.run.config)

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """Its results so far."""
        return self.run.read_metrics()

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """Its last checkpoint."""
        (path,) = self.run.weights("last")
        return load_checkpoint(path)

    @cached_property
    def network(self) -> GaussianPrototypicalNetwork:
        """The network of the last checkpoint, running statistics."""
        return self.checkpoint.network().eval()

    @property
    def images(self) -> LabelledImages:
        """The test classes of its data."""
        config = self.config.data
        if config not in self.loaded:
            self.loaded[config] = load_data(config, self.data_root, self.progress).test
        return self.loaded[config]

    @property
    def done(self) -> tuple[int, int]:
        """Episodes that the last checkpoint has seen, and those of the whole training."""
        return self.checkpoint.position.episode, self.config.training.episodes

    @property
    def finished(self) -> bool:
        """Whether the training went to its end."""
        return self.done[0] >= self.done[1]

    @cached_property
    def curve(self) -> TrainingCurve:
        """How its training went; what a run that still trains is just writing is left out."""
        records = _whole_lines(self.run.log_file)
        training = self.config.training
        episodes = np.array([record["episode"] for record in records], dtype=int)
        damaged = [bool(training.stages[min(r["stage"], len(training.stages) - 1)].damage) for r in records]
        halvings: tuple[int, ...] = ()
        if training.schedule == "halving" and len(records):
            halvings = tuple(range(training.halve_every, int(episodes[-1]), training.halve_every))

        def column(name: str) -> np.ndarray:
            return np.array([record[name] for record in records], dtype=float)

        learned = bool(records) and records[0].get("precision_mean") is not None
        return TrainingCurve(
            episodes,
            column("loss"),
            column("accuracy"),
            np.array(damaged, dtype=bool),
            halvings,
            column("precision_mean") if learned else None,
            column("precision_spread") if learned else None,
            self.config.episode.way,
        )

    @cached_property
    def tested(self) -> tuple[TestPoint, ...]:
        """Its scores part of the way through training."""
        return tuple(
            TestPoint(int(point["episode"]), _scores(point["scores"])) for point in self.metrics.get("curve", [])
        )

    @property
    def scored(self) -> list[Scored]:
        """Every evaluation that was made of the weights that are there now."""
        return [
            Scored(e["data"], e["norm"], e["checkpoint"], e["classes"], _scores(e["scores"]))
            for e in self.metrics.get("evaluation", {}).values()
            if not self._outdated(e)
        ]

    def _outdated(self, evaluation: dict[str, Any]) -> bool:
        """Whether the training has gone on since; what is published has no weights and is as it was."""
        if "episodes" not in evaluation or not self.run.last.exists():
            return False
        position = self.checkpoint.position
        kept = [episode for _, episode in position.kept] if evaluation["checkpoint"] == "top" else []
        return bool(evaluation["episodes"] != (kept or [position.episode]))

    def scores(self, way: int, norm: Norm = "running") -> Scored:
        """The evaluation on its own data with the most shots of that way, the last checkpoint's first."""
        own = [e for e in self.scored if (e.data, e.norm) == (self.config.data.data, norm)]
        able = [e for e in own if any(score.way == way for score in e.scores)]
        if not able:
            raise InputError(
                f"{self.run.path} has no {way}-way score under {norm} statistics: "
                f"run `gaussproto evaluate {self.run.path} --norm {norm}`"
            )
        return max(able, key=lambda e: (sum(score.way == way for score in e.scores), e.checkpoint == "last"))

    def evaluate(self) -> Evaluation:
        """Score the last checkpoint as `gaussproto evaluate` does, and add the result to its `metrics.json`."""
        result = evaluate(
            self.network, self.images, usual_ways(self.images), usual_shots(self.images), progress=self.progress
        )
        self.run.write_evaluation(self.config.data.data, "last", [self.checkpoint], result)
        self.__dict__.pop("metrics", None)
        return result


def open_runs(paths: Iterable[Path], data_root: Path | None = None, progress: Progress = silent) -> list[RunSource]:
    """Runs that share the images they have in common, each with a name that no other has."""
    loaded: dict[DataConfig, LabelledImages] = {}
    runs = [RunSource(RunFolder(path), data_root, progress, loaded) for path in paths]
    names = [run.name for run in runs]
    for run in runs:
        if names.count(run.name) > 1:
            run.name = str(run.run.path)
    return runs


def _scores(rows: list[dict[str, Any]]) -> tuple[Score, ...]:
    return tuple(Score(r["way"], r["shot"], r["accuracy"], r["interval"], r.get("std")) for r in rows)


def _whole_lines(path: Path) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    try:
        for line in path.read_text().splitlines():
            records.append(json.loads(line))
    except (FileNotFoundError, json.JSONDecodeError):
        pass  # none yet, or the last is being written
    return records
