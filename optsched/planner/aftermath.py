"""The cluster after a plan as waiting jobs find it: what fits where, asked once for all jobs alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from optsched.planner.forecast import Reserved
from optsched.rounds.assignment import Assignment
from optsched.rounds.problem import Cut, Flags, Ints, Problem, RoundJob
from optsched.rounds.room import room_in_cluster, slice_down, usable, whole_slices
from optsched.solve.ledger import Ledger
from optsched.values.cluster import NodeState, Reservation, ReservationKind


@dataclass(frozen=True)
class After:
    """The cluster after a plan, as a waiting job finds it."""

    problem: Problem
    assignment: Assignment
    ledger: Ledger
    before: Ledger
    reserved: Sequence[Reserved]
    windows: tuple[Reservation, ...]
    fits: dict[object, bool] = field(default_factory=dict)

    @cached_property
    def closed(self) -> Flags:
        """The nodes that are not up, (N,)."""
        nodes = self.problem.snapshot.cluster.nodes
        return np.array([node.state is not NodeState.UP for node in nodes], dtype=bool)


def after_plan(problem: Problem, reserved: Sequence[Reserved], assignment: Assignment) -> After:
    """Return the state that a plan leaves."""
    ledger = Ledger(problem)
    for j in assignment.stopped:
        job = problem.jobs[j]
        ledger.leave(job)
    for j, spread in assignment.changed.items():
        ledger.start(problem.jobs[j], spread)
    snapshot = problem.snapshot
    windows = sorted(
        (
            window
            for window in snapshot.reservations
            if window.kind is ReservationKind.MAINTENANCE and window.end_at > snapshot.now
        ),
        key=lambda window: window.start_at,
    )
    return After(problem, assignment, ledger, Ledger(problem), reserved, tuple(windows))


def alike(job: RoundJob) -> tuple[object, ...]:
    """Return what decides where the job fits."""
    side = (job.cpus_per_gpu_u, job.memory_per_gpu_u)
    sizes = (job.minimum, job.maximum)
    return (job.cut, job.unit, *sizes, id(job.nodes), id(job.lawful), job.type_speed, job.required, job.slices, *side)


def fits_in(after: After, job: RoundJob, ledger: Ledger, *, held: bool = False, opened: bool = False) -> bool:
    """Return whether the job fits in what a ledger has free, holds taken off if `held`; jobs alike share the answer.

    `opened` adds the nodes that only a maintenance window or being a spare keeps it off.
    """
    problem = after.problem
    binding: tuple[object, ...] = ()
    if held:
        holds = tuple(hold.name for hold in ledger.holds_on(job))
        grants = tuple(grant.name for grant in problem.domain_holds if job.index in grant.binds)
        if not holds and not grants:
            held = False
        binding = (holds, grants)
    key = (ledger is after.ledger, held, opened, binding, alike(job))
    found = after.fits.get(key)
    if found is None:
        nodes = job.lawful & problem.nodes.taking if opened else None
        found = after.fits[key] = _fits(problem, job, room_for(after, job, ledger, held=held, nodes=nodes))
    return found


def room_for(after: After, job: RoundJob, ledger: Ledger, *, held: bool = False, nodes: Flags | None = None) -> Ints:
    """Return the GPUs of the job that each node could take, holds taken off if `held`, shape (N,)."""
    problem = after.problem
    gpus = ledger.free_for(job) if held else ledger.gpus
    room = usable(job, problem.nodes, gpus, ledger.cpus_u, ledger.memory_u, nodes)
    return slice_down(job, problem.tree, room)


def _fits(problem: Problem, job: RoundJob, room: Ints) -> bool:
    return most_in_one_place(problem, job, room) >= job.minimum


def most_in_one_place(problem: Problem, job: RoundJob, room: Ints) -> int:
    """Return the most GPUs that the job could have in one place that suits it."""
    if job.cut is Cut.ONE_NODE:
        return int(room.max(initial=0))
    best = 0
    for gpu_type, speed in enumerate(job.type_speed):
        if speed > 0:
            typed = np.where(problem.nodes.gpu_type == gpu_type, room, 0)
            if job.required is None:
                best = max(best, room_in_cluster(job, problem.tree, typed))
            else:
                best = max(best, int(whole_slices(job, problem.tree, typed, job.required).max(initial=0)))
    return best
