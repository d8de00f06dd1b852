"""The tables of the store, and the steps that bring an older store up to date."""

from collections.abc import Callable

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    select,
    text,
)

from gaussproto.errors import InputError

LOCK = 0x6761757373  # any number: servers that start at the same time migrate one after the other

metadata = MetaData()
store_version = Table("gaussproto_store", metadata, Column("version", Integer, nullable=False))
galleries = Table(
    "gaussproto_galleries",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("name", Text, nullable=False),
    Column("encoder", Text, nullable=False),
    Column("parameters", Text, nullable=False),  # JSON: how the images are prepared and compared
    Column("reject", Double),
    Column("version", BigInteger, nullable=False),  # every change increments it
    Column("changed", String(40), nullable=False),  # time of the last change
    Column("deleted", String(40)),  # time of the deletion, which can be undone for a while
)
classes = Table(
    "gaussproto_classes",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("gallery", ForeignKey(galleries.c.id, ondelete="CASCADE"), nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("place", BigInteger, nullable=False),  # in the order of creation
    UniqueConstraint("gallery", "name"),
)
examples = Table(
    "gaussproto_examples",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("gallery", ForeignKey(galleries.c.id, ondelete="CASCADE"), nullable=False, index=True),
    Column("class", ForeignKey(classes.c.id, ondelete="CASCADE"), nullable=False, index=True),
    Column("name", Text, nullable=False),
    Column("place", BigInteger, nullable=False),
    Column("image", LargeBinary),  # the file as it came; an example of a gallery file has none
    Column("damage", Double, nullable=False),
    Column("blank", Boolean, nullable=False),
    Column("digest", String(64), nullable=False),  # of the encoder that embedded it
    Column("x", LargeBinary, nullable=False),  # float32, little-endian
    Column("s", LargeBinary),
)


OF_GALLERY = "FOREIGN KEY (gallery) REFERENCES gaussproto_galleries (id) ON DELETE CASCADE"
OF_CLASS = "FOREIGN KEY (class) REFERENCES gaussproto_classes (id) ON DELETE CASCADE"
FIRST = f"""
    CREATE TABLE gaussproto_store (version INTEGER NOT NULL);
    CREATE TABLE gaussproto_galleries (id VARCHAR(32) NOT NULL PRIMARY KEY, name TEXT NOT NULL, encoder TEXT NOT NULL,
        parameters TEXT NOT NULL, reject DOUBLE, version BIGINT NOT NULL, changed VARCHAR(40) NOT NULL);
    CREATE TABLE gaussproto_classes (id VARCHAR(32) NOT NULL PRIMARY KEY, gallery VARCHAR(32) NOT NULL,
        name TEXT NOT NULL, place BIGINT NOT NULL, UNIQUE (gallery, name), {OF_GALLERY});
    CREATE INDEX ix_gaussproto_classes_gallery ON gaussproto_classes (gallery);
    CREATE TABLE gaussproto_examples (id VARCHAR(32) NOT NULL PRIMARY KEY, gallery VARCHAR(32) NOT NULL,
        class VARCHAR(32) NOT NULL, name TEXT NOT NULL, place BIGINT NOT NULL, image BLOB,
        damage DOUBLE NOT NULL, blank BOOLEAN NOT NULL, digest VARCHAR(64) NOT NULL,
        x BLOB NOT NULL, s BLOB, {OF_GALLERY}, {OF_CLASS});
    CREATE INDEX ix_gaussproto_examples_gallery ON gaussproto_examples (gallery);
    CREATE INDEX ix_gaussproto_examples_class ON gaussproto_examples (class)
"""


def _create(connection: Connection) -> None:
    """Create the tables of version 1. They never change here: later versions add steps."""
    commands = FIRST
    if connection.dialect.name == "postgresql":
        commands = FIRST.replace("BLOB", "BYTEA").replace("DOUBLE", "DOUBLE PRECISION")
    for command in commands.split(";"):
        connection.execute(text(command))


def _add_deleted(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE gaussproto_galleries ADD COLUMN deleted VARCHAR(40)"))


MIGRATIONS: list[Callable[[Connection], None]] = [_create, _add_deleted]  # step i leads from version i to version i + 1


def migrate(connection: Connection, name: str) -> None:
    """Bring a store to the current version. Raise InputError if a newer gaussproto made it."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
    found = 0
    if inspect(connection).has_table(store_version.name):
        found = connection.execute(select(store_version.c.version)).scalar_one()
    if found > len(MIGRATIONS):
        reads = f"this gaussproto reads versions up to {len(MIGRATIONS)}: install a newer gaussproto"
        raise InputError(f"the store {name} has version {found}, but {reads}")
    for step in MIGRATIONS[found:]:
        step(connection)
    if found < len(MIGRATIONS):
        connection.execute(store_version.delete())
        connection.execute(store_version.insert().values(version=len(MIGRATIONS)))
