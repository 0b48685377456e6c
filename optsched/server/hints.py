"""`topology_hint` and `elastic: true` on the cluster at hand: what a few plain words of a request come to."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping

from optsched.files.known import Known
from optsched.files.report import Scope, known, show
from optsched.topology.graph import is_nvlink_level, islands_of
from optsched.values.cluster import Cluster, Node
from optsched.values.ids import NODE_LEVEL, LevelName

Plain = dict[str, object]

NVLINK_DOMAIN = "nvlink-domain"
"""The widest set of GPUs with NVLink among themselves."""


def apply_hints(plain: Plain, hint: object, scope: Scope, cluster: Cluster, about: Known) -> None:
    """Write out what a hint and `elastic: true` alone mean, as keys of the job; faults are noted."""
    checkpoint = plain.get("checkpoint")
    elastic = isinstance(checkpoint, Mapping) and checkpoint.get("elastic") is True
    if elastic and "min_gpus" not in plain and "max_gpus" not in plain:
        _stretch(plain, cluster)
    if hint is not None:
        _place(plain, hint, scope, cluster, about)


def _stretch(plain: Plain, cluster: Cluster) -> None:
    """At least one node, in steps of one node: for a gang that is larger than a node and fills whole ones."""
    gpus, per_node, per_task = (plain.get(key) for key in ("gpus", "gpus_per_node", "gpus_per_task"))
    if not isinstance(gpus, int):
        return
    largest = max((node.gpus for node in _suited(plain, cluster)), default=0)
    if isinstance(per_node, int):
        step = per_node
    elif isinstance(per_task, int):
        step = per_task * max(1, largest // per_task)
    else:
        step = largest
    if step and gpus > step and gpus % step == 0:
        plain |= {"min_gpus": step, "max_gpus": gpus}
        if per_node is None and per_task is None:
            plain["gpus_per_node"] = step


def _place(plain: Plain, hint: object, scope: Scope, cluster: Cluster, about: Known) -> None:
    for key in ("topology", "slices"):
        if key in plain:
            scope.fault(f"given together with {key}", f"topology_hint or {key}, not both", "topology_hint")
            return
    level = level_of(hint, cluster)
    if level is None:
        names = [NVLINK_DOMAIN, *about.levels, NODE_LEVEL]
        scope.fault(f"unknown hint {show(hint)}", known(names, hint, "known hints"), "topology_hint")
        return
    sizes = [size for key in ("gpus", "min_gpus", "max_gpus") if isinstance(size := plain.get(key), int)]
    largest = _largest(level, _suited(plain, cluster), hint == NVLINK_DOMAIN, cluster)
    plain["topology"] = {"preferred": level}
    whole = math.gcd(*sizes) if sizes else 0
    cut = level == NODE_LEVEL and "gpus_per_node" in plain
    if cut or not largest or whole < 1 or max(sizes) <= largest:
        return
    piece = next(size for size in range(min(largest, whole), 0, -1) if whole % size == 0)
    if piece > 1:
        plain["slices"] = [{"gpus": piece, "within": level}]


def level_of(hint: object, cluster: Cluster) -> LevelName | None:
    """Return the level that a hint means; None for one that says nothing here.

    "nvlink-domain" is the level whose domains NVLink spans, as in an NVL72 rack, else the node: a box has its NVLink
    inside. Other hints are levels by their names, or with "-domain" behind them.
    """
    if not isinstance(hint, str):
        return None
    levels = (*cluster.levels, NODE_LEVEL)
    if hint in levels:
        return LevelName(hint)
    if hint == NVLINK_DOMAIN:
        return next((level for level in cluster.levels if is_nvlink_level(level)), NODE_LEVEL)
    short = hint.removesuffix("-domain")
    return LevelName(short) if short != hint and short in levels else None


def _suited(plain: Plain, cluster: Cluster) -> list[Node]:
    """Return the nodes whose GPU type the job takes."""
    types = plain.get("gpu_types")
    names = set(types) if isinstance(types, list | Mapping) and types else None
    return [node for node in cluster.nodes if names is None or node.gpu_type in names]


def largest_domain(level: LevelName, nodes: Iterable[Node], cluster: Cluster) -> int:
    """Return the GPUs that the largest domain of a level has on some nodes."""
    return _largest(level, nodes, by_links=False, cluster=cluster)


def _largest(level: LevelName, nodes: Iterable[Node], by_links: bool, cluster: Cluster) -> int:
    """Return the GPUs of the largest domain of a level; inside a node that is wired, of its largest NVLink island."""
    if level == NODE_LEVEL:
        kinds = {(node.fabric, node.gpus): node for node in nodes}
        return max((_inside(node, cluster) if by_links else node.gpus for node in kinds.values()), default=0)
    sizes: dict[tuple[str, ...], int] = defaultdict(int)
    wider = cluster.levels[: cluster.levels.index(level) + 1]
    for node in nodes:
        if level in node.domains:
            sizes[tuple(node.domains.get(each, "") for each in wider)] += node.gpus
    return max(sizes.values(), default=0)


def _inside(node: Node, cluster: Cluster) -> int:
    fabric = cluster.fabrics.get(node.fabric or "")
    if fabric is None:
        return node.gpus
    return max((len(island) for island in islands_of(fabric, node.gpus)), default=1)
