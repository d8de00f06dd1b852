"""Write a self-contained HTML page about one or several runs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

from gaussproto.config import SECTIONS
from gaussproto.errors import InputError
from gaussproto.figures.curves import accuracy_over_shots, loss_over_episodes
from gaussproto.files import write_then_rename
from gaussproto.model.device import check_device
from gaussproto.progress import Progress, silent
from gaussproto.report.parts import drawing, rendered
from gaussproto.report.sections import cell, run_section
from gaussproto.report.source import RunSource, open_runs
from gaussproto.runs.metrics import RunEvaluation
from gaussproto.setting_types import setting_text
from gaussproto.table import Table

MOST_LINES = 6  # in a readable chart


def write_report(
    paths: Sequence[str | Path] | Path,
    out: str | Path,
    *,
    evaluate: bool = True,
    data_root: Path | None = None,
    device: str = "cpu",
    progress: Progress = silent,
) -> None:
    """Write an HTML page about runs: scores, training, precision, confusions, a map of the embeddings and settings.

    The page is one file that needs nothing else. For several runs, it begins with a comparison.

    Args:
        paths: one run folder, or several. Each must have a checkpoint.
        out: the HTML file to write.
        evaluate: score finished runs that have no scores yet, and add the scores to their `metrics.json`.
        data_root: the folder with Omniglot's files, as for `load_data`.
        device: where the networks compute: cpu, cuda or mps.
        progress: called as images are read and embedded.

    Examples:
        >>> import gaussproto as gp
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> config = gp.preset("demo", filters=(4, 4, 4), embedding_dim=4, way=5, episodes=20)
        >>> with TemporaryDirectory() as folder:
        ...     run = gp.train(config, gp.load_data(config.data).train, f"{folder}/tiny")
        ...     gp.write_report(run.folder, f"{folder}/report.html", evaluate=False)
        ...     "<h3>Precision</h3>" in Path(folder, "report.html").read_text()
        True
    """
    out = Path(out)
    if out.is_dir():
        raise InputError(f"{out} is a folder: choose an HTML file with --out")
    folders = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    if not folders:
        raise InputError("a report needs at least one run folder: pass its path")
    check_device(device)
    runs = open_runs(dict.fromkeys(folders), data_root, progress, device)
    for run in runs:
        run.check()  # of every run before the first is measured
    for run in runs:
        if evaluate and run.finished and not run.evaluations:
            try:
                run.evaluate()
            except InputError as error:  # the rest of the page is still worth having
                run.evaluation_error = str(error)
    content = report_page(runs)
    with write_then_rename(out) as temporary:
        temporary.write_text(content, encoding="utf-8")


def report_page(runs: Sequence[RunSource]) -> str:
    return rendered(
        "page.html",
        title=runs[0].name if len(runs) == 1 else f"{len(runs)} runs",
        comparison=_comparison(runs) if len(runs) > 1 else None,
        runs=[run_section(run, f"run{i}") for i, run in enumerate(runs)],
    )


def _comparison(runs: Sequence[RunSource]) -> dict[str, object]:
    charts = []
    shown = runs[:MOST_LINES]
    curves = {run.name: run.curve for run in shown if len(run.curve.episodes) > 1}
    if len(curves) > 1:
        note = f"Training loss, {shown[0].config.episode.way}-way episodes."
        if len({run.config.episode.way for run in shown}) > 1:
            ways = ", ".join(f"{run.name} {run.config.episode.way}-way" for run in shown)
            note = f"Training loss. The runs differ in the number of classes of an episode ({ways})."
        charts.append(drawing(loss_over_episodes(curves), "Line chart: training loss of each run", note, "all-loss"))
    for description, way, evaluations in _comparable(shown):
        note = f"{way}-way, {description}. Bands are 95 % intervals. Below: the difference from the first run."
        figure = accuracy_over_shots({name: each.scores for name, each in evaluations.items()}, way)
        alt = f"Line chart: {way}-way accuracy of each run by number of supports"
        charts.append(drawing(figure, alt, note, f"all-shots-{len(charts)}"))
    return {
        "scores": _score_table(runs),
        "differences": _difference_table(runs),
        "charts": charts,
        "left_out": f"The charts show the first {MOST_LINES} runs." if len(runs) > MOST_LINES else "",
    }


def _comparable(runs: Sequence[RunSource]) -> Iterator[tuple[str, int, dict[str, RunEvaluation]]]:
    """Yield each kind of evaluation that several runs have: its description, the largest common way, and the scores."""
    groups: dict[str, dict[str, RunEvaluation]] = {}
    for run in runs:
        for evaluation in run.evaluations:
            groups.setdefault(evaluation.description, {})[run.name] = evaluation
    for description, group in groups.items():
        shots = {name: Counter(score.way for score in evaluation.scores) for name, evaluation in group.items()}
        runs_of_way = Counter(way for counts in shots.values() for way, n in counts.items() if n > 2)
        way = max((way for way, n in runs_of_way.items() if n > 1), default=None)
        if way:
            yield description, way, {name: group[name] for name in group if shots[name][way] > 2}


def _score_table(runs: Sequence[RunSource]) -> Table:
    every = [evaluation for run in runs for evaluation in run.evaluations]
    ways = sorted({way for evaluation in every for way in evaluation.ways})
    columns = [task for task in product(ways, (1, 5)) if any(evaluation.find(*task) for evaluation in every)]
    rows: list[tuple[str, ...]] = []
    for run in runs:
        for evaluation in run.evaluations:
            kind = f"{evaluation.data}, {evaluation.norm}, {evaluation.checkpoint}"
            kind += ", within an alphabet" * evaluation.within_alphabet
            kind += f", {evaluation.views} views" * (evaluation.views > 1)
            rows.append((run.name, kind, *(cell(evaluation.find(*column), std=False) for column in columns)))
        if not run.evaluations:
            rows.append((run.name, "not evaluated yet", *("" for _ in columns)))
    head = ("run", "data, statistics, checkpoint", *(f"{way}-way {shot}-shot" for way, shot in columns))
    title = "Accuracy in % ± 95 % interval. Compare only rows with the same data, statistics and checkpoint"
    return Table("scores", title, head, tuple(rows), labels=1)


def _difference_table(runs: Sequence[RunSource]) -> Table:
    trees = [run.config.model_dump(mode="json") for run in runs]
    rows = []
    for section in SECTIONS:
        for name in trees[0][section]:
            values = [tree[section].get(name) for tree in trees]
            if any(value != values[0] for value in values):
                rows.append((name, *(setting_text(name, value) for value in values)))
    rows.append(("parameters", *(f"{run.parameters:,}" for run in runs)))
    rows.append(("training, s", *(f"{run.checkpoint.position.seconds:,.0f}" for run in runs)))
    title = "Settings that differ, size and training time"
    return Table("differences", title, ("", *(run.name for run in runs)), tuple(rows), labels=1)
