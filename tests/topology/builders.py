"""Small named clusters, and a reader of topologies/*.yaml that knows only what the tests of these files need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from optsched.values.cluster import Cluster, Fabric, Link, Node
from optsched.values.ids import GpuType, LevelName, NodeId

TOPOLOGIES = Path(__file__).parents[2] / "topologies"

RACK = LevelName("rack")
BLOCK = LevelName("block")
ZONE = LevelName("zone")


def node(name: str, gpus: int = 8, fabric: str | None = None, **domains: str) -> Node:
    """A node with its domains by level name: node("n1", rack="r1")."""
    return Node(NodeId(name), gpus, {LevelName(level): domain for level, domain in domains.items()}, fabric=fabric)


def cluster(levels: str, *nodes: Node, **fabrics: Fabric) -> Cluster:
    """A cluster with its levels in one word each: cluster("zone rack", node(...), …)."""
    return Cluster(nodes, tuple(LevelName(level) for level in levels.split()), fabrics)


def fabric(*links: tuple[int, int, str, float | None], islands: Iterable[tuple[int, ...]] = ()) -> Fabric:
    """A fabric from (first, second, kind, GB/s)."""
    return Fabric(tuple(Link(*link) for link in links), tuple(islands))


def two_racks_of_two() -> Cluster:
    """Two zones whose racks carry the same short name: z1/r1 with a, b and z2/r1 with c, d."""
    return cluster(
        "zone rack",
        node("a", zone="z1", rack="r1"),
        node("b", zone="z1", rack="r1"),
        node("c", zone="z2", rack="r1"),
        node("d", zone="z2", rack="r1"),
    )


CUBE_MESH = fabric(
    *((i, j, "nvlink", 100.0) for i, j in [(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)]),
    *((i, j, "nvlink", 50.0) for i, j in [(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)]),
    islands=[(0, 1, 2, 3), (4, 5, 6, 7)],
)
"""A DGX-1 with V100 GPUs: two links are 100 GB/s, one is 50 (both directions together)."""

PAIRS = fabric((0, 1, "nvlink", 600.0), (2, 3, "nvlink", 600.0), islands=[(0, 1), (2, 3)])
"""Four PCIe A100 GPUs with two NVLink bridges."""

ALL_TO_ALL = fabric(*((i, j, "nvlink", 900.0) for i in range(8) for j in range(i + 1, 8)), islands=[tuple(range(8))])
"""An HGX board: every GPU reaches every other through switches."""


def read_topology(file: Path) -> Cluster:
    """Expand the groups of a cluster file; names of domains are numbers here."""
    text: dict[str, Any] = yaml.safe_load(file.read_text())
    levels = tuple(LevelName(level) for level in text["levels"])
    fabrics = {
        name: Fabric(
            tuple(Link(first, second, kind, rate) for first, second, kind, rate in wiring["links"]),
            tuple(tuple(island) for island in wiring["islands"]),
            wiring.get("nics", {}),
        )
        for name, wiring in text.get("fabrics", {}).items()
    }
    nodes = [made for group in text["groups"] for made in _expand(group)]
    return Cluster(tuple(nodes), levels, fabrics, text["name"])


def _expand(group: Mapping[str, Any]) -> Iterable[Node]:
    parents: list[dict[LevelName, str]] = [{}]
    for level, counts in group["counts"].items():
        each = counts if isinstance(counts, list) else [counts]
        children: list[dict[LevelName, str]] = []
        for number, parent in enumerate(parents):
            for child in range(each[number % len(each)]):
                children.append({**parent, LevelName(level): f"{group['prefix']}{number}.{child}"})
        parents = children
    for path in parents:
        name = path.pop(LevelName("node"))
        yield Node(
            NodeId(name),
            group["gpus"],
            path,
            GpuType(group["gpu_type"]),
            group.get("fabric"),
            group.get("cpus"),
            memory_gb=group.get("memory_gb"),
        )
