"""Putting an assignment into the words of a plan: names, indices, costs, bounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optsched.planner.forecast import Reserved
from optsched.planner.indices import Indices, fabrics_of
from optsched.planner.reservations import reserved_rooms
from optsched.policy.victims import median_reporting_start, stop_cost
from optsched.rounds.assignment import Change, Flow, flow_of
from optsched.rounds.problem import Problem, Spread
from optsched.rounds.score import Score, served_by
from optsched.solve.ladder import Answer
from optsched.topology.ranks import assign_tasks
from optsched.values.ids import JobId
from optsched.values.plan import (
    Bill,
    Move,
    Plan,
    Preemption,
    RankResult,
    RoundInfo,
    Source,
    Start,
    Status,
    Tier,
    Waiting,
)
from optsched.values.profile import PriorityMode

TIERS = tuple(Tier)


def assemble(
    problem: Problem,
    reserved: Sequence[Reserved],
    answer: Answer,
    waiting: tuple[Waiting, ...],
    *,
    with_tasks: bool,
) -> Plan:
    """Return the plan of a solved round."""
    flow = flow_of(problem, answer.assignment)
    served = served_by(problem, flow)
    indices = Indices(problem, answer.assignment)
    resizes = _moves(problem, flow, served, indices, (Change.SHRINK, Change.GROW))
    migrations = _moves(problem, flow, served, indices, (Change.MOVE,))
    return Plan(
        round=_round_info(problem, answer),
        starts=_starts(problem, flow, served, indices, with_tasks=with_tasks),
        preemptions=_preemptions(problem, flow, served),
        migrations=migrations,
        resizes=resizes,
        reservations=reserved_rooms(problem, reserved, answer.assignment),
        queued=waiting,
        bill=_bill(problem, answer),
    )


Served = dict[int, set[int]]


def _names(problem: Problem, jobs: Sequence[int]) -> tuple[JobId, ...]:
    return tuple(problem.jobs[j].job.id for j in sorted(jobs))


def _starts(problem: Problem, flow: Flow, served: Served, indices: Indices, *, with_tasks: bool) -> tuple[Start, ...]:
    fabrics = fabrics_of(problem) if with_tasks else {}
    starts = []
    starting = [j for j, change in sorted(flow.changes.items()) if change is Change.START]
    spans = span_names(problem, [flow.assignment.changed[j] for j in starting])
    for j, span in zip(starting, spans, strict=True):
        job, spread = problem.jobs[j], flow.assignment.changed[j]
        placement = indices.place(job, spread)
        tasks = assign_tasks(problem.tree, job.job, placement, fabrics) if with_tasks else ()
        waits_for = _names(problem, [g for g in served.get(j, ()) if flow.changes[g] is not Change.SHRINK])
        starts.append(Start(job.job.id, placement, span, waits_for, tasks))
    return tuple(starts)


def span_names(problem: Problem, spreads: Sequence[Spread]) -> list[str]:
    """Return the name of the narrowest level that holds each of some placements."""
    nodes = np.array([n for spread in spreads for n, _ in spread], dtype=np.int64)
    ends = np.cumsum([len(spread) for spread in spreads], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1]]) if spreads else ends
    return [problem.tree.span_name(level) for level in problem.tree.spans(nodes, starts).tolist()]


def _served_from(served: Served) -> dict[int, list[int]]:
    """Return, for each giver, the takers that it serves."""
    takers: dict[int, list[int]] = {}
    for taker, givers in served.items():
        for giver in givers:
            takers.setdefault(giver, []).append(taker)
    return takers


def _preemptions(problem: Problem, flow: Flow, served: Served) -> tuple[Preemption, ...]:
    snapshot = problem.snapshot
    median = median_reporting_start(snapshot.jobs) if flow.assignment.stopped else None
    takers = _served_from(served)
    found = []
    for j, change in sorted(flow.changes.items()):
        if change is Change.STOP:
            job = problem.jobs[j]
            cost = stop_cost(job.job, snapshot.now, problem.profile, median)
            who = _names(problem, takers.get(j, ()))
            found.append(Preemption(job.job.id, who, job.costs.stop, cost.lost_work_s, cost.grace_s))
    return tuple(found)


def _moves(
    problem: Problem, flow: Flow, served: Served, indices: Indices, kinds: tuple[Change, ...]
) -> tuple[Move, ...]:
    found = []
    takers = _served_from(served)
    # What shrinks gives its indices back before what grows or starts takes any.
    order = sorted(flow.changes.items(), key=lambda each: (each[1] is not Change.SHRINK, each[0]))
    for j, change in order:
        if change in kinds:
            job = problem.jobs[j]
            placement = indices.place(job, flow.assignment.changed[j])
            found.append(Move(job.job.id, placement, _names(problem, takers.get(j, ())), job.costs.move))
    return tuple(found)


def _bill(problem: Problem, answer: Answer) -> Bill:
    costs, result = answer.score.costs, answer.result
    return Bill(
        run_value=float(run_value(problem, answer.score)),
        placement_loss=float(costs.placement_loss),
        preemption_cost=float(costs.preemption),
        migration_cost=float(costs.migration),
        resize_cost=float(costs.resize),
        hold_cost=float(costs.hold),
        domain_cost=float(costs.domain),
        bound=None if result.bill_bound is None else float(result.bill_bound),
    )


def run_value(problem: Problem, score: Score) -> float:
    """Return what running is worth over the horizon: GPUs times seconds, weighted in the weighted mode."""
    if problem.profile.priority_mode is PriorityMode.WEIGHTED:
        return (score.weighted + 1000 * score.costs.total) / 1000.0
    return float(score.run_gpus * problem.horizon_s)


def _round_info(problem: Problem, answer: Answer) -> RoundInfo:
    score, result = answer.score, answer.result
    ranks = _ranks(problem, score, result.row_bounds)
    gap_gpus = _gap_gpus(problem, score, result.row_bounds)
    return RoundInfo(
        source=answer.source,
        status=Status.OPTIMAL if result.proven else Status.FEASIBLE,
        gap=_gap(problem, answer, gap_gpus),
        gap_gpus=gap_gpus,
        wall_s=0.0,
        deterministic_s=result.deterministic_s,
        considered=considered(problem, answer),
        queued=len(problem.queued),
        ranks=ranks,
        why=answer.why,
    )


def considered(problem: Problem, answer: Answer) -> int:
    """Return how many queued jobs the plan's solver looked at: greedy looks at all, a search at the window."""
    searched = answer.source is Source.CP_SAT
    return min(len(problem.queued), problem.profile.window_jobs) if searched else len(problem.queued)


def _ranks(problem: Problem, score: Score, bounds: Sequence[int | None]) -> tuple[RankResult, ...]:
    priorities = len(problem.priorities)
    ranks = []
    open_above = False
    for row, gpus in enumerate(score.rows):
        part, rest = divmod(row, len(TIERS) * priorities)
        tier, priority = divmod(rest, priorities)
        bound = bounds[row] if row < len(bounds) else None
        if gpus or bound:
            name = problem.priority_names[priority]
            ranks.append(RankResult(TIERS[tier], name, bool(part), gpus, None if open_above else bound))
        open_above = open_above or bound is None or bound > gpus
    return tuple(ranks)


def _gap_gpus(problem: Problem, score: Score, bounds: Sequence[int | None]) -> int | None:
    """Return the GPUs that all ranks together leave open; None while any rank's bound is unknown.

    The ranks from the first open one on can in all gain no more than the GPUs that the closed ones leave.
    """
    if not bounds or any(bound is None for bound in bounds):
        return None
    gaps = [(bound or 0) - gpus for bound, gpus in zip(bounds, score.rows, strict=True)]
    first_open = next((row for row, gap in enumerate(gaps) if gap), len(gaps))
    return min(sum(gaps), max(0, problem.healthy_gpus - sum(score.rows[:first_open])))


def _gap(problem: Problem, answer: Answer, gap_gpus: int | None) -> float | None:
    """Return the headline gap: the larger of what ranks and bill leave open, as fractions."""
    score, result = answer.score, answer.result
    value = run_value(problem, score)
    if problem.profile.priority_mode is PriorityMode.WEIGHTED:
        if result.weighted_bound is None:
            return None
        return max(0.0, (result.weighted_bound - score.weighted) / 1000.0 / value) if value else 0.0
    if gap_gpus is None or result.bill_bound is None:
        return None
    by_gpus = gap_gpus / problem.healthy_gpus if problem.healthy_gpus else 0.0
    by_bill = (score.costs.total - result.bill_bound) / value if value else 0.0
    return max(0.0, by_gpus, by_bill)
