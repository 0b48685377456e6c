"""What all policies of others have in common: a round's problem in, an assignment that the checker accepts out.

They start jobs at the size that these ask for, and neither move nor resize what runs. How failed gangs are restarted
is the engine's, for all policies alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from optsched.engine.view import Viewer
from optsched.planner.assemble import assemble
from optsched.planner.forecast import Reserved
from optsched.planner.memory import Memory, remembered
from optsched.planner.window import in_window
from optsched.rounds.assignment import NO_CHANGE, Assignment
from optsched.rounds.build import build_problem
from optsched.rounds.check import check
from optsched.rounds.problem import Ints, Problem, RoundJob, Spread
from optsched.rounds.score import gpu_type_of, score
from optsched.solve.ladder import Answer
from optsched.solve.ledger import Ledger
from optsched.solve.packing import pack
from optsched.solve.result import Result
from optsched.values.job import Job, JobState
from optsched.values.plan import Plan, Source
from optsched.values.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Choice:
    """What a policy decides in a round: who starts and who stops, and for whom it reserved what."""

    assignment: Assignment
    reserved: Sequence[Reserved] = ()


Choose = Callable[[Problem], Choice]
"""A policy's own part of a round."""


class Baseline:
    """Plans rounds by a policy of others. `see` changes what it sees of a snapshot."""

    def __init__(self, choose: Choose, see: Callable[[Snapshot], Snapshot] = lambda snapshot: snapshot) -> None:
        self.viewer = Viewer()
        self._choose = choose
        self._see = see
        self._memory: Memory | None = None

    @property
    def turn(self) -> int | None:
        """Nothing has to be known of the rounds before."""
        return None

    def go_on(self, turn: int | None) -> None:
        """Go on where another one stood."""
        self._memory = None

    def __call__(self, snapshot: Snapshot) -> Plan:
        """Return the plan of a round; one that the checker refuses changes nothing, and says so."""
        seen, _ = in_window(self._see(snapshot))
        self._memory = known = remembered(self._memory, seen.cluster)
        problem = build_problem(seen, known.tree, known.facts)
        choice = self._choose(problem)
        assignment, source, why = choice.assignment, Source.GREEDY, "by its policy"
        broken = check(problem, assignment)
        if broken:
            assignment, source, why = NO_CHANGE, Source.NO_CHANGE, f"the checker refused the plan: {broken[0]}"
        answer = Answer(assignment, score(problem, assignment), Result(assignment), source, why)
        return assemble(problem, choice.reserved, answer, (), with_tasks=False)


def size_of(job: RoundJob) -> int:
    """Return the GPUs at which a job starts: those that it asks for, else the least that it may have."""
    return job.job.gpus if job.job.gpus in job.sizes else job.minimum


def by_age(problem: Problem) -> list[RoundJob]:
    """Return the queued jobs, the oldest first; those that can never run are left out."""
    placed_at = problem.snapshot.placed_at
    return sorted((job for job in problem.queued if job.can_ever_run), key=lambda job: (placed_at(job.job), job.job.id))


Place = Callable[[Problem, RoundJob, Ints, Ints, Ints, int], Spread | None]
"""Finds a placement of so many GPUs in what is free: GPUs, CPUs and memory, by node."""


@dataclass(slots=True)
class Starts:
    """A round in the making: who starts where, in what is free.

    `too_large` remembers, by all that decides where a job fits and how much of the room it may use, the smallest size
    that did not fit: room only shrinks within a round.
    """

    problem: Problem
    place: Place = pack
    ledger: Ledger = field(init=False)
    too_large: dict[object, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.problem)

    def allowed(self, job: RoundJob) -> bool:
        """Return whether limits and quotas allow the job to start, on some type that it may use."""
        types = (y for y, speed in enumerate(job.type_speed) if speed > 0)
        return any(self.ledger.blocked_by(job, size_of(job), gpu_type) is None for gpu_type in types)

    def fit(self, job: RoundJob, room: Ints | None = None, which: object = None) -> Spread | None:
        """Return a place for the job in what is free (`room`: in so much of it, which `which` tells apart)."""
        key = (*_shape(job), which)
        size = size_of(job)
        if self.too_large.get(key, size + 1) <= size:
            return None
        ledger = self.ledger
        free = ledger.free_for(job)
        if room is not None:
            free = room if not self.problem.domain_holds else free.clip(max=room)
        found = self.place(self.problem, job, free, ledger.cpus_u, ledger.memory_u, size)
        if found is None:
            self.too_large[key] = size
            return None
        if ledger.blocked_by(job, size, gpu_type_of(self.problem, found)) is not None:
            return None
        return found

    def start(self, job: RoundJob, spread: Spread) -> None:
        """Start a job."""
        self.ledger.start(job, spread)

    @property
    def assignment(self) -> Assignment:
        """Everything that was started."""
        return Assignment(dict(self.ledger.changed), frozenset(self.ledger.stopped))


def _shape(job: RoundJob) -> tuple[object, ...]:
    """Return all of a job but its size that decides where it fits."""
    side = (job.cpus_per_gpu_u, job.memory_per_gpu_u)
    return (job.cut, job.unit, id(job.nodes), job.type_speed, job.required, job.slices, *side)


def expected_s(problem: Problem, job: RoundJob) -> float:
    """Return how long a queued job is expected to run, in seconds; inf where it does not say."""
    estimate = job.job.estimated_runtime_s
    return float("inf") if estimate is None else estimate


class Ends:
    """When what runs, and what a round starts, is expected to be gone, soonest first: `at`, instants in seconds.

    Who does not say never is. One that has run past its estimate is expected to run for as long again.
    """

    def __init__(self, problem: Problem, starts: Starts) -> None:
        now, pairs = problem.snapshot.now, problem.occupancy
        running = [job for job in problem.snapshot.jobs if job.state is JobState.RUNNING]
        changed = list(starts.ledger.changed.items())
        ends = [_end(job, now) for job in running]
        ends += [now + expected_s(problem, problem.jobs[j]) for j, _ in changed]
        order = np.argsort(np.array(ends), kind="stable")
        place = np.empty(len(ends), dtype=np.int64)
        place[order] = np.arange(len(ends))
        given = [(len(running) + i, n, gpus) for i, (_, spread) in enumerate(changed) for n, gpus in spread]
        more = np.array(given, dtype=np.int64).reshape(-1, 3)
        self._place = place[np.concatenate((pairs.pair_job, more[:, 0]))]
        self._node = np.concatenate((pairs.pair_node, more[:, 1]))
        self._gpus = np.concatenate((pairs.pair_gpus, more[:, 2]))
        self._free = starts.ledger.gpus
        self.at = [end for end in np.array(ends)[order].tolist() if end < float("inf")]

    def free_after(self, count: int) -> Ints:
        """Return what is free on each node once the first `count` are gone."""
        gone = self._place < count
        free = self._free.copy()
        np.add.at(free, self._node[gone], self._gpus[gone])
        return free


def _end(job: Job, now: float) -> float:
    started, estimate = job.started_at, job.estimated_runtime_s
    if started is None or estimate is None:
        return float("inf")
    end = started + estimate
    return end if end > now else now + max(60.0, now - started)
