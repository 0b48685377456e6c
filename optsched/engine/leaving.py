"""Getting work off nodes that are to become empty: those that drain, and those that a maintenance window will close.

What is preemptible goes on elsewhere where there is room that nobody else could use, and where that pays; an elastic
job may go on smaller. What is not preemptible is left to finish. Nobody else is stopped or moved for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from optsched.engine.draft import room_on
from optsched.engine.events import Cause, Decided
from optsched.engine.records import Records
from optsched.engine.state import JobRecord, NodeRecord, State, tokens_at
from optsched.engine.view import FIRST_S
from optsched.policy.victims import estimated_end, grace_s, median_reporting_start, stop_cost, waited_for
from optsched.values.cluster import NodeState, Reservation, ReservationKind
from optsched.values.ids import JobId, NodeId, ReservationId
from optsched.values.job import Job, JobState, Placement, gpus_on
from optsched.values.plan import Move, Plan, Preemption
from optsched.values.profile import Profile
from optsched.values.snapshot import Snapshot

MOST_DOUBLINGS = 8
"""So often what emptying a node may cost is doubled: by then it is 256 times as much."""


@dataclass(frozen=True, slots=True)
class Leaver:
    """A job that should leave some of its nodes, and what each of its GPUs loses by that, in seconds."""

    record: JobRecord
    nodes: frozenset[NodeId]
    loses_s: float


def lead_s(job: Job, profile: Profile) -> float:
    """Return how long before a maintenance window a job begins to look for another place, in seconds."""
    return grace_s(job, profile) + profile.start_latency_s + profile.deadline_margin_s


def windows_ahead(reservations: Mapping[ReservationId, Reservation], now: float) -> list[Reservation]:
    """Return the maintenance windows that are not over."""
    return [each for each in reservations.values() if each.kind is ReservationKind.MAINTENANCE and each.end_at > now]


def _draining_of(chunk: Mapping[NodeId, NodeRecord]) -> list[NodeId]:
    return [name for name, each in chunk.items() if each.node.state is NodeState.DRAINING]


def to_leave(state: State) -> dict[JobId, frozenset[NodeId]]:
    """Return, by running preemptible job, its nodes that drain or that a window is about to close."""
    found: dict[JobId, frozenset[NodeId]] = {}
    draining = set(chain.from_iterable(Records.of(state.nodes).parts(_draining_of)))
    windows = windows_ahead(state.reservations, state.now)
    if not (draining or windows) or not state.profile.migration:
        return found
    for record in state.jobs.values():
        if record.state is not JobState.RUNNING or not record.job.preemptible or record.done_on:
            continue
        closing = draining.intersection(record.job.placement)
        for window in windows:
            if _closes_on(window, record.job, state):
                closing.update(set(window.nodes).intersection(record.job.placement))
        if closing:
            found[record.id] = frozenset(closing)
    return found


def _closes_on(window: Reservation, job: Job, state: State) -> bool:
    """Return whether a window is about to begin, and the job would still be there."""
    end = estimated_end(job, state.now)
    ends_itself = end is not None and end <= window.start_at
    return not ends_itself and state.now >= window.start_at - lead_s(job, state.profile)


def leavers(state: State, snapshot: Snapshot) -> list[Leaver]:
    """Return the jobs that are to leave now: not those about to end, nor those for which it does not pay yet."""
    leaving = to_leave(state)
    if not leaving:
        return []
    profile, now = state.profile, state.now
    median = median_reporting_start(snapshot.jobs)
    found = []
    for name, nodes in leaving.items():
        record = state.jobs[name]
        cost = stop_cost(record.job, now, profile, median)
        drains = [state.nodes[node] for node in nodes if state.nodes[node].node.state is NodeState.DRAINING]
        if len(drains) == len(nodes):
            moved = record.moved_at is not None and now - record.moved_at < profile.min_runtime_s
            waited = max(now - (each.drains_since if each.drains_since is not None else now) for each in drains)
            gained = sum(gpus_on(record.job.placement[node]) for node in nodes)
            worth = may_lose_gpu_s(gained, waited, profile)
            if moved or waited_for(record.job, now, cost) or cost.per_gpu_s * record.job.placed_gpus > worth:
                continue
        found.append(Leaver(record, nodes, cost.per_gpu_s))
    return found


def may_lose_gpu_s(gpus: int, waited_s: float, profile: Profile) -> float:
    """Return what emptying so many GPUs may cost by now, in GPU-seconds: as for a preemption, more with patience."""
    if profile.max_loss_ratio is None:
        return math.inf
    doublings = min(int(waited_s // profile.patience_s), MOST_DOUBLINGS)
    return profile.max_loss_ratio * gpus * profile.horizon_s * 2.0**doublings


def moved_off(state: State, snapshot: Snapshot, going: list[Leaver], planned: Plan) -> Decided | None:
    """Return the moves that a plan of `without_them` allows, None where it has none.

    A job goes only where it takes nothing of what another, which does not go, still has, and where nobody makes room.
    """
    giving: tuple[Preemption | Move, ...] = (*planned.preemptions, *planned.migrations, *planned.resizes)
    served = {job for each in giving for job in each.beneficiaries}
    starts = {each.job: each.placement for each in planned.starts if each.job not in served and not each.waits_for}
    by_id = {each.record.id: each for each in going}
    places = {job: placement for job, placement in starts.items() if job in by_id}
    lent = {job: _hosts(state, by_id[job], placement) for job, placement in places.items()}
    places = {job: placement for job, placement in places.items() if not lent[job] or _may_be_guest(state, job)}
    while True:
        stays = {node for job, each in by_id.items() if job not in places for node in each.record.job.placement}
        blocked = {job for job, placement in places.items() if _gains_on(by_id[job], placement, stays)}
        if not blocked:
            break
        places = {job: placement for job, placement in places.items() if job not in blocked}
    if not places:
        return None
    moves: list[Move] = []
    resizes: list[Move] = []
    for job, placement in places.items():
        before = by_id[job].record.job.placed_gpus
        same = sum(gpus_on(gpus) for gpus in placement.values()) == before
        (moves if same else resizes).append(Move(job, placement, (), by_id[job].loses_s * before))
    plan = replace(
        planned, starts=(), preemptions=(), reservations=(), queued=(), migrations=tuple(moves), resizes=tuple(resizes)
    )
    return Decided(plan, state.version, Cause.LEAVE, lent={job: lent[job] for job in places if lent[job]})


def _hosts(state: State, leaver: Leaver, placement: Placement) -> tuple[JobId, ...]:
    """Return the jobs in whose held room a leaver would come to lie."""
    now = leaver.record.job.placement
    gains = {node: gpus_on(gpus) - gpus_on(now.get(node, 0)) for node, gpus in placement.items()}
    return tuple(
        room.job
        for room in state.reserved
        if any(
            gains.get(node, 0) > 0 and room_on(state.nodes[node]) - room.planned.get(node, 0) < gains[node]
            for node in room.nodes
            if node in state.nodes
        )
    )


def _may_be_guest(state: State, job: JobId) -> bool:
    """Return whether a job may go into held room on condition that the holder stops it."""
    return state.profile.backfill_preemptible and tokens_at(state.jobs[job], state.now, state.profile) >= 1.0


def _gains_on(leaver: Leaver, placement: Placement, nodes: set[NodeId]) -> bool:
    now = leaver.record.job.placement
    return any(gpus_on(gpus) > gpus_on(now.get(node, 0)) for node, gpus in placement.items() if node in nodes)


def without_them(snapshot: Snapshot, going: list[Leaver]) -> Snapshot:
    """Return the snapshot as if the jobs that are to leave waited for room elsewhere, the last among their equals."""
    by_id: Mapping[JobId, Leaver] = {each.record.id: each for each in going}
    jobs = tuple(_waiting(job, by_id[job.id], snapshot.now) if job.id in by_id else job for job in snapshot.jobs)
    carried = snapshot.carried
    last = {name: each.record.job.submitted_at + FIRST_S for name, each in by_id.items()}
    carried = replace(carried, pinned=carried.pinned - by_id.keys(), placed_at={**carried.placed_at, **last})
    return replace(snapshot, jobs=jobs, carried=carried)


def _waiting(job: Job, leaver: Leaver, now: float) -> Job:
    """Return a running job as one that waits, no larger than it is, for nodes that stay."""
    size = job.placed_gpus
    end = estimated_end(job, now)
    return replace(
        job,
        state=JobState.QUEUED,
        placement={},
        started_at=None,
        start_deadline_at=None,
        estimated_runtime_s=None if end is None else end - now,
        exclude_nodes=job.exclude_nodes | leaver.nodes,
        gpus=size,
        min_gpus=min(job.min_gpus, size),
        max_gpus=size,
        cpus=job.cpus * size / job.gpus,
        memory_gb=job.memory_gb * size / job.gpus,
    )


def next_looks(state: State) -> Iterator[float]:
    """Yield the instants from which a job may leave that could not before."""
    profile = state.profile
    windows = windows_ahead(state.reservations, state.now)
    draining = {name for name, each in state.nodes.items() if each.node.state is NodeState.DRAINING and each.bookings}
    if not profile.migration or not (windows or draining):
        return
    for record in state.jobs.values():
        if record.state is not JobState.RUNNING or not record.job.preemptible:
            continue
        for window in windows:
            if not set(window.nodes).isdisjoint(record.job.placement):
                yield window.start_at - lead_s(record.job, profile)
        for node in draining.intersection(record.job.placement):
            since = state.nodes[node].drains_since
            if since is not None and profile.max_loss_ratio is not None:
                doublings = math.floor((state.now - since) / profile.patience_s)
                yield since + (min(doublings, MOST_DOUBLINGS) + 1) * profile.patience_s
            if record.moved_at is not None:
                yield record.moved_at + profile.min_runtime_s
