"""The Gaussian prototypical network: read this file first.

    images -> encoder -> [x, s_raw] -> precision s -> prototypes p, s_class -> distances d -> the nearest class

C classes, K supports, Q queries of each, D embedding size, E precision size (1 or D), N images.
"""

import torch
from torch import Tensor, nn

from gaussproto.config import NetworkConfig
from gaussproto.errors import InputError
from gaussproto.formulas.covariance import Covariance, Transform, find_covariance, find_transform
from gaussproto.formulas.distance import find_distance
from gaussproto.formulas.embedded import Embedded
from gaussproto.formulas.named import find_callable, import_path
from gaussproto.formulas.prototype import class_prototypes
from gaussproto.model.encoder import Encoder, Head
from gaussproto.setting_types import FILTERS


class GaussianPrototypicalNetwork(nn.Module):
    """An image is a Gaussian in the embedding space; so is a class; a query belongs to the nearest class.

    Reference: Fort, "Gaussian Prototypical Networks for Few-Shot Learning on Omniglot", 2017.

    Args:
        config: sizes, covariance, distance, and where the precision acts.
        backbone: any network that maps images from 0 to 1 to vectors, in place of the paper's encoder; it normalises
            the images as it needs them. A linear head makes x and s_raw of its vectors.
        features: the size of the backbone's vectors.

    >>> network = GaussianPrototypicalNetwork(NetworkConfig(embedding_dim=64, covariance="radius"))
    >>> x, s = network.embed(torch.zeros(6, 1, 28, 28, dtype=torch.uint8))
    >>> x.shape, s.shape
    (torch.Size([6, 64]), torch.Size([6, 1]))
    """

    def __init__(self, config: NetworkConfig, backbone: nn.Module | None = None, features: int | None = None) -> None:
        super().__init__()
        if backbone is not None:
            if features is None:
                raise ValueError("tell with `features` how many numbers the backbone gives for an image")
            config = config.model_copy(update={"encoder": import_path(type(backbone)), "features": features})
        self.config = config
        D = config.embedding_dim
        R = find_covariance(config.covariance).raw_size(D)
        if config.features is None:
            filters = config.filters or FILTERS[config.encoder]
            linear = 0 if config.precision_relu else R
            self.encoder: nn.Module = Encoder(filters, D + R, config.channels, linear)
        else:
            backbone = _make_backbone(config.encoder) if backbone is None else backbone
            self.encoder = Head(backbone, config.features, D, R, config.precision_relu)
        self.precision = Precision(find_covariance(config.covariance), D, find_transform(config.transform))
        self.distance = find_distance(config.distance)
        self.sizes = [D, R]

    def embed(self, images: Tensor) -> Embedded[Tensor]:
        """Images, uint8 or from 0 to 1, (N, channels, H, W) -> embeddings x (N, D), precisions s (N, E) or None."""
        x, s_raw = self.encoder(as_float(images)).split(self.sizes, dim=1)
        return Embedded(x, self.precision(s_raw))

    def prototypes(self, support: Embedded[Tensor]) -> tuple[Tensor, Tensor | None]:
        """Supports (C, K, D), (C, K, E) -> prototypes p (C, D) and the metric around each, s_class (C, E) or None."""
        p, s_class = class_prototypes(*support)
        return p, (s_class if self.config.in_distance else None)

    def distances(self, x: Tensor, p: Tensor, s_class: Tensor | None) -> Tensor:
        d: Tensor = self.distance.value(x, p, s_class)
        return d

    def forward(self, episode: Embedded[Tensor], shot: int) -> Tensor:
        """An embedded episode (C, K + Q), the first K of each class its supports -> d (C Q, C) of the queries."""
        p, s_class = self.prototypes(episode[:, :shot])
        return self.distances(episode.x[:, shot:].flatten(0, 1), p, s_class)

    def order(self, x: Tensor, p: Tensor, s_class: Tensor | None) -> Tensor:
        """Queries (G, N, D), prototypes (G, C, D) -> numbers (G, C, N) in the order of each query's distances."""
        if type(self).distances is not GaussianPrototypicalNetwork.distances:  # a subclass has its own
            return self.distances(x, p, s_class).mT
        order: Tensor = self.distance.order(x, p, s_class)
        return order

    def set_transform(self, transform: str) -> None:
        """Go on with another transform; all weights stay."""
        self.config = self.config.model_copy(update={"transform": transform})
        self.precision.transform = LearnedTransform(find_transform(transform)).to(next(self.parameters()).device)


class Precision(nn.Module):
    """From the raw output to the precision of each image.

    >>> from gaussproto.formulas.covariance import Full, Softplus
    >>> Precision(Full(), 3, Softplus())(torch.zeros(2, 6)).shape
    torch.Size([2, 3, 3])
    """

    def __init__(self, covariance: Covariance, D: int, transform: Transform) -> None:
        super().__init__()
        self.covariance, self.D = covariance, D
        self.transform = LearnedTransform(transform)

    def forward(self, s_raw: Tensor) -> Tensor | None:
        """(N, R) -> (N, E), or (N, D, D) if full, or None."""
        return self.covariance.precision(s_raw, self.transform, self.D)


class LearnedTransform(nn.Module):
    """A transform with its learned scalars as parameters."""

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self.value = transform.value
        for name, start in transform.parameters.items():
            self.register_parameter(name, nn.Parameter(torch.tensor(start)))

    def forward(self, s_raw: Tensor) -> Tensor:
        return self.value(s_raw, **dict(self.named_parameters()))


def as_float(images: Tensor) -> Tensor:
    """Brightness from 0 to 1, as float32; float images pass as they are."""
    return images.float().div_(255) if images.dtype == torch.uint8 else images


def _make_backbone(name: str) -> nn.Module:
    try:
        backbone = find_callable(name, "encoder")()
    except TypeError as error:
        raise InputError(f"the encoder {name} cannot be made without arguments ({error})") from None
    if not isinstance(backbone, nn.Module):
        raise InputError(f"the encoder {name} is not a torch.nn.Module (found {type(backbone).__name__})")
    return backbone
