"""Train a network by episodes, with checkpoints and a log. A stopped run resumes bit for bit."""

import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from gaussproto.config import DataConfig, RunConfig, Stage, read_config
from gaussproto.data.damage import damage
from gaussproto.data.distort import distort
from gaussproto.data.images import LabelledImages
from gaussproto.data.load import is_function, load_data
from gaussproto.episodes import check_enough, fit_episode_to, sample_episode
from gaussproto.errors import InputError
from gaussproto.formulas.covariance import is_dead
from gaussproto.formulas.named import check_saved
from gaussproto.model.device import check_device
from gaussproto.model.network import GaussianPrototypicalNetwork, as_float
from gaussproto.provenance import command, commit
from gaussproto.runs.checkpoint import (
    check_resumable,
    load_checkpoint,
    restore_generator,
    restore_optimizer,
    save_checkpoint,
)  # fmt: skip
from gaussproto.runs.folder import RunFolder
from gaussproto.runs.metrics import LogRecord
from gaussproto.runs.weights import Position
from gaussproto.training.checks import check_memory, check_rebuilds, check_types
from gaussproto.training.memory import keep_freed_memory
from gaussproto.training.result import DeadPrecisionWarning, RunResult, TrainingDiverged
from gaussproto.training.signals import stop_signals
from gaussproto.training.step import learning_rate, make_optimizer, step
from gaussproto.training.warm_start import read_init, take_weights, with_digest

__all__ = ["DeadPrecisionWarning", "RunResult", "TrainingDiverged", "train"]

LOG_EVERY = 10  # episodes per line of the log


def train(
    config: RunConfig,
    images: LabelledImages | None = None,
    out: Path | str | None = None,
    *,
    network: GaussianPrototypicalNetwork | None = None,
    resume: bool = False,
    lengthen: bool = False,
    device: str = "cpu",
    on_log: Callable[[LogRecord], None] = lambda record: None,
    say: Callable[[str], None] = lambda sentence: None,
) -> RunResult:
    """Train a network by episodes and write a run folder.

    Args:
        config: the settings: a preset (see `gaussproto.preset`) or your own.
        images: the training classes. By default, those that `config.data` names.
        out: the run folder, by default `runs/NAME`.
        network: a network to train instead of a new one. Its settings replace `config.network`. Its backbone and other
            parts of yours are saved by import path, so they must be importable and need no arguments.
        resume: continue the run in the folder. The result is the same as that of a run that never stopped.
        lengthen: with `resume`, accept more episodes than the run began with. Its last stage grows.
        device: the device to train on, for example cpu or cuda.
        on_log: a function that gets every line of the log, a `LogRecord`.
        say: a function that gets messages for the user, for example about the initial weights.

    Returns:
        The run folder, the trained network, and how training ended.

    Raises:
        TrainingDiverged: if the loss is no longer finite.

    Examples:
        >>> import gaussproto as gp
        >>> from tempfile import TemporaryDirectory
        >>> config = gp.preset("demo", rotations=False, filters=(4, 4, 4), embedding_dim=4, way=5, episodes=20)
        >>> data = gp.load_data(config.data)
        >>> with TemporaryDirectory() as folder:
        ...     run = gp.train(config, data.train, folder, on_log=lambda record: print(record.episode))
        10
        20
        >>> evaluation = gp.evaluate(run.network, data.test, ways=[5], shots=[1], rounds=1)
        >>> [(score.way, score.shot) for score in evaluation.scores]
        [(5, 1)]
    """
    check_types(config, images)
    if network is not None:
        check_rebuilds(network)
        if config.training.init:
            raise InputError("`network` and the setting `init` both set the initial weights: pass only one of them")
        config = config.model_copy(update={"network": network.config})
    config.network.check_saved()
    if images is None:
        images = load_data(config.data).train
    run = RunFolder(Path(out or config.folder))
    config = with_digest(config.with_data(_recorded_data(images, run, resume)))
    if is_function(config.data.data):
        check_saved(config.data.data)
    episode = fit_episode_to(config.episode, images)
    smaller = episode != config.episode
    config = config.model_copy(update={"episode": episode})
    check_enough(images, episode.way, episode.drawings)
    check_device(device)
    check_memory(config.network)
    if network is not None and run.config.exists():
        begun = read_config(run.config).network
        if begun == network.config.model_copy(update={"transform": begun.transform}):  # a stage can replace it
            config = config.model_copy(update={"network": begun})
    if config.training.init and not run.last.exists():
        read_init(config)  # raise before the folder is created
    with run.claimed():
        config = run.open(config, resume, lengthen)
        if smaller:
            say(f"episodes are reduced to fit the data: {episode.way} classes of {episode.drawings} images")
        keep_freed_memory()
        training = _Training(config, images, run, network, device, say)
        if config != read_config(run.config):
            run.write_config(config)  # the run was lengthened
        return training.to_end(on_log)


def _recorded_data(images: LabelledImages, run: RunFolder, resume: bool) -> DataConfig:
    """Return the data that the run records. A resumed run keeps its record: a fingerprint tells if images changed."""
    data = images.config
    if resume and run.config.exists():
        begun = read_config(run.config).data
        if images.source is None or begun == data.model_copy(update={"split": None}):  # old runs record no split
            return begun
    return data


class _Training:
    """A run in progress: the network, its optimiser, its random numbers and its position."""

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
        self.waiting: list[Tensor] = []  # results of steps, fetched together to avoid waiting for a GPU
        checkpoint = load_checkpoint(run.last) if run.last.exists() else None
        if checkpoint is None:
            with torch.random.fork_rng(devices=[]):  # initial weights come from the global generator
                torch.default_generator.manual_seed(config.training.seed)
                self.network = network or GaussianPrototypicalNetwork(config.network)
                if config.training.init:
                    say(take_weights(self.network, config))
        else:
            run.check_checkpoint(checkpoint, config)
            check_resumable(checkpoint)
            if not images.has_fingerprint(checkpoint.position.images):
                problem = f"the training images have changed since the run in {run.path} started"
                raise InputError(f"{problem}: restore them, or start a new run with --out")
            self.network, self.position = checkpoint.network(), checkpoint.position
            if config.training.episodes > checkpoint.config.training.episodes:
                self.position.lengthened.append(self.position.episode)
                say(f"the run is lengthened to {config.training.episodes:,} episodes")
            if network is not None:
                network.set_transform(self.position.transform)
                network.load_state_dict(self.network.state_dict())
                self.network = network
            restore_generator(self.generator, checkpoint)
        self.network.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.network.train()
        self.optimizer = make_optimizer(self.network, config.training)
        if checkpoint:
            restore_optimizer(self.optimizer, self.network, checkpoint.tensors)
        position = self.position
        run.forget_after(position)
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
                stopping = bool(stop)  # read once: a later signal waits for the next episode
                logs = position.episode % LOG_EVERY == 0 or ended
                saves = position.episode % training.checkpoint_every == 0 or ended or stopping
                if logs or saves:
                    self._fetch()
                if logs:
                    record = self._summarise(number, learning_rate(training, now))
                    log.write(record)
                    on_log(record)
                if saves:
                    log.sync()  # before the checkpoint, from which a killed run resumes
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
        drawn = sample_episode(
            self.images,
            episode.way,
            episode.drawings,
            generator,
            episode.mirror,
            varied=episode.varied,
            within_alphabet=episode.within_alphabet,
        )
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
        position.loss, position.accuracy = loss, accuracy
        learned = not math.isnan(mean)
        if learned and position.episode >= 100 and is_dead(mean, std) and not position.warned:
            position.warned = True
            warnings.warn(
                f"every image has the same precision ({mean:.4g} at episode {position.episode}), so the network works "
                "like a vanilla one: to learn a precision, train with --no-precision-relu --transform exp --weighting "
                "prototype",
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
        if self.config.training.takes_snapshot(position.episode):  # before `last`, where a killed run resumes
            save_checkpoint(run.snapshot(position.episode), *weights)
        if saves:
            save_checkpoint(run.last, *weights, self.optimizer, self.generator)
            run.prune(position.kept)

    def _is_among_best(self) -> bool:
        """Return whether a window ends here and its training accuracy is among the highest, which are kept."""
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
        left = f"the last good weights are in {last}" if last.exists() else "no checkpoint was saved yet"
        problem = f"training diverged at episode {episode + 1} (the loss is no longer finite; {left})"
        return TrainingDiverged(f"{problem}: train again with a smaller learning rate")
