"""The machines of a round: nodes, the domains that hold them, and what is wrong with some of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.rounds.kinds import Kind, Pool

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

RESERVED_CPUS = 8
FABRIC = "hgx"


@dataclass(slots=True)
class Node:
    """One machine; `path` holds its domain of each level, widest first, None where it is in none."""

    id: str
    pool: Pool
    path: list[str | None]
    bad: tuple[int, ...] = ()
    labels: dict[str, str] | None = None
    spare: bool = False
    state: str = "up"
    reason: str = ""

    @property
    def open(self) -> bool:
        """Whether jobs may have come here before the round."""
        return not self.spare and self.state != "down"


@dataclass(frozen=True, slots=True)
class Layout:
    """Nodes as arrays. N nodes, L levels.

    `domain[l]` (N,) is the node's domain of a level, `inside[l]` (N,) whether it really is in one: a node that is in
    none stands in a domain of its own. `parent[l]` is the domain of level l - 1 around each domain of level l,
    `children[l]` the domains of level l + 1 in each, at the last level the nodes. `gpus` counts all, bad ones too,
    `open_gpus` those that jobs may have come to before the round.
    """

    levels: tuple[str, ...]
    nodes: list[Node]
    gpu_type: list[str]
    domain: list[Ints]
    inside: list[Flags]
    parent: list[Ints]
    children: list[list[Ints]]
    gpus: int
    open_gpus: int


def build_layout(kind: Kind, rng: np.random.Generator) -> Layout:
    """Return the machines of a kind: some down and, in a rich one, some spare, with bad GPUs or with labels."""
    nodes: list[Node] = []
    for pool in kind.pools:
        nodes += _ragged(kind, pool, rng) if pool.ragged else _regular(kind, pool)
    _set_apart(kind, nodes, rng)
    return _indexed(kind.levels, nodes)


def _regular(kind: Kind, pool: Pool) -> list[Node]:
    prefix = f"{pool.gpu_type}-" if len(kind.pools) > 1 else ""
    paths: list[list[str | None]] = [[]]
    for level, count in zip(kind.levels, pool.counts, strict=False):
        paths = [[*path, f"{path[-1] if path else prefix}{level[0]}{i}"] for path in paths for i in range(count)]
    return [Node(f"{path[-1]}n{i}", pool, path) for path in paths for i in range(pool.counts[-1])]


def _ragged(kind: Kind, pool: Pool, rng: np.random.Generator) -> list[Node]:
    """Return nodes in racks of 1 to rack_nodes, most of them full, eight racks a block."""
    prefix = f"{pool.gpu_type}x{pool.gpus}-"
    nodes: list[Node] = []
    rack = 0
    while len(nodes) < pool.ragged:
        full = rng.random() < 0.6
        size = min(pool.rack_nodes if full else int(rng.integers(1, pool.rack_nodes + 1)), pool.ragged - len(nodes))
        block = f"{prefix}b{rack // 8}"
        loose = rng.random() < pool.rackless
        path: list[str | None] = [*[None] * (len(kind.levels) - 2), block, None if loose else f"{block}r{rack % 8}"]
        nodes += [Node(f"{prefix}{len(nodes) + i}", pool, list(path)) for i in range(size)]
        rack += 1
    return nodes


def _set_apart(kind: Kind, nodes: list[Node], rng: np.random.Generator) -> None:
    """Choose the nodes that jobs could not use before the round, and those with bad GPUs and labels."""
    order = iter(rng.permutation(len(nodes)).tolist())
    boxes = (n for n in order if nodes[n].pool.gpus > 1)
    for _ in range(count_of(0.005, nodes, kind)):
        node = nodes[next(order)]
        node.state, node.reason = "down", "lost its lease"
    if not kind.rich:
        return
    for _ in range(count_of(0.005, nodes, kind)):
        nodes[next(boxes)].spare = True
    for _ in range(count_of(0.01, nodes, kind)):
        node = nodes[next(boxes)]
        node.bad = (int(rng.integers(node.pool.gpus)),)
    for node in nodes:
        node.labels = {"zone": "ab"[int(rng.random() < 0.5)], "disk": "nvme" if rng.random() < 0.7 else "sata"}


def count_of(share: float, nodes: list[Node], kind: Kind) -> int:
    """Return how many nodes are meant by a share; at least one in a rich round."""
    return max(int(kind.rich), round(share * len(nodes)))


def close_some(kind: Kind, nodes: list[Node], rng: np.random.Generator) -> None:
    """Cordon a few nodes after what they run has started; in a rich round also drain and suspect some."""
    order = iter(n for n in rng.permutation(len(nodes)).tolist() if nodes[n].open)
    states = [("cordoned", "an operator looks at it", 0.006)]
    if kind.rich:
        states += [("draining", "to be given back", 0.003), ("suspect", "failed three gangs", 0.003)]
    for state, reason, share in states:
        for _ in range(count_of(share, nodes, kind)):
            node = nodes[next(order)]
            node.state, node.reason = state, reason


def _indexed(levels: tuple[str, ...], nodes: list[Node]) -> Layout:
    domain: list[Ints] = []
    inside: list[Flags] = []
    parent: list[Ints] = []
    for depth in range(len(levels)):
        index: dict[tuple[str | None, ...], int] = {}
        above: list[int] = []
        at = np.zeros(len(nodes), dtype=np.int64)
        for n, node in enumerate(nodes):
            key = tuple(node.path[: depth + 1]) if node.path[depth] is not None else ("", node.id)
            if key not in index:
                index[key] = len(index)
                above.append(int(domain[-1][n]) if domain else 0)
            at[n] = index[key]
        domain.append(at)
        inside.append(np.array([node.path[depth] is not None for node in nodes]))
        parent.append(np.array(above, dtype=np.int64))
    children = [_members(parent[depth + 1], len(parent[depth])) for depth in range(len(levels) - 1)]
    children.append(_members(domain[-1], len(parent[-1])))
    gpus = sum(node.pool.gpus for node in nodes)
    open_gpus = sum(node.pool.gpus - len(node.bad) for node in nodes if node.open)
    types = [node.pool.gpu_type for node in nodes]
    return Layout(levels, nodes, types, domain, inside, parent, children, gpus, open_gpus)


def _members(group: Ints, groups: int) -> list[Ints]:
    order = np.argsort(group, kind="stable")
    return np.split(order, np.cumsum(np.bincount(group, minlength=groups))[:-1])


def node_entry(levels: tuple[str, ...], node: Node, rich: bool) -> dict[str, object]:
    """Return a node as a snapshot has it."""
    entry: dict[str, object] = {
        "id": node.id,
        "domains": {level: name for level, name in zip(levels, node.path, strict=True) if name is not None},
        "gpus": node.pool.gpus,
        "gpu_type": node.pool.gpu_type,
        "cpus": node.pool.cpus,
        "memory_gb": node.pool.memory_gb,
    }
    if rich:
        entry |= {"cpus_reserved": RESERVED_CPUS, "labels": node.labels}
    if rich and node.pool.gpus == 8:
        entry["fabric"] = FABRIC
    if node.bad:
        entry["gpus_bad"] = list(node.bad)
    if node.spare:
        entry["spare"] = True
    if node.state != "up":
        entry |= {"state": node.state, "reason": node.reason}
    return entry


def fabrics() -> dict[str, object]:
    """Return the fabric of the boxes of eight: all GPUs on one NVLink switch, a rail each (HGX H100)."""
    links = [[a, b, "nvlink", 900] for a in range(8) for b in range(a + 1, 8)]
    return {FABRIC: {"links": links, "islands": [list(range(8))], "nics": {str(i): f"rail{i}" for i in range(8)}}}
