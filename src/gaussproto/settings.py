"""The settings of a run in four sections: data, network, episode and training. Their descriptions are the `--help`."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from gaussproto.formulas.named import check_saved
from gaussproto.setting_types import (
    FILTERS,
    LARGEST_COUNT,
    LARGEST_GRID,
    LARGEST_IMAGE,
    LARGEST_WIDTH,
    CovarianceName,
    Damage,
    DistanceName,
    EncoderName,
    Filters,
    Ink,
    Prepare,
    Residual,
    TransformName,
    Weighting,
)
from gaussproto.split import ClassSplit, parse_split

DRAWN = ("omniglot", "omniglot-vinyals", "strokes")  # characters in bright ink, with alphabets and a fixed split
CIFAR_FS = "cifar-fs"  # colour photos with a fixed split
BUILT_IN = (*DRAWN, CIFAR_FS)
GIVEN = "images given in Python"  # the data of a run whose images no configuration can load
LARGEST_SEED = 2**63 - 1  # the largest that torch accepts


class Frozen(BaseModel):
    """An immutable model that rejects unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _setting(default: Any, description: str, **limits: Any) -> Any:
    return Field(default, description=description, **limits)


def look_of(data: str, before: str = "") -> dict[str, Any]:
    """Return the settings that the images have by nature, if they differ from the defaults or the data before."""
    if data == CIFAR_FS:
        return {"image_size": 32, "channels": 3}
    return {"image_size": 28, "channels": 1} if data in DRAWN and before == CIFAR_FS else {}


class DataConfig(Frozen):
    """Settings of the images: where to load them from and how to prepare them.

    Examples:
        >>> import gaussproto as gp
        >>> config = gp.DataConfig(data="strokes", rotations=False)
        >>> gp.load_data(config).test
        LabelledImages(7,980 images of 399 classes in 15 alphabets, 1 x 28 x 28)
    """

    data: str = _setting(
        "strokes",
        "data to train and test on: omniglot, omniglot-vinyals (in the split of most papers), strokes, cifar-fs "
        "(colour photos), a folder of CLASS/IMAGE files, or your own as module:function",
    )
    rotations: bool | None = _setting(
        None,
        "turn each class into four, one for each rotation by 0, 90, 180 and 270 degrees; default: only for omniglot "
        "and strokes",
    )
    image_size: int = _setting(
        28, "side of an image in pixels; default: 28 as in the paper, 32 for cifar-fs", ge=1, le=LARGEST_IMAGE
    )
    channels: Literal[1, 3] = _setting(1, "1 for grey, 3 for colour images; default: 1, for cifar-fs 3")
    ink: Ink = _setting(
        "bright",
        "ink of a folder's images: bright, dark or detect (decide for each image, as prepare ink always does); "
        "default: bright, or what the weights in init expect",
    )
    prepare: Prepare = _setting(
        "none",
        "preparation of images: ink (of drawings: find the ink, remove uneven light, specks and frames, "
        "scale it to one size and centre it), crop (cut the largest square from the middle) or none (only resize); the "
        "paper: none",
    )
    variants: int = _setting(
        0,
        "number of variants of each training drawing, with other pens, slants, light, blur and noise, to learn from; "
        "needs prepare ink; the paper: 0",
        ge=0,
        le=100,
    )
    test_fraction: float = _setting(0.25, "fraction of a folder's classes to hold out for testing", gt=0, lt=1)
    split: Annotated[ClassSplit, BeforeValidator(parse_split)] | None = _setting(
        None, "JSON file that names a folder's training and test classes"
    )
    holdout: int = _setting(
        0,
        "number of training alphabets to hold out and test on instead of the test classes, to compare recipes fairly; "
        "for cifar-fs 16, the validation classes",
        ge=0,
    )

    @model_validator(mode="before")
    @classmethod
    def _read_invert(cls, tree: Any) -> Any:
        """Read files from before the first release, which have `invert` instead of `ink`."""
        if isinstance(tree, dict) and "invert" in tree:
            if tree["invert"] not in (None, False, True):
                raise ValueError(f"invert must be true, false or null (found {tree['invert']!r})")
            ink = {None: "detect", False: "bright", True: "dark"}[tree["invert"]]
            return {"ink": ink} | {name: tree[name] for name in tree if name != "invert"}
        return tree

    @model_validator(mode="before")
    @classmethod
    def _look(cls, tree: Any) -> Any:
        return look_of(tree["data"]) | tree if isinstance(tree, dict) and isinstance(tree.get("data"), str) else tree

    @model_validator(mode="after")
    def _check_prepare(self) -> DataConfig:
        if self.prepare == "ink" and self.channels != 1:
            raise ValueError(f"prepare ink needs grey images (found channels {self.channels}): set channels to 1")
        if self.variants and self.prepare != "ink":
            raise ValueError(f"variants needs prepare ink (found prepare {self.prepare}): set both, or neither")
        return self

    @property
    def ink_of_new_images(self) -> Ink:
        """The ink to assume for a user's images: detected after training on drawn characters, else the setting."""
        if self.data in DRAWN or self.prepare == "ink" or (self.ink == "detect" and self.channels == 1):
            return "detect"
        return "bright" if self.ink == "detect" else self.ink

    def for_evaluation(self) -> DataConfig:
        """Return the same data without variants, which are only for training and take time to draw."""
        return self.model_copy(update={"variants": 0})

    def appearance(self) -> dict[str, Any]:
        """Return the settings that make other images look like these to a network."""
        return {
            "image_size": self.image_size,
            "channels": self.channels,
            "ink": self.ink_of_new_images,
            "prepare": self.prepare,
        }


class NetworkConfig(Frozen):
    """Settings of the network: encoder, covariance, prototypes and distance.

    Examples:
        >>> import gaussproto as gp
        >>> config = gp.NetworkConfig(filters=(4, 4, 4), embedding_dim=8, covariance="diagonal")
        >>> gp.GaussianPrototypicalNetwork(config).config.summary
        'small encoder, D = 8, diagonal covariance (softplus)'
    """

    encoder: EncoderName = _setting(
        "small", "small (filters 64,64,64), big (filters 128,256,512), or your own as module:name"
    )
    features: int | None = _setting(
        None, "number of features that your own encoder returns for each image", ge=1, le=LARGEST_WIDTH
    )
    filters: Filters | None = _setting(
        None, "number of filters of each block before the last, e.g. 32,32,32; default: those of the encoder"
    )
    residual: Residual = _setting(
        (),
        "number of residual convolutions at the start of each block, e.g. 0,0,1,1; the paper: none",
    )
    grid: int = _setting(
        1,
        "number of areas along each side of an image, each with a part of the embedding; 1: the whole image, as in "
        "the paper; with more, the pools drop no pixels, and embedding_dim must be a multiple of grid²",
        ge=1,
        le=LARGEST_GRID,
    )
    channels: int = _setting(1, "1 for grey, 3 for colour images", ge=1, le=LARGEST_WIDTH)
    embedding_dim: int = _setting(
        64, "size D of an embedding; the paper: 32 to 128 (small), 128 to 512 (big)", ge=1, le=LARGEST_WIDTH
    )
    covariance: CovarianceName = _setting(
        "radius", "learned covariance: none (vanilla network), radius, diagonal or full"
    )
    transform: TransformName = _setting(
        "softplus",
        "function that turns the encoder's raw output into the precision: softplus, sigmoid, wide_sigmoid, "
        "learned_softplus or exp",
    )
    precision_relu: bool = _setting(True, "pass the raw precision through the ReLU of the last block; the paper: yes")
    weighting: Weighting = _setting(
        "prototype_and_distance",
        "where to use the precision: prototype_and_distance, or only prototype; the paper: prototype_and_distance",
    )
    distance: DistanceName = _setting(
        "euclidean",
        "distance between a query and a prototype: euclidean, squared_euclidean, sqrt_euclidean or cosine; the paper: "
        "euclidean",
    )

    @model_validator(mode="after")
    def _check(self) -> NetworkConfig:
        if self.encoder in FILTERS and self.features is not None:
            raise ValueError(f"features is only for your own encoder (found encoder {self.encoder}): leave it out")
        if self.encoder not in FILTERS and self.features is None:
            raise ValueError(f"features must be set for your own encoder {self.encoder}: pass the size of its output")
        if self.encoder not in FILTERS and (self.grid > 1 or self.residual):
            problem = f"residual and grid are only for the built-in encoders (found encoder {self.encoder})"
            raise ValueError(f"{problem}: leave them out")
        if self.embedding_dim % self.grid**2:
            problem = f"embedding_dim must be a multiple of grid² = {self.grid**2} (found {self.embedding_dim})"
            raise ValueError(f"{problem}: choose {-(-self.embedding_dim // self.grid**2) * self.grid**2}")
        blocks = len(self.filters or FILTERS.get(self.encoder) or ()) + 1
        if len(self.residual) > blocks:
            raise ValueError(
                f"residual must have at most one number for each of the {blocks} blocks (found {len(self.residual)}): "
                f"pass --residual with {blocks} numbers or fewer"
            )
        if self.residual and self.residual[0]:
            problem = f"residual must begin with 0 (found {self.residual[0]})"
            raise ValueError(f"{problem}, because the first block sees the image itself: put a 0 first, e.g. 0,0,1,1")
        return self

    @property
    def summary(self) -> str:
        """The network in a few words.

        >>> NetworkConfig(weighting="prototype").summary
        'small encoder, D = 64, radius covariance (softplus) that only weighs the supports'
        """
        use = "" if self.in_distance else " that only weighs the supports"
        kind = "vanilla" if self.covariance == "none" else f"{self.covariance} covariance ({self.transform}){use}"
        distance = "" if self.distance == "euclidean" else f", {self.distance} distance"
        extra = sum(self.residual)
        deeper = f" with {extra} residual convolution{'s' * (extra > 1)}" if extra else ""
        grid = f" on a {self.grid} x {self.grid} grid" if self.grid > 1 else ""
        return f"{self.encoder} encoder{deeper}, D = {self.embedding_dim}{grid}, {kind}{distance}"

    @property
    def in_distance(self) -> bool:
        """Whether the precision of a class also scales the distance to its prototype, besides weighing its supports."""
        return self.covariance != "none" and self.weighting == "prototype_and_distance"

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the parts that can be a user's own."""
        return self.encoder, self.covariance, self.transform, self.distance

    @property
    def is_builtin(self) -> bool:
        """Whether no part is a user's own."""
        return all(":" not in name for name in self.parts)

    def check_saved(self) -> None:
        """Raise InputError if a setting names an object that another process cannot import."""
        for name in self.parts:
            check_saved(name)


class EpisodeConfig(Frozen):
    """Settings of a training episode: its number of classes (way), supports (shot) and queries per class.

    Examples:
        >>> import gaussproto as gp
        >>> gp.EpisodeConfig(way=20, shot=5, query=3).drawings
        8
    """

    way: int = _setting(60, "number of classes in an episode; the paper: 60", ge=2, le=LARGEST_COUNT)
    shot: int = _setting(1, "number of supports of each class; the paper: 1", ge=1, le=LARGEST_COUNT)
    max_shot: int | None = _setting(
        None,
        "if set, each split draws its number of supports at random from shot to max_shot; the other images are queries",
        le=LARGEST_COUNT,
    )
    query: int = _setting(
        19,
        "number of queries of each class (with max_shot, at least this many); the paper: 19",
        ge=1,
        le=LARGEST_COUNT,
    )
    splits: int = _setting(
        1, "number of times that an encoded episode is split into supports and queries; the paper: 1", ge=1
    )
    mirror: bool = _setting(
        False, "mirror each class with probability one half; a mirrored class counts as a new class; the paper: no"
    )
    varied: float = _setting(0.6, "fraction of the images that one of their variants replaces", ge=0, le=1)
    within_alphabet: float = _setting(
        0.0,
        "fraction of the episodes with the classes of few alphabets, each in one rotation, which are harder to tell "
        "apart; the paper: 0",
        ge=0,
        le=1,
    )
    adapt: bool = _setting(False, "use smaller episodes if the data has too few classes or images")

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
    damage: Damage = _setting(
        (), "down-sample a fraction of the images to SIZE x SIZE pixels: SIZE:FRACTION pairs, e.g. 7:0.1,5:0.05"
    )
    transform: TransformName | None = _setting(None, "transform from this stage on; the weights are kept")

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
    learning_rate: float = _setting(2e-3, "learning rate of Adam; the paper: 0.002", gt=0, allow_inf_nan=False)
    schedule: Literal["halving", "cosine", "constant"] = _setting(
        "cosine", "learning rate schedule: cosine, halving or constant; the paper: halving"
    )
    halve_every: int = _setting(2000, "number of episodes between halvings of the learning rate; the paper: 2000", ge=1)
    episodes_per_step: int = _setting(
        1,
        "number of episodes in a step, which takes the mean of their gradients; several processes share them; default: "
        "1, or the number of processes; the paper: 1",
        ge=1,
        le=LARGEST_COUNT,
    )
    checkpoint_every: int = _setting(
        50, "number of episodes between checkpoints, over which the training accuracy is averaged", ge=1
    )
    keep: int = _setting(
        5, "number of checkpoints to keep, those with the highest training accuracy; the paper: 5", ge=1
    )
    distort: float = _setting(
        0.0, "strength of small random rotations, stretches and shifts; the paper: 0", ge=0, le=10
    )
    flip: bool = _setting(
        False, "mirror each image with probability one half, within its class; good for photos; the paper: no"
    )
    random_crop: int = _setting(
        0,
        "side in pixels of a square that is cut out of each training image at a random place; 0: the whole image, as "
        "in the paper",
        ge=0,
        le=LARGEST_IMAGE,
    )
    jitter: float = _setting(
        0.0, "strength of random changes of brightness, contrast and saturation; the paper: 0", ge=0, le=1
    )
    weight_decay: float = _setting(0.0, "decoupled weight decay (AdamW); the paper: 0", ge=0, le=1, allow_inf_nan=False)
    snapshots: int = _setting(0, "number of evenly spaced snapshots of the weights to keep for learning curves", ge=0)
    seed: int = _setting(0, "random seed of the weights and the episodes", ge=0, le=LARGEST_SEED)
    init: str | None = _setting(None, "weights to start from: bundled weights, a run folder or a .safetensors file")
    init_digest: str | None = _setting(None, "SHA-256 of the weights in init")

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
