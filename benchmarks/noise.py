"""Wrong labels and damaged supports: what each rule for prototypes makes of them, on Omniglot's test alphabets.

    python -m benchmarks.noise drawings-small                    # all rules, one network
    python -m benchmarks.noise runs/weighted --against runs/vanilla

Every class has an exact number of wrong supports. They come from other classes of the episode (swap), all from one
other class (pair), or from outside the episode (outlier). Damaged supports are down-sampled to 7 x 7 pixels. Queries
are clean. All rules and networks see the same episodes, so differences are paired.
"""

import argparse
import math
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gaussproto.config import DataConfig
from gaussproto.data.damage import down_sample
from gaussproto.data.images import LabelledImages
from gaussproto.data.load import load_data
from gaussproto.evaluation.protocol import groups_of_classes
from gaussproto.formulas.embedded import Embedded
from gaussproto.formulas.prototype import class_prototypes
from gaussproto.formulas.trust import support_trust
from gaussproto.model.embed import embed_all
from gaussproto.model.network import GaussianPrototypicalNetwork, as_float
from gaussproto.runs.folder import load_network

WAY, SHOT, SIZE, ROUNDS, BATCH = 20, 5, 7, 10, 4096
RULES = ("plain mean", "mean", "median", "agreement")  # the first ignores the precision


class Noise(NamedTuple):
    """What is wrong with the five supports of every class."""

    name: str
    wrong: int = 0
    damaged: int = 0
    kind: str = "swap"


ROWS = (
    Noise("all good"),
    Noise("1 wrong", 1),
    Noise("2 wrong", 2),
    Noise("2 wrong, of one class", 2, kind="pair"),
    Noise("2 wrong, from outside", 2, kind="outlier"),
    Noise("3 damaged", 0, 3),
    Noise("4 damaged", 0, 4),
    Noise("1 wrong, 2 damaged", 1, 2),
    Noise("2 wrong, 1 damaged", 2, 1),
)


def both_versions(network: GaussianPrototypicalNetwork, images: LabelledImages) -> Embedded[Tensor]:
    """Embed all images, and then all images damaged: (2 N, D)."""
    damaged = [down_sample(as_float(part), SIZE).mul(255).round().byte() for part in images.images.split(BATCH)]
    return embed_all(network, torch.cat([images.images, *damaged]))


def supports_of(index: Tensor, noise: Noise, images: int, generator: torch.Generator) -> Tensor:
    """Choose the supports of groups of classes: indices (G, way, shot) into clean and damaged images."""
    G, way, _ = index.shape
    chosen = index[:, :, :SHOT].clone()
    for k in range(noise.wrong):
        if noise.kind == "outlier":
            chosen[:, :, k] = index.roll(1, dims=0)[:, :, SHOT + k]
            continue
        if k == 0 or noise.kind == "swap":  # a random cycle of the classes: no class keeps its own image
            order = torch.rand(G, way, generator=generator).argsort(dim=1)
            source = torch.empty_like(order).scatter_(1, order, order.roll(1, dims=1))
        chosen[:, :, k] = index[:, :, SHOT + k].gather(1, source)
    chosen[:, :, noise.wrong : noise.wrong + noise.damaged] += images
    return chosen


def accuracies(
    network: GaussianPrototypicalNetwork, embedded: Embedded[Tensor], images: LabelledImages, noise: Noise
) -> dict[str, np.ndarray]:
    """Return the accuracy of each class (C,) by rule."""
    generator = torch.Generator().manual_seed(0)  # the same episodes for all networks
    asked, right = torch.zeros(images.way), defaultdict[str, Tensor](lambda: torch.zeros(images.way))
    drawings = int(images.counts.min())
    metric = {"distance": network.config.distance, "in_distance": network.config.in_distance}
    for group, counted, index, _ in groups_of_classes(images, WAY, ROUNDS, generator, drawings):
        if noise.kind == "outlier" and len(group) < 2:
            continue
        support = embedded[supports_of(index, noise, len(images), generator)]
        query = embedded.x[index[:, :, SHOT + 2 :]].flatten(1, 2)
        asks = counted[:, :, SHOT + 2 :]
        asked.index_add_(0, group.flatten(), asks.sum(dim=2).flatten().float())
        for rule in RULES:
            s = None if rule == "plain mean" else support.s
            trust = None if "mean" in rule else support_trust(rule, support.x, s, **metric)  # type: ignore[arg-type]
            p, s_class = class_prototypes(support.x, s, trust=trust)
            in_metric = s_class if network.config.in_distance else None
            answer = network.order(query, p, in_metric).argmin(dim=1).unflatten(1, (WAY, -1))
            hit = (answer == torch.arange(WAY)[None, :, None]) & asks
            right[rule].index_add_(0, group.flatten(), hit.sum(dim=2).flatten().float())
    return {rule: (right[rule] / asked).numpy() for rule in RULES}


def interval(by_class: np.ndarray, characters: list[str]) -> tuple[float, float]:
    """Return the mean over characters and half its 95 % interval, in per cent. Rotations count as one character."""
    values = defaultdict(list)
    for value, name in zip(by_class.tolist(), characters, strict=True):
        values[name].append(value)
    means = 100 * np.array([np.mean(each) for each in values.values()])
    return float(means.mean()), 1.96 * float(means.std(ddof=1)) / math.sqrt(len(means))


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description="accuracy with wrong labels and damaged supports, 20-way 5-shot")
    parser.add_argument("weights", help="bundled weights, a run folder or a weights file")
    parser.add_argument("--against", metavar="WEIGHTS", help="a vanilla network whose plain mean is the baseline")
    parser.add_argument("--holdout", type=int, default=0, help="held-out training alphabets instead of the test ones")
    options = parser.parse_args()
    names = [options.weights] + ([options.against] if options.against else [])
    networks = {name: load_network(name).eval() for name in names}
    prepare = "ink" if _is_prepared(options.weights) else "none"
    data = DataConfig(data="omniglot", rotations=False, prepare=prepare, holdout=options.holdout)
    images = load_data(data).test
    characters = list(images.classes)
    embedded = {name: both_versions(network, images) for name, network in networks.items()}
    baseline_of = options.against or options.weights
    print(f"{images}; {WAY}-way {SHOT}-shot, {ROUNDS} rounds; baseline: plain mean of {baseline_of}")
    print(f"{'supports':24s}" + "".join(f"{rule:>12s}" for rule in ("baseline", *RULES)) + "   agreement - baseline")
    for noise in ROWS:
        found = {name: accuracies(networks[name], embedded[name], images, noise) for name in names}
        baseline, mine = found[baseline_of]["plain mean"], found[options.weights]
        gain, width = interval(mine["agreement"] - baseline, characters)
        cells = [interval(each, characters)[0] for each in (baseline, *(mine[rule] for rule in RULES))]
        print(f"{noise.name:24s}" + "".join(f"{cell:12.2f}" for cell in cells) + f"   {gain:+6.2f} ± {width:.2f}")


def _is_prepared(weights: str) -> bool:
    from gaussproto.runs.checkpoint import load_checkpoint
    from gaussproto.runs.weights import weights_file

    return load_checkpoint(Path(weights_file(weights))).config.data.prepare == "ink"


if __name__ == "__main__":
    main()
