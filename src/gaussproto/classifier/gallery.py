"""The gallery file: examples, classes and the digest of the weights in safetensors format, never a pickle."""

import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors.numpy import save_file

from gaussproto.classifier.encoders.card import Encoder
from gaussproto.classifier.examples import Examples
from gaussproto.data.labels import from_json, to_json
from gaussproto.errors import InputError
from gaussproto.files import digest_of_arrays, read_safetensors, write_then_rename
from gaussproto.formulas.confidence import Calibration
from gaussproto.formulas.embedded import Embedded
from gaussproto.setting_types import DistanceName, Ink, first_problem

METADATA = "gaussproto-gallery"
CHECKSUM = "sha256"
VERSION = 1
PARAMETERS = ("ink", "image_size", "distance", "temperature", "reject")  # of the classifier, as the user passed them


class Settings(BaseModel):
    """How the embeddings in a gallery were computed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: int = VERSION
    source: str | None  # name or path of the weights; None for a network in memory
    digest: str  # of the weights
    ink: Literal["auto"] | Ink
    ink_used: Ink  # what `auto` meant for these weights
    image_size: int | None
    image_size_used: int
    distance: DistanceName | None
    temperature: float | None
    reject: float | None = None
    calibration: Calibration | None = None  # of the weights at the time of saving
    features: int | None = None  # size of a vector; None for images
    feature_names: list[str] | None = None


def settings_of(clf: Any, encoder: Encoder) -> Settings:
    feature_names = getattr(clf, "feature_names_in_", None)
    return Settings(
        **{name: getattr(clf, name) for name in PARAMETERS},
        source=encoder.source,
        digest=encoder.digest,
        ink_used=encoder.ink,
        image_size_used=encoder.image_size,
        calibration=encoder.calibration,
        features=getattr(clf, "n_features_in_", None),
        feature_names=None if feature_names is None else feature_names.tolist(),
    )


def write_gallery(settings: Settings, examples: Examples, path: Path) -> None:
    """Write a gallery. If that fails, an existing file stays as it was."""
    texts = {"classes": to_json(examples.classes), "names": json.dumps(examples.names)}
    tensors = {
        **{name: np.frombuffer(text.encode(), np.uint8) for name, text in texts.items()},  # headers have a size limit
        "labels": examples.index.astype(np.int64),
        "embeddings": examples.embedded.x,
        "prototypes": examples.prototypes.x,
        "example_precisions": examples.embedded.s,
        "precisions": examples.prototypes.s,
    }
    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items() if array is not None}
    header = settings.model_dump_json()
    with write_then_rename(path) as temporary:
        save_file(arrays, temporary, metadata={METADATA: header, CHECKSUM: digest_of_arrays(header, arrays)})


def read_gallery(path: Path) -> tuple[Settings, Embedded[np.ndarray], list[Hashable], list[str]]:
    """Return the settings, and the embeddings, labels and files of the examples."""
    if not path.exists():
        raise InputError(f"the gallery {path} does not exist: create it with `gaussproto enroll` or `save`")
    header, tensors, _ = read_safetensors(path, "gallery")
    metadata = header.get(METADATA)
    if metadata is None:
        remedy = "pass a file written by `gaussproto enroll` or `save`"
        raise InputError(f"{path} is a safetensors file, but not a gallery: {remedy}")
    try:
        version = json.loads(metadata)["version"]
        if version != VERSION:
            reads = f"this gaussproto reads version {VERSION}: install a newer gaussproto"
            raise InputError(f"{path} is a gallery of version {version}, but {reads}")
        if header.get(CHECKSUM) != digest_of_arrays(metadata, tensors):
            raise InputError(f"{path} is a damaged gallery (its checksum does not match): create it again")
        settings = Settings.model_validate_json(metadata)
        classes = from_json(tensors["classes"].tobytes())
        names: list[str] = json.loads(tensors["names"].tobytes())
        embedded = Embedded(tensors["embeddings"], tensors.get("example_precisions"))
        index, C = tensors["labels"].tolist(), len(tensors["prototypes"])
    except (KeyError, TypeError, ValidationError, UnicodeDecodeError, json.JSONDecodeError) as error:
        problem = first_problem(error) if isinstance(error, ValidationError) else error
        raise InputError(f"{path} is a damaged gallery ({problem}): create it again") from error
    N = len(embedded)
    for name, part, length in (
        ("labels", index, N),
        ("names", names, N),
        ("classes", classes, C),
        ("example_precisions", embedded.s, N),
    ):
        if part is not None and len(part) != length:
            found = f"{name} has {len(part)} entries instead of {length}"
            raise InputError(f"{path} is a damaged gallery ({found}): create it again")
    if set(index) != set(range(C)) or len(set(classes)) != C:
        raise InputError(f"{path} is a damaged gallery (its {C} classes do not match its examples): create it again")
    return settings, embedded, [classes[c] for c in index], names
