"""The leader's loop: whatever happens goes through it, one batch after the other.

A batch is what waits in the inbox. Each piece of work says which events it is, seen on the state as it is by then; the
events go through the engine, what they are is stored durably, and only then does anybody hear of it: the state is
replaced, commands go out, callers get their answers. Work that is refused changes nothing for the others of its batch.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar, cast

from optsched.engine import events
from optsched.engine.codec import save_bytes
from optsched.engine.commands import Command, Note
from optsched.engine.forget import forgotten
from optsched.engine.log import LogEntry
from optsched.engine.ports import Store
from optsched.engine.state import JobRecord, State
from optsched.engine.step import step
from optsched.errors import Busy, InternalError, NotLeading, OptschedError, StoreError, StoreFull
from optsched.server.now import Now

log = logging.getLogger(__name__)

T = TypeVar("T")

SLICE_S = 0.02
"""A batch that takes longer to go through the engine lets others in after each such time."""

SEVERAL = 4
"""Pieces of work in one batch that tell that many ask at the same time ..."""

BUSY_S, GATHER_S = 0.03, 0.01
"""... and what then comes so soon after a commit waits so long for more: half as many commits cost half as much."""

SLOW_S = 1.0
"""A commit that takes longer is told of: all that changes anything waits for it."""


@dataclass(frozen=True, slots=True)
class Prepared(Generic[T]):
    """What a piece of work is: its events, the answer once they are stored, and idempotency keys stored with them."""

    answer: Callable[[State], T]
    events: tuple[events.Event, ...] = ()
    keys: Mapping[str, bytes] = field(default_factory=dict)


Prepare = Callable[[State, float], "Prepared[T]"]
"""Says what a piece of work is, on a state at an instant. May raise what refuses it."""


@dataclass(frozen=True, slots=True)
class Change:
    """One event that was taken in, and what it led to; `forgotten` are ended jobs that have left the state with it."""

    sequence: int
    at: float
    event: events.Event
    before: State
    after: State
    commands: tuple[Command, ...]
    notes: tuple[Note, ...]
    forgotten: tuple[JobRecord, ...] = ()


class Listener(Protocol):
    """Hears of every change once it is durable. Must return at once and not raise."""

    def __call__(self, changes: Sequence[Change]) -> None:
        """Take in the changes of a batch."""
        ...


@dataclass(slots=True)
class _Work:
    prepare: Prepare[object]
    future: asyncio.Future[object]


@dataclass(slots=True)
class _Folded:
    """A batch as it went through the engine; nothing of it is durable yet."""

    state: State
    sequence: int
    entries: list[LogEntry] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    keys: dict[str, bytes] = field(default_factory=dict)
    answers: list[tuple[_Work, Prepared[object], State]] = field(default_factory=list)
    refused: list[tuple[_Work, Exception]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is taken in at once.

    `inbox` pieces of work wait at most; more are refused with Busy. A batch has at most `batch`. After `save_every`
    entries the state is saved, so that a restart has so many to replay.
    """

    inbox: int = 4096
    batch: int = 512
    save_every: int = 20_000


class Leader:
    """Owns the state. Whoever reads it sees only what is durable."""

    def __init__(self, store: Store, state: State, sequence: int, now: Now, limits: Limits | None = None) -> None:
        self.state = state
        self.sequence = sequence
        self.now = now
        self.limits = limits or Limits()
        self.listeners: list[Listener] = []
        self.keeper: Callable[[Sequence[JobRecord]], Mapping[str, bytes]] = lambda records: {}
        self.saver: Callable[[], Awaitable[tuple[int, bytes]]] = self._bytes
        self.stopped = asyncio.Event()
        self._store = store
        self._inbox: asyncio.Queue[_Work | None] = asyncio.Queue(self.limits.inbox)
        self._moved = asyncio.Event()
        self._closing = False
        self._saved = sequence
        self._saving: asyncio.Task[None] | None = None
        self._stored_at = -math.inf
        self._several = False
        # A thread of its own: commits wait for no other work that is done beside the loop.
        self._writer = ThreadPoolExecutor(1, "store")

    @property
    def waiting(self) -> int:
        """Pieces of work that wait."""
        return self._inbox.qsize()

    async def ask(self, prepare: Prepare[T]) -> T:
        """Do a piece of work and return its answer, durable by then.

        Raises what refuses it, Busy where too much waits, NotLeading once the loop ends. A caller that is cancelled
        before its turn comes leaves no trace.
        """
        work = self._work(prepare)
        try:
            self._inbox.put_nowait(work)
        except asyncio.QueueFull:
            raise Busy(f"{self.limits.inbox} requests wait: try again in a moment") from None
        return cast(T, await work.future)

    async def tell(self, prepare: Prepare[T]) -> T:
        """Like `ask`, for those who cannot be sent away: it waits for room instead."""
        work = self._work(prepare)
        await self._inbox.put(work)
        if self.stopped.is_set():
            raise NotLeading("the scheduler has stopped: try again")
        return cast(T, await work.future)

    async def happen(self, *happened: events.Event) -> State:
        """Take in events as they are; return the state that they led to."""
        return await self.tell(lambda state, now: Prepared(lambda after: after, happened))

    def _work(self, prepare: Prepare[T]) -> _Work:
        if self._closing:
            raise NotLeading("the scheduler is shutting down: try again")
        return _Work(cast("Prepare[object]", prepare), asyncio.get_running_loop().create_future())

    async def until(self, condition: Callable[[State], bool]) -> State:
        """Wait until the durable state meets a condition, and return it. Raises NotLeading once the loop ends."""
        while not condition(self.state):
            if self.stopped.is_set():
                raise NotLeading("the scheduler has stopped")
            moved = self._moved
            await moved.wait()
        return self.state

    async def run(self) -> None:
        """Take batch after batch until `close`; raises StoreError where nothing can be stored any more."""
        try:
            while (batch := await self._batch()) is not None:
                await self._take(batch)
        finally:
            self._closing = True
            self._writer.shutdown(wait=False)
            self.stopped.set()
            self._wake()
            while not self._inbox.empty():
                left = self._inbox.get_nowait()
                if left is not None and not left.future.done():
                    left.future.set_exception(NotLeading("the scheduler has stopped: try again"))

    async def close(self) -> None:
        """Refuse new work, do what waits, save the state."""
        if not self._closing:
            self._closing = True
            await self._inbox.put(None)
        await self.stopped.wait()
        if self._saving is not None:
            # Who makes the bytes may be busy with a round; here it is done at once.
            self._saving.cancel()
            await asyncio.gather(self._saving, return_exceptions=True)
        if self.sequence != self._saved:
            await self._save(self._bytes)

    async def _batch(self) -> list[_Work] | None:
        """Return what waits, at least one piece; None once all is done after `close`."""
        first = await self._inbox.get()
        if first is not None and self._several and time.monotonic() - self._stored_at < BUSY_S:
            await asyncio.sleep(GATHER_S)
        batch: list[_Work] = []
        while True:
            if first is None:
                if not batch:
                    return None
                self._inbox.put_nowait(None)
                return batch
            batch.append(first)
            if len(batch) >= self.limits.batch or self._inbox.empty():
                return batch
            first = self._inbox.get_nowait()

    async def _take(self, batch: Sequence[_Work]) -> None:
        self._several = len(batch) >= SEVERAL
        folded = await self._fold(batch)
        for work, error in folded.refused:
            _fail(work, error)
        if folded.entries or folded.keys:
            try:
                await self._append(folded)
            except (StoreError, InternalError) as error:
                log.error("nothing can be stored", extra={"error": str(error)})
                for work, _, _ in folded.answers:
                    _fail(work, error)
                if isinstance(error, StoreFull):
                    return
                raise
        self.state, self.sequence = folded.state, folded.sequence
        for listener in self.listeners:
            listener(folded.changes)
        for work, prepared, after in folded.answers:
            if not work.future.done():
                try:
                    work.future.set_result(prepared.answer(after))
                except Exception as error:
                    _fail(work, error)
        self._wake()
        if self.sequence - self._saved >= self.limits.save_every and (self._saving is None or self._saving.done()):
            self._saving = asyncio.create_task(self._save(self.saver))

    async def _append(self, folded: _Folded) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await loop.run_in_executor(self._writer, self._store.append, folded.entries, folded.keys)
        self._stored_at = time.monotonic()
        took = loop.time() - began
        if took > SLOW_S:
            extra = {"wall_s": round(took, 3), "entries": len(folded.entries), "waiting": self.waiting}
            log.warning("a commit was slow: the disk, or the database", extra=extra)

    async def _fold(self, batch: Sequence[_Work]) -> _Folded:
        now = self.now()
        folded, pause = _Folded(self.state, self.sequence), _Pause()
        for work in batch:
            if work.future.done():
                continue
            try:
                await self._fold_one(work, folded, now, pause)
            except OptschedError as error:
                if isinstance(error, InternalError):
                    log.exception("a bug: a request is refused for it")
                folded.refused.append((work, error))
            except Exception as error:
                log.exception("a bug: a request is refused for it")
                folded.refused.append((work, InternalError(f"{type(error).__name__}: {error}")))
        return folded

    async def _fold_one(self, work: _Work, folded: _Folded, now: float, pause: _Pause) -> None:
        """Take one piece of work through the engine; where it is refused, `folded` is as it was."""
        prepared = work.prepare(folded.state, now)
        state, sequence = folded.state, folded.sequence
        entries: list[LogEntry] = []
        changes: list[Change] = []
        keys = dict(prepared.keys)
        for event in prepared.events:
            found = step(state, event, now)
            logged = found.state.version != state.version or found.commands or isinstance(event, events.Asked)
            if logged:
                sequence += 1
                entries.append(LogEntry(sequence, now, event))
            gone = tuple(forgotten(state, found.state)) if isinstance(event, events.Tick) else ()
            if gone:
                keys |= self.keeper(gone)
            if logged or found.notes:
                changes.append(Change(sequence, now, event, state, found.state, found.commands, found.notes, gone))
            state = found.state
            if pause.due:
                await pause.take()
        if not folded.keys.keys().isdisjoint(keys):
            raise Busy("the same idempotency key is being answered: try again", 0.1)
        folded.state, folded.sequence = state, sequence
        folded.entries += entries
        folded.changes += changes
        folded.keys |= keys
        folded.answers.append((work, prepared, state))

    def _wake(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    async def _bytes(self) -> tuple[int, bytes]:
        """Return the state as bytes, and the entry after which it stood so."""
        state, sequence = self.state, self.sequence
        return sequence, await asyncio.to_thread(save_bytes, state)

    async def _save(self, saver: Callable[[], Awaitable[tuple[int, bytes]]]) -> None:
        """Save a state; where that fails, the log has it all the same."""
        try:
            sequence, data = await saver()
            await asyncio.to_thread(self._store.save_state, sequence, data)
            self._saved = sequence
        except (StoreError, InternalError) as error:
            log.error("the state could not be saved", extra={"error": str(error)})


class _Pause:
    """Tells when others are to be let in. Nobody but the loop changes the state, so they see it as it was."""

    def __init__(self) -> None:
        self._until = time.monotonic() + SLICE_S

    @property
    def due(self) -> bool:
        """Whether it is time."""
        return time.monotonic() > self._until

    async def take(self) -> None:
        """Let others in."""
        await asyncio.sleep(0)
        self._until = time.monotonic() + SLICE_S


def _fail(work: _Work, error: Exception) -> None:
    if not work.future.done():
        work.future.set_exception(error)
