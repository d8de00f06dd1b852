"""What every rank of a training does in a step: draw its episodes and learn from them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from gaussproto.config import RunConfig, Stage
from gaussproto.data.augment import augment
from gaussproto.data.damage import damage
from gaussproto.data.distort import distort
from gaussproto.data.images import LabelledImages
from gaussproto.episodes import sample_episode
from gaussproto.model.network import GaussianPrototypicalNetwork, as_float
from gaussproto.training.ranks import ALONE, Ranks
from gaussproto.training.step import make_optimizer, step


@dataclass
class Learner:
    """A network in training, with its optimiser and random numbers.

    The first episode of every step, which rank 0 computes, continues the random numbers of `generator`. Each of the
    others begins its own, derived from the seed and the number of the episode. So the episodes of a run do not depend
    on the number of ranks.
    """

    config: RunConfig
    images: LabelledImages
    network: GaussianPrototypicalNetwork
    generator: torch.Generator
    ranks: Ranks = ALONE
    optimizer: torch.optim.Adam = field(init=False)

    def __post_init__(self) -> None:
        self.network.train()
        self.optimizer = make_optimizer(self.network, self.config.training)

    def learn(self, now: int, stage: Stage, rate: float) -> Tensor:
        """Update the weights with a step whose first episode is `now`. Return what `step` does."""
        network, training = self.network, self.config.training
        if stage.transform not in (None, network.config.transform):
            network.set_transform(stage.transform)
            self.optimizer = make_optimizer(network, training, moments_of=self.optimizer)
        self.optimizer.param_groups[0]["lr"] = rate
        count = min(training.episodes_per_step, training.episodes - now)
        drawn = self._draw(now, count, stage)
        return step(network, self.optimizer, drawn, self.config.episode.way, count, self.ranks)

    def _draw(self, now: int, count: int, stage: Stage) -> Iterator[tuple[int, Tensor, list[int]]]:
        """Draw the episodes of this rank, each with its place in the step and the numbers of supports."""
        training, episode = self.config.training, self.config.episode
        for place in range(self.ranks.rank, count, self.ranks.size):
            generator = generator_of(training.seed, now + place) if place else self.generator
            shots = [episode.shot] * episode.splits
            if episode.max_shot is not None:
                counts = torch.randint(episode.shot, episode.max_shot + 1, (episode.splits,), generator=generator)
                shots = counts.tolist()
            drawn = sample_episode(
                self.images,
                episode.way,
                episode.drawings,
                generator,
                episode.mirror,
                varied=episode.varied,
                within_alphabet=episode.within_alphabet,
            )
            batch = distort(as_float(drawn.flatten(0, 1)), training.distort, generator)
            batch = augment(batch, training.flip, training.random_crop, training.jitter, generator)
            batch, _ = damage(batch, stage.damage, generator)
            yield place, batch, shots


def generator_of(seed: int, episode: int) -> torch.Generator:
    """Return the random numbers of an episode that is not the first of its step."""
    (own,) = np.random.SeedSequence(seed, spawn_key=(episode,)).generate_state(1)
    return torch.Generator().manual_seed(int(own))
