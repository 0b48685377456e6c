"""The fine stage: places for what admission chose, with moves where holes must be made.

Gangs go first, then single jobs in descending size; running jobs that had to leave their node count as jobs of their
own size. Sizes that divide each other pack perfectly that way. Everybody is served by what stopped jobs leave over, the
rarest first, before taking what anybody may have. What finds no place stays
queued; a pass of the greedy solver fills up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from optsched.rounds.assignment import Assignment, Change, flow_of
from optsched.rounds.check import unpaid
from optsched.rounds.problem import Cut, Problem, RoundJob
from optsched.rounds.score import served_by
from optsched.solve.cpsat.admission import Admitted
from optsched.solve.growth import grow_one
from optsched.solve.places import Style
from optsched.solve.repairs import Repairs
from optsched.solve.shrinking import take_back_unused

STYLES = (
    Style(rank_first=False, zeal=0.02),
    Style(rank_first=False, zeal=0.02, scarce_first=True, grow_first=True),
    Style(rank_first=True, zeal=1.0, run_on_first=True),
    Style(rank_first=False, zeal=0.005),
    Style(rank_first=False, zeal=1.0),
    Style(rank_first=True, zeal=0.02, scarce_first=True),
)
"""What is tried, in this order."""

MOST_REPEATS = 3
"""How often one placing is filled up; between, what breaks a rule is taken back."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A plan and who of the admitted found no place in the first pass; `homeless`: who had to leave and found none.

    `dear`: who gives up something that nobody needs or pays for; `wrong`: who starts over somebody without a right.
    With any of these the plan is not valid.
    """

    assignment: Assignment
    unplaced: tuple[int, ...]
    homeless: tuple[int, ...]
    dear: frozenset[int]
    wrong: frozenset[int]


class Fine(Repairs):
    """Places one admission; see the module's text."""

    def run(self) -> Placed:
        """Place everything that finds a place, then fill up."""
        jobs = [self.problem.jobs[j] for j in sorted(self.admitted.starts)]
        first = [job for job in jobs if job.cut is not Cut.ONE_NODE or self._fills_a_node(job)]
        for job in sorted(first, key=self._hardest_first):
            if not (self._place_single(job) if job.cut is Cut.ONE_NODE else self._place_gang(job)):
                self._unplaced.append(job.index)
        if self.style.grow_first:
            for j, more in sorted(self.admitted.grows.items()):
                grow_one(self.problem, self.ledger, self.problem.jobs[j], more)
        for job in jobs:
            if job.cut is Cut.ONE_NODE and not self._fills_a_node(job):
                self._wait(job, job.minimum)
        self._place_waiting()
        self._place_ones()
        self._send_home()
        self._late = True
        self._again()
        take_back_unused(self.problem, self.ledger, self.supply, self.admitted.shrinks)
        self._stay()
        return self._filled()

    def _fills_a_node(self, job: RoundJob) -> bool:
        """Return whether a job of one node goes with the gangs: it needs a whole node as they do."""
        return self.style.scarce_first and job.minimum >= self._largest

    def _filled(self) -> Placed:
        """Fill up what is left; what then breaks a rule is taken back, and filled up again.

        Where nobody who is stopped runs on before that, who waits with a better rank may still start there; but what
        starts may leave a team no room for a stop to be taken back.
        """
        if self.style.run_on_first:
            self._seal()
            self.fill.run_on()
        for repeat in range(MOST_REPEATS):
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
            if not (dear or wrong) or repeat == MOST_REPEATS - 1:
                break
            self.loose.pin(self.ledger.stopped | self.ledger.changed.keys())
            for job in wrong:
                self._unbook(job)
            self._take_back(dear)
            take_back_unused(self.problem, self.ledger, self.supply, self.admitted.shrinks)
            self._unplaced += [job.index for job in wrong]
        dear |= {j for j, change in flow.changes.items() if change is Change.SHRINK and j not in needed}
        return Placed(
            assignment,
            tuple(self._unplaced),
            tuple(self._homeless),
            frozenset(dear),
            frozenset(job.index for job in wrong),
        )


def place(problem: Problem, admitted: Admitted, style: Style) -> Assignment | None:
    """Return a plan in one style, None where the repairs did not make it valid."""
    for each in dict.fromkeys((style, replace(style, run_on_first=True))):
        placed = Fine(problem, admitted, each).run()
        if not (placed.homeless or placed.dear or placed.wrong):
            return placed.assignment
    return None
