"""Move files between the class folders of a folder, so that every move can be undone and no file is ever lost."""

from __future__ import annotations

import csv
import errno
import io
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from gaussproto.errors import InputError, shortened
from gaussproto.files import make_folder, read_file, real_path, reason, sync_path, write_then_rename

COLUMNS = ("file", "to")
ASIDE = ".removed"  # the folder, hidden from commands that list classes, where files are set aside
LARGEST = 64 << 20  # bytes of a list of moves
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV)


class Move(NamedTuple):
    """A file and where it goes, both relative to the folder of the classes, with slashes."""

    file: str
    to: str


def write_moves(path: Path, moves: Sequence[Move], why: Sequence[str] | None = None) -> None:
    """Write a list of moves as CSV. A third column, `why`, is for readers only."""
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS if why is None else (*COLUMNS, "why"))
    for i, move in enumerate(moves):
        # With a dot in front, no spreadsheet takes a name like =A1 for a formula.
        lines.writerow([*(f"./{part}" for part in move), *([] if why is None else [why[i]])])
    with write_then_rename(path) as temporary:
        temporary.write_bytes(text.getvalue().encode("utf-8", errors="surrogateescape"))


def read_moves(path: Path) -> list[Move]:
    """Read a list of moves. Lines with an empty `to` are skipped. Many spreadsheets write semicolons for commas."""
    text = read_file(path, "list of moves", LARGEST).decode("utf-8-sig", errors="surrogateescape")
    first = text.lstrip().partition("\n")[0]
    comma = ";" if first.startswith(f"{COLUMNS[0]};") else ","
    try:
        head, *lines = [
            line for line in csv.reader(io.StringIO(text, newline=""), delimiter=comma, strict=True) if line
        ] or [[]]
    except csv.Error as error:
        raise InputError(f"{path} is not a readable list of moves ({error}): check or replace it") from None
    if tuple(head[:2]) != COLUMNS:
        raise InputError(f"{path} must begin with the columns file,to (found {shortened(','.join(head))}): check it")
    for number, line in enumerate(lines, start=2):
        if len(line) < 2:
            raise InputError(f"line {number} of {path} must have a file and where it goes (found {shortened(line[0])})")
    return [Move(_tidy(line[0], path), _tidy(line[1], path)) for line in lines if line[1].strip()]


def _tidy(text: str, path: Path) -> str:
    """Return a path relative to the folder. Raise InputError if it leads out of it."""
    pure = PurePosixPath(text)
    if pure.is_absolute() or Path(text).is_absolute() or Path(text).drive or ".." in pure.parts or "\0" in text:
        remedy = "write it relative to the folder, as CLASS/IMAGE"
        raise InputError(f"{path} names {shortened(text)}, which leads out of the folder: {remedy}")
    if len(pure.parts) < 2:
        raise InputError(f"{path} names {shortened(text)}, which has no class: write it as CLASS/IMAGE")
    return pure.as_posix()


def plan_moves(root: Path, moves: Sequence[Move]) -> list[Move]:
    """Return the moves that remain to be done. Raise InputError if one of them is impossible.

    A move whose file is gone and whose goal exists was done before, so it is skipped. No path may occur twice: so each
    move is independent of the others, and a list can be continued wherever it was stopped.
    """
    todo, known = [], set[str]()
    for move in moves:
        for name in move:
            _check_inside(root, name)
            if name in known:
                raise InputError(f"cannot move {root / name} twice, or move two files there: name each path only once")
            known.add(name)
        file, to = root / move.file, root / move.to
        if not os.path.lexists(file):
            if os.path.lexists(to):
                continue
            raise InputError(f"cannot move {file}: it does not exist, and neither does {move.to}; check the list")
        if os.path.lexists(to):
            raise InputError(f"cannot move {file} to {move.to}: a file of that name exists; choose another name")
        if file.is_symlink() or not file.is_file():
            raise InputError(f"cannot move {file}: it is not a file, but a folder or a link; leave it out")
        todo.append(move)
    return todo


def _check_inside(root: Path, name: str) -> None:
    """Raise InputError if a folder on the way to a file is a link or a file."""
    place = root
    for part in PurePosixPath(name).parts[:-1]:
        place = place / part
        if place.is_symlink() or (os.path.lexists(place) and not place.is_dir()):
            raise InputError(f"cannot move {root / name}: {place} is not a folder, but a file or a link")


def undo_file(path: Path) -> Path:
    """Return a name beside a list of moves, at which there is no file yet, for the list that undoes them."""
    stem = path.stem.removesuffix(".undo")
    number = 1
    while os.path.lexists(undo := path.with_name(f"{stem}.undo{'' if number == 1 else f'-{number}'}.csv")):
        number += 1
    return undo


def apply_moves(
    root: Path, moves: Sequence[Move], undo: Path, progress: Callable[[int], None] = lambda n: None
) -> None:
    """Move files, after the list that undoes it is safe in the file `undo`. Folders that become empty are removed."""
    todo = plan_moves(root, moves)
    if os.path.lexists(undo):
        raise InputError(f"{undo} exists already: move it away")
    write_moves(undo, [Move(move.to, move.file) for move in reversed(todo)])
    base = real_path(root)
    for n, move in enumerate(todo, start=1):
        try:
            _move(base / move.file, base / move.to)
        except OSError as error:
            done = f"the {n - 1} moves before it are done; `{undo}` lists how to undo them"
            raise InputError(f"cannot move {root / move.file} to {move.to} ({reason(error)}): {done}") from error
        _remove_empty(base, (base / move.file).parent)
        progress(n)


def _move(file: Path, to: Path) -> None:
    make_folder(to.parent)
    try:
        os.link(file, to, follow_symlinks=False)  # unlike a rename, it never replaces a file
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        if os.path.lexists(to):
            raise FileExistsError(errno.EEXIST, "a file of that name exists") from None
        file.rename(to)
    else:
        sync_path(to.parent)
        file.unlink()
    sync_path(to.parent)


def _remove_empty(base: Path, folder: Path) -> None:
    while folder != base:
        with suppress(OSError):
            folder.rmdir()
        if folder.exists():
            return
        folder = folder.parent


def free_name(root: Path, folder: str, name: str, taken: set[str]) -> str:
    """Return FOLDER/NAME, with a number if a file has this name or it is in `taken`, to which it is added."""
    stem, ending = PurePosixPath(name).stem, PurePosixPath(name).suffix
    number = 1
    while True:
        to = f"{folder}/{stem}{'' if number == 1 else f'-{number}'}{ending}"
        if to not in taken and not os.path.lexists(root / to):
            taken.add(to)
            return to
        number += 1
