"""Figures of the study of bad examples: accuracies under wrong labels and corruptions, and what a method gains."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gaussproto.figures.style import INK, LINES, MARKERS, RULE, SERIES, SOFT, clear, new_figure, styled
from gaussproto.runs.noise import Condition, NoiseDifference, NoiseStudy

Curves = Mapping[str, tuple[str, str]]  # network and rule, by label
NARROW = 0.26  # distance of the series in a row


@styled
def corrupted_examples(examples: Mapping[str, Sequence[np.ndarray]]) -> Figure:
    """Draw one image (H, W) or (H, W, 3) for each severity, from the original on, in a row for each corruption."""
    most = max(map(len, examples.values()))
    figure = new_figure(6.4, 0.95 * len(examples) + 0.3)
    grid = figure.subplots(len(examples), most, squeeze=False)
    for row, (name, images) in zip(grid, examples.items(), strict=True):
        for n, (axes, image) in enumerate(zip(row, images, strict=True)):
            axes.imshow(image, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
            clear(axes, frame=True)
            if axes in grid[0]:
                axes.set_title("original" if n == 0 else f"severity {n}", fontsize=8.5, loc="center")
        row[0].set_ylabel(name, rotation=0, ha="right", va="center")
    return figure


@styled
def accuracy_over_wrong(study: NoiseStudy, panels: Mapping[str, Sequence[Condition]], curves: Curves) -> Figure:
    """Draw the accuracy over the share of wrong supports, in a panel for each source of wrong labels."""
    figure = new_figure(7.4, 3.4)
    grid = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (title, conditions) in zip(grid, panels.items(), strict=True):
        shares = [100 * condition.wrong / study.shot for condition in conditions]
        for i, (label, (network, rule)) in enumerate(curves.items()):
            _draw_scores(axes, study, shares, conditions, network, rule, label, i)
        axes.set(title=title, xlabel="wrong supports, %", xticks=np.unique([*shares, 0]))
    grid[0].set_ylabel(f"{study.way}-way accuracy, %")
    figure.legend(*grid[0].get_legend_handles_labels(), loc="outside upper left", ncols=len(curves))
    return figure


@styled
def accuracy_over_severity(study: NoiseStudy, panels: Mapping[str, Sequence[Condition]], curves: Curves) -> Figure:
    """Draw the accuracy over the severity, in a panel for each corruption. The first condition is without it."""
    columns = min(4, len(panels))
    rows = -(-(len(panels) + 1) // columns)  # one place is for the legend
    figure = new_figure(7.4, 2.2 * rows + 0.2)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flatten()
    for axes, (title, conditions) in zip(grid, panels.items(), strict=False):
        severities = [condition.severity for condition in conditions]
        for i, (label, (network, rule)) in enumerate(curves.items()):
            _draw_scores(axes, study, severities, conditions, network, rule, label, i)
        axes.set(title=title, xticks=range(max(severities) + 1))
        axes.tick_params(labelbottom=True)
    for axes in grid[::columns]:
        axes.set_ylabel("accuracy, %")
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    grid[len(panels)].legend(*grid[0].get_legend_handles_labels(), loc="center left")
    for axes in grid[max(0, len(panels) - columns) : len(panels)]:
        axes.set_xlabel("severity (0: original)")
    return figure


@styled
def gains(
    study: NoiseStudy,
    rows: Mapping[str, Condition],
    comparisons: Mapping[str, str],
    aims: Mapping[Condition, float | None] | None = None,
    xlabel: str = "",
    breaks: Sequence[int] = (),
) -> Figure:
    """Draw paired differences with their intervals: a row for each condition, a marker for each comparison.

    Args:
        study: the results.
        rows: the conditions, by their labels.
        comparisons: the labels of the comparisons, by their names in the study.
        aims: what we aimed at, in points, by condition.
        xlabel: what the differences are of.
        breaks: rows before which a line separates groups.
    """
    figure = new_figure(7.4, 0.36 * len(rows) + 1.2)
    axes = figure.subplots()
    axes.axvline(0, color=SOFT, lw=1)
    for i, (comparison, label) in enumerate(comparisons.items()):
        points = [(y, study.difference(comparison, condition)) for y, condition in enumerate(rows.values())]
        found = [(y + NARROW * (i - (len(comparisons) - 1) / 2), each) for y, each in points if each is not None]
        places = [y for y, _ in found]
        values = [100 * each.difference for _, each in found]
        widths = [100 * half_width(each) for _, each in found]
        axes.errorbar(values, places, xerr=widths, ls="none", elinewidth=1, capsize=2, label=label, **_marker(i))
    aimed = [(aim, y) for y, c in enumerate(rows.values()) if aims and (aim := aims.get(c)) is not None]
    if aimed:
        axes.plot(*np.array(aimed).T, ls="none", marker="|", ms=17, mew=2, color=INK, label="aim", zorder=1)
    for place in breaks:
        axes.axhline(place - 0.5, color=RULE, lw=1)
    axes.set(yticks=range(len(rows)), yticklabels=list(rows), ylim=(len(rows) - 0.4, -0.6), xlabel=xlabel)
    axes.tick_params(axis="y", length=0, colors=INK)
    axes.grid(axis="y", visible=False)
    figure.legend(loc="outside upper left", ncols=len(comparisons) + bool(aimed))
    return figure


def half_width(difference: NoiseDifference) -> float:
    """Return half the wider of the two intervals, over characters and over seeds."""
    return max(difference.interval or 0.0, difference.over_seeds or 0.0)


def _draw_scores(
    axes: Axes, study: NoiseStudy, x: Sequence[float], conditions: Sequence[Condition], network: str, rule: str,
    label: str, i: int,
) -> None:  # fmt: skip
    scores = [study.score(network, rule, condition) for condition in conditions]
    points = [
        (each, 100 * score.accuracy, 100 * (score.interval or 0))
        for each, score in zip(x, scores, strict=True)
        if score is not None
    ]
    if points:
        places, values, widths = np.array(points).T
        axes.fill_between(places, values - widths, values + widths, color=SERIES[i], alpha=0.13, lw=0)
        axes.plot(places, values, ls=LINES[i], label=label, **_marker(i))


def _marker(i: int) -> dict[str, Any]:
    filled = "none" if i % 2 else SERIES[i]
    return {"color": SERIES[i], "marker": MARKERS[i], "markerfacecolor": filled}
