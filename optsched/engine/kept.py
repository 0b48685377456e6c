"""Jobs that are kept from starting by somebody's word: held, waiting for other jobs, or by the limit of their array."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from optsched.engine import events
from optsched.engine.commands import Kind
from optsched.engine.draft import Draft
from optsched.engine.events import Condition
from optsched.engine.runs import abandon
from optsched.engine.state import JobRecord
from optsched.engine.tables import ENDS
from optsched.errors import Conflict
from optsched.values.ids import JobId
from optsched.values.job import JobState

Jobs = Mapping[JobId, JobRecord]

_HOLDS_GPUS = (JobState.STARTING, JobState.RUNNING, JobState.PREEMPTING)


def hold(draft: Draft, event: events.Hold) -> None:
    """Keep a queued job from starting. Raises Conflict for one that does not wait."""
    record = draft.job(event.job)
    if record.state is not JobState.QUEUED:
        raise Conflict(f"job {record.id} is {record.state.value}: only what waits can be held")
    if record.held is not None:
        draft.note(Kind.STALE, "already held", record.id)
        return
    if record.claim is not None:
        record = abandon(draft, record, "it is held")
    why = f"held{f': {event.reason}' if event.reason else ''}"
    draft.put(replace(record, held=event.reason, unseen=True))
    draft.due = True
    draft.note(Kind.WAITS, why, record.id)


def release(draft: Draft, event: events.Unhold) -> None:
    """Let a job that is held start; one that is not held stays as it is."""
    record = draft.job(event.job)
    if record.held is None:
        draft.note(Kind.STALE, "not held", record.id)
        return
    draft.put(replace(record, held=None, unseen=True))
    draft.due = True
    draft.note(Kind.WAITS, "no longer held", record.id)


def reached(record: JobRecord | None, condition: Condition) -> bool:
    """Return whether a job has come as far as another one waits for."""
    if record is None:
        return False
    match condition:
        case Condition.COMPLETED:
            return record.state is JobState.COMPLETED
        case Condition.ENDED:
            return record.state in ENDS
        case Condition.STARTED:
            begun = record.run - len(record.never_began)
            return begun > 1 or (begun == 1 and record.state is not JobState.STARTING)


def out_of_reach(record: JobRecord | None, condition: Condition) -> bool:
    """Return whether a job will never come as far as another one waits for."""
    return record is None or (record.state in ENDS and not reached(record, condition))


def why_kept(record: JobRecord, jobs: Jobs, ended: Jobs) -> str:
    """Return in a sentence why a queued job may not start by somebody's word; "" where it may, but for its array."""
    if record.held is not None:
        return f"held{f': {record.held}' if record.held else ''}"
    waits: list[str] = []
    for after in record.after:
        other = jobs.get(after.job) or ended.get(after.job)
        if out_of_reach(other, after.condition):
            state = "is not known any more" if other is None else f"is {other.state.value}"
            return f"never starts: it waits until {after.job} {_word(after.condition)}, which {state}"
        if not reached(other, after.condition):
            waits.append(f"{after.job} {_word(after.condition)}")
    if not waits:
        return ""
    more = f" and {len(waits) - 3} more" if len(waits) > 3 else ""
    return f"waits until {', '.join(waits[:3])}{more}"


def _word(condition: Condition) -> str:
    return {"completed": "is completed", "ended": "has ended", "started": "has started"}[condition.value]


def kept_back(jobs: Jobs, ended: Jobs, among: Iterable[JobRecord] | None = None) -> set[JobId]:
    """Return the queued jobs that may not start. Of an array those start first whose index is the smallest.

    `among` are all jobs that are held, wait for others or belong to an array, where they are known.
    """
    found: set[JobId] = set()
    running: Counter[JobId] = Counter()
    waiting: dict[JobId, list[JobRecord]] = {}
    for record in jobs.values() if among is None else among:
        queued = record.state is JobState.QUEUED and record.claim is None
        if queued and (record.held is not None or record.after) and why_kept(record, jobs, ended):
            found.add(record.id)
        elif record.array is not None and record.array.most:
            if queued:
                waiting.setdefault(record.array.id, []).append(record)
            elif record.state in _HOLDS_GPUS or record.claim is not None:
                running[record.array.id] += 1
    for array, members in waiting.items():
        most = members[0].array.most if members[0].array is not None else 0
        found.update(_beyond(members, max(0, most - running[array])))
    return found


def _beyond(members: list[JobRecord], room: int) -> Iterable[JobId]:
    """Return the members of an array for which there is no room under its limit."""
    order = sorted(members, key=lambda each: (each.array.index if each.array is not None else 0, each.id))
    return [each.id for each in order[room:]]
