"""The accuracy of networks over their number of parameters."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gaussproto.figures.style import INK, LINES, MARKERS, SERIES, SOFT, new_figure, styled

Points = Sequence[tuple[int, float, int]]  # parameters, accuracy, embedding size


@styled
def accuracy_over_parameters(panels: Mapping[str, Mapping[str, Points]]) -> Figure:
    """Draw a line for each covariance, with the embedding size at every point, in a panel for each encoder and task."""
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(3.7 * columns, 2.6 * rows + 0.3)
    grid = figure.subplots(rows, columns, squeeze=False).flatten()
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    for axes, (title, panel) in zip(grid, panels.items(), strict=False):
        for name, points in panel.items():
            i = names.index(name)
            parameters, accuracy, sizes = zip(*points, strict=True)
            thousands, percent = [each / 1000 for each in parameters], [100 * each for each in accuracy]
            style = {"color": SERIES[i], "ls": LINES[i], "marker": MARKERS[i]}
            axes.plot(thousands, percent, label=name, markerfacecolor="none" if i % 2 else SERIES[i], **style)
            for x, y, D in zip(thousands, percent, sizes, strict=True):
                axes.annotate(f"{D}", (x, y), (0, 5), textcoords="offset points", ha="center", fontsize=7, color=SOFT)
        axes.set_title(title)
        axes.margins(0.08, 0.16)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.tick_params(colors=INK)
    for axes in grid[::columns]:
        axes.set_ylabel("accuracy, %")
    for axes in grid[len(panels) - columns : len(panels)]:
        axes.set_xlabel("parameters, thousands")
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    lines = {line.get_label(): line for axes in grid for line in axes.get_lines()}
    figure.legend([lines[name] for name in names], names, loc="outside upper left", ncols=len(names))
    return figure
