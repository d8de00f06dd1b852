"""What requests and responses of the API look like."""

from __future__ import annotations

import unicodedata
from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from gaussproto.classifier.confidence import Weights
from gaussproto.errors import DIRECTIONS
from gaussproto.formulas.confidence import RATES
from gaussproto.serving.worker import DEFAULT

LONGEST_NAME = 100  # characters
MOST_IMAGES = 100  # in a request
MOST_CLASSES, MOST_SHOTS = 50, 17  # of a ready set

Id = Annotated[str, Path(pattern=r"^[0-9a-z]{1,32}$")]
ChosenWeights = Annotated[Weights, Query(description="What an example counts in the prototype of its class.")]


def is_text(name: str) -> bool:
    """Return whether a name has no control characters, and none that turn the text around them."""
    return not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in DIRECTIONS for c in name)


def _name(value: str) -> str:
    name = unicodedata.normalize("NFC", value).strip()
    if not 1 <= len(name) <= LONGEST_NAME:
        raise ValueError(f"a name must have 1 to {LONGEST_NAME} characters (found {len(name)})")
    if not is_text(name):
        raise ValueError("a name must not contain control characters")
    return name


Name = Annotated[str, Field(min_length=1, max_length=4 * LONGEST_NAME), AfterValidator(_name)]
Damage = Annotated[float, Field(ge=0, le=1, description="0: the image as it is. 1: down-sampled to 3 x 3 pixels.")]
Reject = Annotated[
    float | None,
    Field(ge=RATES[0], le=RATES[-1], description="Share of known images that may be called unknown. null: none is."),
]


class Model(BaseModel):
    """A part of a request or a response. Requests must not contain anything else."""

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=True, allow_inf_nan=False)


class Failure(Model):
    """Why a request failed."""

    error: str = Field(description="One sentence: what was wrong, what was found, what to do.")


class Health(Model):
    """Whether the server runs."""

    status: Literal["ok"] = "ok"
    version: str


class Ready(Model):
    """Whether the server can classify."""

    status: Literal["ready"] = "ready"


class EncoderOut(Model):
    """An encoder that can be used here."""

    name: str
    about: str
    default: bool


class NewGallery(Model):
    """A gallery to create."""

    name: Name
    encoder: str = Field(DEFAULT, max_length=LONGEST_NAME)
    reject: Reject = 0.05


class GalleryChange(Model):
    """What to change of a gallery. What is left out stays."""

    name: Name = ""
    reject: Reject = None


class NewClass(Model):
    """A class to create, or the new name of one."""

    name: Name


class ExampleIn(Model):
    """An example to add."""

    class_name: Name = Field(alias="class", description="The name of its class, which is created if it is new.")
    image: str = Field(description="An image file in base64, or as a data URL.")
    name: Name = ""
    damage: Damage = 0.0


class ExamplesIn(Model):
    """Examples to add, all or none."""

    examples: list[ExampleIn] = Field(min_length=1, max_length=MOST_IMAGES)


class ImagesIn(Model):
    """Images to classify or to embed."""

    images: list[str] = Field(min_length=1, max_length=MOST_IMAGES, description="Image files in base64 or data URLs.")


class ExampleChange(Model):
    """What to change of an example. What is left out stays."""

    class_id: str = Field("", alias="class", pattern=r"^[0-9a-z]{1,32}$", description="The id of its new class.")
    damage: Damage = 0.0
    name: Name = ""


class SampleIn(Model):
    """A ready set to load."""

    id: str = Field(max_length=LONGEST_NAME)
    classes: int = Field(5, ge=1, le=MOST_CLASSES)
    shots: int = Field(3, ge=1, le=MOST_SHOTS)


class ClassOut(Model):
    """A class."""

    id: str
    name: str


class ExampleOut(Model):
    """An example."""

    id: str
    name: str
    class_id: str = Field(alias="class", description="The id of its class.")
    has_image: bool
    damage: float
    weight: float = Field(description="Its share in the prototype of its class, from 0 to 1.")
    precision: float | None = Field(description="The geometric mean of its precision.")
    blank: bool = Field(description="Whether no ink was found in it.")


class ClassWithExamples(ClassOut):
    """A class and its examples."""

    examples: list[ExampleOut]


class GalleryOut(Model):
    """A whole gallery."""

    id: str
    name: str
    encoder: str
    reject: float | None
    version: int
    changed: str
    classes: list[ClassWithExamples]


class GalleryListed(Model):
    """A gallery in the list."""

    id: str
    name: str
    encoder: str
    classes: int
    examples: int
    version: int
    changed: str


class Added(Model):
    """The examples that were added."""

    version: int
    examples: list[ExampleOut]


class ClassAnswer(Model):
    """How near an image is to a class."""

    id: str
    name: str
    probability: float
    distance: float
    threshold: float | None = Field(description="The distance beyond which an image is far from the class.")


class Neighbour(Model):
    """An example near an image."""

    id: str
    class_id: str = Field(alias="class")
    distance: float


class Answer(Model):
    """What the gallery says about an image."""

    name: str
    blank: bool
    unknown: bool
    answer: str | None = Field(description="The name of the class. null if the image is unknown or blank.")
    classes: list[ClassAnswer]
    nearest: list[Neighbour]
    precision: float | None
    point: tuple[float, float] | None = Field(None, description="The image in the plane, if it was asked for.")


class Answers(Model):
    """The answers for the images of a request."""

    version: int
    answers: list[Answer]


class Point(Model):
    """An example in the plane."""

    id: str
    class_id: str = Field(alias="class")
    x: float
    y: float
    radius: float


class ClassPoint(Model):
    """The prototype of a class in the plane."""

    id: str
    name: str
    x: float
    y: float
    radius: float


class PlaneOut(Model):
    """The plane in which the embeddings of the examples vary most."""

    version: int
    share: tuple[float, float] = Field(description="Share of the variance along each axis.")
    unit: float = Field(description="Multiply a radius by it to get coordinates of the plane.")
    examples: list[Point]
    classes: list[ClassPoint]


class Embeddings(Model):
    """Embeddings and precisions of images."""

    encoder: str
    embeddings: list[list[float]]
    precisions: list[Any] | None


class SampleOut(Model):
    """A ready set of drawings."""

    id: str
    name: str
    about: str
    classes: int
    shots: int = Field(description="How many examples of a class can be loaded.")


class QueryOut(Model):
    """A further drawing of a ready set, to try."""

    class_name: str = Field(alias="class")
    image: str = Field(description="A PNG file in base64.")


class SampleLoaded(Model):
    """What was loaded."""

    version: int
    queries: list[QueryOut]
