"""A folder of finished parts, from which stopped work continues.

Each part holds the rows of some images and has its final name only when it is complete. So the parts themselves say
which images are done, and nothing else has to agree with them.
"""

from __future__ import annotations

import csv
import glob
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from gaussproto.bulk.read import as_text
from gaussproto.errors import InputError, import_extra
from gaussproto.files import is_folder, locked, make_folder, read_json, write_json, write_then_rename
from gaussproto.provenance import version
from gaussproto.table import no_formula, write_csv

MANIFEST, LOCK = "_manifest.json", ".lock"  # readers of Parquet folders pass over both names
ROWS = 8192  # of a part
SHOWN = 12  # characters of a setting in an error message: enough of a digest
SECONDS = 60.0  # after which a part is written even if it is small: no more work is lost


class Format(Protocol):
    """A kind of part. The network's rows come in batches, whose type only the format knows."""

    ending: str

    def text(self, image: str) -> str:
        """Return the name of an image as a part holds it."""

    def write(self, path: Path, batches: list[Any]) -> None: ...

    def images(self, path: Path) -> Iterable[str]:
        """Return the images of a part. An image may come several times in a row."""

    def join(self, parts: list[Path], path: Path) -> None:
        """Write one file with the rows of all parts."""


class ParquetFormat:
    """Parts as Parquet files. Batches are tables of pyarrow."""

    ending = ".parquet"

    def __init__(self, column: str) -> None:
        self.column = column  # that holds the image
        self.parquet = import_extra("pyarrow.parquet", "gallery")

    def text(self, image: str) -> str:
        return as_text(image)

    def write(self, path: Path, batches: list[Any]) -> None:
        import pyarrow

        self.parquet.write_table(pyarrow.concat_tables(batches), path, write_page_checksum=True)

    def images(self, path: Path) -> Iterable[str]:
        with self.parquet.ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(columns=[self.column]):
                yield from batch.column(0).to_pylist()

    def join(self, parts: list[Path], path: Path) -> None:
        with self.parquet.ParquetWriter(path, self.parquet.read_schema(parts[0])) as writer:
            for part in parts:
                writer.write_table(self.parquet.read_table(part))


class CsvFormat:
    """Parts as CSV files with a header. Batches are lists of rows, and the first column is the image."""

    ending = ".csv"

    def __init__(self, columns: list[str]) -> None:
        self.columns = columns

    def text(self, image: str) -> str:
        return str(no_formula(as_text(image)))

    def write(self, path: Path, batches: list[Any]) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            write_csv(file, [self.columns])
            for rows in batches:
                write_csv(file, rows)

    def images(self, path: Path) -> Iterable[str]:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.reader(file)
            if next(rows, None) != self.columns:
                raise ValueError("it does not begin with the names of the columns")
            for row in rows:
                yield row[0]

    def join(self, parts: list[Path], path: Path) -> None:
        with path.open("wb") as whole:
            for i, part in enumerate(parts):
                with part.open("rb") as file:
                    if i:
                        file.readline()  # the header
                    shutil.copyfileobj(file, whole)


class Parts:
    """The parts in a folder that this process has locked."""

    def __init__(self, folder: Path, format: Format, settings: dict[str, Any], about: dict[str, Any]) -> None:
        self.folder, self.format = folder, format
        _remove(folder.glob(f".part-*{format.ending}.*.part"))  # of a process that was killed: only one has the lock
        _remove(folder.glob(f".{MANIFEST}.*.part"))
        manifest = folder / MANIFEST
        if manifest.exists():
            _check_same(folder, read_json(manifest, "manifest").get("settings", {}), settings)
        else:
            if others := [path.name for path in folder.iterdir() if path.name != LOCK]:
                raise InputError(f"{folder} contains other files, for example {others[0]!r}: choose another folder")
            write_json(manifest, {"gaussproto": version(), **about, "settings": settings})
        self.finished = sorted(folder.glob(f"part-*{format.ending}"))
        self._next = int(self.finished[-1].stem.removeprefix("part-")) + 1 if self.finished else 0
        self._batches: list[Any] = []
        self._images = 0
        self._since = time.monotonic()

    def done(self) -> Iterator[str]:
        """Yield the images in the finished parts."""
        for part in self.finished:
            try:
                yield from self.format.images(part)
            except (OSError, ValueError, IndexError, KeyError, csv.Error) as error:
                raise InputError(f"{part} is damaged ({error}): remove it, and its images are computed again") from None

    def add(self, batch: Any, images: int) -> None:
        self._batches.append(batch)
        self._images += images
        if self._images >= ROWS or time.monotonic() - self._since > SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what was added as a part."""
        batches, self._batches, self._images, self._since = self._batches, [], 0, time.monotonic()
        if batches:
            path = self.folder / f"part-{self._next:06}{self.format.ending}"
            with write_then_rename(path) as temporary:
                self.format.write(temporary, batches)
            self.finished.append(path)
            self._next += 1

    def join(self, path: Path) -> None:
        """Write one file with the rows of all parts, and remove the folder."""
        _remove(path.parent.glob(f".{glob.escape(path.name)}.*.part"))
        with write_then_rename(path) as temporary:
            self.format.join(self.finished, temporary)
        _remove(self.finished)  # before the manifest: what remains after a kill can be continued
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def open_parts(
    folder: Path, format: Format, settings: dict[str, Any], about: dict[str, Any] | None = None
) -> Iterator[Parts]:
    """Yield the parts in a folder, which is created if it does not exist. Other processes must wait.

    All parts have the same settings. What else they are about is only written down.
    """
    if folder.exists() and not is_folder(folder):
        raise InputError(f"{folder} is a file, not a folder: choose another name")
    try:
        make_folder(folder)
    except OSError as error:
        raise InputError(f"cannot create the folder {folder} ({error.strerror}): choose another name") from None
    with locked(folder / LOCK, folder, "wait until it has finished"):
        yield Parts(folder, format, settings, about or {})


def manifest_of(folder: Path) -> dict[str, Any]:
    """Return what the parts in a folder were begun with, or nothing."""
    manifest = folder / MANIFEST
    content: dict[str, Any] = read_json(manifest, "manifest") if manifest.exists() else {}
    return content


def _remove(files: Iterable[Path]) -> None:
    for file in files:
        with suppress(OSError):
            file.unlink()


def _check_same(folder: Path, begun: dict[str, Any], now: dict[str, Any]) -> None:
    for name in now:
        if begun.get(name) != now[name]:
            before, found = (str(value)[:SHOWN] for value in (begun.get(name), now[name]))
            what = name.replace("_", " ")
            raise InputError(
                f"{folder} was begun with {what} {before} (found {found}): use the same, or another place with --out"
            )
