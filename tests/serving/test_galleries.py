"""The galleries in memory, without HTTP."""

import asyncio
from contextlib import contextmanager

import numpy as np
import pytest

from gaussproto.serving import galleries
from gaussproto.serving.bodies import Upload
from gaussproto.serving.galleries import Galleries
from gaussproto.serving.gallery_files import write_file
from gaussproto.serving.rows import NewExample
from gaussproto.serving.store import Store
from gaussproto.serving.worker import DEFAULT, BusyError, Worker


@contextmanager
def opened(file, room=128):
    store, worker = Store(str(file)), Worker(room)
    worker.start()
    found = Galleries(store, worker)
    yield found
    worker.close()
    found.close()
    store.close()


def old_example(image, label="a"):
    """An example as other weights embedded it."""
    return NewExample(label, "x.png", image, 0.0, False, "old", np.zeros(64), np.ones(1))


def test_examples_in_memory_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(galleries, "KEPT_EXAMPLES", 5)

    async def read(found):
        for _ in range(3):
            ids = [found.store.create_gallery("x", DEFAULT, {}, None, [old_example(None)] * 2) for _ in range(3)]
            for gallery in ids:
                assert len((await found.open(gallery)).stored.examples) == 2
        large = found.store.create_gallery("x", DEFAULT, {}, None, [old_example(None)] * 9)
        assert list(found._opened)[-1:] == ids[-1:]
        assert len(found._opened) == 2
        await found.open(large)
        assert list(found._opened) == [large]

    with opened(tmp_path / "s.sqlite") as found:
        asyncio.run(read(found))


def test_unreadable_and_deleted_examples_do_not_keep_a_gallery_from_opening(tmp_path, drawings):
    async def read(found):
        old = [old_example(image) for image in (*drawings[0][:3], b"no image")]
        gallery = found.store.create_gallery("x", DEFAULT, {}, None, old)
        rows = list(found.store.read(gallery).examples)
        found.store.delete_example(gallery, rows[0].id)
        encoder = await found.worker.encoder(DEFAULT)
        assert await found._renew(gallery, rows, encoder)
        whole = await found.open(gallery)
        assert [row.id for row in whole.known] == [rows[1].id, rows[2].id]
        assert whole.stale == 1
        batches, version = found.worker.batches, whole.version
        await found.changed(gallery, found.store.change_gallery, name="y")
        assert (await found.open(gallery)).version == version + 1  # nothing was renewed
        assert (found.worker.batches, batches) == (1, 1)

    with opened(tmp_path / "s.sqlite") as found:
        asyncio.run(read(found))


def test_two_servers_with_different_weights_do_not_embed_against_each_other(tmp_path, drawings):
    async def read(found):
        gallery = found.store.create_gallery("x", DEFAULT, {}, None, [old_example(drawings[0][0])])
        first = await found.open(gallery)
        assert (first.version, first.stale) == (2, 0)
        await found.changed(gallery, found.store.renew, {first.known[0].id: {"digest": "of the other server"}})
        again = await found.open(gallery)
        assert (again.version, again.stale) == (3, 1)

    with opened(tmp_path / "s.sqlite") as found:
        asyncio.run(read(found))


def test_gallery_files_and_old_examples_wait_in_the_queue(tmp_path, drawings):
    async def fill(found):
        gallery = found.store.create_gallery("x", DEFAULT, {}, None)
        for c, name in enumerate("ab"):
            await found.add(gallery, lambda c=c, name=name: [Upload("x.png", drawings[c][0], name)])
        return write_file(await found.open(gallery))

    async def refuse(found, content):
        with pytest.raises(BusyError):
            await found.create_from(content, "x.gallery", None)
        old = found.store.create_gallery("x", DEFAULT, {}, None, [old_example(drawings[0][0])])
        with pytest.raises(BusyError):
            await found.open(old)

    with opened(tmp_path / "s.sqlite") as found:
        content = asyncio.run(fill(found))
    with opened(tmp_path / "s.sqlite", room=0) as found:
        asyncio.run(refuse(found, content))
