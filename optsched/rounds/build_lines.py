"""Quotas, entitlements, limits and grants of a snapshot in the units of the round."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optsched.policy.entitlement import (
    DemandClasses,
    Entitlements,
    TeamTree,
    build_team_tree,
    entitlements,
)
from optsched.policy.filling import Floats
from optsched.rounds.build_jobs import JobBuilder
from optsched.rounds.build_nodes import healthy_capacity, micro
from optsched.rounds.problem import UNLIMITED, Ceiling, DomainHold, Ints, Item, Lines, Nodes, RoundJob, What
from optsched.topology.tree import Tree
from optsched.values.cluster import Reservation, ReservationKind
from optsched.values.ids import GpuType, JobId
from optsched.values.job import Job, JobState
from optsched.values.resources import Amounts
from optsched.values.snapshot import Snapshot
from optsched.values.team import Team

SCARCE = 0.999
"""An entitlement bounds CPUs or memory only where all entitlements together use this much of what there is."""


@dataclass(frozen=True, slots=True)
class Teams:
    """The teams of a round: the snapshot's, then one per grant that names jobs, then the one of near deadlines.

    `grant_of` maps a job to the team of the grant that names it; `quotas` are in force, grants to teams added.
    """

    names: tuple[str, ...]
    real: int
    index: Mapping[str, int]
    grant_of: Mapping[JobId, int]
    deadline: int
    quotas: tuple[Amounts | None, ...]


def active_grants(snapshot: Snapshot) -> tuple[Reservation, ...]:
    """Return the grants in force now."""
    return tuple(
        grant
        for grant in snapshot.reservations
        if grant.kind is ReservationKind.GRANT and grant.start_at <= snapshot.now < grant.end_at
    )


def build_teams(snapshot: Snapshot) -> Teams:
    """Return the teams of the round, with the quotas that grants give them."""
    index = {team.id: t for t, team in enumerate(snapshot.teams)}
    names = [str(team.id) for team in snapshot.teams]
    quotas: list[Amounts | None] = [team.quota for team in snapshot.teams]
    grant_of: dict[JobId, int] = {}
    for grant in active_grants(snapshot):
        if grant.jobs:
            for job in grant.jobs:
                grant_of.setdefault(job, len(names))
            names.append(f"grant {grant.id}")
            quotas.append(Amounts(gpus=grant.gpus))
        else:
            share, rest = divmod(grant.gpus, max(1, len(grant.teams)))
            for position, team in enumerate(grant.teams):
                quotas[index[team]] = _raised(quotas[index[team]], share + (position < rest))
    names.append("near deadlines")
    quotas.append(None)
    return Teams(
        tuple(names),
        len(snapshot.teams),
        {str(team): t for team, t in index.items()},
        grant_of,
        len(names) - 1,
        tuple(quotas),
    )


def _raised(quota: Amounts | None, gpus: int) -> Amounts:
    """Return a quota that also guarantees `gpus` more; a quota by type gains them on its first type."""
    if quota is None or not quota.names_gpus:
        return Amounts(gpus=gpus, cpus=None, memory_gb=None)
    if quota.gpus is not None:
        return Amounts(gpus=quota.gpus + gpus, cpus=quota.cpus, memory_gb=quota.memory_gb)
    by_type = dict(quota.gpus_by_type)
    first = next(iter(by_type))
    by_type[first] += gpus
    return Amounts(gpus_by_type=by_type, cpus=quota.cpus, memory_gb=quota.memory_gb)


@dataclass(frozen=True, slots=True)
class Shares:
    """What the fair-share computation saw and said; arrays over the snapshot's teams and R = types + CPUs + memory."""

    tree: TeamTree
    capacity: Floats
    usage: Floats
    entitled: Entitlements


def fair_shares(
    snapshot: Snapshot, nodes: Nodes, gpu_types: Sequence[str], builder: JobBuilder, teams: Teams
) -> Shares:
    """Return weighted DRF entitlements over what healthy nodes have, counting only demand that they could run."""
    healthy = healthy_capacity(snapshot.cluster.nodes, nodes)
    types = len(gpu_types)
    capacity = np.zeros(types + 2)
    np.add.at(capacity, nodes.gpu_type, healthy)
    counted = healthy > 0
    for column, amounts in ((types, nodes.cpus_u), (types + 1, nodes.memory_u)):
        known = counted & (amounts < UNLIMITED)
        capacity[column] = amounts[known].sum() / 1e6 if known.sum() == counted.sum() else 0.0
    holding: _Sums = defaultdict(lambda: [0, 0.0, 0.0])
    asking: _Sums = defaultdict(lambda: [0, 0.0, 0.0])
    type_of = nodes.gpu_type.tolist()
    for job in snapshot.jobs:
        if job.id in teams.grant_of:
            continue
        team = teams.index[job.team]
        if job.state is JobState.RUNNING and builder.spreads[job.id]:
            spread = builder.spreads[job.id]
            gpu_type, held = type_of[spread[0][0]], sum(count for _, count in spread)
            _count(holding[team, gpu_type], job, held)
            _count(asking[team, gpu_type], job, max(held, job.max_gpus))
        elif job.state is JobState.QUEUED:
            gpu_type, most = builder.wanted(job)
            if most:
                _count(asking[team, gpu_type], job, most * (1 + snapshot.carried.behind.get(job.id, 0)))
    usage = np.zeros((len(snapshot.teams), types + 2))
    demand = np.zeros((len(snapshot.teams), types, types + 2))
    for (team, gpu_type), (gpus, cpus, memory) in holding.items():
        usage[team, gpu_type] = gpus
        usage[team, types:] += (cpus, memory)
    for (team, gpu_type), (gpus, cpus, memory) in asking.items():
        demand[team, gpu_type, gpu_type] = gpus
        demand[team, gpu_type, types:] = (cpus, memory)
    tree = build_team_tree(snapshot.teams)
    team_of, pool_of = np.nonzero(demand.any(axis=2))
    classes = DemandClasses(team_of.astype(np.int64), pool_of.astype(np.int64), demand[team_of, pool_of])
    names = [GpuType(name) for name in gpu_types]
    limits = [team.limit for team in snapshot.teams]
    entitled = entitlements(tree, names, capacity, classes, list(teams.quotas[: teams.real]), limits)
    return Shares(tree, capacity, usage, entitled)


_Sums = dict[tuple[int, int], list[float]]
"""GPUs, CPUs and GB by (team, GPU type)."""


def _count(sums: list[float], job: Job, gpus: int) -> None:
    """Add what `gpus` GPUs of a job use to [GPUs, CPUs, GB]."""
    sums[0] += gpus
    sums[1] += job.cpus * gpus / job.gpus
    sums[2] += job.memory_gb * gpus / job.gpus


def use_vector(job: Job, gpus: int, gpu_type: int, types: int) -> list[float]:
    """Return what `gpus` GPUs of a job use of every resource: GPUs by type, CPUs, GB."""
    by_type = [0.0] * types
    by_type[gpu_type] = gpus
    return [*by_type, job.cpus * gpus / job.gpus, job.memory_gb * gpus / job.gpus]


def build_lines(snapshot: Snapshot, gpu_types: Sequence[str], teams: Teams, shares: Shares) -> Lines:
    """Return quota and entitlement of every team of the round as integers."""
    count, types = len(teams.names), len(gpu_types)
    quota_any = np.zeros(count, dtype=np.int64)
    quota_by_type = np.zeros((count, types), dtype=np.int64)
    fair = np.zeros((count, types), dtype=np.int64)
    typed = np.array([quota is not None and bool(quota.gpus_by_type) for quota in teams.quotas], dtype=bool)
    for t, quota in enumerate(teams.quotas):
        if quota is not None and quota.gpus is not None:
            quota_any[t] = quota.gpus
        if quota is not None:
            quota_by_type[t] = [quota.gpus_by_type.get(GpuType(name), 0) for name in gpu_types]
    fair[: teams.real] = np.maximum(shares.entitled.gpus - shares.entitled.base, 0)
    quota_items = tuple(_quota_items(quota, gpu_types) for quota in teams.quotas)
    return Lines(typed, quota_any, quota_by_type, fair, quota_items, _entitlement_items(teams, shares, types))


def _quota_items(quota: Amounts | None, gpu_types: Sequence[str]) -> tuple[Item, ...]:
    """Return what a quota names; a quota by type guarantees nothing of the types that it leaves out."""
    if quota is None or not quota.names_gpus:
        return ()
    items = []
    if quota.gpus is not None:
        items.append(Item(What.GPUS, None, quota.gpus))
    else:
        items += [Item(What.GPUS, y, quota.gpus_by_type.get(GpuType(n), 0)) for y, n in enumerate(gpu_types)]
    return (*items, *_side_items(quota))


def _side_items(amounts: Amounts) -> list[Item]:
    items = []
    if amounts.cpus is not None:
        items.append(Item(What.CPUS, None, micro(amounts.cpus)))
    if amounts.memory_gb is not None:
        items.append(Item(What.MEMORY, None, micro(amounts.memory_gb)))
    return items


def _entitlement_items(teams: Teams, shares: Shares, types: int) -> tuple[tuple[Item, ...], ...]:
    """Return what an entitlement bounds: GPUs of each type always, CPUs and memory only where they run short."""
    amounts = shares.entitled.amounts
    lines: list[tuple[Item, ...]] = []
    scarce = [
        what
        for what, column in ((What.CPUS, types), (What.MEMORY, types + 1))
        if shares.capacity[column] > 0 and amounts[:, column].sum() >= SCARCE * shares.capacity[column]
    ]
    columns = {What.CPUS: types, What.MEMORY: types + 1}
    for t in range(len(teams.names)):
        if t >= teams.real:
            lines.append(())
            continue
        items = [Item(What.GPUS, y, int(shares.entitled.gpus[t, y])) for y in range(types)]
        items += [Item(what, None, micro(float(amounts[t, columns[what]]))) for what in scarce]
        lines.append(tuple(items))
    return tuple(lines)


def limit_items(amounts: Amounts | None, gpu_types: Sequence[str]) -> tuple[Item, ...]:
    """Return what a limit names; what it leaves out is not bounded."""
    if amounts is None:
        return ()
    items = [] if amounts.gpus is None else [Item(What.GPUS, None, amounts.gpus)]
    items += [
        Item(What.GPUS, y, amounts.gpus_by_type[GpuType(n)])
        for y, n in enumerate(gpu_types)
        if n in amounts.gpus_by_type
    ]
    return (*items, *_side_items(amounts))


def build_ceilings(
    snapshot: Snapshot, gpu_types: Sequence[str], teams: Teams, jobs: Sequence[RoundJob], nodes: Nodes
) -> tuple[Ceiling, ...]:
    """Return limits, user limits and the quotas that bound non-preemptible work, each with the jobs that it counts."""
    ceilings: list[Ceiling] = []

    def add(kind: str, target: str, amounts: Amounts | None, counted: Sequence[int]) -> None:
        if all(jobs[j].running and not jobs[j].elastic for j in counted):
            return
        for item in limit_items(amounts, gpu_types):
            held = sum(_held(jobs[j], item, nodes) for j in counted if jobs[j].running)
            ceilings.append(Ceiling(kind, target, item, tuple(counted), held))

    below = _jobs_below(snapshot.teams, teams, jobs)
    for t, team in enumerate(snapshot.teams):
        counted = below[t]
        add("limit", team.id, team.limit, counted)
        rigid = [j for j in counted if not jobs[j].job.preemptible and jobs[j].job.id not in teams.grant_of]
        add("quota", team.id, teams.quotas[t], rigid)
        if team.user_limit is not None:
            by_user: dict[str, list[int]] = {}
            for j in counted:
                by_user.setdefault(jobs[j].job.user, []).append(j)
            for user, users_jobs in sorted(by_user.items()):
                if user:
                    add("user_limit", f"{team.id}/{user}", team.user_limit, users_jobs)
    return tuple(ceilings)


def _held(job: RoundJob, item: Item, nodes: Nodes) -> int:
    """Return how much of one named resource a running job holds."""
    if item.what is What.GPUS:
        counts = item.gpu_type is None or (job.spread_now and item.gpu_type == nodes.gpu_type[job.spread_now[0][0]])
        return job.size_now if counts else 0
    return job.size_now * (job.cpus_per_gpu_u if item.what is What.CPUS else job.memory_per_gpu_u)


def _jobs_below(all_teams: Sequence[Team], teams: Teams, jobs: Sequence[RoundJob]) -> list[list[int]]:
    """Return, for each team, the jobs of it and of all teams below it."""
    parents = [None if team.parent is None else teams.index[team.parent] for team in all_teams]
    below: list[list[int]] = [[] for _ in all_teams]
    for job in jobs:
        team: int | None = job.team
        while team is not None:
            below[team].append(job.index)
            team = parents[team]
    return below


def build_domain_holds(
    snapshot: Snapshot, tree: Tree, nodes: Nodes, jobs: Sequence[RoundJob]
) -> tuple[DomainHold, ...]:
    """Return what grants in force keep inside their domains (all nodes where they name none)."""
    holds = []
    for grant in active_grants(snapshot):
        inside = _nodes_within(tree, grant.within) if grant.within else np.arange(len(nodes.capacity))
        if grant.nodes:
            inside = np.array([tree.node_index[node] for node in grant.nodes], dtype=np.int64)
        named = set(grant.jobs)
        grantees = frozenset(j.index for j in jobs if j.job.id in named or j.job.team in grant.teams)
        profile = snapshot.profile
        binds = frozenset(
            j.index
            for j in jobs
            if j.index not in grantees and not (j.job.preemptible and profile.backfill_preemptible)
        )
        holds.append(DomainHold(f"grant {grant.id}", tuple(inside.tolist()), grant.gpus, grantees, binds))
    return tuple(holds)


def _nodes_within(tree: Tree, name: str) -> Ints:
    """Return the nodes of a domain given by its whole path or by its last name."""
    domains = tree.find_domains(name)
    members = [tree.nodes_in(level, domain) for level, domain in domains]
    return np.unique(np.concatenate(members)).astype(np.int64) if members else np.zeros(0, dtype=np.int64)
