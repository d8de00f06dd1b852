"""What a run is: one frozen, checked object that a run folder carries as `config.json`.

Every setting has its reason, range or unit beside it; the command line makes its options from these same fields.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError, model_validator
from pydantic.fields import FieldInfo

from gaussproto.errors import InputError
from gaussproto.files import read_json
from gaussproto.split import ClassSplit, parse_split

Covariance = Literal["none", "radius", "diagonal", "full"]
Transform = Literal["softplus", "sigmoid", "wide_sigmoid", "learned_softplus", "exp"]
Weighting = Literal["prototype_and_distance", "prototype"]
Distance = Literal["euclidean", "squared_euclidean", "sqrt_euclidean", "cosine"]
Norm = Literal["running", "batch"]

DRAWN = ("omniglot", "strokes")  # characters in bright ink, with alphabets and a split of their own
SMALLEST_IMAGE = 16  # four poolings by two leave one pixel
LARGEST_SEED = 2**63 - 1  # that torch takes


def _parse_filters(value: Any) -> Any:
    return tuple(value.split(",")) if isinstance(value, str) else value


def _parse_damage(value: Any) -> Any:
    """`7:0.1,5:0.05` or a mapping of the size to its fraction."""
    if isinstance(value, str):
        pairs = [part.split(":") for part in value.split(",") if part.strip()]
        if any(len(pair) != 2 for pair in pairs) or len({pair[0] for pair in pairs}) < len(pairs):
            raise ValueError(f"write it as SIZE:FRACTION,SIZE:FRACTION, such as 7:0.1,5:0.05 (found {value!r})")
        value = dict(pairs)
    return tuple(value.items()) if isinstance(value, Mapping) else value


Filters = Annotated[tuple[Annotated[int, Field(ge=1)], ...], BeforeValidator(_parse_filters)]
Damage = Annotated[
    tuple[tuple[Annotated[int, Field(ge=1)], Annotated[float, Field(ge=0, le=1)]], ...],
    BeforeValidator(_parse_damage),
    PlainSerializer(lambda pairs: {str(size): fraction for size, fraction in pairs}),
]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DataConfig(_Frozen):
    """Where images come from and what they become in memory."""

    data: str = Field("strokes", description="omniglot, strokes, or a folder of CLASS/IMAGE files")
    rotations: bool | None = Field(
        None,
        description="each class turned by 90, 180 and 270 degrees is a new class; default: yes, but not of a folder",
    )
    image_size: int = Field(28, ge=SMALLEST_IMAGE, description="side in pixels; the paper: 28")
    channels: Literal[1, 3] = Field(1, description="1 grey, 3 colour")
    invert: bool | None = Field(
        False,
        description="swap dark and light (a folder of dark ink on white paper); with --init of drawn characters it is "
        "detected in each image if not given",
    )
    test_fraction: float = Field(0.25, gt=0, lt=1, description="share of a folder's classes that is held out for test")
    split: Annotated[ClassSplit, BeforeValidator(parse_split)] | None = Field(
        None, description="JSON file that names the classes of a folder that train and those that test"
    )
    holdout: int = Field(
        0, ge=0, description="alphabets taken out of training that replace the test split, to compare recipes fairly"
    )

    @property
    def ink(self) -> Literal["detect", "bright", "dark"]:
        """What is to be known of a person's images, so that they look as these do to a network.

        Drawn characters were learned with bright ink, so it is detected; a folder was learned as it is, or inverted.
        """
        if self.data in DRAWN or (self.invert is None and self.channels == 1):
            return "detect"
        return "dark" if self.invert else "bright"

    def look(self) -> dict[str, Any]:
        """The settings that make other images look as these do to a network."""
        invert = {"detect": None, "bright": False, "dark": True}[self.ink]
        return {"image_size": self.image_size, "channels": self.channels, "invert": invert}


class NetworkConfig(_Frozen):
    """The paper's network: encoder, covariance, prototypes, distance."""

    encoder: Literal["small", "big"] = Field("small", description="filters 64,64,64 or 128,256,512, then the outputs")
    filters: Filters | None = Field(None, description="filters of the blocks before the last, such as 32,32,32")
    channels: int = Field(1, ge=1, description="1 grey, 3 colour")
    embedding_dim: int = Field(64, ge=1, description="D; the paper: 32 to 128 small, 128 to 512 big")
    covariance: Covariance = Field("radius", description="shape of the learned covariance; none is the vanilla network")
    transform: Transform = Field("softplus", description="how the precision comes out of the raw output")
    precision_relu: bool = Field(True, description="the precision passes the last ReLU, as in the paper")
    weighting: Weighting = Field("prototype_and_distance", description="where the precision acts; the paper: both")
    distance: Distance = Field("euclidean", description="what the softmax is taken over; the paper: euclidean")

    @property
    def in_distance(self) -> bool:
        """Whether the precision of a class, beside weighing its supports, is the metric around its prototype."""
        return self.covariance != "none" and self.weighting == "prototype_and_distance"


class EpisodeConfig(_Frozen):
    """One training episode: way classes, shot supports and query queries of each."""

    way: int = Field(60, ge=2, description="classes in an episode; the paper: 60")
    shot: int = Field(1, ge=1, description="supports of each class; the paper: 1")
    max_shot: int | None = Field(
        None, description="if set, each split draws its shot from shot to max_shot; images left over are queries"
    )
    query: int = Field(19, ge=1, description="queries of each class, at the largest shot; the paper: 19")
    splits: int = Field(
        1, ge=1, description="times that an encoded episode is split anew into support and query; the paper: 1"
    )
    mirror: bool = Field(
        False, description="mirror half of the classes of an episode, at random: twice as many classes; the paper: no"
    )
    adapt: bool = Field(False, description="make episodes smaller where there are fewer classes or images than that")

    @model_validator(mode="after")
    def _check(self) -> EpisodeConfig:
        if self.max_shot is not None and self.max_shot < self.shot:
            raise ValueError(f"max_shot is {self.max_shot} and shot is {self.shot}: max_shot must be at least shot")
        if self.splits > self.drawings:
            raise ValueError(f"splits is {self.splits}, but a class has only shot + query = {self.drawings} images")
        return self

    @property
    def drawings(self) -> int:
        """The images that an episode takes of one class."""
        return (self.max_shot or self.shot) + self.query


class Stage(_Frozen):
    """A stretch of training with its own damage and transform."""

    episodes: int = Field(ge=1, description="length of the stage; as an option, of all stages together")
    damage: Damage = Field(
        default=(), description="SIZE:FRACTION,... of images down-sampled to SIZE pixels, such as 7:0.1"
    )
    transform: Transform | None = Field(None, description="from this stage on, another transform; the weights stay")

    @model_validator(mode="after")
    def _check(self) -> Stage:
        total = sum(fraction for _, fraction in self.damage)
        if total > 1 + 1e-9:
            raise ValueError(f"the fractions of damage add up to {total:g}: they must not exceed 1")
        return self


class TrainingConfig(_Frozen):
    """How the weights are learned."""

    stages: tuple[Stage, ...] = Field((Stage(episodes=900),), min_length=1)
    learning_rate: float = Field(2e-3, gt=0, description="Adam's; the paper: 0.002")
    schedule: Literal["halving", "cosine", "constant"] = Field("cosine", description="the paper: halving")
    halve_every: int = Field(2000, ge=1, description="episodes between halvings; the paper: 2000")
    checkpoint_every: int = Field(50, ge=1, description="episodes between checkpoints; also the window of accuracy")
    keep: int = Field(5, ge=1, description="checkpoints kept, those with the highest training accuracy; the paper: 5")
    distort: float = Field(
        0.0, ge=0, description="strength of random turns, stretches and shifts of the images; the paper: 0"
    )
    snapshots: int = Field(0, ge=0, description="weights kept along the way, evenly spaced, to draw how it learned")
    seed: int = Field(0, ge=0, le=LARGEST_SEED, description="of the weights and of the episodes")
    init: str | None = Field(
        None, description="weights to start from: bundled ones, a run folder or a .safetensors file"
    )
    init_digest: str | None = Field(None, description="SHA-256 of those weights")

    @property
    def episodes(self) -> int:
        """Length of the whole training."""
        return sum(stage.episodes for stage in self.stages)

    def takes_snapshot(self, episode: int) -> bool:
        """Whether a snapshot is due after this many episodes."""
        passed = (episode * self.snapshots // self.episodes, (episode - 1) * self.snapshots // self.episodes)
        return passed[0] > passed[1]

    def stage_at(self, episode: int) -> tuple[int, Stage]:
        """The number of the stage that an episode (counted from 0) belongs to, and the stage."""
        end = 0
        for number, stage in enumerate(self.stages):
            end += stage.episodes
            if episode < end:
                return number, stage
        return len(self.stages) - 1, self.stages[-1]


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
        blocks = len(self.network.filters or "123") + 1
        if self.data.image_size < 2**blocks:
            raise ValueError(
                f"image_size is {self.data.image_size}, but {blocks} blocks that halve it need at least {2**blocks}: "
                "take fewer filters or larger images"
            )
        return self

    def override(self, **settings: Any) -> RunConfig:
        """Another run with some settings changed, by their own names: `config.override(way=20, seed=1)`.

        `episodes` sets the whole length (stages shrink or grow together) and `damage` that of every stage.
        """
        tree = self.model_dump()
        known = setting_fields()
        for name, value in settings.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"the settings are {', '.join(known)}"
                raise InputError(f"there is no setting {name!r}: {hint}")
            if name == "episodes":
                _stretch(tree["training"]["stages"], value)
            elif name == "damage":
                tree["training"]["stages"] = [stage | {"damage": value} for stage in tree["training"]["stages"]]
            else:
                for section in SECTIONS:
                    if name in tree[section]:
                        tree[section][name] = value
                if name == "init":
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


def roots_of(distance: str) -> int:
    """How many square roots of the squared Euclidean distance a distance is."""
    roots = {"squared_euclidean": 0, "euclidean": 1, "sqrt_euclidean": 2}
    if distance not in roots:
        raise InputError(f"distance must be one of {', '.join(get_args(Distance))} (found {distance!r})")
    return roots[distance]


def _stretch(stages: list[dict[str, Any]], episodes: int) -> None:
    """Change the whole length, keep the proportions of the stages."""
    if not isinstance(episodes, int) or episodes < 1:
        raise InputError(f"setting episodes: give a whole number of 1 or more (found {episodes!r})")
    total, done, end = sum(stage["episodes"] for stage in stages), 0, 0
    for stage in stages:
        end += stage["episodes"]
        stage["episodes"], done = round(episodes * end / total) - done, round(episodes * end / total)
    if min(stage["episodes"] for stage in stages) < 1:
        raise InputError(f"episodes is {episodes}, which leaves a stage of the {len(stages)} with none: give more")


def parse_config(tree: Any) -> RunConfig:
    """Check a tree of settings; a mistake becomes one sentence."""
    try:
        return RunConfig.model_validate(tree)
    except ValidationError as error:
        raise InputError(_sentence(error.errors()[0])) from None


def _sentence(problem: Any) -> str:
    message = problem["msg"].removeprefix("Value error, ")
    where = next((name for name in reversed(problem["loc"]) if isinstance(name, str)), "")
    if problem["type"] == "value_error":
        return f"{where}: {message}" if where and where not in SECTIONS else message
    found = problem["input"]
    return f"setting {where}: {message[0].lower()}{message[1:]}" + ("" if found is None else f" (found {found!r})")


def read_config(path: Path) -> RunConfig:
    """The configuration in a JSON file."""
    tree = read_json(path)
    try:
        return parse_config(tree)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
