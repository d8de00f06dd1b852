"""The settings of a training: its episodes, stages, learning rate, checkpoints, seed and initial weights."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Literal

from pydantic import Field, model_validator

from gaussproto.setting_types import LARGEST_COUNT, LARGEST_IMAGE, Damage, TransformName
from gaussproto.settings import Frozen, setting

LARGEST_SEED = 2**63 - 1  # the largest that torch accepts


class EpisodeConfig(Frozen):
    """Settings of a training episode: its number of classes (way), supports (shot) and queries per class.

    Examples:
        >>> import gaussproto as gp
        >>> gp.EpisodeConfig(way=20, shot=5, query=3).drawings
        8
    """

    way: int = setting(60, "number of classes in an episode; the paper: 60", ge=2, le=LARGEST_COUNT)
    shot: int = setting(1, "number of supports of each class; the paper: 1", ge=1, le=LARGEST_COUNT)
    max_shot: int | None = setting(
        None,
        "if set, each split draws its number of supports at random from shot to max_shot; the other images are queries",
        le=LARGEST_COUNT,
    )
    query: int = setting(
        19,
        "number of queries of each class (with max_shot, at least this many); the paper: 19",
        ge=1,
        le=LARGEST_COUNT,
    )
    splits: int = setting(
        1, "number of times that an encoded episode is split into supports and queries; the paper: 1", ge=1
    )
    mirror: bool = setting(
        False, "mirror each class with probability one half; a mirrored class counts as a new class; the paper: no"
    )
    varied: float = setting(0.6, "fraction of the images that one of their variants replaces", ge=0, le=1)
    within_alphabet: float = setting(
        0.0,
        "fraction of the episodes with the classes of few alphabets, each in one rotation, which are harder to tell "
        "apart; the paper: 0",
        ge=0,
        le=1,
    )
    adapt: bool = setting(False, "use smaller episodes if the data has too few classes or images")

    @model_validator(mode="after")
    def _check(self) -> EpisodeConfig:
        if self.max_shot is not None and self.max_shot < self.shot:
            raise ValueError(f"max_shot must be at least shot (found max_shot {self.max_shot} and shot {self.shot})")
        if self.splits > self.drawings:
            raise ValueError(f"splits must be at most shot + query = {self.drawings} (found {self.splits})")
        return self

    @property
    def drawings(self) -> int:
        """The number of images of each class in an episode."""
        return (self.max_shot or self.shot) + self.query


class Stage(Frozen):
    """A part of the training with its own damage and transform.

    Damaged images are down-sampled and enlarged again. The example trains on clean images first, then on damaged ones.

    Examples:
        >>> import gaussproto as gp
        >>> damaged = gp.Stage(episodes=100, damage=((7, 0.1), (5, 0.05)))  # 10 % to 7 x 7 pixels, 5 % to 5 x 5
        >>> gp.TrainingConfig(stages=(gp.Stage(episodes=400), damaged)).episodes
        500
    """

    episodes: int = Field(ge=1, le=LARGEST_COUNT, description="total number of episodes, over all stages")
    damage: Damage = setting(
        (), "down-sample a fraction of the images to SIZE x SIZE pixels: SIZE:FRACTION pairs, e.g. 7:0.1,5:0.05"
    )
    transform: TransformName | None = setting(None, "transform from this stage on; the weights are kept")

    @model_validator(mode="after")
    def _check(self) -> Stage:
        total = sum(fraction for _, fraction in self.damage)
        if total > 1 + 1e-9:
            raise ValueError(f"the fractions of damage must add up to at most 1 (found {total:g})")
        return self


class TrainingConfig(Frozen):
    """Settings of the training: stages, learning rate, checkpoints, seed and initial weights.

    Examples:
        >>> import gaussproto as gp
        >>> training = gp.TrainingConfig(stages=(gp.Stage(episodes=300),), learning_rate=0.004, seed=1)
        >>> training.episodes
        300
    """

    stages: tuple[Stage, ...] = Field((Stage(episodes=900),), min_length=1, description="the stages, in order")
    learning_rate: float = setting(2e-3, "learning rate of Adam; the paper: 0.002", gt=0, allow_inf_nan=False)
    schedule: Literal["halving", "cosine", "constant"] = setting(
        "cosine", "learning rate schedule: cosine, halving or constant; the paper: halving"
    )
    halve_every: int = setting(2000, "number of episodes between halvings of the learning rate; the paper: 2000", ge=1)
    episodes_per_step: int = setting(
        1,
        "number of episodes in a step, which takes the mean of their gradients; several processes share them; default: "
        "1, or the number of processes; the paper: 1",
        ge=1,
        le=LARGEST_COUNT,
    )
    checkpoint_every: int = setting(
        50, "number of episodes between checkpoints, over which the training accuracy is averaged", ge=1
    )
    keep: int = setting(
        5, "number of checkpoints to keep, those with the highest training accuracy; the paper: 5", ge=1
    )
    distort: float = setting(0.0, "strength of small random rotations, stretches and shifts; the paper: 0", ge=0, le=10)
    flip: bool = setting(
        False, "mirror each image with probability one half, within its class; good for photos; the paper: no"
    )
    random_crop: int = setting(
        0,
        "side in pixels of a square that is cut out of each training image at a random place; 0: the whole image, as "
        "in the paper",
        ge=0,
        le=LARGEST_IMAGE,
    )
    jitter: float = setting(
        0.0, "strength of random changes of brightness, contrast and saturation; the paper: 0", ge=0, le=1
    )
    weight_decay: float = setting(0.0, "decoupled weight decay (AdamW); the paper: 0", ge=0, le=1, allow_inf_nan=False)
    snapshots: int = setting(0, "number of evenly spaced snapshots of the weights to keep for learning curves", ge=0)
    seed: int = setting(0, "random seed of the weights and the episodes", ge=0, le=LARGEST_SEED)
    init: str | None = setting(None, "weights to start from: bundled weights, a run folder or a .safetensors file")
    init_digest: str | None = setting(None, "SHA-256 of the weights in init")

    @property
    def episodes(self) -> int:
        """The number of episodes in all stages."""
        return sum(stage.episodes for stage in self.stages)

    def takes_snapshot(self, episode: int, before: int | None = None) -> bool:
        """Return whether a snapshot is due after an episode. `before` is the last episode of the previous step."""
        before = episode - 1 if before is None else before
        return episode * self.snapshots // self.episodes > before * self.snapshots // self.episodes

    def stage_at(self, episode: int) -> tuple[int, Stage]:
        """Return the index of the stage that an episode (counted from 0) belongs to, and the stage."""
        ends = list(accumulate(stage.episodes for stage in self.stages))
        number = min(bisect_right(ends, episode), len(ends) - 1)
        return number, self.stages[number]
