"""A greedy pass over a plan that is there already: what it left idle goes to those who wait."""

from __future__ import annotations

from optsched.rounds.assignment import Assignment, Change, flow_of
from optsched.rounds.problem import Problem, Spread
from optsched.rounds.rights import claim_of
from optsched.rounds.score import served_by, size_of, use_after
from optsched.solve.floors import Floors
from optsched.solve.greedy import Params, Pass
from optsched.solve.ledger import Ledger
from optsched.solve.supply import Supply


def refill(problem: Problem, plan: Assignment) -> Assignment:
    """Return a valid plan with what else can start, run on or grow beside it. It may break a rule."""
    flow = flow_of(problem, plan)
    ledger = Ledger(problem)
    supply, floors = Supply(problem, ledger), Floors(problem)
    by_change: dict[Change, list[int]] = {change: [] for change in Change}
    for j, change in flow.changes.items():
        by_change[change].append(j)
    jobs = problem.jobs
    for j in by_change[Change.SHRINK]:
        given = _given(jobs[j].spread_now, plan.changed[j])
        supply.shrink(j, given)
        ledger.shrink(jobs[j], plan.changed[j])
        floors.shrink(jobs[j], given)
    supply.leave(by_change[Change.STOP])
    ledger.stop([jobs[j] for j in by_change[Change.STOP]])
    for j in by_change[Change.MOVE]:
        ledger.move(jobs[j], plan.changed[j])
    for j in by_change[Change.GROW]:
        ledger.start(jobs[j], plan.changed[j])
    use = use_after(problem, plan, by_line=False)
    fill = Pass(problem, Params(), ledger, supply, floors)
    served = served_by(problem, flow)
    for j in sorted(by_change[Change.START], key=lambda j: (len(served.get(j, ())), j)):
        job, spread = jobs[j], plan.changed[j]
        claim = claim_of(problem, job, job.minimum, use)
        if size_of(spread) > job.minimum or not fill.book(job, claim, supply.kind(job, claim), spread, []):
            ledger.start(job, spread)
    # What a job inside its quota leaves is for its own team alone.
    for j in by_change[Change.MOVE]:
        if problem.takeable[j].inside_quota:
            for n, _ in jobs[j].spread_now:
                ledger.gpus[n] = min(0, ledger.gpus[n])
    supply.pin(j for j in ledger.changed if jobs[j].running)
    return fill.run()


def _given(before: Spread, after: Spread) -> Spread:
    """Return what a job gives up by node."""
    kept = dict(after)
    return tuple((n, count - kept.get(n, 0)) for n, count in before if count > kept.get(n, 0))
