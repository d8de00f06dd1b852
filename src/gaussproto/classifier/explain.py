"""Draw a picture that explains each prediction of a classifier."""

from functools import cache
from pathlib import Path
from typing import Literal, cast

import numpy as np

from gaussproto.classifier.confidence import Confidence
from gaussproto.classifier.examples import Examples
from gaussproto.classifier.inputs import read_images, thumbnail
from gaussproto.data.look import Look
from gaussproto.errors import InputError, visible
from gaussproto.files import write_then_rename

LITTLE_TRUST = 0.5  # the label of an example is more likely wrong than right


def check_picture(path: Path) -> None:
    """Raise InputError unless the path ends in .png or .svg."""
    if path.suffix.lower() not in (".png", ".svg"):
        raise InputError(f"the picture must end in .png or .svg (found {path}): change its name")


def draw_answers(answers: Confidence, examples: Examples, look: Look, path: Path, top: int) -> list[Path]:
    """Write a picture for each image, with its `top` nearest classes. See `GaussianPrototypeClassifier.explain`."""
    from gaussproto.figures.explanation import SHOWN, Example, Neighbour, explanation
    from gaussproto.figures.style import render

    def pixels_of(name: str) -> np.ndarray | None:
        try:
            return read_images([name], [name], look).pixels[0] if name else None
        except InputError:  # the file was moved or replaced
            return None

    @cache
    def examples_of(c: int) -> list[Example]:
        members = examples.members(c).tolist()
        shown = {*members[:SHOWN], *members[-SHOWN:]}
        pixels = {i: pixels_of(examples.names[i]) for i in shown}
        trust = np.ones(len(examples.names)) if examples.trust is None else examples.trust
        return [
            Example(Path(examples.names[i]).name, pixels.get(i), float(examples.weights[i]), trust[i] >= LITTLE_TRUST)
            for i in members
        ]

    def neighbour(i: int, c: int) -> Neighbour:
        d, p = float(answers.distances[i, c]), float(answers.probabilities[i, c])
        return Neighbour(str(examples.classes[c]), d, answers.threshold(i, c), p, examples_of(c))

    assert answers.pixels is not None
    assert answers.images is not None
    paths = _paths(path, answers.names)
    for i, (name, picture) in enumerate(zip(answers.names, paths, strict=True)):
        nearest = answers.distances[i].argsort(kind="stable")[:top].tolist()
        title = visible(Path(name).name) or f"image {i}"
        pictures = thumbnail(i, answers.images[i]), answers.pixels[i]
        figure = explanation(title, *pictures, answers.why_unknown(i), [neighbour(i, c) for c in nearest])
        with write_then_rename(picture) as temporary:
            extension = cast(Literal["svg", "png"], path.suffix.lower()[1:])
            temporary.write_bytes(render(figure, extension, f"{title}: why"))
    return paths


def _paths(path: Path, names: list[str]) -> list[Path]:
    """Return one path for each image: `path` itself, or OUT-NAME.png for several. Add numbers unless names differ."""
    if len(names) == 1:
        return [path]
    stems = [Path(name).stem for name in names]
    if "" in stems or len(set(stems)) < len(stems):
        stems = [f"{i}-{stem}".rstrip("-") for i, stem in enumerate(stems, start=1)]
    return [path.with_name(f"{path.stem}-{stem}{path.suffix}") for stem in stems]
