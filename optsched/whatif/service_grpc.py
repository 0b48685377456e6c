"""The same calls over gRPC."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import grpc
from google.protobuf.message import Message

from optsched.errors import NoAnswer, OptschedError, UsageError
from optsched.whatif.service import TIMEOUT_S, Access, Get, Plain, Query
from optsched.wire.access import authorities, bearer
from optsched.wire.convert import to_message, to_plain
from optsched.wire.status import error_of
from optsched.wire.v1 import cluster_pb2, cluster_pb2_grpc, scheduler_pb2, scheduler_pb2_grpc

MIB = 2**20


def channel_to(target: str, tls: bool, access: Access) -> grpc.Channel:
    """Return a channel."""
    options = [("grpc.max_receive_message_length", 256 * MIB)]
    if not tls:
        return grpc.insecure_channel(target, options=options)
    roots = authorities(access.ca, "--ca") if access.ca else None
    return grpc.secure_channel(target, grpc.ssl_channel_credentials(roots), options=options)


def grpc_calls(channel: grpc.Channel, access: Access) -> Get:
    """Return what makes the calls over a channel."""
    cluster = cluster_pb2_grpc.ClusterStub(channel)  # type: ignore[no-untyped-call]
    scheduler = scheduler_pb2_grpc.SchedulerStub(channel)  # type: ignore[no-untyped-call]
    calls: Mapping[str, tuple[Callable[..., Message], type[Message]]] = {
        "status": (cluster.GetStatus, cluster_pb2.GetStatusRequest),
        "domains": (cluster.ListDomains, cluster_pb2.ListDomainsRequest),
        "nodes": (cluster.ListNodes, cluster_pb2.ListNodesRequest),
        "jobs": (scheduler.ListJobs, scheduler_pb2.ListJobsRequest),
        "teams": (cluster.ListTeams, cluster_pb2.ListTeamsRequest),
        "profile": (cluster.GetProfile, cluster_pb2.GetProfileRequest),
        "reservations": (cluster.ListReservations, cluster_pb2.ListReservationsRequest),
    }
    metadata = bearer(access.token) if access.token else []

    def get(path: str, query: Query) -> Plain:
        call, kind = calls[path]
        asked: dict[str, Any] = dict(query)
        states = asked.pop("state", None)
        if states:
            asked["filter"] = {"states": states}
        try:
            return to_plain(call(to_message(kind, asked), metadata=metadata, timeout=TIMEOUT_S))
        except grpc.RpcError as error:
            raise _meant(error, path) from error

    return get


def _meant(error: grpc.RpcError, path: str) -> OptschedError:
    """Return what an error of gRPC means: nobody answers, it is refused, or this is no service of optsched."""
    if not isinstance(error, grpc.Call):
        return NoAnswer(f"--service: {path}: {error}")
    code, text = error.code(), f"--service: {path}: {error.code().name} {error.details()}"
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return UsageError(f"{text}; allowed: the gRPC address of optsched serve")
    if code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
        text = f"{text}; allowed: --token-file with a token that may read"
    return error_of(code, text, None)
