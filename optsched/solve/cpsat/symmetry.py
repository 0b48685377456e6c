"""Jobs that are alike but for their age start in order of age.

A plan that does otherwise can be relabelled into a better one.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from optsched.rounds.problem import Problem, RoundJob
from optsched.solve.cpsat.decisions import Decisions


def shape_key(problem: Problem, job: RoundJob) -> tuple[object, ...]:
    """Return everything about a queued job that a plan's worth depends on, but its age."""
    return (
        job.team,
        job.claim_team,
        job.line_team,
        job.priority,
        job.cut,
        job.unit,
        job.sizes,
        id(job.nodes),
        job.type_speed,
        job.span_speed,
        job.required,
        job.preferred,
        job.slices,
        job.cpus_per_gpu_u,
        job.memory_per_gpu_u,
        job.emergency,
        job.due,
        job.may_break_quota,
        job.starved,
        job.job.preemptible,
        job.job.user,
        tuple(job.index in hold.binds for hold in problem.holds),
        any(hold.unless == job.index for hold in problem.holds),
    )


def order_equal_jobs(problem: Problem, decisions: Decisions) -> None:
    """Add, for each group of jobs that are alike, that none starts before an older one.

    The older one may also cause more lost work.
    """
    groups: dict[tuple[object, ...], list[RoundJob]] = defaultdict(list)
    for j in decisions.starts:
        job = problem.jobs[j]
        groups[shape_key(problem, job)].append(job)
    for jobs in groups.values():
        for older, younger in pairwise(jobs):
            if older.pays_gpu_s >= younger.pays_gpu_s and older.aging_milli >= younger.aging_milli:
                decisions.model.add_implication(
                    decisions.starts[younger.index].active, decisions.starts[older.index].active
                )
