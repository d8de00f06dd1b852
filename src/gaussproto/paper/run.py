"""Train and score the runs of a table or of the figures. Skip finished runs and continue stopped ones."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from gaussproto.config import DataConfig, RunConfig
from gaussproto.data.images import LabelledImages
from gaussproto.data.load import Split, load_data
from gaussproto.errors import InputError
from gaussproto.evaluation.protocol import ROUNDS, evaluate, usual_shots, usual_ways
from gaussproto.evaluation.robustness import damage_study
from gaussproto.evaluation.sampled import EPISODES, usual_episodes
from gaussproto.paper.comparisons import photo_tables, write_dimensions_figure
from gaussproto.paper.figures import FIGURES, write_figures
from gaussproto.paper.noise import measure_study, trained_networks
from gaussproto.paper.noise_figures import write_noise_figures
from gaussproto.paper.noise_tables import noise_tables
from gaussproto.paper.photos import measure_photos
from gaussproto.paper.row import Budget, Row, unique
from gaussproto.paper.rows import ROWS, TABLES, TARGETS
from gaussproto.paper.tables import caveats, empty_tables, hardware, make_tables, read_runs, write_tables
from gaussproto.progress import Progress, silent, time_text
from gaussproto.recipes import OMNIGLOT
from gaussproto.runs.checkpoint import load_checkpoint
from gaussproto.runs.folder import RunFolder, load_checkpoints, load_network
from gaussproto.runs.metrics import CurvePoint, LogRecord, Metrics
from gaussproto.runs.noise import read_noise
from gaussproto.runs.photos import read_photos
from gaussproto.setting_types import Norm
from gaussproto.table import Table
from gaussproto.training.train import RunResult, train

DONE_BEFORE = 2.0  # seconds; a run that takes less was already trained and scored
NOISE_TARGET, PHOTOS_TARGET = "noise", "photos"
QUICK_PHOTO_TESTS = 100  # test episodes at the budget quick
QUICK_CLASSES = 200  # test classes at the budget quick; scoring all would take longer than training


@dataclass(frozen=True)
class Reproduction:
    """The result of `reproduce`. If a signal stopped it, only `folder` and `stopped` are set.

    Attributes:
        folder: the folder of the runs.
        stopped: the run that a signal stopped, or None.
        tables: the tables of the target.
        notes: how to read the tables.
        hardware: what the runs were trained on.
        page: a Markdown file with every table.
        figures: the files of the figures.
        left_out: figures that were not drawn and conditions that were not measured, with the reason.
    """

    folder: Path
    stopped: RunResult | None = None
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    hardware: str = ""
    page: Path | None = None
    figures: tuple[Path, ...] = ()
    left_out: tuple[str, ...] = ()


def reproduce(
    target: str,
    budget: Budget = "standard",
    *,
    only: str | None = None,
    out: Path | str | None = None,
    data: str | None = None,
    data_root: Path | None = None,
    device: str = "cpu",
    on_log: Callable[[Row, LogRecord], None] = lambda row, record: None,
    say: Callable[[str], None] = lambda sentence: None,
    progress: Progress = silent,
) -> Reproduction:
    """Train and score the runs of a table or of the figures of the paper, and compare the numbers with the paper's.

    Finished runs are skipped and stopped runs continue, so you can repeat a call at any time.

    Args:
        target: verification, results, distances, ours, seeds, noise, dimensions, vinyals, photos, comparison, figures
            or all. `vinyals` and `photos` have data of their own and are not part of `all`.
        budget: `quick` takes minutes and only shows that everything works. `standard` is our recipe, `paper` the
            paper's.
        only: some rows of the target, separated by commas, for example "small-none,small-radius".
        out: the folder of the runs. By default `runs/reproduce-BUDGET`, followed by the name of other data.
        data: what to train and test on instead of the data of the target: strokes (which needs no download), a folder
            or `module:function`.
        data_root: the folder with the files of Omniglot or CIFAR-100, as for `load_data`.
        device: where to train: cpu, cuda or mps.
        on_log: called with the current row and each record of its log.
        say: called with messages for the user: the runs to do, and the scores of each.
        progress: called as images are read and embedded.

    Returns:
        The tables with their notes, and the files of the tables and figures.

    Examples:
        This takes a few minutes and writes to `runs/reproduce-quick-strokes`:

        >>> import gaussproto as gp
        >>> result = gp.reproduce("verification", "quick", data="strokes")  # doctest: +SKIP
        >>> print(result.tables[0].markdown())  # doctest: +SKIP

        An unknown name is refused, and the message lists the known ones:

        >>> gp.reproduce("tables")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        gaussproto.errors.InputError: the target must be one of verification, results, distances, ours, seeds, ...
    """
    rows = select_rows(target, only)
    if budget not in get_args(Budget):
        raise InputError(f"budget must be one of {', '.join(get_args(Budget))} (found {budget!r})")
    suffix = "" if data in (None, OMNIGLOT.data) else f"-{Path(data).name}"
    folder = Path(out) if out else Path("runs") / f"reproduce-{budget}{suffix}"
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: choose a folder with --out")
    wanted = rows[0].config(budget).data if data is None else DataConfig(data=data)  # a target has one kind of data
    split = load_data(wanted, data_root, progress)
    configs = [row.config(budget).with_data(split.train.config) for row in rows]
    if budget == "quick":
        split = Split(split.train, split.test.sample_of_classes(QUICK_CLASSES))
    say(f"{len(rows)} run{'s' * (len(rows) > 1)} in {folder}: {', '.join(row.name for row in rows)}")
    seconds: list[float] = []  # of each run
    for number, (row, config) in enumerate(zip(rows, configs, strict=True), start=1):
        started = time.perf_counter()
        log, named = partial(on_log, row), partial(_named, progress, f"{row.name} ({number} of {len(rows)})")
        in_full, scored = not row.brief, target != NOISE_TARGET
        measure = partial(train_and_score, in_full=in_full, scored=scored, device=device, on_log=log, progress=named)
        try:
            stopped = measure(config, split, folder / row.name)
        except KeyboardInterrupt as interrupt:  # during scoring; training handles it itself
            interrupt.add_note(f"stopped during {row.name}; run the same command again to continue")
            raise
        if stopped:
            return Reproduction(folder, stopped)
        seconds.append(time.perf_counter() - started)
        say(_ended(row, number, len(rows), RunFolder(folder / row.name).read_metrics(), seconds))
    if target == NOISE_TARGET or (target == "all" and trained_networks(folder)):
        say("measuring wrong labels and corrupted images")
        measure_study(folder, folder / NOISE_TARGET, split.test, wanted.data, progress)
    if target == PHOTOS_TARGET:
        say("measuring the networks on the same episodes, and on corrupted photos")
        episodes = QUICK_PHOTO_TESTS if budget == "quick" else EPISODES
        measure_photos(folder, folder / "photos.json", split.test, wanted.data, episodes, progress)
    return _show(target, budget, wanted.data, folder, data_root, progress)


def _ended(row: Row, number: int, total: int, metrics: Metrics, seconds: Sequence[float]) -> str:
    """Return the scores of a run, and the time left if the others take as long as those that were not skipped."""
    shown = [score for each in metrics.evaluations[:1] for score in each.scores if score.shot in (1, 5)]
    scores = ", ".join(f"{score.way}-way {score.shot}-shot {100 * score.accuracy:.2f} %" for score in shown)
    sentence = f"{row.name} ({number} of {total}): {scores or 'trained'}"
    busy = [each for each in seconds if each > DONE_BEFORE]
    if number == total or not busy:
        return sentence
    left = total - number
    return f"{sentence}; {left} run{'s' * (left > 1)} left, about {time_text(sum(busy) / len(busy) * left)}"


def _show(
    target: str, budget: Budget, data: str, folder: Path, data_root: Path | None, progress: Progress
) -> Reproduction:
    runs = read_runs(folder)
    noise, photos = folder / NOISE_TARGET / "noise.json", folder / "photos.json"
    study = read_noise(noise) if noise.exists() else None
    more = noise_tables(study) if study else []
    more += photo_tables(read_photos(photos)) if photos.exists() else []
    tables = make_tables(target, runs, more)
    page = write_tables(runs, budget, data, folder / "tables.md", more)
    draws = target in ("figures", "all")
    figures, left_out = write_figures(folder, folder / "figures", data_root, progress) if draws else ([], [])
    if study and target in (NOISE_TARGET, "all"):
        figures += write_noise_figures(study, noise.parent)
        left_out += study.left_out
    if target in ("dimensions", "all"):
        figures += write_dimensions_figure(runs, folder / "figures")
    return Reproduction(
        folder,
        tables=tuple(tables),
        notes=(
            *dict.fromkeys(table.note for table in tables),
            *empty_tables(target, runs, more),
            *caveats(budget, data),
        ),
        hardware=hardware(runs),
        page=page,
        figures=tuple(figures),
        left_out=tuple(left_out),
    )


def select_rows(target: str, only: str | None = None) -> list[Row]:
    """Return the rows that a target needs, or `only` those named. The name of a repeated run selects all its seeds."""
    if target not in TARGETS:
        raise InputError(f"the target must be one of {', '.join(TARGETS)} (found {target!r})")
    of_figures = (row for figure in FIGURES.values() for row in figure.rows.values())
    of_paper = (row for row in ROWS.values() if row.config("standard").data == OMNIGLOT)
    rows = unique(of_figures if target == "figures" else TABLES.get(target, of_paper))
    if not only:
        return list(rows.values())
    selected: dict[str, Row] = {}
    for name in map(str.strip, only.split(",")):
        named = [rows[name]] if name in rows else [row for row in rows.values() if row.repeats == name]
        if not named:
            known = ", ".join(dict.fromkeys(row.repeats or row.name for row in rows.values()))
            raise InputError(f"--only must name rows of {target} (found {name!r}): choose from {known}")
        selected |= unique(named)
    return list(selected.values())


def train_and_score(
    config: RunConfig, split: Split, folder: Path, *, in_full: bool = True, scored: bool = True, device: str = "cpu",
    on_log: Callable[[LogRecord], None] = lambda record: None, progress: Progress = silent,
) -> RunResult | None:  # fmt: skip
    """Train a run and score it for the tables and figures. Return its result if a signal stopped it, otherwise None.

    If not `in_full`, score only the last checkpoint, with running statistics, on clean and (except for classes of
    hundreds of images) damaged supports. If not `scored`, only train.
    """
    run = RunFolder(folder)
    begun = run.config.exists()
    if begun:
        run.check_settings(config)
    if not run.ended:
        result = train(config, split.train, folder, resume=begun, device=device, on_log=on_log)
        if result.stopped_by:
            return result
    if not scored:
        return None
    score = partial(_score, run, config.data.data, split.test, device=device, progress=progress)
    shots = usual_shots(split.test)
    score("last", "running", shots)
    if in_full:
        score("top", "running", shots)
        score("top", "batch", table_shots(split.test))
        _score_snapshots(run, split.test, device, progress)
    if run.read_metrics().damage is None and not usual_episodes(split.test):
        way, shot = usual_ways(split.test)[-1], min(5, shots[-1])
        study = damage_study(load_network(folder, device), split.test, way=way, shot=shot, progress=progress)
        run.write_metrics(damage=study)
    return None


def _score(
    run: RunFolder, data: str, images: LabelledImages, checkpoint: Literal["last", "top"], norm: Norm,
    shots: Sequence[int], device: str, progress: Progress,
) -> None:  # fmt: skip
    before = run.read_metrics().evaluation(data, norm, checkpoint)
    episodes = usual_episodes(images) if norm == "running" else None
    rounds = 1 if episodes else ROUNDS[norm]
    done = set()
    if before and (before.classes, before.rounds, before.sampled, before.seed) == (images.way, rounds, episodes, 0):
        done = {(score.way, score.shot) for score in before.scores}
    ways = [way for way in usual_ways(images) if not {(way, shot) for shot in shots} <= done]
    if not ways:
        return
    checkpoints = load_checkpoints(str(run.path), checkpoint)
    for together in (
        [ways] if norm == "running" else [[way] for way in ways]
    ):  # save each way, since batch statistics take long
        networks = [each.network(device) for each in checkpoints]
        result = evaluate(networks, images, together, shots, norm=norm, episodes=episodes, progress=progress)
        run.write_evaluation(data, checkpoint, checkpoints, result)


def _score_snapshots(run: RunFolder, images: LabelledImages, device: str, progress: Progress) -> None:
    """Score the snapshots of a training for its test curve. These scores select nothing."""
    points = {point.episode: point for point in run.read_metrics().curve}
    for path in run.snapshots():
        checkpoint = load_checkpoint(path)
        episode = checkpoint.position.episode
        if episode not in points:
            ways = usual_ways(images)[-1:]
            result = evaluate(checkpoint.network(device), images, ways, table_shots(images), progress=progress)
            points[episode] = CurvePoint(episode=episode, norm=result.norm, scores=result.scores)
            run.write_metrics(curve=tuple(points[key] for key in sorted(points)))


def table_shots(images: LabelledImages) -> list[int]:
    """Return the shots of the tables, 1 and 5, or as many as the smallest class allows."""
    return sorted({min(shot, usual_shots(images)[-1]) for shot in (1, 5)})


def _named(progress: Progress, name: str, what: str, done: int, total: int | None) -> None:
    progress(f"{name}: {what}", done, total)
