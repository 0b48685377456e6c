"""A generated trace like that of Alibaba's fleet of 10,412 GPUs (2026), whose own job list is too large to come along.

What is published of it are totals (fleetfit.py); jobs are drawn so that they meet them. Beyond the totals nothing is
like the real trace: one organization's jobs of a day are no more alike than any others of their size and duration.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from optsched.sim.traces.fleetfit import END_S, Fit, fit, split, within
from optsched.sim.traces.tables import Floats, column, rows_of
from optsched.values.trace import Trace, TraceJob

HOURS = 4416
"""Hours that can be generated: 184 days."""

SINGLE = "A10"
"""The model whose nodes have one GPU each: its gangs are cut into tasks of one."""

PREEXISTING = "preexisting"
_HOUR_S = 3600.0
_NODE_GPUS = 8


@dataclass(frozen=True, slots=True, eq=False)
class _Drawn:
    """Jobs of one group of hours, as arrays of the same length; seconds since the trace's beginning."""

    group: int
    submit_s: Floats
    duration_s: Floats
    gpus: Floats
    models: npt.NDArray[np.int64]
    organizations: npt.NDArray[np.int64]
    types: npt.NDArray[np.int64]
    kept: npt.NDArray[np.bool_]


def generate(seed: int = 0, from_hour: int = 0, hours: int = 24, share: float = 1.0) -> Trace:
    """Return the jobs of `hours` hours from `from_hour` on, each kept with the chance `share`; the same for a seed.

    Jobs that were submitted earlier and would still run are there as well, submitted at 0 s, with what is left of their
    time (status "preexisting"): every window is one of the same world. from_hour + hours is at most HOURS.
    """
    start_s, end_s = from_hour * _HOUR_S, (from_hour + hours) * _HOUR_S
    jobs = [job for drawn in _world(seed, from_hour + hours, share) for job in _jobs(drawn, start_s, end_s)]
    jobs.sort(key=lambda job: job.submit_s)
    notes = (
        "generated: totals are those of Alibaba's fleet of 10,412 GPUs (2026), single jobs are not",
        f"seed {seed}, from hour {from_hour}, {hours} hours, {share:g} of the jobs",
    )
    return Trace("fleet-2026", "generated", tuple(jobs), notes=notes)


def _world(seed: int, end_hour: int, share: float) -> Iterator[_Drawn]:
    found = fit()
    counts = column("fleet2026_hourly", "jobs").astype(int)
    for group, hours in enumerate(found.hours):
        if hours.start < end_hour:
            yield _draw(found, group, counts[hours.start : hours.stop], np.random.default_rng([seed, group]), share)


def _draw(found: Fit, group: int, counts: npt.NDArray[np.int64], rng: np.random.Generator, share: float) -> _Drawn:
    """Return a group's jobs. Every hour gets just as many as were submitted in it; hour 0's come at its beginning."""
    sizes, durations = found.cells.shape[1:]
    count = int(counts.sum())
    cell = rng.choice(sizes * durations, size=count, p=found.cells[group].ravel())
    size, band = np.divmod(cell, durations)
    gpus = np.empty(count)
    for index, (values, shares) in enumerate(found.sizes):
        members = size == index
        gpus[members] = rng.choice(values, size=int(members.sum()), p=shares / shares.sum())
    low, high = found.low_s, found.high_s[group]
    duration_s = np.round(within(low[band], high[band], found.steepness[band], rng.random(count)))
    first = found.hours[group].start
    hour = np.repeat(first + np.arange(len(counts)), counts)
    within_s = np.round(rng.random(count) * (_HOUR_S - 1))
    submit_s = np.zeros(count) if first == 0 else hour * _HOUR_S + within_s
    duration_s = np.clip(duration_s, 1, np.maximum(END_S - submit_s, 1))
    model, organization, kind = (
        _pick(_shares(name)[:, size, band], rng.random(count)) for name in ("models", "organizations", "types")
    )
    return _Drawn(group, submit_s, duration_s, gpus, model, organization, kind, rng.random(count) < share)


@functools.cache
def _shares(name: str) -> Floats:
    """Return the chance of each class in each cell, shape (K, S, D)."""
    found = fit()
    table = f"fleet2026_{name}"
    gpus = None if name == "types" else column(table, "gpus")
    return split(found.totals, found.mean_gpus, found.mean_s, column(table, "jobs"), gpus, column(table, "gpu_s"))


def _pick(chances: Floats, uniform: Floats) -> npt.NDArray[np.int64]:
    """Return a class for each job, given the chances of each (K, jobs)."""
    found: npt.NDArray[np.int64] = np.minimum((np.cumsum(chances, axis=0) < uniform).sum(axis=0), len(chances) - 1)
    return found


def _jobs(drawn: _Drawn, start_s: float, end_s: float) -> Iterator[TraceJob]:
    models = [row["gpu_model"] for row in rows_of("fleet2026_models")]
    organizations = [row["organization"] for row in rows_of("fleet2026_organizations")]
    types = [row["job_type"] for row in rows_of("fleet2026_types")]
    ends_s = drawn.submit_s + drawn.duration_s
    here = drawn.kept & (drawn.submit_s < end_s) & ((drawn.submit_s >= start_s) | (ends_s > start_s))
    for index in np.flatnonzero(here):
        submit_s, gpus = float(drawn.submit_s[index]), float(drawn.gpus[index])
        before = submit_s < start_s or (submit_s == 0 and start_s == 0)
        model = models[drawn.models[index]]
        part = _part(gpus, model)
        yield TraceJob(
            id=f"f{drawn.group}-{index}",
            submit_s=max(submit_s - start_s, 0.0),
            gpus=gpus,
            duration_s=float(ends_s[index]) - max(submit_s, start_s),
            gpu_types=(model,),
            team=f"org{organizations[drawn.organizations[index]]}",
            priority=types[drawn.types[index]],
            status=PREEXISTING if before else "",
            tasks=max(1, round(gpus / part)),
            gpus_per_task=part,
        )


def _part(gpus: float, model: str) -> float:
    """Return the GPUs of one worker: all on one node where they fit on it, else what divides a node and the gang."""
    if gpus <= 1:
        return gpus
    if model == SINGLE:
        return 1.0
    return gpus if gpus <= _NODE_GPUS else float(math.gcd(int(gpus), _NODE_GPUS))
