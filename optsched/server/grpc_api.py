"""The gRPC service: every method of the contract, bound by name to what serves it; one that nothing serves says so."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from optsched.errors import Fault, InputError, InternalError, NotServed, OptschedError
from optsched.server.access import Gate, bearer_of
from optsched.server.application import Answer, Application, Stream
from optsched.server.caller import Caller
from optsched.server.checks import Plain
from optsched.wire.convert import to_message, to_plain
from optsched.wire.status import answer_of, trailers_of
from optsched.wire.v1 import agent_pb2, cluster_pb2, scheduler_pb2

log = logging.getLogger(__name__)

Context = grpc.aio.ServicerContext[Any, Any]

SERVICES: tuple[ServiceDescriptor, ...] = (
    scheduler_pb2.DESCRIPTOR.services_by_name["Scheduler"],
    cluster_pb2.DESCRIPTOR.services_by_name["Cluster"],
    agent_pb2.DESCRIPTOR.services_by_name["Agent"],
)

MIB = 2**20


def options(max_message_bytes: int = 16 * MIB, max_streams: int = 1000) -> list[tuple[str, int]]:
    """Return how connections are kept: limits of messages and streams, and pings that find the dead.

    A client may ping every 10 s, also without calls; the server pings what is silent for 30 s and gives it 10 s.
    """
    return [
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", 4 * max_message_bytes),
        ("grpc.max_metadata_size", 16 * 1024),
        ("grpc.max_concurrent_streams", max_streams),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.so_reuseport", 0),
    ]


class GrpcApi:
    """Binds an application to a server."""

    def __init__(self, app: Application, gate: Gate) -> None:
        self._app = app
        self._gate = gate
        self._answers = app.answers()
        self._streams = app.streams()
        self.health = health.aio.HealthServicer()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Serve the contract, health and reflection."""
        for service in SERVICES:
            handlers = {method.name: self._handler(service, method) for method in service.methods}
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.full_name, handlers),))
        health_pb2_grpc.add_HealthServicer_to_server(self.health, server)
        names = (*(service.full_name for service in SERVICES), health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)

    async def tell_health(self, *, serving: bool) -> None:
        """Say whether the service is up."""
        known = health_pb2.HealthCheckResponse
        status = known.SERVING if serving else known.NOT_SERVING
        for name in ("", *(service.full_name for service in SERVICES)):
            await self.health.set(name, status)

    def _handler(self, service: ServiceDescriptor, method: MethodDescriptor) -> grpc.RpcMethodHandler[Any, Any]:
        name = f"{service.name}.{method.name}"
        taken = GetMessageClass(method.input_type)
        given = GetMessageClass(method.output_type)
        how: dict[str, Any] = {"response_serializer": given.SerializeToString}
        if name == "Agent.Connect":
            return grpc.stream_stream_rpc_method_handler(self._connect, request_deserializer=taken.FromString, **how)
        if name == "Scheduler.Attach":
            return grpc.stream_stream_rpc_method_handler(self._attach, request_deserializer=taken.FromString, **how)
        # What comes in is read where a fault in it can be told.
        if method.server_streaming:
            stream = self._streams[name]
            return grpc.unary_stream_rpc_method_handler(_streaming(name, stream, taken, given, self._gate), **how)
        answer = self._answers.get(name)
        return grpc.unary_unary_rpc_method_handler(_answering(name, answer, taken, given, self._gate), **how)

    async def _connect(self, incoming: AsyncIterator[agent_pb2.AgentMessage], context: Context) -> None:
        try:
            caller = caller_of(context, "Agent.Connect", self._gate)
            await _write_all(self._app.agents.connect(incoming, context.peer(), caller), context)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            await _abort(context, "Agent.Connect", error)

    async def _attach(self, incoming: AsyncIterator[scheduler_pb2.AttachRequest], context: Context) -> None:
        try:
            caller = caller_of(context, "Scheduler.Attach", self._gate)
            await _write_all(self._app.output.attach(incoming, caller), context)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            await _abort(context, "Scheduler.Attach", error)


async def _write_all(messages: AsyncGenerator[Message, None], context: Context) -> None:
    """Send all that a generator yields, and close it, also where the call ends in the middle of a message.

    A generator that is handed to gRPC may be closed only when the collector comes by; what ends with it would wait.
    """
    async with aclosing(messages):
        async for message in messages:
            await context.write(message)


def _answering(name: str, answer: Answer | None, taken: type[Message], given: type[Message], gate: Gate) -> Any:
    async def serve(data: bytes, context: Context) -> Message:
        try:
            caller = caller_of(context, name, gate)
            if answer is None:
                raise NotServed(f"{name} is not served by this version")
            return to_message(given, await answer(_read(taken, data), caller))
        except asyncio.CancelledError:
            raise
        except Exception as error:
            await _abort(context, name, error)
            raise

    return serve


def _streaming(name: str, stream: Stream, taken: type[Message], given: type[Message], gate: Gate) -> Any:
    async def rows_of(rows: AsyncGenerator[Plain, None], context: Context) -> AsyncGenerator[Message, None]:
        async with aclosing(rows):
            # It watches from its first step on; then the caller may know that nothing is missed any more.
            first = asyncio.ensure_future(anext(rows))
            try:
                await asyncio.sleep(0)
                await context.send_initial_metadata(())
                yield to_message(given, await first)
            except StopAsyncIteration:
                return
            finally:
                first.cancel()
            async for row in rows:
                yield to_message(given, row)

    async def serve(data: bytes, context: Context) -> None:
        try:
            caller = caller_of(context, name, gate)
            await _write_all(rows_of(stream(_read(taken, data), caller), context), context)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            await _abort(context, name, error)

    return serve


def _read(kind: type[Message], data: bytes) -> Plain:
    """Return a request as plain data. Raises InputError for bytes that are none."""
    try:
        return to_plain(kind.FromString(data))
    except DecodeError:
        fault = Fault("request", None, "(message)", "cannot be read", f"a message {kind.DESCRIPTOR.full_name}")
        raise InputError([fault]) from None


def caller_of(context: Context, name: str, gate: Gate) -> Caller:
    """Return who calls a method: by the token, or by the certificate. Raises what the gate raises."""
    metadata = context.invocation_metadata() or ()
    header = next((value for key, value in metadata if key == "authorization"), None)
    bearer = bearer_of(header if isinstance(header, str) else None)
    names = None if gate.tokens is None else (context.auth_context() or {}).get("x509_common_name")
    certificate = next(iter(names)).decode("utf-8", "replace") if names else None
    return gate.enter(name, bearer, certificate, context.peer())


async def _abort(context: Context, name: str, error: Exception) -> None:
    """End a call with the status of an error."""
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if not isinstance(error, OptschedError) or isinstance(error, InternalError):
        log.error("a call failed: a bug", exc_info=error, extra={"method": name})
    answer = answer_of(error)
    await context.abort(answer.code, answer.message[:4000], trailers_of(answer))
