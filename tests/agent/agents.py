"""Agents as processes, with folders of their own; at the end of a test nothing of them is left."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PYTHON = sys.executable
LONGEST_S = float(os.environ.get("LONGEST_S", "60"))
"""A test that takes longer hangs."""


def run(test: Coroutine[Any, Any, None]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(LONGEST_S):
            await test

    asyncio.run(whole())


@dataclass
class AgentProcess:
    """An agent's process. Its output is in `folder`.log."""

    folder: Path
    process: asyncio.subprocess.Process
    flags: list[str] = field(default_factory=list)

    def kill(self) -> None:
        self.process.kill()

    async def ended(self) -> int:
        return await self.process.wait()

    @property
    def said(self) -> str:
        return self.folder.with_suffix(".log").read_text()


async def begin(folder: Path, port: int, node: str = "n1", gpus: int = 4, **flags: str) -> AgentProcess:
    given = {
        "scheduler": f"127.0.0.1:{port}",
        "node": node,
        "state_dir": str(folder),
        "gpus": str(gpus),
        "run_as": "agent",
        "probe": "none",
        "cgroup": "off",
        "address": "127.0.0.1",
    } | flags
    words = [word for key, value in given.items() for word in ("--" + key.replace("_", "-"), value)]
    with folder.with_suffix(".log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(PYTHON, "-m", "optsched.cli", "agent", *words),
            cwd=ROOT,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    return AgentProcess(folder, process, words)


@asynccontextmanager
async def agent(folder: Path, port: int, **flags: Any) -> AsyncIterator[AgentProcess]:
    """An agent that is ended at the end, with all that it started."""
    made = await begin(folder, port, **flags)
    try:
        yield made
    finally:
        if made.process.returncode is None:
            made.process.kill()
        await made.process.wait()
        sweep(folder)


def carriers(folder: Path) -> list[int]:
    """All processes that were started below a folder: keepers, tasks, and what those started."""
    wanted = os.fsencode(str(folder) + "/")
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with suppress(OSError):
                if wanted in Path("/proc", name, "environ").read_bytes() + Path("/proc", name, "cmdline").read_bytes():
                    found.append(int(name))
    return found


def sweep(folder: Path) -> None:
    while found := carriers(folder):
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def nothing_left(folder: Path) -> Iterator[None]:
    """What is asserted of every test that ends its runs in order: no process of them is left."""
    yield
    assert carriers(folder) == []


def script(text: str) -> list[str]:
    """A task in Python."""
    return [PYTHON, "-c", text]


def log_of(folder: Path, job: str, run: int = 1, rank: int = 0, stream: str = "out") -> str:
    return (folder / "logs" / job / str(run) / f"rank-{rank}.{stream}").read_text()
