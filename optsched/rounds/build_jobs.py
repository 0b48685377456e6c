"""Jobs of a snapshot as a round sees them: sizes, cuts, costs and what they may use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optsched.policy import victims
from optsched.policy.ordering import aging, class_weight
from optsched.rounds.build_nodes import Eligibility, per_gpu_u
from optsched.rounds.problem import UNLIMITED, Costs, Cut, Flags, Ints, Nodes, RoundJob, Spread
from optsched.rounds.room import room_in_cluster, slice_down, usable, whole_slices
from optsched.topology.speeds import merge_speeds, speed_per_level
from optsched.topology.tree import Tree
from optsched.values.ids import GpuType, JobId, LevelName
from optsched.values.job import Job, JobState
from optsched.values.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a job stands: its team, the teams of its claim and of its line, its tier, and what its deadline allows."""

    team: int
    claim_team: int
    line_team: int
    tier: int
    due: bool
    may_break_quota: bool
    ahead_of: int


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


class JobBuilder:
    """Turns jobs into `RoundJob`s; what depends only on a job's shape is worked out once.

    `spreads` says where the running jobs are, `priority_of` every job's priority with its team's ceiling applied.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        tree: Tree,
        nodes: Nodes,
        spreads: Mapping[JobId, Spread],
        gpu_types: Sequence[str],
        priorities: Mapping[int, int],
        priority_of: Mapping[JobId, int],
    ) -> None:
        self.snapshot = snapshot
        self.tree = tree
        self.nodes = nodes
        self.gpu_types = gpu_types
        self.priorities = priorities
        self.eligibility = Eligibility(snapshot, tree, nodes, gpu_types)
        self.priority_of = priority_of
        self.spreads = spreads
        self._forms: dict[object, Form] = {}
        self._form_of: dict[int, Form] = {}
        self._speeds: dict[object, tuple[float, ...]] = {}
        self._possible: dict[object, int] = {}
        self._capacity: dict[int, tuple[int, int]] = {}
        self._types: dict[int, tuple[int, ...]] = {}
        self._wanted: dict[int, tuple[int, int]] = {}
        self._same_type_speed = (1.0,) * len(gpu_types)
        self._median_start = victims.median_reporting_start(snapshot.jobs)
        self._weight = class_weight(snapshot.profile)

    def build(self, job: Job, index: int, standing: Standing) -> RoundJob:
        """Return the job as the round sees it."""
        snapshot, profile, form = self.snapshot, self.snapshot.profile, self.form(job)
        running = job.state is JobState.RUNNING
        spread_now = self.spreads[job.id] if running else ()
        size_now = sum(count for _, count in spread_now)
        sizes = self._sizes(job, form, size_now)
        cost = victims.stop_cost(job, snapshot.now, profile, self._median_start)
        stop = round(size_now * cost.per_gpu_s)
        pinned = job.id in snapshot.carried.pinned
        protected = pinned or job.id in snapshot.carried.protected
        stoppable = running and not protected and victims.may_be_stopped(job, snapshot.now, profile, cost)
        priority = self.priority_of[job.id]
        waited_s = 0.0 if running else max(0.0, snapshot.now - job.submitted_at)
        emergency = job.priority_class in profile.emergency_classes and job.priority_class != ""
        return RoundJob(
            job=job,
            index=index,
            running=running,
            team=standing.team,
            claim_team=standing.claim_team,
            line_team=standing.line_team,
            priority=self.priorities[priority],
            cut=form.cut,
            unit=form.unit,
            sizes=sizes,
            size_now=size_now,
            spread_now=spread_now,
            nodes=self.eligibility.open_to(job, form.lawful),
            lawful=form.lawful,
            type_speed=form.type_speed,
            span_speed=form.span_speed,
            required=form.required,
            preferred=form.preferred,
            preferred_fewest=form.preferred_fewest,
            slices=form.slices,
            cpus_per_gpu_u=form.cpus_per_gpu_u,
            memory_per_gpu_u=form.memory_per_gpu_u,
            stoppable=stoppable,
            movable=running
            and profile.migration
            and job.preemptible
            and not pinned
            and not victims.waited_for(job, snapshot.now, cost)
            and size_now > 0,
            resizable=running and not pinned and len(sizes) > 1,
            costs=Costs(stop=stop, move=stop, drain_s=round(cost.drain_s)),
            pays_gpu_s=self._pays(job, waited_s, sizes[0], exempt=emergency or standing.due),
            emergency=emergency,
            due=standing.due,
            may_break_quota=standing.may_break_quota,
            can_ever_run=running or self._possible_size(form, sizes, only_up=False) > 0,
            aging_milli=0 if running else round(1000 * self._weight(priority) * aging(job, snapshot.now, profile)),
            ahead_of=standing.ahead_of,
            tier=standing.tier,
        )

    def form(self, job: Job) -> Form:
        """Return what the job shares with all jobs of its shape."""
        found = self._form_of.get(id(job))
        if found is None:
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
            self._form_of[id(job)] = found
        return found

    def _form(self, job: Job) -> Form:
        level = self.tree.level_index
        lawful = self.eligibility.lawful(job)
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

    def wanted(self, job: Job) -> tuple[int, int]:
        """Return (GPU type, GPUs) that a queued job asks of healthy nodes: its fastest type that fits, else 0 GPUs."""
        found = self._wanted.get(id(job))
        if found is None:
            found = self._wanted[id(job)] = self._wants(job)
        return found

    def _wants(self, job: Job) -> tuple[int, int]:
        form = self.form(job)
        lawful = form.lawful
        sizes = (job.gpus,) if not job.elastic else tuple(sorted({job.min_gpus, job.gpus, job.max_gpus}))
        if not self._possible_size(form, sizes, only_up=True):
            return 0, 0
        types = self._types.get(id(lawful))
        if types is None:
            present = np.bincount(self.nodes.gpu_type[lawful & self.nodes.taking])
            types = self._types[id(lawful)] = tuple(np.flatnonzero(present).tolist())
        if len(types) == 1:
            return types[0], job.max_gpus
        return max(types, key=lambda y: (form.type_speed[y], -y)), job.max_gpus

    def _sizes(self, job: Job, form: Form, size_now: int) -> tuple[int, ...]:
        """Return the sizes that the job may have, ascending; what runs may have the size that it has."""
        if not job.elastic:
            return (size_now or job.gpus,)
        step = math.lcm(form.unit, job.slices[0].gpus) if job.slices else form.unit
        largest = job.max_gpus
        if form.cut is Cut.ONE_NODE:
            largest = min(largest, max(job.min_gpus, form.largest))
        smallest = -(-job.min_gpus // step) * step if form.cut is Cut.WHOLE_NODES else job.min_gpus
        sizes = set(range(smallest, largest + 1, step)) or {job.min_gpus}
        return tuple(sorted(sizes | {size_now})) if size_now else tuple(sorted(sizes))

    def _type_speed(self, job: Job) -> tuple[float, ...]:
        if not job.gpu_types:
            return self._same_type_speed
        return tuple(job.gpu_types.get(GpuType(name), 0.0) for name in self.gpu_types)

    def _span_speed(self, job: Job) -> tuple[float, ...]:
        key = tuple(sorted(job.speed.items()))
        found = self._speeds.get(key)
        if found is None:
            profile = self.snapshot.profile
            table: Mapping[LevelName, float] = merge_speeds(profile.speed, job.speed)
            found = self._speeds[key] = tuple(speed_per_level(self.tree.levels, table, profile.speed_widest).tolist())
        return found

    def _pays(self, job: Job, waited_s: float, minimum: int, *, exempt: bool) -> int:
        """Return the lost work in GPU-seconds that the job's start may cause."""
        profile = self.snapshot.profile
        if exempt or profile.max_loss_ratio is None:
            return UNLIMITED
        doublings = min(40, int(waited_s // profile.patience_s)) if profile.patience_s > 0 else 40
        return min(UNLIMITED, int(profile.max_loss_ratio * minimum * profile.horizon_s * 2**doublings))

    def _fewest_domains(self, job: Job, cut: Cut, unit: int, lawful: Flags) -> int:
        """Return the least number of empty domains of the preferred level that could hold the job, >= 1."""
        if job.preferred is None:
            return 1
        capacity = np.where(lawful, self.nodes.capacity, 0)
        if cut is Cut.PER_NODE:
            capacity = np.where(capacity >= unit, unit, 0)
        elif cut is not Cut.WHOLE_NODES:
            capacity = capacity // unit * unit
        per_domain = np.sort(self.tree.sum_per_domain(self.tree.level_index[job.preferred], capacity))[::-1]
        found = int(np.searchsorted(np.cumsum(per_domain), job.gpus)) + 1
        return max(1, min(found, len(per_domain)))

    def _possible_size(self, form: Form, sizes: tuple[int, ...], *, only_up: bool) -> int:
        """Return the largest size at which the job could run if the cluster were empty, 0 where it cannot at all.

        `only_up` counts only nodes that take new work; else what is cordoned or down counts too.
        """
        cut, side = (form.cut, form.unit, form.required, form.slices), (form.cpus_per_gpu_u, form.memory_per_gpu_u)
        # Only on one node does the size itself decide where there is room.
        key = (id(form.lawful), cut, side, sizes if form.cut is Cut.ONE_NODE else (), only_up)
        most = self._possible.get(key)
        if most is None:
            mask = form.lawful & self.nodes.taking if only_up else form.lawful
            most = self._possible[key] = _Probe(form, sizes, mask).most(self.nodes, self.tree)
        return max((size for size in sizes if size <= most), default=0)


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
