"""Where the service keeps what must outlive it: in memory, in a SQLite file, or in PostgreSQL, all behind one port."""

from __future__ import annotations

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from optsched.engine.ports import Store
from optsched.errors import UsageError
from optsched.store.memory import MemoryStore
from optsched.store.postgresql import PostgresDatabase
from optsched.store.retention import Retention
from optsched.store.sql import Database, SqlStore
from optsched.store.sqlite import SqliteDatabase

__all__ = ["ALLOWED", "MemoryStore", "Retention", "SqlStore", "database_of", "open_store"]

ALLOWED = "memory:, sqlite:///PATH (absolute: sqlite:////PATH), postgresql://USER@HOST/DATABASE"


def open_store(url: str, retention: Retention | None = None) -> Store:
    """Return the store of a URL, not yet opened. Raises UsageError for a URL that names none."""
    if url == "memory:":
        return MemoryStore(retention)
    return SqlStore(database_of(url), retention)


def database_of(url: str) -> Database:
    """Return the database that a URL names. Raises UsageError for one that names none; it never shows a password."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise UsageError(f"{_shown(url)} is no URL of a store; allowed: {ALLOWED}") from None
    return _sqlite(parsed) if parsed.drivername == "sqlite" else _postgresql(parsed)


def _sqlite(url: URL) -> Database:
    if not url.database or url.database == ":memory:" or url.host or url.query:
        raise UsageError(f"{url.render_as_string()} names no file of a store; allowed: {ALLOWED}")
    return SqliteDatabase(url.database)


def _postgresql(url: URL) -> Database:
    if url.drivername != "postgresql":
        raise UsageError(f"{url.drivername} is no kind of store; allowed: {ALLOWED}")
    return PostgresDatabase(url)


def _shown(url: str) -> str:
    """Return what can be told of a URL that cannot be taken apart, and so may hold a password anywhere."""
    return url if "@" not in url else f"{url.split(':', 1)[0]}:…"
