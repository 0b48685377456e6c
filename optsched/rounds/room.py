"""How much of a gang fits where: the arithmetic of cuts, slices and domains, on arrays over nodes.

All functions are pure; `per_node` arguments are GPUs that the job could have on each node, shape (N,), before its cut.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from optsched.rounds.problem import UNLIMITED, Cut, Flags, Ints, Nodes
from optsched.topology.tree import Tree


class Shape(Protocol):
    """What of a job decides where it fits; `problem.RoundJob` is one."""

    @property
    def cut(self) -> Cut:
        """How its GPUs are cut over nodes."""
        ...

    @property
    def unit(self) -> int:
        """The unit of the cut in GPUs."""
        ...

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes that it may have, ascending."""
        ...

    @property
    def minimum(self) -> int:
        """The smallest size."""
        ...

    @property
    def maximum(self) -> int:
        """The largest size."""
        ...

    @property
    def nodes(self) -> Flags:
        """The nodes that it may be put on, shape (N,)."""
        ...

    @property
    def slices(self) -> tuple[tuple[int, int], ...]:
        """Slices as (GPUs, level), outermost first."""
        ...

    @property
    def cpus_per_gpu_u(self) -> int:
        """Millionths of CPUs for each GPU."""
        ...

    @property
    def memory_per_gpu_u(self) -> int:
        """Millionths of GB for each GPU."""
        ...


def gpus_by_side_resources(job: Shape, cpus_u: Ints, memory_u: Ints) -> Ints | int:
    """Return the GPUs of `job` that the given CPUs and memory (millionths, shape (N,)) allow on each node."""
    limit: Ints | int = UNLIMITED
    if job.cpus_per_gpu_u:
        limit = np.minimum(limit, np.maximum(cpus_u, 0) // job.cpus_per_gpu_u)
    if job.memory_per_gpu_u:
        limit = np.minimum(limit, np.maximum(memory_u, 0) // job.memory_per_gpu_u)
    return limit


def cut_down(job: Shape, per_node: Ints, capacity: Ints) -> Ints:
    """Return the largest number of the job's GPUs that each node can take under its cut, shape (N,)."""
    if job.cut is Cut.PER_NODE:
        return np.where(per_node >= job.unit, job.unit, 0)
    if job.cut is Cut.PER_TASK:
        return per_node // job.unit * job.unit
    if job.cut is Cut.WHOLE_NODES:
        return np.where((per_node >= capacity) & (capacity > 0), capacity, 0)
    return np.where(per_node >= job.minimum, np.minimum(per_node, job.maximum), 0)


def usable(job: Shape, nodes: Nodes, gpus: Ints, cpus_u: Ints, memory_u: Ints, mask: Flags | None = None) -> Ints:
    """Return the GPUs of `job` that each node can take given what is free there, shape (N,).

    `mask` stands in for the nodes that the job may use.
    """
    fixed = _fixed(job)
    if fixed:
        # One size only per node: comparisons, no divisions.
        fits = (gpus >= fixed) & (job.nodes if mask is None else mask)
        if job.cpus_per_gpu_u:
            fits &= cpus_u >= fixed * job.cpus_per_gpu_u
        if job.memory_per_gpu_u:
            fits &= memory_u >= fixed * job.memory_per_gpu_u
        return np.where(fits, fixed, 0)
    per_node = np.minimum(gpus, gpus_by_side_resources(job, cpus_u, memory_u))
    return cut_down(job, np.where(job.nodes if mask is None else mask, per_node, 0), nodes.capacity)


def _fixed(job: Shape) -> int:
    """Return the only number of GPUs that the job may have on a node, 0 where there are several."""
    if job.cut is Cut.PER_NODE:
        return job.unit
    return job.minimum if job.cut is Cut.ONE_NODE and job.minimum == job.maximum else 0


def slice_down(job: Shape, tree: Tree, room: Ints) -> Ints:
    """Return `room` with nodes zeroed that no slice can use.

    Those are outside a slice's level, or in a domain too small for one.
    """
    if not job.slices or not room.any():
        return room
    room = room.copy()
    last = len(tree.levels) - 1
    for size, level in reversed(job.slices):
        domain = tree.domain_of[level]
        if level == last:
            room = room // size * size
            continue
        room[domain < 0] = 0
        inside = domain >= 0
        total = np.bincount(domain[inside], room[inside], tree.domain_count(level)).astype(np.int64)
        room[inside] = np.where(total[domain[inside]] >= size, room[inside], 0)
    return room


def whole_slices(job: Shape, tree: Tree, room: Ints, level: int) -> Ints:
    """Return the GPUs that each domain of `level` can take in whole slices, shape (domains of the level,).

    Slices at levels narrower than `level` are rounded down domain by domain, innermost first.
    """
    per_domain = room
    at = tree.node_level
    for size, slice_level in reversed(job.slices):
        if slice_level < level:
            break
        if slice_level != at:
            per_domain = _sum_up(tree, per_domain, at, slice_level)
            at = slice_level
        per_domain = per_domain // size * size
    return per_domain if at == level else _sum_up(tree, per_domain, at, level)


def _sum_up(tree: Tree, values: Ints, narrow: int, wide: int) -> Ints:
    """Sum the values of each domain of level `narrow` into the domains of the wider level `wide`."""
    if narrow == tree.node_level:
        return tree.sum_per_domain(wide, values)
    around = tree.domains_within(narrow, wide)
    inside = around >= 0
    return np.bincount(around[inside], values[inside], tree.domain_count(wide)).astype(np.int64)


def room_in_cluster(job: Shape, tree: Tree, room: Ints) -> int:
    """Return the GPUs that the whole cluster can take in whole slices.

    One GPU type at a time is the caller's business.
    """
    if not job.slices:
        return int(room.sum())
    size, level = job.slices[0]
    return int((whole_slices(job, tree, room, level) // size * size).sum())


def size_that_fits(job: Shape, room: int) -> int:
    """Return the largest size of the job that is at most `room`, 0 where none is."""
    if room >= job.maximum:
        return job.maximum
    best = 0
    for size in job.sizes:
        if size > room:
            break
        best = size
    return best


def flags(count: int, indices: Ints) -> Flags:
    """Return a boolean array of `count` with the given indices set."""
    mask = np.zeros(count, dtype=bool)
    mask[indices] = True
    return mask
