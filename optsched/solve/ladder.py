"""The ladder: greedy first, then a search from there.

The better checked plan goes out, labelled with the rung it came from.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from optsched.clock import Clock
from optsched.errors import InternalError
from optsched.rounds.assignment import NO_CHANGE, Assignment
from optsched.rounds.check import check
from optsched.rounds.line import row_gpus
from optsched.rounds.problem import Problem
from optsched.rounds.score import Score, score
from optsched.solve.attempts import Guard
from optsched.solve.coarse import CoarseSolver
from optsched.solve.exact import ExactSolver
from optsched.solve.greedy import greedy
from optsched.solve.result import Budget, Result, Solver
from optsched.values.plan import Source
from optsched.values.profile import PriorityMode


class SolverChoice(enum.Enum):
    """Which solver a caller asks for."""

    AUTO = "auto"
    """What suits any size: coarse to fine, and in small rounds the exact model after."""
    COARSE = "coarse"
    """Admission first, places after; what auto does."""
    EXACT = "exact"
    """One model of the whole round."""
    GREEDY = "greedy"
    """No search."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The plan that goes out, its score, and which rung gave it and why."""

    assignment: Assignment
    score: Score
    result: Result
    source: Source
    why: str


def climb(
    problem: Problem,
    choice: SolverChoice,
    budget: Budget,
    clock: Clock,
    progress: Callable[[str, float], None] = lambda stage, fraction: None,
    base: Assignment | None = None,
    guard: Guard | None = None,
) -> Answer:
    """Return the best checked plan within the budget. Never worse than greedy, never an invalid plan.

    `base` is a greedy plan that is known already and, if the checker agrees, stands in for greedy's own. Of the plans
    of a coarse search only one is taken that `guard` does not object to.
    """
    progress("greedy plan", 0.0)
    base, base_score, source, why = _base(problem, base)
    answer = Answer(base, base_score, Result(base), source, why)
    solver = _solver(choice, guard)
    if solver is None or budget.wall_s <= 0 or budget.deterministic_s == 0:
        return answer
    progress("searching", 0.2)
    try:
        result = solver.solve(problem, base, budget, clock)
    except InternalError as error:
        return Answer(base, base_score, Result(base), source, f"the search failed ({error}); {why}")
    broken = check(problem, result.assignment)
    if broken:
        return Answer(
            base, base_score, Result(base), source, f"the checker refused the search's plan ({broken[0]}); {why}"
        )
    found = score(problem, result.assignment)
    mode = problem.profile.priority_mode
    if found.key(mode) >= base_score.key(mode):
        note = "no better plan exists" if result.proven else result.note or "best found within the budget"
        better = result.proven or found.key(mode) > base_score.key(mode)
        return Answer(result.assignment, found, result, Source.CP_SAT if better else source, note)
    kept = Result(base, weighted_bound=result.weighted_bound, deterministic_s=result.deterministic_s)
    return Answer(base, base_score, kept, source, "the search found nothing better within the budget")


def _base(problem: Problem, known: Assignment | None = None) -> tuple[Assignment, Score, Source, str]:
    """Return the greedy plan, or the plan that changes nothing if the checker refuses it or it is no better.

    With it comes its score.
    """
    assignment = greedy(problem) if known is None else known
    broken = check(problem, assignment)
    if broken and known is not None:
        return _base(problem)
    if broken:
        why = f"the checker refused the greedy plan: {broken[0]}"
        return NO_CHANGE, score(problem, NO_CHANGE), Source.NO_CHANGE, why
    found = score(problem, assignment)
    if _worse_than_nothing(problem, assignment, found):
        why = "the greedy plan was no better than changing nothing"
        return NO_CHANGE, score(problem, NO_CHANGE), Source.NO_CHANGE, why
    return assignment, found, Source.GREEDY, "greedy plan"


def _worse_than_nothing(problem: Problem, assignment: Assignment, found: Score) -> bool:
    """Return whether a plan with this score is worse than the plan that changes nothing."""
    mode = problem.profile.priority_mode
    if assignment == NO_CHANGE:
        return False
    if mode is PriorityMode.STRICT:
        # More along a line takes no GPU out of a rank without one more in a rank before it.
        if not assignment.stopped and all(j >= problem.first_queued for j in assignment.changed):
            return False
        rows = tuple(row_gpus(problem.lines, problem.occupancy.used[0], problem.deadline_team).tolist())
        if found.rows != rows:
            return found.rows < rows
    return found.key(mode) < score(problem, NO_CHANGE).key(mode)


def _solver(choice: SolverChoice, guard: Guard | None) -> Solver | None:
    """Return the solver for the choice; None where greedy is all."""
    if choice is SolverChoice.GREEDY:
        return None
    return ExactSolver() if choice is SolverChoice.EXACT else CoarseSolver(guard)
