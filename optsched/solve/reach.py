"""How much room each job could have on each node, if all over whom it may have a right made way.

A bound, worked out once.
"""

from __future__ import annotations

import numpy as np

from optsched.rounds.line import Use, use_of
from optsched.rounds.problem import Flags, Ints, Problem, RoundJob
from optsched.rounds.rights import Claim, claim_of
from optsched.rounds.score import gpu_type_of
from optsched.solve.victims import Victims


class Reach:
    """Answers for jobs of one kind (team, priority, standing, best claim) share one array."""

    def __init__(self, problem: Problem, stops: frozenset[int], moves: frozenset[int], resizes: frozenset[int]) -> None:
        self.problem = problem
        self._victims = Victims(problem)
        count = problem.first_queued
        self._stops = _flags(count, stops)
        self._moves = _flags(count, moves)
        self._resizes = _flags(count, resizes)
        self._claims: dict[tuple[object, ...], Claim] = {}
        self._known: dict[tuple[object, ...], Ints] = {}
        self._kinds: dict[int, tuple[object, ...]] = {}
        shape = (len(problem.team_names), len(problem.priorities), len(problem.gpu_types))
        # What stays whatever happens: the part of each line that nobody can stop.
        self._fixed: Use = use_of(
            shape,
            [
                (job.claim_team, job, min(job.size_now, job.minimum), gpu_type_of(problem, job.spread_now))
                for job in problem.running
                if job.size_now and job.index not in stops and not _may_change_type(problem, job, moves)
            ],
        )

    def best_claim(self, job: RoundJob) -> Claim:
        """Return the strongest claim that the job could have in any plan."""
        side = (job.cpus_per_gpu_u, job.memory_per_gpu_u)
        key = (job.claim_team, job.priority, job.minimum, job.running, job.type_speed, *side)
        found = self._claims.get(key)
        if found is None:
            found = self._claims[key] = self._best_claim(job)
        return found

    def _best_claim(self, job: RoundJob) -> Claim:
        use, gpu_type = self._fixed, next((y for y, speed in enumerate(job.type_speed) if speed > 0), 0)
        if sum(speed > 0 for speed in job.type_speed) > 1:
            return Claim(inside_quota=True, inside_entitlement=True)
        team, key = job.claim_team, job.priority
        added = 0 if job.running else job.minimum
        use.gpus[team, key, gpu_type] += added
        use.cpus[team, key] += added * job.cpus_per_gpu_u
        use.memory[team, key] += added * job.memory_per_gpu_u
        claim = claim_of(self.problem, job, job.minimum, use)
        use.gpus[team, key, gpu_type] -= added
        use.cpus[team, key] -= added * job.cpus_per_gpu_u
        use.memory[team, key] -= added * job.memory_per_gpu_u
        return claim

    def kind(self, job: RoundJob) -> tuple[object, ...]:
        """Return what the job's rights depend on."""
        found = self._kinds.get(job.index)
        if found is None:
            standing = (job.emergency, job.due, job.may_break_quota, job.starved)
            found = self._kinds[job.index] = (job.team, job.priority, *standing, self.best_claim(job))
        return found

    def givers(self, job: RoundJob) -> tuple[Flags, Flags]:
        """Return the running jobs whose stop, and whose move, could make room for the job; shape (running,) each."""
        claim = self.best_claim(job)
        rights = self._victims.rights(job, claim)
        moved: Flags = self._moves & self._victims.move_rights(job, claim)
        stopped: Flags = rights & self._stops
        return stopped, moved

    def forced(self, job: RoundJob) -> Ints:
        """Return the GPUs on each node that stops and shrinks for the job could leave, shape (N,); read only."""
        key = ("forced", *self.kind(job))
        found = self._known.get(key)
        if found is None:
            stopped, _ = self.givers(job)
            found = self._known[key] = self._victims.freed(stopped | self._resizes)
        return found

    def room(self, job: RoundJob) -> Ints:
        """Return the GPUs on each node that could be had for the job, shape (N,); read only."""
        kind = self.kind(job)
        found = self._known.get(kind)
        if found is None:
            stopped, moved = self.givers(job)
            freed, nodes = self._victims.freed(stopped | moved | self._resizes), self.problem.nodes
            found = self._known[kind] = np.minimum(nodes.capacity, nodes.free + freed)
        return found


def _may_change_type(problem: Problem, job: RoundJob, moves: frozenset[int]) -> bool:
    home = gpu_type_of(problem, job.spread_now)
    return job.index in moves and any(speed > 0 and y != home for y, speed in enumerate(job.type_speed))


def _flags(count: int, indices: frozenset[int]) -> Flags:
    flags = np.zeros(count, dtype=bool)
    flags[list(indices)] = True
    return flags
