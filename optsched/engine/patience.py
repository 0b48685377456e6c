"""What a round may do for the good of those who run, and must not where somebody waits for them to end.

Growing and moving stop a run and start it again, which takes time. Where a reservation counts on its end, that would
put off the start that was told.
"""

from __future__ import annotations

from dataclasses import replace

from optsched.engine.runs import left_s, saved_s
from optsched.engine.state import JobRecord, State
from optsched.policy.victims import estimated_end, grace_s
from optsched.values.ids import JobId
from optsched.values.job import Job
from optsched.values.plan import Move, Plan
from optsched.values.snapshot import Snapshot


def without_delays(state: State, snapshot: Snapshot, plan: Plan) -> Plan:
    """Return a plan less what changes for its own good, or for that of such a change, and would delay a reservation."""
    dropped: set[JobId] = set()
    if not plan.reservations or not (plan.migrations or plan.resizes):
        return plan
    jobs = {job.id: job for job in snapshot.jobs}
    while True:
        more = {
            each.job
            for each in (*plan.migrations, *plan.resizes)
            if each.job not in dropped and _needless(state, plan, each, dropped, jobs[each.job])
        }
        if not more:
            break
        dropped |= more
    if not dropped:
        return plan
    return replace(
        plan,
        migrations=tuple(each for each in plan.migrations if each.job not in dropped),
        resizes=tuple(each for each in plan.resizes if each.job not in dropped),
        settled=False,
    )


def _needless(state: State, plan: Plan, move: Move, dropped: set[JobId], job: Job) -> bool:
    """Return whether a change serves nobody that is left, and delays a reservation or served what was dropped."""
    if set(move.beneficiaries) - dropped:
        return False
    return bool(move.beneficiaries) or _delays(state, plan, state.jobs[move.job], job)


def _delays(state: State, plan: Plan, record: JobRecord, job: Job) -> bool:
    """Return whether a reservation counts on a run to end in time, and it would not if it were started again now.

    `job` is the run as the round saw it, its estimate corrected.
    """
    end, stated, corrected = estimated_end(job, state.now), record.job.estimated_runtime_s, job.estimated_runtime_s
    left = left_s(record, saved_s(record, state.now, state.profile, signalled=True))
    if end is None or left is None or not stated or corrected is None:
        return False
    then = state.now + grace_s(job, state.profile) + left * corrected / stated
    return any(
        room.start_estimate_at is not None
        and end <= room.start_estimate_at < then
        and room.job not in record.on_call
        and not room.planned.keys().isdisjoint(record.job.placement)
        for room in plan.reservations
    )
