"""Parts of running gangs that go on on another node: how a domain is cleared for a gang whose place matters.

A gang that may have any nodes never needs that: wherever others run it can take another node. For slices, and for a
gang that requires a domain, the part of a gang on one node can be in the way, and all the rest of that gang can stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

import numpy as np

from optsched.rounds.problem import Flags, Ints, Problem, RoundJob
from optsched.solve.clearing import most_lost
from optsched.solve.ledger import Ledger
from optsched.solve.loose import Loosened


@dataclass(frozen=True, slots=True)
class Aside:
    """One part of a gang that goes on on another node."""

    job: RoundJob
    gpus: int
    off: int
    to: int


class Parts:
    """Where the parts of gangs are that may move, and where they could go on. Who is in slices stays as it is."""

    def __init__(self, problem: Problem, ledger: Ledger, stopped: frozenset[int]) -> None:
        self.problem, self.ledger = problem, ledger
        fixed = stopped | ledger.changed.keys()
        self._on: dict[int, list[tuple[RoundJob, int]]] = {}
        self._gone: list[Aside] = []
        self._room = problem.nodes.free.copy()
        """What is left for parts of what was free from the start, (N,): in all else somebody may have to come back."""
        for job in problem.running:
            if len(job.spread_now) > 1 and job.movable and not job.slices and job.index not in fixed:
                for n, count in job.spread_now:
                    self._on.setdefault(n, []).append((job, count))

    def loosened(self, taker: RoundJob, stuck: Set[int]) -> Loosened:
        """Return the sums over parts that may move for a gang, but for those on nodes where they are stuck."""
        count, most = len(self.ledger.gpus), most_lost(self.problem, taker)
        gpus, cpus_u, memory_u, cost = (np.zeros(count, dtype=np.int64) for _ in range(4))
        movers = {id(job): job for parts in self._on.values() for job, _ in parts}
        able = {key for key, job in movers.items() if self._moves_for(job, taker) and self._cost(job) <= most}
        for n in self._on.keys() - stuck:
            for job, held in self._on[n]:
                if id(job) in able:
                    gpus[n] += held
                    cpus_u[n] += held * job.cpus_per_gpu_u
                    memory_u[n] += held * job.memory_per_gpu_u
                    cost[n] += self._cost(job)
        return Loosened(gpus, cpus_u, memory_u, cost)

    def asides(self, short: Mapping[int, int], closed: Set[int], taker: RoundJob) -> tuple[list[Aside], set[int]]:
        """Return who goes where, so that nodes have the GPUs more that they are `short` of, and where that cannot be.

        Nobody goes to a `closed` node. All together lose at most what a preemption for the taker might at first.
        """
        found, stuck = list[Aside](), set[int]()
        left_to_pay = most_lost(self.problem, taker)
        for n, deficit in short.items():
            here = list[Aside]()
            for job, held in self._movable(n, taker):
                left = deficit - sum(aside.gpus for aside in here)
                # What who is inside its quota leaves is for its own team alone: nothing of it may be left over.
                if left <= 0 or (held > left and self._bound(job)):
                    continue
                known = found + here
                price = 0 if any(aside.job is job for aside in known) else self._cost(job)
                home = self._home(job, held, n, known, closed) if price <= left_to_pay else None
                if home is not None:
                    left_to_pay -= price
                    here.append(Aside(job, held, n, home))
            if sum(aside.gpus for aside in here) < deficit:
                stuck.add(n)
            found += here
        return found, stuck

    def _movable(self, n: int, taker: RoundJob) -> list[tuple[RoundJob, int]]:
        """Return the parts on a node that may move for a gang, the cheapest first."""
        parts = [part for part in self._on.get(n, ()) if self._moves_for(part[0], taker)]
        return sorted(parts, key=lambda part: (self._cost(part[0]), part[0].index))

    def _moves_for(self, job: RoundJob, taker: RoundJob) -> bool:
        return job.team == taker.team or not self._bound(job)

    def _bound(self, job: RoundJob) -> bool:
        """Return whether a job moves for its own team alone."""
        return self.problem.takeable[job.index].inside_quota

    def _cost(self, job: RoundJob) -> int:
        """Return what the move of another part of a gang costs: nothing more where it moves already."""
        return 0 if job.index in self.ledger.changed else job.costs.move

    def _home(self, job: RoundJob, held: int, n: int, others: list[Aside], closed: Set[int]) -> int | None:
        """Return the node to which a part goes, None where there is none: in what is broken up anyway, if it can be."""
        ledger, nodes, tree = self.ledger, self.problem.nodes, self.problem.tree
        gpus = np.minimum(ledger.free_for(job), self._room)
        cpus_u, memory_u = ledger.cpus_u.copy(), ledger.memory_u.copy()
        for aside in others:
            gpus[aside.to] -= aside.gpus
            cpus_u[aside.to] -= aside.gpus * aside.job.cpus_per_gpu_u
            memory_u[aside.to] -= aside.gpus * aside.job.memory_per_gpu_u
        fits: Flags = job.nodes & (gpus >= held) & (nodes.gpu_type == nodes.gpu_type[n])
        fits &= (cpus_u >= held * job.cpus_per_gpu_u) & (memory_u >= held * job.memory_per_gpu_u)
        fits[[*closed]] = False
        fits[[m for m, _ in ledger.changed.get(job.index, job.spread_now)]] = False
        fits[[aside.to for aside in others if aside.job is job]] = False
        if job.required is not None:
            fits &= tree.domain_of[job.required] == tree.domain_of[job.required][n]
        there = np.flatnonzero(fits)
        if not len(there):
            return None
        around = self._around(np.maximum(gpus, 0))[there]
        return int(there[np.lexsort((there, gpus[there], around))[0]])

    def _around(self, free: Ints) -> Ints:
        """Return what is free in the narrowest domain around each node, (N,)."""
        tree = self.problem.tree
        if tree.node_level == 0:
            return free
        domain = tree.domain_of[tree.node_level - 1]
        sums = tree.sum_per_domain(tree.node_level - 1, free)
        found: Ints = np.where(domain >= 0, sums[domain], free) if len(sums) else free
        return found

    def move(self, asides: list[Aside]) -> dict[int, int]:
        """Book moves; returns the nodes where what is left is for one team alone, each with that team."""
        for aside in asides:
            self._go(aside.job, aside.gpus, aside.off, aside.to)
            self._on[aside.off].remove((aside.job, aside.gpus))
        self._gone += asides
        return {aside.off: aside.job.team for aside in asides if self._bound(aside.job)}

    def stay(self) -> None:
        """Let those stay where they are who moved for nothing: whose old room nobody took."""
        gone, self._gone = self._gone, []
        for aside in gone:
            job, held, n = aside.job, aside.gpus, aside.off
            if self.ledger.gpus[n] >= held and self.ledger.has_beside(job, n, held):
                self._go(job, held, aside.to, n)
            else:
                self._gone.append(aside)

    def _go(self, job: RoundJob, held: int, off: int, to: int) -> None:
        """Book that a part goes from one node to another."""
        ledger = self.ledger
        for n, sign in ((off, 1), (to, -1)):
            self._room[n] += sign * held
            ledger.gpus[n] += sign * held
            ledger.cpus_u[n] += sign * held * job.cpus_per_gpu_u
            ledger.memory_u[n] += sign * held * job.memory_per_gpu_u
        kept = dict(ledger.changed.pop(job.index, job.spread_now))
        del kept[off]
        spread = tuple(sorted({**kept, to: held}.items()))
        if spread != job.spread_now:
            ledger.changed[job.index] = spread
