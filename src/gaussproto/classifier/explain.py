"""A picture for every answer, from a fitted classifier and the files that its examples came from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from gaussproto.classifier.inputs import list_images, read_images
from gaussproto.data.ink import with_bright_ink
from gaussproto.errors import InputError
from gaussproto.files import write_then_rename

if TYPE_CHECKING:
    from gaussproto.classifier.estimator import GaussianPrototypeClassifier
    from gaussproto.report.explanation import Example

FORMS = (".png", ".svg")


def check_picture(path: Path) -> None:
    """Say so if a picture cannot be called so."""
    if path.suffix.lower() not in FORMS:
        raise InputError(f"a picture is written as .png or .svg (found {path.name!r}): name such a file")


def explain(clf: GaussianPrototypeClassifier, X: Any, path: Path, top: int) -> list[Path]:
    """Write a picture for each image; see `GaussianPrototypeClassifier.explain`."""
    from gaussproto.report.explanation import Neighbour, explanation
    from gaussproto.report.style import render

    check_picture(path)
    if clf.embedder_.takes_vectors:
        raise InputError("vectors cannot be drawn: `explain` is for a classifier of images")
    images, names = list_images(X)
    verdict, pixels = clf.judge(images), _pixels(clf, images)
    labels = clf.classes_.tolist()
    examples: dict[int, list[Example]] = {}
    paths = _paths(path, names)
    for i, (name, picture) in enumerate(zip(names, paths, strict=True)):
        nearest = verdict.distances[i].argsort(kind="stable")[:top].tolist()
        for c in nearest:
            if c not in examples:
                examples[c] = _examples(clf, labels[c])
        neighbours = [
            Neighbour(
                str(labels[c]),
                float(verdict.distances[i, c]),
                None if verdict.limits is None else float(verdict.limits[c]),
                float(verdict.probabilities[i, c]),
                examples[c],
            )
            for c in nearest
        ]
        words = Path(name).name or f"image {i}"
        figure = explanation(words, pixels[i], bool(verdict.unknown[i]), neighbours)
        form = cast(Literal["svg", "png"], path.suffix.lower()[1:])
        content = render(figure, form, f"{words}: why")
        with write_then_rename(picture) as temporary:
            temporary.write_bytes(content)
    return paths


def _examples(clf: GaussianPrototypeClassifier, label: Any) -> list[Example]:
    """The examples of a class by weight, with their pixels if they may be shown and their files are still there."""
    from gaussproto.report.explanation import MOST, Example

    own = [i for i, other in enumerate(clf.example_labels_.tolist()) if other == label]
    own.sort(key=lambda i: -clf.example_weights_[i])
    shown = {*own[:MOST], *own[-MOST:]}
    found = []
    for i in own:
        name = clf.example_names_[i]
        try:
            pixels = _pixels(clf, [name])[0] if name and i in shown else None
        except InputError:  # moved, or another file by now
            pixels = None
        found.append(Example(Path(name).name, pixels, float(clf.example_weights_[i])))
    return found


def _pixels(clf: GaussianPrototypeClassifier, images: Any) -> np.ndarray:
    """(N, channels, H, W), as the network sees them."""
    embedder = clf.embedder_
    return with_bright_ink(read_images(images, embedder.image_size, embedder.channels), embedder.ink)


def _paths(path: Path, names: list[str]) -> list[Path]:
    """`path`; of several images, one for each: OUT-NAME.png, numbered where names are missing or alike."""
    if len(names) == 1:
        return [path]
    stems = [Path(name).stem for name in names]
    if "" in stems or len(set(stems)) < len(stems):
        stems = [f"{i}-{stem}".rstrip("-") for i, stem in enumerate(stems, start=1)]
    return [path.with_name(f"{path.stem}-{stem}{path.suffix}") for stem in stems]
