"""Bounds of the linear relaxation hold for whole numbers, whatever the linear solver says."""

from __future__ import annotations

import random

import numpy as np
import pytest
from ortools.sat.python import cp_model
from ortools.sat.python.cp_model import CpModel, IntVar, LinearExpr

from optsched.solve.cpsat.relaxed import Relaxation


def random_model(rng: random.Random) -> tuple[CpModel, list[IntVar]]:
    """A feasible model (all zero will do) of some rows, some of which hold only if literals do."""
    model = CpModel()
    literals = [model.new_bool_var("") for _ in range(4)]
    counts = [model.new_int_var(0, rng.randint(1, 9), "") for _ in range(6)]
    variables = [*literals, *counts]
    for _ in range(rng.randint(2, 6)):
        some = rng.sample(variables, rng.randint(2, 5))
        row = model.add(sum(rng.choice((-3, -1, 1, 2, 5)) * each for each in some) <= rng.randint(0, 12))
        if rng.random() < 0.4:
            row.only_enforce_if(rng.choice([literals[0], ~literals[1], [literals[2], ~literals[3]]]))
    if rng.random() < 0.5:
        model.add_at_most_one(rng.sample(literals, 3))
    return model, variables


def optimum(model: CpModel, goal: LinearExpr) -> int:
    """The most that a sum can be."""
    model = model.clone()
    model.maximize(goal)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return round(solver.objective_value)


@pytest.mark.parametrize("seed", range(40))
def test_no_solution_exceeds_a_bound_nor_one_where_a_sum_is_fixed(seed):
    """The second sum is bounded with the first at its optimum."""
    rng = random.Random(seed)
    model, variables = random_model(rng)
    first, second = (sum(rng.randint(-4, 9) * each for each in variables) + rng.randint(-5, 5) for _ in range(2))
    relaxed = Relaxation(model)
    most = optimum(model, first)
    assert relaxed.most(first) >= most
    relaxed.fix(first, most)
    model.add(first == most)
    assert relaxed.most(second) >= optimum(model, second)


@pytest.mark.parametrize("seed", range(20))
def test_any_multipliers_give_a_bound(seed):
    """A solver that is wrong about them costs tightness only."""
    rng = random.Random(seed)
    model, variables = random_model(rng)
    relaxed = Relaxation(model)
    goal = sum(rng.randint(-4, 9) * each for each in variables)
    columns, factors, offset = relaxed._terms(goal)
    multipliers = np.array([rng.uniform(-3, 3) for _ in relaxed._rows])
    assert offset + relaxed._bound(columns, factors, multipliers) >= optimum(model, goal)


def test_without_rows_a_bound_is_the_range():
    model = CpModel()
    x, y = model.new_int_var(-2, 7, ""), model.new_bool_var("")
    assert Relaxation(model).most(3 * x - 2 * y + 1) == 22
    assert Relaxation(model).most(5) == 5


def test_what_does_not_fit_whole_does_not_count_in_part():
    """Of a job of 2,048 GPUs none can be taken where 2,000 may go; of one of 8 three where 30 may."""
    model = CpModel()
    large, small = model.new_bool_var(""), model.new_int_var(0, 9, "")
    model.add(2048 * large <= 2000)
    model.add(8 * small <= 30)
    assert Relaxation(model).most(2048 * large + 8 * small) == 24


def test_a_fixed_sum_counts_from_then_on():
    """With x + y = 3 and x at least 3 y, y is at most 3/4: none."""
    model = CpModel()
    x, y = model.new_int_var(0, 9, ""), model.new_int_var(0, 9, "")
    model.add(x >= 3 * y)
    relaxed = Relaxation(model)
    assert relaxed.most(y) == 3
    relaxed.fix(x + y, 3)
    assert relaxed.most(y) == 0
