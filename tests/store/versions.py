"""What the store files in `data/` hold, one for each version of the tables that was ever released.

`python -m tests.store.versions` writes the file of the version that the code now has; those of older versions
are kept as their own code wrote them, and never written anew.
"""

from __future__ import annotations

from pathlib import Path

from optsched.engine import events as ev
from optsched.engine.codec import save_bytes
from optsched.engine.log import LogEntry
from optsched.engine.state import initial
from optsched.store import open_store
from optsched.store.migrations import STEPS
from optsched.values.ids import JobId
from tests.builders import job, nodes, snapshot
from tests.store.places import decided, entries, record, started, submits

DATA = Path(__file__).parent / "data"

LOG: list[LogEntry] = [
    *submits(1, 4),
    *entries(5, decided("j1", "j2", waits=20), started("j1"), ev.Tick(), ev.Preempt(JobId("j1"), "for a test")),
    *submits(9, 10),
]
"""The state is that after entry 6."""

STATE = save_bytes(initial(snapshot(nodes("n1 n2", 8), job("old").running(n1=4))))
KEYS = {"first": b'{"job_id": "j1"}', "last": b'{"job_id": "j10"}'}
ROUNDS = [record(1, plan=b'{"starts": []}' * 100), record(2)]


def file_of(version: int) -> Path:
    """Return where the file of a version lies."""
    return DATA / f"version-{version}.db"


def write(path: Path) -> None:
    """Write a store with all of that, as this version of the code does."""
    store = open_store(f"sqlite:///{path}")
    store.open()
    store.append(LOG[:6], {"first": KEYS["first"]})
    store.save_state(6, STATE)
    store.append(LOG[6:], {"last": KEYS["last"]})
    for each in ROUNDS:
        store.add_round(each)
    store.close()
    Path(f"{path}.lock").unlink()


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    assert not file_of(len(STEPS)).exists(), "a file of a version is written once"
    write(file_of(len(STEPS)))
