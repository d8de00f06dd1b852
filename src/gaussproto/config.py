"""What a run is: one frozen, checked object, saved as `config.json`; the options of the command are its fields."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from gaussproto.errors import InputError, did_you_mean
from gaussproto.files import read_json
from gaussproto.formulas.named import check_saved
from gaussproto.setting_types import (
    FILTERS,
    CovarianceName,
    Damage,
    DistanceName,
    EncoderName,
    Filters,
    Ink,
    TransformName,
    Weighting,
    setting_problem,
    stretch,
)
from gaussproto.split import ClassSplit, parse_split

DRAWN = ("omniglot", "strokes")  # characters in bright ink, with alphabets and a split of their own
LARGEST_SEED = 2**63 - 1  # that torch takes


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _setting(default: Any, description: str, **limits: Any) -> Any:
    return Field(default, description=description, **limits)


class DataConfig(_Frozen):
    """Where images come from and what they become in memory."""

    data: str = _setting("strokes", "omniglot, strokes, or a folder of CLASS/IMAGE files")
    rotations: bool | None = _setting(None, "rotations by 90 degrees are new classes; default: yes, not for a folder")
    image_size: int = _setting(28, "side in pixels; the paper: 28", ge=16)  # four poolings by two leave one pixel
    channels: Literal[1, 3] = _setting(1, "1 grey, 3 colour")
    ink: Ink = _setting("bright", "of a folder's images; with --init of drawn characters it is detected if not given")
    test_fraction: float = _setting(0.25, "share of a folder's classes held out for testing", gt=0, lt=1)
    split: Annotated[ClassSplit, BeforeValidator(parse_split)] | None = _setting(
        None, "JSON file with the training and test classes of a folder"
    )
    holdout: int = _setting(
        0, "training alphabets held out that replace the test split, to compare recipes fairly", ge=0
    )

    @model_validator(mode="before")
    @classmethod
    def _read_invert(cls, tree: Any) -> Any:
        """Files of before the first release have `invert` in place of `ink`."""
        if isinstance(tree, dict) and "invert" in tree:
            if tree["invert"] not in (None, False, True):
                raise ValueError(f"invert is true, false or null (found {tree['invert']!r})")
            ink = {None: "detect", False: "bright", True: "dark"}[tree["invert"]]
            return {"ink": ink} | {name: tree[name] for name in tree if name != "invert"}
        return tree

    @property
    def ink_of_new_images(self) -> Ink:
        """The ink of images that a user brings: detected if drawn characters were learned, else that of the setting."""
        if self.data in DRAWN or (self.ink == "detect" and self.channels == 1):
            return "detect"
        return "bright" if self.ink == "detect" else self.ink

    def appearance(self) -> dict[str, Any]:
        """The settings that make other images look as these do to a network."""
        return {"image_size": self.image_size, "channels": self.channels, "ink": self.ink_of_new_images}


class NetworkConfig(_Frozen):
    """The paper's network: encoder, covariance, prototypes, distance."""

    encoder: EncoderName = _setting("small", "small (filters 64,64,64), big (128,256,512), or module:name of your own")
    features: int | None = _setting(None, "numbers that an encoder of your own gives for an image", ge=1)
    filters: Filters | None = _setting(None, "filters of the blocks before the last, such as 32,32,32")
    channels: int = _setting(1, "1 grey, 3 colour", ge=1)
    embedding_dim: int = _setting(64, "D; the paper: 32 to 128 small, 128 to 512 big", ge=1)
    covariance: CovarianceName = _setting("radius", "shape of the learned covariance; none is the vanilla network")
    transform: TransformName = _setting("softplus", "how the precision comes out of the raw output")
    precision_relu: bool = _setting(True, "pass the precision through the last ReLU, as the paper does")
    weighting: Weighting = _setting("prototype_and_distance", "where the precision acts; the paper: both")
    distance: DistanceName = _setting("euclidean", "whose softmax gives the probabilities; the paper: euclidean")

    @model_validator(mode="after")
    def _check(self) -> NetworkConfig:
        if (self.encoder in FILTERS) == (self.features is not None):
            raise ValueError(
                f"features is {self.features} and encoder {self.encoder}: an encoder of your own needs `features`, the "
                "numbers that it gives for an image, and no other encoder takes it"
            )
        return self

    @property
    def in_distance(self) -> bool:
        """Whether the precision of a class, beside weighing its supports, is the metric around its prototype."""
        return self.covariance != "none" and self.weighting == "prototype_and_distance"

    def check_saved(self) -> None:
        """Raise InputError if it names an object that no other process could import."""
        for name in (self.encoder, self.covariance, self.transform, self.distance):
            check_saved(name)


class EpisodeConfig(_Frozen):
    """One training episode: way classes, shot supports and query queries of each."""

    way: int = _setting(60, "classes in an episode; the paper: 60", ge=2)
    shot: int = _setting(1, "supports of each class; the paper: 1", ge=1)
    max_shot: int | None = _setting(
        None, "if set, each split draws its shot from shot to max_shot; other images are queries"
    )
    query: int = _setting(19, "queries of each class, at the largest shot; the paper: 19", ge=1)
    splits: int = _setting(1, "times that an encoded episode is split into supports and queries; the paper: 1", ge=1)
    mirror: bool = _setting(False, "mirror half of the classes at random, for twice as many classes; the paper: no")
    adapt: bool = _setting(False, "make episodes smaller if the data has too few classes or images")

    @model_validator(mode="after")
    def _check(self) -> EpisodeConfig:
        if self.max_shot is not None and self.max_shot < self.shot:
            raise ValueError(f"max_shot is {self.max_shot} and shot is {self.shot}: max_shot must be at least shot")
        if self.splits > self.drawings:
            raise ValueError(f"splits is {self.splits}, but a class has only shot + query = {self.drawings} images")
        return self

    @property
    def drawings(self) -> int:
        return (self.max_shot or self.shot) + self.query


class Stage(_Frozen):
    """A stretch of training with its own damage and transform."""

    episodes: int = Field(ge=1, description="length of the stage; as an option, of all stages together")
    damage: Damage = _setting((), "SIZE:FRACTION,... of images down-sampled to SIZE pixels, such as 7:0.1")
    transform: TransformName | None = _setting(None, "from this stage on, another transform; the weights stay")

    @model_validator(mode="after")
    def _check(self) -> Stage:
        total = sum(fraction for _, fraction in self.damage)
        if total > 1 + 1e-9:
            raise ValueError(f"the fractions of damage add up to {total:g}: they must not exceed 1")
        return self


class TrainingConfig(_Frozen):
    """How the weights are learned."""

    stages: tuple[Stage, ...] = Field((Stage(episodes=900),), min_length=1)
    learning_rate: float = _setting(2e-3, "Adam's; the paper: 0.002", gt=0)
    schedule: Literal["halving", "cosine", "constant"] = _setting("cosine", "of the learning rate; the paper: halving")
    halve_every: int = _setting(2000, "episodes between halvings; the paper: 2000", ge=1)
    checkpoint_every: int = _setting(50, "episodes between checkpoints; also the window of the training accuracy", ge=1)
    keep: int = _setting(5, "number of checkpoints kept, those with the highest training accuracy; the paper: 5", ge=1)
    distort: float = _setting(0.0, "strength of random turns, stretches and shifts of the images; the paper: 0", ge=0)
    snapshots: int = _setting(0, "number of weights kept along the way, evenly spaced, to draw how it learned", ge=0)
    seed: int = _setting(0, "of the weights and of the episodes", ge=0, le=LARGEST_SEED)
    init: str | None = _setting(None, "weights to start from: bundled ones, a run folder or a .safetensors file")
    init_digest: str | None = _setting(None, "SHA-256 of those weights")

    @property
    def episodes(self) -> int:
        return sum(stage.episodes for stage in self.stages)

    def takes_snapshot(self, episode: int) -> bool:
        return episode * self.snapshots // self.episodes > (episode - 1) * self.snapshots // self.episodes

    def stage_at(self, episode: int) -> tuple[int, Stage]:
        """The number of the stage that an episode (counted from 0) belongs to, and the stage."""
        ends = list(accumulate(stage.episodes for stage in self.stages))
        number = min(bisect_right(ends, episode), len(ends) - 1)
        return number, self.stages[number]


class RunConfig(_Frozen):
    """Everything that decides a run's result.

    >>> RunConfig(name="mine").override(way=20, covariance="diagonal", episodes=100).episode.way
    20
    """

    name: str
    about: str = ""
    data: DataConfig = DataConfig()
    network: NetworkConfig = NetworkConfig()
    episode: EpisodeConfig = EpisodeConfig()
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="after")
    def _check(self) -> RunConfig:
        if self.data.channels != self.network.channels:
            raise ValueError(f"images have {self.data.channels} channels, the network takes {self.network.channels}")
        blocks = len(self.network.filters or FILTERS["small"]) + 1
        if self.network.encoder in FILTERS and self.data.image_size < 2**blocks:
            raise ValueError(
                f"image_size is {self.data.image_size}, but {blocks} blocks that halve it need at least {2**blocks}: "
                "take fewer filters or larger images"
            )
        return self

    def override(self, **settings: Any) -> RunConfig:
        """Another run with some settings changed, by their own names: `config.override(way=20, seed=1)`.

        `episodes` sets the whole length (stages shrink or grow together) and `damage` that of every stage.
        """
        tree, known = self.model_dump(), setting_fields()
        for name, value in settings.items():
            if name not in known:
                hint = did_you_mean(name, known, f"the settings are {', '.join(known)}")
                raise InputError(f"there is no setting {name!r}: {hint}")
            if name == "episodes":
                stretch(tree["training"]["stages"], value)
            elif name == "damage":
                tree["training"]["stages"] = [stage | {"damage": value} for stage in tree["training"]["stages"]]
            for section in SECTIONS:
                if name in tree[section]:
                    tree[section][name] = value
        if "init" in settings:
            tree["training"]["init_digest"] = None  # it was that of other weights
        if tree["data"]["data"] != self.data.data and "split" not in settings:
            tree["data"]["split"] = None  # it was that of other data
        return parse_config(tree)


SECTIONS: dict[str, type[BaseModel]] = {
    "data": DataConfig,
    "network": NetworkConfig,
    "episode": EpisodeConfig,
    "training": TrainingConfig,
}


def setting_fields() -> dict[str, FieldInfo]:
    """Every setting that `override` and the command line take, with its default and description."""
    fields = {name: field for section in SECTIONS.values() for name, field in section.model_fields.items()}
    del fields["stages"], fields["init_digest"]
    return fields | {name: Stage.model_fields[name] for name in ("episodes", "damage")}


def parse_config(tree: Any, path: Path | None = None) -> RunConfig:
    """Check a tree of settings; a mistake becomes one sentence, which begins with the path of the file if given."""
    try:
        return RunConfig.model_validate(tree)
    except ValidationError as error:
        problem = setting_problem(error, SECTIONS)
        raise InputError(f"{path}: {problem}" if path else problem) from None


def read_config(path: Path) -> RunConfig:
    return parse_config(read_json(path), path)
