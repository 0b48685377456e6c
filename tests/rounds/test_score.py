"""Section 4 of the formulation: ranks and bill, worked out by hand. H = 3600 s."""

from __future__ import annotations

import dataclasses

from optsched.rounds.build import build_problem
from optsched.rounds.problem import Hold
from optsched.rounds.score import Costs, Score, score
from optsched.values.ids import LevelName
from optsched.values.profile import PriorityMode
from optsched.values.snapshot import Snapshot
from tests.builders import CLASSES, assignment, grant, job, node, nodes, racks, snapshot, team
from tests.solve.twins import rows_of

DEADLINE, GUARANTEED, FAIR, OPPORTUNISTIC = range(4)
MINIMUM, ABOVE = 0, 1
NOTHING = Costs(0, 0, 0, 0, 0, 0)


def scored(snap: Snapshot, placements: dict | None = None, *stopped: str) -> Score:
    """The score of a plan."""
    problem = build_problem(snap)
    return score(problem, assignment(problem, placements or {}, *stopped))


def rows(snap: Snapshot, placements: dict | None = None, *stopped: str) -> dict[tuple[int, int, str], int]:
    """The GPUs by (part, tier, class)."""
    problem = build_problem(snap)
    names = {-priority: name for name, priority in CLASSES.items()}
    found = rows_of(problem, score(problem, assignment(problem, placements or {}, *stopped)))
    return {(part, tier, names[priority]): gpus for (part, tier, priority), gpus in found.items()}


def costs(snap: Snapshot, placements: dict | None = None, *stopped: str) -> Costs:
    """The bill of a plan."""
    return scored(snap, placements, *stopped).costs


# Rows


def test_a_teams_line_goes_by_priority_through_quota_and_entitlement():
    """Quota 4; of 16 GPUs t and u, with 12 and 8 wanted, get 8 each: 4 guaranteed, 4 fair, the rest is opportunistic.
    Quota 4; of 16 GPUs t and u, with 12 and 8 wanted, get 8 each: 4 guaranteed, 4 fair, the rest is opportunistic.
    """
    snap = snapshot(
        nodes("a b", 8),
        team("t").quota(4),
        job("high").rank("P1").running(a=6),
        job("low").rank("P3").gang(6),
        job("other").team("u").gang(8),
    )
    # P1's 6: 4 within the quota, 2 within the entitlement. P3's 6: 2 more within it, 4 above.
    assert rows(snap, {"low": {"b": 6}}) == {
        (MINIMUM, GUARANTEED, "P1"): 4,
        (MINIMUM, FAIR, "P1"): 2,
        (MINIMUM, FAIR, "P3"): 2,
        (MINIMUM, OPPORTUNISTIC, "P3"): 4,
    }


def test_what_is_above_a_minimum_comes_after_all_minima():
    """The P1's growth stands behind the P3's minimum on the team's line, and in the rows behind everything."""
    snap = snapshot(
        nodes("a b", 8),
        team("t").quota(4),
        job("high").rank("P1").gang(2).elastic(2, 8).running(a=6),
        job("low").rank("P3").running(b=4),
    )
    # 2 + 4 minimum GPUs: 4 guaranteed (2 and 2), then fair up to all that t wants. P1's 4 above: fair.
    assert rows(snap) == {
        (MINIMUM, GUARANTEED, "P1"): 2,
        (MINIMUM, GUARANTEED, "P3"): 2,
        (MINIMUM, FAIR, "P3"): 2,
        (ABOVE, FAIR, "P1"): 4,
    }


def test_a_quota_by_type_guarantees_each_type_on_its_own():
    """2 h100 and 1 a100 guaranteed: of 4 h100 and 2 a100 one of each type and more is above it."""
    snap = snapshot(
        [node("h", 4, "h100"), node("o", 4, "a100")],
        team("t").quota(h100=2, a100=1).weight(0),
        job("v").rank("P1").running(h=4),
        job("w").rank("P2").running(o=2),
    )
    assert rows(snap) == {
        (MINIMUM, GUARANTEED, "P1"): 2,
        (MINIMUM, OPPORTUNISTIC, "P1"): 2,
        (MINIMUM, GUARANTEED, "P2"): 1,
        (MINIMUM, OPPORTUNISTIC, "P2"): 1,
    }


def test_a_quota_of_any_type_counts_all_types_together():
    """3 guaranteed: two h100 of the P1 and one a100 of the P2; with weight 0 nothing is fair."""
    snap = snapshot(
        [node("h", 4, "h100"), node("o", 4, "a100")],
        team("t").quota(3).weight(0),
        job("v").rank("P1").running(h=2),
        job("w").rank("P2").running(o=2),
    )
    assert rows(snap) == {
        (MINIMUM, GUARANTEED, "P1"): 2,
        (MINIMUM, GUARANTEED, "P2"): 1,
        (MINIMUM, OPPORTUNISTIC, "P2"): 1,
    }


def test_a_near_deadline_stands_above_all_tiers_and_outside_its_teams_line():
    """Near from deadline - 4 · (120 + 60) on: 720 is near at 0, 721 is not; the quota of 2 is then left for the other
    job.
    """
    for deadline_at, tiers in ((720, (DEADLINE, GUARANTEED)), (721, (GUARANTEED, OPPORTUNISTIC))):
        snap = snapshot(
            nodes("a b", 2),
            team("t").quota(2).weight(0),
            job("hurry").rank("P2").gang(2).by(deadline_at),
            job("w").rank("P3").running(b=2),
        )
        found = rows(snap, {"hurry": {"a": 2}})
        assert found == {(MINIMUM, tiers[0], "P2"): 2, (MINIMUM, tiers[1], "P3"): 2}


def test_a_start_deadline_is_met_once_the_job_runs():
    """What runs stands in its own tier."""
    snap = snapshot(nodes("a", 2), team("t").quota(2), job("v").rank("P2").by(100).running(a=2))
    assert rows(snap) == {(MINIMUM, GUARANTEED, "P2"): 2}


def test_a_grant_guarantees_what_it_names_beside_the_quota():
    """Quota 0 and a grant of 4 for the big job: 4 of its 6 GPUs are guaranteed."""
    snap = snapshot(
        nodes("a", 8), team("t").quota(0).weight(0), job("big").rank("P1").running(a=6), grant("g", 4, jobs="big")
    )
    assert rows(snap) == {(MINIMUM, GUARANTEED, "P1"): 4, (MINIMUM, OPPORTUNISTIC, "P1"): 2}


# What is compared


def test_strict_compares_the_highest_rank_first():
    """One more GPU at P1 beats any number at P2."""
    snap = snapshot(nodes("a", 8), job("one").rank("P1").gang(1), job("many").rank("P2").gang(8))
    few, many = scored(snap, {"one": {"a": 1}}), scored(snap, {"many": {"a": 8}})
    assert few.key(PriorityMode.STRICT) > many.key(PriorityMode.STRICT)


def test_with_ranks_equal_what_runs_stays_and_then_the_older_starts():
    """Stay: 4 GPUs of what ran. Age: minimum GPUs times one more than the number of queued jobs behind."""
    snap = snapshot(
        nodes("a b", 4), job("v").running(a=4), job("old").gang(2).waiting(60), job("new").gang(4).waiting(30)
    )
    assert scored(snap).stay_gpus == 4
    assert scored(snap, {"old": {"b": 2}}).age == 2 * 2
    assert scored(snap, {"new": {"b": 4}}).age == 4 * 1


def test_weighted_is_one_sum():
    """w = class weight · tier weight: P1 8 · guaranteed 4, P3 2 · opportunistic 1; less what it costs."""
    snap = snapshot(
        nodes("a b", 2),
        team("t").quota(2).weight(0),
        job("v").rank("P3").running(a=2, lost=50),
        job("q").rank("P1").gang(2),
        priority_mode=PriorityMode.WEIGHTED,
    )
    # Beside each other: 2 · 32 + 2 · 2 = 68 GPUs of weight 1. In its place: 64, less 2 · 50 GPU-seconds.
    assert scored(snap, {"q": {"b": 2}}).weighted == 1000 * 68 * 3600
    assert scored(snap, {"q": {"a": 2}}, "v").weighted == 1000 * (64 * 3600 - 100)


def test_waiting_adds_to_the_weight_of_a_start():
    """Ten hours at 0.05 an hour add half the class weight of 8 to each of 2 minimum GPUs; 40 hours add it once, no
    more.
    """
    for hours, gain in ((10, 4), (40, 8)):
        snap = snapshot(
            nodes("a", 2),
            job("q").rank("P1").gang(2).waiting(3600 * hours),
            priority_mode=PriorityMode.WEIGHTED,
        )
        # Fair: 8 · 2 each.
        assert scored(snap, {"q": {"a": 2}}).weighted == 1000 * 2 * (16 + gain) * 3600


# The bill


def test_nothing_costs_nothing():
    """At full speed, with nobody stopped."""
    assert costs(snapshot(nodes("a", 8), job("q").gang(4)), {"q": {"a": 4}}) == NOTHING


def test_placement_loss_goes_by_the_narrowest_level_that_holds_the_gang():
    """A node 1.0, a rack 0.9, a block 0.8, the cluster 0.5: 8 GPUs lose 8 · 3600 · (1 - speed)."""
    there = [
        node(n, 8, block=b, rack=r) for n, b, r in (("a", "x", "1"), ("b", "x", "1"), ("c", "x", "2"), ("d", "y", "1"))
    ]
    snap = snapshot(
        there,
        job("q").gang(8).per_task(1),
        levels="block rack",
        speed={LevelName("rack"): 0.9, LevelName("block"): 0.8},
        speed_widest=0.5,
    )
    assert costs(snap, {"q": {"a": 8}}).placement_loss == 0
    assert costs(snap, {"q": {"a": 4, "b": 4}}).placement_loss == 8 * 360
    assert costs(snap, {"q": {"a": 4, "c": 4}}).placement_loss == 8 * 720
    assert costs(snap, {"q": {"a": 4, "d": 4}}).placement_loss == 8 * 1800


def test_placement_loss_counts_the_speed_of_the_type():
    """An a100 at 0.5 over the cluster at 0.8: 2 · 3600 · (1 - 0.4) = 4320; what runs is charged too."""
    there = [node("h", 4, "h100"), node("o", 4, "a100"), node("p", 4, "a100")]
    asks = job("q").gang(2).per_task(1).types(h100=1.0, a100=0.5)
    snap = snapshot(there, asks, job("v").types(a100=0.9).running(o=1), speed_widest=0.8)
    assert costs(snap).placement_loss == 360
    assert costs(snap, {"q": {"h": 2}}).placement_loss == 360
    assert costs(snap, {"q": {"o": 1, "p": 1}}).placement_loss == 360 + 4320


def test_preferred_prices_domains_beyond_the_fewest():
    """16 GPUs fill two racks of 8 at best (price 0.1): three racks cost 16 · 3600 · 0.1 / 2 · 1, four twice that."""
    there = [*racks(8, r1="a", r2="b", r3="c", r4="d")]
    snap = snapshot(there, job("q").gang(16).per_task(1).prefers("rack"), preferred_price=0.1)
    assert costs(snap, {"q": {"a": 8, "b": 8}}).placement_loss == 0
    assert costs(snap, {"q": {"a": 8, "b": 4, "c": 4}}).placement_loss == 16 * 180
    assert costs(snap, {"q": {"a": 4, "b": 4, "c": 4, "d": 4}}).placement_loss == 2 * 16 * 180


def test_fewest_counts_what_the_cut_can_use_of_a_node():
    """4 on each node: a node of 8 gives 4, so that 8 GPUs need two racks of one node, and two racks cost nothing."""
    snap = snapshot(racks(8, r1="a", r2="b"), job("q").gang(8).per_node(4).prefers("rack"), preferred_price=0.1)
    assert costs(snap, {"q": {"a": 4, "b": 4}}).placement_loss == 0


def test_a_stop_costs_lost_work_checkpoint_and_restart():
    """4 GPUs: 100 s since the checkpoint, 20 s to come back; on signal only the 30 s that a checkpoint takes, and 20.
    4 GPUs: 100 s since the checkpoint, 20 s to come back; on signal only the 30 s that a checkpoint takes, and 20.
    """
    asks = job("q").gang(4).rank("P1")
    for victim, per_gpu in (
        (job("v").restarts_in(20).running(a=4), 120),
        (job("v").signal(cost_s=30, restart_s=20).running(a=4), 50),
    ):
        bill = costs(snapshot(nodes("a", 4), victim, asks), {"q": {"a": 4}}, "v")
        assert bill.preemption == 4 * per_gpu


def test_a_checkpoint_that_does_not_fit_the_grace_period_saves_nothing():
    """121 s in a grace of 120 s: the 100 s since the last one are lost; with a grace of its own of 200 s they are not.
    121 s in a grace of 120 s: the 100 s since the last one are lost; with a grace of its own of 200 s they are not.
    """
    asks = job("q").gang(4).rank("P1")
    for grace_s, per_gpu in ((None, 100), (200, 121)):
        snap = snapshot(nodes("a", 4), job("v").signal(cost_s=121, grace_s=grace_s).running(a=4), asks)
        assert costs(snap, {"q": {"a": 4}}, "v").preemption == 4 * per_gpu


def test_hidden_checkpoints_are_priced_at_the_median_start_of_those_that_report():
    """Those that report started 1000 and 3000 s ago: median 2000. A silent job of 9000 s loses 2000, one of 500 s its
    500.
    """
    seen = [job("x").running({"x": 1}, since=1000), job("y").running({"y": 1}, since=3000)]
    for since, lost in ((9000, 2000), (500, 500)):
        snap = snapshot(
            nodes("a x y", 1),
            *seen,
            job("v").running(a=1, since=since, lost=None),
            job("q").rank("P1"),
            min_runtime_s=0.0,
        )
        assert costs(snap, {"q": {"a": 1}}, "v").preemption == lost


def test_where_nobody_reports_checkpoints_all_since_the_start_is_lost():
    """There is no median to go by."""
    snap = snapshot(nodes("a", 1), job("v").running(a=1, since=2500, lost=None), job("q").rank("P1"))
    assert costs(snap, {"q": {"a": 1}}, "v").preemption == 2500


def test_moves_and_resizes_cost_their_present_size():
    """2 GPUs moved: 2 · 100; 4 shrunk to 2: 4 · 100; 2 grown to 4: 2 · 100."""
    moved = snapshot(nodes("a b", 4), job("v").running(a=2), job("q").gang(4))
    assert costs(moved, {"v": {"b": 2}, "q": {"a": 4}}) == dataclasses.replace(NOTHING, migration=200)
    elastic = job("v").gang(2).elastic(2, 4)
    shrunk = snapshot(nodes("a", 4), elastic.running(a=4), job("q").gang(2).rank("P1"))
    assert costs(shrunk, {"v": {"a": 2}, "q": {"a": 2}}) == dataclasses.replace(NOTHING, resize=400)
    assert costs(snapshot(nodes("a", 4), elastic.running(a=2)), {"v": {"a": 4}}) == dataclasses.replace(
        NOTHING, resize=200
    )


def test_a_beneficiary_waits_for_the_longest_checkpoint_of_its_givers():
    """Two victims write for 30 and 60 s: 4 GPUs are held for 60 s."""
    victims = (job("v").signal(cost_s=30).running(a=2), job("w").signal(cost_s=60).running(a=2))
    bill = costs(snapshot(nodes("a", 4), *victims, job("q").gang(4).rank("P1")), {"q": {"a": 4}}, "v", "w")
    assert bill == dataclasses.replace(NOTHING, preemption=2 * 30 + 2 * 60, hold=4 * 60)


def test_held_gpus_that_stay_idle_are_priced():
    """4 of 8 free GPUs are held for another 600 s: idle they cost 2400; with 6 in use 2 are idle; if the gang starts,
    nothing.
    """
    snap = snapshot(nodes("a b", 8), job("gang").gang(8), job("q").gang(6))
    problem = build_problem(snap)
    gang = next(each.index for each in problem.jobs if each.job.id == "gang")
    problem = dataclasses.replace(problem, holds=(Hold("gang", gang, {0: 4}, frozenset(), 600),))
    for placements, idle in (({}, 4), ({"q": {"a": 6}}, 2), ({"gang": {"b": 8}}, 0)):
        assert score(problem, assignment(problem, placements)).costs.hold == idle * 600


def test_breaking_up_an_empty_domain_costs_its_levels_price():
    """A rack 10, a node 1: part of an empty node in an empty rack breaks both; all of the rack breaks none."""
    prices = {LevelName("rack"): 10.0, LevelName("node"): 1.0}
    there = racks(4, r1="a b", r2="c d")
    snap = snapshot(there, job("v").running(c=1), job("q").gang(8).per_task(1).elastic(1, 8), domain_price=prices)
    assert costs(snap, {"q": {"a": 1}}).domain == 11
    assert costs(snap, {"q": {"a": 4}}).domain == 10
    assert costs(snap, {"q": {"a": 4, "b": 4}}).domain == 0
    assert costs(snap, {"q": {"c": 3}}).domain == 0
    assert costs(snap, {"q": {"d": 1}}).domain == 1


def test_a_node_outside_a_level_has_the_span_of_the_levels_that_it_has():
    """Two nodes of one rack that name no block are one rack; with a node of no rack at all they are the cluster."""
    there = [node("a", 2, rack="r"), node("b", 2, rack="r"), node("c", 2)]
    snap = snapshot(
        there,
        job("q").gang(2).per_task(1),
        levels="block rack",
        speed={LevelName("rack"): 0.9, LevelName("block"): 0.8},
        speed_widest=0.5,
    )
    assert costs(snap, {"q": {"a": 1, "b": 1}}).placement_loss == 2 * 360
    assert costs(snap, {"q": {"a": 1, "c": 1}}).placement_loss == 2 * 1800
