"""A store of an older version opens; one of a later version is refused; a step that fails changes nothing."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import Connection, inspect, text

from optsched.engine.codec import restore_bytes
from optsched.engine.log import LogEntry
from optsched.errors import StoreError, StoreTooNew
from optsched.store import SqlStore, database_of, open_store
from optsched.store.migrations import STEPS, Step
from optsched.store.tables import metadata
from optsched.values.ids import JobId, NodeId
from tests.store.places import SqlPlace, all_history, known, submits
from tests.store.versions import KEYS, LOG, ROUNDS, STATE, file_of


def store_of(url: str, *more: Step) -> SqlStore:
    """A store as a later version of the code would open it."""
    return SqlStore(database_of(url), steps=(*STEPS, *more))


def columns(store: SqlStore) -> dict[str, set[str]]:
    """The tables that are there, with their columns."""
    assert store._engine is not None
    there = inspect(store._engine)
    return {name: {each["name"] for each in there.get_columns(name)} for name in there.get_table_names()}


@pytest.mark.parametrize("version", range(1, len(STEPS) + 1))
def test_a_file_of_an_older_version_opens(version: int, tmp_path: Path):
    """As its own code wrote it: everything that was in it is there, and it goes on."""
    path = shutil.copy(file_of(version), tmp_path / "store.db")
    store = open_store(f"sqlite:///{path}")
    found = store.open()
    assert (found.epoch, found.sequence, found.state) == (2, 6, STATE)
    assert found.entries == tuple(LOG[6:])
    assert restore_bytes(STATE).jobs[JobId("old")].job.placement == {NodeId("n1"): 4}
    assert {key: known(store, key) for key in KEYS} == KEYS
    assert [store.round(each.number) for each in ROUNDS] == ROUNDS
    assert all_history(store, "j1") == [1, 5, 6, 8]
    store.append(submits(11, 11))
    store.save_state(11, b"later")
    store.close()


def test_every_version_has_its_file():
    """Who adds a step writes its file: `python -m tests.store.versions`."""
    assert all(file_of(version).exists() for version in range(1, len(STEPS) + 1))


def test_the_steps_lead_to_the_tables_that_are_used(disk: SqlPlace):
    """Each table with just the columns that the code reads and writes."""
    store = disk.store()
    store.open()
    assert isinstance(store, SqlStore)
    assert columns(store) == {name: {each.name for each in table.columns} for name, table in metadata.tables.items()}


def add_column(connection: Connection) -> None:
    """A version 2: users beside jobs."""
    connection.execute(text("ALTER TABLE optsched_concerns ADD COLUMN weight INTEGER NOT NULL DEFAULT 1"))


def add_table(connection: Connection) -> None:
    """A version 3: a table that is filled from another one."""
    connection.execute(text("CREATE TABLE optsched_jobs AS SELECT DISTINCT job FROM optsched_concerns"))


def fail(connection: Connection) -> None:
    """A version 3 that breaks half-way."""
    add_table(connection)
    connection.execute(text("DELETE FROM optsched_log"))
    connection.execute(text("INSERT INTO optsched_nowhere VALUES (1)"))


def filled(disk: SqlPlace) -> Sequence[LogEntry]:
    """Put entries into a store of the present version, and return them."""
    store = disk.store()
    store.open()
    store.append(submits(1, 5))
    disk.clear()
    return submits(1, 5)


def test_steps_are_taken_in_order_from_where_a_store_stands(disk: SqlPlace):
    """From the present version over the next to the one after; each once."""
    given = filled(disk)
    store = store_of(disk.url, add_column)
    assert store.open().entries == tuple(given)
    store.close()
    store = store_of(disk.url, add_column, add_table)
    assert store.open().entries == tuple(given)
    assert "weight" in columns(store)["optsched_concerns"]
    assert columns(store)["optsched_jobs"] == {"job"}
    store.append(submits(6, 6))
    store.close()
    store = store_of(disk.url, add_column, add_table)
    assert len(store.open().entries) == 6
    store.close()


def test_a_step_that_fails_changes_nothing(disk: SqlPlace):
    """The steps before it stay taken; the store opens again as soon as the code is mended."""
    given = filled(disk)
    store = store_of(disk.url, add_column, fail)
    with pytest.raises(StoreError, match="optsched_nowhere"):
        store.open()
    store = store_of(disk.url, add_column)
    assert store.open().entries == tuple(given)
    assert "optsched_jobs" not in columns(store)
    store.close()
    store = store_of(disk.url, add_column, add_table)
    assert store.open().entries == tuple(given)
    store.close()


def test_a_store_of_a_later_version_is_refused_in_one_line(disk: SqlPlace):
    """And left as it is: the later code still opens it."""
    filled(disk)
    store = store_of(disk.url, add_column)
    store.open()
    store.close()
    with pytest.raises(StoreTooNew) as caught:
        disk.store().open()
    last = len(STEPS)
    said = f"the store is of version {last + 1}, and this optsched knows versions up to {last}: use a later one"
    assert str(caught.value) == f"{database_of(disk.url).name}: {said}"
    store = store_of(disk.url, add_column)
    assert store.open().epoch == 3
    store.close()


def test_bodies_of_a_later_format_are_refused(tmp_path: Path):
    """The tables may be the same while what is in them is not."""
    path = tmp_path / "store.db"
    store = open_store(f"sqlite:///{path}")
    store.open()
    store.close()
    raw = sqlite3.connect(path)
    raw.execute("UPDATE optsched_head SET format = 99")
    raw.commit()
    raw.close()
    with pytest.raises(StoreTooNew, match="what is stored is in format 99, and this optsched reads formats up to 1"):
        store.open()


def test_an_empty_file_becomes_a_store(tmp_path: Path):
    """As one that was made to fix its owner and mode."""
    path = tmp_path / "store.db"
    path.touch()
    store = open_store(f"sqlite:///{path}")
    assert store.open().epoch == 1
    store.close()
    assert store.open().epoch == 2
    store.close()
