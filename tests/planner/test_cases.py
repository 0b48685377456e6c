"""Small decisions with one right outcome, and twins of them: what an operator would be surprised not to get."""

from __future__ import annotations

import pytest

from optsched.values.ids import LevelName
from optsched.values.profile import Reclaim
from tests.builders import cordoned, job, node, nodes, outcome, racks, snapshot, team, window

# Racks, levels, fragmentation


def test_the_older_job_leaves_the_only_large_rack_to_the_younger():
    """Rack r1 has 3 nodes, r2 has 2. The older job of 2 nodes fits both, the younger of 3 only r1: both run."""
    there = racks(8, r1="a b c", r2="d e")
    old = job("old").gang(16).per_node(8).within("rack").waiting(100)
    new = job("new").gang(24).per_node(8).within("rack").waiting(50)
    found = outcome(snapshot(there, old, new))
    assert found.started == {"old", "new"}
    assert set(found.runs["old"]) == {"d", "e"}


def test_also_where_only_cpus_tell_the_racks_apart():
    """Both racks have 2 nodes; the younger job's CPUs fit r1 alone."""
    there = [*nodes("a b", 8, rack="r1", cpus=64), *nodes("c d", 8, rack="r2", cpus=32)]
    old = job("old").gang(16).per_node(8).within("rack").cpus(64).waiting(100)
    new = job("new").gang(16).per_node(8).within("rack").cpus(128).waiting(50)
    found = outcome(snapshot(there, old, new))
    assert set(found.runs["old"]) == {"c", "d"}
    assert set(found.runs["new"]) == {"a", "b"}


def test_four_racks_with_fifteen_free_nodes_are_divided_without_a_rest():
    """15 = 6 + 9: eight jobs of six or nine nodes fill four racks only if every rack takes one of each."""
    there = [each for r in range(4) for each in nodes(" ".join(f"r{r}n{i}" for i in range(15)), 1, rack=f"r{r}")]
    asks = [job(f"six{i}").gang(6).per_node(1).within("rack").waiting(90 - i) for i in range(4)]
    asks += [job(f"nine{i}").gang(9).per_node(1).within("rack").waiting(50 - i) for i in range(4)]
    assert len(outcome(snapshot(there, *asks)).started) == 8


def test_sixteen_racks_with_fifteen_free_nodes_run_all_32_jobs():
    """The same on 240 nodes."""
    there = [each for r in range(16) for each in nodes(" ".join(f"r{r}n{i}" for i in range(15)), 1, rack=f"r{r}")]
    asks = [job(f"six{i:02}").gang(6).per_node(1).within("rack").waiting(90 - i) for i in range(16)]
    asks += [job(f"nine{i:02}").gang(9).per_node(1).within("rack").waiting(50 - i) for i in range(16)]
    assert len(outcome(snapshot(there, *asks)).started) == 32


def test_small_jobs_go_where_a_node_is_in_use_already():
    """One GPU on the node that runs 7, so that the gang of a whole node starts as well, in one round or the next."""
    there = nodes("a b", 8)
    held = job("v").rigid().running(b=7)
    alone = outcome(snapshot(there, held, job("small"), domain_price={LevelName("node"): 8.0}))
    assert alone.runs["small"] == {"b": 1}
    both = outcome(snapshot(there, held, job("small").waiting(100), job("large").gang(8)))
    assert both.started == {"small", "large"}


def test_small_jobs_leave_the_large_nodes_to_the_jobs_that_need_them():
    """Nodes of 1 and of 2 GPUs: four jobs of 1 and two of 2 fill them if no small job takes half a large node too
    many.
    """
    there = [*nodes("a b", 1), *nodes("x y z", 2)]
    asks = [job(f"one{i}").waiting(90 - i) for i in range(4)] + [job(f"two{i}").gang(2) for i in range(2)]
    found = outcome(snapshot(there, *asks))
    assert len(found.started) == 6


def test_a_preferred_level_never_keeps_a_job_waiting_and_gets_the_fewest_domains():
    """5 nodes free, 3 in r1 and 2 in r2: a gang of 3 is in r1, one of 4 uses both racks."""
    there = racks(8, r1="a b c", r2="d e", r3="f")
    for count, domains in ((3, 1), (4, 2)):
        found = outcome(snapshot(there, job("q").gang(8 * count).per_node(8).prefers("rack")))
        rack = {each.id: each.domains[LevelName("rack")] for each in there}
        assert len({rack[name] for name in found.runs["q"]}) == domains


def test_a_full_rack_is_a_candidate_where_its_jobs_may_go():
    """Both racks are full, r1 with P4 jobs, r2 with rigid P1 work: the P2 gang of 2 nodes takes r1."""
    there = racks(8, r1="a b", r2="c d")
    low = [job(f"low{name}").rank("P4").running({name: 8}) for name in "ab"]
    high = [job(f"high{name}").rank("P1").rigid().running({name: 8}) for name in "cd"]
    found = outcome(snapshot(there, *low, *high, job("q").rank("P2").gang(16).per_node(8).within("rack")))
    assert set(found.runs["q"]) == {"a", "b"}
    assert found.stopped == {"lowa", "lowb"}


@pytest.mark.parametrize("slices", [((8, "rack"),), ((8, "rack"), (4, "node"))])
def test_slices_go_where_whole_ones_fit(slices):
    """8 in each rack: r1 has 8 free on two nodes, r2 has 6, r3 has 8 on one: two slices are in r1 and r3."""
    there = racks(8, r1="a b", r2="c d", r3="e")
    held = [job(f"v{n}").rigid().running({n: gpus}) for n, gpus in (("a", 4), ("b", 4), ("c", 5), ("d", 5))]
    found = outcome(snapshot(there, *held, job("q").gang(16).per_task(1).slices(*slices)))
    assert found.runs["q"] == {"a": 4, "b": 4, "e": 8}


# What cannot run


def test_an_impossible_job_neither_blocks_nor_preempts():
    """Sixteen GPUs on one node do not exist: the P0 waits for ever, the P4 runs, nobody is stopped."""
    there = racks(8, r1="a b")
    held = job("v").rank("P4").running(a=8)
    never = job("never").rank("P0").gang(16).within("node").waiting(90000)
    found = outcome(snapshot(there, held, never, job("q").rank("P4").gang(8)))
    assert found.started == {"q"}
    assert found.stopped == set()
    assert found.why("never").reason == "impossible"
    assert found.why("never").unblock.kind.value == "never"


def test_cordoned_capacity_is_no_capacity():
    """The only free node is cordoned: the job waits, is told so, and stops nobody on it."""
    there = [node("a", 8), cordoned(node("b", 8))]
    held = (job("v").rigid().running(a=8), job("w").rank("P4").running(b=4))
    found = outcome(snapshot(there, *held, job("q").rank("P1").gang(4)))
    assert found.waits == {"q"}
    assert found.stopped == set()
    assert found.why("q").unblock.kind.value == "uncordon"


def test_nobody_is_stopped_where_that_cannot_help():
    """The gang needs two nodes of a rack; in each rack one of them runs rigid work."""
    there = racks(8, r1="a b", r2="c d")
    rigid = [job(f"r{name}").rigid().running({name: 8}) for name in "ac"]
    soft = [job(f"s{name}").rank("P4").running({name: 8}) for name in "bd"]
    found = outcome(snapshot(there, *rigid, *soft, job("q").rank("P0").gang(16).per_node(8).within("rack")))
    assert found.stopped == set()
    assert found.waits == {"q"}


def test_nobody_is_stopped_for_gpus_where_cpus_are_what_is_missing():
    """The only job that may be stopped holds a GPU and no CPUs; GPUs are free."""
    there = [node("a", 8, cpus=8)]
    held = (job("rigid").rigid().cpus(8).running(a=1), job("soft").rank("P4").running(a=1))
    found = outcome(snapshot(there, *held, job("q").rank("P0").cpus(4)))
    assert found.stopped == set()
    assert found.waits == {"q"}


# Elastic jobs


def test_an_elastic_job_shrinks_by_exactly_what_is_needed():
    """It holds 8 of 2..8; the P1 needs 3: it keeps 5, and nobody is stopped."""
    held = job("e").gang(4).elastic(2, 8).rank("P4").running(a=8)
    found = outcome(snapshot(nodes("a", 8), held, job("q").rank("P1").gang(3)))
    assert found.resized == {"e": 5}
    assert found.stopped == set()


def test_an_elastic_job_shrinks_by_whole_steps_of_its_cut():
    """By tasks of 2 it keeps 4 of 8."""
    held = job("e").gang(4).per_task(2).elastic(2, 8).rank("P4").running(a=8)
    found = outcome(snapshot(nodes("a", 8), held, job("q").rank("P1").gang(3)))
    assert found.resized == {"e": 4}


def test_an_elastic_job_grows_into_what_nobody_else_can_use():
    """6 are idle; the queued job needs 8."""
    held = (job("e").gang(2).elastic(2, 16).per_task(1).running(a=2), job("v").rigid().running(b=8))
    found = outcome(snapshot(nodes("a b", 8), *held, job("q").gang(8).rank("P4").team("u")))
    assert found.resized == {"e": 8} or "q" in found.started


def test_growth_takes_what_another_team_has_above_its_minimum_and_its_share():
    """8 GPUs, two teams of weight 1: t's elastic job holds 8 of 1..8, u's holds none and wants 4..8. u starts with its
    4.
    """
    held = job("e").gang(1).elastic(1, 8).running(a=8)
    found = outcome(snapshot(nodes("a", 8), held, job("q").team("u").gang(4).elastic(4, 8)))
    assert sum(found.runs["e"].values()) == 4
    assert sum(found.runs["q"].values()) == 4
    assert found.stopped == set()


def test_growth_inside_a_quota_goes_over_growth_above_one():
    """u's quota is 6 and its job runs 2 of 2..6: it takes 4 from t, whose quota is 0 and whose job has 6 of 1..6."""
    held = (
        job("e").gang(1).elastic(1, 6).running(a=6),
        job("g").team("u").gang(2).elastic(2, 6).running(a=2),
    )
    found = outcome(snapshot(nodes("a", 8), team("t").quota(0), team("u").quota(6), *held))
    assert found.resized == {"e": 2, "g": 6}


# Victims


def test_the_cheapest_gang_is_the_victim():
    """Three gangs of 8 at P4 lost 300, 20 and 200 s."""
    held = [
        job(name).rank("P4").running({n: 8}, lost=lost)
        for name, n, lost in (("v", "a", 300), ("w", "b", 20), ("x", "c", 200))
    ]
    assert outcome(snapshot(nodes("a b c", 8), *held, job("q").rank("P1").gang(8))).stopped == {"w"}


def test_a_job_that_checkpoints_on_signal_is_the_cheapest_victim_if_it_is_quick():
    """The beneficiary's GPUs wait as long as the victim writes: 2 · 9 s beats 20 s of lost work, 2 · 11 s does not."""
    for cost_s, victim in ((9, "v"), (11, "w")):
        held = (
            job("v").rank("P4").signal(cost_s=cost_s, grace_s=120).running({"a": 8}, lost=900),
            job("w").rank("P4").running({"b": 8}, lost=20),
        )
        found = outcome(snapshot(nodes("a b", 8), *held, job("q").rank("P1").gang(8)))
        assert found.stopped == {victim}
        assert [each.grace_s for each in found.plan.preemptions] == [120]


def test_one_victim_does_not_count_for_two_beneficiaries():
    """A victim of 4 lets one of two P1 gangs of 4 start, not both; the other stops nobody for nothing."""
    held = (job("v").rank("P4").running(a=4), job("r").rigid().rank("P4").running(b=4))
    asks = [job(f"q{i}").rank("P1").gang(4).waiting(9 - i) for i in range(2)]
    found = outcome(snapshot(nodes("a b", 4), *held, *asks))
    assert found.started == {"q0"}
    assert found.stopped == {"v"}


def test_a_start_says_whom_it_waits_for_and_a_victim_for_whom_it_goes():
    """Both ways round."""
    held = job("v").rank("P4").signal(cost_s=30).running(a=4)
    plan = outcome(snapshot(nodes("a", 4), held, job("q").rank("P1").gang(4))).plan
    assert plan.starts[0].waits_for == ("v",)
    assert plan.preemptions[0].beneficiaries == ("q",)
    # 4 · 30 for the stop, and 4 GPUs held for 30 s.
    assert (plan.bill.preemption_cost, plan.bill.hold_cost) == (120, 120)


# Quotas and shares


def test_a_team_inside_its_quota_is_left_alone():
    """t runs its 4 at P4; u's P0 job waits."""
    held = job("v").rank("P4").running(a=4)
    found = outcome(snapshot(nodes("a", 4), team("t").quota(4), team("u"), held, job("q").team("u").rank("P0").gang(4)))
    assert found.waits == {"q"}


def test_a_quota_protects_a_team_of_weight_0():
    """Weight 0 has no claim on the rest; its quota is its own."""
    teams = (team("t").quota(4).weight(0), team("u").quota(4))
    held = (job("v").running(a=4), job("w").running(b=4))
    found = outcome(snapshot(nodes("a b", 4), *teams, *held, job("q").team("u").gang(4)))
    assert len(found.stopped) == 1
    assert found.started == {"q"}
    more = outcome(snapshot(nodes("a b", 4), *teams, *held, job("q").team("u").gang(4), job("r").team("u").gang(4)))
    assert len(more.stopped) == 1


def test_a_team_of_weight_0_borrows_what_is_idle():
    """And gives it back."""
    lent = outcome(snapshot(nodes("a", 8), team("t").weight(0), team("u").quota(8), job("q").gang(8)))
    assert lent.started == {"q"}
    back = snapshot(
        nodes("a", 8), team("t").weight(0), team("u").quota(8), job("v").running(a=8), job("q").team("u").gang(8)
    )
    assert outcome(back).stopped == {"v"}


def test_an_over_quota_team_has_no_claim():
    """u has its quota of 4 in use; only quotas are reclaimed here: its next job waits."""
    teams = (team("t").quota(0), team("u").quota(4))
    held = (job("v").running(a=4), job("own").team("u").running(b=4))
    snap = snapshot(nodes("a b", 4), *teams, *held, job("q").team("u").gang(4), reclaim=Reclaim.QUOTA)
    assert outcome(snap).waits == {"q"}


def test_reclaiming_goes_past_a_protected_team():
    """p runs its own quota, t runs above its: u's job takes t's, wherever p's lie."""
    teams = (team("p").quota(8), team("t").quota(0), team("u").quota(8))
    held = (job("p0").team("p").rank("P4").running(a=8), job("v").rank("P0").running(b=8))
    found = outcome(snapshot(nodes("a b", 8), *teams, *held, job("q").team("u").rank("P4").gang(8)))
    assert found.stopped == {"v"}


def test_reclaiming_by_type():
    """u is guaranteed 4 h100; t runs 4 h100 and 4 a100 with a quota of 4 a100: the h100 come back, the a100 stay."""
    there = [node("h", 4, "h100"), node("o", 4, "a100")]
    teams = (team("t").quota(a100=4), team("u").quota(h100=4))
    held = (job("v").running(h=4), job("w").running(o=4))
    found = outcome(snapshot(there, *teams, *held, job("q").team("u").gang(4)))
    assert found.stopped == {"v"}
    assert found.runs["q"] == {"h": 4}


def test_quotas_and_weights_work_down_the_tree():
    """x has three quarters of 16 GPUs by weight and divides them 2:1: x1 8, x2 4, y 4; x2 runs 12 and gives 4 to x1, 4
    to y.
    """
    tree = (team("x").weight(3), team("x1").under("x").weight(2), team("x2").under("x"), team("y"))
    held = [job(f"v{i}").team("x2").running({f"n{i}": 4}) for i in range(4)]
    asks = [job(f"a{i}").team("x1").gang(4) for i in range(3)] + [job(f"b{i}").team("y").gang(4) for i in range(3)]
    found = outcome(snapshot(nodes("n0 n1 n2 n3", 4), *tree, *held, *asks))
    started = sorted(name[0] for name in found.started)
    assert started == ["a", "a", "b"]
    assert len(found.stopped) == 3


def test_idle_room_is_shared_by_weight():
    """12 GPUs, weights 2 and 1, jobs of 2: four of t's and two of u's."""
    asks = [job(f"{t}{i}").team(t).gang(2).waiting(90 - i) for t in "tu" for i in range(6)]
    found = outcome(snapshot(nodes("a b c", 4), team("t").weight(2), team("u"), *asks))
    assert sorted(name[0] for name in found.started) == ["t"] * 4 + ["u"] * 2


# Moving


def test_a_move_makes_one_hole_of_two():
    """The cheaper of the two jobs goes over."""
    held = (job("v").running({"a": 2}, lost=200), job("w").running({"b": 2}, lost=20))
    found = outcome(snapshot(nodes("a b", 4), *held, job("q").gang(4).team("u")))
    assert found.moved == {"w"}
    assert found.runs["q"] == {"b": 4}
    assert found.stopped == set()


def test_nobody_inside_its_quota_is_moved_for_another_teams_job():
    """Not for one above its own quota, and not for one inside it."""
    held = (job("v").running(a=2), job("w").running(b=2))
    for quota in (0, 4):
        teams = (team("t").quota(4), team("u").quota(quota))
        found = outcome(snapshot(nodes("a b", 4), *teams, *held, job("q").team("u").gang(4)))
        assert found.moved == set()
        assert found.waits == {"q"}


def test_a_gang_moves_for_a_better_span_only_if_that_pays():
    """Two GPUs in two racks at half speed lose 3600; restarting costs 2 · lost."""
    for lost, moves in ((100, {"v"}), (1800, set())):
        held = job("v").per_task(1).running({"a": 1, "b": 1}, lost=lost)
        assert outcome(snapshot(racks(2, r1="a", r2="b"), held, speed_widest=0.5)).moved == moves


# Deadlines, reservations, windows


def test_a_deadline_that_can_be_met_by_waiting_displaces_nobody():
    """Due now; the running job ends in 130 s by its estimate, the deadline is in 200 s. Without an estimate it is
    displaced.
    """
    for estimate, stopped in ((3730, set()), (None, {"v"})):
        held = job("v").rank("P2").running(a=4, since=3600)
        held = held.runs_for(estimate) if estimate else held
        found = outcome(snapshot(nodes("a", 4), held, job("q").rank("P2").gang(4).by(200)))
        assert found.stopped == stopped


def test_a_deadline_does_not_displace_a_higher_priority():
    """P2 by its deadline, against P1."""
    held = job("v").rank("P1").running(a=4)
    assert outcome(snapshot(nodes("a", 4), held, job("q").rank("P2").gang(4).by(100))).waits == {"q"}


def blocked_gang():
    """Two nodes of 8: one is free, the other's rigid job ends in 1000 s; a rigid gang of both waits."""
    held = job("v").rigid().running(b=8, since=3600).runs_for(4600)
    return held, job("gang").rank("P1").rigid().gang(16).per_node(8).waiting(500)


def test_work_that_ends_in_time_backfills_beside_a_reservation():
    """900 s fit before the gang's start at 1000, 1100 s do not, and what states no estimate never does."""
    for estimate, starts in ((900, {"q"}), (1100, set()), (None, set())):
        asks = job("q").rank("P4").rigid().gang(4)
        asks = asks.runs_for(estimate) if estimate else asks
        found = outcome(snapshot(nodes("a b", 8), *blocked_gang(), asks))
        assert found.started == starts
        assert [(each.job, each.start_estimate_at) for each in found.plan.reservations] == [("gang", 1000)]


def test_preemptible_work_backfills_unless_the_profile_says_otherwise():
    """It stops within its grace."""
    asks = job("q").rank("P4").gang(4)
    assert outcome(snapshot(nodes("a b", 8), *blocked_gang(), asks)).started == {"q"}
    strict = snapshot(nodes("a b", 8), *blocked_gang(), asks, backfill_preemptible=False)
    assert outcome(strict).started == set()


def test_nothing_runs_into_a_maintenance_window():
    """The window closes node a in 600 s: what is estimated at 500 s starts there, what takes longer uses b."""
    there = nodes("a b", 4)
    for estimate, where in ((500, {"a", "b"}), (700, {"b"})):
        asks = [job(f"q{i}").rigid().gang(4).runs_for(estimate) for i in range(2)]
        found = outcome(snapshot(there, window("w", 600, 5000, "a"), *asks))
        assert {name for each in found.runs.values() for name in each} == where


def test_a_gang_avoids_the_nodes_that_a_window_closes():
    """Three nodes, one closes: the gang of two is on the others."""
    asks = job("q").rigid().gang(8).per_node(4).runs_for(7200)
    found = outcome(snapshot(nodes("a b c", 4), window("w", 600, 5000, "b"), asks))
    assert set(found.runs["q"]) == {"a", "c"}
