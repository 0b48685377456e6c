"""The exact model, the checker and the score against a brute force written from the formulation alone."""

from __future__ import annotations

import dataclasses
import random

import pytest

import tests.oracle.worth
from optsched.clock import StoppedClock
from optsched.rounds.assignment import NO_CHANGE
from optsched.rounds.check import check
from optsched.rounds.problem import Hold, Problem
from optsched.rounds.score import score
from optsched.solve.exact import ExactSolver
from optsched.solve.greedy import greedy
from optsched.solve.result import Budget
from optsched.values.profile import PriorityMode
from tests.oracle.brute import Plan, best_plans, broken_rules, options, score_of
from tests.oracle.rounds import tiny_holds, tiny_round
from tests.solve.twins import SharedRound, agreed, assignment_of, both, plan_of, rows_of

ENOUGH = Budget(wall_s=1e9, deterministic_s=60.0)
CHUNKS = 8
EACH = 25


@pytest.fixture(autouse=True)
def _one_set_of_weights(monkeypatch):
    """The weighted mode's weights are whole thousandths in the code: the oracle is given the same ones."""

    def row_weight(round_: SharedRound, row: tuple[int, int, int]) -> float:
        problem, (part, tier, priority) = round_.problem, row
        index = (part * 4 + tier) * len(problem.priorities) + problem.priorities.index(-priority)
        return int(problem.row_weight_milli[index]) / 1000

    def aging(round_: SharedRound, job) -> float:
        return next(each.aging_milli for each in round_.problem.jobs if each.job.id == job.id) / 1000

    monkeypatch.setattr(tests.oracle.worth, "row_weight", row_weight)
    monkeypatch.setattr(tests.oracle.worth, "aging", aging)


def rounds(chunk: int):
    """Some tiny rounds, every second one with holds: (seed, problem, the oracle's round)."""
    for seed in range(chunk * EACH, (chunk + 1) * EACH):
        problem, round_ = both(tiny_round(seed))
        if not agreed(problem, round_):
            continue
        if seed % 2:
            round_.holds = tuple(tiny_holds(seed, round_))
            problem = with_holds(problem, round_)
        yield seed, problem, round_


def with_holds(problem: Problem, round_: SharedRound) -> Problem:
    """The problem with the oracle's holds."""
    index = {str(each.job.id): each.index for each in problem.jobs}
    holds = tuple(
        Hold(
            name=str(hold.unless),
            unless=None if hold.unless is None else index[hold.unless],
            gpus={problem.tree.node_index[name]: gpus for name, gpus in hold.gpus.items()},
            binds=frozenset(index[name] for name in hold.binds),
            until_s=round(min(problem.profile.horizon_s, max(0.0, hold.shadow_at - problem.snapshot.now))),
        )
        for hold in round_.holds
    )
    return dataclasses.replace(problem, holds=holds)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_exact_model_finds_the_best_plan_and_proves_it(chunk):
    """Valid for checker and oracle, with the brute force's best score, in the mode of the round."""
    for seed, problem, round_ in rounds(chunk):
        result = ExactSolver().solve(problem, NO_CHANGE, ENOUGH, StoppedClock())
        plan = plan_of(problem, result.assignment)
        assert check(problem, result.assignment) == [], seed
        assert broken_rules(round_, plan) == [], seed
        assert score_of(round_, plan) == best_plans(round_).score, (seed, plan)
        assert result.proven, seed


@pytest.mark.parametrize(
    ("seed", "about"),
    [
        (529, "a node outside a level, inside a narrower one"),
        (601, "two of them in one rack"),
        (587, "an elastic job on one node that takes nothing new"),
        (590, "an emergency that is served by a move"),
        (1881, "a move that pays needs another one that does not"),
        (2250, "moves to another GPU type"),
        (3046, "growth that waits for a checkpoint, of a job that could also move"),
        (3602, "an emergency on a node that two protected jobs can leave"),
    ],
)
def test_the_exact_model_gets_rare_rounds_right(seed, about):
    """Rounds of which few are drawn at random."""
    problem, round_ = both(tiny_round(seed))
    result = ExactSolver().solve(problem, NO_CHANGE, ENOUGH, StoppedClock())
    assert check(problem, result.assignment) == [], about
    assert score_of(round_, plan_of(problem, result.assignment)) == best_plans(round_).score, about


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_score_is_the_oracles_score(chunk):
    """Rows, who stays, who is older, the bill and the weighted sum of the greedy plan and of changing nothing."""
    for seed, problem, round_ in rounds(chunk):
        for assignment in (NO_CHANGE, greedy(problem)):
            mine, theirs = score(problem, assignment), score_of(round_, plan_of(problem, assignment))
            assert rows_of(problem, mine) == {row: gpus for row, gpus in theirs.rows.items() if gpus}, seed
            assert (mine.stay_gpus, mine.age) == (theirs.stays, theirs.older), seed
            assert mine.costs.total == theirs.total_bill, seed
            if problem.profile.priority_mode is PriorityMode.WEIGHTED:
                assert mine.weighted / 1000 == pytest.approx(theirs.key[0], abs=0.01), seed


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_checker_and_oracle_agree_on_what_is_a_plan(chunk):
    """Thirty random plans of every round, half of them with a GPU moved, added or dropped: refused by both or by
    neither.
    """
    refused = accepted = 0
    for seed, problem, round_ in rounds(chunk):
        rng = random.Random(seed)
        for _ in range(30):
            plan = random_plan(round_, rng)
            rules, faults = broken_rules(round_, plan), check(problem, assignment_of(problem, plan))
            assert bool(rules) == bool(faults), (seed, plan, rules, faults)
            refused, accepted = refused + bool(rules), accepted + (not rules)
    assert refused > 100
    assert accepted > 30


def random_plan(round_: SharedRound, rng: random.Random) -> Plan:
    """A plan of which each job alone may do its part, then mutated as often as not."""
    placements: dict[str, dict[str, int]] = {}
    stopped = set()
    for job in round_.snapshot.jobs:
        choices = options(round_, job)
        still = [each for each in choices if each.outcome[0] in ("keep", "queued")]
        choice = rng.choice(choices) if rng.random() < 0.5 else still[0]
        if choice.placements:
            placements[job.id] = dict(rng.choice(choice.placements))
        elif choice.outcome[0] == "stop":
            stopped.add(job.id)
    if placements and rng.random() < 0.5:
        name = rng.choice(sorted(placements))
        where = placements[name]
        here, there, draw = rng.choice(sorted(where)), rng.choice(sorted(round_.nodes)), rng.random()
        if draw < 0.4:
            where[here] -= 1
        if draw < 0.7:
            where[there] = where.get(there, 0) + 1
        elif len(where) > 1:
            del where[here]
        placements[name] = {node: gpus for node, gpus in where.items() if gpus}
        if not placements[name] or placements[name] == round_.before.get(name):
            del placements[name]
    if rng.random() < 0.1:
        others = [job.id for job in round_.running if job.id not in placements]
        stopped.update(rng.sample(others, min(1, len(others))))
    return Plan(placements, frozenset(stopped))
