"""The gallery file: a safetensors file with examples, classes and the identity of the weights; never pickle."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from gaussproto.classifier.labels import from_json, to_json
from gaussproto.config import Distance
from gaussproto.data.ink import Ink
from gaussproto.errors import InputError
from gaussproto.evaluation.calibration import Calibration
from gaussproto.files import digest_of_arrays, write_then_rename

METADATA = "gaussproto-gallery"
CHECKSUM = "sha256"
VERSION = 1


class Settings(BaseModel):
    """How the embeddings in a gallery came about."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: int = VERSION
    source: str | None  # where the weights were; None for a network that was only in memory
    digest: str  # the weights' identity
    ink: Ink  # what was asked for, and then what it came to for these weights
    ink_used: Ink
    image_size: int | None
    image_size_used: int
    distance: Distance | None
    temperature: float | None
    reject: float | None = None
    calibration: Calibration | None = None  # of the weights when it was saved
    features: int | None = None  # numbers in an input vector; None for images
    feature_names: list[str] | None = None


@dataclass(frozen=True)
class Gallery:
    """The examples and the Gaussian of each class."""

    settings: Settings
    classes: list[Hashable]
    labels: np.ndarray  # (N,) the class of each example
    names: list[str]  # the file of each example, or nothing
    embeddings: np.ndarray  # (N, D)
    example_precisions: np.ndarray | None  # (N, E)
    prototypes: np.ndarray  # (C, D)
    precisions: np.ndarray | None  # (C, E)


def write_gallery(gallery: Gallery, path: Path) -> None:
    """Write one file; what was there is replaced whole or not at all."""
    tensors = {
        "classes": _as_bytes(to_json(gallery.classes)),  # as a tensor: a safetensors header has a largest size
        "names": _as_bytes(json.dumps(gallery.names)),
        "labels": gallery.labels.astype(np.int64),
        "embeddings": gallery.embeddings,
        "prototypes": gallery.prototypes,
    }
    if gallery.example_precisions is not None and gallery.precisions is not None:
        tensors |= {"example_precisions": gallery.example_precisions, "precisions": gallery.precisions}
    tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    with write_then_rename(path) as temporary:
        settings = gallery.settings.model_dump_json()
        save_file(tensors, temporary, metadata={METADATA: settings, CHECKSUM: digest_of_arrays(settings, tensors)})


def read_gallery(path: Path) -> Gallery:
    """Read a gallery file; a file that is none is an error that says what it is."""
    try:
        with safe_open(path, framework="numpy") as file:
            metadata, checksum = (file.metadata() or {}).get(METADATA), (file.metadata() or {}).get(CHECKSUM)
            tensors: dict[str, np.ndarray] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise InputError(f"there is no gallery {path}: make one with `gaussproto enroll` or `save`") from None
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is not a readable gallery ({error}): make it again") from error
    if metadata is None:
        raise InputError(f"{path} is a safetensors file, but not a gallery: name one that `enroll` or `save` has made")
    try:
        version = json.loads(metadata)["version"]
        if version != VERSION:
            raise InputError(
                f"{path} is a gallery of version {version}, and this gaussproto reads {VERSION}: install a newer one"
            )
        if checksum != digest_of_arrays(metadata, tensors):
            raise InputError(f"{path} is spoiled: what it holds is not what was written; make it again")
        gallery = Gallery(
            Settings.model_validate_json(metadata),
            from_json(_as_text(tensors["classes"])),
            tensors["labels"],
            json.loads(_as_text(tensors["names"])),
            tensors["embeddings"],
            tensors.get("example_precisions"),
            tensors["prototypes"],
            tensors.get("precisions"),
        )
    except (KeyError, TypeError, ValidationError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} is a gallery with a part missing or broken ({error}): make it again") from error
    _check(gallery, path)
    return gallery


def _check(gallery: Gallery, path: Path) -> None:
    """Every part of one length."""
    N, C = len(gallery.embeddings), len(gallery.prototypes)
    rows: list[tuple[str, Any, int]] = [
        ("labels", gallery.labels, N),
        ("names", gallery.names, N),
        ("classes", gallery.classes, C),
    ]
    if gallery.example_precisions is not None:
        rows.append(("example_precisions", gallery.example_precisions, N))
    for name, part, length in rows:
        if len(part) != length:
            raise InputError(f"{path} is a broken gallery: {name} has {len(part)} entries, not {length}; make it again")
    if set(gallery.labels.tolist()) != set(range(C)) or len(set(gallery.classes)) != C:
        raise InputError(f"{path} is a broken gallery: its {C} classes are not those of its examples; make it again")


def _as_bytes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), dtype=np.uint8)


def _as_text(array: np.ndarray) -> str:
    return array.tobytes().decode()
