"""Tables of the paper's numbers beside ours, from the `metrics.json` of runs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gaussproto.config import read_config
from gaussproto.files import write_then_rename
from gaussproto.formulas.interval import student_interval
from gaussproto.paper import rows
from gaussproto.paper.cells import NOT_RUN, Runs, cell, find_score, measured_rows, missing_rows, paper_cell
from gaussproto.paper.comparisons import dimensions_table, parameters_table, vinyals_table
from gaussproto.paper.row import QUICK_SEED_EPISODES, SEED_EPISODES, Budget, Task
from gaussproto.paper.rows import LITERATURE_TASKS, TABLES
from gaussproto.runs.metrics import DamageStudy, Metrics, read_metrics, score_text
from gaussproto.setting_types import Norm
from gaussproto.table import Table

NORMS: tuple[Norm, ...] = ("running", "batch")
MINUTES = "minutes of training"
CLEAN: tuple[Task, ...] = ((20, 1), (20, 5))
DAMAGED = (2, 3, 4, 5)  # of five supports
CLEAN_AND_DAMAGED = (*(f"{way}-way {shot}-shot" for way, shot in CLEAN), *(f"{n} of 5 bad" for n in DAMAGED))
SCORES_NOTE = (
    "Accuracy in % on classes never seen in training. Ours: mean over the five checkpoints with the highest training "
    "accuracy ± 95 % interval over characters (std: standard deviation over the checkpoints). The paper reports only "
    "the standard deviation. Running statistics classify each image independently (inductive). Batch statistics are "
    "those of each group of images (transductive), as in the paper."
)
DAMAGE_NOTE = (
    "Accuracy in % of the last checkpoint, 20-way, running statistics. In the columns 'bad', some of the five supports "
    "of every class are down-sampled to 7 x 7 pixels. Precision: mean over clean images (std: standard deviation), "
    "mean over damaged images, and the share of pairs in which the clean image has the higher precision."
)
COMPARISON_NOTE = (
    "Compare with care: the splits differ. The literature trains on about 1,200 characters and tests on the other 423. "
    "The paper and we train on the 964 characters of 30 alphabets and test on the 659 of the other 20. "
)
SEEDS_NOTE = (
    f"Short runs with our recipe, {SEED_EPISODES:,} episodes (quick: {QUICK_SEED_EPISODES}). Accuracy in % "
    "of the last checkpoint, 20-way, running statistics. In the columns 'bad', some of the five supports of every "
    "class are down-sampled to 7 x 7 pixels. Each accuracy is the mean over the seeds that both networks of a pair "
    "have (std: standard deviation over seeds). Difference: Gaussian minus vanilla on the same test classes, in "
    "points, mean over seeds ± 95 % interval (Student's t). With this many intervals, one may exclude 0 by chance."
)


def read_runs(folder: Path) -> dict[str, Metrics]:
    return {path.parent.name: read_run(path.parent) for path in sorted(folder.glob("*/metrics.json"))}


def read_run(folder: Path) -> Metrics:
    """Return the metrics of a run, without scores on other data than its own."""
    metrics, data = read_metrics(folder / "metrics.json"), read_config(folder / "config.json").data.data
    return metrics.model_copy(update={"evaluations": tuple(e for e in metrics.evaluations if e.data == data)})


def make_tables(target: str, runs: Runs, more: Sequence[Table] = ()) -> list[Table]:
    """Return the tables of a target, or all of them, with what was measured of the runs and `more`, those of studies.

    Empty tables are left out.
    """
    tables = _all_tables(runs, more)
    return [table for table in tables if table.rows and (table.name == target or target not in TABLES)]


def empty_tables(target: str, runs: Runs, more: Sequence[Table] = ()) -> list[str]:
    """Return what is missing for the tables of a target that would be empty."""
    return [table.missing_text for table in _all_tables(runs, more) if table.name == target and not table.rows]


def _all_tables(runs: Runs, more: Sequence[Table]) -> list[Table]:
    return [
        _against_paper("verification", "Small encoder, 20-way", runs, 20),
        _against_paper("results", "Big encoder, 20-way", runs, 20),
        _against_paper("results", "Big encoder, 5-way", runs, 5),
        _distances(runs),
        _damaged_supports(runs),
        _seeds(runs),
        *more,
        dimensions_table(runs),
        parameters_table(runs),
        vinyals_table(runs),
        _comparison(runs),
    ]


def write_tables(runs: Runs, budget: Budget, data: str, path: Path, more: Sequence[Table] = ()) -> Path:
    tables = make_tables("all", runs, more)
    texts = ((f"## {table.title}", table.markdown(), table.missing_text, table.note) for table in tables)
    parts = ["\n\n".join(filter(None, text)) for text in texts]
    head = [f"# The paper's tables, budget {budget}, on {data}", *caveats(budget, data)]
    text = "\n\n".join([*head, *parts, f"Trained on {hardware(runs)}."]) + "\n"
    with write_then_rename(path) as temporary:
        temporary.write_text(text)
    return path


OWN_DATA = {row.config("standard").data.data for rows in TABLES.values() for row in rows}  # of some target


def caveats(budget: Budget, data: str) -> list[str]:
    notes = {
        "quick": "Each run trained for a minute or two and was scored on some of the test classes, so the numbers mean "
        "nothing.",
        "paper": "Rows that are not in the paper, and the short runs with several seeds, use our recipe.",
    }
    of_data = [] if data in OWN_DATA else [f"The paper's numbers are for Omniglot, ours for {data}."]
    return [note for name, note in notes.items() if name == budget] + of_data


def hardware(runs: Runs) -> str:
    return "; ".join(sorted({metrics.machine.processor for metrics in runs.values() if metrics.machine}))


def _minutes(metrics: Metrics) -> str:
    if metrics.training is None or metrics.machine is None:
        return NOT_RUN
    threads = metrics.training.threads or (metrics.machine.threads,)
    unit = "threads" if threads[-1] > 1 else "thread"
    return f"{metrics.training.seconds / 60:.0f} on {', then '.join(map(str, threads))} {unit}"


def _against_paper(name: str, title: str, runs: Runs, way: int) -> Table:
    ours = ("ours, running", "ours, batch")
    columns = ("run", "model", "1-shot: paper", *ours, "5-shot: paper", *ours, MINUTES)
    lines = []
    of_paper = [row for row in TABLES[name] if (way, 1) in row.paper]
    for row, run in measured_rows(runs, of_paper):
        one, five = ((paper_cell(row.paper[way, k]), *_both_norms(run, (way, k))) for k in (1, 5))
        lines.append((f"`{row.name}`", row.label, *one, *five, _minutes(run)))
    return Table(name, title, columns, tuple(lines), SCORES_NOTE, missing=missing_rows(runs, of_paper))


def _both_norms(metrics: Metrics, task: Task) -> list[str]:
    return [cell(find_score(metrics, task, norm)) for norm in NORMS]


def _distances(runs: Runs) -> Table:
    columns = ("run", "distance", "1-shot, running", "batch", "5-shot, running", "batch", MINUTES)
    lines = []
    for row, run in measured_rows(runs, TABLES["distances"]):
        scores = (*_both_norms(run, (20, 1)), *_both_norms(run, (20, 5)))
        lines.append((f"`{row.name}`", row.label, *scores, _minutes(run)))
    title, missing = "Distances, small encoder, vanilla, 20-way", missing_rows(runs, TABLES["distances"])
    return Table("distances", title, columns, tuple(lines), SCORES_NOTE, missing=missing)


def _damaged_supports(runs: Runs) -> Table:
    columns = ("run", "model", *CLEAN_AND_DAMAGED, "precision: clean, damaged", "higher on clean")
    lines = []
    shown = (*TABLES["verification"], *TABLES["results"], *TABLES["ours"])
    for row, run in measured_rows(runs, shown):
        accuracies = [NOT_RUN if each is None else score_text(each) for each in _accuracies(run)]
        lines.append((f"`{row.name}`", row.label, *accuracies, *_precisions(run)))
    return Table("ours", "Bad supports", columns, tuple(lines), DAMAGE_NOTE, missing=missing_rows(runs, TABLES["ours"]))


def _accuracies(metrics: Metrics) -> list[float | None]:
    """Return the accuracy of the last checkpoint in %, with clean and with damaged supports. None if not measured."""
    scores, study = [find_score(metrics, task, checkpoint="last") for task in CLEAN], _study(metrics)
    clean = [score.accuracy if score else None for score in scores]
    damaged = [study.accuracy[n] if study else None for n in DAMAGED]
    return [None if share is None else 100 * share for share in (*clean, *damaged)]


def _study(metrics: Metrics) -> DamageStudy | None:
    """Return the damage study, or None if the data had too few classes or images for the table."""
    study = metrics.damage
    return study if study and (study.way, study.shot) == (20, 5) else None


def _precisions(metrics: Metrics) -> tuple[str, str]:
    study = _study(metrics)
    if study is None:
        return NOT_RUN, NOT_RUN
    if study.precision_clean is None or study.precision_damaged is None or study.clean_is_higher is None:
        return "none", ""
    clean = score_text(study.precision_clean, std=study.precision_std)
    return f"{clean}, {study.precision_damaged:.2f}", f"{100 * study.clean_is_higher:.1f} %"


def _seeds(runs: Runs) -> Table:
    lines = []
    missing: list[str] = []
    for pair in rows.PAIRS:
        by_seed = zip(*(rows.REPEATED[row.name] for row in pair), strict=True)
        each = [[_accuracies(runs.get(row.name, Metrics())) for row in both] for both in by_seed]
        accuracies = np.array(each, dtype=float)  # (seeds, 2, columns) in %; None becomes nan
        accuracies = accuracies[~np.isnan(accuracies).all(axis=2).any(axis=1)]  # seeds that both networks have
        if not len(accuracies):
            missing += [f"`{row.name}`" for row in pair if not measured_rows(runs, rows.REPEATED[row.name])]
            continue
        seeds = str(len(accuracies))
        for i, row in enumerate(pair):
            lines.append((f"`{row.name}`", row.label, seeds, *map(mean_and_std, accuracies[:, i].T)))
        lines.append(("", "difference", seeds, *map(mean_and_interval, (accuracies[:, 1] - accuracies[:, 0]).T)))
    columns = ("run", "model", "seeds", *CLEAN_AND_DAMAGED)
    title = "Several seeds, small encoder"
    return Table("seeds", title, columns, tuple(lines), SEEDS_NOTE, labels=3, missing=tuple(missing))


def mean_and_std(values: np.ndarray) -> str:
    """Return the mean and standard deviation of the values. NaN means not measured.

    >>> mean_and_std(np.array([96.0, 97.0, 98.0, np.nan]))
    '97.00 (std 1.00)'
    """
    values = values[~np.isnan(values)]
    if not len(values):
        return NOT_RUN
    return score_text(values.mean(), std=values.std(ddof=1) if len(values) > 1 else None)


def mean_and_interval(differences: np.ndarray) -> str:
    """Return the mean of the differences with its 95 % interval (Student's t). NaN means not measured.

    >>> mean_and_interval(np.array([0.1, 0.2, 0.3]))
    '+0.20 ± 0.25'
    """
    differences = differences[~np.isnan(differences)]
    if len(differences) < 2:
        return NOT_RUN
    return score_text(differences.mean(), student_interval(differences), sign="+")


def _comparison(runs: Runs) -> Table:
    measured = measured_rows(runs, TABLES["comparison"])
    lines: list[tuple[str, ...]] = [(name, rows.LITERATURE_SPLIT, *quotes) for name, quotes in rows.LITERATURE.items()]
    for row in TABLES["comparison"]:
        quotes = (paper_cell(row.paper[task]) for task in LITERATURE_TASKS)
        lines.append((f"the paper, {row.label}", rows.PAPER_SPLIT, *quotes))
    for row, run in measured:
        for norm in NORMS:
            scores = (find_score(run, task, norm) for task in LITERATURE_TASKS)
            lines.append((f"ours, `{row.name}`, {norm}", rows.PAPER_SPLIT, *map(cell, scores)))
    columns = ("model", "characters: train / test", *(f"{way}-way {shot}-shot" for way, shot in LITERATURE_TASKS))
    title, missing = "The literature, as the paper quotes it", missing_rows(runs, TABLES["comparison"])
    note = COMPARISON_NOTE + SCORES_NOTE
    return Table("comparison", title, columns, tuple(lines) if measured else (), note, missing=missing)
