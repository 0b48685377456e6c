"""The fine stage: places for what admission chose, with moves where holes must be made.

Gangs go first, then single jobs in descending size; running jobs that had to leave their node count as jobs of their
own size. Sizes that divide each other pack perfectly that way. Everybody is served by what stopped jobs leave over, the
rarest first, before taking what anybody may have. What finds no place stays
queued; a pass of the greedy solver fills up. What then breaks a rule is repaired or, where that fails, undone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from optsched.rounds.assignment import NO_CHANGE, Assignment, flow_of
from optsched.rounds.check import check, unpaid
from optsched.rounds.problem import Cut, Problem, RoundJob
from optsched.rounds.score import score, served_by
from optsched.solve.cpsat.admission import Admitted
from optsched.solve.growth import grow_one
from optsched.solve.mend import mend
from optsched.solve.places import Style
from optsched.solve.refill import refill
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


class Fine(Repairs):
    """Places one admission; see the module's text."""

    def run(self, hurry: Callable[[], bool] = lambda: False) -> Assignment:
        """Place everything that finds a place, then fill up. What comes of it may break rules."""
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
        return self._filled(hurry)

    def _fills_a_node(self, job: RoundJob) -> bool:
        """Return whether a job of one node goes with the gangs: it needs a whole node as they do."""
        return self.style.scarce_first and job.minimum >= self._largest

    def _filled(self, hurry: Callable[[], bool]) -> Assignment:
        """Fill up what is left; what then breaks a rule is taken back, and filled up again, but for a `hurry`.

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
            if repeat == MOST_REPEATS - 1 or hurry():
                break
            flow = flow_of(self.problem, assignment)
            served = served_by(self.problem, flow)
            needed = set().union(*served.values())
            dear = unpaid(self.problem, flow, served) | (assignment.stopped - needed)
            wrong = self._without_right(served)
            if not (dear or wrong):
                break
            self.loose.pin(self.ledger.stopped | self.ledger.changed.keys())
            for job in wrong:
                self._unbook(job)
            self._take_back(dear)
            take_back_unused(self.problem, self.ledger, self.supply, self.admitted.shrinks)
            self._unplaced += [job.index for job in wrong]
        return assignment


def place(problem: Problem, admitted: Admitted, style: Style, hurry: Callable[[], bool] = lambda: False) -> Assignment:
    """Return a valid plan in one style, mended where placing alone did not make it valid.

    `hurry` is asked whether another try would take too long.
    """
    plan = NO_CHANGE
    for each in dict.fromkeys((style, replace(style, run_on_first=True))):
        plan = Fine(problem, admitted, each).run(hurry)
        if not check(problem, plan):
            return plan
        if hurry():
            break
    return mended(problem, plan)


def mended(problem: Problem, plan: Assignment) -> Assignment:
    """Return what is left of a plan once what breaks rules is undone, and filled up again."""
    plan = mend(problem, plan)
    filled = refill(problem, plan)
    if not check(problem, filled):
        return filled
    # A greedy pass looks ahead only so far.
    mode = problem.profile.priority_mode
    return max(mend(problem, filled), plan, key=lambda each: score(problem, each).key(mode))
