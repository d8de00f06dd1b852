"""The accuracy of networks over their number of parameters."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gaussproto.figures.style import INK, LINES, MARKERS, SERIES, new_figure, styled

Points = Sequence[tuple[int, float, int]]  # parameters, accuracy, embedding size
Box = tuple[float, float, float, float]  # left, bottom, right, top, in points

LABEL = 7.5  # size of the font
SIDES = ((0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1), (1, 0), (-1, 0))  # of a point, for its label
NEAR, FAR = 6.0, 11.0  # from the middle of a point to the edge of its label, in points
ROOM = 3.0  # around the middle of a point, which labels leave free


@styled
def accuracy_over_parameters(panels: Mapping[str, Mapping[str, Points]]) -> Figure:
    """Draw a line for each covariance, with the embedding size at every point, in a panel for each encoder and task."""
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(3.7 * columns, 2.6 * rows + 0.3)
    grid = figure.subplots(rows, columns, squeeze=False).flatten()
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    for axes, (title, panel) in zip(grid, panels.items(), strict=False):
        largest = max(parameters for points in panel.values() for parameters, _, _ in points)
        unit, word = (1e6, "millions") if largest >= 1e6 else (1e3, "thousands")
        for name, points in panel.items():
            i = names.index(name)
            x, y = [n / unit for n, _, _ in points], [100 * accuracy for _, accuracy, _ in points]
            style = {"color": SERIES[i], "ls": LINES[i], "marker": MARKERS[i]}
            axes.plot(x, y, label=name, markerfacecolor="none" if i % 2 else SERIES[i], **style)
        axes.set_title(title)
        axes.set_xlabel(f"parameters, {word}")
        axes.margins(0.1, 0.2)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.tick_params(colors=INK)
    for axes in grid[::columns]:
        axes.set_ylabel("accuracy, %")
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    lines = {line.get_label(): line for axes in grid for line in axes.get_lines()}
    figure.legend([lines[name] for name in names], names, loc="outside upper left", ncols=len(names))
    figure.draw_without_rendering()  # to know where the points are
    for axes, panel in zip(grid, panels.values(), strict=False):
        _label(axes, [[D for _, _, D in points] for points in panel.values()])
    return figure


def _label(axes: Axes, sizes: Sequence[Sequence[int]]) -> None:
    """Write the embedding size beside each point, where it covers no other point or label, and few lines."""
    scale = 72 / axes.figure.dpi  # points per pixel
    data = [np.asarray(line.get_xydata(), dtype=float) for line in axes.get_lines()]
    drawn = [scale * axes.transData.transform(each) for each in data]
    paths = np.concatenate([_along(each) for each in drawn])
    taken = [_around(place, 2 * ROOM, 2 * ROOM) for each in drawn for place in each]
    for line, xy, places, texts in zip(axes.get_lines(), data, drawn, sizes, strict=True):
        for (x, y), place, D in zip(xy, places, texts, strict=True):
            width, height = 0.7 * LABEL * len(str(D)), LABEL
            offsets = [_offset(side, distance, width, height) for distance in (NEAR, FAR) for side in SIDES]
            boxes = [_around(place + offset, width, height) for offset in offsets]
            covered = [100 * sum(_overlap(box, other) for other in taken) + _inside(paths, box) for box in boxes]
            best = covered.index(min(covered))
            taken.append(boxes[best])
            axes.annotate(
                f"{D}", (x, y), tuple(offsets[best]), textcoords="offset points", ha="center", va="center",
                fontsize=LABEL, color=line.get_color(),
            )  # fmt: skip


def _offset(side: tuple[int, int], distance: float, width: float, height: float) -> np.ndarray:
    """Return the vector from a point to the middle of a label on this side."""
    reach = distance if 0 in side else 0.7 * distance
    return np.array(side) * (reach + width / 2, reach + height / 2 - 2)


def _along(places: np.ndarray) -> np.ndarray:
    """Return points along a line (K, 2), a few points apart."""
    parts = [places]
    for start, end in pairwise(places):
        steps = np.linspace(0, 1, max(2, int(np.hypot(*(end - start)) / 3)))
        parts.append(start + steps[:, None] * (end - start))
    return np.concatenate(parts)


def _around(middle: np.ndarray, width: float, height: float) -> Box:
    x, y = middle
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _inside(points: np.ndarray, box: Box) -> int:
    x, y = points.T
    return int(((x > box[0]) & (x < box[2]) & (y > box[1]) & (y < box[3])).sum())


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
