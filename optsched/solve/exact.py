"""The exact solver: one CP-SAT model of the whole round, in stages (strict) or as one sum (weighted)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ortools.sat.python.cp_model import CpModel

from optsched.clock import Clock
from optsched.errors import SolverFailed
from optsched.rounds.assignment import Assignment
from optsched.rounds.problem import Problem
from optsched.rounds.score import least_bill, score
from optsched.solve.cpsat import objective
from optsched.solve.cpsat.claims import Claims
from optsched.solve.cpsat.constraints import (
    Pairs,
    add_ceilings,
    add_floors,
    add_grants,
    add_holds,
    add_needs,
    add_payment,
    add_stop_limit,
)
from optsched.solve.cpsat.decisions import Decisions, Scope, add_decisions, full_scope, in_window
from optsched.solve.cpsat.flows import Flows, add_flows
from optsched.solve.cpsat.hints import add_hint, assignment_of
from optsched.solve.cpsat.stages import StageResult, Stages, known
from optsched.solve.cpsat.symmetry import order_equal_jobs
from optsched.solve.cpsat.terms import Linear
from optsched.solve.result import Budget, Result, Spent
from optsched.values.profile import PriorityMode

RANK_SHARE = 0.5
"""The share of what is left of the budget that one rank may use; the bill comes last and gets all that remains."""


class ExactSolver:
    """Solves the round as a whole; meant for up to about 64 nodes, and what every other solver is held against."""

    def __init__(self, scope: Callable[[Problem], Scope] = full_scope) -> None:
        self._scope = scope

    def solve(self, problem: Problem, hint: Assignment, budget: Budget, clock: Clock) -> Result:
        """Return the best assignment found, at worst the hint; with bounds where the whole queue was in the window."""
        spent = Spent(budget, clock)
        scope = self._scope(problem)
        window = in_window(problem, scope)
        model = ExactModel(problem, window)
        model.hint(hint)
        weighted = problem.profile.priority_mode is PriorityMode.WEIGHTED
        result = model.solve_weighted(hint, spent) if weighted else model.solve_strict(hint, spent)
        if window == scope:
            return result
        note = "the search looked at the window only, so nothing is proven about the rest of the queue"
        return Result(result.assignment, deterministic_s=result.deterministic_s, note=note)


class ExactModel:
    """The CP-SAT model of a round."""

    def __init__(self, problem: Problem, scope: Scope) -> None:
        self.problem = problem
        self.model = CpModel()
        self.decisions: Decisions = add_decisions(problem, self.model, scope)
        self.claims = Claims(problem, self.decisions)
        self.flows: Flows = add_flows(problem, self.decisions, self.claims)
        self.pairs = Pairs(problem, self.decisions, self.claims, self.flows)
        add_ceilings(problem, self.decisions, self.claims)
        add_stop_limit(problem, self.decisions)
        add_needs(problem, self.decisions, self.pairs)
        add_floors(problem, self.decisions, self.claims, self.pairs)
        add_payment(problem, self.decisions, self.pairs)
        add_holds(problem, self.decisions, self.flows)
        add_grants(problem, self.decisions, self.flows)
        order_equal_jobs(problem, self.decisions)
        self.ladder = objective.add_ladder(problem, self.decisions, self.claims)
        self.bill = objective.bill(problem, self.decisions, self.pairs, self.flows)

    def hint(self, assignment: Assignment) -> None:
        """Start the search from an assignment."""
        add_hint(self.decisions, assignment)

    def solve_strict(self, hint: Assignment, spent: Spent, ceiling: Sequence[int] = ()) -> Result:
        """Solve rank by rank, then who stays and who is older, then the bill.

        `ceiling` gives, stage by stage (and for the tie last), what need not be exceeded: a search stops where it is
        reached.
        """
        problem = self.problem
        goals = [self.ladder.stage(row, len(problem.priorities)) for row in stage_rows(problem)]
        stages, results = self._search_ranks(goals, spent, ceiling)
        bounds: list[int | None] = [result.bound for result in results]
        if len(results) < len(goals):
            return self._unfinished(hint, stages, bounds, spent)
        met = [result.value for result in results] == list(ceiling[: len(goals)])
        tie_most = ceiling[len(goals)] if met and len(ceiling) > len(goals) else None
        return self._finish(hint, spent, stages, bounds, tie_most, open_rank=not all(each.optimal for each in results))

    def better(self, known_plan: Assignment, first: int, spent: Spent) -> Assignment | None:
        """Return a plan with more in the stages from the `first` on and no less before; None where none is found."""
        problem, stages = self.problem, Stages(self.model, spent)
        goals = [self.ladder.stage(row, len(problem.priorities)) for row in stage_rows(problem)]
        rows = score(problem, known_plan).rows
        reached = [through(rows, row, len(problem.priorities)) for row in stage_rows(problem)]
        for goal, value in zip(goals[:first], reached, strict=False):
            stages.keep(goal, value)
        found = stages.maximize_in_order(goals[first:], most_gpus(problem), RANK_SHARE)
        if [result.value or 0 for result in found] <= reached[first:]:
            return None
        tie_goal = objective.tie(problem, self.decisions)
        tie = stages.maximize(tie_goal, RANK_SHARE)
        if tie.value is not None:
            stages.keep(tie_goal, tie.value)
            stages.minimize(self.bill, 1.0)
        return assignment_of(problem, self.decisions, stages)

    def _search_ranks(
        self, goals: Sequence[Linear], spent: Spent, ceiling: Sequence[int]
    ) -> tuple[Stages, list[StageResult]]:
        """Search the ranks, first among plans that exceed no ceiling anywhere: a tighter model, solved much faster.

        It leaves out plans that miss a ceiling to exceed a later one, so it proves nothing unless all are reached.
        """
        most = most_gpus(self.problem)
        if len(ceiling) >= len(goals):
            model = self.model.clone()
            for goal, highest in zip(goals, ceiling, strict=False):
                if not isinstance(goal, int):
                    model.add(goal <= highest)
            below = Stages(model, spent)
            try:
                results = below.maximize_in_order(goals, most, RANK_SHARE, ceiling)
            except SolverFailed:
                results = []
            if len(results) == len(goals):
                return below, [
                    result if result.value == highest else StageResult(result.value, most, False)
                    for result, highest in zip(results, ceiling, strict=False)
                ]
        stages = Stages(self.model, spent)
        return stages, stages.maximize_in_order(goals, most, RANK_SHARE, ceiling)

    def _unfinished(self, hint: Assignment, stages: Stages, bounds: list[int | None], spent: Spent) -> Result:
        """Return the best found when time ran out before all ranks were searched; the hint where nothing was."""
        problem = self.problem
        if stages.solution is None:
            row_bounds = per_row(problem, hint, bounds, len(problem.priorities))
            return Result(hint, row_bounds, deterministic_s=spent.deterministic_s, note="no solution in time")
        assignment = assignment_of(problem, self.decisions, stages)
        row_bounds = per_row(problem, assignment, bounds, len(problem.priorities))
        note = "time ran out before all ranks were searched"
        return Result(assignment, row_bounds, deterministic_s=spent.deterministic_s, note=note)

    def _finish(
        self,
        hint: Assignment,
        spent: Spent,
        stages: Stages,
        bounds: list[int | None],
        tie_most: int | None,
        *,
        open_rank: bool,
    ) -> Result:
        """With the ranks fixed: who stays and who is older, then the bill."""
        problem = self.problem
        priorities = len(problem.priorities)
        tie_goal = objective.tie(problem, self.decisions)
        tie = stages.maximize(tie_goal, RANK_SHARE, tie_most)
        if tie.value is None:
            return self._unfinished(hint, stages, bounds, spent)
        stages.keep(tie_goal, tie.value)
        bill = stages.minimize(self.bill, 1.0)
        if stages.solution is None:
            assignment = Assignment()
        else:
            assignment = assignment_of(problem, self.decisions, stages)
        proven = not open_rank and tie.optimal and bill.optimal
        return Result(
            assignment=assignment,
            row_bounds=per_row(problem, assignment, bounds, priorities),
            bill_bound=max(least_bill(problem), bill.bound),
            proven=proven,
            deterministic_s=spent.deterministic_s,
        )

    def solve_weighted(self, hint: Assignment, spent: Spent) -> Result:
        """Solve the one sum of the weighted mode."""
        problem = self.problem
        stages = Stages(self.model, spent)
        worth = objective.worth(problem, self.decisions, self.ladder, self.bill)
        result = stages.maximize(worth, 1.0)
        if result.value is None:
            return Result(hint, weighted_bound=known(result.bound), deterministic_s=spent.deterministic_s)
        assignment = Assignment() if stages.solution is None else assignment_of(problem, self.decisions, stages)
        return Result(
            assignment=assignment,
            weighted_bound=known(result.bound),
            proven=result.optimal,
            deterministic_s=spent.deterministic_s,
        )


def most_gpus(problem: Problem) -> int:
    """Return the most GPUs that can run after any plan: what is booked beyond what nodes have may go on."""
    return sum(job.size_now for job in problem.running) + int(problem.nodes.free.sum())


def stage_rows(problem: Problem) -> list[int]:
    """Return the ranks that have a stage of their own: those above a minimum only where a job can be above it."""
    parts = 2 if any(job.elastic for job in problem.jobs) else 1
    return list(range(parts * 4 * len(problem.priorities)))


def through(rows: Sequence[int], row: int, priorities: int) -> int:
    """Return the value of a stage's sum (see `objective.Ladder`) for known ranks."""
    return sum(rows[each] for each in _counted(row, priorities))


def _counted(row: int, priorities: int) -> list[int]:
    """Return the ranks that a stage's sum counts.

    At keys up to its own, its tier and (but for deadlines) those above it.
    """
    part, rest = divmod(row, 4 * priorities)
    tier, priority = divmod(rest, priorities)
    tiers = [0] if tier == 0 else list(range(1, tier + 1))
    return [
        (p * 4 + t) * priorities + q
        for p in range(part + 1)
        for t in tiers
        for q in range(priorities if p < part else priority + 1)
    ]


def per_row(
    problem: Problem, assignment: Assignment, bounds: Sequence[int | None], priorities: int
) -> tuple[int | None, ...]:
    """Turn bounds on the stages' sums into bounds on each rank's GPUs."""
    rows = score(problem, assignment).rows
    result: list[int | None] = []
    for row, bound in enumerate(bounds):
        if bound is None:
            result.append(None)
            continue
        counted = _counted(row, priorities)
        others = sum(rows[each] for each in counted if each != row)
        result.append(max(rows[row], bound - others))
    # Without elastic jobs there is nothing above a minimum.
    result += [0] * (len(rows) - len(result)) if len(bounds) == 4 * priorities else []
    return tuple(result) + (None,) * (len(rows) - len(result))
