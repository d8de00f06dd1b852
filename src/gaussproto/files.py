"""Files that are whole or not there, and can be told from others."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaussproto.errors import InputError

if TYPE_CHECKING:
    import numpy as np

UMASK = os.umask(0)  # it can only be asked for by setting it
os.umask(UMASK)


@contextmanager
def write_then_rename(path: Path) -> Iterator[Path]:
    """A temporary name to write to; it becomes `path` only if all went well, so nothing is ever half-written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())  # the content is on the disk before the name is
        # safetensors writes files that only their owner can read; these are to be like any others.
        temporary.chmod(path.stat().st_mode if path.exists() else 0o666 & ~UMASK)
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"cannot write {path} ({error.strerror or error}): free or choose another place") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Remove what writers that were killed have left in a folder."""
    for part in folder.glob(".*.part"):
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
