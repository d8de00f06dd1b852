"""Draw the results of `make bench`."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.results import Report
from benchmarks.tables import AGAINST_PLAIN, GROWTH, TITLES
from gaussproto.figures.style import INK, LINES, MARKERS, SERIES, SOFT, new_figure, styled


@styled
def draw(report: Report) -> Figure:
    """Draw the speedups over the plain implementation, and how the cost of a step grows."""
    panels: list[Callable[[Axes, Report], None]] = []
    if report.of(*AGAINST_PLAIN):
        panels.append(_draw_speedups)
    if report.of(*GROWTH):
        panels.append(_draw_growth)
    figure = new_figure(4.6 * max(1, len(panels)), 3.4)
    for number, panel in enumerate(panels):
        panel(figure.add_subplot(1, len(panels), number + 1), report)
    return figure


def _draw_speedups(axes: Axes, report: Report) -> None:
    cases = report.of(*AGAINST_PLAIN)[::-1]
    for y, case in enumerate(cases):
        ratio = case.speedup
        axes.barh(y, ratio.median, color=SERIES[0], height=0.6)
        axes.plot([ratio.low, ratio.high], [y, y], color=INK, linewidth=1.2, solid_capstyle="butt")
        axes.text(ratio.high, y, f"  {ratio.median:.1f}", va="center", fontsize=8)
    axes.axvline(1, color=SOFT, linewidth=0.8)
    axes.set_yticks(range(len(cases)), [f"{TITLES[case.group]}\n{case.name}" for case in cases])
    axes.set_xlim(0, 1.15 * max(case.speedup.high for case in cases))
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("times faster")
    axes.set_title("Against a plain implementation")


def _draw_growth(axes: Axes, report: Report) -> None:
    labels = {"growth images": "more images per class", "growth classes": "more classes, 1+1 each"}
    for number, (group, label) in enumerate(labels.items()):
        cases = report.of(group)
        images = [case.images for case in cases]
        pace = [1e6 * case.ours.seconds / case.images for case in cases]
        axes.plot(images, pace, linestyle=LINES[number], marker=MARKERS[number], color=SERIES[number], label=label)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("images in an episode")
    axes.set_ylabel("microseconds per image")
    axes.set_title("Training step, small encoder")
    axes.legend()
