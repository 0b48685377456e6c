"""Streams that outlive their connection: what breaks is gone on with where it was; nothing is missed, nothing twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from optsched.client.calls import Calls
from optsched.errors import NoAnswer, NotKept, OptschedError
from optsched.wire.v1 import scheduler_pb2 as api


class Numbered(Protocol):
    """A row of a watch."""

    sequence: int


R = TypeVar("R", bound=Numbered)


def watched(
    calls: Calls, begin: Callable[[int], Iterator[R]], after: int, about: Callable[[R], object], caught_up: bool
) -> Iterator[R]:
    """Yield the rows of a watch, over as many streams as it takes. `begin` opens one after a sequence (0: from now on).

    Rows of one sequence are told apart by what they are `about`. `caught_up`: a stream from 0 begins with how things
    stand, all of one sequence, and says when that is over; broken off before, it begins anew. So it does where what
    follows is kept no longer, and then rows may come that were seen.
    """
    # All up to `done` was seen; of `here`, which may be half seen, what is in `seen`.
    done = here = after
    seen: set[object] = set()
    whole = after > 0 or not caught_up
    patience = calls.patience()
    while True:
        try:
            for row in begin(done):
                patience.succeed()
                if getattr(row, "caught_up", False):
                    if not whole:
                        whole, done, here = True, row.sequence, row.sequence
                        yield row
                    continue
                if whole:
                    if row.sequence > here:
                        done, here, seen = here, row.sequence, set()
                    if about(row) in seen:
                        continue
                    seen.add(about(row))
                yield row
            raise NoAnswer(f"the scheduler at {calls.target} has ended the stream")
        except NotKept:
            done = here = 0
            seen, whole = set(), not caught_up
        except OptschedError as error:
            patience.wait(error)


def log_of(calls: Calls, asking: api.ReadLogsRequest) -> Iterator[bytes]:
    """Yield what a task has written; where the connection breaks, on from there."""
    patience = calls.patience()
    while True:
        try:
            for row in calls.stream("Scheduler.ReadLogs", asking, api.ReadLogsResponse):
                patience.succeed()
                asking.offset = row.offset + len(row.data)
                yield row.data
            return
        except OptschedError as error:
            patience.wait(error)
