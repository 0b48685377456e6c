"""Traces cut, thinned, made larger and denser: each a trace again, in normal order, starting at 0 s."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from optsched.sim.traces.facts import span, work
from optsched.values.trace import Trace, TraceJob


def cut(trace: Trace, from_s: float = 0.0, to_s: float = float("inf")) -> Trace:
    """Return the jobs submitted from `from_s` on and before `to_s`, as seconds since `from_s`."""
    kept = [job for job in trace.jobs if from_s <= job.submit_s < to_s]
    return _with(trace, [replace(job, submit_s=job.submit_s - from_s) for job in kept])


def up_to(trace: Trace, max_gpus: float) -> Trace:
    """Return the jobs that ask for at most `max_gpus` GPUs."""
    return _with(trace, [job for job in trace.jobs if job.gpus <= max_gpus])


GROWN = ("gpus", "num_tasks", "cpus", "mem_gb")
"""What of a job grows, as the normal form calls it."""


def grow(trace: Trace, factor: int) -> Trace:
    """Return the jobs with `factor` >= 1 times as many GPUs, tasks, CPUs and memory; how long they run stays."""
    return _with(trace, [_grown(job, factor) for job in trace.jobs])


def _grown(job: TraceJob, factor: int) -> TraceJob:
    return replace(
        job,
        gpus=job.gpus * factor,
        tasks=None if job.tasks is None else job.tasks * factor,
        cpus=None if job.cpus is None else job.cpus * factor,
        memory_gib=None if job.memory_gib is None else job.memory_gib * factor,
    )


def sample(trace: Trace, share: float, seed: int) -> Trace:
    """Return about `share` (0 to 1) of the jobs, each drawn on its own: the same for the same seed."""
    drawn = np.random.default_rng(seed).random(len(trace.jobs)) < share
    return _with(trace, [job for job, kept in zip(trace.jobs, drawn, strict=True) if kept])


def shrink(trace: Trace, factor: float) -> Trace:
    """Return the jobs with submit times divided by `factor` > 0; how long they run stays."""
    return _with(trace, [replace(job, submit_s=job.submit_s / factor) for job in trace.jobs])


def to_load(trace: Trace, load: float, gpus: int) -> Trace | None:
    """Return the trace shrunk (or stretched) so that it offers `load` to `gpus` GPUs from its first to its last job.

    None where it cannot be: no work whose duration is known, or all jobs come at one moment (or so close together, with
    so much work, that no factor would say it).
    """
    total, length_s = sum(map(work, trace.jobs)), span(trace.jobs)
    if not total or not length_s:
        return None
    factor = load * gpus * length_s / total
    return shrink(trace, factor) if 0 < factor < math.inf else None


def evenly(trace: Trace, load: float, gpus: int) -> Trace | None:
    """Return the jobs in their order, spaced anew: the work submitted by any moment is `load` of what `gpus` GPUs do.

    Busy and quiet weeks of the trace are lost, and with them most of its waves: what is left is its mix of jobs. None
    where they would all come at one moment: there is one, or no work whose duration is known.
    """
    jobs, at_s = [], 0.0
    for job in trace.jobs:
        jobs.append(replace(job, submit_s=at_s))
        at_s += work(job) / (load * gpus)
    return _with(trace, jobs) if span(jobs) else None


def _with(trace: Trace, jobs: Iterable[TraceJob]) -> Trace:
    """Return the trace with other jobs; its wall clock no longer fits them."""
    return replace(trace, jobs=tuple(jobs), starts_at="")
