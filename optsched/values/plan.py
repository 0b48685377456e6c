"""What a round decides: a plan, its bill and its bound, and why every job that waits does so."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from optsched.values.ids import JobId, NodeId
from optsched.values.job import Placement


class Tier(enum.Enum):
    """Which claim a GPU that runs stands on, most protected first."""

    DEADLINE = "deadline"
    """A start deadline so near that the job stands above its tier."""
    GUARANTEED = "guaranteed"
    """Inside the team's quota, or an operator's grant."""
    FAIR = "fair"
    """Above the quota, inside the team's entitlement."""
    OPPORTUNISTIC = "opportunistic"
    """Fills what is idle; the first to go."""


@dataclass(frozen=True, slots=True)
class RankResult:
    """GPUs that run at one rank, and what no plan can exceed there with the higher ranks as they are.

    `above_minimum` marks the GPUs that elastic jobs have above their minimum, which rank below every minimum.
    `gpus_bound` is None while a higher rank is open.
    """

    tier: Tier
    priority: str
    above_minimum: bool
    gpus: int
    gpus_bound: int | None


@dataclass(frozen=True, slots=True)
class TaskPlacement:
    """One task of a gang: its rank, its node, its GPU indices (or their number) and its slice at each depth."""

    rank: int
    node: NodeId
    gpus: int | tuple[int, ...]
    slice: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Start:
    """A queued job that starts, once the jobs in `waits_for` are gone."""

    job: JobId
    placement: Placement
    span: str
    waits_for: tuple[JobId, ...] = ()
    tasks: tuple[TaskPlacement, ...] = ()


@dataclass(frozen=True, slots=True)
class Preemption:
    """A running job that is stopped for its beneficiaries; cost in GPU-seconds."""

    job: JobId
    beneficiaries: tuple[JobId, ...]
    cost_gpu_s: float
    lost_work_s: float
    grace_s: float


@dataclass(frozen=True, slots=True)
class Move:
    """A running job that goes on elsewhere (migration) or at another size (resize); cost in GPU-seconds."""

    job: JobId
    placement: Placement
    beneficiaries: tuple[JobId, ...]
    cost_gpu_s: float


@dataclass(frozen=True, slots=True)
class ReservedRoom:
    """Room that is planned for a blocked gang; `start_estimate_at` None while its start cannot be estimated.

    `nodes` are those on which anything is held, `planned` the GPUs that it will use, by node. `guests` are the jobs
    that this plan lets into what is held on condition that the gang may stop them.
    """

    job: JobId
    domain: str
    nodes: tuple[NodeId, ...]
    start_estimate_at: float | None
    guests: tuple[JobId, ...] = ()
    planned: Mapping[NodeId, int] = field(default_factory=dict)


class UnblockKind(enum.Enum):
    """What would let a queued job start."""

    FREE = "free"
    UNCORDON = "uncordon"
    RAISE_QUOTA = "raise_quota"
    RAISE_LIMIT = "raise_limit"
    SET_FIELD = "set_field"
    WAIT_UNTIL = "wait_until"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Unblock:
    """Advice as data: applying it and planning again starts the job."""

    kind: UnblockKind
    target: str
    value: float | str | None
    text: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that stays queued, the reason as a word and as a sentence, and what would help."""

    job: JobId
    reason: str
    detail: str
    unblock: Unblock | None = None


@dataclass(frozen=True, slots=True)
class Bill:
    """What a plan is worth and what it costs, all in GPU-seconds; `bound`: no plan of these ranks has a lower total."""

    run_value: float = 0.0
    placement_loss: float = 0.0
    preemption_cost: float = 0.0
    migration_cost: float = 0.0
    resize_cost: float = 0.0
    hold_cost: float = 0.0
    domain_cost: float = 0.0
    bound: float | None = None

    @property
    def total(self) -> float:
        """The sum of the costs, without the run value."""
        return (
            self.placement_loss
            + self.preemption_cost
            + self.migration_cost
            + self.resize_cost
            + self.hold_cost
            + self.domain_cost
        )


class Source(enum.Enum):
    """Which solver's plan went out."""

    CP_SAT = "cp_sat"
    GREEDY = "greedy"
    NO_CHANGE = "no_change"


class Status(enum.Enum):
    """How much was proven about the plan."""

    OPTIMAL = "optimal"
    """No better plan exists in this model of this snapshot."""
    FEASIBLE = "feasible"
    """Checked; the gap says how far from the best it can at most be."""


@dataclass(frozen=True, slots=True)
class RoundInfo:
    """How a round was solved. Gaps are fractions >= 0, None where no bound is known; times in seconds."""

    source: Source
    status: Status
    gap: float | None
    gap_gpus: int | None
    wall_s: float
    deterministic_s: float
    considered: int
    queued: int
    ranks: tuple[RankResult, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer of a round. `settled`: once it is in force, another round at the same instant could do nothing."""

    round: RoundInfo
    starts: tuple[Start, ...] = ()
    preemptions: tuple[Preemption, ...] = ()
    migrations: tuple[Move, ...] = ()
    resizes: tuple[Move, ...] = ()
    reservations: tuple[ReservedRoom, ...] = ()
    queued: tuple[Waiting, ...] = ()
    bill: Bill = Bill()
    warnings: tuple[str, ...] = field(default=())
    settled: bool = False
