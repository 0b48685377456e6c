"""Jobs that have ended leave the state after a while, so that it does not grow for ever.

That is decided with the time that passes, as a part of the events, so whoever takes in the same events forgets the same
jobs. What became of them is for the store to keep.
"""

from __future__ import annotations

import math
from itertools import islice

from optsched.engine.draft import Draft
from optsched.engine.records import Records
from optsched.engine.state import JobRecord, State

MOST_AT_ONCE = 5_000
"""Ended jobs that one tick looks at."""


def forget(draft: Draft) -> None:
    """Let go of the jobs that ended first, where they ended long ago or are too many; not of those that others name."""
    kept_s, most = draft.before.settings.ended_kept_s, draft.before.settings.ended_kept
    if kept_s is None and most is None:
        return
    until = -math.inf if kept_s is None else draft.now - kept_s
    over = 0 if most is None else len(draft.ended) - most
    old: list[JobRecord] = []
    for number, record in enumerate(islice(draft.ended.values(), MOST_AT_ONCE)):
        if number >= over and _ended_at(record) > until:
            break
        old.append(record)
    if not old:
        return
    # Where a job waits for others, what became of those has to be known.
    needed = {after.job for record in draft.jobs.values() for after in record.after}
    gone = {record.id for record in old if record.id not in needed}
    if gone:
        draft.ended = Records.of(draft.ended).without(gone)


def next_forgetting(state: State) -> float:
    """Return the instant from which the job that ended first may be forgotten, infinity where there is none."""
    kept_s, most = state.settings.ended_kept_s, state.settings.ended_kept
    first = next(iter(state.ended.values()), None)
    if first is None:
        return math.inf
    if most is not None and len(state.ended) > most:
        # Some that are named may have to stay: then it is looked again now and then.
        return math.nextafter(state.now, math.inf)
    return math.inf if kept_s is None else max(_ended_at(first) + kept_s, math.nextafter(state.now, math.inf))


def forgotten(before: State, after: State) -> list[JobRecord]:
    """Return the jobs that one step has let go of."""
    if after.ended is before.ended:
        return []
    return [each for name, each in before.ended.items() if name not in after.ended and name not in after.jobs]


def _ended_at(record: JobRecord) -> float:
    return -math.inf if record.ended_at is None else record.ended_at
