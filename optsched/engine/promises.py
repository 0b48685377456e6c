"""What is planned for those that wait, told: where, when, what is held for them, and why that has become later."""

from __future__ import annotations

from optsched.engine.commands import Kind
from optsched.engine.draft import Draft
from optsched.engine.state import goes_on
from optsched.planner.instants import moment_text
from optsched.policy.victims import estimated_end
from optsched.values.cluster import NodeState
from optsched.values.ids import JobId
from optsched.values.job import JobState
from optsched.values.plan import ReservedRoom

MOST_NAMED = 3
"""So many jobs or nodes are named as the reason of one thing."""


def tell_reserved(draft: Draft, rooms: tuple[ReservedRoom, ...]) -> None:
    """Note which reservations are new, have moved or are gone since the last round."""
    before = {room.job: room for room in draft.before.reserved}
    for room in rooms:
        old = before.pop(room.job, None)
        if old is None or old.start_estimate_at != room.start_estimate_at or old.domain != room.domain:
            draft.note(Kind.RESERVED, _reserved(draft, room, old), room.job)
    for job, old in before.items():
        record = draft.jobs.get(job)
        waits = record is not None and record.state is JobState.QUEUED and record.claim is None
        if waits and old.start_estimate_at is not None:
            draft.note(Kind.RESERVED, f"no start can be planned for it any more ({_was(draft, old)})", job)


def _reserved(draft: Draft, room: ReservedRoom, before: ReservedRoom | None) -> str:
    """Return what a reservation says, and what it said before where that was something else."""
    start = room.start_estimate_at
    when = "as soon as it is free" if start is None else f"to start at {moment_text(start)}"
    held = f"{len(room.nodes)} {'node is' if len(room.nodes) == 1 else 'nodes are'} held"
    text = f"room is planned in {room.domain}, {when}; {held if room.nodes else 'nothing is held yet'}"
    if before is None or before.start_estimate_at is None or before.start_estimate_at == start:
        return text
    if start is not None and start < before.start_estimate_at:
        return f"{text} (it was to start at {moment_text(before.start_estimate_at)})"
    return f"{text} ({_was(draft, before)})"


def _was(draft: Draft, before: ReservedRoom) -> str:
    """Return when a job was to start, and why that is no longer so."""
    start = before.start_estimate_at
    was = "" if start is None else f"it was to start at {moment_text(start)}; "
    return f"{was}{_why_later(draft, before)}"


def _why_later(draft: Draft, before: ReservedRoom) -> str:
    """Return what stands in the way of what was planned: closed nodes, work that runs on or came first."""
    closed = [
        f"{node} is {draft.node(node).node.state.value if node in draft.nodes else 'gone'}"
        for node in before.planned
        if node not in draft.nodes or draft.node(node).node.state is not NodeState.UP
    ]
    if closed:
        return _listed(closed)
    late, long = [], []
    for job in _on(draft, before):
        record = draft.job(job)
        if record.claim is not None:
            long.append(f"{job} comes first there")
            continue
        end = estimated_end(record.job, draft.now)
        if before.job in record.on_call or (end is not None and end <= (before.start_estimate_at or draft.now)):
            continue
        if record.job.estimated_runtime_s is not None and end is None:
            late.append(str(job))
        else:
            long.append(f"{job} runs there {'without an estimate' if end is None else f'until {moment_text(end)}'}")
    if late:
        verb, whose = ("runs", "its") if len(late) == 1 else ("run", "their")
        return f"{_listed(late)} {verb} on past {whose} estimate"
    return _listed(long) if long else "others come first there"


def _on(draft: Draft, room: ReservedRoom) -> list[JobId]:
    """Return who runs on what was planned for a job, or was given room there."""
    found = {
        each.job: None
        for node in room.planned
        if node in draft.nodes
        for each in draft.node(node).bookings
        if goes_on(draft.jobs, each.job, each.run)
    }
    for name in draft.claims:
        claim = draft.job(name).claim
        if claim is not None and not claim.placement.keys().isdisjoint(room.planned):
            found[name] = None
    return list(found)


def _listed(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
