"""What admission can reach, goal by goal: the ranks, then who stays and who is older, then the bill.

In the brief way every goal is bounded by the linear relaxation first, which takes milliseconds. Only where what is
known to be reached falls short of that is anything searched.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optsched.rounds.assignment import Assignment
from optsched.rounds.problem import Problem
from optsched.rounds.score import Score, least_bill, score
from optsched.solve.cpsat import objective
from optsched.solve.cpsat.admission import Admission
from optsched.solve.cpsat.recorded import goal_of
from optsched.solve.cpsat.stages import LARGEST_LEAN_SUM, StageResult, Stages
from optsched.solve.cpsat.terms import Linear
from optsched.solve.exact import most_gpus, stage_rows, through

RANK_SHARE = 0.5
"""The share of what is left of the budget that one search for ranks may use."""

TIE_SHARE = 0.2
"""The same for who stays and who is older: what a search finds late changes little, and placing needs the time."""

SLACK = 2000
"""A bill within this part of the run value of its bound is as good as the best."""

LARGE, LAST = 500, 5000
"""With more nodes this part of what all GPUs are worth may stay open of the bill: the last of it takes longest."""

WORTH = 4
"""In a rough search one GPU of a rank is worth so many of the next."""


@dataclass(frozen=True, slots=True)
class Goals:
    """What admission reached and proved: stages' sums with their bounds, then the tie, and the bill's bound.

    Where time ran out there are fewer stages, and no tie. `earlier` are solutions of these ranks from before the
    bill, the one of the ranks alone first.
    """

    ranks: tuple[StageResult, ...]
    tie: StageResult | None
    bill_bound: int | None
    earlier: tuple[list[int], ...] = ()

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


def admit(problem: Problem, admission: Admission, stages: Stages, known: Assignment, *, brief: bool = False) -> Goals:
    """Find the best that admission can reach, as far as the budget goes; `known` is a plan that is valid.

    `stages` has the solution afterwards, none where time ran out before. `brief`: from the plan upwards, and none
    where it is as good as any. That is quicker, but what it finds is harder to place.
    """
    return _Climb(problem, admission, stages, known).run() if brief else _in_order(problem, admission, stages)


def _in_order(problem: Problem, admission: Admission, stages: Stages) -> Goals:
    """Search for all goals in their order, each one fixed before the next."""
    goals = rank_goals(problem, admission)
    ranks = stages.maximize_in_order(goals, most_gpus(problem), RANK_SHARE)
    if len(ranks) < len(goals):
        return Goals(tuple(ranks), None, None)
    of_ranks, tie_goal = stages.solution, admission.tie()
    tie = stages.maximize(tie_goal, TIE_SHARE)
    earlier = tuple(each for each in (of_ranks, stages.solution) if each is not None)
    if tie.value is None:
        return Goals(tuple(ranks), None, None)
    stages.keep(tie_goal, tie.value)
    bill = stages.minimize(admission.bill(), 1.0, _left_open(problem))
    return Goals(tuple(ranks), tie, max(least_bill(problem), bill.bound), earlier)


def _left_open(problem: Problem) -> int:
    """Return how much of the bill may stay open where that is searched."""
    large = len(problem.nodes.capacity) > LARGE
    return int(problem.nodes.capacity.sum()) * problem.horizon_s // LAST if large else 0


class _Climb:
    """The brief way: goals that are at their bound by the linear relaxation are passed, one is searched, then the rest.

    `now` is what the best that is known reaches: first the plan, then what was found.
    """

    def __init__(self, problem: Problem, admission: Admission, stages: Stages, known: Assignment) -> None:
        self.problem, self.admission, self.stages = problem, admission, stages
        self.searched = False
        self.worth = score(problem, known)
        self.linear: list[Linear] = [*rank_goals(problem, admission), admission.tie()]
        self.flat = [goal_of(each) for each in self.linear]
        self.now = [*reached_by(problem, self.worth), tie_value(problem, self.worth)]
        self.relaxation = admission.relaxation()
        self.solution: list[int] | None = None
        first: dict[int, int] = {}
        self.first = [first.setdefault(id(each), position) for position, each in enumerate(self.linear)]
        """The first goal that each one is the same as."""

    def run(self) -> Goals:
        """Climb as far as time goes."""
        results: list[StageResult] = []
        while len(results) < len(self.linear):
            position = len(results)
            linear, value = self.linear[position], self.now[position]
            if isinstance(linear, int):
                results.append(StageResult(linear, linear, True))
            elif self.first[position] < position:
                results.append(results[self.first[position]])
            elif (bound := self.relaxation.most(self.flat[position], value)) <= value:
                results.append(self._keep(position, bound))
            elif self.stages.spent.exhausted:
                return Goals(tuple(results), None, None)
            elif self.searched:
                self._search_the_rest(position)
                return Goals(tuple(results[: len(self.linear) - 1]), None, None)
            else:
                found = self._search(position, bound)
                if found is None:
                    return Goals(tuple(results), None, None)
                results.append(found)
        *ranks, tie = results
        return Goals(tuple(ranks), tie, self._bill())

    def _keep(self, position: int, bound: int) -> StageResult:
        """Fix a goal at what is reached; `bound` is what it cannot exceed."""
        value = self.now[position]
        bound = max(value, bound)
        self.relaxation.keep(self.flat[position], value, bound)
        self.stages.keep(self.linear[position], value)
        return StageResult(value, bound, bound == value)

    def _search(self, position: int, bound: int) -> StageResult | None:
        """Maximise one goal; None where time ran out before anything was found."""
        linear = self.linear[position]
        self.stages.keep(linear, self.now[position])
        found = self.stages.maximize(linear, RANK_SHARE)
        self.searched = True
        if found.value is None:
            return None
        if found.value > self.now[position]:
            self.solution = self.stages.solution
            self.now = self._values()
        return self._keep(position, min(bound, found.bound))

    def _search_the_rest(self, position: int) -> None:
        """Search all goals that are left in three searches: the ranks together, each worth several of the next.

        That is not their order to the last GPU, so it proves nothing; but what it finds is nearly always the same.
        """
        tie = len(self.linear) - 1
        scale = 1
        total: Linear = 0
        for each in range(tie - 1, position - 1, -1):
            linear = self.linear[each]
            if self.first[each] == each and not isinstance(linear, int):
                total = total + scale * linear
                scale = min(scale * WORTH, LARGEST_LEAN_SUM)
        self._improve(total)
        for each in range(position, tie):
            self.stages.keep(self.linear[each], self.now[each])
        self._improve(self.linear[tie])
        self.stages.keep(self.linear[tie], self.now[tie])
        if self.solution is not None:
            self.stages.solution = self.solution
            if self.stages.minimize(self.admission.bill(), 1.0).value is not None:
                self.solution = self.stages.solution
        self.stages.solution = self.solution

    def _improve(self, goal: Linear) -> None:
        """Search for a better solution by one goal; what is known stays where time runs out."""
        now = self._value(goal) if self.solution is not None else None
        found = self.stages.maximize(goal, RANK_SHARE)
        if found.value is not None and (now is None or found.value > now):
            self.solution = self.stages.solution
            self.now = self._values()

    def _bill(self) -> int | None:
        """Return the bill's bound; searched for unless what is known is about as good as any."""
        linear = self.admission.bill()
        goal = goal_of(linear)
        bound = max(least_bill(self.problem), self.relaxation.least(goal))
        costs = self.worth.costs.total if self.solution is None else self._value(linear)
        self.stages.solution = self.solution
        if costs - bound <= bill_slack(self.problem, self.worth):
            return bound
        found = self.stages.minimize(linear, 1.0, _left_open(self.problem))
        return None if found.value is None else max(bound, found.bound)

    def _values(self) -> list[int]:
        """Return the goals' values in the solution."""
        found = np.array(self.solution or [], dtype=np.int64)
        return [goal.constant + int(goal.factors @ found[goal.variables]) for goal in self.flat]

    def _value(self, linear: Linear) -> int:
        """Return an expression's value in the solution."""
        return value_in(self.solution or [], linear)


def value_in(solution: list[int], linear: Linear) -> int:
    """Return an expression's value in a solution."""
    if isinstance(linear, int):
        return linear
    goal = goal_of(linear)
    variables: list[int] = goal.variables.tolist()
    factors: list[int] = goal.factors.tolist()
    return goal.constant + sum(factor * solution[each] for each, factor in zip(variables, factors, strict=True))


def rank_goals(problem: Problem, admission: Admission) -> list[Linear]:
    """Return the sums that the stages maximise, in their order."""
    return [admission.ladder.stage(row, len(problem.priorities)) for row in stage_rows(problem)]
