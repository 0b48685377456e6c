"""What callers ask of agents past the engine: logs and terminals, each a numbered line over an agent's stream.

An agent's stream carries everything that it says, so a caller who reads slowly must not hold it up: agents send only so
much as was asked for, or taken. Who sends more has its line cut, nothing else.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from optsched.errors import Away, OptschedError
from optsched.server.session import Session
from optsched.values.ids import NodeId
from optsched.wire.v1 import agent_pb2 as wire

Word = wire.LogChunk | wire.TerminalOutput

WINDOW = 256 * 1024
"""Bytes that are under way on one line."""

MOST_WORDS = 4096
"""Words that wait on one line; one with more is cut."""

MOST_LINES = 64
"""Lines to one agent at a time."""


@dataclass(eq=False, slots=True)
class Line:
    """One request and what its agent says to it."""

    number: int
    session: Session
    error: OptschedError | None = None
    _heard: asyncio.Queue[Word | None] = field(default_factory=asyncio.Queue)
    _bytes: int = 0

    def send(self, message: wire.SchedulerMessage) -> None:
        """Ask the agent, unless it is gone."""
        self.session.send(message)

    async def next(self) -> Word:
        """Return the next word. Raises Away once the agent is gone, or what else has ended the line."""
        word = await self._heard.get()
        if word is None:
            self._heard.put_nowait(None)
            assert self.error is not None, "a line is ended for a reason"
            raise self.error
        self._bytes -= _size(word)
        return word

    def hear(self, word: Word) -> None:
        """Take in a word of the agent."""
        if self.error is not None:
            return
        self._bytes += _size(word)
        if self._bytes > 2 * WINDOW or self._heard.qsize() >= MOST_WORDS:
            self.end(too_much(self.session.node))
            return
        self._heard.put_nowait(word)

    def end(self, error: OptschedError) -> None:
        """End the line, after what was heard."""
        if self.error is None:
            self.error = error
            self._heard.put_nowait(None)


@dataclass(slots=True)
class Relay:
    """The lines to all agents."""

    _lines: dict[int, Line] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @contextmanager
    def line(self, session: Session | None, node: NodeId, what: str) -> Iterator[Line]:
        """Give a line to a node's agent. Raises Away where that is not connected, or has too many lines."""
        if session is None or session.ended:
            raise Away(f"{what} is on node {node}, whose agent is not connected: try again once it is back")
        if sum(each.session is session for each in self._lines.values()) >= MOST_LINES:
            raise Away(f"{MOST_LINES} logs and terminals of node {node} are being read: try again in a moment")
        line = Line(next(self._numbers), session)
        self._lines[line.number] = line
        try:
            yield line
        finally:
            del self._lines[line.number]

    def heard(self, session: Session, message: wire.AgentMessage) -> bool:
        """Take in what is for a line; False where the message is none of such."""
        word: Word
        if message.HasField("log"):
            number, word = message.log.request, message.log
        elif message.HasField("terminal"):
            number, word = message.terminal.terminal, message.terminal
        else:
            return False
        line = self._lines.get(number)
        # An agent answers what it was asked itself, and nothing else.
        if line is not None and line.session is session:
            line.hear(word)
        return True

    def gone(self, session: Session) -> None:
        """End the lines of an agent whose stream is over."""
        for line in list(self._lines.values()):
            if line.session is session:
                line.end(session.error or Away(f"the agent of {session.node} is gone: try again once it is back"))


def _size(word: Word) -> int:
    return len(word.data) if isinstance(word, wire.LogChunk) else len(word.output)


def too_much(node: NodeId) -> Away:
    """Return the refusal of what an agent sends unasked."""
    return Away(f"the agent of {node} sends more than it was asked for")
