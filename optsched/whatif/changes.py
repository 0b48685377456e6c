"""What a scenario changes, and a snapshot with the changes made. The snapshot that is given stays as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from optsched.errors import UsageError
from optsched.files.report import known, listed, show
from optsched.files.underprofile import with_profile
from optsched.sim.failures import FAILURES, Failures
from optsched.topology.tree import build_tree
from optsched.values.cluster import Node, NodeState, Reservation
from optsched.values.ids import NodeId, ReservationId
from optsched.values.job import Job, JobState
from optsched.values.profile import Profile
from optsched.values.resources import Amounts
from optsched.values.snapshot import Snapshot
from optsched.values.team import Team

MOST_NODES = 100_000
"""A scenario's cluster may have so many nodes."""


@dataclass(frozen=True, slots=True)
class AddNodes:
    """`count` more nodes in a domain (None: in one of their own at every level), like most that are there."""

    count: int
    within: str | None = None


@dataclass(frozen=True, slots=True)
class AddLike:
    """A domain as large as another one, beside it, `copies` times: a further rack, a further block."""

    domain: str
    copies: int = 1


@dataclass(frozen=True, slots=True)
class Remove:
    """A node, or all of a domain, is gone at once; what runs there waits again."""

    target: str


@dataclass(frozen=True, slots=True)
class Drain:
    """A node, or all of a domain, is emptied: from now on for good, or for a window in seconds from now."""

    target: str
    start_s: float | None = None
    end_s: float | None = None


@dataclass(frozen=True, slots=True)
class SetQuota:
    """A team's quota in GPUs, None: none."""

    team: str
    gpus: int | None


@dataclass(frozen=True, slots=True)
class SetWeight:
    """A team's weight, >= 0."""

    team: str
    weight: float


@dataclass(frozen=True, slots=True)
class UseProfile:
    """Another profile; priority classes keep their names."""

    profile: Profile


@dataclass(frozen=True, slots=True)
class AddJob:
    """A job is submitted now."""

    job: Job


Change = AddNodes | AddLike | Remove | Drain | SetQuota | SetWeight | UseProfile | AddJob


@dataclass(frozen=True, slots=True)
class FailureRates:
    """Which published rates, and how many times as often."""

    name: str = "llama3"
    factor: float = 1.0

    def rates(self) -> Failures:
        """Return the rates. Raises UsageError for a name that nobody knows."""
        found = FAILURES.get(self.name)
        if found is None:
            raise UsageError(f"given {show(self.name)}; allowed: {known(list(FAILURES), self.name, 'one of')}")
        if self.factor == 1.0:
            return found
        mtbf = found.domain_mtbf_h
        return replace(
            found,
            name=f"{found.name} x{self.factor:g}",
            gpu=found.gpu * self.factor,
            node=found.node * self.factor,
            process=found.process * self.factor,
            job=found.job * self.factor,
            domain_mtbf_h=None if mtbf is None or not self.factor else mtbf / self.factor,
        )


def changed(snapshot: Snapshot, changes: Iterable[Change]) -> Snapshot:
    """Return the snapshot with all changes made, in order. Raises UsageError for what names nothing there is."""
    for change in changes:
        snapshot = _made(snapshot, change)
    return snapshot


def nodes_of(snapshot: Snapshot, name: str) -> tuple[Node, ...]:
    """Return the nodes that a name stands for: a node's id, a domain's path, or its last name if no other has it.

    Raises UsageError for a name of nothing, or of several domains.
    """
    nodes = snapshot.cluster.nodes
    alone = tuple(node for node in nodes if node.id == name)
    if alone:
        return alone
    tree = build_tree(snapshot.cluster)
    found = tree.find_domains(name)
    if len(found) == 1:
        return tuple(nodes[int(n)] for n in tree.nodes_in(*found[0]))
    if found:
        paths = listed(tree.domain_names[level][domain] for level, domain in found)
        raise UsageError(f"{show(name)} is the name of several domains; allowed: a whole path, such as {paths}")
    names = [path for level in tree.domain_names[:-1] for path in level]
    hint = known([*names, *(str(node.id) for node in nodes)], name, "domains and nodes", 6)
    raise UsageError(f"no node or domain is called {show(name)}; allowed: {hint}")


def _add_nodes(snapshot: Snapshot, change: AddNodes) -> Snapshot:
    levels = snapshot.cluster.levels
    beside = snapshot.cluster.nodes if change.within is None else nodes_of(snapshot, change.within)
    if not beside:
        raise UsageError("there are no nodes to add more like them; allowed: a cluster that has some")
    kind = Counter(_kind(node) for node in beside).most_common(1)[0][0]
    model = next(node for node in beside if _kind(node) == kind)
    if change.within is None:
        domains = {level: _unused(f"new-{level}", _names_at(snapshot, level)) for level in levels}
    else:
        domains = {
            level: name for level, name in model.domains.items() if all(n.domains.get(level) == name for n in beside)
        }
    return _with_nodes(snapshot, [replace(_fresh(model), domains=domains)] * change.count)


def _add_like(snapshot: Snapshot, change: AddLike) -> Snapshot:
    tree = build_tree(snapshot.cluster)
    models = nodes_of(snapshot, change.domain)
    found = tree.find_domains(change.domain)
    if not found or found[0][0] == tree.node_level:
        raise UsageError(f"{show(change.domain)} is a node; allowed: a domain")
    level = snapshot.cluster.levels[found[0][0]]
    for _ in range(change.copies):
        name = _unused(f"{models[0].domains[level]}-new", _names_at(snapshot, level))
        copies = [replace(_fresh(node), domains={**node.domains, level: name}) for node in models]
        snapshot = _with_nodes(snapshot, copies)
    return snapshot


def _kind(node: Node) -> tuple[object, ...]:
    return (node.gpus, node.gpu_type, node.fabric, node.cpus, node.memory_gb, node.spare)


def _fresh(node: Node) -> Node:
    return replace(node, gpus_bad=(), state=NodeState.UP, reason="")


def _names_at(snapshot: Snapshot, level: str) -> set[str]:
    return {name for node in snapshot.cluster.nodes for at, name in node.domains.items() if at == level}


def _unused(name: str, taken: set[str]) -> str:
    number = 1
    while f"{name}{number}" in taken:
        number += 1
    return f"{name}{number}"


def _with_nodes(snapshot: Snapshot, models: list[Node]) -> Snapshot:
    nodes = snapshot.cluster.nodes
    if len(nodes) + len(models) > MOST_NODES:
        raise UsageError(f"given {len(models):,} more nodes; allowed: at most {MOST_NODES:,} in all")
    taken = {str(node.id) for node in nodes}
    added, number = [], 0
    for model in models:
        number += 1
        while f"new-{number}" in taken:
            number += 1
        added.append(replace(model, id=NodeId(f"new-{number}")))
    return replace(snapshot, cluster=replace(snapshot.cluster, nodes=(*nodes, *added)))


def _remove(snapshot: Snapshot, change: Remove) -> Snapshot:
    gone = {node.id for node in nodes_of(snapshot, change.target)}
    left = tuple(node for node in snapshot.cluster.nodes if node.id not in gone)
    if not left:
        raise UsageError(f"{show(change.target)} is all there is; allowed: what leaves at least one node")
    reservations = tuple(
        replace(entry, nodes=tuple(node for node in entry.nodes if node not in gone))
        for entry in snapshot.reservations
        if not entry.nodes or not gone.issuperset(entry.nodes)
    )
    jobs = tuple(_stopped(job) if not gone.isdisjoint(job.placement) else job for job in snapshot.jobs)
    return replace(snapshot, cluster=replace(snapshot.cluster, nodes=left), jobs=jobs, reservations=reservations)


def _stopped(job: Job) -> Job:
    """Return a job that has lost its nodes; what its last checkpoint has is not done again."""
    left = job.estimated_runtime_s
    if left is not None and job.started_at is not None and job.last_checkpoint_at is not None:
        left = max(1.0, left - max(0.0, job.last_checkpoint_at - job.started_at))
    return replace(job, state=JobState.QUEUED, placement={}, started_at=None, estimated_runtime_s=left)


def _drain(snapshot: Snapshot, change: Drain) -> Snapshot:
    names = tuple(node.id for node in nodes_of(snapshot, change.target))
    if change.start_s is None or change.end_s is None:
        gone = set(names)
        nodes = tuple(
            replace(node, state=NodeState.DRAINING, reason="drained") if node.id in gone else node
            for node in snapshot.cluster.nodes
        )
        return replace(snapshot, cluster=replace(snapshot.cluster, nodes=nodes))
    taken = {str(entry.id) for entry in snapshot.reservations}
    window = Reservation(
        ReservationId(_unused("drain-", taken)), snapshot.now + change.start_s, snapshot.now + change.end_s, nodes=names
    )
    return replace(snapshot, reservations=(*snapshot.reservations, window))


def _with_team(snapshot: Snapshot, name: str, change: Callable[[Team], Team]) -> Snapshot:
    names = [str(team.id) for team in snapshot.teams]
    if name not in names:
        raise UsageError(f"no team is called {show(name)}; allowed: {known(names, name, 'teams')}")
    return replace(snapshot, teams=tuple(change(team) if team.id == name else team for team in snapshot.teams))


def _set_quota(snapshot: Snapshot, change: SetQuota) -> Snapshot:
    def with_quota(team: Team) -> Team:
        if change.gpus is None:
            return replace(team, quota=None)
        return replace(team, quota=replace(team.quota or Amounts(), gpus=change.gpus, gpus_by_type={}))

    return _with_team(snapshot, change.team, with_quota)


def _add_job(snapshot: Snapshot, change: AddJob) -> Snapshot:
    if any(job.id == change.job.id for job in snapshot.jobs):
        raise UsageError(f"a job is called {show(change.job.id)} already; allowed: an id that is not taken")
    teams = {str(team.id) for team in snapshot.teams}
    if change.job.team not in teams:
        raise UsageError(
            f"no team is called {show(change.job.team)}; allowed: {known(sorted(teams), change.job.team, 'teams')}"
        )
    return replace(snapshot, jobs=(*snapshot.jobs, change.job))


def _made(snapshot: Snapshot, change: Change) -> Snapshot:
    match change:
        case AddNodes():
            return _add_nodes(snapshot, change)
        case AddLike():
            return _add_like(snapshot, change)
        case Remove():
            return _remove(snapshot, change)
        case Drain():
            return _drain(snapshot, change)
        case SetQuota():
            return _set_quota(snapshot, change)
        case SetWeight():
            return _with_team(snapshot, change.team, lambda team: replace(team, weight=change.weight))
        case UseProfile():
            return with_profile(snapshot, change.profile, change.profile.name)
        case AddJob():
            return _add_job(snapshot, change)
