"""What tasks have written, sent to who reads it: in chunks, and on as it grows where that is wanted."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from optsched.wire.v1 import agent_pb2 as wire

CHUNK = 64 * 1024
AGAIN_S = 0.2

Send = Callable[[wire.AgentMessage], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a file: from an offset on (negative: so many bytes from the end), at most `limit` bytes (0: all)."""

    offset: int = 0
    limit: int = 0


@dataclass(slots=True)
class LogReader:
    """Readers of logs, each a request of the scheduler."""

    send: Send
    _readers: dict[int, asyncio.Task[None]] = field(default_factory=dict)

    def read(self, request: int, path: Path, part: Part, alive: Callable[[], bool] | None) -> None:
        """Send a part of a file; `alive`: follow it as long as that says so."""
        self.cancel(request)
        task = asyncio.get_running_loop().create_task(self._read(request, path, part, alive))
        self._readers[request] = task
        task.add_done_callback(lambda done: self._drop(request, done))

    def cancel(self, request: int) -> None:
        """Send no more of a request."""
        task = self._readers.pop(request, None)
        if task is not None:
            task.cancel()

    def cancel_all(self) -> None:
        """Send no more of anything: who asked is gone."""
        for request in list(self._readers):
            self.cancel(request)

    async def close(self) -> None:
        """Stop all."""
        tasks = list(self._readers.values())
        self.cancel_all()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _drop(self, request: int, task: asyncio.Task[None]) -> None:
        if self._readers.get(request) is task:
            del self._readers[request]

    async def _read(self, request: int, path: Path, part: Part, alive: Callable[[], bool] | None) -> None:
        # A task that is being started may have no file yet.
        while alive is not None and alive() and not path.exists():
            await asyncio.sleep(AGAIN_S)
        try:
            file = path.open("rb")
        except OSError as error:
            await self._say(request, b"", max(0, part.offset), last=True, error=error.strerror or str(error))
            return
        with file:
            size = os.fstat(file.fileno()).st_size
            begin = offset = part.offset if part.offset >= 0 else max(0, size + part.offset)
            end = offset + part.limit if part.limit > 0 else sys.maxsize
            file.seek(offset)
            while True:
                # Asked before the file is read: what is written until the end is read after it.
                goes_on = alive is not None and alive()
                while offset < end and (data := file.read(min(CHUNK, end - offset))):
                    await self._say(request, data, offset, last=False)
                    offset += len(data)
                if not goes_on or (part.limit > 0 and offset > begin):
                    await self._say(request, b"", offset, last=True)
                    return
                await asyncio.sleep(AGAIN_S)

    async def _say(self, request: int, data: bytes, offset: int, *, last: bool, error: str = "") -> None:
        chunk = wire.LogChunk(request=request, data=data, offset=offset, last=last, error=error)
        await self.send(wire.AgentMessage(log=chunk))
