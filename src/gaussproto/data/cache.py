"""Store prepared images in the user's cache folder."""

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import platformdirs
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from gaussproto.data.images import LabelledImages
from gaussproto.errors import InputError
from gaussproto.files import write_then_rename


def cache_folder() -> Path:
    """Return the folder in `GAUSSPROTO_CACHE`, or the system's default cache folder."""
    return Path(os.environ.get("GAUSSPROTO_CACHE") or platformdirs.user_cache_dir("gaussproto"))


def cached_images(name: str, make: Callable[[], LabelledImages]) -> LabelledImages:
    """Return images from the cache. If they are missing or unreadable, call `make` and store the result."""
    path = cache_folder() / f"{name}.safetensors"
    try:
        with safe_open(path, framework="pt") as file:  # memory-maps the pixels instead of copying them
            names = json.loads(file.metadata()["names"])
            classes, alphabets = tuple(names["classes"]), tuple(names["alphabets"])
            return LabelledImages(file.get_tensor("images"), file.get_tensor("counts"), classes, alphabets)
    except (OSError, SafetensorError):
        images = make()
    tensors = {"images": images.images, "counts": images.counts}
    metadata = {"names": json.dumps({"classes": images.classes, "alphabets": images.alphabets})}
    try:
        with write_then_rename(path) as temporary:
            save_file(tensors, temporary, metadata)
    except InputError as error:
        warnings.warn(f"the images are not cached and will be prepared again next time: {error}", stacklevel=2)
    return images
