"""Which nodes could stand in for another: for the missing agent of a gang start, and for the lost node of a gang."""

from __future__ import annotations

from collections.abc import Mapping, Set

from optsched.engine.draft import room_on, side_fits
from optsched.engine.state import JobRecord, NodeRecord, share_of
from optsched.policy.victims import estimated_end
from optsched.values.cluster import Node, NodeState, Reservation, ReservationKind
from optsched.values.ids import NODE_LEVEL, JobId, LevelName, NodeId, ReservationId
from optsched.values.job import Job, Placement, gpus_on
from optsched.values.plan import ReservedRoom

Nodes = Mapping[NodeId, NodeRecord]


def claimed(nodes: Set[NodeId], jobs: Mapping[JobId, JobRecord], claims: tuple[JobId, ...]) -> dict[NodeId, int]:
    """Return the GPUs that claims have on some nodes, whether free yet or not."""
    found: dict[NodeId, int] = {}
    for name in claims:
        claim = jobs[name].claim
        for node, gpus in claim.placement.items() if claim else ():
            if node in nodes:
                found[node] = found.get(node, 0) + gpus_on(gpus)
    return found


def held_for_others(reserved: tuple[ReservedRoom, ...], job: JobId) -> set[NodeId]:
    """Return the nodes on which anything is held for the reservations of other jobs."""
    return {node for room in reserved if room.job != job for node in room.nodes}


def suits(node: Node, job: Job) -> bool:
    """Return whether a node may take work of the job at all: open, of its type, with its labels, not excluded."""
    return (
        node.state is NodeState.UP
        and (not job.gpu_types or node.gpu_type in job.gpu_types)
        and job.node_selector.items() <= node.labels.items()
        and node.id not in job.exclude_nodes
    )


def stand_in(
    record: JobRecord,
    lost: NodeId,
    gpus: int,
    nodes: Nodes,
    levels: tuple[LevelName, ...],
    held: Mapping[NodeId, int],
    used: Set[NodeId],
    barred: Set[NodeId],
) -> NodeId | None:
    """Return the free node most like a lost one, in the same domain as far as the job asks; None where there is none.

    `held` are GPUs that claims have, `used` the nodes that the gang has already, `barred` those closed to it now. Spare
    nodes come first: that is what they are for; then what is nearest to the lost one, whole empty nodes last.
    """
    old = nodes[lost].node
    job = record.job
    same = _bound_levels(job, levels)
    best: tuple[tuple[bool, int, int, str], NodeId] | None = None
    for name, each in nodes.items():
        node = each.node
        if name in used or name in barred or name in record.avoid or name == lost or not suits(node, job):
            continue
        if node.gpu_type != old.gpu_type or node.gpus != old.gpus:
            continue
        if room_on(each) - held.get(name, 0) < gpus or not side_fits(each, *share_of(job, gpus)):
            continue
        if any(node.domains.get(level) != old.domains.get(level) for level in same):
            continue
        shared = next((i for i, level in enumerate(levels) if node.domains.get(level) != old.domains.get(level)), 99)
        key = (not node.spare, -shared, room_on(each) - gpus, str(name))
        if best is None or key < best[0]:
            best = (key, name)
    return None if best is None else best[1]


def lies_as_required(job: Job, placement: Placement, nodes: Nodes, levels: tuple[LevelName, ...]) -> bool:
    """Return whether a placement is inside the domain that a job requires, and each of its slices in one domain."""
    bound = [(job.required, 0)] if job.required is not None else []
    for level, size in (*bound, *((piece.within, piece.gpus) for piece in job.slices)):
        inside: dict[object, int] = {}
        for name, gpus in placement.items():
            domain = _domain(nodes[name].node, level, levels)
            if domain is None:
                return False
            inside[domain] = inside.get(domain, 0) + gpus_on(gpus)
        if len(inside) > 1 if size == 0 else any(gpus % size for gpus in inside.values()):
            return False
    return True


UNMET = "no longer meets its requirement"


def unmet(job: Job, placement: Placement, nodes: Nodes, levels: tuple[LevelName, ...]) -> str:
    """Return in a sentence what a job requires that its placement, by the map of now, is not; "" where it is all so."""
    if any(name not in nodes for name in placement) or lies_as_required(job, placement, nodes, levels):
        return ""
    level, wants = job.required, f"one {job.required}"
    inside = {_domain(nodes[name].node, level, levels) for name in placement} if level is not None else set()
    if level is None or (len(inside) == 1 and None not in inside):
        level = job.slices[0].within
        wants = " and ".join(f"each {piece.gpus} GPUs inside one {piece.within}" for piece in job.slices)
    lies = ", ".join(f"{name} in {_shown(nodes[name].node, level, levels)}" for name in sorted(placement)[:MOST_SHOWN])
    more = f" and {len(placement) - MOST_SHOWN} more nodes" if len(placement) > MOST_SHOWN else ""
    return f"{UNMET}, {wants}: {lies}{more}; it runs on, and is placed anew when it next starts"


MOST_SHOWN = 4
"""So many nodes are named in a sentence."""


def _shown(node: Node, level: LevelName, levels: tuple[LevelName, ...]) -> str:
    path = _domain(node, level, levels)
    if path is None:
        return f"no {level}"
    return "/".join(str(each) for each in path) if isinstance(path, tuple) else str(path)


def _domain(node: Node, level: LevelName, levels: tuple[LevelName, ...]) -> object:
    """Return the domain of a level that a node is in, by its whole path; None where it is in none."""
    if level == NODE_LEVEL:
        return node.id
    path = tuple(node.domains.get(each) for each in levels[: levels.index(level) + 1]) if level in levels else (None,)
    return None if path[-1] is None else path


def _bound_levels(job: Job, levels: tuple[LevelName, ...]) -> tuple[LevelName, ...]:
    """Return the levels in whose domain a stand-in must be: all from the widest to the narrowest that binds the job."""
    bound = [piece.within for piece in job.slices if piece.within != NODE_LEVEL]
    if job.required is not None and job.required != NODE_LEVEL:
        bound.append(job.required)
    deepest = max((levels.index(level) for level in bound if level in levels), default=-1)
    return levels[: deepest + 1]


def pick(record: NodeRecord, gpus: int) -> int | tuple[int, ...]:
    """Return so many free GPUs of a node by index; as a count where indices of what is booked are not known."""
    taken: set[int] = set(record.node.gpus_bad)
    for each in record.bookings:
        if isinstance(each.gpus, int):
            return gpus
        taken.update(each.gpus)
    free = [index for index in range(record.node.gpus) if index not in taken]
    return tuple(free[:gpus]) if len(free) >= gpus else gpus


def barred_nodes(job: Job, reservations: Mapping[ReservationId, Reservation], now: float) -> frozenset[NodeId]:
    """Return the nodes that a maintenance window closes before the job should have ended."""
    end = None if job.estimated_runtime_s is None else now + job.estimated_runtime_s
    if job.started_at is not None:
        end = estimated_end(job, now)
    return frozenset(
        node
        for entry in reservations.values()
        if entry.kind is ReservationKind.MAINTENANCE
        and entry.end_at > now
        and (entry.start_at <= now or end is None or end > entry.start_at)
        for node in entry.nodes
    )


def without(placement: Placement, nodes: Set[NodeId]) -> dict[NodeId, int | tuple[int, ...]]:
    """Return a placement less some nodes."""
    return {node: gpus for node, gpus in placement.items() if node not in nodes}
