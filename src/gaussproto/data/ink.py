"""Prepare drawings: find the ink in an image and draw it bright, centred and in one size. Imports no torch.

    grey image → even light → ink → without specks and frame → crop → longer side of 22 of 28 pixels, in the centre

Training and use share this code, so a network sees a user's drawing as it saw the drawings that it learned from.
"""

from functools import lru_cache

import numpy as np
from PIL import Image
from scipy import ndimage

from gaussproto.data.desk import without_desk
from gaussproto.setting_types import Ink

BOX = 22 / 28  # the longer side of the ink, as a share of the side of the prepared image
WORK = 160  # pixels; larger images are reduced to this longer side before the ink is looked for
FAINTEST = 12  # grey levels between ink and ground; anything fainter is not ink
NOISE = 5.0  # standard deviations of the ground: anything closer is not ink
TINY = 32  # pixels: in a smaller image, steps between neighbours are strokes, not noise, and light is even
GRAIN = 3.0  # grey levels: an image with more noise is smoothed first
WEAKEST = 0.33  # as a share of the contrast of the strongest ink: anything weaker is ruled paper or a shadow
EVEN, EVEN_PHOTO = 0.8, 0.95  # share of the variance that ink and ground explain under even light, by noise
LARGEST_SHAPE = 0.3  # of a noisy image: anything larger that differs from the rest is a shadow
CELLS = 26  # along the longer side of the coarse image in which the light is estimated
WINDOW = 9  # cells; the ground is visible somewhere in every window of this size
SHARP = 0.35  # of the contrast of the strongest ink: its edges are at least this steep, over three pixels
CLEAR = 90  # grey levels between ink and ground: light leaves less behind, so this is ink, however blurred
SHADE = 0.6  # of the contrast of the strongest ink: anything weaker at the edge of a noisy image is a shadow
SPECK, SMALLEST = 0.015, 3e-4  # of all ink, and of a noisy image: anything smaller is a speck
FAINT = 128  # brightness below which thin strokes are drawn brighter
SPANS = 0.7  # of the image's side: a shorter line is not part of a frame
RIM = 0.16  # of a frame's sides: its lines lie within this distance from its edges
TOUCHING = 0.12  # of the image's sides: a frame that touches the drawing is no farther from the edge
LUMINANCE = np.array([0.299, 0.587, 0.114])  # of red, green and blue, as in Pillow
COLOURFUL, EQUAL = 8.0, 0.15  # levels, and share of the spread of colours: the brightness spreads by less
EIGHT = np.ones((3, 3), dtype=bool)  # neighbours of a pixel


def prepare_ink(grey: np.ndarray, size: int, ink: Ink = "detect") -> np.ndarray | None:
    """Return the drawing in a grey image (H, W), prepared for a network: (size, size), uint8. None if it is blank."""
    grey = reduced(grey)
    found = find_ink(*even_contrast(grey if ink == "bright" else without_desk(grey), ink))
    return None if found is None else centred(*found, size)


def prepare_or_resize(grey: np.ndarray, size: int, ink: Ink = "detect") -> tuple[np.ndarray, bool]:
    """Return the prepared drawing and True, or if the image is blank, the whole image resized, and False."""
    prepared = prepare_ink(grey, size, ink)
    if prepared is not None:
        return prepared, True
    return np.asarray(Image.fromarray(grey).resize((size, size), Image.Resampling.BILINEAR)), False


def reduced(grey: np.ndarray) -> np.ndarray:
    return grey if max(grey.shape) <= WORK else reduced_grey(Image.fromarray(grey))


def reduced_grey(image: Image.Image) -> np.ndarray:
    """Return a grey image, reduced if it is large. Every pixel counts, so thin strokes get fainter but stay."""
    direction = _direction_of_contrast(image)
    image = image.convert("L" if direction is None else "RGB")
    scale = WORK / max(image.size)
    if scale < 1:
        W, H = image.size
        image = image.resize((max(1, round(W * scale)), max(1, round(H * scale))), Image.Resampling.BOX)
    if direction is None:
        return np.asarray(image)
    along = np.asarray(image) @ direction
    return np.asarray(np.clip(np.rint(128 + along - np.median(along)), 0, 255), dtype=np.uint8)


def _direction_of_contrast(image: Image.Image) -> np.ndarray | None:
    """Return the direction in which the colours differ most (3,), if ink and paper are almost equally bright."""
    if image.mode in ("1", "L", "LA"):
        return None
    colours = np.asarray(image.convert("RGB").resize((64, 64), Image.Resampling.NEAREST), dtype=np.float64).reshape(
        -1, 3
    )
    covariance = np.cov(colours, rowvar=False)
    (*_, most), directions = np.linalg.eigh(covariance)
    if most < COLOURFUL**2 or LUMINANCE @ covariance @ LUMINANCE >= EQUAL**2 * most:
        return None
    direction = directions[:, -1]
    along = colours @ direction
    return np.asarray(direction if np.median(along) > along.mean() else -direction)  # ink is rare, and is drawn dark


def even_contrast(grey: np.ndarray, ink: Ink = "detect") -> tuple[np.ndarray, float]:
    """Return how far each pixel differs from the ground in the direction of the ink, uint8, and the ground's noise."""
    counts = np.bincount(grey.ravel(), minlength=256)
    tiny = max(grey.shape) < TINY
    steps = np.abs(np.diff(grey.astype(np.int16), axis=1))
    noise = 0.0 if tiny else _median(np.bincount(steps.ravel(), minlength=256)) / 0.954  # of a normal distribution
    t, explained = otsu(counts)
    share = counts[: t + 1].sum() / grey.size
    shadow = noise > 0 and min(share, 1 - share) > LARGEST_SHAPE
    if tiny or (explained >= (EVEN_PHOTO if noise else EVEN) and not shadow):  # even light: do not touch solid shapes
        dark = ink == "dark" or (ink == "detect" and _median(counts) > counts @ np.arange(256) / grey.size)
        low, high = np.flatnonzero(counts)[[0, -1]].astype(np.uint8)
        return high - grey if dark else grey - low, noise
    if noise > GRAIN:
        grey, noise = ndimage.uniform_filter(grey, 3, mode="nearest"), noise / 1.5  # 3 if pixels were independent
    H, W = grey.shape
    cell = max(1, max(H, W) // CELLS)
    k, m = min(cell, H), min(cell, W)
    h, w = H // k, W // m
    coarse = grey[: h * k, : w * m].reshape(h, k, w, m).mean(axis=(1, 3), dtype=np.float32)
    dark = ink == "dark" or (ink == "detect" and _longer_tail_is_dark(coarse))
    shade = -coarse if dark else coarse
    trend = _trend(shade)
    # Without ink, both are the shade or below it. The first follows shadows, the second light that changes slowly.
    ground = np.maximum(_opened(shade), trend + _opened(shade - trend))
    ground = ndimage.uniform_filter(ground, 5, mode="nearest")
    ground = np.asarray(Image.fromarray(ground).resize((W, H), Image.Resampling.BILINEAR))
    if dark:  # ink reflects a share of the light
        contrast = 255 * (1 - grey / np.maximum(-ground, 16))
        noise *= 255 / max(-float(ground.mean()), 16)
    else:
        contrast = grey - ground
    return np.clip(contrast, 0, 255).astype(np.uint8), noise


def _median(counts: np.ndarray) -> int:
    """Return the median level, given the number of pixels of each level."""
    below = counts.cumsum()
    return int(np.searchsorted(below, below[-1] / 2))


def _opened(shade: np.ndarray) -> np.ndarray:
    """Return the image without what is narrower than a window and brighter than its surroundings."""
    lowest = ndimage.minimum_filter(shade, WINDOW, mode="nearest")
    return np.asarray(ndimage.maximum_filter(lowest, WINDOW, mode="nearest"))


def _trend(shade: np.ndarray) -> np.ndarray:
    """Return the quadratic surface nearest to an image: light from a side, or a lamp above the middle."""
    design, inverse = _quadratic(*shade.shape)
    return np.asarray((design @ (inverse @ shade.ravel())).reshape(shade.shape), dtype=np.float32)


@lru_cache(maxsize=64)
def _quadratic(h: int, w: int) -> tuple[np.ndarray, np.ndarray]:
    y, x = (grid.ravel() for grid in np.meshgrid(np.linspace(-1, 1, h), np.linspace(-1, 1, w), indexing="ij"))
    design = np.stack([np.ones_like(x), x, y, x * x, x * y, y * y], axis=1)
    return design, np.linalg.pinv(design)


def _longer_tail_is_dark(coarse: np.ndarray) -> bool:
    """Return whether an image is darker than its surroundings in few places, rather than brighter: ink is rare."""
    residual = coarse - ndimage.uniform_filter(coarse, WINDOW, mode="nearest")
    return bool((residual**3).sum() < 0)


def otsu(counts: np.ndarray) -> tuple[int, float]:
    """Split the levels of an image in two parts, where the variance between the parts is highest.

    `counts` is the number of pixels of each level (256,). Returns the highest level of the lower part, and the share of
    the variance that the parts explain.
    """
    levels = np.arange(256)
    below, sum_below = counts.cumsum(), (counts * levels).cumsum()
    N, total = int(below[-1]), int(sum_below[-1])
    parts = below * (N - below)
    between = N * (total / N * below - sum_below) ** 2 / np.maximum(parts, 1)
    t = int(between.argmax())
    variance = float(counts @ (levels - total / N) ** 2)
    return t, float(between[t]) / variance if variance else 0.0


def find_ink(contrast: np.ndarray, noise: float) -> tuple[np.ndarray, tuple[int, int, int, int]] | None:
    """Return the ink, from 0 to 255, without specks and frame, and its box (left, top, right, bottom), or None."""
    counts = np.bincount(contrast.ravel(), minlength=256)
    t = max(otsu(counts)[0], round(NOISE * noise))
    inked = int(counts[t + 1 :].sum())
    if not inked or inked == contrast.size:
        return None
    levels = np.arange(256)
    low, high = (float(np.average(levels[part], weights=counts[part])) for part in (levels <= t, levels > t))
    if high - low < FAINTEST:
        return None
    strong = 255 - int(np.searchsorted(counts[::-1].cumsum(), 0.1 * inked))  # exceeded by a tenth of the ink
    edges = _edges(contrast)
    if high - low < CLEAR and int(edges.max()) - 4 * noise < SHARP * strong:
        return None
    threshold = max(t, WEAKEST * strong)
    labels, n = ndimage.label(contrast > threshold, EIGHT)
    area = np.bincount(labels.ravel(), minlength=n + 1)
    area[0] = 0
    smallest = max(2.0, SMALLEST * contrast.size if noise else 0.0)
    if noise:
        area[_is_shade(contrast, edges, labels, n, strong)] = 0
    area[is_frame(labels, area >= max(smallest, SPECK * area.sum()))] = 0
    keep = area >= max(smallest, SPECK * area.sum())
    ink = keep[labels]
    ink &= ~frame_lines(ink)
    rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    if not len(rows):
        return None
    high = max(float(contrast[ink].mean()), low + FAINTEST)  # without specks and frame
    soft = np.clip((contrast - low) * (255 / (high - low)), 0, 255).astype(np.uint8)
    soft *= ndimage.maximum_filter(ink, 3)  # with the soft edges of the ink
    return soft, (int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)


def _edges(contrast: np.ndarray) -> np.ndarray:
    """Return how much the contrast changes at each pixel, over three pixels. Light changes slowly, ink does not."""
    levels = contrast.astype(np.int16)
    edges = np.zeros_like(levels)
    edges[1:-2] = np.abs(levels[3:] - levels[:-3])
    edges[:, 1:-2] = np.maximum(edges[:, 1:-2], np.abs(levels[:, 3:] - levels[:, :-3]))
    return edges


def _is_shade(contrast: np.ndarray, edges: np.ndarray, labels: np.ndarray, n: int, strong: float) -> np.ndarray:
    """Return for each connected part whether it is a rest of uneven light: weak or blurred, at the image's edge."""
    outer = np.zeros(n + 1, dtype=bool)
    for side in (labels[0], labels[-1], labels[:, 0], labels[:, -1]):
        outer[side] = True
    if not outer[1:].any():
        return outer
    inked = labels > 0
    peaks, sharpest = np.zeros(n + 1, dtype=np.int16), np.zeros(n + 1, dtype=np.int16)
    np.maximum.at(peaks, labels[inked], contrast[inked])
    np.maximum.at(sharpest, labels[inked], edges[inked])
    return outer & ((peaks < SHADE * strong) | (sharpest < SHARP * peaks))


def is_frame(labels: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """Return for each connected part of the ink whether it is a frame around others."""
    H, W = labels.shape
    frames = np.zeros(len(keep), dtype=bool)
    boxes = ndimage.find_objects(labels)
    for i in np.flatnonzero(keep):
        rows, columns = boxes[i - 1]
        h, w = rows.stop - rows.start, columns.stop - columns.start
        if h < SPANS * H or w < SPANS * W:
            continue
        y, x = max(1, round(RIM * h)), max(1, round(RIM * w))
        inner = labels[rows, columns][y : h - y, x : w - x]
        frames[i] = not (inner == i).any() and keep[inner].any()
    return frames


def frame_lines(ink: np.ndarray) -> np.ndarray:
    """Return the pixels of a frame that touches the drawing: long lines near all four sides of the image."""
    H, W = ink.shape
    lines = np.zeros_like(ink)
    y, x = max(1, round(TOUCHING * H)), max(1, round(TOUCHING * W))
    sides = []
    for axis, length, depth in ((1, W, y), (0, H, x)):
        full = ink.sum(axis=axis) >= SPANS * length
        first, last = np.flatnonzero(full[:depth]), np.flatnonzero(full[-depth:] if depth else full[:0])
        if not len(first) or not len(last):
            return lines
        sides.append((int(first[-1]) + 1, len(full) - depth + int(last[0])))
    (top, bottom), (left, right) = sides
    if not ink[top:bottom, left:right].any():
        return lines
    lines[:] = True
    lines[top:bottom, left:right] = False
    return lines


def centred(ink: np.ndarray, box: tuple[int, int, int, int], size: int) -> np.ndarray:
    """Scale the ink in a box to one size, keep its aspect, and put its middle exactly in the centre.

    To put it there only to the nearest pixel would tell a network which way the drawing was turned.
    """
    left, top, right, bottom = box
    side = max(right - left, bottom - top) / BOX  # of the square that becomes the image
    down, across = _sampling(bottom - top, side, size), _sampling(right - left, side, size)
    drawing = down @ ink[top:bottom, left:right] @ across.T
    brightest = float(drawing.max())
    if 0 < brightest < FAINT:
        drawing *= FAINT / brightest
    return np.asarray(np.rint(drawing), dtype=np.uint8)


def _sampling(length: int, side: float, size: int) -> np.ndarray:
    """Return how `size` pixels are sampled from `length` ones: weights (size, length).

    The `size` pixels cover `side` of the others, around their middle.
    """
    pitch = side / size
    edges = length / 2 + pitch * (np.arange(size + 1) - size / 2)
    pixels = np.arange(length)
    if pitch < 1:  # enlarge: interpolate between neighbours
        middles = (edges[:-1, None] + edges[1:, None]) / 2
        weights = 1 - np.abs(middles - pixels - 0.5)
    else:  # reduce: the mean of the area
        weights = (np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)) / pitch
    return np.asarray(np.maximum(0, weights))
