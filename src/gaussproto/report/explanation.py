"""Why an image got its class: the image, the nearest classes, and what each of their examples counted for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from gaussproto.report.pictures import ink
from gaussproto.report.style import INK, PAPER, RULE, SERIES, SOFT, new_figure, styled

# All in inches.
MARGIN, QUERY, WORDS, SIDE, GAP, ROW, HEAD = 0.15, 1.3, 1.95, 0.66, 0.1, 1.18, 0.5
BAR = 0.07
MOST = 8  # examples of a class in a row; of more, the heaviest and the lightest
LETTERS, NAME_LETTERS = 21, 11  # of a label and under an example


@dataclass(frozen=True)
class Example:
    """One example of a class."""

    name: str  # of its file, if it has one
    pixels: np.ndarray | None  # (channels, H, W) uint8 as the network sees it; None if it is no longer there
    weight: float  # its share in the prototype


@dataclass(frozen=True)
class Neighbour:
    """A class near the image."""

    label: str
    distance: float
    limit: float | None  # the distance beyond which an image is far from it
    probability: float
    examples: Sequence[Example]


@styled
def explanation(name: str, pixels: np.ndarray, unknown: bool, neighbours: Sequence[Neighbour]) -> Figure:
    """The picture of one answer.

    Args:
        name: of the image.
        pixels: (channels, H, W), uint8, as the network sees it.
        unknown: whether it is far from every class.
        neighbours: the nearest classes, the nearest first.
    """
    shown = [_some(neighbour.examples) for neighbour in neighbours]
    slots = max(len(row) for row in shown)
    width = MARGIN + QUERY + 2.5 * GAP + WORDS + slots * (SIDE + GAP) + MARGIN
    height = HEAD + max(len(neighbours) * ROW, QUERY + 0.3) + MARGIN / 2
    figure = new_figure(width, height, by_hand=True)
    page = figure.add_axes((0, 0, 1, 1))
    page.set(xlim=(0, width), ylim=(height, 0))  # inches from the upper left corner
    page.axis("off")

    nearest = neighbours[0]
    answer = "unknown: far from every class" if unknown else nearest.label
    _write(page, MARGIN, 0.26, f"{_cut(name, 40)}:  {_cut(answer, 40)}", size=11, weight="bold")
    _picture(page, pixels, MARGIN, HEAD, QUERY)
    _write(page, MARGIN, HEAD + QUERY + 0.15, "as the network sees it", size=7.5, colour=SOFT)
    left = MARGIN + QUERY + 2.5 * GAP
    for i, (neighbour, row) in enumerate(zip(neighbours, shown, strict=True)):
        top = HEAD + i * ROW
        if i:
            page.plot([left, width - MARGIN], [top - 0.08] * 2, color=RULE, lw=0.8)
        _words(page, neighbour, left, top)
        heaviest = max(example.weight for example in neighbour.examples)
        for k, example in enumerate(row):
            _slot(page, example, heaviest, left + WORDS + k * (SIDE + GAP), top)
    return figure


def _some(examples: Sequence[Example]) -> list[Example | str]:
    """The examples by weight; of many, the middle ones are a word."""
    ordered = sorted(examples, key=lambda example: -example.weight)
    if len(ordered) <= MOST:
        return [*ordered]
    half = MOST // 2
    return [*ordered[:half], f"{len(ordered) - MOST + 1}\nmore", *ordered[len(ordered) - half + 1 :]]


def _words(page: Axes, neighbour: Neighbour, x: float, y: float) -> None:
    """Name, distance, probability with a bar."""
    far = neighbour.limit is not None and neighbour.distance > neighbour.limit
    _write(page, x, y + 0.1, _cut(neighbour.label, LETTERS), weight="bold")
    _write(page, x, y + 0.3, f"distance {neighbour.distance:.4g}", size=8)
    if neighbour.limit is not None:
        words = f"{'beyond' if far else 'within'} its limit of {neighbour.limit:.4g}"
        _write(page, x, y + 0.45, words, size=7.5, colour=SOFT)
    _write(page, x, y + 0.63, f"probability {100 * neighbour.probability:.1f} %", size=8)
    _bar(page, x, y + 0.76, WORDS - 4 * GAP, neighbour.probability, SERIES[0])


def _slot(page: Axes, example: Example | str, heaviest: float, x: float, y: float) -> None:
    """One example, and under it a bar as long as its weight."""
    if isinstance(example, str):
        _write(page, x + SIDE / 2, y + SIDE / 2, example, size=7.5, colour=SOFT, across="center")
        return
    if example.pixels is None:
        page.add_patch(Rectangle((x, y), SIDE, SIDE, fill=False, edgecolor=SOFT, lw=0.8, ls=(0, (3, 2))))
        words = f"{_cut(example.name, NAME_LETTERS)}\nis gone" if example.name else "not a file"
        _write(page, x + SIDE / 2, y + SIDE / 2, words, size=6.5, colour=SOFT, across="center")
    else:
        _picture(page, example.pixels, x, y, SIDE)
    _bar(page, x, y + SIDE + 0.1, SIDE, example.weight / heaviest, INK)
    _write(page, x + SIDE / 2, y + SIDE + 0.24, f"{100 * example.weight:.1f} %", size=7.5, across="center")


def _picture(page: Axes, pixels: np.ndarray, x: float, y: float, side: float) -> None:
    limits = page.get_xlim(), page.get_ylim()
    page.imshow(ink(pixels, side=112), extent=(x, x + side, y + side, y), aspect="auto", interpolation="none", zorder=2)
    page.add_patch(Rectangle((x, y), side, side, fill=False, edgecolor=SOFT, lw=0.8, zorder=3))
    page.set(xlim=limits[0], ylim=limits[1])  # `imshow` moves them


def _bar(page: Axes, x: float, y: float, length: float, share: float, colour: str) -> None:
    page.add_patch(Rectangle((x, y), length, BAR, facecolor=PAPER, edgecolor=RULE, lw=0.8))
    page.add_patch(Rectangle((x, y), length * min(1.0, share), BAR, facecolor=colour, lw=0))


def _write(
    page: Axes, x: float, y: float, words: str, size: float = 9, weight: str = "normal", colour: str = INK,
    across: str = "left",
) -> None:  # fmt: skip
    page.text(x, y, words, fontsize=size, fontweight=weight, color=colour, ha=across, va="center")


def _cut(text: str, letters: int) -> str:
    """The end of a long name tells more than its beginning."""
    text = " ".join(text.split())
    return text if len(text) <= letters else "…" + text[1 - letters :]
