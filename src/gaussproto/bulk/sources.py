"""List the images of files, folders and lists, with a label where one is known."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from gaussproto.data.picture import ENDINGS, HEIC
from gaussproto.errors import InputError, import_extra
from gaussproto.files import is_folder, open_file, reason

LISTS = (".txt", ".csv", ".parquet")
PATH, LABEL = "path", "label"  # the columns of a list


class Chunk(NamedTuple):
    """Images that are read and embedded together."""

    paths: list[str]
    labels: list[str | None]


def list_sources(sources: str | Path | Sequence[str | Path], recursive: bool = True) -> dict[str, str | None]:
    """Return the label, or None, of each image file. Each path appears once, in order, as it was first written.

    A source is an image file, a folder (if `recursive`, with the folders inside it), or a list: a text file with a path
    in each line, or a CSV or Parquet file with the column `path` and perhaps `label`. The label of an image in a folder
    is the folder inside it that holds the image, as in CLASS/IMAGE. A folder inside that cannot be read is listed too,
    in place of its images: to read it as an image fails with the reason.
    """
    images: dict[str, str | None] = {}
    others: set[str] = set()  # plain spellings of paths that are written in another way
    for source in [sources] if isinstance(sources, str | Path) else sources:
        for path, label in _images_of(Path(source), recursive):
            plain = plain_path(path)
            if plain in images or plain in others:
                continue
            if plain != path:
                others.add(plain)
            images[path] = label
    if not images:
        inner = "" if recursive else ", or pass --recursive (in Python, recursive=True) to search the folders inside"
        raise InputError(f"the sources contain no images: pass folders or lists that name some{inner}")
    return images


def plain_path(path: str) -> str:
    """Return a path without `./` and doubled slashes. One with an inner `..` stays, because that may follow a link.

    >>> plain_path("./a//1.png"), plain_path("a/../1.png")
    ('a/1.png', 'a/../1.png')
    """
    return path if "/.." in path else os.path.normpath(path)


def _images_of(source: Path, recursive: bool) -> Iterator[tuple[str, str | None]]:
    if is_folder(source):
        return _in_folder(source, recursive)
    if not os.path.lexists(source):
        raise InputError(f"the image file {source} does not exist: check the path")
    if source.suffix.lower() in LISTS:
        return _in_list(source)
    return iter([(str(source), None)])


def _in_folder(folder: Path, recursive: bool) -> Iterator[tuple[str, str | None]]:
    """Yield the images in a folder and in those inside it, sorted by name. Links are followed, each folder once."""
    seen: set[str] = set()
    failed: list[OSError] = []
    for place, inner, files in os.walk(folder, onerror=failed.append, followlinks=True):
        real = os.path.realpath(place)
        if real in seen:
            inner.clear()  # a link to a folder above would lead here for ever
            continue
        seen.add(real)
        inner[:] = sorted(name for name in inner if recursive and not name.startswith("."))
        label = os.path.relpath(place, folder).replace(os.sep, "/")
        for name in sorted(files):
            if os.path.splitext(name)[1].lower() in ENDINGS | HEIC and not name.startswith("."):  # noqa: PTH122 (faster)
                yield os.path.join(place, name), None if label == "." else label  # noqa: PTH118
    for error in failed:
        if error.filename in (None, str(folder)):
            raise InputError(f"cannot read the folder {folder} ({reason(error)}): check its permissions")
        yield error.filename, None


def _in_list(source: Path) -> Iterator[tuple[str, str | None]]:
    if source.suffix.lower() == ".parquet":
        return _in_parquet(source)
    with open_file(source, "list of images") as file:
        try:
            text = file.read().decode("utf-8-sig")  # spreadsheets put a mark before it
        except UnicodeDecodeError:
            raise InputError(f"the list {source} is not text in UTF-8: save it as UTF-8") from None
    if source.suffix.lower() == ".txt":
        lines = (line.removesuffix("\r") for line in text.split("\n"))
        return ((line, None) for line in lines if line.strip())
    return _in_csv(source, text)


def _in_csv(source: Path, text: str) -> Iterator[tuple[str, str | None]]:
    head = text.partition("\n")[0]
    between = ";" if ";" in head and "," not in head else ","  # as spreadsheets of some countries write it
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=between)
    try:
        if PATH not in (rows.fieldnames or ()):
            raise InputError(_no_column(source, rows.fieldnames or ()))
        yield from ((row[PATH], row.get(LABEL) or None) for row in rows if row[PATH])
    except csv.Error as error:
        raise InputError(f"{source} is not readable as CSV after line {rows.line_num} ({error}): check it") from None


def _in_parquet(source: Path) -> Iterator[tuple[str, str | None]]:
    parquet = import_extra("pyarrow.parquet", "gallery")
    try:
        file = parquet.ParquetFile(source)
    except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
        raise InputError(f"{source} is not a readable Parquet file ({error}): check or replace it") from None
    with file:
        if PATH not in file.schema_arrow.names:
            raise InputError(_no_column(source, file.schema_arrow.names))
        columns = [name for name in (PATH, LABEL) if name in file.schema_arrow.names]
        for batch in file.iter_batches(columns=columns):
            paths = batch.column(PATH).to_pylist()
            labels = batch.column(LABEL).to_pylist() if LABEL in columns else [None] * len(paths)
            rows = zip(paths, labels, strict=True)
            yield from ((str(path), None if label is None else str(label)) for path, label in rows if path)


def _no_column(source: Path, names: Iterable[str]) -> str:
    found = ", ".join(map(repr, names)) or "none"
    return f"the list {source} must have the column {PATH!r} (found {found}): rename the column with the image files"


def chunks_of(images: dict[str, str | None], size: int) -> Iterator[Chunk]:
    pairs = iter(images.items())
    while some := list(islice(pairs, size)):
        yield Chunk([path for path, _ in some], [label for _, label in some])
