"""What admission can reach, goal by goal: the ranks, then who stays and who is older, then the bill.

Most goals are closed by looking at one constraint at a time (`cpsat/box.py`): where a round is full and few may
displace anybody, what is known to be reached is all that there is. Only what that leaves open is searched, on what it
leaves of the model.
"""

from __future__ import annotations

from dataclasses import dataclass

from optsched.errors import SolverFailed
from optsched.rounds.assignment import Assignment
from optsched.rounds.problem import Problem
from optsched.rounds.score import Score, least_bill, score
from optsched.solve.cpsat import objective
from optsched.solve.cpsat.admission import Admission
from optsched.solve.cpsat.box import Box
from optsched.solve.cpsat.recorded import Goal, goal_of
from optsched.solve.cpsat.stages import Ask, StageResult, Stages
from optsched.solve.cpsat.terms import Linear
from optsched.solve.exact import stage_rows, through

RANK_SHARE = 0.5
"""The share of what is left of the budget that one search for ranks may use."""

SLACK = 2000
"""A bill within this part of the run value of its bound is as good as the best."""


@dataclass(frozen=True, slots=True)
class Goals:
    """What admission reached and proved: stages' sums with their bounds, then the tie, and the bill's bound.

    Where time ran out there are fewer stages, and no tie. `better`: whether some solution is better than the plan that
    was known before.
    """

    ranks: tuple[StageResult, ...]
    tie: StageResult | None
    bill_bound: int | None
    better: bool = True

    def values(self) -> list[int]:
        """Return the values of the stages."""
        return [result.value or 0 for result in self.ranks]


def reached_by(problem: Problem, worth: Score) -> list[int]:
    """Return the stages' sums of a score."""
    return [through(worth.rows, row, len(problem.priorities)) for row in stage_rows(problem)]


def tie_value(problem: Problem, worth: Score) -> int:
    """Return what decides between plans of equal ranks: who stays, then who is older, as one number."""
    stopped = sum(job.size_now for job in problem.running) - worth.stay_gpus
    return worth.age - objective.age_scale(problem) * stopped


def bill_slack(problem: Problem, worth: Score) -> int:
    """Return by how many GPU-seconds a bill may exceed its bound and count as the best."""
    return worth.run_gpus * problem.horizon_s // SLACK


def admit(problem: Problem, admission: Admission, stages: Stages, known: Assignment) -> Goals:
    """Find the best that admission can reach, as far as the budget goes; `known` is a plan that is valid.

    `stages` has the solution afterwards, none where `known` is as good as any.
    """
    return _Climb(problem, admission, stages, known).run()


class _Climb:
    """One way up the goals. `now` is what the best that is known reaches: first the plan, then what was found."""

    def __init__(self, problem: Problem, admission: Admission, stages: Stages, known: Assignment) -> None:
        self.problem, self.admission, self.stages = problem, admission, stages
        self.worth = score(problem, known)
        self.linear: list[Linear] = [*rank_goals(problem, admission), admission.tie()]
        self.flat = [goal_of(each) for each in self.linear]
        self.now = [*reached_by(problem, self.worth), tie_value(problem, self.worth)]
        self.box = admission.box.copy()
        self.better = False
        self._done: dict[int, StageResult] = {}

    def run(self) -> Goals:
        results: list[StageResult] = []
        for position in range(len(self.linear)):
            found = self._climb(position)
            if found is None:
                return Goals(tuple(results[: len(self.linear) - 1]), None, None, self.better)
            results.append(found)
        *ranks, tie = results
        return Goals(tuple(ranks), tie, self._bill(), self.better)

    def _climb(self, position: int) -> StageResult | None:
        """Maximise one goal and fix it; None where time ran out before anything was found."""
        linear, goal = self.linear[position], self.flat[position]
        if isinstance(linear, int):
            return StageResult(linear, linear, True)
        if id(linear) in self._done:
            return self._done[id(linear)]
        value = self.now[position]
        self.box.at_least(goal, value)
        bound = self.box.bound(goal, value)
        if bound > value:
            self.stages.model = self.box.reduced()
            found = self.stages.maximize(linear, RANK_SHARE)
            if found.value is None:
                return None
            bound = min(bound, found.bound)
            if found.value > value:
                value, self.better = found.value, True
                self.now = [self.stages.value(each) for each in self.linear]
        result = StageResult(value, bound, bound == value)
        fix(self.box, goal, value, result.optimal)
        self._done[id(linear)] = result
        return result

    def _bill(self) -> int | None:
        """Return the bill's bound; searched for unless the plan that is known is about as good as any."""
        linear = self.admission.bill()
        goal = goal_of(linear).negated()
        costs = self.worth.costs.total
        if not self.better:
            self.box.at_least(goal, -costs)
        bound = -self.box.most(goal)
        if not self.better and costs - bound <= bill_slack(self.problem, self.worth):
            self.stages.solution = None
            return max(least_bill(self.problem), bound)
        self.stages.model = self.box.reduced()
        found = self.stages.minimize(linear, 1.0)
        if found.value is None:
            return None
        return max(least_bill(self.problem), bound, found.bound)


def rank_goals(problem: Problem, admission: Admission) -> list[Linear]:
    """Return the sums that the stages maximise, in their order."""
    return [admission.ladder.stage(row, len(problem.priorities)) for row in stage_rows(problem)]


def fix(box: Box, goal: Goal, value: int, optimal: bool = True) -> None:
    """Add to a box that a goal is what it is; `optimal`: that it cannot be more."""
    box.at_least(goal, value)
    if optimal:
        box.at_most(goal, value)
    if not box.feasible:
        raise SolverFailed("what a plan reaches contradicts what admission allows")


def rank_bounds(
    problem: Problem, admission: Admission, goals: Goals, plan: Assignment, reached: list[int], asks: list[Ask]
) -> list[int]:
    """Return bounds on the stages' sums, and add to `asks` what a search may bound better.

    Admission's own bounds hold down to the first rank that the plan misses; below it every sum is bounded with all
    above it fixed at what the plan reaches.
    """
    box, met = admission.box.copy(), True
    bounds: list[int] = []
    done: dict[int, int] = {}
    for position, linear in enumerate(rank_goals(problem, admission)):
        value = reached[position]
        if isinstance(linear, int):
            bounds.append(value)
            continue
        if done.get(id(linear)) == value:
            bounds.append(value)
            continue
        goal = goal_of(linear)
        bound = box.bound(goal, value)
        if met and position < len(goals.ranks):
            bound = min(bound, max(value, goals.ranks[position].bound))
            met = goals.ranks[position].value == value
        elif bound > value:
            model = box.reduced()
            admission.hint(model, plan)
            asks.append(Ask(position, model, linear, maximize=True))
        bounds.append(bound)
        fix(box, goal, value)
        done[id(linear)] = value
    return bounds


def ask_bill(
    problem: Problem, admission: Admission, plan: Assignment, reached: list[int], tie: int, asks: list[Ask]
) -> int:
    """Return a bound on the bill of plans of these ranks that keep and start as much; ask for a better one."""
    box = admission.box.copy()
    for linear, value in zip(rank_goals(problem, admission), reached, strict=True):
        if not isinstance(linear, int):
            fix(box, goal_of(linear), value)
    goal = admission.tie()
    if not isinstance(goal, int):
        fix(box, goal_of(goal), tie, optimal=False)
    costs = score(problem, plan).costs.total
    bound = -box.most(goal_of(admission.bill()).negated())
    if bound < costs:
        model = box.reduced()
        admission.hint(model, plan)
        asks.append(Ask(-1, model, admission.bill(), maximize=False))
    return max(least_bill(problem), bound)
