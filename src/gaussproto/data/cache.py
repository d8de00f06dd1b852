"""Store prepared images in the user's cache folder."""

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import platformdirs
from pydantic import TypeAdapter, ValidationError

from gaussproto.arrays import NO_CHECKSUM, read_arrays, write_arrays
from gaussproto.data.images import LabelledImages
from gaussproto.errors import InputError

NAMES = TypeAdapter(dict[str, tuple[str, ...]])


def cache_folder() -> Path:
    """Return the folder in `GAUSSPROTO_CACHE`, or the system's default cache folder."""
    return Path(os.environ.get("GAUSSPROTO_CACHE") or platformdirs.user_cache_dir("gaussproto"))


def cached_images(
    name: str, size: int, make: Callable[[], LabelledImages], renew: bool = False, channels: int = 1
) -> LabelledImages:
    """Return images of size x size pixels from the cache, grey ones by default.

    If they are missing, damaged or to be renewed, call `make` and store the result.
    """
    path = cache_folder() / f"{name}.safetensors"
    old = None
    if os.path.lexists(path) and not renew:
        try:
            old, checked = _read(path, (channels, size, size))
            if checked:
                return old
        except InputError as error:
            warnings.warn(f"the cached images are prepared again ({error})", stacklevel=2)
    try:
        images = make()
    except InputError:
        if old is None:
            raise
        warnings.warn(NO_CHECKSUM.format(path), stacklevel=2)  # better than nothing, for example without a network
        return old
    names = {"classes": images.classes, "alphabets": images.alphabets}
    try:
        arrays = {"images": images.images, "counts": images.counts, "variants": images.variants}
        stored = {name: array for name, array in arrays.items() if array is not None}
        write_arrays(path, stored, {"names": json.dumps(names)})
    except InputError as error:
        warnings.warn(f"the images are not cached and will be prepared again next time: {error}", stacklevel=2)
    return images


def _read(path: Path, shape: tuple[int, int, int]) -> tuple[LabelledImages, bool]:
    """Return the images in a file, and whether the file has a checksum."""
    file = read_arrays(path, "cache file", "pt")
    try:
        names = NAMES.validate_json(file.metadata["names"])
        pixels, counts = file.arrays["images"], file.arrays["counts"]
        variants = file.arrays.get("variants")
        images = LabelledImages(pixels, counts, names["classes"], names["alphabets"], variants=variants)
    except (KeyError, ValidationError) as error:
        raise InputError(f"{path} is not a cache of images ({type(error).__name__})") from None
    if not len(images) or images.images.shape[1:] != shape:
        raise InputError(f"{path} must have images of the shape {shape} (found {tuple(images.images.shape)})")
    return images, file.checked
