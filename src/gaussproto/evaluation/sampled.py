"""The protocol for classes of hundreds of images: score random episodes of a few supports and queries of each class."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from gaussproto.data.images import LabelledImages
from gaussproto.episodes import sample_drawings
from gaussproto.errors import InputError
from gaussproto.evaluation.nearest import nearest_is_own
from gaussproto.formulas.embedded import Embedded
from gaussproto.model.embed import embed_all
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.progress import Progress, silent

EPISODES = 2000
QUERIES = 15  # of each class
MANY = 100  # images of every class: from here on, scoring all of them in every group would add little
AT_ONCE = 40  # episodes
MOST_EPISODES = 1_000_000


def usual_episodes(images: LabelledImages) -> int | None:
    """Return the number of episodes to sample by default, or None if the classes are small enough to score whole."""
    return EPISODES if int(images.counts.min()) >= MANY else None


def check_episodes(images: LabelledImages, shots: Sequence[int], episodes: int) -> None:
    if not 2 <= episodes <= MOST_EPISODES:
        raise InputError(f"episodes must be from 2 to {MOST_EPISODES:,} (found {episodes:,}): choose another number")
    fewest = int(images.counts.min())
    if max(shots) + QUERIES > fewest:
        c = int(images.counts.argmin())
        raise InputError(
            f"an episode needs {max(shots)} supports and {QUERIES} queries of each class (class {images.classes[c]!r} "
            f"has {fewest} images): choose fewer shots, or score whole groups with --rounds"
        )


@torch.inference_mode()
def sampled_accuracies(
    network: GaussianPrototypicalNetwork,
    images: LabelledImages,
    ways: Sequence[int],
    shots: Sequence[int],
    episodes: int,
    seed: int,
    progress: Progress = silent,
    views: int = 1,
) -> dict[tuple[int, int], tuple[Tensor, Tensor]]:
    """Return the accuracy (C,) of each class and the accuracy (episodes,) of each episode, for each way and shot.

    The accuracy of a class is NaN if it was in no episode.
    Each image is embedded once, independently of the others. Then an episode is an index and a small product.
    """
    embedded = embed_all(network, images.images, progress, views)
    return {
        (way, shot): episode_accuracies(network, images, way, shot, episodes, seed, embedded.__getitem__)
        for way in ways
        for shot in shots
    }


@torch.inference_mode()
def episode_accuracies(
    network: GaussianPrototypicalNetwork,
    images: LabelledImages,
    way: int,
    shot: int,
    episodes: int,
    seed: int,
    embedded: Callable[[Tensor], Embedded[Tensor]],
) -> tuple[Tensor, Tensor]:
    """Return the accuracy (C,) of each class and the accuracy (episodes,) of each episode.

    `embedded` maps the indices (G, way, M) of images to their embeddings; the first `shot` of each class are supports.
    """
    generator = torch.Generator().manual_seed(seed)  # the same episodes for every network
    right, asked = torch.zeros(2, images.way)
    each = []
    for classes, index in random_episodes(images, way, shot + QUERIES, episodes, generator):
        hit = nearest_is_own(network, embedded(index), [shot])[:, :, shot:, 0].cpu().float().mean(dim=2)
        right.index_add_(0, classes.flatten(), hit.flatten())
        asked.index_add_(0, classes.flatten(), torch.ones(classes.numel()))
        each.append(hit.mean(dim=1))
    return right / asked, torch.cat(each)


def random_episodes(
    images: LabelledImages, way: int, drawings: int, episodes: int, generator: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield G random episodes at a time: their classes (G, way), and the indices (G, way, drawings) of their images."""
    for start in range(0, episodes, AT_ONCE):
        G = min(AT_ONCE, episodes - start)
        classes = torch.rand(G, images.way, generator=generator).argsort(dim=1)[:, :way]
        drawn = sample_drawings(images.counts[classes.flatten()], drawings, generator).view(G, way, drawings)
        yield classes, images.starts[classes][..., None] + drawn
