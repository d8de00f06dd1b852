"""Diagram of the network: support and query images, encoder, embedding space, probabilities."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from gaussproto.evaluation.views import EpisodeView
from gaussproto.figures.pictures import place
from gaussproto.figures.space import draw_space
from gaussproto.figures.style import INK, RULE, SERIES, SOFT, clear, new_figure, styled

# In shares of the figure's width: left edge and width of each panel, and left ends of the arrows between them.
PANELS = {"images": (0.0, 0.2), "encoder": (0.215, 0.135), "plane": (0.385, 0.37), "answer": (0.785, 0.205)}
ARROWS = (0.2, 0.35, 0.757)


@styled
def network_diagram(
    view: EpisodeView, outputs: Sequence[int], residual: Sequence[int], grid: int = 1, query: tuple[int, int] = (0, 0)
) -> Figure:
    """Draw an episode from its images to the prediction.

    Args:
        view: the episode.
        outputs: the number of output channels of each of the encoder's blocks.
        residual: the number of residual convolutions at the start of each block.
        grid: the number of areas along each side of an image, each with a part of the embedding.
        query: the class and the number of the query to show.
    """
    figure = new_figure(11, 4.3, by_hand=True)
    panels = {name: figure.add_axes((left, 0.04, width, 0.84)) for name, (left, width) in PANELS.items()}
    titles = ("support and query images", "encoder", "embedding space", "probability")
    for (name, axes), title in zip(panels.items(), titles, strict=True):
        axes.set_title(title, loc="center")
        clear(axes, frame=name == "plane")
    _draw_images(panels["images"], view, query)
    _draw_encoder(panels["encoder"], view, outputs, residual, grid)
    draw_space(panels["plane"], view, query, pictures=False)
    _draw_answer(panels["answer"], view, query)
    for left in ARROWS:
        ends = (left, 0.46), (left + 0.03, 0.46)
        figure.add_artist(FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=14, color=SOFT, lw=1.5))
    return figure


def _draw_images(axes: Axes, view: EpisodeView, query: tuple[int, int]) -> None:
    C, K = view.support.shape[:2]
    axes.set(xlim=(-0.2, max(K, 3) + 0.2), ylim=(-1.55, C + 0.05))
    for c in range(C):
        for k in range(K):
            place(axes, view.support[c, k], (k + 0.5, C - c - 0.5), (0.9, 0.9), SERIES[c % len(SERIES)])
    axes.plot([0, max(K, 3)], [-0.15, -0.15], color=RULE, lw=1)
    place(axes, view.query[query], (0.5, -0.85), (0.9, 0.9), INK)
    axes.text(1.15, -0.85, "query", va="center", fontsize=8.5, color=SOFT)


def _draw_encoder(axes: Axes, view: EpisodeView, outputs: Sequence[int], residual: Sequence[int], grid: int) -> None:
    axes.set(xlim=(0, 1), ylim=(0, 1))
    top, bottom = 0.97, 0.3
    step = (top - bottom) / len(outputs)
    for i, (channels, extra) in enumerate(zip(outputs, residual, strict=True)):
        low = top - (i + 1) * step
        box = FancyBboxPatch((0.12, low + 0.14 * step), 0.76, 0.72 * step, boxstyle="round,pad=0,rounding_size=0.03")
        box.set(facecolor="none", edgecolor=INK, lw=1)
        axes.add_patch(box)
        if i:
            arrow = {"arrowstyle": "->", "color": SOFT}
            axes.annotate("", (0.5, low + 0.86 * step), (0.5, low + 1.14 * step), arrowprops=arrow)
        before = f"{extra} residual convolution{'s' * (extra > 1)}\n" * (extra > 0)
        text = f"{before}3x3 convolution, {channels}\nbatch norm, ReLU, pool"
        axes.text(0.5, low + step / 2, text, ha="center", va="center", fontsize=6.5, linespacing=1.3)
    D = view.x.shape[-1]
    lines = [f"embedding x, {D} numbers" + f"\nof {grid} x {grid} areas" * (grid > 1)]
    if view.s is not None:
        E = view.s.shape[-1] if view.s.ndim == 3 else D
        kind = f"{D} x {D} matrix" if view.s.ndim == 4 else "one number" if E == 1 else f"{E} numbers"
        lines.append(f"precision s, {kind}")
    axes.text(0.5, 0.17, "\n".join(lines), ha="center", va="center", fontsize=8, linespacing=1.6)


def _draw_answer(axes: Axes, view: EpisodeView, query: tuple[int, int]) -> None:
    C = len(view.names)
    axes.set(xlim=(-0.34, 1.42), ylim=(-1.55, C + 0.05))
    for c, probability in enumerate(view.probabilities[query].tolist()):
        y, colour = C - c - 0.5, SERIES[c % len(SERIES)]
        place(axes, view.support[c, 0], (-0.18, y), (0.26, 0.9), colour)
        axes.barh(y, probability, height=0.5, color=colour)
        axes.text(probability + 0.03, y, f"{100 * probability:.1f} %", va="center", fontsize=8.5)
    axes.plot([0, 0], [0, C], color=SOFT, lw=0.8)
    right = int(view.probabilities[query].argmax()) == query[0]
    text = f"softmax of negative distances\nThe prediction is {'correct' if right else 'wrong'}."
    axes.text(0.48, -0.85, text, ha="center", va="center", fontsize=8, color=SOFT, linespacing=1.4)
