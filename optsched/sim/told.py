"""A simulation as a scenario: what happened to the scheduler from outside, so that it can be replayed.

Agents that answer at once are no part of it: a replay has its own. So it is that of a simulation with such agents that
decides after everything that happens (`PROMPT`, `round_every_s` 0) which replays to the same end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from optsched.engine import events
from optsched.engine.events import Outcome
from optsched.errors import UsageError
from optsched.values.snapshot import Event, Scenario, Snapshot

Fields = Mapping[str, object]

_TELL: Mapping[type, tuple[str, Callable[..., Fields]]] = {
    events.Submit: ("submit", lambda e: {"job": e.job}),
    events.Finished: ("job_finished", lambda e: {"job": e.job, "run": e.run}),
    events.Cancel: ("job_cancelled", lambda e: {"job": e.job}),
    events.Checkpointed: ("checkpointed", lambda e: {"job": e.job, "run": e.run, "version": e.version, "tier": e.tier}),
    events.NodeLost: ("node_down", lambda e: {"node": e.node, "reason": e.reason}),
    events.NodeBack: ("node_up", lambda e: {"node": e.node}),
    events.Probed: ("node_probed", lambda e: {"node": e.node, "ok": e.ok, "reason": e.why}),
    events.Uncordon: ("uncordon", lambda e: {"node": e.node}),
}


def scenario_of(start: Snapshot, happened: Iterable[tuple[float, events.Event]]) -> Scenario:
    """Return the scenario of a simulation that kept its log. Raises UsageError for what scenarios have no word for."""
    return Scenario(start, tuple(each for at, event in happened for each in _told(at, event)))


def _told(at: float, event: events.Event) -> Iterable[Event]:
    if isinstance(event, events.Fenced):
        # A replay takes a node that is down as fenced.
        return
    if isinstance(event, events.Report) and event.outcome in (Outcome.INFRA, Outcome.FAILED):
        fields = {"job": event.job, "node": event.node, "run": event.run, "outcome": event.outcome.value}
        yield Event(at, "agent_report", fields)
        return
    found = _TELL.get(type(event))
    if found is None:
        raise UsageError(f"a scenario has no word for {type(event).__name__}")
    kind, fields_of = found
    yield Event(at, kind, {key: value for key, value in fields_of(event).items() if value is not None})
