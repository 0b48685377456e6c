"""Backfilling, after Mu'alem and Feitelson (2001): EASY keeps a place for the first that waits, conservative for all.

A place is a set of nodes, not a number: gangs that require a domain are kept one.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from optsched.planner.forecast import Reserved
from optsched.rounds.problem import Ints, Problem, RoundJob, Spread
from optsched.rounds.score import gpu_type_of
from optsched.sim.policies.baseline import Baseline, Choice, Ends, Starts, by_age, expected_s, size_of
from optsched.sim.policies.policy import Means, Policy
from optsched.solve.packing import pack

DEPTH = 100
"""So many waiting jobs have a place kept for them; those behind may start where that delays none of these."""

STEPS = 40
"""The expected ends of what runs are gathered into about so many instants, each put off to the next one."""


def easy(problem: Problem) -> Choice:
    """Start the oldest while they fit; of the others whoever delays the first that does not is left waiting."""
    starts = Starts(problem)
    line = by_age(problem)
    head, behind = None, []
    for index, job in enumerate(line):
        if not starts.allowed(job):
            continue
        spread = starts.fit(job)
        if spread is None:
            head, behind = job, line[index + 1 :]
            break
        starts.start(job, spread)
    if head is None:
        return Choice(starts.assignment)
    ends = Ends(problem, starts)
    reserved = _shadow(problem, ends, head)
    if reserved is None:
        _fill_in(starts, behind)
        return Choice(starts.assignment)
    room = Room(ends, reserved)
    for job in behind:
        if not starts.allowed(job):
            continue
        in_time = problem.snapshot.now + expected_s(problem, job) <= (reserved.start_at or 0.0)
        spread = starts.fit(job) if in_time else starts.fit(job, room.beside(starts.ledger.gpus), "beside")
        if spread is not None:
            starts.start(job, spread)
            if not in_time:
                room.take(spread)
    return Choice(starts.assignment, (reserved,))


def _fill_in(starts: Starts, jobs: list[RoundJob]) -> None:
    for job in jobs:
        if starts.allowed(job) and (spread := starts.fit(job)) is not None:
            starts.start(job, spread)


def _shadow(problem: Problem, ends: Ends, head: RoundJob) -> Reserved | None:
    """Return where and when the first waiting job can start by the estimates, None where no estimate says so."""
    nodes, count = problem.nodes, len(ends.at)

    def after(gone: int) -> Spread | None:
        return pack(problem, head, ends.free_after(gone), nodes.cpus_u, nodes.memory_u, size_of(head))

    if not count or after(count) is None:
        return None
    # The more has ended the more is free: the least number that is enough.
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if after(middle) is not None else (middle, high)
    place = after(high)
    return None if place is None else Reserved(head, place, ends.at[high - 1])


class Room:
    """What may be used past a reservation's start: all, but on its nodes only what it leaves over by then."""

    def __init__(self, ends: Ends, reserved: Reserved) -> None:
        there = ends.free_after(bisect_right(ends.at, reserved.start_at or 0.0))
        self._nodes = np.array([n for n, _ in reserved.spread], dtype=np.int64)
        wanted = np.array([gpus for _, gpus in reserved.spread], dtype=np.int64)
        self._over = np.maximum(0, there[self._nodes] - wanted)

    def beside(self, free: Ints) -> Ints:
        """Return what of the free GPUs may be used for longer."""
        room = free.copy()
        room[self._nodes] = np.minimum(room[self._nodes], self._over)
        return room

    def take(self, spread: Spread) -> None:
        """Somebody uses some of it for longer."""
        taken = dict(spread)
        for at, n in enumerate(self._nodes.tolist()):
            self._over[at] = max(0, self._over[at] - taken.get(n, 0))


def conservative(problem: Problem) -> Choice:
    """Give every waiting job, the oldest first, the first place and time that delays none before it."""
    starts = Starts(problem)
    line = [job for job in by_age(problem) if starts.allowed(job)]
    outlook = Outlook(problem, starts)
    reserved = []
    for job in line[:DEPTH]:
        at, spread = outlook.first(job)
        if spread is None:
            continue
        if at == 0:
            if starts.ledger.blocked_by(job, size_of(job), gpu_type_of(problem, spread)) is not None:
                continue
            starts.start(job, spread)
        else:
            reserved.append(Reserved(job, spread, outlook.times[at]))
        outlook.take(job, at, spread)
    for job in line[DEPTH:]:
        room = outlook.through(job, 0)
        spread = starts.fit(job, room, ("now", outlook.last(job, 0)))
        if spread is not None:
            starts.start(job, spread)
            outlook.take(job, 0, spread)
    return Choice(starts.assignment, tuple(reserved))


class Outlook:
    """What is expected to be free, by instant (`times`, the first is now) and node."""

    def __init__(self, problem: Problem, starts: Starts) -> None:
        self.problem, self.starts = problem, starts
        ends = Ends(problem, starts)
        step = max(1, -(-len(ends.at) // STEPS))
        counts = [*range(step, len(ends.at), step), len(ends.at)] if ends.at else []
        self.times = [problem.snapshot.now, *(ends.at[count - 1] for count in counts)]
        rows = [ends.free_after(count) for count in (0, *counts)]
        self.free = np.stack(rows)
        self._from: dict[object, int] = {}

    def last(self, job: RoundJob, at: int) -> int:
        """Return the last instant at which a job that starts at one is expected to run still."""
        until = self.times[at] + expected_s(self.problem, job)
        return int(np.searchsorted(self.times, until, side="left")) - 1

    def through(self, job: RoundJob, at: int) -> Ints:
        """Return what a job that starts at an instant may have for as long as it is expected to run."""
        found: Ints = self.free[at : max(at, self.last(job, at)) + 1].min(axis=0)
        return found

    def first(self, job: RoundJob) -> tuple[int, Spread | None]:
        """Return the first instant and place for a job."""
        nodes, size = self.problem.nodes, size_of(job)
        key = (job.cut, job.unit, size, id(job.nodes), job.required, job.slices, job.type_speed)
        begin = self._from.get(key, 0)
        for at in range(begin, len(self.times)):
            room = self.through(job, at)
            if int(room.sum()) < size:
                continue
            ledger = self.starts.ledger
            cpus, memory = (nodes.cpus_u, nodes.memory_u) if at else (ledger.cpus_u, ledger.memory_u)
            spread = pack(self.problem, job, room, cpus, memory, size)
            if spread is not None:
                return at, spread
            if at == begin and self.last(job, at) <= at:
                # Not even for a moment: nor can any job that is alike.
                self._from[key] = begin = at + 1
        return len(self.times), None

    def take(self, job: RoundJob, at: int, spread: Spread) -> None:
        """A job is to have a place from an instant on, for as long as it is expected to run."""
        for n, gpus in spread:
            self.free[at : max(at, self.last(job, at)) + 1, n] -= gpus


def _easy(means: Means) -> Baseline:
    return Baseline(easy)


def _conservative(means: Means) -> Baseline:
    return Baseline(conservative)


BACKFILL = (Policy("easy-backfill", _easy), Policy("conservative-backfill", _conservative))
"""Backfilling by the users' estimates."""
