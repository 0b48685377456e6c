"""Coarse to fine: admission, victims and the split over cells first, placement inside the chosen cells after.

The bounds are the coarse model's.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from optsched.clock import Clock
from optsched.rounds.assignment import NO_CHANGE, Assignment
from optsched.rounds.check import check
from optsched.rounds.problem import UNLIMITED, Problem
from optsched.rounds.score import Score, least_bill, score
from optsched.solve.cpsat import objective
from optsched.solve.cpsat.coarse_model import CoarseModel
from optsched.solve.cpsat.decisions import Scope, full_scope, in_window
from optsched.solve.cpsat.stages import Stages, cannot, known
from optsched.solve.exact import ExactModel, most_gpus, per_row, stage_rows, through
from optsched.solve.result import Budget, Result, Spent
from optsched.values.profile import PriorityMode

FINE_NODES = 320
"""Up to this many nodes the fine plan is one exact model of what the coarse plan chose."""

RANK_SHARE = 0.5
"""The share of what is left of the budget that one search for coarse ranks may use."""

COARSE_SHARE = 0.6
"""The share of the budget for the coarse plan."""

LARGE = 16
"""Gangs of at least one part in so many of the cluster are asked first whether they can start at all."""

FINE_SHARE = 0.9
"""The share of what is then left for the fine plan; the rest is for bounds."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What the coarse plan chose.

    `scope` is the fine model's; `goals` and `bounds` are values and bounds of the stages, `tie` the tie's value,
    `tie_closed` whether it is the best there is with these ranks, `bill_bound` the bill's bound.
    """

    scope: Scope
    goals: tuple[int, ...]
    bounds: tuple[int, ...]
    tie: int | None
    tie_closed: bool
    bill_bound: int


class CoarseSolver:
    """Solves rounds that are too large for one exact model."""

    def solve(self, problem: Problem, hint: Assignment, budget: Budget, clock: Clock) -> Result:
        """Return the better of the hint and the fine plan, with the coarse model's bounds."""
        spent = Spent(budget, clock)
        scope = _without_hopeless(problem, full_scope(problem), budget)
        coarse = CoarseModel(problem, scope)
        if problem.profile.priority_mode is PriorityMode.WEIGHTED:
            return _weighted(problem, coarse, hint, spent)
        large = len(problem.nodes.capacity) > FINE_NODES
        choice = None if large else _choose(problem, coarse, spent)
        plan = hint
        if choice is not None:
            fine = _fine(problem, choice, hint, spent)
            plan = _better(problem, fine, hint)
        return _bounded(problem, scope, plan, choice, spent)


def _without_hopeless(problem: Problem, scope: Scope, budget: Budget) -> Scope:
    """Leave out large gangs that cannot start even if nothing else does, whoever makes way for them.

    Other starts only take room and victims, so a gang that cannot start alone starts in no plan: the bound stays a
    bound.
    """
    if len(problem.nodes.capacity) > FINE_NODES:
        return scope
    largest = int(problem.nodes.capacity.max(initial=0))
    large = [
        j
        for j in sorted(scope.starts)
        if problem.jobs[j].minimum * LARGE >= problem.healthy_gpus and problem.jobs[j].minimum > largest
    ]
    if not large:
        return scope
    # Alone it would have to pay for its victims alone: without the payment rule the question is the wider one.
    alone = CoarseModel(problem, dataclasses.replace(scope, starts=frozenset(large)), payment=False)
    starts = {j: gang.active for j, gang in alone.decisions.starts.items()}
    hopeless = {j for j in large if j not in starts or cannot(alone.model, j, starts, budget)}
    return dataclasses.replace(scope, starts=scope.starts - hopeless)


def _better(problem: Problem, first: Assignment, second: Assignment) -> Assignment:
    mode = problem.profile.priority_mode
    if check(problem, first):
        return second
    return first if score(problem, first).key(mode) >= score(problem, second).key(mode) else second


def _choose(problem: Problem, coarse: CoarseModel, spent: Spent) -> Choice | None:
    """Solve the coarse model rank by rank, then who stays and who is older, then the bill.

    None where time ran out before any solution.
    """
    share = dataclasses.replace(spent.budget, wall_s=spent.wall_left_s * COARSE_SHARE)
    stages = Stages(coarse.model, Spent(share, spent.clock))
    priorities = len(problem.priorities)
    goals = [coarse.ladder.stage(row, priorities) for row in stage_rows(problem)]
    most = most_gpus(problem)
    results = stages.maximize_in_order(goals, most, RANK_SHARE)
    if stages.solution is None:
        return None
    tie_goal = objective.tie(problem, coarse.decisions)
    tie = stages.maximize(tie_goal, RANK_SHARE)
    if tie.value is not None and not isinstance(tie_goal, int):
        coarse.model.add(tie_goal >= tie.value)
    # The bill last: it also keeps the fine model small, for a move that gains nothing costs something.
    bill = stages.minimize(coarse.bill, 1.0)
    spent.deterministic_s += stages.spent.deterministic_s
    return Choice(
        scope=_scope_of(problem, coarse, stages),
        goals=tuple(result.value for result in results if result.value is not None),
        bounds=tuple(result.bound for result in results if result.value is not None),
        tie=tie.value,
        tie_closed=tie.optimal,
        bill_bound=max(least_bill(problem), bill.bound),
    )


def _scope_of(problem: Problem, coarse: CoarseModel, stages: Stages) -> Scope:
    """Return what the coarse solution does, as a scope: those jobs, and gangs only in their cells."""
    decisions = coarse.decisions
    starts = frozenset(j for j, gang in decisions.starts.items() if stages.value(gang.active))
    within = {}
    for j in starts & coarse.split.keys():
        used = [c for c, units in coarse.split[j].items() if stages.value(units)]
        within[j] = np.isin(coarse.cells.cell_of, used)
    return Scope(
        starts=starts,
        stops=frozenset(j for j, stop in decisions.stops.items() if stages.value(stop)),
        moves=frozenset(j for j, gang in decisions.moves.items() if stages.value(gang.active)),
        resizes=frozenset(j for j, gang in decisions.resizes.items() if stages.value(gang.active)),
        within=within,
    )


def _fine(problem: Problem, choice: Choice, hint: Assignment, spent: Spent) -> Assignment:
    """Place what the coarse plan chose, exactly where that is affordable."""
    share = dataclasses.replace(spent.budget, wall_s=spent.wall_left_s * FINE_SHARE)
    part = Spent(share, spent.clock)
    model = ExactModel(problem, in_window(problem, choice.scope))
    model.hint(NO_CHANGE)
    ceiling = (*choice.goals, *([] if choice.tie is None else [choice.tie]))
    if _reached(problem, score(problem, NO_CHANGE)) > list(choice.goals):
        ceiling = ()  # The coarse search was cut short before it found as much as runs now.
    result = model.solve_strict(NO_CHANGE, part, ceiling)
    spent.deterministic_s += part.deterministic_s
    return result.assignment


def _bounded(problem: Problem, scope: Scope, plan: Assignment, choice: Choice | None, spent: Spent) -> Result:
    """Bound every rank with the higher ranks at what the plan achieves, then the bill.

    Where the plan does all that the coarse plan did, the coarse bounds are the answer; else what is left is bounded
    anew.
    """
    worth = score(problem, plan)
    reached = _reached(problem, worth)
    tie_closed: bool
    bill_bound: int
    if choice is not None and reached == list(choice.goals) and choice.tie == tie_value(problem, worth):
        bounds: list[int | None] = list(choice.bounds)
        bill_bound, tie_closed = choice.bill_bound, choice.tie_closed
    else:
        bounds, bill_bound, tie_closed = _bound_anew(problem, scope, worth, choice, spent)
    row_bounds = per_row(problem, plan, bounds, len(problem.priorities))
    closed = all(bound == gpus for bound, gpus in zip(row_bounds, worth.rows, strict=True))
    return Result(
        assignment=plan,
        row_bounds=row_bounds,
        bill_bound=bill_bound,
        proven=closed and tie_closed and bill_bound is not None and bill_bound >= worth.costs.total,
        deterministic_s=spent.deterministic_s,
    )


def _bound_anew(
    problem: Problem, scope: Scope, worth: Score, choice: Choice | None, spent: Spent
) -> tuple[list[int | None], int, bool]:
    """Return bounds on the stages' sums and on the bill, and whether the tie is closed.

    They hold for plans that are no worse than the plan at every rank above.
    """
    priorities = len(problem.priorities)
    reached = _reached(problem, worth)
    coarse = CoarseModel(problem, scope)
    stages = Stages(coarse.model, spent)
    bounds: list[int | None] = []
    met = choice is not None
    for position, row in enumerate(stage_rows(problem)):
        goal = coarse.ladder.stage(row, priorities)
        if met and choice is not None and position < len(choice.bounds):
            bound = choice.bounds[position]
            met = choice.goals[position] == reached[position]
        else:
            bound = stages.maximize(goal, RANK_SHARE).bound
        bounds.append(bound if bound < UNLIMITED else None)
        if not isinstance(goal, int):
            coarse.model.add(goal >= reached[position])
    tie_closed = False
    if bounds == reached:
        tie, goal = tie_value(problem, worth), objective.tie(problem, coarse.decisions)
        tie_closed = stages.maximize(goal, RANK_SHARE).bound == tie
        if tie_closed and not isinstance(goal, int):
            coarse.model.add(goal >= tie)
    return bounds, max(least_bill(problem), stages.minimize(coarse.bill, 1.0).bound), tie_closed


def _reached(problem: Problem, worth: Score) -> list[int]:
    """Return the stages' sums of a score."""
    return [through(worth.rows, row, len(problem.priorities)) for row in stage_rows(problem)]


def tie_value(problem: Problem, worth: Score) -> int:
    """Return what decides between plans of equal ranks: who stays, then who is older, as one number."""
    stopped = sum(job.size_now for job in problem.running) - worth.stay_gpus
    return worth.age - objective.age_scale(problem) * stopped


def _weighted(problem: Problem, coarse: CoarseModel, hint: Assignment, spent: Spent) -> Result:
    """Solve the one sum of the weighted mode on the coarse model, then place it."""
    share = dataclasses.replace(spent.budget, wall_s=spent.wall_left_s * COARSE_SHARE)
    stages = Stages(coarse.model, Spent(share, spent.clock))
    result = stages.maximize(objective.worth(problem, coarse.decisions, coarse.ladder, coarse.bill), 1.0)
    spent.deterministic_s += stages.spent.deterministic_s
    plan = hint
    if stages.solution is not None and len(problem.nodes.capacity) <= FINE_NODES:
        model = ExactModel(problem, in_window(problem, _scope_of(problem, coarse, stages)))
        plan = _better(problem, model.solve_weighted(NO_CHANGE, spent).assignment, hint)
    return Result(plan, weighted_bound=known(result.bound), deterministic_s=spent.deterministic_s)
