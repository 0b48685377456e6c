"""First come, first served, onto the fullest nodes; and the best fit that starts whoever fits."""

from __future__ import annotations

import numpy as np

from optsched.rounds.problem import Cut, Ints, Problem, RoundJob, Spread
from optsched.rounds.room import usable
from optsched.sim.policies.baseline import Baseline, Choice, Starts, by_age
from optsched.sim.policies.policy import Means, Policy
from optsched.solve.packing import pack


def best_fit(problem: Problem, job: RoundJob, gpus: Ints, cpus_u: Ints, memory_u: Ints, size: int) -> Spread | None:
    """Return a placement on the nodes with least free that can take the job, wherever they lie.

    Only a level that the job requires counts: there the domain with least room that holds it is taken. For jobs with
    slices the topology counts as it always does.
    """
    if job.slices:
        return pack(problem, job, gpus, cpus_u, memory_u, size)
    room = usable(job, problem.nodes, gpus, cpus_u, memory_u)
    for gpu_type in sorted(range(len(problem.gpu_types)), key=lambda y: (-job.type_speed[y], y)):
        if job.type_speed[gpu_type] <= 0:
            continue
        typed = np.where(problem.nodes.gpu_type == gpu_type, room, 0)
        for inside in _parts(problem, job, typed, size):
            found = _fill(job, inside, gpus, size)
            if found is not None:
                return found
    return None


def _parts(problem: Problem, job: RoundJob, room: Ints, size: int) -> list[Ints]:
    """Return the room that may be used together: all of it, or that of each domain of the required level."""
    if job.required is None:
        return [room] if int(room.sum()) >= size else []
    totals = problem.tree.sum_per_domain(job.required, room)
    fitting = np.flatnonzero(totals >= size)
    domain_of = problem.tree.domain_of[job.required]
    return [np.where(domain_of == d, room, 0) for d in fitting[np.argsort(totals[fitting], kind="stable")].tolist()]


def _fill(job: RoundJob, room: Ints, free: Ints, size: int) -> Spread | None:
    """Return `size` GPUs on the nodes with least free, the first of equals; None where the cut does not come out."""
    if job.cut is Cut.ONE_NODE:
        fitting = np.flatnonzero(room >= size)
        return ((int(fitting[np.argmin(free[fitting])]), size),) if len(fitting) else None
    nodes = np.flatnonzero(room)
    left, taken = size, []
    for n in nodes[np.argsort(free[nodes], kind="stable")].tolist():
        if not left:
            break
        count = min(int(room[n]), left)
        if job.cut is Cut.WHOLE_NODES and count < room[n]:
            continue
        taken.append((n, count))
        left -= count
    return None if left else tuple(sorted(taken))


def fifo(problem: Problem) -> Choice:
    """Start the oldest for as long as they fit; the first that does not holds up all behind it.

    One that a limit of its team keeps waiting holds up nobody.
    """
    starts = Starts(problem, best_fit)
    for job in by_age(problem):
        if not starts.allowed(job):
            continue
        spread = starts.fit(job)
        if spread is None:
            break
        starts.start(job, spread)
    return Choice(starts.assignment)


def bin_packing(problem: Problem) -> Choice:
    """Start whoever fits, by priority and then by age: small jobs on the fullest node, gangs in the fullest domain."""
    starts = Starts(problem, pack)
    for job in sorted(by_age(problem), key=lambda each: each.priority):
        if starts.allowed(job) and (spread := starts.fit(job)) is not None:
            starts.start(job, spread)
    return Choice(starts.assignment)


def _planner(means: Means) -> Baseline:
    return Baseline(fifo)


def _packing(means: Means) -> Baseline:
    return Baseline(bin_packing)


FIFO = (Policy("fifo-best-fit", _planner), Policy("bin-packing-tree-best-fit", _packing))
"""Policies that look at nothing but what is free now."""
