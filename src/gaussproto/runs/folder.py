"""Read and write a run folder: `config.json`, `split.json`, `log.jsonl`, `checkpoints/` and `metrics.json`."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from gaussproto.config import SECTIONS, RunConfig, TrainingConfig, read_config
from gaussproto.errors import InputError
from gaussproto.files import locked, read_json, write_json, write_then_rename
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.provenance import machine
from gaussproto.runs.checkpoint import Checkpoint, checkpoint_of, load_checkpoint
from gaussproto.runs.log import Log, open_log, read_log
from gaussproto.runs.metrics import Evaluation, LogRecord, Metrics, RunEvaluation, parse_result
from gaussproto.runs.summary import still_true, summary_of
from gaussproto.runs.weights import Position, open_weights, reading_weights, weights_file
from gaussproto.setting_types import setting_text

LOCK_WAIT = 60  # seconds; writing takes milliseconds
ATTEMPTS = 10  # to load checkpoints that a running training replaces


class RunFolder:
    """The folder of a run and the paths of its files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.json"
        self.split = path / "split.json"
        self.log_file = path / "log.jsonl"
        self.metrics = path / "metrics.json"
        self.checkpoints = path / "checkpoints"
        self.last = self.checkpoints / "last.safetensors"

    def kept(self, episode: int) -> Path:
        return self.checkpoints / f"episode-{episode:06d}.safetensors"

    def snapshot(self, episode: int) -> Path:
        return self.checkpoints / f"snapshot-{episode:06d}.safetensors"

    def snapshots(self) -> list[Path]:
        return sorted(self.checkpoints.glob("snapshot-*.safetensors"))

    def weights(self, which: Literal["last", "top"]) -> list[Path]:
        """Return the weights to evaluate: the last checkpoint, or those with the highest training accuracy."""
        last = weights_file(str(self.path))
        if which == "last":
            return [last]
        return [self.kept(episode) for _, episode in load_checkpoint(last).position.kept] or [last]

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Keep other processes from changing this run. Raise InputError if the folder contains something else."""
        self._check_place()
        with locked(self.path / ".lock", self.path, "wait until it has finished, or use another folder"):
            self._check_place()
            yield

    def _check_place(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file: choose a folder with --out")
        if self.config.exists() or not self.path.exists():
            return
        if any(not file.name.startswith(".") for file in self.path.iterdir()):  # a killed start leaves hidden files
            raise InputError(f"{self.path} contains files, but no run: choose another folder with --out")

    def open(self, config: RunConfig, resume: bool, lengthen: bool = False) -> RunConfig:
        """Start a run in this folder, or check that the run to resume has the same settings. Claim the run first.

        Return the configuration to train. With `lengthen`, more episodes are accepted: the last stage grows.
        """
        if not self.config.exists():
            self.write_config(config)
        elif not resume:
            remedy = "continue it with --resume, choose another folder with --out, or remove it"
            raise InputError(f"{self.path} already contains a run: {remedy}")
        else:
            config = self.check_settings(config, lengthen)
        self._write_split(config)
        return config

    def check_settings(self, config: RunConfig, lengthen: bool = False) -> RunConfig:
        """Raise InputError if the run in this folder has other settings. Return those to continue it with."""
        begun = read_config(self.config)
        longer = begun.lengthened_as(config) if lengthen else begun
        if longer is not begun:
            stages = longer.training.stages
            config = config.model_copy(update={"training": config.training.model_copy(update={"stages": stages})})
        changed = _differences(longer, config)
        if changed:
            shorter = config.training.episodes < begun.training.episodes
            hint = " (a run cannot be shortened)" if shorter else ", or pass --episodes to lengthen it"
            hint = hint if "stages" in changed else ""
            raise InputError(
                f"{self.path} contains a run with other settings ({'; '.join(changed.values())}): to resume it, use "
                f"the settings of that run{hint}"
            )
        return longer

    def check_checkpoint(self, checkpoint: Checkpoint, config: RunConfig) -> None:
        """Raise InputError if the checkpoint was trained with other settings than those in `config.json`."""
        changed = _differences(checkpoint.config.lengthened_as(config), config)
        if changed:
            raise InputError(
                f"{self.config} does not have the settings that {checkpoint.path} was trained with "
                f"({'; '.join(changed.values())}): restore it, or start a new run with --out"
            )

    def _write_split(self, config: RunConfig) -> None:
        """Write `split.json`, unless it has this content already. A killed start can leave a run without it."""
        if config.data.split is None:
            return
        split = config.data.split.model_dump(mode="json")
        with suppress(InputError):  # missing or damaged
            if read_json(self.split) == split:
                return
        write_json(self.split, split)

    def write_config(self, config: RunConfig) -> None:
        write_json(self.config, config.model_dump(mode="json"))

    def forget_after(self, position: Position) -> None:
        """Delete what a killed run wrote after its last checkpoint."""
        lines, problems = read_log(self.log_file)
        self._warn_about(problems)
        kept = [(line, record) for line, record in lines if record.episode <= position.episode]
        with write_then_rename(self.log_file) as temporary:
            temporary.write_text("".join(f"{line}\n" for line, _ in kept))
        logged = position.episode - len(position.rows)
        if logged:
            self._warn_of_gap([record for _, record in kept], logged)
        self.prune(position.kept)
        for path in self.snapshots():
            if path > self.snapshot(position.episode):
                path.unlink()
        for part in (*self.checkpoints.glob(".*.part"), *self.path.glob(".*.part")):
            if not part.name.startswith(f".{self.metrics.name}."):  # which another process may be writing
                part.unlink(missing_ok=True)

    def prune(self, kept: list[tuple[float, int]]) -> None:
        wanted = {self.kept(episode) for _, episode in kept}
        for path in {*self.checkpoints.glob("episode-*.safetensors")} - wanted:
            path.unlink()

    def log(self) -> AbstractContextManager[Log]:
        return open_log(self.log_file)

    def read_log(self) -> list[LogRecord]:
        """Return the records of the log. Leave out damaged lines, with a warning. Raise InputError if all are."""
        lines, problems = read_log(self.log_file)
        if problems and not lines:
            raise problems[0]
        self._warn_about(problems)
        training = self.read_metrics().training
        if training is not None and self.log_file.exists():  # published runs have none
            self._warn_of_gap([record for _, record in lines], training.episodes)
        return [record for _, record in lines]

    def _warn_of_gap(self, records: list[LogRecord], episode: int) -> None:
        if not records or records[-1].episode < episode:
            warnings.warn(f"{self.log_file} has no line for episode {episode:,}: curves have a gap", stacklevel=4)

    def _warn_about(self, problems: list[InputError]) -> None:
        if problems:
            number = f"{len(problems):,} damaged line{'s' * (len(problems) > 1)}"
            warnings.warn(f"{self.log_file} has {number}, left out (first: {problems[0]})", stacklevel=4)

    @property
    def ended(self) -> bool:
        if not self.config.exists():
            return False
        training = self.read_metrics().training
        return training is not None and training.episodes == read_config(self.config).training.episodes

    def read_metrics(self) -> Metrics:
        path = self.metrics
        return parse_result(Metrics, read_json(path), str(path)) if path.exists() else Metrics()

    def write_metrics(self, **parts: Any) -> None:
        """Replace parts of `metrics.json`, for example `damage`, and keep the others."""
        self._change_metrics(lambda metrics: metrics.model_copy(update=parts))

    def write_evaluation(
        self, data: str, which: Literal["last", "top"], scored: Sequence[Checkpoint], result: Evaluation,
        split: Path | None = None,
    ) -> None:  # fmt: skip
        """Add scores to `metrics.json`, and keep those of the same weights at other ways and shots."""
        evaluation = run_evaluation(str(self.path), data, which, scored, result, split)

        def added(metrics: Metrics) -> Metrics:
            before = next((each for each in metrics.evaluations if each.key == evaluation.key), None)
            if which == "last" and before and (before.episodes or ()) > (evaluation.episodes or ()):
                later = f"{self.metrics} has scores of {before.episodes} episodes"
                raise InputError(f"{later}, and these are of {evaluation.episodes}: evaluate the run again")
            return metrics.with_evaluation(evaluation)

        self._change_metrics(added)

    def write_summary(self, network: GaussianPrototypicalNetwork, position: Position, training: TrainingConfig) -> None:
        """Write the summary of the training and the machine to `metrics.json`."""
        loss, accuracy = position.loss, position.accuracy
        if loss is None or accuracy is None:  # an earlier version saved the checkpoint
            records = self.read_log()
            if not records:
                raise InputError(f"{self.log_file} is empty or damaged: train the run again")
            loss, accuracy = records[-1].loss, records[-1].accuracy
        summary = summary_of(network, position, training, loss, accuracy)
        calibrated = self.last.exists() and open_weights(self.last).calibration is not None
        self._change_metrics(
            lambda before: still_true(before, position, calibrated).model_copy(
                update={"training": summary, "machine": machine()}
            )
        )

    def _change_metrics(self, change: Callable[[Metrics], Metrics]) -> None:
        """Read, change and write `metrics.json`, while other processes wait."""
        with locked(self.path / ".metrics.lock", self.metrics, "try again when it has finished", wait=LOCK_WAIT):
            write_json(self.metrics, change(self.read_metrics()).model_dump(mode="json"))


def run_evaluation(
    target: str, data: str, which: Literal["last", "top"], scored: Sequence[Checkpoint], result: Evaluation,
    split: Path | None = None,
) -> RunEvaluation:  # fmt: skip
    return RunEvaluation(
        **dict(result),
        target=target,
        data=data,
        split=str(split) if split else None,
        checkpoint=which,
        episodes=tuple(checkpoint.position.episode for checkpoint in scored),
    )


def find_weights(target: str, which: Literal["last", "top"] = "last") -> list[Path]:
    """Return the weights files of a run folder, or one file given its path or the name of bundled weights."""
    if Path(target).is_dir():
        return RunFolder(Path(target)).weights(which)
    file = weights_file(target)
    if which == "top":
        raise InputError(f"--checkpoints top needs a run folder (found the weights {target}): leave out the option")
    return [file]


def load_checkpoints(target: str, which: Literal["last", "top"] = "last") -> list[Checkpoint]:
    """Load the weights of `find_weights`, although a run that is still training may replace them meanwhile."""
    for attempt in range(ATTEMPTS):
        paths = find_weights(target, which)
        try:
            return [load_checkpoint(path) for path in paths]
        except InputError:
            if attempt == ATTEMPTS - 1 or all(path.exists() for path in paths):
                raise
    raise AssertionError("never reached")


def load_network(target: Path | str, device: str = "cpu") -> GaussianPrototypicalNetwork:
    """Load a trained network in evaluation mode.

    Args:
        target: a run folder (its last checkpoint is loaded), a weights file, or the name of bundled weights.
        device: cpu, cuda or mps.

    Returns:
        The network, on the device.

    Examples:
        >>> import gaussproto as gp
        >>> network = gp.load_network("drawings-small")
        >>> network.config.embedding_dim, network.training
        (256, False)
    """
    with reading_weights(weights_file(str(target)), "pt") as file:
        return checkpoint_of(file).network(device).eval()


def _differences(there: RunConfig, here: RunConfig) -> dict[str, str]:
    """Return the settings that differ between two runs, each with a phrase that states both values."""
    changed = {}
    for section in SECTIONS:
        old, new = (getattr(config, section).model_dump(mode="json") for config in (there, here))
        for name in old:
            if old[name] != new[name]:
                texts = [setting_text(name, value) for value in (old[name], new[name])]
                changed[name] = f"{name} was {texts[0]} and is now {texts[1]}"
    return changed
