"""Find copies among the examples of a classifier."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from PIL import Image

from gaussproto.classifier.examples import SAME
from gaussproto.classifier.inputs import as_picture
from gaussproto.data.picture import resize
from gaussproto.errors import InputError

NEAR = 0.5  # of the usual distance from the nearest other example: the pictures of closer ones are compared
ALIKE = 0.98  # correlation of two small pictures that show the same
SIDE = 28  # pixels of a small picture
SAMPLE = 500  # examples whose nearest others give the usual distance
NUMBERS = 10_000_000  # distances at once
ROUNDING = 1e-5  # of float32
PAIRS = 20_000  # of pictures, at most
DIFFERENT = 20  # pictures with the same embedding, at most


def find_copies(x: np.ndarray, files: Sequence[str]) -> list[np.ndarray]:
    """Return groups of examples that show the same image, each as sorted indices.

    Two examples are copies if their embeddings are near and the pictures in their files are alike, for example after
    another compression. Without files, the embeddings must be the same up to rounding. With files that is not enough:
    two dots of different sizes look the same to a network that sees all drawings at one size.

    Args:
        x: embeddings, (N, D).
        files: (N,) the file of each example, or "" if it has none that can be read.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    scale = float(np.abs(x).max()) or 1.0  # squares of large numbers would overflow
    x = (x / scale).astype(np.float64)
    x = x - x.mean(axis=0)
    size = float(np.median(np.linalg.norm(x, axis=1))) or 1.0
    same = SAME * size
    cells = np.rint(x / (same / np.sqrt(x.shape[1]))).astype(np.int64)  # two in one cell are the same
    _, first, of = np.unique(cells, axis=0, return_index=True, return_inverse=True)
    of = of.reshape(-1)
    pictures = _Pictures(files)
    links = [*_links_in_cells(of, pictures), np.empty((0, 2), dtype=int)]
    y = x[first]
    near = max(same, NEAR * _usual_distance(y)) if any(files) else same
    compared = 0
    for pairs, d in _near_pairs(y, near):
        for (a, b), close in zip(first[pairs[: PAIRS - compared]].tolist(), (d <= same).tolist(), strict=False):
            compared += 1
            if pictures.alike(a, b, otherwise=close):
                links.append(np.array([[a, b]]))
    a, b = np.concatenate(links).T
    graph = coo_array((np.ones(len(a)), (a, b)), shape=(len(x), len(x)))
    group = connected_components(graph, directed=False)[1]
    order = np.argsort(group, kind="stable")
    return [members for members in np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(members) > 1]


def _links_in_cells(of: np.ndarray, pictures: _Pictures) -> Iterator[np.ndarray]:
    """Yield pairs (1, 2) of copies among the examples whose embeddings are in the same cell `of` (N,)."""
    different: dict[int, list[int]] = {}
    alone = np.bincount(of) == 1
    for i in np.flatnonzero(~alone[of]).tolist():
        known = different.setdefault(int(of[i]), [])
        for other in known:
            if pictures.alike(other, i, otherwise=True):
                yield np.array([[other, i]])
                break
        else:
            if len(known) < DIFFERENT:
                known.append(i)


def _usual_distance(y: np.ndarray) -> float:
    """Return how far an example usually is from the nearest other one. Half of them may have copies."""
    if len(y) < 2:
        return 0.0
    some = np.unique(np.linspace(0, len(y) - 1, min(SAMPLE, len(y))).astype(int))
    squares = (y**2).sum(axis=1)
    d = squares[some, None] - 2 * y[some] @ y.T + squares
    d[np.arange(len(some)), some] = np.inf
    return float(np.sqrt(max(0.0, np.quantile(d.min(axis=1), 0.75))))


def _near_pairs(y: np.ndarray, near: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield pairs (n, 2) of rows that are at most `near` apart, and their distances (n,), the nearest first.

    Rows are sorted along the direction in which they differ most, so that each is compared with few others only.
    """
    along = y @ np.linalg.eigh(y.T @ y)[1][:, -1]
    order = np.argsort(along, kind="stable")
    along, z = along[order], y[order].astype(np.float32)
    squares = (z**2).sum(axis=1)
    limit = near**2 + ROUNDING * float(squares.max())
    block = max(1, NUMBERS // len(y))
    for start in range(0, len(y), block):
        stop = min(start + block, len(y))
        end = int(np.searchsorted(along, along[stop - 1] + near + ROUNDING, side="right"))
        d = squares[start:stop, None] - 2 * z[start:stop] @ z[start:end].T + squares[start:end]
        i, j = np.nonzero(d <= limit)
        pairs = np.sort(np.stack([order[start + i], order[start + j]], axis=1)[i < j], axis=1)
        exact = np.linalg.norm(y[pairs[:, 0]] - y[pairs[:, 1]], axis=1)
        nearest = np.argsort(exact, kind="stable")[: int((exact <= near).sum())]
        yield pairs[nearest], exact[nearest]


class _Pictures:
    """Small pictures of the examples, each read once."""

    def __init__(self, files: Sequence[str]) -> None:
        self._files = files
        self._known: dict[int, np.ndarray | None] = {}

    def alike(self, a: int, b: int, otherwise: bool) -> bool:
        """Return whether two examples show the same, or `otherwise` if a picture is missing."""
        u, v = self._small(a), self._small(b)
        if u is None or v is None:
            return otherwise
        norms = float(np.linalg.norm(u) * np.linalg.norm(v))
        return float(u @ v) >= ALIKE * norms

    def _small(self, i: int) -> np.ndarray | None:
        if i not in self._known:
            try:
                self._known[i] = as_picture(i, self._files[i], _centred, SIDE) if self._files[i] else None
            except InputError:
                self._known[i] = None
        return self._known[i]


def _centred(image: Image.Image) -> np.ndarray:
    pixels = resize(image, SIDE).astype(np.float64).ravel()
    return np.asarray(pixels - pixels.mean())
