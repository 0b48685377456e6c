"""An agent put together: the core, and around it the stream, the disk, the processes and the GPUs."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Coroutine

import numpy as np

import optsched
from optsched.agent import messages as m
from optsched.agent.core import idle_gpus, next_due, step
from optsched.agent.gpus import Gpus
from optsched.agent.health import Health
from optsched.agent.housekeeping import forget_old_logs
from optsched.agent.limits import limits
from optsched.agent.link import Link, Stop
from optsched.agent.logs import LogReader, Part
from optsched.agent.ports import Ports
from optsched.agent.probing import Probes
from optsched.agent.reports import read_reports
from optsched.agent.runtime import Runtime
from optsched.agent.settings import Settings, pairs
from optsched.agent.statefile import StateFolder
from optsched.agent.terminals import Terminals
from optsched.agent.values import AT_WORK, Key, Phase, Run, State
from optsched.agent.wire_words import held
from optsched.wire.v1 import agent_pb2 as wire
from optsched.wire.v1 import scheduler_pb2, types_pb2

log = logging.getLogger(__name__)

TICK_S = 0.2
RETRY_S = 1.0
LOGS_EVERY_S = 3600.0


class Agent:
    """One node's agent. Stopped, it leaves its runs at work, for the next one."""

    def __init__(self, settings: Settings, gpus: Gpus, now: Callable[[], float] = time.time) -> None:
        self.settings, self.gpus, self.now = settings, gpus, now
        # Agents that share a seed must not share their chance: those of one machine would want the same ports.
        seed = None if settings.seed is None else [settings.seed, *settings.name.encode()]
        draw = np.random.default_rng(seed)
        self._state = State(gpus.count)
        self._inbox: asyncio.Queue[m.Message] = asyncio.Queue()
        self._folder = StateFolder(settings.folder)
        self._ports = Ports(*settings.port_range, draw)
        self._health = Health(gpus, self._tell)
        self._link = Link(
            settings.scheduler.split(","),
            self._hello,
            self._beat,
            lambda: self._state.outbox,
            lambda: self._state.epoch,
            self._tell,
            self._hear,
            now,
            draw,
            settings.access,
            self._lost,
        )
        self._logs = LogReader(self._link.send)
        self._runtime = Runtime(
            self._folder,
            settings.name,
            settings.run_as,
            limits(settings.cgroup, settings.name),
            self._tell,
            self._before_end,
        )
        self._terminals = Terminals(self._runtime, self._link.send)
        self._probes = Probes(settings, self._tell)
        self._read: dict[Key, int] = {}
        self._beside: set[asyncio.Future[None]] = set()

    async def run(self) -> tuple[Stop, str]:
        """Serve until the scheduler says never to come back, or until cancelled; return what it said.

        Raises StoreInUse, StoreDamaged or OSError where the state cannot be had.
        """
        self._state = self._folder.open(self.gpus.count, self.now())
        about = {"node": self.settings.name, "gpus": self.gpus.count, "folder": str(self._folder.path)}
        log.info("agent starts", extra=about)
        await self._health.look()
        self._resume(self._state)
        return await self._serve()

    async def _serve(self) -> tuple[Stop, str]:
        link = asyncio.create_task(self._link.run(), name="link")
        others = [
            asyncio.create_task(work, name=name)
            for name, work in (
                ("core", self._work()),
                ("ticks", self._ticks()),
                ("health", self._look()),
                ("probes", self._probes.idle(lambda: None if self._state.runs else idle_gpus(self._state))),
                ("logs", self._clean()),
            )
        ]
        try:
            done, _ = await asyncio.wait([link, *others], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if task is not link:
                    task.result()
            return link.result()
        finally:
            for task in (link, *others):
                task.cancel()
            await asyncio.gather(link, *others, return_exceptions=True)
            await self._probes.close()
            await self._terminals.close()
            await self._runtime.close()
            await self._logs.close()
            self._ports.close()
            self.gpus.close()
            self._folder.close()
            log.info("agent ends; what works goes on")

    def _resume(self, state: State) -> None:
        """Take up what an agent before this one had in hand."""
        for run in state.runs.values():
            if run.phase in AT_WORK:
                self._health.begin(run.key)
                self._runtime.adopt(run)
            elif run.phase is Phase.RESERVED and not self._ports.hold(run.key, (), run.port):
                log.warning("a port that was kept free is in use", extra={"job": run.key.job, "port": run.port})
        self._tell(m.Inventory(self.gpus.count, self._health.bad))

    # The core

    def _tell(self, message: m.Message) -> None:
        self._inbox.put_nowait(message)

    async def _work(self) -> None:
        """Step through what comes in; store, then do and say."""
        while True:
            state, actions = self._state, list[m.Action]()
            message = await self._inbox.get()
            while True:
                state, asked = step(state, message, self.now())
                actions += asked
                if self._inbox.empty():
                    break
                message = self._inbox.get_nowait()
            await self._store(state)
            self._state = state
            self._link.flush()
            for action in actions:
                self._do(action)

    async def _store(self, state: State) -> None:
        """Store a state, however long that takes: nothing is done or said that a restart would not know of."""
        while True:
            try:
                self._folder.save(state)
                return
            except OSError as error:
                log.error("the state cannot be stored: waiting", extra={"error": str(error)})
                await asyncio.sleep(RETRY_S)

    def _do(self, action: m.Action) -> None:
        match action:
            case m.HoldPort(key):
                self._probes.yield_room()
                taken = {run.port for run in self._state.runs.values()}
                self._tell(m.PortHeld(key, self._ports.hold(key, taken)))
            case m.FreePort(key):
                self._ports.free(key)
            case m.Launch(key):
                self._ports.free(key)
                self._health.begin(key)
                self._runtime.launch(self._state.runs[key])
            case m.SignalTasks(key):
                self._runtime.tell_to_end(key)
            case m.KillTasks(key):
                self._runtime.kill(key)
            case m.Forget(key):
                self._read.pop(key, None)
                self._health.end(key)
                self._runtime.forget(key)
            case m.RunProbe(number, gpus):
                self._probes.begin(number, gpus)

    # The scheduler

    def _hello(self) -> wire.Register:
        settings, host = self.settings, socket.gethostname()
        cores = float(os.cpu_count() or 1) if settings.cpus is None else settings.cpus
        memory_gb = _memory_gb() if settings.memory_gb is None else settings.memory_gb
        spec = types_pb2.NodeSpec(
            id=settings.name,
            gpus=self.gpus.count,
            domains=pairs(settings.domains),
            gpu_type=settings.gpu_type or self.gpus.kind,
            fabric=settings.fabric or "",
            cpus=cores,
            cpus_reserved=settings.cpus_reserved,
            memory_gb=memory_gb,
            labels=pairs(settings.labels),
            spare=settings.spare,
        )
        return wire.Register(
            node=settings.name,
            agent=f"{host[:200]}:{os.getpid()}:{self._folder.session}",
            session=self._folder.session,
            spec=spec,
            address=settings.address or host,
            held=held(self._state),
            epoch=self._state.epoch,
            version=optsched.__version__,
            clock_at=self.now(),
        )

    def _beat(self) -> wire.Heartbeat:
        at_work = sum(run.phase in AT_WORK for run in self._state.runs.values())
        return wire.Heartbeat(clock_at=self.now(), gpus=self.gpus.count, runs=at_work)

    def _hear(self, message: wire.SchedulerMessage) -> None:
        match message.WhichOneof("body"):
            case "read_log":
                self._read_log(message.read_log)
            case "terminal":
                self._terminals.hear(message.terminal, self._state)
            case _:
                pass

    def _lost(self) -> None:
        """The stream is gone, and with it who asked for logs and terminals."""
        self._logs.cancel_all()
        self._terminals.cancel_all()

    def _read_log(self, asked: wire.ReadLog) -> None:
        if asked.cancel:
            self._logs.cancel(asked.request)
            return
        key = Key(asked.job, asked.run)
        stream = "err" if asked.stream == scheduler_pb2.LOG_STREAM_STDERR else "out"

        def alive() -> bool:
            run = self._state.runs.get(key)
            return run is not None and run.phase is not Phase.ENDED

        path = self._folder.log_file(key, asked.rank, stream)
        part = Part(asked.offset, asked.limit)
        self._logs.read(asked.request, path, part, alive if asked.follow else None)

    # Jobs' reports

    async def _ticks(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            due = next_due(self._state)
            if due is not None and due <= self.now():
                self._tell(m.Tick())
            for run in self._state.runs.values():
                if run.phase in AT_WORK:
                    await self._take_reports(run)

    async def _take_reports(self, run: Run) -> bool:
        """Take in what a job has reported since; False where that was nothing."""
        path = self._folder.run_folder(run.key) / "reports.jsonl"
        found = read_reports(path, self._read.get(run.key, run.reports_read), self.now())
        if found is None:
            return False
        self._read[run.key] = found.read
        self._tell(m.JobSaid(run.key, found.read, found.checkpoints, found.done))
        if found.speed is not None:
            said = wire.Progress(job=run.key.job, run=run.key.run, step=found.speed.step, step_s=found.speed.step_s)
            self._later(self._link.send(wire.AgentMessage(progress=said)))
        return True

    async def _before_end(self, run: Run) -> tuple[str, ...]:
        while await self._take_reports(run):
            pass
        return await self._health.faults(run)

    def _later(self, work: Coroutine[None, None, None]) -> None:
        """Do something beside; what is sent so may be lost."""
        task = asyncio.ensure_future(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    # Health

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(self.settings.health_every_s)
            said = await self._health.look()
            if said is not None:
                await self._link.send(wire.AgentMessage(health=said))

    async def _clean(self) -> None:
        while True:
            kept = {self._folder.log_file(key, 0, "out").parent for key in self._state.runs}
            before = self.now() - self.settings.keep_logs_s
            await asyncio.to_thread(forget_old_logs, self._folder.path / "logs", kept, before)
            await asyncio.sleep(LOGS_EVERY_S)


def _memory_gb() -> float:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
