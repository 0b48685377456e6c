"""Agents that are fakes on real streams: each has a connection of its own, beats, and does at once what it is asked.

What they work on goes through one ledger, which notes where a gang would be started twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np

from optsched.agent.link import wait_s
from optsched.wire.v1 import agent_pb2 as wire
from optsched.wire.v1 import agent_pb2_grpc, types_pb2

OWN_CONNECTION = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 2000),
]

Run = tuple[str, int]


@dataclass(slots=True)
class Ledger:
    """What works where, over all agents; `faults` are starts that should never have been asked for."""

    works: dict[str, dict[tuple[str, int], None]] = field(default_factory=dict)
    started: dict[Run, set[str]] = field(default_factory=dict)
    last_start_at: dict[Run, float] = field(default_factory=dict)
    gpus: dict[str, dict[Run, tuple[int, ...]]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def reserve(self, node: str, run: Run, indices: tuple[int, ...]) -> None:
        """Set GPUs of a node aside."""
        taken = self.gpus.setdefault(node, {})
        for other, theirs in taken.items():
            if other != run and set(theirs) & set(indices):
                self.faults.append(f"{node}: GPUs of {run} belong to {other}")
        taken[run] = indices

    def start(self, node: str, run: Run) -> None:
        """Start a run on a node."""
        others = [each for each in self.works.setdefault(run[0], {}) if each[1] != run[1]]
        if others:
            self.faults.append(f"{run[0]}: run {run[1]} starts on {node} while {others} work")
        self.works[run[0]][node, run[1]] = None
        self.started.setdefault(run, set()).add(node)
        self.last_start_at[run] = time.time()

    def end(self, node: str, run: Run) -> None:
        """Nothing of a run works on a node any more."""
        self.works.get(run[0], {}).pop((node, run[1]), None)
        self.gpus.get(node, {}).pop(run, None)


@dataclass(slots=True)
class SimAgent:
    """One agent. A task of it ends well after `lasts_s` (None: never). It beats every `every_s` by its own count."""

    node: str
    gpus: int
    ledger: Ledger
    lasts_s: Callable[[], float | None]
    address: str
    draw: np.random.Generator
    session: int = 1
    epoch: int = 0
    registered_at: float = 0.0
    registrations: int = 0
    held: dict[Run, int] = field(default_factory=dict)
    ends: dict[Run, asyncio.TimerHandle] = field(default_factory=dict)
    unacked: dict[tuple[str, int, int], wire.Report] = field(default_factory=dict)
    _sent: dict[int, tuple[str, int, int]] = field(default_factory=dict)
    _call: Any = None
    _sequence: int = 0
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _task: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        """Whether it is served."""
        return self._call is not None and self.registered_at > 0

    def run(self) -> None:
        """Connect, and again whenever the stream breaks."""
        self._task = asyncio.create_task(self._live())

    async def die(self) -> None:
        """Stop at once; what worked here works no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for handle in self.ends.values():
            handle.cancel()
        for run in list(self.held):
            self.ledger.end(self.node, run)
        self.held.clear()

    async def _live(self) -> None:
        failures = 0
        while True:
            before = self.registrations
            async with grpc.aio.insecure_channel(self.address, options=OWN_CONNECTION) as channel:
                try:
                    await self._stream(channel)
                except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    pass
                finally:
                    self._call, self.registered_at = None, 0.0
            failures = 1 if self.registrations > before else failures + 1
            await asyncio.sleep(wait_s(failures, self.draw))

    async def _stream(self, channel: grpc.aio.Channel) -> None:
        call = agent_pb2_grpc.AgentStub(channel).Connect()  # type: ignore[no-untyped-call]
        self._call, self._sequence = call, 0
        self._sent.clear()
        spec = types_pb2.NodeSpec(id=self.node, gpus=self.gpus)
        held = [wire.HeldRun(job=job, run=run, phase=phase) for (job, run), phase in self.held.items()]  # type: ignore[arg-type]
        held += [
            wire.HeldRun(job=job, run=run, phase=wire.RUN_PHASE_ENDED)
            for job, run, _ in self.unacked
            if (job, run) not in self.held
        ]
        await self._say(
            register=wire.Register(
                node=self.node,
                agent=f"agent-of-{self.node}",
                session=self.session,
                spec=spec,
                held=held,
                epoch=self.epoch,
            )
        )
        beating: asyncio.Task[None] | None = None
        try:
            while (message := await call.read()) is not grpc.aio.EOF:
                verb = message.WhichOneof("body")
                if verb == "registered":
                    self.epoch = max(self.epoch, message.registered.epoch)
                    self.registered_at = time.perf_counter()
                    self.registrations += 1
                    beating = asyncio.create_task(self._beat(message.registered.heartbeat_every_s))
                    for key in list(self.unacked):
                        await self._send(key)
                elif verb == "refused":
                    return
                elif verb == "ack":
                    self._acked(message.ack)
                else:
                    await self._do(verb, message)
        finally:
            if beating is not None:
                beating.cancel()

    async def _beat(self, every_s: float) -> None:
        # Beats of many agents are spread as they would be.
        await asyncio.sleep(float(self.draw.uniform(0.0, every_s)))
        while True:
            try:
                await self._say(heartbeat=wire.Heartbeat(runs=len(self.held)))
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                return
            await asyncio.sleep(every_s)

    async def _do(self, verb: str, message: wire.SchedulerMessage) -> None:
        if verb == "probe":
            await self._say(probe=wire.ProbeResult(ok=True, probe=message.probe.probe))
            return
        asked = getattr(message, verb)
        if not hasattr(asked, "header"):
            return
        run = (asked.header.job, asked.header.run)
        if asked.header.epoch < self.epoch or any(job == run[0] and number > run[1] for job, number in self.held):
            await self.report(run, wire.OUTCOME_FENCED)
            return
        self.epoch = asked.header.epoch
        if verb == "reserve":
            if run not in self.held:
                self.ledger.reserve(self.node, run, tuple(asked.gpu_indices))
                self.held[run] = wire.RUN_PHASE_RESERVED
            await self.report(run, wire.OUTCOME_RESERVED)
        elif verb == "start":
            if self.held.get(run) == wire.RUN_PHASE_RESERVED:
                self.ledger.start(self.node, run)
                self.held[run] = wire.RUN_PHASE_STARTED
                lasts = self.lasts_s()
                if lasts is not None:
                    loop = asyncio.get_running_loop()
                    self.ends[run] = loop.call_later(lasts, lambda: asyncio.ensure_future(self._done(run)))
            elif run not in self.held:
                self.ledger.faults.append(f"{self.node}: start of {run}, which holds nothing here")
            await self.report(run, wire.OUTCOME_STARTED)
        else:
            self._let_go(run)
            await self.report(run, wire.OUTCOME_RELEASED)

    async def _done(self, run: Run) -> None:
        """The tasks end well; their GPUs stay set aside until the whole gang is done."""
        self.ends.pop(run, None)
        if self.held.get(run) == wire.RUN_PHASE_STARTED:
            self.held[run] = wire.RUN_PHASE_ENDED
            self.ledger.works.get(run[0], {}).pop((self.node, run[1]), None)
            await self.report(run, wire.OUTCOME_OK)

    def _let_go(self, run: Run) -> None:
        handle = self.ends.pop(run, None)
        if handle is not None:
            handle.cancel()
        self.held.pop(run, None)
        self.ledger.end(self.node, run)

    async def report(self, run: Run, outcome: int) -> None:
        """Report, and keep it until it is acknowledged."""
        key = (*run, outcome)
        self.unacked[key] = wire.Report(job=run[0], run=run[1], outcome=outcome, epoch=self.epoch)  # type: ignore[arg-type]
        if self.connected:
            try:
                await self._send(key)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                return

    async def _send(self, key: tuple[str, int, int]) -> None:
        given = self.unacked.get(key)
        if given is None:
            return
        given.epoch = self.epoch
        async with self._writing:
            if self._call is None:
                # The stream broke while this waited for its turn: it is said again on the next one.
                return
            self._sequence += 1
            self._sent[self._sequence] = key
            await self._call.write(wire.AgentMessage(sequence=self._sequence, report=given))

    def _acked(self, ack: wire.Ack) -> None:
        key = self._sent.pop(ack.sequence, None)
        if key is not None:
            self.unacked.pop(key, None)

    async def _say(self, **body: Any) -> None:
        async with self._writing:
            self._sequence += 1
            await self._call.write(wire.AgentMessage(sequence=self._sequence, **body))
