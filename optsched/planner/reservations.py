"""Room for blocked gangs: where each can start first, when, and what is kept for it until then."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from optsched.planner.forecast import Forecast, Reserved
from optsched.policy.ordering import FAIR
from optsched.rounds.assignment import Assignment
from optsched.rounds.problem import Flags, Hold, Problem, Reals, RoundJob
from optsched.values.altered import altered
from optsched.values.ids import JobId
from optsched.values.plan import ReservedRoom


def reserve(problem: Problem, assignment: Assignment) -> tuple[Problem, tuple[Reserved, ...]]:
    """Return the problem with holds for the gangs that `assignment` leaves blocked, and the reservations themselves.

    Near deadlines are first served, then those starved within their entitlement, then the queue order; a job that can
    never run, or that a quota or limit keeps waiting, gets none. A due deadline that a reservation meets anyway
    displaces nobody.
    """
    reserved: list[Reserved] = []
    candidates = _candidates(problem, assignment)[: max(0, problem.profile.max_reservations)]
    kept = _kept(problem, assignment)
    if not candidates and not kept:
        return problem, ()
    forecast = Forecast(problem, assignment)
    for job in candidates:
        found = forecast.first_start(job)
        if found is not None:
            reserved.append(found)
            forecast.book(found.spread)
    met = {
        each.job.index
        for each in reserved
        if each.start_at is not None
        and not each.by_force
        and each.job.job.start_deadline_at is not None
        and each.start_at <= each.job.job.start_deadline_at
    }
    waits = [*kept, *reserved]
    ends = _ends_if_started(problem)
    holds = tuple(hold for each in waits if (hold := _hold(problem, each, ends)) is not None)
    eased = {j: dataclasses.replace(problem.jobs[j], due=False) for j in met if problem.jobs[j].due}
    return dataclasses.replace(problem, holds=holds, jobs=problem.jobs.replaced(eased)), tuple(reserved)


def _kept(problem: Problem, assignment: Assignment) -> list[Reserved]:
    """Return what earlier rounds keep for jobs that wait, as reservations of that room."""
    kept = {each.job: each for each in problem.snapshot.carried.kept} if problem.snapshot.carried.kept else {}
    index = problem.tree.node_index
    found = []
    for job in problem.queued if kept else ():
        room = kept.get(job.job.id)
        if room is not None and job.index not in assignment.changed:
            spread = tuple(sorted((index[node], count) for node, count in room.gpus.items()))
            found.append(Reserved(job, spread, room.until))
    return found


def _candidates(problem: Problem, assignment: Assignment) -> list[RoundJob]:
    """Return the blocked jobs that may be given a reservation, those that need it most first."""
    largest = int(problem.nodes.capacity.max(initial=1))
    now, profile = problem.snapshot.now, problem.profile
    ranked = []
    for job in problem.queued:
        if job.index in assignment.changed or not job.can_ever_run:
            continue
        starved = now - problem.snapshot.waits_since(job.job) >= profile.starve_after_s and job.tier <= FAIR
        deadline = job.job.start_deadline_at
        if job.minimum < largest and not starved and deadline is None:
            continue
        ranked.append(((deadline is None, deadline or 0.0, not starved, job.index), job))
    return [job for _, job in sorted(ranked, key=lambda each: each[0])]


def _ends_if_started(problem: Problem) -> Reals:
    """Return when each queued job would end by its estimate if it started now, infinity without one; in their order."""
    now, estimates = problem.snapshot.now, (each.job.estimated_runtime_s for each in problem.queued)
    return np.array([np.inf if estimate is None else now + estimate for estimate in estimates], dtype=np.float64)


def _hold(problem: Problem, reserved: Reserved, ends: Reals) -> Hold | None:
    """Return what is kept now for a reservation, None where nothing is; `ends` are `_ends_if_started`."""
    now, profile = problem.snapshot.now, problem.profile
    start = reserved.start_at
    if start is not None and start - now > profile.hold_horizon_s:
        return None
    free = problem.nodes.free
    kept = {n: min(count, int(free[n])) for n, count in reserved.spread if free[n] > 0}
    if not kept:
        return None
    until = profile.horizon_s if start is None else min(profile.horizon_s, max(0.0, start - now))
    queued = problem.queued
    return Hold(
        name=str(reserved.job.job.id),
        unless=reserved.job.index,
        gpus=kept,
        binds=frozenset(
            [
                *_binds_running(problem, reserved),
                *(
                    problem.first_queued + position
                    for position in np.flatnonzero(_queued_in_the_way(problem, reserved, ends)).tolist()
                    if not _stops_on_demand(problem, queued[position])
                ),
            ]
        ),
        until_s=round(until),
    )


def _binds_running(problem: Problem, reserved: Reserved) -> list[int]:
    """Return the running jobs that a hold keeps off: they neither end in time nor stop on demand."""
    held = problem.occupancy
    binds = np.ones(len(held.size), dtype=bool)
    if problem.profile.backfill_preemptible:
        binds &= ~held.preemptible | held.protected
    if reserved.start_at is not None:
        binds &= held.moved_ends_at > reserved.start_at
    found: list[int] = np.flatnonzero(binds).tolist()
    return found


def _stops_on_demand(problem: Problem, job: RoundJob) -> bool:
    """Return whether a job may use held GPUs on condition that the holder stops it."""
    spent = job.job.id in problem.snapshot.carried.protected
    return job.job.preemptible and problem.profile.backfill_preemptible and not spent


def _stands_in_the_way(problem: Problem, reserved: Reserved, job: RoundJob) -> bool:
    """Return whether a job is behind a reservation, and would still be there when that starts."""
    if job.index == reserved.job.index or (not job.running and job.index < reserved.job.index):
        return False
    now, start, estimate = problem.snapshot.now, reserved.start_at, job.job.estimated_runtime_s
    if start is None or estimate is None:
        return True
    if job.running:
        # It is asked of who moves or grows.
        return bool(problem.occupancy.moved_ends_at[job.index] > start)
    return now + estimate > start


def kept_clear(problem: Problem, reserved: Sequence[Reserved]) -> Problem:
    """Return the problem in which queued jobs are kept off nodes that are planned for others ahead, and not free.

    A hold keeps them off what is free; this keeps them from stopping somebody there, and staying past the start.
    """
    rooms = [(each, nodes) for each in reserved if _told(problem, each) and (nodes := _not_free(problem, each))]
    if not rooms:
        return problem
    masked: dict[tuple[int, bytes], Flags] = {}
    kept: dict[int, RoundJob] = {}
    queued, ends = problem.queued, _ends_if_started(problem)
    behind = np.array([_queued_in_the_way(problem, each, ends) for each, _ in rooms], dtype=bool).T
    for position in np.flatnonzero(behind.any(axis=1)).tolist():
        job, held_by = queued[position], behind[position]
        # Jobs that are alike share their nodes, and are told by that.
        key = (id(job.nodes), held_by.tobytes())
        if key not in masked:
            allowed = job.nodes.copy()
            for i in np.flatnonzero(held_by).tolist():
                allowed[rooms[i][1]] = False
            masked[key] = allowed
        kept[job.index] = altered(job, nodes=masked[key])
    return dataclasses.replace(problem, jobs=problem.jobs.replaced(kept))


def _queued_in_the_way(problem: Problem, reserved: Reserved, ends: Reals) -> Flags:
    """Return which queued jobs are behind a reservation and would still be there: `_stands_in_the_way` of all.

    `ends` are `_ends_if_started`.
    """
    start = reserved.start_at
    late = ends > start if start is not None else np.ones(len(ends), dtype=bool)
    return late & (np.arange(problem.first_queued, len(problem.jobs)) > reserved.job.index)


def _told(problem: Problem, reserved: Reserved) -> bool:
    """Return whether a reservation has a start that nobody is stopped for, and things are held for it by now."""
    start = reserved.start_at
    held = start is not None and start - problem.snapshot.now <= problem.profile.hold_horizon_s
    return held and not reserved.by_force


def _not_free(problem: Problem, reserved: Reserved) -> list[int]:
    """Return the nodes of a reservation that are not free yet as far as it will use them."""
    return [n for n, count in reserved.spread if problem.nodes.free[n] < count]


def delayers(problem: Problem, reserved: Sequence[Reserved], assignment: Assignment) -> dict[int, set[int]]:
    """Return, by job that would take the room of a reservation ahead of it past its start, the nodes where it would.

    A hold keeps such jobs off what is free; what is planned and not free yet they may still take from those whom they
    may stop.
    """
    found: dict[int, set[int]] = {}
    for each in reserved:
        if each.job.index in assignment.changed or not _told(problem, each):
            continue
        takers = _takers(problem, each, assignment)
        planned = {n: count for n, count in each.spread if n in takers}
        if not planned:
            continue
        left = {n: int(problem.nodes.capacity[n]) - count for n, count in planned.items()}
        behind = {j for jobs in takers.values() for j in jobs}
        there = np.isin(problem.occupancy.pair_node, list(left))
        for j in {*problem.occupancy.pair_job[there].tolist(), *assignment.changed}:
            job = problem.jobs[j]
            if j not in behind and _still_there(problem, each, job, assignment):
                for n, count in assignment.after(job):
                    if n in left:
                        left[n] -= count
        for n in planned:
            if sum(takers[n].values()) > max(0, left[n]):
                for j in takers[n]:
                    found.setdefault(j, set()).add(n)
    return found


def _takers(problem: Problem, reserved: Reserved, assignment: Assignment) -> dict[int, dict[int, int]]:
    """Return, by node, the jobs behind a reservation that gain GPUs there and would be there at its start: {job: GPUs}.

    Those whom a plan lets in on condition that the holder stops them are not among them.
    """
    held = next((hold.gpus for hold in problem.holds if hold.unless == reserved.job.index), {})
    guests = set(_guests(problem, reserved, held, assignment))
    found: dict[int, dict[int, int]] = {}
    for j, spread in assignment.changed.items():
        job = problem.jobs[j]
        if job.job.id in guests or not _stands_in_the_way(problem, reserved, job):
            continue
        now = dict(job.spread_now)
        for n, count in spread:
            if count > now.get(n, 0):
                found.setdefault(n, {})[j] = count
    return found


def _still_there(problem: Problem, reserved: Reserved, job: RoundJob, assignment: Assignment) -> bool:
    """Return whether a job has GPUs after a plan, still has them at a reservation's start, and does not go for it."""
    now, start, spread = problem.snapshot.now, reserved.start_at, assignment.after(job)
    if not spread or start is None or job.job.id in problem.snapshot.carried.guests.get(reserved.job.job.id, ()):
        return False
    if job.running:
        held = problem.occupancy
        return bool((held.moved_ends_at if job.index in assignment.changed else held.ends_at)[job.index] > start)
    estimate = job.job.estimated_runtime_s
    return estimate is None or now + estimate > start


def reserved_rooms(problem: Problem, reserved: Sequence[Reserved], assignment: Assignment) -> tuple[ReservedRoom, ...]:
    """Return the reservations whose gangs do not start in this plan, as the plan shows them."""
    tree = problem.tree
    rooms = []
    for each in reserved:
        if each.job.index in assignment.changed:
            continue
        nodes = np.array([n for n, _ in each.spread], dtype=np.int64)
        span = each.job.required if each.job.required is not None else tree.span_level(nodes)
        domain = tree.span_name(-1) if span < 0 else tree.domain_names[span][tree.domain_of[span][nodes[0]]]
        held = next((hold.gpus for hold in problem.holds if hold.unless == each.job.index), {})
        kept = tuple(tree.node_ids[n] for n in sorted(held))
        guests = _guests(problem, each, held, assignment)
        planned = {tree.node_ids[n]: count for n, count in each.spread}
        rooms.append(ReservedRoom(each.job.job.id, domain, kept, each.start_at, guests, planned))
    return tuple(rooms)


def _guests(problem: Problem, reserved: Reserved, held: Mapping[int, int], assignment: Assignment) -> tuple[JobId, ...]:
    """Return the jobs that a plan puts on held GPUs on condition that the holder stops them."""
    left = {n: int(problem.nodes.free[n]) - count for n, count in held.items()}
    gains: dict[int, set[int]] = {}
    for j in sorted(assignment.changed.keys() | assignment.stopped) if held else ():
        job = problem.jobs[j]
        now, then = dict(job.spread_now), dict(assignment.after(job))
        for n in (now.keys() | then.keys()) & left.keys():
            gain = then.get(n, 0) - now.get(n, 0)
            left[n] -= gain
            if gain > 0:
                gains.setdefault(n, set()).add(j)
    found = {j for n, jobs in gains.items() if left[n] < 0 for j in jobs}
    return tuple(
        problem.jobs[j].job.id
        for j in sorted(found)
        if _stops_on_demand(problem, problem.jobs[j]) and _stands_in_the_way(problem, reserved, problem.jobs[j])
    )
