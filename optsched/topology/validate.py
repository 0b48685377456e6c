"""What a cluster looks like, level by level, as data for whoever prints it. What looks wrong in it: `findings`."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass

import numpy as np

from optsched.topology.findings import Finding, findings
from optsched.topology.graph import is_nvlink_level, islands_of
from optsched.topology.tree import Tree
from optsched.values.cluster import Cluster, Fabric, Node, NodeState
from optsched.values.ids import GpuType, LevelName


class NvlinkPosition(enum.Enum):
    """Where the fast domain of a node's GPUs ends, seen from the node."""

    NONE = "none"
    """No fast links are known."""
    INSIDE = "inside"
    """Islands smaller than the node, such as bridged pairs."""
    AT = "at"
    """One island holds all GPUs of the node, as in an HGX box."""
    ABOVE = "above"
    """A level above the node is an NVLink domain, as in an NVL72 rack."""


_Wiring = tuple[NvlinkPosition, LevelName | None, tuple[int, ...]]
"""Where the fast domain ends, the level if it is one, and the sizes of the islands inside the node."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Smallest, median and largest of some sizes; all 0 where there are none."""

    minimum: int
    median: float
    maximum: int


@dataclass(frozen=True, slots=True)
class LevelSummary:
    """The domains of one level. `gpus` counts all GPUs, healthy or not; ragged: domains differ in nodes or GPUs."""

    level: LevelName
    domains: int
    nodes: Spread
    gpus: Spread
    ragged: bool
    nodes_outside: int


@dataclass(frozen=True, slots=True)
class GpuTypeSummary:
    """All nodes of one GPU type ("" where a node names none)."""

    gpu_type: GpuType
    nodes: int
    gpus: int
    healthy_gpus: int


@dataclass(frozen=True, slots=True)
class NvlinkSummary:
    """Nodes whose fast domain ends at the same place; `island_sizes` are those inside such a node, largest first."""

    position: NvlinkPosition
    level: LevelName | None
    island_sizes: tuple[int, ...]
    nodes: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Description:
    """A cluster in numbers. CPUs and memory (GB) are sums over the nodes that state them, `*_unknown` counts others."""

    name: str
    nodes: int
    gpus: int
    healthy_gpus: int
    spare_nodes: int
    cpus: float
    cpus_unknown: int
    memory_gb: float
    memory_unknown: int
    states: tuple[tuple[NodeState, int], ...]
    levels: tuple[LevelSummary, ...]
    gpu_types: tuple[GpuTypeSummary, ...]
    nvlink: tuple[NvlinkSummary, ...]
    findings: tuple[Finding, ...]


def describe(cluster: Cluster, tree: Tree) -> Description:
    """Return what there is to say about a cluster; `tree` is the one built from it."""
    nodes = cluster.nodes
    states = Counter(node.state for node in nodes)
    return Description(
        name=cluster.name,
        nodes=len(nodes),
        gpus=sum(node.gpus for node in nodes),
        healthy_gpus=sum(node.healthy_gpus for node in nodes),
        spare_nodes=sum(node.spare for node in nodes),
        cpus=sum(node.cpus for node in nodes if node.cpus is not None),
        cpus_unknown=sum(node.cpus is None for node in nodes),
        memory_gb=sum(node.memory_gb for node in nodes if node.memory_gb is not None),
        memory_unknown=sum(node.memory_gb is None for node in nodes),
        states=tuple((state, states[state]) for state in NodeState if states[state]),
        levels=_levels(cluster, tree),
        gpu_types=_gpu_types(nodes),
        nvlink=_nvlink(cluster),
        findings=findings(cluster, tree),
    )


def _levels(cluster: Cluster, tree: Tree) -> tuple[LevelSummary, ...]:
    gpus_per_node = np.array([node.gpus for node in cluster.nodes], dtype=np.int64)
    summaries = []
    for index, level in enumerate(tree.levels):
        nodes = _spread(tree.domain_sizes(index))
        gpus = _spread(tree.sum_per_domain(index, gpus_per_node))
        ragged = nodes.minimum != nodes.maximum or gpus.minimum != gpus.maximum
        outside = len(tree.nodes_outside(index))
        summaries.append(LevelSummary(level, tree.domain_count(index), nodes, gpus, ragged, outside))
    return tuple(summaries)


def _spread(sizes: np.ndarray[tuple[int, ...], np.dtype[np.integer]]) -> Spread:
    if not sizes.size:
        return Spread(0, 0.0, 0)
    return Spread(int(sizes.min()), float(np.median(sizes)), int(sizes.max()))


def _gpu_types(nodes: tuple[Node, ...]) -> tuple[GpuTypeSummary, ...]:
    """Return the types, the one with most GPUs first."""
    by_type: dict[GpuType, list[Node]] = {}
    for node in nodes:
        by_type.setdefault(node.gpu_type, []).append(node)
    summaries = [
        GpuTypeSummary(gpu_type, len(of_type), sum(n.gpus for n in of_type), sum(n.healthy_gpus for n in of_type))
        for gpu_type, of_type in by_type.items()
    ]
    return tuple(sorted(summaries, key=lambda summary: (-summary.gpus, summary.gpu_type)))


def _nvlink(cluster: Cluster) -> tuple[NvlinkSummary, ...]:
    """Return the positions of the fast domain, the one with most GPUs first."""
    nodes: Counter[_Wiring] = Counter()
    gpus: Counter[_Wiring] = Counter()
    nvlink_levels = [level for level in cluster.levels if is_nvlink_level(level)]
    sizes_of: dict[tuple[str | None, int], tuple[int, ...]] = {}
    for node in cluster.nodes:
        wiring = (node.fabric, node.gpus)
        if wiring not in sizes_of:
            sizes_of[wiring] = _island_sizes(cluster.fabrics.get(node.fabric or ""), node.gpus)
        sizes = sizes_of[wiring]
        above = next((level for level in nvlink_levels if level in node.domains), None)
        kind: _Wiring
        if above is not None:
            kind = (NvlinkPosition.ABOVE, above, sizes)
        elif not sizes:
            kind = (NvlinkPosition.NONE, None, sizes)
        else:
            kind = (NvlinkPosition.AT if sizes[0] == node.gpus else NvlinkPosition.INSIDE, None, sizes)
        nodes[kind] += 1
        gpus[kind] += node.gpus
    ordered = sorted(nodes, key=lambda kind: (-gpus[kind], kind[0].value, kind[1] or "", kind[2]))
    return tuple(NvlinkSummary(*kind, nodes=nodes[kind], gpus=gpus[kind]) for kind in ordered)


def _island_sizes(fabric: Fabric | None, gpus: int) -> tuple[int, ...]:
    """Return the sizes of the islands of two GPUs and more, largest first."""
    return tuple(len(island) for island in islands_of(fabric, gpus) if len(island) > 1)
