"""Groups: many equal nodes in a few lines, expanded to nodes with generated domains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from optsched.files.report import Scope, known
from optsched.files.schema import GroupIn
from optsched.values.cluster import Node
from optsched.values.ids import ANY_TYPE, NODE_LEVEL, GpuType, LevelName, NodeId

MAX_NODES = 200_000
"""Most nodes of one cluster."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A domain on the way down: its generated name and the domains that it lies in."""

    name: str
    domains: Mapping[LevelName, str]


def letters(levels: Sequence[str]) -> dict[str, str]:
    """Return what each level is called in generated names: its first letter, or all of it where two share that letter.

    Of a name with slashes only the last part counts: `k8s.io/rack` is r.
    """
    short = {level: level.rsplit("/", 1)[-1] for level in levels}
    first = [name[:1] for name in short.values()]
    return {level: name[:1] if first.count(name[:1]) == 1 else name for level, name in short.items()}


def expand_group(group: GroupIn, levels: Sequence[LevelName], scope: Scope) -> Iterator[Node]:
    """Yield the nodes of a group, in order; domains are named `<prefix>p0b1r2`, nodes `<prefix>p0b1r2n3`.

    A list of counts is used in turn over all parents of the group. Yields nothing where a fault was noted.
    """
    if NODE_LEVEL not in group.counts:
        scope.fault("has no count for node", "a count for each level that the nodes have, and for node", "counts")
        return
    for level in group.counts:
        if level != NODE_LEVEL and level not in levels:
            scope.fault("unknown level", known([*levels, NODE_LEVEL], level, "known levels"), "counts", level)
            return
    used = [level for level in (*levels, NODE_LEVEL) if level in group.counts]
    counts = {level: [entry] if isinstance(entry := group.counts[level], int) else entry for level in used}
    if (total := _size(counts, used)) > MAX_NODES:
        scope.fault(
            f"makes {'more than ' if total > 10**12 else ''}{min(total, 10**12):,} nodes",
            f"at most {MAX_NODES:,}",
            "counts",
        )
        return
    short = letters(used)
    places = [_Place(group.prefix, {})]
    for level in used[:-1]:
        places = [
            _Place(name := f"{place.name}{short[level]}{child}", {**place.domains, LevelName(level): name})
            for number, place in enumerate(places)
            for child in range(counts[level][number % len(counts[level])])
        ]
    of_node = counts[NODE_LEVEL]
    for number, place in enumerate(places):
        for child in range(of_node[number % len(of_node)]):
            yield _node(group, NodeId(f"{place.name}{short[NODE_LEVEL]}{child}"), place.domains)


def _size(counts: Mapping[LevelName, Sequence[int]], used: Sequence[LevelName]) -> int:
    """Return how many nodes (or, if more, domains of a level) a group makes, without making them."""
    places = largest = 1
    for level in used:
        cycle = counts[level]
        whole, rest = divmod(places, len(cycle))
        places = whole * sum(cycle) + sum(cycle[:rest])
        largest = max(largest, places)
    return largest


def _node(group: GroupIn, name: NodeId, domains: Mapping[LevelName, str]) -> Node:
    return Node(
        id=name,
        gpus=group.gpus,
        domains=domains,
        gpu_type=GpuType(group.gpu_type) if group.gpu_type is not None else ANY_TYPE,
        fabric=group.fabric,
        cpus=group.cpus,
        cpus_reserved=group.cpus_reserved,
        memory_gb=group.memory_gb,
        labels=group.labels,
        spare=group.spare,
    )
