"""The path of every image: list -> read and prepare -> network -> part. One engine is this machine, the other Ray."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, get_args

from gaussproto.bulk.local import read_here, read_in_processes
from gaussproto.bulk.parts import Parts
from gaussproto.bulk.read import Prepared, chunk_size
from gaussproto.bulk.sources import Chunk, chunks_of, plain_path
from gaussproto.data.look import Look
from gaussproto.errors import InputError
from gaussproto.progress import Progress
from gaussproto.training.signals import stop_signals

On = Literal["local", "ray"]
LISTED = 1000  # unreadable images that a result names


class Work(Protocol):
    """What the network does with a chunk. It can be pickled, because Ray sends it to other machines."""

    look: Look
    device: str

    def __call__(self, prepared: Prepared) -> Any:
        """Return the rows of a chunk in the format of the parts."""


class Done(NamedTuple):
    """A chunk whose rows are computed."""

    batch: Any
    images: int
    blank: int
    problems: dict[str, str]

    @classmethod
    def of(cls, prepared: Prepared, work: Work) -> Done:
        found = zip(prepared.paths, prepared.problems, strict=True)
        problems = {path: problem for path, problem in found if problem is not None}
        return cls(work(prepared), len(prepared.paths), int(prepared.blank.sum()), problems)


@dataclass(frozen=True)
class BulkResult:
    """What `embed_files` or `classify_files` did.

    Attributes:
        path: the folder or the file that was written.
        images: how many images of the sources it has rows for. Unreadable ones count too.
        new: how many of these were computed now. The others were done before.
        blank: how many of the new images show no ink.
        unreadable: how many of the new images cannot be read.
        problems: why images cannot be read, by path, for the first thousand of them.
        seconds: the time that the new images took.
        stopped_by: the signal that stopped the work before its end, or None. Start it again to continue.

    Examples:
        >>> import gaussproto as gp
        >>> from PIL import Image
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     Image.linear_gradient("L").save(f"{folder}/1.png")
        ...     result = gp.embed_files(folder, f"{folder}/out", "drawings-small", prepare="none")
        ...     again = gp.embed_files(folder, f"{folder}/out", "drawings-small", prepare="none")
        >>> (result.images, result.new, result.unreadable), again.new
        ((1, 1, 0), 0)
    """

    path: Path
    images: int
    new: int
    blank: int
    unreadable: int
    problems: dict[str, str]
    seconds: float
    stopped_by: signal.Signals | None = None


def check_options(on: str, processes: int | None) -> None:
    if on not in get_args(On):
        raise InputError(f"on must be one of {', '.join(get_args(On))} (found {on!r})")
    if processes is not None and (processes < 1 or on == "ray"):
        found = f"found {processes}" + (" with ray, which decides itself" if on == "ray" else "")
        raise InputError(f"processes must be a number of at least 1 for this machine ({found}): leave it out")


def run(
    what: str, images: dict[str, str | None], work: Work, parts: Parts, path: Path, *, on: On, processes: int | None,
    strict: bool, progress: Progress,
) -> BulkResult:  # fmt: skip
    """Compute the images that no finished part holds, and write them as parts."""
    total = len(images)
    if parts.finished:
        written = {plain_path(parts.format.text(name)): name for name in images}
        for name in parts.done():
            images.pop(written.get(plain_path(name), ""), None)
    before = total - len(images)
    new = blank = unreadable = 0
    problems: dict[str, str] = {}
    start = time.monotonic()
    progress(what, before, total)
    with stop_signals() as asked:
        try:
            for done in _compute(images, work, on, processes) if images else ():
                if strict and done.problems:
                    name, problem = next(iter(done.problems.items()))
                    raise InputError(f"{name} {problem}")
                parts.add(done.batch, done.images)
                new, blank = new + done.images, blank + done.blank
                unreadable += len(done.problems)
                if len(problems) < LISTED:
                    problems |= done.problems
                progress(what, before + new, total)
                if asked:
                    break
        finally:
            parts.flush()  # what was computed is kept, whatever happened
    stopped = asked[0] if asked and before + new < total else None
    return BulkResult(path, before + new, new, blank, unreadable, problems, time.monotonic() - start, stopped)


def _compute(images: dict[str, str | None], work: Work, on: On, processes: int | None) -> Iterator[Done]:
    size = chunk_size(work.look)
    chunks = chunks_of(images, size)
    if on == "ray":
        from gaussproto.bulk.on_ray import compute_on_ray

        return compute_on_ray(chunks, work)
    return _compute_here(chunks, work, min(processes or _cores(), -(-len(images) // size)))


def _compute_here(chunks: Iterator[Chunk], work: Work, processes: int) -> Iterator[Done]:
    prepared = read_here(chunks, work.look) if processes == 1 else read_in_processes(chunks, work.look, processes)
    return (Done.of(each, work) for each in prepared)


def _cores() -> int:
    from joblib import cpu_count

    cores: int = cpu_count()  # that this process may use
    return cores
