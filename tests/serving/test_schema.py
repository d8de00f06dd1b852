"""The tables of the store, without a server."""

import time
from datetime import timedelta

import pytest
from sqlalchemy import inspect, select, text
from sqlalchemy.exc import DBAPIError

from gaussproto.serving import schema
from gaussproto.serving.rows import MOST_DELETED, NotFoundError
from gaussproto.serving.schema import galleries, metadata
from gaussproto.serving.store import Store


def test_deleted_galleries_are_removed_for_good_after_a_while(store, monkeypatch):
    made = Store(store)
    ids = [made.create_gallery(f"{i}", "drawings-small", {}, None) for i in range(MOST_DELETED + 2)]
    for gallery in ids:
        made.delete_gallery(gallery)
        time.sleep(0.002)  # the time of a deletion has milliseconds
    for gallery in ids[:2]:  # too many are deleted
        with pytest.raises(NotFoundError):
            made.restore_gallery(gallery)
    made.restore_gallery(ids[2])
    made.close()
    monkeypatch.setattr("gaussproto.serving.rows.RESTORABLE", timedelta(0))
    time.sleep(0.002)
    made = Store(store)
    with made._reader.begin() as connection:
        assert connection.execute(select(galleries.c.id)).scalars().all() == [ids[2]]
    made.close()


def test_sqlite_writes_are_durable(tmp_path):
    store = Store(str(tmp_path / "s.sqlite"))
    with store._writer.connect() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")
        }
    store.close()
    assert pragmas == {"journal_mode": "wal", "synchronous": 2}  # FULL


def described(engine):
    """The tables as the database describes them."""
    found = inspect(engine)
    return {
        name: (
            [(each["name"], str(each["type"]).split()[0], each["nullable"]) for each in found.get_columns(name)],
            sorted((each["constrained_columns"], str(each["options"])) for each in found.get_foreign_keys(name)),
            sorted(str(each["name"]) for each in found.get_indexes(name)),
            found.get_pk_constraint(name)["constrained_columns"],
            [each["column_names"] for each in found.get_unique_constraints(name)],
        )
        for name in metadata.tables
    }


def test_the_steps_of_the_store_lead_to_its_tables(store):
    made = Store(store)
    steps = described(made._engine)
    metadata.drop_all(made._engine)
    metadata.create_all(made._engine)
    tables = described(made._engine)
    made.close()
    assert steps == tables


def test_an_older_store_is_brought_up_to_date(store, monkeypatch):
    made = Store(store)
    gallery = made.create_gallery("kept", "drawings-small", {}, 0.05)
    made.close()

    def add_column(connection):
        connection.execute(text("ALTER TABLE gaussproto_galleries ADD COLUMN note TEXT DEFAULT 'none'"))

    versions = len(schema.MIGRATIONS)
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, add_column])
    for _ in range(2):  # the second time, there is nothing to do
        newer = Store(store)
        with newer._reader.begin() as connection:
            assert connection.execute(text("SELECT version FROM gaussproto_store")).all() == [(versions + 1,)]
            rows = connection.execute(text("SELECT id, name, note FROM gaussproto_galleries")).all()
        newer.close()
        assert rows == [(gallery, "kept", "none")]


def test_errors_of_the_database_do_not_show_what_is_stored(tmp_path):
    store = Store(str(tmp_path / "s.sqlite"))
    with store._writer.connect() as connection, pytest.raises(DBAPIError) as error:
        connection.execute(text("SELECT nothing FROM gaussproto_galleries WHERE name = :name"), {"name": "secret"})
    store.close()
    assert "secret" not in str(error.value)
