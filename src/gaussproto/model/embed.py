"""Embed many images in batches: each image independently, or with the statistics of its batch."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock, RLock
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from gaussproto.data.images import LabelledImages
from gaussproto.data.views import check_views, embed_views
from gaussproto.errors import InputError
from gaussproto.formulas.embedded import Embedded
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.progress import Progress

BATCH = 256  # images at once; with fewer, transforming the big encoder's filters so often costs a fifth of the time
BATCH_PIXELS = 2_000_000  # at once; large images come in smaller batches
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_MODES: WeakKeyDictionary[nn.Module, RLock] = WeakKeyDictionary()  # held by the thread that sets a network's mode
_MODES_LOCK = Lock()


@torch.no_grad()
def embed_all(
    network: GaussianPrototypicalNetwork,
    images: Tensor | LabelledImages,
    progress: Progress | None = None,
    views: int = 1,
) -> Embedded[Tensor]:
    """Embed many images in batches, each image independently of the others.

    Batch norm uses its running statistics, and no gradients are computed.

    Args:
        network: the network. Its training or evaluation mode is restored afterwards.
        images: `LabelledImages`, or a tensor (N, channels, H, W) of uint8 or of floats from 0 to 1.
        progress: a function that is called after each batch with "embedding", the number of images done, and N.
        views: 1, or 5 for the mean embedding and precision of the image and of four slightly moved copies.

    Returns:
        The embeddings x (N, D) and the precisions s (N, E), or None for a vanilla network.

    Examples:
        >>> import gaussproto as gp
        >>> import torch
        >>> network = gp.GaussianPrototypicalNetwork(gp.NetworkConfig(covariance="diagonal"))
        >>> x, s = gp.embed_all(network, torch.zeros(300, 1, 28, 28, dtype=torch.uint8))
        >>> x.shape, s.shape
        (torch.Size([300, 64]), torch.Size([300, 64]))
    """
    if not isinstance(network, GaussianPrototypicalNetwork):
        remedy = "load one with gaussproto.load_network"
        raise InputError(f"network must be a GaussianPrototypicalNetwork (found {network!r}): {remedy}")
    check_views(views)
    images = images.images if isinstance(images, LabelledImages) else torch.as_tensor(images)
    if len(images) == 0:
        raise InputError("images must not be empty (found no images): pass at least one")
    with evaluating(network):
        return embed_batches(network, images, progress, views)


def embed_batches(
    network: GaussianPrototypicalNetwork, images: Tensor, progress: Progress | None = None, views: int = 1
) -> Embedded[Tensor]:
    """Embed many images with a network in evaluation mode. Several threads can use the same network at once."""
    parts = []
    batch = max(1, min(BATCH, BATCH_PIXELS // max(1, math.prod(images.shape[-2:]))))
    for start in range(0, len(images), batch):
        parts.append(embed_views(partial(embed_batch, network), views, images[start : start + batch]))
        if progress is not None:
            progress("embedding", min(start + batch, len(images)), len(images))
    return Embedded.join(parts, torch.cat)


def embed_batch(network: GaussianPrototypicalNetwork, images: Tensor) -> Embedded[Tensor]:
    device = next(network.parameters()).device
    layout = torch.channels_last if images.dim() == 4 else torch.contiguous_format
    return network.embed(images.to(device).contiguous(memory_format=layout))


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Put the network into evaluation mode, and restore its mode afterwards. Other threads wait meanwhile."""
    with _MODES_LOCK:
        mode = _MODES.setdefault(network, RLock())
    with mode:
        training = [module for module in network.modules() if module.training]
        network.eval()
        try:
            yield
        finally:
            for module in training:  # some modules may be frozen
                module.training = True


@contextmanager
def batch_statistics(network: nn.Module) -> Iterator[None]:
    """Let batch norm use the statistics of each batch, and leave the running statistics unchanged."""
    norms = [module for module in network.modules() if isinstance(module, BATCH_NORMS)]
    kept = [(norm.running_mean, norm.running_var) for norm in norms]
    try:
        for norm in norms:
            norm.running_mean = norm.running_var = None
        yield
    finally:
        for norm, (mean, var) in zip(norms, kept, strict=True):
            norm.running_mean, norm.running_var = mean, var
