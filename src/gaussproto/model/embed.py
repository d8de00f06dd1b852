"""Embed many images in batches, each by itself or each batch by its own statistics."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from gaussproto.formulas.embedded import Embedded
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.progress import Progress

BATCH = 256  # images embedded at once: with fewer, transforming the big encoder's filters each time costs a fifth
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@torch.no_grad()
def embed_all(
    network: GaussianPrototypicalNetwork, images: Tensor, progress: Progress | None = None
) -> Embedded[Tensor]:
    """Every image by itself (running statistics): x (N, D), s (N, E) or None."""
    parts = []
    with evaluating(network):
        for start in range(0, len(images), BATCH):
            parts.append(embed_batch(network, images[start : start + BATCH]))
            if progress is not None:
                progress("embedding", min(start + BATCH, len(images)), len(images))
    return Embedded.join(parts, torch.cat)


def embed_batch(network: GaussianPrototypicalNetwork, images: Tensor) -> Embedded[Tensor]:
    device = next(network.parameters()).device
    return network.embed(images.to(device).contiguous(memory_format=torch.channels_last))


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Within, the network is in evaluation mode; afterwards in the mode it was in."""
    training = network.training
    if training:
        network.eval()
    try:
        yield
    finally:
        if training:
            network.train()


@contextmanager
def batch_statistics(network: nn.Module) -> Iterator[None]:
    """Within, the batch norms use the statistics of the batch they see, and remember nothing of it."""
    norms = [module for module in network.modules() if isinstance(module, BATCH_NORMS)]
    kept = [(norm.running_mean, norm.running_var) for norm in norms]
    try:
        for norm in norms:
            norm.running_mean = norm.running_var = None
        yield
    finally:
        for norm, (mean, var) in zip(norms, kept, strict=True):
            norm.running_mean, norm.running_var = mean, var
