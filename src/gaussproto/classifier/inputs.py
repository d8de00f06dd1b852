"""Read what users pass to a classifier: arrays, PIL images, files and folders become uint8 pixels. Without torch."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from PIL import Image
from sklearn.utils.validation import validate_data

from gaussproto.data.ink import WORK
from gaussproto.data.labels import read_labels
from gaussproto.data.look import Look, Traits, traits_of
from gaussproto.data.picture import (
    check_sides,
    class_files,
    image_files,
    in_threads,
    read_image,
    upright_8_bit,
    with_bright_ink,
)
from gaussproto.errors import InputError
from gaussproto.files import is_folder

T = TypeVar("T")

CHANNELS = (1, 3, 4)  # grey, colour, colour with transparency
SAMPLE = 24  # images whose traits stand for all
THUMBNAIL = 224  # pixels


class Images(NamedTuple):
    """Images as a network sees them.

    Attributes:
        names: (N,) the file of each image, or "".
        given: the images as they were passed. None for vectors.
        pixels: (N, channels, size, size), uint8.
        blank: (N,) whether no ink was found. Only prepared drawings can be blank.
        traits: what a sample of the images look like.
    """

    names: list[str]
    given: list[Any] | np.ndarray | None
    pixels: np.ndarray
    blank: np.ndarray
    traits: list[Traits]

    @classmethod
    def none(cls, N: int) -> Self:
        """Return what stands for images if N vectors were passed."""
        return cls([""] * N, None, np.empty((N, 0, 0, 0), dtype=np.uint8), np.zeros(N, dtype=bool), [])


def with_labels(X: Any, y: Any) -> tuple[Any, list[Hashable]]:
    """Return the examples and their labels. In a folder of `CLASS/IMAGE` files, the labels are the folder names."""
    if y is not None:
        return X, read_labels(y)
    if not isinstance(X, str | Path):
        hint = "pass a label for each image, or the path of a folder of CLASS/IMAGE files"
        raise InputError(f"fit requires y to be passed, but the target y is None: {hint}")
    pairs = [(file, name) for name, files in class_files(Path(X)).items() for file in files]
    return [file for file, _ in pairs], [name for _, name in pairs]


def check_as_many(N: int, labels: Sequence[Hashable]) -> None:
    """Raise InputError unless every example has a label."""
    if len(labels) != N:
        remedy = "pass one label for each example"
        raise InputError(f"X and y must have the same length (found {N} and {len(labels)}): {remedy}")


def list_images(X: Any, recursive: bool = False, deeper: str = "") -> tuple[list[Any] | np.ndarray, list[str]]:
    """Return the images of a file, folder, list or array, and the file of each, or "".

    `deeper` tells how to search the folders inside a folder, for the error of one that has nothing else.
    """
    if isinstance(X, str | Path):
        path = Path(X)
        files = image_files(path, recursive) if is_folder(path) else [path]
        if not files:
            inner = sorted(folder.name for folder in path.iterdir() if folder.is_dir())
            folders = f", only folders, for example {inner[0]!r}" if inner else ""
            how = f", or {deeper}" if inner and deeper else ""
            raise InputError(f"{path} contains no images{folders}: choose a folder with image files{how}")
        return list(files), [str(file) for file in files]
    if isinstance(X, Image.Image | bytes):
        return [X], [""]
    X = _from_tensor(X)
    if not isinstance(X, Iterable):
        raise InputError(f"images must be arrays, PIL images or paths (found {type(X).__name__})")
    images = X if isinstance(X, np.ndarray) and X.dtype.kind not in "OUS" else list(X)
    if isinstance(images, np.ndarray) and images.ndim != 4 and (images.ndim != 3 or images.shape[-1] in CHANNELS[1:]):
        raise InputError(
            "an array of images must have the shape (N, H, W), (N, H, W, channels) or (N, channels, H, W) (found "
            f"{images.shape}): put a single image in a list"
        )
    if not len(images):
        raise InputError("X contains no images: pass at least one")
    return images, [str(image) if isinstance(image, str | Path) else "" for image in images]


def read_vectors(clf: Any, X: Any, features: int | None, reset: bool) -> np.ndarray:
    """Return vectors (N, features) as scikit-learn checks them for `clf`. With `reset`, set its `n_features_in_`."""
    if isinstance(X, str | Path) or (isinstance(X, list) and X and isinstance(X[0], str | Path)):
        raise InputError("this encoder takes vectors, not images: choose an image encoder, for example drawings-small")
    vectors: np.ndarray = validate_data(clf, X, reset=reset, dtype=[np.float64, np.float32])
    if features not in (None, vectors.shape[1]):
        remedy = "compute the features as for its training"
        raise InputError(f"the head takes vectors of size {features} (found size {vectors.shape[1]}): {remedy}")
    return vectors


def _from_tensor(image: Any) -> Any:
    return image.detach().cpu().numpy() if hasattr(image, "detach") else image


def read_images(images: list[Any] | np.ndarray, names: list[str], look: Look) -> Images:
    """Convert what `list_images` returned to what a network sees."""
    given = images
    if isinstance(images, np.ndarray):
        images = _bytes(images, "the array")
    sample = set(sample_of(len(images)))
    if (
        isinstance(images, np.ndarray)
        and images.shape[1:] == (look.size,) * 2
        and (look.channels, look.prepare) == (1, "none")
    ):
        traits = [traits_of(Image.fromarray(images[i])) for i in sorted(sample)]
        pixels = with_bright_ink(images[:, None].copy(), look.ink)
        return Images(names, given, pixels, np.zeros(len(images), dtype=bool), traits)

    def read(i: int, large: bool = True) -> tuple[np.ndarray, bool, Traits | None] | None:
        def convert(image: Image.Image) -> tuple[np.ndarray, bool, Traits | None]:
            return *look.see(image), traits_of(image) if i in sample else None

        return _read(i, images[i], convert, look.needs, large)

    files = any(isinstance(image, str | Path) for image in images)
    seen: Iterable[Any] = in_threads(read, range(len(images))) if files else map(read, range(len(images)))
    each = list(seen)
    sampled = [one for *_, one in each if one is not None]
    pixels, blank = np.stack([pixels for pixels, *_ in each]), np.array([blank for _, blank, _ in each])
    return Images(names, given, pixels, blank, sampled)


def sample_of(N: int) -> range:
    """Return the indices of evenly spaced images, at most SAMPLE."""
    return range(0, N, -(-N // SAMPLE))


def read_traits(images: list[Any] | np.ndarray) -> list[Traits]:
    """Return the traits of a sample of what `list_images` returned."""
    return [as_picture(i, images[i], traits_of, WORK) for i in sample_of(len(images))]


def thumbnail(i: int, image: Any) -> np.ndarray:
    """Return an image as it came, reduced: (3, H, W), uint8."""

    def reduce(picture: Image.Image) -> np.ndarray:
        picture = picture.convert("RGB")
        picture.thumbnail((THUMBNAIL, THUMBNAIL))
        return np.asarray(picture).transpose(2, 0, 1)

    return as_picture(i, image, reduce, THUMBNAIL)


def as_picture(i: int, image: Any, convert: Callable[[Image.Image], T], size: int) -> T:
    """Return what `convert` makes of an image of any kind, of which about `size` x `size` pixels are needed."""
    converted = _read(i, image, convert, size, large=True)
    assert converted is not None
    return converted


def _read(i: int, image: Any, convert: Callable[[Image.Image], T], size: int, large: bool) -> T | None:
    name = f"image {i}"
    if isinstance(image, str | Path):
        image, name = Path(image), str(image)
    if isinstance(image, Path | bytes):
        return read_image(image, name, convert, size, large)
    image = _from_tensor(image)
    if isinstance(image, np.ndarray):
        image = Image.fromarray(_channels_last(_bytes(image, name), name))
    if not isinstance(image, Image.Image):
        raise InputError(f"{name} must be an array, a PIL image or a path (found {type(image).__name__})")
    check_sides(image.size, name)
    return convert(upright_8_bit(image, name))


def _channels_last(pixels: np.ndarray, name: str) -> np.ndarray:
    if pixels.ndim == 3 and pixels.shape[-1] not in CHANNELS and pixels.shape[0] in CHANNELS:
        pixels = pixels.transpose(1, 2, 0)
    if pixels.ndim == 3 and pixels.shape[-1] == 1:
        pixels = pixels[..., 0]
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[-1] not in CHANNELS):
        raise InputError(
            f"{name} must have the shape (H, W), (H, W, channels) or (channels, H, W) with 1, 3 or 4 channels (found "
            f"{pixels.shape})"
        )
    return np.ascontiguousarray(pixels)


def _bytes(pixels: np.ndarray, name: str) -> np.ndarray:
    """Convert pixels to uint8. Floats are brightness from 0 to 1."""
    if pixels.dtype == np.uint8 or not pixels.size:
        return pixels.astype(np.uint8, copy=False)
    if pixels.dtype.kind not in "buif":
        raise InputError(
            f"pixels must be integers from 0 to 255 or floats from 0 to 1 (found {pixels.dtype} in {name}): "
            "convert them"
        )
    if pixels.dtype.kind == "f" and not np.isfinite(pixels).all():
        raise InputError(f"pixels must be finite ({name} contains NaN or infinity): replace these values")
    top = 255 if pixels.dtype.kind in "ui" else 1
    if pixels.min() < 0 or pixels.max() > top:
        raise InputError(
            f"pixels of type {pixels.dtype} must be from 0 to {top} (found {pixels.min():g} to {pixels.max():g} in "
            f"{name}): rescale them"
        )
    return (pixels if top == 255 else np.rint(pixels * 255.0)).astype(np.uint8)
