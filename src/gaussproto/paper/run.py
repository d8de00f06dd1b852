"""Train and score the runs of a table or of the figures: what is done is skipped, what was stopped goes on."""

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
from gaussproto.paper.figures import FIGURES, write_figures
from gaussproto.paper.rows import ROWS, TABLES, TARGETS, Budget, Row, unique
from gaussproto.paper.tables import caveats, hardware, make_tables, read_runs, write_tables
from gaussproto.progress import Progress, silent
from gaussproto.runs.checkpoint import load_checkpoint
from gaussproto.runs.folder import RunFolder, load_network
from gaussproto.runs.metrics import CurvePoint, LogRecord
from gaussproto.setting_types import Norm
from gaussproto.table import Table
from gaussproto.training.train import RunResult, train

QUICK_CLASSES = 200  # test classes at the budget quick: to score all takes longer than to train for a minute


@dataclass(frozen=True)
class Reproduction:
    """What `reproduce` leaves; only `folder` and `stopped` if a signal stopped a training."""

    folder: Path  # of the runs
    stopped: RunResult | None = None
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()  # how to read the tables
    hardware: str = ""  # that the runs were trained on
    page: Path | None = None  # every table, as Markdown
    figures: tuple[Path, ...] = ()
    left_out: tuple[str, ...] = ()  # figures that were not drawn, with the reason


def reproduce(
    target: str,
    budget: Budget = "standard",
    *,
    only: str | None = None,
    out: Path | str | None = None,
    data: str = "omniglot",
    data_root: Path | None = None,
    device: str = "cpu",
    on_log: Callable[[Row, LogRecord], None] = lambda row, record: None,
    progress: Progress = silent,
) -> Reproduction:
    """Train and score what a table or the figures of the paper need, and put its numbers beside ours.

    Runs that are finished are not trained again, and a run that was stopped goes on.

    Args:
        target: verification, results, distances, ours, seeds, comparison, figures or all.
        budget: quick takes minutes and shows that it works; standard is our recipe, paper the paper's own.
        only: the names of some rows, separated by commas, such as "small-none,small-radius".
        out: the folder of the runs; `runs/reproduce-BUDGET` if None, with the name of data other than Omniglot.
        data: what to train and test on; strokes works without Omniglot.
        data_root: where Omniglot's files are, as for `load_data`.
        device: where it trains.
        on_log: called with the row that is trained and each record of its log.
        progress: called as images are read and embedded.
    """
    rows = select_rows(target, only)
    if budget not in get_args(Budget):
        raise InputError(f"there is no budget {budget!r}: it is one of {', '.join(get_args(Budget))}")
    configs = [row.config(budget).override(data=data) for row in rows]
    suffix = "" if data == "omniglot" else f"-{Path(data).name}"
    folder = Path(out) if out else Path("runs") / f"reproduce-{budget}{suffix}"
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: choose a folder with --out")
    split = load_data(DataConfig(data=data), data_root, progress)
    if budget == "quick":
        split = Split(split.train, split.test.sample_of_classes(QUICK_CLASSES))
    for row, config in zip(rows, configs, strict=True):
        log, named = partial(on_log, row), partial(_named, progress, row.name)
        measure = partial(train_and_score, in_full=not row.repeats, device=device, on_log=log, progress=named)
        try:
            stopped = measure(config, split, folder / row.name)
        except KeyboardInterrupt as interrupt:  # while it was scored; a training ends by itself
            interrupt.add_note(f"stopped in {row.name}; the same command goes on")
            raise
        if stopped:
            return Reproduction(folder, stopped)
    return _show(target, budget, data, folder, data_root, progress)


def _show(
    target: str, budget: Budget, data: str, folder: Path, data_root: Path | None, progress: Progress
) -> Reproduction:
    runs = read_runs(folder)
    tables = make_tables(target, runs)
    page = write_tables(runs, budget, data, folder / "tables.md")
    draws = target in ("figures", "all")
    figures, left_out = write_figures(folder, folder / "figures", data_root, progress) if draws else ([], [])
    return Reproduction(
        folder,
        tables=tuple(tables),
        notes=(*dict.fromkeys(table.note for table in tables), *caveats(budget, data)),
        hardware=hardware(runs),
        page=page,
        figures=tuple(figures),
        left_out=tuple(left_out),
    )


def select_rows(target: str, only: str | None = None) -> list[Row]:
    """The rows whose runs a target needs, or `only` the named ones; the name of a repeated run stands for all seeds."""
    if target not in TARGETS:
        raise InputError(f"there is nothing to reproduce called {target!r}: it is one of {', '.join(TARGETS)}")
    of_figures = (row for figure in FIGURES.values() for row in figure.rows.values())
    rows = unique(of_figures if target == "figures" else TABLES.get(target, ROWS.values()))
    if not only:
        return list(rows.values())
    selected: dict[str, Row] = {}
    for name in map(str.strip, only.split(",")):
        named = [rows[name]] if name in rows else [row for row in rows.values() if row.repeats == name]
        if not named:
            known = ", ".join(dict.fromkeys(row.repeats or row.name for row in rows.values()))
            raise InputError(f"--only names rows of {target}, which are {known} (found {name!r})")
        selected |= unique(named)
    return list(selected.values())


def train_and_score(
    config: RunConfig, split: Split, folder: Path, *, in_full: bool = True, device: str = "cpu",
    on_log: Callable[[LogRecord], None] = lambda record: None, progress: Progress = silent,
) -> RunResult | None:  # fmt: skip
    """Train a run to its end and score it for the tables and figures; returns its result only if a signal stopped it.

    If not `in_full`, only the last checkpoint is scored, under running statistics, with clean and damaged supports.
    """
    run = RunFolder(folder)
    begun = run.config.exists()
    if begun:
        run.open(config, resume=True)  # refuses the folder of another run
    if not run.ended:
        result = train(config, split.train, folder, resume=begun, device=device, on_log=on_log)
        if result.stopped_by:
            return result
    score = partial(_score, run, config.data.data, split.test, progress=progress)
    shots = usual_shots(split.test)
    score("last", "running", shots)
    if in_full:
        score("top", "running", shots)
        score("top", "batch", table_shots(split.test))
        _score_snapshots(run, split.test, progress)
    if run.read_metrics().damage is None:
        way, shot = usual_ways(split.test)[-1], min(5, shots[-1])
        study = damage_study(load_network(folder), split.test, way=way, shot=shot, progress=progress)
        run.write_metrics(damage=study)
    return None


def _score(
    run: RunFolder, data: str, images: LabelledImages, checkpoint: Literal["last", "top"], norm: Norm,
    shots: Sequence[int], progress: Progress,
) -> None:  # fmt: skip
    before = run.read_metrics().evaluation(data, norm, checkpoint)
    done = set()
    if before and (before.classes, before.rounds, before.seed) == (images.way, ROUNDS[norm], 0):
        done = {(score.way, score.shot) for score in before.scores}
    ways = [way for way in usual_ways(images) if not {(way, shot) for shot in shots} <= done]
    if not ways:
        return
    checkpoints = [load_checkpoint(path) for path in run.weights(checkpoint)]
    for together in [ways] if norm == "running" else [[way] for way in ways]:  # one by one where it takes long
        networks = [each.network() for each in checkpoints]
        result = evaluate(networks, images, together, shots, norm=norm, progress=progress)
        run.write_evaluation(data, checkpoint, checkpoints, result)


def _score_snapshots(run: RunFolder, images: LabelledImages, progress: Progress) -> None:
    """Scores along the training; they show how the network learned and choose nothing."""
    points = {point.episode: point for point in run.read_metrics().curve}
    for path in run.snapshots():
        checkpoint = load_checkpoint(path)
        episode = checkpoint.position.episode
        if episode not in points:
            ways = usual_ways(images)[-1:]
            result = evaluate(checkpoint.network(), images, ways, table_shots(images), progress=progress)
            points[episode] = CurvePoint(episode=episode, norm=result.norm, scores=result.scores)
            run.write_metrics(curve=tuple(points[key] for key in sorted(points)))


def table_shots(images: LabelledImages) -> list[int]:
    """The shots of the tables, for scores that take long: 1 and 5, or as many as the smallest class allows."""
    return sorted({min(shot, usual_shots(images)[-1]) for shot in (1, 5)})


def _named(progress: Progress, name: str, what: str, done: int, total: int | None) -> None:
    progress(f"{name}: {what}", done, total)
