"""The paper's test: every class, every number of supports, 5-way and 20-way, the other drawings as queries.

Under running statistics an image's embedding depends on nothing else, so each is embedded once; every way, shot and
grouping is then a gather and a few small products. Under batch statistics (the paper's, transductive) a grouping is
encoded as one batch, so each has to be encoded anew; one encoding still serves every shot.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gaussproto.config import Norm
from gaussproto.data.images import LabelledImages, Progress, silent
from gaussproto.errors import InputError
from gaussproto.model.distance import comparable
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.training.episode import sample_drawings
from gaussproto.training.memory import keep_freed_memory

BATCH = 256  # images embedded at once: with fewer, transforming the big encoder's filters each time costs a fifth
ROUNDS: dict[Norm, int] = {"running": 10, "batch": 1}
BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
CLASSES = 80  # scored at once: what is compared stays within a processor's cache


@dataclass(frozen=True)
class Score:
    """Accuracy of one way and shot; all numbers are shares of 1."""

    way: int
    shot: int
    accuracy: float
    interval: float  # 95 %: 1.96 standard errors of the mean over the characters of the test set
    std: float | None  # standard deviation over the checkpoints, as the paper reports it; None if there is one

    def words(self, spread: bool = True) -> str:
        """In % with its interval and, over several checkpoints, their standard deviation."""
        text = f"{100 * self.accuracy:.2f} ± {100 * self.interval:.2f}"
        return text + (f" (std {100 * self.std:.2f})" if spread and self.std is not None else "")


@dataclass(frozen=True)
class Evaluation:
    """The scores of one or several networks, and how they were measured."""

    norm: Norm
    classes: int
    rounds: int
    seed: int
    checkpoints: int
    scores: tuple[Score, ...]

    def score(self, way: int, shot: int) -> Score:
        """The one score of that way and shot."""
        for score in self.scores:
            if (score.way, score.shot) == (way, shot):
                return score
        raise InputError(f"{way}-way {shot}-shot was not measured: ask `evaluate` for it")

    def as_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        return asdict(self) | {"scores": [asdict(score) for score in self.scores]}


def evaluate(
    networks: GaussianPrototypicalNetwork | Sequence[GaussianPrototypicalNetwork],
    images: LabelledImages,
    ways: Sequence[int] = (5, 20),
    shots: Sequence[int] = tuple(range(1, 20)),
    *,
    rounds: int | None = None,
    norm: Norm = "running",
    seed: int = 0,
    progress: Progress = silent,
) -> Evaluation:
    """Score a network, or the mean of several checkpoints, on classes it has not seen.

    In each round the classes are grouped at random, `way` to a group, and in every group each class gives `shot` random
    drawings as support and all its others as queries. Every class is scored as often as every other.

    Args:
        networks: one, or the checkpoints of a run.
        images: the test classes; their counts may differ.
        ways: classes to a group.
        shots: supports of each class.
        rounds: how often the classes are grouped anew; if not given, 10, or 1 with batch statistics, where each round
            encodes every image again.
        norm: statistics of the batch norms: those of training, or of each group's own images (transductive).
        seed: of the groupings.
        progress: called as the images are embedded.
    """
    networks = [networks] if isinstance(networks, GaussianPrototypicalNetwork) else list(networks)
    rounds = ROUNDS[norm] if rounds is None else rounds
    check_asked(images, ways, shots, rounds)
    keep_freed_memory()
    for network in networks:
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    each = [_class_accuracies(network, images, ways, shots, rounds, norm, seed, progress) for network in networks]
    scores = []
    for way, shot in each[0]:
        correct = torch.stack([accuracies[way, shot] for accuracies in each])  # (networks, C)
        scores.append(
            Score(
                way,
                shot,
                accuracy=correct.mean().item(),
                interval=_interval(correct.mean(dim=0), images.characters),
                std=correct.mean(dim=1).std().item() if len(networks) > 1 else None,
            )
        )
    return Evaluation(norm, images.way, rounds, seed, len(networks), tuple(scores))


def usual_ways(images: LabelledImages) -> list[int]:
    """The paper's 5 and 20 as far as there are so many classes, or all of them."""
    return [way for way in (5, 20) if way <= images.way] or [images.way]


def usual_shots(images: LabelledImages) -> range:
    """From 1 to 19, the paper's, or to one less than the smallest class has."""
    return range(1, max(1, min(19, int(images.counts.min()) - 1)) + 1)


@torch.no_grad()
def embed_all(
    network: GaussianPrototypicalNetwork, images: Tensor, progress: Progress = silent
) -> tuple[Tensor, Tensor | None]:
    """Every image, each judged alone: x (N, D), s (N, E) or None."""
    keep_freed_memory()
    device = next(network.parameters()).device
    xs, ss = [], []
    with evaluating(network):
        for start in range(0, len(images), BATCH):
            x, s = network.embed(images[start : start + BATCH].to(device).contiguous(memory_format=torch.channels_last))
            xs.append(x)
            ss.append(s)
            progress("embedding", min(start + BATCH, len(images)), len(images))
    return torch.cat(xs), None if ss[0] is None else torch.cat([s for s in ss if s is not None])


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Within, the network is in evaluation mode; afterwards in the mode it was in."""
    training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(training)


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


def check_asked(images: LabelledImages, ways: Sequence[int], shots: Sequence[int], rounds: int) -> None:
    """Say so if a test set cannot give such groups."""
    c = int(images.counts.argmin())
    if int(images.counts[c]) < 2:
        raise InputError(f"class {images.classes[c]!r} has only one image: a support and a query need two")
    if not ways or not shots or rounds < 1:
        found = f"{list(ways)}, {list(shots)} and {rounds}"
        raise InputError(f"give at least one way, one shot and one round (found {found})")
    if min(ways) < 2 or max(ways) > images.way:
        raise InputError(f"way must be from 2 to the {images.way} classes of the test set (found {list(ways)})")
    if min(shots) < 1 or max(shots) >= int(images.counts[c]):
        raise InputError(
            f"shots go from {min(shots)} to {max(shots)}, but must go from 1 to {int(images.counts[c]) - 1}: class "
            f"{images.classes[c]!r} has {int(images.counts[c])} images, and at least one must be left as a query"
        )


@torch.inference_mode()
def _class_accuracies(
    network: GaussianPrototypicalNetwork,
    images: LabelledImages,
    ways: Sequence[int],
    shots: Sequence[int],
    rounds: int,
    norm: Norm,
    seed: int,
    progress: Progress,
) -> dict[tuple[int, int], Tensor]:
    """For each way and shot, (C,): the share of each class's queries that is right, over all rounds."""
    device = next(network.parameters()).device
    counts = images.counts
    M = int(counts.max())
    right = {way: torch.zeros(images.way, len(shots)) for way in ways}
    asked = {way: torch.zeros(images.way, len(shots)) for way in ways}
    is_query = torch.arange(M)[:, None] >= torch.tensor(shots)  # (M, shots)
    embedded = embed_all(network, images.images, progress) if norm == "running" else None
    total, done = len(images) * rounds * len(ways), 0

    for way in ways:
        generator = torch.Generator().manual_seed(seed)  # the same groupings for every network, whatever else is asked
        for _ in range(rounds):
            order = sample_drawings(counts, M, generator)
            order = torch.minimum(order, counts[:, None] - 1)  # what is not there is masked below
            index = images.starts[:, None] + order  # (C, M)
            there = torch.arange(M) < counts[:, None]
            for group, counted in groups(images.way, way, generator):  # (G, way), (G, way)
                if embedded:
                    x, s = (None if t is None else t[index[group]] for t in embedded)  # (G, way, M, D)
                else:
                    x, s = _embed_groups(network, images.images, index[group], there[group], device)
                    done += int((there[group] & counted[..., None]).sum())
                    progress("encoding groups", done, total)
                assert x is not None
                query = (there[group] & counted[..., None])[..., None] & is_query  # (G, way, M, shots)
                hit = hits(network, x, s, shots).cpu() & query
                right[way].index_add_(0, group.flatten(), hit.sum(dim=2).flatten(0, 1).float())
                asked[way].index_add_(0, group.flatten(), query.sum(dim=2).flatten(0, 1).float())
    accuracy = {way: right[way] / asked[way] for way in ways}
    return {(way, shot): accuracy[way][:, i] for way in ways for i, shot in enumerate(shots)}


def _interval(by_class: Tensor, characters: Sequence[str]) -> float:
    """Half the width of the 95 % interval; the rotations of a character, alike in difficulty, count as one."""
    position = {name: i for i, name in enumerate(dict.fromkeys(characters))}
    index = torch.tensor([position[name] for name in characters])
    by_character = torch.zeros(len(position)).index_add(0, index, by_class) / torch.bincount(index)
    return 1.96 * by_character.std().item() / math.sqrt(len(position))


def groups(C: int, way: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    """The classes in random groups; the last is filled up with classes that are not counted again."""
    order = torch.randperm(C, generator=generator)
    missing = -C % way
    grouped = torch.cat([order, order[:missing]]).view(-1, way)
    counted = (torch.arange(C + missing) < C).view(-1, way)
    at_once = max(1, CLASSES // way)
    yield from zip(grouped.split(at_once), counted.split(at_once), strict=True)


def _embed_groups(
    network: GaussianPrototypicalNetwork, images: Tensor, index: Tensor, there: Tensor, device: torch.device
) -> tuple[Tensor, Tensor | None]:
    """Encode each group as one batch: (G, way, M) -> x (G, way, M, D), s."""
    xs, ss = [], []
    with evaluating(network), batch_statistics(network):
        for group, present in zip(index, there, strict=True):
            x, s = network.embed(images[group[present]].to(device).contiguous(memory_format=torch.channels_last))
            slots = present.flatten().cumsum(0).sub(1).clamp_min(0).view_as(present)  # absent ones repeat another
            xs.append(x[slots])
            ss.append(None if s is None else s[slots])
    return torch.stack(xs), None if ss[0] is None else torch.stack([s for s in ss if s is not None])


def hits(network: GaussianPrototypicalNetwork, x: Tensor, s: Tensor | None, shots: Sequence[int]) -> Tensor:
    """(G, way, M, D) -> (G, way, M, shots): is a drawing nearest to its own class (the first of equals)?

    The first `shot` drawings of a class are its support; they are among the answers, and the caller leaves them out.
    One matrix product serves all shots.
    """
    G, way, M, D = x.shape
    made = [network.prototypes(x[:, :, :shot], None if s is None else s[:, :, :shot]) for shot in shots]
    p = torch.stack([p for p, _ in made], dim=2).flatten(1, 2)  # (G, way shots, D)
    metrics = [s_class for _, s_class in made if s_class is not None]
    s_class = torch.stack(metrics, dim=2).flatten(1, 2) if metrics else None
    near = comparable(x.view(G, -1, D), p, s_class, network.config.distance).view(G, way, len(shots), way, M)
    to_own = near.diagonal(dim1=1, dim2=3).mT  # (G, shots, way, M)
    own = to_own.clone()
    to_own.fill_(torch.inf)  # what is left in `near` are the other classes
    others = near.amin(dim=1)
    right, tie = own < others, own == others
    if bool(tie.any()):  # rare, and slower to resolve
        right |= tie & (torch.arange(way, device=x.device)[:, None] < near.argmin(dim=1))
    return right.permute(0, 2, 3, 1)
