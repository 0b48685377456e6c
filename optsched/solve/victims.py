"""The running jobs as arrays: whom a job may stop, what that frees, and what it costs. Used by the greedy solver."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from optsched.rounds.problem import Flags, Ints, Problem, RoundJob, What
from optsched.rounds.rights import Claim
from optsched.values.profile import Reclaim


class Victims:
    """The running jobs as arrays, for asking quickly whom a job may stop and what that frees."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        running = problem.running
        self.stoppable = np.array([job.stoppable and job.size_now > 0 for job in running], dtype=bool)
        self.team = np.array([job.team for job in running], dtype=np.int64)
        self.priority = np.array([job.priority for job in running], dtype=np.int64)
        self.inside_quota = np.array([each.inside_quota for each in problem.takeable], dtype=bool)
        self.above_quota = np.array([each.above_quota[0] for each in problem.takeable], dtype=bool)
        self.above_fair = np.array([each.above_entitlement[0] for each in problem.takeable], dtype=bool)
        self.cost = np.array([job.costs.stop for job in running], dtype=np.int64)
        self.size = np.array([job.size_now for job in running], dtype=np.int64)
        pairs = [(job.index, n, count) for job in running for n, count in job.spread_now]
        self._job = np.array([j for j, _, _ in pairs], dtype=np.int64)
        self._node = np.array([n for _, n, _ in pairs], dtype=np.int64)
        self._gpus = np.array([count for _, _, count in pairs], dtype=np.int64)
        cpu = np.array([job.cpus_per_gpu_u for job in running], dtype=np.int64)
        memory = np.array([job.memory_per_gpu_u for job in running], dtype=np.int64)
        self._cpus = self._gpus * cpu[self._job] if len(pairs) else self._gpus
        self._memory = self._gpus * memory[self._job] if len(pairs) else self._gpus
        count = len(problem.nodes.capacity)
        self.node_price = np.bincount(self._node, self.cost[self._job], count) if len(pairs) else np.zeros(count)
        self._floor_used: dict[int, int] = {}

    def rights(self, job: RoundJob, claim: Claim, stopped: set[int]) -> Flags:
        """Return the running jobs that `job` may stop, shape (running,)."""
        higher, not_lower = job.priority < self.priority, job.priority <= self.priority
        own = self.team == job.team
        mask = own & (not_lower if job.due else higher)
        other = ~own & self.above_quota
        by_quota = claim.inside_quota | (job.due & not_lower)
        fair = self.above_fair & (claim.inside_entitlement and self.problem.profile.reclaim is Reclaim.FAIR_SHARE)
        mask = mask | (other & (by_quota | fair))
        if job.emergency:
            mask = mask | higher
        if job.due and job.may_break_quota:
            mask = mask | not_lower
        mask = np.asarray(mask & self.stoppable, dtype=bool)
        for j in stopped:
            mask[j] = False
        found: Flags = mask
        return found

    def freed(self, gone: Flags) -> tuple[Ints, Ints, Ints]:
        """Return GPUs, CPUs and memory per node that the jobs in `gone` hold, each of shape (N,)."""
        here = gone[self._job]
        nodes, count = self._node[here], len(self.problem.nodes.capacity)
        return (
            np.bincount(nodes, self._gpus[here], count).astype(np.int64),
            np.bincount(nodes, self._cpus[here], count).astype(np.int64),
            np.bincount(nodes, self._memory[here], count).astype(np.int64),
        )

    def cheapest_first(self, rights: Flags, inside: Flags) -> Ints:
        """Return the jobs with a right over them that hold GPUs inside some nodes: least urgent, then small, then cheap."""
        touching = np.unique(self._job[inside[self._node]])
        touching = touching[rights[touching]]
        per_gpu = self.cost[touching] / np.maximum(1, self.size[touching])
        return touching[np.lexsort((touching, per_gpu, self.size[touching], -self.priority[touching]))]

    def weight(self, j: int) -> tuple[int, int, int, int]:
        """Return how much one would rather not stop a job; the index last."""
        return (-int(self.priority[j]), int(self.size[j]), int(self.cost[j]), int(j))

    def price(self, victims: list[RoundJob]) -> tuple[int, ...]:
        """Return a price of stopping them all: GPUs by priority, most urgent first, then the cost."""
        by_priority = [0] * len(self.problem.priorities)
        for victim in victims:
            by_priority[victim.priority] += victim.size_now
        return (*by_priority, sum(victim.costs.stop for victim in victims), *sorted(v.index for v in victims))

    def floors_kept(self, job: RoundJob, victims: list[RoundJob]) -> bool:
        """Return whether other teams keep min(their quota, what they ran), counting what was already taken; books it if so."""
        lost: dict[int, int] = {}
        for victim in victims:
            if victim.team != job.team:
                lost[victim.claim_team] = lost.get(victim.claim_team, 0) + victim.size_now
        for team, gpus in lost.items():
            slack = self._slack(team)
            if slack is not None and self._floor_used.get(team, 0) + gpus > slack:
                return False
        for team, gpus in lost.items():
            self._floor_used[team] = self._floor_used.get(team, 0) + gpus
        return True

    def _slack(self, team: int) -> int | None:
        """Return the GPUs that others may take from a team; None where nothing is guaranteed to it."""
        items = self.problem.lines.quota[team]
        if not items:
            return None
        quota = sum(item.amount for item in items if item.what is What.GPUS)
        ran = int(self._ran[team])
        return ran - min(quota, ran)

    @cached_property
    def _ran(self) -> Ints:
        """GPUs that each team runs, shape (T,)."""
        claim = np.array([job.claim_team for job in self.problem.running], dtype=np.int64)
        return np.bincount(claim, self.size, len(self.problem.team_names)).astype(np.int64)

    @cached_property
    def on_node(self) -> dict[int, list[tuple[int, int]]]:
        """(job, GPUs) of every running job by node."""
        found: dict[int, list[tuple[int, int]]] = {}
        for job in self.problem.running:
            for n, count in job.spread_now:
                found.setdefault(n, []).append((job.index, count))
        return found
