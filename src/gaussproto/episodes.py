"""Sample episodes: random classes, and random images of each. The first images are supports, the rest queries."""

import torch
from torch import Tensor

from gaussproto.config import EpisodeConfig
from gaussproto.data.images import VARIED, LabelledImages
from gaussproto.errors import InputError


def fit_episode_to(episode: EpisodeConfig, images: LabelledImages) -> EpisodeConfig:
    """Return the episode, reduced to the number of classes and to the smallest class if `adapt` is set.

    Queries are reduced first, down to one, and then supports.
    """
    if not episode.adapt:
        return episode
    c = int(images.counts.argmin())
    most = int(images.counts[c])
    if images.way < 2 or most < 2:
        found = f"class {images.classes[c]!r} has only one image" if most < 2 else "found only one class"
        raise InputError(f"an episode needs at least two classes of two images each ({found}): add images")
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
    """Raise InputError unless there are enough classes, and enough images of each, for episodes of this size."""
    if way > images.way:
        raise InputError(
            f"way must be at most the {images.way} classes (found {way}): choose a smaller way, add classes, or pass "
            "--adapt to reduce episodes to the data"
        )
    if int(images.counts.min()) < drawings:
        c = int(images.counts.argmin())
        raise InputError(
            f"class {images.classes[c]!r} has {int(images.counts[c])} images, but an episode needs {drawings} of each "
            "class (shot + query): add images, choose a smaller shot or query, or pass --adapt to reduce episodes to "
            "the data"
        )


def sample_drawings(counts: Tensor, drawings: int, generator: torch.Generator) -> Tensor:
    """Draw different images of each class at random: indices (C, drawings), from 0 to the class's count - 1."""
    order = torch.rand(len(counts), int(counts.max()), generator=generator)
    order[torch.arange(order.shape[1]) >= counts[:, None]] = 2.0  # sort places beyond the count last
    return order.argsort(dim=1)[:, :drawings]


def sample_neighbours(groups: Tensor, way: int, generator: torch.Generator) -> Tensor:
    """Draw classes at random from as few groups as possible: indices (way,). Only one group may be incomplete.

    >>> drawn = sample_neighbours(torch.tensor([0, 0, 1, 1]), 2, torch.Generator().manual_seed(0))
    >>> sorted(drawn.tolist()) in ([0, 1], [2, 3])
    True
    """
    mixed = torch.randperm(len(groups), generator=generator)
    turn = torch.randperm(int(groups.max()) + 1, generator=generator)
    return mixed[turn[groups[mixed]].argsort(stable=True)][:way]


def sample_episode(
    images: LabelledImages,
    way: int,
    drawings: int,
    generator: torch.Generator,
    mirror: bool = False,
    *,
    varied: float = VARIED,
    within_alphabet: float = 0.0,
) -> Tensor:
    """Draw the images of one episode at random.

    Args:
        images: the images to draw from.
        way: the number of classes, drawn without replacement.
        drawings: the number of different images of each class, supports and queries together.
        generator: the source of random numbers.
        mirror: mirror each class with probability one half. A mirrored class counts as a new class.
        varied: the fraction of the images that one of their variants replaces, if they have any.
        within_alphabet: the probability that the classes come from few alphabets, each in one rotation. Such an
            alphabet is mirrored as a whole.

    Returns:
        The images, (way, drawings, channels, H, W), uint8.

    Examples:
        Five classes with one support and two queries each:

        >>> import gaussproto as gp
        >>> import torch
        >>> images = gp.load_data(gp.DataConfig(data="strokes", rotations=False)).train
        >>> generator = torch.Generator().manual_seed(0)
        >>> episode = gp.sample_episode(images, way=5, drawings=3, generator=generator)
        >>> supports, queries = episode[:, :1], episode[:, 1:]
        >>> supports.shape, queries.shape
        (torch.Size([5, 1, 1, 28, 28]), torch.Size([5, 2, 1, 28, 28]))
    """
    check_enough(images, way, drawings)
    near = within_alphabet > 0 and bool(torch.rand((), generator=generator) < within_alphabet)
    if near:
        classes = sample_neighbours(images.groups, way, generator)
    else:
        classes = torch.randperm(images.way, generator=generator)[:way]
    drawn = images.gather(classes, sample_drawings(images.counts[classes], drawings, generator), generator, varied)
    if mirror:
        coin = torch.rand(int(images.groups.max()) + 1 if near else way, generator=generator) < 0.5
        flipped = (coin[images.groups[classes]] if near else coin).to(drawn.device)
        drawn[flipped] = drawn[flipped].flip(-1)
    return drawn
