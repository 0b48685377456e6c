"""The log: every event with its instant. Decisions are in it as facts, so replaying it decides nothing anew."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from optsched.engine.events import Event
from optsched.engine.state import State
from optsched.engine.step import step


@dataclass(frozen=True, slots=True)
class Entry:
    """An event that was taken in, and when (seconds)."""

    at: float
    event: Event


def rebuild(state: State, entries: Iterable[Entry]) -> State:
    """Return the state that a log leads to from the state that it began with."""
    for entry in entries:
        state = step(state, entry.event, entry.at).state
    return state
