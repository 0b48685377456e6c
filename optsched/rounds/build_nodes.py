"""Nodes of a snapshot as arrays, and which nodes a job may be put on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from optsched.policy.victims import estimated_end, grace_s, stop_cost
from optsched.rounds.problem import MICRO, UNLIMITED, Flags, Ints, Nodes, Occupancy, RoundJob, Spread
from optsched.topology.tree import Tree
from optsched.values.cluster import Node, NodeState, Reservation, ReservationKind
from optsched.values.ids import JobId
from optsched.values.job import Job, JobState, gpus_on
from optsched.values.snapshot import Snapshot


def micro(amount: float) -> int:
    """Return an amount of CPUs or GB in whole millionths."""
    return round(amount * MICRO)


def per_gpu_u(total: float, gpus: int) -> int:
    """Return a job's CPUs or GB per GPU in millionths, rounded down so that exact fits stay exact."""
    return micro(total) // gpus


def build_spreads(snapshot: Snapshot, tree: Tree) -> Mapping[JobId, Spread]:
    """Return where each running job holds how many GPUs."""
    index = tree.node_index
    spreads: dict[JobId, Spread] = {}
    for job in snapshot.jobs:
        if job.state is JobState.RUNNING:
            held = [(index[node], count) for node, on in job.placement.items() if (count := gpus_on(on))]
            spreads[job.id] = tuple(sorted(held))
    return spreads


def build_nodes(snapshot: Snapshot, gpu_types: Sequence[str], spreads: Mapping[JobId, Spread]) -> Nodes:
    """Return the arrays over nodes, with what the running jobs book (`spreads`) taken off."""
    nodes = snapshot.cluster.nodes
    type_index = {name: index for index, name in enumerate(gpu_types)}
    capacity = np.array([node.healthy_gpus for node in nodes], dtype=np.int64)
    cpus = np.array([_room_u(node.cpus, node.cpus_reserved) for node in nodes], dtype=np.int64)
    memory = np.array([_room_u(node.memory_gb, 0.0) for node in nodes], dtype=np.int64)
    booked, booked_cpus, booked_memory = _booked(snapshot, spreads)
    index = {node.id: n for n, node in enumerate(nodes)}
    for room in snapshot.carried.occupied:
        n = index[room.node]
        booked[n] += gpus_on(room.gpus)
        booked_cpus[n] += micro(room.cpus)
        booked_memory[n] += micro(room.memory_gb)
    return Nodes(
        capacity=capacity,
        free=np.maximum(capacity - booked, 0),
        # A node that holds more than it has takes nothing new, or the room that a stop leaves would be given twice.
        taking=np.array([node.state is NodeState.UP for node in nodes], dtype=bool)
        & (booked <= capacity)
        & (booked_cpus <= cpus)
        & (booked_memory <= memory),
        gpu_type=np.array([type_index[node.gpu_type] for node in nodes], dtype=np.int64),
        cpus_u=cpus,
        cpus_free_u=np.maximum(cpus - booked_cpus, 0),
        memory_u=memory,
        memory_free_u=np.maximum(memory - booked_memory, 0),
    )


def _booked(snapshot: Snapshot, spreads: Mapping[JobId, Spread]) -> Iterator[Ints]:
    """Yield the GPUs, then CPUs, then memory that are booked on each node, (N,) each."""
    entries = [
        (n, count, count * cpus_u, count * memory_u)
        for job in snapshot.jobs
        if job.state is JobState.RUNNING
        for cpus_u, memory_u in [(per_gpu_u(job.cpus, job.gpus), per_gpu_u(job.memory_gb, job.gpus))]
        for n, count in spreads[job.id]
    ]
    on, *amounts = np.array(entries, dtype=np.int64).reshape(-1, 4).T
    for each in amounts:
        total = np.zeros(len(snapshot.cluster.nodes), dtype=np.int64)
        np.add.at(total, on, each)
        yield total


def build_occupancy(running: Sequence[RoundJob], nodes: Nodes) -> Occupancy:
    """Return the running jobs as arrays, read-only: whoever counts on in them takes a copy."""
    jobs = [
        (job.claim_team, job.priority, job.minimum, job.size_now, job.cpus_per_gpu_u, job.memory_per_gpu_u)
        for job in running
    ]
    team, priority, minimum, size, cpus_u, memory_u = np.array(jobs, dtype=np.int64).reshape(-1, 6).T.copy()
    first = np.array([job.spread_now[0][0] if job.spread_now else -1 for job in running], dtype=np.int64)
    pairs = [(job.index, n, count) for job in running for n, count in job.spread_now]
    pair_job, pair_node, pair_gpus = np.array(pairs, dtype=np.int64).reshape(-1, 3).T.copy()
    found = Occupancy(
        team=team,
        priority=priority,
        minimum=minimum,
        size=size,
        gpu_type=np.where(first >= 0, nodes.gpu_type[first], 0),
        cpus_u=cpus_u,
        memory_u=memory_u,
        pair_job=pair_job,
        pair_node=pair_node,
        pair_gpus=pair_gpus,
    )
    for each in (*found.columns, found.pair_job, found.pair_node, found.pair_gpus):
        each.setflags(write=False)
    return found


def _room_u(amount: float | None, reserved: float) -> int:
    return UNLIMITED if amount is None else max(0, micro(amount - reserved))


class Eligibility:
    """Which nodes a job may be put on; jobs with the same wishes share one array."""

    def __init__(self, snapshot: Snapshot, tree: Tree, nodes: Nodes, gpu_types: Sequence[str]) -> None:
        self._snapshot = snapshot
        self._tree = tree
        self._nodes = nodes
        self._gpu_types = gpu_types
        self._spare = np.array([node.spare for node in snapshot.cluster.nodes], dtype=bool)
        self._index = {node.id: n for n, node in enumerate(snapshot.cluster.nodes)}
        self._windows = tuple(
            window
            for window in snapshot.reservations
            if window.kind is ReservationKind.MAINTENANCE and window.end_at > snapshot.now
        )
        self._any_spare = bool(self._spare.any())
        self._known: dict[object, Flags] = {}

    def lawful(self, job: Job) -> Flags:
        """Return the nodes whose hardware, labels and domains suit the job, whatever their state, shape (N,)."""
        key = self._wishes(job)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._lawful(job)
        return found

    def _wishes(self, job: Job) -> tuple[object, ...]:
        levels = {piece.within for piece in job.slices} | ({job.required} if job.required else set())
        return (
            frozenset(job.gpu_types),
            frozenset(job.node_selector.items()),
            job.exclude_nodes,
            frozenset(self._tree.level_index[level] for level in levels),
        )

    def _lawful(self, job: Job) -> Flags:
        mask = np.ones(len(self._snapshot.cluster.nodes), dtype=bool)
        if job.gpu_types:
            allowed = [index for index, name in enumerate(self._gpu_types) if name in job.gpu_types]
            mask &= np.isin(self._nodes.gpu_type, allowed)
        if job.node_selector:
            wanted = job.node_selector.items()
            mask &= np.array([wanted <= node.labels.items() for node in self._snapshot.cluster.nodes], dtype=bool)
        for node in job.exclude_nodes:
            if node in self._index:
                mask[self._index[node]] = False
        levels = [piece.within for piece in job.slices] + ([job.required] if job.required else [])
        for level in levels:
            mask &= self._tree.domain_of[self._tree.level_index[level]] >= 0
        return mask

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


def healthy_capacity(nodes: Sequence[Node], arrays: Nodes) -> Ints:
    """Return the GPUs per node that work can be counted on, (N,): all where new work is taken, else what is booked."""
    alive = np.array([node.state is not NodeState.DOWN for node in nodes], dtype=bool)
    booked = np.minimum(arrays.capacity - arrays.free, arrays.capacity)
    return np.where(arrays.taking, arrays.capacity, np.where(alive, booked, 0))
