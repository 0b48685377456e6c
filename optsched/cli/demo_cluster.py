"""A whole cluster on one machine, for the demo: a scheduler, agents with declared GPUs, and nothing left at the end."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from optsched.agent.runtime import carriers
from optsched.errors import StoreError
from optsched.wire.v1 import scheduler_pb2, scheduler_pb2_grpc, types_pb2

RACKS = {"r1": ("r1n1", "r1n2", "r1n3", "r1n4"), "r2": ("r2n1", "r2n2", "r2n3", "r2n4")}
GPUS = 8
SNAPSHOT = {
    "now": 0,
    "profile": {
        "base": "default",
        "budget_s": 1.0,
        "grace_period_s": 20.0,
        "min_runtime_s": 0.0,
        "migration": False,
        "speed": {"rack": 0.97},
        "domain_price": {"rack": 10.0},
    },
    "cluster": {
        "levels": ["rack"],
        "nodes": [
            {"id": node, "domains": {"rack": rack}, "gpus": GPUS, "gpu_type": "h100"}
            for rack, nodes in RACKS.items()
            for node in nodes
        ],
    },
    "teams": [{"id": "language", "quota": {"gpus": 24}}, {"id": "vision", "quota": {"gpus": 40}}],
}
"""What the scheduler begins with: the agents bring the nodes to life."""

SERVE = {
    "store": "memory:",
    "grpc_listen": "127.0.0.1:0",
    "rest_listen": "127.0.0.1:0",
    "rounds_in": "thread",
    "heartbeat_s": "1",
    "lease_s": "6",
    "lease_patience_s": "2",
    "shutdown_s": "2",
    "log_level": "warning",
}


class DemoFailed(StoreError):
    """Something that the demo shows did not come about; the text says what."""


@dataclass
class DemoCluster:
    """The processes of a cluster, and its jobs as the scheduler tells of them."""

    folder: Path
    grpc_address: str = ""
    rest_address: str = ""
    jobs: dict[str, types_pb2.Job] = field(default_factory=dict)
    nodes: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    _scheduler: asyncio.subprocess.Process | None = None
    _channel: grpc.aio.Channel | None = None
    _watching: asyncio.Task[None] | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def start_scheduler(self) -> None:
        """Start the scheduler and wait until it serves."""
        start = self.folder / "start.json"
        start.write_text(json.dumps(SNAPSHOT))
        words = [word for key, value in SERVE.items() for word in ("--" + key.replace("_", "-"), value)]
        self._scheduler = await self._begin("serve", "--start", str(start), *words, said=asyncio.subprocess.PIPE)
        assert self._scheduler.stderr is not None
        heard = b""
        while (line := await self._scheduler.stderr.readline()) and b"optsched serves" not in line:
            heard = line
        found = re.search(rb"gRPC ([\d.:]+), REST ([\d.:]+)", line)
        if found is None:
            raise DemoFailed(f"the scheduler did not start: {heard.decode(errors='replace').strip()}")
        self.grpc_address, self.rest_address = found[1].decode(), found[2].decode()
        self._channel = grpc.aio.insecure_channel(self.grpc_address)
        self._watching = asyncio.create_task(self._watch())

    async def start_agent(self, node: str) -> None:
        """Start a node's agent."""
        rack = next(rack for rack, nodes in RACKS.items() if node in nodes)
        flags = {
            "scheduler": self.grpc_address,
            "node": node,
            "state_dir": str(self.folder / node),
            "gpus": str(GPUS),
            "gpu_type": "h100",
            "domains": f"rack={rack}",
            "address": "127.0.0.1",
            "run_as": "agent",
            "cgroup": "off",
            "probe": "none",
            "log_level": "error",
        }
        words = [word for key, value in flags.items() for word in ("--" + key.replace("_", "-"), value)]
        with (self.folder / f"{node}.log").open("ab") as log:
            self.nodes[node] = await self._begin("agent", *words, said=log.fileno())

    async def kill_agent(self, node: str) -> None:
        """End an agent as a crash does; what it has started goes on."""
        self.nodes[node].kill()
        await self.nodes[node].wait()

    async def submit(self, **spec: object) -> None:
        """Submit a job."""
        job = types_pb2.JobSpec(**spec)  # type: ignore[arg-type]
        await self._stub.SubmitJob(scheduler_pb2.SubmitJobRequest(job=job))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds; it is looked at whenever a job changes."""
        while not condition():
            if self._watching is not None and self._watching.done():
                raise DemoFailed("the scheduler is gone")
            news = self._news
            await news.wait()

    def is_in(self, job: str, state: types_pb2.JobState) -> bool:
        """Return whether a job is in a state."""
        return job in self.jobs and self.jobs[job].state == state

    def run_output(self, job: types_pb2.Job, run: int) -> str:
        """Return what rank 0 of a run has written."""
        for node in self.nodes:
            path = self.folder / node / "logs" / job.id / str(run) / "rank-0.out"
            if path.exists():
                return path.read_text()
        return ""

    @property
    def channel(self) -> grpc.aio.Channel:
        """The connection to the scheduler."""
        assert self._channel is not None, "the scheduler has been started"
        return self._channel

    @property
    def _stub(self) -> scheduler_pb2_grpc.SchedulerStub:
        return scheduler_pb2_grpc.SchedulerStub(self.channel)  # type: ignore[no-untyped-call]

    async def _watch(self) -> None:
        """Take in every change of a job, as it comes."""
        asking = scheduler_pb2.WatchJobsRequest(view=scheduler_pb2.JOB_VIEW_FULL)
        with suppress(grpc.aio.AioRpcError):
            async for change in self._stub.WatchJobs(asking):
                if change.HasField("job"):
                    self.jobs[change.job.id] = change.job
                self._ring()
        self._ring()

    def _ring(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _begin(self, command: str, *words: str, said: int) -> asyncio.subprocess.Process:
        """Start this program with another command, in a session of its own: an interrupt is the demo's alone."""
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "optsched.cli", command, *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
        )

    async def stop(self) -> None:
        """End everything, whatever state it is in."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if self._channel is not None:
            await self._channel.close()
        await ended(self.nodes.values())
        if self._scheduler is not None:
            await ended([self._scheduler])
        while left(self.folder):
            for pid in carriers(str(self.folder)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            # Keepers end by themselves once they have nothing to keep.
            await asyncio.sleep(0.02)


def left(folder: Path) -> list[int]:
    """Return all processes of a cluster that are there: scheduler, agents, keepers, tasks and what those started."""
    found = set(carriers(str(folder)))
    wanted = os.fsencode(str(folder))
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                if wanted in Path("/proc", name, "cmdline").read_bytes():
                    found.add(int(name))
    return sorted(found)


async def ended(processes: Iterable[asyncio.subprocess.Process], patience_s: float = 10.0) -> None:
    """Tell processes to end, and wait until they have; who does not is killed."""
    processes = [each for each in processes if each.returncode is None]
    for each in processes:
        each.terminate()
    for each in processes:
        try:
            async with asyncio.timeout(patience_s):
                await each.wait()
        except TimeoutError:
            each.kill()
            await each.wait()


@asynccontextmanager
async def demo_cluster(folder: Path) -> AsyncIterator[DemoCluster]:
    """Give a cluster whose scheduler serves; at the end nothing of it is left."""
    cluster = DemoCluster(folder)
    try:
        await cluster.start_scheduler()
        yield cluster
    finally:
        await asyncio.shield(cluster.stop())
