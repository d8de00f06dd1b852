"""Images in figures and on the page, and the figure of a character and its rotations."""

from __future__ import annotations

import base64
import io

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from gaussproto.report.style import INK, RULE, new_figure, styled

SIDE = 56  # pixels of an image in a figure: twice the paper's 28, so that what a viewer smooths is already smooth


def ink(pixels: np.ndarray, colour: str = INK, side: int = SIDE) -> np.ndarray:
    """An image (channels, H, W), uint8, as (side, side, 4): a grey one as ink on nothing, a colour one as it is."""
    size = (side, side)
    if len(pixels) == 3:
        image = Image.fromarray(pixels.transpose(1, 2, 0)).resize(size, Image.Resampling.BICUBIC)
        return np.dstack([np.asarray(image), np.full(size, 255, dtype=np.uint8)])
    alpha = np.asarray(Image.fromarray(pixels[0]).resize(size, Image.Resampling.BICUBIC))
    solid = np.broadcast_to((255 * np.array(to_rgb(colour))).round().astype(np.uint8), (*alpha.shape, 3))
    return np.dstack([solid, alpha])


def png_address(pixels: np.ndarray) -> str:
    """An image as an address that holds the picture itself; a grey one as ink on white paper."""
    image = Image.fromarray(255 - pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0))
    image.thumbnail((64, 64))  # pixels; no page shows it larger
    buffer = io.BytesIO()
    image.save(buffer, format="png", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def place(
    axes: Axes, pixels: np.ndarray, middle: tuple[float, float], size: tuple[float, float], colour: str = INK
) -> None:
    """Put an image into axes, around a point; the limits of the axes stay."""
    limits = axes.get_xlim(), axes.get_ylim()
    (x, y), (w, h) = middle, size
    extent = (x - w / 2, x + w / 2, y - h / 2, y + h / 2)
    axes.imshow(ink(pixels, colour), extent=extent, aspect="auto", interpolation="none", zorder=3)
    axes.set_xlim(limits[0])
    axes.set_ylim(limits[1])


@styled
def rotations(pixels: np.ndarray) -> Figure:
    """An image (channels, H, W), uint8, and its three rotations."""
    figure = new_figure(5.2, 1.6)
    for turn, axes in enumerate(figure.subplots(1, 4)):
        axes.imshow(np.rot90(ink(pixels, side=2 * SIDE), turn), interpolation="none")
        axes.set_title(f"turned by {90 * turn}°" if turn else "the character", fontweight="normal", loc="center")
        axes.set(xticks=[], yticks=[])
        axes.grid(False)
        for spine in axes.spines.values():
            spine.set(visible=True, color=RULE)
    return figure
