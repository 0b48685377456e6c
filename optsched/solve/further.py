"""Whether a round could do more once its plan is in force: another greedy pass along the queue, by what is then so.

A plan that takes from somebody changes who has a right over whom. Who starts may bring others of its team above their
team's line, whom other teams may then stop; who goes may bring its team back inside its line. A round does not see
that, since rights go by what ran when it began: another one at the same instant does.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from optsched.rounds.assignment import Assignment
from optsched.rounds.problem import Problem
from optsched.rounds.rights import takeables
from optsched.solve.greedy import Params, Pass
from optsched.solve.growth import grow
from optsched.solve.ledger import Ledger
from optsched.solve.packing import pack


def goes_further(problem: Problem, plan: Assignment) -> bool:
    """Return whether another greedy round at the same instant would find anything to do with a plan in force.

    What teams are entitled to counts as the same: whoever is stopped asks for as much as before. Who is let into held
    room may be told to go where its holder then fits.
    """
    booked = _booked(problem, plan)
    after = _in_force(problem, plan, booked)
    ledger = Ledger(after)
    ledger.held, ledger.granted, ledger.stopped = booked.held, booked.granted, set(plan.stopped)
    look = Pass(after, Params(leftovers=False), ledger)
    # Whoever the plan starts is there by then: it takes nothing from anybody in this pass.
    ledger.changed.update(plan.changed)
    waiting = [job for job in problem.queued if job.index not in plan.changed and job.can_ever_run]
    if any(look.start(job) for job in waiting):
        return True
    grow(after, ledger)
    return ledger.changed.keys() != plan.changed.keys() or _holder_fits(after, plan)


def _booked(problem: Problem, plan: Assignment) -> Ledger:
    """Return the account of a plan, with what stopped jobs had as free."""
    ledger = Ledger(problem)
    for j in plan.stopped:
        ledger.leave(problem.jobs[j])
    for j, spread in plan.changed.items():
        ledger.start(problem.jobs[j], spread)
    return ledger


def _in_force(problem: Problem, plan: Assignment, booked: Ledger) -> Problem:
    """Return the round as it is with a plan in force, jobs where they were: what changed is neither stopped nor moved.

    Nothing is free that was not before: what stopped jobs leave over is not until their agents have said so.
    """
    nodes, occupancy = problem.nodes, problem.occupancy
    stays = np.ones(len(occupancy.size), dtype=bool)
    stays[[j for j in (*plan.changed, *plan.stopped) if j < problem.first_queued]] = False
    use = booked.claim
    occupancy = dataclasses.replace(
        occupancy,
        stoppable=occupancy.stoppable & stays,
        movable=occupancy.movable & stays,
        resizable=occupancy.resizable & stays,
        used=(use.gpus, use.cpus, use.memory),
    )
    return dataclasses.replace(
        problem,
        nodes=dataclasses.replace(
            nodes,
            free=np.minimum(nodes.free, booked.gpus),
            cpus_free_u=np.minimum(nodes.cpus_free_u, booked.cpus_u),
            memory_free_u=np.minimum(nodes.memory_free_u, booked.memory_u),
        ),
        occupancy=occupancy,
        takeable=takeables(problem.lines, occupancy),
    )


def _holder_fits(after: Problem, plan: Assignment) -> bool:
    """Return whether a job that waits fits once those are gone that were let into what is held for it."""
    guests = after.snapshot.carried.guests
    for job in after.queued if guests else ():
        mine = guests.get(job.job.id)
        if not mine or job.index in plan.changed:
            continue
        gpus, cpus_u, memory_u = (
            each.copy() for each in (after.nodes.free, after.nodes.cpus_free_u, after.nodes.memory_free_u)
        )
        for guest in after.running_named(mine):
            for n, count in guest.spread_now if guest.index not in plan.stopped else ():
                gpus[n] += count
                cpus_u[n] += count * guest.cpus_per_gpu_u
                memory_u[n] += count * guest.memory_per_gpu_u
        if pack(after, job, gpus, cpus_u, memory_u, job.minimum) is not None:
            return True
    return False
