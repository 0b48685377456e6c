"""Running jobs alike that may change their GPU type are counted, and each of them does one thing only."""

from __future__ import annotations

from optsched.rounds.build import build_problem
from optsched.rounds.check import check
from optsched.rounds.problem import Problem
from optsched.solve.cpsat.admission import Admission
from optsched.solve.cpsat.decisions import full_scope
from tests.builders import assignment, job, node, snapshot
from tests.solve.forced import allowed_by

ALIKE = 6
BOTH = {"a100": 1.0, "h100": 1.0}


def pinned_to_a_full_type(gang: int) -> Problem:
    """Six jobs alike of one GPU fill the H100s that a gang needs; there are two free A100s."""
    alike = [job(f"r{k}").rank("P3").types(**BOTH).running(h=1) for k in range(ALIKE)]
    return build_problem(
        snapshot(
            [node("h", ALIKE, "h100"), node("a", 2, "a100")],
            *alike,
            job("q").types(h100=1.0).rank("P2").gang(gang),
        )
    )


def admission(problem: Problem) -> Admission:
    return Admission(problem, full_scope(problem))


def test_jobs_alike_are_one_group():
    groups = admission(pinned_to_a_full_type(4)).groups
    (stops,), (retyping,) = groups.stops, groups.retypings
    assert len(stops.jobs) == ALIKE
    assert retyping.jobs is stops.jobs
    assert len(retyping.to) == 1


def test_some_move_and_some_stop():
    problem = pinned_to_a_full_type(4)
    plan = assignment(problem, {"q": {"h": 4}, "r0": {"a": 1}, "r1": {"a": 1}}, "r2", "r3")
    assert check(problem, plan) == []
    assert allowed_by(admission(problem), plan)


def test_who_stops_is_not_told_to_move_too():
    problem = pinned_to_a_full_type(4)
    model = admission(problem)
    (stops,), (retyping,) = model.groups.stops, model.groups.retypings
    wanted = {stops.count.index: 2, **{variable.index: 2 for variable in retyping.to.values()}}
    found = model.decode(lambda linear: 0 if isinstance(linear, int) else wanted.get(linear.index, 0))
    assert len(found.stops) == 2
    assert len(found.types) == 2
    assert not found.stops & found.types.keys()
