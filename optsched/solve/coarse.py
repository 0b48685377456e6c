"""Coarse to fine: admission first (who starts, who makes way), places after. Bounds are admission's.

Admission is solved rank by rank, each fixed before the next, then for who stays and who is older, then for the bill.
The fine stage places what was admitted; where something finds no place, what is left to gain is bounded anew.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ortools.sat.python.cp_model import BoundedLinearExpression, CpModel

from optsched.clock import Clock
from optsched.rounds.assignment import Assignment
from optsched.rounds.check import check
from optsched.rounds.problem import Problem
from optsched.rounds.score import Score, least_bill, score
from optsched.solve.cpsat import objective
from optsched.solve.cpsat.admission import Admission
from optsched.solve.cpsat.decisions import full_scope
from optsched.solve.cpsat.relaxed import Relaxation
from optsched.solve.cpsat.stages import Ask, StageResult, Stages, fixed_model, known, solve_all
from optsched.solve.exact import ExactSolver, most_gpus, per_row, stage_rows, through
from optsched.solve.fine import STYLES, place
from optsched.solve.result import Budget, Result, Spent
from optsched.values.profile import PriorityMode

RANK_SHARE = 0.5
"""The share of what is left of the budget that one search for ranks may use."""

ADMISSION_SHARE = 0.8
"""The most of the budget for admission; the rest is for places, two placings at least, and bounds."""

EXACT_NODES = 64
"""Up to this many nodes one exact model of the whole round follows, for what admission leaves open."""

EXACT_SHARE = 0.9
"""The share of what is then left of the budget for it."""

MOST_ADMISSIONS = 20
"""How many admissions alike are tried."""

BILL_SLACK = 5000
"""In rounds with more nodes than that, this part of what all GPUs are worth may stay open of admission's bill."""

PLACE_S, MOST_PLACE_S = 7e-7, 3.0
"""About how long one placing takes at worst, in seconds for each start and node, and at most: none is begun without."""

PLACES_SHARE = 0.22
"""The share of what is left after admission, after which no further placing is begun; the rest is for bounds."""


@dataclass(frozen=True, slots=True)
class Goals:
    """What admission reached and proved: stages' sums with their bounds, then the tie, and the bill's bound.

    Where time ran out there are fewer stages, and no tie.
    """

    ranks: tuple[StageResult, ...]
    tie: StageResult | None
    bill_bound: int | None

    def values(self) -> list[int]:
        """Return the values of the stages."""
        return [result.value or 0 for result in self.ranks]


class CoarseSolver:
    """Solves rounds that are too large for one exact model."""

    def solve(self, problem: Problem, hint: Assignment, budget: Budget, clock: Clock) -> Result:
        """Return the better of the hint and the placed admission, with admission's bounds."""
        spent = Spent(budget, clock)
        admission = Admission(problem, full_scope(problem))
        if problem.profile.priority_mode is PriorityMode.WEIGHTED:
            return _weighted(problem, admission, hint, spent)
        placing_s = _placing_s(problem, sum(not problem.jobs[j].running for j in hint.changed))
        share_s = max(
            spent.wall_left_s / 2, min(spent.wall_left_s * ADMISSION_SHARE, spent.wall_left_s - 2 * placing_s)
        )
        share = dataclasses.replace(budget, wall_s=share_s)
        stages = Stages(admission.unpriced(), Spent(share, clock), lean=True)
        goals = _admit(problem, admission, stages)
        spent.deterministic_s += stages.spent.deterministic_s
        plan = hint
        if stages.solution is not None:
            plan = _placed(problem, admission, stages, goals, hint, spent)
        if len(problem.nodes.capacity) > EXACT_NODES:
            return _bounded(problem, admission, goals, plan, spent)
        return _refined(problem, admission, goals, plan, spent)


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


def _admit(problem: Problem, admission: Admission, stages: Stages) -> Goals:
    """Solve admission's stages as far as the budget goes."""
    priorities = len(problem.priorities)
    goals = [admission.ladder.stage(row, priorities) for row in stage_rows(problem)]
    ranks = stages.maximize_in_order(goals, most_gpus(problem), RANK_SHARE)
    if len(ranks) < len(goals):
        return Goals(tuple(ranks), None, None)
    stages.model = fixed_model(
        admission.model, [goal >= rank.value for goal, rank in zip(goals, ranks, strict=True) if rank.value is not None]
    )
    tie_goal = admission.tie()
    tie = stages.maximize(tie_goal, RANK_SHARE)
    if tie.value is None:
        return Goals(tuple(ranks), None, None)
    if not isinstance(tie_goal, int):
        admission.model.add(tie_goal >= tie.value)
    bill = stages.minimize(admission.bill(), 1.0, _bill_slack(problem))
    return Goals(tuple(ranks), tie, max(least_bill(problem), bill.bound))


def _bill_slack(problem: Problem) -> int:
    """Return how much of the bill may stay open in large rounds: the last of it takes longer than all ranks."""
    if len(problem.nodes.capacity) <= EXACT_NODES:
        return 0
    return int(problem.nodes.capacity.sum()) * problem.horizon_s // BILL_SLACK


def _placed(
    problem: Problem, admission: Admission, stages: Stages, goals: Goals, hint: Assignment, spent: Spent
) -> Assignment:
    """Return the best valid plan of several styles of placing and several admissions, the hint among them.

    Admissions as good as the first differ in which of the jobs alike they stop, and for whom. Nothing more is tried
    once a plan is about as good as its bounds, nor once the time for places is up.
    """
    mode = problem.profile.priority_mode
    best, worth = hint, score(problem, hint)
    until_s = spent.wall_left_s * (1.0 - PLACES_SHARE)
    for attempt in range(MOST_ADMISSIONS):
        if attempt and (
            goals.tie is None or stages.minimize_anew(admission.bill(), 1.0, _bill_slack(problem)).value is None
        ):
            break
        admitted = admission.decode(stages.value)
        for style in STYLES:
            if spent.wall_left_s < _placing_s(problem, len(admitted.starts)):
                return best
            found = place(problem, admitted, style)
            if found is not None and not check(problem, found):
                found_worth = score(problem, found)
                if found_worth.key(mode) > worth.key(mode):
                    best, worth = found, found_worth
            if _best_possible(problem, goals, worth) or spent.wall_left_s < until_s:
                return best
    return best


def _placing_s(problem: Problem, starts: int) -> float:
    """Return about how many seconds one placing of so many starts takes at worst."""
    return min(MOST_PLACE_S, PLACE_S * len(problem.nodes.capacity) * starts)


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
        and [result.bound for result in goals.ranks] == _reached(problem, worth)
        and goals.bill_bound is not None
        and worth.costs.total <= goals.bill_bound
    )


def _best_possible(problem: Problem, goals: Goals, worth: Score) -> bool:
    """Return whether a plan does all that admission does, its bill within half a thousandth of the run value."""
    if goals.tie is None or goals.bill_bound is None or _reached(problem, worth) != goals.values():
        return False
    slack = worth.run_gpus * problem.horizon_s // 1000
    return tie_value(problem, worth) == goals.tie.value and worth.costs.total <= goals.bill_bound + slack // 2


def _bounded(problem: Problem, admission: Admission, goals: Goals, plan: Assignment, spent: Spent) -> Result:
    """Bound every rank with the higher ranks at what the plan achieves, then the bill.

    Admission's own bounds hold down to the first rank that the plan misses. What is open below is bounded anew, all at
    once: what the plan achieves is known, so no bound waits for another.
    """
    worth = score(problem, plan)
    reached, tie = _reached(problem, worth), tie_value(problem, worth)
    asks: list[Ask] = []
    bounds = _rank_bounds(problem, admission, goals, plan, reached, asks)
    as_admitted = goals.tie is not None and reached == goals.values()
    if as_admitted and goals.tie is not None and goals.tie.value == tie:
        bill_bound = goals.bill_bound
    else:
        bill_bound = None
        model = _bill_model(problem, admission, reached, tie)
        admission.hint(model, plan)
        bill_bound = max(least_bill(problem), -Relaxation(model).most(-1 * admission.bill()))
        asks.append(Ask(-1, model, admission.bill(), maximize=False))
    # What is most open is asked first.
    asks.sort(key=lambda ask: ask.key >= 0 and reached[ask.key] - bounds[ask.key])
    for position, result in solve_all(asks, spent):
        if position < 0:
            bill_bound = max(bill_bound or 0, result.bound)
        else:
            bounds[position] = max(reached[position], min(result.bound, bounds[position]))
    rows = per_row(problem, plan, bounds, len(problem.priorities))
    closed = all(bound == gpus for bound, gpus in zip(rows, worth.rows, strict=True))
    tie_closed = as_admitted and goals.tie is not None and goals.tie.bound == tie
    return Result(
        assignment=plan,
        row_bounds=rows,
        bill_bound=bill_bound,
        proven=closed and tie_closed and bill_bound is not None and bill_bound >= worth.costs.total,
        deterministic_s=spent.deterministic_s,
    )


def _rank_bounds(
    problem: Problem, admission: Admission, goals: Goals, plan: Assignment, reached: list[int], asks: list[Ask]
) -> list[int]:
    """Return bounds on the stages' sums, and add to `asks` what a search may still find to be lower."""
    bounds: list[int] = []
    fixed: dict[int, int] = {}
    above: list[BoundedLinearExpression | bool] = []
    most, met = most_gpus(problem), True
    relaxed: Relaxation | None = None
    for position, row in enumerate(stage_rows(problem)):
        goal, value = admission.ladder.stage(row, len(problem.priorities)), reached[position]
        if isinstance(goal, int) or fixed.get(id(goal)) == value or value >= most:
            bounds.append(value)
        elif met and position < len(goals.ranks):
            bounds.append(goals.ranks[position].bound)
            met = goals.ranks[position].value == value
        else:
            met = False
            relaxed = relaxed or _relaxed(admission, above)
            bounds.append(max(value, relaxed.most(goal)))
            if bounds[position] != value:
                model = fixed_model(admission.unpriced(bounding=True), above)
                admission.hint(model, plan)
                asks.append(Ask(position, model, goal, maximize=True))
        if not isinstance(goal, int) and fixed.get(id(goal)) != value:
            fixed[id(goal)] = value
            above.append(goal == value)
            if relaxed is not None:
                relaxed.fix(goal, value)
    return bounds


def _relaxed(admission: Admission, above: list[BoundedLinearExpression | bool]) -> Relaxation:
    """Return the linear relaxation of admission with the ranks above fixed."""
    return Relaxation(fixed_model(admission.unpriced(bounding=True), above))


def _bill_model(problem: Problem, admission: Admission, reached: list[int], tie: int) -> CpModel:
    """Return admission with these ranks, that keeps and starts as much."""
    model = admission.unstaged()
    for row, value in zip(stage_rows(problem), reached, strict=True):
        goal = admission.ladder.stage(row, len(problem.priorities))
        if not isinstance(goal, int):
            model.add(goal == value)
    goal = admission.tie()
    if not isinstance(goal, int):
        model.add(goal >= tie)
    return model


def _reached(problem: Problem, worth: Score) -> list[int]:
    """Return the stages' sums of a score."""
    return [through(worth.rows, row, len(problem.priorities)) for row in stage_rows(problem)]


def tie_value(problem: Problem, worth: Score) -> int:
    """Return what decides between plans of equal ranks: who stays, then who is older, as one number."""
    stopped = sum(job.size_now for job in problem.running) - worth.stay_gpus
    return worth.age - objective.age_scale(problem) * stopped


def _weighted(problem: Problem, admission: Admission, hint: Assignment, spent: Spent) -> Result:
    """Solve the one sum of the weighted mode on admission, then place it."""
    share = dataclasses.replace(spent.budget, wall_s=spent.wall_left_s * ADMISSION_SHARE)
    stages = Stages(admission.model, Spent(share, spent.clock), lean=True)
    goal = admission.worth()
    result = stages.maximize(goal, 1.0)
    spent.deterministic_s += stages.spent.deterministic_s
    plan, bound = hint, known(result.bound)
    if bound is None:
        bound = Relaxation(fixed_model(admission.model.clone(), admission.facts)).most(goal)
    if stages.solution is not None:
        plan = _placed(problem, admission, stages, Goals((), None, None), hint, spent)
    if len(problem.nodes.capacity) > EXACT_NODES or score(problem, plan).weighted == bound:
        return Result(plan, weighted_bound=bound, deterministic_s=spent.deterministic_s)
    exact = ExactSolver().solve(problem, plan, _rest(spent), spent.clock)
    bounds = [each for each in (bound, exact.weighted_bound) if each is not None]
    return dataclasses.replace(exact, weighted_bound=min(bounds, default=None))
