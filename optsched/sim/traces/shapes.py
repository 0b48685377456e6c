"""How a job of a trace is cut on a cluster: whole GPUs, parts that nodes hold, types, levels that it prefers."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from optsched.topology.tree import build_tree
from optsched.values.cluster import Cluster
from optsched.values.ids import GpuType, LevelName
from optsched.values.trace import TraceJob

GB_PER_GIB = 1.073741824


@dataclass(frozen=True, slots=True)
class Shape:
    """The fields of a Job that say what it asks for."""

    gpus: int
    gpus_per_node: int | None
    gpus_per_task: int | None
    cpus: float
    memory_gb: float
    gpu_types: Mapping[GpuType, float] = field(default_factory=dict)
    required: LevelName | None = None
    preferred: LevelName | None = None


class Shaper:
    """Cuts jobs for one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        tree = build_tree(cluster)
        self._by_type: dict[str, int] = Counter()
        self._node_sizes: dict[str, Counter[int]] = defaultdict(Counter)
        for node in cluster.nodes:
            self._by_type[node.gpu_type] += node.healthy_gpus
            if node.gpus:
                self._node_sizes[node.gpu_type][node.gpus] += 1
        self._gpus = sum(self._by_type.values())
        self._levels: list[tuple[LevelName, int]] = []
        per_node = np.array([node.healthy_gpus for node in cluster.nodes], dtype=np.int64)
        for level in range(len(cluster.levels)):
            sums = tree.sum_per_domain(level, per_node)
            self._levels.append((cluster.levels[level], int(sums.max()) if sums.size else 0))
        self._cpus_known = all(node.cpus is not None for node in cluster.nodes)
        self._memory_known = all(node.memory_gb is not None for node in cluster.nodes)
        self._widest = {kind: _per_gpu(cluster, kind) for kind in self._by_type}

    def types(self, job: TraceJob) -> tuple[str, ...]:
        """Return the cluster's types that the job may use; empty: any, also where it has none of the trace's.

        Names are compared without regard to case, and a longer one of the trace is the shorter one of the cluster:
        A100-SXM4-80GB is a100.
        """
        found = (self._named(name) for name in job.gpu_types)
        return tuple(dict.fromkeys(name for name in found if name is not None))

    def _named(self, given: str) -> str | None:
        if given in self._by_type:
            return given
        plain = given.casefold()
        known = [name for name in self._by_type if name and (plain + "-").startswith(name.casefold() + "-")]
        return max(known, key=len, default=None)

    def fits(self, job: TraceJob) -> bool:
        """Whether the GPUs of one of the types that it may use would hold it: a gang uses one type."""
        gpus = math.ceil(job.gpus)
        return gpus <= max((self._room(name, gpus) for name in self.types(job) or self._by_type), default=0)

    def _room(self, kind: str, gpus: int) -> int:
        """Return the GPUs of a type that whole parts of such a gang could use, as `shape` would cut it."""
        part = self._part(gpus, kind)
        return sum(size // part * part * count for size, count in self._node_sizes[kind].items())

    def _part(self, gpus: int, kind: str) -> int:
        """Return the GPUs of an indivisible part: the whole job on one node, else what divides it evenly."""
        largest = max(self._node_sizes[kind], default=1)
        if gpus <= largest:
            return gpus
        usual = self._usual(kind)
        return usual if gpus % usual == 0 else math.gcd(gpus, usual)

    def _usual(self, kind: str) -> int:
        """Return the size of the nodes that hold most GPUs of a type."""
        sizes = self._node_sizes[kind]
        return max(sizes, key=lambda size: (size * sizes[size], size), default=1)

    def shape(self, job: TraceJob, insists: bool) -> Shape:
        """Return how the job is cut. `insists`: the level that it would prefer is required.

        What fits on a node stays whole; a larger gang takes whole nodes of the usual size where that divides it, else
        tasks of their greatest common divisor, or the trace's own tasks. It prefers the narrowest level that has a
        domain which could hold it.
        """
        gpus = max(1, math.ceil(job.gpus))
        types = self.types(job)
        kind = max(types or self._by_type, key=lambda name: (self._room(name, gpus), name))
        usual, part = self._usual(kind), self._part(gpus, kind)
        own = job.gpus_per_task
        tasks = (
            int(own) if own and own == int(own) and 1 <= own < gpus and gpus % int(own) == 0 and own < part else None
        )
        level = self._level(gpus) if gpus > part else None
        cut_by_node = gpus > part and part == usual and tasks is None
        return Shape(
            gpus=gpus,
            gpus_per_node=part if cut_by_node else None,
            gpus_per_task=None if cut_by_node or gpus == part else tasks or part,
            cpus=self._capped(job.cpus, gpus, kind, 0) if self._cpus_known else 0.0,
            memory_gb=self._capped(
                None if job.memory_gib is None else job.memory_gib * GB_PER_GIB, gpus, kind, 1
            ) if self._memory_known else 0.0,
            gpu_types={GpuType(name): 1.0 for name in types},
            required=level if insists else None,
            preferred=None if insists else level,
        )  # fmt: skip

    def _level(self, gpus: int) -> LevelName | None:
        return next((level for level, most in reversed(self._levels) if most >= gpus), None)

    def _capped(self, amount: float | None, gpus: int, kind: str, which: int) -> float:
        """Return an amount, at most what comes with so many GPUs of the type: more would keep the job out for ever."""
        if amount is None:
            return 0.0
        return round(min(amount, self._widest[kind][which] * gpus), 3)


def _per_gpu(cluster: Cluster, kind: str) -> tuple[float, float]:
    """Return the CPUs and GB that the nodes of a type have for each GPU, the least of any node."""
    nodes = [node for node in cluster.nodes if node.gpu_type == kind and node.gpus]
    cpus = min(((node.cpus or 0) - node.cpus_reserved) / node.gpus for node in nodes) if nodes else 0.0
    memory = min((node.memory_gb or 0) / node.gpus for node in nodes) if nodes else 0.0
    return cpus, memory
