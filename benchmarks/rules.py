"""What the rules for prototypes cost: in `fit` and `predict`, and with gradients beside a training step.

    python -m benchmarks.rules

Every time is the median of several repetitions, in which the rules take turns. Each ratio is of two such medians.
"""

import time
from collections.abc import Callable
from typing import get_args

import numpy as np
import torch

import gaussproto as gp
from gaussproto.formulas.trust import PrototypeRule
from gaussproto.model.network import GaussianPrototypicalNetwork

WAY, SHOT, QUERIES, REPETITIONS = 20, 5, 100, 15
STEP_WAY, STEP_QUERY = 60, 1  # 360 images, as in a training step of the recipe with five supports
RULES = get_args(PrototypeRule)


def medians(work: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Return the median time of each piece of work in milliseconds, after a repetition that does not count."""
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(REPETITIONS + 1):
        for name, do in work.items():
            start = time.perf_counter()
            do()
            times[name].append(1000 * (time.perf_counter() - start))
    return {name: float(np.median(each[1:])) for name, each in times.items()}


def classifier() -> dict[str, float]:
    """Fit 20 classes of five drawings, and predict 100."""
    test = gp.load_data(gp.DataConfig(data="strokes", rotations=False)).test
    drawings = test.dense[:WAY]
    examples, labels = drawings[:, :SHOT].flatten(0, 1), np.repeat(np.arange(WAY), SHOT)
    asked = drawings[:, SHOT : SHOT + QUERIES // WAY].flatten(0, 1)
    made = {rule: gp.GaussianPrototypeClassifier("drawings-small", prototype=rule) for rule in RULES}
    for clf in made.values():
        clf.fit(examples, labels)
    fits = {f"fit, {rule}": lambda clf=clf: clf.fit(examples, labels) for rule, clf in made.items()}
    return medians(fits | {f"predict, {rule}": lambda clf=clf: clf.predict(asked) for rule, clf in made.items()})


def training() -> dict[str, float]:
    """The prototypes of an episode with their gradients, and a whole step: encode, classify, backward."""
    network = GaussianPrototypicalNetwork(gp.preset("standard-small-weighted").network).train()
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (STEP_WAY * (SHOT + STEP_QUERY), 1, 28, 28), generator=generator, dtype=torch.uint8)
    x = torch.randn(STEP_WAY, SHOT, 64, generator=generator).requires_grad_()
    s = (1 + torch.rand(STEP_WAY, SHOT, 1, generator=generator)).requires_grad_()

    def prototypes(rule: PrototypeRule) -> None:
        trust = None if rule == "mean" else gp.support_trust(rule, x, s)
        gp.class_prototypes(x, s, trust=trust)[0].sum().backward()

    def step() -> None:
        episode = network.embed(images).unflatten((STEP_WAY, SHOT + STEP_QUERY))
        labels = torch.arange(STEP_WAY).repeat_interleave(STEP_QUERY)
        torch.nn.functional.cross_entropy(-network(episode, SHOT), labels).backward()

    work = {f"prototypes, {rule}": lambda rule=rule: prototypes(rule) for rule in RULES}
    return medians(work | {"training step": step})


def main() -> None:
    for measured in (classifier(), training()):
        for name, milliseconds in measured.items():
            task = name.partition(", ")[0]
            base = measured.get(f"{task}, mean")
            ratio = f"{milliseconds / base:8.2f} x the mean" if base else ""
            print(f"{name:24s}{milliseconds:10.3f} ms{ratio}")


if __name__ == "__main__":
    main()
