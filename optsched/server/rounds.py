"""Rounds: whenever one is due, it is planned off the event loop, and its plan comes back as an event.

Planning takes seconds and holds Python's lock for much of that, so the service plans in a process of its own; a thread
does for tests and tiny clusters.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import multiprocessing
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from dataclasses import replace
from typing import Protocol

from optsched.clock import WallClock
from optsched.engine.decide import Planner, decide
from optsched.engine.events import Decided, Tick
from optsched.engine.planning import RoundPlanner
from optsched.engine.ports import RoundRecord, Store
from optsched.engine.state import State
from optsched.engine.timers import next_wake
from optsched.errors import InternalError, NotLeading, StoreError
from optsched.files.plan_json import plan_to_dict
from optsched.planner.plan import PlanOptions
from optsched.server.leader import Leader

log = logging.getLogger(__name__)

Told = Callable[[RoundRecord, Decided], None]
"""Hears of every round, once it is stored."""


class Runner(Protocol):
    """Makes decisions off the event loop."""

    async def decide(self, state: State) -> Decided | None:
        """Return the next decision. Raises InternalError for a bug."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class ThreadRunner:
    """Decides in a thread of this process."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner

    async def decide(self, state: State) -> Decided | None:
        """Return the next decision."""
        return await asyncio.to_thread(decide, state, self._planner)

    def close(self) -> None:
        """Nothing is held."""


class ProcessRunner:
    """Decides in a process of its own, which is started anew where it dies."""

    def __init__(self, options: PlanOptions) -> None:
        self._options = options
        self._closed = False
        self._pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin, (self._options,))

    async def decide(self, state: State) -> Decided | None:
        """Return the next decision."""
        # What has ended is of no use to a round, and there is ever more of it.
        wanted = replace(state, ended={})
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, _decide, wanted)
        except BrokenExecutor as error:
            if self._closed:
                return None
            self._pool.shutdown(wait=False)
            self._pool = self._start()
            raise InternalError(f"the process that plans rounds died: {error}") from error

    def close(self) -> None:
        """End the process."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in list((self._pool._processes or {}).values()):
            process.terminate()


_planner: RoundPlanner | None = None


def _begin(options: PlanOptions) -> None:
    global _planner
    _planner = RoundPlanner(options, WallClock())


def _decide(state: State) -> Decided | None:
    assert _planner is not None, "the process has begun"
    return decide(state, _planner)


class Rounds:
    """Plans rounds for as long as the leader leads. `gap_s`: so long after a round none begins; it gathers requests."""

    def __init__(self, leader: Leader, runner: Runner, store: Store, gap_s: float = 0.2) -> None:
        self.listeners: list[Told] = []
        self._leader = leader
        self._runner = runner
        self._store = store
        self._gap_s = gap_s
        self.last: int | None = None

    async def run(self) -> None:
        """Plan whenever a round is due, until the leader stops."""
        newest = await asyncio.to_thread(self._store.rounds, None, 1)
        self.last = newest[0].number if newest else None
        try:
            while True:
                state = await self._leader.until(lambda state: state.due and not state.paused)
                await self._one(state)
                await asyncio.sleep(self._gap_s)
        except NotLeading:
            return

    async def _one(self, state: State) -> None:
        try:
            decided = await self._runner.decide(state)
        except InternalError:
            log.exception("a round failed: a bug; the next one is tried")
            return
        if decided is None:
            return
        after = await self._leader.happen(decided)
        self.last = (self.last or 0) + 1
        info = decided.plan.round
        record = RoundRecord(self.last, after.now, info.source, info.gap, decided.plan.bill, plan_bytes(decided))
        try:
            await asyncio.to_thread(self._store.add_round, record)
        except StoreError as error:
            log.error("a round could not be stored", extra={"round": record.number, "error": str(error)})
        log.info(
            "round",
            extra={"round": record.number, "source": info.source.value, "gap": info.gap, "wall_s": info.wall_s},
        )
        for listener in self.listeners:
            listener(record, decided)


def plan_bytes(decided: Decided) -> bytes:
    """Return a decision's plan as the JSON that `optsched plan --format json` writes."""
    return json.dumps(plan_to_dict(decided.plan), separators=(",", ":")).encode()


class Timers:
    """Tells the engine that time has passed, when that may change something."""

    def __init__(self, leader: Leader, every_s: float = 0.25) -> None:
        self._leader = leader
        self._every_s = every_s

    async def run(self) -> None:
        """Look every `every_s`, until the leader stops.

        What is due is counted from the last tick: reports and heartbeats carry the state's own time past it.
        """
        seen: State | None = None
        wake: float | None = None
        ticked = -math.inf
        while not self._leader.stopped.is_set():
            state, now = self._leader.state, self._leader.now()
            if ticked > -math.inf and state is not seen:
                seen, wake = state, await asyncio.to_thread(next_wake, replace(state, now=ticked))
            if ticked == -math.inf or (wake is not None and now >= wake):
                try:
                    await self._leader.happen(Tick())
                except NotLeading:
                    return
                seen, ticked = None, now
            try:
                await asyncio.wait_for(self._leader.stopped.wait(), self._every_s)
            except TimeoutError:
                continue
