"""What those still without a place will need: whether what is left over could serve all of them, GPU by GPU.

Sizes are left out, so it is a flow, from kinds of takers (the same rights, nodes, size of pieces and rank) to sources
(GPUs that the same kinds may have). Where it serves everybody, nobody should be placed so that it no longer does; if
somebody would be, the sources that are then contended are his to avoid.
"""

from __future__ import annotations

import numpy as np
from ortools.graph.python import min_cost_flow

from optsched.errors import SolverFailed
from optsched.rounds.problem import Flags, Ints


class Outlook:
    """Demand by kind (K,), supply by source (C,), and a flow (K, C) that serves as much as possible, by worth (K,).

    `may` (K, C) says who may have what. `demand` and `supply` are as last stated.
    """

    def __init__(self, may: Flags, worth: Ints) -> None:
        self.may, self.worth = may, worth
        self._kinds, self._sources = np.nonzero(may)
        self.demand, self.supply = (np.zeros(count, dtype=np.int64) for count in may.shape)
        self._flow = np.zeros(may.shape, dtype=np.int64)
        self._next: tuple[Ints, Ints, Ints] | None = None

    def set(self, demand: Ints, supply: Ints) -> None:
        """State anew what is needed and what there is."""
        for known in ((self.demand, self.supply, self._flow), self._next or ()):
            if known and np.array_equal(known[0], demand) and np.array_equal(known[1], supply):
                self.demand, self.supply, self._flow = known
                return
        self.demand, self.supply, self._flow = demand, supply, self._served(demand, supply)

    def loss(self, kind: int, use: Ints, lifted: Ints, homes: Ints) -> tuple[int, Flags]:
        """Return what others would miss for want of what a placement takes, by worth, and the contended sources (C,).

        It takes `use` (C,) of the sources; `lifted` (C,) of that become free for it only as others move away, who then
        need a new home: so much more is needed by kind, `homes` (K,).
        """
        demand, supply = self.demand + homes, self.supply + lifted
        demand[kind] -= min(int(demand[kind]), int(use.sum()))
        supply -= np.minimum(supply, use)
        flow = self._patched(demand, supply)
        if flow is None:
            flow = self._served(demand, supply)
        self._next = demand, supply, flow
        missed = self._missed(demand, flow) - self._missed(self.demand, self._flow)
        if missed <= 0:
            return 0, np.zeros(len(supply), dtype=bool)
        return missed, self._contended(demand, flow)

    def misses_more(self, kinds: Ints) -> bool:
        """Return whether some kinds together would miss more than now by the placement last asked about."""
        if self._next is None:
            return False
        demand, _, flow = self._next
        now = int((self.demand - self._flow.sum(axis=1))[kinds].sum())
        return int((demand - flow.sum(axis=1))[kinds].sum()) > now

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

    def _patched(self, demand: Ints, supply: Ints) -> Ints | None:
        """Return the present flow changed a little, if that misses nothing that it does not miss now; else None."""
        flow = self._flow.copy()
        needed = demand - (self.demand - flow.sum(axis=1))
        # Nobody gets more than is needed, nothing gives more than there is.
        for kind in np.flatnonzero(flow.sum(axis=1) > demand).tolist():
            _cut(flow[kind], int(flow[kind].sum() - demand[kind]), flow.sum(axis=0) - supply)
        for source in np.flatnonzero(flow.sum(axis=0) > supply).tolist():
            over = int(flow[:, source].sum() - supply[source])
            for kind in np.flatnonzero(flow[:, source]).tolist():
                less = min(over, int(flow[kind, source]))
                flow[kind, source] -= less
                over -= less
        spare = supply - flow.sum(axis=0)
        for kind in np.flatnonzero(needed > flow.sum(axis=1)).tolist():
            short = int(needed[kind] - flow[kind].sum())
            for source in np.flatnonzero(self.may[kind] & (spare > 0)).tolist():
                more = min(short, int(spare[source]))
                flow[kind, source] += more
                spare[source] -= more
                short -= more
            if short:
                return None
        return flow

    def _served(self, demand: Ints, supply: Ints) -> Ints:
        """Return a flow that serves as much as possible, those worth most first."""
        kinds, sources = self.may.shape
        start, sink = kinds + sources, kinds + sources + 1
        total = int(min(demand.sum(), supply.sum()))
        needed = (demand[self._kinds] > 0) & (supply[self._sources] > 0)
        tails, heads = self._kinds[needed], self._sources[needed]
        flow = min_cost_flow.SimpleMinCostFlow()
        arcs = flow.add_arcs_with_capacity_and_unit_cost(
            np.concatenate([tails, np.full(kinds, start), kinds + np.arange(sources), [start]]),
            np.concatenate([kinds + heads, np.arange(kinds), np.full(sources, sink), [sink]]),
            np.concatenate([np.minimum(demand[tails], supply[heads]), demand, supply, [total]]),
            np.concatenate([np.zeros(len(tails), dtype=np.int64), -self.worth, np.zeros(sources + 1, dtype=np.int64)]),
        )
        flow.set_node_supply(start, total)
        flow.set_node_supply(sink, -total)
        if flow.solve() != flow.OPTIMAL:
            raise SolverFailed("the flow of what is left over has no solution")
        found = np.zeros(self.may.shape, dtype=np.int64)
        found[tails, heads] = flow.flows(arcs[: len(tails)])
        return found


def _cut(given: Ints, by: int, over: Ints) -> None:
    """Take `by` GPUs off what a kind is given (C,), first where more is given than there is."""
    for source in np.argsort(-over, kind="stable").tolist():
        less = min(by, int(given[source]))
        given[source] -= less
        by -= less
        if not by:
            return
