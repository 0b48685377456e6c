"""A URL says which store is meant; a wrong one is refused in one line that never shows a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from optsched.errors import UsageError
from optsched.store import MemoryStore, Retention, SqlStore, open_store


def test_a_url_names_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Memory, a file (relative or absolute), a server."""
    pytest.importorskip("psycopg")
    assert isinstance(open_store("memory:"), MemoryStore)
    monkeypatch.chdir(tmp_path)
    store = open_store(f"sqlite:///{tmp_path}/a b.db")
    assert isinstance(store, SqlStore)
    assert store.name == f"{tmp_path}/a b.db"
    store = open_store("sqlite:///here.db")
    store.open()
    store.close()
    assert (tmp_path / "here.db").exists()
    server = open_store("postgresql://ada:secret@db/optsched")
    assert isinstance(server, SqlStore)
    assert server.name == "postgresql://ada:***@db/optsched"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("store.db", "store.db is no URL of a store"),
        ("", " is no URL of a store"),
        ("mysql://ada:secret@db/optsched", "mysql is no kind of store"),
        ("postgresql+asyncpg://ada:secret@db/optsched", "postgresql+asyncpg is no kind of store"),
        ("postgresql://ada:secret@db:port/optsched", "postgresql:… is no URL of a store"),
        ("sqlite://", "sqlite:// names no file of a store"),
        ("sqlite:///:memory:", "sqlite:///:memory: names no file of a store"),
        ("sqlite://host/file", "sqlite://host/file names no file of a store"),
        ("sqlite:///file?mode=ro", "sqlite:///file?mode=ro names no file of a store"),
    ],
)
def test_a_url_that_names_no_store_is_refused(url: str, said: str):
    """With what is allowed."""
    with pytest.raises(UsageError) as caught:
        open_store(url)
    allowed = "memory:, sqlite:///PATH (absolute: sqlite:////PATH), postgresql://USER@HOST/DATABASE"
    assert str(caught.value) == f"{said}; allowed: {allowed}"


def test_a_retention_below_nothing_is_refused():
    """By the name of its field."""
    with pytest.raises(UsageError, match="retention keys: -1 is below 0"):
        Retention(keys=-1)
    with pytest.raises(UsageError, match="retention history_s: nan is below 0"):
        Retention(history_s=float("nan"))
