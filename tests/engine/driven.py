"""A cluster driven step by step: events in, agents that answer at once or only when told, and short ways to look."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from optsched.clock import StoppedClock
from optsched.engine import events as ev
from optsched.engine.commands import Command, Note, Verb
from optsched.engine.decide import decide
from optsched.engine.draft import Step
from optsched.engine.settings import Settings
from optsched.engine.state import JobRecord, State, initial
from optsched.engine.step import step
from optsched.engine.timers import next_wake
from optsched.planner.plan import PlanOptions, plan_round
from optsched.sim.agents import PromptAgents
from optsched.values.ids import JobId, NodeId
from optsched.values.job import gpus_on
from optsched.values.snapshot import Snapshot

COUNTED = PlanOptions(budget_s=1e9, deterministic_s=5.0, prove=0)
PLANNER = partial(plan_round, options=COUNTED, clock=StoppedClock())


class Driven:
    """A cluster from a snapshot. `prompt`: agents answer at once; else commands pile up in `asked`."""

    def __init__(self, snapshot: Snapshot, *, prompt: bool = True, settings: Settings | None = None) -> None:
        self.state: State = initial(snapshot, settings)
        self.prompt = prompt
        self.asked: list[Command] = []
        self.notes: list[Note] = []
        self._agents = PromptAgents()

    def take(self, event: ev.Event, at: float | None = None) -> Step:
        """One event; what agents answer to it follows."""
        now = self.state.now if at is None else at
        first: Step | None = None
        todo = [event]
        for each in todo:
            found = step(self.state, each, now)
            first = first or found
            self.state = found.state
            self.notes += found.notes
            for command in found.commands:
                self.asked.append(command)
                answer = self._agents.answer(command, now) if self.prompt else None
                if answer is not None:
                    todo.append(answer)
        assert first is not None
        return first

    def settle(self) -> Driven:
        """Decide until nothing is left to decide."""
        for _ in range(30):
            decision = decide(self.state, PLANNER)
            if decision is None:
                return self
            self.take(decision)
        raise AssertionError("does not settle")

    def at(self, now: float, *events: ev.Event) -> Driven:
        """Let time pass, waking whenever it alone may change something; then these events happen, and it settles."""
        while (wake := next_wake(self.state)) is not None and wake < now:
            self.take(ev.Tick(), wake)
            self.settle()
        for event in events:
            self.take(event, now)
        self.take(ev.Tick(), now)
        return self.settle()

    def answer_all(self, *, but: str = "", at: float | None = None) -> Driven:
        """Answer everything that was asked so far, but what one node was asked."""
        now = self.state.now if at is None else at
        while self.asked:
            asked, self.asked = self.asked, []
            for command in asked:
                if command.node != but and (answer := self._agents.answer(command, now)) is not None:
                    self.take(answer, now)
        return self

    def job(self, name: str) -> JobRecord:
        """What is known of a job."""
        found = self.state.record(JobId(name))
        assert found is not None, f"no job {name}"
        return found

    def stands(self, name: str) -> str:
        """The state of a job, as a word."""
        return self.job(name).state.value

    def on(self, name: str) -> Mapping[str, int]:
        """Where a job runs: {node: GPUs}."""
        return {str(node): gpus_on(gpus) for node, gpus in self.job(name).job.placement.items()}

    def node(self, name: str) -> str:
        """The state of a node, as a word."""
        return self.state.nodes[NodeId(name)].node.state.value

    def booked(self, name: str) -> int:
        """GPUs booked on a node."""
        return self.state.nodes[NodeId(name)].booked_gpus

    def told(self, name: str) -> str:
        """All that was noted about a job or a node."""
        return "; ".join(note.text for note in self.notes if name in (note.job, note.node))

    def asked_for(self, verb: Verb) -> list[str]:
        """The nodes that were asked for something, in order."""
        return [str(command.node) for command in self.asked if command.verb is verb]


def report(
    job: str, node: str, outcome: str, run: int | None = None, why: str = "", epoch: int | None = None
) -> ev.Report:
    """What an agent says about its part of a run."""
    return ev.Report(JobId(job), NodeId(node), ev.Outcome(outcome), run, why, epoch)
