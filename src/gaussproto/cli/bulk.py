"""Many images at once: find them, skip those that cannot be read, and sort copies of them into folders."""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from gaussproto.cli import console
from gaussproto.errors import InputError
from gaussproto.files import folder_names, write_then_rename

SHOWN = 3  # unreadable files that a message names


def find_files(paths: Sequence[Path], recursive: bool) -> list[Path]:
    """Return the images of files and folders, each once, in order. Only for commands with the option --recursive."""
    from gaussproto.classifier.inputs import list_images

    for path in paths:
        if not os.path.lexists(path):
            raise InputError(f"the image file {path} does not exist: check the path")
    deeper = "" if recursive else "pass --recursive"
    return list(dict.fromkeys(file for path in paths for file in list_images(path, recursive, deeper)[0]))


def problems_of(files: Sequence[Path]) -> dict[Path, str]:
    """Return why files cannot be read as images, by file."""
    from gaussproto.bulk.read import problem_of
    from gaussproto.data.picture import open_image

    problems = {}
    for file in files:
        try:
            open_image(file, str(file))
        except InputError as error:
            problems[file] = problem_of(error, str(file))
    return problems


def without_unreadable(examples: Sequence[tuple[Path, str]]) -> list[tuple[Path, str]]:
    """Return the examples that can be read, and warn of the others. A class must keep one."""
    problems = problems_of([file for file, _ in examples])
    good = [(file, name) for file, name in examples if file not in problems]
    for file, name in examples:
        if file in problems and name not in {kept for _, kept in good}:
            raise InputError(f"no example of the class {name!r} can be read: {file} {problems[file]}")
    if problems:
        reasons = [f"{file} {problem}" for file, problem in problems.items()]
        more = f"; and {len(reasons) - SHOWN} more" if len(reasons) > SHOWN else ""
        count = "1 example" if len(reasons) == 1 else f"{len(reasons)} examples"
        console.say(f"warning: left out {count} ({'; '.join(reasons[:SHOWN])}{more})")
    return good


def copy_sorted(pairs: Sequence[tuple[Path, str]], folder: Path) -> Iterator[Path]:
    """Copy each file into a folder named after its class. Yield the copies.

    A file that is there already is not copied again, and no file is replaced: a copy with the same name gets a number.
    """
    folders = folder_names([name for _, name in pairs])
    for file, name in pairs:
        if not os.access(file, os.R_OK) or not file.is_file():
            continue  # a folder or a broken link, which the answers list as unreadable
        target = folder / folders[name] / file.name
        for number in range(2, 1_000_000):
            if not os.path.lexists(target) or (target.exists() and filecmp.cmp(file, target, shallow=False)):
                break
            target = target.with_name(f"{file.stem}-{number}{file.suffix}")
        if not os.path.lexists(target):
            with write_then_rename(target) as temporary:
                shutil.copyfile(file, temporary)
        yield target
