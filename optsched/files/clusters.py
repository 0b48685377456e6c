"""Clusters: a mapping in a snapshot, or a file of topologies/ by name or path."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from optsched.files.document import Document
from optsched.files.fields import ID_PATTERN, ID_RULE
from optsched.files.groups import MAX_NODES, expand_group
from optsched.files.profiles import find_file, note_duplicates, read_other
from optsched.files.report import Report, Scope, known, listed, show
from optsched.files.schema import ClusterIn, FabricIn, GroupIn, NodeIn
from optsched.files.validate import ids_of, validate, validate_list
from optsched.values.cluster import Cluster, Fabric, Link, Node, NodeState
from optsched.values.ids import ANY_TYPE, NODE_LEVEL, GpuType, LevelName, NodeId


def load_cluster(source: str | os.PathLike[str]) -> Cluster:
    """Return the cluster of a file, by path or by its name in topologies/. Raises InputError with all faults."""
    report = Report()
    name = os.fspath(source)
    found = resolve_cluster(name, Scope(report, Document(name, "cluster", folder=Path.cwd())))
    report.raise_faults()
    assert found is not None, "no cluster without a fault"
    return found[0]


def resolve_cluster(given: object, scope: Scope) -> tuple[Cluster, set[str]] | None:
    """Return the cluster that a file's `cluster:` describes; None where nothing of it can be used.

    With faults in single nodes the others are returned, and the ids of all, to check the rest of the file against.
    """
    if isinstance(given, str):
        path = find_file("topologies", given, scope, "cluster")
        if path is None or (document := read_other(path, scope)) is None:
            return None
        inner = Scope(scope.report, document)
        note_duplicates(inner)
        return _cluster(document.data, inner, path.name.split(".")[0])
    return _cluster(given, scope, "")


def _cluster(data: object, scope: Scope, name: str) -> tuple[Cluster, set[str]] | None:
    read = validate(scope, ClusterIn, data)
    if read is None:
        return None
    levels = tuple(LevelName(level) for level in read.levels)
    for number, level in enumerate(levels):
        if level in levels[:number]:
            scope.fault(f"the level {show(level)} is listed twice", "each level once", "levels", number)
        elif level == NODE_LEVEL:
            scope.fault(
                "the level 'node' is listed",
                "levels above node: node is always the last, implicit one",
                "levels",
                number,
            )
    fabrics = _fabrics(read.fabrics, scope.at("fabrics"))
    nodes: list[Node] = []
    places: dict[str, Scope] = {}
    for index, group in validate_list(scope.at("groups"), GroupIn, read.groups):
        here = scope.at("groups", index)
        made = _unique(expand_group(group, levels, here), here, places)
        if made and group.fabric is not None:
            _check_fabric(made[0], fabrics, here)
        if made and group.cpus is not None and group.cpus_reserved > group.cpus:
            here.fault(f"given {group.cpus_reserved:g}", f"at most the node's {group.cpus:g} CPUs", "cpus_reserved")
        nodes += made
    known_levels = frozenset(levels)
    for index, entry in validate_list(scope.at("nodes"), NodeIn, read.nodes):
        here = scope.at("nodes", index)
        node = build_node(entry)
        check_node(node, known_levels, levels, fabrics, here)
        if node.id in places:
            here.fault(f"the node id is given twice, first at {places[node.id].name}", "each node id once", "id")
            continue
        places[node.id] = here
        nodes.append(node)
    if len(nodes) > MAX_NODES:
        scope.fault(f"has {len(nodes):,} nodes", f"at most {MAX_NODES:,}", "nodes")
    _warn_of_empty(nodes, scope)
    return Cluster(tuple(nodes), levels, fabrics, read.name or name), ids_of(read.nodes)


def _unique(nodes: Iterable[Node], scope: Scope, places: dict[str, Scope]) -> list[Node]:
    made: list[Node] = []
    for node in nodes:
        if node.id in places:
            wrong = f"makes the node id {show(node.id)} again, first made at {places[node.id].name}"
            scope.fault(wrong, "a prefix for each group that keeps the ids apart", "prefix")
            break
        made.append(node)
    places.update((node.id, scope) for node in made)
    return made


def build_node(entry: NodeIn) -> Node:
    """Return the value of a node that is right by itself."""
    return Node(
        id=NodeId(entry.id),
        gpus=entry.gpus,
        domains={LevelName(level): domain for level, domain in entry.domains.items()},
        gpu_type=GpuType(entry.gpu_type) if entry.gpu_type is not None else ANY_TYPE,
        fabric=entry.fabric,
        cpus=entry.cpus,
        cpus_reserved=entry.cpus_reserved,
        memory_gb=entry.memory_gb,
        gpus_bad=tuple(sorted(entry.gpus_bad)),
        labels=entry.labels,
        spare=entry.spare,
        state=NodeState(entry.state),
        reason=entry.reason,
    )


def check_node(
    node: Node,
    known_levels: frozenset[LevelName],
    levels: tuple[LevelName, ...],
    fabrics: Mapping[str, Fabric],
    scope: Scope,
) -> None:
    """Note what does not fit together in a node, or with its cluster."""
    if not node.domains.keys() <= known_levels:
        for level in node.domains:
            if level not in known_levels:
                scope.fault("unknown level", known(list(levels), level, "known levels"), "domains", level)
    if node.gpus_bad and (node.gpus_bad[-1] >= node.gpus or len(set(node.gpus_bad)) < len(node.gpus_bad)):
        wrong = f"given {listed(node.gpus_bad)} on a node of {node.gpus} GPUs"
        scope.fault(wrong, "each index once, from 0 to the number of GPUs less 1", "gpus_bad")
    if node.cpus is not None and node.cpus_reserved > node.cpus:
        scope.fault(f"given {node.cpus_reserved:g}", f"at most the node's {node.cpus:g} CPUs", "cpus_reserved")
    if node.fabric is not None:
        _check_fabric(node, fabrics, scope)


def _check_fabric(node: Node, fabrics: Mapping[str, Fabric], scope: Scope) -> None:
    fabric = fabrics.get(node.fabric or "")
    if fabric is None:
        scope.fault(
            f"there is no fabric {show(node.fabric)}", known(list(fabrics), node.fabric, "known fabrics"), "fabric"
        )
        return
    indices = [index for island in fabric.islands for index in island] + list(fabric.nics)
    indices += [index for link in fabric.links for index in (link.first, link.second)]
    if indices and max(indices) >= node.gpus:
        text = f"node {node.id} has {node.gpus} GPUs, its fabric {node.fabric} names GPU {max(indices)}"
        scope.report.warn("nodes with fewer GPUs than their fabric", text)


def _fabrics(data: object, scope: Scope) -> dict[str, Fabric]:
    if data is None:
        return {}
    if not isinstance(data, dict):
        scope.fault(f"given {show(data)}", "a mapping of names to fabrics")
        return {}
    fabrics: dict[str, Fabric] = {}
    for name, entry in data.items():
        here = scope.at(name)
        if not isinstance(name, str) or not re.fullmatch(ID_PATTERN, name):
            here.fault(f"given the name {show(name)}", ID_RULE)
        elif (read := validate(here, FabricIn, entry)) is not None:
            fabrics[name] = _fabric(read, here)
    return fabrics


def _fabric(read: FabricIn, scope: Scope) -> Fabric:
    links: list[Link] = []
    for number, link in enumerate(read.links):
        first, second, kind, *rest = [*link, None, None, None][: max(3, len(link))]
        bandwidth = rest[0] if rest else None
        right = (
            isinstance(first, int)
            and isinstance(second, int)
            and isinstance(kind, str)
            and 0 <= first < 1024
            and 0 <= second < 1024
            and first != second
            and len(rest) <= 1
            and (bandwidth is None or (isinstance(bandwidth, int | float) and 0 < bandwidth <= 1e6))
        )
        if right and isinstance(first, int) and isinstance(second, int) and not isinstance(bandwidth, str):
            links.append(Link(first, second, str(kind), None if bandwidth is None else float(bandwidth)))
        else:
            scope.fault(
                f"given {show(link)} values",
                "[GPU index, another GPU index, kind] and, if known, GB/s",
                "links",
                number,
            )
    seen: set[int] = set()
    for number, island in enumerate(read.islands):
        if len(set(island)) < len(island) or seen & set(island):
            scope.fault("a GPU index stands in two islands", "each index in one island", "islands", number)
        seen |= set(island)
    nics = {int(index): rail for index, rail in read.nics.items()}
    return Fabric(tuple(links), tuple(tuple(island) for island in read.islands), nics)


def _warn_of_empty(nodes: list[Node], scope: Scope) -> None:
    for node in nodes:
        if node.gpus == 0:
            scope.report.warn("nodes with 0 GPUs", f"node {node.id} has 0 GPUs: it can run nothing")
