"""Real agents under the real scheduler: gangs start over two nodes, are preempted, go on, and outlive a lost agent."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from optsched.store import open_store
from optsched.values.ids import JobId, NodeId
from optsched.values.job import JobState
from optsched.wire.v1 import scheduler_pb2, types_pb2
from tests.agent.agents import ROOT, AgentProcess, agent, carriers, log_of, run
from tests.server.service import Served, serving

PROFILE = "{base: default, min_runtime_s: 0, max_loss_ratio: null, grace_period_s: 30}"
"""What runs may be stopped at once."""

TRAIN = str(ROOT / "service" / "examples" / "train.py")


@asynccontextmanager
async def cluster(
    folder: Path, *nodes: str, **settings: object
) -> AsyncIterator[tuple[Served, dict[str, AgentProcess]]]:
    profile = folder / "profile.yaml"
    profile.write_text(PROFILE)
    async with serving(profile=str(profile), **settings) as it, AsyncExitStack() as stack:
        port = int(it.service.grpc_address.rpartition(":")[2])
        agents = {node: await stack.enter_async_context(agent(folder / node, port, node=node)) for node in nodes}
        for node in nodes:
            await it.until(
                lambda state, node=node: (r := state.nodes.get(NodeId(node))) is not None and r.node.state.value == "up"
            )
        yield it, agents


async def submit(it: Served, job: str, gpus: int, folder: Path, steps: int, **more: object) -> None:
    spec = types_pb2.JobSpec(
        id=job,
        gpus=gpus,
        gpus_per_node=4,
        command=[sys.executable, TRAIN, "--folder", str(folder / job), "--steps", str(steps), "--step-s", "0.02"],
        environment={"OMP_NUM_THREADS": "1"},
        checkpoint=types_pb2.CheckpointConfig(on_signal=True, cost_s=1, interval_s=0.5, elastic="min_gpus" in more),
        **more,  # type: ignore[arg-type]
    )
    await it.scheduler.SubmitJob(scheduler_pb2.SubmitJobRequest(job=spec))


def test_a_gang_over_two_nodes_is_preempted_goes_on_from_where_it_stopped_and_ends(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path, "n1", "n2") as (it, _):
            await submit(it, "low", 8, tmp_path, 200, priority=0)
            state = await it.until(lambda state: bool(state.jobs[JobId("low")].checkpoints))
            before = state.jobs[JobId("low")].checkpoints[-1].version
            await submit(it, "urgent", 8, tmp_path, 20, priority=1000)
            await it.job_is("urgent", JobState.RUNNING)
            state = await it.job_is("urgent", JobState.COMPLETED)
            record = state.record(JobId("low"))
            assert record is not None
            assert record.job.preemptions == 1
            saved = record.checkpoints[-1].version
            assert saved > before, "it saved its work in its grace, soon after the last time, and that is known"
            await it.job_is("low", JobState.COMPLETED)
            # The log of the second run tells where it went on.
            first = next(node for node in ("n1", "n2") if "rank 0 of 2" in first_line(tmp_path / node, 2))
            assert f"goes on after step {int(saved.removeprefix('step-'))}" in first_line(tmp_path / first, 2)
            await it.until(lambda state: all(not each.bookings for each in state.nodes.values()))
            assert carriers(tmp_path / "n1") == carriers(tmp_path / "n2") == []

    run(story())


def test_a_job_is_not_blamed_when_a_machine_fails_its_gang(tmp_path: Path) -> None:
    """On one node all of it is killed, as by a machine that breaks; on the other its task fails because of that."""

    async def story() -> None:
        async with cluster(tmp_path, "n1", "n2") as (it, _):
            await submit(it, "train", 8, tmp_path, 120)
            await it.until(lambda state: bool(state.jobs[JobId("train")].checkpoints))
            keeper = json.loads((tmp_path / "n2" / "runs" / "train" / "1" / "keeper.json").read_text())
            os.kill(keeper["pid"], signal.SIGKILL)
            state = await it.job_is("train", JobState.COMPLETED)
            record = state.jobs[JobId("train")]
            assert (record.infra_failures, record.job_failures, record.run) == (1, 0, 2)

    run(story())


def test_a_restart_of_the_scheduler_stops_no_job(tmp_path: Path) -> None:
    """It comes back at the same place, with what it stored and a larger epoch; agents come back to it by themselves."""

    async def story() -> None:
        place = f"sqlite:///{tmp_path / 'state.db'}"
        async with AsyncExitStack() as stack:
            async with serving(open_store(place)) as it:
                where = it.service.grpc_address
                port = int(where.rpartition(":")[2])
                await stack.enter_async_context(agent(tmp_path / "n1", port, node="n1"))
                await stack.enter_async_context(agent(tmp_path / "n2", port, node="n2"))
                await submit(it, "train", 8, tmp_path, 150)
                state = await it.until(lambda state: bool(state.jobs[JobId("train")].checkpoints))
                epoch = state.epoch
            async with serving(open_store(place), grpc_listen=where) as it:
                state = await it.job_is("train", JobState.COMPLETED)
                assert state.epoch > epoch
                assert state.jobs[JobId("train")].run == 1
                await it.until(lambda state: all(not each.bookings for each in state.nodes.values()))

    run(story())


def test_of_two_agents_of_one_node_the_one_that_started_later_is_served(tmp_path: Path) -> None:
    """Each has a folder of its own. The first ends with the reason, and leaves what runs alone."""

    async def story() -> None:
        async with cluster(tmp_path, "n1") as (it, agents):
            port = int(it.service.grpc_address.rpartition(":")[2])
            async with agent(tmp_path / "other", port, node="n1"):
                assert await agents["n1"].ended() == 1
                assert "a newer agent is served for this node" in agents["n1"].said
                assert it.state.nodes[NodeId("n1")].session > 0

    run(story())


def first_line(folder: Path, run: int) -> str:
    for rank in (0, 1):
        if (folder / "logs" / "low" / str(run) / f"rank-{rank}.out").exists():
            return log_of(folder, "low", run, rank).partition("\n")[0]
    return ""


def test_an_elastic_gang_goes_on_smaller_with_the_same_bits(tmp_path: Path) -> None:
    """Two nodes; an urgent job needs one. The gang is not stopped but shrunk, and ends with the weights of any size."""

    async def story() -> None:
        async with cluster(tmp_path, "n1", "n2") as (it, _):
            await submit(it, "train", 8, tmp_path, 150, min_gpus=4, max_gpus=8)
            await it.until(lambda state: bool(state.jobs[JobId("train")].checkpoints))
            await submit(it, "urgent", 4, tmp_path, 20, priority=1000)
            state = await it.job_is("train", JobState.COMPLETED)
            record = state.jobs[JobId("train")]
            assert record.run > 1
            assert record.job.preemptions == 0
            await it.job_is("urgent", JobState.COMPLETED)
            outputs = [path.read_text() for path in tmp_path.glob("n?/logs/train/*/rank-0.out")]
            assert any("rank 0 of 2" in text for text in outputs)
            assert any("rank 0 of 1" in text for text in outputs)
            alone = await asyncio.create_subprocess_exec(
                *(sys.executable, TRAIN, "--folder", str(tmp_path / "alone"), "--steps", "150", "--interval-s", "0"),
                stdout=asyncio.subprocess.PIPE,
            )
            wanted = (await alone.communicate())[0].decode().splitlines()[-1]
            assert wanted in "".join(outputs)

    run(story())


def test_a_gang_whose_node_is_lost_starts_again_elsewhere_and_ends(tmp_path: Path) -> None:
    """Of three nodes one falls silent: its agent is frozen, and its lease runs out."""

    async def story() -> None:
        async with cluster(tmp_path, "n1", "n2", "n3", lease_s=5.0, lease_patience_s=1.0) as (it, agents):
            await submit(it, "train", 8, tmp_path, 200)
            state = await it.until(lambda state: bool(state.jobs[JobId("train")].checkpoints))
            lost = sorted(state.jobs[JobId("train")].job.placement)[0]
            os.kill(agents[lost].process.pid, signal.SIGSTOP)
            await it.until(lambda state: state.nodes[lost].node.state.value == "down")
            state = await it.job_is("train", JobState.COMPLETED)
            record = state.jobs[JobId("train")]
            assert record.run == 2
            assert record.infra_failures == 1
            assert lost not in record.job.placement
            # It wakes, hears that its part is over, and leaves nothing at work.
            os.kill(agents[lost].process.pid, signal.SIGCONT)
            await it.until(lambda state: not state.nodes[lost].bookings)
            assert carriers(tmp_path / lost) == []

    run(story())
