"""A cluster that is all there but its machines: agents that are fakes, on the real streams of a real scheduler."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import grpc
import numpy as np

from benchmarks.service.agents import Ledger, SimAgent
from benchmarks.service.process import Scheduler
from optsched.wire.v1 import cluster_pb2, cluster_pb2_grpc, scheduler_pb2, scheduler_pb2_grpc, types_pb2

GPUS = 8
"""GPUs of each node."""


def cluster_file(folder: Path, nodes: int) -> Path:
    """Write a cluster of nodes with 8 GPUs: racks of 4 nodes, blocks of 16 racks."""
    plain = {
        "levels": ["block", "rack"],
        "nodes": [
            {"id": f"n{n:04}", "gpus": GPUS, "domains": {"block": f"b{n // 64}", "rack": f"r{n // 4}"}}
            for n in range(nodes)
        ],
    }
    path = folder / "cluster.json"
    path.write_text(json.dumps(plain))
    return path


class World:
    """Agents, and stubs for the scheduler that they are connected to."""

    def __init__(self, folder: Path, nodes: int, flags: Sequence[str], lasts_s: Callable[[], float | None]) -> None:
        self.scheduler = Scheduler(folder, ["--cluster", str(cluster_file(folder, nodes)), *flags])
        self.ledger = Ledger()
        self.agents = {
            f"n{n:04}": SimAgent(
                f"n{n:04}", GPUS, self.ledger, lasts_s, self.scheduler.address, np.random.default_rng(n)
            )
            for n in range(nodes)
        }
        self.channel = grpc.aio.insecure_channel(self.scheduler.address)
        self.jobs = scheduler_pb2_grpc.SchedulerStub(self.channel)  # type: ignore[no-untyped-call]
        self.cluster = cluster_pb2_grpc.ClusterStub(self.channel)  # type: ignore[no-untyped-call]

    async def begin(self) -> tuple[float, float]:
        """Start all; return after how many seconds the scheduler served, and all nodes were in service."""
        ready_s = await self.scheduler.start()
        began = time.perf_counter()
        for agent in self.agents.values():
            agent.run()
        await until(self.all_up, "all nodes are up")
        return ready_s, time.perf_counter() - began

    async def all_up(self) -> bool:
        """Whether every node is in service and its agent connected."""
        if not all(agent.connected for agent in self.agents.values()):
            return False
        up = cluster_pb2.ListNodesRequest(states=[types_pb2.NODE_STATE_UP], page_size=1)
        try:
            return bool((await self.cluster.ListNodes(up, timeout=10.0)).total == len(self.agents))
        except grpc.aio.AioRpcError:
            return False

    async def not_up(self) -> int:
        """How many nodes are not in service."""
        up = cluster_pb2.ListNodesRequest(states=[types_pb2.NODE_STATE_UP], page_size=1)
        return len(self.agents) - int((await self.cluster.ListNodes(up, timeout=10.0)).total)

    async def all_free(self) -> bool:
        """Whether no GPU is booked."""
        status = await self.cluster.GetStatus(cluster_pb2.GetStatusRequest(), timeout=10.0)
        return bool(status.gpus_free == status.gpus)

    async def lost_at(self, node: str) -> float:
        """Wait until a node is given up, and return when that was."""
        async for event in self.cluster.WatchEvents(cluster_pb2.WatchEventsRequest()):
            if event.node == node and event.text.startswith("lost"):
                return float(event.at)
        raise RuntimeError("the scheduler tells nothing any more")

    async def get(self, name: str) -> types_pb2.Job:
        """Return a job."""
        found: types_pb2.Job = await self.jobs.GetJob(scheduler_pb2.GetJobRequest(id=name), timeout=10.0)
        return found

    async def runs(self, name: str, run: int) -> bool:
        """Whether a run of a job is on."""
        found = await self.get(name)
        return bool(found.state == types_pb2.JOB_STATE_RUNNING and found.run == run)

    async def gang(self, name: str, gpus: int) -> None:
        """Submit a gang of whole nodes."""
        spec = types_pb2.JobSpec(id=name, gpus=gpus, gpus_per_node=GPUS, command=["true"])
        await self.jobs.SubmitJob(scheduler_pb2.SubmitJobRequest(job=spec), timeout=10.0)

    async def end(self) -> None:
        """End all."""
        await asyncio.gather(*(agent.die() for agent in self.agents.values()))
        await self.channel.close()
        await self.scheduler.stop()


async def until(met: Callable[[], Awaitable[bool]], what: str, most_s: float = 300.0) -> float:
    """Wait until a condition is met, and return how long that took, in seconds."""
    began = time.perf_counter()
    while not await met():
        if time.perf_counter() - began > most_s:
            raise RuntimeError(f"{what}: not within {most_s:.0f} s")
        await asyncio.sleep(0.1)
    return time.perf_counter() - began
