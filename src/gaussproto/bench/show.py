"""What was measured, as tables and as a picture."""

from __future__ import annotations

import math
from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gaussproto.bench.measure import Report, Result
from gaussproto.report.style import INK, LINES, MARKERS, SERIES, SOFT, new_figure, styled
from gaussproto.reproduce.tables import Table

GOALS = (0.95, 0.96)  # 20-way 1-shot
MANY = 300  # images from where on the growth is told: under it fixed costs count
WORDS = {"step": "training step", "episode": "episode with its data", "embedding": "embedding", "protocol": "protocol"}


def report_tables(report: Report) -> list[Table]:
    """The tables that have rows."""
    made = [_against_plain(report), _protocol(report), *_growth(report), _accuracy(report)]
    return [table for table in made if table.rows]


def machine_words(report: Report) -> str:
    """One line about the machine."""
    machine = report.machine
    if not machine:
        return "no machine: everything was left out"
    rate = f", matrix product {2 * report.gemm / 1e9:,.0f} GFLOP/s" if report.gemm else ""
    return (
        f"{machine['processor']}, {machine['threads']} threads, {machine['system']}, Python {machine['python']}, "
        f"torch {machine['torch']}{rate}"
    )


def _against_plain(report: Report) -> Table:
    columns = ("", "ours", "plain", "times faster", "from - to", "of GEMM rate", "GiB", "plain GiB")
    rows = [
        (
            f"{WORDS[result.group]}, {result.name}",
            _pace(result, result.seconds),
            _pace(result, result.against_seconds),
            f"{result.ratio:.2f}",
            f"{result.ratio_low:.2f} - {result.ratio_high:.2f}",
            f"{100 * result.of_gemm:.0f} %" if result.of_gemm is not None else "",
            f"{result.memory:.2f}",
            f"{result.against_memory:.2f}",
        )
        for result in report.of("step", "episode", "embedding")
    ]
    return Table("plain", "Against a plain implementation", columns, tuple(rows))


def _pace(result: Result, seconds: float | None) -> str:
    assert seconds is not None
    if result.group == "embedding":
        return f"{result.images / seconds:,.0f} images/s"
    return f"{seconds:.3f} s"


def _protocol(report: Report) -> Table:
    columns = ("encoder", "images", "one embedding pass", "k = 1 to 19, 5- and 20-way", "times one pass", "from - to")
    rows = []
    for result in report.of("protocol"):
        assert result.ratio
        assert result.ratio_low
        assert result.ratio_high
        rows.append(
            (
                result.name,
                f"{result.images:,}",
                f"{result.against_seconds:.2f} s",
                f"{result.seconds:.2f} s",
                f"{1 / result.ratio:.2f}",
                f"{1 / result.ratio_high:.2f} - {1 / result.ratio_low:.2f}",
            )
        )
    return Table("protocol", "The full protocol against one embedding pass", columns, tuple(rows))


def _growth(report: Report) -> list[Table]:
    tables = []
    for group in ("growth images", "growth classes", "growth D"):
        results = report.of(group)
        axis = group.removeprefix("growth ")
        itself = axis == "images"  # it is said once
        rows = [
            (
                *(() if itself else (f"{int(result.name):,}",)),
                f"{result.images:,}",
                f"{1e3 * result.seconds:,.0f} ms",
                f"{1e6 * result.seconds / result.images:,.0f} µs",
                f"{result.memory:.2f}",
            )
            for result in results
        ]
        power = growth_power(results)
        title = f"How a step grows with {axis}" + (
            f": as the images to the power of {power:.2f} from {MANY} images on" if power is not None else ""
        )
        columns = (*(() if itself else (axis,)), "images", "step", "an image", "GiB")
        tables.append(Table(group, title, columns, tuple(rows)))
    return tables


def growth_power(results: list[Result]) -> float | None:
    """The exponent of the time in the number of images, between the fewest (300 at least) and the most.

    >>> at = lambda n, seconds: Result("growth images", str(n), n, seconds, 0.0)
    >>> round(growth_power([at(60, 5.0), at(400, 10.0), at(1600, 40.0)]), 6)
    1.0
    """
    enough = sorted((result.images, result.seconds) for result in results if result.images >= MANY)
    if not enough or enough[0][0] == enough[-1][0]:
        return None
    (few, short), (many, long) = enough[0], enough[-1]
    return math.log(long / short) / math.log(many / few)


def time_to(report: Report, goal: float) -> float | None:
    """Seconds of training until the accuracy was first reached."""
    return next((seconds for seconds, accuracy in report.curve if accuracy >= goal), None)


def _accuracy(report: Report) -> Table:
    rows = []
    for goal in GOALS if report.curve else ():
        seconds = time_to(report, goal)
        best = max(accuracy for _, accuracy in report.curve)
        rows.append(
            (f"{100 * goal:.0f} %", f"{seconds:.0f} s" if seconds else f"not reached (best {100 * best:.2f} %)")
        )
    title = "Training time to an accuracy on Omniglot, 20-way 1-shot, fast-small-none"
    return Table("accuracy", title, ("accuracy", "training"), tuple(rows))


@styled
def draw(report: Report) -> Figure:
    """How much faster than the plain implementation, and how the cost of a step grows."""
    panels: list[Callable[[Axes, Report], None]] = []
    if report.of("step", "episode", "embedding"):
        panels.append(_draw_ratios)
    if report.of("growth images", "growth classes", "growth D"):
        panels.append(_draw_growth)
    figure = new_figure(4.6 * max(1, len(panels)), 3.4)
    for number, panel in enumerate(panels):
        panel(figure.add_subplot(1, len(panels), number + 1), report)
    return figure


def _draw_ratios(axes: Axes, report: Report) -> None:
    results = report.of("step", "episode", "embedding")[::-1]
    for y, result in enumerate(results):
        assert result.ratio
        assert result.ratio_low
        assert result.ratio_high
        axes.barh(y, result.ratio, color=SERIES[0], height=0.6)
        axes.plot([result.ratio_low, result.ratio_high], [y, y], color=INK, linewidth=1.2, solid_capstyle="butt")
        axes.text(result.ratio_high, y, f"  {result.ratio:.1f}", va="center", fontsize=8)
    axes.axvline(1, color=SOFT, linewidth=0.8)
    axes.set_yticks(range(len(results)), [f"{WORDS[result.group]}\n{result.name}" for result in results])
    axes.set_xlim(0, 1.15 * max(result.ratio_high or 0 for result in results))
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("times faster")
    axes.set_title("Against a plain implementation")


def _draw_growth(axes: Axes, report: Report) -> None:
    labels = {"growth images": "more images a class", "growth classes": "more classes, 1+1 each"}
    for number, (group, label) in enumerate(labels.items()):
        results = report.of(group)
        images = [result.images for result in results]
        pace = [1e6 * result.seconds / result.images for result in results]
        axes.plot(images, pace, linestyle=LINES[number], marker=MARKERS[number], color=SERIES[number], label=label)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("images in an episode")
    axes.set_ylabel("microseconds an image")
    axes.set_title("Training step, small encoder")
    axes.legend()
