"""The fine stage finds places for what admission chose, makes holes by moves, and repairs where that falls short."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.clock import StoppedClock
from optsched.rounds.assignment import Assignment
from optsched.rounds.build import build_problem
from optsched.rounds.check import check
from optsched.rounds.problem import Problem
from optsched.solve.cpsat.admission import Admission, Admitted
from optsched.solve.cpsat.decisions import full_scope
from optsched.solve.cpsat.stages import Stages
from optsched.solve.exact import most_gpus, stage_rows
from optsched.solve.fine import STYLES, place
from optsched.solve.places import Style
from optsched.solve.result import Budget, Spent
from optsched.solve.singles import Takers, share_out
from tests.builders import cordoned, job, node, nodes, racks, snapshot, team
from tests.oracle.rounds import small_round


def admitted(problem: Problem, starts: str, stops: str = "", **shrinks: int) -> Admitted:
    """An admission by names; other teams may take from all that stops."""
    index = {str(each.job.id): each.index for each in problem.jobs}
    going = frozenset(index[name] for name in stops.split())
    return Admitted(
        starts=frozenset(index[name] for name in starts.split()),
        stops=going,
        reclaimed=going,
        shrinks={index[name]: lost for name, lost in shrinks.items()},
        grows={},
    )


def placed(problem: Problem, choice: Admitted, style: Style = STYLES[0]) -> dict[str, dict[str, int]]:
    """Where the plan puts jobs anew, by name; stopped ones are nowhere."""
    found = place(problem, choice, style)
    assert check(problem, found) == []
    return by_name(problem, found)


def solved(seed: int) -> tuple[int, Problem, Admitted]:
    """A small round and what admission chooses there by its ranks alone."""
    problem = build_problem(small_round(seed))
    return seed, problem, choice_of(problem, seed)


def choice_of(problem: Problem, seed: int) -> Admitted:
    """What admission chooses in a round by its ranks alone."""
    admission = Admission(problem, full_scope(problem))
    stages = Stages(admission.model, Spent(Budget(1e9, deterministic_s=5.0, seed=seed), StoppedClock()), lean=True)
    priorities = len(problem.priorities)
    goals = [admission.ladder.stage(row, priorities) for row in stage_rows(problem)]
    stages.maximize_in_order(goals, most_gpus(problem), 1.0)
    return admission.decode(stages.value)


ADMISSIONS = [solved(seed) for seed in range(12)]


def by_name(problem: Problem, plan: Assignment) -> dict[str, dict[str, int]]:
    """A plan's changes by names."""
    ids = problem.tree.node_ids
    where = {str(problem.jobs[j].job.id): {str(ids[n]): c for n, c in spread} for j, spread in plan.changed.items()}
    return where | {str(problem.jobs[j].job.id): {} for j in plan.stopped}


def test_a_hole_is_made_by_a_move():
    problem = build_problem(
        snapshot(
            nodes("n1 n2", rack="r1"),
            job("left").running(n1=4),
            job("right").rigid().running(n2=4),
            job("whole").gang(8),
        )
    )
    assert placed(problem, admitted(problem, "whole")) == {"left": {"n2": 4}, "whole": {"n1": 8}}


@pytest.mark.parametrize("style", STYLES, ids=str)
def test_what_others_cannot_do_without_is_left_to_them_even_where_it_would_be_nearer(style):
    problem = build_problem(
        snapshot(
            racks(r1="n1", r2="n2 n3", r3="n4"),
            team("x").quota(16),
            team("y").quota(16),
            job("a").team("x").rank("P4").running(n1=8),
            job("b").team("x").rank("P4").running(n4=8),
            job("any").team("x").rank("P0").gang(16).per_node(8),
            job("free").team("y").rank("P0").gang(16).per_node(8),
            horizon_s=360_000.0,
            speed_widest=0.5,
        )
    )
    there = {"any": {"n1": 8, "n4": 8}, "free": {"n2": 8, "n3": 8}, "a": {}, "b": {}}
    assert placed(problem, admitted(problem, "any free", "a b"), style) == there


def test_the_cheapest_hole_is_made():
    problem = build_problem(
        snapshot(
            nodes("n1 n2 n3", rack="r1"),
            job("dear").restarts_in(500).running(n1=4),
            job("cheap").restarts_in(5).running(n2=4),
            job("fixed").rigid().running(n3=4),
            job("whole").gang(8),
        )
    )
    assert placed(problem, admitted(problem, "whole"))["whole"] == {"n2": 8}


def test_who_has_victims_of_its_own_takes_them_and_leaves_what_is_free_to_others():
    problem = build_problem(
        snapshot(
            nodes("n1 n2", rack="r1"),
            team("mine").weight(1),
            job("victim").team("mine").rank("P4").running(n2=8),
            job("own").team("mine").rank("P0").gang(8),
            job("other").team("guest").rank("P0").gang(8),
        )
    )
    plan = placed(problem, admitted(problem, "own other", "victim"))
    assert plan == {"victim": {}, "own": {"n2": 8}, "other": {"n1": 8}}


def test_slices_leave_whole_the_rack_where_nothing_needs_to_move():
    problem = build_problem(
        snapshot(
            racks(8, r1="a1 a2 a3", r2="b1 b2"),
            job("small").rigid().running(a3=1),
            job("pairs").gang(16).per_node(8).slices((16, "rack")),
            job("single").gang(7),
        )
    )
    plan = placed(problem, admitted(problem, "pairs single"))
    assert set(plan["pairs"]) in ({"a1", "a2"}, {"b1", "b2"})
    assert plan["single"] == {"a3": 7}


def test_slices_go_where_two_nodes_of_one_rack_can_be_had():
    problem = build_problem(
        snapshot(
            racks(8, r1="a1 a2", r2="b1 b2", r3="c1 c2"),
            *(job(f"on-{name}").rigid().running({name: 8}) for name in ("a1", "b2")),
            job("pair").gang(16).per_node(8).slices((16, "rack")),
        )
    )
    assert placed(problem, admitted(problem, "pair")) == {"pair": {"c1": 8, "c2": 8}}


def test_a_mover_without_a_new_home_goes_back_to_its_old_one():
    # Admission counts 8 free GPUs; neither 4 can be made 8, since nobody can take in 4 more.
    problem = build_problem(
        snapshot(
            nodes("n1 n2", rack="r1"),
            job("left").running(n1=4),
            job("right").rigid().running(n2=5),
            job("whole").gang(8),
        )
    )
    assert placed(problem, admitted(problem, "whole")) == {}


def test_an_elastic_job_keeps_what_nobody_took():
    problem = build_problem(
        snapshot(
            nodes("n1 n2", rack="r1"),
            job("wide").per_node(8).elastic(8, 16).running(n1=8, n2=8),
        )
    )
    assert placed(problem, admitted(problem, "", wide=8)) == {}


def test_an_elastic_job_gives_up_a_node_for_who_starts_there():
    problem = build_problem(
        snapshot(
            nodes("n1 n2", rack="r1"),
            job("wide").per_node(8).elastic(8, 16).rank("P4").running(n1=8, n2=8),
            job("whole").rank("P0").gang(8),
        )
    )
    plan = placed(problem, admitted(problem, "whole", wide=8))
    assert sorted([*plan["wide"], *plan["whole"]]) == ["n1", "n2"]


def test_a_start_moves_to_where_its_stop_is_needed():
    problem = build_problem(
        snapshot(
            nodes("a b c", 4, rack="r1"),
            *(team("x").quota(8), team("y").quota(0)),
            job("equal").team("x").running(b=4),
            job("over").team("y").running(c=4),
            job("urgent").team("x").rank("P2").gang(4),
            job("claims").team("x").gang(4),
            migration=False,
        )
    )
    # With `equal` running, `claims` is outside the quota; and only where `equal` ran is its stop needed by `urgent`.
    plan = placed(problem, admitted(problem, "urgent claims", "equal over"), Style(rank_first=False, zeal=0.0))
    assert plan["urgent"] == {"b": 4}
    assert plan["claims"] in ({"a": 4}, {"c": 4})


def test_an_elastic_job_keeps_what_nobody_else_may_have():
    problem = build_problem(
        snapshot(
            [cordoned(node("shut", 8, rack="r1")), *nodes("n1 n2", rack="r1")],
            job("wide").per_node(8).elastic(8, 16).rank("P4").running(shut=8, n1=8),
            job("other").rigid().running(n2=8),
            job("whole").rank("P0").gang(8),
            migration=False,
        )
    )
    assert placed(problem, admitted(problem, "whole", wide=8)) == {"wide": {"shut": 8}, "whole": {"n1": 8}}


def test_who_may_have_least_is_placed_first():
    problem = build_problem(
        snapshot(
            nodes("a b", rack="r1"),
            *(team("x").quota(8), team("y").quota(0), team("z").quota(8)),
            job("over").team("y").running(a=8),
            job("own").team("x").rank("P4").running(b=8),
            job("first").team("x").rank("P2").gang(8),
            job("second").team("z").rank("P3").gang(8),
            migration=False,
        )
    )
    # `first` may have either node, `second` only what the team above its quota leaves.
    assert placed(problem, admitted(problem, "first second", "own over")) == {
        "first": {"b": 8},
        "second": {"a": 8},
        "own": {},
        "over": {},
    }


def test_a_stop_that_nobody_needs_is_taken_back():
    problem = build_problem(
        snapshot(
            nodes("n1 n2", rack="r1"),
            job("victim").rank("P4").running(n2=8),
            job("needed").rank("P0").gang(8),
        )
    )
    assert placed(problem, admitted(problem, "", "victim")) == {"needed": {"n1": 8}}


def test_single_gpus_go_to_better_ranks_first():
    only, both = np.array([True, False]), np.array([True, True])
    # The better kind may have the first source alone; the worse one must do with the second.
    assert share_out([Takers(2, 1, both), Takers(1, 2, only)], np.array([1, 1])) == [[(1, 1)], [(0, 1)]]
    assert share_out([Takers(1, 1, only), Takers(1, 2, only)], np.array([1, 0])) == [[], [(0, 1)]]


@pytest.mark.parametrize("style", STYLES, ids=str)
def test_what_admission_chose_comes_out_as_a_valid_plan(style):
    found = [(seed, problem, place(problem, choice, style)) for seed, problem, choice in ADMISSIONS]
    assert {seed: broken for seed, problem, plan in found if (broken := check(problem, plan))} == {}
