"""Files that are whole or absent: written to a temporary name, locked, read with clear errors."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from filelock import FileLock, Timeout
from safetensors import SafetensorError

from gaussproto.errors import InputError

if TYPE_CHECKING:
    import numpy as np


@contextmanager
def write_then_rename(path: Path) -> Iterator[Path]:
    """Yield a temporary name to write to. It becomes `path` only if the block succeeds."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch()
        mode = (path if path.exists() else temporary).stat().st_mode
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())  # the content reaches the disk before the name does
        temporary.chmod(mode)  # safetensors makes its files readable by their owner alone
        temporary.replace(path)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot write {path} ({reason}): free some space or choose another place") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def locked(path: Path, hint: str) -> Iterator[None]:
    """Hold the lock of a folder or file; the lock is freed when the process ends, however it ends."""
    file = path / ".lock" if path.is_dir() else path.with_name(f".{path.name}.lock")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        held = FileLock(file, blocking=False).acquire()
    except Timeout:
        raise InputError(f"another process is using {path}: {hint}") from None
    except OSError as error:
        raise InputError(f"cannot write to {file.parent} ({error.strerror}): choose another place") from error
    with held:
        yield


def remove_leftovers(folder: Path) -> None:
    for part in [*folder.glob(".*.part"), *folder.glob(".tmp??????")]:  # ours, and those of safetensors
        part.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    with write_then_rename(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} is not a readable JSON file ({error})") from None


def read_safetensors(
    path: Path, what: str = "weights file", framework: Literal["pt", "np"] = "np"
) -> tuple[dict[str, str], dict[str, Any], str]:
    """The metadata, the tensors and the SHA-256 of a safetensors file, which is opened once; errors call it `what`."""
    try:
        content = path.read_bytes()
        tensors = import_module("safetensors.torch" if framework == "pt" else "safetensors.numpy").load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        return header.get("__metadata__", {}), tensors, hashlib.sha256(content).hexdigest()
    except FileNotFoundError:
        raise InputError(f"there is no {what} {path}") from None
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is not a readable {what} ({error})") from error


def digest_of_arrays(text: str, arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of a text and of arrays: their names, types, shapes and contents."""
    digest = hashlib.sha256(text.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()
