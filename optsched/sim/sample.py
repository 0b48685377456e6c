"""What stands at an instant: shares against entitlements, fragmentation, the largest holes, a map of the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from optsched.engine.records import Records
from optsched.engine.state import NodeRecord, State
from optsched.engine.tables import GOES_ON
from optsched.policy.entitlement import DemandClasses, build_team_tree, entitlements
from optsched.sim.results import NodeMap
from optsched.topology.tree import CLUSTER_NAME, Tree
from optsched.values.cluster import NodeState
from optsched.values.ids import GpuType, NodeId, TeamId
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
    serving = Records.of(state.nodes).parts(_serving)
    types = sorted({kind for by_type in serving for kind in by_type})
    column = {kind: y for y, kind in enumerate(types)}
    capacity = np.zeros(len(types) + 2)
    for by_type in serving:
        for kind, gpus in by_type.items():
            capacity[column[kind]] += gpus
    held = np.zeros(len(teams), dtype=np.int64)
    demand = np.zeros((len(teams), len(types), len(types) + 2))
    for job_record in state.jobs.values():
        job = job_record.job
        if job_record.state in GOES_ON:
            y, placed = column[state.nodes[next(iter(job.placement))].node.gpu_type], job.placed_gpus
            held[row[job.team]] += placed
            demand[row[job.team], y, y] += max(placed, job.max_gpus)
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


def _serving(chunk: Mapping[NodeId, NodeRecord]) -> dict[GpuType, int]:
    """Return the healthy GPUs of nodes that count as capacity, by type; each type that there is is named."""
    found: dict[GpuType, int] = {}
    for record in chunk.values():
        node = record.node
        found[node.gpu_type] = found.get(node.gpu_type, 0) + (node.healthy_gpus if node.state in SERVING else 0)
    return found


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
    for chunk in Records.of(state.nodes).parts(_free_in):
        for name, (left, wholly) in chunk.items():
            n = tree.node_index.get(name)
            if n is not None:
                free[n], whole[n] = left, left if wholly else 0
    total = int(free.sum())
    largest = {
        tree.span_name(level): int(tree.sum_per_domain(level, whole).max(initial=0))
        for level in range(len(tree.levels))
    }
    largest[CLUSTER_NAME] = int(whole.sum())
    return Holes(1.0 - int(whole.sum()) / total if total else 0.0, largest)


def _free_in(chunk: Mapping[NodeId, NodeRecord]) -> dict[NodeId, tuple[int, bool]]:
    """Return the free GPUs of the nodes that are up and have any, and whether all of the node is free."""
    found: dict[NodeId, tuple[int, bool]] = {}
    for name, record in chunk.items():
        node = record.node
        left = node.healthy_gpus - record.booked_gpus if node.state is NodeState.UP else 0
        if left > 0:
            found[name] = (left, left == node.healthy_gpus)
    return found


def map_of(state: State, at_s: float) -> NodeMap:
    """Return all nodes as they stand."""
    records = state.nodes.values()
    return NodeMap(at_s, tuple(each.booked_gpus for each in records), tuple(each.node.state.value for each in records))
