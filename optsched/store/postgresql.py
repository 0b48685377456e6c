"""PostgreSQL: several schedulers may stand by; who holds the lock leads, and an epoch fences who did before."""

from __future__ import annotations

import importlib.util

from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError

from optsched.errors import StoreDamaged, StoreError, StoreFull, StoreInUse, StoreLost, UsageError

LOCK = 0x6F707473
"""The first half of the advisory lock's key; the other half is the schema in which the tables lie."""

CONNECT_S = 10
SILENT_S = 25
"""A peer that is silent for so long is taken for dead: by the client, and by the server, which then frees the lock."""

_SET_UP = (
    "SET TIME ZONE 'UTC'",
    "SET idle_in_transaction_session_timeout = '60s'",
    "SET tcp_keepalives_idle = 10",
    "SET tcp_keepalives_interval = 5",
    "SET tcp_keepalives_count = 3",
    # What the server is set to is kept where it is safer than this.
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
)


class PostgresDatabase:
    """A database, with its tables in the first schema of the search path."""

    def __init__(self, url: URL) -> None:
        if importlib.util.find_spec("psycopg") is None:
            raise UsageError("a store in PostgreSQL needs psycopg: pip install 'optsched[postgresql]'")
        self.name = url.render_as_string(hide_password=True)
        self._url = url.set(drivername="postgresql+psycopg")

    def lead(self) -> tuple[Engine, Connection]:
        """Connect and take the lock, which is free again when this connection ends."""
        engine = connect(self._url)
        writer = None
        try:
            writer = engine.connect()
            with writer.begin():
                locked = writer.execute(
                    text("SELECT pg_try_advisory_lock(:lock, hashtext(current_schema()))"), {"lock": LOCK}
                ).scalar()
            if locked is None:
                raise StoreError(f"{self.name}: the search path names no schema")
            if not locked:
                raise StoreInUse(f"{self.name}: another scheduler leads")
        except BaseException:
            if writer is not None:
                writer.close()
            engine.dispose()
            raise
        return engine, writer

    def fault(self, error: DBAPIError) -> StoreError:
        """Return what an error of PostgreSQL means, by its SQLSTATE; without one the connection was lost."""
        return fault_of(self.name, error)

    def leave(self) -> None:
        """The lock went with the connection."""


def connect(url: URL) -> Engine:
    """Return where to connect to a database."""
    engine = create_engine(
        url,
        max_overflow=-1,
        pool_pre_ping=True,
        connect_args={
            "connect_timeout": CONNECT_S,
            "application_name": "optsched",
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": SILENT_S * 1000,
        },
    )

    @event.listens_for(engine, "connect")
    def set_up(raw: object, record: object) -> None:
        raw.autocommit = True  # type: ignore[attr-defined]
        with raw.cursor() as cursor:  # type: ignore[attr-defined]
            for statement in _SET_UP:
                cursor.execute(statement)
        raw.autocommit = False  # type: ignore[attr-defined]

    return engine


def fault_of(name: str, error: DBAPIError) -> StoreError:
    """Return what an error of PostgreSQL means for the store of a name."""
    state = getattr(error.orig, "sqlstate", None) or ""
    said = (str(error.orig).strip().splitlines() or ["no details"])[0]
    if error.statement is None and not error.connection_invalidated:
        return StoreError(f"{name}: cannot be reached: {said}")
    if error.connection_invalidated or not state or state[:2] in ("08", "57"):
        return StoreLost(f"{name}: the connection was lost ({said}); open it again to learn what is stored")
    if state == "53100":
        return StoreFull(f"{name}: no room is left; nothing was stored")
    if state in ("XX001", "XX002"):
        return StoreDamaged(f"{name}: is damaged ({said})")
    return StoreError(f"{name}: {said}")
