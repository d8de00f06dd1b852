"""Map the large arrays of a safetensors file into memory. Each block is verified before it is used first."""

from __future__ import annotations

import json
import mmap
import os
import weakref
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from gaussproto.arrays import BLOCK, CHECKSUM, DTYPES, METADATA, OF_BLOCKS, PART, check_header, checksum, unreadable
from gaussproto.errors import InputError
from gaussproto.files import open_file

OF_NUMPY = {code: np.dtype(name) for name, code in DTYPES.items() if "float8" not in name and name != "bfloat16"}


class MappedFile:
    """A safetensors file whose large arrays stay on the disk.

    Opening it verifies the header and the small arrays. `verify` verifies rows of a large one, once.

    Attributes:
        path: the file.
        metadata: its texts.
        arrays: views of the arrays, which cannot be written to.
        starts: where each array begins in the file.
    """

    def __init__(
        self, path: Path, what: str, content: mmap.mmap, header: dict[str, Any], start: int, handle: int
    ) -> None:
        self.path, self._what, self._handle = path, what, handle
        weakref.finalize(self, os.close, handle)
        self.metadata: dict[str, str] = header[METADATA]
        self.arrays: dict[str, np.ndarray] = {}
        self.starts: dict[str, int] = {}
        entries = {name: entry for name, entry in header.items() if name != METADATA}
        self._data = memoryview(content)
        for name, entry in entries.items():
            dtype, (begin, end) = OF_NUMPY[entry["dtype"]], entry["data_offsets"]
            self.starts[name] = start + begin
            array = np.frombuffer(content, dtype, (end - begin) // dtype.itemsize, start + begin)
            self.arrays[name] = array.reshape(entry["shape"])
        self._open = {
            name: np.ones(-(-array.nbytes // BLOCK), dtype=bool)
            for name, array in self.arrays.items()
            if name + OF_BLOCKS in self.arrays
        }
        order = sorted(entries, key=lambda name: entries[name]["data_offsets"])
        small = (self._bytes(name) for name in order if name not in self._open)
        if checksum(header, small, (CHECKSUM, PART)) != self.metadata[PART]:
            raise self._damaged()
        if any(len(self.arrays[name + OF_BLOCKS]) != len(blocks) for name, blocks in self._open.items()):
            raise self._damaged()

    @property
    def own_path(self) -> str | None:
        """A path of this very file, even if another one has taken its name since, or None where there is none."""
        paths = (f"{folder}/{self._handle}" for folder in ("/proc/self/fd", "/dev/fd"))
        return next(filter(os.path.exists, paths), None)

    def _bytes(self, name: str) -> memoryview:
        start = self.starts[name]
        return self._data[start : start + self.arrays[name].nbytes]

    def verify(self, name: str, rows: np.ndarray | None = None) -> None:
        """Raise InputError if rows of a large array, or all of them, are damaged."""
        unseen = self._open.get(name)
        if unseen is None or not unseen.any():
            return
        blocks = np.flatnonzero(unseen)
        if rows is not None:
            size = self.arrays[name][:1].nbytes
            first, last = rows * size // BLOCK, ((rows + 1) * size - 1) // BLOCK
            touched = np.zeros(len(unseen) + 1, dtype=int)
            np.add.at(touched, first, 1)
            np.add.at(touched, last + 1, -1)
            blocks = np.flatnonzero(unseen & (np.cumsum(touched[:-1]) > 0))
        data, expected = self._bytes(name), self.arrays[name + OF_BLOCKS]
        for block in blocks.tolist():
            if zlib.crc32(data[block * BLOCK : (block + 1) * BLOCK]) != expected[block]:
                raise self._damaged()
        unseen[blocks] = False

    def verify_all(self) -> None:
        for name in self._open:
            self.verify(name)

    def _damaged(self) -> InputError:
        problem = f"{self.path} is a damaged {self._what} (its checksum does not match)"
        return InputError(f"{problem}: copy or create it again")


def map_arrays(path: Path, what: str) -> MappedFile | None:
    """Map a file, or return None if it has no checksums of blocks."""
    with open_file(path, what) as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        try:
            file.seek(0)
            check_header(file.read(min(size, 8 + min(length, size))), size)
            file.seek(8)
            header = json.loads(file.read(length))
            if PART not in header.get(METADATA, {}):
                return None
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return MappedFile(path, what, content, header, 8 + length, os.dup(file.fileno()))
        except InputError:
            raise
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OSError) as error:
            raise unreadable(path, what, error) from error
