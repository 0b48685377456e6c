"""What one round hands on to the next: the topology while it holds, and which way of placing is next."""

from __future__ import annotations

from dataclasses import replace

from optsched.clock import StoppedClock
from optsched.planner.memory import remembered
from optsched.planner.plan import PlanOptions, plan_next, plan_round
from optsched.solve.coarse import EXACT_NODES
from optsched.values.cluster import NodeState
from tests.builders import job, nodes, racks, snapshot

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
    assert memory.after(searched_better=True) == memory
    assert memory.after(searched_better=False).turn == memory.turn + 1


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
    for minute in range(30):
        now = replace(whole, now=whole.now + 60 * minute)
        _, memory = plan_next(now, COUNTED, StoppedClock(), None)
        each, _ = plan_next(now, COUNTED, StoppedClock(), memory)
        some, _ = plan_next(now, sampled, StoppedClock(), memory)
        assert each.round.gap is not None
        assert some.starts == each.starts
        assert some.round.gap in (None, each.round.gap)
        known += some.round.gap is not None
    assert 0 < known < 30
