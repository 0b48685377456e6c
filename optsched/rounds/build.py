"""From a snapshot to the round problem: entitlements, tiers, queue order, costs, all in whole numbers."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from optsched.policy.ordering import (
    DEADLINE,
    FAIR,
    GUARANTEED,
    OPPORTUNISTIC,
    Waiting,
    class_weight,
    due,
    lifted,
    order_queue,
)
from optsched.policy.victims import grace_s
from optsched.rounds.build_jobs import JobBuilder, Standing
from optsched.rounds.build_lines import (
    Shares,
    Teams,
    build_ceilings,
    build_domain_holds,
    build_lines,
    build_teams,
    fair_shares,
    use_vector,
)
from optsched.rounds.build_nodes import build_nodes, build_occupancy, build_spreads, healthy_capacity
from optsched.rounds.line import Line, above_line, line_of, use_now
from optsched.rounds.problem import UNLIMITED, Flags, Ints, Item, Lines, Nodes, Occupancy, Problem, RoundJob, Takeable
from optsched.rounds.score import placement_losses
from optsched.topology.tree import Tree, build_tree
from optsched.values.job import Job, JobState
from optsched.values.snapshot import Snapshot
from optsched.values.team import Team

TIER_NAMES = ("deadline", "guaranteed", "fair", "opportunistic")


def build_problem(snapshot: Snapshot, tree: Tree | None = None) -> Problem:
    """Return the round problem of a snapshot, without reservations (`planner` adds their holds).

    `tree` saves building the topology again where it is known.
    """
    profile = snapshot.profile
    tree = tree or build_tree(snapshot.cluster)
    gpu_types = tuple(sorted({str(node.gpu_type) for node in snapshot.cluster.nodes})) or ("",)
    spreads = build_spreads(snapshot, tree)
    nodes = build_nodes(snapshot, gpu_types, spreads)
    ceilings = _ceilings(snapshot)
    priority_of = {job.id: _capped(job, ceilings) for job in snapshot.jobs}
    priorities = tuple(sorted(set(priority_of.values()), reverse=True)) or (0,)
    index_of = {priority: p for p, priority in enumerate(priorities)}
    builder = JobBuilder(snapshot, tree, nodes, spreads, gpu_types, index_of, priority_of)
    teams = build_teams(snapshot)
    shares = fair_shares(snapshot, nodes, gpu_types, builder, teams)
    lines = build_lines(snapshot, gpu_types, teams, shares)
    jobs, first_queued = _build_jobs(snapshot, builder, teams, shares, lines)
    occupancy = build_occupancy(jobs[:first_queued], nodes)
    row_weights = _row_weights(snapshot, priorities)
    domain_gpus, empty = _domains(tree, nodes)
    problem = Problem(
        snapshot=snapshot,
        profile=profile,
        tree=tree,
        gpu_types=gpu_types,
        priorities=priorities,
        priority_names=_priority_names(snapshot, priorities),
        team_names=teams.names,
        real_teams=teams.real,
        deadline_team=teams.deadline,
        nodes=nodes,
        jobs=jobs,
        first_queued=first_queued,
        occupancy=occupancy,
        lines=lines,
        takeable=_takeable(jobs[:first_queued], lines, occupancy, (len(teams.names), len(priorities), len(gpu_types))),
        ceilings=build_ceilings(snapshot, gpu_types, teams, jobs, nodes),
        holds=(),
        domain_holds=build_domain_holds(snapshot, tree, nodes, jobs),
        loss_now=(),
        domain_gpus=domain_gpus,
        empty_domains=empty,
        domain_price=tuple(round(profile.domain_price.get(level, 0.0)) for level in tree.levels),
        row_weight_milli=row_weights,
        horizon_s=round(profile.horizon_s),
        healthy_gpus=int(healthy_capacity(snapshot.cluster.nodes, nodes).sum()),
        max_stopped_gpus=UNLIMITED if profile.max_stopped_gpus_per_h is None else profile.max_stopped_gpus_per_h,
    )
    placed = [(job, job.spread_now) for job in problem.running]
    return dataclasses.replace(problem, loss_now=placement_losses(problem, placed))


def _domains(tree: Tree, nodes: Nodes) -> tuple[tuple[Ints, ...], tuple[Flags, ...]]:
    """Return, by level, the GPUs of each domain and which domains are wholly free and take new work."""
    unused = np.where(nodes.taking & (nodes.free == nodes.capacity), nodes.capacity, -1)
    gpus, empty = [], []
    for level in range(len(tree.levels)):
        total = tree.sum_per_domain(level, nodes.capacity)
        open_and_free = tree.sum_per_domain(level, np.maximum(unused, 0))
        spoiled = tree.sum_per_domain(level, (unused < 0).astype(np.int64))
        gpus.append(total)
        empty.append((spoiled == 0) & (open_and_free == total) & (total > 0))
    return tuple(gpus), tuple(empty)


def _ceilings(snapshot: Snapshot) -> dict[str, int | None]:
    """Return the largest priority that each team's jobs may use: its own ceiling and those of the teams above it."""
    teams = {team.id: team for team in snapshot.teams}
    found: dict[str, int | None] = {}
    for team in snapshot.teams:
        known: list[int] = []
        above: Team | None = team
        while above is not None:
            if above.max_priority is not None:
                known.append(above.max_priority)
            above = None if above.parent is None else teams[above.parent]
        found[str(team.id)] = min(known, default=None)
    return found


def _capped(job: Job, ceilings: dict[str, int | None]) -> int:
    ceiling = ceilings.get(job.team)
    return job.priority if ceiling is None else min(job.priority, ceiling)


def _priority_names(snapshot: Snapshot, priorities: Sequence[int]) -> tuple[str, ...]:
    classes = {number: name for name, number in snapshot.profile.classes.items()}
    return tuple(classes.get(priority, str(priority)) for priority in priorities)


def _row_weights(snapshot: Snapshot, priorities: Sequence[int]) -> Ints:
    """Return w of every rank in thousandths, shape (8P,): tier weight (tenths) times class weight (hundredths).

    Along a line weights never grow: GPUs above a minimum are worth at most what the least class is. So the weighted sum
    is concave in what teams run, and a solver that only bounds tier sums from above still gets them right.
    """
    profile = snapshot.profile
    weight = class_weight(profile)
    tiers = np.minimum.accumulate([round(10 * profile.tier_weights.get(name, 1.0)) for name in TIER_NAMES])
    classes = [weight(priority) for priority in priorities]
    known = [weight(priority) for priority in profile.classes.values()] or [1.0]
    above = [min(known) * each / max(known) if max(known) else 0.0 for each in classes]
    along = np.minimum.accumulate([round(100 * each) for each in [*classes, *above]]).reshape(2, -1)
    rows: Ints = (tiers[None, :, None] * along[:, None, :]).astype(np.int64).reshape(-1)
    return rows


def _build_jobs(
    snapshot: Snapshot, builder: JobBuilder, teams: Teams, shares: Shares, lines: Lines
) -> tuple[tuple[RoundJob, ...], int]:
    """Return running jobs, then queued jobs in queue order, and how many run."""
    now, profile = snapshot.now, snapshot.profile
    running = [job for job in snapshot.jobs if job.state is JobState.RUNNING]
    queued = [job for job in snapshot.jobs if job.state is JobState.QUEUED]
    near = {job.id for job in queued if lifted(job, now, grace_s(job, profile), profile)}
    tiers = _tiers(builder, teams, lines, running, queued)
    types = len(builder.gpu_types)
    waiting = []
    for key, job in enumerate(queued):
        gpu_type, most = builder.wanted(job)
        waiting.append(
            Waiting(
                key=key,
                team=teams.index[job.team],
                tier=DEADLINE if job.id in near else tiers[job.id],
                priority=builder.priority_of[job.id],
                submitted_at=snapshot.placed_at(job),
                id=job.id,
                amounts=use_vector(job, job.min_gpus if most else 0, gpu_type, types),
                deadline_at=job.start_deadline_at or 0.0 if job.id in near else 0.0,
            )
        )
    order = order_queue(waiting, shares.usage, shares.capacity, shares.tree.weight)
    breaking = _may_break(snapshot, [queued[key] for key in order if queued[key].id in near])
    jobs = []
    for index, job in enumerate([*running, *(queued[key] for key in order)]):
        team = teams.index[job.team]
        claim = teams.grant_of.get(job.id, team)
        standing = Standing(
            team=team,
            claim_team=claim,
            line_team=teams.deadline if job.id in near else claim,
            tier=DEADLINE if job.id in near else tiers[job.id],
            due=job.state is JobState.QUEUED
            and job.id not in snapshot.carried.late
            and due(job, now, grace_s(job, profile), profile),
            may_break_quota=job.id in breaking,
            ahead_of=len(running) + len(queued) - index,
        )
        jobs.append(builder.build(job, index, standing))
    return tuple(jobs), len(running)


def _may_break(snapshot: Snapshot, near: Sequence[Job]) -> set[str]:
    """Return the near-deadline jobs that may break other teams' guarantees, within their team's max_deadline_gpus."""
    left = {team.id: team.max_deadline_gpus for team in snapshot.teams}
    allowed = set()
    for job in near:
        if job.priority_class in snapshot.profile.deadline_classes and job.min_gpus <= left[job.team]:
            left[job.team] -= job.min_gpus
            allowed.add(str(job.id))
    return allowed


def _tiers(
    builder: JobBuilder, teams: Teams, lines: Lines, running: Sequence[Job], queued: Sequence[Job]
) -> dict[str, int]:
    """Return the tier in which each job's last minimum GPU would lie if its team's line were filled in order."""
    by_team: dict[int, list[Job]] = defaultdict(list)
    for job in [*running, *queued]:
        by_team[teams.grant_of.get(job.id, teams.index[job.team])].append(job)
    tiers: dict[str, int] = {}
    type_of, priority_of = builder.nodes.gpu_type.tolist(), builder.priority_of
    for team, jobs in by_team.items():
        jobs.sort(key=lambda j: (-priority_of[j.id], j.state is JobState.QUEUED, builder.snapshot.placed_at(j), j.id))
        through = [0] * len(builder.gpu_types)
        line = line_of(lines, team, teams.deadline)
        for job in jobs:
            if job.state is JobState.RUNNING:
                spread = builder.spreads[job.id]
                gpu_type = type_of[spread[0][0]] if spread else 0
                gpus = min(sum(count for _, count in spread), job.min_gpus)
            else:
                gpu_type, most = builder.wanted(job)
                gpus = job.min_gpus if most else 0
            through[gpu_type] += gpus
            tiers[job.id] = _tier(line, through, gpu_type)
    return tiers


def _tier(line: Line, through: list[int], gpu_type: int) -> int:
    """Return the tier of the team's last GPU of a type, with `through` (Y,) GPUs by type up to and including it."""
    fair = line.fair
    if line.typed:
        mine, quota = through[gpu_type], line.quota[gpu_type]
        if mine <= quota:
            return GUARANTEED
        return FAIR if mine <= quota + fair[gpu_type] else OPPORTUNISTIC
    total, quota = sum(through), line.quota_any
    if total <= quota:
        return GUARANTEED
    return FAIR if total <= quota + sum(map(min, fair, through)) else OPPORTUNISTIC


def _takeable(
    running: Sequence[RoundJob], lines: Lines, occupancy: Occupancy, shape: tuple[int, int, int]
) -> tuple[Takeable, ...]:
    """Return, for each running job, which part of it lies above its team's quota and entitlement now."""
    use = use_now(shape, occupancy)
    priorities = shape[1]
    result = []
    # Jobs of one team, priority and type that use the same resources lie alike.
    known: dict[tuple[int, int, int, bool, bool], Takeable] = {}
    for job, gpu_type in zip(running, occupancy.gpu_type.tolist(), strict=True):
        team = job.claim_team
        kind = (team, job.priority, gpu_type, bool(job.cpus_per_gpu_u), bool(job.memory_per_gpu_u))
        found = known.get(kind)
        if found is None:
            quota, entitlement = lines.quota[team], lines.entitlement[team]
            low, high = job.priority, priorities + job.priority

            def above(key: int, line: tuple[Item, ...], alike: RoundJob = job, y: int = gpu_type) -> bool:
                return above_line(use, alike.claim_team, key, line, alike, y)

            above_quota = (not quota or above(low, quota), not quota or above(high, quota))
            found = known[kind] = Takeable(
                above_quota=above_quota,
                above_entitlement=(
                    bool(entitlement) and above(low, entitlement),
                    bool(entitlement) and above(high, entitlement),
                ),
                inside_quota=bool(quota) and not above_quota[0],
            )
        result.append(found)
    return tuple(result)
