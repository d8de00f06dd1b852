"""One step of training: embed an episode, split it, learn from it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gaussproto.config import TrainingConfig
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.training.episode import episode_loss


def make_optimizer(
    network: GaussianPrototypicalNetwork, training: TrainingConfig, moments_of: torch.optim.Adam | None = None
) -> torch.optim.Adam:
    """Adam for every parameter, going on with the moments of another where they have the parameter in common."""
    optimizer = torch.optim.Adam(network.parameters(), lr=training.learning_rate, fused=True)
    if moments_of:
        for parameter in network.parameters():
            if parameter in moments_of.state:
                optimizer.state[parameter] = moments_of.state[parameter]
    return optimizer


def step(
    network: GaussianPrototypicalNetwork,
    optimizer: torch.optim.Optimizer,
    batch: Tensor,
    way: int,
    shots: Sequence[int],
) -> Tensor:
    """Learn from one episode; gives the loss, the accuracy, and the mean and spread of the precision, (4,).

    They stay where the network is, so that a GPU is not waited for. There the encoder computes in bfloat16; what
    follows it, and all on a CPU, is in single precision.

    Args:
        network: in training mode.
        optimizer: of its parameters.
        batch: images (way * drawings, channels, H, W), the drawings of a class together.
        way: C.
        shots: the number of supports in each split of the episode.
    """
    dtype = next(network.parameters()).dtype
    with torch.autocast(batch.device.type, torch.bfloat16, enabled=batch.is_cuda and torch.cuda.is_bf16_supported()):
        x, s = network.embed(batch.contiguous(memory_format=torch.channels_last))
    x_class = x.to(dtype).unflatten(0, (way, -1))
    s_class = None if s is None else s.to(dtype).unflatten(0, (way, -1))
    # What is encoded once can be split several times, each time with other drawings as the support.
    results = [
        episode_loss(network, x_class.roll(turn, dims=1), None if s_class is None else s_class.roll(turn, dims=1), shot)
        for turn, shot in enumerate(shots)
    ]
    loss = torch.stack([loss for loss, _ in results]).mean()
    accuracy = torch.stack([accuracy for _, accuracy in results]).mean()
    optimizer.zero_grad(set_to_none=True)
    (loss / way).backward()
    optimizer.step()
    return torch.stack([loss.detach(), accuracy, *_mean_and_spread(s, like=loss)])


def _mean_and_spread(s: Tensor | None, like: Tensor) -> tuple[Tensor, Tensor]:
    """Of the precision; without one, not a number."""
    if s is None:
        return torch.full_like(like, torch.nan), torch.full_like(like, torch.nan)
    each = s.detach().to(like.dtype)
    each = each.diagonal(dim1=-2, dim2=-1) if each.dim() == 3 else each  # (N, E)
    return each.mean(), each.std(dim=0).mean()
