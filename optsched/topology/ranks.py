"""The order of a gang's tasks: ranks follow the topology, so neighbours in rank are neighbours in the cluster.

Domains of all levels nest, so nodes sorted by their domains, widest level first, put every domain's nodes side by
side. Where each domain holds whole slices only, cutting that order into runs of one slice's size puts each slice
inside one domain, at every depth at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from optsched.topology.links import choose_gpus
from optsched.topology.tree import Indices, Tree
from optsched.values.cluster import Fabric
from optsched.values.ids import NodeId
from optsched.values.job import Job, Placement, gpus_on
from optsched.values.plan import TaskPlacement

NO_FABRICS: Mapping[NodeId, Fabric] = {}
"""For callers that know nothing about the inside of their nodes."""


def task_order(tree: Tree, nodes: Sequence[int] | npt.NDArray[np.integer]) -> Indices:
    """Return these nodes in rank order: by domain, widest level first, then in the cluster's order."""
    given = np.asarray(nodes, dtype=np.int32)
    if given.size == 0:
        return given
    ordered: Indices = given[np.lexsort(tree.domain_of[::-1, given])]
    return ordered


def assign_tasks(
    tree: Tree, job: Job, placement: Placement, fabrics: Mapping[NodeId, Fabric] = NO_FABRICS
) -> tuple[TaskPlacement, ...]:
    """Return the tasks of a gang in rank order, with their nodes, GPUs and slices.

    A task is `gpus_per_task` GPUs, else all GPUs of the job on a node. Its GPUs are indices where the placement has
    indices, else a count; slices inside a node and then tasks take well linked GPUs together, by the node's entry in
    `fabrics`. Its slice has one number per entry of `job.slices`, counted over the whole gang from 0: that of the
    task's first GPU. `holds_slices` tells whether the slices lie inside their domains, as they do where each domain
    holds whole ones.
    """
    tasks: list[TaskPlacement] = []
    gpus_before = 0
    for node in task_order(tree, [tree.node_index[node] for node in placement]):
        node_id = tree.node_ids[node]
        booked = placement[node_id]
        for gpus in _split(fabrics.get(node_id), booked, _cuts(job, gpus_on(booked))):
            number = tuple(gpus_before // part.gpus for part in job.slices)
            tasks.append(TaskPlacement(rank=len(tasks), node=node_id, gpus=gpus, slice=number))
            gpus_before += gpus_on(gpus)
    return tuple(tasks)


def holds_slices(tree: Tree, job: Job, tasks: Sequence[TaskPlacement]) -> bool:
    """Tell whether each slice of the job is whole and lies inside one domain of its level."""
    if not tasks:
        return True
    nodes = np.repeat([tree.node_index[task.node] for task in tasks], [gpus_on(task.gpus) for task in tasks])
    for part in job.slices:
        if len(nodes) % part.gpus:
            return False
        domains = tree.domain_of[tree.level_index[part.within], nodes].reshape(-1, part.gpus)
        if (domains < 0).any() or (domains != domains[:, :1]).any():
            return False
    return True


def _cuts(job: Job, gpus: int) -> tuple[int, ...]:
    """Return the sizes into which the job's GPUs on a node are cut one after the other, the task's last.

    Slices that are whole tasks and smaller than the node's share come first, so that they too are well linked.
    """
    task = min(job.gpus_per_task or gpus, gpus)
    slices = {part.gpus for part in job.slices if task < part.gpus < gpus and part.gpus % task == 0}
    return (*sorted(slices, reverse=True), task)


def _split(fabric: Fabric | None, booked: int | tuple[int, ...], sizes: tuple[int, ...]) -> list[int | tuple[int, ...]]:
    """Cut GPUs into groups of the first size, those into groups of the next, and so on; a rest is a smaller group."""
    if not sizes:
        return [booked]
    size, finer = sizes[0], sizes[1:]
    groups: list[int | tuple[int, ...]] = []
    if isinstance(booked, int):
        while booked > 0:
            groups += _split(fabric, min(size, booked), finer)
            booked -= size
        return groups
    left = tuple(sorted(booked))
    while left:
        group = choose_gpus(fabric, left, min(size, len(left)))
        groups += _split(fabric, group, finer)
        left = tuple(gpu for gpu in left if gpu not in group)
    return groups
