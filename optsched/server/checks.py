"""Requests against the state: what they carry becomes values, or every fault in it is told, as it is for files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from pydantic import ValidationError

from optsched.engine.events import After, Condition, Submit
from optsched.engine.state import NodeRecord, State
from optsched.errors import Outdated
from optsched.files.clusters import build_node, check_node
from optsched.files.document import Document
from optsched.files.fields import Strict
from optsched.files.jobs import build_job
from optsched.files.known import Clock, Known
from optsched.files.report import Report, Scope, show
from optsched.files.reservations import build_reservation
from optsched.files.schema import JobIn, NodeIn, ReservationIn, TeamIn
from optsched.files.teams import build_team, cycles, warn_of_quotas
from optsched.files.validate import validate
from optsched.server.asked import NOT_ASKED, DependencyIn, JobAsked, NodeAsked
from optsched.server.hints import apply_hints, largest_domain
from optsched.values.altered import altered
from optsched.values.cluster import Cluster, Node, Reservation
from optsched.values.ids import JobId, LevelName, NodeId, TeamId
from optsched.values.job import Job
from optsched.values.team import Team

M = TypeVar("M", bound=Strict)

Plain = dict[str, object]

_OWN_KEYS = frozenset((*NOT_ASKED, "topology_hint", "after", "hold"))
"""Keys of a job that a request and a file do not have in common."""


def request(model: type[M], data: object) -> tuple[M, Scope]:
    """Return a request as its model, and the place at which further faults are noted. Raises InputError."""
    scope = Scope(Report(), Document(data, "request"))
    found = validate(scope, model, data)
    scope.report.raise_faults()
    assert found is not None, "no request without a fault"
    return found, scope


class Rules:
    """What requests are checked against. What depends on nodes and teams alone is worked out once for each of them."""

    def __init__(self) -> None:
        self._version = -1
        self._known: Known | None = None
        self._nodes: Mapping[NodeId, NodeRecord] = {}
        self._healthy: Mapping[str, int] = {}
        self._largest: dict[tuple[LevelName, frozenset[str]], int] = {}
        self.cluster = Cluster(())

    def known(self, state: State, now: float) -> Known:
        """Return what is defined at an instant."""
        if self._known is None or self._version != state.rules_changed:
            self._version = state.rules_changed
            self.cluster = cluster_of(state)
            self._largest.clear()
            about = Known(now, Clock(), state.profile, teams=dict(state.teams), team_ids=set(state.teams))
            about.set_cluster(self.cluster, set(state.nodes))
            self._known = about
        return altered(self._known, now=now, clock=Clock(), profile=state.profile, missing_types={})

    def healthy(self, state: State) -> Mapping[str, int]:
        """Return the healthy GPUs by type."""
        if self._nodes is not state.nodes:
            found: dict[str, int] = {}
            for record in state.nodes.values():
                kind = record.node.gpu_type
                found[kind] = found.get(kind, 0) + record.node.healthy_gpus
            self._nodes, self._healthy = state.nodes, found
        return self._healthy

    def largest(self, level: LevelName, gpu_types: frozenset[str]) -> int:
        """Return the GPUs of some types (none: of any) that the largest domain of a level has, as of `known`."""
        key = (level, gpu_types)
        if key not in self._largest:
            fits = [node for node in self.cluster.nodes if not gpu_types or node.gpu_type in gpu_types]
            self._largest[key] = largest_domain(level, fits, self.cluster)
        return self._largest[key]


def cluster_of(state: State) -> Cluster:
    """Return the cluster with its nodes as they are."""
    return replace(state.cluster, nodes=tuple(record.node for record in state.nodes.values()))


def check_version(state: State, expected: int) -> None:
    """Raise Outdated where the rules are no longer those of a version (0: any will do)."""
    if expected and expected != state.rules_changed:
        raise Outdated(f"expected_version is {expected}, version {state.rules_changed} is in force")


def read_job(data: object, scope: Scope, rules: Rules, about: Known, team: str, job_id: str) -> Submit | None:
    """Return the submission that a request describes; None where a fault was noted.

    `team` and `job_id` are those of a request that states none. Whether the jobs that it waits for are known is for the
    caller to see.
    """
    before = scope.report.count
    entry = _as_in_files(data, team, job_id)
    if entry is not None:
        plain_job = build_job(entry, scope, about)
        return None if plain_job is None else Submit(plain_job)
    if not isinstance(data, dict):
        scope.fault("is missing" if data is None else f"given {show(data)}", "a mapping of the keys of a job")
        return None
    for key in NOT_ASKED:
        if key in data:
            scope.fault("cannot be stated by a request", "no such key: the scheduler finds it out", key)
    asked = validate(scope, JobAsked, {key: value for key, value in data.items() if key not in NOT_ASKED})
    if asked is None:
        return None
    plain: Plain = {key: value for key, value in data.items() if key not in _OWN_KEYS}
    plain["id"] = plain.get("id") or job_id
    plain["team"] = plain.get("team") or team
    if not plain["team"]:
        scope.fault("is missing", "a known team: none goes without saying here", "team")
        return None
    apply_hints(plain, data.get("topology_hint"), scope, rules.cluster, about)
    if scope.report.count > before:
        return None
    entry = validate(scope, JobIn, plain)
    job = None if entry is None else build_job(entry, scope, about)
    if job is None:
        return None
    waits = _dependencies(data)
    if any(each.job == job.id for each in waits):
        scope.fault("a job cannot wait for itself", "the ids of other jobs", "after")
        return None
    return Submit(job, bool(data.get("hold")), waits)


def _as_in_files(data: object, team: str, job_id: str) -> JobIn | None:
    """Return a job that is given as files give it and right by their schema; None for one to be looked at closely."""
    if not isinstance(data, dict) or not _OWN_KEYS.isdisjoint(data):
        return None
    checkpoint = data.get("checkpoint")
    if isinstance(checkpoint, dict) and checkpoint.get("elastic") is True:
        return None
    try:
        return JobIn.model_validate({"id": job_id, "team": team} | data)
    except ValidationError:
        return None


def _dependencies(data: Mapping[str, object]) -> tuple[After, ...]:
    """Return what a job that has been checked waits for, each once."""
    given = data.get("after") or []
    assert isinstance(given, list), "the schema was checked"
    found = [DependencyIn.model_validate(each) for each in given]
    return tuple(dict.fromkeys(After(JobId(each.job), Condition(each.condition)) for each in found))


def warn_of_size(job: Job, state: State, rules: Rules, scope: Scope) -> None:
    """Warn of a gang that is larger than the cluster, or than any domain that it has to lie in.

    It waits, and is judged anew when nodes join.
    """
    there = rules.healthy(state)
    healthy = sum(gpus for kind, gpus in there.items() if not job.gpu_types or kind in job.gpu_types)
    if job.min_gpus > healthy:
        kinds = f" of type {', '.join(sorted(job.gpu_types))}" if job.gpu_types else ""
        text = f"job {job.id} can never start as things stand: it asks {job.min_gpus} GPUs, there are {healthy}{kinds}"
        scope.report.warn("jobs larger than the cluster", text)
    elif job.required is not None:
        largest = rules.largest(job.required, frozenset(job.gpu_types))
        if job.min_gpus > largest:
            asks = (
                f"it asks {job.min_gpus} GPUs inside one {job.required}, and the largest {job.required} has {largest}"
            )
            text = f"job {job.id} can never start as things stand: {asks}"
            scope.report.warn("jobs larger than any domain", text)


def read_teams(data: list[object], scope: Scope, about: Known, cluster: Cluster) -> list[Team]:
    """Return the teams that are set, each after its parent; faults of the tree that results are noted."""
    found: dict[TeamId, Team] = {}
    places: dict[TeamId, int] = {}
    for number, each in enumerate(data):
        entry = validate(scope.at(number), TeamIn, each)
        team = None if entry is None else build_team(entry, scope.at(number), about)
        if team is None:
            continue
        if team.id in found:
            scope.fault(f"the team id {show(team.id)} is given twice", "each team id once", number, "id")
            continue
        found[team.id], places[team.id] = team, number
    whole = {**about.teams, **found}
    about = replace(about, teams=whole, team_ids=about.team_ids | set(found))
    for team in found.values():
        if team.parent is not None and team.parent != team.id:
            about.check_team(team.parent, scope.at(places[team.id]), "parent")
    for circle in cycles({team.id: team.parent for team in whole.values()}):
        place = next((places[each] for each in circle if each in places), 0)
        text = f"the teams form a circle: {' -> '.join(circle)}"
        scope.fault(text, "parents that form a tree", place, "parent")
    if scope.report.count:
        return []
    warn_of_quotas(about, cluster, scope)
    return _parents_first(found)


def _parents_first(teams: Mapping[TeamId, Team]) -> list[Team]:
    """Return teams so that each comes after its parent where both are set."""
    order: list[Team] = []
    done: set[TeamId] = set()

    def place(team: Team) -> None:
        if team.id in done:
            return
        done.add(team.id)
        if team.parent is not None and team.parent in teams:
            place(teams[team.parent])
        order.append(team)

    for team in teams.values():
        place(team)
    return order


def read_nodes(data: list[object], scope: Scope, about: Known) -> list[Node]:
    """Return the nodes that are set; faults are noted."""
    found: dict[NodeId, Node] = {}
    for number, each in enumerate(data):
        here = scope.at(number)
        if validate(here, NodeAsked, each) is None or (entry := validate(here, NodeIn, each)) is None:
            continue
        node = build_node(entry)
        check_node(node, frozenset(about.levels), about.levels, about.fabrics, here)
        if node.id in found:
            here.fault(f"the node id {show(node.id)} is given twice", "each node id once", "id")
        found[node.id] = node
    return list(found.values())


def read_reservation(data: object, scope: Scope, about: Known, state: State) -> Reservation | None:
    """Return the reservation that is set; None where a fault was noted."""
    before = scope.report.count
    entry = validate(scope, ReservationIn, data)
    if entry is None:
        return None
    about = replace(about, job_ids={job for job in map(JobId, entry.jobs) if state.record(job) is not None})
    found = build_reservation(entry, scope, about)
    return found if scope.report.count == before else None
