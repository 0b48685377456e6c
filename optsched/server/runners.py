"""Who plans rounds, off the event loop: a process that follows the log, or a thread for tests and tiny clusters.

Planning takes seconds, and so does it to hand over a state with 100,000 jobs. So the process has a state of its own: it
is given the state once, then every event that has become durable, and takes them through the engine as the leader did.
What is large, a state to be saved among it, is made there and comes back as bytes.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Protocol

from optsched.clock import WallClock
from optsched.engine.decide import Planner, decide, in_parts
from optsched.engine.events import Decided, Waits
from optsched.engine.planning import RoundPlanner
from optsched.engine.saving import Saver
from optsched.engine.state import State
from optsched.engine.step import step
from optsched.errors import InternalError
from optsched.files.plan_json import plan_to_dict
from optsched.planner.plan import PlanOptions
from optsched.server.handing import hand_over_quickly
from optsched.server.leader import Change, Leader
from optsched.server.start import GC_EVERY

log = logging.getLogger(__name__)

NICE = 5
"""Where cores are short, answers to requests come before a better plan."""

MOST_PARTS = 20
"""Of what a round has to say of those who wait, so many parts at most are told; the next round tells the rest."""

GATHER_S = 0.02
"""What is to be passed on waits so long for more of it."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A decision, the rest of what it says of those who wait, and its whole plan as JSON."""

    decided: Decided
    rest: tuple[Waits, ...]
    plan: bytes


def planned(state: State, planner: Planner) -> Planned | None:
    """Return the next decision on a state, None where there is nothing to decide."""
    decided = decide(state, planner)
    if decided is None:
        return None
    plan = plan_bytes(decided)
    decided, rest = in_parts(decided, state)
    if len(rest) > MOST_PARTS:
        # What is not told stays news.
        decided, rest = replace(decided, again=True), rest[:MOST_PARTS]
    return Planned(decided, rest, plan)


def plan_bytes(decided: Decided) -> bytes:
    """Return a decision's plan as the JSON that `optsched plan --format json` writes.

    Of a long queue it has no more who wait than were looked at, which come first: 100,000 rows with every round would
    be 13 MB.
    """
    plan = replace(decided.plan, queued=decided.plan.queued[: decided.plan.round.considered])
    return json.dumps(plan_to_dict(plan), separators=(",", ":"), check_circular=False).encode()


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


@dataclass(frozen=True, slots=True)
class _Whole:
    state: State
    sequence: int


@dataclass(frozen=True, slots=True)
class _Happened:
    changes: tuple[tuple[object, float], ...]
    sequence: int


@dataclass(frozen=True, slots=True)
class _Plan:
    version: int
    now: float


@dataclass(frozen=True, slots=True)
class _Save:
    pass


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
            self._link.send(_Happened(happened, changes[-1].sequence))

    def _start(self) -> _Link:
        assert self._leader is not None, "it follows"
        self._link = _Link(self._options, asyncio.get_running_loop())
        self._link.send(_Whole(self._leader.state, self._leader.sequence))
        return self._link

    async def decide(self) -> Planned | None:
        """Return the next decision."""
        assert self._leader is not None, "it follows"
        state = self._leader.state
        found = await self._ask(_Plan(state.version, state.now))
        assert found is None or isinstance(found, Planned)
        return found

    async def save(self) -> tuple[int, bytes]:
        """Return the state as bytes, and the entry after which it stood so."""
        found = await self._ask(_Save())
        assert isinstance(found, tuple)
        return found

    async def _ask(self, request: _Plan | _Save) -> object:
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
        self._process = context.Process(target=_follow, args=(theirs, options), name="rounds", daemon=True)
        self._process.start()
        theirs.close()
        self._loop = loop
        self._out: SimpleQueue[object] = SimpleQueue()
        self._asked: deque[asyncio.Future[object]] = deque()
        self._lost = False
        for work in (self._sending, self._hearing):
            threading.Thread(target=work, name="rounds", daemon=True).start()

    def send(self, message: object) -> None:
        """Send a message, in order."""
        self._out.put(message)

    async def ask(self, request: object) -> object:
        """Send a request and return its answer. Raises _Gone, or InternalError for a bug over there."""
        if self._lost:
            raise _Gone("died")
        answer: asyncio.Future[object] = self._loop.create_future()
        self._asked.append(answer)
        self.send(request)
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
                found = self._mine.recv()
                self._loop.call_soon_threadsafe(self._heard, found)
        except (EOFError, OSError):
            self._process.join()
            try:
                self._loop.call_soon_threadsafe(self._ended)
            except RuntimeError:
                return

    def _heard(self, found: object) -> None:
        answer = self._asked.popleft()
        if not answer.done():
            answer.set_result(found)

    def _ended(self) -> None:
        self._lost = True
        for answer in self._asked:
            if not answer.done():
                answer.set_result(_Gone("died"))
        self._asked.clear()


def _follow(link: Connection, options: PlanOptions) -> None:
    """Follow the log and answer, until the other end is closed. It ends where it has gone astray."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICE)
    gc.set_threshold(*GC_EVERY)
    hand_over_quickly()
    planner = RoundPlanner(options, WallClock())
    saver = Saver()
    state: State | None = None
    sequence = 0
    while True:
        try:
            messages = link.recv()
        except EOFError:
            return
        for message in messages:
            if isinstance(message, _Whole):
                state, sequence = message.state, message.sequence
                gc.freeze()
                continue
            assert state is not None, "the state comes first"
            if isinstance(message, _Happened):
                for event, at in message.changes:
                    state = step(state, event, at).state  # type: ignore[arg-type]
                sequence = message.sequence
            elif isinstance(message, _Save):
                link.send((sequence, saver.bytes_of(state)))
            elif message.version == state.version:
                link.send(_answer(replace(state, now=max(state.now, message.now)), planner))
            else:
                raise InternalError(f"a state of version {state.version} is not that of the leader, {message.version}")


def _answer(state: State, planner: Planner) -> object:
    try:
        return planned(state, planner)
    except Exception as error:
        log.exception("a round failed")
        return InternalError(f"{type(error).__name__}: {error}")
