"""One gang into given room: best fit, narrowest span first, fewest domains, slices whole.

A heuristic: it finds a placement whenever the domains' sums allow one for equal units, and tends to leave large holes whole.
"""

from __future__ import annotations

import numpy as np

from optsched.rounds.problem import Cut, Flags, Ints, Nodes, Problem, RoundJob, Spread
from optsched.rounds.room import room_in_cluster, size_that_fits, slice_down, usable, whole_slices
from optsched.topology.tree import Tree


def pack(
    problem: Problem,
    job: RoundJob,
    gpus: Ints,
    cpus_u: Ints,
    memory_u: Ints,
    size: int | None = None,
    allowed: Flags | None = None,
) -> Spread | None:
    """Return a placement of `size` GPUs (None: as many as the job may have and fit) in what is free per node, or None.

    `gpus`, `cpus_u`, `memory_u` have shape (N,); `allowed` narrows the nodes further. Faster GPU types are tried first.
    """
    room = usable(job, problem.nodes, gpus, cpus_u, memory_u)
    if allowed is not None:
        room = np.where(allowed, room, 0)
    for gpu_type in _types_by_speed(problem, job):
        typed = room if gpu_type is None else np.where(problem.nodes.gpu_type == gpu_type, room, 0)
        typed = slice_down(job, problem.tree, typed)
        found = _pack_type(job, problem.tree, problem.nodes, typed, gpus, size)
        if found is not None:
            return found
    return None


def _types_by_speed(problem: Problem, job: RoundJob) -> list[int | None]:
    if len(problem.gpu_types) == 1:
        return [None]
    allowed = [y for y, speed in enumerate(job.type_speed) if speed > 0]
    return [*sorted(allowed, key=lambda y: (-job.type_speed[y], y))]


def _pack_type(job: RoundJob, tree: Tree, nodes: Nodes, room: Ints, free: Ints, size: int | None) -> Spread | None:
    if job.cut is Cut.ONE_NODE:
        return _one_node(job, tree, room, free, size)
    most = int(room.sum())
    if most < (size or job.minimum):
        return None
    want = size or _largest(job, tree, room)
    if not want:
        return None
    for level in range(tree.node_level, -1, -1):
        totals = whole_slices(job, tree, room, level)
        fitting = np.flatnonzero(totals >= want)
        if len(fitting):
            domain = int(fitting[np.argmin(totals[fitting])])
            inside = np.where(tree.domain_of[level] == domain, room, 0)
            return _spread(job, tree, nodes, inside, free, want, level)
        if level == job.required:
            return None
    if room_in_cluster(job, tree, room) < want:
        return None
    return _spread(job, tree, nodes, room, free, want, -1)


def _largest(job: RoundJob, tree: Tree, room: Ints) -> int:
    """Return the largest size of the job that the room holds."""
    if job.required is None:
        return size_that_fits(job, room_in_cluster(job, tree, room))
    return size_that_fits(job, int(whole_slices(job, tree, room, job.required).max(initial=0)))


def _one_node(job: RoundJob, tree: Tree, room: Ints, free: Ints, size: int | None) -> Spread | None:
    want = size or size_that_fits(job, int(room.max(initial=0)))
    fitting = np.flatnonzero(room >= want)
    if not want or not len(fitting):
        return None
    n = int(fitting[_tightest(tree, fitting, free)[0]])
    return ((n, want),)


def _tightest(tree: Tree, candidates: Ints, free: Ints) -> Ints:
    """Return the order of candidates by what is free on the node, then in the domains around it, narrowest first."""
    keys = [free[candidates]]
    if tree.node_level and tree.domain_count(tree.node_level - 1):
        around = tree.node_level - 1
        totals = tree.sum_per_domain(around, free)
        domain = tree.domain_of[around][candidates]
        keys.append(np.where(domain >= 0, totals[domain], 0))
    return np.lexsort(keys[::-1])


def _spread(job: RoundJob, tree: Tree, nodes: Nodes, room: Ints, free: Ints, size: int, level: int) -> Spread | None:
    """Spread `size` GPUs over the nodes with room, domain by domain of each narrower level; None if a cut does not come out."""
    taken: list[tuple[int, int]] = []
    if not _descend(job, tree, nodes, room, free, size, level + 1, taken):
        return None
    return tuple(sorted(taken))


def _descend(
    job: RoundJob, tree: Tree, nodes: Nodes, room: Ints, free: Ints, size: int, level: int, taken: list[tuple[int, int]]
) -> bool:
    if level >= tree.node_level:
        return _onto_nodes(job, nodes, room, free, size, taken)
    totals = whole_slices(job, tree, room, level)
    outside = np.where(tree.domain_of[level] < 0, room, 0)
    loose = int(outside.sum())
    if len(totals) <= 1 and not loose:
        return _descend(job, tree, nodes, room, free, size, level + 1, taken)
    left = size
    totals = totals.copy()
    while left > 0 and totals.any():
        enough = np.flatnonzero(totals >= left)
        domain = int(enough[np.argmin(totals[enough])]) if len(enough) else int(np.argmax(totals))
        part = min(left, int(totals[domain]))
        inside = np.where(tree.domain_of[level] == domain, room, 0)
        if not _descend(job, tree, nodes, inside, free, part, level + 1, taken):
            return False
        totals[domain] = 0
        left -= part
    return left == 0 or (left <= loose and _onto_nodes(job, nodes, outside, free, left, taken))


def _onto_nodes(job: RoundJob, nodes: Nodes, room: Ints, free: Ints, size: int, taken: list[tuple[int, int]]) -> bool:
    """Take `size` GPUs from nodes of one domain: the fullest nodes first for equal units, the fewest nodes for tasks."""
    found = np.flatnonzero(room)
    if job.cut is Cut.PER_NODE:
        count = size // job.unit
        if len(found) < count:
            return False
        chosen = found[np.argsort(free[found], kind="stable")[:count]]
        taken.extend((int(n), job.unit) for n in chosen)
        return True
    left = size
    amounts = {int(n): int(room[n]) for n in found}
    while left > 0 and amounts:
        enough = [n for n, amount in amounts.items() if amount >= left]
        if job.cut is Cut.WHOLE_NODES:
            fitting = [n for n, amount in amounts.items() if amount <= left]
            if not fitting:
                return False
            n = min(fitting, key=lambda each: (-amounts[each], each))
        elif enough:
            n = min(enough, key=lambda each: (amounts[each], int(free[each]), each))
        else:
            n = max(amounts, key=lambda each: (amounts[each], -each))
        part = min(left, amounts.pop(n))
        taken.append((n, part))
        left -= part
    return left == 0
