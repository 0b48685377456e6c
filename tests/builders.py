"""Fluent builders of tiny named clusters, teams and jobs, and short ways to plan them and to read what comes out.

The clock reads 0 in every snapshot; what happened before has a negative instant. Unless told otherwise all placements
run at
full speed, a job is queued since 0, and a running one has run for an hour and wrote its last checkpoint 100 s ago.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from optsched.clock import StoppedClock
from optsched.planner.plan import PlanOptions, plan_round
from optsched.rounds.assignment import Assignment
from optsched.rounds.problem import Problem
from optsched.solve.ladder import SolverChoice
from optsched.values.cluster import Cluster, Fabric, Node, NodeState, Reservation, ReservationKind
from optsched.values.ids import GpuType, JobId, LevelName, NodeId, ReservationId, TeamId, UserId
from optsched.values.job import Checkpoint, Job, JobState, Slice, gpus_on
from optsched.values.plan import Plan, Waiting
from optsched.values.profile import Profile
from optsched.values.resources import Amounts
from optsched.values.snapshot import Snapshot
from optsched.values.team import Team

CLASSES = {"P0": 4000, "P1": 3000, "P2": 2000, "P3": 1000, "P4": 0}

QUIET = Profile(speed_widest=1.0)
"""Every placement at full speed, no price on broken domains: the bill holds nothing but stops and moves."""


def node(name: str, gpus: int = 8, gpu_type: str = "", **keys: object) -> Node:
    """A node; keys that name no field of a node are its domains: node("n1", 8, rack="r1", cpus=64)."""
    fields = {key: keys.pop(key) for key in list(keys) if key in Node.__slots__}
    domains = {LevelName(level): str(name) for level, name in keys.items()}
    return Node(NodeId(name), gpus, domains, GpuType(gpu_type), **fields)


def nodes(names: str, gpus: int = 8, gpu_type: str = "", **keys: object) -> list[Node]:
    """Nodes that are alike: nodes("a b c", 8, rack="r1")."""
    return [node(name, gpus, gpu_type, **keys) for name in names.split()]


def racks(gpus: int = 8, **members: str) -> list[Node]:
    """Nodes by rack: racks(8, r1="a b", r2="c d")."""
    return [each for rack, names in members.items() for each in nodes(names, gpus, rack=rack)]


def cordoned(each: Node) -> Node:
    """The node, cordoned."""
    return replace(each, state=NodeState.CORDONED)


@dataclass(frozen=True)
class JobBuilder:
    """A job in the making; every call returns a new one."""

    made: Job

    def _with(self, **fields: object) -> JobBuilder:
        return JobBuilder(replace(self.made, **fields))

    def gang(self, gpus: int) -> JobBuilder:
        """GPUs in all."""
        return self._with(gpus=gpus, min_gpus=gpus, max_gpus=gpus)

    def per_node(self, gpus: int) -> JobBuilder:
        """Exactly this many GPUs on each node."""
        return self._with(gpus_per_node=gpus)

    def per_task(self, gpus: int) -> JobBuilder:
        """Tasks of this many GPUs, which may share a node."""
        return self._with(gpus_per_task=gpus)

    def elastic(self, low: int, high: int) -> JobBuilder:
        """May run at low..high GPUs."""
        return self._with(min_gpus=low, max_gpus=high)

    def within(self, level: str) -> JobBuilder:
        """The whole gang in one domain of the level."""
        return self._with(required=LevelName(level))

    def prefers(self, level: str) -> JobBuilder:
        """As few domains of the level as can be had."""
        return self._with(preferred=LevelName(level))

    def slices(self, *parts: tuple[int, str]) -> JobBuilder:
        """Slices (GPUs, level), outermost first."""
        return self._with(slices=tuple(Slice(gpus, LevelName(level)) for gpus, level in parts))

    def team(self, name: str) -> JobBuilder:
        """Its team."""
        return self._with(team=TeamId(name))

    def user(self, name: str) -> JobBuilder:
        """Its user."""
        return self._with(user=UserId(name))

    def rank(self, priority: str | int) -> JobBuilder:
        """Its class, or its priority as a number."""
        if isinstance(priority, int):
            return self._with(priority=priority, priority_class="")
        return self._with(priority=CLASSES[priority], priority_class=priority)

    def types(self, **speeds: float) -> JobBuilder:
        """The GPU types that it may have, and how fast each is."""
        return self._with(gpu_types={GpuType(name): speed for name, speed in speeds.items()})

    def cpus(self, total: float) -> JobBuilder:
        """CPUs in all."""
        return self._with(cpus=total)

    def memory(self, gb: float) -> JobBuilder:
        """Memory in all, in GB."""
        return self._with(memory_gb=gb)

    def rigid(self) -> JobBuilder:
        """Not preemptible."""
        return self._with(preemptible=False)

    def runs_for(self, seconds: float) -> JobBuilder:
        """Its estimated run time."""
        return self._with(estimated_runtime_s=seconds)

    def by(self, deadline_at: float) -> JobBuilder:
        """Its start deadline."""
        return self._with(start_deadline_at=deadline_at)

    def waiting(self, seconds: float) -> JobBuilder:
        """In the queue for so long."""
        return self._with(submitted_at=-seconds)

    def avoiding(self, *names: str) -> JobBuilder:
        """Nodes that it must not use."""
        return self._with(exclude_nodes=frozenset(NodeId(name) for name in names))

    def where(self, **labels: str) -> JobBuilder:
        """Labels that its nodes must have."""
        return self._with(node_selector=labels)

    def signal(self, cost_s: float = 0.0, restart_s: float = 0.0, grace_s: float | None = None) -> JobBuilder:
        """Writes a checkpoint when it is told to go."""
        checkpoint = Checkpoint(cost_s=cost_s, restart_s=restart_s, on_signal=True)
        return self._with(checkpoint=checkpoint, grace_period_s=grace_s)

    def restarts_in(self, seconds: float) -> JobBuilder:
        """How long it takes to come back."""
        return self._with(checkpoint=replace(self.made.checkpoint, restart_s=seconds))

    def preempted(self, times: int) -> JobBuilder:
        """How often it was preempted."""
        return self._with(preemptions=times)

    def running(
        self,
        where: Mapping[str, int | tuple[int, ...]] | None = None,
        since: float = 3600.0,
        lost: float | None = 100.0,
        **counts: int,
    ) -> JobBuilder:
        """Runs since so many seconds, its last checkpoint `lost` seconds ago (None: it reports none)."""
        placement = {NodeId(name): gpus for name, gpus in {**(where or {}), **counts}.items()}
        held = sum(gpus_on(gpus) for gpus in placement.values())
        sizes = {} if self.made.elastic else {"gpus": held, "min_gpus": held, "max_gpus": held}
        return self._with(
            state=JobState.RUNNING,
            placement=placement,
            started_at=-since,
            submitted_at=-since,
            last_checkpoint_at=None if lost is None else -lost,
            run=1,
            **sizes,
        )


def job(name: str) -> JobBuilder:
    """A queued, preemptible job of team t with one GPU at priority 0, on one node where it fits."""
    return JobBuilder(Job(JobId(name), TeamId("t"), 1))


@dataclass(frozen=True)
class TeamBuilder:
    """A team in the making; every call returns a new one."""

    made: Team

    def _with(self, **fields: object) -> TeamBuilder:
        return TeamBuilder(replace(self.made, **fields))

    def quota(self, gpus: int | None = None, **more: float) -> TeamBuilder:
        """Its quota: GPUs of any type, or by type, CPUs, memory: quota(8, cpus=64), quota(h100=4)."""
        return self._with(quota=_amounts(gpus, more))

    def limit(self, gpus: int | None = None, **more: float) -> TeamBuilder:
        """Its limit, named like a quota."""
        return self._with(limit=_amounts(gpus, more))

    def user_limit(self, gpus: int) -> TeamBuilder:
        """What one user may hold."""
        return self._with(user_limit=Amounts(gpus=gpus))

    def weight(self, weight: float) -> TeamBuilder:
        """Its weight."""
        return self._with(weight=weight)

    def under(self, parent: str) -> TeamBuilder:
        """Its parent."""
        return self._with(parent=TeamId(parent))

    def top(self, priority: str) -> TeamBuilder:
        """The highest class that its jobs may use."""
        return self._with(max_priority=CLASSES[priority])

    def deadline_gpus(self, gpus: int) -> TeamBuilder:
        """What its deadlines may take from others' guarantees."""
        return self._with(max_deadline_gpus=gpus)


def _amounts(gpus: int | None, more: Mapping[str, float]) -> Amounts:
    side = {key: float(more[key]) for key in ("cpus", "memory_gb") if key in more}
    by_type = {GpuType(key): int(value) for key, value in more.items() if key not in side}
    return Amounts(gpus=gpus, gpus_by_type=by_type, **side)


def team(name: str) -> TeamBuilder:
    """A team of weight 1 without quota and limit."""
    return TeamBuilder(Team(TeamId(name)))


def window(name: str, start_at: float, end_at: float, *closed: str) -> Reservation:
    """A maintenance window."""
    return Reservation(ReservationId(name), start_at, end_at, nodes=tuple(NodeId(each) for each in closed))


def grant(name: str, gpus: int, within: str | None = None, jobs: str = "", teams: str = "") -> Reservation:
    """An operator's grant to jobs or teams, in force."""
    return Reservation(
        ReservationId(name),
        -3600,
        86400,
        ReservationKind.GRANT,
        gpus=gpus,
        within=within,
        teams=tuple(TeamId(each) for each in teams.split()),
        jobs=tuple(JobId(each) for each in jobs.split()),
    )


def snapshot(
    cluster: Iterable[Node],
    *parts: JobBuilder | TeamBuilder | Reservation,
    levels: str = "rack",
    profile: Profile = QUIET,
    fabrics: Mapping[str, Fabric] | None = None,
    **knobs: object,
) -> Snapshot:
    """A snapshot of nodes, teams, jobs and reservations; a team that only jobs name is added. `knobs` are the
    profile's.
    """
    teams = [part.made for part in parts if isinstance(part, TeamBuilder)]
    jobs = [part.made for part in parts if isinstance(part, JobBuilder)]
    named = {each.id for each in teams}
    for each in jobs:
        if each.team not in named:
            teams.append(Team(each.team))
            named.add(each.team)
    return Snapshot(
        now=0,
        cluster=Cluster(tuple(cluster), tuple(LevelName(level) for level in levels.split()), fabrics or {}),
        teams=tuple(teams),
        jobs=tuple(jobs),
        reservations=tuple(part for part in parts if isinstance(part, Reservation)),
        profile=replace(profile, **knobs),
    )


def assignment(problem: Problem, placements: Mapping[str, Mapping[str, int]], *stopped: str) -> Assignment:
    """An assignment by names: where jobs are placed anew, and who is stopped."""
    index = {str(each.job.id): each.index for each in problem.jobs}
    at = problem.tree.node_index
    changed = {
        index[name]: tuple(sorted((at[NodeId(each)], gpus) for each, gpus in where.items()))
        for name, where in placements.items()
    }
    return Assignment(changed, frozenset(index[name] for name in stopped))


COUNTED = PlanOptions(budget_s=1e9, deterministic_s=20.0)
"""No clock: the search is bounded by counted work, so that a plan never depends on the machine."""


def planned(snap: Snapshot, solver: SolverChoice = SolverChoice.AUTO, **options: object) -> Plan:
    """The plan of a snapshot."""
    return plan_round(snap, replace(COUNTED, solver=solver, **options), StoppedClock())


@dataclass(frozen=True)
class Outcome:
    """What runs once a plan is carried out, by name: {job: {node: GPUs}}."""

    plan: Plan
    runs: Mapping[str, Mapping[str, int]]

    @property
    def started(self) -> set[str]:
        """Jobs that start."""
        return {str(each.job) for each in self.plan.starts}

    @property
    def stopped(self) -> set[str]:
        """Jobs that are stopped."""
        return {str(each.job) for each in self.plan.preemptions}

    @property
    def moved(self) -> set[str]:
        """Jobs that go on elsewhere."""
        return {str(each.job) for each in self.plan.migrations}

    @property
    def resized(self) -> dict[str, int]:
        """Jobs at another size, and that size."""
        return {str(each.job): sum(self.runs[each.job].values()) for each in self.plan.resizes}

    @property
    def waits(self) -> set[str]:
        """Jobs that stay queued."""
        return {str(each.job) for each in self.plan.queued}

    def why(self, name: str) -> Waiting:
        """Why a job waits."""
        return next(each for each in self.plan.queued if each.job == name)


def outcome(snap: Snapshot, solver: SolverChoice = SolverChoice.AUTO, **options: object) -> Outcome:
    """Plan a snapshot and carry the plan out."""
    plan = planned(snap, solver, **options)
    gone = {each.job for each in plan.preemptions}
    anew = {each.job: each.placement for each in (*plan.starts, *plan.migrations, *plan.resizes)}
    runs = {}
    for each in snap.jobs:
        now = each.placement if each.state is JobState.RUNNING and each.id not in gone else {}
        where = anew.get(each.id, now)
        if where:
            runs[str(each.id)] = {str(name): gpus_on(gpus) for name, gpus in where.items()}
    return Outcome(plan, runs)
