"""From admissions to a plan: each is placed in several styles, and where that falls short another one is searched for.

Admissions as good as the first differ in which of the jobs alike they stop, and for whom. One that leaves out what
found no place may be as good too; if not, it shows what can be done without.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

from optsched.errors import SolverFailed
from optsched.rounds.assignment import Assignment
from optsched.rounds.check import check
from optsched.rounds.problem import Problem
from optsched.rounds.score import score
from optsched.solve.cpsat.admission import Admission, Admitted
from optsched.solve.cpsat.stages import Stages
from optsched.solve.exact import most_gpus
from optsched.solve.fine import STYLES, place
from optsched.solve.goals import RANK_SHARE, Goals, bill_slack, rank_goals, reached_by, tie_value, value_in
from optsched.solve.neighbourhood import Neighbourhoods
from optsched.solve.places import Style
from optsched.solve.result import Spent
from optsched.values.profile import PriorityMode

MOST_ADMISSIONS = 20
"""How many admissions are placed."""

PLACE_S, MOST_PLACE_S = 0.65e-6, 3.0
"""About how long one placing takes at worst, in seconds for each start and node, and at most: none is begun without."""

FIRST_PART = 0.7
"""The first one is begun if there is time for this part of it: better a plan that comes a little late than none."""

LEAST_BOUNDS_SHARE, BOUNDS_SHARE, BOUNDS_S = 0.4, 0.78, 3.0
"""What is kept for bounds of the time left after admission: the second share up to so much, at least the first."""

PARTS_SHARE = 0.5
"""The share of the time until then in which a plan is searched in parts before another admission is placed."""

BILL_SHARE = 0.3
"""The share of what another admission may take that its bill gets."""

MOST_GUARDED = 2
"""How often one admission is placed anew because the plan puts off what the guard looks after."""

Guard = Callable[[Problem, Assignment], Problem | None]
"""Asked about a valid plan; returns None for a good one, else a problem in which it could not be made again."""


def placing_s(problem: Problem, starts: int) -> float:
    """Return about how many seconds one placing of so many starts takes at worst."""
    return min(MOST_PLACE_S, PLACE_S * len(problem.nodes.capacity) * starts)


class Attempts:
    """The best plan so far, and the means to look for a better one within the budget."""

    def __init__(
        self,
        problem: Problem,
        admission: Admission,
        stages: Stages,
        goals: Goals,
        known: Assignment,
        spent: Spent,
        parts: Neighbourhoods | None = None,
        guard: Guard | None = None,
    ) -> None:
        self.problem, self.admission, self.stages, self.goals, self.spent = problem, admission, stages, goals, spent
        self.best, self.worth = known, score(problem, known)
        self._parts, self._guard = parts, guard
        left_s = spent.wall_left_s
        self._until_s = max(LEAST_BOUNDS_SHARE * left_s, min(BOUNDS_SHARE * left_s, BOUNDS_S))
        self._solution = stages.solution
        self._most: dict[int, int] = {}
        """How many may start of a group, by its position, where not all that were to start found places."""

    def run(self) -> Assignment:
        """Return the best valid plan found. Nothing more is tried once it is about as good as its bounds."""
        turn = self.spent.budget.turn
        styles = STYLES if turn is None else (STYLES[turn % len(STYLES)],)
        for attempt in range(MOST_ADMISSIONS if turn is None else 1):
            if self._is_best_possible() or (attempt and not self._search_again()) or self._solution is None:
                break
            admitted, placed, before = self._decoded(self._solution), None, self.best
            tries = [(admitted, style) for style in (styles if not self._most else styles[:1])]
            if not attempt:
                tries[1:1] = [(other, styles[0]) for other in self._others(admitted)]
            for choice, style in tries:
                needed_s = placing_s(self.problem, len(choice.starts)) * (1.0 if attempt or placed else FIRST_PART)
                if self.spent.wall_left_s < needed_s:
                    return self.best
                found = self._placed(choice, style)
                if found is not None:
                    placed = placed or (found if choice is admitted else None)
                    self._keep_better(found)
                # The time kept for bounds is well spent on a plan where there is none yet.
                if self._is_best_possible() or (self._is_late() and placed is not None):
                    return self.best
            if self.best is not before or not attempt:
                self._search_parts()
            self._note_missing(admitted, placed)
        return self.best

    def _others(self, admitted: Admitted) -> list[Admitted]:
        """Return other admissions with the same ranks, from before it was settled who stays and what it costs.

        They are worse on paper, but often easier to place: more is stopped.
        """
        found: list[Admitted] = []
        for solution in self.goals.earlier:
            other = self._decoded(solution)
            if other not in (admitted, *found):
                found.append(other)
        return found

    def _search_parts(self) -> None:
        """Search the best plan anew in parts, where it misses a rank."""
        first = None if self._parts is None or self.goals.tie is None else self._first_missed()
        if self._parts is not None and first is not None:
            spare_s = max(0.0, self.spent.wall_left_s - self._until_s)
            self._keep_better(self._parts.improve(self.best, first, self._until_s + (1 - PARTS_SHARE) * spare_s))

    def _decoded(self, solution: list[int]) -> Admitted:
        """Return what a solution of admission does."""
        return self.admission.decode(partial(value_in, solution))

    def _placed(self, admitted: Admitted, style: Style) -> Assignment | None:
        """Return a valid plan in one style, mended if need be; None where the guard objects to all that is found."""
        problem, one_s = self.problem, placing_s(self.problem, len(admitted.starts))
        for _ in range(1 + MOST_GUARDED):
            found = place(problem, admitted, style, lambda: self.spent.wall_left_s < one_s)
            if check(problem, found):
                return None
            kept_off = None if self._guard is None else self._guard(problem, found)
            if kept_off is None:
                return found
            problem = kept_off
        return None

    def _is_late(self) -> bool:
        return self.spent.wall_left_s < self._until_s

    def _keep_better(self, found: Assignment) -> None:
        worth, mode = score(self.problem, found), self.problem.profile.priority_mode
        if worth.key(mode) > self.worth.key(mode):
            self.best, self.worth = found, worth

    def _note_missing(self, admitted: Admitted, placed: Assignment | None) -> None:
        """Let no more start of a group next time than found places this time."""
        if placed is None:
            return
        for position, group in enumerate(self.admission.groups.starts):
            starts = [job.index for job in group.jobs if job.index in admitted.starts]
            found = sum(j in placed.changed for j in starts)
            if found < len(starts):
                self._most[position] = min(found, self._most.get(position, found))

    def _search_again(self) -> bool:
        """Find another admission, without what found no place or else by another path; returns whether there is one."""
        if self.goals.tie is None or self.problem.profile.priority_mode is PriorityMode.WEIGHTED:
            return False
        first = self._first_missed()
        if self._most and first is not None and self._search_without(first):
            return True
        self._most.clear()
        found = self.stages.minimize_anew(self.admission.bill(), 1.0).value is not None
        self._solution = self.stages.solution
        return found

    def _first_missed(self) -> int | None:
        """Return the first of the goals that the best plan misses."""
        pairs = zip(self.goals.values(), reached_by(self.problem, self.worth), strict=True)
        return next((row for row, (goal, reached) in enumerate(pairs) if reached < goal), None)

    def _search_without(self, first: int) -> bool:
        """Search again for the goals from the first that was missed, with no more starts of a group than allowed."""
        solution = self._solution or []
        goals, reached = rank_goals(self.problem, self.admission), reached_by(self.problem, self.worth)
        model = self.admission.unstaged()
        for position, most in self._most.items():
            count = self.admission.groups.starts[position].count
            model.add(model.get_int_var_from_proto_index(count.index) <= most)
        for goal, least in zip(goals[:first], reached, strict=False):
            if not isinstance(goal, int):
                model.add(goal >= least)
        hint = model.proto.solution_hint
        hint.vars.extend(range(len(solution)))
        hint.values.extend(solution)
        wall_s = self.spent.wall_left_s - self._until_s
        own = Spent(dataclasses.replace(self.spent.budget, wall_s=wall_s), self.spent.clock)
        stages = Stages(model, own, lean=True)
        try:
            found = stages.maximize_in_order(goals[first:], most_gpus(self.problem), RANK_SHARE)
        except SolverFailed:
            return False
        finally:
            self.spent.deterministic_s += own.deterministic_s
        if len(found) < len(goals) - first or [result.value or 0 for result in found] <= reached[first:]:
            return False
        stages.minimize(self.admission.bill(), BILL_SHARE)
        self._solution = stages.solution
        return True

    def _is_best_possible(self) -> bool:
        """Return whether the plan does all that admission does, its bill about as low as can be."""
        goals, worth = self.goals, self.worth
        if goals.tie is None or goals.bill_bound is None or reached_by(self.problem, worth) != goals.values():
            return False
        return tie_value(self.problem, worth) == goals.tie.value and (
            worth.costs.total <= goals.bill_bound + bill_slack(self.problem, worth)
        )
