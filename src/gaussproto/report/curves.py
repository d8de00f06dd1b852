"""Lines: accuracy over the number of supports, loss and accuracy over episodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from gaussproto.evaluation.protocol import Score
from gaussproto.report.style import INK, LINES, MARKERS, SERIES, SOFT, new_figure, styled

WINDOWS = 30  # a smoothed line averages about one in so many of the log's lines


@dataclass(frozen=True)
class TrainingCurve:
    """How a training went, one entry for each line of its log."""

    episodes: np.ndarray
    loss: np.ndarray
    accuracy: np.ndarray
    damaged: np.ndarray  # whether the images of its stage were partly damaged
    halvings: tuple[int, ...] = ()  # episodes after which the learning rate was halved
    precision_mean: np.ndarray | None = None
    precision_spread: np.ndarray | None = None
    way: int = 0  # classes of a training episode


@dataclass(frozen=True)
class TestPoint:
    """Scores on the test classes part of the way through a training."""

    episode: int
    scores: tuple[Score, ...]


def smooth(values: np.ndarray, width: int) -> np.ndarray:
    """The mean over `width` neighbours, fewer at the ends.

    >>> smooth(np.array([0.0, 3.0, 6.0]), 3)
    array([1.5, 3. , 4.5])
    """
    kernel = np.ones(2 * (min(width, len(values)) // 2) + 1)
    total = np.convolve(np.pad(values, len(kernel) // 2), kernel, mode="valid")
    count = np.convolve(np.pad(np.ones(len(values)), len(kernel) // 2), kernel, mode="valid")
    return np.asarray(total / count)


@styled
def accuracy_over_shots(series: Mapping[str, Sequence[Score]], way: int) -> Figure:
    """Accuracy over k with its 95 % band; below, for several, how far each is from the first."""
    several = len(series) > 1
    figure = new_figure(6.4, 4.6 if several else 3.2)
    axes = figure.subplots(2 if several else 1, 1, sharex=True, squeeze=False, height_ratios=[3, 2][: several + 1])[
        :, 0
    ]
    first: dict[int, float] = {}
    for i, (label, scores) in enumerate(series.items()):
        points = sorted((score for score in scores if score.way == way), key=lambda score: score.shot)
        shots = np.array([score.shot for score in points])
        accuracy = 100 * np.array([score.accuracy for score in points])
        interval = 100 * np.array([score.interval for score in points])
        look = _look(i)
        axes[0].fill_between(shots, accuracy - interval, accuracy + interval, color=look["color"], alpha=0.13, lw=0)
        axes[0].plot(shots, accuracy, label=_shown(label), **look)
        first = first or dict(zip(shots.tolist(), accuracy.tolist(), strict=True))
        if several:
            both = [j for j, shot in enumerate(shots.tolist()) if shot in first]
            gap = [accuracy[j] - first[int(shots[j])] for j in both]
            axes[1].plot(shots[both], gap, **look)
    axes[0].set_ylabel(f"{way}-way accuracy, %")
    if several:
        axes[0].legend(loc="lower right")
        axes[1].set_ylabel(f"points more than\n{_short(next(iter(series)))}")
    axes[-1].set_xlabel("supports of each class, k")
    axes[-1].xaxis.set_major_locator(MaxNLocator(10, integer=True))
    return figure


@styled
def loss_over_episodes(curves: Mapping[str, TrainingCurve]) -> Figure:
    """The loss of one or several trainings; damaged stages in another colour, a line where the learning rate halved."""
    figure = new_figure(6.4, 3.4)
    axes = figure.subplots()
    for i, (label, curve) in enumerate(curves.items()):
        named = set()
        for damaged, part in _stretches(curve.damaged):
            j = (i + (len(curves) if damaged else 0)) % len(SERIES)
            words = label if len(curves) > 1 else "clean images"
            if damaged:
                words = f"{label}, partly damaged" if len(curves) > 1 else "partly damaged images"
            show = (len(curves) > 1 or bool(curve.damaged.any())) and words not in named
            _smoothed(axes, curve.episodes[part], curve.loss[part], j, words if show else None)
            named.add(words)
    for n, episode in enumerate(sorted({episode for curve in curves.values() for episode in curve.halvings})):
        once = "learning rate halved" if n == 0 else None
        axes.axvline(episode, color=SOFT, lw=0.9, ls=(0, (2, 2)), label=once, zorder=1)
    axes.set_yscale("log")
    _plain_log_ticks(axes)
    axes.set_ylabel("loss, nats to a query")
    _episode_axis(axes)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper right")
    return figure


@styled
def accuracy_over_episodes(
    curves: Mapping[str, TrainingCurve],
    tested: Sequence[TestPoint] = (),
    way: int = 20,
    earlier: Mapping[int, float] | None = None,
) -> Figure:
    """Accuracy in training; with `tested`, that of each shot on test classes, and earlier results to compare with."""
    figure = new_figure(6.4, 4.2 if tested else 3.4)
    axes = figure.subplots()
    for i, (label, curve) in enumerate(curves.items()):
        words = f"training, {curve.way}-way" if len(curves) == 1 else label
        _smoothed(axes, curve.episodes, 100 * curve.accuracy, i, words if tested or len(curves) > 1 else None)
    shots = sorted({score.shot for point in tested for score in point.scores if score.way == way})
    for n, shot in enumerate(shots):
        rows = [(p.episode, s) for p in tested for s in p.scores if (s.way, s.shot) == (way, shot)]
        look = _look(len(curves) + n)
        axes.errorbar(
            [episode for episode, _ in rows],
            [100 * score.accuracy for _, score in rows],
            [100 * score.interval for _, score in rows],
            elinewidth=0.9,
            capsize=2,
            label=f"test, {way}-way {shot}-shot",
            **look,
        )
        if earlier and shot in earlier:
            label = f"{shot}-shot before the paper, {100 * earlier[shot]:.1f}"
            axes.axhline(100 * earlier[shot], color=look["color"], lw=1.1, ls=":", label=label)
    if tested:
        lows = [100 * score.accuracy for point in tested for score in point.scores if score.way == way]
        late = np.concatenate([100 * curve.accuracy[len(curve.accuracy) // 4 :] for curve in curves.values()])
        axes.set_ylim(max(0.0, min(*lows, float(late.min()), 94.0) - 1.5), 100.4)
    axes.set_ylabel("accuracy, %")
    _episode_axis(axes)
    if tested:
        figure.legend(loc="outside upper left", ncols=2)
    elif axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower right")
    return figure


@styled
def precision_over_episodes(curve: TrainingCurve) -> Figure:
    """The mean precision of a training's images and one standard deviation to each side."""
    assert curve.precision_mean is not None
    assert curve.precision_spread is not None
    figure = new_figure(6.4, 3.0)
    axes = figure.subplots()
    mean, spread = curve.precision_mean, curve.precision_spread
    axes.fill_between(curve.episodes, mean - spread, mean + spread, color=SERIES[0], alpha=0.18, lw=0)
    axes.plot(curve.episodes, mean, color=SERIES[0], lw=1.4)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("precision s, mean ± spread")
    _episode_axis(axes)
    return figure


def _look(i: int) -> dict[str, Any]:
    return {
        "color": SERIES[i % len(SERIES)],
        "linestyle": LINES[i % len(LINES)],
        "marker": MARKERS[i % len(MARKERS)],
        "markerfacecolor": "none" if i % 2 else SERIES[i % len(SERIES)],
    }


def _smoothed(axes: Axes, episodes: np.ndarray, values: np.ndarray, i: int, label: str | None) -> None:
    """Each value thin, their running mean thick."""
    axes.plot(episodes, values, color=SERIES[i], lw=0.6, alpha=0.35)
    width = max(1, len(values) // WINDOWS)
    axes.plot(episodes, smooth(values, width), color=SERIES[i], ls=LINES[i], lw=1.8, label=label and _shown(label))


def _stretches(flags: np.ndarray) -> Iterator[tuple[bool, slice]]:
    """Runs of equal flags; each begins at the last entry of the one before, so that lines meet."""
    edges = [0, *(np.flatnonzero(np.diff(flags.astype(int))) + 1).tolist(), len(flags)]
    for start, stop in pairwise(edges):
        if stop > start:
            yield bool(flags[start]), slice(max(0, start - 1), stop)


def _episode_axis(axes: Axes) -> None:
    axes.set_xlabel("episodes")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axes.margins(x=0.01)
    axes.tick_params(colors=INK)


def _plain_log_ticks(axes: Axes) -> None:
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _shown(label: str) -> str:
    """A label as a legend shows it; it leaves out those that begin with a low line."""
    return f" {label}" if label.startswith("_") else label


def _short(label: str) -> str:
    return label if len(label) <= 18 else label[:17] + "…"
