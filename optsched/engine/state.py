"""The state of a cluster through time: immutable values, from which everything can be told and resumed."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from optsched.engine.events import After, Member
from optsched.engine.settings import Settings
from optsched.engine.tables import GOES_ON
from optsched.values.cluster import Cluster, Node, NodeState, Reservation
from optsched.values.ids import JobId, NodeId, ReservationId, TeamId, UserId
from optsched.values.job import Job, JobState, Placement, gpus_on
from optsched.values.plan import ReservedRoom
from optsched.values.profile import Profile
from optsched.values.snapshot import Snapshot
from optsched.values.team import Team


@dataclass(frozen=True, slots=True)
class Booking:
    """GPUs of one node that a run has, until its agent confirms them free; CPUs in cores, memory in GB."""

    job: JobId
    run: int
    gpus: int | tuple[int, ...]
    cpus: float = 0.0
    memory_gb: float = 0.0


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node and what is booked on it. `changed` is the version of the state in which it last changed.

    `last_seen_at` is when its agent was last heard, on the scheduler's clock; None: it holds no lease. `session` is the
    agent's, and `parted_at` when its stream broke (None: it has not, or the agent was heard since). `opens_as` is what
    the node becomes once its probe has passed. `failures` are the instants at which gangs failed on it, `drains_since`
    is when it was last told to drain.
    """

    node: Node
    bookings: tuple[Booking, ...] = ()
    changed: int = 0
    last_seen_at: float | None = None
    agent: str = ""
    session: int = 0
    parted_at: float | None = None
    opens_as: NodeState = NodeState.UP
    failures: tuple[float, ...] = ()
    drains_since: float | None = None

    @property
    def booked_gpus(self) -> int:
        """GPUs that are booked, whoever has them."""
        return sum(gpus_on(booking.gpus) for booking in self.bookings)


class Change(enum.Enum):
    """What a claim leads to."""

    START = "start"
    """A queued job starts."""
    MOVE = "move"
    """A run goes on elsewhere."""
    RESIZE = "resize"
    """A run goes on at another size."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Room that a plan gave to a job and that nobody else gets, until all of it is free and the job starts there.

    `givers` are the jobs that make room for it.
    """

    change: Change
    placement: Placement
    since: float
    givers: tuple[JobId, ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """A gang start under way: first all agents reserve, then all start. `ready` have done their part of the stage."""

    reserving: bool
    since: float
    ready: frozenset[NodeId] = frozenset()


class StopCause(enum.Enum):
    """Why a run is told to stop."""

    PLAN = "plan"
    """Another job needs its room."""
    OPERATOR = "operator"
    """An operator asked for it."""
    MAINTENANCE = "maintenance"
    """Its nodes are given back for a maintenance window."""
    WITHDRAWN = "withdrawn"
    """It is cancelled."""
    ELSEWHERE = "elsewhere"
    """It goes on elsewhere, or at another size."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A run that is told to stop, for whom, and when it is killed; `killed` once it was."""

    cause: StopCause
    kill_at: float
    beneficiaries: tuple[JobId, ...] = ()
    killed: bool = False


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint: taken at an instant, safe from the loss of its nodes from another on (None: never)."""

    version: str
    taken_at: float
    safe_at: float | None
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Rest:
    """The healthy rest of a failed gang's nodes, kept for it until an instant; `was` is the placement that failed."""

    gpus: Mapping[NodeId, int]
    until: float
    was: Placement


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job and where it stands.

    `job` is what rounds see: its request with the placement, run and times of now. `reason` says why it stands there,
    and `blocked_by`, while it waits, what the last round found in its way, as a word. `estimate_s` is the run time that
    was stated, `done_s` what of it is saved. `tokens` were left in its bucket at `tokens_at`. `first_in_line` after a
    stop or failure puts it before its equals, and `queued_at` is since when it waits again. `unseen`: no round has
    looked at it yet. Not started before `not_before`; not on the nodes in `avoid` before the instant given. `on_call`
    names the jobs whose hold it was let into, and which may stop it. `never_began` are the runs that were given up
    before any agent was asked to start them. `held` says why somebody keeps it from starting (None: nobody does),
    `after` names the jobs that it waits for. `ended_at` is when it came to its end, and nothing was booked for it any
    more.
    """

    job: Job
    state: JobState
    changed: int = 0
    reason: str = ""
    blocked_by: str = ""
    claim: Claim | None = None
    launch: Launch | None = None
    stop: Stop | None = None
    rest: Rest | None = None
    booked_on: frozenset[NodeId] = frozenset()
    done_on: frozenset[NodeId] = frozenset()
    estimate_s: float | None = None
    done_s: float = 0.0
    tokens: float = 0.0
    tokens_at: float = 0.0
    migrations: int = 0
    moved_at: float | None = None
    infra_failures: int = 0
    job_failures: int = 0
    failed_early: int = 0
    first_in_line: bool = False
    queued_at: float | None = None
    unseen: bool = False
    not_before: float | None = None
    avoid: Mapping[NodeId, float] = field(default_factory=dict)
    on_call: tuple[JobId, ...] = ()
    never_began: frozenset[int] = frozenset()
    checkpoints: tuple[Saved, ...] = ()
    restored: str | None = None
    held: str | None = None
    after: tuple[After, ...] = ()
    array: Member | None = None
    ended_at: float | None = None

    @property
    def id(self) -> JobId:
        """The job's id."""
        return self.job.id

    @property
    def waits_since(self) -> float:
        """Since when it waits for its next run, as long as it does: its submission, or the end of its last one."""
        return self.job.submitted_at if self.queued_at is None else self.queued_at

    @property
    def run(self) -> int:
        """The number of its last start."""
        return self.job.run


@dataclass(frozen=True, slots=True)
class State:
    """Everything that the engine knows at `now`. `version` grows with every event that changes anything.

    `jobs` are those not ended, and ended ones with GPUs that are not free yet; `ended` all others that are kept.
    `claims` are the jobs with a claim, in order. `rules_changed` is the version in which teams, profile, reservations
    or the set of nodes last changed, `settled` that in which the last round was put into force. `due` tells that a
    decision may find something to do, `raised` is the version in which that was last found. `paused` says why nothing
    starts. `awaited` are the jobs that others wait for, as long as more may become of them. `left` is, by team, the
    version in which a run of it last came to its end: what others may take is less since then. `stopped` are (instant,
    GPUs) of the last hour's preemptions. `history` are the ratios of real to stated run time.
    """

    now: float
    cluster: Cluster
    nodes: Mapping[NodeId, NodeRecord]
    teams: Mapping[TeamId, Team]
    jobs: Mapping[JobId, JobRecord]
    profile: Profile
    settings: Settings = Settings()
    reservations: Mapping[ReservationId, Reservation] = field(default_factory=dict)
    ended: Mapping[JobId, JobRecord] = field(default_factory=dict)
    claims: tuple[JobId, ...] = ()
    epoch: int = 1
    version: int = 1
    rules_changed: int = 0
    settled: int = 0
    due: bool = True
    raised: int = 0
    paused: str = ""
    reserved: tuple[ReservedRoom, ...] = ()
    awaited: frozenset[JobId] = frozenset()
    stopped: tuple[tuple[float, int], ...] = ()
    left: Mapping[TeamId, int] = field(default_factory=dict)
    history: Mapping[tuple[TeamId, UserId], tuple[float, ...]] = field(default_factory=dict)

    def record(self, job: JobId) -> JobRecord | None:
        """Return what is known of a job, ended or not."""
        return self.jobs.get(job) or self.ended.get(job)


def goes_on(jobs: Mapping[JobId, JobRecord], job: JobId, run: int) -> bool:
    """Return whether a run starts or runs, and is not told to stop."""
    record = jobs.get(job)
    return record is not None and record.run == run and record.state in GOES_ON


def share_of(job: Job, gpus: int) -> tuple[float, float]:
    """Return the CPUs and the GB that go with so many GPUs of a job."""
    return job.cpus * gpus / job.gpus, job.memory_gb * gpus / job.gpus


def booking_of(job: Job, run: int, gpus: int | tuple[int, ...]) -> Booking:
    """Return the booking of one node's part of a run."""
    return Booking(job.id, run, gpus, *share_of(job, gpus_on(gpus)))


def initial(snapshot: Snapshot, settings: Settings | None = None, epoch: int = 1) -> State:
    """Return the state that a snapshot describes: what runs holds its bookings, everything else waits."""
    profile = snapshot.profile
    bookings: dict[NodeId, list[Booking]] = {node.id: [] for node in snapshot.cluster.nodes}
    jobs: dict[JobId, JobRecord] = {}
    for given in snapshot.jobs:
        job = given
        running = job.state is JobState.RUNNING
        if running and job.run == 0:
            job = replace(job, run=1)
        if running and job.started_at is None:
            job = replace(job, started_at=snapshot.now)
        for node, gpus in job.placement.items() if running else ():
            bookings[node].append(booking_of(job, job.run, gpus))
        jobs[job.id] = JobRecord(
            job=job,
            state=job.state,
            booked_on=frozenset(job.placement) if running else frozenset(),
            estimate_s=job.estimated_runtime_s,
            tokens=_tokens_left(job, snapshot.now, profile),
            tokens_at=snapshot.now,
            checkpoints=()
            if job.last_checkpoint_at is None
            else (Saved("", job.last_checkpoint_at, job.last_checkpoint_at),),
        )
    return State(
        now=snapshot.now,
        cluster=replace(snapshot.cluster, nodes=()),
        nodes={node.id: _noted(node, tuple(bookings[node.id]), snapshot.now) for node in snapshot.cluster.nodes},
        teams={team.id: team for team in snapshot.teams},
        jobs=jobs,
        profile=profile,
        settings=settings or Settings(),
        reservations={entry.id: entry for entry in snapshot.reservations},
        epoch=epoch,
    )


def _noted(node: Node, bookings: tuple[Booking, ...], now: float) -> NodeRecord:
    return NodeRecord(node, bookings, drains_since=now if node.state is NodeState.DRAINING else None)


def _tokens_left(job: Job, now: float, profile: Profile) -> float:
    """Return what is left in a job's bucket: a snapshot tells how often it was preempted, not when."""
    bucket = profile.preempt_tokens
    if bucket is None:
        return 0.0
    age_h = max(0.0, now - job.submitted_at) / 3600.0
    return max(0.0, min(bucket.burst, bucket.burst + bucket.per_h * age_h - job.preemptions))


def tokens_at(record: JobRecord, now: float, profile: Profile) -> float:
    """Return the preemptions that a job's bucket allows at an instant."""
    bucket = profile.preempt_tokens
    if bucket is None:
        return float("inf")
    return min(bucket.burst, record.tokens + bucket.per_h * max(0.0, now - record.tokens_at) / 3600.0)
