"""Images that are prepared once and then read from the user's cache folder."""

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
    """The folder that `GAUSSPROTO_CACHE` names, or the system's usual place for caches."""
    return Path(os.environ.get("GAUSSPROTO_CACHE") or platformdirs.user_cache_dir("gaussproto"))


def cached_images(name: str, make: Callable[[], LabelledImages]) -> LabelledImages:
    """Read images from the cache folder. If they are missing or unreadable, make them and store them for next time."""
    path = cache_folder() / f"{name}.safetensors"
    try:
        with safe_open(path, framework="pt") as file:  # maps the pixels into memory instead of copying them
            names = {part: tuple(names) for part, names in json.loads(file.metadata()["names"]).items()}
            return LabelledImages(file.get_tensor("images"), file.get_tensor("counts"), **names)
    except (OSError, SafetensorError):
        images = make()
    tensors = {"images": images.images, "counts": images.counts}
    metadata = {"names": json.dumps({"classes": images.classes, "alphabets": images.alphabets})}
    try:
        with write_then_rename(path) as temporary:
            save_file(tensors, temporary, metadata)
    except InputError as error:
        warnings.warn(f"the images could not be cached and will be prepared again next time: {error}", stacklevel=2)
    return images
