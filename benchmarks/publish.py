"""Update the tables and the picture of `docs/performance.md` from the results of `make bench`:

make -s bench ARGS="--accuracy --json" > benchmarks/results.json
.venv/bin/python -m benchmarks.publish
"""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.command import parser, run
from benchmarks.measure import ROOT
from benchmarks.picture import draw
from benchmarks.results import Report, read_report
from benchmarks.tables import machine_text, report_tables
from gaussproto.figures.style import render


def fill(page: str, report: Report) -> str:
    """Replace the text between `<!-- measured -->` and `<!-- end -->`."""
    tables = "\n\n".join(f"**{table.title}**\n\n{table.markdown()}" for table in report_tables(report))
    text = (
        f"Medians of {report.effort.rounds} rounds on {machine_text(report)}.\n\n"
        "![How many times faster than the plain implementation, and what an image costs in episodes of any size]"
        f"(images/performance.svg)\n\n{tables}"
    )
    between = re.compile(r"(<!-- measured -->\n).*?(\n<!-- end -->)", re.DOTALL)
    return between.sub(lambda match: match[1] + text + match[2], page)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("results", type=Path, nargs="?", default=ROOT / "benchmarks" / "results.json")
    options.add_argument("--docs", type=Path, default=ROOT / "docs")
    chosen = options.parse_args()
    report = read_report(chosen.results)
    page = chosen.docs / "performance.md"
    page.write_text(fill(page.read_text(), report))
    (chosen.docs / "images" / "performance.svg").write_bytes(render(draw(report), "svg", "make bench"))


if __name__ == "__main__":
    run(main)
