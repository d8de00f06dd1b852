"""Images in figures and in the report, and the figure of a character with its rotations."""

import base64
import io
from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from gaussproto.figures.style import INK, clear, new_figure, styled

SIDE = 56  # pixels of an image in a figure: twice the paper's 28, so that it looks smooth in every viewer


def as_ink(pixels: np.ndarray, colour: str = INK, side: int = SIDE) -> np.ndarray:
    """Convert an image (channels, H, W), uint8, to RGBA (side, side, 4). Grey becomes ink on a transparent ground."""
    image = Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
    image = image.resize((side, side), Image.Resampling.BICUBIC)
    if len(pixels) == 1:
        alpha, image = image, Image.new("RGB", image.size, colour)
        image.putalpha(alpha)
    return np.asarray(image.convert("RGBA"))


def data_url(pixels: np.ndarray) -> str:
    """Convert an image to a data URL. Grey becomes dark ink on white."""
    image = Image.fromarray(255 - pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
    image.thumbnail((64, 64))  # no page shows it larger
    buffer = io.BytesIO()
    image.save(buffer, format="png", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def place(axes: Axes, pixels: np.ndarray, middle: Iterable[float], size: Iterable[float], colour: str = INK) -> None:
    (x, y), (w, h) = middle, size
    extent = (x - w / 2, x + w / 2, y - h / 2, y + h / 2)
    axes.imshow(as_ink(pixels, colour), extent=extent, aspect="auto", interpolation="none", zorder=3)


@styled
def rotations(pixels: np.ndarray) -> Figure:
    """Draw an image (channels, H, W), uint8, and its three rotations."""
    figure = new_figure(5.2, 1.6)
    for turn, axes in enumerate(figure.subplots(1, 4)):
        axes.imshow(np.rot90(as_ink(pixels, side=2 * SIDE), turn), interpolation="none")
        axes.set_title(f"rotated by {90 * turn}°" if turn else "original", fontweight="normal", loc="center")
        clear(axes, frame=True)
    return figure
