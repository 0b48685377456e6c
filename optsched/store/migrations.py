"""From any older version of the tables to this one: an ordered list of steps, each in a transaction of its own.

A step is never changed once it was released; a new one is added at the end. Why not Alembic: docs/decisions/0010.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import Connection, func, inspect, select, text, update

from optsched.errors import StoreDamaged, StoreTooNew
from optsched.store import tables

Step = Callable[[Connection], None]

TYPES: Mapping[str, Mapping[str, str]] = {
    "sqlite": {"key": "INTEGER", "int": "INTEGER", "real": "REAL", "bytes": "BLOB", "clustered": " WITHOUT ROWID"},
    "postgresql": {"key": "BIGINT", "int": "BIGINT", "real": "DOUBLE PRECISION", "bytes": "BYTEA", "clustered": ""},
}
"""What the two databases call a key that is a number, other numbers, and bytes; and how a table is kept in its key."""


def run_all(connection: Connection, statements: str) -> None:
    """Execute statements that are kept apart by semicolons, with the types of the database."""
    for statement in statements.format(**TYPES[connection.dialect.name]).split(";"):
        if statement.strip():
            connection.execute(text(statement))


def version_1(connection: Connection) -> None:
    """The first tables."""
    run_all(
        connection,
        """
        CREATE TABLE optsched_schema (version INTEGER NOT NULL);
        INSERT INTO optsched_schema VALUES (0);
        CREATE TABLE optsched_head (
            id {key} PRIMARY KEY CHECK (id = 1), epoch {int} NOT NULL, sequence {int} NOT NULL, at {real} NOT NULL,
            saved {int} NOT NULL, pruned {int} NOT NULL, round {int} NOT NULL, format {int} NOT NULL,
            log_bytes {int} NOT NULL, round_bytes {int} NOT NULL, key_count {int} NOT NULL);
        INSERT INTO optsched_head VALUES (1, 0, 0, 0, -1, 0, 0, 1, 0, 0, 0);
        CREATE TABLE optsched_log (
            sequence {key} PRIMARY KEY, at {real} NOT NULL, passing INTEGER NOT NULL, size INTEGER NOT NULL,
            crc {int} NOT NULL, body {bytes} NOT NULL);
        CREATE TABLE optsched_waiting (sequence {key} PRIMARY KEY, crc {int} NOT NULL, body {bytes} NOT NULL);
        CREATE TABLE optsched_concerns (
            job TEXT NOT NULL, sequence {int} NOT NULL, PRIMARY KEY (job, sequence)){clustered};
        CREATE INDEX optsched_concerns_sequence ON optsched_concerns (sequence);
        CREATE TABLE optsched_state (sequence {key} PRIMARY KEY, crc {int} NOT NULL, body {bytes} NOT NULL);
        CREATE TABLE optsched_round (
            number {key} PRIMARY KEY, at {real} NOT NULL, source TEXT NOT NULL, gap {real}, bill {bytes} NOT NULL,
            size INTEGER NOT NULL, crc {int} NOT NULL);
        CREATE TABLE optsched_plan (number {key} PRIMARY KEY, body {bytes} NOT NULL);
        CREATE TABLE optsched_key (
            key {bytes} NOT NULL PRIMARY KEY, at {real} NOT NULL, answer {bytes} NOT NULL){clustered};
        CREATE INDEX optsched_key_at ON optsched_key (at)
        """,
    )


STEPS: tuple[Step, ...] = (version_1,)
"""Step n makes version n of version n - 1."""


def version_of(connection: Connection) -> int:
    """Return the version of the tables, 0 where there are none. Raises StoreDamaged for a database that is no store."""
    names = inspect(connection).get_table_names()
    if tables.schema.name not in names:
        if any(name.startswith("optsched_") for name in names):
            raise StoreDamaged("the store has lost its version")
        # In PostgreSQL others may have tables of their own beside it; a file is one thing only.
        if names and connection.dialect.name == "sqlite":
            raise StoreDamaged(f"this is no store of optsched: it has a table {names[0]}")
        return 0
    count, version = connection.execute(select(func.count(), func.max(tables.schema.c.version))).one()
    if count != 1 or version < 1:
        raise StoreDamaged("the store has lost its version")
    return int(version)


def check_version(version: int, steps: Sequence[Step] = STEPS) -> None:
    """Raise StoreTooNew for a version that this code does not know."""
    if version > len(steps):
        raise StoreTooNew(
            f"the store is of version {version}, and this optsched knows versions up to {len(steps)}: use a later one"
        )


def migrate(connection: Connection, steps: Sequence[Step] = STEPS) -> int:
    """Bring the tables to the last version and return the version that they had; a step that fails changes nothing."""
    with connection.begin():
        found = version_of(connection)
    check_version(found, steps)
    for number, step in enumerate(steps[found:], found + 1):
        with connection.begin():
            step(connection)
            connection.execute(update(tables.schema).values(version=number))
    return found
