"""A scheduler is killed in the midst of its work, and another goes on from its store: nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from optsched.store import open_store
from optsched.values.job import JobState
from optsched.wire.v1 import agent_pb2 as wire
from optsched.wire.v1 import types_pb2
from tests.server.service import FakeAgent, JumpingNow, Served, serving

ROOT = Path(__file__).resolve().parents[2]
NODES = ("a", "b")
LONGEST_S = 300.0

KILLS = [
    ("before_append", 9),
    ("after_append", 6),
    ("after_append", 14),
    ("before_save", 1),
    ("after_save", 2),
    ("before_round", 3),
    ("before_dispatch", 4),
    ("after_dispatch", 7),
]


class World:
    """Agents and a front end, who outlive schedulers."""

    def __init__(self) -> None:
        self.acknowledged: list[str] = []
        self.ended: set[tuple[str, int]] = set()
        self.agents: dict[str, FakeAgent] = {}

    async def connect(self, it: Served) -> None:
        """Agents come, with what they hold; tasks end as soon as they have started."""
        for node in NODES:
            old = self.agents.get(node)
            agent = FakeAgent(
                it, node, types_pb2.NodeSpec(id=node, gpus=8), held=dict(old.held) if old else {}, ends=True
            )
            self.agents[node] = agent
            await agent.connect()
            for (job, run), phase in list(agent.held.items()):
                if phase == wire.RUN_PHASE_STARTED:
                    await agent.report(job, run, wire.OUTCOME_OK)

    async def submit(self, http: httpx.AsyncClient, number: int) -> None:
        """One job, and the note that it was acknowledged."""
        body = {"gpus": 8 if number % 3 else 16, "id": f"job-{number}"}
        answer = await http.post("/v1/jobs", json=body, headers={"Idempotency-Key": f"key-{number}"})
        assert answer.status_code in (200, 202), answer.text
        self.acknowledged.append(answer.json()["job_id"])

    def note_acks(self) -> None:
        """Note which ends of runs were acknowledged."""
        for agent in self.agents.values():
            taken = {each.ack.sequence for each in agent.heard if each.HasField("ack") and each.ack.result == 1}
            self.ended |= {what for sequence, what in agent.said_ok.items() if sequence in taken}


async def until_killed(url: str, point: str, nth: int, world: World) -> None:
    """A scheduler works until its fuse is reached."""
    command = (sys.executable, str(ROOT / "tests" / "server" / "victim.py"), url, point, str(nth))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, stdout=pipe)
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode().split()
    grpc_address, rest_address = line
    async with (
        grpc.aio.insecure_channel(grpc_address) as channel,
        httpx.AsyncClient(base_url=f"http://{rest_address}", trust_env=False) as http,
    ):
        it = Served(None, channel, http, JumpingNow())  # type: ignore[arg-type]
        # Until it is killed, whoever speaks to it may find it gone.
        gone: Any = (httpx.HTTPError, grpc.aio.AioRpcError, asyncio.InvalidStateError, AssertionError)
        with contextlib.suppress(*gone):
            await world.connect(it)
            for number in range(200):
                await world.submit(http, number)
                await asyncio.sleep(0)
        assert await process.wait() == -signal.SIGKILL
        for agent in world.agents.values():
            await agent.leave()
    world.note_acks()


@pytest.mark.parametrize(("point", "nth"), KILLS)
def test_what_was_acknowledged_before_a_kill_is_known_after_it(tmp_path: Path, point: str, nth: int) -> None:
    async def whole() -> None:
        url = f"sqlite:///{tmp_path / 'store.db'}"
        world = World()
        await until_killed(url, point, nth, world)
        async with serving(open_store(url)) as it:
            for name in world.acknowledged:
                assert it.state.record(name) is not None, name  # type: ignore[arg-type]
            await world.connect(it)
            # A front end that got no answer asks again, with the same key.
            await world.submit(it.http, len(set(world.acknowledged)))
            await it.until(lambda state: not state.jobs)
            for name in world.acknowledged:
                assert it.state.ended[name].state is JobState.COMPLETED, name  # type: ignore[index]
            for job, run in world.ended:
                assert it.state.ended[job].run == run, f"{job} had ended, and was run again"  # type: ignore[index]
            for node in it.state.nodes.values():
                assert node.bookings == ()

    asyncio.run(asyncio.wait_for(whole(), LONGEST_S))
