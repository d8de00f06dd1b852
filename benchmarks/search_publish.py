"""Update the tables and the picture of `docs/large-galleries.md` from the results of `python -m benchmarks.search`."""

from __future__ import annotations

import re
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from benchmarks.command import parser, run
from benchmarks.measure import ROOT
from benchmarks.search import RESULTS, SearchCase, SearchReport, read_results
from gaussproto.figures.style import LINES, MARKERS, SERIES, new_figure, render, styled
from gaussproto.table import Table

WAYS = {"naive": "naive broadcast", "centroid": "NearestCentroid", "exact": "exact search", "faiss": "FAISS"}


def tables(report: SearchReport) -> list[Table]:
    """Return the tables that have rows."""
    cases = sorted(report.cases, key=lambda case: (case.D, case.covariance != "radius", case.classes))
    speeds = [
        (
            f"{case.classes:,}",
            f"{case.D}",
            case.covariance,
            *(_rate(getattr(case, way)) for way in WAYS),
            _share(case.recall_1),
            _share(case.recall_10),
        )
        for case in cases
    ]
    sizes = [
        (
            f"{case.classes:,}",
            f"{case.D}",
            case.covariance,
            _megabytes(case.prototypes),
            f"{_megabytes(case.exact_memory)} ({case.exact_memory / case.prototypes:.2f} times)",
            "" if case.faiss_memory is None else _megabytes(case.faiss_memory),
            f"{case.exact_build:.2f} s",
            "" if case.faiss_build is None else f"{case.faiss_build:.1f} s",
        )
        for case in cases
    ]
    galleries = [
        (
            f"{case.classes:,}",
            f"{case.D}",
            f"{case.fit:.1f} s",
            f"{case.index:.1f} s",
            f"{1e3 * case.predict:.1f} ms",
            f"{case.file / 1e6:,.0f} MB",
            f"{case.load:.2f} s ({case.load_wall:.2f} s)",
            f"{1e3 * case.add:.1f} ms ({1e3 * case.add_wall:.1f} ms)",
            f"{1e3 * case.forget:.2f} ms",
        )
        for case in sorted(report.galleries, key=lambda case: case.classes)
    ]
    fits = [
        (f"{case.classes:,}", f"{case.examples:,}", f"{case.D}", f"{case.fit:.1f} s", f"{case.fit_wall:.1f} s")
        for case in report.fits
    ]
    places = ("classes", "D", "covariance")
    rows = [
        Table("speed", "Images per second", (*places, *WAYS.values(), "recall at 1", "at 10"), tuple(speeds)),
        Table(
            "memory",
            "Memory and time to prepare",
            (*places, "prototypes", "exact search, beside them", "index", "prepare exact", "learn the index"),
            tuple(sizes),
        ),
        Table(
            "galleries",
            "A gallery of one example per class",
            ("classes", "D", "fit", "learn the index", "predict", "file", "open and predict", "add a class", "forget"),
            tuple(galleries),
        ),
        Table(
            "fits",
            "Fit of ten examples per class",
            ("classes", "examples", "D", "processor time", "by the clock"),
            tuple(fits),
        ),
    ]
    return [table for table in rows if table.rows]


@styled
def draw(cases: list[SearchCase]) -> Figure:
    """Draw the images per second over the number of classes."""
    panels = sorted({(case.D, case.covariance) for case in cases}, key=lambda each: (each[0], each[1] != "radius"))
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(3.7 * columns, 2.7 * rows + 0.3)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).flatten()
    for axes, (D, covariance) in zip(grid, panels, strict=False):
        some = sorted((c for c in cases if (c.D, c.covariance) == (D, covariance)), key=lambda case: case.classes)
        for i, (way, label) in enumerate(WAYS.items()):
            points = [(case.classes, getattr(case, way)) for case in some if getattr(case, way)]
            if points:
                style = {"linestyle": LINES[i], "marker": MARKERS[i], "color": SERIES[i]}
                axes.plot(*zip(*points, strict=True), label=label, **style)
        axes.set(xscale="log", yscale="log", title=f"{covariance}, D = {D}")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
            axis.set_minor_formatter(NullFormatter())
        axes.tick_params(labelbottom=True, labelleft=True)
    for axes in grid[::columns]:
        axes.set_ylabel("images per second, one thread")
    for axes in grid[len(panels) - columns :]:
        axes.set_xlabel("classes")
    lines = {line.get_label(): line for axes in grid for line in axes.get_lines()}
    figure.legend(list(lines.values()), list(lines), loc="outside upper left", ncols=len(lines))
    return figure


def _rate(rate: float | None) -> str:
    return "" if rate is None else f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.4f}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("results", type=Path, nargs="?", default=RESULTS)
    options.add_argument("--docs", type=Path, default=ROOT / "docs")
    chosen = options.parse_args()
    report = read_results(chosen.results)
    text = "\n\n".join(f"**{table.title}**\n\n{table.markdown()}" for table in tables(report))
    picture = "![Images per second over the number of classes](images/search.svg)"
    page = chosen.docs / "large-galleries.md"
    between = re.compile(r"(<!-- search -->\n).*?(\n<!-- end -->)", re.DOTALL)
    page.write_text(between.sub(lambda match: f"{match[1]}{picture}\n\n{text}{match[2]}", page.read_text()))
    (chosen.docs / "images" / "search.svg").write_bytes(render(draw(list(report.cases)), "svg", "benchmarks.search"))


if __name__ == "__main__":
    run(main)
