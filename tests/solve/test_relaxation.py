"""Bounds of the linear relaxation are bounds, whatever the simplex method answers; what a box leaves out is implied."""

from __future__ import annotations

import random

import numpy as np
import pytest
from ortools.sat.python import cp_model

from optsched.errors import SolverFailed
from optsched.solve.cpsat.box import Box
from optsched.solve.cpsat.recorded import Goal, Recorded, goal_of
from optsched.solve.cpsat.relaxation import Relaxation


def model_of(seed: int) -> tuple[Recorded, list[cp_model.IntVar]]:
    """A small model with sums, a choice and a condition; all zeros is a solution."""
    draw = random.Random(seed)
    model = Recorded()
    variables = [model.new_int_var(0, draw.randint(1, 6), f"x{k}") for k in range(6)]
    switch = model.new_bool_var("switch")
    for _ in range(4):
        factors = [draw.randint(-3, 5) for _ in variables]
        model.add(cp_model.LinearExpr.weighted_sum(variables, factors) <= draw.randint(0, 15))
    model.add(variables[0] + variables[1] <= 2).only_enforce_if(switch)
    model.add_at_most_one([switch, model.new_bool_var("other")])
    return model, [*variables, switch]


def best(model: cp_model.CpModel, goal: cp_model.LinearExpr) -> int:
    """The largest value that a search finds."""
    whole = model.clone()
    whole.maximize(goal)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(whole) == cp_model.OPTIMAL
    return round(solver.objective_value)


@pytest.mark.parametrize("seed", range(30))
def test_a_box_keeps_the_best_solution_and_its_relaxation_bounds_it(seed):
    model, variables = model_of(seed)
    draw = random.Random(seed + 1000)
    goal = cp_model.LinearExpr.weighted_sum(variables, [draw.randint(-2, 4) for _ in variables]) + 3
    box = Box(model)
    most = best(model, goal)
    assert best(box.model, goal) == most
    relaxation = Relaxation(box)
    assert relaxation.most(goal_of(goal)) >= most
    assert relaxation.least(goal_of(goal)) <= -best(model, -goal)


@pytest.mark.parametrize("seed", range(10))
def test_any_multipliers_prove_a_bound(seed):
    model, variables = model_of(seed)
    goal = cp_model.LinearExpr.sum(variables)
    relaxation, draw = Relaxation(Box(model)), np.random.default_rng(seed)
    for _ in range(5):
        multipliers = draw.random(len(Box(model).rows.most)) * 10.0 ** draw.integers(-3, 6)
        assert relaxation._proven(goal_of(goal), multipliers) >= best(model, goal)


def test_kept_goals_bind_until_they_are_forgotten():
    model = Recorded()
    x, y = model.new_int_var(0, 9, "x"), model.new_int_var(0, 9, "y")
    model.add(2 * x + y <= 10)
    relaxation = Relaxation(Box(model))
    assert relaxation.most(goal_of(x)) == 5
    relaxation.keep(goal_of(y), 5, 5)
    # 2 x + 5 <= 10: two and a half, in whole numbers two.
    assert relaxation.most(goal_of(x)) == 2
    relaxation.forget()
    assert relaxation.most(goal_of(x)) == 5


def test_sums_that_are_too_large_for_exact_arithmetic_prove_nothing_wrong():
    model = Recorded()
    x = model.new_int_var(0, 1 << 40, "x")
    y = model.new_int_var(0, 1 << 40, "y")
    model.add(x + y <= 1 << 40)
    huge = Goal(np.array([x.index]), np.array([1 << 30]), 0)
    assert Relaxation(Box(model)).most(huge) >= 1 << 60


def test_contradictions_are_an_error_of_the_model():
    model = Recorded()
    x = model.new_int_var(0, 3, "x")
    model.add(2 * x >= 7)
    with pytest.raises(SolverFailed):
        Box(model)
