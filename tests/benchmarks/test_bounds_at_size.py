"""At reference size nothing beats a stated bound: no tenfold budget, no other seed, no exact search, no flat model."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.flat import solve_flat
from benchmarks.priority_matters import family_round
from benchmarks.rounds.generate import generate
from benchmarks.rounds.kinds import KINDS
from optsched.clock import StoppedClock
from optsched.files import parse_snapshot
from optsched.files.snapshots import load_snapshot
from optsched.rounds.assignment import Assignment
from optsched.rounds.build import build_problem
from optsched.rounds.check import check
from optsched.rounds.problem import Problem
from optsched.rounds.score import score
from optsched.solve.coarse import CoarseSolver
from optsched.solve.exact import ExactSolver
from optsched.solve.greedy import greedy
from optsched.solve.result import Budget, Result
from tests.solve.forced import beaten

SHORT_S = 0.1
ROUNDS = Path(__file__).resolve().parents[2].parent / "shared" / "cases" / "rounds"


def counted(work_s: float, seed: int = 1) -> Budget:
    """A budget of counted work, no clock."""
    return Budget(wall_s=1e9, deterministic_s=work_s, seed=seed)


def coarse(problem: Problem, budget: Budget) -> Result:
    """The coarse solver's answer from greedy's plan."""
    return CoarseSolver().solve(problem, greedy(problem), budget, StoppedClock())


def of_kind(name: str, seed: int, share: float = 1.0) -> Problem:
    """A generated round."""
    kind = KINDS[name] if share == 1.0 else KINDS[name].smaller(share)
    return build_problem(parse_snapshot(generate(kind, seed))[0])


def reference(name: str) -> Problem:
    """A round beside the checkout."""
    file = ROUNDS / f"{name}.json.gz"
    if not file.is_file():
        pytest.skip("the rounds do not lie beside this checkout")
    return build_problem(load_snapshot(file)[0])


def assert_not_beaten(problem: Problem, stated: Result, others: dict[str, Assignment]) -> None:
    """Every plan is valid and keeps to the bounds."""
    for about, plan in others.items():
        assert check(problem, plan) == [], about
        assert beaten(problem, stated, score(problem, plan)) == "", about


@pytest.mark.parametrize(
    "made",
    [
        lambda: of_kind("h100-1k", 3),
        lambda: of_kind("rich-10k", 4, 0.04),
        lambda: of_kind("mixed-10k", 2, 0.04),
        lambda: of_kind("nvl72-10k", 5, 0.04),
        lambda: reference("h100-1k-0"),
    ],
    ids=["h100-1k", "rich", "mixed", "nvl72", "reference"],
)
def test_no_longer_search_beats_a_bound(made):
    problem = made()
    stated = coarse(problem, counted(SHORT_S))
    longer = {f"tenfold, seed {seed}": coarse(problem, counted(10 * SHORT_S, seed)).assignment for seed in (1, 2)}
    hinted = ExactSolver().solve(problem, longer["tenfold, seed 1"], counted(10 * SHORT_S), StoppedClock())
    assert any(bound is not None for bound in stated.row_bounds)
    assert_not_beaten(problem, stated, {**longer, "exact": hinted.assignment, "greedy": greedy(problem)})


@pytest.mark.parametrize("seed", [1, 2])
def test_the_flat_model_beats_no_bound_of_its_own_family(seed):
    problem = build_problem(parse_snapshot(family_round(32, seed))[0])
    stated = coarse(problem, counted(SHORT_S))
    flat = solve_flat(problem, counted(30 * SHORT_S), StoppedClock())
    assert flat.found
    assert_not_beaten(problem, stated, {"flat": flat.assignment})
