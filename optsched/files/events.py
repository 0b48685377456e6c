"""Events of a scenario: each type into values, in order of time, against what is known by then.

A reference to an unknown job or node is a warning, not a fault: a replayed log may hold stale reports, and they
change nothing.
"""

from __future__ import annotations

from optsched.files.clusters import build_node, check_node
from optsched.files.jobs import build_job
from optsched.files.known import Known
from optsched.files.profiles import resolve_profile
from optsched.files.report import Scope, known, show
from optsched.files.reservations import build_reservation
from optsched.files.schema import JobIn, NodeIn, ReservationIn, TeamIn
from optsched.files.schema_events import (
    EVENTS,
    EventIn,
    JobUpdateIn,
    NodeAddedIn,
    ProfileSetIn,
    ReservationSetIn,
    SubmitIn,
    TeamSetIn,
)
from optsched.files.teams import build_team, cycles
from optsched.files.validate import validate
from optsched.values.ids import JobId, LevelName, NodeId, TeamId
from optsched.values.job import Job
from optsched.values.snapshot import Event

_FIXED = ("id", "state", "placement", "started_at", "submitted_at", "last_checkpoint_at", "run", "preemptions")
"""Keys of a job that no update may set."""

_FIELDS_OF = {
    "topology": ("required", "preferred"),
    "priority": ("priority", "priority_class"),
    "gpus": ("gpus", "min_gpus", "max_gpus"),
}
"""Fields of a Job that a key sets, where they are not just the one of the same name."""


def read_events(data: object, scope: Scope, about: Known, entries: dict[JobId, JobIn]) -> tuple[Event, ...]:
    """Return the events in order of time (of one instant: in order of the file); faults are noted.

    `about` and `entries` (the jobs as they were written) take in what the events bring.
    """
    if data is None:
        return ()
    if not isinstance(data, list):
        scope.fault(f"given {show(data)}", "a list of events")
        return ()
    read: list[tuple[float, int, EventIn]] = []
    for index, given in enumerate(data):
        here = scope.at(index)
        if (entry := _shape(given, here)) is None:
            continue
        at = about.clock.seconds(entry.at, here, "at")
        if at < about.now:
            here.fault(f"{at:.15g} is before now, {about.now:.15g}", f"at least {about.now:.15g}", "at")
            continue
        read.append((at, index, entry))
    read.sort(key=lambda item: item[:2])
    for _, _, entry in read:
        if isinstance(entry, NodeAddedIn) and isinstance(entry.node, dict) and isinstance(entry.node.get("gpus"), int):
            about.largest_node = max(about.largest_node, entry.node["gpus"])
    reader = _Reader(about, entries)
    found = [reader.event(at, entry, scope.at(index)) for at, index, entry in read]
    return tuple(event for event in found if event is not None)


def _shape(given: object, scope: Scope) -> EventIn | None:
    kind = given.get("type") if isinstance(given, dict) else None
    model = EVENTS.get(kind) if isinstance(kind, str) else EventIn
    if model is None:
        scope.fault(f"unknown event type {show(kind)}", known(list(EVENTS), kind, "known types"), "type")
        return None
    return validate(scope, model, given)


class _Reader:
    """Reads events one after another; what one brings, the next ones may name."""

    def __init__(self, about: Known, entries: dict[JobId, JobIn]) -> None:
        self.about = about
        self.entries = entries

    def event(self, at: float, entry: EventIn, scope: Scope) -> Event | None:
        """Return the value of an event; None where a fault was noted."""
        before = scope.report.count
        self.about.now = at
        if isinstance(entry, SubmitIn):
            fields_of: dict[str, object] = {"job": self._submit(entry, scope)}
        elif isinstance(entry, JobUpdateIn):
            fields_of = {"job": JobId(entry.job), "set": self._update(entry, scope)}
        elif isinstance(entry, NodeAddedIn):
            fields_of = {"node": self._node(entry, scope)}
        elif isinstance(entry, TeamSetIn):
            fields_of = {"team": self._team(entry, scope)}
        elif isinstance(entry, ProfileSetIn):
            fields_of = {"profile": self._profile(entry, scope)}
        elif isinstance(entry, ReservationSetIn):
            read = validate(scope.at("reservation"), ReservationIn, entry.reservation)
            here = scope.at("reservation")
            fields_of = {"reservation": None if read is None else build_reservation(read, here, self.about)}
        else:
            fields_of = self._names(entry, scope)
        return Event(at, entry.type, fields_of) if scope.report.count == before else None

    def _names(self, entry: EventIn, scope: Scope) -> dict[str, object]:
        """Return the fields of an event that only names things, as they are."""
        found: dict[str, object] = {
            key: getattr(entry, key) for key in type(entry).model_fields if key not in ("at", "type", "about")
        }
        nodes = found.get("released_nodes")
        if isinstance(nodes, list):
            found["released_nodes"] = tuple(NodeId(node) for node in nodes)
        job, node = found.get("job"), found.get("node")
        if job is not None and job not in self.about.job_ids:
            scope.report.warn(
                "events of unknown jobs", f"{scope.name}: {entry.type} names the job {show(job)}, which is unknown"
            )
        if node is not None and self.about.cluster_known and node not in self.about.node_ids:
            scope.report.warn(
                "events of unknown nodes", f"{scope.name}: {entry.type} names the node {show(node)}, which is unknown"
            )
        return found

    def _submit(self, entry: SubmitIn, scope: Scope) -> Job | None:
        here = scope.at("job")
        read = validate(here, JobIn, entry.job)
        if read is None:
            return None
        if read.state != "queued":
            here.fault(f"given {show(read.state)}", "queued: a job that is submitted runs nowhere yet", "state")
        job = build_job(read, here, self.about)
        if job is None:
            return None
        if job.id in self.about.job_ids:
            scope.report.warn(
                "jobs submitted again", f"{scope.name} submits job {job.id} again: it is one job, the first body holds"
            )
        else:
            self.entries[job.id] = read
        self.about.job_ids.add(job.id)
        return job

    def _update(self, entry: JobUpdateIn, scope: Scope) -> dict[str, object]:
        """Return the fields of Job that an update sets; the job that results must be right as a whole."""
        for key in entry.set:
            if key in _FIXED:
                allowed = known(
                    [name for name in JobIn.model_fields if name not in _FIXED], None, "keys that can be set"
                )
                scope.fault("cannot be set by an update", allowed, "set", key)
        old = self.entries.get(JobId(entry.job))
        if old is None:
            if entry.job not in self.about.job_ids:
                scope.fault(
                    f"unknown job {show(entry.job)}", known(sorted(self.about.job_ids), entry.job, "known jobs"), "job"
                )
            return {}
        here = scope.at("set")
        keys = set(entry.set)
        merged = {key: value for key, value in _raw(old).items() if key not in keys} | entry.set
        read = validate(here, JobIn, merged)
        job = None if read is None else build_job(read, here, self.about)
        if read is None or job is None:
            return {}
        self.entries[job.id] = read
        names = [name for key in entry.set for name in _FIELDS_OF.get(key, (key,))]
        return {name: getattr(job, name) for name in dict.fromkeys(names)}

    def _node(self, entry: NodeAddedIn, scope: Scope) -> object:
        here = scope.at("node")
        read = validate(here, NodeIn, entry.node)
        if read is None:
            return None
        node = build_node(read)
        if self.about.cluster_known:
            levels: tuple[LevelName, ...] = self.about.levels
            check_node(node, frozenset(levels), levels, self.about.fabrics, here)
        self.about.add_node(node)
        return node

    def _team(self, entry: TeamSetIn, scope: Scope) -> object:
        here = scope.at("team")
        read = validate(here, TeamIn, entry.team)
        team = None if read is None else build_team(read, here, self.about)
        if team is None:
            return None
        if team.parent is not None and team.parent != team.id:
            self.about.check_team(team.parent, here, "parent")
        changed = {**self.about.teams, team.id: team}
        parents: dict[TeamId, TeamId | None] = {other.id: other.parent for other in changed.values()}
        for cycle in cycles(parents):
            if team.id in cycle:
                here.fault(f"the teams form a circle: {' -> '.join(cycle)}", "parents that form a tree", "parent")
                return None
        self.about.teams[team.id] = team
        self.about.team_ids.add(team.id)
        return team

    def _profile(self, entry: ProfileSetIn, scope: Scope) -> object:
        profile = resolve_profile(entry.profile, scope.at("profile"))
        if profile is not None:
            self.about.profile = profile
        return profile


def _raw(entry: JobIn) -> dict[str, object]:
    """Return the keys of a job as they were written."""
    return entry.model_dump(exclude_unset=True)
