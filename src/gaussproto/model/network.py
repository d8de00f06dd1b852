"""The Gaussian prototypical network: read this file first.

    images -> encoder -> [x, s_raw] -> precision s -> prototypes p, s_class -> distances d -> the nearest class

C classes, K supports, Q queries of each, D embedding size, E precision size (1 or D), N images.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gaussproto.config import NetworkConfig, Transform
from gaussproto.data.images import as_float
from gaussproto.model.covariance import Precision, make_transform, raw_size
from gaussproto.model.distance import distances
from gaussproto.model.encoder import FILTERS, Encoder, Head
from gaussproto.model.prototype import class_prototypes


class GaussianPrototypicalNetwork(nn.Module):
    """An image is a Gaussian in the embedding space; so is a class; a query belongs to the class that is nearest.

    Reference: Fort, "Gaussian Prototypical Networks for Few-Shot Learning on Omniglot", 2017.

    Args:
        config: sizes, covariance, distance, and where the precision acts.
        backbone: any network that gives vectors, in place of the paper's encoder; a linear head makes x and s_raw.
        features: the size of the backbone's vectors.

    >>> network = GaussianPrototypicalNetwork(NetworkConfig(embedding_dim=64, covariance="radius"))
    >>> x, s = network.embed(torch.zeros(6, 1, 28, 28, dtype=torch.uint8))
    >>> x.shape, s.shape
    (torch.Size([6, 64]), torch.Size([6, 1]))
    """

    def __init__(self, config: NetworkConfig, backbone: nn.Module | None = None, features: int | None = None) -> None:
        super().__init__()
        self.config = config
        D = config.embedding_dim
        R = raw_size(config.covariance, D)
        if backbone is None:
            filters = config.filters or FILTERS[config.encoder]
            linear = 0 if config.precision_relu else R
            self.encoder: nn.Module = Encoder(filters, D + R, config.channels, linear)
        else:
            if features is None:
                raise ValueError("say with `features` how many numbers the backbone gives for an image")
            self.encoder = Head(backbone, features, D, R, config.precision_relu)
        self.precision = Precision(config.covariance, D, config.transform)
        self.sizes = [D, R]

    def embed(self, images: Tensor) -> tuple[Tensor, Tensor | None]:
        """Images, uint8 or from 0 to 1, (N, channels, H, W) -> embeddings x (N, D), precisions s (N, E) or None."""
        images = as_float(images)
        images = images - images.mean(dim=(1, 2, 3), keepdim=True)
        x, s_raw = self.encoder(images).split(self.sizes, dim=1)
        return x, self.precision(s_raw)

    def prototypes(self, x: Tensor, s: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Supports (C, K, D), (C, K, E) -> prototypes p (C, D) and the metric around each, s_class (C, E) or None."""
        p, s_class = class_prototypes(x, s)
        return p, (s_class if self.config.in_distance else None)

    def distances(self, x: Tensor, p: Tensor, s_class: Tensor | None) -> Tensor:
        """Queries (N, D) -> d (N, C)."""
        return distances(x, p, s_class, self.config.distance)

    def forward(self, support: Tensor, query: Tensor) -> Tensor:
        """Support images (C, K, channels, H, W) and query images (N, channels, H, W) -> d (N, C)."""
        C, K = support.shape[:2]
        x, s = self.embed(torch.cat([support.flatten(0, 1), query]))  # together: one batch, one set of statistics
        p, s_class = self.prototypes(
            x[: C * K].unflatten(0, (C, K)), None if s is None else s[: C * K].unflatten(0, (C, K))
        )
        return self.distances(x[C * K :], p, s_class)

    def set_transform(self, transform: Transform) -> None:
        """Go on with another transform; all weights stay."""
        self.config = self.config.model_copy(update={"transform": transform})
        self.precision.transform = make_transform(transform).to(next(self.parameters()).device)
