"""A contact sheet: what a data set looks like, at a glance."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from gaussproto.data.images import LabelledImages

PAPER, INK, LABEL = (250, 249, 246), (28, 30, 38), (90, 95, 110)  # RGB


def contact_sheet(
    images: LabelledImages, alphabets: int = 4, classes: int = 6, drawings: int = 8, scale: int = 2
) -> Image.Image:
    """Some classes of some alphabets, one to a row, with some drawings of each; two alphabets side by side.

    Grey images are printed as ink on paper, colour images as they are.
    """
    names = list(dict.fromkeys(images.alphabets))
    names = names[:: max(1, len(names) // alphabets)][:alphabets]
    blocks = [_block(images, name, classes, drawings, scale) for name in names]
    columns = 1 if len(blocks) == 1 else 2
    width, height = max(b.width for b in blocks), max(b.height for b in blocks)
    rows = -(-len(blocks) // columns)
    sheet = Image.new("RGB", (columns * width, rows * height), PAPER)
    for i, block in enumerate(blocks):
        sheet.paste(block, (i % columns * width, i // columns * height))
    return sheet


def _block(images: LabelledImages, alphabet: str, classes: int, drawings: int, scale: int) -> Image.Image:
    chosen = [c for c in range(images.way) if images.alphabets[c] == alphabet][:classes]
    cell = images.images.shape[-1] * scale
    gap, label = max(2, cell // 14), 22  # pixels
    block = Image.new("RGB", (drawings * (cell + gap) + 4 * gap, len(chosen) * (cell + gap) + label + 4 * gap), PAPER)
    draw = ImageDraw.Draw(block)
    draw.text((2 * gap, 2 * gap), alphabet.replace("_", " "), fill=LABEL, font=ImageFont.load_default(14))
    for row, c in enumerate(chosen):
        for column in range(min(drawings, int(images.counts[c]))):
            picture = _picture(images.images[int(images.starts[c]) + column].numpy())
            place = (2 * gap + column * (cell + gap), label + 2 * gap + row * (cell + gap))
            block.paste(picture.resize((cell, cell), Image.Resampling.BICUBIC), place)
    return block


def _picture(pixels: np.ndarray) -> Image.Image:
    """(channels, H, W) -> a picture; grey ones from paper to ink."""
    if len(pixels) == 3:
        return Image.fromarray(pixels.transpose(1, 2, 0))
    ink = pixels[0, ..., None] / 255
    return Image.fromarray((np.array(PAPER) * (1 - ink) + np.array(INK) * ink).astype(np.uint8))
