"""The scheduler as a process of its own: started, watched through /proc, killed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
ROOT = Path(__file__).resolve().parents[2]


@dataclass(slots=True)
class Scheduler:
    """`optsched serve` on a store in a folder. `flags` are more of its settings."""

    folder: Path
    flags: Sequence[str] = ()
    port: int = 0
    _process: asyncio.subprocess.Process | None = field(default=None)

    def __post_init__(self) -> None:
        if not self.port:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]

    @property
    def address(self) -> str:
        """Where it serves gRPC."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> Path:
        """What it writes."""
        return self.folder / "serve.log"

    async def start(self) -> float:
        """Start it, and return after how many seconds it says that it serves."""
        began = time.perf_counter()
        command = [
            *(sys.executable, "-m", "optsched.cli", "serve"),
            *("--store", f"sqlite:///{self.folder}/store.db", "--grpc-listen", self.address, "--rest-listen", "off"),
            *self.flags,
        ]
        with open(self.log, "ab") as log:
            self._process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log, cwd=ROOT)
        async with grpc.aio.insecure_channel(self.address, options=AT_ONCE) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            while True:
                if self._process.returncode is not None:
                    raise RuntimeError(f"the scheduler ended: {self.log.read_text()[-2000:]}")
                try:
                    answer = await health.Check(health_pb2.HealthCheckRequest(), timeout=1.0)
                    if answer.status == health_pb2.HealthCheckResponse.SERVING:
                        return time.perf_counter() - began
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.02)

    async def kill(self) -> None:
        """End it as a crash would, its helpers included."""
        assert self._process is not None
        children = family(self.pid)[1:]
        self._process.kill()
        await self._process.wait()
        for pid in children:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    async def stop(self) -> float:
        """End it in order, and return how many seconds that took."""
        assert self._process is not None
        began = time.perf_counter()
        self._process.terminate()
        await self._process.wait()
        return time.perf_counter() - began


AT_ONCE = [("grpc.initial_reconnect_backoff_ms", 20), ("grpc.max_reconnect_backoff_ms", 100)]
"""A channel with these tries again at once where nobody listens yet."""


def family(pid: int) -> list[int]:
    """Return a process and those that it started."""
    found = [pid]
    for each in found:
        for task in Path(f"/proc/{each}/task").glob("*/children"):
            try:
                found += [int(child) for child in task.read_text().split()]
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


@dataclass(frozen=True, slots=True)
class Use:
    """What a process and its helpers have used so far: CPU seconds of each, resident MiB of each, at an instant."""

    at: float
    cpu_s: dict[int, float]
    rss_mib: dict[int, float]


def use_of(pid: int) -> Use:
    """Return what a process and its helpers have used."""
    cpu, rss = {}, {}
    for each in family(pid):
        try:
            rest = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        cpu[each] = (int(rest[11]) + int(rest[12])) / TICKS
        rss[each] = int(rest[21]) * PAGE / 2**20
    return Use(time.perf_counter(), cpu, rss)


def cores(before: Use, after: Use) -> dict[int, float]:
    """Return how many cores each process used on average between two looks."""
    return {pid: (used - before.cpu_s.get(pid, 0.0)) / (after.at - before.at) for pid, used in after.cpu_s.items()}


def machine(folder: Path) -> str:
    """Return what this is measured on, in a line."""
    model = "unknown CPU"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = int(Path("/proc/meminfo").read_text().split()[1]) / 2**20
    there = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    at = max((each for each in there if str(folder.resolve()).startswith(each[1])), key=lambda each: len(each[1]))
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    return f"{os.cpu_count()} CPUs ({model}), {memory:.0f} GiB, {at[0]} ({at[2]}); load average {load}"
