"""The process that plans rounds: it follows the log with a state of its own, and answers what it is asked.

Each answer carries the number of its question. A state is written to be saved in the time that is left over: what comes
in meanwhile, and a round that is asked for, come first.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

from optsched.clock import WallClock
from optsched.engine.decide import Planner
from optsched.engine.planning import RoundPlanner
from optsched.engine.saving import Saver
from optsched.engine.state import State
from optsched.engine.step import step
from optsched.errors import InternalError
from optsched.planner.plan import PlanOptions
from optsched.server.handing import hand_over_quickly
from optsched.server.planned import planned
from optsched.server.start import GC_EVERY

log = logging.getLogger(__name__)

NICE = 5
"""Where cores are short, answers to requests come before a better plan."""


@dataclass(frozen=True, slots=True)
class Whole:
    """The state as it stands after an entry of the log."""

    state: State
    sequence: int


@dataclass(frozen=True, slots=True)
class Happened:
    """(event, instant) of what has become durable, up to an entry of the log."""

    changes: tuple[tuple[object, float], ...]
    sequence: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Number `number`: the next decision is asked for, on the state of a version at an instant."""

    number: int
    version: int
    now: float


@dataclass(frozen=True, slots=True)
class Save:
    """Number `number`: the state is asked for as bytes."""

    number: int


Message = Whole | Happened | Plan | Save


def follow(link: Connection, options: PlanOptions) -> None:
    """Follow the log and answer, until the other end is closed. It ends where it has gone astray."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICE)
    gc.set_threshold(*GC_EVERY)
    hand_over_quickly()
    follower = _Follower(link, RoundPlanner(options, WallClock()))
    try:
        while True:
            if follower.saves and not link.poll():
                follower.save_on()
                continue
            for message in link.recv():
                follower.take(message)
    except (EOFError, ConnectionError):
        # The leader has closed its end, or is no more.
        return


class _Follower:
    """What is known of the leader's state, and the states that are being written."""

    def __init__(self, link: Connection, planner: Planner) -> None:
        self._link = link
        self._planner = planner
        self._saver = Saver()
        self._state: State | None = None
        self._sequence = 0
        self.saves: deque[tuple[int, int, Generator[None, None, bytes]]] = deque()

    def take(self, message: Message) -> None:
        """Take in what happened, or answer."""
        if isinstance(message, Whole):
            self._state, self._sequence = message.state, message.sequence
            gc.freeze()
            return
        assert self._state is not None, "the state comes first"
        match message:
            case Happened():
                for event, at in message.changes:
                    self._state = step(self._state, event, at).state  # type: ignore[arg-type]
                self._sequence = message.sequence
            case Save():
                self.saves.append((message.number, self._sequence, self._saver.writing(self._state)))
            case Plan() if message.version == self._state.version:
                state = replace(self._state, now=max(self._state.now, message.now))
                self._link.send((message.number, _answer(state, self._planner)))
            case Plan():
                text = f"a state of version {self._state.version} is not that of the leader, {message.version}"
                raise InternalError(text)
            case _:
                raise InternalError(f"{type(message).__name__} is no message")

    def save_on(self) -> None:
        """Write some more of the state that is to be saved first."""
        number, sequence, writing = self.saves[0]
        try:
            next(writing)
        except StopIteration as done:
            self.saves.popleft()
            self._link.send((number, (sequence, done.value)))


def _answer(state: State, planner: Planner) -> object:
    try:
        return planned(state, planner)
    except Exception as error:
        log.exception("a round failed")
        return InternalError(f"{type(error).__name__}: {error}")
