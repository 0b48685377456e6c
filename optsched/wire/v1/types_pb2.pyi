from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_STATE_UNSPECIFIED: _ClassVar[JobState]
    JOB_STATE_QUEUED: _ClassVar[JobState]
    JOB_STATE_STARTING: _ClassVar[JobState]
    JOB_STATE_RUNNING: _ClassVar[JobState]
    JOB_STATE_PREEMPTING: _ClassVar[JobState]
    JOB_STATE_COMPLETED: _ClassVar[JobState]
    JOB_STATE_FAILED: _ClassVar[JobState]
    JOB_STATE_CANCELLED: _ClassVar[JobState]

class NodeState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NODE_STATE_UNSPECIFIED: _ClassVar[NodeState]
    NODE_STATE_UP: _ClassVar[NodeState]
    NODE_STATE_DRAINING: _ClassVar[NodeState]
    NODE_STATE_CORDONED: _ClassVar[NodeState]
    NODE_STATE_SUSPECT: _ClassVar[NodeState]
    NODE_STATE_PROBING: _ClassVar[NodeState]
    NODE_STATE_DOWN: _ClassVar[NodeState]

class Tier(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TIER_UNSPECIFIED: _ClassVar[Tier]
    TIER_DEADLINE: _ClassVar[Tier]
    TIER_GUARANTEED: _ClassVar[Tier]
    TIER_FAIR: _ClassVar[Tier]
    TIER_OPPORTUNISTIC: _ClassVar[Tier]

class Source(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SOURCE_UNSPECIFIED: _ClassVar[Source]
    SOURCE_CP_SAT: _ClassVar[Source]
    SOURCE_GREEDY: _ClassVar[Source]
    SOURCE_NO_CHANGE: _ClassVar[Source]

class PlanStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PLAN_STATUS_UNSPECIFIED: _ClassVar[PlanStatus]
    PLAN_STATUS_OPTIMAL: _ClassVar[PlanStatus]
    PLAN_STATUS_FEASIBLE: _ClassVar[PlanStatus]

class UnblockKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNBLOCK_KIND_UNSPECIFIED: _ClassVar[UnblockKind]
    UNBLOCK_KIND_FREE: _ClassVar[UnblockKind]
    UNBLOCK_KIND_UNCORDON: _ClassVar[UnblockKind]
    UNBLOCK_KIND_RAISE_QUOTA: _ClassVar[UnblockKind]
    UNBLOCK_KIND_RAISE_LIMIT: _ClassVar[UnblockKind]
    UNBLOCK_KIND_SET_FIELD: _ClassVar[UnblockKind]
    UNBLOCK_KIND_WAIT_UNTIL: _ClassVar[UnblockKind]
    UNBLOCK_KIND_NEVER: _ClassVar[UnblockKind]

class ReservationKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESERVATION_KIND_UNSPECIFIED: _ClassVar[ReservationKind]
    RESERVATION_KIND_MAINTENANCE: _ClassVar[ReservationKind]
    RESERVATION_KIND_GRANT: _ClassVar[ReservationKind]

class DependencyCondition(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEPENDENCY_CONDITION_UNSPECIFIED: _ClassVar[DependencyCondition]
    DEPENDENCY_CONDITION_COMPLETED: _ClassVar[DependencyCondition]
    DEPENDENCY_CONDITION_ENDED: _ClassVar[DependencyCondition]
    DEPENDENCY_CONDITION_STARTED: _ClassVar[DependencyCondition]
JOB_STATE_UNSPECIFIED: JobState
JOB_STATE_QUEUED: JobState
JOB_STATE_STARTING: JobState
JOB_STATE_RUNNING: JobState
JOB_STATE_PREEMPTING: JobState
JOB_STATE_COMPLETED: JobState
JOB_STATE_FAILED: JobState
JOB_STATE_CANCELLED: JobState
NODE_STATE_UNSPECIFIED: NodeState
NODE_STATE_UP: NodeState
NODE_STATE_DRAINING: NodeState
NODE_STATE_CORDONED: NodeState
NODE_STATE_SUSPECT: NodeState
NODE_STATE_PROBING: NodeState
NODE_STATE_DOWN: NodeState
TIER_UNSPECIFIED: Tier
TIER_DEADLINE: Tier
TIER_GUARANTEED: Tier
TIER_FAIR: Tier
TIER_OPPORTUNISTIC: Tier
SOURCE_UNSPECIFIED: Source
SOURCE_CP_SAT: Source
SOURCE_GREEDY: Source
SOURCE_NO_CHANGE: Source
PLAN_STATUS_UNSPECIFIED: PlanStatus
PLAN_STATUS_OPTIMAL: PlanStatus
PLAN_STATUS_FEASIBLE: PlanStatus
UNBLOCK_KIND_UNSPECIFIED: UnblockKind
UNBLOCK_KIND_FREE: UnblockKind
UNBLOCK_KIND_UNCORDON: UnblockKind
UNBLOCK_KIND_RAISE_QUOTA: UnblockKind
UNBLOCK_KIND_RAISE_LIMIT: UnblockKind
UNBLOCK_KIND_SET_FIELD: UnblockKind
UNBLOCK_KIND_WAIT_UNTIL: UnblockKind
UNBLOCK_KIND_NEVER: UnblockKind
RESERVATION_KIND_UNSPECIFIED: ReservationKind
RESERVATION_KIND_MAINTENANCE: ReservationKind
RESERVATION_KIND_GRANT: ReservationKind
DEPENDENCY_CONDITION_UNSPECIFIED: DependencyCondition
DEPENDENCY_CONDITION_COMPLETED: DependencyCondition
DEPENDENCY_CONDITION_ENDED: DependencyCondition
DEPENDENCY_CONDITION_STARTED: DependencyCondition

class JobSpec(_message.Message):
    __slots__ = ("id", "team", "user", "gpus", "priority", "priority_class", "gpus_per_node", "gpus_per_task", "cpus", "memory_gb", "gpu_types", "topology", "slices", "speed", "node_selector", "exclude_nodes", "preemptible", "min_gpus", "max_gpus", "estimated_runtime_s", "start_deadline_at", "grace_period_s", "checkpoint", "retries", "command", "environment", "working_directory", "topology_hint", "after", "hold")
    class GpuTypesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class SpeedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class NodeSelectorEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    TEAM_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_CLASS_FIELD_NUMBER: _ClassVar[int]
    GPUS_PER_NODE_FIELD_NUMBER: _ClassVar[int]
    GPUS_PER_TASK_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_GB_FIELD_NUMBER: _ClassVar[int]
    GPU_TYPES_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
    SLICES_FIELD_NUMBER: _ClassVar[int]
    SPEED_FIELD_NUMBER: _ClassVar[int]
    NODE_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_NODES_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIBLE_FIELD_NUMBER: _ClassVar[int]
    MIN_GPUS_FIELD_NUMBER: _ClassVar[int]
    MAX_GPUS_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_RUNTIME_S_FIELD_NUMBER: _ClassVar[int]
    START_DEADLINE_AT_FIELD_NUMBER: _ClassVar[int]
    GRACE_PERIOD_S_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_HINT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    id: str
    team: str
    user: str
    gpus: int
    priority: int
    priority_class: str
    gpus_per_node: int
    gpus_per_task: int
    cpus: float
    memory_gb: float
    gpu_types: _containers.ScalarMap[str, float]
    topology: Topology
    slices: _containers.RepeatedCompositeFieldContainer[Slice]
    speed: _containers.ScalarMap[str, float]
    node_selector: _containers.ScalarMap[str, str]
    exclude_nodes: _containers.RepeatedScalarFieldContainer[str]
    preemptible: bool
    min_gpus: int
    max_gpus: int
    estimated_runtime_s: float
    start_deadline_at: float
    grace_period_s: float
    checkpoint: CheckpointConfig
    retries: RetryBudget
    command: _containers.RepeatedScalarFieldContainer[str]
    environment: _containers.ScalarMap[str, str]
    working_directory: str
    topology_hint: str
    after: _containers.RepeatedCompositeFieldContainer[Dependency]
    hold: bool
    def __init__(self, id: _Optional[str] = ..., team: _Optional[str] = ..., user: _Optional[str] = ..., gpus: _Optional[int] = ..., priority: _Optional[int] = ..., priority_class: _Optional[str] = ..., gpus_per_node: _Optional[int] = ..., gpus_per_task: _Optional[int] = ..., cpus: _Optional[float] = ..., memory_gb: _Optional[float] = ..., gpu_types: _Optional[_Mapping[str, float]] = ..., topology: _Optional[_Union[Topology, _Mapping]] = ..., slices: _Optional[_Iterable[_Union[Slice, _Mapping]]] = ..., speed: _Optional[_Mapping[str, float]] = ..., node_selector: _Optional[_Mapping[str, str]] = ..., exclude_nodes: _Optional[_Iterable[str]] = ..., preemptible: _Optional[bool] = ..., min_gpus: _Optional[int] = ..., max_gpus: _Optional[int] = ..., estimated_runtime_s: _Optional[float] = ..., start_deadline_at: _Optional[float] = ..., grace_period_s: _Optional[float] = ..., checkpoint: _Optional[_Union[CheckpointConfig, _Mapping]] = ..., retries: _Optional[_Union[RetryBudget, _Mapping]] = ..., command: _Optional[_Iterable[str]] = ..., environment: _Optional[_Mapping[str, str]] = ..., working_directory: _Optional[str] = ..., topology_hint: _Optional[str] = ..., after: _Optional[_Iterable[_Union[Dependency, _Mapping]]] = ..., hold: _Optional[bool] = ...) -> None: ...

class Topology(_message.Message):
    __slots__ = ("required", "preferred")
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_FIELD_NUMBER: _ClassVar[int]
    required: str
    preferred: str
    def __init__(self, required: _Optional[str] = ..., preferred: _Optional[str] = ...) -> None: ...

class Slice(_message.Message):
    __slots__ = ("gpus", "within")
    GPUS_FIELD_NUMBER: _ClassVar[int]
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    gpus: int
    within: str
    def __init__(self, gpus: _Optional[int] = ..., within: _Optional[str] = ...) -> None: ...

class CheckpointConfig(_message.Message):
    __slots__ = ("interval_s", "cost_s", "restart_s", "on_signal", "elastic", "tiers")
    INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    COST_S_FIELD_NUMBER: _ClassVar[int]
    RESTART_S_FIELD_NUMBER: _ClassVar[int]
    ON_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    ELASTIC_FIELD_NUMBER: _ClassVar[int]
    TIERS_FIELD_NUMBER: _ClassVar[int]
    interval_s: float
    cost_s: float
    restart_s: float
    on_signal: bool
    elastic: bool
    tiers: _containers.RepeatedCompositeFieldContainer[CheckpointTier]
    def __init__(self, interval_s: _Optional[float] = ..., cost_s: _Optional[float] = ..., restart_s: _Optional[float] = ..., on_signal: _Optional[bool] = ..., elastic: _Optional[bool] = ..., tiers: _Optional[_Iterable[_Union[CheckpointTier, _Mapping]]] = ...) -> None: ...

class CheckpointTier(_message.Message):
    __slots__ = ("tier", "cost_s", "upload_s", "survives")
    TIER_FIELD_NUMBER: _ClassVar[int]
    COST_S_FIELD_NUMBER: _ClassVar[int]
    UPLOAD_S_FIELD_NUMBER: _ClassVar[int]
    SURVIVES_FIELD_NUMBER: _ClassVar[int]
    tier: str
    cost_s: float
    upload_s: float
    survives: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tier: _Optional[str] = ..., cost_s: _Optional[float] = ..., upload_s: _Optional[float] = ..., survives: _Optional[_Iterable[str]] = ...) -> None: ...

class RetryBudget(_message.Message):
    __slots__ = ("infra", "job")
    INFRA_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    infra: int
    job: int
    def __init__(self, infra: _Optional[int] = ..., job: _Optional[int] = ...) -> None: ...

class Dependency(_message.Message):
    __slots__ = ("job", "condition")
    JOB_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    job: str
    condition: DependencyCondition
    def __init__(self, job: _Optional[str] = ..., condition: _Optional[_Union[DependencyCondition, str]] = ...) -> None: ...

class NodePlacement(_message.Message):
    __slots__ = ("node", "gpus", "gpu_indices")
    NODE_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_INDICES_FIELD_NUMBER: _ClassVar[int]
    node: str
    gpus: int
    gpu_indices: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, node: _Optional[str] = ..., gpus: _Optional[int] = ..., gpu_indices: _Optional[_Iterable[int]] = ...) -> None: ...

class SavedCheckpoint(_message.Message):
    __slots__ = ("version", "taken_at", "safe_at", "failures")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TAKEN_AT_FIELD_NUMBER: _ClassVar[int]
    SAFE_AT_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    version: str
    taken_at: float
    safe_at: float
    failures: int
    def __init__(self, version: _Optional[str] = ..., taken_at: _Optional[float] = ..., safe_at: _Optional[float] = ..., failures: _Optional[int] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("id", "state", "spec", "team", "user", "gang_size", "priority", "priority_class", "run", "placement", "claim", "submitted_at", "started_at", "last_checkpoint", "checkpoints", "reason", "blocked_by", "preemptions", "migrations", "infra_failures", "job_failures", "kill_at", "not_before", "start_estimate_at", "held", "array", "array_index")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    TEAM_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    GANG_SIZE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_CLASS_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_BY_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    MIGRATIONS_FIELD_NUMBER: _ClassVar[int]
    INFRA_FAILURES_FIELD_NUMBER: _ClassVar[int]
    JOB_FAILURES_FIELD_NUMBER: _ClassVar[int]
    KILL_AT_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    START_ESTIMATE_AT_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    ARRAY_INDEX_FIELD_NUMBER: _ClassVar[int]
    id: str
    state: JobState
    spec: JobSpec
    team: str
    user: str
    gang_size: int
    priority: int
    priority_class: str
    run: int
    placement: _containers.RepeatedCompositeFieldContainer[NodePlacement]
    claim: _containers.RepeatedCompositeFieldContainer[NodePlacement]
    submitted_at: float
    started_at: float
    last_checkpoint: float
    checkpoints: _containers.RepeatedCompositeFieldContainer[SavedCheckpoint]
    reason: str
    blocked_by: str
    preemptions: int
    migrations: int
    infra_failures: int
    job_failures: int
    kill_at: float
    not_before: float
    start_estimate_at: float
    held: bool
    array: str
    array_index: int
    def __init__(self, id: _Optional[str] = ..., state: _Optional[_Union[JobState, str]] = ..., spec: _Optional[_Union[JobSpec, _Mapping]] = ..., team: _Optional[str] = ..., user: _Optional[str] = ..., gang_size: _Optional[int] = ..., priority: _Optional[int] = ..., priority_class: _Optional[str] = ..., run: _Optional[int] = ..., placement: _Optional[_Iterable[_Union[NodePlacement, _Mapping]]] = ..., claim: _Optional[_Iterable[_Union[NodePlacement, _Mapping]]] = ..., submitted_at: _Optional[float] = ..., started_at: _Optional[float] = ..., last_checkpoint: _Optional[float] = ..., checkpoints: _Optional[_Iterable[_Union[SavedCheckpoint, _Mapping]]] = ..., reason: _Optional[str] = ..., blocked_by: _Optional[str] = ..., preemptions: _Optional[int] = ..., migrations: _Optional[int] = ..., infra_failures: _Optional[int] = ..., job_failures: _Optional[int] = ..., kill_at: _Optional[float] = ..., not_before: _Optional[float] = ..., start_estimate_at: _Optional[float] = ..., held: _Optional[bool] = ..., array: _Optional[str] = ..., array_index: _Optional[int] = ...) -> None: ...

class NodeSpec(_message.Message):
    __slots__ = ("id", "gpus", "domains", "gpu_type", "fabric", "cpus", "cpus_reserved", "memory_gb", "gpus_bad", "labels", "spare")
    class DomainsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    GPU_TYPE_FIELD_NUMBER: _ClassVar[int]
    FABRIC_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    CPUS_RESERVED_FIELD_NUMBER: _ClassVar[int]
    MEMORY_GB_FIELD_NUMBER: _ClassVar[int]
    GPUS_BAD_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SPARE_FIELD_NUMBER: _ClassVar[int]
    id: str
    gpus: int
    domains: _containers.ScalarMap[str, str]
    gpu_type: str
    fabric: str
    cpus: float
    cpus_reserved: float
    memory_gb: float
    gpus_bad: _containers.RepeatedScalarFieldContainer[int]
    labels: _containers.ScalarMap[str, str]
    spare: bool
    def __init__(self, id: _Optional[str] = ..., gpus: _Optional[int] = ..., domains: _Optional[_Mapping[str, str]] = ..., gpu_type: _Optional[str] = ..., fabric: _Optional[str] = ..., cpus: _Optional[float] = ..., cpus_reserved: _Optional[float] = ..., memory_gb: _Optional[float] = ..., gpus_bad: _Optional[_Iterable[int]] = ..., labels: _Optional[_Mapping[str, str]] = ..., spare: _Optional[bool] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("spec", "state", "reason", "healthy_gpus", "free_gpus", "bookings", "last_seen_at", "agent", "session", "connected", "clock_skew_s")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_GPUS_FIELD_NUMBER: _ClassVar[int]
    FREE_GPUS_FIELD_NUMBER: _ClassVar[int]
    BOOKINGS_FIELD_NUMBER: _ClassVar[int]
    LAST_SEEN_AT_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    CLOCK_SKEW_S_FIELD_NUMBER: _ClassVar[int]
    spec: NodeSpec
    state: NodeState
    reason: str
    healthy_gpus: int
    free_gpus: int
    bookings: _containers.RepeatedCompositeFieldContainer[Booking]
    last_seen_at: float
    agent: str
    session: int
    connected: bool
    clock_skew_s: float
    def __init__(self, spec: _Optional[_Union[NodeSpec, _Mapping]] = ..., state: _Optional[_Union[NodeState, str]] = ..., reason: _Optional[str] = ..., healthy_gpus: _Optional[int] = ..., free_gpus: _Optional[int] = ..., bookings: _Optional[_Iterable[_Union[Booking, _Mapping]]] = ..., last_seen_at: _Optional[float] = ..., agent: _Optional[str] = ..., session: _Optional[int] = ..., connected: _Optional[bool] = ..., clock_skew_s: _Optional[float] = ...) -> None: ...

class Booking(_message.Message):
    __slots__ = ("job", "run", "gpus", "gpu_indices", "cpus", "memory_gb")
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_INDICES_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_GB_FIELD_NUMBER: _ClassVar[int]
    job: str
    run: int
    gpus: int
    gpu_indices: _containers.RepeatedScalarFieldContainer[int]
    cpus: float
    memory_gb: float
    def __init__(self, job: _Optional[str] = ..., run: _Optional[int] = ..., gpus: _Optional[int] = ..., gpu_indices: _Optional[_Iterable[int]] = ..., cpus: _Optional[float] = ..., memory_gb: _Optional[float] = ...) -> None: ...

class Domain(_message.Message):
    __slots__ = ("level", "name", "nodes", "gpus", "healthy_gpus", "free_gpus", "nodes_up", "nodes_empty")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    HEALTHY_GPUS_FIELD_NUMBER: _ClassVar[int]
    FREE_GPUS_FIELD_NUMBER: _ClassVar[int]
    NODES_UP_FIELD_NUMBER: _ClassVar[int]
    NODES_EMPTY_FIELD_NUMBER: _ClassVar[int]
    level: str
    name: str
    nodes: int
    gpus: int
    healthy_gpus: int
    free_gpus: int
    nodes_up: int
    nodes_empty: int
    def __init__(self, level: _Optional[str] = ..., name: _Optional[str] = ..., nodes: _Optional[int] = ..., gpus: _Optional[int] = ..., healthy_gpus: _Optional[int] = ..., free_gpus: _Optional[int] = ..., nodes_up: _Optional[int] = ..., nodes_empty: _Optional[int] = ...) -> None: ...

class Amounts(_message.Message):
    __slots__ = ("gpus", "gpus_by_type", "cpus", "memory_gb")
    class GpusByTypeEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPUS_BY_TYPE_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_GB_FIELD_NUMBER: _ClassVar[int]
    gpus: int
    gpus_by_type: _containers.ScalarMap[str, int]
    cpus: float
    memory_gb: float
    def __init__(self, gpus: _Optional[int] = ..., gpus_by_type: _Optional[_Mapping[str, int]] = ..., cpus: _Optional[float] = ..., memory_gb: _Optional[float] = ...) -> None: ...

class Team(_message.Message):
    __slots__ = ("id", "parent", "weight", "quota", "limit", "max_priority", "max_priority_class", "max_deadline_gpus", "user_limit")
    ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    QUOTA_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    MAX_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MAX_PRIORITY_CLASS_FIELD_NUMBER: _ClassVar[int]
    MAX_DEADLINE_GPUS_FIELD_NUMBER: _ClassVar[int]
    USER_LIMIT_FIELD_NUMBER: _ClassVar[int]
    id: str
    parent: str
    weight: float
    quota: Amounts
    limit: Amounts
    max_priority: int
    max_priority_class: str
    max_deadline_gpus: int
    user_limit: Amounts
    def __init__(self, id: _Optional[str] = ..., parent: _Optional[str] = ..., weight: _Optional[float] = ..., quota: _Optional[_Union[Amounts, _Mapping]] = ..., limit: _Optional[_Union[Amounts, _Mapping]] = ..., max_priority: _Optional[int] = ..., max_priority_class: _Optional[str] = ..., max_deadline_gpus: _Optional[int] = ..., user_limit: _Optional[_Union[Amounts, _Mapping]] = ...) -> None: ...

class TeamStatus(_message.Message):
    __slots__ = ("team", "running_gpus", "running_gpus_below", "queued_gpus", "queued_jobs", "running_jobs", "entitlement_gpus", "dominant_share")
    class EntitlementGpusEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    TEAM_FIELD_NUMBER: _ClassVar[int]
    RUNNING_GPUS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_GPUS_BELOW_FIELD_NUMBER: _ClassVar[int]
    QUEUED_GPUS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_JOBS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_JOBS_FIELD_NUMBER: _ClassVar[int]
    ENTITLEMENT_GPUS_FIELD_NUMBER: _ClassVar[int]
    DOMINANT_SHARE_FIELD_NUMBER: _ClassVar[int]
    team: Team
    running_gpus: int
    running_gpus_below: int
    queued_gpus: int
    queued_jobs: int
    running_jobs: int
    entitlement_gpus: _containers.ScalarMap[str, float]
    dominant_share: float
    def __init__(self, team: _Optional[_Union[Team, _Mapping]] = ..., running_gpus: _Optional[int] = ..., running_gpus_below: _Optional[int] = ..., queued_gpus: _Optional[int] = ..., queued_jobs: _Optional[int] = ..., running_jobs: _Optional[int] = ..., entitlement_gpus: _Optional[_Mapping[str, float]] = ..., dominant_share: _Optional[float] = ...) -> None: ...

class Reservation(_message.Message):
    __slots__ = ("id", "start_at", "end_at", "kind", "nodes", "gpus", "within", "teams", "jobs")
    ID_FIELD_NUMBER: _ClassVar[int]
    START_AT_FIELD_NUMBER: _ClassVar[int]
    END_AT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    TEAMS_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    id: str
    start_at: float
    end_at: float
    kind: ReservationKind
    nodes: _containers.RepeatedScalarFieldContainer[str]
    gpus: int
    within: str
    teams: _containers.RepeatedScalarFieldContainer[str]
    jobs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., start_at: _Optional[float] = ..., end_at: _Optional[float] = ..., kind: _Optional[_Union[ReservationKind, str]] = ..., nodes: _Optional[_Iterable[str]] = ..., gpus: _Optional[int] = ..., within: _Optional[str] = ..., teams: _Optional[_Iterable[str]] = ..., jobs: _Optional[_Iterable[str]] = ...) -> None: ...

class RankResult(_message.Message):
    __slots__ = ("tier", "priority", "above_minimum", "gpus", "gpus_bound")
    TIER_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    ABOVE_MINIMUM_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPUS_BOUND_FIELD_NUMBER: _ClassVar[int]
    tier: Tier
    priority: str
    above_minimum: bool
    gpus: int
    gpus_bound: int
    def __init__(self, tier: _Optional[_Union[Tier, str]] = ..., priority: _Optional[str] = ..., above_minimum: _Optional[bool] = ..., gpus: _Optional[int] = ..., gpus_bound: _Optional[int] = ...) -> None: ...

class RoundInfo(_message.Message):
    __slots__ = ("source", "status", "gap", "gap_gpus", "wall_s", "deterministic_s", "window", "ranks")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    GAP_GPUS_FIELD_NUMBER: _ClassVar[int]
    WALL_S_FIELD_NUMBER: _ClassVar[int]
    DETERMINISTIC_S_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    RANKS_FIELD_NUMBER: _ClassVar[int]
    source: Source
    status: PlanStatus
    gap: float
    gap_gpus: int
    wall_s: float
    deterministic_s: float
    window: Window
    ranks: _containers.RepeatedCompositeFieldContainer[RankResult]
    def __init__(self, source: _Optional[_Union[Source, str]] = ..., status: _Optional[_Union[PlanStatus, str]] = ..., gap: _Optional[float] = ..., gap_gpus: _Optional[int] = ..., wall_s: _Optional[float] = ..., deterministic_s: _Optional[float] = ..., window: _Optional[_Union[Window, _Mapping]] = ..., ranks: _Optional[_Iterable[_Union[RankResult, _Mapping]]] = ...) -> None: ...

class Window(_message.Message):
    __slots__ = ("considered", "queued")
    CONSIDERED_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    considered: int
    queued: int
    def __init__(self, considered: _Optional[int] = ..., queued: _Optional[int] = ...) -> None: ...

class TaskPlacement(_message.Message):
    __slots__ = ("rank", "node", "gpus", "gpu_indices", "slice")
    RANK_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_INDICES_FIELD_NUMBER: _ClassVar[int]
    SLICE_FIELD_NUMBER: _ClassVar[int]
    rank: int
    node: str
    gpus: int
    gpu_indices: _containers.RepeatedScalarFieldContainer[int]
    slice: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, rank: _Optional[int] = ..., node: _Optional[str] = ..., gpus: _Optional[int] = ..., gpu_indices: _Optional[_Iterable[int]] = ..., slice: _Optional[_Iterable[int]] = ...) -> None: ...

class PlannedStart(_message.Message):
    __slots__ = ("job", "placement", "span", "waits_for", "tasks")
    JOB_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    SPAN_FIELD_NUMBER: _ClassVar[int]
    WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    job: str
    placement: _containers.RepeatedCompositeFieldContainer[NodePlacement]
    span: str
    waits_for: _containers.RepeatedScalarFieldContainer[str]
    tasks: _containers.RepeatedCompositeFieldContainer[TaskPlacement]
    def __init__(self, job: _Optional[str] = ..., placement: _Optional[_Iterable[_Union[NodePlacement, _Mapping]]] = ..., span: _Optional[str] = ..., waits_for: _Optional[_Iterable[str]] = ..., tasks: _Optional[_Iterable[_Union[TaskPlacement, _Mapping]]] = ...) -> None: ...

class PlannedPreemption(_message.Message):
    __slots__ = ("job", "beneficiaries", "cost_gpu_s", "lost_work_s", "grace_s")
    JOB_FIELD_NUMBER: _ClassVar[int]
    BENEFICIARIES_FIELD_NUMBER: _ClassVar[int]
    COST_GPU_S_FIELD_NUMBER: _ClassVar[int]
    LOST_WORK_S_FIELD_NUMBER: _ClassVar[int]
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    job: str
    beneficiaries: _containers.RepeatedScalarFieldContainer[str]
    cost_gpu_s: float
    lost_work_s: float
    grace_s: float
    def __init__(self, job: _Optional[str] = ..., beneficiaries: _Optional[_Iterable[str]] = ..., cost_gpu_s: _Optional[float] = ..., lost_work_s: _Optional[float] = ..., grace_s: _Optional[float] = ...) -> None: ...

class PlannedMove(_message.Message):
    __slots__ = ("job", "placement", "beneficiaries", "cost_gpu_s")
    JOB_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    BENEFICIARIES_FIELD_NUMBER: _ClassVar[int]
    COST_GPU_S_FIELD_NUMBER: _ClassVar[int]
    job: str
    placement: _containers.RepeatedCompositeFieldContainer[NodePlacement]
    beneficiaries: _containers.RepeatedScalarFieldContainer[str]
    cost_gpu_s: float
    def __init__(self, job: _Optional[str] = ..., placement: _Optional[_Iterable[_Union[NodePlacement, _Mapping]]] = ..., beneficiaries: _Optional[_Iterable[str]] = ..., cost_gpu_s: _Optional[float] = ...) -> None: ...

class PlannedReservation(_message.Message):
    __slots__ = ("job", "domain", "nodes", "start_estimate_at")
    JOB_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    START_ESTIMATE_AT_FIELD_NUMBER: _ClassVar[int]
    job: str
    domain: str
    nodes: _containers.RepeatedScalarFieldContainer[str]
    start_estimate_at: float
    def __init__(self, job: _Optional[str] = ..., domain: _Optional[str] = ..., nodes: _Optional[_Iterable[str]] = ..., start_estimate_at: _Optional[float] = ...) -> None: ...

class Unblock(_message.Message):
    __slots__ = ("kind", "target", "number", "text_value", "text")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TEXT_VALUE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    kind: UnblockKind
    target: str
    number: float
    text_value: str
    text: str
    def __init__(self, kind: _Optional[_Union[UnblockKind, str]] = ..., target: _Optional[str] = ..., number: _Optional[float] = ..., text_value: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class PlannedWait(_message.Message):
    __slots__ = ("job", "reason", "detail", "unblock")
    JOB_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    UNBLOCK_FIELD_NUMBER: _ClassVar[int]
    job: str
    reason: str
    detail: str
    unblock: Unblock
    def __init__(self, job: _Optional[str] = ..., reason: _Optional[str] = ..., detail: _Optional[str] = ..., unblock: _Optional[_Union[Unblock, _Mapping]] = ...) -> None: ...

class Bill(_message.Message):
    __slots__ = ("run_value", "placement_loss", "preemption_cost", "migration_cost", "resize_cost", "hold_cost", "domain_cost", "bound")
    RUN_VALUE_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_LOSS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_COST_FIELD_NUMBER: _ClassVar[int]
    MIGRATION_COST_FIELD_NUMBER: _ClassVar[int]
    RESIZE_COST_FIELD_NUMBER: _ClassVar[int]
    HOLD_COST_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_COST_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    run_value: float
    placement_loss: float
    preemption_cost: float
    migration_cost: float
    resize_cost: float
    hold_cost: float
    domain_cost: float
    bound: float
    def __init__(self, run_value: _Optional[float] = ..., placement_loss: _Optional[float] = ..., preemption_cost: _Optional[float] = ..., migration_cost: _Optional[float] = ..., resize_cost: _Optional[float] = ..., hold_cost: _Optional[float] = ..., domain_cost: _Optional[float] = ..., bound: _Optional[float] = ...) -> None: ...

class Plan(_message.Message):
    __slots__ = ("round", "starts", "preemptions", "migrations", "resizes", "reservations", "queued", "bill", "warnings")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    MIGRATIONS_FIELD_NUMBER: _ClassVar[int]
    RESIZES_FIELD_NUMBER: _ClassVar[int]
    RESERVATIONS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    BILL_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    round: RoundInfo
    starts: _containers.RepeatedCompositeFieldContainer[PlannedStart]
    preemptions: _containers.RepeatedCompositeFieldContainer[PlannedPreemption]
    migrations: _containers.RepeatedCompositeFieldContainer[PlannedMove]
    resizes: _containers.RepeatedCompositeFieldContainer[PlannedMove]
    reservations: _containers.RepeatedCompositeFieldContainer[PlannedReservation]
    queued: _containers.RepeatedCompositeFieldContainer[PlannedWait]
    bill: Bill
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, round: _Optional[_Union[RoundInfo, _Mapping]] = ..., starts: _Optional[_Iterable[_Union[PlannedStart, _Mapping]]] = ..., preemptions: _Optional[_Iterable[_Union[PlannedPreemption, _Mapping]]] = ..., migrations: _Optional[_Iterable[_Union[PlannedMove, _Mapping]]] = ..., resizes: _Optional[_Iterable[_Union[PlannedMove, _Mapping]]] = ..., reservations: _Optional[_Iterable[_Union[PlannedReservation, _Mapping]]] = ..., queued: _Optional[_Iterable[_Union[PlannedWait, _Mapping]]] = ..., bill: _Optional[_Union[Bill, _Mapping]] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("sequence", "at", "kind", "text", "job", "node")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    at: float
    kind: str
    text: str
    job: str
    node: str
    def __init__(self, sequence: _Optional[int] = ..., at: _Optional[float] = ..., kind: _Optional[str] = ..., text: _Optional[str] = ..., job: _Optional[str] = ..., node: _Optional[str] = ...) -> None: ...
