"""The keys of a cluster, of teams, jobs and reservations, as a user writes them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from optsched.files.fields import (
    ID_RULE,
    Absent,
    Count,
    Cpus,
    Flag,
    GpuAmount,
    GpuIndex,
    Gpus,
    Id,
    Instant,
    MemoryGb,
    NodeGpus,
    Priority,
    RuntimeSeconds,
    Seconds,
    SecondsAboveZero,
    Speed,
    Strict,
    Text,
    Weight,
)

_IDS = f"a list of ids (each {ID_RULE})"
_LABELS = "a mapping of text to text"

Labels = Annotated[dict[Text, Text], Field(default_factory=dict, description=_LABELS)]
Ids = Annotated[list[Id], Field(default_factory=list, description=_IDS)]
State = Annotated[
    Literal["up", "draining", "cordoned", "suspect", "probing", "down"],
    Field(description="one of up, draining, cordoned, suspect, probing, down"),
]


class FabricIn(Strict):
    """How the GPUs inside a node are wired."""

    links: list[list[int | float | str]] = Field(
        default_factory=list,
        description="a list of [GPU index, GPU index, kind] or [GPU index, GPU index, kind, GB/s]",
    )
    islands: list[list[GpuIndex]] = Field(
        default_factory=list, description="a list of lists of GPU indices from 0 to 1,023"
    )
    nics: dict[GpuIndex | Annotated[str, Field(pattern=r"^[0-9]{1,4}$")], Id] = Field(
        default_factory=dict, description="a mapping of GPU indices to names of rails"
    )


class NodeIn(Strict):
    """One machine."""

    id: Id
    gpus: NodeGpus
    domains: dict[Id, Id] = Field(
        default_factory=dict,
        description=f"a mapping of each level to one domain (each {ID_RULE}; quote a name that is a number)",
    )
    gpu_type: Absent[Id] = None
    fabric: Absent[Id] = None
    cpus: Absent[Cpus] = None
    cpus_reserved: Cpus = 0.0
    memory_gb: Absent[MemoryGb] = None
    gpus_bad: list[GpuIndex] = Field(
        default_factory=list, description="a list of GPU indices of this node, counted from 0"
    )
    labels: Labels
    spare: Flag = False
    state: State = "up"
    reason: Text = ""


Children = Annotated[int, Field(ge=0, le=100_000)]


class GroupIn(Strict):
    """Many equal nodes: children per domain for each level, widest first, and what each node is like."""

    prefix: Annotated[
        str,
        Field(max_length=100, pattern=r"^([A-Za-z0-9][A-Za-z0-9._:@+-]*)?$", description="the start of an id, or ''"),
    ] = ""
    counts: dict[Id, Children | Annotated[list[Children], Field(min_length=1, max_length=10000)]] = Field(
        description="a mapping of levels, and node, to a count of 0 to 100,000 or a list of counts, used in turn"
    )
    gpus: NodeGpus
    gpu_type: Absent[Id] = None
    fabric: Absent[Id] = None
    cpus: Absent[Cpus] = None
    cpus_reserved: Cpus = 0.0
    memory_gb: Absent[MemoryGb] = None
    labels: Labels
    spare: Flag = False


class ClusterIn(Strict):
    """The parts of a cluster; its nodes, groups and fabrics are checked one by one."""

    name: Absent[Text] = None
    about: object = None
    source: object = None
    levels: list[Id] = Field(
        default_factory=list, max_length=16, description=f"a list of at most 16 levels, widest first ({ID_RULE})"
    )
    fabrics: object = None
    nodes: object = None
    groups: object = None


class AmountsIn(Strict):
    """What a quota or a limit names."""

    gpus: Absent[
        Annotated[
            GpuAmount | dict[Id, GpuAmount],
            Field(description="a whole number of GPUs from 0 to 1,000,000,000, or such a number by GPU type"),
        ]
    ] = None
    cpus: Absent[Cpus] = None
    memory_gb: Absent[MemoryGb] = None


class TeamIn(Strict):
    """One team of the tree."""

    id: Id
    parent: Absent[Id] = None
    weight: Weight = 1.0
    quota: Absent[AmountsIn] = None
    limit: Absent[AmountsIn] = None
    max_priority: Absent[Priority] = None
    max_deadline_gpus: GpuAmount = 0
    user_limit: Absent[AmountsIn] = None


class TopologyIn(Strict):
    """Where the whole gang must, or should, lie together. Levels are checked against the cluster."""

    required: Absent[Text] = None
    preferred: Absent[Text] = None


class SliceIn(Strict):
    """A part of the gang that must lie together."""

    gpus: Gpus
    within: Text


class TierIn(Strict):
    """A place where checkpoints are kept."""

    tier: Id
    cost_s: Seconds = 0.0
    upload_s: Seconds = 0.0
    survives: Ids


class CheckpointIn(Strict):
    """How a job checkpoints."""

    interval_s: Annotated[
        SecondsAboveZero | Literal["auto"],
        Field(description="a number of seconds above 0, at most 1e10, or 'auto'"),
    ] = "auto"
    cost_s: Seconds = 0.0
    restart_s: Seconds = 0.0
    on_signal: Flag = False
    elastic: Flag = False
    tiers: list[TierIn] = Field(
        default_factory=list, max_length=16, description="a list of at most 16 checkpoint tiers"
    )


class RetriesIn(Strict):
    """How often a job is started again, by who is to blame."""

    infra: Count = 20
    job: Count = 2


Booked = Annotated[int, Field(ge=1, le=1024)] | Annotated[list[GpuIndex], Field(min_length=1, max_length=1024)]


class JobIn(Strict):
    """One job."""

    id: Id
    team: Id
    gpus: Gpus
    user: Absent[Id] = None
    priority: Priority = 0
    gpus_per_node: Absent[Gpus] = None
    gpus_per_task: Absent[Gpus] = None
    cpus: Cpus = 0.0
    memory_gb: MemoryGb = 0.0
    gpu_types: Annotated[
        list[Id] | dict[Id, Speed],
        Field(description="a list of GPU types, or a mapping of GPU types to speeds above 0, at most 100"),
    ] = Field(default_factory=list)
    topology: Absent[TopologyIn] = None
    slices: list[SliceIn] = Field(
        default_factory=list, max_length=3, description="a list of at most 3 slices, the widest first"
    )
    speed: dict[Text, Speed] = Field(
        default_factory=dict, description="a mapping of levels to speeds above 0, at most 100"
    )
    node_selector: Labels
    exclude_nodes: Ids
    preemptible: Flag = True
    min_gpus: Absent[Gpus] = None
    max_gpus: Absent[Gpus] = None
    estimated_runtime_s: Absent[RuntimeSeconds] = None
    start_deadline_at: Absent[Instant] = None
    grace_period_s: Absent[Seconds] = None
    checkpoint: Absent[CheckpointIn] = None
    retries: Absent[RetriesIn] = None
    command: list[Text] = Field(
        default_factory=list, max_length=10_000, description="a list of texts: a program and its arguments"
    )
    environment: Labels
    working_directory: Text = ""
    submitted_at: Absent[Instant] = None
    state: Annotated[Literal["queued", "running"], Field(description="queued or running")] = "queued"
    started_at: Absent[Instant] = None
    last_checkpoint_at: Absent[Instant] = None
    run: Count = 0
    preemptions: Count = 0
    placement: dict[Id, Booked] = Field(
        default_factory=dict,
        description="a mapping of nodes to a number of GPUs from 1 to 1,024, or to a list of GPU indices",
    )


class ReservationIn(Strict):
    """An operator's reservation."""

    id: Id
    start_at: Instant
    end_at: Instant
    kind: Annotated[Literal["maintenance", "grant"], Field(description="maintenance or grant")] = "maintenance"
    nodes: Ids
    gpus: Absent[Gpus] = None
    within: Absent[Text] = None
    teams: Ids
    jobs: Ids
