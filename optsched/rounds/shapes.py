"""What jobs of one shape have in common, and where it fits: worked out once, for as long as the nodes stay the same."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optsched.rounds.build_nodes import per_gpu_u
from optsched.rounds.problem import Cut, Flags, Ints, Nodes
from optsched.rounds.room import room_in_cluster, slice_down, usable, whole_slices
from optsched.topology.speeds import merge_speeds, speed_per_level
from optsched.topology.tree import Tree
from optsched.values.cluster import Node
from optsched.values.ids import GpuType, LevelName
from optsched.values.job import Job
from optsched.values.profile import Profile


@dataclass(frozen=True, slots=True)
class Form:
    """What jobs of one shape have in common; fields as in `RoundJob`, and the GPUs of the largest node that suits."""

    lawful: Flags
    largest: int
    cut: Cut
    unit: int
    type_speed: tuple[float, ...]
    span_speed: tuple[float, ...]
    required: int | None
    preferred: int | None
    preferred_fewest: int
    slices: tuple[tuple[int, int], ...]
    cpus_per_gpu_u: int
    memory_per_gpu_u: int


class Shapes:
    """Forms of jobs and what an empty cluster could hold of them, each found out once.

    Of `nodes` only what each has, its type and whether it takes new work count: all this holds while they do.
    """

    def __init__(
        self, cluster: Sequence[Node], profile: Profile, tree: Tree, nodes: Nodes, gpu_types: Sequence[str]
    ) -> None:
        self.nodes = nodes
        self._cluster = cluster
        self._profile = profile
        self._tree = tree
        self._gpu_types = gpu_types
        self._lawful: dict[object, Flags] = {}
        self._forms: dict[object, Form] = {}
        self._speeds: dict[object, tuple[float, ...]] = {}
        self._possible: dict[object, int] = {}
        self._capacity: dict[int, tuple[int, int]] = {}
        self._types: dict[int, tuple[int, ...]] = {}
        self._same_type_speed = (1.0,) * len(gpu_types)

    def form(self, job: Job) -> Form:
        """Return what the job shares with all jobs of its shape."""
        shape = (
            *(job.gpus, job.gpus_per_node, job.gpus_per_task, job.cpus, job.memory_gb),
            *(job.required, job.preferred, job.slices, job.exclude_nodes),
            tuple(job.gpu_types.items()) if job.gpu_types else (),
            tuple(job.node_selector.items()) if job.node_selector else (),
            tuple(job.speed.items()) if job.speed else (),
        )
        found = self._forms.get(shape)
        if found is None:
            found = self._forms[shape] = self._form(job)
        return found

    def wanted(self, job: Job, form: Form) -> tuple[int, int]:
        """Return (GPU type, GPUs) that a queued job asks of healthy nodes: its fastest type that fits, else 0 GPUs."""
        lawful = form.lawful
        sizes = (job.gpus,) if not job.elastic else tuple(sorted({job.min_gpus, job.gpus, job.max_gpus}))
        if not self.possible_size(form, sizes, only_up=True):
            return 0, 0
        types = self._types.get(id(lawful))
        if types is None:
            present = np.bincount(self.nodes.gpu_type[lawful & self.nodes.taking])
            types = self._types[id(lawful)] = tuple(np.flatnonzero(present).tolist())
        if len(types) == 1:
            return types[0], job.max_gpus
        return max(types, key=lambda y: (form.type_speed[y], -y)), job.max_gpus

    def possible_size(self, form: Form, sizes: tuple[int, ...], *, only_up: bool) -> int:
        """Return the largest size at which a job could run if the cluster were empty, 0 where it cannot at all.

        `only_up` counts only nodes that take new work; else what is cordoned or down counts too.
        """
        cut, side = (form.cut, form.unit, form.required, form.slices), (form.cpus_per_gpu_u, form.memory_per_gpu_u)
        # Only on one node does the size itself decide where there is room.
        key = (id(form.lawful), cut, side, sizes if form.cut is Cut.ONE_NODE else (), only_up)
        most = self._possible.get(key)
        if most is None:
            mask = form.lawful & self.nodes.taking if only_up else form.lawful
            most = self._possible[key] = _Probe(form, sizes, mask).most(self.nodes, self._tree)
        return max((size for size in sizes if size <= most), default=0)

    def _form(self, job: Job) -> Form:
        level = self._tree.level_index
        lawful = self._suits(job)
        cut, unit = self._cut(job, lawful)
        return Form(
            lawful=lawful,
            largest=self._capacities(lawful)[0],
            cut=cut,
            unit=unit,
            type_speed=self._type_speed(job),
            span_speed=self._span_speed(job),
            required=None if job.required is None else level[job.required],
            preferred=None if job.preferred is None else level[job.preferred],
            preferred_fewest=self._fewest_domains(job, cut, unit, lawful),
            slices=tuple((piece.gpus, level[piece.within]) for piece in job.slices),
            cpus_per_gpu_u=per_gpu_u(job.cpus, job.gpus),
            memory_per_gpu_u=per_gpu_u(job.memory_gb, job.gpus),
        )

    def _suits(self, job: Job) -> Flags:
        """Return the nodes whose hardware, labels and domains suit the job, whatever their state, shape (N,)."""
        key = self._wishes(job)
        found = self._lawful.get(key)
        if found is None:
            found = self._lawful[key] = self._lawful_for(job)
        return found

    def _wishes(self, job: Job) -> tuple[object, ...]:
        levels = {piece.within for piece in job.slices} | ({job.required} if job.required else set())
        return (
            frozenset(job.gpu_types),
            frozenset(job.node_selector.items()),
            job.exclude_nodes,
            frozenset(self._tree.level_index[level] for level in levels),
        )

    def _lawful_for(self, job: Job) -> Flags:
        mask = np.ones(len(self._cluster), dtype=bool)
        if job.gpu_types:
            allowed = [index for index, name in enumerate(self._gpu_types) if name in job.gpu_types]
            mask &= np.isin(self.nodes.gpu_type, allowed)
        if job.node_selector:
            wanted = job.node_selector.items()
            mask &= np.array([wanted <= node.labels.items() for node in self._cluster], dtype=bool)
        for node in job.exclude_nodes:
            if node in self._tree.node_index:
                mask[self._tree.node_index[node]] = False
        levels = [piece.within for piece in job.slices] + ([job.required] if job.required else [])
        for level in levels:
            mask &= self._tree.domain_of[self._tree.level_index[level]] >= 0
        return mask

    def _cut(self, job: Job, lawful: Flags) -> tuple[Cut, int]:
        """Return how the job's GPUs are cut, and the unit of the cut in GPUs."""
        if job.gpus_per_node is not None:
            return Cut.PER_NODE, job.gpus_per_node
        if job.gpus_per_task is not None:
            return Cut.PER_TASK, job.gpus_per_task
        largest, commonest = self._capacities(lawful)
        if job.gpus <= largest or job.required == "node" or largest == 0:
            return Cut.ONE_NODE, 1
        return Cut.WHOLE_NODES, commonest

    def _capacities(self, lawful: Flags) -> tuple[int, int]:
        """Return the largest and the commonest GPUs per node of some nodes, those without any left out; 0 if none."""
        found = self._capacity.get(id(lawful))
        if found is None:
            capacity = self.nodes.capacity[lawful]
            largest = int(capacity.max(initial=0))
            commonest = int(np.bincount(capacity[capacity > 0]).argmax()) if largest else 0
            found = self._capacity[id(lawful)] = (largest, commonest)
        return found

    def _type_speed(self, job: Job) -> tuple[float, ...]:
        if not job.gpu_types:
            return self._same_type_speed
        return tuple(job.gpu_types.get(GpuType(name), 0.0) for name in self._gpu_types)

    def _span_speed(self, job: Job) -> tuple[float, ...]:
        key = tuple(sorted(job.speed.items()))
        found = self._speeds.get(key)
        if found is None:
            table: Mapping[LevelName, float] = merge_speeds(self._profile.speed, job.speed)
            widest = self._profile.speed_widest
            found = self._speeds[key] = tuple(speed_per_level(self._tree.levels, table, widest).tolist())
        return found

    def _fewest_domains(self, job: Job, cut: Cut, unit: int, lawful: Flags) -> int:
        """Return the least number of empty domains of the preferred level that could hold the job, >= 1."""
        if job.preferred is None:
            return 1
        capacity = np.where(lawful, self.nodes.capacity, 0)
        if cut is Cut.PER_NODE:
            capacity = np.where(capacity >= unit, unit, 0)
        elif cut is not Cut.WHOLE_NODES:
            capacity = capacity // unit * unit
        per_domain = np.sort(self._tree.sum_per_domain(self._tree.level_index[job.preferred], capacity))[::-1]
        found = int(np.searchsorted(np.cumsum(per_domain), job.gpus)) + 1
        return max(1, min(found, len(per_domain)))


def sizes_of(job: Job, form: Form, size_now: int) -> tuple[int, ...]:
    """Return the sizes that a job may have, ascending; what runs may have the size that it has."""
    if not job.elastic:
        return (size_now or job.gpus,)
    step = math.lcm(form.unit, job.slices[0].gpus) if job.slices else form.unit
    largest = job.max_gpus
    if form.cut is Cut.ONE_NODE:
        largest = min(largest, max(job.min_gpus, form.largest))
    smallest = -(-job.min_gpus // step) * step if form.cut is Cut.WHOLE_NODES else job.min_gpus
    sizes = set(range(smallest, largest + 1, step)) or {job.min_gpus}
    return tuple(sorted(sizes | {size_now})) if size_now else tuple(sorted(sizes))


class _Probe:
    """A job's shape alone, asked whether an empty cluster could hold it."""

    def __init__(self, form: Form, sizes: tuple[int, ...], mask: Flags) -> None:
        self.cut, self.unit, self.sizes, self.nodes = form.cut, form.unit, sizes, mask
        self.minimum, self.maximum = sizes[0], sizes[-1]
        self.slices, self.required = form.slices, form.required
        self.cpus_per_gpu_u, self.memory_per_gpu_u = form.cpus_per_gpu_u, form.memory_per_gpu_u

    def most(self, nodes: Nodes, tree: Tree) -> int:
        """Return the most GPUs that it could have in one place of an empty cluster."""
        best = 0
        for gpu_type in np.flatnonzero(np.bincount(nodes.gpu_type[self.nodes])).tolist():
            gpus = np.where(nodes.gpu_type == gpu_type, nodes.capacity, 0)
            room = slice_down(self, tree, usable(self, nodes, gpus, nodes.cpus_u, nodes.memory_u))
            best = max(best, self._in_one_place(tree, room))
        return best

    def _in_one_place(self, tree: Tree, room: Ints) -> int:
        if self.cut is Cut.ONE_NODE:
            return int(room.max(initial=0))
        if self.required is None:
            return room_in_cluster(self, tree, room)
        return int(whole_slices(self, tree, room, self.required).max(initial=0))
