"""The ways in which people's drawings differ from Omniglot's: each takes a page with bright ink and changes it."""

from __future__ import annotations

import io
import math
from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from PIL import Image, ImageDraw, ImageFilter
from scipy import ndimage

Page = np.ndarray  # (105, 105), uint8
SIDE = 105
Y, X = np.mgrid[:SIDE, :SIDE] / (SIDE - 1) - 0.5


def as_it_is(page: Page, rng: Generator) -> Page:
    return page


def shifted(page: Page, rng: Generator) -> Page:
    """By up to a fifth of the side. Ink that leaves the page is lost."""
    down, across = rng.integers(-21, 22, 2)
    return ndimage.shift(page, (down, across), order=0)


def smaller(share: float) -> Callable[[Page, Generator], Page]:
    def draw(page: Page, rng: Generator) -> Page:
        side = round(share * SIDE)
        small = np.asarray(Image.fromarray(page).resize((side, side), Image.Resampling.BILINEAR))
        placed = np.zeros_like(page)
        top, left = rng.integers(0, SIDE - side + 1, 2)
        placed[top : top + side, left : left + side] = small
        return placed

    return draw


def bolder(disc: int) -> Callable[[Page, Generator], Page]:
    """Draw with a round pen of this diameter along and around the strokes."""

    def draw(page: Page, rng: Generator) -> Page:
        return (255 * (ndimage.distance_transform_edt(page < 128) <= disc / 2)).astype(np.uint8)

    return draw


def thinner(page: Page, rng: Generator) -> Page:
    """The stroke of five pixels becomes one of two to three."""
    return (255 * (ndimage.distance_transform_edt(page >= 128) > 1.2)).astype(np.uint8)


def turned(page: Page, rng: Generator) -> Page:
    """By up to 20 degrees."""
    return np.asarray(Image.fromarray(page).rotate(rng.uniform(-20, 20), Image.Resampling.BILINEAR))


def on_paper(page: Page, rng: Generator, light: np.ndarray | float, depth: float = 0.85, noise: float = 4.0) -> Page:
    grain = rng.normal(0, noise, page.shape)
    return np.clip(light * (1 - depth * page / 255.0) + grain, 0, 255).astype(np.uint8)


def photographed(page: Page, rng: Generator) -> Page:
    """A bolder pen, out of focus, in light from one side, with noise."""
    bold = bolder(int(rng.integers(3, 6)))(page, rng)
    blurred = np.asarray(Image.fromarray(bold).filter(ImageFilter.GaussianBlur(rng.uniform(0.8, 2.0))))
    angle = rng.uniform(0, 2 * math.pi)
    light = rng.uniform(150, 220) * (1 + rng.uniform(0.2, 0.5) * (math.cos(angle) * X + math.sin(angle) * Y))
    return on_paper(blurred, rng, light, depth=rng.uniform(0.6, 0.9), noise=rng.uniform(4, 12))


def lamp(page: Page, rng: Generator) -> Page:
    across, down = rng.uniform(-0.3, 0.3, 2)
    return on_paper(page, rng, 60 + 170 * np.exp(-((X - across) ** 2 + (Y - down) ** 2) / 0.15))


def shadow(page: Page, rng: Generator) -> Page:
    """A shadow with a sharp edge covers a part of the paper."""
    angle, place = rng.uniform(0, 2 * math.pi), rng.uniform(-0.25, 0.25)
    return on_paper(page, rng, np.where(math.cos(angle) * X + math.sin(angle) * Y > place, 110.0, 215.0))


def vignette(page: Page, rng: Generator) -> Page:
    return on_paper(page, rng, 240 * (1 - 0.6 * (X**2 + Y**2)))


def framed(page: Page, rng: Generator) -> Page:
    """A box around the drawing, which may touch it."""
    image = Image.fromarray(page)
    margin, width = int(rng.integers(2, 8)), int(rng.integers(2, 5))
    ImageDraw.Draw(image).rectangle((margin, margin, SIDE - 1 - margin, SIDE - 1 - margin), outline=255, width=width)
    return np.asarray(image)


def in_a_box(page: Page, rng: Generator) -> Page:
    """A smaller drawing in a box that does not touch it."""
    side = int(rng.integers(70, 85))
    small, margin = Image.fromarray(page).resize((side, side), Image.Resampling.BILINEAR), (SIDE - side) // 2
    placed = np.zeros_like(page)
    placed[margin : margin + side, margin : margin + side] = np.asarray(small)
    return framed(placed, rng)


def chalk(page: Page, rng: Generator) -> Page:
    return np.clip(40 + 30 * X + 0.6 * page + rng.normal(0, 6, page.shape), 0, 255).astype(np.uint8)


def dark_paper(page: Page, rng: Generator) -> Page:
    return on_paper(page, rng, 90.0, depth=0.7)


def coloured_paper(page: Page, rng: Generator) -> Page:
    """(105, 105, 3)."""
    paper, ink = rng.integers(140, 256, 3), rng.integers(0, 90, 3)
    share = page[..., None] / 255.0
    return np.clip(paper * (1 - share) + ink * share + rng.normal(0, 4, (*page.shape, 3)), 0, 255).astype(np.uint8)


def lined(page: Page, rng: Generator) -> Page:
    light = np.full(page.shape, 235.0)
    light[int(rng.integers(0, 14)) :: 14] = 170
    return on_paper(page, rng, light)


def squared(page: Page, rng: Generator) -> Page:
    light = np.full(page.shape, 235.0)
    light[int(rng.integers(0, 10)) :: 10] = light[:, int(rng.integers(0, 10)) :: 10] = 180
    return on_paper(page, rng, light)


def at_an_angle(page: Page, rng: Generator) -> Page:
    """Photographed from the side: two corners are nearer."""
    near, far = rng.uniform(-0.0025, 0.0025, 2)
    middle = SIDE / 2
    shift = middle * (near + far) * middle  # keeps the middle in the middle
    coefficients = [1, 0, shift, 0, 1, shift, near, far]
    seen = Image.fromarray(page).transform(
        (SIDE, SIDE), Image.Transform.PERSPECTIVE, coefficients, Image.Resampling.BILINEAR
    )
    return on_paper(np.asarray(seen), rng, 200 + 60 * X)


def on_a_desk(turn: float, sides: int = 4) -> Callable[[Page, Generator], Page]:
    """A white sheet, turned by up to `turn` degrees, on a darker desk, which shows on all sides or on one."""

    def photograph(page: Page, rng: Generator) -> Page:
        """(105, 105, 3)."""
        share = rng.uniform(0.6, 0.85)
        angle, (across, down) = math.radians(rng.uniform(-turn, turn)), rng.uniform(-0.5, 0.5, 2) * (0.95 - share)
        cos, sin = math.cos(angle), math.sin(angle)
        u, v = cos * (X - across) + sin * (Y - down), cos * (Y - down) - sin * (X - across)  # on the sheet
        places = (SIDE - 1) * (np.stack([v, u]) / share + 0.5)
        ink = ndimage.map_coordinates(page / 255.0, places, order=1)[..., None]
        edges = np.stack([u, -u, v, -v])[rng.permutation(4)[:sides]]
        paper = np.clip((share / 2 - edges.max(axis=0)) * SIDE + 0.5, 0, 1)[..., None]
        wood = rng.uniform(80, 180) * np.array([1, rng.uniform(0.6, 0.9), rng.uniform(0.35, 0.8)])
        grain = rng.uniform(0, 40) * ndimage.gaussian_filter(rng.normal(0, 1, page.shape), (0.8, 8))[..., None]
        white = rng.uniform(215, 250) * (1 - rng.uniform(0.6, 0.9) * ink)
        seen = ndimage.gaussian_filter(paper * white + (1 - paper) * (wood + grain), (0.7, 0.7, 0))
        angle = rng.uniform(0, 2 * math.pi)
        light = 1 + rng.uniform(0, 0.3) * (math.cos(angle) * X + math.sin(angle) * Y)
        return np.clip(light[..., None] * seen + rng.normal(0, 4, seen.shape), 0, 255).astype(np.uint8)

    return photograph


def jpeg(page: Page, rng: Generator) -> Page:
    """JPEG of quality 20."""
    buffer = io.BytesIO()
    Image.fromarray(on_paper(page, rng, 235.0)).save(buffer, format="jpeg", quality=20)
    return np.asarray(Image.open(buffer))


def few_pixels(page: Page, rng: Generator) -> Page:
    """28 x 28 pixels, as in the paper's protocol."""
    return np.asarray(Image.fromarray(page).resize((28, 28), Image.Resampling.BILINEAR))


CONDITIONS: dict[str, Callable[[Page, Generator], Page]] = {
    "as it is": as_it_is,
    "shifted by up to a fifth": shifted,
    "57 % of the size, anywhere": smaller(0.57),
    "a third of the size": smaller(1 / 3),
    "thin pen": thinner,
    "bolder pen (7)": bolder(7),
    "bolder still (11)": bolder(11),
    "turned by up to 20 degrees": turned,
    "28 x 28 pixels": few_pixels,
    "photographed": photographed,
    "photographed at an angle": at_an_angle,
    "under a lamp": lamp,
    "in a shadow": shadow,
    "vignette": vignette,
    "framed by a box": framed,
    "smaller, in a box": in_a_box,
    "dark paper": dark_paper,
    "coloured paper": coloured_paper,
    "chalk on a board": chalk,
    "lined paper": lined,
    "squared paper": squared,
    "JPEG of quality 20": jpeg,
    "sheet on a desk": on_a_desk(turn=1),
    "sheet on a desk, turned by up to 15 degrees": on_a_desk(turn=15),
    "desk on one side of the sheet": on_a_desk(turn=4, sides=1),
}
