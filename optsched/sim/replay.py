"""Replaying a scenario: its events through the engine, agents that answer at once, and what came of it, told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby

from optsched.engine import events
from optsched.engine.commands import Command, Kind, Note
from optsched.engine.decide import Planner, decide
from optsched.engine.log import LogEntry
from optsched.engine.settings import Settings
from optsched.engine.state import JobRecord, State, initial
from optsched.engine.step import step
from optsched.errors import Conflict, InternalError
from optsched.sim.agents import PromptAgents
from optsched.sim.scenario import event_of
from optsched.values.ids import JobId, NodeId
from optsched.values.snapshot import Event, Scenario

MOST_ROUNDS = 100
"""After so many decisions at one instant something goes round in circles: a bug."""


@dataclass(frozen=True, slots=True)
class Moment:
    """How things stand once everything of an instant is decided, and what led there since the moment before."""

    state: State
    notes: tuple[Note, ...]
    commands: tuple[tuple[float, Command], ...]

    @property
    def at(self) -> float:
        """The instant, in seconds."""
        return self.state.now

    def jobs(self) -> Iterator[JobRecord]:
        """Yield every job ever known, those that have ended last."""
        yield from self.state.jobs.values()
        yield from self.state.ended.values()


class Replay:
    """Drives the engine through a scenario. `planner` plans its rounds; `log` keeps every event, for whoever asks."""

    def __init__(self, scenario: Scenario, planner: Planner, settings: Settings | None = None) -> None:
        self.scenario = scenario
        self.state = initial(scenario.start, settings)
        self.log: list[LogEntry] = []
        self._planner = planner
        self._agents = PromptAgents(scenario.events)
        self._notes: list[Note] = []
        self._commands: list[tuple[float, Command]] = []

    def run(self, progress: Callable[[str, float], None] = lambda stage, fraction: None) -> Iterator[Moment]:
        """Yield the first decision, then the moment after each batch of events."""
        now = self.scenario.start.now
        self._take(events.Tick(), now)
        self._settle(now)
        yield self._moment()
        done, total = 0, max(1, len(self.scenario.events))
        for at, batch in groupby(self.scenario.events, key=lambda event: event.at):
            progress(f"at {at:g}", done / total)
            self._wait_until(at)
            for event in batch:
                self._happen(event)
                done += 1
            self._take(events.Tick(), at)
            self._settle(at)
            yield self._moment()

    def _moment(self) -> Moment:
        found = Moment(self.state, tuple(self._notes), tuple(self._commands))
        self._notes.clear()
        self._commands.clear()
        return found

    def _wait_until(self, at: float) -> None:
        """Let time pass: whenever it alone may change something, look again."""
        from optsched.engine.timers import next_wake

        while (wake := next_wake(self.state)) is not None and wake < at:
            self._take(events.Tick(), wake)
            self._settle(wake)

    def _happen(self, event: Event) -> None:
        """Take in one event of the scenario; what the engine refuses is told and changes nothing."""
        released = event.fields.get("released_nodes")
        if isinstance(released, tuple):
            nodes = frozenset(NodeId(str(node)) for node in released)
            self._agents.only_free(JobId(str(event.fields["job"])), nodes)
        try:
            self._take(event_of(event), event.at)
        except Conflict as conflict:
            job, node = (event.fields.get(key) for key in ("job", "node"))
            named = JobId(job) if isinstance(job, str) else None
            self._notes.append(Note(event.at, Kind.REFUSED, str(conflict), named, _node(node)))
        if event.type == "node_down":
            self._take(events.Fenced(NodeId(str(event.fields["node"]))), event.at)

    def _take(self, event: events.Event, now: float) -> None:
        """Take in an event, and what the agents answer to what it leads to."""
        todo = [event]
        for each in todo:
            found = step(self.state, each, now)
            self.log.append(LogEntry(len(self.log) + 1, now, each))
            self.state = found.state
            self._notes += found.notes
            for command in found.commands:
                self._commands.append((now, command))
                answer = self._agents.answer(command, now)
                if answer is not None:
                    todo.append(answer)

    def _settle(self, now: float) -> None:
        """Decide until there is nothing left to decide at this instant."""
        for _ in range(MOST_ROUNDS):
            decision = decide(self.state, self._planner)
            if decision is None:
                return
            self._take(decision, now)
        raise InternalError(f"at {now:g} the scheduler did not settle within {MOST_ROUNDS} decisions")


def _node(given: object) -> NodeId | None:
    return NodeId(given) if isinstance(given, str) else None
