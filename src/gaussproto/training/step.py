"""One training step: embed its episodes, split each into supports and queries, update the weights."""

import math
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from gaussproto.config import TrainingConfig
from gaussproto.formulas.embedded import Embedded
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.training.ranks import ALONE, Ranks


def make_optimizer(
    network: GaussianPrototypicalNetwork, training: TrainingConfig, moments_of: torch.optim.Adam | None = None
) -> torch.optim.Adam:
    """Return Adam for all parameters, with the moments of another optimiser for the parameters that they share."""
    decay = training.weight_decay
    optimizer = torch.optim.Adam(
        network.parameters(),
        lr=training.learning_rate,
        weight_decay=decay,
        decoupled_weight_decay=decay > 0,
        fused=True,
    )
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
    network: GaussianPrototypicalNetwork,
    optimizer: torch.optim.Optimizer,
    episodes: Iterable[tuple[int, Tensor, list[int]]],
    way: int,
    count: int = 1,
    ranks: Ranks = ALONE,
) -> Tensor:
    """Update the weights with the mean gradient of some episodes, which the ranks share.

    In each episode, batch norm normalises with the statistics of that episode. The running statistics become the mean
    of those that each episode alone would leave. So the result does not depend on how the ranks share the episodes.

    Args:
        network: the network to train.
        optimizer: the optimiser of its parameters.
        episodes: the episodes of this rank. Each has its place in the step, its images in the order of their classes,
            (way * drawings, channels, H, W), and a number of supports for each split.
        way: the number of classes.
        count: the number of episodes of the step, on all ranks.
        ranks: the ranks that compute the step.

    Returns:
        For each episode the loss, the accuracy, and the mean and std of the precision, (count, 4). They stay on the
            device of the network, so that the step does not wait for a GPU.
    """
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    buffers = list(network.buffers())
    statistics = [buffer for buffer in buffers if buffer.is_floating_point()]
    before, after = [buffer.clone() for buffer in buffers], [torch.zeros_like(s) for s in statistics]
    rows = next(network.parameters()).new_zeros(count, 4)
    optimizer.zero_grad(set_to_none=True)
    for place, batch, shots in episodes:
        for buffer, old in zip(buffers, before, strict=True):
            buffer.copy_(old)
        rows[place] = add_gradient(network, batch, way, shots, count)
        for s, total in zip(statistics, after, strict=True):
            total += s
    if ranks.size > 1:
        for parameter in parameters:
            if parameter.grad is None:  # this rank has no episode, or the network does not use the parameter
                parameter.grad = torch.zeros_like(parameter)
        ranks.add_up([*(p.grad for p in parameters if p.grad is not None), *after, rows])
    for s, total in zip(statistics, after, strict=True):
        s.copy_(total / count)
    optimizer.step()
    return rows


def add_gradient(
    network: GaussianPrototypicalNetwork, batch: Tensor, way: int, shots: list[int], count: int = 1
) -> Tensor:
    """Add the gradient of an episode, divided by the `count` of episodes, to that of the parameters.

    On a GPU that supports it, the encoder runs in bfloat16. Everything after it, and on a CPU, runs in float32.
    """
    dtype = next(network.parameters()).dtype
    with torch.autocast(batch.device.type, torch.bfloat16, enabled=batch.is_cuda and torch.cuda.is_bf16_supported()):
        embedded = network.embed(batch.contiguous(memory_format=torch.channels_last))
    episode = embedded.map(lambda t: t.to(dtype)).unflatten((way, -1))
    # Encoding is the expensive part, so split the episode several times, each time with other drawings as supports.
    results = [episode_loss(network, episode.roll(turn), shot) for turn, shot in enumerate(shots)]
    loss, accuracy = (torch.stack(each).mean() for each in zip(*results, strict=True))
    (loss / (way * count)).backward()
    return torch.stack([loss.detach(), accuracy, *_mean_and_std(embedded.s, like=loss)])


def _mean_and_std(s: Tensor | None, like: Tensor) -> tuple[Tensor, Tensor]:
    if s is None:
        return torch.full_like(like, torch.nan), torch.full_like(like, torch.nan)
    each = s.detach().to(like.dtype)
    each = each.diagonal(dim1=-2, dim2=-1) if each.dim() == 3 else each  # (N, E)
    return each.mean(), each.std(dim=0).mean()
