"""The paper's protocol: score all test classes, 5-way and 20-way, with 1 to 19 supports and the rest as queries.

With running statistics (inductive), an embedding depends on nothing but its image. Each image is embedded once, and
every way, shot and grouping costs only an index and a few small products. With batch statistics (transductive, as in
the paper), each group is one batch, so every grouping is encoded again. One encoding serves all shots.
"""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from gaussproto.data.images import LabelledImages
from gaussproto.data.views import check_views
from gaussproto.episodes import sample_drawings
from gaussproto.errors import InputError
from gaussproto.evaluation.nearest import nearest_is_own
from gaussproto.evaluation.sampled import check_episodes, sampled_accuracies, usual_episodes
from gaussproto.formulas.embedded import Embedded
from gaussproto.model.embed import batch_statistics, embed_all, embed_batch, evaluating
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.progress import Progress, silent
from gaussproto.runs.metrics import Evaluation, Score
from gaussproto.setting_types import Norm

ROUNDS: dict[Norm, int] = {"running": 10, "batch": 1}
MOST_ROUNDS = 100_000
FEW = 30  # characters; with fewer, their standard deviation may be small by chance
CLASSES = 80  # scored at once, so that the data fit into the processor's cache


def evaluate(
    networks: GaussianPrototypicalNetwork | Sequence[GaussianPrototypicalNetwork],
    images: LabelledImages,
    ways: int | Sequence[int] = (5, 20),
    shots: int | Sequence[int] = tuple(range(1, 20)),
    *,
    rounds: int | None = None,
    norm: Norm = "running",
    within_alphabet: bool = False,
    episodes: int | None = None,
    views: int = 1,
    seed: int = 0,
    progress: Progress = silent,
) -> Evaluation:
    """Score a network, or the mean of several checkpoints, on classes that it was not trained on.

    In each round, the classes are divided at random into groups of size `way`. In every group, each class provides
    `shot` random images as supports and all its other images as queries. Every class is scored equally often. With
    `episodes`, random episodes are scored instead, as is usual where a class has hundreds of images.

    Args:
        networks: one network, or the checkpoints of a run.
        images: the test classes. The number of images may differ between classes.
        ways: classes of a group.
        shots: supports of each class.
        rounds: how often the classes are grouped. By default 10, or 1 with batch statistics, where each round encodes
            every image again.
        norm: the statistics of batch normalisation. `running` uses those of training, so each image is classified
            independently (inductive). `batch` uses those of the images in a group (transductive), as the paper does.
        within_alphabet: draw each group from one alphabet, in one rotation. Its characters are more alike.
        episodes: if given, the number of random episodes to score for each way and shot, with 15 queries of each class.
        views: 1, or 5 to embed each image also moved in four directions, and average. It takes five times as long.
        seed: of the groupings or episodes.
        progress: called as the images are embedded.

    Returns:
        The accuracy for each way and shot with its 95 % interval over characters (and, with `episodes`, over episodes),
            and how it was measured.

    Examples:
        >>> import gaussproto as gp
        >>> test = gp.load_data(gp.DataConfig(data="strokes", rotations=False)).test
        >>> result = gp.evaluate(gp.load_network("drawings-small"), test.select(range(40)), ways=[5, 20], shots=[1, 5])
        >>> [(score.way, score.shot) for score in result.scores]
        [(5, 1), (5, 5), (20, 1), (20, 5)]
        >>> result.score(20, 5).accuracy > 0.9
        True
    """
    networks = [networks] if isinstance(networks, GaussianPrototypicalNetwork) else list(networks)
    ways, shots = ([numbers] if isinstance(numbers, int) else numbers for numbers in (ways, shots))
    if not networks or not all(isinstance(network, GaussianPrototypicalNetwork) for network in networks):
        raise InputError("networks must be a network or a list of networks: load them with gaussproto.load_network")
    if not isinstance(images, LabelledImages):
        kind = type(images).__name__
        remedy = "use gaussproto.load_data or LabelledImages.from_labels"
        raise InputError(f"images must be a LabelledImages object (found {kind}): {remedy}")
    if episodes is not None and (rounds is not None or norm == "batch" or within_alphabet):
        raise InputError(
            "random episodes are scored with running statistics, from all classes: leave out rounds, norm and "
            "within_alphabet, or episodes"
        )
    check_views(views)
    if views > 1 and norm == "batch":
        raise InputError("views are averaged for each image independently: leave out views, or norm batch")
    rounds = 1 if episodes is not None else ROUNDS[norm] if rounds is None else rounds
    check_groups(images, ways, shots, rounds)
    if episodes is None:
        pools = by_alphabet(images, max(ways)) if within_alphabet else [torch.arange(images.way)]
        each = [
            _class_accuracies(network, images, pools, ways, shots, rounds, norm, views, seed, progress)
            for network in networks
        ]
        scores = [
            _score(way, shot, torch.stack([one[way, shot] for one in each]), images=images) for way, shot in each[0]
        ]
    else:
        check_episodes(images, shots, episodes)
        sampled = [sampled_accuracies(each, images, ways, shots, episodes, seed, progress, views) for each in networks]
        scores = [
            _score(*task, *(torch.stack([one[task][part] for one in sampled]) for part in (0, 1)), images=images)
            for task in sampled[0]
        ]
    return Evaluation(
        norm=norm,
        within_alphabet=within_alphabet,
        classes=images.way,
        rounds=rounds,
        sampled=episodes,
        views=views,
        seed=seed,
        checkpoints=len(networks),
        scores=tuple(scores),
    )


def _score(way: int, shot: int, by_class: Tensor, by_episode: Tensor | None = None, *, images: LabelledImages) -> Score:
    """Return the mean score of networks, from the accuracy of each class (networks, C) and of each episode, if any."""
    asked = ~by_class[0].isnan()  # a few random episodes may ask about only some of the classes
    characters = [name for name, there in zip(images.characters, asked.tolist(), strict=True) if there]
    every = by_class if by_episode is None else by_episode
    return Score(
        way=way,
        shot=shot,
        accuracy=every.mean().item(),
        interval=_interval(by_class[:, asked].mean(dim=0), characters, len(images)),
        interval_episodes=None if by_episode is None else interval_of_mean(by_episode.mean(dim=0)),
        std=every.mean(dim=1).std().item() if len(every) > 1 else None,
    )


def usual_ways(images: LabelledImages) -> list[int]:
    """Return the paper's ways, 5 and 20, if there are enough classes, otherwise the number of classes.

    For classes of hundreds of images, return 5 as is usual.
    """
    if usual_episodes(images):
        return [min(5, images.way)]
    return [way for way in (5, 20) if way <= images.way] or [images.way]


def usual_shots(images: LabelledImages) -> Sequence[int]:
    """Return the paper's shots, 1 to 19, but at most one less than the size of the smallest class.

    For classes of hundreds of images, return 1 and 5 as is usual.
    """
    if usual_episodes(images):
        return (1, 5)
    return range(1, max(1, min(19, int(images.counts.min()) - 1)) + 1)


def check_groups(images: LabelledImages, ways: Sequence[int], shots: Sequence[int], rounds: int) -> None:
    c, fewest = int(images.counts.argmin()), int(images.counts.min())
    if fewest < 2:
        found = f"class {images.classes[c]!r} has only one"
        raise InputError(f"every test class needs at least two images, a support and a query ({found}): add images")
    if not ways or not shots or rounds < 1:
        found = f"ways {list(ways)}, shots {list(shots)}, rounds {rounds}"
        raise InputError(f"evaluation needs at least one way, one shot and one round (found {found})")
    if rounds > MOST_ROUNDS:
        raise InputError(f"rounds must be at most {MOST_ROUNDS:,} (found {rounds:,}): the interval shrinks no further")
    if min(ways) < 2 or max(ways) > images.way:
        found = ", ".join(map(str, ways))
        raise InputError(f"ways must be from 2 to {images.way}, the number of test classes (found {found})")
    if min(shots) < 1 or max(shots) >= fewest:
        reason = f"class {images.classes[c]!r} has {fewest} images, and at least one must remain as a query"
        raise InputError(f"shots must be from 1 to {fewest - 1} (found {min(shots)} to {max(shots)}): {reason}")


def by_alphabet(images: LabelledImages, way: int) -> list[Tensor]:
    """Return the classes of each alphabet in each rotation. Raise InputError if one has fewer than `way` classes."""
    pools: dict[tuple[str, str], list[int]] = {}
    for c, (name, character) in enumerate(zip(images.classes, images.characters, strict=True)):
        pools.setdefault((images.alphabets[c], name.removeprefix(character)), []).append(c)
    for (alphabet, _), classes in pools.items():
        if len(classes) < way:
            raise InputError(
                f"groups within an alphabet can have at most as many classes as the alphabet (found {way}-way, but "
                f"{alphabet!r} has {len(classes)} classes): choose a smaller way"
            )
    return [torch.tensor(classes) for classes in pools.values()]


@torch.inference_mode()
def _class_accuracies(
    network: GaussianPrototypicalNetwork,
    images: LabelledImages,
    pools: Sequence[Tensor],
    ways: Sequence[int],
    shots: Sequence[int],
    rounds: int,
    norm: Norm,
    views: int,
    seed: int,
    progress: Progress,
) -> dict[tuple[int, int], Tensor]:
    """Return the accuracy (C,) of each class over all rounds, for each way and shot."""
    is_query = torch.arange(int(images.counts.max()))[:, None] >= torch.tensor(shots)  # (M, shots)
    embedded = embed_all(network, images.images, progress, views) if norm == "running" else None
    total, done = len(images) * rounds * len(ways), 0
    accuracies: dict[tuple[int, int], Tensor] = {}
    for way in ways:
        right, asked = torch.zeros(2, images.way, len(shots))
        generator = torch.Generator().manual_seed(seed)  # the same groupings for every network
        for group, counted, index, there in groups_of_classes(images, way, rounds, generator, pools=pools):
            if embedded:
                x = embedded[index]  # (G, way, M, D)
            else:
                x = _embed_groups(network, images.images, index, there)
                done += int(counted.sum())
                progress("encoding groups", done, total)
            query = counted[..., None] & is_query  # (G, way, M, shots)
            hit = nearest_is_own(network, x, shots).cpu() & query
            right.index_add_(0, group.flatten(), hit.sum(dim=2).flatten(0, 1).float())
            asked.index_add_(0, group.flatten(), query.sum(dim=2).flatten(0, 1).float())
        accuracies |= {(way, shot): share for shot, share in zip(shots, (right / asked).unbind(dim=1), strict=True)}
    return accuracies


def _interval(by_class: Tensor, characters: Sequence[str], images: int) -> float:
    """Return half the width of the 95 % interval of the mean accuracy over characters (Student's t).

    The rotations of a character are about equally difficult, so they count as one. For few characters, and if all score
    the same, it is at least the distance to the farther end of Wilson's interval, as if each image was asked once.
    """
    from scipy.stats import binomtest  # slow to import

    position = {name: i for i, name in enumerate(dict.fromkeys(characters))}
    index = torch.tensor([position[name] for name in characters])
    by_character = torch.zeros(len(position)).index_add(0, index, by_class) / torch.bincount(index)
    C, spread = len(position), by_character.std().item() if len(position) > 1 else 0.0
    interval = interval_of_mean(by_character)
    if C < FEW or spread == 0:
        n = max(1, images * C // len(characters))
        mean = by_character.mean().item()
        wilson = binomtest(round(mean * n), n).proportion_ci(method="wilson")
        interval = max(interval, float(wilson.high) - mean, mean - float(wilson.low))
    return min(1.0, interval)


def interval_of_mean(values: Tensor) -> float:
    """Return half the width of the 95 % interval of the mean (Student's t)."""
    from scipy.stats import t  # slow to import

    n = len(values)
    return float(t.ppf(0.975, n - 1)) * values.double().std().item() / math.sqrt(n) if n > 1 else 0.0


def groups_of_classes(
    images: LabelledImages, way: int, rounds: int, generator: torch.Generator, drawings: int | None = None,
    pools: Sequence[Tensor] | None = None,
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:  # fmt: skip
    """Divide all classes into random groups, once in each round, and yield G groups at a time.

    M is `drawings`, or the size of the largest class. No group has classes of two `pools`; by default, all classes are
    one pool. The last group of a pool is filled up with classes of its earlier groups, whose images do not count again.

    Yields:
        classes: (G, way) the classes of each group.
        counted: (G, way, M) which images count.
        index: (G, way, M) the indices of the images, in random order.
        there: (G, way, M) which of these exist, if classes have different sizes.
    """
    counts = images.counts
    M = drawings or int(counts.max())
    for _ in range(rounds):
        order = torch.minimum(sample_drawings(counts, M, generator), counts[:, None] - 1)
        index = images.starts[:, None] + order  # (C, M)
        there = torch.arange(M) < counts[:, None]
        grouped, new = [], []
        for pool in pools or [torch.arange(images.way)]:
            classes, missing = pool[torch.randperm(len(pool), generator=generator)], -len(pool) % way
            grouped.append(torch.cat([classes, classes[:missing]]).view(-1, way))
            new.append((torch.arange(len(pool) + missing) < len(pool)).view(-1, way))
        at_once = max(1, CLASSES // way)
        for group, is_new in zip(torch.cat(grouped).split(at_once), torch.cat(new).split(at_once), strict=True):
            yield group, there[group] & is_new[..., None], index[group], there[group]


def _embed_groups(
    network: GaussianPrototypicalNetwork, images: Tensor, index: Tensor, there: Tensor
) -> Embedded[Tensor]:
    """Encode each group as one batch: (G, way, M) → x (G, way, M, D), s."""
    parts = []
    with evaluating(network), batch_statistics(network):
        for group, present in zip(index, there, strict=True):
            slots = present.flatten().cumsum(0).sub(1).clamp_min(0).view_as(present)  # absent images repeat another
            parts.append(embed_batch(network, images[group[present]])[slots])
    return Embedded.join(parts, torch.stack)
