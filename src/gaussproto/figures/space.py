"""The embedding space of an episode in the plane of its two principal components."""

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
PAPER_OUTLINE = [withStroke(linewidth=2.5, foreground=PAPER)]  # keeps a number readable on top of lines
STAR: dict[str, Any] = {"marker": "*", "ms": 14, "mec": PAPER, "mew": 0.8, "zorder": 6}

# All lengths are shares of the plane's width.
RADIUS = 0.055  # the median circle or ellipse of a support
PICTURE, PICTURE_FRAME = 0.08, 0.09  # sides of an image beside a class or the query, and of its frame
PICTURE_GAP = 0.045  # from the outermost ellipse of a class to its image
QUERY_PICTURE_DISTANCE = 0.085  # from the query's cross to its image
SHORT_LINE = 0.2  # a line from the query to a prototype that has no room for its number
NUMBER_DISTANCE = 0.07  # from the end of a short line to its number
MAP_PICTURE = 0.042  # side of a query's image in a map
MAP_SUPPORT, MAP_SUPPORT_FRAME = 0.048, 0.054  # sides of a support's image in a map of dots, and of its frame
MAP_SUPPORT_ROOM = 0.035  # half the side of the empty square that it is put into
MAP_SUPPORT_DISTANCES = np.linspace(0.05, 0.25, 9)  # from its prototype, tried in this order


def ellipse(middle: np.ndarray, covariance: np.ndarray, factor: float, **style: object) -> Ellipse:
    """The points at `factor` standard deviations from the middle; with a precision s, a circle of factor / sqrt(s)."""
    values, vectors = np.linalg.eigh(covariance)
    width, height = 2 * factor * np.sqrt(values.clip(0))
    angle = float(np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0])))
    return Ellipse((float(middle[0]), float(middle[1])), width, height, angle=angle, **style)


@styled
def embedding_space(view: EpisodeView, query: tuple[int, int] = (0, 0)) -> Figure:
    """Supports with their ellipses, prototypes as stars, class ellipses, and the distances of one query."""
    figure = new_figure(6.4, 5.7)
    axes = figure.subplots()
    draw_space(axes, view, query)
    _label_axes(axes, view)
    return figure


def space_note(view: EpisodeView) -> str:
    D = view.x.shape[-1]
    text = (
        f"Dots are supports, stars prototypes, the cross a query, the hardest of {view.d[..., 0].size}; numbers at the "
        f"dashed lines are its distances in all {D} dimensions, the nearest in bold."
    )
    if view.s is None:
        return text + " A vanilla network: no precision, so no ellipses."
    text += (
        " Outlines are supports, filled shapes classes; a radius is one common factor times 1/√s, so a class, whose "
        "precision is the sum of its supports', has a smaller one."
    )
    return text + ("" if view.in_distance else " The distance is the plain one: the precision only weighs supports.")


def draw_space(axes: Axes, view: EpisodeView, query: tuple[int, int], pictures: bool = True) -> None:
    """The embedding plane of an episode, into given axes; with `pictures`, a support of each class beside it."""
    points, stars, cross = map(view.plane.project, (view.x, view.p, view.x_query[query]))
    everything = np.concatenate([points.reshape(-1, 2), stars, cross[None]])
    width = _set_limits(axes, everything, margin=0.2 if pictures else 0.1)
    for star in stars:
        axes.plot(*np.stack([cross, star]).T, color=SOFT, lw=1, ls=(0, (4, 3)), zorder=2)
    _draw_ellipses(axes, view, points, stars, width)
    for c, colour in enumerate(_colours(view)):
        axes.plot(*points[c].T, MARKERS[c % len(MARKERS)], color=colour, ms=4.5, zorder=5)
        axes.plot(*stars[c : c + 1].T, color=colour, **STAR)
        if pictures:
            reach = float(np.linalg.norm(points[c] - stars[c], axis=1).max()) + (RADIUS + PICTURE_GAP) * width
            away = (stars[c] - cross) / max(float(np.linalg.norm(stars[c] - cross)), 1e-9)
            _draw_picture(axes, view.support[c, 0], stars[c] + reach * away, PICTURE * width, colour)
    axes.plot(*cross[:, None], "X", color=INK, ms=8, markeredgecolor=PAPER, zorder=7)
    lines = cross + np.linspace(0, 1, 50)[5:, None, None] * (stars - cross)  # all of them begin at the query
    taken = np.concatenate([points.reshape(-1, 2), lines.reshape(-1, 2)])
    spot = _emptiest(cross + QUERY_PICTURE_DISTANCE * width * CIRCLE, taken)
    picture = _draw_picture(axes, view.query[query], spot, PICTURE * width, INK, PICTURE_FRAME * width)
    _draw_distances(axes, view.d[query], cross, points, stars, picture, width)
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


def _draw_distances(
    axes: Axes, d: np.ndarray, cross: np.ndarray, points: np.ndarray, stars: np.ndarray, picture: np.ndarray,
    width: float,
) -> None:  # fmt: skip
    """Write the distance of the query to each class (C,) on the line to its prototype, the nearest in bold."""
    numbers: list[np.ndarray] = []
    for c, star in enumerate(stars):
        gap, length = star - cross, float(np.linalg.norm(star - cross))
        spots = cross + np.linspace(0.4, 0.7, 7)[:, None] * gap
        if length < SHORT_LINE * width:
            side = NUMBER_DISTANCE * width * np.array([-gap[1], gap[0]]) / max(length, 1e-9)
            spots = np.stack([star + side, star - side])
        x, y = middle = _emptiest(spots, np.stack([*points.reshape(-1, 2), *stars, picture, *numbers]))
        numbers.append(middle)
        weight = "bold" if c == d.argmin() else "normal"
        font: dict[str, Any] = {"fontsize": 8, "weight": weight, "path_effects": PAPER_OUTLINE, "zorder": 8}
        axes.text(float(x), float(y), f"{d[c]:.2f}", ha="center", va="center", **font)


@styled
def embedding_map(view: EpisodeView, pictures: bool) -> Figure:
    """All queries of an episode, as the images themselves or as dots, and the prototypes of their classes."""
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
    (C, Q), frames = view.query.shape[:2], "" if pictures else ", one of which is in a frame"
    return (
        f"{C} classes never seen in training, {Q} queries of each; a star is the prototype of a class, made of "
        f"{view.support.shape[1]} supports{frames}."
    )


def _draw_supports(axes: Axes, view: EpisodeView, stars: np.ndarray, taken: np.ndarray, width: float) -> None:
    """Put a support of each class near its prototype, where there is room for its frame if anywhere."""
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
    """Show all points in a plane of a fixed shape and return its width; a plane around one point has the width 1."""
    low, high = points.min(axis=0), points.max(axis=0)
    width = float(max(high[0] - low[0], (high[1] - low[1]) / ASPECT)) or 1.0
    width *= 1 + 2 * margin
    (x, y), height = (low + high) / 2, ASPECT * width
    axes.set(xlim=(x - width / 2, x + width / 2), ylim=(y - height / 2, y + height / 2))
    return width


def _emptiest(spots: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """The one of some spots (K, 2) that is farthest from all that is taken (N, 2)."""
    room = np.linalg.norm(spots[:, None] - taken, axis=2).min(axis=1)
    return np.asarray(spots[room.argmax()])


def _draw_picture(
    axes: Axes, pixels: np.ndarray, spot: np.ndarray, side: float, colour: str, frame: float = 0
) -> np.ndarray:
    """Draw an image at a spot, but within the axes, in a frame of that side if any; returns its middle."""
    low, high = np.array([axes.get_xlim(), axes.get_ylim()]).T
    x, y = middle = np.asarray(spot.clip(low + 0.6 * side, high - 0.6 * side))
    place(axes, pixels, middle, (side, side), colour)
    if frame:
        corner = (x - frame / 2, y - frame / 2)
        axes.add_patch(Rectangle(corner, frame, frame, facecolor=PAPER, edgecolor=colour, lw=1, zorder=2.8))
    return middle
