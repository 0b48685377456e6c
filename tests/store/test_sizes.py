"""Ninety days of events stay in the room that is stated for them, and are as many rows as the retention says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import func, select

from optsched.engine import events as ev
from optsched.engine.log import LogEntry
from optsched.store import Retention, SqlStore, open_store
from optsched.store.packed import pack_entry
from optsched.store.retention import DAY_S, KEY_BYTES, MIB
from optsched.store.tables import concerns, head, keys, log, plans, rounds, state, waiting
from optsched.values.ids import JobId, NodeId, TeamId
from optsched.values.job import Job
from tests.store.places import SqlPlace, decided, record, started

DAYS = 90
JOBS = 12
"""A day."""


def day(number: int) -> Iterator[tuple[float, ev.Event]]:
    """What a day brings: 12 jobs of 11 entries each, and 24 that only tell the time."""
    draw = np.random.default_rng(number)
    for hour in range(24):
        yield number * DAY_S + hour * 3600.0, ev.Tick()
        if hour >= JOBS:
            continue
        at = number * DAY_S + hour * 3600.0
        # Names in no order, as front ends give them.
        job = JobId(draw.bytes(8).hex())
        yield at, ev.Submit(Job(job, TeamId("vision"), 8, command=("python", "train.py"), submitted_at=at))
        yield at, decided(job, waits=50)
        yield at, started(job)
        for step in range(6):
            yield at + 1.0, ev.Checkpointed(job, 1, f"step-{step}")
        yield at + 2.0, ev.Report(job, NodeId("n1"), ev.Outcome.OK, 1)
        yield at + 2.0, ev.Finished(job, 1)


def live(store: SqlStore, file: Path | None, most_bytes: float) -> list[int]:
    """Let 90 days pass, a state saved each day; return the largest size of the file, and the number of entries."""
    store.open()
    sequence, largest = 0, 0
    for number in range(DAYS):
        batch = [LogEntry(sequence + each, *happened) for each, happened in enumerate(day(number), 1)]
        store.append(batch, {entry.event.job.id: b"{}" for entry in batch if isinstance(entry.event, ev.Submit)})
        sequence += len(batch)
        for each in range(4):
            plan = np.random.default_rng(each).bytes(6000)
            store.add_round(record(number * 4 + each + 1, at=batch[-1].at, plan=plan))
        store.save_state(sequence, b"state" * 100)
        if file is not None:
            largest = max(largest, file.stat().st_size)
            assert largest <= most_bytes, number
    return [largest, sequence]


def rows(store: SqlStore) -> dict[str, int]:
    """How many rows there are of each kind."""
    with store._look() as reader:
        tables = (log, concerns, waiting, state, rounds, keys)
        return {table.name: reader.execute(select(func.count()).select_from(table)).scalar_one() for table in tables}


def counted(store: SqlStore) -> dict[str, int]:
    """What the head counts, against what is there."""

    with store._look() as reader:
        found = reader.execute(select(head)).one()
        there = {
            "log_bytes": select(func.sum(log.c.size)),
            "round_bytes": select(
                func.sum(rounds.c.size)
                + select(func.coalesce(func.sum(func.length(plans.c.body)), 0)).scalar_subquery()
            ),
            "key_count": select(func.count()).select_from(keys),
        }
        return {name: getattr(found, name) - (reader.execute(sql).scalar() or 0) for name, sql in there.items()}


def test_ninety_days_are_as_many_rows_as_are_kept_by_age(disk: SqlPlace):
    """Thirty days of history, ninety of rounds, seven of keys; of what only tells the time, nothing."""
    store = disk.store(Retention())
    assert isinstance(store, SqlStore)
    _, sequence = live(store, None, 0)
    assert sequence == DAYS * (24 + JOBS * 11)
    found = rows(store)
    # The last entry is at 23:00 of day 89: of day 59 only that hour is left, in which no job came. Keys are as old as
    # the last entry that came with them, so those of day 82, at 23:00, are just seven days old.
    assert found == {
        "optsched_log": 30 * JOBS * 11,
        "optsched_concerns": 30 * JOBS * 11,
        "optsched_waiting": 0,
        "optsched_state": 1,
        "optsched_round": DAYS * 4,
        "optsched_key": 8 * JOBS,
    }
    assert counted(store) == {"log_bytes": 0, "round_bytes": 0, "key_count": 0}


def test_ninety_days_stay_in_the_room_that_is_stated(tmp_path: Path):
    """Of a history of 1 MiB, rounds of 0.5 MiB and 500 keys, the file is never larger than that and a day's entries."""
    keep = Retention(history_s=1e9, history_bytes=MIB, round_bytes=MIB // 2, keys_s=1e9, keys=500)
    assert keep.room_bytes == 1.5 * MIB + 500 * KEY_BYTES
    store = open_store(f"sqlite:///{tmp_path}/store.db", keep)
    assert isinstance(store, SqlStore)
    a_day = sum(
        len(packed.body) + len(packed.waiting or b"") + 100
        for packed in (pack_entry(LogEntry(1, *happened)) for happened in day(1))
    )
    largest, _ = live(store, tmp_path / "store.db", 1.1 * (keep.room_bytes + a_day) + 0.25 * MIB)
    # It was needed: what is kept by age alone would not have fitted.
    assert largest > 0.7 * keep.room_bytes
    found = rows(store)
    assert found["optsched_key"] == 500
    assert found["optsched_round"] == DAYS * 4
    assert found["optsched_log"] == found["optsched_concerns"] < DAYS * JOBS * 11
    assert counted(store) == {"log_bytes": 0, "round_bytes": 0, "key_count": 0}
    assert store.round(DAYS * 4).plan is not None
    assert store.round(1) == record(1, at=store.round(1).at, plan=None)
    store.close()


def test_the_default_room_is_what_the_page_says():
    """1 GiB of history, half a GiB of rounds, a million keys: below 2 GiB."""
    assert Retention().room_bytes == 1024 * MIB + 512 * MIB + 256_000_000 < 2 * 1024 * MIB


@pytest.mark.parametrize("slice_rows", [1, 7, 100])
def test_old_things_go_however_small_the_steps(slice_rows: int, tmp_path: Path):
    """The same is left, whatever is dropped in one transaction."""
    from optsched.store import database_of

    keep = Retention(history_s=5.0, keys_s=10.0, rounds_s=20.0)
    store = SqlStore(database_of(f"sqlite:///{tmp_path}/store.db"), keep, slice_rows=slice_rows)
    store.open()
    for number in range(1, 41, 2):
        event = ev.Submit(Job(JobId(f"j{number}"), TeamId("t"), 8))
        batch = [LogEntry(number, float(number), event), LogEntry(number + 1, float(number + 1), ev.Tick())]
        store.append(batch, {f"k{number}": b""})
        store.add_round(record(number, at=float(number)))
    store.save_state(40, b"state")
    found = rows(store)
    # The last entry is at 40 s: jobs at 35, 37, 39 s are left; keys, as old as the last entry of their batch, at 30,
    # 32, …, 40 s; rounds at 21, 23, …, 39 s.
    assert (found["optsched_log"], found["optsched_key"], found["optsched_round"]) == (3, 6, 10)
    assert counted(store) == {"log_bytes": 0, "round_bytes": 0, "key_count": 0}
    store.close()
