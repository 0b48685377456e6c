"""From a snapshot to the round problem: entitlements, tiers, queue order, costs, all in whole numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optsched.policy.ordering import DEADLINE, Waiting, class_weight, due, lifted, order_queue
from optsched.policy.victims import grace_s
from optsched.rounds.build_jobs import JobBuilder, Standings, build_occupancy
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
from optsched.rounds.build_nodes import healthy_capacity
from optsched.rounds.facts import Facts, Listed
from optsched.rounds.lists import Membership, OnDemand
from optsched.rounds.problem import UNLIMITED, Flags, Ints, Lines, Nodes, Problem
from optsched.rounds.rights import takeables
from optsched.rounds.tiers import tiers_along
from optsched.topology.tree import Tree, build_tree
from optsched.values.ids import JobId
from optsched.values.job import Job
from optsched.values.snapshot import Snapshot

TIER_NAMES = ("deadline", "guaranteed", "fair", "opportunistic")


def build_problem(snapshot: Snapshot, tree: Tree | None = None, facts: Facts | None = None) -> Problem:
    """Return the round problem of a snapshot, without reservations (`planner` adds their holds).

    `tree` saves building the topology again where it is known, `facts` what was worked out of the jobs in rounds
    before; the problem is the same without.
    """
    profile = snapshot.profile
    tree = tree or build_tree(snapshot.cluster)
    listed = (facts or Facts()).of(snapshot, tree)
    nodes, gpu_types = listed.nodes, listed.hardware.gpu_types
    priorities = tuple(np.unique(listed.rows.priority)[::-1].tolist()) or (0,)
    teams = build_teams(snapshot)
    shares = fair_shares(snapshot, listed, teams)
    lines = build_lines(snapshot, gpu_types, teams, shares)
    listed, standings = _in_order(snapshot, listed, teams, shares, lines, priorities)
    running = slice(listed.running)
    shape = (len(teams.names), len(priorities), len(gpu_types))
    occupancy = build_occupancy(
        snapshot,
        listed,
        shape,
        *(
            np.array(each[running], dtype=np.int64)
            for each in (standings.claim_team, standings.priority, standings.tier)
        ),
    )
    builder = JobBuilder(snapshot, tree, listed, standings, priorities, occupancy)
    ceilings = build_ceilings(snapshot, gpu_types, teams, listed)
    domain_gpus, empty = _domains(tree, nodes)
    return Problem(
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
        jobs=OnDemand(len(listed.facts), builder.build),
        first_queued=listed.running,
        running_ids=tuple([fact.job.id for fact in listed.facts[running]]),
        occupancy=occupancy,
        lines=lines,
        takeable=takeables(lines, occupancy),
        ceilings=ceilings,
        ceilings_of=Membership([each.jobs for each in ceilings], len(listed.facts)),
        holds=(),
        domain_holds=build_domain_holds(snapshot, tree, nodes, listed.facts),
        loss_now=tuple(listed.rows.loss[running].tolist()),
        domain_gpus=domain_gpus,
        empty_domains=empty,
        domain_price=tuple(round(profile.domain_price.get(level, 0.0)) for level in tree.levels),
        row_weight_milli=_row_weights(snapshot, priorities),
        horizon_s=round(profile.horizon_s),
        healthy_gpus=int(healthy_capacity(listed.hardware, nodes).sum()),
        max_stopped_gpus=UNLIMITED if profile.max_stopped_gpus_per_h is None else profile.max_stopped_gpus_per_h,
    )


def _domains(tree: Tree, nodes: Nodes) -> tuple[tuple[Ints, ...], tuple[Flags, ...]]:
    """Return, by level, the GPUs of each domain and which domains are wholly free and take new work."""
    used = ~nodes.taking | (nodes.free != nodes.capacity)
    gpus, empty = [], []
    for level in range(len(tree.levels)):
        total = tree.sum_per_domain(level, nodes.capacity)
        gpus.append(total)
        empty.append((tree.sum_per_domain(level, used) == 0) & (total > 0))
    return tuple(gpus), tuple(empty)


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


def _in_order(
    snapshot: Snapshot, listed: Listed, teams: Teams, shares: Shares, lines: Lines, priorities: Sequence[int]
) -> tuple[Listed, Standings]:
    """Return the jobs in the order of the round, first what runs, then the queue, and where each of them stands."""
    now, profile = snapshot.now, snapshot.profile
    first, rows = listed.running, listed.rows
    queued = [fact.job for fact in listed.facts[first:]]
    dated = [queued[key] for key in np.flatnonzero(rows.deadline[first:]).tolist()]
    near = {job.id for job in dated if lifted(job, now, grace_s(job, profile), profile)}
    late = snapshot.carried.late
    claim = rows.team.copy()
    for j, fact in enumerate(listed.facts if teams.grant_of else ()):
        claim[j] = teams.grant_of.get(fact.job.id, claim[j])
    placed = listed.times.submitted_at.copy()
    for j, job in enumerate(queued if snapshot.carried.placed_at else (), first):
        placed[j] = snapshot.placed_at(job)
    tier = tiers_along(lines, listed, claim, placed)
    columns = (rows.team, tier, rows.priority, placed, rows.line, rows.gpu_type)
    types = len(listed.hardware.gpu_types)
    waiting = [
        Waiting(
            key=key,
            team=team,
            tier=DEADLINE if job.id in near else stands,
            priority=priority,
            submitted_at=submitted_at,
            id=job.id,
            amounts=use_vector(job, gpus, gpu_type, types),
            deadline_at=job.start_deadline_at or 0.0 if job.id in near else 0.0,
        )
        for key, (job, team, stands, priority, submitted_at, gpus, gpu_type) in enumerate(
            zip(queued, *(column[first:].tolist() for column in columns), strict=True)
        )
    ]
    order = order_queue(waiting, shares.usage, shares.capacity, shares.tree.weight)
    for key in (key for key, job in enumerate(queued) if job.id in near):
        tier[first + key] = DEADLINE
    along = np.concatenate([np.arange(first), first + np.array(order, dtype=np.int64)])
    index_of = {priority: p for p, priority in enumerate(priorities)}
    standings = Standings(
        team=rows.team[along].tolist(),
        claim_team=claim[along].tolist(),
        priority=[index_of[priority] for priority in rows.priority[along].tolist()],
        tier=tier[along].tolist(),
        near=near,
        due={job.id for job in dated if job.id not in late and due(job, now, grace_s(job, profile), profile)},
        breaking=_may_break(snapshot, [queued[key] for key in order if queued[key].id in near]),
        deadline_team=teams.deadline,
    )
    return listed.in_order(along), standings


def _may_break(snapshot: Snapshot, near: Sequence[Job]) -> set[JobId]:
    """Return the near-deadline jobs that may break other teams' guarantees, within their team's max_deadline_gpus."""
    left = {team.id: team.max_deadline_gpus for team in snapshot.teams}
    allowed: set[JobId] = set()
    for job in near:
        if job.priority_class in snapshot.profile.deadline_classes and job.min_gpus <= left[job.team]:
            left[job.team] -= job.min_gpus
            allowed.add(job.id)
    return allowed
