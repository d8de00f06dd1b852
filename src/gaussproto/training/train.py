"""Train a network by episodes, with checkpoints and a log. A stopped run resumes bit for bit.

Every rank of a training takes the same steps. Rank 0 also writes the run.
"""

import math
import signal
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path

import torch
from torch import Tensor

from gaussproto.config import DataConfig, RunConfig, read_config
from gaussproto.data.images import LabelledImages
from gaussproto.data.load import is_function, load_data
from gaussproto.episodes import check_enough, fit_episode_to
from gaussproto.errors import InputError, ReportedElsewhere
from gaussproto.formulas.covariance import is_dead
from gaussproto.formulas.named import check_saved
from gaussproto.model.device import check_device
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.provenance import command, commit
from gaussproto.runs.checkpoint import save_checkpoint
from gaussproto.runs.folder import RunFolder
from gaussproto.runs.metrics import LogRecord
from gaussproto.runs.weights import Position
from gaussproto.training.begin import begin, share
from gaussproto.training.checks import check_memory, check_rebuilds, check_types
from gaussproto.training.learn import Learner
from gaussproto.training.memory import keep_freed_memory
from gaussproto.training.ranks import Ranks, join, was_restarted
from gaussproto.training.result import DeadPrecisionWarning, RunResult, TrainingDiverged
from gaussproto.training.signals import stop_signals
from gaussproto.training.step import learning_rate
from gaussproto.training.warm_start import read_init, with_digest

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

    Processes that torchrun starts train together: they share the episodes of a step, and rank 0 writes the run.

    Args:
        config: the settings: a preset (see `gaussproto.preset`) or your own.
        images: the training classes. By default, those that `config.data` names.
        out: the run folder, by default `runs/NAME`.
        network: a network to train instead of a new one. Its settings replace `config.network`. Its backbone and other
            parts of yours are saved by import path, so they must be importable and need no arguments.
        resume: continue the run in the folder. The result is the same as that of a run that never stopped.
        lengthen: with `resume`, accept more episodes than the run began with. Its last stage grows.
        device: the device to train on, for example cpu or cuda. Of several processes on a machine, each takes a GPU.
        on_log: a function that gets every line of the log, a `LogRecord`. Only rank 0 calls it.
        say: a function that gets messages for the user, for example about the initial weights. Only rank 0 calls it.

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
    ranks = join(device)
    resume = resume or bool(ranks.largest(int(was_restarted())))
    with ranks.sharing_errors():
        device = ranks.device(device)
        check_device(device)
        if network is not None:
            check_rebuilds(network)
            if config.training.init:
                raise InputError("`network` and the setting `init` both set the initial weights: pass only one of them")
            config = config.model_copy(update={"network": network.config})
        config.network.check_saved()
    if images is None:
        images = ranks.in_turn(lambda: load_data(config.data).train)
    run = RunFolder(Path(out or config.folder))
    with ExitStack() as stack:
        led = None
        with ranks.sharing_errors():
            if ranks.leads:
                config, sentences = _prepared(config, images, run, network, resume, ranks)
                stack.enter_context(run.claimed())
                config = run.open(config, resume, lengthen)
                for sentence in sentences:
                    say(sentence)
                led = begin(config, images, run, network, device, say)
                run.forget_after(led[1])
                if config != read_config(run.config):
                    run.write_config(config)  # the run was lengthened
        keep_freed_memory()
        learner, position = share(ranks, led, images, network, device)
        training = _Training(learner, position, run)
        return training.to_end(on_log if ranks.leads else lambda record: None)


def _prepared(
    config: RunConfig,
    images: LabelledImages,
    run: RunFolder,
    network: GaussianPrototypicalNetwork | None,
    resume: bool,
    ranks: Ranks,
) -> tuple[RunConfig, list[str]]:
    """Return the settings that the run will record, and what to say about them. Check them before it has a folder."""
    sentences = []
    config = with_digest(config.with_data(_recorded_data(images, run, resume)))
    if is_function(config.data.data):
        check_saved(config.data.data)
    episode = fit_episode_to(config.episode, images)
    if episode != config.episode:
        sentences.append(f"episodes are reduced to fit the data: {episode.way} classes of {episode.drawings} images")
        config = config.model_copy(update={"episode": episode})
    check_enough(images, episode.way, episode.drawings)
    check_memory(config.network)
    if resume and run.config.exists():
        begun = read_config(run.config)
        if network is not None:
            transform = {"transform": begun.network.transform}  # a stage can replace it
            if begun.network == network.config.model_copy(update=transform):
                config = config.model_copy(update={"network": begun.network})
        if config.training.episodes_per_step == 1:  # not set, and the number of ranks may be another one
            each = {"episodes_per_step": begun.training.episodes_per_step}
            config = config.model_copy(update={"training": config.training.model_copy(update=each)})
    elif config.training.episodes_per_step == 1 and ranks.size > 1:
        config = config.override(episodes_per_step=ranks.size)
    if config.training.episodes_per_step % ranks.size:
        shared = f"the {config.training.episodes_per_step} episodes of a step"
        sentences.append(f"{ranks.size} processes cannot share {shared} equally, so some of them wait")
    if config.training.init and not run.last.exists():
        read_init(config)
    return config, sentences


def _recorded_data(images: LabelledImages, run: RunFolder, resume: bool) -> DataConfig:
    """Return the data that the run records. A resumed run keeps its record: a fingerprint tells if images changed."""
    data = images.config
    if resume and run.config.exists():
        begun = read_config(run.config).data
        if images.source is None or begun == data.model_copy(update={"split": None}):  # old runs record no split
            return begun
    return data


class _Training:
    """A run in progress on one rank. Rank 0 writes the run."""

    def __init__(self, learner: Learner, position: Position, run: RunFolder) -> None:
        self.learner, self.position, self.run = learner, position, run
        self.config, self.ranks = learner.config, learner.ranks
        self.waiting: list[Tensor] = []  # results of steps, fetched together to avoid waiting for a GPU
        position.command = position.command or command()
        if position.episode < self.config.training.episodes:
            if self.ranks.leads:
                position.commits = list(dict.fromkeys([*position.commits, commit()]))
            position.threads = list(dict.fromkeys([*position.threads, torch.get_num_threads() * self.ranks.size]))
            position.ranks = list(dict.fromkeys([*position.ranks, self.ranks.size]))
        self.started = time.perf_counter() - position.seconds

    def to_end(self, on_log: Callable[[LogRecord], None]) -> RunResult:
        run, training, position, network = self.run, self.config.training, self.position, self.learner.network
        stopped_by, leads = None, self.ranks.leads
        with run.log() if leads else nullcontext() as log, stop_signals() as stop:
            for now in range(position.episode, training.episodes, training.episodes_per_step):
                number, stage = training.stage_at(now)
                rate = learning_rate(training, now)
                self.waiting.append(self.learner.learn(now, stage, rate))
                position.episode = min(now + training.episodes_per_step, training.episodes)
                position.transform = network.config.transform
                ended = position.episode == training.episodes
                # Read once: a later signal waits for the next step. All ranks stop if one is asked to.
                stopping = self.ranks.largest(stop[0] if stop else 0)
                logs = _is_due(LOG_EVERY, now, position.episode) or ended
                saves = _is_due(training.checkpoint_every, now, position.episode) or ended or bool(stopping)
                if logs or saves:
                    self._fetch()
                if logs:
                    record = self._summarise(number, rate)
                    if log:
                        log.write(record)
                    on_log(record)
                if saves and log:
                    log.sync()  # before the checkpoint, from which a killed run resumes
                self._save(saves, now)
                if stopping and not ended:
                    stopped_by = signal.Signals(stopping)
                    break
        if stopped_by is None and leads:
            run.write_summary(network, position, training)
        self.ranks.end_together()
        return RunResult(run.path, self.config, network.eval(), position.episode, position.seconds, stopped_by)

    def _fetch(self) -> None:
        rows = torch.cat(self.waiting).tolist()
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
        if learned and position.episode >= 100 and is_dead(mean, std) and not position.warned and self.ranks.leads:
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

    def _save(self, saves: bool, now: int) -> None:
        position, run, learner = self.position, self.run, self.learner
        weights = self.config, learner.network, position
        finite = (bool(torch.isfinite(value).all()) for value in learner.network.state_dict().values())
        if saves and not all(finite):
            raise self._diverged(position.episode - 1)
        if not self.ranks.leads:
            return
        if saves and self._is_among_best():
            save_checkpoint(run.kept(position.episode), *weights)
        if self.config.training.takes_snapshot(position.episode, now):  # before `last`, where a killed run resumes
            save_checkpoint(run.snapshot(position.episode), *weights)
        if saves:
            save_checkpoint(run.last, *weights, learner.optimizer, learner.generator)
            run.prune(position.kept)

    def _is_among_best(self) -> bool:
        """Return whether a window ends here and its training accuracy is among the highest, which are kept."""
        position, training = self.position, self.config.training
        whole = len(position.accuracies) > training.checkpoint_every - training.episodes_per_step
        if not whole and (position.kept or position.episode < training.episodes):
            return False
        entry = (sum(position.accuracies) / len(position.accuracies), position.episode)
        position.accuracies = []
        position.kept = sorted([*position.kept, entry], reverse=True)[: training.keep]
        return entry in position.kept

    def _diverged(self, episode: int) -> InputError:
        if not self.ranks.leads:
            return ReportedElsewhere(f"training diverged at episode {episode + 1}")
        last = self.run.last
        left = f"the last good weights are in {last}" if last.exists() else "no checkpoint was saved yet"
        problem = f"training diverged at episode {episode + 1} (the loss is no longer finite; {left})"
        return TrainingDiverged(f"{problem}: train again with a smaller learning rate")


def _is_due(every: int, before: int, episode: int) -> bool:
    """Return whether a step from one episode to another reaches a multiple of `every`."""
    return episode // every > before // every
