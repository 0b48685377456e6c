"""Who plans rounds, off the event loop: a process that follows the log, or a thread for tests and tiny clusters.

Planning takes seconds, and so does it to hand over a state with 100,000 jobs. So the process has a state of its own: it
is given the state once, then every event that has become durable, and takes them through the engine as the leader did.
What is large, a state to be saved among it, is made there and comes back as bytes.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Protocol

from optsched.apart import uninterrupted
from optsched.engine.decide import Planner
from optsched.errors import InternalError
from optsched.planner.plan import PlanOptions
from optsched.server.follower import Happened, Plan, Save, Whole, follow
from optsched.server.handing import hand_over_quickly
from optsched.server.leader import Change, Leader
from optsched.server.planned import Planned, planned

GATHER_S = 0.02
"""What is to be passed on waits so long for more of it."""


class Runner(Protocol):
    """Makes decisions off the event loop."""

    def follow(self, leader: Leader) -> None:
        """Know what the leader knows from now on. Called once, before anything is asked."""
        ...

    async def decide(self) -> Planned | None:
        """Return the next decision. Raises InternalError for a bug."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class ThreadRunner:
    """Decides in a thread of this process."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._leader: Leader | None = None

    def follow(self, leader: Leader) -> None:
        """Read the leader's state."""
        self._leader = leader

    async def decide(self) -> Planned | None:
        """Return the next decision."""
        assert self._leader is not None, "it follows"
        return await asyncio.to_thread(planned, self._leader.state, self._planner)

    def close(self) -> None:
        """Nothing is held."""


class ProcessRunner:
    """Decides in a process of its own, which is started anew where it dies or has gone astray."""

    def __init__(self, options: PlanOptions) -> None:
        hand_over_quickly()
        self._options = options
        self._leader: Leader | None = None
        self._link: _Link | None = None
        self._closed = False

    def follow(self, leader: Leader) -> None:
        """Hand the state over, then whatever happens; save states for the leader."""
        self._leader = leader
        leader.listeners.append(self)
        leader.saver = self.save
        self._start()

    def __call__(self, changes: Sequence[Change]) -> None:
        """Pass on what has become durable."""
        if changes and self._link is not None:
            happened = tuple((each.event, each.at) for each in changes)
            self._link.send(Happened(happened, changes[-1].sequence))

    def _start(self) -> _Link:
        assert self._leader is not None, "it follows"
        self._link = _Link(self._options, asyncio.get_running_loop())
        self._link.send(Whole(self._leader.state, self._leader.sequence))
        return self._link

    async def decide(self) -> Planned | None:
        """Return the next decision."""
        assert self._leader is not None, "it follows"
        state = self._leader.state
        found = await self._ask(lambda number: Plan(number, state.version, state.now))
        assert found is None or isinstance(found, Planned)
        return found

    async def save(self) -> tuple[int, bytes]:
        """Return the state as bytes, and the entry after which it stood so."""
        found = await self._ask(Save)
        assert isinstance(found, tuple)
        return found

    async def _ask(self, request: Callable[[int], Plan | Save]) -> object:
        link = self._link or self._start()
        try:
            return await link.ask(request)
        except _Gone as error:
            if self._closed:
                return None
            if self._link is link:
                link.close()
                self._link = None
            raise InternalError(f"the process that plans rounds {error}: it is started anew") from error

    def close(self) -> None:
        """End the process."""
        self._closed = True
        if self._link is not None:
            self._link.close()


class _Gone(Exception):
    pass


class _Link:
    """A process, a thread that sends to it and one that hears from it: no word to it ever blocks the event loop."""

    def __init__(self, options: PlanOptions, loop: asyncio.AbstractEventLoop) -> None:
        context = multiprocessing.get_context("spawn")
        self._mine, theirs = context.Pipe()
        self._process = context.Process(target=follow, args=(theirs, options), name="rounds", daemon=True)
        with uninterrupted():
            self._process.start()
        theirs.close()
        self._loop = loop
        self._out: SimpleQueue[object] = SimpleQueue()
        self._asked: dict[int, asyncio.Future[object]] = {}
        self._numbers = itertools.count(1)
        self._lost = False
        for work in (self._sending, self._hearing):
            threading.Thread(target=work, name="rounds", daemon=True).start()

    def send(self, message: object) -> None:
        """Send a message, in order."""
        self._out.put(message)

    async def ask(self, request: Callable[[int], Plan | Save]) -> object:
        """Send a request with a number and return its answer. Raises _Gone, or InternalError for a bug over there."""
        if self._lost:
            raise _Gone("died")
        number = next(self._numbers)
        answer = self._asked[number] = self._loop.create_future()
        self.send(request(number))
        found = await answer
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        """End the process and both threads."""
        self._out.put(None)
        self._process.kill()

    def _sending(self) -> None:
        try:
            while True:
                messages = [self._out.get()]
                # What comes close together goes together: each message wakes two processes up.
                time.sleep(GATHER_S)
                while not self._out.empty():
                    messages.append(self._out.get())
                if None in messages:
                    return
                self._mine.send(messages)
        except (OSError, ValueError):
            return

    def _hearing(self) -> None:
        try:
            while True:
                number, found = self._mine.recv()
                self._loop.call_soon_threadsafe(self._heard, number, found)
        except (EOFError, OSError):
            self._process.join()
            try:
                self._loop.call_soon_threadsafe(self._ended)
            except RuntimeError:
                return

    def _heard(self, number: int, found: object) -> None:
        answer = self._asked.pop(number)
        if not answer.done():
            answer.set_result(found)

    def _ended(self) -> None:
        self._lost = True
        for answer in self._asked.values():
            if not answer.done():
                answer.set_result(_Gone("died"))
        self._asked.clear()
