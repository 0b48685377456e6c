"""Who watches: every durable change is offered to all watchers; one that does not keep up is ended.

The newest changes are kept, so that a watcher whose stream broke can go on where it was.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from optsched.engine.commands import Note
from optsched.engine.log import jobs_of
from optsched.engine.state import JobRecord, State
from optsched.errors import Busy, NotKept
from optsched.server import asked
from optsched.server.caller import Caller
from optsched.server.checks import Plain, request
from optsched.server.leader import Change, Leader
from optsched.server.lists import all_jobs, matcher
from optsched.server.views import job_view

KEPT = 20_000
"""Changes that are kept for those who come back."""

BEHIND = 2_000
"""A watcher that is so many changes behind is ended."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A change as watchers see it: the jobs that it changed, as they were then, and what was told.

    `state` is that after the batch: what it says beside, as of jobs that a job waits for, was durable no sooner. Every
    version of a state that is kept takes room of its own.
    """

    sequence: int
    state: State
    jobs: tuple[JobRecord, ...]
    notes: tuple[Note, ...]


def seen(change: Change, state: State) -> Seen:
    """Return a change as watchers see it, of a batch that led to a state."""
    named = [
        *jobs_of(change.event),
        *(note.job for note in change.notes if note.job is not None),
        *(command.job for command in change.commands if command.job),
    ]
    before, after = change.before, change.after
    there = ((job, after.record(job)) for job in dict.fromkeys(named))
    moved = tuple(record for job, record in there if record is not None and record is not before.record(job))
    return Seen(change.sequence, state, moved, change.notes)


@dataclass(slots=True)
class Hub:
    """Offers what happens to whoever watches."""

    leader: Leader
    _kept: deque[Seen] = field(default_factory=lambda: deque(maxlen=KEPT))
    _watchers: set[asyncio.Queue[Seen | None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.leader.listeners.append(self)

    def __call__(self, changes: Sequence[Change]) -> None:
        """Take in what has become durable."""
        for change in changes:
            found = seen(change, changes[-1].after)
            self._kept.append(found)
            for queue in list(self._watchers):
                try:
                    queue.put_nowait(found)
                except asyncio.QueueFull:
                    # Room for the word that it is over; the rest it has missed already.
                    queue.get_nowait()
                    queue.put_nowait(None)
                    self._watchers.discard(queue)

    @property
    def count(self) -> int:
        """Who watches."""
        return len(self._watchers)

    def _since(self, sequence: int) -> list[Seen]:
        """Return what came after an entry. Raises Outdated where that is kept no longer."""
        first = self._kept[0].sequence if self._kept else self.leader.sequence + 1
        if sequence + 1 < first:
            raise NotKept(f"what came after {sequence} is not kept; the oldest is {first}: watch from the start")
        return [each for each in self._kept if each.sequence > sequence]

    @contextmanager
    def _watching(self) -> Iterator[asyncio.Queue[Seen | None]]:
        """Give a queue of what happens from now on."""
        queue: asyncio.Queue[Seen | None] = asyncio.Queue(BEHIND)
        self._watchers.add(queue)
        try:
            yield queue
        finally:
            self._watchers.discard(queue)

    async def _next(self, queue: asyncio.Queue[Seen | None]) -> Seen | None:
        """Return the next change, None once the leader has stopped. Raises Busy for a watcher that was too slow."""
        coming = asyncio.ensure_future(queue.get())
        ended = asyncio.ensure_future(self.leader.stopped.wait())
        try:
            await asyncio.wait({coming, ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            if not coming.done():
                coming.cancel()
        if not coming.done() or coming.cancelled():
            return None
        found = coming.result()
        if found is None:
            raise Busy(f"more than {BEHIND} changes behind: go on from the last sequence", 0.1)
        return found

    async def watch_jobs(self, data: Plain, caller: Caller) -> AsyncGenerator[Plain, None]:
        """Yield jobs that match as they stand, then as they change."""
        asking, _ = request(asked.WatchJobsRequest, data)
        matches, full = matcher(asking.filter, caller), asking.view == "full"

        def rows_of(change: Seen) -> Iterator[Plain]:
            for record in change.jobs:
                if matches(record):
                    told = [note_view(note, change.sequence) for note in change.notes if note.job == record.id]
                    view = job_view(record, change.state, full=full)
                    yield {"sequence": change.sequence, "job": view, "events": told}

        with self._watching() as queue:
            state, sequence = self.leader.state, self.leader.sequence
            if asking.after_sequence:
                for change in self._since(asking.after_sequence):
                    for row in rows_of(change):
                        yield row
            else:
                for record in all_jobs(state):
                    if matches(record):
                        yield {"sequence": sequence, "job": job_view(record, state, full=full)}
            yield {"sequence": sequence, "caught_up": True}
            while (later := await self._next(queue)) is not None:
                for row in rows_of(later):
                    yield row

    async def watch_events(self, data: Plain, caller: Caller) -> AsyncGenerator[Plain, None]:
        """Yield what is told of nodes, rules and the scheduler, as it happens."""
        asking, _ = request(asked.WatchEventsRequest, data)
        with self._watching() as queue:
            for change in self._since(asking.after_sequence) if asking.after_sequence else ():
                for note in change.notes:
                    if note.job is None:
                        yield note_view(note, change.sequence)
            while (later := await self._next(queue)) is not None:
                for note in later.notes:
                    if note.job is None:
                        yield note_view(note, later.sequence)


def note_view(note: Note, sequence: int) -> Plain:
    """Return a note as an event."""
    found: Plain = {"sequence": sequence, "at": note.at, "kind": note.kind.value, "text": note.text}
    if note.job is not None:
        found["job"] = note.job
    if note.node is not None:
        found["node"] = note.node
    return found
