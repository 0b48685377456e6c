"""A plan that breaks rules is mended: what is left of it is valid, and no more is undone than has to be."""

from __future__ import annotations

import random

import pytest

from optsched.rounds.assignment import NO_CHANGE, Assignment
from optsched.rounds.build import build_problem
from optsched.rounds.check import check
from optsched.rounds.problem import Problem, RoundJob, Spread
from optsched.rounds.score import score
from optsched.solve.fine import STYLES, Fine, mended, place
from optsched.solve.greedy import greedy
from optsched.solve.mend import mend
from optsched.solve.refill import refill
from optsched.values.profile import Reclaim
from tests.builders import assignment, grant, job, nodes, racks, snapshot, team
from tests.oracle.rounds import small_round
from tests.solve.forced import tiny
from tests.solve.test_fine import by_name, solved


def mended_to(snap, placements, *stopped: str) -> dict[str, dict[str, int]]:
    """What is left of a plan, by name."""
    problem = build_problem(snap)
    plan = mend(problem, assignment(problem, placements, *stopped))
    assert check(problem, plan) == []
    return by_name(problem, plan)


def wild(problem: Problem, rng: random.Random) -> Assignment:
    """Anybody stopped, moved, resized or started anywhere, with no regard to any rule."""
    changed: dict[int, Spread] = {}
    stopped = frozenset(each.index for each in problem.running if rng.random() < 0.3)
    for each in problem.jobs:
        if each.index not in stopped and rng.random() < (0.25 if each.running else 0.6):
            changed[each.index] = somewhere(problem, each, rng)
    return Assignment(changed, stopped)


def somewhere(problem: Problem, each: RoundJob, rng: random.Random) -> Spread:
    """A placement that has one of the job's sizes, and mostly nothing else in its favour."""
    left, found = rng.choice(each.sizes), {}
    order = list(range(len(problem.nodes.capacity)))
    rng.shuffle(order)
    for n in order:
        found[n] = min(left, max(1, int(problem.nodes.capacity[n])))
        left -= found[n]
        if not left:
            break
    return tuple(sorted(found.items()))


@pytest.mark.parametrize("chunk", range(4))
def test_whatever_a_plan_does_what_is_left_of_it_is_valid(chunk):
    for seed in range(40 * chunk, 40 * chunk + 40):
        rng = random.Random(seed)
        for problem in (tiny(seed), build_problem(small_round(seed))) if seed % 4 == 0 else (tiny(seed),):
            plan = wild(problem, rng)
            left = mend(problem, plan)
            assert check(problem, left) == [], seed
            assert left.changed.items() <= plan.changed.items(), seed
            assert left.stopped <= plan.stopped, seed


def test_of_a_valid_plan_nothing_is_undone():
    for seed in range(30):
        problem = build_problem(small_round(seed))
        plan = greedy(problem)
        if not check(problem, plan):
            assert mend(problem, plan) == plan, seed


def test_what_is_filled_up_is_never_worse_than_what_was_left():
    for seed in range(12):
        problem = build_problem(small_round(seed))
        plan = wild(problem, random.Random(seed))
        left, found = mend(problem, plan), mended(problem, plan)
        mode = problem.profile.priority_mode
        assert check(problem, found) == [], seed
        assert score(problem, found).key(mode) >= score(problem, left).key(mode), seed


def test_filling_up_a_plan_that_is_full_changes_nothing():
    """What takers have of whom is found again from the plan alone."""
    for seed in range(20):
        problem = build_problem(small_round(seed))
        plan = refill(problem, refill(problem, NO_CHANGE))
        assert refill(problem, plan) == plan, seed


def test_who_starts_over_somebody_without_a_right_waits_and_nobody_is_stopped_for_it():
    snap = snapshot(nodes("n1 n2", rack="r1"), job("runs").running(n1=8), job("equal").gang(8), job("free").gang(8))
    assert mended_to(snap, {"equal": {"n1": 8}, "free": {"n2": 8}}, "runs") == {"free": {"n2": 8}}


def test_of_two_on_a_node_the_more_urgent_stays():
    snap = snapshot(nodes("n1", rack="r1"), job("small").rank("P2").gang(4), job("large").rank("P0").gang(8))
    assert mended_to(snap, {"small": {"n1": 4}, "large": {"n1": 8}}) == {"large": {"n1": 8}}


def test_no_more_are_undone_than_have_to_be():
    """2 GPUs are too many: that is one job of 2, and not a job of 1 besides, though that one is missed least."""
    jobs = (job(f"q{gpus}").rank("P1").gang(gpus) for gpus in (1, 2))
    snap = snapshot(nodes("n1", rack="r1"), *jobs, job("top").rank("P0").gang(7))
    assert mended_to(snap, {"q1": {"n1": 1}, "q2": {"n1": 2}, "top": {"n1": 7}}) == {"q1": {"n1": 1}, "top": {"n1": 7}}


def test_a_job_inside_its_quota_stays_where_another_team_took_what_it_would_leave():
    snap = snapshot(
        nodes("n1 n2", rack="r1"),
        *(team("x").quota(8), team("y").quota(8)),
        job("inside").team("x").running(n1=4),
        job("other").team("y").gang(8),
    )
    assert mended_to(snap, {"inside": {"n2": 4}, "other": {"n1": 8}}) == {}


def test_it_moves_for_its_own_team():
    snap = snapshot(
        nodes("n1 n2", rack="r1"),
        team("x").quota(16),
        job("inside").team("x").running(n1=4),
        job("own").team("x").gang(8),
    )
    plan = {"inside": {"n2": 4}, "own": {"n1": 8}}
    assert mended_to(snap, plan) == plan


def test_who_comes_back_from_a_move_sends_back_who_came_after_it():
    """`first` may not move; so `second` may not have its room, and `start` not that of `second`."""
    snap = snapshot(
        nodes("n1 n2 n3", rack="r1"),
        job("first").rigid().running(n2=8),
        job("second").running(n1=8),
        job("start").gang(8),
    )
    assert mended_to(snap, {"first": {"n3": 8}, "second": {"n2": 8}, "start": {"n1": 8}}) == {}


def test_where_a_team_is_out_of_its_line_one_start_less_brings_the_others_back_into_it():
    """Nobody needs the stop of `equal`. With it the team has 4 GPUs too many: one of its three starts has to wait.

    Of those it is the one that is missed least; the others keep their rights over what `y` runs without a quota.
    """
    snap = snapshot(
        nodes("a b c d", 4, rack="r1"),
        *(team("x").quota(12), team("y").quota(0)),
        job("equal").team("x").rank("P3").running(b=4),
        *(job(f"over-{name}").team("y").running({name: 4}) for name in "cd"),
        job("urgent").team("x").rank("P1").gang(4),
        *(job(f"claims-{name}").team("x").rank("P3").gang(4) for name in "cd"),
        reclaim=Reclaim.QUOTA,
    )
    plan = {"urgent": {"a": 4}, "claims-c": {"c": 4}, "claims-d": {"d": 4}}
    assert mended_to(snap, plan, "equal", "over-c", "over-d") in (
        {"urgent": {"a": 4}, "claims-c": {"c": 4}, "over-c": {}},
        {"urgent": {"a": 4}, "claims-d": {"d": 4}, "over-d": {}},
    )


def test_gpus_that_are_granted_to_others_are_left_to_them():
    snap = snapshot(
        racks(8, r1="n1"), job("named").gang(4), job("others").rigid().gang(8), grant("g", 4, "r1", jobs="named")
    )
    assert mended_to(snap, {"others": {"n1": 8}}) == {}


@pytest.mark.parametrize("seed", [5, 58])
def test_where_no_style_places_an_admission_validly_it_is_mended_to_more_than_greedy_finds(seed):
    """In round 5 a stop remains that nobody needs and nobody can pay for; in round 58 a move that nobody needs."""
    _, problem, choice = solved(seed)
    mode = problem.profile.priority_mode
    least = score(problem, greedy(problem)).key(mode)
    for style in STYLES:
        plan = Fine(problem, choice, style).run()
        assert check(problem, plan) != []
        found = mended(problem, plan)
        assert check(problem, found) == []
        assert score(problem, found).key(mode) > least


def test_in_a_hurry_one_placing_is_mended_at_once():
    _, problem, choice = solved(5)
    asked = []

    def hurry() -> bool:
        asked.append(True)
        return True

    assert check(problem, place(problem, choice, STYLES[0], hurry)) == []
    assert asked
