"""The exact model: each constraint with a round that it decides, and one that it lets pass."""

from __future__ import annotations

import dataclasses

import pytest

from optsched.clock import StoppedClock
from optsched.rounds.assignment import NO_CHANGE
from optsched.rounds.build import build_problem
from optsched.rounds.check import check
from optsched.rounds.problem import Hold
from optsched.solve.exact import ExactSolver
from optsched.solve.result import Budget
from optsched.values.ids import LevelName
from optsched.values.profile import PriorityMode, Reclaim
from optsched.values.snapshot import Snapshot
from tests.builders import cordoned, grant, job, node, nodes, racks, snapshot, team, window
from tests.oracle.brute import Plan
from tests.solve.twins import plan_of

BUDGET = Budget(wall_s=1e9, deterministic_s=30.0)


def solved(snap: Snapshot, **changes: object) -> Plan:
    """The exact model's plan by names; it is proven, and the checker accepts it."""
    problem = dataclasses.replace(build_problem(snap), **changes)
    result = ExactSolver().solve(problem, NO_CHANGE, BUDGET, StoppedClock())
    assert result.proven
    assert check(problem, result.assignment) == []
    return plan_of(problem, result.assignment)


def starts(snap: Snapshot, **changes: object) -> set[str]:
    """The jobs that start."""
    queued = {each.id for each in snap.jobs if not each.placement}
    return set(solved(snap, **changes).placements) & queued


def stops(snap: Snapshot) -> set[str]:
    """The jobs that are stopped."""
    return set(solved(snap).stopped)


# Shape


@pytest.mark.parametrize(
    ("asks", "fits"),
    [
        (job("q").gang(8).per_node(4), True),
        (job("q").gang(8).per_node(8), False),
        (job("q").gang(9).per_task(3), True),
        (job("q").gang(30).per_task(6), False),
        (job("q").gang(6), True),
        (job("q").gang(7), False),
        (job("q").gang(12).per_task(1).within("rack"), True),
        (job("q").gang(13).per_task(1).within("rack"), False),
        (job("q").gang(16).per_task(2).slices((4, "rack")), True),
        (job("q").gang(20).per_task(2).slices((10, "rack")), True),
        (job("q").gang(20).per_task(2).slices((20, "rack")), False),
        (job("q").gang(8).per_task(1).slices((8, "rack"), (4, "node")), True),
        (job("q").gang(8).per_task(1).slices((8, "node")), False),
    ],
)
def test_a_gang_starts_where_its_shape_fits(asks, fits):
    """Two racks of two nodes of 8 GPUs, of which 6 are free on each."""
    busy = [job(f"v{name}").rigid().running({name: 2}) for name in "abcd"]
    assert starts(snapshot(racks(8, r1="a b", r2="c d"), *busy, asks)) == ({"q"} if fits else set())


def test_elastic_sizes_go_by_steps_of_the_cut():
    """3 nodes of 4 with 11 GPUs free: by 4 on each node 8 can be had, by tasks of 2 it is 10."""
    there = nodes("a b c", 4)
    busy = job("v").rigid().running(a=1)
    by_node = solved(snapshot(there, busy, job("q").gang(4).per_node(4).elastic(4, 12)))
    assert sum(by_node.placements["q"].values()) == 8
    by_task = solved(snapshot(there, busy, job("q").gang(4).per_task(2).elastic(4, 12)))
    assert sum(by_task.placements["q"].values()) == 10


def test_one_type_for_one_gang_and_the_faster_one():
    """Eight of each type: the gang is on h100, where it loses nothing; with six of them free on a100 at half speed."""
    there = [node("h", 8, "h100"), node("o", 8, "a100")]
    asks = job("q").gang(8).per_task(1).types(h100=1.0, a100=0.5)
    assert solved(snapshot(there, asks)).placements == {"q": {"h": 8}}
    assert solved(snapshot(there, asks, job("v").rigid().running(h=2))).placements == {"q": {"o": 8}}


def test_the_narrowest_span_is_taken_and_levels_that_a_node_lacks_are_no_hindrance():
    """Nodes of rack r that name no block are one rack: no placement over both racks is as fast."""
    there = [node("a", 2, rack="r"), node("b", 2, rack="r"), node("c", 2, block="x", rack="s"), node("d", 1)]
    snap = snapshot(
        there,
        job("q").gang(4).per_node(2),
        levels="block rack",
        speed={LevelName("rack"): 0.9, LevelName("block"): 0.8},
        speed_widest=0.5,
    )
    assert solved(snap).placements == {"q": {"a": 2, "b": 2}}


def test_the_fewest_preferred_domains_are_used():
    """Rack r3 alone could hold it; with it full two racks serve, and the job does not wait."""
    there = racks(4, r1="a", r2="b", r3="c d")
    asks = job("q").gang(8).per_task(1).prefers("rack")
    assert solved(snapshot(there, asks)).placements == {"q": {"c": 4, "d": 4}}
    with_busy = snapshot(there, job("v").rigid().running(c=4), asks)
    assert len(solved(with_busy).placements["q"]) == 2


# Room


def test_cpus_and_memory_bound_what_starts():
    """One node of 8 GPUs with 32 CPUs and 256 GB: two jobs of 16 CPUs and 128 GB start, a third has no CPUs."""
    there = [node("a", 8, cpus=32, memory_gb=256)]
    asks = [job(f"q{i}").gang(2).cpus(16).memory(128).waiting(9 - i) for i in range(3)]
    assert starts(snapshot(there, *asks)) == {"q0", "q1"}


def test_two_victims_go_for_the_cpus_of_one_gpu():
    """Two jobs of one GPU and 8 CPUs each: a job of one GPU and 16 CPUs needs both to go."""
    there = [node("a", 2, cpus=16)]
    victims = [job(name).cpus(8).running(a=1) for name in "vw"]
    assert stops(snapshot(there, *victims, job("q").cpus(16).rank("P1"))) == {"v", "w"}


def test_two_jobs_move_for_the_cpus_of_one_gpu():
    """The same, where both find another place."""
    there = [node("a", 2, cpus=16), node("b", 2, cpus=16)]
    victims = [job(name).cpus(8).running(a=1) for name in "vw"]
    plan = solved(snapshot(there, *victims, job("q").cpus(16).rank("P4")))
    assert plan.stopped == frozenset()
    assert "q" in plan.placements


# Shares


def test_limits_bind_and_a_stop_makes_room_under_them():
    """Limit 4: the P1 starts in place of the P3, though other GPUs are free; a P3 does not."""
    there, held = nodes("a b", 4), job("v").rank("P3").running(a=4)
    assert stops(snapshot(there, team("t").limit(4), held, job("q").gang(4).rank("P1"))) == {"v"}
    assert starts(snapshot(there, team("t").limit(4), held, job("q").gang(4).rank("P3"))) == set()
    assert starts(snapshot(there, team("t").limit(8), held, job("q").gang(4).rank("P3"))) == {"q"}


def test_a_limit_by_type_counts_jobs_that_could_have_either_type():
    """One h100 at most: the second job takes an a100; one that nothing suits is no part of the count."""
    there = [node("h", 2, "h100"), node("o", 1, "a100")]
    asks = [job(f"q{i}").types(h100=1.0, a100=0.9).waiting(9 - i) for i in range(3)]
    never = job("never").gang(99).per_task(1)
    assert starts(snapshot(there, team("t").limit(h100=1), *asks, never)) == {"q0", "q1"}


def test_non_preemptible_work_starts_only_inside_the_quota():
    """Quota 2: one of two rigid jobs of 2."""
    asks = [job(f"q{i}").rigid().gang(2).waiting(9 - i) for i in range(2)]
    assert starts(snapshot(nodes("a", 8), team("t").quota(2), *asks)) == {"q0"}
    assert starts(snapshot(nodes("a", 8), team("t").quota(4), *asks)) == {"q0", "q1"}


# Stopping


def test_the_cluster_wide_stop_limit_binds():
    """Both victims of 4 have to go for the gang of 8."""
    parts = (job("v").running(a=4), job("w").running(b=4), job("q").gang(8).per_node(4).rank("P1"))
    assert stops(snapshot(nodes("a b", 4), *parts, max_stopped_gpus_per_h=8)) == {"v", "w"}
    assert stops(snapshot(nodes("a b", 4), *parts, max_stopped_gpus_per_h=7)) == set()


def test_nobody_is_stopped_where_a_move_does():
    """Rank decides who runs: with room elsewhere the lower priority goes on."""
    plan = solved(snapshot(nodes("a b", 4), job("v").running(a=2), job("q").gang(4).rank("P1"), job("w").running(b=1)))
    assert plan.stopped == frozenset()
    assert set(plan.placements) & {"v", "w"}


def test_a_mover_does_not_pass_on_what_it_has_no_right_to():
    """u's job has no right over inside-quota v, and m (which could stop v) gains nothing by standing between them."""
    snap = snapshot(
        nodes("a", 4),
        team("t").quota(4),
        job("v").rank("P3").running(a=2),
        job("m").rank("P1").gang(2).elastic(1, 2).running(a=2),
        job("q").team("u").rank("P0").gang(2),
    )
    assert solved(snap) == Plan()


def test_the_cheaper_victim_goes():
    """Equal ranks: 4 · 50 rather than 4 · 100."""
    victims = (job("v").running({"a": 4}, lost=100), job("w").running({"b": 4}, lost=50))
    assert stops(snapshot(nodes("a b", 4), *victims, job("q").gang(4).rank("P1"))) == {"w"}


def test_floors_bind():
    """t runs 6 with a quota of 4: of u's two jobs of 2, both within its own quota, one starts."""
    victims = [job(name).running({f"n{i}": 2}) for i, name in enumerate("vwx")]
    asks = [job(f"q{i}").team("u").gang(2).waiting(9 - i) for i in range(2)]
    for quota, count in ((4, 1), (2, 2)):
        teams = (team("t").quota(quota), team("u").quota(4))
        assert len(stops(snapshot(nodes("n0 n1 n2", 2), *teams, *victims, *asks, reclaim=Reclaim.QUOTA))) == count


def test_payment_binds():
    """One GPU may cost 3600: a victim of 4 GPUs that lost 900 s is stopped, one that lost 901 is not."""
    for lost, gone in ((900, {"v"}), (901, set())):
        snap = snapshot(nodes("a", 4), job("v").running(a=4, lost=lost), job("q").rank("P1"))
        assert stops(snap) == gone


def test_by_force_only_the_minimum_starts():
    """An elastic job of 2..4 over a victim of 4: 2 GPUs, and the other 2 stay idle in this round."""
    plan = solved(snapshot(nodes("a", 4), job("v").running(a=4), job("q").gang(4).elastic(2, 4).rank("P1")))
    assert plan == Plan({"q": {"a": 2}}, frozenset({"v"}))


def test_an_elastic_job_on_one_node_does_not_grow_on_a_node_that_takes_nothing_new():
    """It stays at 1 of 1..2 on a cordoned node; on an open one it grows."""
    elastic = job("e").elastic(1, 2).running(a=1)
    assert solved(snapshot([cordoned(node("a", 4)), node("b", 4)], elastic)) == Plan()
    assert solved(snapshot(nodes("a b", 4), elastic)) == Plan({"e": {"a": 2}})


# Holds, grants, windows


def test_holds_bind_unless_the_gang_starts():
    """4 of 8 GPUs are held against q of 6: it waits; not so if it is not bound, or the gang itself starts on b."""
    for other, bound, want in (("b", True, {"gang", "q"}), ("b", False, {"gang", "q"}), (None, True, set())):
        parts = [job("gang").gang(8).rank("P1"), job("q").gang(6)]
        parts += [] if other else [job("v").rigid().team("u").running(b=8), job("w").rigid().team("u").running(a=1)]
        snap = snapshot(nodes("a b", 8), *parts)
        index = {str(each.job.id): each.index for each in build_problem(snap).jobs}
        binds = frozenset({index["q"]}) if bound else frozenset()
        hold = Hold("gang", index["gang"], {0: 4}, binds, 600)
        assert starts(snap, holds=(hold,)) == want


def test_grants_bind():
    """6 of 8 GPUs are granted: a rigid job of 3 waits, one of 2 starts; where the big one starts too, 2 are left as
    well.
    """
    for gpus, want in ((2, {"q"}), (3, set())):
        snap = snapshot(nodes("a", 8), grant("g", 6, jobs="big"), job("q").team("u").rigid().gang(gpus))
        assert starts(snap) == want


def test_windows_bind():
    """What cannot end before the window begins waits."""
    for runs_for, want in ((900, {"q"}), (1100, set())):
        snap = snapshot(nodes("a", 8), window("w", 1000, 5000, "a"), job("q").rigid().runs_for(runs_for))
        assert starts(snap) == want


# Objectives


def test_strict_lets_rank_decide_at_any_price():
    """One P1 GPU costs a P3 gang of 8 its place."""
    snap = snapshot(nodes("a", 8), job("v").rank("P3").running(a=8, lost=400), job("q").rank("P1"))
    assert stops(snap) == {"v"}


def test_weighted_weighs_the_price():
    """One P1 GPU (8 · 2 fair) is not worth a P3 gang of 8 (2 each, by tier 1 or 2); a P1 gang of 8 is."""
    held = job("v").rank("P3").running(a=8, lost=400)
    for gpus, gone in ((1, set()), (8, {"v"})):
        snap = snapshot(nodes("a", 8), held, job("q").rank("P1").gang(gpus), priority_mode=PriorityMode.WEIGHTED)
        assert stops(snap) == gone


def test_the_older_of_two_equal_jobs_starts():
    """One place, two jobs that differ in age alone."""
    snap = snapshot(nodes("a", 4), job("new").gang(4).waiting(10), job("old").gang(4).waiting(20))
    assert starts(snap) == {"old"}


def test_moves_for_a_better_place_may_need_other_moves():
    """Nothing is queued. v loses half its speed over two racks; w changes places with it, for 2 · 10 each."""
    snap = snapshot(
        racks(2, r1="a", r2="b c"),
        job("v").per_node(1).running({"a": 1, "b": 1}, lost=10),
        job("w").running({"c": 2}, lost=10),
        job("x").rigid().running({"b": 1}),
        speed_widest=0.5,
    )
    assert solved(snap) == Plan({"v": {"b": 1, "c": 1}, "w": {"a": 2}})


def test_a_level_that_no_node_names_is_no_hindrance():
    """The cluster file lists racks; the nodes say nothing of them."""
    assert starts(snapshot(nodes("a b", 4), job("q").gang(8).per_node(4).prefers("rack"))) == {"q"}
    assert starts(snapshot(nodes("a b", 4), job("q").gang(4).within("rack"))) == set()
