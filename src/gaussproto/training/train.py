"""Training: episodes, Adam, checkpoints, a log; stopped at any moment and resumed bit for bit."""

from __future__ import annotations

import math
import signal
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from gaussproto.config import RunConfig, TrainingConfig
from gaussproto.data.damage import damage
from gaussproto.data.distort import distort
from gaussproto.data.images import LabelledImages, as_float
from gaussproto.data.load import load_data, with_split
from gaussproto.errors import InputError
from gaussproto.model.covariance import is_dead
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.training.checkpoint import Position, load_checkpoint, restore_optimizer, save_checkpoint
from gaussproto.training.episode import adapted, check_enough, sample_episode
from gaussproto.training.init import read_init, take_weights, with_digest
from gaussproto.training.memory import keep_freed_memory
from gaussproto.training.run_folder import RunFolder, command, commit
from gaussproto.training.signals import stop_signals
from gaussproto.training.step import make_optimizer, step

LOG_EVERY = 10  # episodes to a line of the log


class TrainingDiverged(InputError):  # noqa: N818 (it reads as a sentence)
    """The loss stopped being a number."""


class DeadPrecisionWarning(UserWarning):
    """Every image has the same precision: the network is a vanilla one."""


@dataclass(frozen=True)
class LogRecord:
    """One line of `log.jsonl`: means over the episodes since the line before."""

    episode: int
    stage: int
    loss: float  # mean cross-entropy of a query, in nats
    accuracy: float
    learning_rate: float
    precision_mean: float | None
    precision_spread: float | None  # standard deviation over the images of an episode
    seconds: float  # of training so far


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
    resume: bool = False,
    device: str = "cpu",
    on_log: Callable[[LogRecord], None] = lambda record: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> RunResult:
    """Train a network by episodes and leave a run folder.

    Args:
        config: a preset or one's own; see `gaussproto.preset`.
        images: the training classes; without them those of the configuration.
        out: the run folder; `runs/NAME` if not given.
        resume: go on where the run in that folder stopped; the result is that of a run that never stopped.
        device: where the network is, such as cpu or cuda.
        on_log: called with every line of the log.
        say: called with a sentence for a person: what was made of the data and of the weights that it starts from.
    """
    if images is None:
        config = config.model_copy(update={"data": with_split(config.data)})
        images = load_data(config.data).train
    config = with_digest(config)
    episode = adapted(config.episode, images)
    smaller = episode != config.episode
    config = config.model_copy(update={"episode": episode})
    training = config.training
    check_enough(images, episode.way, episode.drawings)
    check_device(device)
    run = RunFolder(Path(out or Path("runs") / config.name))
    if training.init and not run.last.exists():
        read_init(config)  # what is wrong with it is said before there is a folder
    run.open(config, resume)
    if smaller:
        say(f"episodes adapt to the data: {episode.way} classes and {episode.drawings} images of each")
    with run.claimed():
        return _train(config, images, run, device, on_log, say)


def _train(
    config: RunConfig,
    images: LabelledImages,
    run: RunFolder,
    device: str,
    on_log: Callable[[LogRecord], None],
    say: Callable[[str], None],
) -> RunResult:
    training, episode = config.training, config.episode
    keep_freed_memory()

    generator = torch.Generator().manual_seed(training.seed)
    network, optimizer, position = _start_or_resume(config, images, run, generator, device, say)
    images = images.to(device)
    waiting: list[Tensor] = []  # what the episodes gave, fetched together: a GPU is not waited for in each
    started = time.perf_counter() - position.seconds

    with run.log() as log, stop_signals() as stop:
        for now in range(position.episode, training.episodes):
            number, stage = training.stage_at(now)
            if stage.transform not in (None, network.config.transform):
                network.set_transform(stage.transform)
                position.transform = stage.transform
                optimizer = make_optimizer(network, training, moments_of=optimizer)
            optimizer.param_groups[0]["lr"] = learning_rate(training, now)

            shots = _draw_shots(config, generator)
            drawn = sample_episode(images, episode.way, episode.drawings, generator, episode.mirror)
            batch = distort(as_float(drawn.flatten(0, 1)), training.distort, generator)
            batch, _ = damage(batch, stage.damage, generator)
            waiting.append(step(network, optimizer, batch, episode.way, shots))

            position.episode = now + 1
            ended = position.episode == training.episodes
            stopping = bool(stop)  # once: a signal that comes later waits for the next episode
            logs = position.episode % LOG_EVERY == 0 or ended
            saves = position.episode % training.checkpoint_every == 0 or ended or stopping
            if logs or saves:
                _fetch(waiting, position, run)
            if logs:
                position.seconds = time.perf_counter() - started
                record = _summarise(position, number, learning_rate(training, now))
                log(asdict(record))
                on_log(record)
            if saves:
                position.seconds = time.perf_counter() - started
                if not all(bool(torch.isfinite(value).all()) for value in network.state_dict().values()):
                    raise _diverged(now, run)
                _keep_best(run, config, network, position)
            if training.takes_snapshot(position.episode):  # before `last`, from which a killed run goes on
                save_checkpoint(run.snapshot(position.episode), config, network, position)
            if saves:
                save_checkpoint(run.last, config, network, position, optimizer, generator)
                run.prune(position.kept)
            if stopping and not ended:
                return RunResult(run.path, config, network.eval(), position.episode, position.seconds, stop[0])
    run.write_summary(network, position, training)
    return RunResult(run.path, config, network.eval(), position.episode, position.seconds, None)


def learning_rate(training: TrainingConfig, episode: int) -> float:
    """The learning rate of an episode, counted from 0; a function of nothing else, so a resumed run has it right.

    >>> [learning_rate(TrainingConfig(schedule="halving"), n) for n in (0, 1999, 2000, 4000)]
    [0.002, 0.002, 0.001, 0.0005]
    """
    if training.schedule == "halving":
        return training.learning_rate * 0.5 ** (episode // training.halve_every)
    if training.schedule == "cosine":
        return training.learning_rate * 0.5 * (1 + math.cos(math.pi * episode / training.episodes))
    return training.learning_rate


def check_device(device: str) -> None:
    """Say so if there is no such device here."""
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"there is no device {device!r} here ({str(error).splitlines()[0]}): use cpu") from None


def _start_or_resume(
    config: RunConfig,
    images: LabelledImages,
    run: RunFolder,
    generator: torch.Generator,
    device: str,
    say: Callable[[str], None],
) -> tuple[GaussianPrototypicalNetwork, torch.optim.Adam, Position]:
    if run.last.exists():
        checkpoint = load_checkpoint(run.last)
        network, position = checkpoint.network(), checkpoint.position
        if position.images != images.fingerprint():
            raise InputError(
                f"the images to train on are not those that the run in {run.path} began with: bring them back, "
                "or train anew with another --out"
            )
        generator.set_state(checkpoint.tensors["generator"])
    else:
        checkpoint, position = None, Position(transform=config.network.transform, images=images.fingerprint())
        with torch.random.fork_rng(devices=[]):  # the weights' initial values come from the global generator
            torch.default_generator.manual_seed(config.training.seed)
            network = GaussianPrototypicalNetwork(config.network)
            if config.training.init:
                say(take_weights(network, config))
    network.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    network.train()
    optimizer = make_optimizer(network, config.training)
    if checkpoint:
        restore_optimizer(optimizer, network, checkpoint.tensors)
    run.forget_after(position.episode, position.kept)
    position.command = position.command or command()
    if position.episode < config.training.episodes:
        position.commits = list(dict.fromkeys([*position.commits, commit()]))
        position.threads = list(dict.fromkeys([*position.threads, torch.get_num_threads()]))
    return network, optimizer, position


def _draw_shots(config: RunConfig, generator: torch.Generator) -> list[int]:
    """The number of supports in each split of an episode."""
    low, high, splits = config.episode.shot, config.episode.max_shot, config.episode.splits
    return [low] * splits if high is None else torch.randint(low, high + 1, (splits,), generator=generator).tolist()


def _fetch(waiting: list[Tensor], position: Position, run: RunFolder) -> None:
    """Bring what the last episodes gave into the position."""
    rows = torch.stack(waiting).tolist()
    for episode, row in enumerate(rows, start=position.episode - len(rows)):
        if not math.isfinite(row[0]):
            raise _diverged(episode, run)
    position.rows += rows
    position.accuracies += [row[1] for row in rows]
    waiting.clear()


def _diverged(episode: int, run: RunFolder) -> TrainingDiverged:
    left = f"the last good weights are in {run.last}" if run.last.exists() else "there is no checkpoint yet"
    return TrainingDiverged(
        f"the loss is no longer a finite number in episode {episode + 1}: "
        f"train anew with a smaller learning rate ({left})"
    )


def _summarise(position: Position, stage: int, rate: float) -> LogRecord:
    loss, accuracy, mean, spread = torch.tensor(position.rows, dtype=torch.float64).mean(dim=0).tolist()
    position.rows.clear()
    learned = not math.isnan(mean)
    if learned and position.episode >= 100 and is_dead(mean, spread) and not position.warned:
        position.warned = True
        warnings.warn(
            f"at episode {position.episode} every image has the precision {mean:.4g}: it is dead, and the network is a "
            "vanilla one; precision_relu off, transform exp and weighting prototype with several supports keep it up",
            DeadPrecisionWarning,
            stacklevel=3,
        )
    return LogRecord(
        position.episode,
        stage,
        loss,
        accuracy,
        rate,
        mean if learned else None,
        spread if learned else None,
        round(position.seconds, 3),
    )


def _keep_best(run: RunFolder, config: RunConfig, network: GaussianPrototypicalNetwork, position: Position) -> None:
    """At the end of a window, keep the weights if its training accuracy is among the highest."""
    every, keep = config.training.checkpoint_every, config.training.keep
    if len(position.accuracies) < every and (position.kept or position.episode < config.training.episodes):
        return
    accuracy = sum(position.accuracies) / len(position.accuracies)
    position.accuracies = []
    entry = (accuracy, position.episode)
    position.kept = sorted([*position.kept, entry], reverse=True)[:keep]
    if entry in position.kept:
        save_checkpoint(run.kept(position.episode), config, network, position)
