"""The settings of the images and of the network. Their descriptions are the `--help`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from gaussproto.formulas.named import check_saved
from gaussproto.setting_types import (
    FILTERS,
    LARGEST_GRID,
    LARGEST_IMAGE,
    LARGEST_WIDTH,
    CovarianceName,
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


class Frozen(BaseModel):
    """An immutable model that rejects unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def setting(default: Any, description: str, **limits: Any) -> Any:
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

    data: str = setting(
        "strokes",
        "data to train and test on: omniglot, omniglot-vinyals (in the split of most papers), strokes, cifar-fs "
        "(colour photos), a folder of CLASS/IMAGE files, or your own as module:function",
    )
    rotations: bool | None = setting(
        None,
        "turn each class into four, one for each rotation by 0, 90, 180 and 270 degrees; default: only for omniglot "
        "and strokes",
    )
    image_size: int = setting(
        28, "side of an image in pixels; default: 28 as in the paper, 32 for cifar-fs", ge=1, le=LARGEST_IMAGE
    )
    channels: Literal[1, 3] = setting(1, "1 for grey, 3 for colour images; default: 1, for cifar-fs 3")
    ink: Ink = setting(
        "bright",
        "ink of a folder's images: bright, dark or detect (decide for each image, as prepare ink always does); "
        "default: bright, or what the weights in init expect",
    )
    prepare: Prepare = setting(
        "none",
        "preparation of images: ink (of drawings: find the ink, remove uneven light, specks and frames, "
        "scale it to one size and centre it), crop (cut the largest square from the middle) or none (only resize); the "
        "paper: none",
    )
    variants: int = setting(
        0,
        "number of variants of each training drawing, with other pens, slants, light, blur and noise, to learn from; "
        "needs prepare ink; the paper: 0",
        ge=0,
        le=100,
    )
    test_fraction: float = setting(0.25, "fraction of a folder's classes to hold out for testing", gt=0, lt=1)
    split: Annotated[ClassSplit, BeforeValidator(parse_split)] | None = setting(
        None, "JSON file that names a folder's training and test classes"
    )
    holdout: int = setting(
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

    encoder: EncoderName = setting(
        "small", "small (filters 64,64,64), big (filters 128,256,512), or your own as module:name"
    )
    features: int | None = setting(
        None, "number of features that your own encoder returns for each image", ge=1, le=LARGEST_WIDTH
    )
    filters: Filters | None = setting(
        None, "number of filters of each block before the last, e.g. 32,32,32; default: those of the encoder"
    )
    residual: Residual = setting(
        (),
        "number of residual convolutions at the start of each block, e.g. 0,0,1,1; the paper: none",
    )
    grid: int = setting(
        1,
        "number of areas along each side of an image, each with a part of the embedding; 1: the whole image, as in "
        "the paper; with more, the pools drop no pixels, and embedding_dim must be a multiple of grid²",
        ge=1,
        le=LARGEST_GRID,
    )
    channels: int = setting(1, "1 for grey, 3 for colour images", ge=1, le=LARGEST_WIDTH)
    embedding_dim: int = setting(
        64, "size D of an embedding; the paper: 32 to 128 (small), 128 to 512 (big)", ge=1, le=LARGEST_WIDTH
    )
    covariance: CovarianceName = setting(
        "radius", "learned covariance: none (vanilla network), radius, diagonal or full"
    )
    transform: TransformName = setting(
        "softplus",
        "function that turns the encoder's raw output into the precision: softplus, sigmoid, wide_sigmoid, "
        "learned_softplus or exp",
    )
    precision_relu: bool = setting(True, "pass the raw precision through the ReLU of the last block; the paper: yes")
    weighting: Weighting = setting(
        "prototype_and_distance",
        "where to use the precision: prototype_and_distance, or only prototype; the paper: prototype_and_distance",
    )
    distance: DistanceName = setting(
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
