"""One job at a time, by fair share, with reclaim: in the manner of today's schedulers on Kubernetes.

The team that has least of what it is entitled to gives the next job. It goes into the tightest domain that holds it;
where none does, a team inside its quota or share takes from teams beyond theirs, the runs that began last first,
whatever they lose. Nothing is reserved and nothing looks ahead. The search for victims that together form a place, and
the rules of who may take from whom, are optsched's own, which flatters it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import replace

from optsched.rounds.assignment import Assignment
from optsched.rounds.check import check
from optsched.rounds.problem import Problem, RoundJob
from optsched.sim.policies.baseline import Baseline, Choice
from optsched.sim.policies.policy import Means, Policy
from optsched.solve.greedy import Params, Pass
from optsched.values.job import Job, JobState
from optsched.values.profile import Profile
from optsched.values.snapshot import Snapshot


def one_at_a_time(problem: Problem) -> Choice:
    """Give each team's turn to its first job, the team with the smallest share of its due first."""
    for params in (Params(grow=False), Params(grow=False, leftovers=False), Params(grow=False, preempt=False)):
        made = Pass(problem, params)
        for job in _turns(problem, made):
            made.place(job)
        if params.leftovers:
            made.run_on()
        found = Assignment(dict(made.ledger.changed), frozenset(made.ledger.stopped))
        if not found.stopped or not check(problem, found):
            break
    return Choice(found)


def _turns(problem: Problem, made: Pass) -> Iterator[RoundJob]:
    """Yield the jobs, each time of the team that has least of what it is entitled to by then."""
    lines, use = problem.lines, made.ledger.claim
    due = lines.quota_any + lines.quota_by_type.sum(axis=1) + lines.fair_by_type.sum(axis=1)
    waiting: dict[int, list[RoundJob]] = {}
    for job in sorted(problem.queued, key=lambda each: (each.priority, each.index), reverse=True):
        if job.can_ever_run:
            waiting.setdefault(job.claim_team, []).append(job)

    def entry(team: int) -> tuple[float, int]:
        return float(use.gpus[team].sum()) / max(1, int(due[team])), team

    heap = [entry(team) for team in waiting]
    heapq.heapify(heap)
    while heap:
        _, team = heapq.heappop(heap)
        yield waiting[team].pop()
        if waiting[team]:
            heapq.heappush(heap, entry(team))


def newest_first(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with every run priced by its age, so that those that began last are stopped first."""
    return replace(snapshot, jobs=tuple(_by_age(job) for job in snapshot.jobs))


def _by_age(job: Job) -> Job:
    if job.state is not JobState.RUNNING:
        return job
    checkpoint = replace(job.checkpoint, on_signal=False, restart_s=0.0)
    return replace(job, last_checkpoint_at=job.started_at, checkpoint=checkpoint)


def _free_to_take(profile: Profile) -> Profile:
    """Return the profile without what keeps such schedulers from preempting: prices and rates."""
    return replace(profile, max_loss_ratio=None, preempt_tokens=None, migration=False)


def _planner(means: Means) -> Baseline:
    return Baseline(one_at_a_time, newest_first)


RECLAIM = (Policy("one-at-a-time-reclaim", _planner, _free_to_take),)
"""Fair share with reclaim."""
