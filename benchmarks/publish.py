"""Fill the tables of `docs/performance.md` and draw its picture from what `gaussproto bench --json` printed.

gaussproto bench --accuracy --json > benchmarks/results.json
python benchmarks/publish.py benchmarks/results.json
"""

import argparse
import re
from pathlib import Path

from gaussproto.bench.measure import Report, read_report
from gaussproto.bench.show import draw, machine_words, report_tables
from gaussproto.files import read_json
from gaussproto.report.style import render

DOCS = Path(__file__).resolve().parents[1] / "docs"


def filled(page: str, report: Report) -> str:
    """The page with what stands between `<!-- measured -->` and `<!-- end -->` written anew."""
    tables = "\n\n".join(f"**{table.title}**\n\n{table.markdown()}" for table in report_tables(report))
    text = (
        f"Medians of {report.effort.rounds} rounds on {machine_words(report)}.\n\n"
        "![How many times faster than the plain implementation, and what an image costs in episodes of any size]"
        f"(images/performance.svg)\n\n{tables}"
    )
    between = re.compile(r"(<!-- measured -->\n).*?(\n<!-- end -->)", re.DOTALL)
    return between.sub(lambda match: match[1] + text + match[2], page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--docs", type=Path, default=DOCS)
    asked = parser.parse_args()
    report = read_report(read_json(asked.results))
    page = asked.docs / "performance.md"
    page.write_text(filled(page.read_text(), report))
    (asked.docs / "images" / "performance.svg").write_bytes(render(draw(report), "svg", "gaussproto bench"))


if __name__ == "__main__":
    main()
