"""Read a chunk of images as the network sees them. Runs in worker processes, so it imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from gaussproto.bulk.sources import Chunk
from gaussproto.data.look import Look
from gaussproto.data.picture import read_image
from gaussproto.errors import InputError, is_unicode

MOST = 256  # images of a chunk: as many as the networks embed at once
BYTES = 5_000_000  # of the pixels of a chunk: large images come in smaller chunks


class Prepared(NamedTuple):
    """A chunk of N images, of which M can be read."""

    paths: list[str]  # (N,) as text that can be written as UTF-8
    labels: list[str | None]  # (N,)
    problems: list[str | None]  # (N,) why an image cannot be read
    pixels: np.ndarray  # (M, channels, size, size), uint8
    blank: np.ndarray  # (M,)

    @property
    def good(self) -> np.ndarray:
        """The indices (M,) of the images that can be read."""
        return np.flatnonzero([problem is None for problem in self.problems])


def chunk_size(look: Look) -> int:
    return max(1, min(MOST, BYTES // (look.channels * look.size**2)))


def read_chunk(chunk: Chunk, look: Look) -> Prepared:
    problems: list[str | None] = []
    N = len(chunk.paths)
    pixels = np.empty((N, look.channels, look.size, look.size), dtype=np.uint8)
    blank = np.zeros(N, dtype=bool)
    M = 0
    for path in chunk.paths:
        try:
            if not is_unicode(path):
                raise InputError("its name is not valid UTF-8: rename it")
            seen = read_image(Path(path), path, look.see, look.needs)
            assert seen is not None
            pixels[M], blank[M] = seen
            M += 1
            problems.append(None)
        except InputError as error:
            problems.append(problem_of(error, path))
    labels = [label and as_text(label) for label in chunk.labels]
    return Prepared([as_text(path) for path in chunk.paths], labels, problems, pixels[:M], blank[:M])


def problem_of(error: InputError, path: str) -> str:
    """Return why an image cannot be read, as a sentence that goes on after its path.

    >>> problem_of(InputError("the image file 1.png does not exist: check the path"), "1.png")
    'does not exist: check the path'
    """
    sentence = str(error)
    cannot = f"cannot read the image file {path!r} "
    if sentence.startswith(cannot):
        return f"cannot be read {sentence.removeprefix(cannot)}"
    return sentence.removeprefix("the image file ").removeprefix(f"{as_text(path)} ")


def as_text(path: str) -> str:
    """Return a path in which bytes that are not UTF-8 are escaped."""
    return path.encode(errors="backslashreplace").decode()
