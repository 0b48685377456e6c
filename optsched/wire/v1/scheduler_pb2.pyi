from optsched.wire.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobView(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_VIEW_UNSPECIFIED: _ClassVar[JobView]
    JOB_VIEW_BASIC: _ClassVar[JobView]
    JOB_VIEW_FULL: _ClassVar[JobView]

class LogStream(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOG_STREAM_UNSPECIFIED: _ClassVar[LogStream]
    LOG_STREAM_STDOUT: _ClassVar[LogStream]
    LOG_STREAM_STDERR: _ClassVar[LogStream]
JOB_VIEW_UNSPECIFIED: JobView
JOB_VIEW_BASIC: JobView
JOB_VIEW_FULL: JobView
LOG_STREAM_UNSPECIFIED: LogStream
LOG_STREAM_STDOUT: LogStream
LOG_STREAM_STDERR: LogStream

class SubmitJobRequest(_message.Message):
    __slots__ = ("job", "idempotency_key")
    JOB_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    job: _types_pb2.JobSpec
    idempotency_key: str
    def __init__(self, job: _Optional[_Union[_types_pb2.JobSpec, _Mapping]] = ..., idempotency_key: _Optional[str] = ...) -> None: ...

class SubmitJobResponse(_message.Message):
    __slots__ = ("job_id", "state", "repeated_call", "warnings")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REPEATED_CALL_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    state: _types_pb2.JobState
    repeated_call: bool
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_id: _Optional[str] = ..., state: _Optional[_Union[_types_pb2.JobState, str]] = ..., repeated_call: _Optional[bool] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class SubmitJobsRequest(_message.Message):
    __slots__ = ("jobs", "array", "idempotency_key")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[_types_pb2.JobSpec]
    array: JobArray
    idempotency_key: str
    def __init__(self, jobs: _Optional[_Iterable[_Union[_types_pb2.JobSpec, _Mapping]]] = ..., array: _Optional[_Union[JobArray, _Mapping]] = ..., idempotency_key: _Optional[str] = ...) -> None: ...

class JobArray(_message.Message):
    __slots__ = ("template", "count", "first_index", "max_running")
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNNING_FIELD_NUMBER: _ClassVar[int]
    template: _types_pb2.JobSpec
    count: int
    first_index: int
    max_running: int
    def __init__(self, template: _Optional[_Union[_types_pb2.JobSpec, _Mapping]] = ..., count: _Optional[int] = ..., first_index: _Optional[int] = ..., max_running: _Optional[int] = ...) -> None: ...

class SubmitJobsResponse(_message.Message):
    __slots__ = ("job_ids", "repeated_call", "warnings")
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    REPEATED_CALL_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    job_ids: _containers.RepeatedScalarFieldContainer[str]
    repeated_call: bool
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, job_ids: _Optional[_Iterable[str]] = ..., repeated_call: _Optional[bool] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class JobFilter(_message.Message):
    __slots__ = ("states", "teams", "users", "ids", "node", "min_priority", "array")
    STATES_FIELD_NUMBER: _ClassVar[int]
    TEAMS_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    MIN_PRIORITY_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedScalarFieldContainer[_types_pb2.JobState]
    teams: _containers.RepeatedScalarFieldContainer[str]
    users: _containers.RepeatedScalarFieldContainer[str]
    ids: _containers.RepeatedScalarFieldContainer[str]
    node: str
    min_priority: int
    array: str
    def __init__(self, states: _Optional[_Iterable[_Union[_types_pb2.JobState, str]]] = ..., teams: _Optional[_Iterable[str]] = ..., users: _Optional[_Iterable[str]] = ..., ids: _Optional[_Iterable[str]] = ..., node: _Optional[str] = ..., min_priority: _Optional[int] = ..., array: _Optional[str] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("filter", "page_size", "page_token", "view")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    filter: JobFilter
    page_size: int
    page_token: str
    view: JobView
    def __init__(self, filter: _Optional[_Union[JobFilter, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., view: _Optional[_Union[JobView, str]] = ...) -> None: ...

class ListJobsResponse(_message.Message):
    __slots__ = ("jobs", "next_page_token", "total")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[_types_pb2.Job]
    next_page_token: str
    total: int
    def __init__(self, jobs: _Optional[_Iterable[_Union[_types_pb2.Job, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class UpdateJobRequest(_message.Message):
    __slots__ = ("id", "priority", "priority_class", "estimated_runtime_s", "start_deadline_at", "clear_estimated_runtime", "clear_start_deadline")
    ID_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_CLASS_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_RUNTIME_S_FIELD_NUMBER: _ClassVar[int]
    START_DEADLINE_AT_FIELD_NUMBER: _ClassVar[int]
    CLEAR_ESTIMATED_RUNTIME_FIELD_NUMBER: _ClassVar[int]
    CLEAR_START_DEADLINE_FIELD_NUMBER: _ClassVar[int]
    id: str
    priority: int
    priority_class: str
    estimated_runtime_s: float
    start_deadline_at: float
    clear_estimated_runtime: bool
    clear_start_deadline: bool
    def __init__(self, id: _Optional[str] = ..., priority: _Optional[int] = ..., priority_class: _Optional[str] = ..., estimated_runtime_s: _Optional[float] = ..., start_deadline_at: _Optional[float] = ..., clear_estimated_runtime: _Optional[bool] = ..., clear_start_deadline: _Optional[bool] = ...) -> None: ...

class HoldJobRequest(_message.Message):
    __slots__ = ("id", "reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ReleaseJobRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class CancelJobRequest(_message.Message):
    __slots__ = ("id", "reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class PreemptJobRequest(_message.Message):
    __slots__ = ("id", "reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class PreemptJobResponse(_message.Message):
    __slots__ = ("checkpoint_triggered", "grace_period_s", "job")
    CHECKPOINT_TRIGGERED_FIELD_NUMBER: _ClassVar[int]
    GRACE_PERIOD_S_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    checkpoint_triggered: bool
    grace_period_s: float
    job: _types_pb2.Job
    def __init__(self, checkpoint_triggered: _Optional[bool] = ..., grace_period_s: _Optional[float] = ..., job: _Optional[_Union[_types_pb2.Job, _Mapping]] = ...) -> None: ...

class ExplainJobRequest(_message.Message):
    __slots__ = ("id", "budget_s")
    ID_FIELD_NUMBER: _ClassVar[int]
    BUDGET_S_FIELD_NUMBER: _ClassVar[int]
    id: str
    budget_s: float
    def __init__(self, id: _Optional[str] = ..., budget_s: _Optional[float] = ...) -> None: ...

class ExplainJobResponse(_message.Message):
    __slots__ = ("job", "waits", "starts", "stops", "moves", "state_version", "at")
    JOB_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    STOPS_FIELD_NUMBER: _ClassVar[int]
    MOVES_FIELD_NUMBER: _ClassVar[int]
    STATE_VERSION_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    job: _types_pb2.Job
    waits: _types_pb2.PlannedWait
    starts: _types_pb2.PlannedStart
    stops: _types_pb2.PlannedPreemption
    moves: _types_pb2.PlannedMove
    state_version: int
    at: float
    def __init__(self, job: _Optional[_Union[_types_pb2.Job, _Mapping]] = ..., waits: _Optional[_Union[_types_pb2.PlannedWait, _Mapping]] = ..., starts: _Optional[_Union[_types_pb2.PlannedStart, _Mapping]] = ..., stops: _Optional[_Union[_types_pb2.PlannedPreemption, _Mapping]] = ..., moves: _Optional[_Union[_types_pb2.PlannedMove, _Mapping]] = ..., state_version: _Optional[int] = ..., at: _Optional[float] = ...) -> None: ...

class ListJobEventsRequest(_message.Message):
    __slots__ = ("id", "after_sequence", "page_size")
    ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    id: str
    after_sequence: int
    page_size: int
    def __init__(self, id: _Optional[str] = ..., after_sequence: _Optional[int] = ..., page_size: _Optional[int] = ...) -> None: ...

class ListJobEventsResponse(_message.Message):
    __slots__ = ("events", "more")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[_types_pb2.Event]
    more: bool
    def __init__(self, events: _Optional[_Iterable[_Union[_types_pb2.Event, _Mapping]]] = ..., more: _Optional[bool] = ...) -> None: ...

class WatchJobsRequest(_message.Message):
    __slots__ = ("filter", "after_sequence", "view")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    filter: JobFilter
    after_sequence: int
    view: JobView
    def __init__(self, filter: _Optional[_Union[JobFilter, _Mapping]] = ..., after_sequence: _Optional[int] = ..., view: _Optional[_Union[JobView, str]] = ...) -> None: ...

class WatchJobsResponse(_message.Message):
    __slots__ = ("sequence", "job", "events", "caught_up")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    CAUGHT_UP_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    job: _types_pb2.Job
    events: _containers.RepeatedCompositeFieldContainer[_types_pb2.Event]
    caught_up: bool
    def __init__(self, sequence: _Optional[int] = ..., job: _Optional[_Union[_types_pb2.Job, _Mapping]] = ..., events: _Optional[_Iterable[_Union[_types_pb2.Event, _Mapping]]] = ..., caught_up: _Optional[bool] = ...) -> None: ...

class PlanRequest(_message.Message):
    __slots__ = ("jobs", "without", "profile", "budget_s", "snapshot", "tasks")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    BUDGET_S_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[_types_pb2.JobSpec]
    without: _containers.RepeatedScalarFieldContainer[str]
    profile: str
    budget_s: float
    snapshot: str
    tasks: bool
    def __init__(self, jobs: _Optional[_Iterable[_Union[_types_pb2.JobSpec, _Mapping]]] = ..., without: _Optional[_Iterable[str]] = ..., profile: _Optional[str] = ..., budget_s: _Optional[float] = ..., snapshot: _Optional[str] = ..., tasks: _Optional[bool] = ...) -> None: ...

class PlanResponse(_message.Message):
    __slots__ = ("plan", "state_version", "at")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    STATE_VERSION_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    plan: _types_pb2.Plan
    state_version: int
    at: float
    def __init__(self, plan: _Optional[_Union[_types_pb2.Plan, _Mapping]] = ..., state_version: _Optional[int] = ..., at: _Optional[float] = ...) -> None: ...

class Round(_message.Message):
    __slots__ = ("id", "at", "info", "bill", "starts", "preemptions", "migrations", "resizes", "plan")
    ID_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    INFO_FIELD_NUMBER: _ClassVar[int]
    BILL_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_FIELD_NUMBER: _ClassVar[int]
    MIGRATIONS_FIELD_NUMBER: _ClassVar[int]
    RESIZES_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    id: int
    at: float
    info: _types_pb2.RoundInfo
    bill: _types_pb2.Bill
    starts: int
    preemptions: int
    migrations: int
    resizes: int
    plan: _types_pb2.Plan
    def __init__(self, id: _Optional[int] = ..., at: _Optional[float] = ..., info: _Optional[_Union[_types_pb2.RoundInfo, _Mapping]] = ..., bill: _Optional[_Union[_types_pb2.Bill, _Mapping]] = ..., starts: _Optional[int] = ..., preemptions: _Optional[int] = ..., migrations: _Optional[int] = ..., resizes: _Optional[int] = ..., plan: _Optional[_Union[_types_pb2.Plan, _Mapping]] = ...) -> None: ...

class ListRoundsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListRoundsResponse(_message.Message):
    __slots__ = ("rounds", "next_page_token")
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    rounds: _containers.RepeatedCompositeFieldContainer[Round]
    next_page_token: str
    def __init__(self, rounds: _Optional[_Iterable[_Union[Round, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetRoundRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class ReadLogsRequest(_message.Message):
    __slots__ = ("job", "run", "rank", "stream", "offset", "follow")
    JOB_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    job: str
    run: int
    rank: int
    stream: LogStream
    offset: int
    follow: bool
    def __init__(self, job: _Optional[str] = ..., run: _Optional[int] = ..., rank: _Optional[int] = ..., stream: _Optional[_Union[LogStream, str]] = ..., offset: _Optional[int] = ..., follow: _Optional[bool] = ...) -> None: ...

class ReadLogsResponse(_message.Message):
    __slots__ = ("data", "offset")
    DATA_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    offset: int
    def __init__(self, data: _Optional[bytes] = ..., offset: _Optional[int] = ...) -> None: ...

class AttachRequest(_message.Message):
    __slots__ = ("open", "input", "resize")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    RESIZE_FIELD_NUMBER: _ClassVar[int]
    open: AttachOpen
    input: bytes
    resize: TerminalSize
    def __init__(self, open: _Optional[_Union[AttachOpen, _Mapping]] = ..., input: _Optional[bytes] = ..., resize: _Optional[_Union[TerminalSize, _Mapping]] = ...) -> None: ...

class AttachOpen(_message.Message):
    __slots__ = ("job", "rank", "command", "size")
    JOB_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    job: str
    rank: int
    command: _containers.RepeatedScalarFieldContainer[str]
    size: TerminalSize
    def __init__(self, job: _Optional[str] = ..., rank: _Optional[int] = ..., command: _Optional[_Iterable[str]] = ..., size: _Optional[_Union[TerminalSize, _Mapping]] = ...) -> None: ...

class TerminalSize(_message.Message):
    __slots__ = ("rows", "columns")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    columns: int
    def __init__(self, rows: _Optional[int] = ..., columns: _Optional[int] = ...) -> None: ...

class AttachResponse(_message.Message):
    __slots__ = ("output", "exit_code")
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    output: bytes
    exit_code: int
    def __init__(self, output: _Optional[bytes] = ..., exit_code: _Optional[int] = ...) -> None: ...
