"""The galleries of the store, opened once and renewed when their version in the store changes."""

from __future__ import annotations

import asyncio
import tempfile
import time
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from os import cpu_count
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from sqlalchemy import Row

from gaussproto.classifier.confidence import Weights
from gaussproto.classifier.encoders.card import Encoder
from gaussproto.errors import InputError
from gaussproto.files import folder_names
from gaussproto.formulas.embedded import Embedded
from gaussproto.serving.bodies import Upload, check_name
from gaussproto.serving.gallery_files import (
    check_source,
    checked_examples,
    free_path,
    parameters_of,
    read_file,
    write_file,
)
from gaussproto.serving.models import LONGEST_NAME, Answers
from gaussproto.serving.opened import OpenedGallery
from gaussproto.serving.pictures import Prepared, prepare, whole_png
from gaussproto.serving.rows import MOST_EXAMPLES, ConflictError, NewExample, NotFoundError, check_room
from gaussproto.serving.store import Store
from gaussproto.serving.worker import BATCH, Worker

T = TypeVar("T")

FRESH = 0.25  # seconds for which a gallery counts as unchanged, so that other servers' changes show within a second
KEPT, KEPT_EXAMPLES = 64, 50_000  # galleries in memory, and their examples together
STORE_THREADS = 8


class Galleries:
    """Opens galleries, embeds images for them and answers requests.

    Args:
        store: where the galleries are.
        worker: the model thread.
    """

    def __init__(self, store: Store, worker: Worker) -> None:
        self.store, self.worker = store, worker
        self._opened: OrderedDict[str, tuple[float, OpenedGallery]] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}
        self._changes = 0  # by this server
        self._renewed: set[str] = set()  # examples that this server tried to embed again
        self._store_threads = ThreadPoolExecutor(STORE_THREADS, "store")
        self._decoders = ThreadPoolExecutor(max(2, cpu_count() or 2), "decode")

    def close(self) -> None:
        self._store_threads.shutdown()
        self._decoders.shutdown()

    async def in_store(self, call: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Call a method of the store in one of its threads."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._store_threads, lambda: call(*arguments, **named))

    async def decoding(self, call: Callable[..., T], *arguments: Any) -> T:
        """Call a function that decodes or encodes images in one of the threads for that."""
        return await asyncio.get_running_loop().run_in_executor(self._decoders, call, *arguments)

    async def changed(self, gallery: str, call: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Call a method of the store that changes a gallery. Later requests see the change."""
        try:
            return await self.in_store(call, gallery, *arguments, **named)
        finally:
            self._changes += 1
            if gallery in self._opened:
                self._opened[gallery] = (0.0, self._opened[gallery][1])

    async def open(self, gallery: str) -> OpenedGallery:
        """Return the current version of a gallery."""
        checked, opened = self._opened.get(gallery, (0.0, None))
        if opened is not None and time.monotonic() - checked < FRESH:
            return opened
        async with self._locks.setdefault(gallery, asyncio.Lock()):
            checked, opened = self._opened.get(gallery, (0.0, None))
            if opened is not None and time.monotonic() - checked < FRESH:
                return opened
            now, changes = time.monotonic(), self._changes
            try:
                if opened is None or await self.in_store(self.store.version, gallery) != opened.version:
                    opened = await self._read(gallery)
            except NotFoundError:
                self._opened.pop(gallery, None)
                self._locks.pop(gallery, None)
                raise
            # A change during the read may be missing in it: then the next request reads again.
            self._opened[gallery] = (now if changes == self._changes else 0.0, opened)
            self._opened.move_to_end(gallery)
            self._forget()
            return opened

    def _forget(self) -> None:
        """Drop the galleries that were read longest ago if there are too many, but keep the last."""
        count = sum(len(each.stored.examples) for _, each in self._opened.values())
        while len(self._opened) > KEPT or (count > KEPT_EXAMPLES and len(self._opened) > 1):
            gallery, (_, dropped) = self._opened.popitem(last=False)
            self._locks.pop(gallery, None)
            count -= len(dropped.stored.examples)

    async def _read(self, gallery: str) -> OpenedGallery:
        stored = await self.in_store(self.store.read, gallery)
        encoder = await self._encoder(stored.gallery.encoder, stored.parameters)
        old = [row for row in stored.examples if row.digest != encoder.digest and row.has_image]
        # Once each: a server with other weights on the same store would embed them again too, and so on forever.
        old = [row for row in old if row.id not in self._renewed]
        if old:  # the bundled weights have changed
            if await self._renew(gallery, old, encoder):
                stored = await self.in_store(self.store.read, gallery)
            self._renewed.update(row.id for row in old)
        return OpenedGallery(stored, encoder)

    async def _renew(self, gallery: str, old: list[Row[Any]], encoder: Encoder) -> bool:
        """Embed examples again. Return whether there were any: some may be deleted meanwhile, or unreadable now."""
        changes: dict[str, dict[str, Any]] = {}
        with self.worker.place():
            for start in range(0, len(old), BATCH):
                seen: dict[str, Prepared] = {}
                for row in old[start : start + BATCH]:
                    with suppress(InputError):
                        file = await self.in_store(self.store.image, gallery, row.id)
                        if file.image is not None:
                            seen[row.id] = await self.decoding(
                                prepare, [(row.name, file.image, row.damage)], encoder.look
                            )
                if seen:
                    pixels = np.concatenate([each.pixels for each in seen.values()])
                    x, s = await asyncio.wrap_future(self.worker.embed(encoder, pixels, lambda each: each))
                    for i, (example, each) in enumerate(seen.items()):
                        new = {"x": x[i], "s": None if s is None else s[i], "blank": bool(each.blank[0])}
                        changes[example] = new | {"digest": encoder.digest}
        if changes:
            await self.in_store(self.store.renew, gallery, changes)
        return bool(changes)

    async def _encoder(self, name: str, parameters: dict[str, Any]) -> Encoder:
        encoder = await self.worker.encoder(name)
        used = {key: parameters[key] for key in ("ink", "prepare", "image_size") if key in parameters}
        return replace(encoder, **used) if used else encoder

    async def _embed_one(self, upload: Upload, encoder: Encoder) -> tuple[np.ndarray, np.ndarray | None, bool]:
        embedded, blank = await self._embed([upload], encoder)
        (x, s) = embedded[0]
        return x, s, bool(blank[0])

    async def _embed(self, uploads: list[Upload], encoder: Encoder) -> tuple[Embedded[np.ndarray], np.ndarray]:
        seen = await self.decoding(prepare, [(each.name, each.content, each.damage) for each in uploads], encoder.look)
        embedded = await asyncio.wrap_future(self.worker.embed(encoder, seen.pixels, lambda each: each))
        return embedded, seen.blank

    async def embed(
        self, encoder_name: str, read: Callable[[], list[Upload]]
    ) -> tuple[Embedded[np.ndarray], np.ndarray]:
        """Embed the images that `read` returns."""
        with self.worker.place():
            encoder = await self.worker.encoder(encoder_name)
            return await self._embed(await self.decoding(read), encoder)

    async def add(self, gallery: str, read: Callable[[], list[Upload]]) -> list[str]:
        """Embed and store the examples that `read` returns. Return their ids."""
        opened = await self.open(gallery)
        with self.worker.place():
            uploads = await self.decoding(read)
            embedded, blank = await self._embed(uploads, opened.encoder)
            new = [
                NewExample(
                    each.class_name, each.name, each.content, each.damage, bool(blank[i]), opened.encoder.digest,
                    embedded.x[i], None if embedded.s is None else embedded.s[i],
                )
                for i, each in enumerate(uploads)
            ]  # fmt: skip
            return await self.changed(gallery, self.store.add_examples, new)

    async def change_example(self, gallery: str, example: str, values: dict[str, Any]) -> None:
        """Change an example. Other damage embeds its image again."""
        if "damage" in values:
            opened = await self.open(gallery)
            row = await self.in_store(self.store.image, gallery, example)
            if row.image is None:
                raise ConflictError(
                    f"the example {example!r} has no image, so it cannot be damaged: add it as an image"
                )
            with self.worker.place():
                upload = Upload(row.name, row.image, damage=values["damage"])
                x, s, blank = await self._embed_one(upload, opened.encoder)
            values = values | {"x": x, "s": s, "blank": blank, "digest": opened.encoder.digest}
        await self.changed(gallery, self.store.change_example, example, **values)

    async def classify(
        self, gallery: str, read: Callable[[], list[Upload]], weights: Weights, top: int, nearest: int, plane: bool
    ) -> Answers:
        """Classify the images that `read` returns."""
        opened = await self.open(gallery)
        with self.worker.place():
            if not opened.is_fitted(weights):  # refuses a gallery of one class before anything is decoded
                await self.decoding(opened.classifier, weights)
            look = opened.encoder.look

            def prepared() -> tuple[list[str], Any]:
                uploads = read()
                return [each.name for each in uploads], prepare([(u.name, u.content, 0.0) for u in uploads], look)

            names, (pixels, blank) = await self.decoding(prepared)
            answer = self.worker.embed(
                opened.encoder,
                pixels,
                lambda embedded: opened.answers(names, blank, embedded, weights, top, nearest, plane),
            )
            return await asyncio.wrap_future(answer)

    async def file(self, gallery: str) -> bytes:
        """Return the gallery file."""
        return await self.decoding(write_file, await self.open(gallery))

    async def create_from(self, content: bytes, file_name: str, name: str | None) -> str:
        """Create a gallery from a gallery file. Return its id."""
        found = await self.decoding(read_file, content, file_name)
        check_room(len(found.labels), MOST_EXAMPLES, "gallery", "examples")
        with self.worker.place():
            encoder = await self.worker.encoder(check_source(found, file_name))
            empty = np.zeros((1, encoder.channels, encoder.image_size, encoder.image_size), dtype=np.uint8)
            like = await asyncio.wrap_future(self.worker.embed(encoder, empty, lambda each: each))
            new = await self.decoding(checked_examples, found, file_name, encoder, like)
        name = name or check_name(Path(file_name).stem[:LONGEST_NAME] or "gallery", "name of the gallery")
        arguments = name, found.settings.source, parameters_of(found, encoder), found.settings.reject, new
        return await self.in_store(self.store.create_gallery, *arguments)

    async def zipped(self, gallery: str) -> IO[bytes]:
        """Return a zip file of CLASS/NAME.png files, as `gaussproto classify --support` takes them."""
        opened = await self.open(gallery)
        rows = [row for row in opened.stored.examples if row.has_image]
        if not rows:
            raise ConflictError(
                "no example of this gallery has an image: only examples that were added as images have one"
            )
        folders = folder_names([opened.class_names[getattr(row, "class")] for row in rows])
        taken: set[str] = set()
        file = tempfile.TemporaryFile()  # noqa: SIM115 (the response closes it)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for row in rows:
                folder = folders[opened.class_names[getattr(row, "class")]]
                try:
                    image = (await self.in_store(self.store.image, gallery, row.id)).image
                except NotFoundError:
                    continue  # deleted meanwhile
                path = free_path(folder, row.name, taken)
                await self.decoding(_write, archive, path, image, row.name)
        file.seek(0)
        return file


def _write(archive: zipfile.ZipFile, path: str, image: bytes, name: str) -> None:
    archive.writestr(path, whole_png(image, name))
