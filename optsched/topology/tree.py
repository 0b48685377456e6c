"""Which node is in which domain of which level, as arrays.

A domain is named by its whole path: rack r1 of zone z1 is not rack r1 of zone z2, whatever the files call them. So
domains of any two levels either nest or are disjoint, even where the names of a cluster do not. A node that has no
name at a level is in no domain of that level; if it has a name at a narrower one, that domain's path has a hole where
the name is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from optsched.values.cluster import Cluster
from optsched.values.ids import NODE_LEVEL, LevelName, NodeId

Indices = npt.NDArray[np.int32]
"""Indices of nodes, domains or levels."""

WHOLE_CLUSTER = -1
"""The span of nodes that no single domain holds: only the cluster as a whole does."""

CLUSTER_NAME = "cluster"
"""How that span is printed."""

HOLE = "-"
"""How a missing name is printed inside a path."""


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """L levels, widest first and "node" last, over N nodes in the cluster's order. All arrays are read-only.

    `domain_of[l, n]` (int32, shape (L, N)) is the domain of level l that holds node n, -1 where there is none;
    domains are numbered per level in the order in which the nodes first name them. `domain_names[l][d]` is a
    printable whole path, its names joined with "/"; at the node level it is the node's id.
    """

    levels: tuple[LevelName, ...]
    level_index: Mapping[LevelName, int]
    node_ids: tuple[NodeId, ...]
    node_index: Mapping[NodeId, int]
    domain_of: Indices
    domain_names: tuple[tuple[str, ...], ...]
    _members: tuple[Indices, ...]
    _starts: tuple[Indices, ...]

    @property
    def node_level(self) -> int:
        """The index of the level "node", the last one."""
        return len(self.levels) - 1

    def domain_count(self, level: int) -> int:
        """Return how many domains the level has, >= 0."""
        return len(self.domain_names[level])

    def nodes_in(self, level: int, domain: int) -> Indices:
        """Return the nodes of one domain, ascending (a read-only view, at least one node)."""
        starts = self._starts[level]
        members: Indices = self._members[level][starts[domain] : starts[domain + 1]]
        return members

    def nodes_outside(self, level: int) -> Indices:
        """Return the nodes that are in no domain of the level, ascending."""
        return np.flatnonzero(self.domain_of[level] < 0).astype(np.int32)

    def domain_sizes(self, level: int) -> Indices:
        """Return the number of nodes of each domain of the level, shape (domain_count(level),)."""
        return np.diff(self._starts[level]).astype(np.int32)

    def sum_per_domain(self, level: int, per_node: npt.NDArray[np.int64 | np.bool_]) -> npt.NDArray[np.int64]:
        """Add up an integer or flag per node (shape (N,), sums below 2**53) over each domain of the level."""
        domains = self.domain_of[level]
        if len(self._members[level]) < len(domains):
            inside = domains >= 0
            domains, per_node = domains[inside], per_node[inside]
        sums = np.bincount(domains, weights=per_node, minlength=self.domain_count(level))
        return sums.astype(np.int64)

    def domains_within(self, narrow: int, wide: int) -> Indices:
        """Return, for each domain of level `narrow`, the domain of the wider level `wide` that holds it, or -1."""
        first_nodes = self._members[narrow][self._starts[narrow][:-1]]
        around: Indices = self.domain_of[wide][first_nodes]
        return around

    def parent(self, level: int, domain: int) -> tuple[int, int]:
        """Return (level, domain) of the nearest wider domain around this one; (-1, -1) is the whole cluster."""
        first = self.nodes_in(level, domain)[0]
        for wider in range(level - 1, -1, -1):
            around = int(self.domain_of[wider, first])
            if around >= 0:
                return wider, around
        return WHOLE_CLUSTER, -1

    def find_domains(self, name: str) -> tuple[tuple[int, int], ...]:
        """Return every (level, domain), widest first, with this whole path; without one, with this as its last name."""
        whole = [(level, d) for level, names in enumerate(self.domain_names) for d, n in enumerate(names) if n == name]
        if whole:
            return tuple(whole)
        return tuple(
            (level, d)
            for level, names in enumerate(self.domain_names[:-1])
            for d, path in enumerate(names)
            if path.endswith(f"/{name}")
        )

    def span_level(self, nodes: Sequence[int] | npt.NDArray[np.integer]) -> int:
        """Return the narrowest level one domain of which holds all these nodes, -1 if only the whole cluster does.

        Raises ValueError where there is no node.
        """
        if len(nodes) == 0:
            raise ValueError("the span of no nodes is not defined")
        domains = self.domain_of[:, nodes]
        first = domains[:, :1]
        shared = ((domains == first) & (first >= 0)).all(axis=1).nonzero()[0]
        return int(shared[-1]) if len(shared) else WHOLE_CLUSTER

    def spans(self, nodes: npt.NDArray[np.integer], starts: npt.NDArray[np.integer]) -> Indices:
        """Return the span of many gangs at once: gang g has the nodes `nodes[starts[g]:starts[g + 1]]`, at least one.

        `nodes` holds all gangs one behind the other, `starts` (shape (G,), ascending, first 0) where each begins.
        Returns shape (G,): level indices, -1 for the whole cluster.
        """
        if len(starts) == 0:
            return np.zeros(0, dtype=np.int32)
        domains = self.domain_of[:, nodes]
        lowest = np.minimum.reduceat(domains, starts, axis=1)
        highest = np.maximum.reduceat(domains, starts, axis=1)
        shared = (lowest == highest) & (lowest >= 0)
        levels = np.arange(len(self.levels), dtype=np.int32)[:, None]
        narrowest: Indices = np.where(shared, levels, WHOLE_CLUSTER).max(axis=0).astype(np.int32)
        return narrowest

    def span_name(self, level: int) -> str:
        """Return the name of a span: a level's, or "cluster" for -1."""
        return CLUSTER_NAME if level == WHOLE_CLUSTER else self.levels[level]


def build_tree(cluster: Cluster) -> Tree:
    """Build the tree of a cluster, in one pass over nodes and levels; names of unknown levels are ignored."""
    named = tuple(level for level in cluster.levels if level != NODE_LEVEL)
    levels = (*named, NODE_LEVEL)
    count = len(cluster.nodes)
    node_ids = tuple(node.id for node in cluster.nodes)
    domain_of = np.empty((len(levels), count), dtype=np.int32)
    all_domains = [node.domains for node in cluster.nodes]
    # A prefix is the path down to a level, holes included, numbered as met; `texts` prints it.
    prefix_of = [0] * count
    texts = [""]
    names_per_level: list[tuple[str, ...]] = []
    for index, level in enumerate(named):
        numbers: dict[tuple[int, str | None], int] = {}
        next_texts: list[str] = []
        domain_of_prefix: list[int] = []
        names: list[str] = []
        row: list[int] = []
        for position, domains in enumerate(all_domains):
            name = domains.get(level)
            key = (prefix_of[position], name)
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(next_texts)
                text = HOLE if name is None else name
                next_texts.append(f"{texts[key[0]]}/{text}" if index else text)
                domain_of_prefix.append(-1 if name is None else len(names))
                if name is not None:
                    names.append(next_texts[-1])
            prefix_of[position] = number
            row.append(domain_of_prefix[number])
        texts = next_texts
        domain_of[index] = row
        names_per_level.append(tuple(names))
    domain_of[-1] = np.arange(count, dtype=np.int32)
    names_per_level.append(node_ids)
    members, starts = zip(
        *(_members_by_domain(row, len(names)) for row, names in zip(domain_of, names_per_level, strict=True)),
        strict=True,
    )
    domain_of.setflags(write=False)
    return Tree(
        levels=levels,
        level_index={level: index for index, level in enumerate(levels)},
        node_ids=node_ids,
        node_index={node: index for index, node in enumerate(node_ids)},
        domain_of=domain_of,
        domain_names=tuple(names_per_level),
        _members=members,
        _starts=starts,
    )


def _members_by_domain(domains: Indices, count: int) -> tuple[Indices, Indices]:
    """Return the nodes sorted by domain (those outside left out), and where each domain starts, shape (count + 1,)."""
    order = np.argsort(domains, kind="stable").astype(np.int32)
    members = order[np.count_nonzero(domains < 0) :]
    starts = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(np.bincount(domains[domains >= 0], minlength=count), out=starts[1:])
    members.setflags(write=False)
    starts.setflags(write=False)
    return members, starts
