"""The standing of a node's GPUs over time, and what is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from optsched.agent import messages as m
from optsched.agent.gpus import Gpus, Standing, blamed, taken_in
from optsched.agent.values import Key, Run
from optsched.wire.v1 import agent_pb2 as wire


class Health:
    """Reads counters, keeps what is known, tells the core which GPUs must not be used."""

    def __init__(self, gpus: Gpus, tell: Callable[[m.Message], None]) -> None:
        self._gpus = gpus
        self._tell = tell
        self._known: Mapping[int, Standing] = {}
        self._at_start: dict[Key, Mapping[int, Standing]] = {}
        self._reading = asyncio.Lock()
        self.bad: frozenset[int] = frozenset()

    async def look(self) -> wire.Health | None:
        """Read all counters once; return what is to be told of them, None where there are none."""
        async with self._reading:
            readings = await asyncio.to_thread(self._gpus.read)
            if not readings:
                return None
            self._known = taken_in(self._known, readings)
            bad = frozenset(index for index, each in self._known.items() if each.faults)
            if bad != self.bad:
                self.bad = bad
                self._tell(m.Inventory(self._gpus.count, bad))
            return wire.Health(gpus=[_said(index, each) for index, each in sorted(self._known.items())])

    def begin(self, key: Key) -> None:
        """Note how the GPUs stand as a run begins."""
        self._at_start[key] = self._known

    def end(self, key: Key) -> None:
        """Forget a run."""
        self._at_start.pop(key, None)

    async def faults(self, run: Run) -> tuple[str, ...]:
        """Return what the GPUs of a run have reported since it began that ends programs without their fault."""
        await self.look()
        return blamed(run.gpus, self._at_start.get(run.key, {}), self._known)


def _said(index: int, standing: Standing) -> wire.GpuHealth:
    reading = standing.reading
    return wire.GpuHealth(
        index=index,
        ok=not standing.faults,
        why="; ".join(standing.faults),
        ecc_corrected=reading.ecc_corrected,
        ecc_uncorrected=reading.ecc_uncorrected,
        last_xid=standing.last_xid,
        xids=standing.xids,
        temperature_c=reading.temperature_c,
        rows_remapped=reading.rows_remapped,
        remap_pending=reading.remap_pending,
    )
