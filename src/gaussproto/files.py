"""Write files atomically, lock them, and read them with clear errors."""

from __future__ import annotations

import errno
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
    """Yield a temporary path to write to. The file is renamed to `path` only if the block succeeds."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch()
        mode = (path if path.exists() else temporary).stat().st_mode
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())  # the content must reach the disk before the name
        temporary.chmod(mode)  # safetensors creates files that only their owner can read
        temporary.replace(path)
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, None)
        remedy = "free some space or choose another folder" if full else "choose another name or folder"
        raise InputError(f"cannot write {path} ({reason}): {remedy}") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def locked(path: Path, hint: str) -> Iterator[None]:
    """Hold the lock of a folder or file. The system releases the lock when the process ends, even by a crash."""
    file = path / ".lock" if path.is_dir() else path.with_name(f".{path.name}.lock")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        held = FileLock(file, blocking=False).acquire()
    except Timeout:
        raise InputError(f"another process is using {path}: {hint}") from None
    except OSError as error:
        raise InputError(f"cannot write to {file.parent} ({error.strerror}): choose another folder") from error
    with held:
        yield


def remove_leftovers(folder: Path) -> None:
    for part in [*folder.glob(".*.part"), *folder.glob(".tmp??????")]:  # ours and those of safetensors
        part.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    with write_then_rename(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(f"the file {path} does not exist: check the path") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} is not a readable JSON file ({reason}): check or replace it") from None


def read_safetensors(
    path: Path, what: str = "weights file", framework: Literal["pt", "np"] = "np"
) -> tuple[dict[str, str], dict[str, Any], str]:
    """Return the metadata, the tensors and the SHA-256 of a safetensors file. Errors call the file `what`."""
    try:
        content = path.read_bytes()
        tensors = import_module("safetensors.torch" if framework == "pt" else "safetensors.numpy").load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        return header.get("__metadata__", {}), tensors, hashlib.sha256(content).hexdigest()
    except FileNotFoundError:
        raise InputError(f"the {what} {path} does not exist: check the path") from None
    except (SafetensorError, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} is not a readable {what} ({reason}): check or replace it") from error


def digest_of_arrays(text: str, arrays: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 of a text and of the names, types, shapes and contents of arrays."""
    digest = hashlib.sha256(text.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.hexdigest()
