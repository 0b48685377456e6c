"""The service put together: store, leader, rounds, agents, gRPC and REST, from start to an orderly end."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import grpc
import uvicorn

from optsched.clock import WallClock
from optsched.engine.planning import RoundPlanner
from optsched.engine.ports import Store
from optsched.errors import OptschedError, StoreInUse
from optsched.planner.plan import PlanOptions
from optsched.server.access import Gate, load_tokens
from optsched.server.agents import AgentRules, Agents
from optsched.server.answers import Answers
from optsched.server.application import Application
from optsched.server.archive import Archive, kept_of
from optsched.server.checks import Rules
from optsched.server.cluster import Cluster
from optsched.server.grpc_api import GrpcApi, options
from optsched.server.hub import Hub
from optsched.server.jobs import Jobs
from optsched.server.leader import Leader, Limits
from optsched.server.lists import Order
from optsched.server.logs import tell_changes
from optsched.server.metrics import Metrics
from optsched.server.nodes import Nodes
from optsched.server.now import Now
from optsched.server.plans import Plans
from optsched.server.rest import RestLimits, rest_api
from optsched.server.rounds import Rounds, Timers
from optsched.server.runners import ProcessRunner, Runner, ThreadRunner
from optsched.server.security import add_port, check_exposure, gate_of, listen_for_rest, tls_of_rest
from optsched.server.settings import Settings
from optsched.server.start import begin
from optsched.server.submit import Quotas, Submitting
from optsched.server.timely import Timely
from optsched.store import open_store

log = logging.getLogger(__name__)

MIB = 2**20
STAND_BY_S = 1.0
"""Who stands by tries so often to take the lead."""

MOST_CONNECTIONS = 2_000
"""Connections of REST at a time; more are answered with 503."""


@dataclass(slots=True)
class Service:
    """A scheduler that serves. `address` of each side is told once it listens."""

    settings: Settings
    store: Store
    now: Now | None = None
    runner: Runner | None = None
    grpc_address: str = ""
    rest_address: str = ""
    _parts: _Parts | None = None
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def app(self) -> Application:
        """What is served."""
        assert self._parts is not None, "the service has started"
        return self._parts.app

    async def start(self) -> None:
        """Take the lead and begin to serve. Raises InputError, UsageError, StoreError or OSError."""
        parts = self._parts = await self._built()
        settings = self.settings
        loops: list[tuple[str, Callable[[], Coroutine[None, None, None]]]] = [
            ("leader", parts.app.leader.run),
            ("rounds", parts.rounds.run),
            ("timers", Timers(parts.app.leader, settings.tick_s).run),
            ("beats", parts.app.agents.beat),
        ]
        self._tasks = [asyncio.create_task(run(), name=name) for name, run in loops]
        if settings.grpc_listen != "off":
            port = add_port(parts.grpc, settings)
            self.grpc_address = f"{settings.grpc_listen.rpartition(':')[0]}:{port}"
            await parts.grpc.start()
            await parts.api.tell_health(serving=True)
        if settings.rest_listen != "off":
            await self._start_rest(parts)
        log.info("serving", extra={"grpc": self.grpc_address or "off", "rest": self.rest_address or "off"})

    async def _built(self) -> _Parts:
        settings = self.settings
        for notice in check_exposure(settings):
            log.warning(notice)
        begun = await asyncio.to_thread(begin, self.store, settings, self.now)
        for warning in begun.warnings:
            log.warning(warning)
        limits = Limits(inbox=settings.max_waiting, save_every=settings.save_every)
        leader = Leader(self.store, begun.state, begun.sequence, begun.now, limits)
        planning = PlanOptions(budget_s=settings.budget_s)
        runner = self.runner or _runner(settings, planning)
        runner.follow(leader)
        rules = Rules()
        agents = Agents(leader, rules, AgentRules(settings.heartbeat_s, may_join=settings.agents_may_join))
        rounds = Rounds(leader, runner, self.store, settings.round_gap_s)
        most = Quotas(settings.max_jobs, settings.max_team_jobs)
        answers = Answers(self.store, set(await asyncio.to_thread(self.store.key_prints)))
        archive = Archive(leader, answers, self.store)
        leader.keeper = kept_of
        submitting = Submitting(leader, answers, archive, rules, settings.default_team, most)
        gate = gate_of(settings)
        app = Application(
            leader,
            Jobs(leader, self.store, rules, submitting, Order(leader), archive),
            Plans(leader, self.store, rules, planning, settings.default_team),
            Nodes(leader, rules, agents),
            Cluster(leader, self.store, rules, agents, lambda: rounds.last),
            Hub(leader),
            agents,
        )
        metrics = Metrics(leader, agents)
        rounds.listeners.append(metrics.round)
        leader.listeners.append(tell_changes)
        api = GrpcApi(app, gate)
        server = grpc.aio.server(options=options(settings.max_message_mib * MIB))
        api.add_to(server)
        rest_limits = RestLimits(settings.max_message_mib * MIB, settings.request_s)
        config = uvicorn.Config(
            rest_api(app, metrics, gate, rest_limits),
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            http=Timely,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=max(1, round(settings.shutdown_s)),
            **tls_of_rest(settings),
        )
        return _Parts(app, rounds, runner, api, server, _Rest(config), gate)

    async def _start_rest(self, parts: _Parts) -> None:
        listening = listen_for_rest(self.settings.rest_listen)
        self.rest_address = f"{self.settings.rest_listen.rpartition(':')[0]}:{listening.getsockname()[1]}"
        self._tasks.append(asyncio.create_task(parts.rest.serve([listening]), name="rest"))

    def reload(self) -> None:
        """Read the file of tokens anew; where it is wrong, those that were known stay."""
        if self._parts is None or self.settings.tokens is None:
            return
        try:
            self._parts.gate.tokens = load_tokens(self.settings.tokens)
            log.info("tokens are read anew")
        except OptschedError as error:
            log.error("tokens stay as they were", extra={"error": str(error)})

    async def wait(self) -> None:
        """Wait until a part of the service fails; raises what it failed with."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    async def stop(self) -> None:
        """End in order: no new work, answers to what is under way, all streams ended, the state saved."""
        parts = self._parts
        if parts is None:
            return
        log.info("shutting down")
        await parts.api.tell_health(serving=False)
        parts.rest.should_exit = True
        stopping = asyncio.create_task(parts.grpc.stop(self.settings.shutdown_s))
        await asyncio.sleep(0)
        parts.app.agents.end_all()
        leader = parts.app.leader
        with suppress(OptschedError):
            await leader.close()
        await stopping
        parts.runner.close()
        for task in self._tasks:
            if task.get_name() != "rest":
                task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self.store.close)
        log.info("stopped")


class _Rest(uvicorn.Server):
    """A server of HTTP that leaves signals to the service."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them alone."""
        yield


@dataclass(slots=True)
class _Parts:
    app: Application
    rounds: Rounds
    runner: Runner
    api: GrpcApi
    grpc: grpc.aio.Server
    rest: _Rest
    gate: Gate


def _runner(settings: Settings, planning: PlanOptions) -> Runner:
    if settings.rounds_in == "process":
        return ProcessRunner(planning)
    return ThreadRunner(RoundPlanner(planning, WallClock()))


async def serve(settings: Settings, ready: Callable[[Service], None]) -> None:
    """Serve until SIGTERM or SIGINT; `ready` is called once the service listens.

    Raises InputError, UsageError, StoreError or OSError.
    """
    service = Service(settings, open_store(settings.store))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, service.reload)
    asked = asyncio.create_task(stop.wait(), name="asked to stop")
    try:
        if not await _lead(service, stop):
            return
        ready(service)
        ended = asyncio.create_task(service.wait(), name="wait")
        await asyncio.wait({ended, asked}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            ended.result()
        ended.cancel()
    finally:
        asked.cancel()
        await service.stop()


async def _lead(service: Service, stop: asyncio.Event) -> bool:
    """Start a service, once nobody else has its store where it may stand by; False where it was stopped before."""
    told = False
    while True:
        try:
            await service.start()
            return True
        except StoreInUse as error:
            if not service.settings.stand_by:
                raise
            if not told:
                log.info("standing by", extra={"store": str(error)})
                told = True
        with suppress(TimeoutError):
            async with asyncio.timeout(STAND_BY_S):
                await stop.wait()
            return False
