"""Gallery files that clients save and open. A file from a client is not trusted."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from gaussproto.arrays import read_arrays
from gaussproto.classifier.encoders.card import Encoder
from gaussproto.classifier.gallery import METADATA, Gallery, read_gallery
from gaussproto.errors import InputError
from gaussproto.files import folder_name
from gaussproto.formulas.distance import DISTANCES
from gaussproto.formulas.embedded import Embedded
from gaussproto.serving.bodies import check_name
from gaussproto.serving.models import LONGEST_NAME, is_text
from gaussproto.serving.opened import OpenedGallery
from gaussproto.serving.rows import ConflictError, NewExample
from gaussproto.serving.worker import encoder_names

NAME = "studio.gallery"
LARGEST = 1e9  # of what networks make; the squares and products of such numbers fit into float32


def write_file(opened: OpenedGallery) -> bytes:
    """Return the gallery file of a gallery."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        opened.classifier("precision").save(path)
        return path.read_bytes()


def download_headers(name: str, ending: str) -> dict[str, str]:
    """Return the header that names a download. Programs that do not know `filename*` (RFC 5987) read plain ASCII."""
    file = folder_name(name) + ending
    plain = re.sub(r"[^ !#$&-~]", "_", file)
    return {"content-disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(file, safe='')}"}


def read_file(content: bytes, name: str) -> Gallery:
    """Read the gallery file of a client, which calls it `name`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        path.write_bytes(content)
        try:
            _check_distance(read_arrays(path, "gallery").metadata.get(METADATA, "{}"))
            return read_gallery(path)
        except InputError as error:
            raise type(error)(str(error).replace(str(path), name)) from None


def _check_distance(settings: str) -> None:
    """Raise ConflictError if a file names a user's distance: reading the file would import and run its module."""
    distances: list[Any] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        distances.extend(value for key, value in pairs if key == "distance")
        return dict(pairs)

    try:
        json.loads(settings, object_pairs_hook=collect)
    except (ValueError, RecursionError):
        raise InputError("the gallery file is damaged (its settings cannot be read): create it again") from None
    if any(isinstance(each, str) and each not in DISTANCES for each in distances):
        remedy = "save the gallery with a built-in distance"
        raise ConflictError(f"the gallery uses a user's distance, which a server does not load: {remedy}")


def check_source(found: Gallery, name: str) -> str:
    """Return the name of the encoder. Raise ConflictError if this server does not have it: it may be a path."""
    source = found.settings.source
    if source is None or source not in encoder_names():
        usable = ", ".join(encoder_names())
        raise ConflictError(f"{name} was made with weights that this server does not have: it has {usable}")
    return source


def _check_fits(found: Gallery, name: str, encoder: Encoder, like: Embedded[np.ndarray]) -> None:
    """Raise ConflictError unless the embeddings in a file are like one of the encoder."""
    if found.settings.digest != encoder.digest:
        raise ConflictError(f"{name} was made with other weights {found.settings.source}: create it again")
    if found.settings.views > 1:
        raise ConflictError(
            f"{name} was made with {found.settings.views} views, which a server does not use: create it again"
        )
    shapes = [[None if t is None else t.shape[1:] for t in each] for each in (found.embedded, like)]
    if shapes[0] not in (shapes[1], [shapes[1][0], None]) or found.settings.image_size_used < encoder.smallest_image:
        raise ConflictError(f"{name} is a damaged gallery (its encoder makes other embeddings): create it again")
    x, s = found.embedded
    precisions = np.ones(1) if s is None else np.linalg.eigvalsh(s) if s.ndim == 3 else s
    if np.abs(x).max() > LARGEST or precisions.min() < 1 / LARGEST or precisions.max() > LARGEST:
        problem = "its embeddings or precisions are too large or too small"
        raise ConflictError(f"{name} is a damaged gallery ({problem}): create it again")


def parameters_of(found: Gallery, encoder: Encoder) -> dict[str, Any]:
    """Return how the images of a gallery file are prepared and compared, if it is not the usual way of its encoder."""
    settings = found.settings
    chosen = {"distance": settings.distance, "temperature": settings.temperature}
    used = {key: getattr(settings, f"{key}_used") for key in ("ink", "prepare", "image_size")}
    different = {key: value for key, value in used.items() if value != getattr(encoder, key)}
    return {key: value for key, value in chosen.items() if value is not None} | different


def checked_examples(found: Gallery, name: str, encoder: Encoder, like: Embedded[np.ndarray]) -> list[NewExample]:
    """Return the examples of a gallery file. They have no images. Raise ConflictError if they do not fit."""
    _check_fits(found, name, encoder, like)
    if len(set(map(str, found.classes))) < len(found.classes):
        raise ConflictError(f"{name} has classes whose names are equal as texts, like 1 and '1': rename one of them")
    x, s = found.embedded
    s = None if found.settings.weights == "uniform" else s  # without precisions, every example counts the same
    return [
        NewExample(
            check_name(str(label), "name of a class in the gallery"), _last_part(path, i), None, 0.0, False,
            found.settings.digest, x[i], None if s is None else s[i],
        )
        for i, (label, path) in enumerate(zip(found.labels, found.names, strict=True))
    ]  # fmt: skip


def _last_part(path: str, i: int) -> str:
    name = path.replace("\\", "/").rpartition("/")[2][-LONGEST_NAME:].strip()
    return name if name and is_text(name) else f"example {i + 1}"


def free_path(folder: str, name: str, taken: set[str]) -> str:
    """Return a path FOLDER/NAME.png for a zip file, with a number if the path is taken."""
    first = path = f"{folder}/{folder_name(name.rpartition('.')[0] or name)}"
    number = 2
    while path.lower() in taken:
        path, number = f"{first}-{number}", number + 1
    taken.add(path.lower())
    return f"{path}.png"
