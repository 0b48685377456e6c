"""The plan as values: indices, tasks, ranks, bill, bound."""

from __future__ import annotations

import pytest

from optsched.clock import StoppedClock
from optsched.planner.plan import PlanOptions, plan_round
from optsched.values.cluster import Fabric, Link
from optsched.values.ids import LevelName
from optsched.values.plan import Source, Status, Tier
from tests.builders import job, node, nodes, outcome, planned, racks, snapshot, team
from tests.oracle.rounds import tiny_round

PAIRS = Fabric(
    tuple(Link(a, a + 1, "nvlink", 600.0) for a in (0, 2, 4, 6)),
    islands=((0, 1, 2, 3), (4, 5, 6, 7)),
)
"""Eight GPUs bridged in pairs."""


def wired(names: str) -> list:
    """Nodes with that fabric."""
    return nodes(names, 8, fabric="pairs", rack="r1")


def test_a_start_takes_well_linked_gpus():
    """0, 2 and 3 are free among others in use: the pair 2, 3 is bridged."""
    held = job("v").running({"a": (1, 4, 5, 6, 7)})
    plan = planned(snapshot(wired("a"), held.rigid(), job("q").gang(2), fabrics={"pairs": PAIRS}))
    assert plan.starts[0].placement == {"a": (2, 3)}


def test_bad_gpus_are_never_given_out():
    """Index 0 is bad."""
    plan = planned(snapshot([node("a", 3, gpus_bad=(0,))], job("q").gang(2)))
    assert plan.starts[0].placement == {"a": (1, 2)}


def test_where_bookings_are_counts_the_plan_gives_counts():
    """The other node has indices."""
    held = (job("v").rigid().running({"a": 4}), job("w").rigid().running({"b": (0, 1, 2, 3)}))
    plan = planned(snapshot(nodes("a b", 8), *held, job("q").gang(8).per_node(4)))
    assert plan.starts[0].placement == {"a": 4, "b": (4, 5, 6, 7)}


def test_a_part_node_gang_has_the_same_indices_on_all_its_nodes():
    """0 is taken on a, 7 on b: what both have free is 1..6."""
    held = (job("v").rigid().running({"a": (0,)}), job("w").rigid().running({"b": (7,)}))
    plan = planned(snapshot(wired("a b"), *held, job("q").gang(8).per_node(4), fabrics={"pairs": PAIRS}))
    first, second = (plan.starts[0].placement[name] for name in ("a", "b"))
    assert first == second
    assert set(first) <= {1, 2, 3, 4, 5, 6}


def test_a_shrunk_job_keeps_gpus_that_it_has_and_leaves_the_rest():
    """It had all eight; what it keeps and what the other gets do not meet."""
    held = job("e").gang(4).elastic(2, 8).rank("P4").running({"a": (0, 1, 2, 3, 4, 5, 6, 7)})
    plan = planned(snapshot(wired("a"), held, job("q").rank("P1").gang(4), fabrics={"pairs": PAIRS}))
    kept, given = plan.resizes[0].placement["a"], plan.starts[0].placement["a"]
    assert sorted((*kept, *given)) == list(range(8))


def test_a_grown_job_keeps_all_that_it_has():
    """And adds to it."""
    held = job("e").gang(2).elastic(2, 4).running({"a": (4, 7)})
    plan = planned(snapshot(nodes("a", 8), held))
    assert set(plan.resizes[0].placement["a"]) >= {4, 7}
    assert len(plan.resizes[0].placement["a"]) == 4


def test_a_victims_gpus_go_to_its_beneficiary():
    """Their indices are free again."""
    held = (job("v").rank("P4").running({"a": (0, 1, 2, 3)}), job("w").rigid().running({"a": (4, 5, 6, 7)}))
    plan = planned(snapshot(nodes("a", 8), *held, job("q").rank("P1").gang(4)))
    assert plan.starts[0].placement == {"a": (0, 1, 2, 3)}


def test_tasks_follow_the_topology_and_slices_are_contiguous_in_rank():
    """Two racks of two nodes, tasks of 2 GPUs, slices of 8 within a rack: ranks 0-3 in one rack, 4-7 in the other."""
    there = racks(4, r1="a c", r2="b d")
    asks = job("q").gang(16).per_task(2).slices((8, "rack"))
    tasks = planned(snapshot(there, asks), tasks=True).starts[0].tasks
    assert [task.rank for task in tasks] == list(range(8))
    assert [task.slice for task in tasks] == [(0,)] * 4 + [(1,)] * 4
    rack = {each.id: each.domains[LevelName("rack")] for each in there}
    assert len({rack[task.node] for task in tasks[:4]}) == 1
    assert len({rack[task.node] for task in tasks[4:]}) == 1
    assert all(len(task.gpus) == 2 for task in tasks)


def test_tasks_are_given_only_if_they_are_asked_for():
    """A gang of thousands has thousands."""
    assert planned(snapshot(nodes("a", 8), job("q"))).starts[0].tasks == ()


def test_the_span_is_named():
    """The narrowest level that holds the gang."""
    there = racks(4, r1="a b", r2="c")
    for asks, span in ((job("q").gang(4), "node"), (job("q").gang(8).per_node(4).within("rack"), "rack")):
        assert planned(snapshot(there, asks)).starts[0].span == span


def test_a_proven_plan_says_so():
    """Source, status, no gap, bounds equal to what runs, rank by rank."""
    plan = planned(snapshot(nodes("a", 8), team("t").quota(4).weight(0), job("q").rank("P1").gang(6)))
    info = plan.round
    assert (info.source, info.status, info.gap, info.gap_gpus) == (Source.CP_SAT, Status.OPTIMAL, 0.0, 0)
    assert [(rank.tier, rank.priority, rank.gpus, rank.gpus_bound) for rank in info.ranks] == [
        (Tier.GUARANTEED, "P1", 4, 4),
        (Tier.OPPORTUNISTIC, "P1", 2, 2),
    ]
    # 6 GPUs for an hour.
    assert plan.bill.run_value == 6 * 3600


def test_greedy_alone_proves_nothing():
    """Feasible, with no bound and no gap to state."""
    info = planned(snapshot(nodes("a", 8), job("q")), budget_s=0.0).round
    assert (info.source, info.status, info.gap, info.gap_gpus) == (Source.GREEDY, Status.FEASIBLE, None, None)


@pytest.mark.parametrize("chunk", range(4))
def test_random_rounds_from_end_to_end(chunk):
    """No index twice, none that is bad, bounds on the right side, every queued job started or explained."""
    for seed in range(200 + 8 * chunk, 208 + 8 * chunk):
        snap = tiny_round(seed)
        found = outcome(snap, deterministic_s=3.0, tasks=True)
        plan, there = found.plan, {each.id: each for each in snap.cluster.nodes}
        used: dict[str, list[int]] = {}
        for start in plan.starts:
            for name, gpus in start.placement.items():
                used.setdefault(name, []).extend(() if isinstance(gpus, int) else gpus)
            assert sum(len(t.gpus) if isinstance(t.gpus, tuple) else t.gpus for t in start.tasks) == sum(
                found.runs[start.job].values()
            )
        for name, indices in used.items():
            assert len(set(indices)) == len(indices), seed
            assert not set(indices) & set(there[name].gpus_bad), seed
        queued = {each.id for each in snap.jobs if not each.placement}
        assert queued == {each.job for each in plan.queued} | found.started, seed
        assert plan.bill.bound is None or plan.bill.bound <= plan.bill.total, seed
        assert all(rank.gpus_bound is None or rank.gpus_bound >= rank.gpus for rank in plan.round.ranks), seed
        assert plan.round.gap is None or plan.round.gap >= 0, seed


def test_the_same_snapshot_gives_the_same_plan():
    """A pure function."""
    options = PlanOptions(budget_s=1e9, deterministic_s=2.0, tasks=True)
    for seed in (3, 5, 8):
        assert plan_round(tiny_round(seed), options, StoppedClock()) == plan_round(
            tiny_round(seed), options, StoppedClock()
        )
