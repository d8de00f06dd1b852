"""Files that are whole or not there, and can be told from others."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError

from gaussproto.errors import InputError

if TYPE_CHECKING:
    import numpy as np


@contextmanager
def write_then_rename(path: Path) -> Iterator[Path]:
    """A temporary name to write to; it becomes `path` only if all went well, so nothing is ever half-written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch()
        mode = (path if path.exists() else temporary).stat().st_mode
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())  # the content is on the disk before the name is
        temporary.chmod(mode)  # those of safetensors can only be read by their owner
        temporary.replace(path)
    except (OSError, SafetensorError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot write {path} ({why}): free or choose another place") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def claimed(folder: Path, hint: str) -> Iterator[None]:
    """Within, no other process can claim the folder; it ends with the process, however that ends."""
    if sys.platform == "win32":  # it has no such locks
        yield
        return
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"cannot write to {folder} ({error.strerror}): choose another place") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"another process is at work in {folder}: {hint}") from None
        yield
    finally:
        os.close(handle)


def remove_leftovers(folder: Path) -> None:
    """Remove what writers that were killed have left in a folder."""
    for pattern in (".*.part", ".tmp??????"):  # ours, and those of safetensors
        for part in folder.glob(pattern):
            part.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file, indented."""
    with write_then_rename(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    try:
        return json.loads(path.read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} is not a readable JSON file ({error})") from None


def digest_of_arrays(said: str, arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of a text and of arrays by their names, types, shapes and content."""
    digest = hashlib.sha256(said.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()
