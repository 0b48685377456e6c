"""Stores to test: one in memory, one in a SQLite file, one in a real PostgreSQL server where its programs are there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.places import MemoryPlace, Place, SqlPlace
from tests.store.server import Server, programs, running

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A PostgreSQL server of this test process."""
    found = programs()
    if found is None:
        pytest.skip("no PostgreSQL server is installed (Debian: apt install postgresql)")
    with running(found) as started:
        yield started


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A place for a store, of each kind."""
    if request.param == "memory":
        made: Place = MemoryPlace()
    else:
        made = SqlPlace(_url(request, tmp_path))
    yield made
    made.clear()


@pytest.fixture(params=["sqlite", "postgresql"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqlPlace]:
    """A place for a store that outlives its process."""
    made = SqlPlace(_url(request, tmp_path))
    yield made
    made.clear()


def _url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    url: str = request.getfixturevalue("server").schema(f"store_{next(_NUMBERS)}")
    return url
