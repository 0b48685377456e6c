"""SQLite: one file, in WAL mode, every commit on the disk before it returns; one process writes, told by a lock."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import struct
from contextlib import suppress
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

from optsched.errors import StoreDamaged, StoreError, StoreFull, StoreInUse, StoreLost

APPLICATION = 0x6F707473
"""What the head of a file says that is a store: "opts"."""

BUSY_MS = 5000
WAL_BYTES = 64 * 2**20
"""What the file of the WAL is cut to after it was large."""


class SqliteDatabase:
    """A file; `path` as it was given."""

    def __init__(self, path: str) -> None:
        self.name = path
        self.path = Path(path)
        self._lock: int | None = None

    def lead(self) -> tuple[Engine, Connection]:
        """Lock the file, make it where there is none, and connect."""
        try:
            self._take_lock()
            self._prepare()
        except OSError as error:
            raise StoreError(f"{self.name}: {_why(error)}") from error
        engine = connect(self.path)
        writer = engine.connect().execution_options(writes=True)
        return engine, writer

    def fault(self, error: DBAPIError) -> StoreError:
        """Return what an error of SQLite means, by its name."""
        return fault_of(self.name, error.orig)

    def leave(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take_lock(self) -> None:
        """Lock a file beside the store: locks on its own file would be lost with any other handle on it."""
        path = f"{self.path.resolve()}.lock"
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(lock, 20).decode("ascii", "replace").strip()
            os.close(lock)
            raise StoreInUse(f"{self.name}: in use by process {holder or '?'}") from None
        except OSError:
            os.close(lock)
            raise
        self._lock = lock
        # For the message above only: a full disk is no reason to stop here.
        with suppress(OSError):
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)

    def _prepare(self) -> None:
        """Mark a new file as a store, for its owner only; refuse one that is something else, and leave it as it is."""
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        if not check_head(self.path, self.name):
            return
        try:
            raw = sqlite3.connect(self.path, isolation_level=None)
            try:
                raw.execute(f"PRAGMA application_id = {APPLICATION}")
            finally:
                raw.close()
        except sqlite3.Error as error:
            raise fault_of(self.name, error) from error


def check_head(path: Path, name: str) -> bool:
    """Return whether a file is empty. Raises StoreDamaged for one that is no store, OSError where it cannot be read."""
    if path.is_dir():
        raise StoreError(f"{name}: is a folder")
    with open(path, "rb") as file:
        first = file.read(100)
    if not first:
        return True
    if not first.startswith(b"SQLite format 3\0") or len(first) < 100:
        raise StoreDamaged(f"{name}: is no SQLite file")
    (application,) = struct.unpack(">I", first[68:72])
    if application != APPLICATION:
        raise StoreDamaged(f"{name}: is a SQLite file, but no store of optsched")
    return False


def connect(path: Path, *, read_only: bool = False) -> Engine:
    """Return where to connect to a file."""
    if read_only:
        url = URL.create("sqlite", database=f"file:{path.resolve()}", query={"mode": "ro", "uri": "true"})
    else:
        url = URL.create("sqlite", database=str(path))
    engine = create_engine(url, max_overflow=-1, connect_args={"check_same_thread": False, "timeout": BUSY_MS / 1000})

    @event.listens_for(engine, "connect")
    def set_up(raw: sqlite3.Connection, record: object) -> None:
        # Transactions begin when we say so, not when the driver thinks that they should.
        raw.isolation_level = None
        if not read_only:
            (mode,) = raw.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise sqlite3.OperationalError(f"the filesystem takes no write-ahead log (journal mode {mode})")
            raw.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
        raw.execute("PRAGMA synchronous = FULL")
        # What a statement of many rows would have to take back is noted in memory rather than in a file.
        raw.execute("PRAGMA temp_store = MEMORY")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def fault_of(name: str, error: BaseException | None) -> StoreError:
    """Return what an error of SQLite means for the store of a name."""
    code = getattr(error, "sqlite_errorname", "")
    kind = "_".join(code.split("_")[:2])
    if kind == "SQLITE_FULL":
        return StoreFull(f"{name}: no room is left; nothing was stored")
    if kind in ("SQLITE_CORRUPT", "SQLITE_NOTADB"):
        return StoreDamaged(f"{name}: is damaged ({error})")
    if kind in ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM"):
        return StoreError(f"{name}: cannot be written: its files and its folder must be writable ({error})")
    if kind in ("SQLITE_BUSY", "SQLITE_LOCKED"):
        return StoreInUse(f"{name}: another program has locked it for more than {BUSY_MS // 1000} s")
    if kind == "SQLITE_IOERR":
        return StoreLost(f"{name}: the disk failed ({error}, {code}); open it again to learn what is stored")
    return StoreError(f"{name}: {error}")


def _why(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    return f"cannot be opened for writing: {error.strerror or error}{where}"
