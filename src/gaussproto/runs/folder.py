"""Read and write a run folder: `config.json`, `split.json`, `log.jsonl`, `checkpoints/` and `metrics.json`."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from gaussproto.config import SECTIONS, RunConfig, TrainingConfig, read_config
from gaussproto.errors import InputError
from gaussproto.files import locked, read_json, remove_leftovers, write_json, write_then_rename
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.provenance import machine
from gaussproto.runs.checkpoint import Checkpoint, Position, load_checkpoint
from gaussproto.runs.metrics import Evaluation, Kept, LogRecord, Metrics, RunEvaluation, TrainingSummary, parse_result
from gaussproto.runs.weights import weights_file
from gaussproto.setting_types import setting_text


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

    def open(self, config: RunConfig, resume: bool, lengthen: bool = False) -> RunConfig:
        """Start a run in this folder, or check that the run to resume has the same settings.

        Return the configuration to train. With `lengthen`, more episodes are accepted: the last stage grows.
        """
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file: choose a folder with --out")
        if not self.config.exists():
            if self.path.exists() and any(self.path.iterdir()):
                raise InputError(f"{self.path} contains files, but no run: choose another folder with --out")
            self.write_config(config)
            if config.data.split:
                write_json(self.split, config.data.split.model_dump(mode="json"))
            return config
        if not resume:
            remedy = "continue it with --resume, choose another folder with --out, or remove it"
            raise InputError(f"{self.path} already contains a run: {remedy}")
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

    def write_config(self, config: RunConfig) -> None:
        write_json(self.config, config.model_dump(mode="json"))

    def locked(self) -> AbstractContextManager[None]:
        return locked(self.path, "wait until it has finished, or use another folder")

    def forget_after(self, episode: int, kept: list[tuple[float, int]]) -> None:
        """Delete what a killed run wrote after its last checkpoint."""
        if self.log_file.exists():
            lines = [line for line in self._log_lines() if line["episode"] <= episode]
            with write_then_rename(self.log_file) as temporary:
                temporary.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        self.prune(kept)
        for path in self.snapshots():
            if path > self.snapshot(episode):
                path.unlink()
        remove_leftovers(self.path)
        remove_leftovers(self.checkpoints)

    def prune(self, kept: list[tuple[float, int]]) -> None:
        wanted = {self.kept(episode) for _, episode in kept}
        for path in {*self.checkpoints.glob("episode-*.safetensors")} - wanted:
            path.unlink()

    @contextmanager
    def log(self) -> Iterator[Callable[[LogRecord], None]]:
        with self.log_file.open("a", buffering=1) as file:
            yield lambda record: print(record.model_dump_json(), file=file)

    def read_log(self, only_last: bool = False) -> list[LogRecord]:
        lines = self._log_lines()
        return [parse_result(LogRecord, line, str(self.log_file)) for line in (lines[-1:] if only_last else lines)]

    def _log_lines(self) -> list[dict[str, Any]]:
        """Return the lines of the log. Skip damaged lines, and a last line that is still being written."""
        lines = []
        for line in self.log_file.read_text().splitlines() if self.log_file.exists() else ():
            with suppress(json.JSONDecodeError):
                lines.append(json.loads(line))
        return [line for line in lines if isinstance(line, dict) and "episode" in line]

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
        self._write(self.read_metrics().model_copy(update=parts))

    def write_evaluation(
        self, data: str, which: Literal["last", "top"], scored: Sequence[Checkpoint], result: Evaluation,
        split: Path | None = None,
    ) -> None:  # fmt: skip
        """Add scores to `metrics.json`, and keep those of the same weights at other ways and shots."""
        evaluation = run_evaluation(str(self.path), data, which, scored, result, split)
        self._write(self.read_metrics().with_evaluation(evaluation))

    def write_summary(self, network: GaussianPrototypicalNetwork, position: Position, training: TrainingConfig) -> None:
        """Write the summary of the training and the machine to `metrics.json`."""
        records, before = self.read_log(only_last=True), self.read_metrics()
        if not records:
            raise InputError(f"{self.log_file} is empty or damaged: train the run again")
        if before.training is None or before.training.episodes != position.episode:
            before = Metrics(curve=before.curve)  # the rest was measured on earlier weights
        summary = TrainingSummary(
            episodes=position.episode,
            seconds=round(position.seconds, 1),
            loss=records[0].loss,
            accuracy=records[0].accuracy,
            kept=tuple(Kept(episode=episode, accuracy=accuracy) for accuracy, episode in position.kept),
            parameters=sum(parameter.numel() for parameter in network.parameters()),
            seed=training.seed,
            init=training.init,
            command=position.command,
            commits=tuple(position.commits),
            lengthened=tuple(position.lengthened),
            threads=tuple(position.threads),
        )
        self._write(before.model_copy(update={"training": summary, "machine": machine()}))

    def _write(self, metrics: Metrics) -> None:
        write_json(self.metrics, metrics.model_dump(mode="json"))


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


def load_network(target: Path | str, device: str = "cpu") -> GaussianPrototypicalNetwork:
    """Load a trained network in evaluation mode.

    Args:
        target: a run folder (its last checkpoint is loaded), a weights file, or the name of bundled weights.
        device: cpu, cuda or mps.

    Returns:
        The network, on the device.

    Examples:
        >>> import gaussproto as gp
        >>> network = gp.load_network("omniglot-small")
        >>> network.config.embedding_dim, network.training
        (64, False)
    """
    return load_checkpoint(weights_file(str(target))).network(device).eval()


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
