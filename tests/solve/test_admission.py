"""Admission leaves room for every valid plan: with its ranks, its tie, its worth, and a bill that is no higher."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from optsched.rounds.build import build_problem
from optsched.rounds.check import check
from optsched.rounds.problem import Problem
from optsched.solve.cpsat.admission import Admission
from optsched.solve.cpsat.decisions import full_scope
from optsched.values.ids import LevelName
from tests.builders import QUIET, assignment, cordoned, job, node, nodes, snapshot, team
from tests.solve.forced import allowed_by, base, tiny, valid_plans

CHUNKS = 8
EACH = 20


def admission(problem: Problem) -> Admission:
    """The model of all that a plan could do."""
    return Admission(problem, full_scope(problem))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_valid_plan_is_a_solution_of_admission(chunk):
    """Six plans of every round."""
    for seed in range(chunk * EACH, (chunk + 1) * EACH):
        problem = tiny(seed)
        model = admission(problem)
        for plan in (base(problem), *valid_plans(problem, random.Random(seed), 5)):
            assert check(problem, plan) == [], seed
            assert allowed_by(model, plan), (seed, plan)


@pytest.mark.parametrize(
    ("seed", "about"),
    [
        (42, "a job moves to another GPU type, where it is faster"),
        (84, "a job makes room by moving to another GPU type"),
        (85, "the shares by type of a team whose jobs change types"),
        (103, "a move to another type in the weighted sum"),
        (106, "a job that moves keeps its GPUs on a cordoned node"),
        (107, "what a job inside its quota has above its minimum is another team's to take"),
        (153, "ranks of jobs that move to another type"),
        (162, "moves past a node that is drained"),
        (180, "a start in the place of a job that leaves for another type"),
        (188, "the whole of a type is made free by moves"),
        (268, "a gang of 3 GPUs fills a node of 2 and a node of 1"),
        (534, "a gang on whole nodes of 1 and 2 GPUs shrinks by the larger node"),
    ],
)
def test_rare_plans_are_solutions_of_admission(seed, about):
    """Each of these was once ruled out, by this model or by one before it."""
    problem = tiny(seed)
    model = admission(problem)
    assert all(allowed_by(model, plan) for plan in valid_plans(problem, random.Random(seed), 12)), about


Case = tuple[Problem, dict[str, dict[str, int]], tuple[str, ...]]


def shared_victim() -> Case:
    """Two gangs of 4 each take 2 GPUs of a stranger's 4, and 2 of their own team's."""
    problem = build_problem(
        snapshot(
            [node("n", 8)],
            *(team("a").quota(4), team("b").quota(4), team("c").quota(0)),
            job("va").team("a").running(n=2),
            job("vc").team("c").running(n=4),
            job("vb").team("b").running(n=2),
            job("qa").team("a").rank("P2").gang(4),
            job("qb").team("b").rank("P2").gang(4),
            migration=False,
        )
    )
    return problem, {"qa": {"n": 4}, "qb": {"n": 4}}, ("va", "vb", "vc")


def two_teams_inside() -> Case:
    """Each team puts a gang of 2 on one GPU of its own victim and one that is free."""
    problem = build_problem(
        snapshot(
            [node("n", 4)],
            *(team("a").quota(2), team("b").quota(2)),
            job("va").team("a").running(n=1),
            job("vb").team("b").running(n=1),
            job("qa").team("a").rank("P2").gang(2),
            job("qb").team("b").rank("P2").gang(2),
        )
    )
    return problem, {"qa": {"n": 2}, "qb": {"n": 2}}, ("va", "vb")


def shrink_to_a_closed_node() -> Case:
    """An elastic gang lets go of its open node and keeps the cordoned one."""
    problem = build_problem(
        snapshot(
            [cordoned(node("shut", 4)), node("open", 4)],
            job("r").per_task(4)._with(gpus=8).elastic(4, 8).running(shut=4, open=4),
            job("q").rank("P2").gang(4),
            migration=False,
        )
    )
    return problem, {"r": {"shut": 4}, "q": {"open": 4}}, ()


def small_beside_large() -> Case:
    """Of two shapes alike in team and priority only the smaller is inside the quota, and may take from others."""
    problem = build_problem(
        snapshot(
            [node("m1", 7), node("m2", 7), node("n", 4)],
            *(team("a").quota(13), team("c").quota(0)),
            *(job(f"v{i}").team("c").running(n=2) for i in range(2)),
            job("large").team("a").rank("P2").gang(14).per_node(7),
            *(job(f"small{i}").team("a").rank("P2").gang(4) for i in range(3)),
            migration=False,
        )
    )
    return problem, {"small0": {"m1": 4}, "small1": {"m2": 4}, "small2": {"n": 4}}, ("v0", "v1")


def emergency_moves() -> Case:
    """A running job of an emergency class moves to where another moves away, inside its quota or not."""
    problem = build_problem(
        snapshot(
            [node("a", 4), node("b", 4), node("c", 4)],
            *(team("x").quota(4), team("y").quota(0)),
            job("inside").team("x").running(a=1),
            job("urgent").team("y").rank("P0").running(b=4),
            job("q").team("y").rank("P2").gang(4),
            job("filler").team("x").rigid().running(c=3),
            emergency_classes=("P0",),
        )
    )
    return problem, {"urgent": {"a": 4}, "inside": {"c": 1}, "q": {"b": 4}}, ()


def grows_faster() -> Case:
    """A gang grows out of its rack, where links are slow, and all of it runs faster."""
    slow = replace(QUIET, speed={LevelName("rack"): 0.5, LevelName("node"): 0.5}, speed_widest=1.0)
    problem = build_problem(
        snapshot(
            [node("a", 4, rack="r1"), node("b", 4, rack="r2")],
            job("r").per_task(1)._with(gpus=4).elastic(4, 8).signal().running(a=4),
            profile=slow,
            migration=False,
        )
    )
    return problem, {"r": {"a": 4, "b": 4}}, ()


def faster_than_full() -> Case:
    """Nobody waits, nobody grows: a job moves to where it is faster than at full speed."""
    fast = replace(QUIET, speed={LevelName("rack"): 1.5}, speed_widest=1.0)
    problem = build_problem(
        snapshot(
            [node("a", 4, rack="r1"), node("b", 4, rack="r1"), node("c", 4, rack="r2")],
            job("r").per_task(1).signal().running(a=1, c=1),
            profile=fast,
        )
    )
    return problem, {"r": {"a": 1, "b": 1}}, ()


def the_younger_and_the_dearer() -> Case:
    """Of two jobs alike the younger starts, and of two alike the one that loses more is stopped."""
    problem = build_problem(
        snapshot(
            nodes("a b", 4),
            job("cheap").running(a=4, lost=10.0),
            job("dear").running(b=4, lost=900.0),
            job("old").rank("P2").gang(4).waiting(3000),
            job("young").rank("P2").gang(4).waiting(30),
            migration=False,
        )
    )
    return problem, {"young": {"b": 4}}, ("dear",)


def leaves_a_type_it_lost() -> Case:
    """A job runs on a type that it allows no more, and moves to the only one that it does."""
    problem = build_problem(
        snapshot(
            [node("a", 4, "a100"), node("h", 4, "h100")],
            *(team("t").quota(a100=4), team("u").quota(a100=4)),
            job("r").types(a100=1.0).running(h=4),
            job("q").team("u").types(h100=1.0).rank("P2").gang(4),
        )
    )
    return problem, {"r": {"a": 4}, "q": {"h": 4}}, ()


def across_types() -> Case:
    """What runs across two types is stopped, and leaves GPUs of both."""
    problem = build_problem(
        snapshot(
            [node("a", 4, "a100"), node("h", 4, "h100")],
            job("r").per_task(1).running(a=4, h=4),
            job("qa").types(a100=1.0).rank("P2").gang(4),
            job("qh").types(h100=1.0).rank("P2").gang(4),
            migration=False,
        )
    )
    return problem, {"qa": {"a": 4}, "qh": {"h": 4}}, ("r",)


CRAFTED = [
    shared_victim,
    two_teams_inside,
    shrink_to_a_closed_node,
    small_beside_large,
    emergency_moves,
    grows_faster,
    faster_than_full,
    the_younger_and_the_dearer,
    leaves_a_type_it_lost,
    across_types,
]


@pytest.mark.parametrize("case", CRAFTED, ids=lambda case: str(case.__name__))
def test_crafted_plans_are_solutions_of_admission(case: Callable[[], Case]):
    """Each but the younger and the dearer was once ruled out, or cost less than the least bill."""
    problem, placements, stopped = case()
    plan = assignment(problem, placements, *stopped)
    assert check(problem, plan) == [], case.__doc__
    assert allowed_by(admission(problem), plan), case.__doc__


def gives_way_to_an_equal() -> Case:
    """A team stops its job for no one but to be inside its quota, and takes another's node for a job no more urgent."""
    problem = build_problem(
        snapshot(
            nodes("a b", 4),
            *(team("x").quota(4), team("y").quota(0)),
            job("small").team("x").running(a=2),
            job("over").team("y").running(b=4),
            job("large").team("x").gang(4),
            migration=False,
        )
    )
    return problem, {"large": {"b": 4}}, ("small", "over")


def more_stops_than_meet() -> Case:
    """Three jobs of a team stop, and the one start that could need them is on one node only."""
    problem = build_problem(
        snapshot(
            nodes("a b c", 2),
            team("x").quota(6),
            *(job(f"r{n}").team("x").running(**{n: 1}) for n in "abc"),
            job("urgent").team("x").rank("P2").gang(1),
            migration=False,
        )
    )
    return problem, {"urgent": {"a": 1}}, ("ra", "rb", "rc")


@pytest.mark.parametrize("case", [gives_way_to_an_equal, more_stops_than_meet], ids=lambda case: str(case.__name__))
def test_stops_that_nobody_can_need_are_none_of_admissions(case: Callable[[], Case]):
    """The checker says so of the plan, and admission knows it without places."""
    problem, placements, stopped = case()
    plan = assignment(problem, placements, *stopped)
    assert any("needs its stop" in fault for fault in check(problem, plan)), case.__doc__
    assert not allowed_by(admission(problem), plan), case.__doc__
