"""Room for blocked gangs: where and when they can start, what is kept for them, who may use it meanwhile."""

from __future__ import annotations

import dataclasses

import pytest

from optsched.planner.forecast import Reserved
from optsched.planner.reservations import reserve
from optsched.rounds.assignment import NO_CHANGE
from optsched.rounds.build import build_problem
from optsched.rounds.problem import Hold, Problem
from optsched.values.ids import JobId, NodeId
from optsched.values.plan import ReservedRoom
from optsched.values.snapshot import Carried, Snapshot
from tests.builders import JobBuilder, cordoned, job, nodes, outcome, racks, snapshot, team

HOUR = 3600


def busy(name: str, ends_in: float | None, **where: int):
    """Rigid work of another team that has run for an hour and is estimated to end so many seconds from now."""
    made = job(name).team("other").rigid().running(where)
    return made if ends_in is None else made.runs_for(HOUR + ends_in)


def reserved(snap: Snapshot) -> tuple[Problem, dict[str, Reserved], dict[str, Hold]]:
    """The problem with its holds, the reservations and the holds by job, if nothing starts in this round."""
    problem, found = reserve(build_problem(snap), NO_CHANGE)
    return problem, {str(each.job.job.id): each for each in found}, {hold.name: hold for hold in problem.holds}


def names(problem: Problem, hold: Hold) -> dict[str, int]:
    """What a hold keeps, by node name."""
    return {str(problem.tree.node_ids[n]): gpus for n, gpus in hold.gpus.items()}


GANG = job("gang").rank("P1").gang(16).per_node(8)


def test_the_shadow_time_is_when_enough_is_estimated_to_have_ended():
    """Two nodes are needed; they come free at 500, 1000 and 2000: the second is free at 1000."""
    snap = snapshot(nodes("a b c", 8), busy("x", 500, a=8), busy("y", 1000, b=8), busy("z", 2000, c=8), GANG)
    _, found, _ = reserved(snap)
    assert found["gang"].start_at == 1000


def test_the_domain_is_the_one_where_it_can_start_first():
    """Rack r1 is free at 2000, rack r2 at 700."""
    there = racks(8, r1="a b", r2="c d")
    snap = snapshot(there, busy("x", 2000, a=8, b=8), busy("y", 700, d=8), busy("z", 600, c=8), GANG.within("rack"))
    problem, found, _ = reserved(snap)
    assert found["gang"].start_at == 700
    assert [problem.tree.node_ids[n] for n, _ in found["gang"].spread] == ["c", "d"]


def test_only_what_is_needed_is_held():
    """Three nodes are free or half free; the gang of two nodes holds the free one it will use, and no GPU elsewhere."""
    snap = snapshot(nodes("a b c", 8), busy("x", 900, b=8), busy("y", None, c=4), GANG)
    problem, _, holds = reserved(snap)
    assert names(problem, holds["gang"]) == {"a": 8}


def test_what_is_free_of_a_half_free_node_is_held_too():
    """4 of b's GPUs are free already, and the gang will want all 8."""
    snap = snapshot(nodes("a b", 8), busy("x", 900, b=4), GANG)
    problem, _, holds = reserved(snap)
    assert names(problem, holds["gang"]) == {"a": 8, "b": 4}
    assert holds["gang"].until_s == 900


@pytest.mark.parametrize(("ends_in", "held"), [(4 * HOUR, True), (4 * HOUR + 1, False)])
def test_nothing_is_held_before_the_hold_horizon(ends_in, held):
    """Four hours before the shadow time, by default."""
    snap = snapshot(nodes("a b", 8), busy("x", ends_in, b=8), GANG)
    _, found, holds = reserved(snap)
    assert found["gang"].start_at == ends_in
    assert ("gang" in holds) is held


def test_idle_held_gpus_cost_no_more_than_the_horizon():
    """Two hours to go, one hour is priced."""
    _, _, holds = reserved(snapshot(nodes("a b", 8), busy("x", 2 * HOUR, b=8), GANG))
    assert holds["gang"].until_s == HOUR


def test_a_gang_that_waits_for_work_without_an_estimate_holds_nothing():
    """Nobody knows when it can start."""
    _, found, holds = reserved(snapshot(nodes("a b", 8), busy("x", None, b=8), GANG))
    assert (found, holds) == ({}, {})


def test_work_past_its_estimate_has_no_known_end():
    """It was to end 100 s ago."""
    _, found, _ = reserved(snapshot(nodes("a b", 8), busy("x", -100, b=8), GANG))
    assert found == {}


def test_a_starved_gang_accumulates_what_comes_free():
    """After six hours it holds what is free in its domain, though nobody knows when it starts."""
    for waited, holds_any in ((6 * HOUR - 1, False), (6 * HOUR, True)):
        snap = snapshot(nodes("a b", 8), busy("x", None, b=8), GANG.waiting(waited))
        problem, found, holds = reserved(snap)
        assert bool(holds) is holds_any
        if holds_any:
            assert found["gang"].start_at is None
            assert names(problem, holds["gang"]) == {"a": 8}


def test_a_starved_gang_waits_for_as_few_as_possible():
    """a and b are free, c and d run without an end, c the longer: three nodes: a and b are held, c waited for."""
    longer = dataclasses.replace(busy("x", None, c=8).made, started_at=-9000.0)
    parts = (JobBuilder(longer), busy("y", None, d=8), job("gang").gang(24).per_node(8).waiting(6 * HOUR))
    problem, found, holds = reserved(snapshot(nodes("a b c d", 8), *parts))
    assert names(problem, holds["gang"]) == {"a": 8, "b": 8}
    assert [problem.tree.node_ids[n] for n, _ in found["gang"].spread] == ["a", "b", "c"]


@pytest.mark.parametrize(("r1_free", "rack", "start"), [(1000, "r2", 1000), (700, "r1", 700), (1200, "r2", 1000)])
def test_what_was_planned_before_stands_unless_something_is_sooner(r1_free: int, rack: str, start: float):
    """r2 was planned, to start at 1000. r1 at the same time is no reason to go there, r1 at 700 is."""
    there = racks(8, r1="a b", r2="c d")
    snap = snapshot(there, busy("x", r1_free, a=8, b=8), busy("y", 1000, c=8, d=8), GANG.within("rack"))
    room = ReservedRoom(JobId("gang"), "r2", (), 1000.0, (), {NodeId("c"): 8, NodeId("d"): 8})
    snap = dataclasses.replace(snap, carried=Carried(reserved=(room,)))
    problem, found, _ = reserved(snap)
    assert found["gang"].start_at == start
    assert {problem.tree.domain_names[0][problem.tree.domain_of[0][n]] for n, _ in found["gang"].spread} == {rack}


@pytest.mark.parametrize("why", ["overrun", "gone", "closed"])
def test_what_was_planned_before_falls_when_it_can_no_longer_be_kept(why: str):
    """y should have ended by now, a node of r2 is gone or closed: then it is r1, later."""
    there = racks(8, r1="a b", r2="c d" if why != "gone" else "c")
    there = [cordoned(each) if why == "closed" and each.id == "d" else each for each in there]
    y = busy("y", -10 if why == "overrun" else 1000, c=8)
    snap = snapshot(there, busy("x", 2000, a=8, b=8), y, GANG.within("rack"))
    room = ReservedRoom(JobId("gang"), "r2", (), 1000.0, (), {NodeId("c"): 8, NodeId("d"): 8})
    _, found, _ = reserved(dataclasses.replace(snap, carried=Carried(reserved=(room,))))
    assert found["gang"].start_at == 2000


def test_small_jobs_get_a_reservation_only_when_they_starve_within_their_share():
    """A job smaller than the largest node finds its place; one that waited six hours in a team within its share is
    reserved for.
    """
    parts = (busy("x", 900, a=8), busy("y", 900, b=8))
    for waited, gets in ((100, False), (6 * HOUR, True)):
        _, found, _ = reserved(snapshot(nodes("a b", 8), *parts, job("small").gang(2).waiting(waited)))
        assert bool(found) is gets


def test_a_job_that_can_never_run_gets_no_reservation():
    """Nor one that its limit keeps waiting for good."""
    never = job("never").gang(99).per_node(8)
    limited = job("capped").gang(16).per_node(8)
    _, found, _ = reserved(snapshot(nodes("a b", 8), team("t").limit(8), busy("x", 900, b=8), never, limited))
    assert found == {}


def test_a_limit_that_estimates_will_free_counts_in_the_shadow_time():
    """The GPUs are free; the team's own job of 8 under a limit of 16 ends at 700."""
    own = job("own").rigid().running(c=8).runs_for(HOUR + 700)
    _, found, _ = reserved(snapshot(nodes("a b c", 8), team("t").limit(16), own, GANG))
    assert found["gang"].start_at == 700


def test_later_reservations_honour_earlier_ones():
    """Both gangs want two nodes; the first takes those of 500 and 600, the second has those of 700 and 800."""
    ends = [busy(name, at, **{node: 8}) for name, at, node in zip("wxyz", (500, 600, 700, 800), "abcd", strict=True)]
    second = job("second").rank("P2").gang(16).per_node(8)
    _, found, _ = reserved(snapshot(nodes("a b c d", 8), *ends, GANG, second))
    assert (found["gang"].start_at, found["second"].start_at) == (600, 800)
    assert not {n for n, _ in found["gang"].spread} & {n for n, _ in found["second"].spread}


def test_there_are_no_more_reservations_than_the_profile_allows():
    """Two gangs, one reservation: for the first in the queue."""
    parts = (busy("x", 500, a=8), GANG, job("second").rank("P2").gang(16).per_node(8))
    _, found, _ = reserved(snapshot(nodes("a b", 8), *parts, max_reservations=1))
    assert set(found) == {"gang"}
    _, found, _ = reserved(snapshot(nodes("a b", 8), *parts, max_reservations=0))
    assert found == {}


def test_near_deadlines_are_reserved_for_first():
    """Before a gang of higher priority."""
    parts = (busy("x", 500, a=8, b=8), busy("y", 900, c=8, d=8), GANG)
    late = job("late").rank("P4").gang(16).per_node(8).by(5000)
    _, found, _ = reserved(snapshot(nodes("a b c d", 8), *parts, late))
    assert (found["late"].start_at, found["gang"].start_at) == (500, 900)


def test_a_hold_binds_those_behind_it_that_would_still_run():
    """Not those ahead in the order, not what ends in time, not what stops on demand."""
    waiting = [
        job("ahead").rank("P0").rigid(),
        job("behind").rank("P4").rigid(),
        job("quick").rank("P4").rigid().runs_for(400),
        job("soft").rank("P4"),
    ]
    snap = snapshot(nodes("a b", 8), busy("x", 500, b=8), GANG, *waiting)
    for backfills, bound in ((True, {"behind"}), (False, {"behind", "soft"})):
        profile = dataclasses.replace(snap.profile, backfill_preemptible=backfills)
        problem, _, holds = reserved(dataclasses.replace(snap, profile=profile))
        queued = {str(problem.jobs[j].job.id) for j in holds["gang"].binds if j >= problem.first_queued}
        assert queued == bound


def test_who_would_move_into_a_hold_runs_longer_by_all_that_it_loses():
    """The gang starts at 3000. m ends at 500 where it is, and has no checkpoint: moved, it begins anew, to end at 4100.
    It is priced as saved at -2050, between the starts of x and s and that of r, which report: by that it would end at
    2550. s, with a checkpoint at -100, ends at 600.
    """
    m = job("m").running(since=HOUR, lost=None, c=8).runs_for(HOUR + 500)
    s = job("s").running(since=HOUR, lost=100, d=8).runs_for(HOUR + 500)
    r = [job(f"r{since}").running(since=since, lost=50, e=4) for since in (400, 500)]
    snap = snapshot(nodes("a b c d e", 8), busy("x", 3000, b=8), m, s, *r, GANG.avoiding(*"cde"))
    for protected, bound in ((("m", "s"), {"m"}), ((), set())):
        carried = Carried(protected=frozenset(map(JobId, protected)))
        problem, found, holds = reserved(dataclasses.replace(snap, carried=carried))
        assert found["gang"].start_at == 3000
        assert {str(problem.jobs[j].job.id) for j in holds["gang"].binds} & {"m", "s"} == bound


def test_a_deadline_that_its_reservation_meets_is_not_due():
    """It can start at 150 and must by 200: due no more. One that can start at 250 is."""
    for ends_in, due in ((150, False), (250, True)):
        snap = snapshot(nodes("a", 8), busy("x", ends_in, a=8), job("q").gang(8).by(200))
        problem, _, _ = reserved(snap)
        assert problem.queued[0].due is due


def test_a_hold_does_not_bind_where_its_gang_starts_in_this_round():
    """The gang starts over a victim; what it does not use is free for all."""
    held = job("v").rank("P4").running(b=8).runs_for(HOUR + 500)
    found = outcome(snapshot(nodes("a b c", 8), held, GANG, job("q").rank("P4").rigid().gang(8)))
    assert "gang" in found.started


def test_a_plan_shows_the_reservations_of_those_who_wait():
    """Domain, nodes held now, and when it can start."""
    there = racks(8, r1="a b")
    plan = outcome(snapshot(there, busy("x", 900, b=8), GANG.within("rack"))).plan
    (room,) = plan.reservations
    assert (room.job, room.domain, room.nodes, room.start_estimate_at) == ("gang", "r1", ("a",), 900)


def test_room_that_is_made_for_one_is_not_planned_for_another():
    """v is stopped for small, which is inside its share; gang is not, and is no nearer to its two nodes for that."""
    teams = (team("v").quota(0), team("t").quota(0))
    v = job("v").team("v").rank("P4").gang(16).per_node(8).signal(1.0).running(a=8, b=8)
    small = job("small").team("t").rank("P2").gang(8).signal(1.0)
    found = outcome(snapshot(nodes("a b", 8), *teams, v, GANG, small))
    assert (found.started, found.stopped) == ({"small"}, {"v"})
    assert found.plan.reservations == ()


def test_nobody_takes_by_force_what_is_planned_for_one_ahead_of_it():
    """gang, P1, is to start at 900 on a and b, when v and w should have ended. u, P2 and inside its quota, may stop v
    or x, and v is cheaper; but u would be on a for hours. It takes c from x, and gang keeps its start.
    """
    teams = (team("u").quota(8), team("t").quota(16), team("o").quota(0))
    v = job("v").team("o").gang(8).rank("P4").runs_for(4500).running(a=8, since=3600, lost=10)
    w = job("w").team("o").gang(8).rank("P4").rigid().runs_for(4500).running(b=8, since=3600)
    x = job("x").team("o").gang(8).rank("P4").running(c=8, since=3600, lost=600)
    gang = job("gang").team("t").gang(16).per_node(8).rank("P1").within("rack")
    u = job("u").team("u").gang(8).rank("P2").rigid().runs_for(9000)
    there = racks(8, r1="a b", r2="c")
    alone = outcome(snapshot(there, *teams, v, w, x, u))
    assert (alone.started, alone.stopped) == ({"u"}, {"v"})
    found = outcome(snapshot(there, *teams, v, w, x, u, gang))
    assert (found.started, found.stopped) == ({"u"}, {"x"})
    (room,) = found.plan.reservations
    assert (room.job, room.start_estimate_at, set(room.planned)) == ("gang", 900, {"a", "b"})


def test_what_a_plan_starts_counts_against_the_quota_of_those_who_wait():
    """Rigid work of t is bounded by 16. first and second want 16 each: first starts, second when it ends."""
    asks = [
        job(name).gang(16).per_node(8).rigid().runs_for(900).waiting(w) for name, w in (("first", 20), ("second", 10))
    ]
    found = outcome(snapshot(nodes("a b c d", 8), team("t").quota(16), *asks))
    assert found.started == {"first"}
    assert [room.start_estimate_at for room in found.plan.reservations] == [900]
