"""The paper's numbers beside ours, from the `metrics.json` of runs."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from gaussproto.config import read_config
from gaussproto.files import write_then_rename
from gaussproto.paper import rows
from gaussproto.paper.rows import LITERATURE_TASKS, TABLES, Budget, PaperScore, Row, Task
from gaussproto.runs.metrics import DamageStudy, Metrics, Score, read_metrics, score_text
from gaussproto.setting_types import Norm
from gaussproto.table import Table

Runs = Mapping[str, Metrics]  # by the name of the row

NOT_RUN = "-"
NORMS: tuple[Norm, ...] = ("running", "batch")
MINUTES = "minutes of training"
CLEAN: tuple[Task, ...] = ((20, 1), (20, 5))
DAMAGED = (2, 3, 4, 5)  # of five supports
CLEAN_AND_DAMAGED = (*(f"{way}-way {shot}-shot" for way, shot in CLEAN), *(f"{n} of 5 bad" for n in DAMAGED))
SCORES_NOTE = (
    "Accuracy in % on classes never seen in training. Ours: the mean over the five checkpoints with the highest "
    "training accuracy ± the 95 % interval over characters (std: standard deviation over the checkpoints). The paper "
    "reports the standard deviation alone. Running statistics classify each image by itself (inductive); batch "
    "statistics are those of each group of images, as in the paper (transductive)."
)
DAMAGE_NOTE = (
    "Accuracy in % of the last checkpoint, 20-way, running statistics, with some of the five supports of every class "
    "down-sampled to 7 x 7 pixels. Precision: mean over clean images (std: standard deviation), mean over damaged "
    "ones, and the share of pairs in which the clean image has the higher one."
)
SEEDS_NOTE = (
    f"Short runs by our recipe, {rows.SEED_EPISODES:,} episodes (quick: {rows.QUICK_SEED_EPISODES}). Accuracy in % of "
    "the last checkpoint, 20-way, running statistics, with clean supports and with some of five down-sampled to 7 x 7 "
    "pixels: the mean over the seeds that both networks of a pair have (std: standard deviation over seeds). "
    "Difference: Gaussian minus vanilla for each seed, in points, ± the 95 % interval of its mean over seeds "
    "(Student's t), all on the same test classes. With this many intervals, one may miss 0 by chance."
)


def read_runs(folder: Path) -> dict[str, Metrics]:
    return {path.parent.name: read_run(path.parent) for path in sorted(folder.glob("*/metrics.json"))}


def read_run(folder: Path) -> Metrics:
    """The metrics of a run, without its scores on data that it was not trained on."""
    metrics, data = read_metrics(folder / "metrics.json"), read_config(folder / "config.json").data.data
    return metrics.model_copy(update={"evaluations": tuple(e for e in metrics.evaluations if e.data == data)})


def make_tables(target: str, runs: Runs) -> list[Table]:
    """The tables of a target, or all of them, filled with what was measured of the runs."""
    tables = [
        _against_paper("verification", "Small encoder, 20-way", runs, 20),
        _against_paper("results", "Big encoder, 20-way", runs, 20),
        _against_paper("results", "Big encoder, 5-way", runs, 5),
        _distances(runs),
        _damaged_supports(runs),
        _seeds(runs),
        _comparison(runs),
    ]
    return [table for table in tables if table.name == target or target not in TABLES]


def write_tables(runs: Runs, budget: Budget, data: str, path: Path) -> Path:
    parts = [f"## {table.title}\n\n{table.markdown()}\n\n{table.note}" for table in make_tables("all", runs)]
    head = [f"# The paper's tables, budget {budget}, on {data}", *caveats(budget, data)]
    text = "\n\n".join([*head, *parts, f"Trained on {hardware(runs)}."]) + "\n"
    with write_then_rename(path) as temporary:
        temporary.write_text(text)
    return path


def caveats(budget: Budget, data: str) -> list[str]:
    notes = {
        "quick": "Trained for a minute or two and scored on some of the test classes: the numbers mean nothing.",
        "paper": "Rows that are ours alone, and the short runs of several seeds, are trained by our recipe.",
    }
    of_data = [] if data == "omniglot" else [f"The paper's numbers are of Omniglot, ours of {data}."]
    return [note for name, note in notes.items() if name == budget] + of_data


def find_score(metrics: Metrics, task: Task, norm: Norm = "running", checkpoint: str = "top") -> Score | None:
    evaluations = (each for each in metrics.evaluations if (each.norm, each.checkpoint) == (norm, checkpoint))
    return next(filter(None, (evaluation.find(*task) for evaluation in evaluations)), None)


def cell(score: Score | None) -> str:
    return score.text() if score else NOT_RUN


def paper_cell(score: PaperScore | None) -> str:
    return score_text(score[0], std=score[1]) if score else ""


def hardware(runs: Runs) -> str:
    return "; ".join(sorted({metrics.machine.processor for metrics in runs.values() if metrics.machine}))


def _metrics(runs: Runs, row: Row) -> Metrics:
    return runs.get(row.name, Metrics())


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
    for row in TABLES[name]:
        if (way, 1) in row.paper:
            run = _metrics(runs, row)
            one, five = ((paper_cell(row.paper[way, k]), *_both_norms(run, (way, k))) for k in (1, 5))
            lines.append((f"`{row.name}`", row.label, *one, *five, _minutes(run)))
    return Table(name, title, columns, tuple(lines), SCORES_NOTE)


def _both_norms(metrics: Metrics, task: Task) -> list[str]:
    return [cell(find_score(metrics, task, norm)) for norm in NORMS]


def _distances(runs: Runs) -> Table:
    columns = ("run", "distance", "1-shot, running", "batch", "5-shot, running", "batch", MINUTES)
    lines = []
    for row in TABLES["distances"]:
        run = _metrics(runs, row)
        scores = (*_both_norms(run, (20, 1)), *_both_norms(run, (20, 5)))
        lines.append((f"`{row.name}`", row.label, *scores, _minutes(run)))
    return Table("distances", "Distances, small encoder, vanilla, 20-way", columns, tuple(lines), SCORES_NOTE)


def _damaged_supports(runs: Runs) -> Table:
    columns = ("run", "model", *CLEAN_AND_DAMAGED, "precision: clean, damaged", "higher on clean")
    lines = []
    for row in (*TABLES["verification"], *TABLES["results"], *TABLES["ours"]):
        if row.name in runs:
            accuracies = [NOT_RUN if each is None else score_text(each) for each in _accuracies(runs[row.name])]
            lines.append((f"`{row.name}`", row.label, *accuracies, *_precisions(runs[row.name])))
    return Table("ours", "Bad supports", columns, tuple(lines), DAMAGE_NOTE)


def _accuracies(metrics: Metrics) -> list[float | None]:
    """Accuracy of the last checkpoint in %, with clean supports and with damaged ones; None if not measured."""
    scores, study = [find_score(metrics, task, checkpoint="last") for task in CLEAN], _study(metrics)
    clean = [score.accuracy if score else None for score in scores]
    damaged = [study.accuracy[n] if study else None for n in DAMAGED]
    return [None if share is None else 100 * share for share in (*clean, *damaged)]


def _study(metrics: Metrics) -> DamageStudy | None:
    """What damaged supports did, unless the data had too few classes or images for the table."""
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
    for pair in rows.PAIRS:
        by_seed = zip(*(rows.REPEATED[row.name] for row in pair), strict=True)
        each = [[_accuracies(_metrics(runs, row)) for row in both] for both in by_seed]
        accuracies = np.array(each, dtype=float)  # (seeds, 2, columns) in %; None becomes nan
        accuracies = accuracies[~np.isnan(accuracies).all(axis=2).any(axis=1)]  # seeds that both networks have
        seeds = str(len(accuracies))
        for i, row in enumerate(pair):
            lines.append((f"`{row.name}`", row.label, seeds, *map(mean_and_std, accuracies[:, i].T)))
        lines.append(("", "difference", seeds, *map(mean_and_interval, (accuracies[:, 1] - accuracies[:, 0]).T)))
    columns = ("run", "model", "seeds", *CLEAN_AND_DAMAGED)
    return Table("seeds", "Several seeds, small encoder", columns, tuple(lines), SEEDS_NOTE, labels=3)


def mean_and_std(values: np.ndarray) -> str:
    """The mean and standard deviation of the values that were measured.

    >>> mean_and_std(np.array([96.0, 97.0, 98.0, np.nan]))
    '97.00 (std 1.00)'
    """
    values = values[~np.isnan(values)]
    if not len(values):
        return NOT_RUN
    return score_text(values.mean(), std=values.std(ddof=1) if len(values) > 1 else None)


def mean_and_interval(differences: np.ndarray) -> str:
    """The mean of the differences that were measured with its 95 % interval by Student's t.

    >>> mean_and_interval(np.array([0.1, 0.2, 0.3]))
    '+0.20 ± 0.25'
    """
    differences = differences[~np.isnan(differences)]
    if len(differences) < 2:
        return NOT_RUN
    from scipy.stats import sem, t

    return score_text(differences.mean(), t.ppf(0.975, len(differences) - 1) * sem(differences), sign="+")


def _comparison(runs: Runs) -> Table:
    lines = [(name, *(quoted or NOT_RUN for quoted in quotes)) for name, quotes in rows.LITERATURE.items()]
    for row in TABLES["comparison"]:
        lines.append((f"the paper, {row.label}", *(paper_cell(row.paper[task]) for task in LITERATURE_TASKS)))
    for row in TABLES["comparison"]:
        for norm in NORMS:
            scores = (find_score(_metrics(runs, row), task, norm) for task in LITERATURE_TASKS)
            lines.append((f"ours, `{row.name}`, {norm}", *map(cell, scores)))
    columns = ("model", *(f"{way}-way {shot}-shot" for way, shot in LITERATURE_TASKS))
    title = "The literature, as the paper quotes it"
    return Table("comparison", title, columns, tuple(lines), SCORES_NOTE, labels=1)
