"""Rounds: whenever one is due, it is planned off the event loop, and its plan comes back as an event."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from optsched.engine.decide import changes
from optsched.engine.events import Decided, Tick
from optsched.engine.ports import RoundRecord, Store
from optsched.engine.state import State
from optsched.engine.timers import Dutiful, next_wake
from optsched.errors import InternalError, NotLeading, OptschedError, StoreError
from optsched.server.leader import SLOW_S, Leader
from optsched.server.runners import Runner

log = logging.getLogger(__name__)

Told = Callable[[RoundRecord, Decided], None]
"""Hears of every round, once it is stored."""


RETRY_S = 1.0
"""So long after something was not taken in, it is tried again."""

TOGETHER = 4
"""So many parts of what is said of those who wait are taken in together, some 20 ms of work."""

MOST_REST_S = 1.0
"""After a round that changed nothing, planning rests for as long as that took, so long at most."""


class Rounds:
    """Plans rounds for as long as the leader leads. `gap_s`: so long after a round none begins; it gathers requests.

    Where a round changed nothing, the next will hardly either: then at least half of the time is left to others.
    """

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
                await self._leader.until(lambda state: state.due and not state.paused)
                began, changed = time.monotonic(), False
                try:
                    changed = await self._one()
                except NotLeading:
                    raise
                except OptschedError as error:
                    # The disk is full, or a bug; what was not taken in is planned again.
                    log.error("a round was not taken in", extra={"error": str(error)})
                    await asyncio.sleep(RETRY_S)
                rest_s = 0.0 if changed else min(MOST_REST_S, time.monotonic() - began)
                await asyncio.sleep(max(self._gap_s, rest_s))
        except NotLeading:
            return

    async def _one(self) -> bool:
        """Plan one round and put it into force; return whether it changes anything that runs or waits."""
        began = time.monotonic()
        try:
            found = await self._runner.decide()
        except InternalError:
            log.exception("a round failed: a bug; the next one is tried")
            return False
        if found is None:
            return False
        decided = found.decided
        after = await self._leader.happen(decided)
        # In parts, so that nobody has to wait until it is said of 100,000 jobs why they wait.
        for first in range(0, len(found.rest), TOGETHER):
            await asyncio.gather(*(self._leader.happen(part) for part in found.rest[first : first + TOGETHER]))
        self.last = (self.last or 0) + 1
        info = decided.plan.round
        record = RoundRecord(self.last, after.now, info.source, info.gap, decided.plan.bill, found.plan)
        try:
            await asyncio.to_thread(self._store.add_round, record)
        except StoreError as error:
            log.error("a round could not be stored", extra={"round": record.number, "error": str(error)})
        log.info(
            "round",
            extra={
                "round": record.number,
                "source": info.source.value,
                "gap": info.gap,
                "wall_s": round(info.wall_s, 3),
                "took_s": round(time.monotonic() - began, 3),
                "starts": len(decided.plan.starts),
                "preemptions": len(decided.plan.preemptions),
                "queued": info.queued,
            },
        )
        for listener in self.listeners:
            listener(record, decided)
        return changes(decided.plan)


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
        ticked, dutiful = -math.inf, Dutiful()
        while not self._leader.stopped.is_set():
            state, now = self._leader.state, self._leader.now()
            if ticked > -math.inf and state is not seen:
                seen, wake = state, await asyncio.to_thread(next_wake, replace(state, now=ticked), dutiful)
            if ticked == -math.inf or (wake is not None and now >= wake):
                try:
                    await self._leader.happen(Tick())
                    seen, ticked = None, now
                except NotLeading:
                    return
                except OptschedError as error:
                    log.error("a tick was not taken in", extra={"error": str(error)})
                    await asyncio.sleep(RETRY_S)
            before = time.monotonic()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._every_s):
                    await self._leader.stopped.wait()
            late_s = time.monotonic() - before - self._every_s
            if late_s > SLOW_S:
                log.warning("answers were late: too little time on the processor", extra={"wall_s": round(late_s, 3)})
