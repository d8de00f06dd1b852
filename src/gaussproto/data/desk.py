"""Find a sheet of paper that was photographed on a darker desk, and put paper where the desk is. Imports no torch.

The desk is a dark part at the border of the image, and what it leaves free is a rectangle with sharp edges, perhaps
turned or cut by the border. Shadows end in no such rectangle, or have ink in them, and the light of a lamp has no edge.
"""

import numpy as np
from scipy import ndimage

SMALLEST = 32  # pixels: in a smaller image no desk is looked for
CELLS = 48  # along the longer side of the coarse image in which the sheet is looked for
DARKER, LEVELS = 0.85, 25  # of the paper, and grey levels between them: a desk is darker than this
BLACK = 0.2  # of the paper: nothing but a drawing in white on black has a darker ground
BRIGHTER, GLARE = 1.4, 0.01  # of the paper, and share of the sheet: if more is brighter, it is chalk on a board
BORDER = 0.07  # share of the border that is desk, at least
SHEET = 0.15  # share of the image that is sheet, at least
RECTANGLE = 0.87  # share of the rectangle around a sheet that it fills, at least; a disc fills 0.79
SHARP, SHARP_PART = 0.5, 0.8  # of the step from paper to desk, within five cells, and of the edge of the sheet
RIM = 3  # cells along the edge of the sheet: what is dark there and touches the desk is desk
DENT = 0.05  # share of the sheet that may be desk, so that its edge is straight
INK = 0.8  # of the paper: something in a sheet is darker than this, or the sheet itself may be the drawing
SHADED_INK = 0.6  # of the desk: if it has anything darker, then it may be paper in a shadow ...
CUT = 0.3  # ... unless less than this share of the border is sheet
PAPER = 0.9  # of the light on the sheet: what is brighter is paper, not ink
DIMMEST = 0.3  # of the light in the middle
PRIME = 7919  # a step through the pixels of the paper, so that their grain repeats without a pattern


def without_desk(grey: np.ndarray) -> np.ndarray:
    """Return a grey image (H, W) of a sheet on a desk as one of the sheet alone, and any other image as it is."""
    sheet = find_sheet(grey)
    return grey if sheet is None else with_paper_around(grey, sheet)


def find_sheet(grey: np.ndarray) -> np.ndarray | None:
    """Return the pixels of the sheet (H, W), without its edge, or None if the image shows no sheet on a desk."""
    H, W = grey.shape
    if min(H, W) < SMALLEST:
        return None
    paper = float(np.median(grey[H // 4 : -(H // 4) : 2, W // 4 : -(W // 4) : 2]))
    if _level_of_desk(grey, paper) is None:  # most images
        return None
    k = max(1, max(H, W) // CELLS)
    h, w = H // k, W // k
    coarse = _in_even_light(grey[: h * k, : w * k].reshape(h, k, w, k).mean(axis=(1, 3), dtype=np.float32), paper)
    desk = _level_of_desk(coarse, paper)
    if desk is None:
        return None
    dark = coarse < (paper + desk) / 2
    outside = _at_border(dark)
    labels, n = ndimage.label(~outside)
    if not n:
        return None
    largest = labels == np.bincount(labels.ravel())[1:].argmax() + 1
    sheet = _rectangle(largest)
    if sheet is None or (outside & sheet).sum() > DENT * sheet.sum() or not _is_sheet(coarse, sheet, paper, desk):
        return None
    inner = _without_rim(sheet, outside, dark)
    if not inner.any():
        return None
    whole = np.repeat(np.repeat(inner, k, axis=0), k, axis=1)
    return np.pad(whole, ((0, H - h * k), (0, W - w * k)), mode="edge")


def _level_of_desk(grey: np.ndarray, paper: float) -> float | None:
    """Return how bright the desk at the border of an image is, or None if it shows none."""
    border = _border(grey)
    dark = border[border < min(DARKER * paper, paper - LEVELS)]
    if len(dark) < BORDER * len(border):
        return None
    desk = float(np.median(dark))
    return desk if desk >= BLACK * paper else None


def _border(image: np.ndarray) -> np.ndarray:
    return np.concatenate([image[0], image[-1], image[:, 0], image[:, -1]])


def _in_even_light(coarse: np.ndarray, paper: float) -> np.ndarray:
    """Return the image as it would be if the light that falls on its middle from one side came from above."""
    h, w = coarse.shape
    design = _design(h, w)
    middle = np.s_[h // 4 : h - h // 4, w // 4 : w - w // 4]
    light = np.full((h, w), paper, dtype=np.float32)
    for _ in range(2):
        free = coarse[middle] > PAPER * light[middle]  # of ink
        if free.sum() < len(free):
            return coarse
        plane, *_ = np.linalg.lstsq(design[middle][free], coarse[middle][free], rcond=None)
        light = design @ plane
    return np.asarray(coarse * (paper / np.maximum(light, DIMMEST * paper)))


def _at_border(dark: np.ndarray) -> np.ndarray:
    """Return the dark parts at the border, without strokes that lead to them."""
    thick = ndimage.binary_opening(np.pad(dark, 1, mode="edge"), np.ones((3, 3)))[1:-1, 1:-1]
    labels, n = ndimage.label(thick)
    at_border = np.zeros(n + 1, dtype=bool)
    for side in (labels[0], labels[-1], labels[:, 0], labels[:, -1]):
        at_border[side] = True
    at_border[0] = False
    return np.asarray(at_border[labels])


def _rectangle(part: np.ndarray) -> np.ndarray | None:
    """Return the convex hull of a part of the image if it is a rectangle, turned or cut by the border, else None."""
    corners = _hull(part)
    if len(corners) < 3:
        return None
    y, x = np.indices(part.shape).reshape(2, -1)
    edges = np.roll(corners, -1, axis=0) - corners
    (dx, dy), (cx, cy) = edges.T[:, :, None], corners.T[:, :, None]
    hull = (dx * (y - cy) - dy * (x - cx) >= 0).all(axis=0)
    length = np.hypot(*edges.T)[:, None]
    around = np.ones((len(edges), y.size), dtype=bool)
    for a, b in ((dx / length, dy / length), (-dy / length, dx / length)):  # along each edge and across it
        spans = a * corners[:, 0] + b * corners[:, 1]
        places = a * x + b * y
        around &= (places >= spans.min(axis=1, keepdims=True) - 0.5) & (
            places <= spans.max(axis=1, keepdims=True) + 0.5
        )
    size = int(hull.sum())
    if size < max(SHEET * y.size, RECTANGLE * int(around.sum(axis=1).min())):
        return None
    return np.asarray(hull.reshape(part.shape))


def _hull(part: np.ndarray) -> np.ndarray:
    """Return the corners (E, 2), x and y, of the convex hull, in the order in which x turns to y."""
    rows = np.flatnonzero(part.any(axis=1))
    left = part[rows].argmax(axis=1)
    right = part.shape[1] - 1 - part[rows, ::-1].argmax(axis=1)
    points = sorted({*zip(left.tolist(), rows.tolist(), strict=True), *zip(right.tolist(), rows.tolist(), strict=True)})

    def half(points: list[tuple[int, int]]) -> list[tuple[int, int]]:
        chain: list[tuple[int, int]] = []
        for x, y in points:
            while len(chain) > 1:
                (ax, ay), (bx, by) = chain[-2:]
                if (bx - ax) * (y - ay) - (by - ay) * (x - ax) > 0:
                    break
                chain.pop()
            chain.append((x, y))
        return chain

    return np.array(half(points)[:-1] + half(points[::-1])[:-1]).reshape(-1, 2)


def _without_rim(sheet: np.ndarray, outside: np.ndarray, dark: np.ndarray) -> np.ndarray:
    """Return the sheet without its blurred edge, and without slivers of the desk along it."""
    square = np.ones((3, 3))
    rim = ~ndimage.binary_erosion(sheet, square, RIM)
    desk = ndimage.binary_propagation(outside, square, dark & rim)
    return np.asarray(ndimage.binary_erosion(sheet & ~desk, square, border_value=1))


def _is_sheet(coarse: np.ndarray, sheet: np.ndarray, paper: float, desk: float) -> bool:
    """Return whether a bright part is a sheet with ink on a desk, and not paper under a lamp or beside a shadow."""
    square = np.ones((3, 3))
    edge = sheet & ~ndimage.binary_erosion(sheet, square, border_value=1)
    if not edge.any():
        return False
    step = _local_mean(coarse, sheet)[edge] - _local_mean(coarse, ~sheet)[edge]
    if (step >= SHARP * (paper - desk)).mean() < SHARP_PART:
        return False
    inner = ndimage.binary_erosion(sheet, square, 2, border_value=1)
    if not inner.any() or coarse[inner].min() >= INK * paper or (coarse[inner] > BRIGHTER * paper).mean() > GLARE:
        return False
    return _border(sheet).mean() < CUT or not (coarse[~sheet] < SHADED_INK * desk).any()


def _local_mean(coarse: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Return the mean of a part of the image around each cell."""
    near = ndimage.uniform_filter(part.astype(np.float32), 5)
    return np.asarray(ndimage.uniform_filter(np.where(part, coarse, 0), 5) / np.maximum(near, 1e-3))


def with_paper_around(grey: np.ndarray, sheet: np.ndarray) -> np.ndarray:
    """Return the part of an image around its sheet, with the light and the grain of the paper beyond the edges."""
    rows, columns = np.flatnonzero(sheet.any(axis=1)), np.flatnonzero(sheet.any(axis=0))
    box = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    grey, sheet = grey[box], sheet[box]
    design = _design(*grey.shape)
    light = np.full(grey.shape, np.median(grey[sheet]), dtype=np.float32)
    for _ in range(2):
        paper = sheet & (grey > PAPER * light)
        plane, *_ = np.linalg.lstsq(design[paper][::5], grey[paper][::5].astype(np.float32), rcond=None)
        light = design @ plane
    grain = (grey - light)[paper]
    filled = grey.copy()
    drawn = light[~sheet] + grain[np.arange(int((~sheet).sum())) * PRIME % len(grain)]
    filled[~sheet] = np.clip(np.rint(drawn), 0, 255)
    return filled


def _design(h: int, w: int) -> np.ndarray:
    """Return the design of a plane, (h, w, 3)."""
    y, x = np.indices((h, w), dtype=np.float32)
    return np.stack([np.ones_like(x), x, y], axis=-1)
