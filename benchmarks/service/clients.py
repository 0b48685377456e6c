"""Front ends that submit: each waits for the answer before it asks again, and knows what was acknowledged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np

from benchmarks.service.agents import OWN_CONNECTION
from optsched.wire.v1 import cluster_pb2, cluster_pb2_grpc, scheduler_pb2, scheduler_pb2_grpc, types_pb2

GONE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)


def job(gpus: int, number: int) -> types_pb2.JobSpec:
    """A job as a front end would submit it; it has no id, so that the scheduler gives it one."""
    return types_pb2.JobSpec(
        gpus=gpus,
        user=f"user-{number % 500}",
        priority_class=f"P{1 + number % 4}",
        estimated_runtime_s=3600.0 * (1 + number % 24),
        command=["python", "train.py", "--config", "configs/large.yaml", "--seed", str(number)],
        environment={"NCCL_DEBUG": "WARN", "RUN": str(number)},
        working_directory=f"/home/user-{number % 500}/runs",
    )


def size(number: int) -> int:
    """GPUs of the job of a number: half have one, a tenth are larger than a node."""
    return (1, 1, 1, 1, 1, 2, 4, 8, 8, 64)[number % 10]


@dataclass(slots=True)
class Submitters:
    """So many clients, each on a connection of its own. `acked` are the jobs that were acknowledged, by key."""

    address: str
    count: int
    again: bool = False
    pause_s: float = 0.0
    acked: dict[str, str] = field(default_factory=dict)
    took_ms: list[float] = field(default_factory=list)
    failed: int = 0
    _numbers: int = 0
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, seconds: float) -> float:
        """Submit for a while, and return the acknowledged submits per second."""
        self._stop.clear()
        began = time.perf_counter()
        tasks = [asyncio.create_task(self._one()) for _ in range(self.count)]
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)
        self._stop.set()
        spent = time.perf_counter() - began
        done = len(self.took_ms)
        await asyncio.gather(*tasks)
        return done / spent

    def stop(self) -> None:
        """Let each client end with the answer that it waits for."""
        self._stop.set()

    async def _one(self) -> None:
        async with grpc.aio.insecure_channel(self.address, options=OWN_CONNECTION) as channel:
            stub = scheduler_pb2_grpc.SchedulerStub(channel)  # type: ignore[no-untyped-call]
            while not self._stop.is_set():
                self._numbers += 1
                await self._submit(stub, f"load/{self._numbers}", job(size(self._numbers), self._numbers))
                if self.pause_s:
                    await asyncio.sleep(self.pause_s)

    async def _submit(self, stub: Any, key: str, given: types_pb2.JobSpec) -> None:
        """Submit one job; with `again`, under the same key until it is acknowledged, also after `stop`."""
        asking = scheduler_pb2.SubmitJobRequest(job=given, idempotency_key=key)
        while True:
            before = time.perf_counter()
            try:
                answer = await stub.SubmitJob(asking, timeout=10.0)
            except grpc.aio.AioRpcError as error:
                if not self.again or error.code() not in GONE:
                    raise
                self.failed += 1
                await asyncio.sleep(0.05)
                continue
            self.took_ms.append(1000.0 * (time.perf_counter() - before))
            self.acked[key] = answer.job_id
            return


@dataclass(slots=True)
class Prober:
    """Asks how the scheduler stands, twenty times a second, until it is stopped: what stalls, shows there."""

    address: str
    took_ms: list[float] = field(default_factory=list)
    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to ask."""
        self._task = asyncio.create_task(self._ask())

    async def stop(self) -> list[float]:
        """Ask no more; return how many milliseconds each answer took."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        return self.took_ms

    async def _ask(self) -> None:
        async with grpc.aio.insecure_channel(self.address, options=OWN_CONNECTION) as channel:
            stub = cluster_pb2_grpc.ClusterStub(channel)  # type: ignore[no-untyped-call]
            while True:
                before = time.perf_counter()
                await stub.GetStatus(cluster_pb2.GetStatusRequest(), timeout=60.0)
                self.took_ms.append(1000.0 * (time.perf_counter() - before))
                await asyncio.sleep(0.05)


async def submit_many(address: str, count: int, batch: int = 1000) -> list[float]:
    """Submit so many jobs in batches, and return how many milliseconds each batch took."""
    took = []
    async with grpc.aio.insecure_channel(address) as channel:
        stub = scheduler_pb2_grpc.SchedulerStub(channel)  # type: ignore[no-untyped-call]
        for first in range(0, count, batch):
            jobs = [job(size(number), number) for number in range(first, min(count, first + batch))]
            before = time.perf_counter()
            answer = await stub.SubmitJobs(scheduler_pb2.SubmitJobsRequest(jobs=jobs), timeout=60.0)
            assert len(answer.job_ids) == len(jobs)
            took.append(1000.0 * (time.perf_counter() - before))
    return took


async def all_jobs(address: str, page: int = 1000) -> tuple[dict[str, types_pb2.Job], list[float]]:
    """Return every job by its id, read page by page, and how many milliseconds each page took."""
    found: dict[str, types_pb2.Job] = {}
    took: list[float] = []
    token = ""
    async with grpc.aio.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)]) as channel:
        stub = scheduler_pb2_grpc.SchedulerStub(channel)  # type: ignore[no-untyped-call]
        while True:
            before = time.perf_counter()
            answer = await stub.ListJobs(scheduler_pb2.ListJobsRequest(page_size=page, page_token=token), timeout=60.0)
            took.append(1000.0 * (time.perf_counter() - before))
            found |= {each.id: each for each in answer.jobs}
            token = answer.next_page_token
            if not token:
                assert len(found) == answer.total, (len(found), answer.total)
                return found, took


def spread(took_ms: Sequence[float]) -> str:
    """Return the median, the 99th of a hundred and the largest, in milliseconds."""
    return f"median {np.median(took_ms):.1f} ms, p99 {np.quantile(took_ms, 0.99):.1f} ms, largest {max(took_ms):.0f} ms"
