"""What looks wrong in a cluster's description: warnings, never a refusal, for nothing here keeps a round from planning.

One finding speaks for all nodes or domains of its kind, with their number and a few of their names.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from optsched.topology.tree import Tree
from optsched.values.cluster import Cluster, Fabric
from optsched.values.ids import NODE_LEVEL

EXAMPLES = 3
"""How many names a finding shows."""


class FindingKind(enum.Enum):
    """What is odd."""

    LEVEL_UNUSED = "level_unused"
    """No node names a domain of a level."""
    LEVEL_UNKNOWN = "level_unknown"
    """Nodes name a domain of a level that the cluster does not list; it is ignored."""
    NODE_OUTSIDE_LEVEL = "node_outside_level"
    """Nodes are in no domain of a level that others use."""
    DOMAIN_OF_ONE_NODE = "domain_of_one_node"
    """Domains hold one node only, so they say no more than the node."""
    SAME_SHORT_NAME = "same_short_name"
    """One name stands for several domains of a level, under different parents."""
    FABRIC_UNUSED = "fabric_unused"
    """No node has this fabric."""
    FABRIC_MISSING = "fabric_missing"
    """Nodes name a fabric that is not described."""
    INDEX_OUT_OF_RANGE = "index_out_of_range"
    """A fabric speaks of GPU indices that its nodes do not have."""
    LINK_TO_ITSELF = "link_to_itself"
    """A link joins a GPU to itself; it is ignored."""
    ISLANDS_OVERLAP = "islands_overlap"
    """A GPU is in several islands."""
    GPU_IN_NO_ISLAND = "gpu_in_no_island"
    """A fabric has islands, but not for all GPUs of its nodes."""
    NO_HEALTHY_GPU = "no_healthy_gpu"
    """Nodes have no GPU that may be used."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One oddity: the level or fabric that it is about, how many nodes, domains or names are concerned, a sentence."""

    kind: FindingKind
    subject: str
    count: int
    text: str


def findings(cluster: Cluster, tree: Tree) -> tuple[Finding, ...]:
    """Return all findings: levels first, then fabrics, then nodes; `tree` is the one built from the cluster."""
    return (*_about_levels(cluster, tree), *_about_fabrics(cluster), *_about_nodes(cluster))


def _about_levels(cluster: Cluster, tree: Tree) -> Iterable[Finding]:
    known = set(tree.levels)
    unknown: dict[str, list[str]] = defaultdict(list)
    for node in cluster.nodes:
        for named in node.domains:
            if named not in known:
                unknown[named].append(node.id)
    for stray, nodes in unknown.items():
        text = f"{_many(nodes, 'node')} with a domain of {stray!r}, which is not one of the cluster's levels"
        yield Finding(FindingKind.LEVEL_UNKNOWN, stray, len(nodes), text)
    for index, level in enumerate(tree.levels[:-1]):
        outside = [tree.node_ids[node] for node in tree.nodes_outside(index)]
        if len(outside) == len(tree.node_ids):
            yield Finding(FindingKind.LEVEL_UNUSED, level, len(outside), f"no node is in a domain of level {level}")
            continue
        if outside:
            text = f"{_many(outside, 'node')} in no domain of level {level}"
            yield Finding(FindingKind.NODE_OUTSIDE_LEVEL, level, len(outside), text)
        names = tree.domain_names[index]
        single = [names[domain] for domain in (tree.domain_sizes(index) == 1).nonzero()[0]]
        if single:
            text = f"{_many(single, 'domain')} of level {level} with one node only"
            yield Finding(FindingKind.DOMAIN_OF_ONE_NODE, level, len(single), text)
        firsts = [int(tree.nodes_in(index, domain)[0]) for domain in range(len(names))]
        short = Counter(cluster.nodes[node].domains[level] for node in firsts)
        repeated = [word for word, times in short.items() if times > 1]
        if repeated:
            text = (
                f"{_many(repeated, 'name')} for several domains of level {level}; give whole paths to tell them apart"
            )
            yield Finding(FindingKind.SAME_SHORT_NAME, level, len(repeated), text)


def _about_fabrics(cluster: Cluster) -> Iterable[Finding]:
    users: dict[str, list[str]] = defaultdict(list)
    sizes: dict[str, set[int]] = defaultdict(set)
    for node in cluster.nodes:
        if node.fabric is not None:
            users[node.fabric].append(node.id)
            sizes[node.fabric].add(node.gpus)
    for name, nodes in users.items():
        if name not in cluster.fabrics:
            text = f"{_many(nodes, 'node')} with the fabric {name!r}, which is not described"
            yield Finding(FindingKind.FABRIC_MISSING, name, len(nodes), text)
    for name, fabric in cluster.fabrics.items():
        if name not in users:
            yield Finding(FindingKind.FABRIC_UNUSED, name, 0, f"no node has the fabric {name}")
        yield from _inside_fabric(name, fabric, sizes[name])


def _inside_fabric(name: str, fabric: Fabric, sizes: set[int]) -> Iterable[Finding]:
    """Check one fabric; `sizes` are the GPU counts of the nodes that have it."""
    in_islands = Counter(gpu for island in fabric.islands for gpu in island)
    named = {gpu for link in fabric.links for gpu in (link.first, link.second)} | set(in_islands) | set(fabric.nics)
    beyond = sorted(gpu for gpu in named if gpu < 0 or (sizes and gpu >= min(sizes)))
    if beyond:
        smallest = f"a node of {min(sizes)} GPUs" if sizes else "any node"
        text = f"fabric {name} speaks of GPU {_list(beyond)}, which {smallest} does not have"
        yield Finding(FindingKind.INDEX_OUT_OF_RANGE, name, len(beyond), text)
    loops = sorted({link.first for link in fabric.links if link.first == link.second})
    if loops:
        text = f"fabric {name} links GPU {_list(loops)} to itself"
        yield Finding(FindingKind.LINK_TO_ITSELF, name, len(loops), text)
    shared = sorted(gpu for gpu, times in in_islands.items() if times > 1)
    if shared:
        text = f"fabric {name} has GPU {_list(shared)} in more than one island"
        yield Finding(FindingKind.ISLANDS_OVERLAP, name, len(shared), text)
    lonely = [gpu for gpu in range(max(sizes, default=0)) if gpu not in in_islands]
    if fabric.islands and lonely:
        text = f"fabric {name} has GPU {_list(lonely)} in no island"
        yield Finding(FindingKind.GPU_IN_NO_ISLAND, name, len(lonely), text)


def _about_nodes(cluster: Cluster) -> Iterable[Finding]:
    empty = [node.id for node in cluster.nodes if node.healthy_gpus <= 0]
    if empty:
        yield Finding(
            FindingKind.NO_HEALTHY_GPU, NODE_LEVEL, len(empty), f"{_many(empty, 'node')} without a healthy GPU"
        )


def _list(items: Iterable[object]) -> str:
    words = [str(item) for item in items]
    more = f" and {len(words) - EXAMPLES} more" if len(words) > EXAMPLES else ""
    return ", ".join(words[:EXAMPLES]) + more


def _many(names: Sequence[str], noun: str) -> str:
    """Return "1 node (n1)" or "5 nodes (n1, n2, n3 and 2 more)"."""
    return f"{len(names)} {noun}{'s' if len(names) != 1 else ''} ({_list(names)})"
