"""The paper's numbers beside ours, from the `metrics.json` of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gaussproto.files import read_json, write_then_rename
from gaussproto.reproduce.paper import (
    COMPARED,
    LABELS,
    LITERATURE,
    PAIRS,
    QUICK_SEED_EPISODES,
    SEED_EPISODES,
    SEEDS,
    TABLES,
    Budget,
    Task,
    seed_run,
)

Metrics = Mapping[str, Any]
NOT_RUN = "-"
NORMS = ("running", "batch")
MINUTES = "minutes of training"
CLEAN: tuple[Task, ...] = ((20, 1), (20, 5))
BAD = (2, 3, 4, 5)  # of five supports
CLEAN_AND_BAD = (*(f"{way}-way {shot}-shot" for way, shot in CLEAN), *(f"{bad} of 5 bad" for bad in BAD))
HOW = (
    "Accuracy in % on classes never seen in training. Ours: the mean over the five checkpoints with the highest "
    "training accuracy ± their standard deviation, as the paper has it; [± 95 % interval over characters]. "
    "Running: each image judged alone. Batch: the statistics of each group of images, as in the paper."
)
HOW_BAD = (
    "Accuracy in % of the last checkpoint, 20-way, running statistics (each image judged alone), some of the five "
    "supports of every class brought down to 7 x 7 pixels. Precision: mean ± spread of clean images, mean of damaged "
    "ones, and in how many of 100 pairs the clean one has the higher."
)
HOW_SEEDS = (
    f"Short runs by our recipe, {SEED_EPISODES:,} episodes (quick: {QUICK_SEED_EPISODES}): accuracy in % of the last "
    "checkpoint, 20-way, running statistics (each image judged alone), with good supports and with some of five "
    "brought down to 7 x 7 pixels; the mean ± standard deviation over the seeds that both networks of a pair have. "
    "Difference: Gaussian minus vanilla of each seed, in points, with the 95 % interval of its mean over seeds "
    "(Student's t), all on the same test classes. Of so many intervals one may miss 0 by chance."
)


@dataclass(frozen=True)
class Table:
    """Words in rows, for a terminal or a page."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""  # how to read it
    labels: int = 2  # columns before the numbers

    def markdown(self) -> str:
        """As GitHub shows it."""
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def read_runs(folder: Path, family: str = "") -> dict[str, Metrics]:
    """The metrics of every run in a folder whose name begins with that of the family, by the rest of its name."""
    found = sorted(folder.glob(f"{family}*/metrics.json"))
    return {path.parent.name.removeprefix(family): _read(path) for path in found}


def _read(path: Path) -> Metrics:
    """The metrics of a run; its scores on other data than its own are none of a table's."""
    metrics, data = read_json(path), read_json(path.with_name("config.json"))["data"]["data"]
    own = {key: found for key, found in metrics.get("evaluation", {}).items() if found["data"] == data}
    return {**metrics, "evaluation": own}


def tables(what: str, runs: Mapping[str, Metrics]) -> list[Table]:
    """The tables of a name, or all of them, filled with what the runs have."""
    makers = {
        "verification": lambda: [_against_paper("verification", "Small encoder, 20-way", runs, 20)],
        "results": lambda: [
            _against_paper("results", "Big encoder, 20-way", runs, 20),
            _against_paper("results", "Big encoder, 5-way", runs, 5),
        ],
        "distances": lambda: [_distances(runs)],
        "ours": lambda: [_ours(runs)],
        "seeds": lambda: [_seeds(runs)],
        "comparison": lambda: [_comparison(runs)],
    }
    names = makers if what in ("all", "figures") else [what]
    return [table for name in names for table in makers[name]()]


def write_tables(runs: Mapping[str, Metrics], budget: Budget, data: str, path: Path) -> Path:
    """Write a page of every table; gives its path."""
    parts = [f"## {table.title}\n\n{table.markdown()}\n\n{table.note}" for table in tables("all", runs)]
    head = [f"# The paper's tables, budget {budget}, on {data}", *caveats(budget, data)]
    text = "\n\n".join([*head, *parts, f"Trained on {hardware(runs)}."]) + "\n"
    with write_then_rename(path) as temporary:
        temporary.write_text(text)
    return path


def caveats(budget: Budget, data: str) -> list[str]:
    """What has to be known before the numbers are compared."""
    found = []
    if budget == "quick":
        found.append("Trained for a minute or two and scored on a part of the test classes: the numbers mean nothing.")
    if budget == "paper":
        found.append("Rows that are ours alone, and the short runs of several seeds, are trained by our recipe.")
    if data != "omniglot":
        found.append(f"The paper's numbers are of Omniglot, ours of {data}.")
    return found


def score(metrics: Metrics | None, task: Task, norm: str = "running", checkpoint: str = "top") -> dict[str, Any] | None:
    """One score of a run, if it was measured."""
    evaluations = (metrics or {}).get("evaluation", {}).values()
    for evaluation in evaluations:
        if (evaluation["norm"], evaluation["checkpoint"]) == (norm, checkpoint):
            for found in evaluation["scores"]:
                if (found["way"], found["shot"]) == task:
                    return dict(found)
    return None


def words(found: Mapping[str, Any] | None, interval: bool = False) -> str:
    """A score as text: mean ± standard deviation over checkpoints, and the interval if asked."""
    if found is None:
        return NOT_RUN
    text = f"{100 * found['accuracy']:.2f}"
    if found["std"] is not None:
        text += f" ± {100 * found['std']:.2f}"
    return text + (f" [± {100 * found['interval']:.2f}]" if interval else "")


def minutes(metrics: Metrics | None) -> str:
    """How long the training took, and on how much."""
    if not metrics or "training" not in metrics:
        return NOT_RUN
    threads = metrics["training"].get("threads") or [metrics["machine"]["threads"]]
    words = ", then ".join(map(str, threads)) + (" threads" if threads[-1] > 1 else " thread")
    return f"{metrics['training']['seconds'] / 60:.0f} on {words}"


def hardware(runs: Mapping[str, Metrics]) -> str:
    """The machines that the runs were trained on, in words."""
    return "; ".join(sorted({m["machine"]["processor"] for m in runs.values() if "machine" in m}))


def _against_paper(name: str, title: str, runs: Mapping[str, Metrics], way: int) -> Table:
    columns = ["run", "model"]
    for shot in (1, 5):
        columns += [f"{shot}-shot: paper", "ours, running", "ours, batch"]
    lines = []
    for row in TABLES[name]:
        if way != 20 and (way, 1) not in row.paper:
            continue
        line = [f"`{row.run}`", row.label]
        for shot in (1, 5):
            mean, std = row.paper[way, shot]
            line += [f"{mean:.2f} ± {std:.2f}", *_both(runs.get(row.run), (way, shot))]
        lines.append((*line, minutes(runs.get(row.run))))
    return Table(name, title, (*columns, MINUTES), tuple(lines), HOW)


def _both(metrics: Metrics | None, task: Task) -> list[str]:
    return [words(score(metrics, task, norm), interval=True) for norm in NORMS]


def _distances(runs: Mapping[str, Metrics]) -> Table:
    columns = ("run", "distance", "1-shot, running", "batch", "5-shot, running", "batch", MINUTES)
    lines = []
    for row in TABLES["distances"]:
        run = runs.get(row.run)
        lines.append((f"`{row.run}`", row.label, *_both(run, (20, 1)), *_both(run, (20, 5)), minutes(run)))
    return Table("distances", "Distances, small encoder, vanilla, 20-way", columns, tuple(lines), HOW)


def _ours(runs: Mapping[str, Metrics]) -> Table:
    columns = ("run", "model", *CLEAN_AND_BAD, "precision: clean, damaged", "higher on clean")
    every = [*TABLES["verification"], *TABLES["results"], *TABLES["ours"]]
    lines = []
    for row in every:
        if row.run in runs:
            cells = (NOT_RUN if one is None else f"{one:.2f}" for one in _clean_and_bad(runs[row.run]))
            lines.append((f"`{row.run}`", row.label, *cells, *_precisions(runs[row.run])))
    return Table("ours", "Bad supports", columns, tuple(lines), HOW_BAD)


def _clean_and_bad(metrics: Metrics) -> list[float | None]:
    """Accuracy of the last checkpoint in %, with good supports and with bad ones; None where it was not measured."""
    clean = [score(metrics, task, checkpoint="last") for task in CLEAN]
    study = _study(metrics)
    return [
        *(100 * one["accuracy"] if one else None for one in clean),
        *(100 * study["accuracy"][bad] if study else None for bad in BAD),
    ]


def _study(metrics: Metrics) -> Metrics | None:
    """What bad supports did, unless it is of a folder with fewer classes or images."""
    study: Metrics | None = metrics.get("damage")
    return study if study and (study["way"], study["shot"]) == (20, 5) else None


def _precisions(metrics: Metrics) -> tuple[str, str]:
    study = _study(metrics)
    if study is None:
        return NOT_RUN, NOT_RUN
    if study["precision_clean"] is None:
        return "none", ""
    precision = f"{study['precision_clean']:.2f} ± {study['spread']:.2f}, {study['precision_damaged']:.2f}"
    return precision, f"{100 * study['clean_is_higher']:.1f} %"


def _seeds(runs: Mapping[str, Metrics]) -> Table:
    lines = []
    for pair in PAIRS:
        both = _of_seeds(runs, pair)
        vanilla, gaussian = both[:, 0], both[:, 1]
        for run, found in zip(pair, (vanilla, gaussian), strict=True):
            lines.append((f"`{run}`", LABELS[run], str(len(both)), *map(mean_and_spread, found.T)))
        lines.append(("", "difference", str(len(both)), *map(mean_and_interval, (gaussian - vanilla).T)))
    columns = ("run", "model", "seeds", *CLEAN_AND_BAD)
    return Table("seeds", "Several seeds, small encoder", columns, tuple(lines), HOW_SEEDS, labels=3)


def _of_seeds(runs: Mapping[str, Metrics], pair: Sequence[str]) -> np.ndarray:
    """(seeds that both networks of a pair have, 2, columns): accuracy in %, nan where it was not measured."""
    each = [[_clean_and_bad(runs.get(seed_run(run, seed), {})) for run in pair] for seed in range(SEEDS)]
    found = np.array(each, dtype=float)  # None becomes nan
    return np.asarray(found[~np.isnan(found).all(axis=2).any(axis=1)])


def mean_and_spread(found: np.ndarray) -> str:
    """The mean ± standard deviation of what was measured.

    >>> mean_and_spread(np.array([96.0, 97.0, 98.0, np.nan]))
    '97.00 ± 1.00'
    """
    found = found[~np.isnan(found)]
    if len(found) < 2:
        return f"{found[0]:.2f}" if len(found) else NOT_RUN
    return f"{found.mean():.2f} ± {found.std(ddof=1):.2f}"


def mean_and_interval(found: np.ndarray) -> str:
    """The mean of what was measured with the 95 % interval that Student's t gives it.

    >>> mean_and_interval(np.array([0.1, 0.2, 0.3]))
    '+0.20 [± 0.25]'
    """
    found = found[~np.isnan(found)]
    if len(found) < 2:
        return NOT_RUN
    from scipy.stats import t

    half = t.ppf(0.975, len(found) - 1) * found.std(ddof=1) / np.sqrt(len(found))
    return f"{found.mean():+.2f} [± {half:.2f}]"


def _comparison(runs: Mapping[str, Metrics]) -> Table:
    tasks = ((20, 1), (20, 5), (5, 1), (5, 5))
    lines: list[tuple[str, ...]] = [(name, *(cell or NOT_RUN for cell in cells)) for name, cells in LITERATURE.items()]
    rows = {row.run: row for row in TABLES["results"]}
    for run, label in COMPARED.items():
        cells = (rows[run].paper[task] for task in tasks)
        lines.append((f"the paper, {label}", *(f"{mean:.2f} ± {std:.2f}" for mean, std in cells)))
    lines += [
        (f"ours, `{run}`, {norm}", *(words(score(runs.get(run), task, norm)) for task in tasks))
        for run in COMPARED
        for norm in NORMS
    ]
    columns = ("model", *(f"{way}-way {shot}-shot" for way, shot in tasks))
    return Table("comparison", "The literature, as the paper quotes it", columns, tuple(lines), HOW, labels=1)
