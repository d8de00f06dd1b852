"""A run as figures and the report read it: everything is read or computed once, when it is first needed."""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

import numpy as np

from gaussproto.config import DataConfig, RunConfig, read_config
from gaussproto.data.images import LabelledImages
from gaussproto.data.load import load_data
from gaussproto.errors import InputError
from gaussproto.evaluation.protocol import evaluate, usual_shots, usual_ways
from gaussproto.evaluation.sampled import usual_episodes
from gaussproto.figures.training_curve import TrainingCurve
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.progress import Progress, silent
from gaussproto.runs.checkpoint import Checkpoint, load_checkpoint
from gaussproto.runs.folder import RunFolder
from gaussproto.runs.metrics import Metrics, RunEvaluation
from gaussproto.runs.summary import is_outdated
from gaussproto.setting_types import Norm


class RunSource:
    """A run folder, opened for reading. Runs share test images in `loaded`, by their configuration."""

    def __init__(
        self, folder: RunFolder, data_root: Path | None = None, progress: Progress = silent,
        loaded: dict[DataConfig, LabelledImages] | None = None, device: str = "cpu",
    ) -> None:  # fmt: skip
        if not folder.path.exists():
            raise InputError(f"the run folder {folder.path} does not exist: check the path")
        if not folder.config.exists():
            raise InputError(f"{folder.path} is not a run folder (it has no config.json): pass the folder of a run")
        self.folder, self.path, self.data_root = folder, folder.path, data_root
        self._progress, self.device = progress, device
        self.loaded: dict[DataConfig, LabelledImages] = {} if loaded is None else loaded
        self.name = folder.path.resolve().name
        self.evaluation_error = ""  # why it could not be evaluated

    def progress(self, what: str, done: int, total: int | None) -> None:
        self._progress(f"{self.name}: {what}", done, total)

    def check(self) -> None:
        self.folder.weights("last")
        _ = self.config, self.metrics, self.curve

    @cached_property
    def config(self) -> RunConfig:
        return read_config(self.folder.config)

    @cached_property
    def metrics(self) -> Metrics:
        return self.folder.read_metrics()

    @cached_property
    def checkpoint(self) -> Checkpoint:
        (path,) = self.folder.weights("last")
        return load_checkpoint(path)

    @cached_property
    def network(self) -> GaussianPrototypicalNetwork:
        return self.checkpoint.network(self.device).eval()

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.network.parameters())

    @property
    def images(self) -> LabelledImages:
        config = self.config.data
        if config not in self.loaded:
            self.loaded[config] = load_data(config.for_evaluation(), self.data_root, self.progress).test
        return self.loaded[config]

    @property
    def done(self) -> tuple[int, int]:
        return self.checkpoint.position.episode, self.config.training.episodes

    @property
    def finished(self) -> bool:
        return self.done[0] >= self.done[1]

    @cached_property
    def curve(self) -> TrainingCurve:
        records, training = self.folder.read_log(), self.config.training
        stages = [training.stages[min(record.stage, len(training.stages) - 1)] for record in records]
        end = records[-1].episode if records and training.schedule == "halving" else 0
        logged = {
            name: np.array([getattr(record, name) for record in records], dtype=float)  # None becomes nan
            for name in ("loss", "accuracy", "precision_mean", "precision_std")
        }
        return TrainingCurve(
            episodes=np.array([record.episode for record in records], dtype=int),
            damaged=np.array([bool(stage.damage) for stage in stages], dtype=bool),
            halvings=tuple(range(training.halve_every, end, training.halve_every)),
            way=self.config.episode.way,
            **logged,
        )

    @property
    def evaluations(self) -> list[RunEvaluation]:
        return [evaluation for evaluation in self.metrics.evaluations if not self._outdated(evaluation)]

    def _outdated(self, evaluation: RunEvaluation) -> bool:
        """Return whether the run was trained further since. Published results have no weights and stay valid."""
        if evaluation.episodes is None or not self.folder.last.exists():
            return False
        return is_outdated(evaluation, self.checkpoint.position)

    def scores(self, way: int, norm: Norm = "running") -> RunEvaluation:
        """Return the evaluation on the run's data with the most shots of that way. Prefer the last checkpoint."""
        kind = (self.config.data.data, norm, False, 1)
        kinds = ((each, (each.data, each.norm, each.within_alphabet, each.views)) for each in self.evaluations)
        usable = [each for each, found in kinds if found == kind and way in each.ways]
        if not usable:
            raise InputError(
                f"{self.path} has no {way}-way score with {norm} statistics: "
                f"run `gaussproto evaluate {self.path} --norm {norm}`"
            )
        return max(usable, key=lambda each: ([s.way for s in each.scores].count(way), each.checkpoint == "last"))

    def evaluate(self) -> None:
        """Score the last checkpoint as `gaussproto evaluate` does, and add the scores to `metrics.json`."""
        ways, shots = usual_ways(self.images), usual_shots(self.images)
        episodes = usual_episodes(self.images)
        result = evaluate(self.network, self.images, ways, shots, episodes=episodes, progress=self.progress)
        self.folder.write_evaluation(self.config.data.data, "last", [self.checkpoint], result)
        self.__dict__.pop("metrics", None)


def open_runs(
    paths: Iterable[Path], data_root: Path | None = None, progress: Progress = silent, device: str = "cpu"
) -> list[RunSource]:
    """Open run folders. They share their images, and each gets a unique name."""
    loaded: dict[DataConfig, LabelledImages] = {}
    runs = [RunSource(RunFolder(path), data_root, progress, loaded, device) for path in paths]
    names = [run.name for run in runs]
    for run in runs:
        if names.count(run.name) > 1:
            run.name = str(run.path)
    return runs
