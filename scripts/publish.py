"""Copy what is published of runs to `results/`, and fill the tables of the pages from there.

python scripts/publish.py [RUN...]
"""

import argparse
import re
import shutil
from pathlib import Path

from gaussproto.config import RunConfig, read_config
from gaussproto.files import write_then_rename
from gaussproto.presets import PRESETS
from gaussproto.report.figures import write_figure
from gaussproto.reproduce.paper import FIGURE_RUNS, TABLES
from gaussproto.reproduce.tables import Metrics, Table, hardware, read_runs, score, tables, words
from gaussproto.training.run_folder import RunFolder

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
SEEDS_FOLDER = "seeds"  # the short runs of several seeds: many alike, so without figures
PAGES = (ROOT / "README.md", ROOT / "docs" / "reproduction.md", RESULTS / "README.md")
FILES = ("config.json", "metrics.json", "log.jsonl")
NO_PRESET = ("paper-small-radius",)  # shorter, as the page says
SHORT = {row.run: row.config("standard") for row in TABLES["seeds"]}
LOSS, LEARNED, PRECISIONS = 6, 7, 9  # of the paper's figures those of one run that show none of Omniglot's drawings
OF_SEVERAL = (4, 5, 8)  # from what is published of several runs
TASKS = ((20, 1), (20, 5), (5, 1), (5, 5))
HIGHLIGHTS = {
    "standard-small-none": "a vanilla prototypical network",
    "standard-small-radius": "the paper's Gaussian network",
    "standard-small-weighted": "where the precision only weighs examples: the bundled `omniglot-small`",
    "standard-big-none": "a big vanilla network",
    "standard-big-radius-learned": "the paper's big Gaussian network",
    "omniglot-big": "big, the precision only weighs examples, trained longer: bundled by that name",
}
BUNDLED = {"standard-small-weighted": "the bundled `omniglot-small`", "omniglot-big": ""}
OF_PAPER = {
    "small-none": "small vanilla network",
    "small-radius": "small Gaussian network",
    "big-none": "big vanilla network",
    "big-radius-learned": "big Gaussian network",
}


def filled(page: str, results: Path = RESULTS) -> str:
    """The page with each `<!-- NAME -->` ... `<!-- end -->` filled anew."""
    runs = read_runs(results)
    fast = [name for name in runs if name.startswith("fast-")]
    seeds = read_runs(results / SEEDS_FOLDER)
    blocks = {
        "hardware": f"Trained on {hardware({**runs, **seeds})}.",
        "highlights": _last(runs, HIGHLIGHTS, TASKS, _of_paper(TASKS)),
        "bundled": _last(runs, BUNDLED, TASKS),
        "fast last": _last(runs, dict.fromkeys(fast, ""), TASKS),
        "fast top": _table(
            [(f"`{name}`", *(words(score(runs[name], task)) for task in TASKS[:2])) for name in fast]
            + _of_paper(TASKS[:2], ("small-none", "small-radius")),
            TASKS[:2],
        ),
    }
    for family, more in {"standard": seeds, "paper": {}}.items():
        for table in tables("all", read_runs(results, f"{family}-") | more):
            name = f"{family} {table.name}"
            blocks[name] = blocks.get(name, "") + f"**{table.title}**\n\n{table.markdown()}\n\n"

    def fill(match: re.Match[str]) -> str:
        return f"<!-- {match[1]} -->\n{blocks[match[1]].strip()}\n<!-- end -->"

    return re.sub(r"<!-- ([\w ]+) -->\n.*?<!-- end -->", fill, page, flags=re.DOTALL)


def _last(runs: dict[str, Metrics], labels: dict[str, str], tasks, more=()) -> str:
    """Scores of the last checkpoint with their intervals."""
    rows = []
    for name, label in labels.items():
        found = [score(runs[name], task, checkpoint="last") for task in tasks]
        cells = [f"{100 * one['accuracy']:.2f} ± {100 * one['interval']:.2f}" for one in found]
        rows.append((f"`{name}`" + (f", {label}" if label else ""), *cells))
    return _table([*rows, *more], tasks)


def _of_paper(tasks, names=tuple(OF_PAPER)) -> list[tuple[str, ...]]:
    rows = {row.run: row for row in (*TABLES["verification"], *TABLES["results"])}
    cells = {name: [rows[name].paper.get(task) for task in tasks] for name in names}
    return [
        (
            f"the paper, {OF_PAPER[name]}",
            *(f"{one[0]:.2f} ± {one[1]:.2f}" if one else "" for one in found),
        )
        for name, found in cells.items()
    ]


def _table(rows, tasks) -> str:
    columns = ("run", *(f"{way}-way {shot}-shot" for way, shot in tasks))
    return Table("", "", columns, tuple(rows)).markdown()


def check(run: RunFolder) -> None:
    """Stop unless a run is what its name says, trained to its end and scored."""
    if not run.ended:
        raise SystemExit(f"{run.path} holds no run that went to its end: go on with it")
    config = read_config(run.config)
    if config.name not in NO_PRESET and config != (PRESETS | SHORT).get(config.name):
        raise SystemExit(
            f"{run.path} is not the run that is known as {config.name!r}: add its name to NO_PRESET, and say why"
        )
    if not run.read_metrics().get("evaluation"):
        raise SystemExit(f"{run.path} has no scores: evaluate it first")
    if config.name in SHORT and "damage" not in run.read_metrics():
        raise SystemExit(f"{run.path} was not scored with bad supports: go on with it")


def draw(number: int, runs: dict[str, Path], folder: Path) -> None:
    """One figure as SVG; the same as a bitmap would only be larger."""
    for path in write_figure(number, {label: RunFolder(run) for label, run in runs.items()}, folder):
        if path.suffix != ".svg":
            path.unlink()


def draw_all(run: Path, config: RunConfig, folder: Path) -> None:
    draw(LOSS, {"network": run}, folder)
    if RunFolder(run).read_metrics().get("curve"):
        draw(LEARNED, {"network": run}, folder)
    if config.network.covariance != "none":
        draw(PRECISIONS, {"network": run}, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="*")
    paths = parser.parse_args().runs
    for path in paths:
        check(RunFolder(path))
    for path in paths:
        config = read_config(path / "config.json")
        short = config.name in SHORT
        folder = RESULTS / (SEEDS_FOLDER if short else "") / config.name
        for name in FILES:
            with write_then_rename(folder / name) as temporary:
                shutil.copyfile(path / name, temporary)
        if not short:
            draw_all(path, config, folder)
    for number in OF_SEVERAL:
        runs = {label: RESULTS / f"standard-{run}" for label, run in FIGURE_RUNS[number].items()}
        if all(run.exists() for run in runs.values()):
            draw(number, runs, RESULTS / "figures")
    for page in PAGES:
        with write_then_rename(page) as temporary:
            temporary.write_text(filled(page.read_text()))


if __name__ == "__main__":
    main()
