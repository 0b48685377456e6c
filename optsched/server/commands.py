"""What the engine asks of agents, as the messages that they are sent, with all that a start needs to know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from optsched.engine.commands import Command, Verb
from optsched.engine.state import JobRecord, State, goes_on, share_of
from optsched.policy.victims import grace_s
from optsched.server.checks import cluster_of
from optsched.topology.ranks import assign_tasks
from optsched.topology.tree import Tree, build_tree
from optsched.values.cluster import Fabric, NodeState
from optsched.values.ids import JobId, NodeId
from optsched.values.job import gpus_on
from optsched.values.plan import TaskPlacement
from optsched.wire.v1 import agent_pb2 as wire

MAX_GANGS = 256
"""Gangs whose tasks are kept worked out."""


class Gangs:
    """The tasks of gangs that start, worked out once for all their nodes."""

    def __init__(self) -> None:
        self._version = -1
        self._tree: Tree | None = None
        self._fabrics: Mapping[NodeId, Fabric] = {}
        self._tasks: dict[tuple[JobId, int, int], tuple[TaskPlacement, ...]] = {}

    def tasks(self, record: JobRecord, state: State) -> tuple[TaskPlacement, ...]:
        """Return the tasks of a gang in order of rank."""
        key = (record.id, record.run, record.changed)
        found = self._tasks.get(key)
        if found is None:
            tree = self._tree_of(state)
            found = assign_tasks(tree, record.job, record.job.placement, self._fabrics)
            if len(self._tasks) >= MAX_GANGS:
                self._tasks.pop(next(iter(self._tasks)))
            self._tasks[key] = found
        return found

    def _tree_of(self, state: State) -> Tree:
        if self._tree is None or self._version != state.rules_changed:
            cluster = cluster_of(state)
            self._tree, self._version = build_tree(cluster), state.rules_changed
            wired = {node.id: cluster.fabrics.get(node.fabric or "") for node in cluster.nodes}
            self._fabrics = {node: fabric for node, fabric in wired.items() if fabric is not None}
        return self._tree


@dataclass(slots=True)
class Addresses:
    """Where nodes are reached, and which port each run's first node keeps free. Known from agents alone."""

    of_node: dict[NodeId, str] = field(default_factory=dict)
    ports: dict[tuple[JobId, int, NodeId], int] = field(default_factory=dict)

    def forget(self, state: State) -> None:
        """Drop the ports of runs that are over."""
        self.ports = {key: port for key, port in self.ports.items() if goes_on(state.jobs, key[0], key[1])}


def message_of(command: Command, state: State, gangs: Gangs, addresses: Addresses) -> wire.SchedulerMessage | None:
    """Return a command as its message; None for a start that is no longer wanted."""
    header = wire.CommandHeader(epoch=command.epoch, job=command.job, run=command.run)
    match command.verb:
        case Verb.RESERVE:
            return wire.SchedulerMessage(reserve=_reserve(command, header, state))
        case Verb.START:
            start = _start(command, header, state, gangs, addresses)
            return None if start is None else wire.SchedulerMessage(start=start)
        case Verb.SIGNAL:
            why = _reason(command, state)
            return wire.SchedulerMessage(signal=wire.Signal(header=header, grace_s=command.grace_s, reason=why))
        case Verb.KILL:
            return wire.SchedulerMessage(kill=wire.Kill(header=header, reason=_reason(command, state)))
        case Verb.RELEASE:
            return wire.SchedulerMessage(release=wire.Release(header=header))
        case Verb.PROBE:
            return wire.SchedulerMessage(probe=wire.Probe(epoch=command.epoch, probe=state.version))


def _reason(command: Command, state: State) -> str:
    record = state.record(command.job)
    return "" if record is None else record.reason


def _reserve(command: Command, header: wire.CommandHeader, state: State) -> wire.Reserve:
    cpus, memory_gb = 0.0, 0.0
    record = state.record(command.job)
    if record is not None:
        cpus, memory_gb = share_of(record.job, gpus_on(command.gpus))
    return wire.Reserve(
        header=header,
        gpus=gpus_on(command.gpus),
        gpu_indices=() if isinstance(command.gpus, int) else command.gpus,
        cpus=cpus,
        memory_gb=memory_gb,
    )


def _start(
    command: Command, header: wire.CommandHeader, state: State, gangs: Gangs, addresses: Addresses
) -> wire.Start | None:
    record = state.record(command.job)
    if record is None or record.run != command.run or command.node not in record.job.placement:
        return None
    job = record.job
    tasks = gangs.tasks(record, state)
    nodes = list(dict.fromkeys(task.node for task in tasks))
    first = nodes[0]
    cpus, memory_gb = share_of(job, gpus_on(command.gpus))
    return wire.Start(
        header=header,
        command=job.command,
        environment=job.environment,
        working_directory=job.working_directory,
        user=job.user,
        team=job.team,
        tasks=_tasks_on(command.node, tasks),
        world_size=len(tasks),
        node_count=len(nodes),
        node_rank=nodes.index(command.node),
        gang_gpus=job.placed_gpus,
        master_address=addresses.of_node.get(first, str(first)),
        master_port=addresses.ports.get((job.id, record.run, first), 0),
        restore_version=record.restored or "",
        checkpoint_interval_s=job.checkpoint.interval_s or 0.0,
        checkpoint_on_signal=job.checkpoint.on_signal,
        grace_period_s=grace_s(job, state.profile),
        cpus=cpus,
        memory_gb=memory_gb,
        array_index=None if record.array is None else record.array.index,
    )


def _tasks_on(node: NodeId, tasks: Iterable[TaskPlacement]) -> list[wire.Task]:
    mine = [task for task in tasks if task.node == node]
    return [
        wire.Task(
            rank=task.rank,
            local_rank=number,
            gpu_indices=() if isinstance(task.gpus, int) else task.gpus,
            gpus=gpus_on(task.gpus),
            slice=task.slice,
        )
        for number, task in enumerate(mine)
    ]


def outstanding(state: State, node: NodeId) -> list[Command]:
    """Return what one node's agent was asked for and has not done, as far as the state tells: it may not have heard."""
    record = state.nodes.get(node)
    if record is None:
        return []
    epoch = state.epoch
    found: list[Command] = []
    if record.node.state is NodeState.PROBING:
        found.append(Command(Verb.PROBE, epoch, node))
    for booking in record.bookings:
        owner = state.record(booking.job)
        asked = (epoch, node, booking.job, booking.run, booking.gpus)
        if owner is None or owner.run != booking.run or not goes_on(state.jobs, booking.job, booking.run):
            found.append(_ending(owner, asked, booking.run, state))
        elif owner.launch is not None and node not in owner.launch.ready:
            found.append(Command(Verb.RESERVE if owner.launch.reserving else Verb.START, *asked))
    return found


def _ending(
    owner: JobRecord | None, asked: tuple[int, NodeId, JobId, int, int | tuple[int, ...]], run: int, state: State
) -> Command:
    """Return how a run that is over, or told to stop, is ended on a node."""
    stop = None if owner is None or owner.run != run else owner.stop
    if owner is None or stop is None:
        return Command(Verb.RELEASE, *asked)
    if stop.killed:
        return Command(Verb.KILL, *asked)
    return Command(Verb.SIGNAL, *asked, grace_s=max(0.0, stop.kill_at - state.now))
