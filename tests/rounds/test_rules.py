"""Section 3 of the formulation: every rule with plans that keep it and plans that break it.

`kept` and `broken` look at one plan of one snapshot: where jobs are placed anew, and who is stopped.
"""

from __future__ import annotations

import dataclasses

import pytest

from optsched.rounds.build import build_problem
from optsched.rounds.check import check
from optsched.rounds.problem import Hold
from optsched.values.profile import PreemptTokens, Reclaim
from optsched.values.snapshot import Snapshot
from tests.builders import assignment, cordoned, grant, job, node, nodes, racks, snapshot, team, window

TWO_RACKS = racks(8, r1="a b", r2="c d")


def faults(snap: Snapshot, placements: dict | None = None, *stopped: str, holds=()) -> list[str]:
    """What the checker says about a plan. `holds`: (gang or None, {node: GPUs}, names of those whom it binds)."""
    problem = build_problem(snap)
    index = {str(each.job.id): each.index for each in problem.jobs}
    kept = tuple(
        Hold(
            name=str(gang),
            unless=None if gang is None else index[gang],
            gpus={problem.tree.node_index[name]: gpus for name, gpus in where.items()},
            binds=frozenset(index[name] for name in binds.split()),
            until_s=600,
        )
        for gang, where, binds in holds
    )
    problem = dataclasses.replace(problem, holds=kept)
    return check(problem, assignment(problem, placements or {}, *stopped))


def kept(*args, **keys) -> bool:
    """Whether the plan keeps every rule."""
    return faults(*args, **keys) == []


def broken(*args, **keys) -> str:
    """The one rule that the plan breaks, as a sentence."""
    found = faults(*args, **keys)
    assert len(found) == 1, found
    return found[0]


# 1-6: the shape of one placement


def test_changing_nothing_breaks_no_rule():
    """Also where more is booked than a node has, and a team is above its limit."""
    snap = snapshot(nodes("a", 4), team("t").limit(2), job("v").running(a=8), job("q").gang(2))
    assert kept(snap)


def test_a_job_runs_at_one_of_its_sizes():
    """A gang of 8 neither loses nor gains a GPU; an elastic one of 2..8 by nodes of 2 has even sizes only."""
    snap = snapshot(TWO_RACKS, job("g").gang(8).per_task(1), job("e").gang(4).per_node(2).elastic(2, 8))
    assert kept(snap, {"g": {"a": 4, "b": 4}})
    assert broken(snap, {"g": {"a": 4, "b": 3}}) == "g: 7 GPUs is not one of its sizes"
    assert broken(snap, {"g": {"a": 5, "b": 4}}) == "g: 9 GPUs is not one of its sizes"
    assert kept(snap, {"e": {"a": 2, "b": 2, "c": 2}})
    assert "e: 3 GPUs is not one of its sizes" in faults(snap, {"e": {"a": 3}})


def test_a_gang_starts_whole_or_not_at_all():
    """Dropping one of two nodes leaves half a gang, which is no size of it."""
    snap = snapshot(TWO_RACKS, job("g").gang(16).per_node(8))
    assert kept(snap, {"g": {"a": 8, "b": 8}})
    assert broken(snap, {"g": {"a": 8}}) == "g: 8 GPUs is not one of its sizes"


def test_gpus_per_node_are_exact():
    """Moving one GPU over breaks the cut on both nodes."""
    snap = snapshot(TWO_RACKS, job("g").gang(8).per_node(4))
    assert kept(snap, {"g": {"a": 4, "b": 4}})
    assert faults(snap, {"g": {"a": 5, "b": 3}}) == ["g: 5 GPUs on a break its cut", "g: 3 GPUs on b break its cut"]


def test_a_task_is_not_torn():
    """Tasks of 2 GPUs: 6 and 2 are whole tasks, 5 and 3 are not."""
    snap = snapshot(TWO_RACKS, job("g").gang(8).per_task(2))
    assert kept(snap, {"g": {"a": 6, "b": 2}})
    assert faults(snap, {"g": {"a": 5, "b": 3}}) == ["g: 5 GPUs on a break its cut", "g: 3 GPUs on b break its cut"]


def test_without_a_cut_a_job_is_on_one_node_where_it_fits():
    """8 GPUs fit on a node of 8, though none is free; 16 take whole nodes."""
    snap = snapshot(TWO_RACKS, job("one").gang(8), job("whole").gang(16))
    assert kept(snap, {"one": {"a": 8}})
    assert broken(snap, {"one": {"a": 4, "b": 4}}) == "one: it must be on one node"
    assert kept(snap, {"whole": {"a": 8, "c": 8}})
    torn = faults(snap, {"whole": {"a": 8, "b": 4, "c": 4}})
    assert torn == ["whole: 4 GPUs on b break its cut", "whole: 4 GPUs on c break its cut"]


def test_whole_nodes_are_counted_without_their_bad_gpus():
    """A node of 8 with a bad GPU is a whole node of 7."""
    snap = snapshot([node("a", 8), node("b", 8, gpus_bad=(3,))], job("g").gang(15))
    assert kept(snap, {"g": {"a": 8, "b": 7}})


@pytest.mark.parametrize(
    ("there", "asks"),
    [
        (cordoned(node("x")), job("q").gang(4)),
        (node("x", spare=True), job("q").gang(4).rigid()),
        (node("x", gpu_type="a10"), job("q").gang(4).types(h100=1.0)),
        (node("x", labels={"zone": "b"}), job("q").gang(4).where(zone="a")),
        (node("x"), job("q").gang(4).avoiding("x")),
    ],
    ids=["cordoned", "spare", "type", "selector", "excluded"],
)
def test_a_job_is_put_only_on_nodes_that_it_may_use(there, asks):
    """A node that takes no new work, is kept as a spare, or does not suit the job's wishes is closed to it."""
    good = node("ok", gpu_type="h100", labels={"zone": "a"})
    snap = snapshot([good, there], asks)
    assert kept(snap, {"q": {"ok": 4}})
    assert "q: it may not use x" in faults(snap, {"q": {"x": 4}})


def test_a_spare_runs_what_stops_at_once():
    """A preemptible job that writes no checkpoint before it goes may use a spare, one that writes one may not."""
    snap = snapshot([node("x", spare=True)], job("quick").gang(4), job("slow").gang(4).signal(cost_s=60))
    assert kept(snap, {"quick": {"x": 4}})
    assert broken(snap, {"slow": {"x": 4}}) == "slow: it may not use x"


def test_nothing_starts_that_would_run_into_a_maintenance_window():
    """The window begins at 1000: 900 s fit before it, 1100 s do not, and nobody knows when the third would end."""
    snap = snapshot(
        nodes("a", 8),
        window("w", 1000, 5000, "a"),
        job("short").gang(1).rigid().runs_for(900),
        job("long").gang(1).rigid().runs_for(1100),
        job("open").gang(1).rigid(),
        job("soft").gang(1),
    )
    assert kept(snap, {"short": {"a": 1}})
    assert broken(snap, {"long": {"a": 1}}) == "long: it may not use a"
    assert broken(snap, {"open": {"a": 1}}) == "open: it may not use a"
    assert kept(snap, {"soft": {"a": 1}})
    strict = dataclasses.replace(snap, profile=dataclasses.replace(snap.profile, backfill_preemptible=False))
    assert broken(strict, {"soft": {"a": 1}}) == "soft: it may not use a"


def test_a_window_that_has_begun_keeps_out_everybody():
    """Also preemptible work, and work that would end before the window does."""
    snap = snapshot(nodes("a", 8), window("w", -10, 5000, "a"), job("q").runs_for(5))
    assert broken(snap, {"q": {"a": 1}}) == "q: it may not use a"


def test_what_runs_ends_by_its_own_start_and_estimate():
    """It started an hour ago and is estimated at 4000 s: 400 s are left, so it may move to where a window begins at
    1000.
    """
    snap = snapshot(
        nodes("a b", 4),
        window("w", 1000, 5000, "b"),
        job("v").running(a=2, since=3600).runs_for(4000),
        job("q").gang(4).rank("P1"),
        backfill_preemptible=False,
    )
    assert kept(snap, {"v": {"b": 2}, "q": {"a": 4}})


def test_one_gang_has_one_gpu_type():
    """Four of each type are eight GPUs, but no gang of eight."""
    mixed = [node("h", 4, "h100"), node("i", 4, "h100"), node("o", 4, "a100")]
    snap = snapshot(mixed, job("g").gang(8).per_node(4))
    assert kept(snap, {"g": {"h": 4, "i": 4}})
    assert broken(snap, {"g": {"h": 4, "o": 4}}) == "g: it mixes GPU types or uses one that it does not allow"


def test_a_required_domain_is_not_left():
    """Both nodes in rack r1 are one domain; one in r1 and one in r2 are not; a node without a rack is in none."""
    snap = snapshot([*TWO_RACKS, node("loose")], job("g").gang(16).per_node(8).within("rack"))
    assert kept(snap, {"g": {"a": 8, "b": 8}})
    assert broken(snap, {"g": {"a": 8, "c": 8}}) == "g: it leaves its rack"
    assert "g: it leaves its rack" in faults(snap, {"g": {"a": 8, "loose": 8}})


def test_racks_of_one_name_in_two_blocks_are_two_domains():
    """A domain's name is its whole path."""
    there = [node("a", block="b1", rack="r1"), node("b", block="b1", rack="r1"), node("c", block="b2", rack="r1")]
    snap = snapshot(there, job("g").gang(16).per_node(8).within("rack"), levels="block rack")
    assert kept(snap, {"g": {"a": 8, "b": 8}})
    assert broken(snap, {"g": {"a": 8, "c": 8}}) == "g: it leaves its rack"


def test_a_slice_is_not_torn():
    """Slices of 8 within a rack: 8 and 8 are whole, 12 and 4 are not."""
    snap = snapshot(TWO_RACKS, job("g").gang(16).per_task(1).slices((8, "rack")))
    assert kept(snap, {"g": {"a": 4, "b": 4, "c": 8}})
    assert broken(snap, {"g": {"a": 8, "b": 4, "c": 4}}) == "g: a slice of 8 GPUs leaves its rack"


def test_nested_slices_are_kept_at_every_depth():
    """16 within a rack made of 4 within a node: 6 and 10 on the nodes tear the inner ones, 8 and 8 in two racks the
    outer.
    """
    snap = snapshot(TWO_RACKS, job("g").gang(16).per_task(2).slices((16, "rack"), (4, "node")))
    assert kept(snap, {"g": {"a": 8, "b": 8}})
    assert broken(snap, {"g": {"a": 8, "c": 8}}) == "g: a slice of 16 GPUs leaves its rack"
    assert "g: a slice of 4 GPUs leaves its node" in faults(snap, {"g": {"a": 6, "b": 10}})


# 7: room


def test_no_node_is_overbooked():
    """Six of eight GPUs are in use: two more fit, three do not."""
    snap = snapshot(nodes("a", 8), job("v").running(a=6), job("two").gang(2), job("three").gang(3))
    assert kept(snap, {"two": {"a": 2}})
    assert "a is overbooked in GPUs" in faults(snap, {"three": {"a": 3}})


def test_cpus_and_memory_go_with_the_gpus():
    """64 CPUs of which 8 are reserved and 40 in use leave 16; 512 GB of which 256 are in use leave 256."""
    there = [node("a", 8, cpus=64, cpus_reserved=8, memory_gb=512)]
    held = job("v").cpus(40).memory(256).running(a=4)
    snap = snapshot(there, held.cpus(40).memory(256), *(job(f"c{c}").gang(2).cpus(c) for c in (16, 17)))
    assert kept(snap, {"c16": {"a": 2}})
    assert broken(snap, {"c17": {"a": 2}}) == "a is overbooked in CPUs"
    snap = snapshot(there, held, *(job(f"m{m}").gang(2).memory(m) for m in (256, 258)))
    assert kept(snap, {"m256": {"a": 2}})
    assert broken(snap, {"m258": {"a": 2}}) == "a is overbooked in memory"


def test_a_node_that_does_not_state_its_cpus_has_enough():
    """What is not stated is not bounded."""
    assert kept(snapshot(nodes("a", 8), job("q").gang(1).cpus(9999)), {"q": {"a": 1}})


def test_a_node_that_lost_gpus_gives_nothing():
    """Eight are booked and four are left: such a node takes nothing new, whoever would be stopped for it."""
    snap = snapshot(
        nodes("a", 4),
        job("v").rank("P3").running(a=4),
        job("w").running(a=4),
        job("q").gang(1).rank("P1"),
        max_loss_ratio=None,
    )
    assert "q: it may not use a" in faults(snap, {"q": {"a": 1}})
    assert "q: it may not use a" in faults(snap, {"q": {"a": 1}}, "v")


# 8, 9: limits and quotas of non-preemptible work


def test_a_limit_covers_the_team_and_all_below_it():
    """Team x may hold 8 with its child: 6 run in the child, so 2 more are within and 3 are not."""
    snap = snapshot(
        nodes("a b", 8),
        team("x").limit(8),
        team("y").under("x"),
        job("v").team("y").running(a=6),
        job("two").team("x").gang(2),
        job("three").team("x").gang(3),
    )
    assert kept(snap, {"two": {"b": 2}})
    assert broken(snap, {"three": {"b": 3}}) == "limit of x is exceeded in gpus"


def test_a_limit_counts_what_stops_in_the_same_plan():
    """4 of 4 run; the higher priority starts in place of the lower and stays within the limit."""
    snap = snapshot(nodes("a b", 8), team("t").limit(4), job("v").running(a=4), job("q").gang(4).rank("P1"))
    assert broken(snap, {"q": {"b": 4}}) == "limit of t is exceeded in gpus"
    assert kept(snap, {"q": {"a": 4}}, "v")


@pytest.mark.parametrize(
    ("limit", "fits", "exceeds", "what"),
    [
        ({"cpus": 16}, job("f").gang(2).cpus(16), job("e").gang(2).cpus(18), "cpus"),
        ({"memory_gb": 64}, job("f").gang(2).memory(64), job("e").gang(2).memory(66), "memory_gb"),
        ({"h100": 2}, job("f").gang(2), job("e").gang(3), "gpus"),
    ],
)
def test_a_limit_may_name_any_resource(limit, fits, exceeds, what):
    """CPUs, memory, or GPUs of one type."""
    snap = snapshot(nodes("a", 8, "h100"), team("t").limit(**limit), fits, exceeds)
    assert kept(snap, {"f": {"a": fits.made.gpus}})
    assert broken(snap, {"e": {"a": exceeds.made.gpus}}) == f"limit of t is exceeded in {what}"


def test_a_limit_on_one_type_leaves_the_others_alone():
    """Two h100 at most says nothing about a100."""
    there = [node("h", 8, "h100"), node("o", 8, "a100")]
    snap = snapshot(there, team("t").limit(h100=2), job("q").gang(3))
    assert kept(snap, {"q": {"o": 3}})
    assert broken(snap, {"q": {"h": 3}}) == "limit of t is exceeded in gpus"


def test_a_limit_that_is_exceeded_already_stops_nobody_and_starts_nobody():
    """6 run of 4 allowed: that stays, another team may still work, and not one GPU is added."""
    snap = snapshot(
        nodes("a b", 8), team("t").limit(4), job("v").running(a=6), job("q").gang(1), job("other").team("u").gang(1)
    )
    assert kept(snap, {"other": {"b": 1}})
    assert broken(snap, {"q": {"b": 1}}) == "limit of t is exceeded in gpus"


def test_a_user_limit_counts_one_users_jobs():
    """Ada holds 3 of 4: one more is within, two are not, and Bob starts afresh."""
    snap = snapshot(
        nodes("a b", 8),
        team("t").user_limit(4),
        job("v").user("ada").running(a=3),
        job("one").user("ada").gang(1),
        job("two").user("ada").gang(2),
        job("bob").user("bob").gang(4),
    )
    assert kept(snap, {"one": {"b": 1}, "bob": {"b": 4}})
    assert broken(snap, {"two": {"b": 2}}) == "user_limit of t/ada is exceeded in gpus"


def test_non_preemptible_work_stays_within_the_quota():
    """Quota 4, of which 2 run rigidly: 2 more may, 3 may not; preemptible work may at any size. 0 is a quota, none is
    none.
    """
    snap = snapshot(
        nodes("a b", 8),
        team("t").quota(4),
        job("v").rigid().running(a=2),
        job("two").rigid().gang(2),
        job("three").rigid().gang(3),
        job("soft").gang(8),
    )
    assert kept(snap, {"two": {"b": 2}})
    assert broken(snap, {"three": {"b": 3}}) == "quota of t is exceeded in gpus"
    assert kept(snap, {"soft": {"b": 8}})
    zero = snapshot(nodes("a", 8), team("t").quota(0), job("q").rigid())
    assert broken(zero, {"q": {"a": 1}}) == "quota of t is exceeded in gpus"
    assert kept(snapshot(nodes("a", 8), job("q").rigid()), {"q": {"a": 1}})


def test_non_preemptible_work_counts_against_the_quotas_above():
    """The parent's quota of 2 bounds what its child runs rigidly."""
    snap = snapshot(nodes("a", 8), team("x").quota(2), team("t").under("x").quota(8), job("q").rigid().gang(3))
    assert broken(snap, {"q": {"a": 3}}) == "quota of x is exceeded in gpus"


def test_a_job_that_a_grant_names_is_not_counted_against_the_quota():
    """The grant guarantees what no quota holds."""
    snap = snapshot(nodes("a", 8), team("t").quota(0), job("big").rigid().gang(8), grant("g", 8, jobs="big"))
    assert kept(snap, {"big": {"a": 8}})


# 10: who may be stopped, moved, shrunk


URGENT = job("q").gang(4).rank("P1")


@pytest.mark.parametrize(
    "victim",
    [
        job("v").rigid().running(a=4),
        job("v").running(a=4, since=599),
        job("v").running(a=4).preempted(4),
        job("v").running(a=4, since=3600).runs_for(3700),
    ],
    ids=["non-preemptible", "has not run min_runtime_s", "no token", "about to end"],
)
def test_a_protected_job_is_not_stopped(victim):
    """Four kinds of protection: its own word, its first ten minutes, an empty bucket, and an end within the grace
    period.
    """
    assert "v may not be stopped" in faults(snapshot(nodes("a", 4), victim, URGENT), {"q": {"a": 4}}, "v")


@pytest.mark.parametrize(
    "victim",
    [
        job("v").running(a=4),
        job("v").running(a=4, since=600),
        job("v").running(a=4).preempted(2),
        job("v").running(a=4, since=3600).runs_for(3721),
        job("v").running(a=4, since=3600).runs_for(3599),
    ],
    ids=["preemptible", "min_runtime_s is over", "a token", "ends after the grace period", "past its estimate"],
)
def test_an_unprotected_job_is_stopped(victim):
    """In one hour a bucket of 2 that was emptied twice has filled by one; an overrun has no known end."""
    assert kept(snapshot(nodes("a", 4), victim, URGENT), {"q": {"a": 4}}, "v")


def test_without_token_buckets_a_job_may_be_stopped_any_number_of_times():
    """`preempt_tokens: null`."""
    victim = job("v").running(a=4).preempted(99)
    assert kept(snapshot(nodes("a", 4), victim, URGENT, preempt_tokens=None), {"q": {"a": 4}}, "v")
    slow = snapshot(nodes("a", 4), victim, URGENT, preempt_tokens=PreemptTokens(0.0, 2.0))
    assert broken(slow, {"q": {"a": 4}}, "v") == "v may not be stopped"


def test_the_cluster_stops_no_more_gpus_in_an_hour_than_it_may():
    """Two victims of 4 GPUs each: 8 are allowed, 7 are not enough."""
    parts = (job("v").running(a=4), job("w").running(a=4), job("q").gang(8).rank("P1"))
    assert kept(snapshot(nodes("a", 8), *parts, max_stopped_gpus_per_h=8), {"q": {"a": 8}}, "v", "w")
    tight = snapshot(nodes("a", 8), *parts, max_stopped_gpus_per_h=7)
    assert broken(tight, {"q": {"a": 8}}, "v", "w") == "8 GPUs are stopped, 7 are allowed"


def test_only_what_runs_is_stopped_and_nothing_is_both_stopped_and_placed():
    """A queued job has nothing to give."""
    snap = snapshot(nodes("a b", 4), job("v").running(a=4), job("q").gang(4).rank("P1"))
    assert broken(snap, {}, "q").endswith("is stopped but does not run")
    assert "v is both stopped and placed" in faults(snap, {"v": {"b": 4}, "q": {"a": 4}}, "v")


def test_a_move_needs_no_token_and_no_minimum_run_time_but_leave():
    """A rigid job is not moved, nor any where migration is off; a young or often preempted one may be."""
    for victim in (job("v").running(a=2, since=10), job("v").running(a=2).preempted(9)):
        assert kept(snapshot(nodes("a b", 4), victim, URGENT), {"v": {"b": 2}, "q": {"a": 4}})
    rigid = snapshot(nodes("a b", 4), job("v").rigid().running(a=2), URGENT)
    assert broken(rigid, {"v": {"b": 2}, "q": {"a": 4}}) == "v may not be moved so"
    off = snapshot(nodes("a b", 4), job("v").running(a=2), URGENT, migration=False)
    assert broken(off, {"v": {"b": 2}, "q": {"a": 4}}) == "v may not be moved so"


def test_a_move_keeps_the_size():
    """An elastic job that goes elsewhere does so at the size that it has."""
    snap = snapshot(nodes("a b", 4), job("v").gang(4).elastic(1, 4).running(a=2), URGENT)
    assert kept(snap, {"v": {"b": 2}, "q": {"a": 4}})
    assert broken(snap, {"v": {"b": 3}, "q": {"a": 4}}) == "v may not be moved so"


def test_a_rigid_elastic_job_is_not_shrunk_but_may_grow():
    """Not preemptible means that nothing is taken from it."""
    victim = job("v").rigid().gang(2).elastic(2, 8).running(a=4)
    snap = snapshot(nodes("a", 8), victim, job("q").gang(6).rank("P1"))
    assert broken(snap, {"v": {"a": 2}, "q": {"a": 6}}) == "v may not be shrunk"
    assert kept(snap, {"v": {"a": 8}})


# 11: who has a right over whom


def test_inside_a_team_only_a_strictly_higher_priority_takes():
    """P1 takes from P2; P2 from P2 does not."""
    snap = snapshot(nodes("a", 4), job("v").rank("P2").running(a=4), URGENT, job("e").gang(4).rank("P2"))
    assert kept(snap, {"q": {"a": 4}}, "v")
    assert "on a somebody takes from a job over which it has no right" in faults(snap, {"e": {"a": 4}}, "v")


def test_a_teams_ceiling_caps_what_its_jobs_may_claim():
    """The team's highest class is P2, and so is the P0 job's."""
    snap = snapshot(nodes("a", 4), team("t").top("P2"), job("v").rank("P2").running(a=4), job("q").gang(4).rank("P0"))
    assert "on a somebody takes from a job over which it has no right" in faults(snap, {"q": {"a": 4}}, "v")


def test_a_job_inside_its_quota_takes_from_a_team_above_its_own():
    """u is guaranteed 4 of the 8 that t runs with a quota of 4, whatever the priorities."""
    parts = (team("t").quota(4), team("u").quota(4), job("v").rank("P0").running(a=4), job("w").running(b=4))
    snap = snapshot(nodes("a b", 4), *parts, job("q").team("u").gang(4))
    assert kept(snap, {"q": {"b": 4}}, "w")
    # v's GPUs are the first four of t's line: they lie within its quota.
    assert "on a somebody takes from a job over which it has no right" in faults(snap, {"q": {"a": 4}}, "v")


def test_a_gang_that_would_cross_its_quota_has_no_quota_right():
    """u's quota is 3: a gang of 4 is not inside it, and P4 has no other right."""
    parts = (team("t").quota(4), team("u").quota(3).weight(0), job("v").running(a=4), job("w").running(b=4))
    snap = snapshot(nodes("a b", 4), *parts, job("q").team("u").gang(4))
    assert "on b somebody takes from a job over which it has no right" in faults(snap, {"q": {"b": 4}}, "w")


def test_all_that_runs_at_its_priority_or_above_counts_in_a_claim():
    """u runs 2 at P2 inside a quota of 4: two more are inside it, three are not; what u runs at P4 does not count for
    a P3.
    """
    parts = (
        team("t").quota(0),
        team("u").quota(4),
        job("v").running(a=4),
        job("own").team("u").rank("P2").running(b=2),
    )
    low = job("low").team("u").rank("P4").running(b=2)
    for gpus, inside in ((2, True), (3, False)):
        asks = job("q").team("u").rank("P3").per_task(1).gang(gpus)
        snap = snapshot(nodes("a b", 4), *parts, low, asks, reclaim=Reclaim.QUOTA)
        assert kept(snap, {"q": {"a": gpus}}, "v") is inside


def test_fair_shares_are_reclaimed_only_where_the_profile_says_so():
    """8 GPUs, two teams of weight 1 that both want 8: 4 each. The team that runs 8 gives 4 under `fair_share`, none
    under `quota`.
    """
    parts = (job("v").running(a=4), job("w").running(b=4), job("q").team("u").gang(4), job("r").team("u").gang(4))
    snap = snapshot(nodes("a b", 4), *parts)
    assert kept(snap, {"q": {"b": 4}}, "w")
    quota_only = snapshot(nodes("a b", 4), *parts, reclaim=Reclaim.QUOTA)
    assert "on b somebody takes from a job over which it has no right" in faults(quota_only, {"q": {"b": 4}}, "w")


def test_a_team_at_its_entitlement_takes_no_more():
    """u has its 4 of 8 already."""
    snap = snapshot(nodes("a b", 4), job("v").running(a=4), job("w").team("u").running(b=4), job("q").team("u").gang(4))
    assert "on a somebody takes from a job over which it has no right" in faults(snap, {"q": {"a": 4}}, "v")


def test_the_part_above_the_minimum_may_lie_above_the_quota_while_the_job_is_inside():
    """t runs 4 with quota 2, of which 2 are an elastic job's minimum: those stay, what is above may be taken back."""
    snap = snapshot(
        nodes("a", 4),
        team("t").quota(2),
        team("u").quota(2),
        job("v").gang(2).elastic(2, 4).running(a=4),
        job("q").team("u").gang(2),
    )
    assert kept(snap, {"v": {"a": 2}, "q": {"a": 2}})
    assert "on a somebody takes from a job over which it has no right" in faults(snap, {"q": {"a": 2}}, "v")


def test_emergency_classes_take_from_lower_priorities_of_any_team():
    """P0 may where the profile lists it, also inside another's quota, also by having it moved."""
    parts = (team("t").quota(4), job("v").rank("P1").running(a=4), job("q").team("u").gang(4).rank("P0"))
    listed = snapshot(nodes("a b", 4), *parts, emergency_classes=("P0",))
    assert kept(listed, {"q": {"a": 4}}, "v")
    assert kept(listed, {"q": {"a": 4}, "v": {"b": 4}})
    plain = snapshot(nodes("a b", 4), *parts)
    assert "on a somebody takes from a job over which it has no right" in faults(plain, {"q": {"a": 4}}, "v")
    assert "on a somebody takes from a job over which it has no right" in faults(plain, {"q": {"a": 4}, "v": {"b": 4}})


def test_a_due_deadline_takes_from_equal_priority():
    """Due from deadline - (grace 120 + start 60 + margin 60) on: a deadline at 240 is due at 0, one at 241 is not."""
    for deadline_at, due in ((240, True), (241, False)):
        snap = snapshot(nodes("a", 4), job("v").rank("P2").running(a=4), job("q").gang(4).rank("P2").by(deadline_at))
        assert kept(snap, {"q": {"a": 4}}, "v") is due


def test_a_due_deadline_breaks_guarantees_only_in_classes_that_may():
    """Within the team's max_deadline_gpus; the victim's priority is not higher."""
    parts = (team("t").quota(4), job("v").rank("P2").running(a=4), job("q").team("u").gang(4).rank("P2").by(100))
    for allowed, gpus, may in ((("P2",), 4, True), (("P2",), 3, False), ((), 4, False)):
        snap = snapshot(nodes("a", 4), team("u").deadline_gpus(gpus), *parts, deadline_classes=allowed)
        assert kept(snap, {"q": {"a": 4}}, "v") is may


def test_a_job_inside_its_quota_is_not_moved_for_another_team():
    """For its own team it is."""
    victim = job("v").running(a=2)
    other = snapshot(nodes("a b", 4), team("t").quota(2), team("u").quota(4), victim, job("q").team("u").gang(4))
    assert "on a somebody takes from a job over which it has no right" in faults(other, {"v": {"b": 2}, "q": {"a": 4}})
    own = snapshot(nodes("a b", 4), team("t").quota(6), victim, job("q").gang(4))
    assert kept(own, {"v": {"b": 2}, "q": {"a": 4}})


def test_one_inside_its_quota_moves_for_a_starved_gang_of_another_team_if_it_loses_little():
    """q requires a rack, has waited the 6 h after which it is starved, and its team has a quota of 8; v loses at most
    900 s by a move. Without any one of these v stays.
    """
    cluster, teams = racks(4, r1="a b", r2="c d"), (team("t").quota(4), team("u").quota(8))
    saver, gang = job("v").running({"a": 4}, lost=900), job("q").team("u").gang(8).per_node(4).within("rack")
    plan = {"v": {"c": 4}, "q": {"a": 4, "b": 4}}
    on = {"starved_move_s": 900.0}
    assert kept(snapshot(cluster, *teams, saver, gang.waiting(21_600), **on), plan)
    assert kept(snapshot(cluster, *teams, job("v").signal().running(a=4), gang.waiting(21_600), **on), plan)
    poor = (team("t").quota(4), team("u").quota(7).weight(0))
    for parts, knobs in (
        ((*teams, saver, gang.waiting(21_599)), on),
        ((*teams, saver, job("q").team("u").gang(8).per_node(4).waiting(21_600)), on),
        ((*teams, job("v").running({"a": 4}, lost=901), gang.waiting(21_600)), on),
        ((*poor, saver, gang.waiting(21_600)), on),
        ((*teams, saver, gang.waiting(21_600)), {}),
    ):
        said = faults(snapshot(cluster, *parts, **knobs), plan)
        assert any("over which it has no right" in each for each in said), (parts, knobs)


def test_nobody_inside_its_quota_is_stopped_for_a_starved_gang_of_another_team():
    """It keeps running, or the gang waits."""
    parts = (team("t").quota(4), team("u").quota(8), job("v").signal().running(a=4))
    gang = job("q").team("u").gang(8).per_node(4).within("rack").waiting(30_000)
    snap = snapshot(racks(4, r1="a b"), *parts, gang, starved_move_s=900.0)
    assert any("over which it has no right" in each for each in faults(snap, {"q": {"a": 4, "b": 4}}, "v"))


def test_a_move_needs_no_right_to_displace():
    """An opportunistic job moves aside for one of lower priority: it keeps running."""
    snap = snapshot(nodes("a b", 4), job("v").rank("P1").running(a=2), job("q").team("u").gang(4).rank("P4"))
    assert kept(snap, {"v": {"b": 2}, "q": {"a": 4}})


def test_rights_are_a_matter_of_each_node():
    """On node a nobody with a right takes what v gives: that u takes it there is no better for t taking it on b."""
    parts = (job("v").running(a=2, b=2).per_task(1), job("mine").gang(2).rank("P1"), job("theirs").team("u").gang(2))
    snap = snapshot(nodes("a b", 2), team("t").quota(4), *parts)
    found = faults(snap, {"mine": {"b": 2}, "theirs": {"a": 2}}, "v")
    assert found == ["on a somebody takes from a job over which it has no right"]


def test_one_giver_serves_two_takers_no_more_than_once():
    """Four GPUs come free, two takers of four have a right over them: one starts."""
    snap = snapshot(nodes("a", 4), job("v").running(a=4), job("q").gang(4).rank("P1"), job("r").gang(4).rank("P1"))
    found = faults(snap, {"q": {"a": 4}, "r": {"a": 4}}, "v")
    assert "a is overbooked in GPUs" in found


def test_free_gpus_serve_whoever_has_no_right():
    """2 free and 2 given: the job of higher priority takes what is given, the other what is free."""
    parts = (job("v").rank("P3").running(a=2), job("high").gang(2).rank("P1"), job("low").gang(2).rank("P3"))
    assert kept(snapshot(nodes("a", 4), *parts), {"high": {"a": 2}, "low": {"a": 2}}, "v")


# 12: nobody is stopped for nothing


def test_nobody_is_stopped_whom_nobody_needs():
    """A stop without a start, or beside it, is refused."""
    free = {"max_loss_ratio": None}
    snap = snapshot(nodes("a b", 4), job("v").running(a=4), job("w").running(b=4), URGENT, **free)
    assert broken(snap, {}, "v") == "v: nobody with a right over it needs its stop"
    assert broken(snap, {"q": {"a": 4}}, "v", "w") == "w: nobody with a right over it needs its stop"


def test_nobody_is_shrunk_whom_nobody_needs():
    """Nor moved, unless the better place pays for the move."""
    snap = snapshot(nodes("a b", 4), job("v").gang(2).elastic(2, 4).running(a=4))
    assert broken(snap, {"v": {"a": 2}}) == "v: nobody with a right over it needs its shrink"
    assert broken(snap, {"v": {"b": 4}}) == "v: nobody with a right over it needs its move"


def test_a_move_may_pay_for_itself():
    """Two GPUs in two racks at half speed lose 2 · 3600 / 2 = 3600; a move costs 2 · lost: 1799 s pay, 1800 s do not.
    Two GPUs in two racks at half speed lose 2 · 3600 / 2 = 3600; a move costs 2 · lost: 1799 s pay, 1800 s do not.
    """
    for lost, pays in ((1799, True), (1800, False)):
        there = racks(2, r1="a", r2="b c")
        snap = snapshot(there, job("v").per_task(1).running({"a": 1, "b": 1}, lost=lost), speed_widest=0.5)
        assert kept(snap, {"v": {"c": 2}}) is pays


def test_two_victims_of_whom_both_are_needed_for_cpus():
    """One GPU with 16 CPUs: two victims of one GPU and 8 CPUs each have to go, though one GPU is all that is taken."""
    there = [node("a", 2, cpus=16)]
    snap = snapshot(
        there, job("v").cpus(8).running(a=1), job("w").cpus(8).running(a=1), job("q").gang(1).cpus(16).rank("P1")
    )
    assert kept(snap, {"q": {"a": 1}}, "v", "w")
    assert broken(snap, {"q": {"a": 1}}, "v") == "a is overbooked in CPUs"


# 13: by force only the minimum


def test_stopped_jobs_serve_only_a_start_at_the_minimum():
    """An elastic job of 2..4 starts over a victim with 2; above that it takes free GPUs or none."""
    asks = job("q").gang(4).elastic(2, 4).rank("P1")
    full = snapshot(nodes("a", 4), job("v").running(a=4), asks)
    assert kept(full, {"q": {"a": 2}}, "v")
    assert "on a somebody takes from a job over which it has no right" in faults(full, {"q": {"a": 4}}, "v")
    half = snapshot(nodes("a", 4), job("v").running(a=2), asks)
    assert "v: nobody with a right over it needs its stop" in faults(half, {"q": {"a": 4}}, "v")


def test_growing_stops_nobody_but_may_shrink():
    """P1 grows into what P4 has above its minimum, not into what P4 would leave."""
    grows = job("g").gang(2).elastic(2, 4).rank("P1").running(a=2)
    shrinks = snapshot(nodes("a", 6), grows, job("v").gang(2).elastic(2, 4).running(a=4))
    assert kept(shrinks, {"g": {"a": 4}, "v": {"a": 2}})
    stops = snapshot(nodes("a", 4), grows, job("v").running(a=2))
    assert "on a somebody takes from a job over which it has no right" in faults(stops, {"g": {"a": 4}}, "v")


# 14: floors


def test_a_team_keeps_at_least_its_quota():
    """t runs 6 in three jobs with quota 4: others take back one of two GPUs, not two of them, however they lie."""
    victims = [job(name).rank("P3").running({f"n{i}": 2}) for i, name in enumerate("vwx")]
    asks = [job(name).team("u").gang(2) for name in "qr"]
    snap = snapshot(nodes("n0 n1 n2", 2), team("t").quota(4), team("u").quota(4), *victims, *asks)
    assert kept(snap, {"q": {"n0": 2}}, "v")
    assert broken(snap, {"q": {"n0": 2}, "r": {"n1": 2}}, "v", "w") == "t is pushed below its quota in gpus"


def test_a_floor_does_not_hold_against_the_teams_own_jobs():
    """What t's own P1 takes from t's P3 is not lost to t."""
    victims = [job(name).rank("P3").running({f"n{i}": 2}) for i, name in enumerate("vwx")]
    own = [job(name).gang(2).rank("P1") for name in "qr"]
    snap = snapshot(nodes("n0 n1 n2", 2), team("t").quota(4), *victims, *own)
    assert kept(snap, {"q": {"n0": 2}, "r": {"n1": 2}}, "v", "w")


def test_a_floor_holds_in_every_resource_that_the_quota_names():
    """t runs 4 GPUs and 32 CPUs with a quota of 0 GPUs and 20 CPUs: giving 2 GPUs with 16 CPUs would leave 16 of 20."""
    there = nodes("a b", 2)
    victims = (job("v").cpus(16).running(a=2), job("w").cpus(16).running(b=2))
    snap = snapshot(there, team("t").quota(0, cpus=20), team("u").quota(2), *victims, job("q").team("u").gang(2))
    assert broken(snap, {"q": {"a": 2}}, "v") == "t is pushed below its quota in cpus"


def test_emergencies_are_exempt_from_floors():
    """They may leave a team less than its quota."""
    snap = snapshot(
        nodes("a", 2),
        team("t").quota(2),
        job("v").running(a=2),
        job("q").team("u").gang(2).rank("P0"),
        emergency_classes=("P0",),
    )
    assert kept(snap, {"q": {"a": 2}}, "v")


# 15: a preemption must pay


def test_a_preemption_must_pay():
    """q of 1 GPU may cost 1 · 3600 · 1 GPU-seconds; v of 4 GPUs loses 4 per second since its checkpoint: 900 s, not
    901.
    """
    for lost, pays in ((900, True), (901, False)):
        snap = snapshot(nodes("a", 4), job("v").running(a=4, lost=lost), job("q").rank("P1"))
        found = faults(snap, {"q": {"a": 1}}, "v")
        assert found == ([] if pays else ["the stopped jobs lose more than their beneficiaries gain"])


def test_what_a_start_may_cost_doubles_with_patience():
    """After 900 s of waiting twice as much, after 1800 s four times."""
    for waited, lost in ((899, 900), (900, 1800), (1800, 3600)):
        asks = job("q").rank("P1").waiting(waited)
        fits = snapshot(nodes("a", 4), job("v").running(a=4, lost=lost, since=9000), asks)
        over = snapshot(nodes("a", 4), job("v").running(a=4, lost=lost + 1, since=9000), asks)
        assert kept(fits, {"q": {"a": 1}}, "v")
        assert not kept(over, {"q": {"a": 1}}, "v")


def test_what_moves_displaces_nobody():
    """w may not move onto v's node in v's place, whatever its priority.

    Only what is free and what other moves leave is for it.
    """
    v, w = job("v").rank("P4").running(b=2), job("w").rank("P2").running(a=1, since=90000)
    snap = snapshot(nodes("a b", 2), v, w, job("q").gang(2).rank("P1"))
    assert not kept(snap, {"q": {"a": 2}, "w": {"b": 1}}, "v")


def test_two_takers_share_the_cost_of_a_victim():
    """4 · 1500 = 6000 is more than one start of 3600, and less than two."""
    snap = snapshot(
        nodes("a", 4), job("v").running(a=4, lost=1500), job("q").rank("P1").gang(1), job("r").rank("P1").gang(1)
    )
    assert not kept(snap, {"q": {"a": 1}}, "v")
    assert kept(snap, {"q": {"a": 1}, "r": {"a": 1}}, "v")


def test_emergencies_due_deadlines_and_no_ratio_pay_without_limit():
    """Any price."""
    dear = job("v").rank("P3").running(a=4, lost=3600)
    for asks, knobs in (
        (job("q").rank("P0"), {"emergency_classes": ("P0",)}),
        (job("q").rank("P2").by(100), {}),
        (job("q").rank("P2"), {"max_loss_ratio": None}),
    ):
        assert kept(snapshot(nodes("a", 4), dear, asks, **knobs), {"q": {"a": 1}}, "v")
    assert not kept(snapshot(nodes("a", 4), dear, job("q").rank("P2")), {"q": {"a": 1}}, "v")


# 16: holds and grants


def test_held_gpus_are_left_alone_by_whom_the_hold_binds():
    """6 free, 4 of them held: a bound job has 2, one that is not bound has all; so has a bound one if the gang starts.
    6 free, 4 of them held: a bound job has 2, one that is not bound has all; so has a bound one if the gang starts.
    """
    parts = (job("v").running(a=2), job("gang").gang(8).rank("P1"), job("two").gang(2), job("four").gang(4))
    snap = snapshot(nodes("a b", 8), *parts)
    hold = [("gang", {"a": 4}, "two four")]
    assert kept(snap, {"two": {"a": 2}}, holds=hold)
    assert broken(snap, {"four": {"a": 4}}, holds=hold) == "on a GPUs held for gang are used"
    assert kept(snap, {"four": {"a": 4}}, holds=[("gang", {"a": 4}, "two")])
    assert kept(snap, {"four": {"a": 4}, "gang": {"b": 8}}, holds=hold)


def test_two_holds_on_one_node_add_up_for_whom_both_bind():
    """8 free, 3 and 3 held: two are left."""
    snap = snapshot(nodes("a", 8), job("one").gang(8), job("two").gang(8), job("q").gang(3), job("r").gang(2))
    holds = [("one", {"a": 3}, "q r"), ("two", {"a": 3}, "q r")]
    assert broken(snap, {"q": {"a": 3}}, holds=holds) == "on a GPUs held for the reservations are used"
    assert kept(snap, {"r": {"a": 2}}, holds=holds)


def test_what_stopped_jobs_leave_is_not_held():
    """The hold is on what is free: a victim's GPUs go to its taker."""
    snap = snapshot(nodes("a", 4), job("gang").gang(4), job("v").running(a=2), job("q").gang(2).rank("P1"))
    assert kept(snap, {"q": {"a": 2}}, "v", holds=[("gang", {"a": 2}, "q")])


def test_a_grant_keeps_its_gpus_for_those_it_names():
    """8 GPUs in rack r1, 6 of them granted: a rigid job of another team has 2 there, and any number elsewhere."""
    there = racks(8, r1="a", r2="b")
    parts = (grant("g", 6, within="r1", jobs="big"), job("big").gang(6), job("q").team("u").rigid().gang(2))
    snap = snapshot(there, *parts, job("r").team("u").rigid().gang(3))
    assert kept(snap, {"q": {"a": 2}})
    assert broken(snap, {"r": {"a": 3}}) == "GPUs of grant g are used by others"
    assert kept(snap, {"r": {"b": 3}})
    assert kept(snap, {"big": {"a": 6}, "q": {"a": 2}})


def test_preemptible_work_may_use_a_grant_until_it_is_wanted():
    """As long as the profile lets preemptible work backfill."""
    parts = (grant("g", 8, jobs="big"), job("big").gang(8), job("q").team("u").gang(3))
    assert kept(snapshot(nodes("a", 8), *parts), {"q": {"a": 3}})
    strict = snapshot(nodes("a", 8), *parts, backfill_preemptible=False)
    assert broken(strict, {"q": {"a": 3}}) == "GPUs of grant g are used by others"
