"""An episode with its embeddings and distances, and its projection to a plane, for figures."""

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.decomposition import PCA
from torch import Tensor

from gaussproto.data.images import LabelledImages
from gaussproto.episodes import sample_drawings
from gaussproto.errors import InputError
from gaussproto.formulas.confidence import probabilities
from gaussproto.formulas.embedded import Embedded
from gaussproto.formulas.prototype import class_prototypes
from gaussproto.model.embed import embed_all
from gaussproto.model.network import GaussianPrototypicalNetwork


@dataclass(frozen=True)
class Plane:
    """The plane of the two principal components of some embeddings."""

    middle: np.ndarray  # (D,)
    axes: np.ndarray  # (D, 2), orthonormal
    share: tuple[float, float]  # of the variance along each axis

    def project(self, x: np.ndarray) -> np.ndarray:
        """(..., D) → (..., 2)."""
        return np.asarray((x - self.middle) @ self.axes)

    def covariance(self, s: np.ndarray) -> np.ndarray:
        """Project a precision (one number, (D,) or (D, D)) to a covariance (2, 2) in the plane."""
        if s.ndim == 2:
            return np.asarray(self.axes.T @ np.linalg.solve(s, self.axes))
        return np.asarray(self.axes.T @ (self.axes / np.broadcast_to(s, len(self.axes))[:, None]))


def principal_plane(x: np.ndarray) -> Plane:
    """Return the plane in which embeddings (N, D) vary most. The largest weight of each axis is positive."""
    with np.errstate(invalid="ignore", divide="ignore"):  # identical points have no variance
        pca = PCA(min(2, *x.shape), svd_solver="full").fit(np.asarray(x, dtype=np.float64))
    axes, share = np.zeros((x.shape[1], 2)), np.zeros(2)  # one-dimensional embeddings have one axis
    axes[:, : pca.n_components_] = pca.components_.T
    share[: pca.n_components_] = np.nan_to_num(pca.explained_variance_ratio_)
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), [0, 1]] < 0, -1, 1)
    return Plane(pca.mean_, axes, (float(share[0]), float(share[1])))


@dataclass(frozen=True)
class EpisodeView:
    """An episode with its embeddings, prototypes and distances, as float64 arrays."""

    names: tuple[str, ...]
    support: np.ndarray  # images (C, K, channels, H, W), uint8
    query: np.ndarray  # images (C, Q, channels, H, W), uint8
    x: np.ndarray  # (C, K, D)
    s: np.ndarray | None  # (C, K, E) or (C, K, D, D)
    x_query: np.ndarray  # (C, Q, D)
    p: np.ndarray  # (C, D)
    s_class: np.ndarray | None  # (C, E) or (C, D, D)
    d: np.ndarray  # (C, Q, C)
    in_distance: bool  # whether the class precision is part of the distance

    @property
    def probabilities(self) -> np.ndarray:
        """(C, Q, C): the softmax of the negative distances."""
        return probabilities(self.d)

    @property
    def hardest(self) -> tuple[int, int]:
        """The query (class, number) whose two nearest classes differ least in distance."""
        near = np.sort(self.d, axis=-1)
        row, column = np.unravel_index((near[..., 1] - near[..., 0]).argmin(), near.shape[:2])
        return int(row), int(column)

    @property
    def plane(self) -> Plane:
        return principal_plane(np.concatenate([self.x, self.x_query], axis=1).reshape(-1, self.x.shape[-1]))


def view_episode(
    network: GaussianPrototypicalNetwork, images: LabelledImages, way: int, shot: int, query: int, seed: int = 0
) -> EpisodeView:
    """Sample an episode of classes that are not rotations. It is smaller if there are too few classes or images."""
    generator = torch.Generator().manual_seed(seed)
    able = [c for c in images.unturned() if int(images.counts[c]) >= 2]
    if len(able) < 2:
        raise InputError("an episode needs at least two classes of two images each: add images to the test classes")
    enough = [c for c in able if int(images.counts[c]) >= shot + query]
    able = enough if len(enough) >= min(way, len(able)) else able
    classes = torch.tensor(able)[torch.randperm(len(able), generator=generator)[:way]]
    fewest = int(images.counts[classes].min())
    shot = min(shot, fewest - 1)
    drawn = images.gather(classes, sample_drawings(images.counts[classes], min(shot + query, fewest), generator))
    embedded = embed_all(network, drawn.flatten(0, 1)).map(lambda t: t.cpu().unflatten(0, drawn.shape[:2]))
    support, query_x = embedded[:, :shot], embedded.x[:, shot:]
    p, s_class = class_prototypes(*support)
    metric = s_class if network.config.in_distance else None
    with torch.no_grad():
        d = network.distances(query_x.flatten(0, 1), p, metric).unflatten(0, (len(classes), -1))
    x, s = support.map(_numbers)
    p, s_class = Embedded(p, s_class).map(_numbers)
    names = tuple(images.classes[c] for c in classes.tolist())
    pictures = drawn[:, :shot].numpy(), drawn[:, shot:].numpy()
    return EpisodeView(names, *pictures, x, s, _numbers(query_x), p, s_class, _numbers(d), metric is not None)


def _numbers(t: Tensor) -> np.ndarray:
    return np.asarray(t.detach().double().numpy())
