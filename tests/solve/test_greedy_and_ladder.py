"""Greedy is always valid; the ladder never gives out anything worse, whatever the search does; the same seed, the same
plan.
"""

from __future__ import annotations

import dataclasses
import random

import pytest

from optsched.clock import StoppedClock
from optsched.errors import SolverFailed
from optsched.rounds.assignment import NO_CHANGE, Assignment
from optsched.rounds.build import build_problem
from optsched.rounds.check import check
from optsched.rounds.problem import Problem
from optsched.rounds.score import score
from optsched.solve import ladder
from optsched.solve.exact import ExactSolver
from optsched.solve.greedy import greedy
from optsched.solve.ladder import Answer, SolverChoice, climb
from optsched.solve.result import Budget, Result
from optsched.values.plan import Source
from optsched.values.snapshot import Snapshot
from tests.builders import job, node, nodes, snapshot, team
from tests.oracle.rounds import small_round, tiny_round
from tests.solve.twins import plan_of

COUNTED = Budget(wall_s=1e9, deterministic_s=5.0)


def climbed(problem: Problem, choice: SolverChoice = SolverChoice.AUTO, budget: Budget = COUNTED) -> Answer:
    """The ladder's answer."""
    return climb(problem, choice, budget, StoppedClock())


def better_by_search() -> Problem:
    """Two half-full nodes of 4: greedy does not move, so that the gang of 4 waits; r then takes what it could have
    had.
    """
    return build_problem(
        snapshot(nodes("a b", 4), job("v").running(a=2), job("w").running(b=2), job("q").gang(4), job("r").gang(1))
    )


@pytest.mark.parametrize("chunk", range(10))
def test_greedy_is_valid_and_no_worse_than_changing_nothing(chunk):
    """On thirty rounds each, of 12 to 40 nodes with every feature."""
    for seed in range(30 * chunk, 30 * chunk + 30):
        problem = build_problem(small_round(seed))
        plan = greedy(problem)
        assert check(problem, plan) == [], seed
        mode = problem.profile.priority_mode
        assert score(problem, plan).key(mode) >= score(problem, NO_CHANGE).key(mode), seed


def test_without_a_budget_the_greedy_plan_goes_out():
    """A wall or a deterministic budget of 0, or the caller's wish."""
    problem = better_by_search()
    for answer in (
        climbed(problem, budget=Budget(wall_s=0.0)),
        climbed(problem, budget=Budget(wall_s=9.0, deterministic_s=0.0)),
        climbed(problem, SolverChoice.GREEDY),
    ):
        assert (answer.source, answer.assignment) == (Source.GREEDY, greedy(problem))


def test_the_search_finds_what_greedy_misses():
    """It moves one of the half-nodes over, and says who found the plan."""
    answer = climbed(better_by_search())
    assert answer.source is Source.CP_SAT
    assert answer.result.proven
    assert score(better_by_search(), answer.assignment).run_gpus == 8


class Broken:
    """A solver that gives up."""

    def solve(self, problem, hint, budget, clock):
        raise SolverFailed("CP-SAT says MODEL_INVALID")


class Wrong:
    """A solver whose answer overbooks node a."""

    def solve(self, problem, hint, budget, clock):
        gang = next(each.index for each in problem.queued)
        return Result(Assignment({gang: ((0, 4),)}))


class Poor:
    """A solver that finds nothing better than changing nothing."""

    def solve(self, problem, hint, budget, clock):
        return Result(NO_CHANGE)


@pytest.mark.parametrize(
    ("solver", "why"),
    [(Broken, "the search failed"), (Wrong, "the checker refused"), (Poor, "found nothing better")],
)
def test_greedy_goes_out_where_the_search_is_no_good(monkeypatch, solver, why):
    """Whether it raises, is wrong or is poor; the answer says so."""
    monkeypatch.setattr(ladder, "ExactSolver", solver)
    problem = build_problem(snapshot(nodes("a b", 4), job("v").rigid().running(a=2), job("q").gang(4)))
    answer = climbed(problem, SolverChoice.EXACT)
    assert (answer.source, answer.assignment) == (Source.GREEDY, greedy(problem))
    assert why in answer.why


def test_a_greedy_plan_that_the_checker_refuses_does_not_go_out(monkeypatch):
    """The plan that changes nothing always can."""
    monkeypatch.setattr(ladder, "greedy", lambda problem: Assignment({1: ((0, 4),)}))
    problem = build_problem(snapshot(nodes("a b", 4), job("v").rigid().running(a=2), job("q").gang(4)))
    answer = climbed(problem, SolverChoice.GREEDY)
    assert (answer.source, answer.assignment) == (Source.NO_CHANGE, NO_CHANGE)
    assert "the checker refused" in answer.why


@pytest.mark.parametrize("work_s", [0.001, 0.05, 1.0])
def test_the_ladder_is_never_worse_than_greedy(work_s):
    """However little the search may do."""
    for seed in range(300, 308):
        problem = build_problem(tiny_round(seed))
        answer = climbed(problem, SolverChoice.EXACT, Budget(wall_s=1e9, deterministic_s=work_s))
        mode = problem.profile.priority_mode
        assert check(problem, answer.assignment) == [], seed
        assert answer.score.key(mode) >= score(problem, greedy(problem)).key(mode), seed


def test_a_mover_above_its_minimum_claims_with_what_lies_above_it():
    """An elastic job that moves at more than its minimum: the search's plan passes the checker."""
    problem = build_problem(small_round(504))
    answer = climbed(problem, SolverChoice.EXACT, Budget(wall_s=1e9, deterministic_s=1.0))
    assert "refused" not in answer.why


def test_the_same_seed_and_the_same_work_give_the_same_plan():
    """Also where the work does not suffice to prove anything."""
    for seed in (1, 2):
        problem = build_problem(small_round(seed))
        budget = Budget(wall_s=1e9, deterministic_s=0.05, seed=7)
        first, second = (climbed(problem, SolverChoice.EXACT, budget) for _ in range(2))
        assert first.assignment == second.assignment, seed
        assert first.result.row_bounds == second.result.row_bounds, seed


@pytest.mark.parametrize("seed", range(12))
def test_names_and_their_order_do_not_matter(seed):
    """Nodes and jobs listed in another order, nodes under other names: the optimum is worth the same."""
    snap = tiny_round(seed)
    results = []
    for each in (snap, shuffled(snap, seed)):
        problem = build_problem(each)
        answer = climbed(problem, SolverChoice.EXACT, Budget(wall_s=1e9, deterministic_s=60.0))
        assert answer.result.proven
        results.append(answer.score.key(problem.profile.priority_mode))
    assert results[0] == results[1]


def shuffled(snap: Snapshot, seed: int) -> Snapshot:
    """The same snapshot with its nodes renamed and everything in another order (job names, which break ties, stay)."""
    rng = random.Random(seed)
    names = [each.id for each in snap.cluster.nodes]
    new = dict(zip(names, rng.sample([f"m{i}" for i in range(len(names))], len(names)), strict=True))
    there = [dataclasses.replace(each, id=new[each.id]) for each in snap.cluster.nodes]
    jobs = [
        dataclasses.replace(
            each,
            placement={new[name]: gpus for name, gpus in each.placement.items()},
            exclude_nodes=frozenset(new[name] for name in each.exclude_nodes),
        )
        for each in snap.jobs
    ]
    windows = [dataclasses.replace(each, nodes=tuple(new[name] for name in each.nodes)) for each in snap.reservations]
    rng.shuffle(there)
    rng.shuffle(jobs)
    cluster = dataclasses.replace(snap.cluster, nodes=tuple(there))
    return dataclasses.replace(snap, cluster=cluster, jobs=tuple(jobs), reservations=tuple(windows))


def test_a_bound_holds_for_every_plan():
    """With little work: no rank's bound is below what the proven plan runs there, while the ranks above are equal."""
    for seed in range(20, 32):
        problem = build_problem(tiny_round(seed))
        best = ExactSolver().solve(problem, NO_CHANGE, Budget(1e9, 60.0), StoppedClock())
        some = ExactSolver().solve(problem, greedy(problem), Budget(1e9, 0.002), StoppedClock())
        rows, ours = score(problem, best.assignment).rows, score(problem, some.assignment).rows
        for row, bound in enumerate(some.row_bounds):
            if rows[:row] != ours[:row] or bound is None:
                break
            assert rows[row] <= bound, (seed, row)


def test_greedy_prefers_the_cheaper_victims_and_few_of_them():
    """Of equal ranks one of 4 GPUs rather than two of 2, and the one that lost less."""
    snap = snapshot(
        nodes("a b c", 4),
        job("v").running({"a": 4}, lost=90),
        job("w").running({"b": 4}, lost=50),
        job("x").rank("P2").running({"c": 4}, lost=1),
        job("q").gang(4).rank("P1"),
    )
    problem = build_problem(snap)
    assert plan_of(problem, greedy(problem)).stopped == {"w"}


def test_greedy_stops_whom_it_needs_for_cpus():
    """Free GPUs, but no free CPUs."""
    there = [node("a", 8, cpus=16)]
    snap = snapshot(there, team("t"), job("v").cpus(16).running(a=1), job("q").cpus(8).rank("P1"))
    problem = build_problem(snap)
    assert plan_of(problem, greedy(problem)).stopped == {"v"}
