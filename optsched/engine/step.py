"""`step`: the front door of the engine. State and event in; state, commands and notes out. Nothing else happens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from optsched.engine import events, health, kept, leases, reports, requests, timers
from optsched.engine.commands import Command, Kind, Note, Verb
from optsched.engine.commit import commit, waits
from optsched.engine.draft import Draft, Step
from optsched.engine.launch import promote
from optsched.engine.runs import nodes_of_run
from optsched.engine.state import State
from optsched.engine.tables import HOLDS_RUN, NodeTrigger
from optsched.errors import InternalError
from optsched.policy.victims import grace_s
from optsched.values.cluster import NodeState
from optsched.values.profile import Profile

E = TypeVar("E")


def step(state: State, event: events.Event, now: float) -> Step:
    """Return what an event leads to at an instant (seconds; one before the state's own counts as that).

    Raises Conflict for a request that the state does not allow, and InternalError for a bug; the state is a value, so
    nothing has changed then.
    """
    draft = Draft(state, now)
    handler = _HANDLERS.get(type(event))
    if handler is None:
        raise InternalError(f"the engine knows no event {type(event).__name__}")
    handler(draft, event)
    promote(draft, anew=isinstance(event, _LOOKS_ANEW))
    return draft.freeze()


_LOOKS_ANEW = (events.Tick, events.Lead)
"""What looks at all claims again, whatever has changed: another scheduler may have other settings."""


def fold(state: State, happened: Iterable[tuple[float, events.Event]]) -> Step:
    """Return what a sequence of (instant, event) leads to; all commands and notes in order."""
    commands: list[Command] = []
    notes: list[Note] = []
    for now, event in happened:
        found = step(state, event, now)
        state = found.state
        commands += found.commands
        notes += found.notes
    return Step(state, tuple(commands), tuple(notes))


def lead(draft: Draft, epoch: int) -> None:
    """A scheduler takes over: what agents may not have heard is said again, under a larger epoch."""
    old = draft.get("epoch")
    assert isinstance(old, int)
    if epoch <= old:
        draft.note(Kind.STALE, f"epoch {epoch} is over, {old} is in force")
        return
    draft.set(epoch=epoch)
    draft.due = True
    profile = draft.get("profile")
    assert isinstance(profile, Profile)
    # Agents have the time to come back that one has whose stream broke, and from then on as long to answer as ever.
    since = draft.now + draft.before.settings.stream_grace_s
    for record in list(draft.jobs.values()):
        job, launch = record.job, record.launch
        if launch is not None:
            draft.put(replace(record, launch=replace(launch, since=since)), quietly=True)
            verb = Verb.RESERVE if launch.reserving else Verb.START
            for node, gpus in job.placement.items():
                if node not in launch.ready:
                    draft.command(verb, node, job.id, job.run, gpus=gpus)
        elif record.stop is not None:
            verb = Verb.KILL if record.stop.killed else Verb.SIGNAL
            for node in nodes_of_run(draft, record):
                grace = grace_s(job, profile) if verb is Verb.SIGNAL else 0.0
                draft.command(verb, node, job.id, job.run, gpus=job.placement.get(node, 0), grace_s=grace)
    for name, node_record in draft.nodes.items():
        if node_record.node.state is NodeState.PROBING:
            draft.command(Verb.PROBE, name)
        for booking in node_record.bookings:
            owner = draft.job(booking.job)
            if owner.run != booking.run or owner.state not in HOLDS_RUN:
                draft.command(Verb.RELEASE, name, booking.job, booking.run, gpus=booking.gpus)
    draft.note(Kind.RULES, f"epoch {epoch} is in force")


def _handlers() -> dict[type, Callable[[Draft, object], None]]:
    """Return what deals with each kind of event."""
    table: dict[type, Callable[[Draft, object], None]] = {}

    def on(kind: type[E], handler: Callable[[Draft, E], None]) -> None:
        table[kind] = handler  # type: ignore[assignment]

    on(events.Submit, requests.submit)
    on(events.Hold, kept.hold)
    on(events.Unhold, kept.release)
    on(events.Cancel, lambda draft, event: requests.withdraw(draft, event.job))
    on(events.Update, requests.update)
    on(events.Preempt, requests.preempt)
    on(events.SetTeam, requests.set_team)
    on(events.SetProfile, requests.set_profile)
    on(events.SetReservation, requests.set_reservation)
    on(events.DropReservation, requests.drop_reservation)
    on(events.Asked, lambda draft, event: None)
    on(events.Report, reports.report)
    on(events.Reports, reports.alike)
    on(events.Finished, reports.finished)
    on(events.Checkpointed, reports.checkpointed)
    on(events.Heartbeat, leases.heartbeat)
    on(events.Parted, leases.parted)
    on(events.Inventory, health.inventory)
    on(events.NodeLost, lambda draft, event: _lost(draft, event))
    on(events.Fenced, lambda draft, event: health.fence(draft, event.node))
    on(events.NodeBack, lambda draft, event: health.back(draft, event.node))
    on(events.Probed, health.probed)
    on(events.GpusChanged, lambda draft, event: health.gpus_changed(draft, event.node, event.gpus))
    on(events.Slow, lambda draft, event: health.slow(draft, event.node, event.factor))
    on(events.SetNode, health.set_node)
    on(events.NodeRemoved, lambda draft, event: health.remove(draft, event.node))
    on(events.Cordon, lambda draft, event: health.close(draft, event.node, NodeTrigger.CORDON, event.reason))
    on(events.Drain, lambda draft, event: health.close(draft, event.node, NodeTrigger.DRAIN, event.reason))
    on(events.Uncordon, lambda draft, event: health.close(draft, event.node, NodeTrigger.UNCORDON, ""))
    on(events.Decided, commit)
    on(events.Waits, waits)
    on(events.Tick, lambda draft, event: timers.tick(draft))
    on(events.Lead, lambda draft, event: lead(draft, event.epoch))
    return table


def _lost(draft: Draft, event: events.NodeLost) -> None:
    if health.known(draft, event.node) is not None:
        health.lose(draft, event.node, event.reason)


_HANDLERS = _handlers()
