"""The embedding space of an episode, projected to its two principal components."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse, Rectangle
from matplotlib.patheffects import withStroke

from gaussproto.evaluation.views import EpisodeView
from gaussproto.figures.pictures import place
from gaussproto.figures.style import INK, MARKERS, PAPER, SERIES, SOFT, new_figure, styled

ASPECT = 0.88  # height of the plane to its width
ANGLES = np.linspace(0, 2 * np.pi, 32, endpoint=False)
CIRCLE = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
CORNERS_AND_MIDDLE = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1], [0, 0]])
SQUARE = np.stack(np.meshgrid(*2 * [np.linspace(-1, 1, 7)]), axis=-1).reshape(-1, 2)
PAPER_OUTLINE = [withStroke(linewidth=2.5, foreground=PAPER)]  # keeps a number readable on a line
STAR: dict[str, Any] = {"marker": "*", "ms": 14, "mec": PAPER, "mew": 0.8, "zorder": 6}

# Lengths are shares of the plane's width.
RADIUS = 0.055  # of the median circle or ellipse of a support
PICTURE, PICTURE_FRAME = 0.08, 0.09  # side of an image beside a class or the query, and of its frame
PICTURE_GAP = 0.045  # from the outermost ellipse of a class to its image
QUERY_PICTURE_DISTANCE = 0.085  # from the query's cross to its image
SHORT_LINE = 0.2  # length below which a line has no room for its number
NUMBER = np.array([0.045, 0.02])  # half the width and height of a number
# A number is tried on its line (shares of the line), beside it, and around the prototype, in this order.
NUMBER_ON_LINE = 0.55 + np.array([0, 1, -1, 2, -2, 3, -3, 4, -4, 5, -5, -6]) / 20
NUMBER_BESIDE = (0.035, -0.035, 0.05, -0.05, 0.065, -0.065, 0.08, -0.08)
NUMBER_AROUND = np.linspace(0.06, 0.2, 8)
MAP_PICTURE = 0.042  # side of a query's image in a map
MAP_SUPPORT, MAP_SUPPORT_FRAME = 0.048, 0.054  # side of a support's image in a map of dots, and of its frame
MAP_SUPPORT_ROOM = 0.035  # half the side of the empty square that it needs
MAP_SUPPORT_DISTANCES = np.linspace(0.05, 0.25, 9)  # from its prototype, tried in this order


def ellipse(middle: np.ndarray, covariance: np.ndarray, factor: float, **style: object) -> Ellipse:
    """Return the ellipse at `factor` standard deviations: for a precision s, a circle of radius factor / √s."""
    values, vectors = np.linalg.eigh(covariance)
    width, height = 2 * factor * np.sqrt(values.clip(0))
    angle = float(np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0])))
    return Ellipse((float(middle[0]), float(middle[1])), width, height, angle=angle, **style)


@styled
def embedding_space(view: EpisodeView, query: tuple[int, int] = (0, 0)) -> Figure:
    """Draw supports and prototypes with their ellipses, and the distances of one query."""
    figure = new_figure(6.4, 5.7)
    axes = figure.subplots()
    draw_space(axes, view, query)
    _label_axes(axes, view)
    return figure


def space_note(view: EpisodeView) -> str:
    D = view.x.shape[-1]
    text = (
        f"Dots are supports, stars are prototypes, and the cross is a query, the hardest of {view.d[..., 0].size}. The "
        f"numbers are its distances to the prototypes in all {D} dimensions, the smallest in bold."
    )
    if view.s is None:
        return text + " This is a vanilla network without precisions, so there are no ellipses."
    text += (
        " Outlined circles or ellipses belong to supports, filled ones to classes. Their radius is proportional to "
        "1/√s. The precision of a class is the sum over its supports, so its radius is smaller."
    )
    return text + ("" if view.in_distance else " The precision weights the supports and is not part of the distance.")


def draw_space(axes: Axes, view: EpisodeView, query: tuple[int, int], pictures: bool = True) -> None:
    """Draw the embedding plane of an episode. With `pictures`, show a support beside each class."""
    points, stars, cross = map(view.plane.project, (view.x, view.p, view.x_query[query]))
    everything = np.concatenate([points.reshape(-1, 2), stars, cross[None]])
    width = _set_limits(axes, everything, margin=0.2 if pictures else 0.1)
    drawn: list[np.ndarray] = []  # middles of the pictures
    for star in stars:
        axes.plot(*np.stack([cross, star]).T, color=SOFT, lw=1, ls=(0, (4, 3)), zorder=2)
    _draw_ellipses(axes, view, points, stars, width)
    for c, colour in enumerate(_colours(view)):
        axes.plot(*points[c].T, MARKERS[c % len(MARKERS)], color=colour, ms=4.5, zorder=5)
        axes.plot(*stars[c : c + 1].T, color=colour, **STAR)
        if pictures:
            reach = float(np.linalg.norm(points[c] - stars[c], axis=1).max()) + (RADIUS + PICTURE_GAP) * width
            away = (stars[c] - cross) / max(float(np.linalg.norm(stars[c] - cross)), 1e-9)
            drawn.append(_draw_picture(axes, view.support[c, 0], stars[c] + reach * away, PICTURE * width, colour))
    axes.plot(*cross[:, None], "X", color=INK, ms=8, markeredgecolor=PAPER, zorder=7)
    lines = cross + np.linspace(0, 1, 100)[:, None] * (stars - cross)[:, None]  # (C, 100, 2)
    away_from_cross = lines[:, 10:].reshape(-1, 2)  # all lines start at the cross
    taken = np.concatenate([points.reshape(-1, 2), away_from_cross])
    spot = _emptiest(cross + QUERY_PICTURE_DISTANCE * width * CIRCLE, taken)
    drawn.append(_draw_picture(axes, view.query[query], spot, PICTURE * width, INK, PICTURE_FRAME * width))
    squares = [middle + PICTURE_FRAME / 2 * width * SQUARE for middle in drawn]
    _draw_distances(axes, view.d[query], lines, np.concatenate([points.reshape(-1, 2), stars, *squares]), width)
    axes.set_aspect("equal")


def _draw_ellipses(axes: Axes, view: EpisodeView, points: np.ndarray, stars: np.ndarray, width: float) -> None:
    if view.s is None or view.s_class is None:
        return
    supports = np.array([[view.plane.covariance(s) for s in row] for row in view.s])
    classes = np.array([view.plane.covariance(s) for s in view.s_class])
    factor = RADIUS * width / float(np.median(np.sqrt(np.trace(supports, axis1=-2, axis2=-1) / 2)))
    for c, colour in enumerate(_colours(view)):
        for middle, covariance in zip(points[c], supports[c], strict=True):
            axes.add_patch(ellipse(middle, covariance, factor, facecolor="none", edgecolor=colour, lw=0.9))
        light = {"facecolor": colour, "alpha": 0.28, "edgecolor": "none", "zorder": 1.5}
        axes.add_patch(ellipse(stars[c], classes[c], factor, **light))


def _draw_distances(axes: Axes, d: np.ndarray, lines: np.ndarray, taken: np.ndarray, width: float) -> None:
    """Write the query's distance to each class (C,) on its line (C, N, 2), or beside a short line. Bold: the smallest.

    A number covers no taken point (M, 2), no other line and no ellipse, as far as there is room.
    """
    ellipses = [patch for patch in axes.patches if isinstance(patch, Ellipse)]
    outlines = np.concatenate([lines[:, -1], *(each.get_patch_transform().transform(CIRCLE) for each in ellipses)])
    half = NUMBER * width
    low, high = np.array([axes.get_xlim(), axes.get_ylim()]).T
    for c, line in enumerate(lines):
        gap, length = line[-1] - line[0], float(np.linalg.norm(line[-1] - line[0]))
        side = np.array([-gap[1], gap[0]]) / max(length, 1e-9)
        on_line = line[0] + NUMBER_ON_LINE[: None if length > SHORT_LINE * width else 0, None] * gap
        beside = [line[0] + gap / 2 + reach * width * side for reach in NUMBER_BESIDE]
        spots = np.concatenate([on_line, beside, *(line[-1] + reach * width * CIRCLE for reach in NUMBER_AROUND)])
        room = _room(spots, half, np.concatenate([taken, *np.delete(lines, c, axis=0)]))
        room[len(on_line) :] = np.minimum(room, _room(spots, half, line))[len(on_line) :]
        room[((spots < low + half) | (spots > high - half)).any(axis=1)] = 0
        best = np.minimum(room, _room(spots, half, outlines))
        free = next((each for each in (best > 1, room > 1) if each.any()), room)
        x, y = middle = spots[free.argmax()]
        taken = np.concatenate([taken, middle + half * CORNERS_AND_MIDDLE])
        weight = "bold" if c == d.argmin() else "normal"
        font: dict[str, Any] = {"fontsize": 8, "weight": weight, "path_effects": PAPER_OUTLINE, "zorder": 8}
        axes.text(float(x), float(y), f"{d[c]:.2f}", ha="center", va="center", color=SERIES[c % len(SERIES)], **font)


def _room(spots: np.ndarray, half: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """Return by how much a box of half-size (2,) around each spot (K, 2) could grow before it covers a taken point."""
    return np.asarray((np.abs(spots[:, None] - taken) / half).max(axis=2).min(axis=1))


@styled
def embedding_map(view: EpisodeView, pictures: bool) -> Figure:
    """Draw all queries of an episode, as images or as dots, and the prototypes of their classes."""
    figure = new_figure(6.8, 6.0)
    axes = figure.subplots()
    dots, stars = map(view.plane.project, (view.x_query, view.p))
    everything = np.concatenate([dots.reshape(-1, 2), stars])
    width = _set_limits(axes, everything, margin=0.06 if pictures else 0.1)
    size = (MAP_PICTURE * width,) * 2
    for c, colour in enumerate(_colours(view)):
        axes.plot(*stars[c : c + 1].T, color=colour, **STAR)
        if pictures:
            for dot, pixels in zip(dots[c], view.query[c], strict=True):
                place(axes, pixels, dot, size, colour)
        else:
            face = "none" if c // len(SERIES) else colour
            axes.plot(*dots[c].T, MARKERS[c % len(MARKERS)], color=colour, ms=4, alpha=0.8, markerfacecolor=face)
    if not pictures:
        _draw_supports(axes, view, stars, everything, width)
    axes.set_aspect("equal")
    _label_axes(axes, view)
    return figure


def map_note(view: EpisodeView, pictures: bool) -> str:
    (C, Q), frames = view.query.shape[:2], "" if pictures else ", one of which is shown in a frame"
    return (
        f"{C} classes never seen in training, with {Q} queries each. A star is the prototype of a class, computed from "
        f"{view.support.shape[1]} supports{frames}."
    )


def _draw_supports(axes: Axes, view: EpisodeView, stars: np.ndarray, taken: np.ndarray, width: float) -> None:
    """Draw a support of each class near its prototype, in an empty place if possible."""
    side, frame = MAP_SUPPORT * width, MAP_SUPPORT_FRAME * width
    for c, colour in enumerate(_colours(view)):
        for reach in MAP_SUPPORT_DISTANCES * width:
            spot = _emptiest(stars[c] + reach * CIRCLE, taken)
            if np.abs(taken - spot).max(axis=1).min() > MAP_SUPPORT_ROOM * width:
                break
        middle = _draw_picture(axes, view.support[c, 0], spot, side, colour, frame)
        taken = np.concatenate([taken, middle + frame / 2 * CORNERS_AND_MIDDLE])


def _label_axes(axes: Axes, view: EpisodeView) -> None:
    first, second = view.plane.share
    axes.set_xlabel(f"first principal component ({100 * first:.0f} % of the variance)")
    axes.set_ylabel(f"second ({100 * second:.0f} %)")


def _colours(view: EpisodeView) -> list[str]:
    return [SERIES[c % len(SERIES)] for c in range(len(view.names))]


def _set_limits(axes: Axes, points: np.ndarray, margin: float) -> float:
    """Show all points in a plane of a fixed shape, and return its width. It is 1 around a single point."""
    low, high = points.min(axis=0), points.max(axis=0)
    width = float(max(high[0] - low[0], (high[1] - low[1]) / ASPECT)) or 1.0
    width *= 1 + 2 * margin
    (x, y), height = (low + high) / 2, ASPECT * width
    axes.set(xlim=(x - width / 2, x + width / 2), ylim=(y - height / 2, y + height / 2))
    return width


def _emptiest(spots: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """Return the spot of (K, 2) that is farthest from all taken points (N, 2)."""
    room = np.linalg.norm(spots[:, None] - taken, axis=2).min(axis=1)
    return np.asarray(spots[room.argmax()])


def _draw_picture(
    axes: Axes, pixels: np.ndarray, spot: np.ndarray, side: float, colour: str, frame: float = 0
) -> np.ndarray:
    """Draw an image at a spot, moved into the axes if needed, with a frame of side `frame`. Return its middle."""
    low, high = np.array([axes.get_xlim(), axes.get_ylim()]).T
    x, y = middle = np.asarray(spot.clip(low + 0.6 * side, high - 0.6 * side))
    place(axes, pixels, middle, (side, side), colour)
    if frame:
        corner = (x - frame / 2, y - frame / 2)
        axes.add_patch(Rectangle(corner, frame, frame, facecolor=PAPER, edgecolor=colour, lw=1, zorder=2.8))
    return middle
