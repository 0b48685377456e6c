"""What a plan may do to the room that is planned for those who wait: checked against the state, without a solver."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from optsched.engine.events import Cause, Decided, Event
from optsched.engine.state import State, share_of
from optsched.engine.view import snapshot_of
from optsched.planner.reservations import reserve
from optsched.policy.ordering import due_at
from optsched.policy.victims import estimated_end, grace_s
from optsched.rounds.assignment import NO_CHANGE
from optsched.rounds.build import build_problem
from optsched.values.cluster import NodeState
from optsched.values.job import Job, JobState, gpus_on
from optsched.values.plan import ReservedRoom


def broken_promises(before: State, after: State, event: Event) -> list[str]:
    """Return what a decision took of the room that is held for others.

    After a round all of a planned placement must be free at its start, by the estimates of that moment, but for what
    those have that come before it in the order and those that go when it starts. A repair takes nothing that is held;
    who leaves a node takes it on condition that the holder may stop it.
    """
    if not isinstance(event, Decided) or event.seen != before.version:
        return []
    if event.cause is Cause.ROUND:
        return list(_delayed(before, after, event))
    taken = {each.job: each.placement for each in (*event.plan.starts, *event.plan.migrations, *event.plan.resizes)}
    faults = []
    for job, placement in taken.items():
        rest = before.jobs[job].rest
        had = set(before.jobs[job].job.placement) | set(() if rest is None else rest.was)
        for room in before.reserved:
            held = set(room.nodes) & set(placement) - had
            if held and room.job != job and event.cause is Cause.REPAIR:
                faults.append(f"{job} is repaired with {sorted(held)}, held for {room.job}")
    return faults


def _delayed(before: State, after: State, event: Decided) -> Iterator[str]:
    """Yield the reservations of a plan that what the same plan starts keeps from starting in time."""
    rooms = [room for room in event.plan.reservations if _binding(after, room)]
    changes = (*event.plan.migrations, *event.plan.resizes)
    takers = {each.job for each in event.plan.starts} | {each.job for each in changes if each.beneficiaries}
    selfish = {each.job for each in changes if not each.beneficiaries}
    if not rooms or not takers | selfish:
        return
    order = {job.job.id: index for index, job in enumerate(build_problem(snapshot_of(before)).queued)}
    jobs = {job.id: job for job in snapshot_of(after).jobs}
    for room in rooms:
        start = room.start_estimate_at
        assert start is not None
        for node, count in room.planned.items():
            if after.nodes[node].node.state is not NodeState.UP:
                continue
            there = [job for job in jobs.values() if node in job.placement and _still_there(after, job, room, start)]
            new = [job.id for job in there if job.id in selfish or (job.id in takers and _gains(before, job, node))]
            behind = [job for job in new if order.get(job, len(order)) > order[room.job]]
            lost = behind == new and behind and _short(after, room, node, count, there)
            if lost and not _elsewhere_as_soon(after, room):
                yield f"{room.job} is to start at {start:g} on {node}, and {behind} will still be there"


def _elsewhere_as_soon(state: State, room: ReservedRoom) -> bool:
    """Return whether the holder could start as soon as was told in some other place, by what runs now."""
    _, found = reserve(build_problem(snapshot_of(state)), NO_CHANGE)
    starts = [each.start_at for each in found if each.job.job.id == room.job]
    return any(start is not None and start <= room.start_estimate_at for start in starts)


def _gains(before: State, job: Job, node: str) -> bool:
    """Return whether a job gets GPUs on a node that it did not have."""
    return gpus_on(job.placement[node]) > gpus_on(before.jobs[job.id].job.placement.get(node, 0))


def _binding(state: State, room: ReservedRoom) -> bool:
    """Return whether anything is held for a reservation by now, and its start is not one that others make room for."""
    record, start = state.jobs.get(room.job), room.start_estimate_at
    if record is None or record.state is not JobState.QUEUED:
        return False
    job = record.job
    if start is None or start - state.now > state.profile.hold_horizon_s:
        return False
    due = due_at(job, grace_s(job, state.profile), state.profile)
    return due is None or start < due


def _still_there(state: State, job: Job, room: ReservedRoom, start: float) -> bool:
    """Return whether what runs will by its estimate still run at an instant, and does not go for the holder."""
    if job.state is not JobState.RUNNING or room.job in state.jobs[job.id].on_call:
        return False
    end = estimated_end(job, state.now)
    return end is None or end > start


def _short(state: State, room: ReservedRoom, node: str, count: int, there: list[Job]) -> bool:
    """Return whether what stays on a node leaves too little of anything for what is planned there."""
    record, used = state.nodes[node].node, defaultdict(float)
    for job in there:
        gpus = gpus_on(job.placement[node])
        cpus, memory = share_of(job, gpus)
        used["gpus"] += gpus
        used["cpus"] += cpus
        used["memory"] += memory
    cpus, memory = share_of(state.jobs[room.job].job, count)
    return (
        used["gpus"] + count > record.healthy_gpus
        or used["cpus"] + cpus > record.cpus + 1e-6
        or used["memory"] + memory > record.memory_gb + 1e-6
    )
