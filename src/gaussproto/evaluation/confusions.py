"""Find the classes that a network confuses most."""

from collections import defaultdict
from dataclasses import dataclass

import torch
from torch import Tensor

from gaussproto.data.images import LabelledImages
from gaussproto.episodes import sample_drawings
from gaussproto.errors import InputError
from gaussproto.formulas.embedded import Embedded
from gaussproto.model.network import GaussianPrototypicalNetwork

CHUNK = 2048  # queries that are compared with all classes at once


@dataclass(frozen=True)
class ConfusedPair:
    """Two classes that a network confuses. Counts are numbers of queries."""

    classes: tuple[int, int]
    mistaken: tuple[int, int]  # queries of the first classified as the second, and the reverse
    asked: tuple[int, int]  # queries of each
    examples: tuple[tuple[int, ...], tuple[int, ...]]  # indices of the misclassified images


@dataclass(frozen=True)
class Confusions:
    """The pairs of classes that are confused most often, with every class as a candidate."""

    way: int
    shot: int
    accuracy: float
    pairs: tuple[ConfusedPair, ...]


@torch.inference_mode()
def confusions(
    network: GaussianPrototypicalNetwork, images: LabelledImages, embedded: Embedded[Tensor], pairs: int = 8
) -> Confusions:
    """Classify embedded images among all their classes, with up to five supports of each class."""
    shot = min(5, int(images.counts.min()) - 1)
    if shot < 1:
        found = f"class {images.classes[int(images.counts.argmin())]!r} has only one"
        raise InputError(f"every test class needs at least two images, a support and a query ({found}): add images")
    drawn = sample_drawings(images.counts, shot, torch.Generator().manual_seed(0))
    support = images.starts[:, None] + drawn  # (C, K)
    p, s_class = network.prototypes(embedded[support])
    is_query = torch.ones(len(images), dtype=torch.bool)
    is_query[support.flatten()] = False
    queries = is_query.nonzero().flatten()
    parts = [network.distances(embedded.x[part], p, s_class).argmin(dim=1) for part in queries.split(CHUNK)]
    answers, truth = torch.cat(parts), images.labels[queries]
    wrong = answers != truth
    mistaken = defaultdict[tuple[int, int], list[int]](list)
    for image, a, b in torch.stack([queries[wrong], truth[wrong], answers[wrong]], dim=1).tolist():
        mistaken[a, b].append(image)
    both = {(min(pair), max(pair)) for pair in mistaken}
    ranked = sorted(both, key=lambda ab: (-len(mistaken[ab]) - len(mistaken[ab[::-1]]), ab))
    asked = (images.counts - shot).tolist()
    result = []
    for a, b in ranked[:pairs]:
        there, back = tuple(mistaken[a, b]), tuple(mistaken[b, a])
        result.append(ConfusedPair((a, b), (len(there), len(back)), (asked[a], asked[b]), (there, back)))
    return Confusions(images.way, shot, float((~wrong).float().mean()), tuple(result))
