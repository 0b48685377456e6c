"""What one round hands on to the next: the topology while it holds, and which way of placing is next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optsched.clock import StoppedClock
from optsched.planner.memory import remembered
from optsched.planner.plan import PlanOptions, plan_next, plan_round
from optsched.solve.coarse import EXACT_NODES
from optsched.values.cluster import NodeState
from optsched.values.plan import Source
from tests.builders import cordoned, job, nodes, racks, snapshot

COUNTED = PlanOptions(budget_s=1e9, deterministic_s=1.0, prove=0)


def test_the_topology_is_kept_while_the_domains_are_the_same():
    before = snapshot(racks(r1="n1 n2", r2="n3"))
    memory = remembered(None, before.cluster)
    down = replace(before.cluster.nodes[0], state=NodeState.DOWN)
    after = replace(before.cluster, nodes=(down, *before.cluster.nodes[1:]))
    assert remembered(memory, after).tree is memory.tree
    moved = snapshot(racks(r1="n1", r2="n2 n3")).cluster
    assert remembered(memory, moved).tree is not memory.tree


def test_another_way_of_placing_is_next_where_one_was_of_no_use():
    memory = remembered(None, snapshot(nodes("n1")).cluster)
    assert memory.after_search(60.0, better=True).turn == memory.turn
    assert memory.after_search(60.0, better=False).turn == memory.turn + 1


@pytest.mark.parametrize(("count", "again"), [(EXACT_NODES, Source.CP_SAT), (EXACT_NODES + 1, Source.GREEDY)])
def test_of_large_rounds_at_one_instant_only_the_first_is_searched(count, again):
    closed = [cordoned(each) for each in nodes(" ".join(f"c{number}" for number in range(1, count)))]
    jobs = [job("first").gang(5).waiting(900), job("second").gang(4).waiting(60), job("third").gang(4).waiting(30)]
    whole = snapshot([*nodes("n"), *closed], *jobs)
    found, memory = plan_next(whole, COUNTED, StoppedClock(), None)
    assert found.round.source is Source.CP_SAT
    found, memory = plan_next(whole, COUNTED, StoppedClock(), memory)
    assert found.round.source is again
    found, _ = plan_next(replace(whole, now=whole.now + 1), COUNTED, StoppedClock(), memory)
    assert found.round.source is Source.CP_SAT


def test_a_small_round_is_planned_with_a_memory_as_without_one():
    whole = snapshot(nodes("n1 n2"), job("a").gang(8), job("b").gang(16), job("c").gang(4))
    alone = plan_round(whole, COUNTED, StoppedClock())
    first, memory = plan_next(whole, COUNTED, StoppedClock(), None)
    second, _ = plan_next(whole, COUNTED, StoppedClock(), memory)
    assert first == alone
    assert second == alone


def test_the_gap_of_a_large_round_is_worked_out_at_the_instants_that_are_drawn():
    many = " ".join(f"n{number}" for number in range(EXACT_NODES + 1))
    sizes = (256, 512, 8, 16, 1)
    whole = snapshot(nodes(many), *(job(f"j{number}").gang(gpus) for number, gpus in enumerate(sizes)))
    sampled = replace(COUNTED, bound_every=5)
    known = 0
    _, memory = plan_next(whole, COUNTED, StoppedClock(), None)
    for minute in range(1, 31):
        now = replace(whole, now=whole.now + 60 * minute)
        each, _ = plan_next(now, COUNTED, StoppedClock(), memory)
        some, _ = plan_next(now, sampled, StoppedClock(), memory)
        assert each.round.gap is not None
        assert some.starts == each.starts
        assert some.round.gap in (None, each.round.gap)
        known += some.round.gap is not None
    assert 0 < known < 30
