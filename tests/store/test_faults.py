"""Files that are damaged, foreign, full or closed to us: one clear line, and nothing half done."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy.exc import OperationalError

from optsched.errors import OptschedError, StoreDamaged, StoreError, StoreFull, StoreInUse, StoreLost
from optsched.store import SqlStore, open_store, sqlite
from optsched.store.postgresql import fault_of
from tests.docs.pages import ROOT
from tests.store.places import known, record, submits


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store with a state after entry 20, entries 21 to 60 behind it, and two rounds; closed."""
    path = tmp_path / "store.db"
    store = open_store(f"sqlite:///{path}")
    store.open()
    store.append(submits(1, 60), {"key": b"answer"})
    store.save_state(20, b"state" * 1000)
    store.add_round(record(1, plan=b"plan" * 1000))
    store.add_round(record(2))
    store.close()
    return path


def refused(path: object, kind: type[OptschedError] = StoreDamaged) -> str:
    """Return the line with which a file is refused, after its name."""
    store = open_store(f"sqlite:///{path}")
    with pytest.raises(kind) as caught:
        store.open()
    said = str(caught.value)
    assert said.startswith(f"{path}: "), said
    assert "\n" not in said
    with pytest.raises(OptschedError, match="is not open"):
        known(store, "x")
    return said.removeprefix(f"{path}: ")


def run(path: Path, sql: str) -> None:
    """Change a store behind its back."""
    raw = sqlite3.connect(path)
    raw.executescript(sql)
    raw.close()


def test_a_file_that_is_no_store_is_left_as_it_is(tmp_path: Path):
    """Text; a short file; the database of another program; a folder."""
    text = tmp_path / "notes.txt"
    text.write_text("buy milk\n" * 100)
    other = tmp_path / "other.db"
    run(other, "CREATE TABLE songs (name TEXT)")
    for path, said in (
        (text, "is no SQLite file"),
        (other, "is a SQLite file, but no store of optsched"),
    ):
        before = path.read_bytes()
        assert refused(path) == said
        assert path.read_bytes() == before
    assert refused(tmp_path, StoreError) == "is a folder"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path):
    """With what the system says."""
    said = refused(tmp_path / "no" / "store.db", StoreError)
    assert said == f"cannot be opened for writing: No such file or directory ({tmp_path}/no/store.db.lock)"


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("UPDATE optsched_log SET body = '{}' WHERE sequence = 33", "entry 33 of the log is not what was written"),
        ("UPDATE optsched_log SET crc = 7 WHERE sequence = 60", "entry 60 of the log is not what was written"),
        ("DELETE FROM optsched_log WHERE sequence = 40", "entry 40 of the log is missing"),
        ("DELETE FROM optsched_log WHERE sequence = 60", "entry 60 of the log is missing"),
        ("UPDATE optsched_state SET body = zeroblob(10)", "the saved state is not what was written"),
        ("DELETE FROM optsched_state", "the saved state is missing"),
        ("UPDATE optsched_log SET at = at + 1 WHERE sequence = 33", "entry 33 of the log is not what was written"),
        ("UPDATE optsched_log SET at = 'now' WHERE sequence = 33", "entry 33 of the log is not what was written"),
        ("DELETE FROM optsched_head", "the store has lost its head"),
        ("DELETE FROM optsched_schema", "the store has lost its version"),
        ("DROP TABLE optsched_schema", "the store has lost its version"),
    ],
)
def test_what_is_needed_and_damaged_is_named(file: Path, sql: str, said: str):
    """What a restart needs is checked when the store is opened."""
    run(file, sql)
    assert refused(file).startswith(said)


def test_a_plan_that_is_damaged_is_told_when_it_is_read(file: Path):
    """All else goes on."""
    run(file, "UPDATE optsched_plan SET body = zeroblob(9) WHERE number = 1")
    run(file, "UPDATE optsched_round SET gap = 0.5 WHERE number = 2")
    store = open_store(f"sqlite:///{file}")
    store.open()
    with pytest.raises(StoreDamaged, match="the plan of round 1 cannot be read"):
        store.round(1)
    with pytest.raises(StoreDamaged, match="round 2 is not what was written"):
        store.round(2)
    store.add_round(record(3))
    assert store.round(3) == record(3)
    store.close()


def test_a_damaged_page_never_passes_for_something_else(file: Path):
    """A page is overwritten or zeroed, or the file is cut: it opens with what was written, or not at all."""
    draw = np.random.default_rng(11)
    whole = file.read_bytes()
    pages = len(whole) // 4096
    faults: list[str] = []
    for number in range(40):
        page = int(draw.integers(0, pages))
        if number % 4 == 3:
            damaged = whole[: page * 4096]
        else:
            part = bytes(4096) if number % 2 else draw.bytes(4096)
            damaged = whole[: page * 4096] + part + whole[(page + 1) * 4096 :]
        if not damaged:
            continue
        file.write_bytes(damaged)
        for suffix in ("-wal", "-shm"):
            Path(f"{file}{suffix}").unlink(missing_ok=True)
        store = open_store(f"sqlite:///{file}")
        try:
            found = store.open()
            assert (found.sequence, found.state) == (20, b"state" * 1000)
            assert found.entries == tuple(submits(21, 60))
            assert store.round(1) in (record(1, plan=b"plan" * 1000), None)
        except StoreError as error:
            faults.append(str(error))
        finally:
            store.close()
    assert len(faults) > 10
    assert [said for said in faults if not said.startswith(f"{file}: ")] == []


def fill(store: SqlStore, first: int) -> int:
    """Append until there is no room, and return the number of the last entry that was stored."""
    ends: list[int] = [first]

    def go_on() -> None:
        while ends[-1] < 500_000:
            last = ends[-1] + 50
            store.append(submits(last - 49, last), {f"k{last}": b"x" * 1000})
            ends.append(last)

    with pytest.raises(StoreFull) as caught:
        go_on()
    assert str(caught.value) == f"{store.name}: no room is left; nothing was stored"
    return ends[-1]


def test_a_full_disk_stores_nothing_and_goes_on_once_there_is_room(file: Path):
    """As a quota of pages: the batch that does not fit is not there, and the same goes in later."""
    store = SqlStore(sqlite.SqliteDatabase(str(file)))
    store.open()
    assert store._writer is not None

    def quota(pages: int) -> None:
        assert store._writer is not None
        raw = store._writer.connection.driver_connection
        assert raw is not None
        raw.execute(f"PRAGMA max_page_count = {pages}")
        store._writer.rollback()

    quota(200)
    last = fill(store, 60)
    assert last > 60
    with pytest.raises(StoreFull):
        store.save_state(last, os.urandom(2_000_000))
    with pytest.raises(StoreFull):
        store.add_round(record(3, plan=os.urandom(2_000_000)))
    assert known(store, f"k{last}") is not None
    assert known(store, f"k{last + 50}") is None
    assert [each.number for each in store.rounds(None, 9)] == [2, 1]
    quota(100_000)
    store.append(submits(last + 1, last + 50))
    store.close()
    store.open()
    store.close()


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A filesystem of 1 MiB."""
    folder = Path(tempfile.mkdtemp())
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    done = subprocess.run(mount, capture_output=True, check=False) if shutil.which("mount") else None
    if done is None or done.returncode:
        folder.rmdir()
        pytest.skip("no filesystem may be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
    folder.rmdir()


def test_a_disk_that_is_really_full_loses_nothing(small_disk: Path):
    """A filesystem of 1 MiB: what was acknowledged is there after it filled up, also when it is opened while full."""
    path = small_disk / "store.db"
    store = SqlStore(sqlite.SqliteDatabase(str(path)))
    store.open()
    last = fill(store, 0)
    assert last > 0
    store.close()
    # Opening writes its epoch: make a little room for that, and no more.
    subprocess.run(["mount", "-o", "remount,size=1100k", str(small_disk)], check=True)
    assert store.open().entries == tuple(submits(1, last))
    assert fill(store, last) >= last
    store.close()


CHILD = """
import os, sys
from optsched.errors import StoreError
from optsched.store import open_store
from tests.store.places import submits
store = open_store("sqlite:///" + sys.argv[1])
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
try:
    store.open()
except StoreError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that others may look into."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("close", "said"),
    [
        (lambda folder: None, "cannot be opened for writing: Permission denied ({folder}/store.db.lock)"),
        (
            lambda folder: (folder / "store.db.lock").chmod(0o666),
            "cannot be written: its files and its folder must be writable (attempt to write a readonly database)",
        ),
    ],
    ids=["folder", "file"],
)
def test_what_may_not_be_written_is_told(shared_folder: Path, close: Callable[[Path], None], said: str):
    """A store of somebody else, in a folder of somebody else: it is left as it is."""
    path = shared_folder / "store.db"
    store = open_store(f"sqlite:///{path}")
    store.open()
    store.append(submits(1, 3))
    store.close()
    path.chmod(0o444)
    close(shared_folder)
    if os.getuid() != 0:
        (shared_folder / "store.db.lock").chmod((shared_folder / "store.db.lock").stat().st_mode & ~0o200)
        shared_folder.chmod(0o555)
    before = path.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout == f"StoreError {path}: {said.format(folder=shared_folder)}\n"
    assert path.read_bytes() == before


def test_a_file_that_another_program_has_locked_is_told(file: Path, monkeypatch: pytest.MonkeyPatch):
    """Nothing is stored, and the same goes in once it is free."""
    monkeypatch.setattr(sqlite, "BUSY_MS", 50)
    store = open_store(f"sqlite:///{file}")
    store.open()
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreInUse, match="another program has locked it"):
        store.append(submits(61, 61))
    other.execute("ROLLBACK")
    other.close()
    store.append(submits(61, 61))
    store.close()


def test_only_its_owner_may_read_a_new_file(file: Path):
    """Jobs name commands and environments."""
    assert file.stat().st_mode & 0o777 == 0o600


class _Said(Exception):
    def __init__(self, state: str | None) -> None:
        self.sqlstate = state
        super().__init__("it says so\nand more")


@pytest.mark.parametrize(
    ("state", "kind"),
    [("53100", StoreFull), ("08006", StoreLost), ("57P01", StoreLost), (None, StoreLost), ("XX001", StoreDamaged)],
)
def test_what_a_server_says_is_told_in_one_line(state: str | None, kind: type[StoreError]):
    """By its SQLSTATE: full, gone, damaged."""
    fault = fault_of("there", OperationalError("INSERT", {}, _Said(state)))
    assert type(fault) is kind
    assert str(fault).startswith("there: ")
    assert "\n" not in str(fault)
    plain = fault_of("there", OperationalError("INSERT", {}, _Said("42501")))
    assert (type(plain), str(plain)) == (StoreError, "there: it says so")
