"""The options that choose an encoder, and the classifier that they make."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from typer import Option

from gaussproto.cli import bulk, console
from gaussproto.errors import InputError

if TYPE_CHECKING:
    from gaussproto.classifier.estimator import GaussianPrototypeClassifier

T = TypeVar("T")
Examples = list[tuple[Path, str]]  # files and their classes

Encoder = Annotated[
    str | None,
    Option(
        help="drawings-small, drawings-big, photo, a .safetensors or ONNX file, or a run folder. Default: that of the "
        "gallery, or the one that fits the examples."
    ),
]
PrepareOption = Annotated[
    Literal["auto", "ink", "none"] | None,
    Option(
        metavar="PREPARE",
        help="Preparation of drawings: ink (find the ink, remove uneven light, specks and frames, centre it in one "
        "size), none, or auto (what the weights expect). Default: auto.",
    ),
]
ImageSize = Annotated[int | None, Option(help="Side in pixels that images are resized to. Default: of the encoder.")]
Colours = Annotated[
    str | None, Option(metavar="R,G,B", help="For an ONNX model of another library. Default: ImageNet's.")
]
Strict = Annotated[bool, Option("--strict", help="Stop at the first file that cannot be read.")]
PrototypeOption = Annotated[
    Literal["auto", "agreement", "sharing", "median", "mean"] | None,
    Option(
        metavar="RULE",
        help="How far to trust each example: agreement (less if it is unlike its class or like another one), sharing "
        "(the same, and it counts in the other class), median (less if it is unlike its class), mean (all alike) or "
        "auto (agreement if the encoder predicts precisions, otherwise mean). Default: that of the gallery, or auto.",
    ),
]
ViewsOption = Annotated[
    int | None,
    Option(
        metavar="1|5",
        help="5: embed each image also moved a little in four directions, and average. A little more accurate, and "
        "five times as slow. Default: that of the gallery, or 1.",
    ),
]
EngineOption = Annotated[
    Literal["torch", "onnx"] | None,
    Option(help="Library that runs the network: torch (default) or onnx, which starts faster. ONNX files use onnx."),
]
InkOption = Annotated[
    Literal["auto", "detect", "bright", "dark"] | None,
    Option(
        metavar="INK",
        help="Ink of the images: bright (on a dark background), dark (on a light one), detect (decide for each image) "
        "or auto (what the weights expect). Default: auto.",
    ),
]


@dataclass(frozen=True)
class Choice:
    """The options that choose an encoder and how images are read."""

    encoder: str | None
    ink: Any
    prepare: Any
    image_size: int | None
    mean: str | None
    std: str | None
    engine: Any
    device: str
    prototype: Any = None
    views: int | None = None


def colours(name: str, text: str | None) -> tuple[float, ...] | None:
    from gaussproto.classifier.encoders.other import check_colours

    if text is None:
        return None
    try:
        return check_colours(name, text.split(","), ())
    except InputError:
        raise InputError(
            f"--{name} must be three numbers for red, green and blue, like 0.5,0.5,0.5 (found {text!r})"
        ) from None


def make_classifier(gallery: Path | None, chosen: Choice, vectors: bool = False) -> GaussianPrototypeClassifier:
    from gaussproto.classifier.estimator import GaussianPrototypeClassifier
    from gaussproto.classifier.load import load

    if gallery is None:
        return GaussianPrototypeClassifier(
            chosen.encoder or "auto",
            ink=chosen.ink or "auto",
            prepare=chosen.prepare or "auto",
            image_size=chosen.image_size,
            engine=chosen.engine,
            device=chosen.device,
            mean=colours("mean", chosen.mean),
            std=colours("std", chosen.std),
            prototype=chosen.prototype or "auto",
            views=1 if chosen.views is None else chosen.views,
        )
    clf = load(gallery, chosen.encoder, chosen.engine, chosen.device)
    for name in ("ink", "prepare", "image_size", "prototype", "views"):
        found, made = getattr(chosen, name), getattr(clf if name == "prototype" else clf.encoder_, name)
        if found not in (None, "auto", made):
            option = "--" + name.replace("_", "-")
            remedy = f"leave out {option}, or create another gallery"
            raise InputError(f"{gallery} was made with {option} {made} (found {option} {found}): {remedy}")
    if chosen.mean or chosen.std:
        raise InputError("a gallery knows the mean and std of its encoder: leave out --mean and --std")
    if clf.encoder_.takes_vectors and not vectors:
        raise InputError(f"the examples in {gallery} are vectors, not images: use the gallery from Python")
    return clf


def say_encoder(clf: GaussianPrototypeClassifier, chosen: Choice) -> None:
    """Say which encoder the examples chose, and how to choose another."""
    if chosen.encoder is None:
        kind, other = ("photos", "drawings-small") if clf.encoder_.source == "photo" else ("drawings", "photo")
        found = f"the examples look like {kind}: using {clf.encoder_.source}"
        console.say(f"{found} (to choose, pass --encoder, for example {other})")
        profile = getattr(clf, "_profile", None)
        if profile is not None and profile.mixed:
            console.say(f"warning: {profile.mixed}: no encoder fits both, so classify them separately")


def examples_in(folder: Path) -> list[tuple[Path, str]]:
    from gaussproto.data.picture import class_files

    return [(file, name) for name, some in class_files(folder).items() for file in some]


def fit_examples(clf: GaussianPrototypeClassifier, examples: Examples, strict: bool) -> Examples:
    """Add the examples to the classifier. Return those that could be read."""

    def fit(some: Examples) -> Examples:
        clf.partial_fit([file for file, _ in some], [name for _, name in some])
        return some

    return without_unreadable_files(fit, examples, strict)


def without_unreadable_files(work: Callable[[Examples], T], examples: Examples, strict: bool) -> T:
    """Return `work(examples)`. If some files cannot be read, warn and leave them out, unless `strict`."""
    try:
        return work(examples)
    except InputError:
        good = examples if strict else bulk.without_unreadable(examples)
        if len(good) == len(examples):
            raise
        return work(good)
