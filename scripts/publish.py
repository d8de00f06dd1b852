"""Copy what is published of runs to `results/`, and fill the tables of the pages from there.

python scripts/publish.py [RUN...]
"""

import argparse
import re
import shutil
from pathlib import Path

from gaussproto.config import RunConfig, read_config
from gaussproto.files import write_then_rename
from gaussproto.paper.figures import FIGURES, write_figure
from gaussproto.paper.rows import (
    BIG_NONE,
    BIG_RADIUS_LEARNED,
    ROWS,
    SMALL_NONE,
    SMALL_RADIUS,
    TABLES,
    Budget,
)
from gaussproto.paper.tables import cell, find_score, hardware, make_tables, paper_cell, read_run, read_runs
from gaussproto.presets import PRESETS
from gaussproto.runs.folder import RunFolder
from gaussproto.runs.metrics import Metrics
from gaussproto.table import Table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
SEEDS_FOLDER = "seeds"  # the short runs of several seeds: many alike, so without figures
PAGES = (ROOT / "README.md", ROOT / "docs" / "reproduction.md", RESULTS / "README.md")
FILES = ("config.json", "metrics.json", "log.jsonl")
NO_PRESET = ("paper-small-radius",)  # shorter, as the page says
SHORT = {row.name: row.config("standard") for row in TABLES["seeds"]}
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
SMALL_OF_PAPER = (("small vanilla network", SMALL_NONE), ("small Gaussian network", SMALL_RADIUS))
OF_PAPER = (*SMALL_OF_PAPER, ("big vanilla network", BIG_NONE), ("big Gaussian network", BIG_RADIUS_LEARNED))


def filled(page: str, results: Path = RESULTS) -> str:
    """The page with what stands between each `<!-- NAME -->` and `<!-- end -->` replaced by the present numbers."""
    runs = read_runs(results)
    fast = [name for name in runs if name.startswith("fast-")]
    seeds = read_runs(results / SEEDS_FOLDER)
    blocks = {
        "hardware": f"Trained on {hardware({**runs, **seeds})}.",
        "highlights": _last(runs, HIGHLIGHTS, TASKS, _of_paper(OF_PAPER, TASKS)),
        "bundled": _last(runs, BUNDLED, TASKS),
        "fast last": _last(runs, dict.fromkeys(fast, ""), TASKS),
        "fast top": _table(
            [(f"`{name}`", *(cell(find_score(runs[name], task)) for task in TASKS[:2])) for name in fast]
            + _of_paper(SMALL_OF_PAPER, TASKS[:2]),
            TASKS[:2],
        ),
    }
    for budget in ("standard", "paper"):
        for table in make_tables("all", published(budget, results)):
            name = f"{budget} {table.name}"
            blocks[name] = blocks.get(name, "") + f"**{table.title}**\n\n{table.markdown()}\n\n"

    def fill(match: re.Match[str]) -> str:
        return f"<!-- {match[1]} -->\n{blocks[match[1]].strip()}\n<!-- end -->"

    return re.sub(r"<!-- ([\w ]+) -->\n.*?<!-- end -->", fill, page, flags=re.DOTALL)


def published(budget: Budget, results: Path = RESULTS) -> dict[str, Metrics]:
    """What is published of the rows' runs at a budget, by the name of the row."""
    folders = {
        row.name: results / (SEEDS_FOLDER if row.repeats else "") / row.configs[budget].name
        for row in ROWS.values()
        if budget in row.configs
    }
    return {name: read_run(folder) for name, folder in folders.items() if folder.exists()}


def _last(runs: dict[str, Metrics], labels: dict[str, str], tasks, more=()) -> str:
    """Scores of the last checkpoint with their intervals."""
    rows = []
    for name, label in labels.items():
        cells = [cell(find_score(runs[name], task, checkpoint="last")) for task in tasks]
        rows.append((f"`{name}`" + (f", {label}" if label else ""), *cells))
    return _table([*rows, *more], tasks)


def _of_paper(rows, tasks) -> list[tuple[str, ...]]:
    return [(f"the paper, {label}", *(paper_cell(row.paper.get(task)) for task in tasks)) for label, row in rows]


def _table(rows, tasks) -> str:
    columns = ("run", *(f"{way}-way {shot}-shot" for way, shot in tasks))
    return Table("", "", columns, tuple(rows)).markdown()


def check(run: RunFolder) -> None:
    """Stop unless a run is what its name says, trained to its end and scored."""
    if not run.ended:
        raise SystemExit(f"{run.path} holds no run that went to its end: go on with it")
    config, metrics = read_config(run.config), run.read_metrics()
    if config.name not in NO_PRESET and config != (PRESETS | SHORT).get(config.name):
        raise SystemExit(
            f"{run.path} is not the run that is known as {config.name!r}: add its name to NO_PRESET, and say why"
        )
    if not metrics.evaluations:
        raise SystemExit(f"{run.path} has no scores: evaluate it first")
    if config.name in SHORT and metrics.damage is None:
        raise SystemExit(f"{run.path} was not scored with bad supports: go on with it")


def draw(number: int, runs: dict[str, Path], folder: Path) -> None:
    """One figure as SVG; the same as a bitmap would only be larger."""
    for path in write_figure(number, runs, folder):
        if path.suffix != ".svg":
            path.unlink()


def draw_all(run: Path, config: RunConfig, folder: Path) -> None:
    draw(LOSS, {"network": run}, folder)
    if RunFolder(run).read_metrics().curve:
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
    for number in OF_SEVERAL if paths else ():
        runs = {label: RESULTS / row.config("standard").name for label, row in FIGURES[number].rows.items()}
        if all(run.exists() for run in runs.values()):
            draw(number, runs, RESULTS / "figures")
    for page in PAGES:
        with write_then_rename(page) as temporary:
            temporary.write_text(filled(page.read_text()))


if __name__ == "__main__":
    main()
