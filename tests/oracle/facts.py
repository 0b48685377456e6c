"""Section 1: the data of a round, and section 2: what a plan does to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from optsched.policy import victims
from optsched.policy.entitlement import DemandClasses, build_team_tree, entitlements
from optsched.values.cluster import NodeState, Reservation, ReservationKind
from optsched.values.ids import NODE_LEVEL
from optsched.values.job import Job, JobState, gpus_on
from optsched.values.resources import Amounts
from optsched.values.snapshot import Snapshot

Placement = Mapping[str, int]
"""GPUs per node, none of them 0."""

QUEUED, START, KEEP, STOP, MOVE, SHRINK, GROW = "queued", "start", "keep", "stop", "move", "shrink", "grow"
TAKERS, GIVERS = (START, GROW, MOVE), (STOP, MOVE, SHRINK)
MINIMUM, ABOVE = 0, 1
"""The parts of a team's line."""


def exact(number: float) -> Fraction:
    """Return the decimal number that a file states, not its nearest binary neighbour."""
    return Fraction(str(number))


@dataclass(frozen=True)
class Plan:
    """New placements of the jobs that start, move or resize, and the running jobs that are stopped."""

    placements: Mapping[str, Placement] = field(default_factory=dict)
    stopped: frozenset[str] = frozenset()

    def key(self) -> tuple:
        """Return a hashable form: equal for equal plans."""
        changed = sorted((job, tuple(sorted(where.items()))) for job, where in self.placements.items())
        return tuple(changed), tuple(sorted(self.stopped))


@dataclass(frozen=True)
class Hold:
    """GPUs kept on nodes for the gang `unless`; `binds` are the jobs (queued or running) that may not use them."""

    unless: str | None
    gpus: Placement
    binds: frozenset[str]
    shadow_at: float | None = None


class Round:
    """One snapshot, read. `order` and `entitlement` ({team: {type: GPUs}}) may be given, or are worked out.

    `without` names rules that the brute force leaves out, to see which of them a round depends on.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        order: Sequence[str] | None = None,
        entitlement: Mapping[str, Mapping[str, int]] | None = None,
        holds: Sequence[Hold] = (),
        without: frozenset[str] = frozenset(),
    ) -> None:
        self.snapshot, self.now, self.profile = snapshot, snapshot.now, snapshot.profile
        self.holds = tuple(holds)
        self.without = without
        self.nodes = {node.id: node for node in snapshot.cluster.nodes}
        self.teams = {team.id: team for team in snapshot.teams}
        self.jobs = {job.id: job for job in snapshot.jobs}
        self.levels = [level for level in snapshot.cluster.levels if level != NODE_LEVEL] + [NODE_LEVEL]
        self.types = sorted({node.gpu_type for node in snapshot.cluster.nodes})
        self.before = {
            job.id: {node: gpus_on(booked) for node, booked in job.placement.items() if gpus_on(booked)}
            for job in snapshot.jobs
            if job.state is JobState.RUNNING
        }
        self.running = [job for job in snapshot.jobs if job.state is JobState.RUNNING]
        self.queue = [job for job in snapshot.jobs if job.state is JobState.QUEUED]
        self.capacity = {node.id: node.healthy_gpus for node in snapshot.cluster.nodes}
        self.booked = dict.fromkeys(self.nodes, 0)
        for where in self.before.values():
            for node, gpus in where.items():
                self.booked[node] += gpus
        self.free = {node: max(0, self.capacity[node] - self.booked[node]) for node in self.nodes}
        self._domains = {(n, level): self._path(n, level) for n in self.nodes for level in self.levels}
        median = victims.median_reporting_start(snapshot.jobs)
        self.cost = {job.id: victims.stop_cost(job, self.now, self.profile, median) for job in snapshot.jobs}
        self._entitlement, self._order = entitlement, order
        self.cache: dict = {}

    # Nodes and domains

    def takes_work(self, node: str) -> bool:
        """Return whether the node takes new work."""
        return self.nodes[node].state is NodeState.UP

    def domain(self, node: str, level: str) -> tuple | None:
        """Return the whole path of the node's domain at the level; None where the node has no name there."""
        return self._domains[node, level]

    def _path(self, node: str, level: str) -> tuple | None:
        if level == NODE_LEVEL:
            return (node,)
        names = self.nodes[node].domains
        if level not in names:
            return None
        return tuple(names.get(wider) for wider in self.levels[: self.levels.index(level) + 1])

    # Jobs

    def priority(self, job: Job) -> int:
        """Return p, the team's ceiling applied."""
        ceiling = self.teams[job.team].max_priority
        return job.priority if ceiling is None else min(job.priority, ceiling)

    def size(self, job: Job) -> int:
        """Return the GPUs that a running job has; 0 for a queued one."""
        return sum(self.before.get(job.id, {}).values())

    def type_now(self, job: Job) -> str | None:
        """Return the GPU type that a running job has."""
        return next((self.nodes[node].gpu_type for node in self.before.get(job.id, {})), None)

    def sizes(self, job: Job) -> list[int]:
        """Return the sizes that a job may have: steps of its cut and outermost slice; what runs keeps its own."""
        step = job.gpus_per_node or job.gpus_per_task or 1
        if job.slices:
            step = math.lcm(step, job.slices[0].gpus)
        sizes = {job.gpus}
        if job.elastic:
            sizes |= {size for size in range(job.min_gpus, job.max_gpus + 1) if size % step == 0}
        if job.state is JobState.RUNNING:
            sizes.add(self.size(job))
        return sorted(sizes)

    def minimum(self, job: Job, size: int) -> int:
        """Return how many of a job's GPUs are its minimum."""
        return min(job.min_gpus, size)

    def per_gpu(self, job: Job) -> tuple[Fraction, Fraction]:
        """Return the CPUs and the memory that go with every GPU."""
        return exact(job.cpus) / job.gpus, exact(job.memory_gb) / job.gpus

    def estimated_end(self, job: Job) -> float:
        """Return when the job is estimated to end (a queued one: if it starts now); infinity where nobody knows."""
        if job.state is JobState.QUEUED:
            return math.inf if job.estimated_runtime_s is None else self.now + job.estimated_runtime_s
        end = victims.estimated_end(job, self.now)
        return math.inf if end is None else end

    def waited(self, job: Job) -> float:
        """Return how long a queued job has waited, in seconds; what runs does not wait."""
        return max(0.0, self.now - job.submitted_at) if job.state is JobState.QUEUED else 0.0

    def near(self, job: Job) -> bool:
        """Return whether the job's start deadline is so near, or past, that it stands above its tier."""
        lead = 4 * (victims.grace_s(job, self.profile) + self.profile.start_latency_s)
        return job.start_deadline_at is not None and self.now >= job.start_deadline_at - lead

    def due(self, job: Job) -> bool:
        """Return whether a queued job must begin to make room now, if it is to start by its deadline."""
        if job.state is not JobState.QUEUED or job.start_deadline_at is None:
            return False
        profile = self.profile
        lead = victims.grace_s(job, profile) + profile.start_latency_s + profile.deadline_margin_s
        return self.now >= job.start_deadline_at - lead

    def emergency(self, job: Job) -> bool:
        """Return whether the job is of an emergency class."""
        return job.priority_class in self.profile.emergency_classes

    def may_use(self, job: Job) -> frozenset[str]:
        """Return the nodes that a job may use."""
        key = ("may_use", job.id)
        if key not in self.cache:
            self.cache[key] = frozenset(node for node in self.nodes if self._may_use_node(job, node))
        return self.cache[key]

    def _may_use_node(self, job: Job, name: str) -> bool:
        if name in self.before.get(job.id, {}):
            return True
        node = self.nodes[name]
        return (
            self.takes_work(name)
            and (not job.gpu_types or node.gpu_type in job.gpu_types)
            and all(node.labels.get(label) == value for label, value in job.node_selector.items())
            and name not in job.exclude_nodes
            and (not node.spare or (job.preemptible and self.cost[job.id].checkpoint_s == 0))
            and not any(self._closes_too_early(window, name, job) for window in self.snapshot.reservations)
        )

    def _closes_too_early(self, window: Reservation, node: str, job: Job) -> bool:
        """Return whether a maintenance window keeps the job from the node; one that has begun keeps out everybody."""
        if window.kind is not ReservationKind.MAINTENANCE or node not in window.nodes or window.end_at <= self.now:
            return False
        if window.start_at <= self.now:
            return True
        excused = self.profile.backfill_preemptible and job.preemptible
        return window.start_at < self.estimated_end(job) and not excused

    def on_one_node(self, job: Job) -> bool:
        """Return whether a job without a cut goes on one node: its `gpus` fit on one of those that it may use."""
        return any(self.capacity[node] >= job.gpus for node in self.may_use(job))

    # Teams

    def below(self, team: str) -> frozenset[str]:
        """Return the team and all teams below it."""
        found = {team}
        while True:
            more = {t.id for t in self.teams.values() if t.parent in found} - found
            if not more:
                return frozenset(found)
            found |= more

    def members(self, team: str) -> list[Job]:
        """Return the jobs of the team and of all teams below it."""
        key = ("members", team)
        if key not in self.cache:
            teams = self.below(team)
            self.cache[key] = [job for job in self.snapshot.jobs if job.team in teams]
        return self.cache[key]

    def grants(self) -> list[Reservation]:
        """Return the grants that are in force now, by id."""
        found = [each for each in self.snapshot.reservations if each.kind is ReservationKind.GRANT]
        return sorted((each for each in found if each.start_at <= self.now < each.end_at), key=lambda each: each.id)

    def named_by(self, grant: Reservation) -> frozenset[str]:
        """Return the jobs that a grant names, by themselves or by a team that they are in or below."""
        teams = {team for root in grant.teams for team in self.below(root)}
        return frozenset(job.id for job in self.snapshot.jobs if job.id in grant.jobs or job.team in teams)

    @cached_property
    def granted(self) -> frozenset[str]:
        """The jobs that any grant in force names."""
        return frozenset().union(*(self.named_by(grant) for grant in self.grants()))

    @cached_property
    def entitlement(self) -> Mapping[str, Mapping[str, int]]:
        """Whole GPUs per team and GPU type."""
        return self._entitlement if self._entitlement is not None else default_entitlement(self)

    @cached_property
    def order(self) -> list[str]:
        """The queue, first in line first."""
        from tests.oracle.order import queue_order

        return list(self._order) if self._order is not None else queue_order(self)


def amounts_of(named: Amounts) -> dict[str, Fraction]:
    """Return what a quota or a limit names, by resource: "gpus", "gpus:TYPE", "cpus", "memory"."""
    line: dict[str, Fraction] = {}
    if named.gpus is not None:
        line["gpus"] = Fraction(named.gpus)
    line |= {f"gpus:{gpu_type}": Fraction(gpus) for gpu_type, gpus in named.gpus_by_type.items()}
    if named.cpus is not None:
        line["cpus"] = exact(named.cpus)
    if named.memory_gb is not None:
        line["memory"] = exact(named.memory_gb)
    return line


def usage(round_: Round, job: Job, gpus: int, gpu_type: str | None, resource: str) -> Fraction | int:
    """Return how much of a resource some of a job's GPUs, all of one type, use."""
    if resource == "gpus":
        return gpus
    if resource.startswith("gpus:"):
        return gpus if resource == f"gpus:{gpu_type}" else 0
    return gpus * round_.per_gpu(job)[("cpus", "memory").index(resource)]


Outcome = tuple[str, int, "str | None"]
"""What becomes of a job: what is done with it, its size and its GPU type after the plan."""


class After:
    """A plan and what it changes: what is done with each job (`outcome`), and all placements after it (`where`)."""

    def __init__(self, round_: Round, plan: Plan) -> None:
        self.round, self.plan = round_, plan
        self.where: dict[str, Placement] = {}
        self.outcome: dict[str, Outcome] = {}
        self.gains: dict[str, Placement] = {}
        self.supply: dict[str, Placement] = {}
        for job in round_.snapshot.jobs:
            old: Placement = round_.before.get(job.id, {})
            new = {} if job.id in plan.stopped else plan.placements.get(job.id, old)
            if new:
                self.where[job.id] = new
            done = _what_is_done(job, old, new)
            gpu_type = next((round_.nodes[node].gpu_type for node in new or old), None)
            self.outcome[job.id] = (done, sum(new.values()), gpu_type)
            if done in TAKERS:
                more = {node: gpus - old.get(node, 0) for node, gpus in new.items()}
                self.gains[job.id] = {node: gpus for node, gpus in more.items() if gpus > 0}
            if done in GIVERS:
                less = {node: gpus - new.get(node, 0) for node, gpus in old.items()}
                self.supply[job.id] = {node: gpus for node, gpus in less.items() if gpus > 0}

    def done(self, job: str) -> str:
        """Return what the plan does with a job."""
        return self.outcome[job][0]

    def size(self, job: str) -> int:
        """Return the job's GPUs after the plan."""
        return self.outcome[job][1]

    def changed(self) -> list[Job]:
        """Return the jobs whose placement changes and that run after: starts, moves, resizes."""
        return [job for job in self.round.snapshot.jobs if self.done(job.id) in (START, MOVE, SHRINK, GROW)]

    def used(self) -> dict[str, int]:
        """Return the GPUs in use per node after the plan."""
        used = dict.fromkeys(self.round.nodes, 0)
        for where in self.where.values():
            for node, gpus in where.items():
                used[node] += gpus
        return used


def _what_is_done(job: Job, old: Placement, new: Placement) -> str:
    if job.state is JobState.QUEUED:
        return START if new else QUEUED
    if not new:
        return STOP
    if dict(new) == dict(old):
        return KEEP
    nodes = set(old) | set(new)
    if all(new.get(node, 0) <= old.get(node, 0) for node in nodes):
        return SHRINK
    if all(new.get(node, 0) >= old.get(node, 0) for node in nodes):
        return GROW
    return MOVE


def default_entitlement(round_: Round) -> dict[str, dict[str, int]]:
    """Work out what teams are entitled to.

    Healthy capacity is what nodes that are not down have. A running job wants its largest size on the type that it has,
    a queued one its largest size on the fastest type on which healthy nodes could hold it (then the first by name).
    """
    from tests.oracle.shapes import could_run

    types, teams = round_.types, list(round_.snapshot.teams)
    healthy = [node for node in round_.snapshot.cluster.nodes if node.state is not NodeState.DOWN]
    capacity = np.zeros(len(types) + 2)
    for node in healthy:
        capacity[types.index(node.gpu_type)] += node.healthy_gpus
        capacity[-2] += math.inf if node.cpus is None else node.cpus - node.cpus_reserved
        capacity[-1] += math.inf if node.memory_gb is None else node.memory_gb
    rows: list[tuple[int, int, list[float]]] = []
    for job in round_.snapshot.jobs:
        gpu_type = round_.type_now(job) or wanted_type(round_, job, lambda j, t: could_run(round_, j, t))
        if gpu_type is None:
            continue
        gpus = max(job.max_gpus, job.gpus, round_.size(job))
        cpus, memory = round_.per_gpu(job)
        amounts = [float(gpus) if name == gpu_type else 0.0 for name in types]
        team = [t.id for t in teams].index(job.team)
        rows.append((team, types.index(gpu_type), [*amounts, float(gpus * cpus), float(gpus * memory)]))
    # Where capacity is not known, it is everything that is wanted: no team is held back by it.
    for column in (-2, -1):
        if math.isinf(capacity[column]):
            capacity[column] = sum(amounts[column] for _, _, amounts in rows) * 1000
    demand = DemandClasses(
        np.array([row[0] for row in rows], dtype=np.int64),
        np.array([row[1] for row in rows], dtype=np.int64),
        np.array([row[2] for row in rows], dtype=np.float64).reshape(len(rows), len(types) + 2),
    )
    found = entitlements(
        build_team_tree(teams), types, capacity, demand, [team.quota for team in teams], [team.limit for team in teams]
    )
    return {team.id: {name: int(found.gpus[i, p]) for p, name in enumerate(types)} for i, team in enumerate(teams)}


def wanted_type(round_: Round, job: Job, possible: Callable[[Job, str], bool]) -> str | None:
    """Return the fastest type (then the first by name) of those on which the job is possible."""
    found = [t for t in round_.types if (not job.gpu_types or t in job.gpu_types) and possible(job, t)]
    return min(found, key=lambda t: (-job.gpu_types.get(t, 1.0), t), default=None)
