"""From the bytes of an image file to what a network sees, and to small PNG files for the page."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import NamedTuple, TypeVar

import numpy as np
from PIL import Image

from gaussproto.data.look import Look
from gaussproto.data.picture import large_area, open_image, read_image
from gaussproto.errors import InputError

T = TypeVar("T")

MOST_PIXELS = 100_000_000  # of the large images of a request together
# Every thread that has decoded a large image keeps its memory, so one thread decodes them all, one after the other.
LARGE_IMAGES = ThreadPoolExecutor(1, "large")
LEAST = 3  # pixels a side that the strongest damage leaves


class Prepared(NamedTuple):
    """Images as a network sees them, (N, channels, size, size), uint8, and whether each is blank (N,)."""

    pixels: np.ndarray
    blank: np.ndarray


def prepare(images: list[tuple[str, bytes, float]], look: Look) -> Prepared:
    """Decode and prepare images, each with a name and its damage. Raise InputError that names an unreadable one."""
    found = sum(large_area(content, name, look.needs) for name, content, _ in images)
    if found > MOST_PIXELS:
        most = f"at most {MOST_PIXELS:,} pixels together (found {found:,})"
        raise InputError(f"the large images of a request must have {most}: send fewer at once, or reduce them")
    seen = [_see(content, name, look, damage) for name, content, damage in images]
    return Prepared(np.stack([pixels for pixels, _ in seen]), np.array([blank for _, blank in seen]))


def given_png(content: bytes, name: str, damage: float, size: int, look: Look) -> bytes:
    """Return an image as it came, with its damage, as a PNG file of at most size x size pixels."""

    def reduce(picture: Image.Image) -> np.ndarray:
        picture = picture.convert("RGB")
        picture.thumbnail((size, size), reducing_gap=2)
        return np.asarray(picture).transpose(2, 0, 1)

    pixels = _read(content, name, reduce, size)
    return _png(_damaged(pixels, damage, look.size))


def seen_png(content: bytes, name: str, damage: float, look: Look) -> bytes:
    """Return an image as the network sees it, as a PNG file."""
    return _png(_see(content, name, look, damage)[0])


def whole_png(content: bytes, name: str) -> bytes:
    """Return an image without loss as a PNG file. A PNG file stays as it is."""
    if content.startswith(b"\x89PNG"):
        return content
    return LARGE_IMAGES.submit(lambda: _encoded(open_image(content, name))).result()


def _read(content: bytes, name: str, convert: Callable[[Image.Image], T], size: int) -> T:
    """Decode an image, in the thread for large ones if it is large."""
    found = read_image(content, name, convert, size, large=False)
    if found is None:
        found = LARGE_IMAGES.submit(read_image, content, name, convert, size).result()
    assert found is not None
    return found


def _see(content: bytes, name: str, look: Look, damage: float) -> tuple[np.ndarray, bool]:
    pixels, blank = _read(content, name, look.see, look.needs)
    return _damaged(pixels, damage, look.size), blank


def _damaged(pixels: np.ndarray, damage: float, side: int) -> np.ndarray:
    """Down-sample pixels (channels, H, W) and enlarge them again, as in training.

    `damage` is from 0 (none) to 1 (to LEAST x LEAST pixels); `side` is that of the network's images.
    """
    n = round(side * (LEAST / side) ** damage)
    if not damage or n >= side:
        return pixels
    import torch

    from gaussproto.data.damage import down_sample

    damaged = down_sample(torch.tensor(pixels[None], dtype=torch.float32), n)[0]
    return np.asarray(damaged.round().clamp(0, 255).byte().numpy())


def _png(pixels: np.ndarray) -> bytes:
    return _encoded(Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)))


def _encoded(image: Image.Image) -> bytes:
    file = BytesIO()
    image.save(file, "PNG")
    return file.getvalue()
