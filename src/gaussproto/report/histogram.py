"""The distribution of the predicted precision."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gaussproto.report.measure import Precisions
from gaussproto.report.style import SERIES, new_figure, styled

BINS = 60


def edges_of(*samples: np.ndarray) -> np.ndarray:
    """Bins that hold all but the outermost thousandth of every sample."""
    low = min(float(np.quantile(sample, 0.001)) for sample in samples)
    high = max(float(np.quantile(sample, 0.999)) for sample in samples)
    margin = max((high - low) / BINS, 1e-3 * abs(high), 1e-6)
    return np.linspace(low - margin, high + margin, BINS + 1)


def mode(sample: np.ndarray) -> float:
    """Where a sample is densest: the middle of the shortest stretch that holds a tenth of it."""
    ordered = np.sort(sample)
    n = max(2, len(ordered) // 10)
    if len(ordered) < n:
        return float(ordered.mean())
    start = int((ordered[n - 1 :] - ordered[: len(ordered) - n + 1]).argmin())
    return float(ordered[start : start + n].mean())


@styled
def precision_histogram(precisions: Precisions, aligned: bool = True) -> Figure:
    """Precisions of clean and of damaged images; with `aligned` also as the paper shows them, modes on each other."""
    figure = new_figure(7.2 if aligned else 6.4, 3.2)
    panels = figure.subplots(1, 2 if aligned else 1, squeeze=False)[0]
    if aligned:
        clean = precisions.clean - mode(precisions.clean)
        partly = precisions.partly - mode(precisions.partly)
        edges = edges_of(clean, partly)
        _outline(panels[0], clean, edges, 0, "clean")
        _outline(panels[0], partly, edges, 1, f"{_share(precisions):.0f} % damaged")
        panels[0].set(title="aligned at the modes", xlabel="precision s from its mode", ylabel="share of the images, %")
        _legend(panels[0])
    axes = panels[-1]
    edges = edges_of(precisions.clean, precisions.damaged)
    for i, (sample, words) in enumerate(((precisions.clean, "clean"), (precisions.damaged, "damaged"))):
        _outline(axes, sample, edges, i, f"{words}, mean {sample.mean():.3g}")
        axes.axvline(float(sample.mean()), color=SERIES[i], lw=1.2, ls=(0, (2, 2)))
    axes.set(title="as they are" if aligned else "", xlabel="precision s", ylabel="share of the images, %")
    _legend(axes)
    return figure


def _legend(axes: Axes) -> None:
    axes.set_ylim(top=1.3 * axes.get_ylim()[1])  # room for the words
    axes.legend(loc="upper right")


def _outline(axes: Axes, sample: np.ndarray, edges: np.ndarray, i: int, label: str) -> None:
    share = 100 * np.histogram(np.clip(sample, edges[0], edges[-1]), edges)[0] / len(sample)
    if i == 0:
        axes.stairs(share, edges, color=SERIES[i], alpha=0.25, fill=True)
    axes.stairs(share, edges, color=SERIES[i], lw=1.5, ls="-" if i == 0 else "--", label=label)


def _share(precisions: Precisions) -> float:
    return 100 * len(precisions.damaged) / len(precisions.partly)
