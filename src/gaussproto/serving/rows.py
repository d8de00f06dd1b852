"""The rows of a gallery, inside a transaction: insert, count and find them, and remove what was deleted long ago."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, func, select

from gaussproto.errors import InputError
from gaussproto.serving.schema import classes, examples, galleries

MOST_GALLERIES, MOST_CLASSES, MOST_EXAMPLES = 1_000, 1_000, 10_000  # in a store, in a gallery, in a gallery
MOST_DELETED, RESTORABLE = 10, timedelta(days=1)  # deleted galleries that can be restored, and for how long
COUNT_GALLERIES = select(func.count()).where(galleries.c.deleted.is_(None))


class NotFoundError(InputError):
    """Something that a request names does not exist, or no longer."""


class ConflictError(InputError):
    """A request does not fit what is in the store."""


class NewExample(NamedTuple):
    """An example to add."""

    class_name: str
    name: str
    image: bytes | None
    damage: float
    blank: bool
    digest: str
    x: np.ndarray  # (D,)
    s: np.ndarray | None  # (E,)


def exists(gallery: str) -> Any:
    return (galleries.c.id == gallery) & galleries.c.deleted.is_(None)


def purge(connection: Connection) -> None:
    """Remove for good the galleries that were deleted long ago, and all but the last few."""
    deleted = galleries.c.deleted.is_not(None)
    last = select(galleries.c.id).where(deleted).order_by(galleries.c.deleted.desc()).limit(MOST_DELETED)
    old = (galleries.c.deleted < now(-RESTORABLE)) | galleries.c.id.not_in(last)
    connection.execute(galleries.delete().where(deleted & old))


def insert_examples(connection: Connection, gallery: str, new: Sequence[NewExample]) -> list[str]:
    count = select(func.count()).where(examples.c.gallery == gallery)
    check_room_in(connection, count, len(new), MOST_EXAMPLES, "gallery", "examples")
    rows = connection.execute(select(classes.c.name, classes.c.id).where(classes.c.gallery == gallery))
    known: dict[str, str] = {row.name: row.id for row in rows}
    place, ids = _next_place(connection, examples, gallery), []
    for i, each in enumerate(new):
        if each.class_name not in known:
            known[each.class_name] = insert_class(connection, gallery, each.class_name)
        ids.append(new_id())
        values = {"id": ids[-1], "gallery": gallery, "class": known[each.class_name], "place": place + i}
        values |= {name: getattr(each, name) for name in ("name", "image", "damage", "blank", "digest")}
        connection.execute(examples.insert().values(**values, x=as_bytes(each.x), s=as_bytes(each.s)))
    return ids


def insert_class(connection: Connection, gallery: str, name: str) -> str:
    count = select(func.count()).where(classes.c.gallery == gallery)
    check_room_in(connection, count, 1, MOST_CLASSES, "gallery", "classes")
    if connection.execute(select(classes.c.id).where(classes.c.gallery == gallery, classes.c.name == name)).first():
        raise same_name(name)
    class_id, place = new_id(), _next_place(connection, classes, gallery)
    connection.execute(classes.insert().values(id=class_id, gallery=gallery, name=name, place=place))
    return class_id


def update_example(connection: Connection, gallery: str, example: str, values: Mapping[str, Any]) -> bool:
    plain = {name: as_bytes(each) if isinstance(each, np.ndarray) else each for name, each in values.items()}
    if not plain:
        return connection.execute(select(examples.c.id).where(is_row(examples, gallery, example))).first() is not None
    return bool(
        connection.execute(examples.update().where(is_row(examples, gallery, example)).values(**plain)).rowcount
    )


def check_room_in(connection: Connection, count: Any, more: int, most: int, place: str, what: str) -> None:
    check_room(connection.execute(count).scalar_one() + more, most, place, what)


def check_room(count: int, most: int, place: str, what: str) -> None:
    if count > most:
        raise ConflictError(f"a {place} holds at most {most:,} {what} (this would make {count:,}): delete some")


def _next_place(connection: Connection, table: Any, gallery: str) -> int:
    last = connection.execute(select(func.max(table.c.place)).where(table.c.gallery == gallery)).scalar()
    return 0 if last is None else last + 1


def is_row(table: Any, gallery: str, row_id: str) -> Any:
    return (table.c.id == row_id) & (table.c.gallery == gallery)


def new_id() -> str:
    return secrets.token_hex(6)


def now(later: timedelta = timedelta()) -> str:
    return (datetime.now(UTC) + later).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def as_bytes(array: np.ndarray | None) -> bytes | None:
    return None if array is None else array.astype("<f4").tobytes()


def no_gallery(gallery: str) -> NotFoundError:
    return NotFoundError(f"the gallery {gallery!r} does not exist: GET /galleries lists them")


def no_class(class_id: str) -> NotFoundError:
    return NotFoundError(f"the class {class_id!r} does not exist in this gallery: look at the gallery again")


def no_example(example: str) -> NotFoundError:
    return NotFoundError(f"the example {example!r} does not exist in this gallery: look at the gallery again")


def same_name(name: str) -> ConflictError:
    return ConflictError(f"the class {name!r} exists already: choose another name")
