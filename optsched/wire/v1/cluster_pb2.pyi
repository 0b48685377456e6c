from optsched.wire.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("version", "leads", "epoch", "now_at", "paused", "rules_version", "nodes", "agents_connected", "gpus", "gpus_healthy", "gpus_free", "jobs_by_state", "last_round", "state_version")
    class JobsByStateEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LEADS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NOW_AT_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    RULES_VERSION_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    AGENTS_CONNECTED_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPUS_HEALTHY_FIELD_NUMBER: _ClassVar[int]
    GPUS_FREE_FIELD_NUMBER: _ClassVar[int]
    JOBS_BY_STATE_FIELD_NUMBER: _ClassVar[int]
    LAST_ROUND_FIELD_NUMBER: _ClassVar[int]
    STATE_VERSION_FIELD_NUMBER: _ClassVar[int]
    version: str
    leads: bool
    epoch: int
    now_at: float
    paused: str
    rules_version: int
    nodes: int
    agents_connected: int
    gpus: int
    gpus_healthy: int
    gpus_free: int
    jobs_by_state: _containers.ScalarMap[str, int]
    last_round: int
    state_version: int
    def __init__(self, version: _Optional[str] = ..., leads: _Optional[bool] = ..., epoch: _Optional[int] = ..., now_at: _Optional[float] = ..., paused: _Optional[str] = ..., rules_version: _Optional[int] = ..., nodes: _Optional[int] = ..., agents_connected: _Optional[int] = ..., gpus: _Optional[int] = ..., gpus_healthy: _Optional[int] = ..., gpus_free: _Optional[int] = ..., jobs_by_state: _Optional[_Mapping[str, int]] = ..., last_round: _Optional[int] = ..., state_version: _Optional[int] = ...) -> None: ...

class ListNodesRequest(_message.Message):
    __slots__ = ("states", "domain", "page_size", "page_token")
    STATES_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedScalarFieldContainer[_types_pb2.NodeState]
    domain: str
    page_size: int
    page_token: str
    def __init__(self, states: _Optional[_Iterable[_Union[_types_pb2.NodeState, str]]] = ..., domain: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListNodesResponse(_message.Message):
    __slots__ = ("nodes", "next_page_token", "total")
    NODES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[_types_pb2.Node]
    next_page_token: str
    total: int
    def __init__(self, nodes: _Optional[_Iterable[_Union[_types_pb2.Node, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class GetNodeRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class ListDomainsRequest(_message.Message):
    __slots__ = ("level",)
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    level: str
    def __init__(self, level: _Optional[str] = ...) -> None: ...

class ListDomainsResponse(_message.Message):
    __slots__ = ("levels", "domains")
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    DOMAINS_FIELD_NUMBER: _ClassVar[int]
    levels: _containers.RepeatedScalarFieldContainer[str]
    domains: _containers.RepeatedCompositeFieldContainer[_types_pb2.Domain]
    def __init__(self, levels: _Optional[_Iterable[str]] = ..., domains: _Optional[_Iterable[_Union[_types_pb2.Domain, _Mapping]]] = ...) -> None: ...

class SetNodesRequest(_message.Message):
    __slots__ = ("nodes", "expected_version")
    NODES_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[_types_pb2.NodeSpec]
    expected_version: int
    def __init__(self, nodes: _Optional[_Iterable[_Union[_types_pb2.NodeSpec, _Mapping]]] = ..., expected_version: _Optional[int] = ...) -> None: ...

class SetNodesResponse(_message.Message):
    __slots__ = ("rules_version", "warnings")
    RULES_VERSION_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    rules_version: int
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, rules_version: _Optional[int] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class RemoveNodeRequest(_message.Message):
    __slots__ = ("id", "reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class RemoveNodeResponse(_message.Message):
    __slots__ = ("rules_version",)
    RULES_VERSION_FIELD_NUMBER: _ClassVar[int]
    rules_version: int
    def __init__(self, rules_version: _Optional[int] = ...) -> None: ...

class CordonNodeRequest(_message.Message):
    __slots__ = ("id", "reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class UncordonNodeRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class DrainNodeRequest(_message.Message):
    __slots__ = ("id", "reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class FenceNodeRequest(_message.Message):
    __slots__ = ("id", "reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    id: str
    reason: str
    def __init__(self, id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ListTeamsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTeamsResponse(_message.Message):
    __slots__ = ("teams", "rules_version")
    TEAMS_FIELD_NUMBER: _ClassVar[int]
    RULES_VERSION_FIELD_NUMBER: _ClassVar[int]
    teams: _containers.RepeatedCompositeFieldContainer[_types_pb2.TeamStatus]
    rules_version: int
    def __init__(self, teams: _Optional[_Iterable[_Union[_types_pb2.TeamStatus, _Mapping]]] = ..., rules_version: _Optional[int] = ...) -> None: ...

class SetTeamsRequest(_message.Message):
    __slots__ = ("teams", "expected_version")
    TEAMS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    teams: _containers.RepeatedCompositeFieldContainer[_types_pb2.Team]
    expected_version: int
    def __init__(self, teams: _Optional[_Iterable[_Union[_types_pb2.Team, _Mapping]]] = ..., expected_version: _Optional[int] = ...) -> None: ...

class SetTeamsResponse(_message.Message):
    __slots__ = ("rules_version", "warnings")
    RULES_VERSION_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    rules_version: int
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, rules_version: _Optional[int] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class Profile(_message.Message):
    __slots__ = ("name", "json", "rules_version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    RULES_VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    json: str
    rules_version: int
    def __init__(self, name: _Optional[str] = ..., json: _Optional[str] = ..., rules_version: _Optional[int] = ...) -> None: ...

class GetProfileRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SetProfileRequest(_message.Message):
    __slots__ = ("name", "json", "expected_version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    json: str
    expected_version: int
    def __init__(self, name: _Optional[str] = ..., json: _Optional[str] = ..., expected_version: _Optional[int] = ...) -> None: ...

class ListReservationsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListReservationsResponse(_message.Message):
    __slots__ = ("reservations", "rules_version")
    RESERVATIONS_FIELD_NUMBER: _ClassVar[int]
    RULES_VERSION_FIELD_NUMBER: _ClassVar[int]
    reservations: _containers.RepeatedCompositeFieldContainer[_types_pb2.Reservation]
    rules_version: int
    def __init__(self, reservations: _Optional[_Iterable[_Union[_types_pb2.Reservation, _Mapping]]] = ..., rules_version: _Optional[int] = ...) -> None: ...

class SetReservationRequest(_message.Message):
    __slots__ = ("reservation", "expected_version")
    RESERVATION_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    reservation: _types_pb2.Reservation
    expected_version: int
    def __init__(self, reservation: _Optional[_Union[_types_pb2.Reservation, _Mapping]] = ..., expected_version: _Optional[int] = ...) -> None: ...

class SetReservationResponse(_message.Message):
    __slots__ = ("rules_version", "warnings")
    RULES_VERSION_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    rules_version: int
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, rules_version: _Optional[int] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class DropReservationRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class DropReservationResponse(_message.Message):
    __slots__ = ("rules_version",)
    RULES_VERSION_FIELD_NUMBER: _ClassVar[int]
    rules_version: int
    def __init__(self, rules_version: _Optional[int] = ...) -> None: ...

class ListChangesRequest(_message.Message):
    __slots__ = ("after_sequence", "page_size")
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    after_sequence: int
    page_size: int
    def __init__(self, after_sequence: _Optional[int] = ..., page_size: _Optional[int] = ...) -> None: ...

class ListChangesResponse(_message.Message):
    __slots__ = ("changes", "more")
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[Change]
    more: bool
    def __init__(self, changes: _Optional[_Iterable[_Union[Change, _Mapping]]] = ..., more: _Optional[bool] = ...) -> None: ...

class Change(_message.Message):
    __slots__ = ("sequence", "at", "by", "kind", "json")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    at: float
    by: str
    kind: str
    json: str
    def __init__(self, sequence: _Optional[int] = ..., at: _Optional[float] = ..., by: _Optional[str] = ..., kind: _Optional[str] = ..., json: _Optional[str] = ...) -> None: ...

class WatchEventsRequest(_message.Message):
    __slots__ = ("after_sequence",)
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    after_sequence: int
    def __init__(self, after_sequence: _Optional[int] = ...) -> None: ...
