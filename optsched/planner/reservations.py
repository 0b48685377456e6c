"""Room for blocked gangs: where each can start first, when, and what is kept for it until then."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optsched.policy.ordering import FAIR, due_at
from optsched.policy.victims import estimated_end, grace_s
from optsched.rounds.assignment import Assignment, Change
from optsched.rounds.check import amount_of
from optsched.rounds.problem import Hold, Ints, Problem, RoundJob, Spread, What
from optsched.rounds.rights import NOTHING, has_right
from optsched.solve.packing import pack
from optsched.values.ids import JobId
from optsched.values.job import gpus_on
from optsched.values.plan import ReservedRoom

NEVER = np.inf


@dataclass(frozen=True, slots=True)
class Reserved:
    """A reservation: where the gang is planned to start, and from when on (None: cannot be estimated).

    `by_force`: others will have to make room then, for the sake of its start deadline.
    """

    job: RoundJob
    spread: Spread
    start_at: float | None
    by_force: bool = False


def reserve(problem: Problem, assignment: Assignment) -> tuple[Problem, tuple[Reserved, ...]]:
    """Return the problem with holds for the gangs that `assignment` leaves blocked, and the reservations themselves.

    Near deadlines are first served, then those starved within their entitlement, then the queue order; a job that can
    never run, or that a quota or limit keeps waiting, gets none. A due deadline that a reservation meets anyway
    displaces nobody.
    """
    forecast = _Forecast(problem, assignment)
    reserved: list[Reserved] = []
    for job in _candidates(problem, assignment)[: max(0, problem.profile.max_reservations)]:
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
    waits = [*_kept(problem, assignment), *reserved]
    holds = tuple(hold for each in waits if (hold := _hold(problem, each)) is not None)
    jobs = tuple(dataclasses.replace(job, due=False) if job.index in met and job.due else job for job in problem.jobs)
    return dataclasses.replace(problem, holds=holds, jobs=jobs), tuple(reserved)


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
        starved = now - job.job.submitted_at >= profile.starve_after_s and job.tier <= FAIR
        deadline = job.job.start_deadline_at
        if job.minimum < largest and not starved and deadline is None:
            continue
        ranked.append(((deadline is None, deadline or 0.0, not starved, job.index), job))
    return [job for _, job in sorted(ranked, key=lambda each: each[0])]


class _Forecast:
    """When estimates say that nodes come free, once a plan's stops are gone.

    What earlier reservations plan to use is taken off for good; what the plan starts ahead of a job until it ends.
    """

    def __init__(self, problem: Problem, assignment: Assignment) -> None:
        self.problem = problem
        self.now = problem.snapshot.now
        starts = [
            (job, NEVER if (estimate := job.job.estimated_runtime_s) is None else self.now + estimate, spread)
            for job in problem.queued
            if (spread := assignment.changed.get(job.index)) is not None
        ]
        self._start_ends = np.array([end for _, end, spread in starts for _ in spread], dtype=np.float64)
        self._start_takes = np.array(
            [
                (job.index, n, count, count * job.cpus_per_gpu_u, count * job.memory_per_gpu_u)
                for job, _, spread in starts
                for n, count in spread
            ],
            dtype=np.int64,
        ).reshape(-1, 5)
        held = problem.occupancy
        ends = np.array([self._end(job, assignment) for job in problem.running], dtype=np.float64)[held.pair_job]
        # What drains belongs to nobody: it comes behind what runs, with CPUs and memory of its own left out.
        occupied = problem.snapshot.carried.occupied
        index = problem.tree.node_index
        ends = np.concatenate([ends, np.array([room.until for room in occupied], dtype=np.float64)])
        none = np.zeros(len(occupied), dtype=np.int64)
        nodes = np.concatenate([held.pair_node, np.array([index[room.node] for room in occupied], dtype=np.int64)])
        gpus = np.concatenate([held.pair_gpus, np.array([gpus_on(room.gpus) for room in occupied], dtype=np.int64)])
        cpus = np.concatenate([held.pair_gpus * held.cpus_u[held.pair_job], none])
        memory = np.concatenate([held.pair_gpus * held.memory_u[held.pair_job], none])
        order = np.lexsort((nodes, np.concatenate([held.pair_job, none + problem.first_queued]), ends))
        self._ends, self._nodes, self._gpus = ends[order], nodes[order], gpus[order]
        self._cpus, self._memory = cpus[order], memory[order]
        # Who was let into what is held for a job goes when that starts: no end of theirs is waited for.
        self._guests = {
            holder: [each for each in problem.running if each.job.id in guests]
            for holder, guests in problem.snapshot.carried.guests.items()
        }
        self._end_of = {job.index: self._end(job, assignment) for job in problem.running}
        self._booked = np.zeros(len(problem.nodes.capacity), dtype=np.int64)
        self._ceilings = [
            [
                (end, amount_of(problem, job, job.spread_now, ceiling.item))
                for job, end in self._running_in(ceiling.jobs)
            ]
            for ceiling in problem.ceilings
        ]
        times = np.unique(np.concatenate([self._ends, self._start_ends]))
        self.times: Sequence[float] = times[np.isfinite(times)].tolist()

    def _end(self, job: RoundJob, assignment: Assignment) -> float:
        """Return when a running job should be gone: at once where the plan stops it."""
        if job.index in assignment.stopped:
            return -NEVER
        end = estimated_end(job.job, self.now)
        return NEVER if end is None else end

    def _running_in(self, jobs: Sequence[int]) -> list[tuple[RoundJob, float]]:
        running = [self.problem.jobs[j] for j in jobs if j < self.problem.first_queued]
        ends = [estimated_end(job.job, self.now) for job in running]
        return [(job, NEVER if end is None else end) for job, end in zip(running, ends, strict=True)]

    def _allowed(self, job: RoundJob, time: float) -> bool:
        """Return whether limits and quotas let the job start at an instant, what should have ended being gone."""
        for ceiling, held in zip(self.problem.ceilings, self._ceilings, strict=True):
            if job.index in ceiling.jobs:
                item = ceiling.item
                each = {What.GPUS: 1, What.CPUS: job.cpus_per_gpu_u, What.MEMORY: job.memory_per_gpu_u}[item.what]
                counted = item.gpu_type is None or job.type_speed[item.gpu_type] > 0
                left = sum(amount for end, amount in held if end > time)
                if left + job.minimum * each * counted > item.amount:
                    return False
        return True

    def book(self, spread: Spread) -> None:
        """Take a planned placement off what later reservations may count on."""
        for n, count in spread:
            self._booked[n] += count

    def first_start(self, job: RoundJob) -> Reserved | None:
        """Return where and when the job can start first; without an estimate only once it is starved."""
        by_itself = self._when(job)
        grace = grace_s(job.job, self.problem.profile)
        at = due_at(job.job, grace, self.problem.profile)
        deadline = job.job.start_deadline_at
        if at is None or deadline is None or (by_itself and by_itself.start_at and by_itself.start_at <= deadline):
            return by_itself
        if job.job.id in self.problem.snapshot.carried.late:
            return by_itself
        forced = self._at(job, max(at, self.now), self._giving_way(job))
        return by_itself if forced is None else Reserved(job, forced, max(at, self.now), by_force=True)

    def _giving_way(self, job: RoundJob) -> list[RoundJob]:
        """Return the running jobs that would have to make room for the sake of the job's start deadline."""
        urgent = dataclasses.replace(job, due=True)
        kept = self.problem.snapshot.carried.protected | self.problem.snapshot.carried.pinned
        return [
            each
            for each in self.problem.running
            if each.job.preemptible
            and each.job.id not in kept
            and has_right(self.problem, urgent, each, Change.STOP, NOTHING)
        ]

    def _when(self, job: RoundJob) -> Reserved | None:
        """Return where and when the job can start first if nobody is made to go for it."""
        spread = self._at(job, self.now)
        if spread is not None:
            return Reserved(job, spread, self.now)
        low, high = 0, len(self.times)
        while low < high:
            middle = (low + high) // 2
            if self._at(job, self.times[middle]) is None:
                low = middle + 1
            else:
                high = middle
        if low < len(self.times):
            at = self.times[low]
            found = self._at(job, at)
            return None if found is None else Reserved(job, found, at)
        waited = self.now - job.job.submitted_at
        if waited >= self.problem.profile.starve_after_s:
            eventually = self._at(job, NEVER)
            return None if eventually is None else Reserved(job, eventually, None)
        return None

    def _at(self, job: RoundJob, time: float, forced: Sequence[RoundJob] = ()) -> Spread | None:
        """Return a placement in what is free at an instant if nothing else starts, None where there is none.

        `forced` jobs are gone by then, whatever their estimate.
        """
        if not self._allowed(job, time):
            return None
        gone = slice(0, int(np.searchsorted(self._ends, time, side="right")))
        nodes, count = self._nodes[gone], len(self._booked)
        arrays = self.problem.nodes

        def plus(free: Ints, amounts: Ints) -> Ints:
            return free + np.bincount(nodes, amounts[gone], count).astype(np.int64)

        ahead = (self._start_takes[:, 0] < job.index) & (self._start_ends > time)
        _, on, gpus_taken, cpus_taken, memory_taken = self._start_takes[ahead].T
        gpus = np.maximum(0, np.minimum(plus(arrays.free, self._gpus), arrays.capacity) - self._booked)
        leaving = {each.index: each for each in (*self._guests.get(job.job.id, ()), *forced)}
        gone_too = [
            (n, count, count * each.cpus_per_gpu_u, count * each.memory_per_gpu_u)
            for each in leaving.values()
            if self._end_of[each.index] > time
            for n, count in each.spread_now
        ]
        left_on, gpus_left, cpus_left, memory_left = np.array(gone_too, dtype=np.int64).reshape(-1, 4).T
        np.add.at(gpus, left_on, gpus_left)
        np.subtract.at(gpus, on, gpus_taken)
        cpus, memory = arrays.cpus_free_u, arrays.memory_free_u
        if job.cpus_per_gpu_u:
            cpus = plus(cpus, self._cpus)
            np.add.at(cpus, left_on, cpus_left)
            np.subtract.at(cpus, on, cpus_taken)
        if job.memory_per_gpu_u:
            memory = plus(memory, self._memory)
            np.add.at(memory, left_on, memory_left)
            np.subtract.at(memory, on, memory_taken)
        return pack(self.problem, job, np.maximum(0, gpus), cpus, memory, job.minimum)


def _hold(problem: Problem, reserved: Reserved) -> Hold | None:
    """Return what is kept now for a reservation, None where nothing is."""
    now, profile = problem.snapshot.now, problem.profile
    start = reserved.start_at
    if start is not None and start - now > profile.hold_horizon_s:
        return None
    free = problem.nodes.free
    kept = {n: min(count, int(free[n])) for n, count in reserved.spread if free[n] > 0}
    if not kept:
        return None
    until = profile.horizon_s if start is None else min(profile.horizon_s, max(0.0, start - now))
    return Hold(
        name=str(reserved.job.job.id),
        unless=reserved.job.index,
        gpus=kept,
        binds=frozenset(job.index for job in problem.jobs if _binds(problem, reserved, job)),
        until_s=round(until),
    )


def _binds(problem: Problem, reserved: Reserved, job: RoundJob) -> bool:
    """Return whether a hold keeps the job off: it is behind, and neither ends in time nor stops on demand."""
    return not _stops_on_demand(problem, job) and _stands_in_the_way(problem, reserved, job)


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
        end = estimated_end(job.job, now)
        return end is None or end > start
    return now + estimate > start


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
        rooms.append(ReservedRoom(each.job.job.id, domain, kept, each.start_at, guests))
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
