"""Episodes: which classes, and which of their images; the first of each are supports, the rest queries."""

import torch
from torch import Tensor

from gaussproto.config import EpisodeConfig
from gaussproto.data.images import LabelledImages
from gaussproto.errors import InputError


def fit_episode_to(episode: EpisodeConfig, images: LabelledImages) -> EpisodeConfig:
    """The episode made as small as the number of classes and the smallest of them ask for, if it says `adapt`.

    Queries go before supports, down to one; then supports.
    """
    if not episode.adapt:
        return episode
    c = int(images.counts.argmin())
    most = int(images.counts[c])
    if images.way < 2 or most < 2:
        found = f"class {images.classes[c]!r} has only one image" if most < 2 else "there is only one class"
        raise InputError(f"{found}: an episode needs two classes and a support and a query of each, so add some")
    high = episode.max_shot or episode.shot
    query = min(episode.query, max(1, most - high))
    high = min(high, most - query)
    smaller = {
        "way": min(episode.way, images.way),
        "shot": min(episode.shot, high),
        "max_shot": episode.max_shot and high,
        "query": query,
        "splits": min(episode.splits, high + query),
    }
    return episode.model_copy(update=smaller)


def check_enough(images: LabelledImages, way: int, drawings: int) -> None:
    """Raise InputError if a class, or the number of classes, is too small for episodes of this size."""
    if way > images.way:
        raise InputError(
            f"way is {way}, but there are only {images.way} classes to train on: choose a smaller way, add classes, or "
            "let --adapt make episodes as small as the data"
        )
    if int(images.counts.min()) < drawings:
        c = int(images.counts.argmin())
        raise InputError(
            f"class {images.classes[c]!r} has {int(images.counts[c])} images, but an episode takes {drawings} of each "
            "class (shot + query): add images, choose a smaller shot or query, or let --adapt choose them"
        )


def sample_drawings(counts: Tensor, drawings: int, generator: torch.Generator) -> Tensor:
    """(C, drawings): for each class, that many different ones of its images, in random order."""
    order = torch.rand(len(counts), int(counts.max()), generator=generator)
    order[torch.arange(order.shape[1]) >= counts[:, None]] = 2.0  # what is not there comes last
    return order.argsort(dim=1)[:, :drawings]


def sample_episode(
    images: LabelledImages, way: int, drawings: int, generator: torch.Generator, mirror: bool = False
) -> Tensor:
    """(way, drawings, channels, H, W) uint8: random classes without replacement, random drawings of each.

    With `mirror` each class is, with probability one half, the mirror image of itself, which is a class of its own.
    """
    check_enough(images, way, drawings)
    classes = torch.randperm(images.way, generator=generator)[:way]
    drawn = images.gather(classes, sample_drawings(images.counts[classes], drawings, generator))
    if mirror:
        flipped = (torch.rand(way, generator=generator) < 0.5).to(drawn.device)
        drawn[flipped] = drawn[flipped].flip(-1)
    return drawn
