"""Ready sets of drawings: invented alphabets, and Omniglot's test alphabets where Omniglot is on the machine."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import lru_cache, partial
from io import BytesIO
from typing import NamedTuple

import numpy as np
from PIL import Image

from gaussproto.data.images import LabelledImages
from gaussproto.data.omniglot import DRAWINGS, EVALUATION, SIDE, find, published_files
from gaussproto.data.strokes import strokes
from gaussproto.errors import InputError, did_you_mean
from gaussproto.serving.bodies import Upload
from gaussproto.serving.models import MOST_CLASSES, MOST_SHOTS, QueryOut, SampleOut

ALPHABETS, SEED = 4, 2024  # invented alphabets that no bundled network was trained on: training uses the seed 0
QUERIES = 3  # drawings that stay for queries
Drawings = dict[str, list[Callable[[], bytes]]]  # of each character of an alphabet: what returns the PNG files


class Loaded(NamedTuple):
    """Examples of a ready set, and further drawings to try."""

    examples: list[Upload]
    queries: list[QueryOut]


def list_samples() -> list[SampleOut]:
    """Return the sets that can be loaded here."""
    invented = _invented()
    found = [
        SampleOut(
            id=f"invented-{i}",
            name=name,
            about="An invented alphabet.",
            classes=min(MOST_CLASSES, invented.alphabets.count(name)),
            shots=MOST_SHOTS,
        )
        for i, name in enumerate(dict.fromkeys(invented.alphabets), start=1)
    ]
    if _has_omniglot():
        for i, entry in enumerate(EVALUATION.alphabets.split(), start=1):
            name, count = entry.split(":")
            about = "A test alphabet of Omniglot, which no bundled network was trained on."
            shown = name.replace("_", " ")
            found.append(
                SampleOut(id=f"omniglot-{i}", name=shown, about=about, classes=int(count), shots=DRAWINGS - QUERIES)
            )
    return found


def load_sample(sample: str, classes: int, shots: int) -> Loaded:
    """Return examples of some classes of a set, spread evenly over it."""
    known = {each.id: each for each in list_samples()}
    if sample not in known:
        raise InputError(f"unknown set {sample!r}: {did_you_mean(sample, known, 'GET /samples lists the sets')}")
    chosen = known[sample]
    drawings = _invented_drawings(chosen.name) if sample.startswith("invented") else _omniglot_drawings(chosen.name)
    characters = list(drawings)
    picked = np.linspace(0, len(characters) - 1, min(classes, len(characters))).round().astype(int).tolist()
    examples, queries = list[Upload](), list[QueryOut]()
    for character in (characters[i] for i in picked):
        name = f"{chosen.name} {character}"
        files = [read() for read in drawings[character][: shots + 1]]
        examples += [Upload(f"{name} {i}.png", file, name) for i, file in enumerate(files[:shots], start=1)]
        queries.append(QueryOut(class_name=name, image=base64.b64encode(files[shots]).decode()))
    return Loaded(examples, queries)


def _invented_drawings(alphabet: str) -> Drawings:
    images = _invented()
    return {
        images.classes[c].rpartition("character")[2]: [
            partial(_png, images.images[start + i, 0].numpy()) for i in range(MOST_SHOTS + QUERIES)
        ]
        for c, start in enumerate(images.starts.tolist())
        if images.alphabets[c] == alphabet
    }


def _omniglot_drawings(alphabet: str) -> Drawings:
    """Return the files as they are published. To decode all of Omniglot would take seconds."""
    source = find(EVALUATION)
    if source is None:
        raise InputError("Omniglot is no longer where it was: load another set")
    drawings: Drawings = {}
    for path, content in published_files(EVALUATION, source).items():
        _, of, character, _ = path.split("/")
        if of.replace("_", " ") == alphabet:
            drawings.setdefault(character.removeprefix("character"), []).append(partial(bytes, content))
    return drawings


@lru_cache(maxsize=1)
def _invented() -> LabelledImages:
    return strokes(ALPHABETS, MOST_SHOTS + QUERIES, SIDE, SEED)


def _has_omniglot() -> bool:
    try:
        return find(EVALUATION) is not None
    except InputError:  # GAUSSPROTO_DATA names no folder
        return False


def _png(ink: np.ndarray) -> bytes:
    """Return a drawing as dark ink on white paper."""
    file = BytesIO()
    Image.fromarray(255 - ink).save(file, "PNG")
    return file.getvalue()
