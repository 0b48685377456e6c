"""Workloads: which jobs arrive when, and what they would do if they ran undisturbed."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from optsched.values.job import Job
from optsched.values.team import Team


class Ending(enum.Enum):
    """How a job's last attempt ends when nothing of the cluster comes between."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Arrival:
    """One job of a workload.

    `at` is seconds since the workload's start, >= 0. `work_s` > 0 is how long the job runs at the size it asks for,
    in its best placement, undisturbed; `ending` is how it ends then. The scheduler sees only `job`: its estimate is in
    there, what really happens is here.
    """

    at: float
    job: Job
    work_s: float
    ending: Ending = Ending.COMPLETED


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs by time of arrival, and the teams that they name."""

    name: str
    arrivals: tuple[Arrival, ...]
    teams: tuple[Team, ...] = ()
