"""What a what-if comes to: for each scenario the round of now, and bands over its futures."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from pydantic import TypeAdapter

from optsched.whatif.futures import Future
from optsched.whatif.rounds import RoundNow

LOW, HIGH = 0.1, 0.9
"""The band is between these quantiles: in 8 of 10 futures a value lies in it."""


@dataclass(frozen=True, slots=True)
class Band:
    """A value over all futures: its lower end, median and upper end; None: beyond the horizon."""

    low: float | None
    median: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Share:
    """A name, and in which share of the futures it is met."""

    name: str
    share: float


@dataclass(frozen=True, slots=True)
class StartAnswer:
    """When a job starts, in seconds from now, where, and in which share of the futures within the horizon at all."""

    start_s: Band
    starts_within_horizon: float
    domains: tuple[Share, ...]


@dataclass(frozen=True, slots=True)
class StoppedAnswer:
    """A run that was stopped for the jobs that were asked for: how often, and what that cost then, GPU-seconds."""

    job: str
    team: str
    share: float
    cost_gpu_s: float


@dataclass(frozen=True, slots=True)
class FuturesAnswer:
    """What the futures of a scenario come to.

    `cost_gpu_s` is, by team, the mean over all futures of what its jobs lose for those that were asked for. `held_gpus`
    are the GPUs that a team holds in the mean until the futures end, `lost_gpu_s` all lost work in the mean.
    """

    count: int
    until_s: Band
    jobs: Mapping[str, StartAnswer]
    stopped: tuple[StoppedAnswer, ...]
    cost_gpu_s: Mapping[str, float]
    held_gpus: Mapping[str, Band]
    lost_gpu_s: float
    waiting: Band


@dataclass(frozen=True, slots=True)
class ScenarioAnswer:
    """One scenario: the next round, and its futures (None: none were asked for)."""

    name: str
    now: RoundNow
    futures: FuturesAnswer | None


@dataclass(frozen=True, slots=True)
class Answer:
    """All scenarios, the first one with nothing changed but the jobs that were asked for."""

    cluster: str
    profile: str
    horizon_s: float
    run_times: str
    failures: str
    arrivals: str
    seed: int
    scenarios: tuple[ScenarioAnswer, ...]
    format: int = 1


def band(values: Sequence[float]) -> Band:
    """Return the band of some values, at least one, by nearest rank; inf becomes None.

    The lower end is the largest value that at most a tenth lie below, the upper end the smallest that at most a tenth
    lie above.
    """
    ordered = sorted(values)
    last = len(ordered) - 1
    low, high = ordered[math.floor(LOW * last)], ordered[math.ceil(HIGH * last)]
    return Band(_finite(low), _finite(ordered[math.ceil(0.5 * last)]), _finite(high))


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else value


def summary(futures: Sequence[Future]) -> FuturesAnswer:
    """Return what all futures of a scenario come to, at least one."""
    count = len(futures)
    teams = futures[0].held_gpus
    cost = dict.fromkeys(teams, 0.0)
    stopped: dict[tuple[str, str], list[float]] = {}
    for each in futures:
        for run in each.stopped:
            cost[run.team] += run.cost_gpu_s / count
            stopped.setdefault((run.job, run.team), []).append(run.cost_gpu_s)
    return FuturesAnswer(
        count=count,
        until_s=band([each.until_s for each in futures]),
        jobs={job: _start(job, futures) for job in futures[0].starts},
        stopped=tuple(
            StoppedAnswer(job, team, len(costs) / count, math.fsum(costs) / len(costs))
            for (job, team), costs in sorted(stopped.items(), key=lambda entry: (-len(entry[1]), entry[0]))
        ),
        cost_gpu_s=cost,
        held_gpus={team: band([each.held_gpus[team] for each in futures]) for team in teams},
        lost_gpu_s=math.fsum(each.lost_gpu_s for each in futures) / count,
        waiting=band([float(each.waiting) for each in futures]),
    )


def _start(job: str, futures: Sequence[Future]) -> StartAnswer:
    starts = [each.starts[job] for each in futures]
    domains = Counter(each.domains[job] for each in futures if job in each.domains)
    return StartAnswer(
        band([math.inf if at is None else at for at in starts]),
        sum(at is not None for at in starts) / len(starts),
        tuple(
            Share(name, number / len(futures))
            for name, number in sorted(domains.items(), key=lambda entry: (-entry[1], entry[0]))
        ),
    )


@cache
def _adapter() -> TypeAdapter[Answer]:
    return TypeAdapter(Answer)


def to_json(answer: Answer) -> str:
    """Return an answer as JSON on one line."""
    return json.dumps(_adapter().dump_python(answer, mode="json"), separators=(",", ":"))
