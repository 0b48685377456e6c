"""Placements as people write them: whole domains by name, runs of nodes as a range."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from optsched.cli.words import clean
from optsched.topology.tree import CLUSTER_NAME, WHOLE_CLUSTER, Tree
from optsched.values.cluster import Cluster
from optsched.values.ids import NodeId
from optsched.values.job import Placement, gpus_on

_LAST_NUMBER = re.compile(r"^(.*?)([0-9]+)([^0-9]*)$", re.DOTALL)
_RUN = 3
"""From this many names on a run is written as a range."""

_IRREGULAR = {"leaf": "leaves", "chassis": "chassis", "nvlink": "nvlink domains"}


def level_word(level: str, number: int) -> str:
    """Return the name of a level for so many domains: "rack", "racks", "nvlink domain"."""
    word = clean(level)
    if number == 1:
        return "nvlink domain" if word == "nvlink" else word
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    return word + ("es" if word.endswith(("s", "x", "ch")) else "s")


def ranges(names: Sequence[str]) -> list[str]:
    """Return names with runs of three and more whose last number counts up written as "n0–n7"."""
    runs: list[list[str]] = []
    before: tuple[str, int, int, str] | None = None
    for name in names:
        found = _LAST_NUMBER.match(name)
        key = (found[1], int(found[2]), len(found[2]), found[3]) if found and len(found[2]) < 18 else None
        if key is not None and before is not None and _follows(before, key):
            runs[-1].append(name)
        else:
            runs.append([name])
        before = key
    return [
        text
        for run in runs
        for text in ([f"{clean(run[0])}–{clean(run[-1])}"] if len(run) >= _RUN else [clean(name) for name in run])
    ]


def _follows(before: tuple[str, int, int, str], after: tuple[str, int, int, str]) -> bool:
    """Whether `after` is the next name: 9 to 10, and 09 to 10, but not 9 to 010."""
    same = before[0] == after[0] and before[3] == after[3] and after[1] == before[1] + 1
    return same and (before[2] == after[2] or (after[2] == before[2] + 1 and set(str(before[1])) == {"9"}))


def numbers(indices: Iterable[int]) -> str:
    """Return GPU indices as "0–3,6"."""
    parts: list[list[int]] = []
    for index in sorted(indices):
        if parts and parts[-1][-1] == index - 1:
            parts[-1].append(index)
        else:
            parts.append([index])
    return ",".join(f"{p[0]}–{p[-1]}" if len(p) > 2 else ",".join(map(str, p)) for p in parts)


def shortened(parts: Sequence[str], most: int) -> str:
    """Return the parts with commas between, the rest counted."""
    if len(parts) <= most:
        return ", ".join(parts)
    return ", ".join(parts[: most - 1]) + f" … {len(parts) - most + 1:,} more"


class Places:
    """Names of domains and placements in one cluster."""

    def __init__(self, cluster: Cluster, tree: Tree) -> None:
        self._tree = tree
        self._cluster = cluster
        self._short: dict[int, tuple[str, ...]] = {}

    def domain(self, level: int, domain: int) -> str:
        """Return a domain's own name where the level has it once, else its whole path."""
        if level not in self._short:
            paths = self._tree.domain_names[level]
            own = paths if level == self._tree.node_level else [path.rsplit("/", 1)[-1] for path in paths]
            times = Counter(own)
            self._short[level] = tuple(
                clean(name if times[name] == 1 else path) for name, path in zip(own, paths, strict=True)
            )
        return self._short[level][domain]

    def path(self, path: str) -> str:
        """Return a whole path as "block b3" where it names one domain, else as it is."""
        found = self._tree.find_domains(path)
        if len(found) != 1:
            return clean(path)
        level, domain = found[0]
        return f"{clean(self._tree.levels[level])} {self.domain(level, domain)}"

    def span(self, placement: Placement) -> str:
        """Return the narrowest domain that holds a placement: "rack b0r3", "node n1", "cluster"."""
        nodes = self.nodes(placement)
        if not nodes:
            return "nowhere"
        level = self._tree.span_level(nodes)
        if level == WHOLE_CLUSTER:
            return CLUSTER_NAME
        return f"{clean(self._tree.levels[level])} {self.domain(level, int(self._tree.domain_of[level, nodes[0]]))}"

    def nodes(self, placement: Placement) -> list[int]:
        """Return the indices of the nodes, ascending."""
        return sorted(self._tree.node_index[node] for node in placement if node in self._tree.node_index)

    def shape(self, placement: Placement) -> str:
        """Return "4 × 8": so many nodes with so many GPUs each; "3 × 2–8" where they differ."""
        sizes = [gpus_on(booked) for booked in placement.values()]
        if not sizes:
            return "none"
        each = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)}–{max(sizes)}"
        return f"{len(sizes):,} × {each}"

    def parts(self, placement: Placement) -> list[str]:
        """Return a placement in pieces: "racks b0r0–b0r3 ×8", "b1r0n2–b1r0n5 ×8", "b2r1n0[0–3]"; ×8: GPUs a node."""
        tree = self._tree
        key_of = {index: self._key(NodeId(tree.node_ids[index]), placement) for index in self.nodes(placement)}
        parts: list[str] = []
        for level in range(tree.node_level):
            whole: dict[str, list[str]] = {}
            for domain in sorted({int(tree.domain_of[level, node]) for node in key_of} - {-1}):
                members = [int(node) for node in tree.nodes_in(level, domain)]
                keys = {key_of.get(node) for node in members}
                if len(members) > 1 and len(keys) == 1 and (key := keys.pop()) is not None:
                    whole.setdefault(key, []).append(self.domain(level, domain))
                    for node in members:
                        del key_of[node]
            for key, names in whole.items():
                parts.append(f"{level_word(tree.levels[level], len(names))} {shortened(ranges(names), 4)}{key}")
        by_key: dict[str, list[str]] = {}
        for node, key in key_of.items():
            by_key.setdefault(key, []).append(tree.node_ids[node])
        for key, names in by_key.items():
            parts += [text + key for text in ranges(names)]
        return parts

    def where(self, placement: Placement, most: int = 4) -> str:
        """Return a placement in one short text."""
        return shortened(self.parts(placement), most)

    def node_list(self, nodes: Sequence[NodeId]) -> str:
        """Return "racks b3r0–b3r15, b4r0n1" for nodes without a number of GPUs."""
        return shortened(self.parts(dict.fromkeys(nodes, 0)), 4)

    def _key(self, node: NodeId, placement: Placement) -> str:
        """Return what is taken of a node: " ×8", or "[0–3]" where it is a part of it and the indices are known."""
        booked = placement[node]
        taken = gpus_on(booked)
        if not isinstance(booked, int) and taken < self._cluster.nodes[self._tree.node_index[node]].healthy_gpus:
            return f"[{numbers(booked)}]"
        return f" ×{taken}" if taken else ""
