"""The paper's numbers beside ours, from the `metrics.json` of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gaussproto.files import read_json, write_then_rename
from gaussproto.reproduce.paper import COMPARED, LITERATURE, TABLES, Row, Task

Metrics = Mapping[str, Any]
NOT_RUN = "-"
HOW = (
    "Accuracy in % on classes never seen in training. Ours: the mean over the five checkpoints with the highest "
    "training accuracy ± their standard deviation, as the paper has it; [± 95 % interval over characters]. "
    "Running: each image judged alone. Batch: the statistics of each group of images, as in the paper."
)


@dataclass(frozen=True)
class Table:
    """Words in rows, for a terminal or a page."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """As GitHub shows it."""
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def read_runs(folder: Path, family: str = "") -> dict[str, Metrics]:
    """The metrics of every run in a folder whose name begins with that of the family, by the rest of its name."""
    found = sorted(folder.glob(f"{family}*/metrics.json"))
    return {path.parent.name.removeprefix(family): read_json(path) for path in found}


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
        "comparison": lambda: [_comparison(runs)],
    }
    names = makers if what in ("all", "figures") else [what]
    return [table for name in names for table in makers[name]()]


def write_tables(shown: Sequence[Table], runs: Mapping[str, Metrics], path: Path) -> Path:
    """Write a page of tables; gives its path."""
    parts = [f"## {table.title}\n\n{table.markdown()}" for table in shown]
    text = "\n\n".join([*parts, HOW, f"Trained on {hardware(runs)}."]) + "\n"
    with write_then_rename(path) as temporary:
        temporary.write_text(text)
    return path


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
    """How long the training took."""
    return f"{metrics['training']['seconds'] / 60:.0f}" if metrics and "training" in metrics else NOT_RUN


def hardware(runs: Mapping[str, Metrics]) -> str:
    """The machines that the runs were trained on, in words."""
    found = {(m["machine"]["processor"], m["machine"]["threads"]) for m in runs.values() if "machine" in m}
    return "; ".join(f"{processor}, {threads} threads" for processor, threads in sorted(found))


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
    return Table(name, title, (*columns, "minutes"), tuple(lines))


def _both(metrics: Metrics | None, task: Task) -> list[str]:
    return [words(score(metrics, task), interval=True), words(score(metrics, task, "batch"))]


def _distances(runs: Mapping[str, Metrics]) -> Table:
    tasks = ((20, 1), (20, 5))
    lines = [
        (f"`{row.run}`", row.label, *(words(score(runs.get(row.run), task), interval=True) for task in tasks))
        for row in TABLES["distances"]
    ]
    return Table("distances", "Distances, small encoder, vanilla", ("run", "distance", *_columns(tasks)), tuple(lines))


def _ours(runs: Mapping[str, Metrics]) -> Table:
    tasks = ((20, 1), (20, 5))
    columns = (
        "run",
        "model",
        *_columns(tasks),
        "5-shot, 2 of 5 damaged",
        "3 of 5",
        "precision: clean, damaged",
        "higher on clean",
    )
    every = [*TABLES["verification"], *TABLES["results"], *TABLES["ours"]]
    rows = [row for row in every if row.run in runs]
    return Table("ours", "Bad supports", columns, tuple(_damage_line(row, runs.get(row.run), tasks) for row in rows))


def _damage_line(row: Row, metrics: Metrics | None, tasks: Sequence[Task]) -> tuple[str, ...]:
    clean = [words(score(metrics, task, checkpoint="last")) for task in tasks]
    study = (metrics or {}).get("damage")
    if study is None:
        return (f"`{row.run}`", row.label, *clean, *[NOT_RUN] * 4)
    accuracy = [f"{100 * study['accuracy'][bad]:.2f}" for bad in (2, 3)]
    if study["precision_clean"] is None:
        return (f"`{row.run}`", row.label, *clean, *accuracy, "none", "")
    precision = f"{study['precision_clean']:.2f} ± {study['spread']:.2f}, {study['precision_damaged']:.2f}"
    return (f"`{row.run}`", row.label, *clean, *accuracy, precision, f"{100 * study['clean_is_higher']:.1f} %")


def _comparison(runs: Mapping[str, Metrics]) -> Table:
    tasks = ((20, 1), (20, 5), (5, 1), (5, 5))
    lines: list[tuple[str, ...]] = [(name, *(cell or NOT_RUN for cell in cells)) for name, cells in LITERATURE.items()]
    lines += [(f"ours, `{run}`", *(words(score(runs.get(run), task)) for task in tasks)) for run in COMPARED]
    return Table("comparison", "The literature, as the paper quotes it", ("model", *_columns(tasks)), tuple(lines))


def _columns(tasks: Sequence[Task]) -> list[str]:
    return [f"{way}-way {shot}-shot" for way, shot in tasks]
