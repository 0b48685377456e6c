"""A terminal inside a job, from the caller's side."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import grpc

from optsched.client.calls import Calls
from optsched.errors import NoAnswer
from optsched.wire.v1 import scheduler_pb2 as api

MOST_WAITING = 64
"""Pieces of input that wait to be sent; who types more waits."""


class Terminal:
    """A program that runs beside a task. Iterate over what it writes; `exit_code` is known once that is over.

    It is None where the terminal was `hung_up` from here. Input may be sent from another thread. Leaving the `with`
    block before the program has ended hangs it up.
    """

    def __init__(self, calls: Calls, opening: api.AttachOpen) -> None:
        self.exit_code: int | None = None
        self.hung_up = False
        self._calls = calls
        self._out: queue.Queue[api.AttachRequest | None] = queue.Queue(MOST_WAITING)
        self._out.put(api.AttachRequest(open=opening))
        self._call: Any = calls.both_ways("Scheduler.Attach", self._requests(), api.AttachRequest, api.AttachResponse)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[bytes]:
        """Yield what the program writes, until it has ended. Raises what refuses the terminal, or has ended it."""
        try:
            for message in self._call:
                if message.WhichOneof("body") == "exit_code":
                    self.exit_code = message.exit_code
                else:
                    yield message.output
        except grpc.RpcError as error:
            if self.hung_up:
                return
            raise self._calls.meant(error) from None
        finally:
            self.close()
        if self.exit_code is None:
            raise NoAnswer("the terminal ended without a word of its program", again=False)

    def send(self, data: bytes) -> None:
        """Type something; waits while the program takes nothing."""
        self._put(api.AttachRequest(input=data))

    def resize(self, rows: int, columns: int) -> None:
        """Tell the program how large its terminal is now."""
        self._put(api.AttachRequest(resize=api.TerminalSize(rows=rows, columns=columns)))

    def close(self) -> None:
        """Hang up, unless it is over."""
        self.hung_up = self.hung_up or self._call.is_active()
        self._call.cancel()
        # Whoever types does not wait for ever, and the thread that sends ends.
        while True:
            try:
                self._out.put_nowait(None)
                return
            except queue.Full:
                self._out.get_nowait()

    def _put(self, message: api.AttachRequest) -> None:
        while self._call.is_active():
            try:
                self._out.put(message, timeout=0.5)
                return
            except queue.Full:
                continue

    def _requests(self) -> Iterator[api.AttachRequest]:
        while (message := self._out.get()) is not None:
            yield message
