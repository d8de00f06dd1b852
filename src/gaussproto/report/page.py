"""One self-contained HTML page about one or several runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import gaussproto
from gaussproto.config import SECTIONS
from gaussproto.data.images import Progress, silent
from gaussproto.errors import InputError
from gaussproto.files import write_then_rename
from gaussproto.report.curves import accuracy_over_shots, loss_over_episodes
from gaussproto.report.html import Html, drawing, page, table, tag
from gaussproto.report.sections import run_section, score_words
from gaussproto.report.source import RunSource, Scored, open_runs
from gaussproto.setting_words import setting_words

MOST_LINES = 6  # a chart with more cannot be read


def write_report(
    paths: Sequence[Path],
    out: Path,
    *,
    evaluate: bool = True,
    data_root: Path | None = None,
    progress: Progress = silent,
) -> None:
    """Write a page about the runs in these folders.

    Args:
        paths: the run folders, each with a checkpoint.
        out: the HTML file.
        evaluate: score finished runs that were not evaluated yet, and add the scores to their `metrics.json`.
        data_root: where Omniglot's files are.
        progress: called as images are read and embedded.
    """
    if out.is_dir():
        raise InputError(f"{out} is a folder: name the HTML file to write with --out")
    if not paths:
        raise InputError("name at least one run folder")
    runs = open_runs(dict.fromkeys(paths), data_root, progress)
    for run in runs:
        run.run.weights("last")  # a mistake in the last run is told before the first is measured
    for run in runs:
        if evaluate and run.finished and not run.scored:
            try:
                run.evaluate()
            except InputError as error:  # the rest of the page is still worth having
                run.not_scored = str(error)
    content = report_page(runs)
    with write_then_rename(out) as temporary:
        temporary.write_text(content, encoding="utf-8")


def report_page(runs: Sequence[RunSource]) -> Html:
    """The page about opened runs."""
    title = runs[0].name if len(runs) == 1 else f"{len(runs)} runs"
    links = [tag("li", tag("a", run.name, href=f"#run{i}")) for i, run in enumerate(runs)]
    several = len(runs) > 1
    parts = [
        tag("h1", f"gaussproto: {title}"),
        tag(
            "p",
            f"Few-shot classification of classes never seen in training. gaussproto {gaussproto.__version__}.",
            class_="soft",
        ),
        *([tag("nav", tag("ul", *links), aria_label="Runs"), _comparison(runs)] if several else []),
        *(run_section(run, f"run{i}") for i, run in enumerate(runs)),
    ]
    return page(f"gaussproto: {title}", tag("main", *parts))


def _comparison(runs: Sequence[RunSource]) -> Html:
    parts = [tag("h2", "Comparison"), _score_table(runs), _difference_table(runs)]
    charts = []
    shown = runs[:MOST_LINES]
    curves = {run.name: run.curve for run in shown if len(run.curve.episodes) > 1}
    if len(curves) > 1:
        ways = ", ".join(f"{run.name} {run.config.episode.way}-way" for run in shown)
        note = f"Training loss; episodes differ in how many classes they tell apart ({ways})."
        if len({run.config.episode.way for run in shown}) == 1:
            note = f"Training loss, {shown[0].config.episode.way}-way episodes."
        charts.append(drawing(loss_over_episodes(curves), "Line chart: training loss of each run", note, "all-loss"))
    for measured, way, group in _comparable(shown):
        note = f"{way}-way on {measured}; bands are 95 % intervals, differences below."
        figure = accuracy_over_shots({name: scored.scores for name, scored in group.items()}, way)
        alt = f"Line chart: {way}-way accuracy of each run over the number of supports"
        charts.append(drawing(figure, alt, note, f"all-shots-{len(charts)}"))
    if len(runs) > MOST_LINES:
        parts.append(tag("p", f"The charts show the first {MOST_LINES} runs.", class_="soft"))
    return tag("section", *parts, tag("div", *charts, class_="grid"))


def _comparable(runs: Sequence[RunSource]) -> list[tuple[str, int, dict[str, Scored]]]:
    """Runs scored in the same manner, in its words, for the largest way that several have."""
    groups: dict[str, dict[str, Scored]] = {}
    for run in runs:
        for scored in run.scored:
            groups.setdefault(scored.words, {})[run.name] = scored
    found = []
    for key, group in groups.items():
        counts = {
            name: {way: sum(s.way == way for s in e.scores) for way in {s.way for s in e.scores}}
            for name, e in group.items()
        }
        ways = {way for count in counts.values() for way in count}
        able = [way for way in ways if sum(count.get(way, 0) > 2 for count in counts.values()) > 1]
        if able:
            way = max(able)
            found.append((key, way, {name: e for name, e in group.items() if counts[name].get(way, 0) > 2}))
    return found


def _score_table(runs: Sequence[RunSource]) -> Html:
    columns = [
        (way, shot)
        for way in sorted({s.way for run in runs for e in run.scored for s in e.scores})
        for shot in (1, 5)
        if any(e.score(way, shot) for run in runs for e in run.scored)
    ]
    rows = []
    for run in runs:
        for scored in run.scored:
            words = f"{scored.data}, {scored.norm}, {scored.checkpoint}"
            rows.append([run.name, words, *(score_words(scored.score(*column), spread=False) for column in columns)])
        if not run.scored:
            rows.append([run.name, "not evaluated yet", *("" for _ in columns)])
    head = ["run", "data, statistics, checkpoint", *(f"{way}-way {shot}-shot" for way, shot in columns)]
    caption = "Accuracy in % ± the 95 % interval; compare only rows of the same data, statistics and checkpoint"
    return table(caption, head, rows)


def _difference_table(runs: Sequence[RunSource]) -> Html:
    trees = [run.config.model_dump(mode="json") for run in runs]
    rows = []
    for section in SECTIONS:
        for name in trees[0][section]:
            values = [tree[section].get(name) for tree in trees]
            if any(value != values[0] for value in values):
                rows.append([name, *(setting_words(name, value) for value in values)])
    rows.append(["parameters", *(f"{sum(p.numel() for p in run.network.parameters()):,}" for run in runs)])
    rows.append(["training, s", *(f"{run.checkpoint.position.seconds:,.0f}" for run in runs)])
    return table("Settings in which they differ, size and time", ["", *(run.name for run in runs)], rows)
