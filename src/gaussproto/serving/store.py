"""The store of galleries, classes and examples: SQLite in a file, or PostgreSQL. Every change is one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, func, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from gaussproto.errors import InputError
from gaussproto.serving.database import open_engine, read_url
from gaussproto.serving.rows import (
    COUNT_GALLERIES,
    MOST_GALLERIES,
    NewExample,
    NotFoundError,
    check_room_in,
    exists,
    insert_class,
    insert_examples,
    is_row,
    new_id,
    no_class,
    no_example,
    no_gallery,
    now,
    purge,
    same_name,
    update_example,
)
from gaussproto.serving.schema import classes, examples, galleries, migrate

LISTED = [
    *(column for column in examples.c if column.name != "image"),
    examples.c.image.is_not(None).label("has_image"),
]


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
                purge(connection)
        except InputError:
            self.close()
            raise
        except DBAPIError as error:
            self.close()
            reason = str(error.orig).strip().splitlines()[0]
            raise InputError(f"cannot open the store {self.name} ({reason}): check --store") from None

    @property
    def place(self) -> str:
        """The file or the URL, for the user."""
        sqlite = self.url.get_backend_name() == "sqlite"
        return str(Path(str(self.url.database)).absolute()) if sqlite else self.name

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
            rows = rows.where(galleries.c.deleted.is_(None))
            return connection.execute(rows.order_by(galleries.c.changed.desc(), galleries.c.id)).all()

    def version(self, gallery: str) -> int | None:
        with self._reader.begin() as connection:
            return connection.execute(select(galleries.c.version).where(exists(gallery))).scalar()

    def read(self, gallery: str) -> Stored:
        with self._reader.begin() as connection:
            row = connection.execute(select(galleries).where(exists(gallery))).first()
            if row is None:
                raise no_gallery(gallery)
            of_gallery = [
                connection.execute(select(*columns).where(table.c.gallery == gallery).order_by(table.c.place)).all()
                for table, columns in ((classes, classes.c), (examples, LISTED))
            ]
            return Stored(row, *of_gallery)

    def image(self, gallery: str, example: str) -> ExampleImage:
        columns = examples.c.image, examples.c.name, examples.c.damage
        with self._reader.begin() as connection:
            row = connection.execute(select(*columns).where(is_row(examples, gallery, example))).first()
            if row is None:
                raise no_example(example)
            return ExampleImage(row.image, row.name, row.damage)

    def create_gallery(
        self, name: str, encoder: str, parameters: Mapping[str, Any], reject: float | None,
        new: Sequence[NewExample] = (),
    ) -> str:  # fmt: skip
        gallery = new_id()
        with self._writer.begin() as connection:
            check_room_in(connection, COUNT_GALLERIES, 1, MOST_GALLERIES, "store", "galleries")
            row = {"id": gallery, "name": name, "encoder": encoder, "parameters": json.dumps(dict(parameters))}
            connection.execute(galleries.insert().values(**row, reject=reject, version=1, changed=now()))
            insert_examples(connection, gallery, new)
        return gallery

    def change_gallery(self, gallery: str, **values: Any) -> int:
        """Change the name or the share of rejected images of a gallery."""
        with self._changing(gallery) as (connection, version):
            if values:
                connection.execute(galleries.update().where(galleries.c.id == gallery).values(**values))
        return version

    def delete_gallery(self, gallery: str, forever: bool = False) -> None:
        """Delete a gallery. Unless `forever`, it can be restored for a while."""
        with self._changing(gallery) as (connection, _):
            if forever:
                connection.execute(galleries.delete().where(galleries.c.id == gallery))
            else:
                connection.execute(galleries.update().where(galleries.c.id == gallery).values(deleted=now()))
            purge(connection)

    def restore_gallery(self, gallery: str) -> None:
        """Restore a gallery that was deleted a while ago."""
        with self._writer.begin() as connection:
            check_room_in(connection, COUNT_GALLERIES, 1, MOST_GALLERIES, "store", "galleries")
            deleted = (galleries.c.id == gallery) & galleries.c.deleted.is_not(None)
            values = {"deleted": None, "version": galleries.c.version + 1, "changed": now()}
            if not connection.execute(galleries.update().where(deleted).values(**values)).rowcount:
                raise NotFoundError(
                    f"there is no deleted gallery {gallery!r} to restore: GET /galleries lists all others"
                )

    def add_class(self, gallery: str, name: str) -> str:
        with self._changing(gallery) as (connection, _):
            return insert_class(connection, gallery, name)

    def rename_class(self, gallery: str, class_id: str, name: str) -> None:
        with self._changing(gallery) as (connection, _):
            try:
                changed = connection.execute(
                    classes.update().where(is_row(classes, gallery, class_id)).values(name=name)
                )
            except IntegrityError:
                raise same_name(name) from None
            if not changed.rowcount:
                raise no_class(class_id)

    def delete_class(self, gallery: str, class_id: str) -> None:
        with self._changing(gallery) as (connection, _):
            if not connection.execute(classes.delete().where(is_row(classes, gallery, class_id))).rowcount:
                raise no_class(class_id)

    def add_examples(self, gallery: str, new: Sequence[NewExample]) -> list[str]:
        """Add examples, and the classes that do not exist yet. Return the ids of the examples."""
        with self._changing(gallery) as (connection, _):
            return insert_examples(connection, gallery, new)

    def change_example(self, gallery: str, example: str, **values: Any) -> None:
        """Change the columns of an example. Arrays become bytes."""
        with self._changing(gallery) as (connection, _):
            if "class" in values:
                found = connection.execute(
                    select(classes.c.id).where(is_row(classes, gallery, values["class"]))
                ).first()
                if found is None:
                    raise no_class(values["class"])
            if not update_example(connection, gallery, example, values):
                raise no_example(example)

    def renew(self, gallery: str, changes: Mapping[str, Mapping[str, Any]]) -> None:
        """Store embeddings of examples again. Examples that were deleted meanwhile are skipped."""
        with self._changing(gallery) as (connection, _):
            for example, values in changes.items():
                update_example(connection, gallery, example, values)

    def delete_example(self, gallery: str, example: str) -> None:
        with self._changing(gallery) as (connection, _):
            if not connection.execute(examples.delete().where(is_row(examples, gallery, example))).rowcount:
                raise no_example(example)

    @contextmanager
    def _changing(self, gallery: str) -> Iterator[tuple[Connection, int]]:
        """Open a transaction that increments the version of a gallery. Others that change it wait."""
        with self._writer.begin() as connection:
            values = {"version": galleries.c.version + 1, "changed": now()}
            step = galleries.update().where(exists(gallery)).values(**values)
            version = connection.execute(step.returning(galleries.c.version)).scalar()
            if version is None:
                raise no_gallery(gallery)
            yield connection, version
