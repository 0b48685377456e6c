"""A node that is tested and found wanting: probes that are asked for, probes of idle nodes, GPUs that fail."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from optsched.agent.agent import Agent
from optsched.agent.gpus import DeclaredGpus, Gpus
from optsched.agent.nvml import NvmlGpus
from optsched.agent.settings import Settings
from optsched.wire.v1 import agent_pb2 as wire
from tests.agent.agents import run, script, sweep
from tests.agent.scheduler import FakeScheduler, scheduler
from tests.agent.test_health import FakeEvent, two


@asynccontextmanager
async def here(s: FakeScheduler, folder: Path, gpus: Gpus, **more: object) -> AsyncIterator[None]:
    """An agent in this process, with GPUs that a test can make ill."""
    given: dict[str, object] = {
        "scheduler": f"127.0.0.1:{s.port}",
        "node": "n1",
        "state_dir": str(folder),
        "run_as": "agent",
        "probe": "none",
        "cgroup": "off",
        "seed": 1,
    }
    made = asyncio.create_task(Agent(Settings.model_validate(given | more), gpus).run())
    try:
        await s.connected()
        yield
    finally:
        made.cancel()
        await asyncio.gather(made, return_exceptions=True)
        sweep(folder)


def test_a_probe_that_is_asked_for_is_answered_with_what_was_found(tmp_path: Path) -> None:
    """On the GPUs that are idle."""
    probe = "sh -c 'echo GPUs $CUDA_VISIBLE_DEVICES: 3 GB/s; exit 1'"

    async def story() -> None:
        async with scheduler() as s, here(s, tmp_path / "a", DeclaredGpus(3), probe=probe):
            s.reserve("train", 1, (1,))
            await s.report("train", 1, wire.OUTCOME_RESERVED)
            s.streams[-1].say(probe=wire.Probe(epoch=1, probe=41))
            (found,) = await s.until(lambda: s.bodies("probe"))
            assert (found.ok, found.why, found.probe) == (False, "GPUs 0,2: 3 GB/s", 41)

    run(story())


def test_an_idle_node_tests_itself_and_tells_what_fails(tmp_path: Path) -> None:
    """Only then; while it has a run it does not."""

    async def story() -> None:
        probe = "sh -c 'echo a value is wrong; exit 1'"
        async with scheduler() as s, here(s, tmp_path / "a", DeclaredGpus(1), probe=probe, probe_every_s=0.05):
            found = await s.until(lambda: s.bodies("probe"))
            assert (found[0].ok, found[0].why) == (False, "a value is wrong")

    run(story())


def test_a_probe_of_an_idle_node_gives_way_to_work(tmp_path: Path) -> None:
    """It would take a thousand seconds, and nobody waits for it; the room is there at once."""
    begun = tmp_path / "begun"
    os.mkfifo(begun)

    async def story() -> None:
        probe = f"sh -c 'echo > {begun}; sleep 1000'"
        async with scheduler() as s, here(s, tmp_path / "a", DeclaredGpus(1), probe=probe, probe_every_s=0.01):
            await asyncio.to_thread(begun.read_text)
            await s.run("train", 1, script("print('works')"))
            await s.report("train", 1, wire.OUTCOME_OK)
            assert s.bodies("probe") == []

    run(story())


def test_a_gpu_that_fails_is_told_and_given_to_nobody(tmp_path: Path) -> None:
    fake = two()

    async def story() -> None:
        async with scheduler() as s, here(s, tmp_path / "a", NvmlGpus(fake), health_every_s=0.05):
            assert s.streams[0].register.spec.gpu_type == "h100"
            fake.events.append(FakeEvent(fake.gpus[1], 79))
            await s.until(lambda: [each for each in s.bodies("health") if not each.gpus[1].ok])
            said = s.bodies("health")[-1]
            assert (said.gpus[0].ok, said.gpus[1].why) == (True, "XID 79: it has fallen off the bus")
            s.reserve("train", 1, (1,))
            assert "GPU 1 must not be used" in (await s.report("train", 1, wire.OUTCOME_REFUSED)).why
            await s.run("other", 1, script("print(1)"), (0,))

    run(story())


def test_a_job_is_not_blamed_when_its_gpu_fails_under_it(tmp_path: Path) -> None:
    fake = two()

    async def story() -> None:
        async with scheduler() as s, here(s, tmp_path / "a", NvmlGpus(fake), health_every_s=1000.0):
            await s.run("train", 1, script("import signal, sys; signal.pause()"))
            fake.events.append(FakeEvent(fake.gpus[0], 94))
            s.streams[-1].say(read_log=wire.ReadLog(request=1, job="train", run=1))
            await s.until(lambda: s.bodies("log"))
            end(tmp_path / "a")
            ended = await s.report("train", 1, wire.OUTCOME_INFRA)
            assert "GPU 0: XID 94" in ended.why

    run(story())


def end(folder: Path) -> None:
    """End the task from within, as a CUDA error does."""
    started = json.loads((folder / "runs" / "train" / "1" / "started.json").read_text())
    os.kill(started["tasks"][0]["pid"], signal.SIGABRT)
