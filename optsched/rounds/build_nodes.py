"""Nodes of a snapshot as arrays, and on which of them a job may be started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optsched.policy.victims import estimated_end, grace_s, stop_cost
from optsched.rounds.problem import MICRO, UNLIMITED, Flags, Ints, Nodes
from optsched.values.cluster import Node, NodeState, Reservation, ReservationKind
from optsched.values.ids import NodeId
from optsched.values.job import Job, JobState, gpus_on
from optsched.values.snapshot import Snapshot


def micro(amount: float) -> int:
    """Return an amount of CPUs or GB in whole millionths."""
    return round(amount * MICRO)


def per_gpu_u(total: float, gpus: int) -> int:
    """Return CPUs or GB per GPU in millionths, rounded down so that exact fits stay exact."""
    return micro(total) // gpus


@dataclass(frozen=True, slots=True)
class Hardware:
    """What nodes are, whatever runs on them: arrays over nodes, shape (N,).

    `up` marks those in state up, `alive` those not down, `spare` the spares; the rest as in `Nodes`.
    """

    gpu_types: tuple[str, ...]
    capacity: Ints
    gpu_type: Ints
    cpus_u: Ints
    memory_u: Ints
    up: Flags
    alive: Flags
    spare: Flags


def hardware_of(nodes: Sequence[Node]) -> Hardware:
    """Return the arrays of a cluster's nodes."""
    gpu_types = tuple(sorted({str(node.gpu_type) for node in nodes})) or ("",)
    type_index = {name: index for index, name in enumerate(gpu_types)}
    return Hardware(
        gpu_types=gpu_types,
        capacity=np.array([node.healthy_gpus for node in nodes], dtype=np.int64),
        gpu_type=np.array([type_index[node.gpu_type] for node in nodes], dtype=np.int64),
        cpus_u=np.array([_room_u(node.cpus, node.cpus_reserved) for node in nodes], dtype=np.int64),
        memory_u=np.array([_room_u(node.memory_gb, 0.0) for node in nodes], dtype=np.int64),
        up=np.array([node.state is NodeState.UP for node in nodes], dtype=bool),
        alive=np.array([node.state is not NodeState.DOWN for node in nodes], dtype=bool),
        spare=np.array([node.spare for node in nodes], dtype=bool),
    )


def build_nodes(
    snapshot: Snapshot, hardware: Hardware, index: Mapping[NodeId, int], booked: tuple[Ints, Ints, Ints]
) -> Nodes:
    """Return the arrays over nodes, with what running jobs have `booked` of GPUs, CPUs and memory, (N,) each."""
    gpus, cpus, memory = booked
    for room in snapshot.carried.occupied:
        n = index[room.node]
        gpus[n] += gpus_on(room.gpus)
        cpus[n] += micro(room.cpus)
        memory[n] += micro(room.memory_gb)
    return Nodes(
        capacity=hardware.capacity,
        free=np.maximum(hardware.capacity - gpus, 0),
        # A node that holds more than it has takes nothing new, or the room that a stop leaves would be given twice.
        taking=hardware.up & (gpus <= hardware.capacity) & (cpus <= hardware.cpus_u) & (memory <= hardware.memory_u),
        gpu_type=hardware.gpu_type,
        cpus_u=hardware.cpus_u,
        cpus_free_u=np.maximum(hardware.cpus_u - cpus, 0),
        memory_u=hardware.memory_u,
        memory_free_u=np.maximum(hardware.memory_u - memory, 0),
    )


def _room_u(amount: float | None, reserved: float) -> int:
    return UNLIMITED if amount is None else max(0, micro(amount - reserved))


class Openings:
    """On which nodes a job may be started now; jobs with the same wishes share one array."""

    def __init__(self, snapshot: Snapshot, nodes: Nodes, hardware: Hardware, index: Mapping[NodeId, int]) -> None:
        self._snapshot = snapshot
        self._nodes = nodes
        self._spare = hardware.spare
        self._index = index
        self._windows = tuple(
            window
            for window in snapshot.reservations
            if window.kind is ReservationKind.MAINTENANCE and window.end_at > snapshot.now
        )
        self._any_spare = bool(self._spare.any())
        self._known: dict[object, Flags] = {}

    def open_to(self, job: Job, lawful: Flags) -> Flags:
        """Return the nodes, of those that suit it, on which the job may start now, shape (N,); shared, read only."""
        now, profile = self._snapshot.now, self._snapshot.profile
        stops_at_once = not self._any_spare or (
            job.preemptible and stop_cost(job, now, profile, None).checkpoint_s == 0
        )
        barred = tuple(window.id for window in self._windows if self._bars(window, job)) if self._windows else ()
        key = (id(lawful), stops_at_once, barred)
        found = self._known.get(key)
        if found is None:
            found = lawful & self._nodes.taking
            if not stops_at_once:
                found = found & ~self._spare
            for window in self._windows:
                if window.id in barred:
                    found[[self._index[node] for node in window.nodes]] = False
            self._known[key] = found
        return found

    def _bars(self, window: Reservation, job: Job) -> bool:
        """Return whether a maintenance window keeps the job from starting on its nodes now."""
        now, profile = self._snapshot.now, self._snapshot.profile
        if window.start_at <= now:
            return True
        if job.state is JobState.RUNNING:
            end = estimated_end(job, now)
        else:
            end = None if job.estimated_runtime_s is None else now + job.estimated_runtime_s
        if end is not None and end <= window.start_at:
            return False
        stops_in_time = job.preemptible and profile.backfill_preemptible
        # Who would be told to stop the moment it starts need not start.
        return not (stops_in_time and now + grace_s(job, profile) < window.start_at)


def healthy_capacity(hardware: Hardware, nodes: Nodes) -> Ints:
    """Return the GPUs per node that work can be counted on, (N,): all where new work is taken, else what is booked."""
    booked = np.minimum(nodes.capacity - nodes.free, nodes.capacity)
    return np.where(nodes.taking, nodes.capacity, np.where(hardware.alive, booked, 0))
