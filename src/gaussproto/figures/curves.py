"""Line charts: accuracy by number of supports, and loss, accuracy and precision during training."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from gaussproto.figures.style import INK, LINES, MARKERS, SERIES, SOFT, new_figure, styled
from gaussproto.figures.training_curve import TrainingCurve
from gaussproto.runs.metrics import CurvePoint, Score

SMOOTHED_PART = 30  # a smoothed line averages over 1/30 of the log
LONGEST_LABEL = 18  # characters in the label of an axis


def _interval(score: Score) -> float:
    return float("nan") if score.interval is None else score.interval


def smoothing_width(length: int) -> int:
    """Return over how many lines of the log a smoothed line averages; 1 is no smoothing."""
    return max(1, length // SMOOTHED_PART)


def smooth(values: np.ndarray, width: int) -> np.ndarray:
    """Return the running mean over `width` neighbours, fewer at the ends.

    >>> smooth(np.array([0.0, 3.0, 6.0]), 3)
    array([1.5, 3. , 4.5])
    """
    kernel = np.ones(2 * (min(width, len(values)) // 2) + 1)
    total = np.convolve(np.pad(values, len(kernel) // 2), kernel, mode="valid")
    count = np.convolve(np.pad(np.ones(len(values)), len(kernel) // 2), kernel, mode="valid")
    return np.asarray(total / count)


@styled
def accuracy_over_shots(series: Mapping[str, Sequence[Score]], way: int) -> Figure:
    """Draw accuracy over k with its 95 % band and, for several series, their difference from the first."""
    several = len(series) > 1
    figure = new_figure(6.4, 4.6 if several else 3.2)
    heights = [3, 2] if several else [3]
    axes = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    first: dict[int, float] = {}
    for i, (label, scores) in enumerate(series.items()):
        points = sorted((s.shot, 100 * s.accuracy, 100 * _interval(s)) for s in scores if s.way == way)
        shots, accuracy, interval = np.reshape(points, (-1, 3)).T
        style = _line_style(i)
        axes[0].fill_between(shots, accuracy - interval, accuracy + interval, color=style["color"], alpha=0.13, lw=0)
        axes[0].plot(shots, accuracy, label=_legend_text(label), **style)
        first = first or {shot: value for shot, value, _ in points}
        if several:
            gaps = {shot: value - first[shot] for shot, value, _ in points if shot in first}
            axes[1].plot(list(gaps), list(gaps.values()), **style)
    axes[0].set_ylabel(f"{way}-way accuracy, %")
    if several:
        axes[0].legend(loc="lower right")
        label = next(iter(series))
        shortened = label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"
        axes[1].set_ylabel(f"difference from\n{shortened}, points")
    axes[-1].set_xlabel("supports of each class, k")
    axes[-1].xaxis.set_major_locator(MaxNLocator(10, integer=True))
    return figure


@styled
def loss_over_episodes(curves: Mapping[str, TrainingCurve]) -> Figure:
    """Draw training losses. Damaged stages have another colour, and lines mark where the learning rate was halved."""
    figure = new_figure(6.4, 3.4)
    axes = figure.subplots()
    several = len(curves) > 1
    for i, (label, curve) in enumerate(curves.items()):
        texts = [label, f"{label}, partly damaged"] if several else ["clean images", "partly damaged images"]
        in_legend = set() if several or curve.damaged.any() else {False}
        for damaged, part in _equal_parts(curve.damaged):
            j = (i + (len(curves) if damaged else 0)) % len(SERIES)
            text = None if damaged in in_legend else texts[damaged]
            _plot_smoothed(axes, curve.episodes[part], curve.loss[part], j, text)
            in_legend.add(damaged)
    for n, episode in enumerate(sorted({episode for curve in curves.values() for episode in curve.halvings})):
        label_once = None if n else "learning rate halved"
        axes.axvline(episode, color=SOFT, lw=0.9, ls=(0, (2, 2)), label=label_once, zorder=1)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    _label(axes, "loss per query, nats", "upper right")
    return figure


@styled
def accuracy_over_episodes(
    curves: Mapping[str, TrainingCurve], tested: Sequence[CurvePoint] = (), way: int = 20,
    earlier: Mapping[int, float] | None = None,
) -> Figure:  # fmt: skip
    """Draw training accuracy. With `tested`, add test accuracy by shot, and `earlier` results as dotted lines."""
    figure = new_figure(6.4, 4.2 if tested else 3.4)
    axes = figure.subplots()
    for i, (label, curve) in enumerate(curves.items()):
        text = f"training, {curve.way}-way" if len(curves) == 1 else label
        _plot_smoothed(axes, curve.episodes, 100 * curve.accuracy, i, text if tested or len(curves) > 1 else None)
    shots = sorted({score.shot for point in tested for score in point.scores if score.way == way})
    for n, shot in enumerate(shots):
        points = [(p.episode, s) for p in tested for s in p.scores if (s.way, s.shot) == (way, shot)]
        episodes, accuracy, interval = np.array([(e, 100 * s.accuracy, 100 * _interval(s)) for e, s in points]).T
        label, style = f"test, {way}-way {shot}-shot", _line_style(len(curves) + n)
        axes.errorbar(episodes, accuracy, interval, elinewidth=0.9, capsize=2, label=label, **style)
        if earlier and shot in earlier:
            label = f"before the paper, {shot}-shot: {100 * earlier[shot]:.1f}"
            axes.axhline(100 * earlier[shot], color=style["color"], lw=1.1, ls=":", label=label)
    if tested:
        lows = [100 * score.accuracy for point in tested for score in point.scores if score.way == way]
        late = np.concatenate([100 * curve.accuracy[len(curve.accuracy) // 4 :] for curve in curves.values()])
        axes.set_ylim(max(0.0, min(*lows, float(late.min()), 94.0) - 1.5), 100.4)
        figure.legend(loc="outside upper left", ncols=2)
    _label(axes, "accuracy, %", "" if tested else "lower right")
    return figure


@styled
def precision_over_episodes(curve: TrainingCurve) -> Figure:
    figure = new_figure(6.4, 3.0)
    axes = figure.subplots()
    mean, std = curve.precision_mean, curve.precision_std
    axes.fill_between(curve.episodes, mean - std, mean + std, color=SERIES[0], alpha=0.18, lw=0)
    axes.plot(curve.episodes, mean, color=SERIES[0], lw=1.4)
    axes.set_ylim(bottom=0)
    _label(axes, "precision s (mean, std)")
    return figure


def _line_style(i: int) -> dict[str, Any]:
    colour, line, marker = (styles[i % len(styles)] for styles in (SERIES, LINES, MARKERS))
    return {"color": colour, "ls": line, "marker": marker, "markerfacecolor": "none" if i % 2 else colour}


def _plot_smoothed(axes: Axes, episodes: np.ndarray, values: np.ndarray, i: int, label: str | None) -> None:
    axes.plot(episodes, values, color=SERIES[i], lw=0.6, alpha=0.35)
    mean = smooth(values, smoothing_width(len(values)))
    axes.plot(episodes, mean, color=SERIES[i], ls=LINES[i], lw=1.8, label=label and _legend_text(label))


def _equal_parts(flags: np.ndarray) -> Iterator[tuple[bool, slice]]:
    """Yield runs of equal flags. Each starts at the last entry of the one before, so that the lines connect."""
    edges = [0, *(np.flatnonzero(np.diff(flags.astype(int))) + 1).tolist(), len(flags)]
    for start, stop in pairwise(edges):
        if stop > start:
            yield bool(flags[start]), slice(max(0, start - 1), stop)


def _label(axes: Axes, ylabel: str, legend: Literal["", "upper right", "lower right"] = "") -> None:
    axes.set(xlabel="episodes", ylabel=ylabel)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.margins(x=0.01)
    axes.tick_params(colors=INK)
    if legend and axes.get_legend_handles_labels()[0]:
        axes.legend(loc=legend)


def _legend_text(label: str) -> str:
    """Put a space before a leading underscore, because matplotlib omits such labels from a legend."""
    return f" {label}" if label.startswith("_") else label
