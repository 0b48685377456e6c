"""A search that may leave something open still says the truth about what it leaves."""

from __future__ import annotations

import random

import pytest
from ortools.sat.python.cp_model import CpModel

from optsched.clock import StoppedClock
from optsched.solve.cpsat.stages import Ask, Stages, solve_all
from optsched.solve.result import Budget, Spent

PLENTY = Budget(wall_s=1e9, deterministic_s=10.0)


def covering(seed: int) -> tuple[CpModel, object]:
    """The cheapest of some things that together weigh enough."""
    rng, model = random.Random(seed), CpModel()
    chosen = [model.new_bool_var("") for _ in range(20)]
    model.add(sum(rng.randint(10, 99) * each for each in chosen) >= 500)
    return model, sum(rng.randint(10, 99) * each for each in chosen)


@pytest.mark.parametrize("seed", range(10))
def test_within_the_slack_a_minimum_and_its_bound_enclose_the_optimum(seed):
    """What is found is dearer by the slack at most, and is called optimal only where the bound says so."""
    model, cost = covering(seed)
    best = Stages(model.clone(), Spent(PLENTY, StoppedClock())).minimize(cost, 1.0)
    loose = Stages(model.clone(), Spent(PLENTY, StoppedClock())).minimize(cost, 1.0, slack=40)
    assert best.optimal
    assert best.value is not None
    assert loose.value is not None
    assert loose.bound <= best.value <= loose.value <= best.value + 40
    assert loose.optimal == (loose.bound == loose.value)


def test_who_is_asked_when_nothing_is_left_gets_no_answer():
    model, cost = covering(0)
    ask = Ask(7, model, cost, maximize=False)
    assert solve_all([ask], Spent(Budget(wall_s=0.0), StoppedClock())) == []
    assert [key for key, _ in solve_all([ask], Spent(PLENTY, StoppedClock()))] == [7]
