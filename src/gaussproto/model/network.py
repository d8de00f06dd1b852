"""The Gaussian prototypical network: read this file first.

The network classifies images from a few labelled examples of each class. The examples are the supports, the images to
classify are the queries, and one such task is an episode. Every image becomes a Gaussian: an embedding x, which is a
point, and a precision s, the inverse covariance, which says how much to trust that point.

    x, s_raw = encoder(image)
    s        = transform(s_raw)               the precision, for example 1 + softplus(s_raw)
    s_c      = Σᵢ sᵢ                          the precision of class c, a sum over its supports i
    p_c      = s_c⁻¹ Σᵢ sᵢ xᵢ                 the prototype of class c, the weighted mean of its supports
    d_c      = √( (x − p_c)ᵀ S_c (x − p_c) )  the distance of a query x from class c; the nearest class is the answer

S_c is the precision of the class as a matrix. The methods below follow these lines: `embed` the images, form the
`prototypes`, measure the `distances`. `forward` does the last two for a whole episode. The encoder is in
`model/encoder.py`; the formulas are in `formulas/covariance.py`, `formulas/prototype.py` and `formulas/distance.py`.

Shapes: N images; C classes, with K supports and Q queries each; D numbers in an embedding; R raw numbers, which become
the E numbers of a precision. E is 1 or D. A full precision is a matrix (D, D), and a vanilla network has None.
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

SLACK = 1e-3  # resizing and distorting round, so values may leave the range from 0 to 1 by this much


class GaussianPrototypicalNetwork(nn.Module):
    """A network that maps images and classes to Gaussians and assigns each query to the nearest class.

    Reference: Fort, "Gaussian Prototypical Networks for Few-Shot Learning on Omniglot", 2017.

    Args:
        config: the settings: encoder, embedding size, covariance, distance, and where the precision acts.
        backbone: a module to use instead of the paper's encoder. It maps images (N, channels, H, W) from 0 to 1 to
            vectors (N, features), and normalises the images itself. A linear layer maps the vectors to x and s_raw.
        features: the length of the backbone's vectors. Required with `backbone`.

    Examples:
        >>> import gaussproto as gp
        >>> import torch
        >>> network = gp.GaussianPrototypicalNetwork(gp.NetworkConfig(embedding_dim=64, covariance="radius"))
        >>> images = torch.randint(256, (15, 1, 28, 28), dtype=torch.uint8)  # 5 classes of 3 images
        >>> episode = network.embed(images).unflatten((5, 3))
        >>> episode.x.shape, episode.s.shape
        (torch.Size([5, 3, 64]), torch.Size([5, 3, 1]))
        >>> network(episode, shot=1).shape  # distances of 10 queries from 5 classes
        torch.Size([10, 5])
    """

    def __init__(self, config: NetworkConfig, backbone: nn.Module | None = None, features: int | None = None) -> None:
        super().__init__()
        if backbone is not None:
            if features is None:
                raise ValueError("a backbone needs `features`: pass the length of the vectors that it returns")
            own = {"encoder": import_path(type(backbone)), "features": features, "residual": (), "grid": 1}
            config = config.model_copy(update=own)
        self.config = config
        D, covariance = config.embedding_dim, find_covariance(config.covariance)
        R = covariance.raw_size(D)
        self.sizes = [D, R]
        self.encoder: nn.Module = _make_encoder(config, R, backbone)
        self.precision = Precision(covariance, D, find_transform(config.transform))
        self.distance = find_distance(config.distance)

    def embed(self, images: Tensor) -> Embedded[Tensor]:
        """Map each image to an embedding and a precision.

        In evaluation mode (after `network.eval()`) each image is embedded independently. In training mode, batch norm
        uses the statistics of the batch.

        Args:
            images: (N, channels, H, W), uint8 or floats from 0 to 1.

        Returns:
            The embeddings x (N, D) and the precisions s (N, E), or None for a vanilla network.
        """
        _check_shape(images, self.config.channels)
        _check_range(images, self.training)
        x, s_raw = self.encoder(as_float(images)).split(self.sizes, dim=1)
        return Embedded(x, self.precision(s_raw))

    def prototypes(self, support: Embedded[Tensor]) -> tuple[Tensor, Tensor | None]:
        """Combine the supports of each class into one Gaussian.

        Args:
            support: embedded supports, x (C, K, D) and s (C, K, E) or None.

        Returns:
            The prototypes p (C, D) and the metric around each, s_class (C, E). The metric is None in a vanilla network
                and if the precision only weighs the supports.
        """
        p, s_class = class_prototypes(*support)
        return p, (s_class if self.config.in_distance else None)

    def distances(self, x: Tensor, p: Tensor, s_class: Tensor | None) -> Tensor:
        """Measure the distance of each query from each class.

        Args:
            x: embedded queries, (N, D).
            p: prototypes, (C, D).
            s_class: the metric around each prototype, (C, E), or None for the plain distance.

        Returns:
            The distances, (N, C).
        """
        d: Tensor = self.distance.value(x, p, s_class)
        return d

    def forward(self, episode: Embedded[Tensor], shot: int) -> Tensor:
        """Measure the distance of each query of an episode from each class.

        Args:
            episode: embedded images, x (C, K + Q, D) and s. The first K of each class are its supports.
            shot: K, the number of supports of each class.

        Returns:
            The distances (C * Q, C). The queries are in the order of their classes.
        """
        p, s_class = self.prototypes(episode[:, :shot])
        return self.distances(episode.x[:, shot:].flatten(0, 1), p, s_class)

    def order(self, x: Tensor, p: Tensor, s_class: Tensor | None) -> Tensor:
        """Rank the classes for each query, faster than with `distances`, for G episodes at once.

        Args:
            x: embedded queries, (G, N, D).
            p: prototypes, (G, C, D).
            s_class: the metric around each prototype, (G, C, E), or None.

        Returns:
            Numbers (G, C, N) in the order of each query's distances. The smallest belongs to the nearest class.
        """
        if type(self).distances is not GaussianPrototypicalNetwork.distances:  # overridden in a subclass
            return self.distances(x, p, s_class).mT
        order: Tensor = self.distance.order(x, p, s_class)
        return order

    def set_transform(self, transform: str) -> None:
        """Replace the transform and keep the weights of the encoder."""
        self.config = self.config.model_copy(update={"transform": transform})
        self.precision.transform = LearnedTransform(find_transform(transform)).to(next(self.parameters()).device)


class Precision(nn.Module):
    """The step from the raw output of the encoder to precisions.

    >>> from gaussproto.formulas.covariance import Full, Softplus
    >>> Precision(Full(), 3, Softplus())(torch.zeros(2, 6)).shape
    torch.Size([2, 3, 3])
    """

    def __init__(self, covariance: Covariance, D: int, transform: Transform) -> None:
        super().__init__()
        self.covariance, self.D = covariance, D
        self.transform = LearnedTransform(transform)

    def forward(self, s_raw: Tensor) -> Tensor | None:
        """Map raw outputs (N, R) to precisions: (N, E), (N, D, D) if full, or None if vanilla."""
        return self.covariance.precision(s_raw, self.transform, self.D)


class LearnedTransform(nn.Module):
    """A transform whose learned scalars are parameters of the network."""

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self.value = transform.value
        for name, start in transform.parameters.items():
            self.register_parameter(name, nn.Parameter(torch.tensor(start)))

    def forward(self, s_raw: Tensor) -> Tensor:
        return self.value(s_raw, **dict(self.named_parameters()))


def as_float(images: Tensor) -> Tensor:
    """Convert uint8 images to float32 from 0 to 1. Float images are returned as they are."""
    return images.float().div_(255) if images.dtype == torch.uint8 else images


def _check_shape(images: Tensor, channels: int) -> None:
    if images.dim() != 4 or images.shape[1] != channels:
        raise InputError(
            f"images must have the shape (N, {channels}, H, W), where {channels} is the number of channels of the "
            f"network (found {tuple(images.shape)}): add or move the missing axis"
        )


def _check_range(images: Tensor, training: bool) -> None:
    """Raise InputError if float images leave the range from 0 to 1.

    Skipped when training on a GPU, because the check would have to wait for the GPU.
    """
    if images.dtype == torch.uint8 or (training and images.device.type != "cpu") or torch.compiler.is_compiling():
        return
    low, high = (0.0, 0.0) if images.numel() == 0 else map(float, images.float().aminmax())
    if not images.is_floating_point() or not (low >= -SLACK and high <= 1 + SLACK):
        raise InputError(
            f"images must be uint8 or floats from 0 to 1 (found {images.dtype} from {low:g} to {high:g}): convert "
            "pixels from 0 to 255 to uint8, or divide them by 255"
        )


def _make_encoder(config: NetworkConfig, R: int, backbone: nn.Module | None) -> nn.Module:
    D = config.embedding_dim
    if config.features is None:
        filters = config.filters or FILTERS[config.encoder]
        return Encoder(
            filters,
            D,
            R,
            config.channels,
            precision_relu=config.precision_relu,
            residual=config.residual,
            grid=config.grid,
        )
    backbone = _make_backbone(config.encoder) if backbone is None else backbone
    return Head(backbone, config.features, D, R, config.precision_relu)


def _make_backbone(name: str) -> nn.Module:
    try:
        backbone = find_callable(name, "encoder")()
    except TypeError as error:
        message = f"cannot create the encoder {name} without arguments ({error}): give its arguments default values"
        raise InputError(message) from None
    if not isinstance(backbone, nn.Module):
        remedy = "pass the name of such a class, or of a function that returns a module"
        raise InputError(f"{name} must create a torch.nn.Module (found {type(backbone).__name__}): {remedy}")
    return backbone
