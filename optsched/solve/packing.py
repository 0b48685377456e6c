"""One gang into given room: best fit, narrowest span first, fewest domains, slices whole.

A heuristic: it finds a placement whenever the domains' sums allow one for equal units, and leaves large holes whole.
"""

from __future__ import annotations

import numpy as np

from optsched.rounds.problem import Cut, Flags, Ints, Nodes, Problem, RoundJob, Spread
from optsched.rounds.room import room_in_cluster, size_that_fits, slice_down, usable, whole_slices
from optsched.topology.tree import Tree

FEW_DOMAINS = 8
"""Up to this many domains are summed up one by one, for more all of their level at once."""


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
    if not room.any():
        return None
    for gpu_type in _types_by_speed(problem, job):
        typed = room if gpu_type is None else np.where(problem.nodes.gpu_type == gpu_type, room, 0)
        typed = slice_down(job, problem.tree, typed)
        found = _pack_type(job, problem.tree, problem.nodes, typed, gpus, size)
        if found is not None:
            return found
    return None


def fits(problem: Problem, job: RoundJob, gpus: Ints, cpus_u: Ints, memory_u: Ints) -> bool:
    """Return whether `pack` finds a placement of the smallest size; no placement is made where sums tell.

    They do for units that are alike and free of slices: those never fail to come out.
    """
    alike = job.cut is Cut.PER_NODE and not job.slices and not job.minimum % job.unit
    if not alike and job.cut is not Cut.ONE_NODE:
        return pack(problem, job, gpus, cpus_u, memory_u, job.minimum) is not None
    room = usable(job, problem.nodes, gpus, cpus_u, memory_u)
    return any(
        _sums_suffice(
            job, problem.tree, room if gpu_type is None else np.where(problem.nodes.gpu_type == gpu_type, room, 0)
        )
        for gpu_type in _types_by_speed(problem, job)
    )


def _sums_suffice(job: RoundJob, tree: Tree, room: Ints) -> bool:
    """Return whether some domain of the level that the job requires, or a narrower one, has enough room for it."""
    if job.cut is Cut.ONE_NODE:
        return bool((slice_down(job, tree, room) >= job.minimum).any())
    if int(room.sum()) < job.minimum:
        return False
    if job.required is None:
        return True
    levels = range(tree.node_level, job.required - 1, -1)
    return any(int(whole_slices(job, tree, room, level).max(initial=0)) >= job.minimum for level in levels)


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
        fitting = (totals >= want).nonzero()[0]
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
    fitting = (room >= want).nonzero()[0]
    if not want or not len(fitting):
        return None
    return ((_tightest(tree, fitting, free), want),)


def _tightest(tree: Tree, candidates: Ints, free: Ints) -> int:
    """Return the candidate with least free on the node, then in the domain around it, then the first."""
    there = free[candidates]
    ties = candidates[there == there.min()]
    around = tree.node_level - 1
    if len(ties) > 1 and around >= 0 and tree.domain_count(around):
        domain = tree.domain_of[around][ties]
        totals = np.zeros(tree.domain_count(around), dtype=np.int64)
        near = set(domain.tolist()) - {-1}
        if len(near) <= FEW_DOMAINS:
            for each in near:
                totals[each] = free[tree.nodes_in(around, each)].sum()
        else:
            totals = tree.sum_per_domain(around, free)
        return int(ties[np.argmin(np.where(domain >= 0, totals[domain], 0))])
    return int(ties[0])


def _spread(job: RoundJob, tree: Tree, nodes: Nodes, room: Ints, free: Ints, size: int, level: int) -> Spread | None:
    """Spread `size` GPUs over the nodes with room, domain by domain; None if a cut does not come out."""
    taken: list[tuple[int, int]] = []
    if not _descend(job, tree, nodes, room, free, room.nonzero()[0], size, level + 1, taken):
        return None
    return tuple(sorted(taken))


def _descend(
    job: RoundJob,
    tree: Tree,
    nodes: Nodes,
    room: Ints,
    free: Ints,
    members: Ints,
    size: int,
    level: int,
    taken: list[tuple[int, int]],
) -> bool:
    """Take `size` GPUs from the nodes in `members`, all with room, that lie in one domain of the level above."""
    if level >= tree.node_level:
        return _onto_nodes(job, room, free, members, size, taken)
    domain_of = tree.domain_of[level][members]
    inside = domain_of >= 0
    outside = members[~inside]
    loose = int(room[outside].sum())
    # As `np.unique` has them, with their inverse, but without sorting.
    domains = domain_of[inside]
    there = np.bincount(domains, minlength=1) > 0
    present, which = there.nonzero()[0], (there.cumsum() - 1)[domains]
    if len(present) <= 1 and not len(outside) and not job.slices:
        return _descend(job, tree, nodes, room, free, members, size, level + 1, taken)
    within = members[inside]
    if job.slices:
        alone = np.zeros(len(room), dtype=np.int64)
        alone[members] = room[members]
        totals = whole_slices(job, tree, alone, level)[present]
    else:
        totals = np.bincount(which, room[within], len(present)).astype(np.int64)
    left, remaining, whole = size, totals.tolist(), []
    while left > 0 and any(remaining):
        # The tightest domain that takes all that is left, else the largest; the first of equals.
        total = min((each for each in remaining if each >= left), default=0) or max(remaining)
        at, part = remaining.index(total), min(left, total)
        if part == total and not job.slices:
            whole.append(at)
        elif not _descend(job, tree, nodes, room, free, within[which == at], part, level + 1, taken):
            return False
        remaining[at] = 0
        left -= part
    if whole:
        chosen = np.zeros(len(present), dtype=bool)
        chosen[whole] = True
        below = within[chosen[which]]
        taken.extend(zip(below.tolist(), room[below].tolist(), strict=True))
    return left == 0 or (left <= loose and _onto_nodes(job, room, free, outside, left, taken))


def _onto_nodes(job: RoundJob, room: Ints, free: Ints, members: Ints, size: int, taken: list[tuple[int, int]]) -> bool:
    """Take `size` GPUs from nodes of one domain: the fullest first for equal units, the fewest for tasks."""
    if job.cut is Cut.PER_NODE:
        count = size // job.unit
        if len(members) < count:
            return False
        chosen = members[np.argsort(free[members], kind="stable")[:count]]
        taken.extend((n, job.unit) for n in chosen.tolist())
        return True
    left = size
    ordered = members[np.lexsort((members, -room[members]))].tolist()
    amounts = room[ordered].tolist()
    for at, (n, amount) in enumerate(zip(ordered, amounts, strict=True)):
        if left == 0:
            break
        if amount > left and job.cut is Cut.WHOLE_NODES:
            continue
        if amount >= left and job.cut is not Cut.WHOLE_NODES:
            # The tightest node that takes all that is left.
            rest = [(size, int(free[m]), m) for m, size in zip(ordered[at:], amounts[at:], strict=True) if size >= left]
            taken.append((min(rest)[2], left))
            return True
        taken.append((n, amount))
        left -= amount
    return left == 0
