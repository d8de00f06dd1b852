"""Explain a prediction: the image, its nearest classes and the weights of their examples."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from gaussproto.errors import visible
from gaussproto.figures.pictures import as_ink
from gaussproto.figures.style import INK, PAPER, RULE, SERIES, SOFT, new_figure, styled

# Lengths are in inches.
MARGIN, GAP = 0.15, 0.1
HEAD, ROW = 0.5, 1.18  # height of the title and of a class
QUERY, EXAMPLE = 1.3, 0.66  # side of the image and of an example
TEXT = 1.95  # width of the text about a class
CAPTION = 0.34  # height of the text under an image
BAR = 0.07  # height of a bar
SHOWN = 8  # places for examples of a class; if it has more, those with the highest and the lowest weights
LONGEST_LABEL, LONGEST_NAME = 21, 11  # characters of a label and of an example's file name


class Example(NamedTuple):
    """One example of a class."""

    name: str  # of its file, or ""
    pixels: np.ndarray | None  # (channels, H, W) uint8, as the network sees it; None if it cannot be read
    weight: float  # its share in the prototype
    trusted: bool = True  # False if it counts for less because it is unlike its class, or like another one


class Neighbour(NamedTuple):
    """A class near the image."""

    label: str
    distance: float
    threshold: float | None  # the distance beyond which an image is far from it
    probability: float
    examples: Sequence[Example]


@styled
def explanation(
    name: str, original: np.ndarray, pixels: np.ndarray, unknown: str | None, neighbours: Sequence[Neighbour]
) -> Figure:
    """Draw the prediction for an image.

    Args:
        name: of the image.
        original: the image as it came, (3, H, W), uint8.
        pixels: the image as the network sees it, (channels, H, W), uint8.
        unknown: why it is unknown, or None.
        neighbours: its nearest classes, the nearest first.
    """
    shown = [_heaviest_and_lightest(neighbour.examples) for neighbour in neighbours]
    slots = max(len(row) for row in shown)
    width = MARGIN + QUERY + 2.5 * GAP + TEXT + slots * (EXAMPLE + GAP) + MARGIN
    height = HEAD + max(len(neighbours) * ROW, 2 * (QUERY + CAPTION)) + MARGIN / 2
    figure = new_figure(width, height, by_hand=True)
    page = figure.add_axes((0, 0, 1, 1))
    page.set(xlim=(0, width), ylim=(height, 0))  # inches from the upper left corner
    page.axis("off")

    answer = f"unknown: {unknown}" if unknown else neighbours[0].label
    _write(page, MARGIN, 0.26, f"{_shortened(name, 40)}:  {_shortened(answer, 50)}", size=11, weight="bold")
    _draw_original(page, original, MARGIN, HEAD, QUERY)
    _write(page, MARGIN, HEAD + QUERY + 0.14, "as it came", size=7.5, colour=SOFT)
    below = HEAD + QUERY + CAPTION
    _draw_picture(page, pixels, MARGIN, below, QUERY)
    _write(page, MARGIN, below + QUERY + 0.14, "as the network sees it", size=7.5, colour=SOFT)
    left = MARGIN + QUERY + 2.5 * GAP
    for i, (neighbour, row) in enumerate(zip(neighbours, shown, strict=True)):
        top = HEAD + i * ROW
        if i:
            page.plot([left, width - MARGIN], [top - 0.08] * 2, color=RULE, lw=0.8)
        _draw_text(page, neighbour, left, top)
        heaviest = max(example.weight for example in neighbour.examples)
        for k, example in enumerate(row):
            _draw_example(page, example, heaviest, left + TEXT + k * (EXAMPLE + GAP), top)
    return figure


def _heaviest_and_lightest(examples: Sequence[Example]) -> list[Example | str]:
    """Sort the examples by weight. If there are many, replace the middle ones by a text."""
    ordered = sorted(examples, key=lambda example: -example.weight)
    if len(ordered) <= SHOWN:
        return [*ordered]
    half = SHOWN // 2
    return [*ordered[:half], f"{len(ordered) - SHOWN + 1}\nmore", *ordered[len(ordered) - half + 1 :]]


def _draw_text(page: Axes, neighbour: Neighbour, x: float, y: float) -> None:
    _write(page, x, y + 0.1, _shortened(neighbour.label, LONGEST_LABEL), weight="bold")
    _write(page, x, y + 0.3, f"distance {neighbour.distance:#.4g}", size=8)
    if neighbour.threshold is not None:
        where = "beyond" if neighbour.distance > neighbour.threshold else "within"
        _write(page, x, y + 0.45, f"{where} its threshold of {neighbour.threshold:#.4g}", size=7.5, colour=SOFT)
    _write(page, x, y + 0.63, f"probability {100 * neighbour.probability:.1f} %", size=8)
    _draw_bar(page, x, y + 0.76, TEXT - 4 * GAP, neighbour.probability, SERIES[0])


def _draw_example(page: Axes, example: Example | str, heaviest: float, x: float, y: float) -> None:
    if isinstance(example, str):
        _write(page, x + EXAMPLE / 2, y + EXAMPLE / 2, example, size=7.5, colour=SOFT, ha="center")
        return
    if example.pixels is None:
        page.add_patch(Rectangle((x, y), EXAMPLE, EXAMPLE, fill=False, edgecolor=SOFT, lw=0.8, ls=(0, (3, 2))))
        text = f"{_shortened(example.name, LONGEST_NAME)}\nmissing" if example.name else "no file"
        _write(page, x + EXAMPLE / 2, y + EXAMPLE / 2, text, size=6.5, colour=SOFT, ha="center")
    else:
        _draw_picture(page, example.pixels, x, y, EXAMPLE)
    _draw_bar(page, x, y + EXAMPLE + 0.1, EXAMPLE, example.weight / heaviest, INK)
    _write(page, x + EXAMPLE / 2, y + EXAMPLE + 0.24, f"{100 * example.weight:.1f} %", size=7.5, ha="center")
    if not example.trusted:
        _write(page, x + EXAMPLE / 2, y + EXAMPLE + 0.36, "little trust", size=6.5, colour=SOFT, ha="center")


def _draw_picture(page: Axes, pixels: np.ndarray, x: float, y: float, side: float) -> None:
    extent = (x, x + side, y + side, y)
    page.imshow(as_ink(pixels, side=112), extent=extent, aspect="auto", interpolation="none", zorder=2)
    page.add_patch(Rectangle((x, y), side, side, fill=False, edgecolor=SOFT, lw=0.8, zorder=3))


def _draw_original(page: Axes, pixels: np.ndarray, x: float, y: float, side: float) -> None:
    """Draw an image in its own colours and aspect, in the middle of a square."""
    H, W = pixels.shape[-2:]
    h, w = side * H / max(H, W), side * W / max(H, W)
    left, top = x + (side - w) / 2, y + (side - h) / 2
    page.imshow(pixels.transpose(1, 2, 0), extent=(left, left + w, top + h, top), aspect="auto", zorder=2)
    page.add_patch(Rectangle((left, top), w, h, fill=False, edgecolor=SOFT, lw=0.8, zorder=3))


def _draw_bar(page: Axes, x: float, y: float, length: float, share: float, colour: str) -> None:
    page.add_patch(Rectangle((x, y), length, BAR, facecolor=PAPER, edgecolor=RULE, lw=0.8))
    page.add_patch(Rectangle((x, y), length * min(1.0, share), BAR, facecolor=colour, lw=0))


def _write(page: Axes, x: float, y: float, text: str, size: float = 9, colour: str = INK, **style: Any) -> None:
    page.text(x, y, visible(text), fontsize=size, color=colour, va="center", **style)


def _shortened(text: str, longest: int) -> str:
    """Return the text on one line. Of a long text, keep the end, where long names usually differ."""
    text = " ".join(text.split())
    return text if len(text) <= longest else "…" + text[1 - longest :]
