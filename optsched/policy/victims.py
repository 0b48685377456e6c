"""What it costs to stop or move a running job, and which running jobs may be touched at all."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from optsched.values.job import Job, JobState
from optsched.values.profile import Profile


@dataclass(frozen=True, slots=True)
class StopCost:
    """What one GPU of a job pays when the job is stopped, all in seconds.

    `lost_work_s` is work done since the last checkpoint that survives; `checkpoint_s` the time that a checkpoint on
    signal takes; `restart_s` the time to come back. `grace_s` is the grace period that the job is given, `drain_s` how
    long its GPUs are expected to stay busy after the signal.
    """

    lost_work_s: float
    checkpoint_s: float
    restart_s: float
    grace_s: float

    @property
    def per_gpu_s(self) -> float:
        """Seconds lost by every GPU of the job."""
        return self.lost_work_s + self.checkpoint_s + self.restart_s

    @property
    def drain_s(self) -> float:
        """Seconds from the signal until the GPUs are free: the checkpoint that is written meanwhile."""
        return self.checkpoint_s


def median_reporting_start(jobs: Iterable[Job]) -> float | None:
    """Return the median start instant of the running jobs that report checkpoints; None where none does."""
    starts = [
        job.started_at
        for job in jobs
        if job.state is JobState.RUNNING and job.last_checkpoint_at is not None and job.started_at is not None
    ]
    return statistics.median(starts) if starts else None


def grace_s(job: Job, profile: Profile) -> float:
    """Return the grace period in seconds: the longer of job's and profile's, capped by the profile."""
    return min(max(job.grace_period_s or 0.0, profile.grace_period_s), profile.max_grace_period_s)


def saves_on_signal(job: Job, profile: Profile) -> bool:
    """Return whether a job that is told to stop saves its work within its grace period."""
    return job.checkpoint.on_signal and job.checkpoint.cost_s <= grace_s(job, profile)


def stop_cost(job: Job, now: float, profile: Profile, median_start: float | None) -> StopCost:
    """Price the stop of a running job.

    A job that checkpoints on signal, and whose checkpoint fits in its grace period, loses nothing but that checkpoint's
    time. Any other loses the age of its last checkpoint. One that reports none is priced as checkpointed at the later
    of its own start and the median start of those that report, so that hiding checkpoints protects nobody.
    """
    grace = grace_s(job, profile)
    checkpoint = job.checkpoint
    if saves_on_signal(job, profile):
        return StopCost(0.0, checkpoint.cost_s, checkpoint.restart_s, grace)
    started = job.started_at if job.started_at is not None else now
    if job.last_checkpoint_at is not None:
        saved = job.last_checkpoint_at
    else:
        saved = started if median_start is None else max(started, median_start)
    return StopCost(max(0.0, now - saved), 0.0, checkpoint.restart_s, grace)


def estimated_end(job: Job, now: float) -> float | None:
    """Return when a running job is estimated to end; None without an estimate or past it."""
    if job.estimated_runtime_s is None or job.started_at is None:
        return None
    end = job.started_at + job.estimated_runtime_s
    return end if end > now else None


def waited_for(job: Job, now: float, cost: StopCost) -> bool:
    """Return whether a job ends so soon that stopping it would gain nothing."""
    end = estimated_end(job, now)
    return end is not None and end - now <= cost.grace_s + cost.checkpoint_s + cost.restart_s and end > now


def has_token(job: Job, now: float, profile: Profile) -> bool:
    """Return whether the job's token bucket allows one more preemption.

    A snapshot tells how often a job was preempted, not when: the bucket is taken as filled since submission.
    """
    tokens = profile.preempt_tokens
    if tokens is None:
        return True
    age_h = max(0.0, now - job.submitted_at) / 3600.0
    return min(tokens.burst, tokens.burst + tokens.per_h * age_h - job.preemptions) >= 1.0


def may_be_stopped(job: Job, now: float, profile: Profile, cost: StopCost) -> bool:
    """Return whether a running job may be preempted in this round, whoever asks."""
    started = job.started_at if job.started_at is not None else now
    return (
        job.preemptible
        and now - started >= profile.min_runtime_s
        and has_token(job, now, profile)
        and not waited_for(job, now, cost)
    )
