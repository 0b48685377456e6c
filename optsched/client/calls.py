"""Calls of the service: to one of its addresses, in time, again where nobody answers; refusals as exceptions."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from optsched.client.settings import Settings
from optsched.errors import Away, Busy, NoAnswer, NotLeading, OptschedError, TooSlow, UsageError
from optsched.wire.status import DETAILS_KEY, error_of

M = TypeVar("M", bound=Message)

FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 2.0
MIB = 2**20
OPTIONS = [
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.max_receive_message_length", 256 * MIB),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.use_local_subchannel_pool", 1),
    # Here calls are made again, by one rule for all of them.
    ("grpc.enable_retries", 0),
]
_CAUSE = re.compile(r".*(?:Failed to connect to remote host: |last error: [A-Z_]+: (?:ipv[46]:\S+: )?)", re.DOTALL)


@dataclass(slots=True)
class Time:
    """The clock of a client, and how it waits."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    draw: Callable[[float, float], float] = random.uniform


class Calls:
    """Makes calls. Where one address does not answer, the next call goes to the next."""

    def __init__(self, settings: Settings, clock: Time | None = None) -> None:
        self.settings = settings
        self.clock = clock or Time()
        self._targets = settings.scheduler.split(",")
        self._at = 0
        self._channel: grpc.Channel | None = None

    @property
    def target(self) -> str:
        """The address in use."""
        return self._targets[self._at % len(self._targets)]

    def close(self) -> None:
        """End the connection."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def call(self, method: str, request: Message, kind: type[M], *, again: bool = True) -> M:
        """Return the answer to a call. `again`: it does no harm twice, and is repeated where nobody answers.

        Raises what the service refuses it with, NoAnswer, or TooSlow.
        """
        patience = self.patience()
        while True:
            try:
                call: Any = self._channel_to().unary_unary(
                    path_of(method),
                    request_serializer=type(request).SerializeToString,
                    response_deserializer=kind.FromString,
                )
                answer: M = call(request, timeout=self.settings.timeout_s, metadata=self._metadata())
                return answer
            except grpc.RpcError as error:
                found = self.meant(error)
                if not again:
                    raise found from None
                patience.wait(found)

    def stream(self, method: str, request: Message, kind: type[M], end: float | None = None) -> Iterator[M]:
        """Yield what a call answers; `end`: not beyond an instant of the clock. Raises as `call` does."""
        call: Any = self._channel_to().unary_stream(
            path_of(method),
            request_serializer=type(request).SerializeToString,
            response_deserializer=kind.FromString,
        )
        left = None if end is None else max(0.0, end - self.clock.now())
        rows: Any = call(request, timeout=left, metadata=self._metadata())
        try:
            yield from rows
        except grpc.RpcError as error:
            raise self.meant(error) from None
        finally:
            rows.cancel()

    def both_ways(self, method: str, requests: Iterator[Message], sent: type[Message], kind: type[Message]) -> Any:
        """Return a call that goes both ways, as gRPC has it."""
        call: Any = self._channel_to().stream_stream(
            path_of(method),
            request_serializer=sent.SerializeToString,
            response_deserializer=kind.FromString,
        )
        return call(requests, metadata=self._metadata())

    def patience(self) -> Patience:
        """Return what says how long it is tried again."""
        return Patience(self.settings.patience_s, self.clock)

    def meant(self, error: grpc.RpcError) -> OptschedError:
        """Return what an error of gRPC means; where nobody answered, the next call goes to the next address."""
        code, text = error.code(), str(error.details() or "")
        trailers: Any = error.trailing_metadata() or ()
        details = dict(trailers).get(DETAILS_KEY)
        if code is grpc.StatusCode.DEADLINE_EXCEEDED and text == "Deadline Exceeded":
            return TooSlow(f"{self.target} gave no answer in time: what was asked may still happen")
        found = error_of(code, text, details if isinstance(details, bytes) else None)
        if isinstance(found, NoAnswer | NotLeading) and len(self._targets) > 1:
            self.close()
        if isinstance(found, NoAnswer):
            where, self._at = self.target, self._at + 1
            if found.again:
                return NoAnswer(f"no scheduler answers at {where}: {self._cause(text)}")
        return found

    def _cause(self, text: str) -> str:
        """Return why a connection failed, in few words; a connection that is closed at once is one not believed in."""
        cause = _CAUSE.sub("", text)[:200] or "no reason is known"
        if "closed" not in cause.lower():
            return cause
        if self.settings.tls_ca is None:
            return f"{cause}; does it want TLS (tls_ca)?"
        return f"{cause}; does it want a certificate (tls_certificate)?" if self.settings.tls_key is None else cause

    def _channel_to(self) -> grpc.Channel:
        if self._channel is None:
            try:
                credentials = self.settings.access.credentials()
            except OSError as error:
                raise UsageError(f"{error.filename} cannot be read: {error.strerror or error}") from None
            if credentials is None:
                self._channel = grpc.insecure_channel(self.target, options=OPTIONS)
            else:
                self._channel = grpc.secure_channel(self.target, credentials, options=OPTIONS)
        return self._channel

    def _metadata(self) -> list[tuple[str, str]]:
        try:
            return self.settings.access.metadata()
        except OSError as error:
            raise UsageError(f"{error.filename} cannot be read: {error.strerror or error}") from None


def path_of(method: str) -> str:
    """Return the path of a method that is called by its service and name, as in "Scheduler.GetJob"."""
    return "/optsched.v1." + method.replace(".", "/")


@dataclass(slots=True)
class Patience:
    """How long it is tried again: `limit_s` seconds from the first failure in a row."""

    limit_s: float
    clock: Time
    _since: float | None = None
    _wait_s: float = field(default=FIRST_WAIT_S)

    def wait(self, error: OptschedError) -> None:
        """Wait before the next try. Raises the error where there is none: patience is over, or it would not help."""
        if not isinstance(error, NoAnswer | Away | Busy) or (isinstance(error, NoAnswer) and not error.again):
            raise error
        now = self.clock.now()
        self._since = now if self._since is None else self._since
        pause = self.clock.draw(self._wait_s / 2, self._wait_s)
        if isinstance(error, Busy):
            pause = max(pause, error.retry_after_s)
        if now + pause > self._since + self.limit_s:
            raise error
        self.clock.sleep(pause)
        self._wait_s = min(LONGEST_WAIT_S, 2 * self._wait_s)

    def succeed(self) -> None:
        """Note that somebody answered."""
        self._since, self._wait_s = None, FIRST_WAIT_S
