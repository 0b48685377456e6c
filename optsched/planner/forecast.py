"""When a blocked gang can start, and where, by the estimates of what runs."""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optsched.policy.ordering import due_at
from optsched.policy.victims import estimated_end, grace_s
from optsched.rounds.assignment import Assignment, Change
from optsched.rounds.check import amount_of
from optsched.rounds.problem import Cut, Ints, Problem, Reals, RoundJob, Spread, What
from optsched.rounds.rights import NOTHING, has_right
from optsched.rounds.room import usable
from optsched.solve.packing import fits, pack
from optsched.values.ids import JobId
from optsched.values.job import gpus_on

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


@dataclass(frozen=True, slots=True)
class _Holding:
    """What jobs hold of one resource, and until when: arrays over jobs."""

    job: Ints
    ends_at: Reals
    amount: Ints


class Forecast:
    """When estimates say that nodes come free, once a plan's stops are gone.

    What earlier reservations plan to use is taken off for good; what the plan starts ahead of a job until it ends. Whom
    the plan stops for one behind a job is there for that job until it ends by itself.
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
        stops = self._stops(starts, assignment)
        self._stop_ends = np.array([end for end, _ in stops], dtype=np.float64)
        self._stop_keeps = np.array([row for _, row in stops], dtype=np.int64).reshape(-1, 5)
        held = problem.occupancy
        self._end_of = held.ends_at.copy()
        self._end_of[list(assignment.stopped)] = -NEVER
        ends = self._end_of[held.pair_job]
        # What drains belongs to nobody: it comes behind what runs, with CPUs and memory of its own left out.
        occupied = problem.snapshot.carried.occupied
        index = problem.tree.node_index
        until = np.array([room.until for room in occupied], dtype=np.float64)
        ends = np.concatenate([ends, until])
        none = np.zeros(len(occupied), dtype=np.int64)
        nodes = np.concatenate([held.pair_node, np.array([index[room.node] for room in occupied], dtype=np.int64)])
        gpus = np.concatenate([held.pair_gpus, np.array([gpus_on(room.gpus) for room in occupied], dtype=np.int64)])
        cpus = np.concatenate([held.pair_gpus * held.cpus_u[held.pair_job], none])
        memory = np.concatenate([held.pair_gpus * held.memory_u[held.pair_job], none])
        began = np.concatenate([held.began_at[held.pair_job], none])
        order = np.lexsort((nodes, np.concatenate([held.pair_job, none + problem.first_queued]), began, ends))
        self._ends, self._nodes, self._gpus = ends[order], nodes[order], gpus[order]
        self._cpus, self._memory = cpus[order], memory[order]
        # Who was let into what is held for a job goes when that starts: no end of theirs is waited for.
        self._guests: dict[JobId, list[RoundJob]] = {}
        if problem.snapshot.carried.guests:
            by_holder = problem.snapshot.carried.guests
            named = problem.running_named(frozenset().union(*by_holder.values()))
            self._guests = {
                holder: [each for each in named if each.job.id in guests] for holder, guests in by_holder.items()
            }
        self._before = {room.job: room for room in problem.snapshot.carried.reserved}
        self._booked = np.zeros(len(problem.nodes.capacity), dtype=np.int64)
        self._freed_by: dict[tuple[int, str], Ints] = {}
        self._rooms: dict[int, Ints] = {}
        self._starts = starts
        self._ceilings: dict[int, _Holding] = {}
        self._asked, self._taken = -1, (self._start_takes, self._start_ends)
        self._sorted_with: tuple[bytes, bytes, bytes] | None = None
        self._sorted = (self._nodes, self._gpus, self._ends)
        holding = self._end_of[held.size > 0]
        times = np.unique(np.concatenate([holding, until, self._start_ends, self._stop_ends]))
        self.times: Sequence[float] = times[np.isfinite(times)].tolist()

    def _stops(
        self, starts: Sequence[tuple[RoundJob, float, Spread]], assignment: Assignment
    ) -> list[tuple[float, tuple[int, ...]]]:
        """Return what stopped jobs have, as (when each should have ended by itself, a row of what it has on a node).

        A row begins with the first in the order of those that start there. For whoever is ahead of that one, the
        stop does not happen: what others may take by force is no room of its own.
        """
        first: dict[int, int] = {}
        for job, _, spread in starts:
            for n, _ in spread:
                first[n] = min(job.index, first.get(n, job.index))
        found: list[tuple[float, tuple[int, ...]]] = []
        for j in sorted(assignment.stopped):
            job = self.problem.jobs[j]
            taker = min((first[n] for n, _ in job.spread_now if n in first), default=-1)
            end = estimated_end(job.job, self.now)
            for n, count in job.spread_now:
                row = (taker, n, count, count * job.cpus_per_gpu_u, count * job.memory_per_gpu_u)
                found.append((NEVER if end is None else end, row))
        return found

    def _holding(self, index: int) -> _Holding:
        """Return what the jobs that a ceiling counts hold or are to have of it."""
        found = self._ceilings.get(index)
        if found is None:
            found = self._ceilings[index] = self._held_of(index)
        return found

    def _held_of(self, index: int) -> _Holding:
        problem, item = self.problem, self.problem.ceilings[index].item
        held, jobs = problem.occupancy, np.array(problem.ceilings[index].jobs, dtype=np.int64)
        running = jobs[jobs < problem.first_queued]
        if item.what is What.GPUS:
            amounts = held.size[running]
            if item.gpu_type is not None:
                amounts = np.where(held.gpu_type[running] == item.gpu_type, amounts, 0)
        else:
            amounts = held.size[running] * (held.cpus_u if item.what is What.CPUS else held.memory_u)[running]
        counted = set(jobs.tolist()) if self._starts else set()
        starts = [each for each in self._starts if each[0].index in counted]
        return _Holding(
            np.concatenate([running, np.array([job.index for job, _, _ in starts], dtype=np.int64)]),
            np.concatenate([held.ends_at[running], np.array([end for _, end, _ in starts], dtype=np.float64)]),
            np.concatenate(
                [
                    amounts,
                    np.array([amount_of(problem, job, spread, item) for job, _, spread in starts], dtype=np.int64),
                ]
            ),
        )

    def _allowed(self, job: RoundJob, time: float) -> bool:
        """Return whether limits and quotas let the job start at an instant, what should have ended being gone."""
        for index in self.problem.ceilings_of[job.index]:
            item, held = self.problem.ceilings[index].item, self._holding(index)
            each = {What.GPUS: 1, What.CPUS: job.cpus_per_gpu_u, What.MEMORY: job.memory_per_gpu_u}[item.what]
            counted = item.gpu_type is None or job.type_speed[item.gpu_type] > 0
            left = int(held.amount[(held.ends_at > time) & (held.job < job.index)].sum())
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
        """Return where and when the job can start first if nobody is made to go for it.

        What an earlier round planned for it stands as long as it can still be kept and nothing is sooner: a start that
        was told does not come later because something else looks as good by now.
        """
        before = self._as_before(job)
        if before is None:
            return self._soonest(job)
        start = before.start_at
        if start is not None and not self._sooner(job, start):
            return before
        found = self._soonest(job)
        if found is None or found.start_at is None:
            return before
        return found if start is None or found.start_at < start else before

    def _sooner(self, job: RoundJob, start: float) -> bool:
        """Return whether the job can start before an instant: more room comes free with time, so just before it."""
        at = bisect_left(self.times, start) - 1
        last = self.times[at] if at >= 0 and self.times[at] > self.now else self.now
        return last < start and self._fits_at(job, last)

    def _as_before(self, job: RoundJob) -> Reserved | None:
        """Return what an earlier round planned for the job, None where it can no longer be kept."""
        room, index = self._before.get(job.job.id), self.problem.tree.node_index
        if room is None or not room.planned or any(node not in index for node in room.planned):
            return None
        start = room.start_estimate_at
        if start is not None and start < self.now:
            return None
        inside = np.zeros(len(self._booked), dtype=np.int64)
        for node, count in room.planned.items():
            inside[index[node]] = count
        spread = self._at(job, NEVER if start is None else start, inside=inside)
        return None if spread is None else Reserved(job, spread, start)

    def _soonest(self, job: RoundJob) -> Reserved | None:
        """Return where and when the job can start first, whatever was planned before."""
        least = self._not_before(job)
        spread = self._at(job, self.now) if least <= self.now else None
        if spread is not None:
            return Reserved(job, spread, self.now)
        first, spread = self._first(job, least)
        if spread is not None:
            return Reserved(job, spread, self.times[first])
        waited = self.now - self.problem.snapshot.waits_since(job.job)
        if waited >= self.problem.profile.starve_after_s:
            eventually = self._eventually(job)
            return None if eventually is None else Reserved(job, eventually, None)
        return None

    def _not_before(self, job: RoundJob) -> float:
        """Return an instant before which the job cannot start: too few nodes have room for a unit of it by then.

        It tells nothing (-inf) of jobs whose units differ from node to node.
        """
        if job.cut not in (Cut.ONE_NODE, Cut.PER_NODE):
            return -NEVER
        unit = job.minimum if job.cut is Cut.ONE_NODE else job.unit
        left = self.problem.nodes.free - self._booked
        # What others take first comes back at its end; what guests have is there already, and does not come then.
        taken, until = self._taken_before(job)
        guests = [
            (n, -count, self._end_of[each.index]) for each in self._guests_of(job) for n, count in each.spread_now
        ]
        node, back = taken[:, 1], taken[:, 2]
        if guests:
            node, back = (np.concatenate([taken[:, i + 1], [each[i] for each in guests]]) for i in (0, 1))
            until = np.concatenate([until, [end for _, _, end in guests]])
        np.subtract.at(left, node, back)
        node, through, ends = self._by_node(node, back, until)
        enough = (left[node] + through >= unit).nonzero()[0][::-1]
        # From an entry on a node has room; the first of each node, which is the last here, is the earliest.
        room_at = np.full(len(left), NEVER)
        room_at[node[enough]] = ends[enough]
        room_at[left >= unit] = -NEVER
        count = -(-job.minimum // unit)
        known = room_at[job.nodes]
        return float(np.partition(known, count - 1)[count - 1]) if count <= len(known) else NEVER

    def _taken_before(self, job: RoundJob) -> tuple[Ints, Reals]:
        """Return what is taken by those that start ahead of the job, and kept by whom only others stop, until when.

        Rows are as in `_start_takes`.
        """
        if self._asked == job.index:
            return self._taken
        through = int(np.searchsorted(self._start_takes[:, 0], job.index))
        taken, until = self._start_takes[:through], self._start_ends[:through]
        if len(self._stop_ends):
            unstopped = self._stop_keeps[:, 0] > job.index
            taken = np.concatenate([taken, self._stop_keeps[unstopped]])
            until = np.concatenate([until, self._stop_ends[unstopped]])
        self._asked, self._taken = job.index, (taken, until)
        return self._taken

    def _guests_of(self, job: RoundJob) -> Sequence[RoundJob]:
        """Return who goes when a job starts, of those that have not gone by then."""
        return self._guests.get(job.job.id, ())

    def _by_node(self, node: Ints, gpus: Ints, ends: Reals) -> tuple[Ints, Ints, Reals]:
        """Return what comes free, and this too, node by node in the order of its end: node, all until then, end.

        Mostly the jobs that ask have the same ahead of them.
        """
        key = (node.tobytes(), gpus.tobytes(), ends.tobytes())
        if key != self._sorted_with:
            self._sorted_with, self._sorted = key, self._sort_by_node(node, gpus, ends)
        return self._sorted

    def _sort_by_node(self, node: Ints, gpus: Ints, ends: Reals) -> tuple[Ints, Ints, Reals]:
        node, gpus = np.concatenate([self._nodes, node]), np.concatenate([self._gpus, gpus])
        ends = np.concatenate([self._ends, ends])
        order = np.lexsort((ends, node))
        node, gpus = node[order], gpus[order]
        through = gpus.cumsum()
        begins = np.flatnonzero(np.diff(node, prepend=-1))
        through -= np.repeat((through - gpus)[begins], np.diff(begins, append=len(node)))
        return node, through, ends[order]

    def _first(self, job: RoundJob, least: float) -> tuple[int, Spread | None]:
        """Return the first of the `times` from `least` on at which the job can start, and where; None if at none.

        Mostly that is the very first of them: it is looked for from there on, in growing steps.
        """
        low, high, step = bisect_left(self.times, least), len(self.times), 1
        end, at, near = high, low, not math.isinf(least)
        back: bool | None = None
        while low < high:
            middle = at if near and low <= at < high else (low + high) // 2
            found = self._fits_at(job, self.times[middle])
            if found:
                high, at = middle, middle - step
            else:
                low, at = middle + 1, middle + step
            # Once it lies between two instants that were tried, halves are quicker.
            near, back, step = near and back in (None, found), found, 2 * step
        return low, self._at(job, self.times[low]) if low < end else None

    def _must_take_all(self, job: RoundJob, inside: Ints) -> bool:
        """Return whether the job fits inside these GPUs only if it takes all of them, and anywhere among them."""
        anywhere = job.cut is Cut.PER_NODE and job.required is None and not job.slices
        return anywhere and len(self.problem.gpu_types) == 1 and int(inside.sum()) == job.minimum

    def _eventually(self, job: RoundJob) -> Spread | None:
        """Return where the job can start once as few as possible of those without a known end are gone.

        They are taken to go in the order in which they began.
        """
        low, high = int(np.searchsorted(self._ends, NEVER, side="left")), len(self._ends)
        if self._at(job, NEVER) is None:
            return None
        while low < high:
            middle = (low + high) // 2
            if self._at(job, NEVER, upto=middle) is None:
                low = middle + 1
            else:
                high = middle
        return self._at(job, NEVER, upto=low)

    def _room(self, gone: int) -> Ints:
        """Return the GPUs that are free on each node once so many entries are gone, at most what it has, (N,)."""
        found = self._rooms.get(gone)
        if found is None:
            arrays = self.problem.nodes
            found = self._rooms[gone] = np.minimum(arrays.free + self._freed(gone, "gpus"), arrays.capacity)
        return found

    def _freed(self, gone: int, what: str) -> Ints:
        """Return what comes free on each node once so many entries, in the order of their ends, are gone, (N,)."""
        found = self._freed_by.get((gone, what))
        if found is None:
            amounts = {"gpus": self._gpus, "cpus": self._cpus, "memory": self._memory}[what][:gone]
            freed = np.bincount(self._nodes[:gone], amounts, len(self._booked)).astype(np.int64)
            found = self._freed_by[gone, what] = freed
        return found

    def _at(
        self,
        job: RoundJob,
        time: float,
        forced: Sequence[RoundJob] = (),
        inside: Ints | None = None,
        upto: int | None = None,
    ) -> Spread | None:
        """Return a placement in what is free at an instant if nothing else starts, None where there is none.

        `forced` jobs are gone by then, whatever their estimate. `inside` bounds the GPUs of each node; `upto` lets only
        so many of what comes free be gone.
        """
        if not self._allowed(job, time):
            return None
        arrays = self.problem.nodes
        gpus, cpus, memory = self._free_at(job, time, forced, upto)
        if inside is not None:
            gpus = np.minimum(gpus, inside)
        if inside is not None and self._must_take_all(job, inside):
            room = usable(job, arrays, gpus, cpus, memory)
            if int(room.sum()) < job.minimum:
                return None
            return tuple((n, job.unit) for n in room.nonzero()[0].tolist())
        return pack(self.problem, job, gpus, cpus, memory, job.minimum)

    def _fits_at(self, job: RoundJob, time: float) -> bool:
        """Return whether there is a placement in what is free at an instant if nothing else starts."""
        return self._allowed(job, time) and fits(self.problem, job, *self._free_at(job, time))

    def _free_at(
        self, job: RoundJob, time: float, forced: Sequence[RoundJob] = (), upto: int | None = None
    ) -> tuple[Ints, Ints, Ints]:
        """Return the GPUs, and CPUs and memory where the job needs any, that it finds free at an instant, (N,) each."""
        gone = int(np.searchsorted(self._ends, time, side="right")) if upto is None else upto
        arrays = self.problem.nodes
        gpus = np.maximum(0, self._room(gone) - self._booked)
        cpus, memory = arrays.cpus_free_u, arrays.memory_free_u
        if job.cpus_per_gpu_u:
            cpus = cpus + self._freed(gone, "cpus")
        if job.memory_per_gpu_u:
            memory = memory + self._freed(gone, "memory")
        leaving = {each.index: each for each in (*self._guests_of(job), *forced)}
        gone_too = [
            (0, n, -count, -count * each.cpus_per_gpu_u, -count * each.memory_per_gpu_u)
            for each in leaving.values()
            if self._end_of[each.index] > time
            for n, count in each.spread_now
        ]
        rows, until = self._taken_before(job)
        taken = rows[until > time]
        for each in (np.array(gone_too, dtype=np.int64).reshape(-1, 5), taken):
            if len(each):
                _, on, gpus_taken, cpus_taken, memory_taken = each.T
                np.subtract.at(gpus, on, gpus_taken)
                if job.cpus_per_gpu_u:
                    np.subtract.at(cpus, on, cpus_taken)
                if job.memory_per_gpu_u:
                    np.subtract.at(memory, on, memory_taken)
        return np.maximum(0, gpus), cpus, memory
