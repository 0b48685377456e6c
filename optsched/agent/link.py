"""The stream with the scheduler: opened again and again, with longer waits; what was said is said again until heard."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np

from optsched.agent import messages as m
from optsched.agent.values import Pending
from optsched.agent.wire_words import command_of, spoken
from optsched.errors import UsageError
from optsched.wire.access import OPEN, Access
from optsched.wire.v1 import agent_pb2 as wire
from optsched.wire.v1 import agent_pb2_grpc

log = logging.getLogger(__name__)

FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 15.0
OFTEN = 8
"""So many times an agent tries again soon: a scheduler does not wait for long before it gives up a node."""

MOST_QUEUED = 256
MIB = 2**20
_Call = Any
OPTIONS = [
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.max_receive_message_length", 16 * MIB),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.use_local_subchannel_pool", 1),
]


class Stop(enum.Enum):
    """Why an agent is not to connect again."""

    TWO_AGENTS = "two_agents"
    SUPERSEDED = "superseded"
    VERSION = "version"
    INVALID = "invalid"


_FINAL = {
    wire.REFUSAL_CODE_TWO_AGENTS: Stop.TWO_AGENTS,
    wire.REFUSAL_CODE_SUPERSEDED: Stop.SUPERSEDED,
    wire.REFUSAL_CODE_VERSION: Stop.VERSION,
    wire.REFUSAL_CODE_INVALID: Stop.INVALID,
}


def wait_s(failures: int, draw: np.random.Generator) -> float:
    """Return how long to wait before connecting again after so many failures in a row (1 or more), in seconds.

    At first 0.5, up to the eighth 1, then doubled with each up to 15; of that a half to the whole, by chance, so that a
    thousand agents do not come back at one moment.
    """
    longest = FIRST_WAIT_S if failures == 1 else min(LONGEST_WAIT_S, 2.0 ** min(max(0, failures - OFTEN), 10))
    return float(draw.uniform(longest / 2, longest))


def _channel(access: Access, target: str) -> grpc.aio.Channel:
    """Return a channel to a scheduler. Raises OSError or UsageError for a file that cannot be read, or used."""
    credentials = access.credentials()
    if credentials is None:
        return grpc.aio.insecure_channel(target, options=OPTIONS)
    return grpc.aio.secure_channel(target, credentials, options=OPTIONS)


def _nothing() -> None:
    """Nobody wants to know."""


@dataclass(slots=True)
class _Stream:
    """One stream: its number of messages, and which of them wait for an acknowledgement."""

    epoch: int = 0
    sequence: int = 0
    beat_s: float = 10.0
    waiting: dict[int, int] = field(default_factory=dict)
    said: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Link:
    """The agent's side of Connect.

    `hello` makes the first message of a stream, `outbox` gives what waits to be said, in order, and `epoch` the largest
    that was seen: a scheduler of an older one is told nothing. `tell` takes commands, `hear` what is not for the core.
    `lost` is called when a stream is over on which this agent was served.
    """

    targets: Sequence[str]
    hello: Callable[[], wire.Register]
    beat: Callable[[], wire.Heartbeat]
    outbox: Callable[[], tuple[Pending, ...]]
    epoch: Callable[[], int]
    tell: Callable[[m.Message], None]
    hear: Callable[[wire.SchedulerMessage], None]
    now: Callable[[], float]
    draw: np.random.Generator
    access: Access = OPEN
    lost: Callable[[], None] = _nothing
    connected: asyncio.Event = field(default_factory=asyncio.Event)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _loose: asyncio.Queue[wire.AgentMessage] = field(default_factory=lambda: asyncio.Queue(MOST_QUEUED))

    def flush(self) -> None:
        """Say what has come to be said."""
        self._news.set()

    async def send(self, message: wire.AgentMessage) -> None:
        """Send what nobody acknowledges, once there is room for it; lost where no stream is open."""
        if self.connected.is_set():
            await self._loose.put(message)
            self._news.set()

    async def run(self) -> tuple[Stop, str]:
        """Stay connected until the scheduler says never to come back; return why."""
        failures, loop = 0, asyncio.get_running_loop()
        while True:
            target, began = self.targets[failures % len(self.targets)], loop.time()
            refused: wire.Refused | None = None
            try:
                async with _channel(self.access, target) as channel:
                    refused = await self._serve(channel)
                why = "the stream ended" if refused is None else refused.reason
            except grpc.aio.AioRpcError as error:
                why = f"{error.code().name.lower()}: {error.details()}"
            except (OSError, UsageError) as error:
                # A file that is being renewed may be half written; the next try reads it again.
                why = str(error)
            except asyncio.CancelledError:
                # That of the stream, by the side that writes; or of this task, by who started it.
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                why = "the stream was given up"
            if self.connected.is_set() and loop.time() - began > LONGEST_WAIT_S:
                failures = 0
            if self.connected.is_set():
                self.connected.clear()
                self.lost()
            if refused is not None and (stop := _FINAL.get(refused.code)) is not None:
                return stop, refused.reason
            failures += 1
            wait = wait_s(failures, self.draw)
            log.warning("no scheduler", extra={"target": target, "why": why, "again_in_s": round(wait, 2)})
            await asyncio.sleep(wait)

    async def _serve(self, channel: grpc.aio.Channel) -> wire.Refused | None:
        """Speak on one stream until it ends; return the refusal that ended it, if one did."""
        call = agent_pb2_grpc.AgentStub(channel).Connect(wait_for_ready=False, metadata=self.access.metadata())  # type: ignore[no-untyped-call]
        stream = _Stream()
        writer: asyncio.Task[None] | None = None
        try:
            await self._write(call, stream, wire.AgentMessage(register=self.hello()))
            while (message := await call.read()) is not grpc.aio.EOF:
                body = message.WhichOneof("body")
                if body == "refused":
                    refused: wire.Refused = message.refused
                    return refused
                if body == "registered":
                    if message.registered.epoch < self.epoch():
                        why = f"its epoch {message.registered.epoch} is over, {self.epoch()} is in force"
                        return wire.Refused(code=wire.REFUSAL_CODE_NOT_LEADER, reason=why)
                    stream.epoch = message.registered.epoch
                    stream.beat_s = message.registered.heartbeat_every_s or stream.beat_s
                    self._drop_loose()
                    self.connected.set()
                    log.info("registered", extra={"epoch": stream.epoch})
                    writer = writer or asyncio.create_task(self._writing(call, stream))
                self._take(message, stream)
            if await call.code() is not grpc.StatusCode.OK:
                log.info("the scheduler ended the stream", extra={"why": await call.details()})
            return None
        finally:
            if writer is not None:
                writer.cancel()
                await asyncio.gather(writer, return_exceptions=True)
            call.cancel()

    def _take(self, message: wire.SchedulerMessage, stream: _Stream) -> None:
        if message.WhichOneof("body") == "ack":
            number = stream.waiting.pop(message.ack.sequence, None)
            if message.ack.result != wire.ACK_RESULT_TAKEN:
                log.warning("the scheduler did not take it", extra={"why": message.ack.reason})
            if number is not None:
                self.tell(m.Acked(number, message.ack.result == wire.ACK_RESULT_TAKEN))
            return
        command = command_of(message)
        if command is not None:
            self.tell(command)
        else:
            self.hear(message)

    def _drop_loose(self) -> None:
        while not self._loose.empty():
            self._loose.get_nowait()

    async def _writing(self, call: _Call, stream: _Stream) -> None:
        """Write what is to be said as it comes, and heartbeats in between; ends with the stream."""
        loop = asyncio.get_running_loop()
        next_beat = loop.time()
        try:
            while True:
                self._news.clear()
                for pending in self.outbox():
                    if pending.id not in stream.said:
                        stream.said.add(pending.id)
                        stream.waiting[stream.sequence + 1] = pending.id
                        await self._write(call, stream, spoken(pending, stream.epoch, self.now()))
                while not self._loose.empty():
                    await self._write(call, stream, self._loose.get_nowait())
                if loop.time() >= next_beat:
                    next_beat = loop.time() + stream.beat_s
                    await self._write(call, stream, wire.AgentMessage(heartbeat=self.beat()))
                # Not wait_for, which may lose a cancellation that comes together with news.
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(next_beat):
                        await self._news.wait()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            log.debug("the stream is gone")
        except Exception:
            log.exception("nothing more can be said on this stream")
        finally:
            # Whoever reads learns by that; a stream on which nothing is said would look alive.
            call.cancel()

    async def _write(self, call: _Call, stream: _Stream, message: wire.AgentMessage) -> None:
        stream.sequence += 1
        message.sequence = stream.sequence
        await call.write(message)
