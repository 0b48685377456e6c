"""Placing one job with an eye on the others: of several placements the one for which others miss least."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optsched.rounds.problem import Flags, Ints, Problem, RoundJob, Spread
from optsched.rounds.score import gpu_type_of
from optsched.solve.ledger import Ledger
from optsched.solve.loose import Loose
from optsched.solve.outlook import Outlook
from optsched.solve.stock import Kind
from optsched.solve.supply import Supply

MOST_CHOICES = 6
"""How many placements of one job are looked at, each avoiding more of what others need."""

DEAR = 200_000
"""What avoiding a contended GPU is worth in GPU-seconds: more than rarity, span and moves together."""


@dataclass(frozen=True, slots=True)
class Taker:
    """Who is to start: over whom it has rights, and may use them (F,); where it may be (N,); its `unit` and its rank.

    `unit` is the least that it has on a node that it uses, in GPUs.
    """

    job: RoundJob
    kind: Kind
    may: Flags
    nodes: Flags
    unit: int
    rank: int


class Foresight:
    """What is to be placed and what is left over for it, as an `Outlook`.

    A source is what is free for the same takers, wherever that is, since what runs may move; or what stopped jobs leave
    on nodes where the same takers may have it: they have the right, and a piece of theirs could lie there once all that
    may move has moved. Jobs that need a new home, and growth, are kinds of their own, by GPU type.
    """

    def __init__(self, problem: Problem, ledger: Ledger, supply: Supply, loose: Loose, takers: Sequence[Taker]) -> None:
        self.problem, self.ledger, self.supply, self.loose = problem, ledger, supply, loose
        kinds: dict[tuple[object, ...], int] = {}
        self.takers: list[Taker] = []
        self.kind_of: dict[int, int] = {}
        for taker in takers:
            job = taker.job
            key = (id(taker.kind), job.team, taker.nodes.tobytes(), taker.unit, taker.rank)
            if key not in kinds:
                kinds[key] = len(self.takers)
                self.takers.append(taker)
            self.kind_of[job.index] = kinds[key]
        self.homes = len(self.takers) + np.arange(len(problem.gpu_types))
        self.growth = self.homes + len(self.homes)
        last = max((taker.rank for taker in self.takers), default=0)
        others = [*[last + 3] * len(self.homes), *[1] * len(self.homes)]
        self.worth = np.array([*(last + 2 - taker.rank for taker in self.takers), *others], dtype=np.int64)
        self.outlook = Outlook(self._found_sources(), self.worth)

    def _found_sources(self) -> Flags:
        """Return which kinds may have which sources, (K, C), as things are before anybody is placed.

        Who stops later counts as what is free on his nodes.
        """
        supply, nodes = self.supply, self.problem.nodes
        pairs, count = supply.leaving, len(nodes.capacity)
        left = supply.left(pairs)
        job, node = supply.job[pairs], supply.node[pairs]
        may = np.zeros((len(self.worth), len(pairs) + count), dtype=bool)
        for row, taker in zip(may, self.takers, strict=False):
            mine = taker.kind.pairs[pairs]
            room = self.ledger.gpus + np.bincount(node, left * mine, count).astype(np.int64)
            fits = taker.nodes & (room + self.loose.below(taker.unit, taker.job.team).gpus >= taker.unit)
            row[: len(pairs)] = taker.may[job] & fits[node]
            row[len(pairs) :] = taker.nodes
        for y, home in enumerate(self.homes.tolist()):
            may[[home, self.growth[y]], len(pairs) :] = nodes.taking & (nodes.gpu_type == y)
        packed = np.ascontiguousarray(np.packbits(may, axis=0).T)
        columns = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
        _, at, which = np.unique(columns, return_index=True, return_inverse=True)
        self.of_node = which[len(pairs) :]
        self.of_pair = self.of_node[supply.node]
        self.of_pair[pairs] = which[: len(pairs)]
        return may[:, at]

    def look(self, starts: Iterable[RoundJob], movers: Iterable[RoundJob], growth: Mapping[int, int]) -> None:
        """Note who has no place yet, by how many GPUs who has not grown yet is to grow, and what there is."""
        demand, supply = np.zeros_like(self.outlook.demand), np.zeros_like(self.outlook.supply)
        for job in starts:
            demand[self.kind_of[job.index]] += job.minimum
        for job in movers:
            demand[self.homes[gpu_type_of(self.problem, job.spread_now)]] += job.size_now
        for j, more in growth.items():
            demand[self.growth[gpu_type_of(self.problem, self.problem.jobs[j].spread_now)]] += more
        leaving = self.supply.leaving
        np.add.at(supply, self.of_node, np.where(self.problem.nodes.taking, np.maximum(self.ledger.gpus, 0), 0))
        np.add.at(supply, self.of_pair[leaving], self.supply.left(leaving))
        self.outlook.set(demand, supply)

    def best(
        self, job: RoundJob, kind: Kind, room: Ints, propose: Callable[[Ints, bool], Spread | None]
    ) -> Spread | None:
        """Return the proposed placement for which others miss least; `propose` is told the price of each source.

        It is also told whether others may move away for it: where some of them would then have no home, none may.
        Whoever was not admitted takes what costs least.
        """
        if job.index not in self.kind_of:
            return propose(np.zeros(len(self.outlook.supply), dtype=np.int64), True)
        found = self._least_missed(job, kind, room, lambda dear: propose(dear, True))
        if found is None or not self._drives_out(job, kind, room, found):
            return found
        # Without a home they would come back, and whoever came for their room would have to go, all of a gang.
        return self._least_missed(job, kind, room, lambda dear: propose(dear, False))

    def _least_missed(
        self, job: RoundJob, kind: Kind, room: Ints, propose: Callable[[Ints], Spread | None]
    ) -> Spread | None:
        """Return the best of some proposals, each of which avoids more of what others need."""
        dear = np.zeros(len(self.outlook.supply), dtype=np.int64)
        best: tuple[int, Spread] | None = None
        for _ in range(MOST_CHOICES):
            spread = propose(dear)
            if spread is None or (best is not None and spread == best[1]):
                break
            missed, contended = self._missed(job, kind, room, spread)
            if best is None or missed < best[0]:
                best = missed, spread
            if not missed:
                break
            dear[contended] += DEAR
        return None if best is None else best[1]

    def _drives_out(self, job: RoundJob, kind: Kind, room: Ints, spread: Spread) -> bool:
        """Return whether a placement has others move away who would have no home."""
        if all(count <= room[n] for n, count in spread):
            return False
        self._missed(job, kind, room, spread)
        return self.outlook.misses_more(self.homes)

    def price(self, dear: Ints, kind: Kind, need: int) -> Ints:
        """Return what serving `need` GPUs of a kind on each node costs by the prices of the sources, (N,)."""
        pairs, left = self.supply.leftovers(kind)
        nodes, count = self.supply.node[pairs], len(self.problem.nodes.capacity)
        gpus = np.bincount(nodes, left, count)
        paid = np.bincount(nodes, left * dear[self.of_pair[pairs]], count)
        found = np.where(gpus > need, paid * need / np.maximum(gpus, 1), paid)
        found += dear[self.of_node] * np.maximum(0, need - gpus)
        return found.astype(np.int64)

    def _missed(self, job: RoundJob, kind: Kind, room: Ints, spread: Spread) -> tuple[int, Flags]:
        """Return what others would miss for want of what a placement takes, and what is then contended."""
        use, lifted = np.zeros_like(self.outlook.supply), np.zeros_like(self.outlook.supply)
        homes = np.zeros_like(self.outlook.demand)
        for n, count in spread:
            still, at = count, self.of_node[n]
            more = max(0, count - int(room[n]))
            lifted[at] += more
            homes[self.homes[self.problem.nodes.gpu_type[n]]] += more
            for j, pair, left in self.supply.leaving_on(n):
                if still and kind.rights[j]:
                    taken = min(still, left)
                    use[self.of_pair[pair]] += taken
                    still -= taken
            use[at] += still
        return self.outlook.loss(self.kind_of[job.index], use, lifted, homes)
