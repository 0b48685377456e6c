"""Parts of a plan searched anew: what is found is valid and better, and nothing changes elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optsched.clock import StoppedClock
from optsched.rounds.assignment import NO_CHANGE
from optsched.rounds.build import build_problem
from optsched.rounds.check import check
from optsched.rounds.problem import Problem
from optsched.rounds.score import score
from optsched.solve import attempts, coarse, neighbourhood
from optsched.solve.coarse import CoarseSolver
from optsched.solve.cpsat.decisions import full_scope
from optsched.solve.exact import ExactSolver
from optsched.solve.greedy import greedy
from optsched.solve.neighbourhood import Neighbourhoods, left_over
from optsched.solve.result import Budget, Spent
from optsched.values.profile import PriorityMode
from tests.builders import job, nodes, snapshot
from tests.oracle.rounds import small_round
from tests.solve.forced import tiny

COUNTED = Budget(wall_s=1e9, deterministic_s=5.0)
CHUNKS = 4
EACH = 15


def parts(problem: Problem, seed: int = 0) -> Neighbourhoods:
    """The means to search a plan of a round in parts."""
    budget = Budget(COUNTED.wall_s, COUNTED.deterministic_s, seed)
    return Neighbourhoods(problem, full_scope(problem), Spent(budget, StoppedClock()))


def strict(problem: Problem) -> Problem:
    """The same round with strict ranks."""
    profile = replace(problem.profile, priority_mode=PriorityMode.STRICT)
    return build_problem(replace(problem.snapshot, profile=profile))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_with_all_nodes_open_the_best_ranks_are_found(chunk, monkeypatch):
    monkeypatch.setattr(neighbourhood, "SMALL_PART", 1.0)
    gained = 0
    for seed in range(EACH * chunk, EACH * (chunk + 1)):
        problem = strict(tiny(seed))
        best = ExactSolver().solve(problem, NO_CHANGE, COUNTED, StoppedClock())
        assert best.proven, seed
        found = parts(problem).improve(NO_CHANGE, 0, 0.0)
        assert check(problem, found) == [], seed
        assert score(problem, found).rows == score(problem, best.assignment).rows, seed
        gained += found != NO_CHANGE
    assert gained


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_what_is_not_open_stays_as_planned(chunk, monkeypatch):
    monkeypatch.setattr(neighbourhood, "MOST_NODES", 2)
    changed = 0
    for seed in range(EACH * chunk, EACH * (chunk + 1)):
        problem = strict(build_problem(small_round(seed)))
        plan = greedy(problem)
        means = parts(problem, seed)
        opened = means.opened(plan)
        found = means.searched(plan, opened, 0, 1e9)
        if found is None:
            continue
        assert check(problem, found) == [], seed
        for each in problem.jobs:
            touched = {n for spread in (each.spread_now, plan.after(each), found.after(each)) for n, _ in spread}
            if not all(opened[n] for n in touched):
                assert found.after(each) == plan.after(each), (seed, each.job.id)
            changed += found.after(each) != plan.after(each)
    assert changed


def test_gpus_left_over_find_a_use():
    """Two of one GPU each stand in the way of two GPUs on one node: one of them goes where a GPU is left over."""
    problem = build_problem(
        snapshot(
            nodes("a b c", gpus=2),
            job("x").gang(1).running({"a": 1}),
            job("y").gang(1).running({"b": 1}),
            job("z").gang(2).running({"c": 2}).rigid(),
            job("new").gang(2).rank("P1"),
        )
    )
    assert left_over(problem, NO_CHANGE).tolist() == [True, True, False]
    found = parts(problem).searched(NO_CHANGE, np.ones(3, bool), 0, 1e9)
    assert found is not None
    assert check(problem, found) == []
    assert score(problem, found).run_gpus == 6
    assert not left_over(problem, found).any()


def test_a_large_round_whose_places_are_missed_is_searched_in_parts(monkeypatch):
    monkeypatch.setattr(coarse, "EXACT_NODES", 0)
    monkeypatch.setattr(attempts, "place", lambda problem, admitted, style, hurry: NO_CHANGE)
    problem = build_problem(snapshot(nodes("a b"), job("one").gang(8), job("two").gang(4), job("three").gang(4)))
    answer = CoarseSolver().solve(problem, NO_CHANGE, COUNTED, StoppedClock())
    assert score(problem, answer.assignment).run_gpus == 16
