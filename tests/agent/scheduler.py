"""A scheduler for tests: a real gRPC server in this process, which says what a test wants and keeps what it hears."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from optsched.wire.v1 import agent_pb2 as wire
from optsched.wire.v1 import agent_pb2_grpc

Body = Any


@dataclass
class Stream:
    """One agent's stream, as the scheduler has it."""

    register: wire.Register
    out: asyncio.Queue[wire.SchedulerMessage | None] = field(default_factory=asyncio.Queue)

    def say(self, **body: Any) -> None:
        self.out.put_nowait(wire.SchedulerMessage(**body))

    def end(self) -> None:
        self.out.put_nowait(None)


@dataclass
class FakeScheduler(agent_pb2_grpc.AgentServicer):
    """Serves any agent under `epoch`; acknowledges what it hears while `acks`; with `refuse`, says that instead."""

    epoch: int = 1
    acks: bool = True
    refuse: wire.Refused | None = None
    beat_s: float = 60.0
    port: int = 0
    streams: list[Stream] = field(default_factory=list)
    heard: list[wire.AgentMessage] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _server: Any = None

    async def start(self, port: int = 0) -> None:
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        agent_pb2_grpc.add_AgentServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(None)

    async def Connect(self, incoming: AsyncIterator[wire.AgentMessage], context: Any) -> AsyncIterator[Any]:
        first = await anext(incoming)
        stream = Stream(first.register)
        if self.refuse is not None:
            yield wire.SchedulerMessage(refused=self.refuse)
            self._tell(stream)
            return
        registered = wire.Registered(epoch=self.epoch, heartbeat_every_s=self.beat_s, lease_s=60)
        yield wire.SchedulerMessage(registered=registered)
        reader = asyncio.create_task(self._read(stream, incoming))
        self._tell(stream)
        try:
            while (message := await stream.out.get()) is not None:
                yield message
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    def _tell(self, stream: Stream) -> None:
        self.streams.append(stream)
        self._ring()

    def _ring(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _read(self, stream: Stream, incoming: AsyncIterator[wire.AgentMessage]) -> None:
        async for message in incoming:
            if message.WhichOneof("body") in ("report", "checkpoint", "probe") and self.acks:
                stream.say(ack=wire.Ack(sequence=message.sequence, result=wire.ACK_RESULT_TAKEN))
            self.heard.append(message)
            self._ring()
        stream.end()

    # What tests say and wait for

    async def until(self, condition: Callable[[], Any]) -> Any:
        """Wait until a condition holds, and return what it gives; it is looked at when something is heard."""
        while not (found := condition()):
            await self._news.wait()
        return found

    async def connected(self, streams: int = 1) -> Stream:
        """The newest stream, once there are so many."""
        await self.until(lambda: len(self.streams) >= streams)
        return self.streams[-1]

    def bodies(self, kind: str) -> list[Body]:
        return [getattr(each, kind) for each in self.heard if each.WhichOneof("body") == kind]

    def reports(self, job: str, run: int, outcome: int) -> list[wire.Report]:
        return [each for each in self.bodies("report") if (each.job, each.run, each.outcome) == (job, run, outcome)]

    async def report(self, job: str, run: int, outcome: int, count: int = 1) -> wire.Report:
        """The newest report of a kind, once there are so many."""
        found = await self.until(lambda: len(r := self.reports(job, run, outcome)) >= count and r)
        return found[-1]

    def header(self, job: str, run: int, epoch: int | None = None) -> wire.CommandHeader:
        return wire.CommandHeader(epoch=self.epoch if epoch is None else epoch, job=job, run=run)

    def reserve(self, job: str, run: int = 1, gpus: tuple[int, ...] = (0,), epoch: int | None = None) -> None:
        header = self.header(job, run, epoch)
        self.streams[-1].say(reserve=wire.Reserve(header=header, gpus=len(gpus), gpu_indices=gpus))

    def begin(self, job: str, run: int, command: list[str], **more: Any) -> None:
        tasks = more.pop("tasks", None) or [wire.Task(rank=0, local_rank=0, gpu_indices=[0], gpus=1)]
        given = {"world_size": len(tasks), "node_count": 1, "master_address": "127.0.0.1", "gang_gpus": 1} | more
        header = self.header(job, run, given.pop("epoch", None))
        self.streams[-1].say(start=wire.Start(header=header, command=command, tasks=tasks, **given))

    async def run(self, job: str, run: int, command: list[str], gpus: tuple[int, ...] = (0,), **more: Any) -> None:
        """Reserve, start, and wait until it works."""
        self.reserve(job, run, gpus)
        reserved = await self.report(job, run, wire.OUTCOME_RESERVED)
        self.begin(job, run, command, master_port=reserved.port, **more)
        await self.report(job, run, wire.OUTCOME_STARTED)

    def signal(self, job: str, run: int = 1, grace_s: float = 60.0, epoch: int | None = None) -> None:
        self.streams[-1].say(signal=wire.Signal(header=self.header(job, run, epoch), grace_s=grace_s))

    def kill(self, job: str, run: int = 1, epoch: int | None = None) -> None:
        self.streams[-1].say(kill=wire.Kill(header=self.header(job, run, epoch)))

    def release(self, job: str, run: int = 1, epoch: int | None = None) -> None:
        self.streams[-1].say(release=wire.Release(header=self.header(job, run, epoch)))


@asynccontextmanager
async def scheduler(**more: Any) -> AsyncIterator[FakeScheduler]:
    made = FakeScheduler(**more)
    await made.start()
    try:
        yield made
    finally:
        await made.stop()
