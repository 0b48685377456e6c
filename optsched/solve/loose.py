"""Running jobs on one node that may move to let others in: what they would leave, and what that would cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass

import numpy as np

from optsched.rounds.problem import Ints, Problem, RoundJob, Spread
from optsched.rounds.score import gpu_type_of
from optsched.solve.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Loosened:
    """What all loose jobs below a size hold by node, and what moving all of them would cost; arrays (N,)."""

    gpus: Ints
    cpus_u: Ints
    memory_u: Ints
    cost: Ints

    def price(self, deficit: Ints) -> Ints:
        """Return about what it costs to make `deficit` GPUs more free on each node, (N,)."""
        found: Ints = self.cost * np.minimum(deficit, self.gpus) // np.maximum(1, self.gpus)
        return found


class Loose:
    """Keeps account of them while they are lifted off their nodes and settled elsewhere.

    Who is inside its quota moves only for its own team: what is free on the nodes in `reserved` is for the team named
    there alone. `retyped` are the GPUs of those who moved from one GPU type to another.
    """

    def __init__(self, problem: Problem, ledger: Ledger, stopped: frozenset[int]) -> None:
        self.problem, self.ledger = problem, ledger
        self._on: dict[int, list[RoundJob]] = {}
        self._sums: dict[tuple[int, int], Loosened] = {}
        self.reserved: dict[int, int] = {}
        self.retyped: Counter[tuple[int, int]] = Counter()
        fixed = stopped | ledger.changed.keys()
        loose = [job for job in problem.running if len(job.spread_now) == 1 and job.movable and job.index not in fixed]
        takeable = problem.takeable
        self._bound_jobs = {job.index for job in loose if takeable[job.index].inside_quota}
        self._teams = {problem.jobs[j].team for j in self._bound_jobs}
        for job in loose:
            self._on.setdefault(job.spread_now[0][0], []).append(job)
        self._row = {job.index: row for row, job in enumerate(loose)}
        self._there = np.ones(len(loose), dtype=bool)
        """Who has not been taken off yet, (M,)."""
        columns = [
            (
                job.spread_now[0][0],
                job.size_now,
                job.size_now * job.cpus_per_gpu_u,
                job.size_now * job.memory_per_gpu_u,
                job.costs.move,
                job.team,
                job.index in self._bound_jobs,
            )
            for job in loose
        ]
        self._table = np.array(columns, dtype=np.int64).reshape(-1, 7).T
        """Of each its node, GPUs, CPUs, memory, cost, team, and whether it moves for that team alone, (7, M)."""

    def _bound(self, job: RoundJob) -> bool:
        return job.index in self._bound_jobs

    def _moves_for(self, job: RoundJob, team: int) -> bool:
        return job.team == team or not self._bound(job)

    def below(self, size: int, team: int) -> Loosened:
        """Return the sums over jobs smaller than `size` that may move for a team."""
        team = team if team in self._teams else -1
        found = self._sums.get((size, team))
        if found is None:
            count = len(self.problem.nodes.capacity)
            node, gpus, cpus_u, memory_u, cost, teams, bound = self._table
            chosen = self._there & (gpus < size) & ((bound == 0) | (teams == team))
            sums = (np.bincount(node[chosen], each[chosen], count) for each in (gpus, cpus_u, memory_u, cost))
            found = Loosened(*(each.astype(np.int64) for each in sums))
            self._sums[size, team] = found
        return found

    def lift(self, n: int, deficit: int, below: int, taker: RoundJob) -> list[RoundJob] | None:
        """Take jobs off node n, cheaply, until `deficit` GPUs more are free for the taker; None if that cannot be."""
        movers = [job for job in self._on.get(n, ()) if job.size_now < below and self._moves_for(job, taker.team)]
        chosen: list[RoundJob] = []
        short = _Short(self.ledger, n, deficit, below, taker)
        for job in sorted(movers, key=lambda job: (job.costs.move, job.index)):
            if short.met(chosen):
                break
            chosen.append(job)
        for job in sorted(chosen, key=lambda job: (-job.costs.move, job.index)):
            fewer = [other for other in chosen if other is not job]
            if short.met(fewer):
                chosen = fewer
        if any(self._bound(job) for job in chosen) and sum(job.size_now for job in chosen) != deficit:
            # What a job inside its quota leaves is for its own team alone: nothing of it may be left over.
            chosen = [job for job in chosen if not self._bound(job)]
            if not short.met(chosen):
                return None
        for job in chosen:
            self._take_off(job, n)
            if self._bound(job):
                self.reserved[n] = job.team
        return chosen

    def pin(self, jobs: Set[int]) -> None:
        """Let these jobs move no more."""
        for n, on in self._on.items():
            for job in [job for job in on if job.index in jobs]:
                self._forget(job, n)

    def _take_off(self, job: RoundJob, n: int) -> None:
        self._book(job, n, 1)
        self._forget(job, n)

    def _forget(self, job: RoundJob, n: int) -> None:
        self._on[n].remove(job)
        self._there[self._row[job.index]] = False
        for (size, team), sums in self._sums.items():
            if job.size_now < size and self._moves_for(job, team):
                _add(sums, job, n, -1)

    def settle(self, job: RoundJob, n: int) -> None:
        """Put a lifted job on node n."""
        self._book(job, n, -1)
        spread = ((n, job.size_now),)
        if spread != job.spread_now:
            self.ledger.changed[job.index] = spread
            self.ledger.retype(job, job.spread_now, spread)
            self._count_types(job, spread, 1)

    def unsettle(self, job: RoundJob, n: int) -> None:
        """Take a job off the node that it was put on; it waits for another place again."""
        self._book(job, n, 1)
        spread = self.ledger.changed.pop(job.index, None)
        if spread is not None:
            self.ledger.retype(job, spread, job.spread_now)
            self._count_types(job, spread, -1)

    def _count_types(self, job: RoundJob, spread: Spread, sign: int) -> None:
        home, y = gpu_type_of(self.problem, job.spread_now), gpu_type_of(self.problem, spread)
        if y != home:
            self.retyped[home, y] += sign * job.size_now

    def _book(self, job: RoundJob, n: int, sign: int) -> None:
        self.ledger.gpus[n] += sign * job.size_now
        self.ledger.cpus_u[n] += sign * job.size_now * job.cpus_per_gpu_u
        self.ledger.memory_u[n] += sign * job.size_now * job.memory_per_gpu_u


class _Short:
    """What a taker lacks on a node."""

    def __init__(self, ledger: Ledger, n: int, gpus: int, need: int, taker: RoundJob) -> None:
        self.gpus = gpus
        self.cpus_u = need * taker.cpus_per_gpu_u - int(ledger.cpus_u[n]) if taker.cpus_per_gpu_u else 0
        self.memory_u = need * taker.memory_per_gpu_u - int(ledger.memory_u[n]) if taker.memory_per_gpu_u else 0

    def met(self, movers: list[RoundJob]) -> bool:
        return (
            sum(job.size_now for job in movers) >= self.gpus
            and sum(job.size_now * job.cpus_per_gpu_u for job in movers) >= self.cpus_u
            and sum(job.size_now * job.memory_per_gpu_u for job in movers) >= self.memory_u
        )


def _add(sums: Loosened, job: RoundJob, n: int, sign: int) -> None:
    sums.gpus[n] += sign * job.size_now
    sums.cpus_u[n] += sign * job.size_now * job.cpus_per_gpu_u
    sums.memory_u[n] += sign * job.size_now * job.memory_per_gpu_u
    sums.cost[n] += sign * job.costs.move
