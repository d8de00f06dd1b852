"""Write files so that a crash loses nothing, lock them, and read them with clear errors."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

from gaussproto.errors import InputError

CHECKSUM = "sha256"  # its key in a JSON file
LARGEST_JSON = 16 << 20  # bytes
FIRST = 1 << 16  # bytes that are checked before the rest of a large file is read
ABANDONED = 600  # seconds after which a temporary file belongs to a process that was killed
CANNOT_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM)  # folders of some systems, or without access
LONGEST_FOLDER = 100  # characters of a folder's name
KINDS = {stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}


@contextmanager
def write_then_rename(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to. The file is renamed to `path` only if the block succeeds.

    The file and its folder are synced, so after this block even a power cut does not lose the file. A link is followed:
    the file that it points to is replaced.
    """
    place = real_path(path)
    token = secrets.token_hex(4)  # nobody can guess the name and put a link there
    temporary = place.with_name(f".{place.name}.{token}.part")
    try:
        make_folder(place.parent)
        if place.exists() and not place.is_file():
            raise OSError(errno.EEXIST, f"it is a {_kind(place.stat())}")
        remove_abandoned(place)
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        mode = (place if place.exists() else temporary).stat().st_mode
        yield temporary
        sync_path(temporary)  # the content must reach the disk before the name
        temporary.chmod(mode)  # some libraries create files that only their owner can read
        temporary.replace(place)
        sync_path(place.parent)
    except OSError as error:
        raise InputError(_cannot_write(path, error)) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _cannot_write(path: Path, error: OSError) -> str:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    remedy = "free some space or choose another folder" if full else "choose another name or folder"
    return f"cannot write {path} ({reason(error)}): {remedy}"


def make_folder(path: Path) -> None:
    """Create a folder and those above it, and sync their names."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync_path(folder.parent)


def sync_path(path: Path) -> None:
    """Make sure that a file or a folder, with the names in it, survives a power cut."""
    folder = path.is_dir()
    try:
        file = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
        try:
            os.fsync(file)
        finally:
            os.close(file)
    except OSError as error:
        if not folder or error.errno not in CANNOT_SYNC:
            raise


def remove_abandoned(place: Path) -> None:
    """Remove the temporary files of `place` that processes left when they were killed."""
    for part in place.parent.glob(f".{glob.escape(place.name)}.*.part"):
        with suppress(OSError):
            if time.time() - part.stat().st_mtime > ABANDONED:
                part.unlink()


@contextmanager
def append(path: Path) -> Iterator[IO[str]]:
    """Open a text file to append lines. Call `sync_file` to be sure that they survive a power cut."""
    with path.open("a", buffering=1, encoding="utf-8") as file:
        sync_path(path.parent)  # the name, if the file is new
        yield file


def sync_file(file: IO[str]) -> None:
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def locked(lock: Path, what: Path, hint: str, wait: float = 0) -> Iterator[None]:
    """Hold the lock of `what`, a file `lock`. The system releases the lock when the process ends, even by a crash.

    Raise InputError, which ends with the hint, if another process still holds the lock after `wait` seconds.
    """
    try:
        make_folder(lock.parent)
        held = FileLock(lock, timeout=wait).acquire()
    except Timeout:
        raise InputError(f"another process is using {what}: {hint}") from None
    except OSError as error:
        raise InputError(_cannot_write(what, error)) from error
    with held:
        yield


def lock_beside(path: Path) -> Path:
    """Return the lock file of a file. Links to the file share it."""
    place = real_path(path)
    return place.with_name(f".{place.name}.lock")


def real_path(path: Path) -> Path:
    """Return the absolute path that links lead to. Raise InputError for a path that cannot exist."""
    try:
        return Path(os.path.realpath(path))
    except ValueError as error:  # it contains a null byte
        raise InputError(f"{str(path)!r} is not a path ({error}): check it") from None


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder. A path that is too long or not readable is none."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def read_file(
    path: Path, what: str, most: int | None = None, check: Callable[[bytes, int], None] | None = None
) -> bytes:
    """Return the content of a file of at most `most` bytes, by default the memory of the machine.

    `check` gets the first bytes and the size of the file before the rest is read.
    """
    most = most or memory()
    with open_file(path, what) as file:  # once: another process may replace the file meanwhile
        size = os.fstat(file.fileno()).st_size
        if size > most:
            found = f"found {megabytes(size)}"
            raise InputError(f"the {what} {path} must have at most {megabytes(most)} ({found}): check the path")
        if check:
            check(file.read(FIRST), size)
            file.seek(0)
        return file.read(size)


@contextmanager
def open_file(path: Path, what: str) -> Iterator[IO[bytes]]:
    """Open a file to read. Raise InputError if it is missing or not a file, for example a pipe, which would block."""
    try:
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"the {what} {path} does not exist: check the path") from None
    except (OSError, ValueError) as error:  # ValueError: the path contains a null byte
        problem = f"cannot read the {what} {str(path)!r} ({reason(error)})"
        raise InputError(f"{problem}: check the path and its permissions") from None
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode):
        os.close(number)
        raise InputError(f"the {what} {path} must be a file (found a {_kind(status)}): check the path")
    with os.fdopen(number, "rb") as file:
        yield file


def _kind(status: os.stat_result) -> str:
    return KINDS.get(stat.S_IFMT(status.st_mode), "device")


def reason(error: BaseException) -> str:
    """Return the reason of an error in a few words, without the path that errors of the system repeat."""
    return getattr(error, "strerror", None) or str(error)


def memory() -> int:
    """Return the memory of the machine in bytes."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return 16 << 30


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file with its checksum."""
    text = json.dumps(content | {CHECKSUM: _json_digest(content)}, indent=2)
    with write_then_rename(path) as temporary:
        temporary.write_text(text + "\n")


def read_json(path: Path, what: str = "JSON file") -> Any:
    """Return the content of a JSON file. Raise InputError if it has a checksum that does not match."""
    try:
        content = json.loads(read_file(path, what, LARGEST_JSON))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is not a readable {what} ({error}): check or replace it") from None
    if not isinstance(content, dict) or CHECKSUM not in content:
        return content  # written by hand, or by an earlier version
    expected = content.pop(CHECKSUM)
    if expected != _json_digest(content):
        raise InputError(
            f"{path} has changed since gaussproto wrote it (its checksum does not match): restore it, or remove its "
            f"line {CHECKSUM!r} if you changed it yourself"
        )
    return content


def _json_digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def folder_names(names: Sequence[str]) -> dict[str, str]:
    """Return a folder for each name of a class, and different folders for different names."""
    folders: dict[str, str] = {}
    for name in dict.fromkeys(names):
        folder = first = folder_name(name)
        number = 2
        while folder.lower() in {taken.lower() for taken in folders.values()}:
            folder, number = f"{first}-{number}", number + 1
        folders[name] = folder
    return folders


def folder_name(label: Any) -> str:
    """Return a label as the name of a folder, without characters that some system forbids.

    >>> folder_name("a/b"), folder_name(".."), folder_name("good")
    ('a_b', '_', 'good')
    """
    name = re.sub(r'[<>:"/\\|?*\x00-\x1f]', "_", str(label)).strip(" .")
    return name[:LONGEST_FOLDER] or "_"
