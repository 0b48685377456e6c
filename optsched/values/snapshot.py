"""One moment of a cluster: the whole input of a round; with events, a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from optsched.values.cluster import Cluster, Reservation
from optsched.values.ids import JobId, NodeId
from optsched.values.job import Job
from optsched.values.plan import ReservedRoom
from optsched.values.profile import Profile
from optsched.values.team import Team


@dataclass(frozen=True, slots=True)
class Occupied:
    """Room on a node that no running job of the snapshot has, and that is not free.

    It is that of a run which ended or is told to stop, and which its agent has not confirmed gone. `until` is the
    instant by which it should be free.
    """

    node: NodeId
    gpus: int | tuple[int, ...]
    cpus: float = 0.0
    memory_gb: float = 0.0
    until: float = 0.0


@dataclass(frozen=True, slots=True)
class Kept:
    """Room that is kept for a queued job until an instant: {node: GPUs}."""

    job: JobId
    gpus: Mapping[NodeId, int]
    until: float


@dataclass(frozen=True, slots=True)
class Carried:
    """What the rounds before left behind, which no file states.

    `protected` jobs are not stopped in this round, and those of them that wait are not let into what is held for others
    on condition that they can be; `pinned` ones are neither stopped nor moved nor resized. `guests` names, by job
    that waits, those that run in what is held for it and that it may stop. `placed_at` gives a queued job another place
    in the order than its submission does, `waits_since` is when one that has run was put back into the queue. `late`
    jobs miss their start deadline whatever is done: nobody makes room for it. `reserved` is what the last
    round planned for those that were blocked: it stands where nothing is sooner.
    `behind` gives, by a queued job, how many more of its kind wait behind it: they count as demand only. So do the
    `stopping`, which are told to stop and wait again once they have.
    """

    occupied: tuple[Occupied, ...] = ()
    kept: tuple[Kept, ...] = ()
    protected: frozenset[JobId] = frozenset()
    pinned: frozenset[JobId] = frozenset()
    guests: Mapping[JobId, frozenset[JobId]] = field(default_factory=dict)
    placed_at: Mapping[JobId, float] = field(default_factory=dict)
    waits_since: Mapping[JobId, float] = field(default_factory=dict)
    late: frozenset[JobId] = frozenset()
    reserved: tuple[ReservedRoom, ...] = ()
    behind: Mapping[JobId, int] = field(default_factory=dict)
    stopping: tuple[Job, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known at `now` (an instant in seconds); job, team, node and reservation ids are unique."""

    now: float
    cluster: Cluster
    teams: tuple[Team, ...]
    jobs: tuple[Job, ...]
    reservations: tuple[Reservation, ...] = ()
    profile: Profile = Profile()
    carried: Carried = Carried()

    def placed_at(self, job: Job) -> float:
        """Return the instant by which a job's place among its equals is counted: its submission, mostly."""
        return self.carried.placed_at.get(job.id, job.submitted_at)

    def waits_since(self, job: Job) -> float:
        """Return since when a queued job waits: the time in which it ran is no waiting."""
        return self.carried.waits_since.get(job.id, job.submitted_at)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens at an instant; `fields` holds what its type says, parsed into values."""

    at: float
    type: str
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A snapshot and what happens after it, sorted by time."""

    start: Snapshot
    events: tuple[Event, ...] = ()
