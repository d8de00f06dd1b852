"""Images that are made once and then read from the user's cache folder."""

from __future__ import annotations

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
    """`GAUSSPROTO_CACHE`, or the place where this system keeps caches."""
    return Path(os.environ.get("GAUSSPROTO_CACHE") or platformdirs.user_cache_dir("gaussproto"))


def cached_images(name: str, make: Callable[[], LabelledImages]) -> LabelledImages:
    """The images of that name from the cache folder; made and stored first if they are not there or not readable."""
    path = cache_folder() / f"{name}.safetensors"
    try:
        with safe_open(path, framework="pt") as file:
            names = json.loads(file.metadata()["names"])
            return LabelledImages(
                file.get_tensor("images"), file.get_tensor("counts"), tuple(names["classes"]), tuple(names["alphabets"])
            )
    except (OSError, SafetensorError):
        made = make()
    names = {"classes": made.classes, "alphabets": made.alphabets}
    try:
        with write_then_rename(path) as temporary:
            save_file({"images": made.images, "counts": made.counts}, temporary, metadata={"names": json.dumps(names)})
    except InputError as error:
        warnings.warn(f"the images will have to be made anew next time: {error}", stacklevel=2)
    return made
