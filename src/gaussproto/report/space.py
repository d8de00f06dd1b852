"""The embedding space of an episode in the plane of its two principal components."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse, Rectangle
from matplotlib.patheffects import withStroke

from gaussproto.report.measure import EpisodeView
from gaussproto.report.pictures import place
from gaussproto.report.style import INK, MARKERS, PAPER, SERIES, SOFT, new_figure, styled

RADIUS = 0.055  # of the plot's width: the median circle or ellipse of a support
SHAPE = 0.88  # height of the plane to its width
CORNERS = np.array([[-1, -1], [-1, 1], [1, -1], [1, 1], [0, 0]])
HALO = [withStroke(linewidth=2.5, foreground=PAPER)]
STAR = {"marker": "*", "markersize": 14, "markeredgecolor": PAPER, "markeredgewidth": 0.8, "zorder": 6}


def common_factor(covariances: np.ndarray, width: float) -> float:
    """The factor from a standard deviation (N, 2, 2) to what is drawn, with which the median of them looks right."""
    typical = np.median(np.sqrt(np.trace(covariances, axis1=-2, axis2=-1) / 2))
    return RADIUS * width / float(typical)


def ellipse(middle: np.ndarray, covariance: np.ndarray, factor: float, **look: object) -> Ellipse:
    """The points at `factor` standard deviations from the middle; with a precision s, a circle of factor / sqrt(s)."""
    values, vectors = np.linalg.eigh(covariance)
    width, height = 2 * factor * np.sqrt(values.clip(0))
    angle = float(np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0])))
    return Ellipse((float(middle[0]), float(middle[1])), width, height, angle=angle, **look)


@styled
def embedding_space(view: EpisodeView, query: tuple[int, int] = (0, 0)) -> Figure:
    """Supports with their ellipses, prototypes as stars, class ellipses, and the distances of one query."""
    figure = new_figure(6.4, 5.7)
    axes = figure.subplots()
    draw_space(axes, view, query)
    share = view.plane.share
    axes.set_xlabel(f"first principal component ({100 * share[0]:.0f} % of the variance)")
    axes.set_ylabel(f"second ({100 * share[1]:.0f} %)")
    return figure


def draw_space(axes: Axes, view: EpisodeView, query: tuple[int, int], pictures: bool = True) -> None:
    """The embedding plane of an episode, into given axes; with `pictures`, a support of each class beside it."""
    plane = view.plane
    points, stars = plane.project(view.x), plane.project(view.p)
    asked = plane.project(view.x_query[query])
    width = _limits(axes, np.concatenate([points.reshape(-1, 2), stars, asked[None]]), margin=0.2 if pictures else 0.1)
    for star in stars:
        axes.plot(*np.stack([asked, star]).T, color=SOFT, lw=1, ls=(0, (4, 3)), zorder=2)
    if view.s is not None and view.s_class is not None:
        supports = np.array([[plane.covariance(s) for s in row] for row in view.s])
        classes = np.array([plane.covariance(s) for s in view.s_class])
        factor = common_factor(supports.reshape(-1, 2, 2), width)
        for c, colour in enumerate(_colours(view)):
            for middle, covariance in zip(points[c], supports[c], strict=True):
                axes.add_patch(ellipse(middle, covariance, factor, facecolor="none", edgecolor=colour, lw=0.9))
            light = {"facecolor": colour, "alpha": 0.28, "edgecolor": "none", "zorder": 1.5}
            axes.add_patch(ellipse(stars[c], classes[c], factor, **light))
    for c, colour in enumerate(_colours(view)):
        axes.plot(*points[c].T, MARKERS[c % len(MARKERS)], color=colour, ms=4.5, zorder=5)
        axes.plot(*stars[c : c + 1].T, color=colour, **STAR)  # type: ignore[arg-type]
        if pictures:
            reach = float(np.linalg.norm(points[c] - stars[c], axis=1).max()) + (RADIUS + 0.045) * width
            _beside(axes, view.support[c, 0], stars[c], stars[c] - asked, reach, 0.08 * width, colour)
    axes.plot(*asked[:, None], "X", color=INK, ms=8, markeredgecolor=PAPER, zorder=7)
    lines = asked + np.linspace(0, 1, 50)[:, None, None] * (stars - asked)
    taken = np.concatenate([points.reshape(-1, 2), lines[5:].reshape(-1, 2)])  # all lines begin at the query
    angles = np.linspace(0, 2 * np.pi, 32, endpoint=False)
    around = asked + 0.085 * width * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    box = _beside(axes, view.query[query], asked, _emptiest(around, taken) - asked, 0.085 * width, 0.08 * width, INK)
    axes.add_patch(_frame(box, 0.09 * width))
    labels: list[np.ndarray] = []
    for c, star in enumerate(stars):
        gap, length = star - asked, float(np.linalg.norm(star - asked))
        spots = asked + np.linspace(0.4, 0.7, 7)[:, None] * gap
        if length < 0.2 * width:  # no room on the line: beside its end
            side = 0.07 * width * np.array([-gap[1], gap[0]]) / max(length, 1e-9)
            spots = np.stack([star + side, star - side])
        middle = _emptiest(spots, np.stack([*points.reshape(-1, 2), *stars, box, *labels]))
        labels.append(middle)
        weight = "bold" if c == view.d[query].argmin() else "normal"
        words = f"{view.d[(*query, c)]:.2f}"
        axes.text(
            float(middle[0]),
            float(middle[1]),
            words,
            ha="center",
            va="center",
            fontsize=8,
            weight=weight,
            path_effects=HALO,
            zorder=8,
        )
    axes.set_aspect("equal")


@styled
def embedding_map(view: EpisodeView, pictures: bool) -> Figure:
    """All queries of an episode, as the images themselves or as dots, and the prototypes of their classes."""
    figure = new_figure(6.8, 6.0)
    axes = figure.subplots()
    plane = view.plane
    dots, stars = plane.project(view.x_query), plane.project(view.p)
    width = _limits(axes, np.concatenate([dots.reshape(-1, 2), stars]), margin=0.06 if pictures else 0.1)
    for c, colour in enumerate(_colours(view)):
        if pictures:
            for dot, pixels in zip(dots[c], view.query[c], strict=True):
                place(axes, pixels, (float(dot[0]), float(dot[1])), (0.042 * width, 0.042 * width), colour)
            axes.plot(*stars[c : c + 1].T, color=colour, **STAR)  # type: ignore[arg-type]
        else:
            face = "none" if c // len(SERIES) else colour
            axes.plot(*dots[c].T, MARKERS[c % len(MARKERS)], color=colour, ms=4, alpha=0.8, markerfacecolor=face)
    if not pictures:
        taken = np.concatenate([dots.reshape(-1, 2), stars])
        for c, colour in enumerate(_colours(view)):
            axes.plot(*stars[c : c + 1].T, color=colour, **STAR)  # type: ignore[arg-type]
            away = _free(stars[c], taken, width) - stars[c]
            reach = float(np.linalg.norm(away))
            box = _beside(axes, view.support[c, 0], stars[c], away, reach, 0.048 * width, colour)
            axes.add_patch(_frame(box, 0.054 * width, colour))
            taken = np.concatenate([taken, box + 0.027 * width * CORNERS])
    axes.set_aspect("equal")
    axes.set_xlabel(f"first principal component ({100 * plane.share[0]:.0f} % of the variance)")
    axes.set_ylabel(f"second ({100 * plane.share[1]:.0f} %)")
    return figure


def _colours(view: EpisodeView) -> list[str]:
    return [SERIES[c % len(SERIES)] for c in range(len(view.names))]


def _limits(axes: Axes, points: np.ndarray, margin: float) -> float:
    """Show all points in a frame of a fixed shape and give its width; a frame around one point has the width 1."""
    low, high = points.min(axis=0), points.max(axis=0)
    width = float(max(high[0] - low[0], (high[1] - low[1]) / SHAPE)) or 1.0
    width *= 1 + 2 * margin
    (x, y), height = (low + high) / 2, SHAPE * width
    axes.set_xlim(x - width / 2, x + width / 2)
    axes.set_ylim(y - height / 2, y + height / 2)
    return width


def _free(point: np.ndarray, taken: np.ndarray, width: float) -> np.ndarray:
    """A spot with room for a small frame, as near to a point as there is one; or else the emptiest."""
    angles = np.linspace(0, 2 * np.pi, 32, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    spot = point
    for reach in np.linspace(0.05, 0.25, 9) * width:
        spot = _emptiest(point + reach * circle, taken)
        if np.abs(taken - spot).max(axis=1).min() > 0.035 * width:
            break
    return spot


def _emptiest(spots: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """Of some spots (K, 2) the one that is farthest from all that is taken (N, 2)."""
    room = np.linalg.norm(spots[:, None] - taken, axis=2).min(axis=1)
    return np.asarray(spots[room.argmax()])


def _frame(middle: np.ndarray, side: float, colour: str = INK) -> Rectangle:
    corner = (float(middle[0]) - side / 2, float(middle[1]) - side / 2)
    return Rectangle(corner, side, side, facecolor=PAPER, edgecolor=colour, lw=1, zorder=2.8)


def _beside(
    axes: Axes, pixels: np.ndarray, point: np.ndarray, away: np.ndarray, reach: float, side: float, colour: str
) -> np.ndarray:
    """An image in that direction from a point, but within the axes; gives where."""
    where = point + reach * away / max(float(np.linalg.norm(away)), 1e-9)
    edges = np.array([axes.get_xlim(), axes.get_ylim()])
    where = where.clip(edges[:, 0] + 0.6 * side, edges[:, 1] - 0.6 * side)
    place(axes, pixels, (float(where[0]), float(where[1])), (side, side), colour)
    return np.asarray(where)
