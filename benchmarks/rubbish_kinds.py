"""Rubbish that ends up among people's images: pages without a character, noise, patterns, text and scribbles."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from PIL import Image, ImageDraw, ImageFont
from scipy import ndimage

SIDE = 105
Y, X = np.mgrid[:SIDE, :SIDE] / (SIDE - 1) - 0.5
WORDS = ["the", "of", "and", "to", "in", "is", "that", "for", "with", "was", "on", "from", "which", "but", "are"]


def _grey(levels: np.ndarray) -> np.ndarray:
    return np.clip(levels, 0, 255).astype(np.uint8)


def _light(rng: Generator) -> np.ndarray:
    """Return paper in light from one side."""
    angle = rng.uniform(0, 2 * math.pi)
    return rng.uniform(190, 250) * (1 + rng.uniform(0, 0.3) * (math.cos(angle) * X + math.sin(angle) * Y))


def blank(rng: Generator) -> np.ndarray:
    """Paper of one brightness, or with grain, in light from one side."""
    if rng.random() < 0.3:
        return np.full((SIDE, SIDE), rng.integers(0, 256), dtype=np.uint8)
    return _grey(_light(rng) + rng.normal(0, rng.uniform(0, 8), (SIDE, SIDE)))


def specks(rng: Generator) -> np.ndarray:
    """Paper with 1 to 12 dark specks of up to four pixels."""
    page = np.full((SIDE, SIDE), 255.0) if rng.random() < 0.5 else _light(rng) + rng.normal(0, 3, (SIDE, SIDE))
    for _ in range(rng.integers(1, 13)):
        down, across = rng.integers(2, SIDE - 4, 2)
        height, width = rng.integers(1, 5, 2)
        page[down : down + height, across : across + width] = rng.integers(0, 90)
    return _grey(page)


def noise(rng: Generator) -> np.ndarray:
    """Every pixel, or every square of some pixels, is independent of the others."""
    cell = int(rng.integers(1, 6))
    n = -(-SIDE // cell)
    levels = rng.integers(0, 256, (n, n)) if rng.random() < 0.5 else 255 * (rng.random((n, n)) < rng.uniform(0.05, 0.6))
    return _grey(np.kron(levels, np.ones((cell, cell)))[:SIDE, :SIDE])


def gradient(rng: Generator) -> np.ndarray:
    """Light that changes smoothly across the page, or around a lamp."""
    angle, place = rng.uniform(0, 2 * math.pi), rng.uniform(-0.3, 0.3, 2)
    across = math.cos(angle) * X + math.sin(angle) * Y
    lamp = np.exp(-((X - place[0]) ** 2 + (Y - place[1]) ** 2) / rng.uniform(0.02, 0.2))
    return _grey(128 + rng.uniform(60, 180) * (across if rng.random() < 0.5 else lamp - 0.5))


def checkerboard(rng: Generator) -> np.ndarray:
    """Squares or stripes of one width, perhaps turned."""
    cell, angle = rng.uniform(0.04, 0.25), rng.uniform(0, math.pi / 2) * (rng.random() < 0.5)
    u, v = math.cos(angle) * X + math.sin(angle) * Y, math.cos(angle) * Y - math.sin(angle) * X
    squares = np.floor(u / cell) + (np.floor(v / cell) if rng.random() < 0.7 else 0)
    return _grey(255 * (squares % 2))


def text(rng: Generator) -> np.ndarray:
    """Three to seven lines of printed text."""
    lines = int(rng.integers(3, 8))
    size = 3 * SIDE
    image = Image.new("L", (size, size), 255)
    font = ImageFont.load_default(0.7 * size / lines)
    for i in range(lines):
        ImageDraw.Draw(image).text((4, i * size / lines), " ".join(rng.choice(WORDS, 9)), fill=0, font=font)
    return np.asarray(image)


def scribble(rng: Generator) -> np.ndarray:
    """A pen that wanders over the page and crosses its line many times."""
    points = ndimage.gaussian_filter1d(rng.normal(size=(int(rng.integers(150, 500)), 2)), 3, axis=0)
    points = (points - points.min(axis=0)) / np.ptp(points, axis=0)
    image = Image.new("L", (SIDE, SIDE), 255)
    ImageDraw.Draw(image).line([tuple(8 + (SIDE - 16) * p) for p in points], fill=0, width=int(rng.integers(2, 5)))
    return np.asarray(image)


def stain(rng: Generator) -> np.ndarray:
    """A solid spot with a smooth, uneven border."""
    field = ndimage.gaussian_filter(rng.normal(size=(SIDE, SIDE)), rng.uniform(5, 10))
    field = field / field.std() - rng.uniform(8, 20) * (X**2 + Y**2)
    return _grey(np.where(field > np.quantile(field, rng.uniform(0.75, 0.95)), rng.integers(0, 80), 250))


KINDS: dict[str, Callable[[Generator], np.ndarray]] = {
    "blank page": blank,
    "specks": specks,
    "noise": noise,
    "gradient": gradient,
    "checkerboard, stripes": checkerboard,
    "lines of text": text,
    "scribbles": scribble,
    "stains": stain,
}
