"""One training step: embed an episode, split it into supports and queries, update the weights."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from gaussproto.config import TrainingConfig
from gaussproto.formulas.embedded import Embedded
from gaussproto.model.network import GaussianPrototypicalNetwork


def make_optimizer(
    network: GaussianPrototypicalNetwork, training: TrainingConfig, moments_of: torch.optim.Adam | None = None
) -> torch.optim.Adam:
    """Return Adam for all parameters, with the moments of another optimiser for the parameters that they share."""
    optimizer = torch.optim.Adam(network.parameters(), lr=training.learning_rate, fused=True)
    if moments_of:
        optimizer.state.update({p: moments_of.state[p] for p in network.parameters() if p in moments_of.state})
    return optimizer


def learning_rate(training: TrainingConfig, episode: int) -> float:
    """Return the learning rate of an episode, counted from 0. It depends on nothing else, so a run can resume."""
    if training.schedule == "halving":
        return training.learning_rate * 0.5 ** (episode // training.halve_every)
    if training.schedule == "cosine":
        return training.learning_rate * 0.5 * (1 + math.cos(math.pi * episode / training.episodes))
    return training.learning_rate


def episode_loss(network: GaussianPrototypicalNetwork, episode: Embedded[Tensor], shot: int) -> tuple[Tensor, Tensor]:
    """Return the loss and the accuracy of the queries of an episode.

    The loss is the mean cross-entropy of a softmax of minus the distances.

    Args:
        network: the network, which measures the distances.
        episode: embedded images, x (C, K + Q, D). The first K = `shot` of each class are its supports.
        shot: the number of supports of each class.
    """
    C, drawings = episode.x.shape[:2]
    d = network(episode, shot)  # (C Q, C)
    truth = torch.arange(C, device=d.device).repeat_interleave(drawings - shot)
    return F.cross_entropy(-d, truth), (d.argmin(dim=1) == truth).float().mean()


def step(
    network: GaussianPrototypicalNetwork, optimizer: torch.optim.Optimizer, batch: Tensor, way: int, shots: list[int]
) -> Tensor:
    """Update the weights with one episode.

    On a GPU that supports it, the encoder runs in bfloat16. Everything after it, and on a CPU, runs in float32.

    Args:
        network: the network to train.
        optimizer: the optimiser of its parameters.
        batch: the images of the episode, (way * drawings, channels, H, W), ordered by class.
        way: the number of classes.
        shots: a number of supports for each split of the episode.

    Returns:
        The loss, the accuracy, and the mean and std of the precision, (4,). They stay on the device of the network, so
            that the step does not wait for a GPU.
    """
    dtype = next(network.parameters()).dtype
    with torch.autocast(batch.device.type, torch.bfloat16, enabled=batch.is_cuda and torch.cuda.is_bf16_supported()):
        embedded = network.embed(batch.contiguous(memory_format=torch.channels_last))
    episode = embedded.map(lambda t: t.to(dtype)).unflatten((way, -1))
    # Encoding is the expensive part, so split the episode several times, each time with other drawings as supports.
    results = [episode_loss(network, episode.roll(turn), shot) for turn, shot in enumerate(shots)]
    loss, accuracy = (torch.stack(each).mean() for each in zip(*results, strict=True))
    optimizer.zero_grad(set_to_none=True)
    (loss / way).backward()
    optimizer.step()
    return torch.stack([loss.detach(), accuracy, *_mean_and_std(embedded.s, like=loss)])


def _mean_and_std(s: Tensor | None, like: Tensor) -> tuple[Tensor, Tensor]:
    if s is None:
        return torch.full_like(like, torch.nan), torch.full_like(like, torch.nan)
    each = s.detach().to(like.dtype)
    each = each.diagonal(dim1=-2, dim2=-1) if each.dim() == 3 else each  # (N, E)
    return each.mean(), each.std(dim=0).mean()
