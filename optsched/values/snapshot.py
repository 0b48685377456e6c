"""One moment of a cluster: the whole input of a round; with events, a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from optsched.values.cluster import Cluster, Reservation
from optsched.values.job import Job
from optsched.values.profile import Profile
from optsched.values.team import Team


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known at `now` (an instant in seconds); job, team, node and reservation ids are unique."""

    now: float
    cluster: Cluster
    teams: tuple[Team, ...]
    jobs: tuple[Job, ...]
    reservations: tuple[Reservation, ...] = ()
    profile: Profile = Profile()


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
