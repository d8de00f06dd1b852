"""Wrong answers as pictures: the image, the right example and the example that was chosen."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from gaussproto.figures.pictures import place
from gaussproto.figures.style import SOFT, clear, new_figure, styled

ACROSS, MOST = 4, 40  # mistakes side by side, and in all
TITLES = ("image", "right", "chosen")
CELL, PICTURE, WIDTH = 0.72, 0.6, 2.3  # inches: from picture to picture, a picture, a mistake
HEIGHT, ABOVE = 1.05, 0.14  # inches: a row of mistakes, and from a picture to its title


@styled
def draw_mistakes(mistakes: Sequence[tuple[str, np.ndarray, np.ndarray, np.ndarray]]) -> Figure:
    """Draw each mistake: its title, the image, the right example and the chosen one, (channels, H, W), uint8.

    At most 40 are drawn. One axes holds them all, because laying out many takes minutes.
    """
    rows = max(1, -(-min(len(mistakes), MOST) // ACROSS))
    width, height = ACROSS * WIDTH, rows * HEIGHT + 0.25
    figure = new_figure(width, height, by_hand=True)
    axes = figure.add_axes((0, 0, 1, 1))
    for number, (title, *pictures) in enumerate(mistakes[:MOST]):
        left, top = number % ACROSS * WIDTH + 0.08, height - number // ACROSS * HEIGHT - 0.25
        axes.text(left, top, title, fontsize=8.5)
        middle = top - ABOVE / 2 - PICTURE / 2
        for i, (name, pixels) in enumerate(zip(TITLES, pictures, strict=True)):
            x = left + i * CELL + PICTURE / 2
            place(axes, pixels, (x, middle), (PICTURE, PICTURE))
            axes.text(x, middle - PICTURE / 2 - 0.02, name, fontsize=7.5, color=SOFT, ha="center", va="top")
    if len(mistakes) > MOST:
        axes.text(width - 0.08, 0.05, f"and {len(mistakes) - MOST} more", fontsize=8.5, ha="right")
    if not mistakes:
        axes.text(width / 2, height / 2, "no mistakes", ha="center")
    axes.set(xlim=(0, width), ylim=(0, height))
    clear(axes, frame=False)
    return figure
