"""What those still without a place will need: whether what is left over could serve all of them, GPU by GPU.

Sizes and nodes are left out, so it is a flow, from kinds of takers (the same rights, GPU types and rank) to sources: what
is free of each GPU type, and what stopped jobs leave, by who may have it. Where it serves everybody, nobody should be
placed so that it no longer does; if somebody would be, the sources that are then contended are his to avoid.
"""

from __future__ import annotations

import numpy as np
from ortools.graph.python import min_cost_flow

from optsched.errors import SolverFailed
from optsched.rounds.problem import Flags, Ints

class Outlook:
    """Demand by kind (K,), supply by source (C,), and a flow (K, C) that serves as much as possible, by worth (K,).

    `may` (K, C) says who may have what. The last kinds are those who need a new home, one for each GPU type.
    """

    def __init__(self, may: Flags, worth: Ints) -> None:
        self.may, self.worth = may, worth
        self.kinds, self.sources = np.nonzero(may)
        self.demand, self.supply = (np.zeros(count, dtype=np.int64) for count in may.shape)
        self._flow = np.zeros(may.shape, dtype=np.int64)
        self._unmet = 0

    def set(self, demand: Ints, supply: Ints) -> None:
        """State anew what is needed and what there is."""
        self.demand, self.supply = demand, supply
        self._flow = self._served(demand, supply)
        self._unmet = self._missed(demand, self._flow)

    def loss(self, kind: int, use: Ints, lifted: Ints, homes: Ints) -> tuple[int, Flags]:
        """Return what others would miss for want of what a placement takes, by worth, and the contended sources (C,).

        It takes `use` (C,) of the sources; `lifted` (C,) of that become free for it only as others move away, who then
        need a new home: so much more is needed by kind, `homes` (K,).
        """
        demand, supply = self.demand + homes, self.supply + lifted
        demand[kind] -= min(int(demand[kind]), int(use.sum()))
        supply -= np.minimum(supply, use)
        flow = self._served(demand, supply)
        missed = self._missed(demand, flow) - self._unmet
        if missed <= 0:
            return 0, np.zeros(len(supply), dtype=bool)
        return missed, self._contended(demand, flow)

    def _missed(self, demand: Ints, flow: Ints) -> int:
        return int(self.worth @ (demand - flow.sum(axis=1)))

    def _contended(self, demand: Ints, flow: Ints) -> Flags:
        """Return the sources that who is not served could do with, directly or by others' giving way to him."""
        wanting = demand > flow.sum(axis=1)
        while True:
            found: Flags = self.may[wanting].any(axis=0)
            more = wanting | (flow[:, found] > 0).any(axis=1)
            if (more == wanting).all():
                return found
            wanting = more

    def _served(self, demand: Ints, supply: Ints) -> Ints:
        """Return a flow that serves as much as possible, those worth most first."""
        kinds, sources = self.may.shape
        start, sink = kinds + sources, kinds + sources + 1
        total = int(min(demand.sum(), supply.sum()))
        flow = min_cost_flow.SimpleMinCostFlow()
        arcs = flow.add_arcs_with_capacity_and_unit_cost(
            np.concatenate([self.kinds, np.full(kinds, start), kinds + np.arange(sources), [start]]),
            np.concatenate([kinds + self.sources, np.arange(kinds), np.full(sources, sink), [sink]]),
            np.concatenate([np.minimum(demand[self.kinds], supply[self.sources]), demand, supply, [total]]),
            np.concatenate([np.zeros(len(self.kinds), dtype=np.int64), -self.worth, np.zeros(sources + 1, dtype=np.int64)]),
        )
        flow.set_node_supply(start, total)
        flow.set_node_supply(sink, -total)
        if flow.solve() != flow.OPTIMAL:
            raise SolverFailed("the flow of what is left over has no solution")
        found = np.zeros(self.may.shape, dtype=np.int64)
        found[self.kinds, self.sources] = flow.flows(arcs[: len(self.kinds)])
        return found

