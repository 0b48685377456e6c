"""The tree of a cluster in few lines: siblings of one kind together, sizes as smallest–median–largest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_high

from optsched.cli.places import Places, level_word, ranges, shortened
from optsched.cli.words import clean, count
from optsched.topology.tree import Tree
from optsched.values.cluster import Cluster

MAX_KINDS = 12
"""Lines under one parent."""

Leaf = tuple[tuple[int, ...], str, int]
"""What a node is, seen from a domain: the levels down to it, its GPU type, its GPUs."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Siblings of one kind: how deep they stand, what they are called, what is in each, how many GPUs in all."""

    depth: int
    label: str
    inside: str


def branches(cluster: Cluster, tree: Tree) -> list[Branch]:
    """Return the tree as lines, depth first."""
    return _Walk(cluster, tree).below(list(range(len(tree.node_ids))), -1, 0, 1, "")


def spread(sizes: Sequence[int]) -> str:
    """Return "8", or "3–7–8": the smallest, the median and the largest."""
    if not sizes:
        return "0"
    if min(sizes) == max(sizes):
        return f"{sizes[0]:,}"
    return f"{min(sizes):,}–{median_high(sizes):,}–{max(sizes):,}"


class _Walk:
    def __init__(self, cluster: Cluster, tree: Tree) -> None:
        self._tree = tree
        self._nodes = cluster.nodes
        self._places = Places(cluster, tree)
        self._levels_of = [
            tuple(level for level in range(len(tree.levels)) if tree.domain_of[level, node] >= 0)
            for node in range(len(cluster.nodes))
        ]

    def below(self, nodes: list[int], level: int, depth: int, parents: int, parent_word: str) -> list[Branch]:
        """Return the lines for what is inside some domains of one kind; -1 and no word is the cluster."""
        children: dict[tuple[int, int], list[int]] = {}
        for node in nodes:
            inner = next(lower for lower in self._levels_of[node] if lower > level)
            children.setdefault((inner, int(self._tree.domain_of[inner, node])), []).append(node)
        kinds: dict[tuple[int, frozenset[Leaf]], list[tuple[int, list[int]]]] = {}
        for (inner, domain), members in children.items():
            kind = inner, frozenset(self._leaf(node, inner) for node in members)
            kinds.setdefault(kind, []).append((domain, members))
        lines: list[Branch] = []
        for (inner, leaves), group in list(kinds.items())[:MAX_KINDS]:
            lines += self._group(inner, leaves, group, depth, parents, parent_word)
        if len(kinds) > MAX_KINDS:
            left = sum(len(members) for group in list(kinds.values())[MAX_KINDS:] for _, members in group)
            lines.append(Branch(depth, f"… and {count(len(kinds) - MAX_KINDS, 'more kind')}", count(left, "node")))
        return lines

    def _leaf(self, node: int, level: int) -> Leaf:
        inner = tuple(lower for lower in self._levels_of[node] if lower > level)
        return inner, self._nodes[node].gpu_type, self._nodes[node].gpus

    def _group(
        self,
        level: int,
        leaves: frozenset[Leaf],
        group: list[tuple[int, list[int]]],
        depth: int,
        parents: int,
        parent_word: str,
    ) -> list[Branch]:
        word = level_word(self._tree.levels[level], len(group))
        names = shortened(ranges([self._places.domain(level, domain) for domain, _ in group]), 3)
        each = f", {spread_per(len(group), parents)} a {parent_word}" if parents > 1 else ""
        label = f"{len(group):,} {word}{each} {names}" if len(group) > 1 else f"{word} {names}"
        gpus = [sum(self._nodes[node].gpus for node in members) for _, members in group]
        if len(leaves) == 1:
            (chain, gpu_type, per_node) = next(iter(leaves))
            parts = [f"{size} {name}" for name, size in self._chain(level, chain, group)]
            parts.append(f"{count(per_node, 'GPU')}{f' ({clean(gpu_type)})' if gpu_type else ''}")
            total = f" = {spread(gpus)} GPUs{' each' if len(group) > 1 else ''}" if len(parts) > 1 else ""
            return [Branch(depth, label, " × ".join(parts) + total)]
        inside = f"{spread([len(members) for _, members in group])} nodes, {spread(gpus)} GPUs"
        lines = [Branch(depth, label, inside + (" each" if len(group) > 1 else ""))]
        all_nodes = [node for _, members in group for node in members]
        return lines + self.below(all_nodes, level, depth + 1, len(group), level_word(self._tree.levels[level], 1))

    def _chain(self, level: int, chain: tuple[int, ...], group: list[tuple[int, list[int]]]) -> list[tuple[str, str]]:
        """Return, for each level down to the node, its name and how many of it there are in one of the level above."""
        result = []
        parents = [members for _, members in group]
        for lower in chain:
            sizes, next_parents = [], []
            for members in parents:
                inside: dict[int, list[int]] = {}
                for node in members:
                    inside.setdefault(int(self._tree.domain_of[lower, node]), []).append(node)
                sizes.append(len(inside))
                next_parents += list(inside.values())
            name = level_word(self._tree.levels[lower], max(sizes))
            result.append((name, spread(sizes)))
            parents = next_parents
        return result


def spread_per(total: int, parents: int) -> str:
    """Return how many there are to a parent: "2", or "1.5" on average."""
    return f"{total // parents}" if total % parents == 0 else f"{total / parents:.1f}"
