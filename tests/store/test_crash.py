"""What was acknowledged outlives a kill at any moment; what was half written is never seen."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from optsched.engine.log import LogEntry
from optsched.engine.ports import Recovered, Store
from optsched.errors import StoreInUse
from optsched.store import SqlStore, open_store
from optsched.store.sqlite import SqliteDatabase
from tests.docs.pages import ROOT
from tests.store.appender import STATE
from tests.store.places import SqlPlace, all_history, known, record, submits

KILLS = int(os.environ.get("STORE_KILLS", "5"))


def killed(url: str, seed: int) -> dict[str, int]:
    """Let a process store things, kill it at a moment drawn from the seed, and return the last of each it said."""
    draw = np.random.default_rng(1000 + seed)
    command = [sys.executable, "-m", "tests.store.appender", url, str(seed)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(int(draw.integers(1, 30)))]
        assert all(said), "it ended by itself"
        time.sleep(float(draw.random()) * 0.02)
        process.kill()
        said += process.stdout.readlines()
    last: dict[str, int] = {}
    for line in said:
        # The last line may be cut.
        if line.endswith("\n"):
            what, number = line.split()
            last[what] = int(number)
    return last


def test_what_was_acknowledged_outlives_a_kill(disk: SqlPlace):
    """A writer is killed again and again, each time at another point; the next goes on where it stood."""
    said = {"ack": 0, "state": 0, "round": 0}
    for seed in range(KILLS):
        said |= killed(disk.url, seed)
        store = disk.store()
        found = wait_open(store)
        last = found.sequence + len(found.entries)
        assert last >= said["ack"], seed
        assert found.sequence >= said["state"], seed
        assert found.state == (STATE % found.sequence if found.sequence else None), seed
        assert list(found.entries) == submits(found.sequence + 1, last), seed
        # Whole batches: the key of the last one is there, and says where it began.
        answer = known(store, str(last))
        assert answer is not None, seed
        first = int(answer)
        assert all(known(store, str(number)) is None for number in range(first, last)), seed
        assert known(store, str(first - 1)) is not None or first == 1, seed
        assert [all_history(store, f"j{n}") for n in range(first, last + 1)] == [[n] for n in range(first, last + 1)]
        numbers = [each.number for each in store.rounds(None, 10_000)]
        assert numbers == list(range(len(numbers), 0, -1)), seed
        assert len(numbers) >= said["round"], seed
        if numbers:
            assert store.round(numbers[0]) == record(numbers[0], plan=b"{}" * 5000)
        disk.clear()


def wait_open(store: Store) -> Recovered:
    """Open a store whose last writer was just killed: a server may take a moment to notice."""
    for _ in range(200):
        try:
            return store.open()
        except StoreInUse:
            time.sleep(0.05)
    return store.open()


def test_a_file_that_is_cut_anywhere_shows_whole_batches(tmp_path: Path):
    """As after a loss of power: of the write-ahead log any part may be missing, or be nonsense from somewhere on."""
    draw = np.random.default_rng(7)
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    store.open()
    ends, last = [0], 0
    for _ in range(30):
        size = int(draw.integers(1, 20))
        store.append(submits(last + 1, last + size), {f"b{last + size}": b""})
        last += size
        ends.append(last)
    wal = (tmp_path / "store.db-wal").read_bytes()
    seen = set()
    for number in range(25):
        folder = tmp_path / f"cut{number}"
        folder.mkdir()
        shutil.copy(tmp_path / "store.db", folder / "store.db")
        at = int(draw.integers(0, len(wal)))
        rest = draw.bytes(len(wal) - at) if number % 2 else b""
        (folder / "store.db-wal").write_bytes(wal[:at] + rest)
        cut = open_store(f"sqlite:///{folder}/store.db")
        found = cut.open()
        assert list(found.entries) == submits(1, len(found.entries))
        assert len(found.entries) in ends
        end = len(found.entries)
        assert not end or known(cut, f"b{end}") is not None
        cut.append(submits(end + 1, end + 1))
        cut.close()
        seen.add(end)
    assert len(seen) > 5


def test_every_commit_waits_for_the_disk(tmp_path: Path):
    """WAL, and synchronous at FULL, on the connection that writes."""
    store = SqlStore(SqliteDatabase(str(tmp_path / "store.db")))
    store.open()
    assert store._writer is not None
    raw = store._writer.connection.driver_connection
    assert raw is not None
    assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert raw.execute("PRAGMA synchronous").fetchone() == (2,)
    store._writer.rollback()
    store.append(submits(1, 1))
    store.close()


@pytest.mark.parametrize("stop_after", [0, 1, 2, 3])
def test_a_crash_while_old_things_are_dropped_leaves_a_whole_store(disk: SqlPlace, stop_after: int):
    """The state is stored first; dropping goes on with the next state, however far it came."""
    store = disk.store()
    store.open()
    store.append(submits(1, 50))
    parts = store._prune.parts()

    def crash(_writer: object) -> bool:
        raise KeyboardInterrupt

    store._prune.parts = lambda: (*parts[:stop_after], crash)  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        store.save_state(50, b"state")
    store = disk.store()
    found = store.open()
    assert (found.sequence, found.state, found.entries) == (50, b"state", ())
    store.append([LogEntry(51, 1e9, submits(51, 51)[0].event)])
    store.save_state(51, b"later")
    assert all(not all_history(store, f"j{n}") for n in range(1, 51))
    assert all_history(store, "j51") == [51]


def test_a_copy_that_sqlite_makes_of_an_open_store_is_a_backup(tmp_path: Path):
    """As `sqlite3 FILE .backup` does: all that was acknowledged before it, and it opens without the file's log."""
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    store.open()
    store.append(submits(1, 20), {"key": b"answer"})
    store.save_state(5, b"state")
    reader = sqlite3.connect(tmp_path / "store.db")
    copy = sqlite3.connect(tmp_path / "copy.db")
    reader.backup(copy)
    reader.close()
    copy.close()
    store.append(submits(21, 30))
    store.close()
    backup = open_store(f"sqlite:///{tmp_path}/copy.db")
    found = backup.open()
    assert (found.sequence, found.state) == (5, b"state")
    assert found.entries == tuple(submits(6, 20))
    assert known(backup, "key") == b"answer"
    backup.close()
