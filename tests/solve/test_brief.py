"""A round that follows another closely searches less: its plan is valid and no worse than greedy's, its bounds hold."""

from __future__ import annotations

import pytest

from optsched.clock import StoppedClock
from optsched.rounds.assignment import NO_CHANGE
from optsched.solve import coarse as coarse_solver
from optsched.solve.exact import ExactSolver
from optsched.solve.result import Budget
from tests.solve.forced import tiny
from tests.solve.test_coarse import ENOUGH, coarse, faults

SEEDS = range(3000, 3030)


@pytest.mark.parametrize("turn", [0, 3])
def test_no_valid_plan_beats_the_bounds_of_a_brief_search(monkeypatch, turn):
    """The optimum stands for all valid plans. Brief searches are for large rounds: here, small ones count as such."""
    monkeypatch.setattr(coarse_solver, "EXACT_NODES", 0)
    for seed in SEEDS:
        problem = tiny(seed)
        best = ExactSolver().solve(problem, NO_CHANGE, ENOUGH, StoppedClock())
        assert best.proven, seed
        brief = coarse(problem, Budget(wall_s=1e9, deterministic_s=5.0, turn=turn))
        assert faults(problem, brief, best.assignment) == [], seed
