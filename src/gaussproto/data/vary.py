"""Vary drawings as people's own vary: other pens, slants and views, light, blur, noise, cuts and few pixels.

A network that learns from these variants, prepared like every drawing, also recognises bold markers and photographs.
"""

import math

import numpy as np
from PIL import Image, ImageFilter
from scipy import ndimage

from gaussproto.data.ink import even_contrast, find_ink, prepare_ink, reduced

SIDE, LONGER = 128, 80  # pixels: the page, and the longer side of the ink on it; a pen of Omniglot is 5 pixels wide
TURN, STRETCH, SLANT, VIEW = 0.17, 0.1, 0.1, 4e-4  # standard deviations: radians, logarithm, tangent, perspective
THINNER, BOLDER = (-1.3, -0.3), (0.5, 7.5)  # pixels that are added to each side of a stroke
LIGHT, FALLOFF, SPOT = (110.0, 240.0), 0.6, (0.0, 0.6)  # grey levels, share from edge to edge, share of a lamp's spot
DEPTH, BLUR, GRAIN = (0.35, 0.95), (0.4, 2.2), (1.0, 14.0)  # share of the light, pixels, grey levels


def variants_of(grey: np.ndarray, size: int, count: int, seed: int) -> np.ndarray:
    """Return `count` prepared variants of the drawing in a grey image, (count, size, size), uint8.

    Args:
        grey: (H, W), uint8.
        size: side of the prepared images.
        count: number of variants.
        seed: the same seed gives the same variants.
    """
    rng = np.random.default_rng(seed)
    found = find_ink(*even_contrast(reduced(grey)))
    pages = np.zeros((count, size, size), dtype=np.uint8)
    if found is None:
        return pages
    ink, box = found
    drawing = Image.fromarray(ink).crop(box)
    for page in pages:
        prepared = prepare_ink(vary(drawing, rng), size)
        if prepared is not None:
            page[:] = prepared
    return pages


def vary(drawing: Image.Image, rng: np.random.Generator) -> np.ndarray:
    """Return a page with another version of a drawing, cropped to its bright ink: (SIDE, SIDE) or smaller, uint8."""
    page = with_other_pen(_on_page(drawing, rng), rng)
    if rng.random() < 0.25:
        page = _cut(page, rng)
    if rng.random() < 0.4:
        page = photographed(page, rng)
    if rng.random() < 0.3:
        few = round(math.exp(rng.uniform(math.log(9), math.log(64))))
        page = np.asarray(Image.fromarray(page).resize((few, few), Image.Resampling.BOX))
    return page


def _on_page(drawing: Image.Image, rng: np.random.Generator) -> np.ndarray:
    """Turn, stretch, slant and view the drawing a little from the side, on a page with bright ink."""
    scale = max(drawing.size) / LONGER
    turn, across, down, slant = rng.normal(0, (TURN, STRETCH, STRETCH, SLANT))
    cos, sin = math.cos(turn), math.sin(turn)
    stretch = np.array([[math.exp(across), slant], [0, math.exp(down)]])
    linear = scale * np.array([[cos, -sin], [sin, cos]]) @ stretch
    view = rng.normal(0, VIEW, 2)
    # From the page to the drawing: the centre stays in the centre.
    centre, middle = np.array(drawing.size) / 2, np.full(2, SIDE / 2)
    depth = 1 + view @ middle
    shift = depth * centre - linear @ middle
    coefficients = [*np.c_[linear, shift].ravel().tolist(), *view.tolist()]
    page = drawing.transform((SIDE, SIDE), Image.Transform.PERSPECTIVE, coefficients, Image.Resampling.BILINEAR)
    return np.asarray(page)


def with_other_pen(page: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw the strokes bolder (half of the pages) or thinner (a tenth)."""
    kind = rng.random()
    if kind < 0.5:
        reach = ndimage.distance_transform_edt(page < 128) - 1
        return np.asarray(255 * np.clip(rng.uniform(*BOLDER) - reach, 0, 1), dtype=np.uint8)
    if kind < 0.6:
        depth = ndimage.distance_transform_edt(page >= 128)
        return np.asarray(255 * np.clip(rng.uniform(*THINNER) + depth, 0, 1), dtype=np.uint8)
    return page


def _cut(page: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Move up to a seventh of the ink over an edge of the page, or of two."""
    rows, columns = np.flatnonzero(page.any(axis=1)), np.flatnonzero(page.any(axis=0))
    if not len(rows):
        return page
    for axis, filled in ((0, rows), (1, columns)):
        if rng.random() < 0.6:
            lost = round(rng.uniform(0, (filled[-1] - filled[0]) / 7))
            first = rng.random() < 0.5
            kept = slice(int(filled[0]) + lost, None) if first else slice(None, int(filled[-1]) + 1 - lost)
            page = page[kept] if axis == 0 else page[:, kept]
    return page


def photographed(page: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Photograph bright ink as dark ink on paper: blurred, in uneven light, with noise."""
    H, W = page.shape
    blurred = Image.fromarray(page).filter(ImageFilter.GaussianBlur(rng.uniform(*BLUR)))
    ink = np.asarray(blurred, dtype=np.float32) / 255
    y, x = np.linspace(-0.5, 0.5, H, dtype=np.float32)[:, None], np.linspace(-0.5, 0.5, W, dtype=np.float32)
    angle, (across, down) = rng.uniform(0, 2 * math.pi), rng.uniform(-0.4, 0.4, 2)
    light = 1 + rng.uniform(0, FALLOFF) * (math.cos(angle) * x + math.sin(angle) * y)
    light = light + rng.uniform(*SPOT) * np.exp(-((x - across) ** 2 + (y - down) ** 2) / 0.15)
    light *= rng.uniform(*LIGHT) / light.max()
    grain = np.float32(rng.uniform(*GRAIN)) * rng.standard_normal(page.shape, dtype=np.float32)
    return np.asarray(np.clip(light * (1 - rng.uniform(*DEPTH) * ink) + grain, 0, 255), dtype=np.uint8)
