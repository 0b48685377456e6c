"""What a trace holds, in figures: sizes, durations, endings, teams, and the load that it offers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from optsched.values.trace import Trace, TraceJob

BANDS = ((0, 0), (0, 1), (1, 1), (1, 2), (2, 4), (4, 8), (8, 16), (16, 32), (32, 64), (64, 128), (128, 256), (256, 512),
         (512, 1024), (1024, 10**9))  # fmt: skip
"""Sizes in GPUs: above the first, up to the second; where both are equal, exactly so many."""

NOT_TOLD = "not told"

MOST_LOAD = 1e15
"""Beyond it, submissions are taken to be in one instant."""

QUANTILES = (0.1, 0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Quantiles of durations, in seconds, None where no duration is known: p10, p50, p90, p99 and the largest."""

    p10_s: float | None
    p50_s: float | None
    p90_s: float | None
    p99_s: float | None
    max_s: float | None


@dataclass(frozen=True, slots=True)
class Size:
    """Jobs of one band of sizes; `label` names it: "1", "5-8", "over 1,024"."""

    label: str
    jobs: int
    gpu_s: float
    durations: Quantiles


@dataclass(frozen=True, slots=True)
class TeamFacts:
    """One team's jobs and what they used."""

    team: str
    jobs: int
    gpu_s: float


@dataclass(frozen=True, slots=True)
class Offered:
    """What is asked of a cluster of `gpus` GPUs, over two windows.

    `load` is all GPU-seconds over what the cluster has from the first submission to the last; None where that is one
    instant, or no job tells how long it ran. The other figures are of the `run_s` seconds from the first submission
    until the last job would end if each ran the moment it came: `mean_gpus` and `peak_gpus` are what jobs would hold on
    average and at most, `over_share` the share of it in which they would want more than there is. They are None where
    no job tells how long it ran; mean and share also where that is one instant.
    """

    gpus: int
    load: float | None
    run_s: float
    mean_gpus: float | None
    peak_gpus: float | None
    over_share: float | None


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is told of a trace. `span_s` is the time from the first submission to the last."""

    jobs: int
    gpu_jobs: int
    shared_jobs: int
    gpus_asked: float
    gpu_s: float
    span_s: float
    durations_known: int
    requests_known: int
    users: int
    sizes: tuple[Size, ...]
    durations: Quantiles
    outcomes: tuple[tuple[str, int], ...]
    teams: tuple[TeamFacts, ...]
    gpu_types: tuple[tuple[str, int], ...]
    offered: Offered | None


def describe(trace: Trace, gpus: int | None = None) -> Facts:
    """Return the facts of a trace; with `gpus`, also the load that it offers to a cluster of so many."""
    jobs = trace.jobs
    return Facts(
        jobs=len(jobs),
        gpu_jobs=sum(job.gpus > 0 for job in jobs),
        shared_jobs=sum(job.gpus != int(job.gpus) for job in jobs),
        gpus_asked=sum(job.gpus for job in jobs),
        gpu_s=sum(map(work, jobs)),
        span_s=span(jobs),
        durations_known=sum(job.duration_s is not None for job in jobs),
        requests_known=sum(job.requested_s is not None for job in jobs),
        users=len({job.user for job in jobs if job.user}),
        sizes=tuple(_sizes(jobs)),
        durations=quantiles(job.duration_s for job in jobs),
        outcomes=_counted(job.status or NOT_TOLD for job in jobs),
        teams=_teams(jobs),
        gpu_types=_counted("|".join(job.gpu_types) for job in jobs if job.gpu_types),
        offered=None if gpus is None else offered(jobs, gpus),
    )


def work(job: TraceJob) -> float:
    """Return a job's GPU-seconds, 0 where its duration is not known."""
    return job.gpus * (job.duration_s or 0.0)


def span(jobs: Sequence[TraceJob]) -> float:
    """Return the seconds from the first submission to the last."""
    return jobs[-1].submit_s - jobs[0].submit_s if jobs else 0.0


def offered(jobs: Sequence[TraceJob], gpus: int) -> Offered:
    """Return the load offered to a cluster of `gpus` GPUs (at least 1)."""
    length_s, total = span(jobs), sum(map(work, jobs))
    if all(job.duration_s is None for job in jobs):
        return Offered(gpus, None, length_s, None, None, None)
    load = total / (gpus * length_s) if length_s and total / MOST_LOAD <= gpus * length_s else None
    zero = jobs[0].submit_s
    run_s = max(job.submit_s - zero + (job.duration_s or 0.0) for job in jobs)
    timed = [job for job in jobs if job.gpus and job.duration_s]
    if not timed:
        return Offered(gpus, load, run_s, 0.0 if run_s else None, 0.0, 0.0 if run_s else None)
    starts = np.array([job.submit_s - zero for job in timed])
    ends = starts + np.array([job.duration_s or 0.0 for job in timed])
    held = np.array([job.gpus for job in timed])
    moments = np.concatenate([ends, starts])
    # Ends go before starts of the same moment: sorting is stable.
    order = np.argsort(moments, kind="stable")
    level = np.cumsum(np.concatenate([-held, held])[order])
    over_s = float(np.diff(moments[order])[level[:-1] > gpus + 1e-6].sum())
    return Offered(gpus, load, run_s, total / run_s, float(level.max()), min(over_s / run_s, 1.0))


def quantiles(durations: Iterable[float | None]) -> Quantiles:
    """Return the quantiles of the durations that are known."""
    known = np.array([seconds for seconds in durations if seconds is not None])
    if not known.size:
        return Quantiles(None, None, None, None, None)
    return Quantiles(*(float(value) for value in np.quantile(known, QUANTILES)))


def band_of(gpus: float) -> int:
    """Return the index in BANDS of a size."""
    for index, (low, high) in enumerate(BANDS):
        if gpus == high if low == high else (low < gpus <= high and gpus != 1) or (high == 1 and 0 < gpus < 1):
            return index
    return len(BANDS) - 1


def label_of(band: int) -> str:
    """Return the name of a band of sizes."""
    low, high = BANDS[band]
    if (low, high) == (0, 1):
        return "under 1"
    if low == high or high == low + 1:
        return f"{high:,}"
    return f"over {low:,}" if high == 10**9 else f"{low + 1:,}-{high:,}"


def _sizes(jobs: Sequence[TraceJob]) -> Iterable[Size]:
    inside: dict[int, list[TraceJob]] = {}
    for job in jobs:
        inside.setdefault(band_of(job.gpus), []).append(job)
    for band, members in sorted(inside.items()):
        yield Size(label_of(band), len(members), sum(map(work, members)), quantiles(job.duration_s for job in members))


def _teams(jobs: Sequence[TraceJob]) -> tuple[TeamFacts, ...]:
    count: Counter[str] = Counter()
    used: Counter[str] = Counter()
    for job in jobs:
        count[job.team] += 1
        used[job.team] += work(job)  # type: ignore[assignment]
    found = [TeamFacts(team, count[team], used[team]) for team in count if team]
    return tuple(sorted(found, key=lambda entry: (-entry.gpu_s, -entry.jobs, entry.team)))


def _counted(words: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(words).items(), key=lambda entry: (-entry[1], entry[0])))
