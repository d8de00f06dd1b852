"""The gallery file: examples, classes and the digest of the weights in safetensors format, never a pickle."""

import json
import os
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from gaussproto.arrays import digest_of_arrays, read_arrays, write_arrays
from gaussproto.classifier.confidence import Weights
from gaussproto.classifier.encoders.card import Encoder
from gaussproto.classifier.examples import Examples, Weighing
from gaussproto.classifier.index import ARRAYS, Index
from gaussproto.classifier.known import Known, is_large
from gaussproto.classifier.profile import Profile
from gaussproto.classifier.search import SearchParameter
from gaussproto.data.labels import from_json, to_json
from gaussproto.errors import InputError, is_unicode, visible
from gaussproto.files import lock_beside, locked
from gaussproto.formulas.confidence import RATES, Calibration
from gaussproto.formulas.embedded import Embedded
from gaussproto.formulas.trust import PrototypeParameter
from gaussproto.mapped import MappedFile, map_arrays
from gaussproto.setting_types import LARGEST_IMAGE, DistanceName, Ink, Prepare, first_problem

METADATA = "gaussproto-gallery"
OLD_CHECKSUM = "sha256"  # in galleries of earlier versions
VERSION = 2
MAPPED = 3  # the version of large galleries, which are mapped instead of read
READABLE = (1, VERSION, MAPPED)
INDEX = "gaussproto-index"  # the key of what an index is for
BLOCKS = ("embeddings", "example_precisions", "prototypes", "precisions", "index.lists")  # verified where they are used
# The parameters of the classifier, as the user passed them.
PARAMETERS = (
    "ink",
    "prepare",
    "image_size",
    "mean",
    "std",
    "views",
    "distance",
    "temperature",
    "reject",
    "weights",
    "prototype",
    "search",
)


class Settings(BaseModel):
    """How the embeddings in a gallery were computed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: int = VERSION
    source: str | None  # name or path of the weights; None for a network in memory
    digest: str  # of the weights
    ink: Literal["auto"] | Ink
    ink_used: Ink  # what `auto` meant for these weights
    prepare: Literal["auto"] | Prepare = "auto"
    prepare_used: Prepare = "none"  # what `auto` meant for these weights
    image_size: int | None = Field(ge=1, le=LARGEST_IMAGE)
    image_size_used: int = Field(ge=1, le=LARGEST_IMAGE)
    mean: tuple[float, float, float] | None = None
    std: tuple[float, float, float] | None = None
    views: Literal[1, 5] = 1
    distance: DistanceName | None
    temperature: float | None = Field(gt=0, allow_inf_nan=False)
    reject: float | None = Field(default=None, ge=RATES[0], le=RATES[-1])
    weights: Weights = "precision"
    prototype: PrototypeParameter = "mean"  # in galleries of earlier versions
    search: SearchParameter = "auto"
    encoder_distance: DistanceName = "euclidean"  # what None means as the distance
    in_distance: bool = False  # whether the precision of a class is part of the distance
    calibration: Calibration | None = None  # of the weights at the time of saving
    features: int | None = None  # size of a vector; None for images
    feature_names: list[str] | None = None
    profile: Profile | None = None  # what the examples look like


class Gallery(NamedTuple):
    """What a gallery file holds. The prototypes are left out, because they are computed from the examples."""

    settings: Settings
    embedded: Embedded[np.ndarray]  # (N, D), (N, E)
    labels: list[Hashable]  # (N,)
    names: list[str]  # (N,) the file of each example, or ""
    blank: np.ndarray | None = None  # (N,) whether no ink was found in the image; None if it is not known

    @property
    def classes(self) -> list[Hashable]:
        """Each label once, in order of appearance."""
        return list(dict.fromkeys(self.labels))

    def examples(self) -> Examples:
        settings = self.settings
        distance = settings.distance or settings.encoder_distance
        weighing = Weighing(settings.weights == "uniform", settings.prototype, distance, settings.in_distance)
        return Examples.of(self.embedded, self.labels, self.names, weighing, self.blank)


def settings_of(clf: Any, encoder: Encoder) -> Settings:
    feature_names = getattr(clf, "feature_names_in_", None)
    if not is_unicode(encoder.source or ""):
        raise InputError(f"the path of the weights, {visible(str(encoder.source))}, is not valid UTF-8: rename it")
    return Settings(
        **{name: getattr(clf, name) for name in PARAMETERS} | {"views": encoder.views},
        source=encoder.source,
        digest=encoder.digest,
        ink_used=encoder.ink,
        prepare_used=encoder.prepare,
        image_size_used=encoder.image_size,
        encoder_distance=encoder.distance,
        in_distance=encoder.weighting == "prototype_and_distance",
        calibration=encoder.calibration,
        features=getattr(clf, "n_features_in_", None),
        feature_names=None if feature_names is None else feature_names.tolist(),
        profile=getattr(clf, "_profile", None),
    )


def write_gallery(settings: Settings, examples: Examples, path: Path, index: Index | None = None) -> None:
    """Write a gallery. If that fails, an existing file stays as it was."""
    texts = {"classes": to_json(examples.classes), "names": json.dumps(examples.names)}
    tensors = {
        **{name: np.frombuffer(text.encode(), np.uint8) for name, text in texts.items()},  # headers have a size limit
        "labels": examples.index.astype(np.int64),
        "embeddings": examples.embedded.x,
        "prototypes": examples.prototypes.x,
        "example_precisions": examples.embedded.s,
        "precisions": examples.prototypes.s,
        "blank": None if examples.blank is None else examples.blank.astype(np.uint8),
    }
    large = is_large(len(examples.classes))
    metadata, blocks = dict[str, str](), list[str]()
    if large:
        tensors["trust"] = examples.trust
        if index is not None:
            tensors |= {f"index.{name}": getattr(index, name) for name in ARRAYS}
            metadata[INDEX] = json.dumps({"distance": index.distance, "E": index.E})
        blocks = [name for name in BLOCKS if tensors.get(name) is not None]
    if large or settings.version == MAPPED:
        settings = settings.model_copy(update={"version": MAPPED if large else VERSION})
    arrays = {name: np.ascontiguousarray(array) for name, array in tensors.items() if array is not None}
    write_arrays(path, arrays, metadata | {METADATA: settings.model_dump_json()}, blocks)


def open_gallery(path: Path) -> tuple[Settings, Callable[[Weighing], Known]] | None:
    """Open a large gallery without reading its embeddings, or return None if it is not large."""
    check_exists(path)
    file = map_arrays(path, "gallery")
    if file is None or METADATA not in file.metadata:
        return None
    arrays = file.arrays
    try:
        settings = Settings.model_validate_json(file.metadata[METADATA])
        if settings.version != MAPPED:
            return None
        classes = from_json(arrays["classes"].tobytes())
        names = TypeAdapter(list[str]).validate_json(arrays["names"].tobytes())
        labels, N, C = arrays["labels"], len(names), len(classes)
        embedded = Embedded(arrays["embeddings"], arrays.get("example_precisions"))
        prototypes = Embedded(arrays["prototypes"], arrays.get("precisions"))
        _check_parts(embedded, prototypes, arrays.get("trust"), N, C)
        if labels.dtype.kind not in "iu" or labels.shape != (N,) or len(np.unique(labels)) != C:
            raise ValueError(f"its {C} classes do not match its examples")
        if labels.min() < 0 or labels.max() >= C or len(set(classes)) != C:
            raise ValueError(f"its {C} classes do not match its examples")
        index = _index_of(file, C, prototypes) if INDEX in file.metadata else None
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        problem = first_problem(error) if isinstance(error, ValidationError) else error
        raise InputError(f"{path} is a damaged gallery ({problem}): create it again") from error

    def known(weighing: Weighing) -> Known:
        trust = arrays.get("trust")
        return Known(Examples(embedded, names, classes, labels, prototypes, weighing, trust), index, check)

    def check(name: str, rows: np.ndarray | None) -> None:
        for part in {"": BLOCKS, "index": BLOCKS[-1:], "embeddings": BLOCKS[:2]}.get(name, (name,)):
            file.verify(part, rows)

    return settings, known


def _check_parts(
    embedded: Embedded[np.ndarray], prototypes: Embedded[np.ndarray], trust: np.ndarray | None, N: int, C: int
) -> None:
    """Raise ValueError unless the arrays have the shapes that belong together."""
    for (x, s), length in ((embedded, N), (prototypes, C)):
        D = x.shape[-1]
        fits = s is None or s.shape in {(length, 1), (length, D), (length, D, D)}
        floats = all(part is None or part.dtype.kind == "f" for part in (x, s))
        if x.shape != (length, D) or D == 0 or not fits or not floats:
            raise ValueError(f"its embeddings or prototypes have a wrong shape: {x.shape}")
    if trust is not None and (trust.shape != (N,) or not np.isfinite(trust).all()):
        raise ValueError("its trust has a wrong shape, or values that are not finite")


def _index_of(file: MappedFile, C: int, prototypes: Embedded[np.ndarray]) -> Index:
    about = json.loads(file.metadata[INDEX])
    place = file, file.starts["index.lists"]
    parts = {name: file.arrays[f"index.{name}"] for name in ARRAYS}
    index = Index(distance=str(about["distance"]), E=int(about["E"]), **parts, file=place)
    index.check(C, prototypes.x.shape[1])
    return index


def gallery_lock(path: Path) -> AbstractContextManager[None]:
    """Return the lock to hold while a gallery is read, changed and written again."""
    return locked(lock_beside(path), path, "wait until it has finished")


def check_exists(path: Path) -> None:
    if not os.path.lexists(path):
        raise InputError(f"the gallery {path} does not exist: create it with `gaussproto enroll` or `save`")


def read_gallery(path: Path) -> Gallery:
    check_exists(path)
    file = read_arrays(path, "gallery")
    metadata, tensors = file.metadata.get(METADATA), file.arrays
    if metadata is None:
        remedy = "pass a file written by `gaussproto enroll` or `save`"
        raise InputError(f"{path} is a safetensors file, but not a gallery: {remedy}")
    try:
        version = json.loads(metadata)["version"]
        if version not in READABLE:
            reads = f"this gaussproto reads versions up to {MAPPED}: install a newer gaussproto"
            raise InputError(f"{path} is a gallery of version {version}, but {reads}")
        if not file.checked and file.metadata.get(OLD_CHECKSUM) != digest_of_arrays(metadata, tensors):
            raise InputError(f"{path} is a damaged gallery (its checksum does not match): create it again")
        settings = Settings.model_validate_json(metadata)
        classes = from_json(tensors["classes"].tobytes())
        names = TypeAdapter(list[str]).validate_json(tensors["names"].tobytes())
        embedded = Embedded(tensors["embeddings"], tensors.get("example_precisions"))
        index, C = tensors["labels"].tolist(), len(tensors["prototypes"])
        blank = None if "blank" not in tensors else tensors["blank"].astype(bool)
        if tensors["labels"].dtype.kind not in "iu" or tensors["labels"].ndim != 1:
            raise TypeError(f"its labels have the type {tensors['labels'].dtype}")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        problem = first_problem(error) if isinstance(error, ValidationError) else error
        raise InputError(f"{path} is a damaged gallery ({problem}): create it again") from error
    _check_shapes(path, embedded)
    N = len(embedded)
    for name, part, length in (
        ("labels", index, N),
        ("names", names, N),
        ("classes", classes, C),
        ("example_precisions", embedded.s, N),
        ("blank", blank, N),
    ):
        if part is not None and len(part) != length:
            found = f"{name} has {len(part)} entries instead of {length}"
            raise InputError(f"{path} is a damaged gallery ({found}): create it again")
    if set(index) != set(range(C)) or len(set(classes)) != C:
        raise InputError(f"{path} is a damaged gallery (its {C} classes do not match its examples): create it again")
    return Gallery(settings, embedded, [classes[c] for c in index], names, blank)


def _check_shapes(path: Path, embedded: Embedded[np.ndarray]) -> None:
    """Raise InputError unless x is (N, D) and s is None, (N, 1), (N, D) or (N, D, D), all finite numbers."""
    x, s = embedded
    D = x.shape[-1] if x.ndim == 2 else None
    shapes = {(len(x), 1), (len(x), D), (len(x), D, D)} if D else set()
    parts = [x] if s is None else [x, s]
    fits = bool(shapes) and len(x) > 0 and (s is None or s.shape in shapes)
    if not fits or not all(_finite(part) for part in parts) or not _positive(s):
        found = " and ".join(f"{part.dtype} {part.shape}" for part in parts)
        problem = f"its embeddings or precisions have a wrong shape, or values that are not finite or positive: {found}"
        raise InputError(f"{path} is a damaged gallery ({problem}): create it again")


def _positive(s: np.ndarray | None) -> bool:
    if s is None:
        return True
    if s.ndim == 2:
        return bool((s > 0).all())
    try:
        np.linalg.cholesky(s.astype(np.float64))
    except np.linalg.LinAlgError:
        return False
    return True


def _finite(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" and bool(np.isfinite(array).all())
