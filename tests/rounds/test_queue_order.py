"""Who is first in line, and what a job that runs may be asked for."""

from __future__ import annotations

import pytest

from optsched.policy.victims import has_token
from optsched.rounds.build import build_problem
from optsched.values.profile import PreemptTokens, Profile
from optsched.values.snapshot import Snapshot
from tests.builders import job, node, nodes, snapshot, team


def line(snap: Snapshot) -> str:
    """The queue in order, as one word per job."""
    return " ".join(str(each.job.id) for each in build_problem(snap).queued)


def test_the_queue_goes_by_tier_then_priority_then_age():
    """What a quota guarantees comes before what is only fair, whatever its priority; then P1 before P3, then the
    older.
    """
    snap = snapshot(
        nodes("a", 8),
        team("t").quota(1),
        team("u"),
        job("sure").rank("P4"),
        job("high").team("u").rank("P1"),
        job("new").team("u").rank("P3").waiting(10),
        job("old").team("u").rank("P3").waiting(20),
    )
    assert line(snap) == "sure high old new"


def test_near_deadlines_come_first_the_nearest_ahead():
    """Within 720 s of the deadline; one further away stands where it belongs."""
    snap = snapshot(
        nodes("a", 8),
        team("t").quota(8),
        job("first").rank("P0"),
        job("later").rank("P4").by(700),
        job("soon").rank("P4").by(100),
        job("far").rank("P4").by(5000),
    )
    assert line(snap) == "soon later first far"


def test_opportunistic_jobs_come_from_the_team_with_the_lower_weighted_share():
    """Of 4 GPUs nothing is left: t's weight is 2, so two of its jobs come for each of u's; ties go to the older."""
    full = job("full").team("x").running(a=4)
    waiting = [job(f"t{i}").team("t").waiting(50 - i) for i in range(4)]
    others = [job(f"u{i}").team("u").waiting(90 - i) for i in range(2)]
    snap = snapshot(nodes("a", 4), team("x").quota(4), team("t").weight(2), team("u"), full, *waiting, *others)
    # Shares after each: u0 (u 1/4), t0 (t 1/8), t1 (1/4; tied with u, whose job is the older), u1, t2, t3.
    assert line(snap) == "u0 t0 t1 u1 t2 t3"


def test_what_a_team_runs_counts_in_its_share():
    """t runs 2 of 4, u nothing: u's jobs come first until it is level."""
    snap = snapshot(
        nodes("a", 4),
        team("x").quota(2),
        job("x").team("x").running(a=2),
        job("v").running(a=2),
        job("t0").waiting(90),
        job("u0").team("u").gang(2),
        job("u1").team("u"),
    )
    assert line(snap) == "u0 t0 u1"


def test_teams_of_weight_0_are_last_in_line():
    """At one priority; a higher priority still goes first."""
    snap = snapshot(
        nodes("a", 4),
        team("x").quota(4),
        team("t").weight(0),
        job("full").team("x").running(a=4),
        job("none").waiting(900),
        job("some").team("u"),
        job("high").rank("P1"),
    )
    assert line(snap) == "high some none"


def test_demand_counts_only_what_could_run():
    """No node has an a10: asking for 99 of them entitles to nothing, and leaves the other team all 8."""
    snap = snapshot(
        [node("a", 8, "h100")],
        job("never").team("u").gang(99).per_task(1).types(a10=1.0),
        job("q").gang(8),
        job("r").team("u").gang(1).rank("P0"),
    )
    problem = build_problem(snap)
    entitled = {problem.team_names[t]: problem.lines.fair_by_type[t].tolist() for t in range(problem.real_teams)}
    assert entitled == {"t": [7], "u": [1]}


@pytest.mark.parametrize(
    ("waited_h", "preempted", "left"), [(0, 1, True), (0, 2, False), (1, 2, True), (1, 3, False), (100, 99, True)]
)
def test_the_token_bucket_fills_by_one_an_hour_up_to_two(waited_h, preempted, left):
    """It starts with 2 and is taken as filled since submission."""
    asked = job("v").waiting(3600 * waited_h).preempted(preempted).made
    assert has_token(asked, 0.0, Profile(preempt_tokens=PreemptTokens(1.0, 2.0))) is left


def test_limits_bound_the_jobs_of_all_teams_below():
    """The limit of the team above is among the ceilings that count a job."""
    snap = snapshot(nodes("a", 8), team("x").limit(6), team("t").under("x").limit(4), job("q"))
    assert [(each.target, each.item.amount) for each in build_problem(snap).ceilings] == [("x", 6), ("t", 4)]
