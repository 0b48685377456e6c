"""Speed of every step of a round, on the shipped real moment and on a generated small one. `make bench` runs these."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import as_file, files

import pytest

from optsched.clock import StoppedClock, WallClock
from optsched.engine.decide import decide
from optsched.engine.events import Finished, Submit
from optsched.engine.planning import RoundPlanner
from optsched.engine.state import initial
from optsched.engine.step import step
from optsched.files import load_snapshot
from optsched.planner.plan import PlanOptions, plan_round
from optsched.rounds.build import build_problem
from optsched.rounds.check import check
from optsched.rounds.score import score
from optsched.solve.exact import ExactSolver
from optsched.solve.greedy import greedy
from optsched.solve.result import Budget
from optsched.topology.tree import build_tree
from optsched.values.ids import JobId
from optsched.values.job import JobState
from optsched.values.snapshot import Snapshot


@pytest.fixture(scope="module")
def philly() -> Snapshot:
    """The shipped busy moment: 552 nodes, about 800 running and 250 queued jobs."""
    with as_file(files("optsched.examples") / "philly-busy.json.gz") as path:
        return load_snapshot(path)[0]


def test_load(benchmark, philly):
    """From file to values."""
    with as_file(files("optsched.examples") / "philly-busy.json.gz") as path:
        benchmark(load_snapshot, path)


def test_topology(benchmark, philly):
    """From nodes to the tree of domains."""
    benchmark(build_tree, philly.cluster)


def test_build(benchmark, philly):
    """From values to the round problem: entitlements, tiers, order, costs."""
    benchmark(build_problem, philly)


def test_greedy(benchmark, philly):
    """The greedy plan alone; it must run no fewer GPUs at the highest rank than changing nothing does."""
    problem = build_problem(philly)
    assignment = benchmark(greedy, problem)
    assert not check(problem, assignment)


def test_check_and_score(benchmark, philly):
    """The independent checker and the score, on the greedy plan."""
    problem = build_problem(philly)
    assignment = greedy(problem)
    benchmark(lambda: (check(problem, assignment), score(problem, assignment)))


def test_whole_round_by_greedy(benchmark, philly):
    """The whole round without a search."""
    plan = benchmark(plan_round, philly, PlanOptions(budget_s=0), WallClock())
    assert plan.starts


def test_a_round_of_churn(benchmark, philly):
    """One of many rounds by greedy: a job ended, two arrived; from the state to the plan in force."""
    planner = RoundPlanner(PlanOptions(budget_s=0, prove=0), WallClock())
    state = initial(philly)
    while (decision := decide(state, planner)) is not None:
        state = step(state, decision, state.now).state
    running = next(name for name, each in state.jobs.items() if each.state is JobState.RUNNING)
    like = next(each.job for each in state.jobs.values() if each.state is JobState.QUEUED and each.claim is None)
    for event in (Finished(running), *(Submit(replace(like, id=JobId(f"new-{i}"))) for i in range(2))):
        state = step(state, event, state.now).state

    def one_round():
        decision = decide(state, planner)
        assert decision is not None
        return step(state, decision, state.now)

    assert benchmark(one_round).state.version > state.version


@pytest.mark.parametrize("seed", [3, 17])
def test_exact_on_a_small_random_round(benchmark, seed):
    """The exact model of a random round of up to 40 nodes, within ten deterministic seconds."""
    from tests.oracle.rounds import small_round

    problem = build_problem(small_round(seed))
    hint = greedy(problem)
    budget = Budget(wall_s=1e9, deterministic_s=10.0)
    result = benchmark.pedantic(ExactSolver().solve, (problem, hint, budget, StoppedClock()), rounds=1)
    mode = problem.profile.priority_mode
    assert score(problem, result.assignment).key(mode) >= score(problem, hint).key(mode)
