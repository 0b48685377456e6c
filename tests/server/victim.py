"""A scheduler that kills itself at a chosen point of its work: `python victim.py STORE POINT NTH`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from optsched.clock import StoppedClock
from optsched.engine.log import LogEntry
from optsched.engine.planning import RoundPlanner
from optsched.engine.ports import NO_KEYS
from optsched.planner.plan import PlanOptions
from optsched.server.leader import Change
from optsched.server.runners import ThreadRunner
from optsched.server.serve import Service
from optsched.server.settings import Settings
from optsched.store import open_store


class Fuse:
    """Kills this process, at once and unasked, the nth time that it is touched at its point."""

    def __init__(self, point: str, nth: int) -> None:
        self.point = point
        self.left = nth

    def touch(self, point: str) -> None:
        if point == self.point:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


class FusedStore:
    """A store with a fuse around what it writes; all else is that of the store inside."""

    def __init__(self, inner: Any, fuse: Fuse) -> None:
        self._inner = inner
        self._fuse = fuse

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def append(self, entries: Sequence[LogEntry], keys: Mapping[str, bytes] = NO_KEYS) -> None:
        self._fuse.touch("before_append")
        self._inner.append(entries, keys)
        self._fuse.touch("after_append")

    def save_state(self, sequence: int, state: bytes) -> None:
        self._fuse.touch("before_save")
        self._inner.save_state(sequence, state)
        self._fuse.touch("after_save")

    def add_round(self, record: Any) -> None:
        self._fuse.touch("before_round")
        self._inner.add_round(record)


async def main(url: str, point: str, nth: int) -> None:
    fuse = Fuse(point, nth)
    # What the start itself stores is not counted.
    armed = Fuse("none", 0)
    store = FusedStore(open_store(url), armed)
    settings = Settings(
        grpc_listen="127.0.0.1:0",
        rest_listen="127.0.0.1:0",
        round_gap_s=0.001,
        tick_s=0.01,
        save_every=10,
        lease_s=86_400,
    )
    runner = ThreadRunner(RoundPlanner(PlanOptions(budget_s=5.0, deterministic_s=0.5, prove=1), StoppedClock()))
    service = Service(settings, store, runner=runner)  # type: ignore[arg-type]
    await service.start()

    def dispatched(point: str) -> Any:
        def listen(changes: Sequence[Change]) -> None:
            if any(change.commands for change in changes):
                fuse.touch(point)

        return listen

    listeners = service.app.leader.listeners
    listeners.insert(0, dispatched("before_dispatch"))
    listeners.append(dispatched("after_dispatch"))
    armed.point, armed.left = fuse.point, fuse.left
    print(service.grpc_address, service.rest_address, flush=True)
    await service.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
