"""The store of galleries, classes and examples: SQLite in a file, or PostgreSQL. Every change is one transaction."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import Connection, Row, func, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from gaussproto.errors import InputError
from gaussproto.serving.database import open_engine, read_url
from gaussproto.serving.schema import classes, examples, galleries, migrate

MOST_GALLERIES, MOST_CLASSES, MOST_EXAMPLES = 1_000, 1_000, 10_000  # in a store, in a gallery, in a gallery
LISTED = [
    *(column for column in examples.c if column.name != "image"),
    examples.c.image.is_not(None).label("has_image"),
]


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


class ExampleImage(NamedTuple):
    """The image of an example, or None."""

    image: bytes | None
    name: str
    damage: float


class Stored(NamedTuple):
    """A whole gallery, without its images."""

    gallery: Row[Any]
    classes: Sequence[Row[Any]]
    examples: Sequence[Row[Any]]

    @property
    def parameters(self) -> dict[str, Any]:
        return dict(json.loads(self.gallery.parameters))


class Store:
    """Reads and changes galleries. Each method is one transaction; a change is on the disk when the method returns.

    Args:
        url: a URL of SQLAlchemy, or the path of an SQLite file. By default a file in the user's data folder.
    """

    def __init__(self, url: str | None = None) -> None:
        self.url = read_url(url)
        self.name = self.url.render_as_string(hide_password=True)
        self._engine = open_engine(self.url)
        self._writer = self._engine.execution_options(writing=True)
        reading = {"isolation_level": "REPEATABLE READ"} if self._engine.dialect.name == "postgresql" else {}
        self._reader = self._engine.execution_options(**reading)
        try:
            with self._writer.begin() as connection:
                migrate(connection, self.name)
        except InputError:
            self.close()
            raise
        except DBAPIError as error:
            self.close()
            reason = str(error.orig).strip().splitlines()[0]
            raise InputError(f"cannot open the store {self.name} ({reason}): check --store") from None

    def close(self) -> None:
        self._engine.dispose()

    def check(self) -> None:
        """Raise an error of the database if it does not answer."""
        with self._reader.begin() as connection:
            connection.execute(select(1))

    def list_galleries(self) -> Sequence[Row[Any]]:
        def count(table: Any, name: str) -> Any:
            counted = select(func.count()).where(table.c.gallery == galleries.c.id)
            return counted.scalar_subquery().label(name)

        with self._reader.begin() as connection:
            rows = select(galleries, count(classes, "classes"), count(examples, "examples"))
            return connection.execute(rows.order_by(galleries.c.changed.desc(), galleries.c.id)).all()

    def version(self, gallery: str) -> int | None:
        with self._reader.begin() as connection:
            return connection.execute(select(galleries.c.version).where(galleries.c.id == gallery)).scalar()

    def read(self, gallery: str) -> Stored:
        with self._reader.begin() as connection:
            row = connection.execute(select(galleries).where(galleries.c.id == gallery)).first()
            if row is None:
                raise _no_gallery(gallery)
            of_gallery = [
                connection.execute(select(*columns).where(table.c.gallery == gallery).order_by(table.c.place)).all()
                for table, columns in ((classes, classes.c), (examples, LISTED))
            ]
            return Stored(row, *of_gallery)

    def image(self, gallery: str, example: str) -> ExampleImage:
        columns = examples.c.image, examples.c.name, examples.c.damage
        with self._reader.begin() as connection:
            row = connection.execute(select(*columns).where(_is(examples, gallery, example))).first()
            if row is None:
                raise _no_example(example)
            return ExampleImage(row.image, row.name, row.damage)

    def create_gallery(
        self, name: str, encoder: str, parameters: Mapping[str, Any], reject: float | None,
        new: Sequence[NewExample] = (),
    ) -> str:  # fmt: skip
        gallery = _new_id()
        with self._writer.begin() as connection:
            _check_room(
                connection, select(func.count()).select_from(galleries), 1, MOST_GALLERIES, "store", "galleries"
            )
            row = {"id": gallery, "name": name, "encoder": encoder, "parameters": json.dumps(dict(parameters))}
            connection.execute(galleries.insert().values(**row, reject=reject, version=1, changed=_now()))
            _insert(connection, gallery, new)
        return gallery

    def change_gallery(self, gallery: str, **values: Any) -> int:
        """Change the name or the share of rejected images of a gallery."""
        with self._changing(gallery) as (connection, version):
            if values:
                connection.execute(galleries.update().where(galleries.c.id == gallery).values(**values))
        return version

    def delete_gallery(self, gallery: str) -> None:
        with self._writer.begin() as connection:
            if not connection.execute(galleries.delete().where(galleries.c.id == gallery)).rowcount:
                raise _no_gallery(gallery)

    def add_class(self, gallery: str, name: str) -> str:
        with self._changing(gallery) as (connection, _):
            return _insert_class(connection, gallery, name)

    def rename_class(self, gallery: str, class_id: str, name: str) -> None:
        with self._changing(gallery) as (connection, _):
            try:
                changed = connection.execute(classes.update().where(_is(classes, gallery, class_id)).values(name=name))
            except IntegrityError:
                raise _same_name(name) from None
            if not changed.rowcount:
                raise _no_class(class_id)

    def delete_class(self, gallery: str, class_id: str) -> None:
        with self._changing(gallery) as (connection, _):
            if not connection.execute(classes.delete().where(_is(classes, gallery, class_id))).rowcount:
                raise _no_class(class_id)

    def add_examples(self, gallery: str, new: Sequence[NewExample]) -> list[str]:
        """Add examples, and the classes that do not exist yet. Return the ids of the examples."""
        with self._changing(gallery) as (connection, _):
            return _insert(connection, gallery, new)

    def change_example(self, gallery: str, example: str, **values: Any) -> None:
        """Change the columns of an example. Arrays become bytes."""
        with self._changing(gallery) as (connection, _):
            if "class" in values:
                found = connection.execute(select(classes.c.id).where(_is(classes, gallery, values["class"]))).first()
                if found is None:
                    raise _no_class(values["class"])
            if not _update(connection, gallery, example, values):
                raise _no_example(example)

    def renew(self, gallery: str, changes: Mapping[str, Mapping[str, Any]]) -> None:
        """Store embeddings of examples again. Examples that were deleted meanwhile are skipped."""
        with self._changing(gallery) as (connection, _):
            for example, values in changes.items():
                _update(connection, gallery, example, values)

    def delete_example(self, gallery: str, example: str) -> None:
        with self._changing(gallery) as (connection, _):
            if not connection.execute(examples.delete().where(_is(examples, gallery, example))).rowcount:
                raise _no_example(example)

    @contextmanager
    def _changing(self, gallery: str) -> Iterator[tuple[Connection, int]]:
        """Open a transaction that increments the version of a gallery. Others that change it wait."""
        with self._writer.begin() as connection:
            values = {"version": galleries.c.version + 1, "changed": _now()}
            step = galleries.update().where(galleries.c.id == gallery).values(**values)
            version = connection.execute(step.returning(galleries.c.version)).scalar()
            if version is None:
                raise _no_gallery(gallery)
            yield connection, version


def _insert(connection: Connection, gallery: str, new: Sequence[NewExample]) -> list[str]:
    count = select(func.count()).where(examples.c.gallery == gallery)
    _check_room(connection, count, len(new), MOST_EXAMPLES, "gallery", "examples")
    rows = connection.execute(select(classes.c.name, classes.c.id).where(classes.c.gallery == gallery))
    known: dict[str, str] = {row.name: row.id for row in rows}
    place, ids = _next_place(connection, examples, gallery), []
    for i, each in enumerate(new):
        if each.class_name not in known:
            known[each.class_name] = _insert_class(connection, gallery, each.class_name)
        ids.append(_new_id())
        values = {"id": ids[-1], "gallery": gallery, "class": known[each.class_name], "place": place + i}
        values |= {name: getattr(each, name) for name in ("name", "image", "damage", "blank", "digest")}
        connection.execute(examples.insert().values(**values, x=as_bytes(each.x), s=as_bytes(each.s)))
    return ids


def _insert_class(connection: Connection, gallery: str, name: str) -> str:
    count = select(func.count()).where(classes.c.gallery == gallery)
    _check_room(connection, count, 1, MOST_CLASSES, "gallery", "classes")
    if connection.execute(select(classes.c.id).where(classes.c.gallery == gallery, classes.c.name == name)).first():
        raise _same_name(name)
    class_id, place = _new_id(), _next_place(connection, classes, gallery)
    connection.execute(classes.insert().values(id=class_id, gallery=gallery, name=name, place=place))
    return class_id


def _update(connection: Connection, gallery: str, example: str, values: Mapping[str, Any]) -> bool:
    plain = {name: as_bytes(each) if isinstance(each, np.ndarray) else each for name, each in values.items()}
    if not plain:
        return connection.execute(select(examples.c.id).where(_is(examples, gallery, example))).first() is not None
    return bool(connection.execute(examples.update().where(_is(examples, gallery, example)).values(**plain)).rowcount)


def _check_room(connection: Connection, count: Any, more: int, most: int, place: str, what: str) -> None:
    check_room(connection.execute(count).scalar_one() + more, most, place, what)


def check_room(count: int, most: int, place: str, what: str) -> None:
    if count > most:
        raise ConflictError(f"a {place} holds at most {most:,} {what} (this would make {count:,}): delete some")


def _next_place(connection: Connection, table: Any, gallery: str) -> int:
    last = connection.execute(select(func.max(table.c.place)).where(table.c.gallery == gallery)).scalar()
    return 0 if last is None else last + 1


def _is(table: Any, gallery: str, row_id: str) -> Any:
    return (table.c.id == row_id) & (table.c.gallery == gallery)


def _new_id() -> str:
    return secrets.token_hex(6)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def as_bytes(array: np.ndarray | None) -> bytes | None:
    return None if array is None else array.astype("<f4").tobytes()


def _no_gallery(gallery: str) -> NotFoundError:
    return NotFoundError(f"the gallery {gallery!r} does not exist: GET /galleries lists them")


def _no_class(class_id: str) -> NotFoundError:
    return NotFoundError(f"the class {class_id!r} does not exist in this gallery: look at the gallery again")


def _no_example(example: str) -> NotFoundError:
    return NotFoundError(f"the example {example!r} does not exist in this gallery: look at the gallery again")


def _same_name(name: str) -> ConflictError:
    return ConflictError(f"the class {name!r} exists already: choose another name")
