"""How an image becomes the pixels that a network sees, and which traits images have. Imports no torch."""

from typing import NamedTuple

import numpy as np
from PIL import Image

from gaussproto.data.desk import find_sheet, with_paper_around
from gaussproto.data.ink import WORK, even_contrast, find_ink, prepare_or_resize, reduced_grey
from gaussproto.data.picture import resize, with_bright_ink
from gaussproto.setting_types import Ink, Prepare

COLOURS = 6.0  # grey levels: the spread of colours above which an image is not a drawing in one ink on one paper
GROUND = 0.55  # of the pixels: a drawing leaves at least this share of its paper free
FILLS, SOLID = 0.97, 0.15  # of the image's side and of its pixels: a drawing does not exceed both
FREE = 0.2  # of the strongest contrast: paper differs from its surroundings by less


class Look(NamedTuple):
    """The pixels that a network expects."""

    size: int = 28  # side in pixels
    channels: int = 1  # 1 grey, 3 colour
    ink: Ink = "bright"  # of the images that users pass
    prepare: Prepare = "none"

    @property
    def needs(self) -> int:
        """Side in pixels that an image should have: the decoder may reduce a larger one."""
        return max(self.size, WORK if self.prepare == "ink" else 0)

    def see(self, image: Image.Image) -> tuple[np.ndarray, bool]:
        """Return the pixels (channels, size, size), uint8, and whether the image is blank. Only drawings can be."""
        if self.prepare == "ink":
            pixels, found = prepare_or_resize(reduced_grey(image), self.size, self.ink)
            return pixels[None], not found
        pixels = resize(image, self.size, self.channels, crop=self.prepare == "crop")
        pixels = pixels.reshape(1, self.channels, self.size, self.size)
        return with_bright_ink(pixels, self.ink)[0], False


class Traits(NamedTuple):
    """What an image looks like, whatever network sees it."""

    dark: bool  # ink on a light ground
    ink_share: float  # of the pixels
    ink_size: float  # longer side of the ink, as a share of the image's
    ground: float  # share of the pixels that hold no ink, in even light
    colours: float  # spread of the colours, in grey levels
    side: int  # the shorter one, in pixels

    @property
    def is_drawing(self) -> bool:
        fills = self.ink_size > FILLS and self.ink_share > SOLID
        return self.colours < COLOURS and self.ground >= GROUND and not fills


def traits_of(image: Image.Image) -> Traits:
    grey = reduced_grey(image)
    sheet = find_sheet(grey)
    if sheet is not None:
        grey = with_paper_around(grey, sheet)
    contrast, noise = even_contrast(grey)
    found = find_ink(contrast, noise)
    ink_share = ink_size = 0.0
    if found is not None:
        ink, (left, top, right, bottom) = found
        ink_share = float(ink.mean()) / 255
        ink_size = max(right - left, bottom - top) / max(grey.shape)
    ground = float((contrast <= FREE * contrast.max()).mean())
    dark = bool(np.median(grey) > grey.mean())
    return Traits(dark, ink_share, ink_size, ground, _spread_of_colours(image, sheet), min(image.size))


def _spread_of_colours(image: Image.Image, sheet: np.ndarray | None) -> float:
    """Return how far colours are from a line, on which grey images lie, and one ink on one paper in even light."""
    if image.mode in ("1", "L", "LA"):
        return 0.0
    pixels = np.asarray(image.convert("RGB").resize((32, 32), Image.Resampling.BOX), dtype=np.float64)
    shown = np.ones((32, 32), dtype=bool)
    if sheet is not None:
        shown = np.asarray(Image.fromarray(sheet).convert("L").resize((32, 32), Image.Resampling.BOX)) == 255
    *off_the_line, _ = np.linalg.eigvalsh(np.cov(pixels[shown].T))
    return float(np.sqrt(max(0.0, sum(off_the_line))))
