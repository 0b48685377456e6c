"""Who gets the last single GPUs: an exact answer by a flow, since GPUs one by one are alike.

Takers of one GPU with the same rights, rank and nodes are one kind. A flow sends each to a GPU that it may have: one
that is free on some node, or one that a stopped job leaves there. Better ranks are served first: with one GPU each,
serving them greedily by rank is optimal (the sets that can be served form a transversal matroid).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from ortools.graph.python import min_cost_flow

from optsched.errors import SolverFailed
from optsched.rounds.problem import Ints


@dataclass(frozen=True, slots=True)
class Takers:
    """`count` takers of one GPU each, worth `worth` each (> 0), that may have GPUs of the sources in `may` (flags)."""

    count: int
    worth: int
    may: np.ndarray[tuple[int], np.dtype[np.bool_]]


def share_out(takers: Sequence[Takers], sources: Ints) -> list[list[tuple[int, int]]]:
    """Return, for each kind of takers, (source, GPUs) pairs: as much worth as possible is served.

    `sources` (S,) are the GPUs that each source has; a source that comes later is used rather than an earlier one.
    """
    kinds, count = len(takers), len(sources)
    start, sink = kinds + count, kinds + count + 1
    tails: list[Ints] = [np.full(kinds, start, dtype=np.int64), kinds + np.arange(count)]
    heads: list[Ints] = [np.arange(kinds), np.full(count, sink, dtype=np.int64)]
    capacities: list[Ints] = [np.array([each.count for each in takers], dtype=np.int64), sources]
    costs: list[Ints] = [np.array([-each.worth * count for each in takers], dtype=np.int64), -np.arange(count)]
    for kind, each in enumerate(takers):
        to = np.flatnonzero(each.may & (sources > 0))
        tails.append(np.full(len(to), kind, dtype=np.int64))
        heads.append(kinds + to)
        capacities.append(np.minimum(each.count, sources[to]))
        costs.append(np.zeros(len(to), dtype=np.int64))
    flow = min_cost_flow.SimpleMinCostFlow()
    total = int(min(capacities[0].sum(), sources.sum()))
    arcs = flow.add_arcs_with_capacity_and_unit_cost(
        np.concatenate([*tails, [start]]),
        np.concatenate([*heads, [sink]]),
        np.concatenate([*capacities, [total]]),
        np.concatenate([*costs, [0]]),
    )
    flow.set_node_supply(start, total)
    flow.set_node_supply(sink, -total)
    if flow.solve() != flow.OPTIMAL:
        raise SolverFailed("the flow of single GPUs has no solution")
    sent = flow.flows(arcs)
    at, result = kinds + count, []
    for to in heads[2:]:
        here = sent[at : at + len(to)]
        used = np.flatnonzero(here)
        result.append([(int(to[i]) - kinds, int(here[i])) for i in used.tolist()])
        at += len(to)
    return result
