"""Coarse to fine: admission first (who starts, who makes way), places after. Bounds are admission's.

Admission is solved rank by rank, each fixed before the next, then for who stays and who is older, then for the bill.
The fine stage places what was admitted; where something finds no place, what is left to gain is bounded anew.
"""

from __future__ import annotations

import dataclasses

from optsched.clock import Clock
from optsched.rounds.assignment import Assignment
from optsched.rounds.check import check
from optsched.rounds.problem import Problem
from optsched.rounds.score import Score, score
from optsched.solve.attempts import Attempts, Guard, placing_s
from optsched.solve.bounds import Bounds
from optsched.solve.cpsat.admission import Admission
from optsched.solve.cpsat.decisions import Scope, full_scope
from optsched.solve.cpsat.recorded import goal_of
from optsched.solve.cpsat.stages import Stages, known
from optsched.solve.exact import ExactSolver, per_row
from optsched.solve.goals import Goals, admit, reached_by, tie_value
from optsched.solve.neighbourhood import Neighbourhoods
from optsched.solve.result import Budget, Result, Spent
from optsched.values.profile import PriorityMode

ADMISSION_SHARE = 0.8
"""The most of the budget for admission; the rest is for places, two placings at least, and bounds."""

EXACT_NODES = 64
"""Up to this many nodes one exact model of the whole round follows, for what admission leaves open."""

EXACT_SHARE = 0.9
"""The share of what is then left of the budget for it."""

BRIEF_SHARE = 0.3
"""Where rounds follow one another closely one takes at most this share of its budget: what it misses the next finds."""


class CoarseSolver:
    """Solves rounds that are too large for one exact model. A plan that `guard` objects to is placed otherwise."""

    def __init__(self, guard: Guard | None = None) -> None:
        self._guard = guard

    def solve(self, problem: Problem, hint: Assignment, budget: Budget, clock: Clock) -> Result:
        """Return the better of the hint and the placed admission, with admission's bounds."""
        if len(problem.nodes.capacity) <= EXACT_NODES:
            budget = dataclasses.replace(budget, turn=None, bounds=True)
        if budget.turn is not None:
            budget = dataclasses.replace(budget, wall_s=budget.wall_s * BRIEF_SHARE)
        spent = Spent(budget, clock)
        scope = full_scope(problem)
        admission = Admission(problem, scope)
        if problem.profile.priority_mode is PriorityMode.WEIGHTED:
            return _weighted(problem, admission, hint, spent)
        placing = placing_s(problem, sum(not problem.jobs[j].running for j in hint.changed))
        share_s = max(spent.wall_left_s / 2, min(spent.wall_left_s * ADMISSION_SHARE, spent.wall_left_s - 2 * placing))
        share = dataclasses.replace(budget, wall_s=share_s)
        stages = Stages(admission.unstaged, Spent(share, clock), lean=True)
        goals = admit(problem, admission, stages, hint, brief=budget.turn is not None)
        spent.deterministic_s += stages.spent.deterministic_s
        plan = hint
        if stages.solution is not None:
            parts = _parts(problem, scope, spent)
            plan = Attempts(problem, admission, stages, goals, hint, spent, parts, self._guard).run()
        if not budget.bounds:
            proven = _is_best(problem, goals, score(problem, plan))
            return Result(plan, proven=proven, deterministic_s=spent.deterministic_s)
        if len(problem.nodes.capacity) > EXACT_NODES:
            return _bounded(problem, admission, goals, plan, spent)
        return _refined(problem, admission, goals, plan, spent)


def _parts(problem: Problem, scope: Scope, spent: Spent) -> Neighbourhoods | None:
    """Return the means to search a few nodes at a time, for large rounds that have the time."""
    if spent.budget.turn is not None or len(problem.nodes.capacity) <= EXACT_NODES:
        return None
    return Neighbourhoods(problem, scope, spent)


def _refined(problem: Problem, admission: Admission, goals: Goals, plan: Assignment, spent: Spent) -> Result:
    """Search for a better plan yet with one exact model of the whole round, where it is small enough for that."""
    worth = score(problem, plan)
    if goals.tie is not None and _is_best(problem, goals, worth):
        return _bounded(problem, admission, goals, plan, spent)
    exact = ExactSolver().solve(problem, plan, _rest(spent), spent.clock)
    spent.deterministic_s += exact.deterministic_s
    if exact.proven:
        return dataclasses.replace(exact, deterministic_s=spent.deterministic_s)
    mode = problem.profile.priority_mode
    better = not check(problem, exact.assignment) and score(problem, exact.assignment).key(mode) > worth.key(mode)
    result = _bounded(problem, admission, goals, exact.assignment if better else plan, spent)
    return dataclasses.replace(result, row_bounds=_tighter(problem, result, exact))


def _tighter(problem: Problem, result: Result, exact: Result) -> tuple[int | None, ...]:
    """Return the better of two bounds for every rank above which both plans run the same."""
    mine, theirs = score(problem, result.assignment).rows, score(problem, exact.assignment).rows
    bounds = list(result.row_bounds)
    for row, (one, other) in enumerate(zip(result.row_bounds, exact.row_bounds, strict=False)):
        if mine[:row] != theirs[:row]:
            break
        known_bounds = [bound for bound in (one, other) if bound is not None]
        bounds[row] = max(mine[row], min(known_bounds)) if known_bounds else None
    return tuple(bounds)


def _rest(spent: Spent) -> Budget:
    """Return what of the budget is for the exact model."""
    return dataclasses.replace(
        spent.budget, wall_s=spent.wall_left_s * EXACT_SHARE, deterministic_s=spent.deterministic_left_s
    )


def _is_best(problem: Problem, goals: Goals, worth: Score) -> bool:
    """Return whether a plan is proven to be the best."""
    return (
        goals.tie is not None
        and goals.tie.bound == tie_value(problem, worth)
        and [result.bound for result in goals.ranks] == reached_by(problem, worth)
        and goals.bill_bound is not None
        and worth.costs.total <= goals.bill_bound
    )


def _bounded(problem: Problem, admission: Admission, goals: Goals, plan: Assignment, spent: Spent) -> Result:
    """Bound every rank with the higher ranks at what the plan achieves, then the bill.

    Admission's own bounds hold down to the first rank that the plan misses. What is open below is bounded anew, all at
    once: what the plan achieves is known, so no bound waits for another.
    """
    worth = score(problem, plan)
    found = Bounds(problem, admission, plan, worth, brief=spent.budget.turn is not None)
    found.bound_sums(goals)
    as_admitted = goals.tie is not None and found.reached == goals.values()
    if as_admitted and goals.tie is not None and goals.tie.value == found.tie and goals.bill_bound is not None:
        found.bill = max(found.bill, goals.bill_bound)
    if worth.costs.total > found.bill:
        found.bound_bill(spent)
    found.search(spent)
    rows = per_row(problem, plan, [*found.sums], len(problem.priorities))
    closed = all(bound == gpus for bound, gpus in zip(rows, worth.rows, strict=True))
    tie_closed = as_admitted and goals.tie is not None and goals.tie.bound == found.tie
    return Result(
        assignment=plan,
        row_bounds=rows,
        bill_bound=found.bill,
        proven=closed and tie_closed and found.bill >= worth.costs.total,
        deterministic_s=spent.deterministic_s,
    )


def _weighted(problem: Problem, admission: Admission, hint: Assignment, spent: Spent) -> Result:
    """Solve the one sum of the weighted mode on admission, then place it."""
    share = dataclasses.replace(spent.budget, wall_s=spent.wall_left_s * ADMISSION_SHARE)
    stages = Stages(admission.model, Spent(share, spent.clock), lean=True)
    goal = admission.worth()
    result = stages.maximize(goal, 1.0)
    spent.deterministic_s += stages.spent.deterministic_s
    plan, bound = hint, known(result.bound)
    if bound is None:
        bound = admission.relaxation(facts=True).most(goal_of(goal))
    if stages.solution is not None:
        plan = Attempts(problem, admission, stages, Goals((), None, None), hint, spent).run()
    if len(problem.nodes.capacity) > EXACT_NODES or score(problem, plan).weighted == bound:
        return Result(plan, weighted_bound=bound, deterministic_s=spent.deterministic_s)
    exact = ExactSolver().solve(problem, plan, _rest(spent), spent.clock)
    bounds = [each for each in (bound, exact.weighted_bound) if each is not None]
    return dataclasses.replace(exact, weighted_bound=min(bounds, default=None))
