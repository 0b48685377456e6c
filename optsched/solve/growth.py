"""Growth at the end of a greedy pass: elastic jobs take what is idle."""

from __future__ import annotations

import numpy as np

from optsched.rounds.problem import Cut, Ints, Problem, RoundJob, Spread
from optsched.rounds.room import slice_down, usable
from optsched.rounds.score import gpu_type_of, size_of
from optsched.solve.ledger import Ledger
from optsched.solve.packing import pack


def grow(problem: Problem, ledger: Ledger) -> None:
    """Give elastic jobs, best rank first, what is idle: no queued job could use it, they had their turn."""
    running = np.flatnonzero(problem.occupancy.elastic).tolist()
    elastic = [
        job
        for job in (problem.jobs[j] for j in (*running, *range(problem.first_queued, len(problem.jobs))))
        if job.elastic and (job.resizable or job.index in ledger.changed) and job.index not in ledger.stopped
    ]
    if not elastic:
        return
    given = {n for j in ledger.stopped for n, _ in problem.jobs[j].spread_now}
    for job in sorted(elastic, key=lambda each: (each.tier, each.priority, each.index)):
        # Who starts over stopped jobs starts at its minimum.
        if not any(n in given for n, _ in ledger.changed.get(job.index, ())):
            grow_one(problem, ledger, job)


def grow_one(problem: Problem, ledger: Ledger, job: RoundJob, by: int | None = None) -> None:
    """Grow one job by adding to where it is, `by` so many GPUs, or (None) to the largest size that fits."""
    present = ledger.changed.get(job.index, job.spread_now)
    # Who shrinks or moves in this plan does not grow elsewhere in it.
    if not present or (job.running and job.index in ledger.changed):
        return
    size, gpu_type = size_of(present), gpu_type_of(problem, present)
    larger = [each for each in job.sizes if each > size and by in (None, each - size)]
    if not larger or ledger.blocked_by(job, larger[0] - size, gpu_type) is not None:
        return
    gpus = _beside(problem, ledger, job, present)
    if job.cut is Cut.ONE_NODE:
        n = present[0][0]
        most = int(gpus[n]) if job.nodes[n] else 0
        if job.cpus_per_gpu_u:
            most = min(most, int(ledger.cpus_u[n]) // job.cpus_per_gpu_u)
        if job.memory_per_gpu_u:
            most = min(most, int(ledger.memory_u[n]) // job.memory_per_gpu_u)
    else:
        room = usable(job, problem.nodes, gpus, ledger.cpus_u, ledger.memory_u)
        most = int(slice_down(job, problem.tree, room).sum())
    for target in reversed(larger):
        more = target - size
        if more > most or ledger.blocked_by(job, more, gpu_type) is not None:
            continue
        grown = _grown(problem, ledger, job, present, gpus, more)
        if grown is not None and ledger.keeps_claims(job, more, gpu_type):
            ledger.start(job, grown)
            return


def _beside(problem: Problem, ledger: Ledger, job: RoundJob, present: Spread) -> Ints:
    """Return the GPUs per node by which the job could grow, (N,): of its type, inside its domain, cut kept."""
    tree = problem.tree
    gpus = np.where(problem.nodes.gpu_type == gpu_type_of(problem, present), ledger.free_for(job), 0)
    if job.required is not None:
        home = tree.domain_of[job.required][present[0][0]]
        gpus[tree.domain_of[job.required] != home] = 0
    if job.cut is Cut.PER_NODE or job.cut is Cut.WHOLE_NODES:
        for n, _ in present:
            gpus[n] = 0
    return gpus


def _grown(problem: Problem, ledger: Ledger, job: RoundJob, present: Spread, gpus: Ints, more: int) -> Spread | None:
    """Return the placement with `more` GPUs beside what the job has, None where there is none."""
    held = dict(present)
    if job.cut is Cut.ONE_NODE:
        n = present[0][0]
        return ((n, held[n] + more),)
    found = pack(problem, job, gpus, ledger.cpus_u, ledger.memory_u, more)
    if found is None:
        return None
    for n, count in found:
        held[n] = held.get(n, 0) + count
    return tuple(sorted(held.items())) if _slices_whole(problem, job, held) else None


def _slices_whole(problem: Problem, job: RoundJob, held: dict[int, int]) -> bool:
    for piece, level in job.slices:
        inside: dict[int, int] = {}
        for n, count in held.items():
            domain = int(problem.tree.domain_of[level][n])
            inside[domain] = inside.get(domain, 0) + count
        if any(count % piece for count in inside.values()):
            return False
    return True
