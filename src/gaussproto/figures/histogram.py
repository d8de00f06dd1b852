"""Histograms of the predicted precision."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gaussproto.evaluation.robustness import Precisions
from gaussproto.figures.style import SERIES, new_figure, styled

BINS = 60


def bin_edges(*samples: np.ndarray) -> np.ndarray:
    """Return the edges of bins that cover every sample from its 0.1 % to its 99.9 % quantile."""
    low = min(float(np.quantile(sample, 0.001)) for sample in samples)
    high = max(float(np.quantile(sample, 0.999)) for sample in samples)
    margin = max((high - low) / BINS, 1e-3 * abs(high), 1e-6)
    return np.linspace(low - margin, high + margin, BINS + 1)


def mode(sample: np.ndarray) -> float:
    """Return the mode of a sample: the mean of the shortest interval that contains a tenth of it."""
    ordered = np.sort(sample)
    n = min(len(ordered), max(2, len(ordered) // 10))
    start = int((ordered[n - 1 :] - ordered[: len(ordered) - n + 1]).argmin())
    return float(ordered[start : start + n].mean())


@styled
def precision_histogram(precisions: Precisions, aligned: bool = True) -> Figure:
    """Draw the precisions of clean and damaged images. With `aligned`, also shift them to one mode, as in the paper."""
    figure = new_figure(7.2 if aligned else 6.4, 3.2)
    panels = figure.subplots(1, 2 if aligned else 1, squeeze=False)[0]
    if aligned:
        clean, partly = (sample - mode(sample) for sample in (precisions.clean, precisions.partly))
        edges = bin_edges(clean, partly)
        share = 100 * len(precisions.damaged) / len(precisions.partly)
        _draw_outline(panels[0], clean, edges, 0, "clean")
        _draw_outline(panels[0], partly, edges, 1, f"{share:.0f} % damaged")
        _label(panels[0], "precision s minus its mode", "shifted to a common mode")
    axes = panels[-1]
    edges = bin_edges(precisions.clean, precisions.damaged)
    for i, (sample, name) in enumerate(((precisions.clean, "clean"), (precisions.damaged, "damaged"))):
        _draw_outline(axes, sample, edges, i, f"{name}, mean {sample.mean():.3g}")
        axes.axvline(float(sample.mean()), color=SERIES[i], lw=1.2, ls=(0, (2, 2)))
    _label(axes, "precision s", "not shifted" if aligned else "")
    return figure


def _label(axes: Axes, xlabel: str, title: str) -> None:
    axes.set(title=title, xlabel=xlabel, ylabel="share of images, %")
    axes.set_ylim(top=1.3 * axes.get_ylim()[1])  # room for the legend
    axes.legend(loc="upper right")


def _draw_outline(axes: Axes, sample: np.ndarray, edges: np.ndarray, i: int, label: str) -> None:
    share = 100 * np.histogram(np.clip(sample, edges[0], edges[-1]), edges)[0] / len(sample)
    if i == 0:
        axes.stairs(share, edges, color=SERIES[i], alpha=0.25, fill=True)
    axes.stairs(share, edges, color=SERIES[i], lw=1.5, ls="-" if i == 0 else "--", label=label)
