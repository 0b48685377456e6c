"""What others would miss: the flow against another one, and whose GPUs would help."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from optsched.rounds.problem import Flags, Ints
from optsched.solve.outlook import Outlook


def missed(may: Flags, worth: Ints, demand: Ints, supply: Ints) -> int:
    """The least that is missed, by worth: what most can serve, for those worth most, as networkx finds it."""
    graph = nx.DiGraph()
    for kind, (need, each) in enumerate(zip(demand.tolist(), worth.tolist(), strict=True)):
        graph.add_edge("start", ("kind", kind), capacity=need, weight=-each)
        graph.add_edges_from((("kind", kind), ("source", int(c))) for c in np.flatnonzero(may[kind]))
    graph.add_edges_from((("source", c), "end", {"capacity": given}) for c, given in enumerate(supply.tolist()))
    flow = nx.max_flow_min_cost(graph, "start", "end")
    return sum(
        each * (need - flow["start"]["kind", kind]) for kind, (need, each) in enumerate(zip(demand, worth, strict=True))
    )


def random_round(seed: int) -> tuple[np.random.Generator, Flags, Ints, Ints, Ints]:
    """Kinds, sources, who may have what, and how much there is of each."""
    rng = np.random.default_rng(seed)
    kinds, sources = rng.integers(2, 7), rng.integers(2, 7)
    may = rng.random((kinds, sources)) < 0.5
    may[rng.integers(kinds), rng.integers(sources)] = True
    return rng, may, rng.integers(1, 5, kinds), rng.integers(0, 9, kinds), rng.integers(0, 9, sources)


@pytest.mark.parametrize("seed", range(60))
def test_a_loss_is_what_another_flow_says_placement_after_placement(seed):
    rng, may, worth, demand, supply = random_round(seed)
    outlook = Outlook(may, worth)
    outlook.set(demand, supply)
    for _ in range(6):
        kind = int(rng.integers(len(demand)))
        use = np.minimum(rng.integers(0, 3, len(supply)), supply) * may[kind]
        use = use if use.sum() <= demand[kind] else np.zeros_like(use)
        nothing = np.zeros_like(supply), np.zeros_like(demand)
        loss, contended = outlook.loss(kind, use, *nothing)
        before = missed(may, worth, demand, supply)
        demand, supply = demand.copy(), supply - use
        demand[kind] -= use.sum()
        assert loss == max(0, missed(may, worth, demand, supply) - before)
        for source in range(len(supply)) if loss else ():
            one_more = supply.copy()
            one_more[source] += 1
            helps = missed(may, worth, demand, one_more) < missed(may, worth, demand, supply)
            assert helps <= contended[source]
        outlook.set(demand, supply)


def test_who_moves_away_needs_another_home():
    outlook = Outlook(np.array([[True, True], [False, True]]), np.array([1, 5]))
    outlook.set(np.array([4, 0]), np.array([0, 4]))
    # Two GPUs become free as somebody leaves who then takes two of the others.
    loss, contended = outlook.loss(0, np.array([2, 0]), np.array([2, 0]), np.array([0, 2]))
    assert (loss, contended.any()) == (0, False)
    loss, contended = outlook.loss(0, np.array([2, 2]), np.array([2, 0]), np.array([0, 3]))
    assert (loss, contended.tolist()) == (5, [False, True])


def test_nothing_to_serve_and_nothing_to_serve_it_with():
    outlook = Outlook(np.array([[True]]), np.array([1]))
    outlook.set(np.array([0]), np.array([0]))
    assert outlook.loss(0, np.array([0]), np.array([0]), np.array([0]))[0] == 0


def test_it_is_told_whether_some_kinds_miss_more_than_before():
    """Two kinds, a source for both: what the first takes the second misses, unless as much comes in."""
    outlook = Outlook(np.ones((2, 1), dtype=bool), np.array([1, 2]))
    outlook.set(np.array([3, 2]), np.array([4]))
    nothing = np.zeros(2, dtype=np.int64)
    assert not outlook.misses_more(np.array([1]))
    outlook.loss(0, np.array([3]), np.array([0]), nothing)
    assert outlook.misses_more(np.array([1]))
    outlook.loss(0, np.array([3]), np.array([1]), nothing)
    assert not outlook.misses_more(np.array([1]))
