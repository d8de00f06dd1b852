"""Training: episodes, Adam, checkpoints, a log; stopped at any moment and resumed bit for bit."""

import math
import signal
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from gaussproto.config import NetworkConfig, RunConfig, Stage, read_config
from gaussproto.data.damage import damage
from gaussproto.data.distort import distort
from gaussproto.data.images import LabelledImages
from gaussproto.data.load import load_data, with_split
from gaussproto.episodes import check_enough, fit_episode_to, sample_episode
from gaussproto.errors import InputError
from gaussproto.formulas.covariance import is_dead
from gaussproto.model.network import GaussianPrototypicalNetwork, as_float
from gaussproto.provenance import command, commit
from gaussproto.runs.checkpoint import Position, load_checkpoint, restore_optimizer, save_checkpoint
from gaussproto.runs.folder import RunFolder
from gaussproto.runs.metrics import LogRecord
from gaussproto.training.memory import keep_freed_memory
from gaussproto.training.signals import stop_signals
from gaussproto.training.step import learning_rate, make_optimizer, step
from gaussproto.training.warm_start import read_init, take_weights, with_digest

LOG_EVERY = 10  # episodes to a line of the log


class TrainingDiverged(InputError):  # noqa: N818 (it reads as a sentence)
    """The loss stopped being a number."""


class DeadPrecisionWarning(UserWarning):
    """Every image has the same precision: the network is a vanilla one."""


@dataclass(frozen=True)
class RunResult:
    """What a training has left."""

    folder: Path
    config: RunConfig
    network: GaussianPrototypicalNetwork  # ready to embed: running statistics
    episodes: int
    seconds: float
    stopped_by: signal.Signals | None  # None: it went to its end


def train(
    config: RunConfig,
    images: LabelledImages | None = None,
    out: Path | str | None = None,
    *,
    network: GaussianPrototypicalNetwork | None = None,
    resume: bool = False,
    device: str = "cpu",
    on_log: Callable[[LogRecord], None] = lambda record: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> RunResult:
    """Train a network by episodes and leave a run folder.

    Args:
        config: a preset or your own; see `gaussproto.preset`.
        images: the training classes; if not given, those of the configuration.
        out: the run folder; `runs/NAME` if not given.
        network: train this network in place of a new one; its settings replace `config.network`. Its backbone and its
            own objects are saved by their import paths, so they must be importable and made without arguments.
        resume: continue the run in that folder; the result is that of a run that never stopped.
        device: where the network is, such as cpu or cuda.
        on_log: called with every line of the log, a `LogRecord`.
        say: called with sentences for the user: what was made of the data and of the weights it starts from.
    """
    if network is not None:
        check_rebuilds(network)
        if config.training.init:
            raise InputError("give either `network` or the setting `init`: both say where the weights come from")
        config = config.model_copy(update={"network": network.config})
    config.network.check_saved()
    if images is None:
        config = config.model_copy(update={"data": with_split(config.data)})
        images = load_data(config.data).train
    config = with_digest(config)
    episode = fit_episode_to(config.episode, images)
    smaller = episode != config.episode
    config = config.model_copy(update={"episode": episode})
    check_enough(images, episode.way, episode.drawings)
    check_device(device)
    run = RunFolder(Path(out or Path("runs") / config.name))
    if network is not None and run.config.exists():
        begun = read_config(run.config).network
        if begun == network.config.model_copy(update={"transform": begun.transform}):  # stages change it
            config = config.model_copy(update={"network": begun})
    if config.training.init and not run.last.exists():
        read_init(config)  # what is wrong with it is said before there is a folder
    run.open(config, resume)
    if smaller:
        say(f"episodes are fitted to the data: {episode.way} classes and {episode.drawings} images of each")
    with run.locked():
        keep_freed_memory()
        return _Training(config, images, run, network, device, say).to_end(on_log)


def check_rebuilds(network: GaussianPrototypicalNetwork) -> None:
    """Raise InputError if a network cannot be made again from its settings, as a saved one must be."""
    if type(network) is not GaussianPrototypicalNetwork:
        remedy = "give its parts as your own backbone, distance, transform or covariance"
        subclass = type(network).__name__
        raise InputError(f"`train` saves a GaussianPrototypicalNetwork, not the subclass {subclass}: {remedy}")
    network.config.check_saved()
    try:
        with torch.random.fork_rng(devices=[]):  # its initial values come from the caller's generator
            again = GaussianPrototypicalNetwork(NetworkConfig.model_validate(network.config.model_dump()))
    except (TypeError, ValueError) as error:
        raise InputError(f"the network cannot be made again from {network.config.encoder} ({error})") from error
    shapes = [{name: t.shape for name, t in one.state_dict().items()} for one in (network, again)]
    if shapes[0] != shapes[1]:
        problem = f"{network.config.encoder} called without arguments makes other weights than the network has"
        raise InputError(f"{problem}: let the backbone be a class or function that takes no arguments")


class _Training:
    """A training on its way: the network, its optimiser, its random numbers and its position."""

    def __init__(
        self,
        config: RunConfig,
        images: LabelledImages,
        run: RunFolder,
        network: GaussianPrototypicalNetwork | None,
        device: str,
        say: Callable[[str], None],
    ) -> None:
        self.config, self.run, self.images = config, run, images.to(device)
        self.generator = torch.Generator().manual_seed(config.training.seed)
        self.position = Position(transform=config.network.transform, images=images.fingerprint())
        self.waiting: list[Tensor] = []  # results of episodes, fetched together: a GPU is not waited for in each
        checkpoint = load_checkpoint(run.last) if run.last.exists() else None
        if checkpoint is None:
            with torch.random.fork_rng(devices=[]):  # the weights' initial values come from the global generator
                torch.default_generator.manual_seed(config.training.seed)
                self.network = network or GaussianPrototypicalNetwork(config.network)
                if config.training.init:
                    say(take_weights(self.network, config))
        else:
            if checkpoint.position.images != self.position.images:
                problem = f"the images to train on are not those that the run in {run.path} began with"
                raise InputError(f"{problem}: bring them back, or start another run with --out")
            self.network, self.position = checkpoint.network(), checkpoint.position
            if network is not None:
                network.set_transform(self.position.transform)
                network.load_state_dict(self.network.state_dict())
                self.network = network
            self.generator.set_state(checkpoint.tensors["generator"])
        self.network.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.network.train()
        self.optimizer = make_optimizer(self.network, config.training)
        if checkpoint:
            restore_optimizer(self.optimizer, self.network, checkpoint.tensors)
        position = self.position
        run.forget_after(position.episode, position.kept)
        position.command = position.command or command()
        if position.episode < config.training.episodes:
            position.commits = list(dict.fromkeys([*position.commits, commit()]))
            position.threads = list(dict.fromkeys([*position.threads, torch.get_num_threads()]))
        self.started = time.perf_counter() - position.seconds

    def to_end(self, on_log: Callable[[LogRecord], None]) -> RunResult:
        run, training, position = self.run, self.config.training, self.position
        stopped_by = None
        with run.log() as log, stop_signals() as stop:
            for now in range(position.episode, training.episodes):
                number, stage = training.stage_at(now)
                self._learn(now, stage)
                position.episode = now + 1
                ended = position.episode == training.episodes
                stopping = bool(stop)  # once: a signal that comes later waits for the next episode
                logs = position.episode % LOG_EVERY == 0 or ended
                saves = position.episode % training.checkpoint_every == 0 or ended or stopping
                if logs or saves:
                    self._fetch()
                if logs:
                    record = self._summarise(number, learning_rate(training, now))
                    log(record)
                    on_log(record)
                self._save(saves)
                if stopping and not ended:
                    stopped_by = stop[0]
                    break
        if stopped_by is None:
            run.write_summary(self.network, position, training)
        return RunResult(run.path, self.config, self.network.eval(), position.episode, position.seconds, stopped_by)

    def _learn(self, now: int, stage: Stage) -> None:
        training, episode, generator = self.config.training, self.config.episode, self.generator
        if stage.transform not in (None, self.network.config.transform):
            self.network.set_transform(stage.transform)
            self.position.transform = stage.transform
            self.optimizer = make_optimizer(self.network, training, moments_of=self.optimizer)
        self.optimizer.param_groups[0]["lr"] = learning_rate(training, now)
        shots = [episode.shot] * episode.splits
        if episode.max_shot is not None:
            shots = torch.randint(episode.shot, episode.max_shot + 1, (episode.splits,), generator=generator).tolist()
        drawn = sample_episode(self.images, episode.way, episode.drawings, generator, episode.mirror)
        batch = distort(as_float(drawn.flatten(0, 1)), training.distort, generator)
        batch, _ = damage(batch, stage.damage, generator)
        self.waiting.append(step(self.network, self.optimizer, batch, episode.way, shots))

    def _fetch(self) -> None:
        rows = torch.stack(self.waiting).tolist()
        for episode, row in enumerate(rows, start=self.position.episode - len(rows)):
            if not math.isfinite(row[0]):
                raise self._diverged(episode)
        self.position.rows += rows
        self.position.accuracies += [row[1] for row in rows]
        self.position.seconds = time.perf_counter() - self.started
        self.waiting.clear()

    def _summarise(self, stage: int, rate: float) -> LogRecord:
        position = self.position
        loss, accuracy, mean, std = torch.tensor(position.rows, dtype=torch.float64).mean(dim=0).tolist()
        position.rows.clear()
        learned = not math.isnan(mean)
        if learned and position.episode >= 100 and is_dead(mean, std) and not position.warned:
            position.warned = True
            warnings.warn(
                f"at episode {position.episode} every image has the precision {mean:.4g}: it is dead, and the network "
                "is a vanilla one; it stays alive with precision_relu off, transform exp and weighting prototype",
                DeadPrecisionWarning,
                stacklevel=3,
            )
        return LogRecord(
            episode=position.episode,
            stage=stage,
            loss=loss,
            accuracy=accuracy,
            learning_rate=rate,
            precision_mean=mean if learned else None,
            precision_std=std if learned else None,
            seconds=round(position.seconds, 3),
        )

    def _save(self, saves: bool) -> None:
        position, run, weights = self.position, self.run, (self.config, self.network, self.position)
        if saves:
            if not all(bool(torch.isfinite(value).all()) for value in self.network.state_dict().values()):
                raise self._diverged(position.episode - 1)
            if self._is_among_best():
                save_checkpoint(run.kept(position.episode), *weights)
        if self.config.training.takes_snapshot(position.episode):  # before `last`, from which a killed run goes on
            save_checkpoint(run.snapshot(position.episode), *weights)
        if saves:
            save_checkpoint(run.last, *weights, self.optimizer, self.generator)
            run.prune(position.kept)

    def _is_among_best(self) -> bool:
        """At the end of a window, whether its training accuracy is among the highest, which are kept."""
        position, training = self.position, self.config.training
        whole = len(position.accuracies) >= training.checkpoint_every
        if not whole and (position.kept or position.episode < training.episodes):
            return False
        entry = (sum(position.accuracies) / len(position.accuracies), position.episode)
        position.accuracies = []
        position.kept = sorted([*position.kept, entry], reverse=True)[: training.keep]
        return entry in position.kept

    def _diverged(self, episode: int) -> TrainingDiverged:
        last = self.run.last
        left = f"the last good weights are in {last}" if last.exists() else "there is no checkpoint yet"
        problem = f"the loss is no longer a finite number in episode {episode + 1}"
        return TrainingDiverged(f"{problem}: train again with a smaller learning rate ({left})")


def check_device(device: str) -> None:
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"there is no device {device!r} here ({str(error).splitlines()[0]}): use cpu") from None
