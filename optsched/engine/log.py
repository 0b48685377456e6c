"""The log: every event with its instant. Decisions are in it as facts, so replaying it decides nothing anew."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from optsched.engine import events
from optsched.engine.events import Event
from optsched.engine.state import State
from optsched.engine.step import step
from optsched.values.ids import JobId
from optsched.values.plan import Move, Preemption, Start

_PASSING = (events.Heartbeat, events.Parted, events.Inventory, events.Tick, events.Waits)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An event that was taken in, when (seconds), and its place in the log: 1, 2, 3, …, without a gap."""

    sequence: int
    at: float
    event: Event


def rebuild(state: State, entries: Iterable[LogEntry]) -> State:
    """Return the state that a log leads to from the state that it began with."""
    for entry in entries:
        state = step(state, entry.event, entry.at).state
    return state


def jobs_of(event: Event) -> tuple[JobId, ...]:
    """Return the jobs to whose history an event belongs: of a decision those that start, stop, move or are resized."""
    if isinstance(event, events.Submit):
        return (event.job.id,)
    if isinstance(event, events.Decided):
        plan = event.plan
        changes: tuple[Start | Preemption | Move, ...] = (
            *plan.starts,
            *plan.preemptions,
            *plan.migrations,
            *plan.resizes,
        )
        return tuple(dict.fromkeys(change.job for change in changes))
    job = getattr(event, "job", None)
    return () if job is None else (job,)


def is_passing(event: Event) -> bool:
    """Return whether nobody wants to know of an event once a later state is saved: time, signs of life, no change."""
    if isinstance(event, events.Decided):
        return not jobs_of(event)
    return isinstance(event, _PASSING)
