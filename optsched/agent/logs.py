"""What tasks have written, sent to who reads it: in chunks, and on as it grows where that is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from optsched.wire.v1 import agent_pb2 as wire

CHUNK = 64 * 1024
AGAIN_S = 0.2

Send = Callable[[wire.AgentMessage], Awaitable[None]]


@dataclass(slots=True)
class LogReader:
    """Readers of logs, each a request of the scheduler."""

    send: Send
    _readers: dict[int, asyncio.Task[None]] = field(default_factory=dict)

    def read(self, request: int, path: Path, offset: int, alive: Callable[[], bool] | None) -> None:
        """Send a file from an offset on; `alive`: follow it as long as that says so."""
        self.cancel(request)
        task = asyncio.get_running_loop().create_task(self._read(request, path, offset, alive))
        self._readers[request] = task
        task.add_done_callback(lambda done: self._drop(request, done))

    def cancel(self, request: int) -> None:
        """Send no more of a request."""
        task = self._readers.pop(request, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Stop all."""
        tasks = list(self._readers.values())
        for request in list(self._readers):
            self.cancel(request)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _drop(self, request: int, task: asyncio.Task[None]) -> None:
        if self._readers.get(request) is task:
            del self._readers[request]

    async def _read(self, request: int, path: Path, offset: int, alive: Callable[[], bool] | None) -> None:
        try:
            file = path.open("rb")
        except OSError as error:
            await self._say(request, b"", offset, last=True, error=error.strerror or str(error))
            return
        with file:
            file.seek(offset)
            while True:
                # Asked before the file is read: what is written until the end is read after it.
                goes_on = alive is not None and alive()
                while data := file.read(CHUNK):
                    await self._say(request, data, offset, last=False)
                    offset += len(data)
                if not goes_on:
                    await self._say(request, b"", offset, last=True)
                    return
                await asyncio.sleep(AGAIN_S)

    async def _say(self, request: int, data: bytes, offset: int, *, last: bool, error: str = "") -> None:
        chunk = wire.LogChunk(request=request, data=data, offset=offset, last=last, error=error)
        await self.send(wire.AgentMessage(log=chunk))
