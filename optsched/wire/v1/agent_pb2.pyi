from optsched.wire.v1 import scheduler_pb2 as _scheduler_pb2
from optsched.wire.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_PHASE_UNSPECIFIED: _ClassVar[RunPhase]
    RUN_PHASE_RESERVED: _ClassVar[RunPhase]
    RUN_PHASE_STARTED: _ClassVar[RunPhase]
    RUN_PHASE_STOPPING: _ClassVar[RunPhase]
    RUN_PHASE_ENDED: _ClassVar[RunPhase]

class RefusalCode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REFUSAL_CODE_UNSPECIFIED: _ClassVar[RefusalCode]
    REFUSAL_CODE_TWO_AGENTS: _ClassVar[RefusalCode]
    REFUSAL_CODE_SUPERSEDED: _ClassVar[RefusalCode]
    REFUSAL_CODE_UNKNOWN_NODE: _ClassVar[RefusalCode]
    REFUSAL_CODE_VERSION: _ClassVar[RefusalCode]
    REFUSAL_CODE_INVALID: _ClassVar[RefusalCode]
    REFUSAL_CODE_NOT_LEADER: _ClassVar[RefusalCode]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_RESERVED: _ClassVar[Outcome]
    OUTCOME_STARTED: _ClassVar[Outcome]
    OUTCOME_OK: _ClassVar[Outcome]
    OUTCOME_FAILED: _ClassVar[Outcome]
    OUTCOME_INFRA: _ClassVar[Outcome]
    OUTCOME_REFUSED: _ClassVar[Outcome]
    OUTCOME_RELEASED: _ClassVar[Outcome]
    OUTCOME_FENCED: _ClassVar[Outcome]

class AckResult(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACK_RESULT_UNSPECIFIED: _ClassVar[AckResult]
    ACK_RESULT_TAKEN: _ClassVar[AckResult]
    ACK_RESULT_STALE: _ClassVar[AckResult]
    ACK_RESULT_FOREIGN: _ClassVar[AckResult]
    ACK_RESULT_INVALID: _ClassVar[AckResult]
RUN_PHASE_UNSPECIFIED: RunPhase
RUN_PHASE_RESERVED: RunPhase
RUN_PHASE_STARTED: RunPhase
RUN_PHASE_STOPPING: RunPhase
RUN_PHASE_ENDED: RunPhase
REFUSAL_CODE_UNSPECIFIED: RefusalCode
REFUSAL_CODE_TWO_AGENTS: RefusalCode
REFUSAL_CODE_SUPERSEDED: RefusalCode
REFUSAL_CODE_UNKNOWN_NODE: RefusalCode
REFUSAL_CODE_VERSION: RefusalCode
REFUSAL_CODE_INVALID: RefusalCode
REFUSAL_CODE_NOT_LEADER: RefusalCode
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_RESERVED: Outcome
OUTCOME_STARTED: Outcome
OUTCOME_OK: Outcome
OUTCOME_FAILED: Outcome
OUTCOME_INFRA: Outcome
OUTCOME_REFUSED: Outcome
OUTCOME_RELEASED: Outcome
OUTCOME_FENCED: Outcome
ACK_RESULT_UNSPECIFIED: AckResult
ACK_RESULT_TAKEN: AckResult
ACK_RESULT_STALE: AckResult
ACK_RESULT_FOREIGN: AckResult
ACK_RESULT_INVALID: AckResult

class AgentMessage(_message.Message):
    __slots__ = ("sequence", "register", "heartbeat", "report", "checkpoint", "probe", "progress", "health", "log", "terminal")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    register: Register
    heartbeat: Heartbeat
    report: Report
    checkpoint: Checkpoint
    probe: ProbeResult
    progress: Progress
    health: Health
    log: LogChunk
    terminal: TerminalOutput
    def __init__(self, sequence: _Optional[int] = ..., register: _Optional[_Union[Register, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., report: _Optional[_Union[Report, _Mapping]] = ..., checkpoint: _Optional[_Union[Checkpoint, _Mapping]] = ..., probe: _Optional[_Union[ProbeResult, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., health: _Optional[_Union[Health, _Mapping]] = ..., log: _Optional[_Union[LogChunk, _Mapping]] = ..., terminal: _Optional[_Union[TerminalOutput, _Mapping]] = ...) -> None: ...

class SchedulerMessage(_message.Message):
    __slots__ = ("registered", "refused", "ack", "reserve", "start", "signal", "kill", "release", "probe", "read_log", "terminal")
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    RESERVE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    KILL_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    READ_LOG_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    registered: Registered
    refused: Refused
    ack: Ack
    reserve: Reserve
    start: Start
    signal: Signal
    kill: Kill
    release: Release
    probe: Probe
    read_log: ReadLog
    terminal: TerminalInput
    def __init__(self, registered: _Optional[_Union[Registered, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., reserve: _Optional[_Union[Reserve, _Mapping]] = ..., start: _Optional[_Union[Start, _Mapping]] = ..., signal: _Optional[_Union[Signal, _Mapping]] = ..., kill: _Optional[_Union[Kill, _Mapping]] = ..., release: _Optional[_Union[Release, _Mapping]] = ..., probe: _Optional[_Union[Probe, _Mapping]] = ..., read_log: _Optional[_Union[ReadLog, _Mapping]] = ..., terminal: _Optional[_Union[TerminalInput, _Mapping]] = ...) -> None: ...

class Register(_message.Message):
    __slots__ = ("node", "agent", "session", "spec", "address", "held", "epoch", "version", "clock_at")
    NODE_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CLOCK_AT_FIELD_NUMBER: _ClassVar[int]
    node: str
    agent: str
    session: int
    spec: _types_pb2.NodeSpec
    address: str
    held: _containers.RepeatedCompositeFieldContainer[HeldRun]
    epoch: int
    version: str
    clock_at: float
    def __init__(self, node: _Optional[str] = ..., agent: _Optional[str] = ..., session: _Optional[int] = ..., spec: _Optional[_Union[_types_pb2.NodeSpec, _Mapping]] = ..., address: _Optional[str] = ..., held: _Optional[_Iterable[_Union[HeldRun, _Mapping]]] = ..., epoch: _Optional[int] = ..., version: _Optional[str] = ..., clock_at: _Optional[float] = ...) -> None: ...

class HeldRun(_message.Message):
    __slots__ = ("job", "run", "phase", "gpu_indices", "port")
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    GPU_INDICES_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    job: str
    run: int
    phase: RunPhase
    gpu_indices: _containers.RepeatedScalarFieldContainer[int]
    port: int
    def __init__(self, job: _Optional[str] = ..., run: _Optional[int] = ..., phase: _Optional[_Union[RunPhase, str]] = ..., gpu_indices: _Optional[_Iterable[int]] = ..., port: _Optional[int] = ...) -> None: ...

class Registered(_message.Message):
    __slots__ = ("epoch", "heartbeat_every_s", "lease_s", "state", "clock_at")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_EVERY_S_FIELD_NUMBER: _ClassVar[int]
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CLOCK_AT_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    heartbeat_every_s: float
    lease_s: float
    state: _types_pb2.NodeState
    clock_at: float
    def __init__(self, epoch: _Optional[int] = ..., heartbeat_every_s: _Optional[float] = ..., lease_s: _Optional[float] = ..., state: _Optional[_Union[_types_pb2.NodeState, str]] = ..., clock_at: _Optional[float] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("code", "reason")
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    code: RefusalCode
    reason: str
    def __init__(self, code: _Optional[_Union[RefusalCode, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("clock_at", "gpus", "runs")
    CLOCK_AT_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    clock_at: float
    gpus: int
    runs: int
    def __init__(self, clock_at: _Optional[float] = ..., gpus: _Optional[int] = ..., runs: _Optional[int] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("job", "run", "epoch", "outcome", "why", "exit_code", "exit_signal", "rank", "port", "at")
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    EXIT_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    job: str
    run: int
    epoch: int
    outcome: Outcome
    why: str
    exit_code: int
    exit_signal: int
    rank: int
    port: int
    at: float
    def __init__(self, job: _Optional[str] = ..., run: _Optional[int] = ..., epoch: _Optional[int] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., why: _Optional[str] = ..., exit_code: _Optional[int] = ..., exit_signal: _Optional[int] = ..., rank: _Optional[int] = ..., port: _Optional[int] = ..., at: _Optional[float] = ...) -> None: ...

class Checkpoint(_message.Message):
    __slots__ = ("job", "run", "version", "tier", "age_s", "bytes", "step")
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    job: str
    run: int
    version: str
    tier: str
    age_s: float
    bytes: int
    step: int
    def __init__(self, job: _Optional[str] = ..., run: _Optional[int] = ..., version: _Optional[str] = ..., tier: _Optional[str] = ..., age_s: _Optional[float] = ..., bytes: _Optional[int] = ..., step: _Optional[int] = ...) -> None: ...

class ProbeResult(_message.Message):
    __slots__ = ("ok", "why", "probe")
    OK_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    ok: bool
    why: str
    probe: int
    def __init__(self, ok: _Optional[bool] = ..., why: _Optional[str] = ..., probe: _Optional[int] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("job", "run", "step", "step_s")
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    STEP_S_FIELD_NUMBER: _ClassVar[int]
    job: str
    run: int
    step: int
    step_s: float
    def __init__(self, job: _Optional[str] = ..., run: _Optional[int] = ..., step: _Optional[int] = ..., step_s: _Optional[float] = ...) -> None: ...

class Health(_message.Message):
    __slots__ = ("gpus",)
    GPUS_FIELD_NUMBER: _ClassVar[int]
    gpus: _containers.RepeatedCompositeFieldContainer[GpuHealth]
    def __init__(self, gpus: _Optional[_Iterable[_Union[GpuHealth, _Mapping]]] = ...) -> None: ...

class GpuHealth(_message.Message):
    __slots__ = ("index", "ok", "why", "ecc_corrected", "ecc_uncorrected", "last_xid", "xids", "temperature_c", "rows_remapped", "remap_pending")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    ECC_CORRECTED_FIELD_NUMBER: _ClassVar[int]
    ECC_UNCORRECTED_FIELD_NUMBER: _ClassVar[int]
    LAST_XID_FIELD_NUMBER: _ClassVar[int]
    XIDS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_C_FIELD_NUMBER: _ClassVar[int]
    ROWS_REMAPPED_FIELD_NUMBER: _ClassVar[int]
    REMAP_PENDING_FIELD_NUMBER: _ClassVar[int]
    index: int
    ok: bool
    why: str
    ecc_corrected: int
    ecc_uncorrected: int
    last_xid: int
    xids: int
    temperature_c: float
    rows_remapped: int
    remap_pending: bool
    def __init__(self, index: _Optional[int] = ..., ok: _Optional[bool] = ..., why: _Optional[str] = ..., ecc_corrected: _Optional[int] = ..., ecc_uncorrected: _Optional[int] = ..., last_xid: _Optional[int] = ..., xids: _Optional[int] = ..., temperature_c: _Optional[float] = ..., rows_remapped: _Optional[int] = ..., remap_pending: _Optional[bool] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("sequence", "result", "reason")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    result: AckResult
    reason: str
    def __init__(self, sequence: _Optional[int] = ..., result: _Optional[_Union[AckResult, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class CommandHeader(_message.Message):
    __slots__ = ("epoch", "job", "run")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    job: str
    run: int
    def __init__(self, epoch: _Optional[int] = ..., job: _Optional[str] = ..., run: _Optional[int] = ...) -> None: ...

class Reserve(_message.Message):
    __slots__ = ("header", "gpus", "gpu_indices", "cpus", "memory_gb")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_INDICES_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_GB_FIELD_NUMBER: _ClassVar[int]
    header: CommandHeader
    gpus: int
    gpu_indices: _containers.RepeatedScalarFieldContainer[int]
    cpus: float
    memory_gb: float
    def __init__(self, header: _Optional[_Union[CommandHeader, _Mapping]] = ..., gpus: _Optional[int] = ..., gpu_indices: _Optional[_Iterable[int]] = ..., cpus: _Optional[float] = ..., memory_gb: _Optional[float] = ...) -> None: ...

class Start(_message.Message):
    __slots__ = ("header", "command", "environment", "working_directory", "user", "team", "tasks", "world_size", "node_count", "node_rank", "gang_gpus", "master_address", "master_port", "restore_version", "checkpoint_interval_s", "checkpoint_on_signal", "grace_period_s", "cpus", "memory_gb", "array_index")
    class EnvironmentEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    HEADER_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    TEAM_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
    NODE_COUNT_FIELD_NUMBER: _ClassVar[int]
    NODE_RANK_FIELD_NUMBER: _ClassVar[int]
    GANG_GPUS_FIELD_NUMBER: _ClassVar[int]
    MASTER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    MASTER_PORT_FIELD_NUMBER: _ClassVar[int]
    RESTORE_VERSION_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ON_SIGNAL_FIELD_NUMBER: _ClassVar[int]
    GRACE_PERIOD_S_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_GB_FIELD_NUMBER: _ClassVar[int]
    ARRAY_INDEX_FIELD_NUMBER: _ClassVar[int]
    header: CommandHeader
    command: _containers.RepeatedScalarFieldContainer[str]
    environment: _containers.ScalarMap[str, str]
    working_directory: str
    user: str
    team: str
    tasks: _containers.RepeatedCompositeFieldContainer[Task]
    world_size: int
    node_count: int
    node_rank: int
    gang_gpus: int
    master_address: str
    master_port: int
    restore_version: str
    checkpoint_interval_s: float
    checkpoint_on_signal: bool
    grace_period_s: float
    cpus: float
    memory_gb: float
    array_index: int
    def __init__(self, header: _Optional[_Union[CommandHeader, _Mapping]] = ..., command: _Optional[_Iterable[str]] = ..., environment: _Optional[_Mapping[str, str]] = ..., working_directory: _Optional[str] = ..., user: _Optional[str] = ..., team: _Optional[str] = ..., tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ..., world_size: _Optional[int] = ..., node_count: _Optional[int] = ..., node_rank: _Optional[int] = ..., gang_gpus: _Optional[int] = ..., master_address: _Optional[str] = ..., master_port: _Optional[int] = ..., restore_version: _Optional[str] = ..., checkpoint_interval_s: _Optional[float] = ..., checkpoint_on_signal: _Optional[bool] = ..., grace_period_s: _Optional[float] = ..., cpus: _Optional[float] = ..., memory_gb: _Optional[float] = ..., array_index: _Optional[int] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("rank", "local_rank", "gpu_indices", "gpus", "slice")
    RANK_FIELD_NUMBER: _ClassVar[int]
    LOCAL_RANK_FIELD_NUMBER: _ClassVar[int]
    GPU_INDICES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    SLICE_FIELD_NUMBER: _ClassVar[int]
    rank: int
    local_rank: int
    gpu_indices: _containers.RepeatedScalarFieldContainer[int]
    gpus: int
    slice: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, rank: _Optional[int] = ..., local_rank: _Optional[int] = ..., gpu_indices: _Optional[_Iterable[int]] = ..., gpus: _Optional[int] = ..., slice: _Optional[_Iterable[int]] = ...) -> None: ...

class Signal(_message.Message):
    __slots__ = ("header", "grace_s", "reason")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    GRACE_S_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    header: CommandHeader
    grace_s: float
    reason: str
    def __init__(self, header: _Optional[_Union[CommandHeader, _Mapping]] = ..., grace_s: _Optional[float] = ..., reason: _Optional[str] = ...) -> None: ...

class Kill(_message.Message):
    __slots__ = ("header", "reason")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    header: CommandHeader
    reason: str
    def __init__(self, header: _Optional[_Union[CommandHeader, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class Release(_message.Message):
    __slots__ = ("header",)
    HEADER_FIELD_NUMBER: _ClassVar[int]
    header: CommandHeader
    def __init__(self, header: _Optional[_Union[CommandHeader, _Mapping]] = ...) -> None: ...

class Probe(_message.Message):
    __slots__ = ("epoch", "probe")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    probe: int
    def __init__(self, epoch: _Optional[int] = ..., probe: _Optional[int] = ...) -> None: ...

class ReadLog(_message.Message):
    __slots__ = ("request", "job", "run", "rank", "stream", "offset", "follow", "cancel", "limit")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    request: int
    job: str
    run: int
    rank: int
    stream: _scheduler_pb2.LogStream
    offset: int
    follow: bool
    cancel: bool
    limit: int
    def __init__(self, request: _Optional[int] = ..., job: _Optional[str] = ..., run: _Optional[int] = ..., rank: _Optional[int] = ..., stream: _Optional[_Union[_scheduler_pb2.LogStream, str]] = ..., offset: _Optional[int] = ..., follow: _Optional[bool] = ..., cancel: _Optional[bool] = ..., limit: _Optional[int] = ...) -> None: ...

class LogChunk(_message.Message):
    __slots__ = ("request", "data", "offset", "last", "error")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    request: int
    data: bytes
    offset: int
    last: bool
    error: str
    def __init__(self, request: _Optional[int] = ..., data: _Optional[bytes] = ..., offset: _Optional[int] = ..., last: _Optional[bool] = ..., error: _Optional[str] = ...) -> None: ...

class TerminalInput(_message.Message):
    __slots__ = ("terminal", "open", "input", "resize", "close", "taken")
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    RESIZE_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    terminal: int
    open: TerminalOpen
    input: bytes
    resize: _scheduler_pb2.TerminalSize
    close: bool
    taken: int
    def __init__(self, terminal: _Optional[int] = ..., open: _Optional[_Union[TerminalOpen, _Mapping]] = ..., input: _Optional[bytes] = ..., resize: _Optional[_Union[_scheduler_pb2.TerminalSize, _Mapping]] = ..., close: _Optional[bool] = ..., taken: _Optional[int] = ...) -> None: ...

class TerminalOpen(_message.Message):
    __slots__ = ("header", "rank", "command", "size", "window", "term")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    header: CommandHeader
    rank: int
    command: _containers.RepeatedScalarFieldContainer[str]
    size: _scheduler_pb2.TerminalSize
    window: int
    term: str
    def __init__(self, header: _Optional[_Union[CommandHeader, _Mapping]] = ..., rank: _Optional[int] = ..., command: _Optional[_Iterable[str]] = ..., size: _Optional[_Union[_scheduler_pb2.TerminalSize, _Mapping]] = ..., window: _Optional[int] = ..., term: _Optional[str] = ...) -> None: ...

class TerminalOutput(_message.Message):
    __slots__ = ("terminal", "output", "exit_code", "error", "taken")
    TERMINAL_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    terminal: int
    output: bytes
    exit_code: int
    error: str
    taken: int
    def __init__(self, terminal: _Optional[int] = ..., output: _Optional[bytes] = ..., exit_code: _Optional[int] = ..., error: _Optional[str] = ..., taken: _Optional[int] = ...) -> None: ...
