"""Open the database of a store: an SQLite file in WAL mode, or PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from gaussproto.errors import InputError
from gaussproto.files import make_folder

FILE = "studio.sqlite"  # in the user's data folder
QUIET: dict[str, Any] = {"hide_parameters": True}  # names and images of users do not belong in a log
WAIT = 10_000  # milliseconds that a writer waits for another one


def read_url(url: str | None) -> URL:
    if url is None:
        from platformdirs import user_data_path

        url = str(user_data_path("gaussproto", appauthor=False) / FILE)
    try:
        parsed = make_url(url) if "://" in url else URL.create("sqlite", database=str(Path(url).absolute()))
    except ArgumentError:
        raise InputError(f"--store must be a file or a URL like postgresql+psycopg://... (found {url!r})") from None
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise InputError(f"--store must be SQLite or PostgreSQL (found {parsed.get_backend_name()!r})")
    if parsed.get_backend_name() == "sqlite" and not parsed.database:
        raise InputError("--store must name an SQLite file, because a store in memory would be lost: add its path")
    return parsed


def open_engine(url: URL) -> Engine:
    try:
        if url.get_backend_name() == "postgresql":
            durable = {"options": "-c synchronous_commit=on", "connect_timeout": 5}
            return create_engine(url, pool_size=10, max_overflow=10, pool_pre_ping=True, connect_args=durable, **QUIET)
        make_folder(Path(str(url.database)).parent)
        engine = create_engine(url, pool_size=10, max_overflow=10, **QUIET)
    except (NoSuchModuleError, ImportError) as error:
        raise InputError(f"cannot open the store {url.drivername} ({error}): use postgresql+psycopg://...") from None
    except OSError as error:
        raise InputError(f"cannot create the folder of {url.database} ({error.strerror}): choose another one") from None

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # SQLAlchemy begins transactions below, not the driver
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", f"busy_timeout={WAIT}"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that reads first and writes later would fail if another one wrote in between.
        writing = connection.get_execution_options().get("writing")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine
