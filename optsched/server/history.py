"""Entries of the log told in a sentence: the history of a job, and what operators changed."""

from __future__ import annotations

from optsched.engine import events
from optsched.engine.log import LogEntry
from optsched.values.ids import JobId
from optsched.values.job import Placement, gpus_on

Plain = dict[str, object]

_OUTCOMES = {
    events.Outcome.RESERVED: ("placed", "its GPUs are set aside"),
    events.Outcome.STARTED: ("started", "its tasks work"),
    events.Outcome.OK: ("completed", "its tasks ended well"),
    events.Outcome.FAILED: ("failed", "a task failed"),
    events.Outcome.INFRA: ("failed", "a task failed by the fault of the machine"),
    events.Outcome.REFUSED: ("refused", "could not be started"),
    events.Outcome.RELEASED: ("released", "its GPUs are free"),
}


def told(entry: LogEntry, job: JobId) -> Plain:
    """Return an entry as an event of a job's history."""
    kind, text, node = _words(entry.event, job)
    found: Plain = {"sequence": entry.sequence, "at": entry.at, "kind": kind, "text": text, "job": job}
    return found | {"node": node} if node else found


def _words(event: events.Event, job: JobId) -> tuple[str, str, str]:
    """Return the kind of an event, what it says, and the node that it happened on."""
    match event:
        case events.Submit():
            held = ", held" if event.held else ""
            return "submitted", f"submitted by team {event.job.team}: {event.job.gpus} GPUs{held}", ""
        case events.Asked():
            return "asked", f"{event.what}, asked by {event.by or 'somebody'}: {event.detail}", ""
        case events.Hold():
            return "waits", f"held{f': {event.reason}' if event.reason else ''}", ""
        case events.Unhold():
            return "waits", "no longer held", ""
        case events.Update():
            return "submitted", f"changed: {', '.join(sorted(event.changes))}", ""
        case events.Cancel():
            return "cancelled", "withdrawn", ""
        case events.Preempt():
            return "preempted", f"preempted by an operator{f': {event.reason}' if event.reason else ''}", ""
        case events.Report():
            kind, text = _OUTCOMES[event.outcome]
            run = "" if event.run is None else f"run {event.run}: "
            return kind, f"{run}{text} on {event.node}{f': {event.why}' if event.why else ''}", event.node
        case events.Checkpointed():
            return "checkpointed", f"checkpoint {event.version or ''}".strip(), ""
        case events.Finished():
            return "completed", "all its tasks ended well", ""
        case events.Decided():
            return (*_decided(event, job), "")
        case _:
            return type(event).__name__.lower(), "", str(getattr(event, "node", ""))


def _decided(event: events.Decided, job: JobId) -> tuple[str, str]:
    plan = event.plan
    for start in plan.starts:
        if start.job == job:
            waits = f", once {', '.join(start.waits_for)} gave way" if start.waits_for else ""
            return ("promised" if waits else "placed"), f"is given {_where(start.placement)}{waits}"
    for stop in plan.preemptions:
        if stop.job == job:
            return "preempted", f"gives way to {', '.join(stop.beneficiaries)}, with {stop.grace_s:g} s of grace"
    for move in plan.migrations:
        if move.job == job:
            return "moved", f"goes on {_where(move.placement)}"
    for move in plan.resizes:
        if move.job == job:
            return "resized", f"goes on {_where(move.placement)}"
    return "planned", ""


def _where(placement: Placement) -> str:
    nodes = list(placement)
    total = sum(gpus_on(gpus) for gpus in placement.values())
    shown = ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more nodes" if len(nodes) > 3 else "")
    return f"{total} GPUs on {shown}"


def change_of(entry: LogEntry) -> Plain:
    """Return an entry as what an operator asked for."""
    assert isinstance(entry.event, events.Asked)
    event = entry.event
    return {"sequence": entry.sequence, "at": entry.at, "by": event.by, "kind": event.what, "json": event.detail}
