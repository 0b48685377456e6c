"""Agents that answer at once: what they are asked to start runs, what they are asked to stop is gone."""

from __future__ import annotations

from collections.abc import Iterable

from optsched.engine import events
from optsched.engine.commands import Command, Verb
from optsched.engine.events import Outcome
from optsched.values.ids import JobId, NodeId
from optsched.values.snapshot import Event

_ANSWERS = {
    Verb.RESERVE: Outcome.RESERVED,
    Verb.START: Outcome.STARTED,
    Verb.SIGNAL: Outcome.RELEASED,
    Verb.KILL: Outcome.RELEASED,
    Verb.RELEASE: Outcome.RELEASED,
}


class PromptAgents:
    """Agents of a scenario. GPUs that its events say are released later are not free before."""

    def __init__(self, later: Iterable[Event] = ()) -> None:
        self._pending: list[tuple[float, JobId, NodeId]] = [
            (each.at, JobId(str(each.fields["job"])), NodeId(str(each.fields["node"])))
            for each in later
            if each.type == "gpus_released"
        ]
        self._only: dict[JobId, frozenset[NodeId]] = {}

    def only_free(self, job: JobId, nodes: frozenset[NodeId]) -> None:
        """Free only these nodes of a job at once; the others wait for their event."""
        self._only[job] = nodes

    def answer(self, command: Command, now: float) -> events.Event | None:
        """Return what an agent reports when it is asked for something; None where it says nothing yet."""
        if command.verb is Verb.PROBE:
            return events.Probed(command.node)
        outcome = _ANSWERS[command.verb]
        if outcome is Outcome.RELEASED and self._keeps(command, now):
            return None
        return events.Report(command.job, command.node, outcome, command.run, epoch=command.epoch)

    def _keeps(self, command: Command, now: float) -> bool:
        if command.job in self._only and command.node not in self._only[command.job]:
            return True
        return any(at > now and (job, node) == (command.job, command.node) for at, job, node in self._pending)
