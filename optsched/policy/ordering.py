"""The order of the queue, and the tier that each job would stand in: total orders, a stable id last."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from optsched.policy.filling import Floats
from optsched.policy.shares import weighted_share_of_one
from optsched.values.job import Job
from optsched.values.profile import Profile

DEADLINE, GUARANTEED, FAIR, OPPORTUNISTIC = range(4)
"""Tiers as integers, most protected first; `values.plan.Tier` in the same order."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A queued job as the order sees it; `team` indexes the usage arrays, `amounts` (R,) is what a start would add."""

    key: int
    team: int
    tier: int
    priority: int
    submitted_at: float
    id: str
    amounts: Sequence[float]
    deadline_at: float


def order_queue(waiting: Sequence[Waiting], usage: Floats, capacity: Floats, weight: Floats) -> list[int]:
    """Return the keys of `waiting`, first in line first.

    Near deadlines come first, the nearest ahead; then tier, then priority. Inside that the older job is first, except
    among opportunistic jobs: there the team with the lower weighted dominant share gives the next one (weight 0 is last
    in line), and what it gives counts in its share. `usage` (T, R) is what the teams hold now, `capacity` (R,),
    `weight` (T,).
    """
    by_age = sorted(waiting, key=lambda job: (job.tier, job.deadline_at, -job.priority, job.submitted_at, job.id))
    line: list[int] = [job.key for job in by_age if job.tier != OPPORTUNISTIC]
    held = usage.tolist()
    rest = [job for job in by_age if job.tier == OPPORTUNISTIC]
    for priority in sorted({job.priority for job in rest}, reverse=True):
        line.extend(_fill([job for job in rest if job.priority == priority], held, capacity.tolist(), weight.tolist()))
    return line


def _fill(
    jobs: Sequence[Waiting], held: list[list[float]], capacity: Sequence[float], weight: Sequence[float]
) -> list[int]:
    """Order opportunistic jobs of one priority by progressive filling; adds what they take to `held`."""
    queues: dict[int, list[Waiting]] = {}
    for job in reversed(jobs):
        queues.setdefault(job.team, []).append(job)

    def entry(team: int) -> tuple[float, float, str, int]:
        oldest = queues[team][-1]
        return (weighted_share_of_one(held[team], capacity, weight[team]), oldest.submitted_at, oldest.id, team)

    heap = [entry(team) for team in queues]
    heapq.heapify(heap)
    line = []
    while heap:
        team = heapq.heappop(heap)[-1]
        job = queues[team].pop()
        line.append(job.key)
        held[team] = [have + more for have, more in zip(held[team], job.amounts, strict=True)]
        if queues[team]:
            heapq.heappush(heap, entry(team))
    return line


def lifted(job: Job, now: float, grace: float, profile: Profile) -> bool:
    """Return whether the job's start deadline is so near (or past) that it stands above its tier."""
    return job.start_deadline_at is not None and now >= job.start_deadline_at - 4 * (grace + profile.start_latency_s)


def due_at(job: Job, grace: float, profile: Profile) -> float | None:
    """Return when the job must begin to make room, if it is to start by its deadline; None where it has none."""
    if job.start_deadline_at is None:
        return None
    return job.start_deadline_at - (grace + profile.start_latency_s + profile.deadline_margin_s)


def due(job: Job, now: float, grace: float, profile: Profile) -> bool:
    """Return whether the job must begin to make room now, if it is to start by its deadline."""
    at = due_at(job, grace, profile)
    return at is not None and now >= at


def class_weight(profile: Profile) -> Callable[[int], float]:
    """Return w of the weighted mode as a function of the priority: the class's own, straight lines between classes."""
    known = sorted((priority, profile.weights.get(name, 1.0)) for name, priority in profile.classes.items())
    if not known:
        return lambda _: 1.0
    levels = [priority for priority, _ in known]
    weights = np.maximum.accumulate([weight for _, weight in known])
    return cache(lambda priority: float(np.interp(priority, levels, weights)))


def aging(job: Job, now: float, profile: Profile) -> float:
    """Return the share of its w that a queued job has gained by waiting, 0 .. profile.max_aging."""
    return min(profile.max_aging, profile.aging_per_h * max(0.0, now - job.submitted_at) / 3600.0)
