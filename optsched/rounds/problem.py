"""One scheduling round as data: integers and arrays, nothing of files, clocks or solvers.

Index letters used throughout `rounds` and `solve`:

    n  node          0..N-1, in the snapshot's order
    j  job           0..J-1: first every running job, then every queued job in queue order
    t  team          0..T-1: the snapshot's teams, then one per grant to named jobs, then one for near deadlines
    p  priority      0..P-1, largest priority first
    y  GPU type      0..Y-1
    l  level         0..L-1, widest first; "node" is L-1

Amounts: GPUs are whole numbers; CPUs and memory are millionths (`*_u`); costs are whole GPU-seconds, rounded once,
here.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from optsched.rounds.lists import Membership, OnDemand
from optsched.topology.tree import Tree
from optsched.values.ids import JobId
from optsched.values.job import Job
from optsched.values.profile import Profile
from optsched.values.snapshot import Snapshot

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Reals = NDArray[np.float64]

UNLIMITED = 1 << 50
"""Stands for "no bound" in integer arrays; far above any real amount, far below overflow."""

MICRO = 1_000_000
"""Millionths per CPU and per GB."""

Spread = tuple[tuple[int, int], ...]
"""A placement inside a round: (node, GPUs) pairs, sorted by node."""


class Cut(enum.Enum):
    """How a gang's GPUs are cut over nodes."""

    PER_NODE = "per_node"
    """Exactly `unit` GPUs on each node used."""
    PER_TASK = "per_task"
    """Multiples of `unit` GPUs on a node."""
    ONE_NODE = "one_node"
    """All GPUs on one node."""
    WHOLE_NODES = "whole_nodes"
    """All healthy GPUs of each node used."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """Arrays over nodes, shape (N,): what each has and what is free of it.

    `taking` marks nodes that take new work. `free` is never negative, also where more is booked than a node has.
    """

    capacity: Ints
    free: Ints
    taking: Flags
    gpu_type: Ints
    cpus_u: Ints
    cpus_free_u: Ints
    memory_u: Ints
    memory_free_u: Ints


@dataclass(frozen=True, slots=True)
class Costs:
    """Whole GPU-seconds: what it costs to stop the job, and to move or resize it; seconds until its GPUs are free."""

    stop: int
    move: int
    drain_s: int


@dataclass(frozen=True, slots=True)
class RoundJob:
    """One job of the round.

    `team` is its real team. `claim_team` is the one whose quota and entitlement it stands on (a grant's, where one
    names it); `line_team` the one in whose line its GPUs are ranked (differs from it for near deadlines). `sizes` are
    the GPU counts that it may have, ascending; `slices` pairs of (GPUs, level), outermost first. `nodes` flags the
    nodes that it may be put on now, `lawful` those that suit it whatever their state, shape (N,), shared by all jobs
    alike. `type_speed` is its relative speed by GPU type (0 where not allowed), `span_speed` by level, then for the
    whole cluster, shape (L+1,). `movable`, `stoppable` and `resizable` are its own properties; who has a right over it
    is another question; `light` tells that a move costs it little. `starved` marks a queued job that
    insists on a domain and has waited so long that others make way who else would not. `due` marks a deadline that must
    be met now. `pays_gpu_s` is the lost work that its start may
    cause (UNLIMITED where it need not pay); `aging_milli` what its wait adds to its w in the weighted mode, in
    thousandths; `ahead_of` the number of queued jobs behind it, plus one.
    """

    job: Job
    index: int
    running: bool
    team: int
    claim_team: int
    line_team: int
    priority: int
    cut: Cut
    unit: int
    sizes: tuple[int, ...]
    size_now: int
    spread_now: Spread
    nodes: Flags
    lawful: Flags
    type_speed: tuple[float, ...]
    span_speed: tuple[float, ...]
    required: int | None
    preferred: int | None
    preferred_fewest: int
    slices: tuple[tuple[int, int], ...]
    cpus_per_gpu_u: int
    memory_per_gpu_u: int
    stoppable: bool
    movable: bool
    resizable: bool
    light: bool
    starved: bool
    costs: Costs
    pays_gpu_s: int
    emergency: bool
    due: bool
    may_break_quota: bool
    can_ever_run: bool
    aging_milli: int
    ahead_of: int
    tier: int

    @property
    def minimum(self) -> int:
        """The smallest size at which it may run."""
        return self.sizes[0]

    @property
    def maximum(self) -> int:
        """The largest size at which it may run."""
        return self.sizes[-1]

    @property
    def elastic(self) -> bool:
        """Whether it may run at more than one size."""
        return len(self.sizes) > 1


@dataclass(frozen=True, slots=True)
class Occupancy:
    """The running jobs as arrays, for sums over all of them: what `RoundJob` says of each.

    Shape (F,), by job: `team` is the one on whose quota it stands, in whose line its GPUs are ranked, `real_team` its
    own; `minimum` and `size` are GPUs, `gpu_type` that of its first node, `cpus_u` and `memory_u` millionths for
    each GPU. `stop_gpu_s` is what its stop or move costs, `ends_at` the instant at which it is estimated to end
    (infinity: not known), `moved_ends_at` the same where it is moved or resized now and what that loses is done again,
    `began_at` that of its start; `light` are those that lose little by it, `protected`
    those that the snapshot protects. Shape (Q,), by pair of a job and a node on which it holds GPUs, in order of
    the jobs, then of the nodes: `pair_job`, `pair_node`, `pair_gpus`. `used` is what all of them use together, as in
    `line.Use`.
    """

    team: Ints
    priority: Ints
    minimum: Ints
    size: Ints
    gpu_type: Ints
    cpus_u: Ints
    memory_u: Ints
    pair_job: Ints
    pair_node: Ints
    pair_gpus: Ints
    real_team: Ints
    tier: Ints
    stop_gpu_s: Ints
    ends_at: Reals
    moved_ends_at: Reals
    began_at: Reals
    preemptible: Flags
    protected: Flags
    stoppable: Flags
    movable: Flags
    light: Flags
    elastic: Flags
    resizable: Flags
    used: tuple[Ints, Ints, Ints]

    @property
    def columns(self) -> tuple[Ints, ...]:
        """The arrays over jobs, in the order in which they are listed here."""
        return self.team, self.priority, self.minimum, self.size, self.gpu_type, self.cpus_u, self.memory_u


class What(enum.Enum):
    """A resource that a line or a ceiling counts."""

    GPUS = "gpus"
    CPUS = "cpus"
    MEMORY = "memory_gb"


@dataclass(frozen=True, slots=True)
class Item:
    """One resource that a quota, an entitlement or a limit names: GPUs of one type (None: of any), or millionths."""

    what: What
    gpu_type: int | None
    amount: int


@dataclass(frozen=True, slots=True)
class Lines:
    """Quota and entitlement of every team.

    For the tiers: `quota_any` (T,) guaranteed GPUs of any type, 0 where the quota counts by type; `quota_by_type` (T,
    Y) guaranteed GPUs of each type where it does (`typed` (T,) says which); `fair_by_type` (T, Y) GPUs of each type
    above the quota and inside the entitlement. For the rights: `quota[t]` and `entitlement[t]` name every resource that
    counts.
    """

    typed: Flags
    quota_any: Ints
    quota_by_type: Ints
    fair_by_type: Ints
    quota: tuple[tuple[Item, ...], ...]
    entitlement: tuple[tuple[Item, ...], ...]


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A hard bound on what `jobs` hold in all of one resource; `held` is what those that run hold of it now.

    `kind` is "limit", "user_limit", "quota" (of non-preemptible work) or "deadline_gpus"; `target` the team or user it
    belongs to. A ceiling that is exceeded already asks nobody to stop: it only keeps its jobs from starting and
    growing.
    """

    kind: str
    target: str
    item: Item
    jobs: tuple[int, ...]
    held: int


@dataclass(frozen=True, slots=True)
class Hold:
    """GPUs kept for a reservation: {node: GPUs}, binding `binds` unless the job `unless` starts in this round.

    `until_s` is how long from now the GPUs stay idle if nobody may use them, at most the horizon.
    """

    name: str
    unless: int | None
    gpus: Mapping[int, int]
    binds: frozenset[int]
    until_s: int


@dataclass(frozen=True, slots=True)
class DomainHold:
    """A grant: `gpus` inside `nodes` are kept for `grantees`, so that the jobs in `binds` must leave that much."""

    name: str
    nodes: tuple[int, ...]
    gpus: int
    grantees: frozenset[int]
    binds: frozenset[int]


@dataclass(frozen=True, slots=True)
class Takeable:
    """Which of a running job's GPUs other teams may claim, by part: (its minimum, what is above it)."""

    above_quota: tuple[bool, bool]
    above_entitlement: tuple[bool, bool]
    inside_quota: bool


class Takeables(Sequence[Takeable]):
    """What other teams may claim of each of `count` running jobs: worked out by `find` when it is first asked for.

    Many are alike, so it returns kinds and, by job, which one. Where nobody is short of room nobody asks. `known` is
    what a solver has found out of those that run, by what it is called: the same round is planned more than once.
    """

    def __init__(self, count: int, find: Callable[[], tuple[Sequence[Takeable], Ints]]) -> None:
        self._count = count
        self._find = find
        self.known: dict[str, object] = {}

    @cached_property
    def _found(self) -> tuple[Sequence[Takeable], Ints, list[int]]:
        kinds, kind_of = self._find()
        return kinds, kind_of, kind_of.tolist()

    @overload
    def __getitem__(self, index: int) -> Takeable: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Takeable]: ...
    def __getitem__(self, index: int | slice) -> Takeable | Sequence[Takeable]:
        kinds, _, listed = self._found
        if isinstance(index, slice):
            return [kinds[kind] for kind in listed[index]]
        return kinds[listed[index]]

    def __len__(self) -> int:
        return self._count

    @property
    def inside_quota(self) -> Flags:
        """`Takeable.inside_quota` of each job, (F,)."""
        kinds, kind_of, _ = self._found
        return np.array([each.inside_quota for each in kinds], dtype=bool)[kind_of]

    @property
    def above_quota(self) -> Flags:
        """`Takeable.above_quota` by part and job, (2, F)."""
        kinds, kind_of, _ = self._found
        return np.array([each.above_quota for each in kinds], dtype=bool).reshape(-1, 2).T[:, kind_of]

    @property
    def above_entitlement(self) -> Flags:
        """`Takeable.above_entitlement` by part and job, (2, F)."""
        kinds, kind_of, _ = self._found
        return np.array([each.above_entitlement for each in kinds], dtype=bool).reshape(-1, 2).T[:, kind_of]


@dataclass(frozen=True, slots=True)
class Problem:
    """Everything that a solver, the checker and the score need of one round.

    `jobs` are made when they are first asked for: most of those that run nobody asks for. `ceilings_of` gives, by job,
    the ceilings that count it. `loss_now` is the placement loss of each running job where it is. `domain_price` (by
    level) is what it costs to break up an empty domain; `domain_gpus[l]` are the GPUs of each domain,
    `empty_domains[l]` flags those that are wholly free and open.
    """

    snapshot: Snapshot
    profile: Profile
    tree: Tree
    gpu_types: tuple[str, ...]
    priorities: tuple[int, ...]
    priority_names: tuple[str, ...]
    team_names: tuple[str, ...]
    real_teams: int
    deadline_team: int
    nodes: Nodes
    jobs: OnDemand[RoundJob]
    first_queued: int
    running_ids: tuple[JobId, ...]
    occupancy: Occupancy
    lines: Lines
    takeable: Takeables
    ceilings: tuple[Ceiling, ...]
    ceilings_of: Membership
    holds: tuple[Hold, ...]
    domain_holds: tuple[DomainHold, ...]
    loss_now: tuple[int, ...]
    domain_price: tuple[int, ...]
    domain_gpus: tuple[Ints, ...]
    empty_domains: tuple[Flags, ...]
    row_weight_milli: Ints
    horizon_s: int
    healthy_gpus: int
    max_stopped_gpus: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """How many teams, priorities and GPU types there are: (T, P, Y)."""
        return len(self.team_names), len(self.priorities), len(self.gpu_types)

    @property
    def running(self) -> tuple[RoundJob, ...]:
        """The running jobs."""
        return self.jobs[: self.first_queued]

    def running_named(self, names: Set[JobId]) -> list[RoundJob]:
        """Return the running jobs with these ids."""
        return [self.jobs[j] for j, name in enumerate(self.running_ids) if name in names]

    @property
    def queued(self) -> tuple[RoundJob, ...]:
        """The queued jobs, in queue order."""
        return self.jobs[self.first_queued :]
