"""What is left to gain for a plan: bounds with all that ranks above at what the plan reaches."""

from __future__ import annotations

from ortools.sat.python.cp_model import CpModel

from optsched.rounds.assignment import Assignment
from optsched.rounds.problem import Problem
from optsched.rounds.score import Score, least_bill
from optsched.solve.cpsat.admission import Admission
from optsched.solve.cpsat.recorded import goal_of
from optsched.solve.cpsat.relaxation import Relaxation
from optsched.solve.cpsat.stages import Ask, solve_all
from optsched.solve.cpsat.terms import Linear
from optsched.solve.goals import Goals, bill_slack, rank_goals, reached_by, tie_value
from optsched.solve.result import Spent

OPEN = 2000
"""Ranks are not searched for the last of what their bounds leave open: this part of the GPUs, all ranks together ..."""

OPEN_BRIEFLY = 1000
"""... and this part where rounds follow one another closely (of the bill as much, as a part of the run value), ..."""

MOST_ASKS_BRIEFLY = 2
"""... with so many searches at most: the loosest bounds first."""


class Bounds:
    """Bounds on the stages' sums and on the bill of one plan.

    The linear relaxation bounds them one after the other. What it leaves open is then asked of searches, all at once:
    what the plan achieves is known, so no bound waits for another.
    """

    def __init__(self, problem: Problem, admission: Admission, plan: Assignment, worth: Score, *, brief: bool) -> None:
        self.problem, self.admission, self.plan, self.worth, self.brief = problem, admission, plan, worth, brief
        self.reached, self.tie = reached_by(problem, worth), tie_value(problem, worth)
        self.relaxation = admission.relaxation(facts=True)
        self.sums: list[int] = []
        self.bill = least_bill(problem)
        self._above: list[tuple[Linear, int]] = []
        self._asks: list[Ask] = []

    def bound_sums(self, goals: Goals) -> None:
        """Bound the stages' sums.

        Admission's own bounds hold down to the first rank that the plan misses; below it every sum is bounded with all
        above it fixed at what the plan reaches.
        """
        met = True
        fixed: dict[int, int] = {}
        loose: list[tuple[int, int, int]] = []
        stages = rank_goals(self.problem, self.admission)
        for position, (linear, value) in enumerate(zip(stages, self.reached, strict=True)):
            if isinstance(linear, int) or fixed.get(id(linear)) == value:
                self.sums.append(value)
                continue
            goal = goal_of(linear)
            if met and position < len(goals.ranks):
                bound = max(value, goals.ranks[position].bound)
                met = goals.ranks[position].value == value
            else:
                bound = max(value, self.relaxation.most(goal, value))
                if bound > value:
                    loose.append((value - bound, position, len(self._above)))
            self.sums.append(bound)
            self.relaxation.keep(goal, value, value)
            fixed[id(linear)] = value
            self._above.append((linear, value))
        left = -sum(gap for gap, _, _ in loose)
        for gap, position, above in sorted(loose):
            if left <= self.problem.healthy_gpus // (OPEN_BRIEFLY if self.brief else OPEN):
                break
            if self.brief and len(self._asks) == MOST_ASKS_BRIEFLY:
                break
            left += gap
            self._asks.append(
                Ask(position, self._fixed(self.admission.unstaged(), above), stages[position], maximize=True)
            )

    def bound_bill(self, spent: Spent) -> None:
        """Bound the bill of plans of these ranks that keep and start as much; to be called after the sums are bounded.

        The relaxation's bound is nearly as good as a search's, which is spared where rounds follow one another closely.
        There the bill that admission was searched with does where it leaves little open, as it has to where time is up.
        """
        tie = self.admission.tie()
        if spent.exhausted or self.brief:
            if not isinstance(tie, int):
                self.relaxation.keep(goal_of(tie), self.tie)
            self.bill = max(self.bill, self.relaxation.least(goal_of(self.admission.bill())))
            value = self.worth.run_gpus * self.problem.horizon_s
            if spent.exhausted or self.worth.costs.total - self.bill <= value // OPEN_BRIEFLY:
                return
        full = self.admission.full
        relaxation = Relaxation(full.box)
        for fact in self.admission.facts:
            relaxation.keep(goal_of(fact), 0)
        for linear, value in self._above:
            relaxation.keep(goal_of(linear), value, value)
        if not isinstance(tie, int):
            relaxation.keep(goal_of(tie), self.tie)
        self.bill = max(self.bill, relaxation.least(goal_of(full.bill)))
        if self.brief or self.worth.costs.total - self.bill <= bill_slack(self.problem, self.worth):
            return
        model = self._fixed(full.box.model.clone(), len(self._above))
        if not isinstance(tie, int):
            model.add(tie >= self.tie)
        self._asks.append(Ask(-1, model, full.bill, maximize=False))

    def search(self, spent: Spent) -> None:
        """Search for better bounds where the relaxation left much open."""
        for position, result in solve_all(self._asks, spent):
            if position < 0:
                self.bill = max(self.bill, result.bound)
            else:
                self.sums[position] = min(self.sums[position], max(self.reached[position], result.bound))

    def _fixed(self, model: CpModel, above: int) -> CpModel:
        """Return a model of admission with the first so many sums as they are."""
        for linear, value in self._above[:above]:
            model.add(linear == value)
        for fact in self.admission.facts:
            model.add(fact >= 0)
        self.admission.hint(model, self.plan)
        return model
