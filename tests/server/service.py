"""A service on loopback, with clients made by the stock compiler and agents that are fakes on real streams.

Nothing sleeps: whoever waits, waits for a condition of the durable state, or for a message.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import httpx

from optsched.clock import StoppedClock
from optsched.engine.planning import RoundPlanner
from optsched.engine.ports import Store
from optsched.engine.state import State
from optsched.planner.plan import PlanOptions
from optsched.server.now import SteadyNow
from optsched.server.runners import Runner, ThreadRunner
from optsched.server.serve import Service
from optsched.server.settings import Settings
from optsched.store.memory import MemoryStore
from optsched.values.ids import JobId, NodeId
from optsched.values.job import JobState
from optsched.wire.v1 import agent_pb2 as wire
from optsched.wire.v1 import agent_pb2_grpc, cluster_pb2_grpc, scheduler_pb2_grpc, types_pb2

LONGEST_S = 300.0
"""A test that takes longer hangs: every condition comes within a second or so, on a machine with nothing else to do."""

RACKS = str(Path(__file__).with_name("data") / "racks.yaml")
"""A cluster with racks, and no nodes: agents bring them along."""

QUICK: dict[str, object] = {
    "grpc_listen": "127.0.0.1:0",
    "rest_listen": "127.0.0.1:0",
    "rounds_in": "thread",
    "round_gap_s": 0.001,
    "tick_s": 0.01,
    "heartbeat_s": 0.5,
    # Tests set the clock forward; those about leases say how long one lasts.
    "lease_s": 86_400.0,
    "shutdown_s": 1.0,
}


class JumpingNow(SteadyNow):
    """The clock of the machine, which a test may set forward."""

    ahead_s = 0.0

    def __call__(self) -> float:
        return super().__call__() + self.ahead_s


@dataclass
class Served:
    """A service that runs, and stubs for it."""

    service: Service
    channel: grpc.aio.Channel
    http: httpx.AsyncClient
    now: JumpingNow
    agents: list[FakeAgent] = field(default_factory=list)

    @property
    def scheduler(self) -> Any:
        return scheduler_pb2_grpc.SchedulerStub(self.channel)

    @property
    def cluster(self) -> Any:
        return cluster_pb2_grpc.ClusterStub(self.channel)

    @property
    def state(self) -> State:
        return self.service.app.leader.state

    async def until(self, condition: Callable[[State], bool]) -> State:
        return await self.service.app.leader.until(condition)

    async def job_is(self, job: str, *states: JobState) -> State:
        def there(state: State) -> bool:
            record = state.record(JobId(job))
            return record is not None and record.state in states

        return await self.until(there)

    def told(self) -> str:
        """How things stand, for who waits in vain."""
        jobs = [f"{each.id} {each.state.value} {each.reason} {each.stop}" for each in self.state.jobs.values()]
        heard = [f"{each.node} heard {[m.WhichOneof('body') for m in each.heard]}" for each in self.agents]
        now = f"now {self.now()}, state at {self.state.now}, due {self.state.due}, paused {self.state.paused!r}"
        return "; ".join([now, *jobs, *heard])

    async def agent(self, node: str, **spec: Any) -> FakeAgent:
        """An agent that has registered, and answers everything at once."""
        made = FakeAgent(self, node, spec=types_pb2.NodeSpec(id=node, **({"gpus": 8} | spec)))
        await made.connect()
        return made

    async def racks(self, *racks: str, gpus: int = 8) -> list[FakeAgent]:
        """Agents of nodes by rack, in service: racks("a b", "c d")."""
        made = [
            await self.agent(node, gpus=gpus, domains={"rack": f"r{number}"} if len(racks) > 1 else {})
            for number, names in enumerate(racks)
            for node in names.split()
        ]
        for each in made:
            await self.until(lambda state, n=each.node: state.nodes[NodeId(n)].node.state.value == "up")
        return made


@dataclass
class FakeAgent:
    """An agent on a real stream. What it is asked for it does at once, but for verbs in `deaf`.

    `ends`: tasks end well as soon as they have started.
    """

    served: Served
    node: str
    spec: types_pb2.NodeSpec
    agent: str = ""
    session: int = 1
    deaf: set[str] = field(default_factory=set)
    held: dict[tuple[str, int], int] = field(default_factory=dict)
    heard: list[wire.SchedulerMessage] = field(default_factory=list)
    ends: bool = False
    said_ok: dict[int, tuple[str, int]] = field(default_factory=dict)
    epoch: int = 0
    sequence: int = 0
    call: Any = None
    _reader: asyncio.Task[None] | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def open(self) -> Any:
        """Connect, register, and return the first answer."""
        self.call = agent_pb2_grpc.AgentStub(self.served.channel).Connect()
        self.sequence = 0
        phases = [wire.HeldRun(job=job, run=run, phase=phase) for (job, run), phase in self.held.items()]  # type: ignore[arg-type]
        name = self.agent or f"agent-of-{self.node}"
        await self.say(
            register=wire.Register(
                node=self.node,
                agent=name,
                session=self.session,
                spec=self.spec,
                address=f"{self.node}.test",
                held=phases,
                epoch=self.epoch,
            )
        )
        return await self.call.read()

    async def connect(self) -> None:
        first = await self.open()
        assert first.WhichOneof("body") == "registered", first
        self.epoch = first.registered.epoch
        self.heard.append(first)
        self._reader = asyncio.create_task(self._read())
        self.served.agents.append(self)

    async def say(self, **body: Any) -> int:
        async with self._writing:
            self.sequence += 1
            sequence = self.sequence
            await self.call.write(wire.AgentMessage(sequence=sequence, **body))
            return sequence

    async def report(self, job: str, run: int, outcome: int, **more: Any) -> int:
        more.setdefault("epoch", self.epoch)
        sequence = await self.say(report=wire.Report(job=job, run=run, outcome=outcome, **more))  # type: ignore[arg-type]
        if outcome == wire.OUTCOME_OK:
            self.said_ok[sequence] = (job, run)
        return sequence

    async def acked(self, sequence: int) -> wire.Ack:
        """The answer to a message."""
        await self.hears(lambda each: each.WhichOneof("body") == "ack" and each.ack.sequence == sequence)
        return next(each.ack for each in self.heard if each.HasField("ack") and each.ack.sequence == sequence)

    async def asked(self, verb: str) -> Any:
        """The newest command of a kind, once there is one."""
        await self.hears(lambda each: each.WhichOneof("body") == verb)
        return [getattr(each, verb) for each in self.heard if each.WhichOneof("body") == verb][-1]

    async def hears(self, wanted: Callable[[wire.SchedulerMessage], bool]) -> None:
        while not any(wanted(each) for each in self.heard):
            news = self._news
            await news.wait()

    async def leave(self) -> None:
        """Break the stream."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
            self._reader = None
        self.call.cancel()

    async def _read(self) -> None:
        try:
            while (message := await self.call.read()) is not grpc.aio.EOF:
                self.heard.append(message)
                await self._do(message)
                news, self._news = self._news, asyncio.Event()
                news.set()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return

    async def _do(self, message: wire.SchedulerMessage) -> None:
        verb = message.WhichOneof("body")
        if verb in self.deaf:
            return
        if verb == "probe":
            await self.say(probe=wire.ProbeResult(ok=True, probe=message.probe.probe))
        if verb not in ("reserve", "start", "signal", "kill", "release"):
            return
        header = getattr(message, verb).header
        key = (header.job, header.run)
        if verb == "reserve":
            self.held[key] = wire.RUN_PHASE_RESERVED
            await self.report(*key, wire.OUTCOME_RESERVED, port=29500)
        elif verb == "start":
            self.held[key] = wire.RUN_PHASE_STARTED
            await self.report(*key, wire.OUTCOME_STARTED)
            if self.ends:
                await self.report(*key, wire.OUTCOME_OK)
        else:
            self.held.pop(key, None)
            await self.report(*key, wire.OUTCOME_RELEASED)


@asynccontextmanager
async def serving(
    store: Store | None = None, runner: Runner | None = None, **settings: object
) -> AsyncIterator[Served]:
    """A service that runs; it is stopped in order at the end."""
    now = JumpingNow()
    planner = ThreadRunner(RoundPlanner(PlanOptions(budget_s=5.0, deterministic_s=0.5, prove=1), StoppedClock()))
    service = Service(Settings.model_validate(QUICK | settings), store or MemoryStore(), now, runner or planner)
    await service.start()
    try:
        async with (
            grpc.aio.insecure_channel(service.grpc_address) as channel,
            httpx.AsyncClient(base_url=f"http://{service.rest_address}", trust_env=False) as http,
        ):
            served = Served(service, channel, http, now)
            try:
                yield served
            finally:
                for each in served.agents:
                    await each.leave()
    finally:
        await service.stop()


def served(**settings: object) -> Callable[[Callable[[Served], Awaitable[None]]], Callable[[], None]]:
    """Make a test of what happens to a service with some settings."""

    def wrap(test: Callable[[Served], Awaitable[None]]) -> Callable[[], None]:
        @functools.wraps(test)
        def run() -> None:
            async def whole() -> None:
                async with serving(**settings) as made:
                    try:
                        async with asyncio.timeout(LONGEST_S):
                            await test(made)
                    except TimeoutError:
                        raise AssertionError(f"what was waited for never came; {made.told()}") from None

            asyncio.run(whole())

        del run.__wrapped__  # type: ignore[attr-defined]
        return run

    return wrap
