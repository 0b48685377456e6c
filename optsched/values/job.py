"""Jobs: what one asks for, and where it stands."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from optsched.values.ids import GpuType, JobId, LevelName, NodeId, TeamId, UserId


class JobState(enum.Enum):
    """Where a job stands. A snapshot has queued and running jobs only; the engine tells all of them apart."""

    QUEUED = "queued"
    """Waits; holds no GPU."""
    STARTING = "starting"
    """Its GPUs are booked; not all of its tasks run yet."""
    RUNNING = "running"
    """Holds the GPUs of its placement."""
    PREEMPTING = "preempting"
    """Told to stop; holds its GPUs until its agents confirm that they are free."""
    COMPLETED = "completed"
    """All its tasks ended well."""
    FAILED = "failed"
    """Ended, and is not tried again."""
    CANCELLED = "cancelled"
    """Withdrawn."""

    __hash__ = object.__hash__
    """There is one object of each, and they are looked up at every step: by name that takes several times as long."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Each group of `gpus` GPUs of the gang lies inside one domain of level `within`."""

    gpus: int
    within: LevelName


@dataclass(frozen=True, slots=True)
class CheckpointTier:
    """One place where checkpoints are kept: `cost_s` blocks training, `upload_s` runs behind it."""

    tier: str
    cost_s: float = 0.0
    upload_s: float = 0.0
    survives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How a job checkpoints. Times in seconds, >= 0; `interval_s` None means chosen by the scheduler."""

    interval_s: float | None = None
    cost_s: float = 0.0
    restart_s: float = 0.0
    on_signal: bool = False
    elastic: bool = False
    tiers: tuple[CheckpointTier, ...] = ()


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a job is started again, by who is to blame for the failure."""

    infra: int = 20
    job: int = 2


Placement = Mapping[NodeId, "int | tuple[int, ...]"]
"""GPUs per node: a count where the indices are not known, else the sorted indices."""


def gpus_on(booked: int | tuple[int, ...]) -> int:
    """Return the number of GPUs of one entry of a placement."""
    return booked if isinstance(booked, int) else len(booked)


@dataclass(frozen=True, slots=True)
class Job:
    """One training job: a gang of `gpus` GPUs that starts whole or not at all.

    `cpus` and `memory_gb` are totals, spread evenly over the GPUs. `priority` is an integer (classes are resolved at
    the edge; `priority_class` keeps the name for display). `gpu_types` maps each allowed type to its relative speed
    (empty: any type at speed 1). `min_gpus`..`max_gpus` make it elastic; both equal `gpus` where it is not. Instants in
    seconds on the snapshot's clock.
    """

    id: JobId
    team: TeamId
    gpus: int
    priority: int = 0
    priority_class: str = ""
    user: UserId = UserId("")
    gpus_per_node: int | None = None
    gpus_per_task: int | None = None
    cpus: float = 0.0
    memory_gb: float = 0.0
    gpu_types: Mapping[GpuType, float] = field(default_factory=dict)
    required: LevelName | None = None
    preferred: LevelName | None = None
    slices: tuple[Slice, ...] = ()
    speed: Mapping[LevelName, float] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    exclude_nodes: frozenset[NodeId] = frozenset()
    preemptible: bool = True
    min_gpus: int = 0
    max_gpus: int = 0
    estimated_runtime_s: float | None = None
    start_deadline_at: float | None = None
    grace_period_s: float | None = None
    checkpoint: Checkpoint = Checkpoint()
    retries: Retries = Retries()
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    working_directory: str = ""
    submitted_at: float = 0.0
    state: JobState = JobState.QUEUED
    started_at: float | None = None
    last_checkpoint_at: float | None = None
    run: int = 0
    preemptions: int = 0
    placement: Placement = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.min_gpus:
            object.__setattr__(self, "min_gpus", self.gpus)
        if not self.max_gpus:
            object.__setattr__(self, "max_gpus", self.gpus)

    @property
    def elastic(self) -> bool:
        """Whether the job may run at more than one size."""
        return self.min_gpus < self.max_gpus

    @property
    def placed_gpus(self) -> int:
        """GPUs that it holds now."""
        return sum(gpus_on(booked) for booked in self.placement.values())
