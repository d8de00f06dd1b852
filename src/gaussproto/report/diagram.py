"""The whole way of an image through the network: supports, encoder, embedding plane, probabilities."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from gaussproto.report.measure import EpisodeView
from gaussproto.report.pictures import place
from gaussproto.report.space import draw_space
from gaussproto.report.style import INK, RULE, SERIES, SOFT, new_figure, styled


@styled
def network_diagram(view: EpisodeView, outputs: Sequence[int], query: tuple[int, int] = (0, 0)) -> Figure:
    """From real images to a real answer; `outputs` are the channels that each block of the encoder gives."""
    figure = new_figure(11, 4.3, by_hand=True)
    boxes = {"images": (0.0, 0.2), "encoder": (0.215, 0.135), "plane": (0.385, 0.37), "answer": (0.785, 0.205)}
    panels = {name: figure.add_axes((left, 0.04, width, 0.84)) for name, (left, width) in boxes.items()}
    titles = ("support and query images", "encoder", "embedding space", "probability")
    for axes, title in zip(panels.values(), titles, strict=True):
        axes.set_title(title, loc="center")
        axes.grid(False)
        axes.set(xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set_visible(False)
    _images(panels["images"], view, query)
    _encoder(panels["encoder"], view, outputs)
    draw_space(panels["plane"], view, query, pictures=False)
    for spine in panels["plane"].spines.values():
        spine.set(visible=True, color=RULE)
    _answer(panels["answer"], view, query)
    for left in (0.2, 0.35, 0.757):
        arrow = FancyArrowPatch(
            (left, 0.46), (left + 0.03, 0.46), arrowstyle="-|>", mutation_scale=14, color=SOFT, lw=1.5
        )
        arrow.set_transform(figure.transFigure)
        figure.add_artist(arrow)
    return figure


def _images(axes: Axes, view: EpisodeView, query: tuple[int, int]) -> None:
    C, K = view.support.shape[:2]
    axes.set(xlim=(-0.2, max(K, 3) + 0.2), ylim=(-1.55, C + 0.05))
    for c in range(C):
        for k in range(K):
            place(axes, view.support[c, k], (k + 0.5, C - c - 0.5), (0.9, 0.9), SERIES[c % len(SERIES)])
    axes.plot([0, max(K, 3)], [-0.15, -0.15], color=RULE, lw=1)
    place(axes, view.query[query], (0.5, -0.85), (0.9, 0.9), INK)
    axes.text(1.15, -0.85, "a query", va="center", fontsize=8.5, color=SOFT)


def _encoder(axes: Axes, view: EpisodeView, outputs: Sequence[int]) -> None:
    axes.set(xlim=(0, 1), ylim=(0, 1))
    n, top, bottom = len(outputs), 0.97, 0.3
    step = (top - bottom) / n
    for i, channels in enumerate(outputs):
        low = top - (i + 1) * step
        box = FancyBboxPatch((0.12, low + 0.14 * step), 0.76, 0.72 * step, boxstyle="round,pad=0,rounding_size=0.03")
        box.set(facecolor="none", edgecolor=INK, lw=1)
        axes.add_patch(box)
        if i:
            axes.annotate(
                "", (0.5, low + 0.86 * step), (0.5, low + 1.14 * step), arrowprops={"arrowstyle": "->", "color": SOFT}
            )
        words = f"3x3 convolution, {channels}\nbatch norm, ReLU, pool"
        axes.text(0.5, low + step / 2, words, ha="center", va="center", fontsize=6.5, linespacing=1.3)
    D = view.x.shape[-1]
    gives = [f"embedding x, {D} numbers"]
    if view.s is not None:
        E = view.s.shape[-1] if view.s.ndim == 3 else D
        kind = f"{D} x {D} matrix" if view.s.ndim == 4 else "one number" if E == 1 else f"{E} numbers"
        gives.append(f"precision s, {kind}")
    axes.text(0.5, 0.17, "\n".join(gives), ha="center", va="center", fontsize=8, linespacing=1.6)


def _answer(axes: Axes, view: EpisodeView, query: tuple[int, int]) -> None:
    C = len(view.names)
    axes.set(xlim=(-0.34, 1.42), ylim=(-1.55, C + 0.05))
    for c, share in enumerate(view.probabilities[query]):
        y = C - c - 0.5
        width, height = 0.26, 0.9
        place(axes, view.support[c, 0], (-0.18, y), (width, height), SERIES[c % len(SERIES)])
        axes.barh(y, float(share), height=0.5, color=SERIES[c % len(SERIES)])
        axes.text(float(share) + 0.03, y, f"{100 * share:.1f} %", va="center", fontsize=8.5)
    axes.plot([0, 0], [0, C], color=SOFT, lw=0.8)
    right = int(view.probabilities[query].argmax()) == query[0]
    words = "softmax of minus the distances\n" + ("the answer is right" if right else "the answer is wrong")
    axes.text(0.48, -0.85, words, ha="center", va="center", fontsize=8, color=SOFT, linespacing=1.4)
