"""One process writes. Who was deposed without noticing stores nothing more."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from optsched.engine.ports import Store
from optsched.errors import StoreDeposed, StoreError, StoreInUse, StoreLost
from optsched.store import SqlStore
from tests.docs.pages import ROOT
from tests.store.places import SqlPlace, known, record, submits
from tests.store.server import Server


def depose(store: Store) -> None:
    """Take the lock away from a store that is open, so that it does not notice."""
    assert isinstance(store, SqlStore)
    assert store._writer is not None
    if store._writer.dialect.name == "sqlite":
        Path(f"{store.name}.lock").unlink()
    else:
        with store._writer.begin():
            store._writer.execute(text("SELECT pg_advisory_unlock_all()"))


def test_a_second_writer_is_refused_in_one_line(disk: SqlPlace):
    """In another process, as long as the first is open; the first goes on."""
    first = disk.store()
    first.open()
    first.append(submits(1, 1))
    code = f"from optsched.store import open_store; open_store({disk.url!r}).open()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    if disk.url.startswith("sqlite"):
        assert said == f"optsched.errors.StoreInUse: {disk.url[10:]}: in use by process {os.getpid()}"
    else:
        assert said.startswith("optsched.errors.StoreInUse: postgresql://optsched@/postgres?")
        assert said.endswith(": another scheduler leads")
    first.append(submits(2, 2))
    first.close()
    second = disk.beside()
    assert second.open().entries == tuple(submits(1, 2))


def test_who_was_refused_may_try_again(disk: SqlPlace):
    """One that stands by opens its store until it succeeds."""
    first, second = disk.beside(), disk.beside()
    first.open()
    for _ in range(3):
        with pytest.raises(StoreInUse):
            second.open()
    first.close()
    assert second.open().epoch == 2
    with pytest.raises(StoreInUse):
        first.open()


def test_a_deposed_writer_stores_nothing_more(disk: SqlPlace):
    """Whatever it tries; who took over goes on with numbers of its own."""
    first, second = disk.beside(), disk.beside()
    first.open()
    first.append(submits(1, 2))
    depose(first)
    assert second.open().entries == tuple(submits(1, 2))
    for call in (
        lambda: first.append(submits(3, 3), {"key": b"x"}),
        lambda: first.append([], {"key": b"x"}),
        lambda: first.save_state(2, b"late"),
        lambda: first.add_round(record(1)),
    ):
        with pytest.raises(StoreDeposed, match="another scheduler has opened the store since"):
            call()
    second.append(submits(3, 4))
    assert known(second, "key") is None
    assert second.rounds(None, 9) == []
    found = disk.store().open()
    assert (found.epoch, found.state, found.entries) == (3, None, tuple(submits(1, 4)))


@pytest.fixture
def place(server: Server, request: pytest.FixtureRequest):
    """A place in the server."""
    made = SqlPlace(server.schema(f"leader_{abs(hash(request.node.name))}"))
    yield made
    made.clear()


def waits_for_lock(url: str) -> bool:
    """Whether somebody in the server waits for somebody else's transaction."""
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with engine.connect() as connection:
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            return bool(connection.execute(text(waiting)).scalar())
    finally:
        engine.dispose()


def test_who_takes_over_sees_what_was_on_its_way(place: SqlPlace):
    """The old leader is in the middle of an append: the new one waits for its end, and has it."""
    first, second = place.beside(), place.beside()
    first.open()
    depose(first)
    found = []
    assert isinstance(first, SqlStore)
    with first._change() as (writer, _):
        opening = threading.Thread(target=lambda: found.append(second.open()))
        opening.start()
        while not waits_for_lock(place.url):
            time.sleep(0.01)
        writer.execute(text("UPDATE optsched_head SET sequence = 1"))
        writer.execute(text("INSERT INTO optsched_state VALUES (1, 0, '')"))
        writer.execute(text("DELETE FROM optsched_state"))
        writer.execute(text("UPDATE optsched_head SET sequence = 0, round = 7"))
    opening.join()
    assert found[0].epoch == 2
    second.add_round(record(8))
    with pytest.raises(StoreDeposed):
        first.append(submits(1, 1))


def test_a_server_that_restarts_is_a_lost_connection(place: SqlPlace, server: Server):
    """What was acknowledged is there; the leader has to open its store again, and nothing goes on before that."""
    store = place.store()
    store.open()
    store.append(submits(1, 3))
    server.stop()
    server.start()
    for _ in range(2):
        with pytest.raises(StoreLost, match="open it again to learn what is stored"):
            store.append(submits(4, 4))
    assert known(store, "x") is None
    store.close()
    assert store.open().entries == tuple(submits(1, 3))
    store.append(submits(4, 4))


def test_a_leader_whose_session_is_ended_is_followed_by_another(place: SqlPlace):
    """The lock goes with the session; the old leader learns it with its next append."""
    first, second = place.beside(), place.beside()
    first.open()
    assert isinstance(first, SqlStore)
    assert first._writer is not None
    with first._writer.begin():
        pid = first._writer.execute(text("SELECT pg_backend_pid()")).scalar()
    engine = create_engine(place.url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        assert connection.execute(text("SELECT pg_terminate_backend(:pid, 10000)"), {"pid": pid}).scalar()
    engine.dispose()
    second.open()
    second.append(submits(1, 1))
    with pytest.raises(StoreLost):
        first.append(submits(1, 1))
    first.close()
    with pytest.raises(StoreInUse):
        first.open()


def test_a_server_that_is_not_there_is_told_in_one_line(tmp_path: Path):
    """With the place, without the password."""
    pytest.importorskip("psycopg")
    place = SqlPlace(f"postgresql://ada:secret@/nowhere?host={tmp_path}")
    with pytest.raises(StoreError, match="cannot be reached") as caught:
        place.store().open()
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "ada:***@" in str(caught.value)


def test_a_schema_that_is_not_there_is_told(server: Server):
    """The tables need a place."""
    with pytest.raises(StoreError, match="the search path names no schema"):
        SqlPlace(f"{server.url}&options=-csearch_path%3Dnowhere").store().open()
