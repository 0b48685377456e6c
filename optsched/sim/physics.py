"""How fast a gang really trains where it lies, and how often it really saves: the same whatever a policy believes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from optsched.policy.checkpoint import auto_interval
from optsched.sim.failures import Failures
from optsched.sim.runs import FULL
from optsched.topology.speeds import merge_speeds, speed_per_level
from optsched.topology.tree import Tree
from optsched.values.cluster import Cluster
from optsched.values.ids import GpuType, LevelName, NodeId
from optsched.values.job import Job
from optsched.values.profile import Profile

HOUR_MS = 3_600_000

EVERY_S = 3600.0
"""A job that leaves its interval to others saves so often where nothing is said to fail."""


class Physics:
    """Speeds by the table of a profile and the jobs' own; a GPU type is as fast as the job says, its best one at 1."""

    def __init__(self, cluster: Cluster, tree: Tree, profile: Profile, failures: Failures) -> None:
        self.tree = tree
        self._profile = profile
        self._failures = failures
        self._type_of: Mapping[NodeId, GpuType] = {node.id: node.gpu_type for node in cluster.nodes}
        self._tables: dict[tuple[tuple[LevelName, float], ...], list[float]] = {}

    def place(self, job: Job, nodes: Iterable[NodeId], gpus: int) -> tuple[int, int]:
        """Return the span (-1: the whole cluster) and the units of work in a millisecond, >= 1, of a gang."""
        names = list(nodes)
        span = self.tree.span_level([self.tree.node_index[name] for name in names])
        speed = self._table(job)[span] * self._of_type(job, names[0])
        return span, max(1, min(FULL, round(speed * FULL))) * gpus

    def _table(self, job: Job) -> list[float]:
        """Return the speed by span, the last entry for the whole cluster."""
        key = tuple(job.speed.items())
        found = self._tables.get(key)
        if found is None:
            table = merge_speeds(self._profile.speed, job.speed)
            found = speed_per_level(self.tree.levels, table, self._profile.speed_widest).tolist()
            self._tables[key] = found
        return found

    def _of_type(self, job: Job, node: NodeId) -> float:
        if not job.gpu_types:
            return 1.0
        return job.gpu_types.get(self._type_of[node], 1.0) / max(job.gpu_types.values())

    def saving(self, job: Job) -> tuple[int, int, int | None]:
        """Return how a job saves, in ms: (training between checkpoints, 0: never; cost; until durable, None: never)."""
        config = job.checkpoint
        tier = config.tiers[0] if config.tiers else None
        cost = config.cost_s if tier is None else tier.cost_s
        upload = 0.0 if tier is None else tier.upload_s
        if config.interval_s is not None:
            every = config.interval_s
        elif cost <= 0:
            return 0, 0, None
        else:
            every = self._auto_s(job, cost, config.restart_s, upload)
        survives = tier is None or not tier.survives or "node" in tier.survives
        return max(1, round(every * 1000)), round(cost * 1000), round(upload * 1000) if survives else None

    def _auto_s(self, job: Job, cost_s: float, restart_s: float, upload_s: float) -> float:
        rates = self._failures
        rate_h = (rates.gpu + rates.node + rates.process + rates.job) * job.gpus
        if rate_h <= 0:
            return EVERY_S
        return auto_interval(cost_s, 3600.0 / rate_h, restart_s, upload_s).interval_s
