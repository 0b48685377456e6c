"""The topology as a networkx graph, down to the single GPU: for people, tests and whatever walks links.

Rounds do not use it: at 10,000 GPUs it takes a noticeable part of a second to build.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import networkx as nx  # type: ignore[import-untyped,unused-ignore]

from optsched.topology.tree import CLUSTER_NAME, WHOLE_CLUSTER, Tree
from optsched.values.cluster import Cluster, Fabric, Link, Node, NodeState

Vertex = tuple[str, ...] | tuple[str, int] | tuple[str, int, int]
"""("cluster",), (level, domain), ("island", node, number) or ("gpu", node, index); a node is a domain of "node"."""

ROOT: Vertex = (CLUSTER_NAME,)

NVLINK_LEVEL_PREFIX = "nvl"
"""A level so named ("nvlink", "nvl72") is an NVLink domain that reaches beyond the node."""

MIXED_STATE = "mixed"
"""The state of a domain whose nodes are not all in the same one."""


def is_nvlink_level(level: str) -> bool:
    """Tell whether a level is an NVLink domain, by its name."""
    return level.lower().startswith(NVLINK_LEVEL_PREFIX)


def graph(cluster: Cluster, tree: Tree) -> nx.DiGraph[Vertex]:
    """Return root → domains, level by level → node → GPU island → GPU, of the cluster that `tree` was built from.

    Vertex attributes: `level` (a level's name, "cluster", "island" or "gpu"), `name`, `healthy_gpus`, `state` ("up"
    and so on; "mixed" over nodes of several states; "healthy" or "bad" at a GPU). Edge attributes: `kind`, how the
    children of a vertex reach each other ("nvlink", "pcie", or "ib" for the network between nodes, whatever its
    make), and `bandwidth_gb_per_s`, the fastest link to a sibling, None where not known. What has no wider domain
    hangs on the root.
    """
    built: nx.DiGraph[Vertex] = nx.DiGraph()
    last = tree.node_level
    for index, node in enumerate(cluster.nodes):
        built.add_node((tree.levels[last], index), name=node.id, **_summary([node]), level=tree.levels[last])
        _add_inside(built, index, node, cluster.fabrics.get(node.fabric) if node.fabric else None)
    built.add_node(ROOT, name=cluster.name or CLUSTER_NAME, level=CLUSTER_NAME, **_summary(cluster.nodes))
    for level in range(last, -1, -1):
        for domain, name in enumerate(tree.domain_names[level]):
            vertex = (tree.levels[level], domain)
            if level != last:
                inside = [cluster.nodes[node] for node in tree.nodes_in(level, domain)]
                built.add_node(vertex, name=name, level=tree.levels[level], **_summary(inside))
            wider, around = tree.parent(level, domain)
            parent = ROOT if wider == WHOLE_CLUSTER else (tree.levels[wider], around)
            kind = "nvlink" if wider != WHOLE_CLUSTER and is_nvlink_level(tree.levels[wider]) else "ib"
            built.add_edge(parent, vertex, kind=kind, bandwidth_gb_per_s=None)
    return built


def fabric_graph(fabric: Fabric | None, gpus: int) -> nx.Graph[int]:
    """Return the listed links between the GPUs 0..gpus-1 of one node, as an undirected graph.

    Edges carry `kind` and `bandwidth_gb_per_s` (None where not known); links listed twice for a pair are one edge
    whose bandwidths are added. Links beyond the node's GPUs are left out.
    """
    built: nx.Graph[int] = nx.Graph()
    built.add_nodes_from(range(gpus))
    for (first, second), links in _links_by_pair(fabric, gpus).items():
        built.add_edge(first, second, kind=links[0].kind, bandwidth_gb_per_s=_added(links))
    return built


def _links_by_pair(fabric: Fabric | None, gpus: int) -> dict[tuple[int, int], list[Link]]:
    pairs: dict[tuple[int, int], list[Link]] = defaultdict(list)
    for link in fabric.links if fabric else ():
        first, second = sorted((link.first, link.second))
        if 0 <= first < second < gpus:
            pairs[first, second].append(link)
    return pairs


def _added(links: Iterable[Link]) -> float | None:
    known = [link.bandwidth_gb_per_s for link in links if link.bandwidth_gb_per_s is not None]
    return sum(known) if known else None


def _add_inside(built: nx.DiGraph[Vertex], index: int, node: Node, fabric: Fabric | None) -> None:
    """Add the islands and GPUs of one node; a GPU in no island hangs on the node itself."""
    vertex: Vertex = ("node", index)
    bad = set(node.gpus_bad)
    parents: dict[int, Vertex] = {}
    for number, island in enumerate(fabric.islands if fabric else ()):
        inside = [gpu for gpu in island if 0 <= gpu < node.gpus and gpu not in parents]
        if not inside:
            continue
        island_vertex: Vertex = ("island", index, number)
        healthy = sum(gpu not in bad for gpu in inside)
        built.add_node(island_vertex, name=str(number), level="island", healthy_gpus=healthy, state=node.state.value)
        built.add_edge(vertex, island_vertex, kind="pcie", bandwidth_gb_per_s=None)
        parents.update(dict.fromkeys(inside, island_vertex))
    listed = _links_by_pair(fabric, node.gpus)
    for gpu in range(node.gpus):
        parent = parents.get(gpu, vertex)
        siblings = [other for other in range(node.gpus) if other != gpu and parents.get(other, vertex) == parent]
        best = max(
            (links for other in siblings if (links := listed.get((min(gpu, other), max(gpu, other))))),
            key=lambda links: _added(links) or 0.0,
            default=None,
        )
        gpu_vertex: Vertex = ("gpu", index, gpu)
        state = "bad" if gpu in bad else "healthy"
        built.add_node(gpu_vertex, name=str(gpu), level="gpu", healthy_gpus=int(gpu not in bad), state=state)
        built.add_edge(
            parent,
            gpu_vertex,
            kind=best[0].kind if best else "pcie",
            bandwidth_gb_per_s=_added(best) if best else None,
        )


def _summary(nodes: Iterable[Node]) -> dict[str, int | str]:
    """Return the healthy GPUs and the common state of some nodes."""
    healthy, states = 0, set[NodeState]()
    for node in nodes:
        healthy += node.healthy_gpus
        states.add(node.state)
    return {"healthy_gpus": healthy, "state": states.pop().value if len(states) == 1 else MIXED_STATE}


def islands_of(fabric: Fabric | None, gpus: int) -> tuple[tuple[int, ...], ...]:
    """Return the groups of GPUs with fast links: the declared islands, else what NVLink connects; largest first."""
    if fabric and fabric.islands:
        groups = [tuple(sorted(gpu for gpu in island if 0 <= gpu < gpus)) for island in fabric.islands]
    else:
        wired: nx.Graph[int] = nx.Graph()
        wired.add_edges_from(pair for pair, links in _links_by_pair(fabric, gpus).items() if links[0].kind == "nvlink")
        groups = [tuple(sorted(group)) for group in nx.connected_components(wired)]
    return tuple(sorted((group for group in groups if group), key=lambda group: (-len(group), group)))
