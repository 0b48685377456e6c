"""Events of a scenario file as events of the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from optsched.engine import events
from optsched.engine.events import Outcome
from optsched.errors import Conflict
from optsched.values.cluster import Node, Reservation
from optsched.values.ids import JobId, NodeId
from optsched.values.job import Job
from optsched.values.profile import Profile
from optsched.values.snapshot import Event
from optsched.values.team import Team

_OUTCOMES = {
    **dict.fromkeys(("completed", "finished", "succeeded", "success", "done"), Outcome.OK),
    **dict.fromkeys(("error", "crashed", "exited"), Outcome.FAILED),
    **dict.fromkeys(("lost", "node_failed", "hardware"), Outcome.INFRA),
    **dict.fromkeys(("stopped", "drained"), Outcome.RELEASED),
    "running": Outcome.STARTED,
}
"""Other words that agents have for what they report."""


class _Fields:
    """The fields of one event of a file, by type."""

    def __init__(self, fields: Mapping[str, object]) -> None:
        self.all = fields

    @property
    def job(self) -> JobId:
        return JobId(str(self.all["job"]))

    @property
    def node(self) -> NodeId:
        return NodeId(str(self.all["node"]))

    @property
    def run(self) -> int | None:
        return cast("int | None", self.all.get("run"))

    def text(self, key: str) -> str:
        return str(self.all.get(key) or "")

    def optional(self, key: str) -> str | None:
        found = self.all.get(key)
        return None if found is None else str(found)


def _report(f: _Fields, outcome: Outcome) -> events.Report:
    return events.Report(f.job, f.node, outcome, f.run, f.text("why"))


def _agent_report(f: _Fields) -> events.Report:
    word = f.text("outcome")
    known = {each.value: each for each in Outcome} | _OUTCOMES
    if word not in known:
        raise Conflict(f"an agent reports {word!r} of job {f.job}; known outcomes: {', '.join(sorted(known))}")
    return _report(f, known[word])


_MAKERS: Mapping[str, Callable[[_Fields], events.Event]] = {
    "submit": lambda f: events.Submit(cast(Job, f.all["job"])),
    "job_finished": lambda f: events.Finished(f.job, f.run),
    "job_cancelled": lambda f: events.Cancel(f.job),
    "job_update": lambda f: events.Update(f.job, cast("Mapping[str, object]", f.all["set"])),
    "preempt": lambda f: events.Preempt(f.job, f.text("reason")),
    "gpus_released": lambda f: _report(f, Outcome.RELEASED),
    "task_finished": lambda f: _report(f, Outcome.OK if f.all["ok"] else Outcome.FAILED),
    "launch_failed": lambda f: _report(f, Outcome.REFUSED),
    "agent_report": _agent_report,
    "checkpointed": lambda f: events.Checkpointed(f.job, f.run, f.optional("version"), f.optional("tier")),
    "node_down": lambda f: events.NodeLost(f.node, f.text("reason")),
    "node_up": lambda f: events.NodeBack(f.node),
    "node_gpus_changed": lambda f: events.GpusChanged(f.node, cast(int, f.all["gpus"])),
    "node_probed": lambda f: events.Probed(f.node, bool(f.all["ok"]), f.text("reason")),
    "node_slow": lambda f: events.Slow(f.node, cast(float, f.all["factor"])),
    "node_added": lambda f: events.SetNode(cast(Node, f.all["node"])),
    "node_removed": lambda f: events.NodeRemoved(f.node),
    "cordon": lambda f: events.Cordon(f.node, f.text("reason")),
    "uncordon": lambda f: events.Uncordon(f.node),
    "drain": lambda f: events.Drain(f.node, f.text("reason")),
    "team_set": lambda f: events.SetTeam(cast(Team, f.all["team"])),
    "profile_set": lambda f: events.SetProfile(cast(Profile, f.all["profile"])),
    "reservation_set": lambda f: events.SetReservation(cast(Reservation, f.all["reservation"])),
}


def event_of(event: Event) -> events.Event:
    """Return the engine's event for one of a scenario. Raises Conflict for an outcome that nobody knows."""
    return _MAKERS[event.type](_Fields(event.fields))


KNOWN_TYPES = frozenset(_MAKERS)
"""Every type of event that a scenario may have."""
