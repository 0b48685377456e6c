"""The agent's side of the stream, by itself."""

from __future__ import annotations

import asyncio

import numpy as np

from optsched.agent.link import Link, Stop
from optsched.agent.messages import Registered
from optsched.agent.values import Pending
from optsched.wire.v1 import agent_pb2 as wire
from tests.agent.agents import run
from tests.agent.scheduler import FakeScheduler, scheduler


def link_to(s: FakeScheduler, told: list[object], beat: object = None, targets: tuple[str, ...] = ()) -> Link:
    nothing: tuple[Pending, ...] = ()
    return Link(
        (*targets, f"127.0.0.1:{s.port}"),
        lambda: wire.Register(node="n1", agent="a", session=1),
        beat or (lambda: wire.Heartbeat(clock_at=1.0)),  # type: ignore[arg-type]
        lambda: nothing,
        lambda: 0,
        told.append,
        told.append,
        lambda: 1.0,
        np.random.default_rng(1),
    )


async def ended(task: asyncio.Task[tuple[Stop, str]]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_a_stream_on_which_nothing_can_be_said_is_given_up_and_opened_again() -> None:
    calls = 0

    def beat() -> wire.Heartbeat:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ValueError("cannot be said")
        return wire.Heartbeat(clock_at=2.0)

    async def story() -> None:
        async with scheduler() as s:
            told: list[object] = []
            task = asyncio.create_task(link_to(s, told, beat).run())
            await s.connected(2)
            await s.until(lambda: s.bodies("heartbeat"))
            assert told.count(Registered(1)) == 2
            await ended(task)

    run(story())


def test_of_several_schedulers_the_next_is_tried() -> None:
    """Nobody is at the first place; the second does not lead; the third does."""

    async def story() -> None:
        refused = wire.Refused(code=wire.REFUSAL_CODE_NOT_LEADER, reason="another leads")
        async with scheduler(refuse=refused) as standby, scheduler() as leader:
            places = ("127.0.0.1:1", f"127.0.0.1:{standby.port}")
            task = asyncio.create_task(link_to(leader, [], targets=places).run())
            await leader.connected()
            assert len(standby.streams) >= 1
            await ended(task)

    run(story())


def test_a_refusal_for_good_ends_it_with_the_reason() -> None:
    async def story() -> None:
        for code, stop in (
            (wire.REFUSAL_CODE_TWO_AGENTS, Stop.TWO_AGENTS),
            (wire.REFUSAL_CODE_SUPERSEDED, Stop.SUPERSEDED),
            (wire.REFUSAL_CODE_VERSION, Stop.VERSION),
            (wire.REFUSAL_CODE_INVALID, Stop.INVALID),
        ):
            async with scheduler(refuse=wire.Refused(code=code, reason="because")) as s:
                assert await link_to(s, []).run() == (stop, "because")

    run(story())


def test_sequence_numbers_grow_by_one_from_the_registration_on() -> None:
    async def story() -> None:
        async with scheduler(beat_s=0.01) as s:
            task = asyncio.create_task(link_to(s, []).run())
            await s.until(lambda: len(s.bodies("heartbeat")) >= 3)
            assert [each.sequence for each in s.heard[:3]] == [2, 3, 4]
            await ended(task)

    run(story())
