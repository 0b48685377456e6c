"""The state that a service begins with: what its store holds, or a cluster and teams by its settings."""

from __future__ import annotations

import gc
from dataclasses import dataclass, replace

from optsched.engine import events
from optsched.engine.codec import restore_bytes, save_bytes
from optsched.engine.log import LogEntry, rebuild
from optsched.engine.ports import Recovered, Store
from optsched.engine.settings import Settings as EngineSettings
from optsched.engine.state import NodeRecord, State, initial
from optsched.engine.step import step
from optsched.errors import UsageError
from optsched.files import load_cluster, load_profile, load_snapshot
from optsched.server.now import Now, SteadyNow
from optsched.server.settings import Settings
from optsched.values.cluster import Cluster, NodeState
from optsched.values.ids import TeamId
from optsched.values.snapshot import Snapshot
from optsched.values.team import Team

GC_EVERY = (50_000, 20, 100)
"""How seldom Python looks for circles among objects: hardly anything here makes any, and each look stops everybody."""

UNSEEN = "its agent has not been seen yet"


@dataclass(frozen=True, slots=True)
class Begun:
    """What a leader begins with. `warnings` are about the files that were read."""

    state: State
    sequence: int
    now: Now
    warnings: tuple[str, ...] = ()


def begin(store: Store, settings: Settings, now: Now | None = None) -> Begun:
    """Open the store and take the lead: rebuild the state, begin a new epoch, renew all leases.

    Agents had no one to beat to while no scheduler was there; they are given the time of a lease to come back.
    Raises InputError, UsageError or StoreError.
    """
    # A state is millions of objects that refer to each other in no circle: to look for one in them takes longer than to
    # make them.
    gc.disable()
    try:
        return _begin(store, settings, now)
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(*GC_EVERY)


def _begin(store: Store, settings: Settings, now: Now | None) -> Begun:
    found = store.open()
    warnings: tuple[str, ...] = ()
    if found.state is None and not found.entries:
        clock = now or SteadyNow()
        state, warnings = _first(settings, clock())
        store.save_state(0, save_bytes(state))
    else:
        state = _rebuilt(found)
        clock = now or SteadyNow(state.now)
    sequence = found.entries[-1].sequence if found.entries else found.sequence
    state, sequence = _lead(store, state, sequence, found.epoch, clock())
    tuned = replace(state, settings=_tuned(state.settings, settings))
    if tuned.settings != state.settings:
        # What is replayed later has to meet the settings under which it happened.
        store.save_state(sequence, save_bytes(tuned))
    return Begun(tuned, sequence, clock, warnings)


def _rebuilt(found: Recovered) -> State:
    if found.state is None:
        raise UsageError("the store holds a log without the state that it began with")
    return rebuild(restore_bytes(found.state), found.entries)


def _lead(store: Store, state: State, sequence: int, epoch: int, now: float) -> tuple[State, int]:
    """Take the lead and renew leases. The commands that this leads to are found again when the agents come back."""
    beats = [
        events.Heartbeat(name, record.agent, record.session)
        for name, record in state.nodes.items()
        if record.last_seen_at is not None
    ]
    entries: list[LogEntry] = []
    happened: list[events.Event] = [events.Lead(max(epoch, state.epoch + 1)), *beats]
    for event in happened:
        state = step(state, event, now).state
        sequence += 1
        entries.append(LogEntry(sequence, now, event))
    store.append(entries)
    return state, sequence


def _tuned(engine: EngineSettings, settings: Settings) -> EngineSettings:
    return replace(
        engine,
        lease_s=settings.lease_s,
        lease_patience_s=settings.lease_patience_s,
        stream_grace_s=settings.stream_grace_s,
        ended_kept_s=settings.ended_kept_s,
        ended_kept=settings.ended_kept,
    )


def _first(settings: Settings, now: float) -> tuple[State, tuple[str, ...]]:
    """Return the state of a service that begins: nodes are there once their agents are."""
    warnings: tuple[str, ...] = ()
    if settings.start is not None:
        snapshot, warnings = load_snapshot(settings.start)
        if any(job.placement for job in snapshot.jobs):
            raise UsageError(f"{settings.start}: jobs run in it: a service begins with none; leave them out, or queued")
        shift = now - snapshot.now
        jobs = tuple(
            replace(
                job,
                submitted_at=job.submitted_at + shift,
                start_deadline_at=None if job.start_deadline_at is None else job.start_deadline_at + shift,
            )
            for job in snapshot.jobs
        )
        snapshot = replace(snapshot, now=now, jobs=jobs)
    else:
        cluster = Cluster(()) if settings.cluster is None else load_cluster(settings.cluster)
        snapshot = Snapshot(now, cluster, (), (), profile=load_profile(settings.profile))
    if not snapshot.teams:
        snapshot = replace(snapshot, teams=(Team(TeamId(settings.default_team)),))
    state = initial(snapshot, _tuned(EngineSettings(), settings), epoch=0)
    return replace(state, nodes={name: _unseen(record) for name, record in state.nodes.items()}), warnings


def _unseen(record: NodeRecord) -> NodeRecord:
    """Return a node as lost until its agent comes; one that is closed stays so then."""
    closed = record.node.state in (NodeState.CORDONED, NodeState.DRAINING)
    node = replace(record.node, state=NodeState.DOWN, reason=UNSEEN)
    return replace(record, node=node, opens_as=record.node.state if closed else NodeState.UP)
