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
from optsched.values.ids import LevelName, NodeId
from optsched.values.job import Job, JobState, gpus_on
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


class JobBuilder:
    """Turns jobs into `RoundJob`s; what depends only on a job's shape is worked out once."""

    def __init__(
        self,
        snapshot: Snapshot,
        tree: Tree,
        nodes: Nodes,
        gpu_types: Sequence[str],
        priorities: Mapping[int, int],
        ceiling: Mapping[str, int | None],
    ) -> None:
        self.snapshot = snapshot
        self.tree = tree
        self.nodes = nodes
        self.gpu_types = gpu_types
        self.priorities = priorities
        self.eligibility = Eligibility(snapshot, tree, nodes, gpu_types)
        self._ceiling = ceiling
        self._node_index: Mapping[NodeId, int] = tree.node_index
        self._speeds: dict[object, tuple[float, ...]] = {}
        self._type_speeds: dict[object, tuple[float, ...]] = {}
        self._possible: dict[object, int] = {}
        self._fewest: dict[object, int] = {}
        self._capacity: dict[int, tuple[int, int]] = {}
        self._types: dict[int, tuple[int, ...]] = {}
        self._wanted: dict[int, tuple[int, int]] = {}
        self._same_type_speed = (1.0,) * len(gpu_types)
        self._median_start = victims.median_reporting_start(snapshot.jobs)
        self._weight = class_weight(snapshot.profile)

    def priority(self, job: Job) -> int:
        """Return the job's priority with its team's ceiling applied."""
        ceiling = self._ceiling.get(job.team)
        return job.priority if ceiling is None else min(job.priority, ceiling)

    def build(self, job: Job, index: int, standing: Standing) -> RoundJob:
        """Return the job as the round sees it."""
        snapshot, profile, tree = self.snapshot, self.snapshot.profile, self.tree
        running = job.state is JobState.RUNNING
        lawful = self.eligibility.lawful(job)
        cut, unit = self.cut(job, lawful)
        spread_now = self._spread(job) if running else ()
        size_now = sum(count for _, count in spread_now)
        sizes = self._sizes(job, cut, unit, lawful, size_now)
        open_to = self.eligibility.open_to(job)
        cost = victims.stop_cost(job, snapshot.now, profile, self._median_start)
        stop = round(size_now * cost.per_gpu_s)
        pinned = job.id in snapshot.carried.pinned
        protected = pinned or job.id in snapshot.carried.protected
        stoppable = running and not protected and victims.may_be_stopped(job, snapshot.now, profile, cost)
        priority = self.priority(job)
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
            cut=cut,
            unit=unit,
            sizes=sizes,
            size_now=size_now,
            spread_now=spread_now,
            nodes=open_to,
            lawful=lawful,
            type_speed=self._type_speed(job),
            span_speed=self._span_speed(job),
            required=None if job.required is None else tree.level_index[job.required],
            preferred=None if job.preferred is None else tree.level_index[job.preferred],
            preferred_fewest=self._fewest_domains(job, cut, unit, lawful),
            slices=tuple((piece.gpus, tree.level_index[piece.within]) for piece in job.slices),
            cpus_per_gpu_u=per_gpu_u(job.cpus, job.gpus),
            memory_per_gpu_u=per_gpu_u(job.memory_gb, job.gpus),
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
            can_ever_run=running or self.possible(job, cut, unit, sizes, lawful) > 0,
            aging_milli=0 if running else round(1000 * self._weight(priority) * aging(job, snapshot.now, profile)),
            ahead_of=standing.ahead_of,
            tier=standing.tier,
        )

    def cut(self, job: Job, lawful: Flags) -> tuple[Cut, int]:
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
        lawful = self.eligibility.lawful(job)
        cut, unit = self.cut(job, lawful)
        sizes = (job.gpus,) if not job.elastic else tuple(sorted({job.min_gpus, job.gpus, job.max_gpus}))
        if not self.possible(job, cut, unit, sizes, lawful, only_up=True):
            return 0, 0
        types = self._types.get(id(lawful))
        if types is None:
            present = np.bincount(self.nodes.gpu_type[lawful & self.nodes.taking])
            types = self._types[id(lawful)] = tuple(np.flatnonzero(present).tolist())
        if len(types) == 1:
            return types[0], job.max_gpus
        speed = self._type_speed(job) if job.gpu_types else self._same_type_speed
        return max(types, key=lambda y: (speed[y], -y)), job.max_gpus

    def _spread(self, job: Job) -> Spread:
        return tuple(sorted((self._node_index[node], gpus_on(on)) for node, on in job.placement.items() if gpus_on(on)))

    def _sizes(self, job: Job, cut: Cut, unit: int, lawful: Flags, size_now: int) -> tuple[int, ...]:
        """Return the sizes that the job may have, ascending; what runs may have the size that it has."""
        if not job.elastic:
            return (size_now or job.gpus,)
        step = math.lcm(unit, job.slices[0].gpus) if job.slices else unit
        largest = job.max_gpus
        if cut is Cut.ONE_NODE:
            largest = min(largest, max(job.min_gpus, self._capacities(lawful)[0]))
        smallest = -(-job.min_gpus // step) * step if cut is Cut.WHOLE_NODES else job.min_gpus
        sizes = set(range(smallest, largest + 1, step)) or {job.min_gpus}
        return tuple(sorted(sizes | {size_now})) if size_now else tuple(sorted(sizes))

    def _type_speed(self, job: Job) -> tuple[float, ...]:
        if not job.gpu_types:
            return self._same_type_speed
        key = tuple(job.gpu_types.items())
        found = self._type_speeds.get(key)
        if found is None:
            found = tuple(job.gpu_types.get(name, 0.0) for name in self.gpu_types)  # type: ignore[call-overload]
            self._type_speeds[key] = found
        return found

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
        key = (id(lawful), cut, unit, job.preferred, job.gpus)
        found = self._fewest.get(key)
        if found is None:
            capacity = np.where(lawful, self.nodes.capacity, 0)
            if cut is Cut.PER_NODE:
                capacity = np.where(capacity >= unit, unit, 0)
            elif cut is not Cut.WHOLE_NODES:
                capacity = capacity // unit * unit
            per_domain = np.sort(self.tree.sum_per_domain(self.tree.level_index[job.preferred], capacity))[::-1]
            found = int(np.searchsorted(np.cumsum(per_domain), job.gpus)) + 1
            found = self._fewest[key] = max(1, min(found, len(per_domain)))
        return found

    def possible(
        self, job: Job, cut: Cut, unit: int, sizes: tuple[int, ...], lawful: Flags, only_up: bool = False
    ) -> int:
        """Return the largest size at which the job could run if the cluster were empty, 0 where it cannot at all.

        `only_up` counts only nodes that take new work; else what is cordoned or down counts too.
        """
        key = (
            id(lawful),
            cut,
            unit,
            sizes,
            job.required,
            job.slices,
            job.cpus / job.gpus,
            job.memory_gb / job.gpus,
            only_up,
        )
        found = self._possible.get(key)
        if found is None:
            mask = lawful & self.nodes.taking if only_up else lawful
            probe = _Probe(cut, unit, sizes, mask, self.tree, job)
            found = self._possible[key] = probe.largest(self.nodes, self.tree)
        return found


class _Probe:
    """A job's shape alone, asked whether an empty cluster could hold it."""

    def __init__(self, cut: Cut, unit: int, sizes: tuple[int, ...], mask: Flags, tree: Tree, job: Job) -> None:
        self.cut, self.unit, self.sizes, self.nodes = cut, unit, sizes, mask
        self.minimum, self.maximum = sizes[0], sizes[-1]
        self.slices = tuple((piece.gpus, tree.level_index[piece.within]) for piece in job.slices)
        self.required = None if job.required is None else tree.level_index[job.required]
        self.cpus_per_gpu_u = per_gpu_u(job.cpus, job.gpus)
        self.memory_per_gpu_u = per_gpu_u(job.memory_gb, job.gpus)

    def largest(self, nodes: Nodes, tree: Tree) -> int:
        """Return the largest size that fits an empty cluster."""
        best = 0
        for gpu_type in np.flatnonzero(np.bincount(nodes.gpu_type[self.nodes])).tolist():
            gpus = np.where(nodes.gpu_type == gpu_type, nodes.capacity, 0)
            room = slice_down(self, tree, usable(self, nodes, gpus, nodes.cpus_u, nodes.memory_u))
            best = max(best, self._most(tree, room))
        return max((size for size in self.sizes if size <= best), default=0)

    def _most(self, tree: Tree, room: Ints) -> int:
        if self.cut is Cut.ONE_NODE:
            return int(room.max(initial=0))
        if self.required is None:
            return room_in_cluster(self, tree, room)
        return int(whole_slices(self, tree, room, self.required).max(initial=0))
