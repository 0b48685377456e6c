"""The fine stage: places for what admission chose, with moves where holes must be made.

Gangs go first, then single jobs in descending size; running jobs that had to leave their node count as jobs of their
own size. Sizes that divide each other pack perfectly that way. Everybody is served by what stopped jobs leave over, the
rarest first, before taking what anybody may have. What finds no place stays
queued; a pass of the greedy solver fills up.
"""

from __future__ import annotations

from dataclasses import dataclass

from optsched.rounds.assignment import Assignment, Change, flow_of
from optsched.rounds.check import unpaid
from optsched.rounds.problem import Cut, Problem
from optsched.rounds.score import served_by
from optsched.solve.cpsat.admission import Admitted
from optsched.solve.places import Style
from optsched.solve.repairs import Repairs
from optsched.solve.shrinking import take_back_unused

STYLES = (
    Style(rank_first=False, zeal=1.0),
    Style(rank_first=False, zeal=0.02),
    Style(rank_first=True, zeal=1.0),
    Style(rank_first=False, zeal=0.1),
    Style(rank_first=True, zeal=0.02),
    Style(rank_first=False, zeal=0.005),
)
"""What is tried, in this order."""

MOST_REPEATS = 3
"""How often one style is repeated with those kept where they are who found no new home."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A plan and who of the admitted found no place in the first pass; `homeless`: who had to leave and found none.

    `dear`: who gives up something that nobody needs or pays for. With either of these the plan is not valid.
    """

    assignment: Assignment
    unplaced: tuple[int, ...]
    homeless: tuple[int, ...]
    dear: frozenset[int]


class Fine(Repairs):
    """Places one admission; see the module's text."""

    def run(self) -> Placed:
        """Place everything that finds a place, then fill up."""
        jobs = [self.problem.jobs[j] for j in sorted(self.admitted.starts)]
        gangs = [job for job in jobs if job.cut is not Cut.ONE_NODE]
        for job in sorted(gangs, key=self._hardest_first):
            if not self._place_gang(job):
                self._unplaced.append(job.index)
        for job in jobs:
            if job.cut is Cut.ONE_NODE:
                self._wait(job, job.minimum)
        self._place_waiting()
        self._place_ones()
        self._send_home()
        self._again()
        take_back_unused(self.problem, self.ledger, self.supply, self.admitted.shrinks)
        self._stay()
        return self._filled()

    def _filled(self) -> Placed:
        """Fill up what is left; stops that nobody who starts there can pay for are taken back first."""
        self._seal()
        self.fill.run_on()
        for repeat in range(MOST_REPEATS):
            assignment = Assignment(dict(self.ledger.changed), frozenset(self.ledger.stopped))
            if repeat:
                self.supply.pin(j for j in self.ledger.changed if self.problem.jobs[j].running)
                # Rights over who was to shrink are rights over shrinks; it might not be stopped.
                self.supply.pin(self.admitted.shrinks)
                self._seal()
                assignment = self.fill.run()
            flow = flow_of(self.problem, assignment)
            served = served_by(self.problem, flow)
            needed = set().union(*served.values())
            dear = unpaid(self.problem, flow, served) | (assignment.stopped - needed)
            wrong = self._without_right(served)
            if repeat and (not (dear or wrong) or repeat == MOST_REPEATS - 1):
                break
            if dear or wrong:
                self.loose.pin(self.ledger.stopped | self.ledger.changed.keys())
                for job in wrong:
                    self._unbook(job)
                self._take_back(dear)
                take_back_unused(self.problem, self.ledger, self.supply, self.admitted.shrinks)
                self._unplaced += [job.index for job in wrong]
        dear |= {j for j, change in flow.changes.items() if change is Change.SHRINK and j not in needed}
        return Placed(assignment, tuple(self._unplaced), tuple(self._homeless), frozenset(dear))


def place(problem: Problem, admitted: Admitted, style: Style) -> Assignment | None:
    """Return a plan in one style, None where none came out valid.

    Tried again are: with those kept where they are who had to leave and found no new home, and without the stops that
    nobody who starts there can pay for.
    """
    placed = Fine(problem, admitted, style).run()
    return None if placed.homeless or placed.dear else placed.assignment
