"""Arrays that are made once and then read from the user's cache folder, memory-mapped."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import platformdirs

from gaussproto.files import write_then_rename


def cache_folder() -> Path:
    """`GAUSSPROTO_CACHE`, or the place where this system keeps caches."""
    return Path(os.environ.get("GAUSSPROTO_CACHE") or platformdirs.user_cache_dir("gaussproto"))


def cached_array(name: str, make: Callable[[], np.ndarray]) -> np.ndarray:
    """The array `name`.npy of the cache folder; made and stored first if it is not there or not readable."""
    path = cache_folder() / f"{name}.npy"
    try:
        # Copy-on-write: torch wants writable memory, and the file stays as it is.
        return np.asarray(np.load(path, mmap_mode="c"))
    except (OSError, ValueError, EOFError):
        array = make()
    with write_then_rename(path) as temporary, temporary.open("wb") as file:
        np.save(file, array)
    return array
