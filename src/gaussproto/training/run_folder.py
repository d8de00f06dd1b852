"""A run on disk: `config.json`, `split.json`, `log.jsonl`, `checkpoints/`, `metrics.json`."""

from __future__ import annotations

import functools
import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from gaussproto.config import SECTIONS, RunConfig, TrainingConfig, read_config
from gaussproto.errors import InputError
from gaussproto.files import claimed, read_json, remove_leftovers, write_json, write_then_rename
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.training.checkpoint import Checkpoint, Position, load_checkpoint
from gaussproto.weights import weights_file

if TYPE_CHECKING:
    from gaussproto.evaluation.protocol import Evaluation


class RunFolder:
    """Where the files of a run are."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.json"
        self.split = path / "split.json"
        self.log_file = path / "log.jsonl"
        self.metrics = path / "metrics.json"
        self.checkpoints = path / "checkpoints"
        self.last = self.checkpoints / "last.safetensors"

    def kept(self, episode: int) -> Path:
        """The weights that were kept at an episode."""
        return self.checkpoints / f"episode-{episode:06d}.safetensors"

    def kept_all(self) -> list[Path]:
        """All kept weights, in order."""
        return sorted(self.checkpoints.glob("episode-*.safetensors"))

    def snapshot(self, episode: int) -> Path:
        """The weights after an episode, whatever their accuracy."""
        return self.checkpoints / f"snapshot-{episode:06d}.safetensors"

    def snapshots(self) -> list[Path]:
        """All snapshots, in order."""
        return sorted(self.checkpoints.glob("snapshot-*.safetensors"))

    def weights(self, which: Literal["last", "top"]) -> list[Path]:
        """The weights to evaluate: the last, or those with the highest training accuracy."""
        last = weights_file(str(self.path))
        if which == "last":
            return [last]
        return [self.kept(episode) for _, episode in load_checkpoint(last).position.kept] or [last]

    def open(self, config: RunConfig, resume: bool) -> None:
        """Begin a run here, or make sure that the one to be resumed is the same."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file: choose a folder with --out")
        if not self.config.exists():
            if self.path.exists() and any(self.path.iterdir()):
                raise InputError(f"{self.path} holds other files: choose another folder with --out")
            write_json(self.config, config.model_dump(mode="json"))
            if config.data.split:
                write_json(self.split, config.data.split.model_dump(mode="json"))
            return
        if not resume:
            raise InputError(
                f"{self.path} already holds a run: continue it with --resume, choose another folder with --out, "
                "or remove it"
            )
        there = read_config(self.config)
        changed = _differences(there, config)
        if changed:
            raise InputError(f"{self.path} holds a run with other settings ({changed}): resume it with its own")

    def claimed(self) -> AbstractContextManager[None]:
        """Within, no other process can train or calibrate here."""
        return claimed(self.path, "wait for it, or use another folder")

    def forget_after(self, episode: int, kept: list[tuple[float, int]]) -> None:
        """Take back what a run that was killed had written after its last checkpoint."""
        if self.log_file.exists():
            lines = self.log_file.read_text().splitlines()
            with write_then_rename(self.log_file) as temporary:
                temporary.write_text("".join(line + "\n" for line in lines if _episode_of(line) <= episode))
        self.prune(kept)
        for path in self.snapshots():
            if path > self.snapshot(episode):
                path.unlink()
        for folder in (self.path, self.checkpoints):
            remove_leftovers(folder)

    def prune(self, kept: list[tuple[float, int]]) -> None:
        """Remove kept weights that are no longer among the best."""
        wanted = {self.kept(episode) for _, episode in kept}
        for path in self.kept_all():
            if path not in wanted:
                path.unlink()

    @contextmanager
    def log(self) -> Iterator[Callable[[dict[str, Any]], None]]:
        """A function that adds a line to the log."""
        with self.log_file.open("a", buffering=1) as file:
            yield lambda record: print(json.dumps(record), file=file)

    def read_log(self) -> list[dict[str, Any]]:
        """Every line of the log."""
        return [json.loads(line) for line in self.log_file.read_text().splitlines()]

    @property
    def ended(self) -> bool:
        """Whether the training went to its end."""
        if not self.config.exists():
            return False
        done = self.read_metrics().get("training", {}).get("episodes")
        return bool(done == read_config(self.config).training.episodes)

    def read_metrics(self) -> dict[str, Any]:
        """Its results so far."""
        return dict(read_json(self.metrics)) if self.metrics.exists() else {}

    def write_metrics(self, **metrics: Any) -> None:
        """Add results to `metrics.json`; what is there already stays."""
        write_json(self.metrics, self.read_metrics() | metrics)

    def write_evaluation(
        self, data: str, which: str, scored: Sequence[Checkpoint], result: Evaluation, split: Path | None = None
    ) -> None:
        """Add to `metrics.json` what was scored; ways and shots measured before of the same weights, alike, stay."""
        key = f"{data} {result.norm} {which}" + (f" {split}" if split else "")
        episodes = [checkpoint.position.episode for checkpoint in scored]
        content: dict[str, Any] = {"target": str(self.path), "data": data, "checkpoint": which, "episodes": episodes}
        content |= result.as_dict()
        all_before = self.read_metrics().get("evaluation", {})
        before = all_before.get(key, {})
        if all(before.get(how) == content[how] for how in ("episodes", "classes", "rounds", "seed")):
            new = {(score["way"], score["shot"]) for score in content["scores"]}
            others = [score for score in before["scores"] if (score["way"], score["shot"]) not in new]
            scores = sorted(others + content["scores"], key=lambda score: (score["way"], score["shot"]))
            content = content | {"scores": scores}
        self.write_metrics(evaluation=all_before | {key: content})

    def write_summary(self, network: GaussianPrototypicalNetwork, position: Position, training: TrainingConfig) -> None:
        """Say in `metrics.json` how the training went, from what command and code, and on what machine."""
        last, before = self.read_log()[-1], self.read_metrics()
        if before.get("training", {}).get("episodes") != position.episode:  # what else is there was measured on the way
            write_json(self.metrics, {name: value for name, value in before.items() if name == "curve"})
        self.write_metrics(
            training={
                "episodes": position.episode,
                "seconds": round(position.seconds, 1),
                "loss": last["loss"],
                "accuracy": last["accuracy"],
                "kept": [{"episode": episode, "accuracy": accuracy} for accuracy, episode in position.kept],
                "parameters": sum(parameter.numel() for parameter in network.parameters()),
                "seed": training.seed,
                "init": training.init,
                "command": position.command,
                "commits": position.commits,
                "threads": position.threads,
            },
            machine=machine(),
        )


def find_weights(target: str, which: Literal["last", "top"] = "last") -> list[Path]:
    """The weights files of a run folder; or one file, by its path or as the name of bundled weights."""
    if Path(target).is_dir():
        return RunFolder(Path(target)).weights(which)
    file = weights_file(target)
    if which == "top":
        raise InputError(f"{target} is one checkpoint: --checkpoints top goes with a run folder")
    return [file]


def load_network(target: Path | str) -> GaussianPrototypicalNetwork:
    """The network of a run folder's last checkpoint, of a weights file, or of bundled weights, ready to embed."""
    (path,) = find_weights(str(target))
    return load_checkpoint(path).network().eval()


def machine() -> dict[str, Any]:
    """The hardware and the versions that a result depends on."""
    return {
        "processor": _processor(),
        "threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def command() -> str:
    """The command that is running, as it was typed."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


@functools.cache
def commit() -> str | None:
    """The commit of the checkout that this code is in, with `-dirty` if files differ from it; None if it is in none."""
    here = Path(__file__).parent
    git = ["git", "-C", str(here)]
    try:
        tracked = subprocess.run([*git, "ls-files", "--error-unmatch", __file__], capture_output=True, timeout=10)
        if tracked.returncode:
            return None  # a checkout of something else that this was installed in
        said = subprocess.run(
            [*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said.stdout.strip() or None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _episode_of(line: str) -> float:
    try:
        return float(json.loads(line)["episode"])
    except (json.JSONDecodeError, KeyError, TypeError):
        return float("inf")  # cut off in the middle of a line


def _differences(there: RunConfig, here: RunConfig) -> str:
    changed = []
    for section in SECTIONS:
        old, new = getattr(there, section).model_dump(), getattr(here, section).model_dump()
        changed += [_difference(name, old[name], new[name]) for name in old if old[name] != new[name]]
    return "; ".join(changed)


def _difference(name: str, old: Any, new: Any) -> str:
    return name if isinstance(old, dict) or isinstance(new, dict) else f"{name}: {old} there, {new} here"
