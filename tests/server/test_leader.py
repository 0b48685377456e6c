"""The leader's loop where its store does not do as it should: callers hear of it, and operators."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

import pytest

from optsched.engine.codec import save_bytes
from optsched.engine.events import Submit
from optsched.engine.log import LogEntry
from optsched.engine.ports import NO_KEYS
from optsched.engine.state import initial
from optsched.errors import InternalError, NotLeading
from optsched.server import leader as loop
from optsched.server.leader import Leader
from optsched.server.now import SetNow
from optsched.store import MemoryStore
from tests.builders import job, nodes, snapshot, team


def leading(store: MemoryStore) -> Leader:
    """A leader of a cluster with one node, on a store that is open."""
    state = initial(snapshot(nodes("a", 8), team("t")))
    store.open()
    store.save_state(0, save_bytes(state))
    return Leader(store, state, 0, SetNow(1.0))


class Faulty(MemoryStore):
    """Takes nothing, by a fault of its own."""

    def append(self, entries: Sequence[LogEntry], keys: Mapping[str, bytes] = NO_KEYS) -> None:
        raise InternalError("an idempotency key is known")


def test_a_fault_in_the_store_is_told_to_whoever_waits_and_ends_the_loop() -> None:
    """Nobody is left waiting for an answer that never comes."""

    async def whole() -> None:
        leader = leading(Faulty())
        running = asyncio.create_task(leader.run())
        async with asyncio.timeout(10):
            with pytest.raises(InternalError, match="key is known"):
                await leader.happen(Submit(job("j").gang(8).made))
            with pytest.raises(InternalError):
                await running
            with pytest.raises(NotLeading):
                await leader.happen(Submit(job("k").gang(8).made))
        assert not leader.state.jobs

    asyncio.run(whole())


def test_a_slow_commit_is_warned_of(monkeypatch, caplog) -> None:
    """With the limit at nothing every commit is slow: the line tells how many entries it was, and who waits."""
    monkeypatch.setattr(loop, "SLOW_S", -1.0)

    async def whole() -> None:
        leader = leading(MemoryStore())
        running = asyncio.create_task(leader.run())
        await leader.happen(Submit(job("j").gang(8).made))
        await leader.close()
        await running

    with caplog.at_level(logging.WARNING, logger="optsched.server.leader"):
        asyncio.run(whole())
    (told,) = [each for each in caplog.records if "slow" in each.getMessage()]
    assert (told.entries, told.waiting) == (1, 0)


def test_a_long_batch_lets_others_in_who_see_the_state_as_it_was(monkeypatch) -> None:
    """With slices of no length a request of 20 jobs pauses after each: who looks meanwhile sees none, or all."""
    monkeypatch.setattr(loop, "SLICE_S", -1.0)

    async def whole() -> None:
        leader = leading(MemoryStore())
        running = asyncio.create_task(leader.run())
        submitting = asyncio.create_task(leader.happen(*(Submit(job(f"j{n}").gang(8).made) for n in range(20))))
        seen = []
        while not submitting.done():
            await asyncio.sleep(0)
            seen.append(len(leader.state.jobs))
        assert len((await submitting).jobs) == 20
        assert seen.count(0) > 20
        assert set(seen) <= {0, 20}
        await leader.close()
        await running

    asyncio.run(whole())
