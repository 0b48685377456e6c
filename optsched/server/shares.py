"""What each team is entitled to and holds, as a round sees it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from optsched.policy.shares import weighted_share_of_one
from optsched.rounds.build import build_problem
from optsched.rounds.problem import What
from optsched.values.ids import TeamId
from optsched.values.job import JobState, gpus_on
from optsched.values.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class TeamShares:
    """A team's entitlement in GPUs by type, and its weighted dominant share (weight 0: not divided)."""

    entitlement_gpus: Mapping[str, int]
    dominant_share: float


def shares_of(snapshot: Snapshot) -> dict[TeamId, TeamShares]:
    """Return what every team is entitled to and holds at a moment."""
    problem = build_problem(snapshot)
    capacity = _capacity(snapshot, problem.gpu_types)
    usage = _usage(snapshot, problem.gpu_types)
    found: dict[TeamId, TeamShares] = {}
    for number, team in enumerate(snapshot.teams):
        entitled = {
            problem.gpu_types[item.gpu_type]: item.amount
            for item in problem.lines.entitlement[number]
            if item.what is What.GPUS and item.gpu_type is not None
        }
        share = weighted_share_of_one(usage[team.id], capacity, team.weight or 1.0)
        found[team.id] = TeamShares(entitled, share)
    return found


def _capacity(snapshot: Snapshot, gpu_types: tuple[str, ...]) -> list[float]:
    """Return healthy GPUs by type, then CPUs, then GB; one that not every node states counts as none."""
    nodes = [node for node in snapshot.cluster.nodes if node.healthy_gpus]
    by_type = [float(sum(node.healthy_gpus for node in nodes if node.gpu_type == name)) for name in gpu_types]
    cpus = [None if node.cpus is None else node.cpus - node.cpus_reserved for node in nodes]
    memory = [node.memory_gb for node in nodes]
    return [*by_type, *(0.0 if None in column else sum(filter(None, column)) for column in (cpus, memory))]


def _usage(snapshot: Snapshot, gpu_types: tuple[str, ...]) -> Mapping[TeamId, list[float]]:
    """Return, by team, what its jobs hold of each resource."""
    place = {name: number for number, name in enumerate(gpu_types)}
    type_of = {node.id: place[node.gpu_type] for node in snapshot.cluster.nodes}
    found: dict[TeamId, list[float]] = defaultdict(lambda: [0.0] * (len(gpu_types) + 2))
    for job in snapshot.jobs:
        if job.state is not JobState.RUNNING:
            continue
        row = found[job.team]
        for node, gpus in job.placement.items():
            row[type_of[node]] += gpus_on(gpus)
        row[-2] += job.cpus * job.placed_gpus / job.gpus
        row[-1] += job.memory_gb * job.placed_gpus / job.gpus
    return found
