"""What a round could do were something different: greedy passes along the queue that plan nothing.

A plan that takes from somebody changes who has a right over whom. Who starts may bring others of its team above their
team's line, whom other teams may then stop; who goes may bring its team back inside its line. A round does not see
that, since rights go by what ran when it began: another one at the same instant does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence, Set

import numpy as np

from optsched.rounds.assignment import NO_CHANGE, Assignment
from optsched.rounds.problem import Problem, RoundJob
from optsched.rounds.rights import takeables
from optsched.solve.greedy import Params, Pass
from optsched.solve.growth import grow
from optsched.solve.ledger import Ledger


def goes_further(problem: Problem, plan: Assignment, ready: Sequence[RoundJob] = ()) -> bool:
    """Return whether another greedy round at the same instant would find anything to do with a plan in force.

    What teams are entitled to, what stops cost and what is reserved count as the same: whoever is stopped asks for as
    much as before. Those who are `ready` wait for nobody but whom they let into their room: these have to go where it
    is the plan that puts them in line.
    """
    booked = _booked(problem, plan)
    after = _with(problem, plan, booked, freed=False)
    ledger = Ledger(after)
    ledger.granted, ledger.stopped = booked.granted, set(plan.stopped)
    look = Pass(after, Params(leftovers=False), ledger)
    # Whoever the plan starts is there by then: it takes nothing from anybody in this pass.
    ledger.changed.update(plan.changed)
    waiting = [job for job in problem.queued if job.index not in plan.changed and job.can_ever_run]
    if any(look.start(job) for job in waiting):
        return True
    grow(after, ledger)
    if ledger.changed.keys() != plan.changed.keys():
        return True
    guests = problem.snapshot.carried.guests
    for job in ready if guests else ():
        mine = {guest.index for guest in problem.running_named(guests.get(job.job.id, frozenset()))}
        if mine and not _starts_without(problem, job, mine) and _starts_without(after, job, mine - plan.stopped, plan):
            return True
    return False


def starts_in_turn(problem: Problem, job: RoundJob) -> bool:
    """Return whether a queued job starts in free room when its turn comes in a greedy pass."""
    return _gets_room(Pass(problem, Params(grow=False)), job)


def _starts_without(problem: Problem, job: RoundJob, gone: Set[int], plan: Assignment = NO_CHANGE) -> bool:
    """Return whether a queued job starts in free room when its turn comes, if some who run were gone by then.

    Of a `plan` that is in force already it is known who starts.
    """
    left = Assignment(stopped=frozenset(gone))
    booked = _booked(problem, left)
    after = _with(problem, left, booked, freed=True)
    ledger = Ledger(after)
    ledger.granted = booked.granted
    look = Pass(after, Params(grow=False), ledger)
    ledger.changed.update(plan.changed)
    return _gets_room(look, job)


def _gets_room(look: Pass, job: RoundJob) -> bool:
    """Return whether a job starts in free room once a pass has started all that come before it."""
    for each in look.problem.queued:
        if each.index == job.index:
            break
        if each.can_ever_run and each.index not in look.ledger.changed:
            look.start(each)
    return look.start_in_free_room(job)


def _booked(problem: Problem, plan: Assignment) -> Ledger:
    """Return the account of a plan, with what stopped jobs had as free."""
    ledger = Ledger(problem)
    for j in plan.stopped:
        ledger.leave(problem.jobs[j])
    for j, spread in plan.changed.items():
        ledger.start(problem.jobs[j], spread)
    return ledger


def _with(problem: Problem, plan: Assignment, booked: Ledger, *, freed: bool) -> Problem:
    """Return the round as it is with a plan in force, jobs where they were: what changed is neither stopped nor moved.

    Unless what stopped jobs leave over is `freed`, nothing is free that was not before: their agents have yet to say
    that they are gone.
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
    gpus, cpus_u, memory_u = booked.gpus, booked.cpus_u, booked.memory_u
    if not freed:
        gpus, cpus_u = np.minimum(nodes.free, gpus), np.minimum(nodes.cpus_free_u, cpus_u)
        memory_u = np.minimum(nodes.memory_free_u, memory_u)
    return dataclasses.replace(
        problem,
        nodes=dataclasses.replace(nodes, free=gpus, cpus_free_u=cpus_u, memory_free_u=memory_u),
        occupancy=occupancy,
        takeable=takeables(problem.lines, occupancy),
        ceilings=tuple(
            dataclasses.replace(each, held=held) for each, held in zip(problem.ceilings, booked.held, strict=True)
        ),
    )
