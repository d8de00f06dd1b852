"""Copy what is published of runs to `results/`, and fill the tables of `docs/reproduction.md` from there.

python scripts/publish.py [RUN...]
"""

import argparse
import re
import shutil
from pathlib import Path

from gaussproto.config import read_config
from gaussproto.presets import PRESETS
from gaussproto.report.figures import write_figure
from gaussproto.reproduce.paper import FIGURE_RUNS
from gaussproto.reproduce.tables import hardware, read_runs, tables
from gaussproto.training.run_folder import RunFolder

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "results", ROOT / "docs" / "reproduction.md"
FILES = ("config.json", "metrics.json", "log.jsonl")
LOSS, LEARNED, PRECISIONS = 6, 7, 9  # of the paper's figures those of one run that show none of Omniglot's drawings
OF_SEVERAL = (4, 5, 8)  # from what is published of several runs


def filled(page: str, results: Path = RESULTS) -> str:
    """The page with each `<!-- NAME -->` ... `<!-- end -->` filled anew."""
    blocks = {"hardware": f"Trained on {hardware(read_runs(results))}."}
    for family in ("standard", "paper"):
        for table in tables("all", read_runs(results, f"{family}-")):
            name = f"{family} {table.name}"
            blocks[name] = blocks.get(name, "") + f"**{table.title}**\n\n{table.markdown()}\n\n"

    def fill(match: re.Match[str]) -> str:
        return f"<!-- {match[1]} -->\n{blocks[match[1]].strip()}\n<!-- end -->"

    return re.sub(r"<!-- ([\w ]+) -->\n.*?<!-- end -->", fill, page, flags=re.DOTALL)


def draw(number: int, runs: dict[str, Path], folder: Path) -> None:
    """One figure as SVG; the same as a bitmap would only be larger."""
    for path in write_figure(number, {label: RunFolder(run) for label, run in runs.items()}, folder):
        if path.suffix != ".svg":
            path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="*")
    for run in parser.parse_args().runs:
        config = read_config(run / "config.json")
        if config != PRESETS.get(config.name):
            raise SystemExit(f"{run} is not what the preset {config.name} makes: give its config.json another name")
        folder = RESULTS / config.name
        folder.mkdir(exist_ok=True)
        for name in FILES:
            shutil.copyfile(run / name, folder / name)
        gaussian = config.network.covariance != "none"
        for number in (LOSS, LEARNED, *([PRECISIONS] if gaussian else [])):
            draw(number, {"network": run}, folder)
    for number in OF_SEVERAL:
        runs = {label: RESULTS / f"standard-{run}" for label, run in FIGURE_RUNS[number].items()}
        if all(run.exists() for run in runs.values()):
            draw(number, runs, RESULTS / "figures")
    PAGE.write_text(filled(PAGE.read_text()))


if __name__ == "__main__":
    main()
