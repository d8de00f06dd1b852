"""Draw invented alphabets with a small generative model of handwriting. They replace Omniglot without a download.

An alphabet has a style and a few strokes. A character is a program that combines one to four of these strokes, and a
drawing is one execution of the program by an unsteady hand. Lengths are in halves of a letter's height, with x to the
right and y downwards, until `_place` puts the drawing on a page from 0 to 1.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray

from gaussproto.data.images import LabelledImages
from gaussproto.errors import InputError

Array = NDArray[Any]

S = 4  # maximum number of strokes of a character
T = 56  # points along a stroke: about a pixel apart in a long stroke on a page of 28 x 28, so that no gaps appear
CHARACTERS = (14, 40)  # per alphabet, as in most alphabets of Omniglot
CANDIDATES = 8  # characters invented for each one that is kept
ALIKE = 0.80  # cosine between two blurred characters above which readers would confuse them
PEN = 0.56 / 28  # standard deviation of the ink across a line, as a share of the page
FLOW = 0.88  # ink per length of the pen's deviation: a line has brightness 0.89 in the middle, as in Omniglot
MARGIN = 2.2 / 28  # of the page, which the pen's centre never enters: four deviations, so that no ink is cut off
CHUNK = 64  # drawings rendered at a time, few enough for the processor's cache

# Shapes of strokes: control points, and the weights of the shape in an angular and in a round alphabet.
_SHAPES: tuple[tuple[list[tuple[float, float]], float, float], ...] = (
    ([(0, -1), (0, 1)], 5, 3),  # line
    ([(0, -1), (0.3, 0), (0, 1)], 0, 3),  # bow
    ([(0, -1), (0, -0.3), (0, 0.5), (0.3, 0.95), (0.7, 0.6)], 1, 3),  # hook
    ([(-0.6, -0.8), (0.6, -0.8), (0.6, 0.8)], 3, 1),  # corner
    ([(-0.6, -0.8), (0, 0.8), (0.6, -0.8)], 3, 1),  # wedge
    ([(-0.6, -0.8), (-0.55, 0.3), (0, 0.8), (0.55, 0.3), (0.6, -0.8)], 1, 3),  # cup
    ([(0.55, -0.65), (0, -0.9), (-0.6, -0.45), (-0.65, 0.3), (-0.1, 0.85), (0.55, 0.6)], 0, 3),  # bowl
    ([(0.5, -0.7), (0, -0.95), (-0.45, -0.5), (0, 0), (0.45, 0.5), (0, 0.95), (-0.5, 0.7)], 0, 1.5),  # S
    ([(-0.6, -0.8), (0.6, -0.8), (-0.6, 0.8), (0.6, 0.8)], 1.5, 0.3),  # Z
    ([(-0.85, 0.4), (-0.5, -0.4), (0, 0), (0.5, 0.4), (0.85, -0.4)], 0.5, 1),  # wave
    ([(-0.4, -0.8), (0.2, -0.9), (0.5, -0.5), (-0.1, -0.05), (0.6, 0.4), (0.2, 0.9), (-0.5, 0.75)], 0.3, 1),  # 3
    ([(0, -0.55), (-0.5, -0.25), (-0.5, 0.3), (0, 0.55), (0.5, 0.3), (0.5, -0.25), (0, -0.55)], 0.6, 3),  # ring
    ([(-0.6, -0.6), (0.6, -0.6), (0.6, 0.6), (-0.6, 0.6), (-0.6, -0.6)], 1.2, 0.3),  # box
    ([(0, -0.7), (0.65, 0.5), (-0.65, 0.5), (0, -0.7)], 1.2, 0.2),  # triangle
    ([(-0.5, 0.9), (0.1, 0.1), (0.45, -0.5), (0, -0.9), (-0.45, -0.5), (-0.1, 0.1), (0.5, 0.9)], 0.3, 1.5),  # ribbon
    ([(0, -1), (-0.1, 0), (0, 0.7), (0.45, 0.8), (0.55, 0.4), (0.2, 0.25), (-0.1, 0.5)], 0, 1.5),  # curl
    ([(0, 0.1), (0, -0.3), (0.4, -0.1), (0.3, 0.5), (-0.4, 0.5), (-0.7, -0.2), (-0.3, -0.9)], 0, 0.8),  # spiral
)


@dataclass(frozen=True)
class _Style:
    """The properties that the characters of an alphabet share."""

    strokes: Array  # (K, T, 2)
    often: Array  # (K,) probability of each stroke
    count: Array  # (S,) probability that a character has 1 to S strokes
    places: Array  # (5,) probability that a stroke is attached at 0, 1/4, 1/2, 3/4 or 1 of the length of another
    leader: float  # share of the characters that begin with the first stroke
    ties: float  # share of later strokes that end on the first stroke of their character
    twins: float  # share of later strokes that mirror the previous one
    marks: float  # share of the characters with a dot or a tick
    slant: float  # to the right, per height
    aspect: float  # log of width to height


@dataclass(frozen=True)
class _Programs:
    """Instructions for writing C characters. Each stroke is attached to a point of an earlier one, its parent."""

    stroke: Array  # (C, S, T, 2) the intended strokes
    present: Array  # (C, S) whether the character has this stroke
    parent: Array  # (C, S) index of the parent
    at: Array  # (C, S) point of the parent, from 0 to 1
    by: Array  # (C, S) point of the stroke that is put there, from 0 to 1
    gap: Array  # (C, S, 2) offset between the two points, for strokes that do not touch
    tied: Array  # (C, S) whether the end of the stroke is pulled to the first stroke
    end: Array  # (C, S) point of the first stroke that it is pulled to, from 0 to 1


def _smooth(points: Array, roundness: float) -> Array:
    """Return (T, 2) points evenly along a curve: straight segments at roundness 0, a Catmull-Rom spline at 1."""
    closed = (points[0] == points[-1]).all()
    before, after = (points[-2], points[1]) if closed else (2 * points[0] - points[1], 2 * points[-1] - points[-2])
    padded = np.stack([before, *points, after])
    slope = (padded[2:] - padded[:-2]) / 2 * roundness
    t = np.linspace(0, 1, 24)[:, None, None]
    a, b, m, n = points[:-1], points[1:], slope[:-1], slope[1:]
    curve = (1 + 2 * t) * (1 - t) ** 2 * a + t * (1 - t) ** 2 * m + t**2 * (3 - 2 * t) * b - t**2 * (1 - t) * n
    curve = curve.swapaxes(0, 1).reshape(-1, 2)  # (segments * 24, 2)
    along = np.append(0, np.cumsum(_steps(curve)))
    even = np.linspace(0, along[-1], T)
    return np.stack([np.interp(even, along, curve[:, i]) for i in (0, 1)], -1).astype(np.float32)


def _steps(paths: Array) -> Array:
    return np.asarray(np.linalg.norm(np.diff(paths, axis=-2), axis=-1))


def _invent_style(rng: Generator) -> _Style:
    """Return a style with four to seven strokes: angular or round, plain or rich, upright or slanted."""
    roundness = rng.beta(0.4, 0.4)  # mostly near 0 or near 1
    weights = np.array([(1 - roundness) * straight + roundness * curved for _, straight, curved in _SHAPES])
    K = rng.integers(4, 8)
    strokes = []
    for shape in rng.choice(len(_SHAPES), K, replace=False, p=weights / weights.sum()):
        points = np.array(_SHAPES[shape][0])
        jitter = rng.normal(0, 0.03 + 0.07 * roundness, points.shape)
        if (points[0] == points[-1]).all():
            jitter[-1] = jitter[0]
        points = (points + jitter) * rng.choice([-1, 1], 2) * np.exp(rng.normal(0, 0.2, 2)) * rng.uniform(0.7, 1.1)
        points = points[:, :: rng.choice([1, -1], p=[0.7, 0.3])]  # some are horizontal
        strokes.append(_smooth(points, np.clip(roundness + rng.normal(0, 0.15), 0, 1)))
    return _Style(
        strokes=np.stack(strokes),
        often=rng.dirichlet(np.full(K, 3.0)),
        count=rng.dirichlet([0.6, 1.8, 1.5, 0.9]) / 2 + [0.1, 0.2, 0.12, 0.08],  # no alphabet has only single strokes
        places=rng.dirichlet([0.8, 0.2, 0.6, 0.2, 1.0]),
        leader=rng.choice([0.0, 0.3, 0.8]),
        ties=rng.uniform(0, 0.5),
        twins=rng.choice([0.0, 0.25, 0.6]),
        marks=rng.choice([0.0, 0.1, 0.35]),
        slant=rng.normal(0, 0.12),
        aspect=rng.normal(0, 0.15),
    )


def _invent_characters(rng: Generator, style: _Style, C: int) -> _Programs:
    """Return programs of one to S strokes of the alphabet, mirrored, scaled and attached to one another."""
    order, places = np.arange(S), np.linspace(0, 1, 5)
    count = rng.choice(order + 1, (C, 1), p=style.count)
    kind = rng.choice(len(style.often), (C, S), p=style.often)
    kind[rng.random(C) < style.leader, 0] = 0
    factor = rng.choice([1.0, 0.85, 0.65], (C, S, 1)) * rng.choice([-1.0, 1.0], (C, S, 2), p=[0.2, 0.8])
    factor[:, 0] = 1
    parent = (rng.random((C, S)) ** 1.5 * order).astype(int)  # mostly the first strokes
    at, end = rng.choice(places, (2, C, S), p=style.places)
    tied = rng.random((C, S)) < style.ties
    by = np.where(tied, 0, rng.choice([0, 0.5, 1], (C, S), p=[0.65, 0.15, 0.2]))

    # Symmetry makes characters look designed: a twin mirrors the previous stroke, at the same or the opposite place.
    at[:, 0] = by[:, 0]
    for s in range(1, S):
        twin = np.flatnonzero(rng.random(C) < style.twins)
        for choice in (kind, factor, parent, at, by):
            choice[twin, s] = choice[twin, s - 1]
        factor[twin, s] *= rng.choice([(-1, 1), (1, -1)], len(twin), p=[0.75, 0.25])
        at[twin, s] = np.where(rng.random(len(twin)) < 0.6, at[twin, s], 1 - at[twin, s])
        tied[twin, s] = False

    mark = (order == count - 1) & (order > 0) & (rng.random((C, 1)) < style.marks)
    factor[mark] *= 0.15
    loose = mark | (rng.random((C, S)) < 0.06)
    gap = rng.choice([(0, -0.45), (0, 0.45), (-0.45, 0), (0.45, 0)], (C, S)) * loose[..., None]
    stroke = (style.strokes[kind] * factor[:, :, None]).astype(np.float32)
    return _Programs(stroke, order < count, parent, at, by, gap, tied & ~mark, end)


def _transform(angle: Array, slant: Array, wide: Array, tall: Array) -> Array:
    """Return matrices (..., 2, 2) that stretch, then slant, then rotate points given as rows."""
    cos, sin = np.cos(angle), np.sin(angle)
    entries = [wide * cos, wide * sin, tall * (-slant * cos - sin), tall * (cos - slant * sin)]
    return np.stack(entries, -1).reshape(*cos.shape, 2, 2).astype(np.float32)


def _draw(rng: Generator, style: _Style, programs: _Programs, D: int, wild: float = 1.0) -> Array:
    """Return pen paths (C, D, S, T, 2) of D people. They follow the program exactly if `wild` is 0.

    With `wild` 1, the deviations (radians, logs or lengths) make nearest neighbours of pixels err as on Omniglot.
    """
    C = len(programs.stroke)

    def vary(deviation: float, *shape: int) -> Array:
        return rng.normal(0, wild * deviation, shape).astype(np.float32)

    # Rotate and stretch each stroke a little, and bend it by slow waves along it.
    N = (C, D, S)
    turned = _transform(vary(0.08, *N), vary(0.08, *N), np.exp(vary(0.1, *N)), np.exp(vary(0.1, *N)))
    paths = programs.stroke[:, None] @ turned  # (C, D, S, T, 2)
    waves = np.arange(1, 5)
    basis = np.cos(np.pi * np.linspace(0, 1, T)[:, None] * waves) / waves**1.2  # (T, waves), fast waves are small
    bend = 0.04 * _steps(programs.stroke).sum(-1) ** 0.7  # (C, S), grows more slowly than the length
    paths += bend[:, None, :, None, None] * (basis.astype(np.float32) @ vary(1, *N, len(waves), 2))

    # Attach each stroke to its parent near the intended point. They need not touch.
    c, d, last = np.arange(C)[:, None], np.arange(D), T - 1  # to index one point of each drawing
    at = (last * np.clip(programs.at[:, None] + vary(0.05, *N), 0, 1)).astype(int)  # (C, D, S)
    end = (last * np.clip(programs.end[:, None] + vary(0.05, *N), 0, 1)).astype(int)
    by = (last * programs.by).astype(int)
    off = programs.gap[:, None] + vary(0.05, *N, 2)
    for s in range(1, S):
        path = paths[:, :, s]  # (C, D, T, 2), a view
        shift = paths[c, d, programs.parent[:, s, None], at[:, :, s]] + off[:, :, s] - path[c, d, by[:, s, None]]
        pull = paths[c, d, 0, end[:, :, s]] - path[:, :, -1] - shift  # from its end to the first stroke
        pull *= programs.tied[:, s, None, None]
        path += shift[:, :, None] + pull[:, :, None] * np.linspace(0, 1, T)[:, None]
    paths = np.where(programs.present[:, None, :, None, None], paths, paths[:, :, :1])  # a repeated stroke is invisible

    # The slant and proportions of one person vary little between characters.
    angle, slant = vary(0.06, D) + vary(0.06, C, D), style.slant + vary(0.12, D) + vary(0.06, C, D)
    aspect = np.exp(style.aspect / 2 + vary(0.05, D) + vary(0.05, C, D))
    return np.asarray(paths @ _transform(angle, slant, aspect, 1 / aspect)[:, :, None])


def _box(paths: Array) -> tuple[Array, ...]:
    """Return the lowest and the highest coordinates (..., 1, 1, 2) of drawings (..., S, T, 2)."""
    flat = np.ascontiguousarray(np.moveaxis(paths, -1, 0))  # much faster than on pairs of x and y
    return tuple(np.moveaxis(f(flat, (-2, -1), keepdims=True), 0, -1) for f in (np.min, np.max))


def _place(rng: Generator, paths: Array) -> Array:
    """Put drawings on the page, inside its margin, with sizes and positions as in Omniglot."""
    (C, D), (low, high) = paths.shape[:2], _box(paths)  # (C, D, 1, 1, 2)
    longer = (high - low).max(-1, keepdims=True)
    usual = np.median(longer, axis=1, keepdims=True)
    side = np.clip(0.56 * (usual / 2.2) ** 0.5, 0.3, 0.75)  # grows more slowly than the size
    vary = np.exp(rng.normal(0, 0.06, (D, 1, 1, 1)) + rng.normal(0, 0.05, (C, D, 1, 1, 1)))
    scale = np.minimum(side / usual * vary, (1 - 2 * MARGIN) / longer)
    edge = MARGIN + scale * (high - low) / 2
    centre = 0.47 + rng.normal(0, 0.03, (D, 1, 1, 2)) + rng.normal(0, 0.04, (C, D, 1, 1, 2))
    return np.asarray((paths - (low + high) / 2) * scale + np.clip(centre, edge, 1 - edge), np.float32)


def _render(paths: Array, pen: Array, size: int) -> Array:
    """Return uint8 images (N, size, size) of paths (N, S, T, 2), drawn with pens of standard deviation (N,).

    The ink of a stroke is 1 - exp(-Σ_t g(x - x_t) g(y - y_t) ds_t) with a Gaussian g. Each term is a factor in x times
    one in y, so the sum is a matrix product. Where strokes cross, the brighter one counts: ink on ink adds nothing.
    """
    width = pen[:, None, None]
    steps = np.pad(_steps(paths), ((0, 0), (0, 0), (1, 1)))
    flow = FLOW * ((steps[..., 1:] + steps[..., :-1]) / 2 / width + 1 / T)  # 1 / T: a resting pen also leaves ink
    pixels = ((np.arange(size) + 0.5) / size).astype(np.float32)[:, None]
    x, y = ((paths[..., None, :, i] - pixels) / width[..., None] for i in (0, 1))  # (N, S, size, T)
    ink = (np.exp(y * y / -2) * flow[:, :, None]) @ np.exp(x * x / -2).swapaxes(-1, -2)  # (N, S, size, size)
    return np.asarray(np.rint(255 * (1 - np.exp(-ink.max(1)))), np.uint8)


def _distinct(rng: Generator, style: _Style, programs: _Programs, C: int) -> Array:
    """Return the indices (C,) of the first programs that are neither scribbles nor similar to an earlier one."""
    paths = _draw(rng, style, programs, 1, wild=0)[:, 0]  # (candidates, S, T, 2)
    low, high = _box(paths)  # (candidates, 1, 1, 2)
    paths = 0.5 + 0.75 * (paths - (low + high) / 2) / (high - low).max(-1, keepdims=True)
    blurred = _render(paths[:, :, ::2], np.full(len(paths), 1 / 16, np.float32), 16)  # half of the points are enough
    ink = blurred.reshape(len(paths), -1).astype(np.float32)
    unit = ink / np.linalg.norm(ink, axis=1, keepdims=True)
    length = (_steps(paths).sum(-1) * programs.present).sum(-1)
    shown = ink.sum(1) / (length + 0.05)  # low where strokes cover one another
    scribble = (shown < np.quantile(shown, 0.4)) | (length > 3)  # pages; an 8 is about 2 long
    closest = np.where(scribble, 0.9, 0)  # choose a scribble only if all others are duplicates
    kept: list[int] = []
    for _ in range(C):
        best = int((closest < ALIKE).argmax() if closest.min() < ALIKE else closest.argmin())
        closest = np.maximum(closest, (unit * unit[best]).sum(1))  # not @: its rounding depends on the threads
        closest[best] = 2  # above any cosine, so it is not chosen again
        kept.append(best)
    return np.array(kept)


def _invent_name(rng: Generator, taken: set[str]) -> str:
    while True:
        onsets = rng.choice([*"bdfghjklmnprstvz", "sh", "th", "kh"], rng.integers(2, 4))
        ends = [*rng.choice([*"aeiou"], len(onsets) - 1), rng.choice(["a", "o", "an", "ur", "il", "os", "em"])]
        name = "".join(f"{onset}{end}" for onset, end in zip(onsets, ends, strict=True)).capitalize()
        if name not in taken:
            return name


def strokes(alphabets: int = 50, drawings: int = 20, size: int = 28, seed: int = 0) -> LabelledImages:
    """Draw handwritten characters of invented alphabets (N, 1, size, size), with bright ink.

    Alphabet i depends only on the seed and on i, so the first alphabets do not change with the number of alphabets.
    """
    least = {"alphabets": (alphabets, 1), "drawings": (drawings, 1), "size": (size, 8), "seed": (seed, 0)}
    for argument, (value, low) in least.items():
        if value < low:
            raise InputError(f"{argument} must be at least {low} (found {value})")
    images, classes, groups = list[Array](), list[str](), list[str]()
    for i in range(alphabets):
        rng = np.random.default_rng((seed, i))
        C = int(rng.integers(*CHARACTERS, endpoint=True))
        style = _invent_style(rng)
        programs = _invent_characters(rng, style, CANDIDATES * C)
        kept = _distinct(rng, style, programs, C)
        programs = _Programs(**{name: choice[kept] for name, choice in vars(programs).items()})
        paths = _place(rng, _draw(rng, style, programs, drawings)).reshape(-1, S, T, 2)
        pen = np.tile(PEN * np.exp(rng.normal(0, 0.07, drawings)), C).astype(np.float32)  # by person
        images += [_render(paths[n : n + CHUNK], pen[n : n + CHUNK], size) for n in range(0, len(paths), CHUNK)]
        alphabet = _invent_name(rng, set(groups))  # last, because the number of random draws varies
        classes += [f"{alphabet}/character{c:02d}" for c in range(1, C + 1)]
        groups += [alphabet] * C
    pixels, counts = torch.from_numpy(np.concatenate(images)[:, None]), torch.full((len(classes),), drawings)
    return LabelledImages(pixels, counts, tuple(classes), tuple(groups))
