"""HTTP for callers who send: who opens a connection and then says nothing, or word by word, is cut off."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


class Timely(H11Protocol):
    """Ends connections that do not come to the point. What takes long after the head is for the routes to end."""

    head_s = 10.0
    """So long after it opened, a connection must have sent the head of its first request."""

    _cut: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the head of a request."""
        super().connection_made(transport)
        self._cut = self.loop.call_later(self.head_s, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        if self._cut is not None:
            self._cut.cancel()
        super().connection_lost(exc)

    def _too_slow(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()
