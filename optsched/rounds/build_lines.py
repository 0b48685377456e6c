"""Quotas, entitlements, limits and grants of a snapshot in the units of the round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optsched.policy.entitlement import (
    DemandClasses,
    Entitlements,
    TeamTree,
    entitlements,
)
from optsched.policy.filling import Floats
from optsched.rounds.build_nodes import healthy_capacity, micro
from optsched.rounds.facts import Fact, Listed, Row, flags
from optsched.rounds.problem import UNLIMITED, Ceiling, DomainHold, Flags, Ints, Item, Lines, Nodes, What
from optsched.topology.tree import Tree
from optsched.values.cluster import Reservation, ReservationKind
from optsched.values.ids import GpuType, JobId
from optsched.values.job import Job
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


def fair_shares(snapshot: Snapshot, listed: Listed, teams: Teams) -> Shares:
    """Return weighted DRF entitlements over what healthy nodes have, counting only demand that they could run."""
    hardware, nodes = listed.hardware, listed.nodes
    healthy = healthy_capacity(hardware, nodes)
    types = len(hardware.gpu_types)
    capacity = np.zeros(types + 2)
    np.add.at(capacity, nodes.gpu_type, healthy)
    counted = healthy > 0
    for column, amounts in ((types, nodes.cpus_u), (types + 1, nodes.memory_u)):
        known = counted & (amounts < UNLIMITED)
        capacity[column] = amounts[known].sum() / 1e6 if known.sum() == counted.sum() else 0.0
    asked = listed.rows.demand * _behind(snapshot, listed)
    if teams.grant_of:
        asked[[fact.job.id in teams.grant_of for fact in listed.facts]] = 0
    held = np.where(asked > 0, listed.rows.size, 0)
    holding = _by_team(listed, held, len(snapshot.teams), types)
    asking = _by_team(listed, asked, len(snapshot.teams), types) + _stopping(snapshot, listed, teams)
    usage = np.zeros((len(snapshot.teams), types + 2))
    usage[:, :types] = holding[:, :, 0]
    usage[:, types:] = holding[:, :, 1:].sum(axis=1)
    demand = np.zeros((len(snapshot.teams), types, types + 2))
    for gpu_type in range(types):
        demand[:, gpu_type, gpu_type] = asking[:, gpu_type, 0]
    demand[:, :, types:] = asking[:, :, 1:]
    tree = listed.teams
    team_of, pool_of = np.nonzero(demand.any(axis=2))
    classes = DemandClasses(team_of.astype(np.int64), pool_of.astype(np.int64), demand[team_of, pool_of])
    names = [GpuType(name) for name in hardware.gpu_types]
    limits = [team.limit for team in snapshot.teams]
    entitled = entitlements(tree, names, capacity, classes, list(teams.quotas[: teams.real]), limits)
    return Shares(tree, capacity, usage, entitled)


def _behind(snapshot: Snapshot, listed: Listed) -> Ints:
    """Return as how many jobs each counts in what its team asks for, (J,)."""
    behind = snapshot.carried.behind
    if not behind:
        return np.ones(len(listed.facts), dtype=np.int64)
    return np.array([1 + behind.get(fact.job.id, 0) for fact in listed.facts], dtype=np.int64)


def _stopping(snapshot: Snapshot, listed: Listed, teams: Teams) -> Floats:
    """Return what jobs ask for that are told to stop and wait again once they have, as `_by_team` does.

    Without them their team would be entitled to less for as long as they take, and others could have what is its own.
    """
    amounts = np.zeros((len(snapshot.teams), len(listed.hardware.gpu_types), 3))
    for job in snapshot.carried.stopping:
        if job.id not in teams.grant_of:
            gpu_type, gpus = listed.shapes.wanted(job, listed.shapes.form(job))
            share = gpus / job.gpus
            amounts[teams.index[job.team], gpu_type] += (gpus, job.cpus * share, job.memory_gb * share)
    return amounts


def _by_team(listed: Listed, gpus: Ints, teams: int, types: int) -> Floats:
    """Return GPUs, CPUs and GB that so many GPUs of each job use, by team and GPU type, (T, Y, 3)."""
    rows, times = listed.rows, listed.times
    where = rows.team * types + rows.gpu_type
    amounts = (gpus, times.cpus * gpus / times.gpus, times.memory_gb * gpus / times.gpus)
    sums = [np.bincount(where, each, teams * types).astype(np.float64) for each in amounts]
    return np.stack(sums, axis=1).reshape(teams, types, 3)


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


def build_ceilings(snapshot: Snapshot, gpu_types: Sequence[str], teams: Teams, listed: Listed) -> tuple[Ceiling, ...]:
    """Return limits, user limits and the quotas that bound non-preemptible work, each with the jobs that it counts.

    `listed` is in the order of the round.
    """
    ceilings: list[Ceiling] = []
    rows, facts = listed.rows, listed.facts
    may_gain = flags(rows.elastic)
    may_gain[listed.running :] = True
    rigid = ~flags(rows.preemptible)
    if teams.grant_of:
        rigid &= np.array([fact.job.id not in teams.grant_of for fact in facts], dtype=bool)

    def add(kind: str, target: str, amounts: Amounts | None, counted: Ints) -> None:
        items = limit_items(amounts, gpu_types)
        if items and may_gain[counted].any():
            jobs = tuple(counted.tolist())
            ceilings.extend(Ceiling(kind, target, item, jobs, int(_held(rows, item)[counted].sum())) for item in items)

    below = _teams_below(snapshot.teams, teams)
    for t, team in enumerate(snapshot.teams):
        quota = teams.quotas[t]
        if team.limit is None and team.user_limit is None and quota is None:
            continue
        inside = below[t][rows.team]
        counted = np.flatnonzero(inside)
        add("limit", team.id, team.limit, counted)
        add("quota", team.id, quota, np.flatnonzero(inside & rigid))
        if team.user_limit is not None:
            by_user: dict[str, list[int]] = {}
            for j in counted.tolist():
                by_user.setdefault(facts[j].job.user, []).append(j)
            for user, users_jobs in sorted(by_user.items()):
                if user:
                    add("user_limit", f"{team.id}/{user}", team.user_limit, np.array(users_jobs, dtype=np.int64))
    return tuple(ceilings)


def _held(rows: Row, item: Item) -> Ints:
    """Return how much of one named resource each job holds."""
    if item.what is What.GPUS:
        return rows.size if item.gpu_type is None else np.where(rows.gpu_type == item.gpu_type, rows.size, 0)
    return rows.size * (rows.cpus_u if item.what is What.CPUS else rows.memory_u)


def _teams_below(all_teams: Sequence[Team], teams: Teams) -> Flags:
    """Return which teams are a team itself or below it, (T, T)."""
    below = np.eye(len(all_teams), dtype=bool)
    for t, team in enumerate(all_teams):
        above = team.parent
        while above is not None:
            below[teams.index[above], t] = True
            above = all_teams[teams.index[above]].parent
    return below


def build_domain_holds(snapshot: Snapshot, tree: Tree, nodes: Nodes, facts: Sequence[Fact]) -> tuple[DomainHold, ...]:
    """Return what grants in force keep inside their domains (all nodes where they name none); facts in round order."""
    holds = []
    for grant in active_grants(snapshot):
        inside = _nodes_within(tree, grant.within) if grant.within else np.arange(len(nodes.capacity))
        if grant.nodes:
            inside = np.array([tree.node_index[node] for node in grant.nodes], dtype=np.int64)
        named = set(grant.jobs)
        jobs = [fact.job for fact in facts]
        grantees = frozenset(j for j, job in enumerate(jobs) if job.id in named or job.team in grant.teams)
        profile = snapshot.profile
        binds = frozenset(
            j
            for j, job in enumerate(jobs)
            if j not in grantees and not (job.preemptible and profile.backfill_preemptible)
        )
        holds.append(DomainHold(f"grant {grant.id}", tuple(inside.tolist()), grant.gpus, grantees, binds))
    return tuple(holds)


def _nodes_within(tree: Tree, name: str) -> Ints:
    """Return the nodes of a domain given by its whole path or by its last name."""
    domains = tree.find_domains(name)
    members = [tree.nodes_in(level, domain) for level, domain in domains]
    return np.unique(np.concatenate(members)).astype(np.int64) if members else np.zeros(0, dtype=np.int64)
