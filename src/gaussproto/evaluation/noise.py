"""Wrong labels and corrupted images: the accuracy of a network with each rule for prototypes.

Every class of an episode has an exact number of wrong supports. They come from other classes of the episode (swap), all
from one other class (pair), or from classes outside the episode (outlier). Of wrong supports that are not a pair, no
two of a class come from the same class, so the right class keeps a plurality even if they are three of five. Supports
or queries can also be corrupted. All networks, rules and conditions see the same episodes, so differences are paired.
"""

import zlib
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor

from gaussproto.data.corrupt import corrupt
from gaussproto.data.images import LabelledImages
from gaussproto.episodes import sample_drawings
from gaussproto.errors import InputError
from gaussproto.evaluation.protocol import groups_of_classes
from gaussproto.formulas.embedded import Embedded
from gaussproto.formulas.prototype import class_prototypes
from gaussproto.formulas.trust import PrototypeRule, support_trust
from gaussproto.model.embed import embed_all
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.progress import Progress, silent
from gaussproto.runs.noise import Condition

# The plain mean ignores the precision everywhere. The others use it as the network does.
Rule = Literal["plain mean", "weighted mean", "median", "agreement", "sharing"]
RULES: tuple[Rule, ...] = get_args(Rule)
_TRUST: dict[Rule, PrototypeRule] = {"median": "median", "agreement": "agreement", "sharing": "sharing"}
MOST_QUERIES = 15  # of each class in an episode, as in the literature
EPISODES = 60  # in all rounds together, at least
AT_ONCE = 60  # episodes
Accuracies = dict[Rule, np.ndarray]  # (C,), of each class


class Episodes(NamedTuple):
    """Many episodes. In every round, each class is in one of them."""

    classes: Tensor  # (G, way)
    counted: Tensor  # (G, way, M) which images count
    images: Tensor  # (G, way, M) of each class, in random order: supports, spare ones, queries
    cycle: Tensor  # (G, way) a random order of the classes
    outside: Tensor  # (G, way, M) images of classes that are not in the episode, all different if there are enough


def rules_of(network: GaussianPrototypicalNetwork, rules: Sequence[Rule] = RULES) -> tuple[Rule, ...]:
    """Return the rules that differ for a network. A vanilla one has no weighted mean."""
    return tuple(rule for rule in rules if rule != "weighted mean" or network.config.covariance != "none")


def usual_rounds(images: LabelledImages, way: int) -> int:
    """Return the number of rounds, 2 or as many as data of few classes need for `EPISODES` episodes."""
    return max(2, -(-EPISODES // -(-images.way // way)))


def check_condition(condition: Condition, images: LabelledImages, way: int, shot: int) -> None:
    """Raise InputError if episodes cannot be so, with the reason."""
    name, wrong = condition.text(shot), condition.wrong
    if wrong + condition.corrupted > shot:
        raise InputError(f"{name} needs {wrong + condition.corrupted} supports (found {shot}): take fewer bad ones")
    if wrong and condition.source == "pair" and 2 * wrong >= shot:
        raise InputError(f"{name} leaves the right class no majority of {shot} supports: take fewer wrong ones")
    if wrong and condition.source != "pair" and wrong > 1 and shot - wrong < 2:
        raise InputError(f"{name} leaves the right class no plurality of {shot} supports: take fewer wrong ones")
    others = images.way - way if condition.source == "outlier" else way - 1
    if wrong and others < (1 if condition.source == "pair" else wrong):
        where = "outside the episode" if condition.source == "outlier" else "in the episode"
        raise InputError(f"{name} needs {wrong} other classes {where} (found {others}): use data with more classes")


@torch.inference_mode()
def noise_accuracies(
    network: GaussianPrototypicalNetwork,
    images: LabelledImages,
    conditions: Sequence[Condition],
    *,
    way: int = 20,
    shot: int = 5,
    rounds: int | None = None,
    seed: int = 0,
    rules: Sequence[Rule] = RULES,
    progress: Progress = silent,
) -> list[Accuracies]:
    """Measure the accuracy of each class under each condition, with running statistics.

    Args:
        network: the network to measure.
        images: the test classes.
        conditions: what is wrong.
        way: classes of an episode.
        shot: supports of each class.
        rounds: how often the classes are divided into episodes at random. By default `usual_rounds`.
        seed: of the episodes and the corruptions.
        rules: the rules to measure.
        progress: called as the images are embedded.

    Returns:
        For each condition, the accuracy of each class (C,) by rule.
    """
    spare = max((condition.wrong for condition in conditions), default=0)
    fewest = int(images.counts.min())
    if fewest <= shot + spare:
        needed = f"{shot + spare + 1} images, {shot} supports, {spare} wrong ones of other classes and a query"
        raise InputError(f"every class needs at least {needed} (found {fewest}): use fewer shots or more images")
    if not 2 <= way <= images.way:
        raise InputError(f"way must be from 2 to {images.way}, the number of test classes (found {way})")
    for condition in conditions:
        check_condition(condition, images, way, shot)
    versions = list(dict.fromkeys((c.corruption, c.severity) for c in conditions if c.corruption))
    parts = [embed_all(network, images, progress)]
    for name, severity in versions:
        pixels = corrupt(images.images, name, severity, _generator(seed, f"{name} {severity}"))
        parts.append(embed_all(network, pixels, _named(progress, f"{name} {severity}")))
    embedded = Embedded.join(parts, torch.cat)
    start = {("", 0): 0} | {version: (v + 1) * len(images) for v, version in enumerate(versions)}
    M = min(fewest, shot + spare + MOST_QUERIES)
    rounds = usual_rounds(images, way) if rounds is None else rounds
    asked = torch.zeros(images.way)
    right = {rule: torch.zeros(len(conditions), images.way) for rule in rules_of(network, rules)}
    for episodes in _episodes(images, way, rounds, M, seed):
        classes, asks = episodes.classes.flatten(), episodes.counted[:, :, shot + spare :]
        asked.index_add_(0, classes, asks.sum(dim=2).flatten().float())
        made: dict[Condition, dict[Rule, tuple[Tensor, Tensor | None]]] = {}
        for c, condition in enumerate(conditions):
            offset = start[condition.corruption, condition.severity]
            key = Condition() if condition.queries and not (condition.wrong or condition.corrupted) else condition
            if key not in made:
                support = _supports(episodes, key, shot)
                support[:, :, key.wrong : key.wrong + key.corrupted] += offset
                made = {
                    key: _prototypes(network, embedded[support], rules)
                }  # conditions with the same supports follow another
            query = embedded.x[episodes.images[:, :, shot + spare :] + offset * condition.queries].flatten(1, 2)
            for rule, (p, s_class) in made[key].items():
                nearest = network.order(query, p, s_class).argmin(dim=1).unflatten(1, (way, -1)).cpu()
                hit = (nearest == torch.arange(way)[None, :, None]) & asks
                right[rule][c].index_add_(0, classes, hit.sum(dim=2).flatten().float())
    return [{rule: (each[c] / asked).double().numpy() for rule, each in right.items()} for c in range(len(conditions))]


def fewer_images(images: LabelledImages, each: int, seed: int = 0) -> LabelledImages:
    """Return at most this number of images of each class, drawn at random."""
    if int(images.counts.max()) <= each:
        return images
    counts = images.counts.clamp(max=each)
    drawn = images.starts[:, None] + sample_drawings(images.counts, each, _generator(seed, "images")).sort(dim=1).values
    kept = drawn[torch.arange(each) < counts[:, None]]
    return LabelledImages(images.images[kept], counts, images.classes, images.alphabets, images.characters)


def _episodes(images: LabelledImages, way: int, rounds: int, M: int, seed: int) -> Iterator[Episodes]:
    """Divide the classes into episodes at random, in every round. Yield about `AT_ONCE` of them at a time."""
    generator, choice = _generator(seed, "episodes"), _generator(seed, "wrong")
    waiting: list[Episodes] = []
    for last in (n == rounds - 1 for n in range(rounds)):
        parts = list(groups_of_classes(images, way, 1, generator, drawings=M))
        classes, counted, ordered = (torch.cat([part[i] for part in parts]) for i in range(3))
        index = torch.empty(images.way, M, dtype=torch.int64)
        index[classes] = ordered
        cycle = torch.rand(classes.shape, generator=choice).argsort(dim=1)
        others = torch.rand(len(classes), images.way, generator=choice).scatter_(1, classes, 2.0).argsort(dim=1)
        others = others[:, : images.way - way]
        at = torch.arange(way)[:, None] + torch.arange(M)  # place j takes the others from j on
        # The image in column m is of another class for each m, and of another drawing.
        chosen = others[:, at % max(1, others.shape[1])] if others.shape[1] else classes[:, :, None].expand_as(counted)
        waiting.append(Episodes(classes, counted, ordered, cycle, index[chosen, torch.arange(M)]))
        if last or sum(len(each.classes) for each in waiting) >= AT_ONCE:
            yield Episodes(*map(torch.cat, zip(*waiting, strict=True)))
            waiting = []


def _supports(episodes: Episodes, condition: Condition, shot: int) -> Tensor:
    """Choose the supports, the wrong ones first: indices of images (G, way, shot)."""
    chosen = episodes.images[:, :, :shot].clone()
    cycle = episodes.cycle
    for k in range(condition.wrong):
        if condition.source == "outlier":
            chosen[:, :, k] = episodes.outside[:, :, shot + k]
            continue
        turn = 1 if condition.source == "pair" else k + 1  # the class that comes so many places earlier in the cycle
        source = torch.empty_like(cycle).scatter_(1, cycle, cycle.roll(turn, dims=1))
        chosen[:, :, k] = episodes.images[:, :, shot + k].gather(1, source)
    return chosen


def _prototypes(
    network: GaussianPrototypicalNetwork, support: Embedded[Tensor], rules: Sequence[Rule]
) -> dict[Rule, tuple[Tensor, Tensor | None]]:
    """Return for each rule the prototypes and the metric around them."""
    metric = {"distance": network.config.distance, "in_distance": network.config.in_distance}
    made: dict[Rule, tuple[Tensor, Tensor | None]] = {}
    for rule in rules_of(network, rules):
        s = None if rule == "plain mean" else support.s
        trust = support_trust(_TRUST[rule], support.x, s, **metric) if rule in _TRUST else None  # type: ignore[arg-type]
        p, s_class = class_prototypes(support.x, s, trust=trust)
        made[rule] = p, s_class if network.config.in_distance else None
    return made


def _generator(seed: int, purpose: str) -> torch.Generator:
    """Return a generator for one purpose, so that each condition has the same episodes whatever else is measured."""
    return torch.Generator().manual_seed(seed + zlib.crc32(purpose.encode()))


def _named(progress: Progress, name: str) -> Progress:
    return lambda what, done, total: progress(f"{what}, {name}", done, total)
