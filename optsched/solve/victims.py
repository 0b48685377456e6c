"""The running jobs as arrays: whom a job may stop, what that frees, and what it costs. Used by the greedy solver."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from optsched.rounds.problem import Flags, Ints, Problem, RoundJob
from optsched.rounds.rights import Claim
from optsched.values.profile import Reclaim


class Victims:
    """The running jobs as arrays, for asking quickly whom a job may stop and what that frees."""

    def __init__(self, problem: Problem) -> None:
        # Not the problem itself: what it leads to may keep this.
        self._fair_share = problem.profile.reclaim is Reclaim.FAIR_SHARE
        self._nodes = len(problem.nodes.capacity)
        occupancy, takeable = problem.occupancy, problem.takeable
        self.stoppable = occupancy.stoppable & (occupancy.size > 0)
        self.light = occupancy.light
        self.movable = occupancy.movable & (occupancy.size > 0)
        self.team = occupancy.real_team
        self.priority = occupancy.priority
        self.inside_quota = takeable.inside_quota
        # By part: what a stop gives, and what a shrink gives.
        self.above_quota = takeable.above_quota
        self.above_fair = takeable.above_entitlement
        self.shrinkable = occupancy.resizable & occupancy.preemptible
        self.cost = occupancy.stop_gpu_s
        self.size = occupancy.size.copy()
        self.pair_job, self.pair_node = occupancy.pair_job, occupancy.pair_node
        self.pair_gpus = occupancy.pair_gpus
        self.pair_cpus = self.pair_gpus * occupancy.cpus_u[self.pair_job]
        self.pair_memory = self.pair_gpus * occupancy.memory_u[self.pair_job]

    def rights(self, job: RoundJob, claim: Claim) -> Flags:
        """Return the running jobs that `job` may stop, shape (running,)."""
        found: Flags = self._over(job, claim, part=0) & self.stoppable
        return found

    def shrink_rights(self, job: RoundJob, claim: Claim) -> Flags:
        """Return the running jobs that `job` may have shrunk, shape (running,)."""
        found: Flags = self._over(job, claim, part=1) & self.shrinkable
        return found

    def move_rights(self, job: RoundJob, claim: Claim) -> Flags:
        """Return the running jobs that `job` may have moved, shape (running,)."""
        mask = (self.team == job.team) | ~self.inside_quota
        if job.starved and (claim.inside_quota or claim.inside_entitlement):
            mask = mask | self.light
        if job.emergency:
            mask = mask | (job.priority < self.priority)
        if job.due and job.may_break_quota:
            mask = mask | (job.priority <= self.priority)
        found: Flags = mask & self.movable
        return found

    def _over(self, job: RoundJob, claim: Claim, part: int) -> Flags:
        """Return the running jobs over a part of which `job` has a right, shape (running,)."""
        higher, not_lower = job.priority < self.priority, job.priority <= self.priority
        own = self.team == job.team
        mask = own & (not_lower if job.due else higher)
        other = ~own & self.above_quota[part]
        by_quota = claim.inside_quota | (job.due & not_lower)
        fair = self.above_fair[part] & (claim.inside_entitlement and self._fair_share)
        mask = mask | (other & (by_quota | fair))
        if job.emergency:
            mask = mask | higher
        if job.due and job.may_break_quota:
            mask = mask | not_lower
        return np.asarray(mask, dtype=bool)

    def freed(self, gone: Flags) -> Ints:
        """Return the GPUs per node that the jobs in `gone` hold, (N,)."""
        here = gone[self.pair_job]
        return np.bincount(self.pair_node[here], self.pair_gpus[here], self._nodes).astype(np.int64)

    @cached_property
    def on_node(self) -> dict[int, list[tuple[int, int]]]:
        """(job, GPUs) of every running job by node."""
        found: dict[int, list[tuple[int, int]]] = {}
        pairs = (self.pair_node.tolist(), self.pair_job.tolist(), self.pair_gpus.tolist())
        for n, j, count in zip(*pairs, strict=True):
            found.setdefault(n, []).append((j, count))
        return found
