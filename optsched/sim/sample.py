"""What stands at an instant: shares against entitlements, fragmentation, the largest holes, a map of the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from optsched.engine.state import State
from optsched.engine.tables import GOES_ON
from optsched.policy.entitlement import DemandClasses, build_team_tree, entitlements
from optsched.sim.results import NodeMap
from optsched.topology.tree import CLUSTER_NAME, Tree
from optsched.values.cluster import NodeState
from optsched.values.ids import GpuType, TeamId
from optsched.values.job import JobState

SERVING = frozenset({NodeState.UP, NodeState.DRAINING, NodeState.CORDONED})
"""States of nodes whose GPUs count as capacity that teams share."""


@dataclass(frozen=True, slots=True)
class Shares:
    """GPUs that teams hold and are entitled to, and the healthy GPUs of the cluster."""

    held: Mapping[TeamId, int]
    entitled: Mapping[TeamId, int]
    healthy: int

    @property
    def error(self) -> float:
        """Σ max(0, entitlement − held) over the teams, as a share of the healthy GPUs."""
        missing = sum(max(0, gpus - self.held[team]) for team, gpus in self.entitled.items())
        return missing / self.healthy if self.healthy else 0.0


def shares_of(state: State) -> Shares:
    """Return what teams hold and are entitled to, by weighted DRF over GPUs: the same rule whatever the policy.

    A queued job counts as demand for the type on which it is fastest.
    """
    teams = tuple(state.teams.values())
    row = {team.id: t for t, team in enumerate(teams)}
    type_of = {name: record.node.gpu_type for name, record in state.nodes.items()}
    types = sorted(set(type_of.values()))
    column = {kind: y for y, kind in enumerate(types)}
    capacity = np.zeros(len(types) + 2)
    for record in state.nodes.values():
        if record.node.state in SERVING:
            capacity[column[record.node.gpu_type]] += record.node.healthy_gpus
    held = np.zeros(len(teams), dtype=np.int64)
    demand = np.zeros((len(teams), len(types), len(types) + 2))
    for job_record in state.jobs.values():
        job = job_record.job
        if job_record.state in GOES_ON:
            kind = column[type_of[next(iter(job.placement))]]
            held[row[job.team]] += job.placed_gpus
            demand[row[job.team], kind, kind] += max(job.placed_gpus, job.max_gpus)
        elif job_record.state is JobState.QUEUED:
            demand[row[job.team], _wants(job.gpu_types, column), _wants(job.gpu_types, column)] += job.max_gpus
    team_of, pool_of = np.nonzero(demand.any(axis=2))
    classes = DemandClasses(team_of.astype(np.int64), pool_of.astype(np.int64), demand[team_of, pool_of])
    quotas, limits = [team.quota for team in teams], [team.limit for team in teams]
    found = entitlements(build_team_tree(teams), types, capacity, classes, quotas, limits).gpus.sum(axis=1)
    healthy = int(capacity[: len(types)].sum())
    return Shares(
        {team.id: int(held[t]) for t, team in enumerate(teams)},
        {team.id: int(found[t]) for t, team in enumerate(teams)},
        healthy,
    )


def _wants(speeds: Mapping[GpuType, float], column: Mapping[GpuType, int]) -> int:
    """Return the type that a queued job counts for."""
    known = [(-speed, kind) for kind, speed in speeds.items() if kind in column]
    return column[min(known)[1]] if known else 0


@dataclass(frozen=True, slots=True)
class Holes:
    """What is free: its share on partly used nodes, and the largest stretch of free nodes by level."""

    fragmentation: float
    largest: Mapping[str, int]


def holes_of(state: State, tree: Tree) -> Holes:
    """Return what is free and where."""
    free = np.zeros(len(tree.node_ids), dtype=np.int64)
    whole = np.zeros(len(tree.node_ids), dtype=np.int64)
    for name, record in state.nodes.items():
        n = tree.node_index.get(name)
        if n is None or record.node.state is not NodeState.UP:
            continue
        left = max(0, record.node.healthy_gpus - record.booked_gpus)
        free[n] = left
        whole[n] = left if left == record.node.healthy_gpus else 0
    total = int(free.sum())
    largest = {
        tree.span_name(level): int(tree.sum_per_domain(level, whole).max(initial=0))
        for level in range(len(tree.levels))
    }
    largest[CLUSTER_NAME] = int(whole.sum())
    return Holes(1.0 - int(whole.sum()) / total if total else 0.0, largest)


def map_of(state: State, at_s: float) -> NodeMap:
    """Return all nodes as they stand."""
    records = state.nodes.values()
    return NodeMap(at_s, tuple(each.booked_gpus for each in records), tuple(each.node.state.value for each in records))
