"""Many classes that lie as those of a real network do: characters of Omniglot, and characters between two of them.

A class between two similar characters has a mean on the line between theirs. Its examples deviate from the mean as
drawings of the two characters do. Isotropic random vectors would be useless here: among a million of them in many
dimensions, no class is much nearer than the others.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.decomposition import PCA

from gaussproto import keep_freed_memory, load_data, load_network
from gaussproto.data.images import LabelledImages
from gaussproto.model.embed import embed_all
from gaussproto.runs.weights import open_weights, weights_file

WEIGHTS = {64: "drawings-small", 512: "drawings-big"}
STEP = {"drawings-small": 1, "drawings-big": 4}  # the big encoder gets every fourth character, to save time
NEAR = 20  # characters from which the partner of a character is drawn
SHRUNK = 10.0  # drawings that the pooled variance counts in the variance of one character
DRAWINGS = 20


class Drawings(NamedTuple):
    """Embedded drawings of C characters, 20 of each."""

    x: np.ndarray  # (C, 20, D), float32
    s: np.ndarray  # (C, 20, 1)


class Classes(NamedTuple):
    """C classes with one example each, and queries that show some of them."""

    p: np.ndarray  # (C, D), float32
    radius: np.ndarray  # (C, 1) the precision that the network gives a drawing
    diagonal: np.ndarray  # (C, D) the inverse variance of the character in each direction
    queries: np.ndarray  # (Q, D)
    truth: np.ndarray  # (Q,) the class of each query


def embed_drawings(D: int, folder: Path, data_root: Path | None = None) -> Drawings:
    """Embed all characters of Omniglot, once: the result is kept in a folder."""
    name = WEIGHTS[D]
    weights = open_weights(weights_file(name))
    file = folder / f"drawings-{D}-{weights.digest[:8]}.npz"
    if not file.exists():
        data = load_data(weights.run.data.for_evaluation(), data_root)
        parts = [_embed(name, images) for images in (data.train, data.test)]
        folder.mkdir(parents=True, exist_ok=True)
        x = _reduced(np.concatenate([x for x, _ in parts]), D)
        np.savez(file, x=x, s=np.concatenate([s for _, s in parts]))
    with np.load(file) as arrays:
        return Drawings(arrays["x"], arrays["s"])


def _embed(name: str, images: LabelledImages) -> tuple[np.ndarray, np.ndarray]:
    keep_freed_memory()
    characters = images.images.unflatten(0, (-1, DRAWINGS))[:: STEP[name]]
    embedded = embed_all(load_network(name), characters.flatten(0, 1))
    x, s = (t.reshape(-1, DRAWINGS, t.shape[-1]).numpy() for t in embedded)
    return x, s


def _reduced(x: np.ndarray, D: int) -> np.ndarray:
    """Reduce embeddings (C, 20, ·) to their D principal components."""
    return PCA(D, random_state=0).fit_transform(x.reshape(-1, x.shape[-1])).reshape(*x.shape[:2], D).astype(np.float32)


def make_classes(drawings: Drawings, C: int, Q: int, seed: int = 0) -> Classes:
    """Return C classes: the characters themselves, then characters between two similar ones."""
    rng = np.random.default_rng(seed)
    x, s = drawings
    mean, deviation = x.mean(axis=1), x - x.mean(axis=1, keepdims=True)
    pooled, own = (deviation**2).mean(axis=(0, 1)), (deviation**2).mean(axis=1)
    diagonal = 1 / ((DRAWINGS * own + SHRUNK * pooled) / (DRAWINGS + SHRUNK) + 1e-3 * pooled.mean())
    squares = (mean**2).sum(axis=1)
    d = squares[:, None] - 2 * mean @ mean.T + squares
    np.fill_diagonal(d, np.inf)
    near = np.argpartition(d, NEAR, axis=1)[:, :NEAR]

    first = np.arange(C) % len(x)
    second = near[first, rng.integers(NEAR, size=C)]
    share = rng.random(C, dtype=np.float32)
    share[: len(x)] = 0  # the characters themselves
    between = rng.random(C) < share  # whether a drawing deviates as one of the second character
    source = np.where(between, second, first)
    p, radius = np.empty((C, x.shape[2]), np.float32), np.empty((C, 1), np.float32)
    precision = np.empty_like(p)
    shown, which = rng.integers(DRAWINGS, size=C), rng.permutation(C)[:Q]
    for i in range(0, C, 1 << 16):
        some = slice(i, i + (1 << 16))
        w, a, b = share[some, None], first[some], second[some]
        p[some] = (1 - w) * mean[a] + w * mean[b] + deviation[source[some], shown[some]]
        radius[some] = s[source[some], shown[some]]
        precision[some] = diagonal[a] ** (1 - w) * diagonal[b] ** w
    other = (shown[which] + rng.integers(1, DRAWINGS, size=Q)) % DRAWINGS  # another drawing than the example
    w = share[which, None]
    queries = (1 - w) * mean[first[which]] + w * mean[second[which]] + deviation[source[which], other]
    return Classes(p, radius, precision, queries.astype(np.float32), which)
