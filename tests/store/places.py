"""Where stores are opened, closed and opened again; and entries to put into them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from optsched.engine import events as ev
from optsched.engine.log import LogEntry
from optsched.engine.ports import RoundRecord, Store
from optsched.store import MemoryStore, Retention, open_store
from optsched.values.ids import JobId, NodeId, TeamId
from optsched.values.job import Job
from optsched.values.plan import Bill, Plan, RoundInfo, Source, Start, Status, Waiting


class Place(Protocol):
    """Somewhere for one store."""

    def store(self, retention: Retention | None = None) -> Store:
        """Return the store of the place, closed, as another process would see it."""
        ...

    def clear(self) -> None:
        """Close what was opened."""
        ...


class MemoryPlace:
    """In memory: the same store again and again."""

    def __init__(self) -> None:
        self._store: MemoryStore | None = None

    def store(self, retention: Retention | None = None) -> Store:
        """Return the store."""
        if self._store is None:
            self._store = MemoryStore(retention)
        self._store.close()
        return self._store

    def clear(self) -> None:
        """Nothing is open."""


class SqlPlace:
    """At a URL; a new store object every time. The one before is closed unless it is to go on (`beside`)."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._opened: list[Store] = []

    def store(self, retention: Retention | None = None) -> Store:
        """Return a store, once the ones before are closed."""
        self.clear()
        return self.beside(retention)

    def beside(self, retention: Retention | None = None) -> Store:
        """Return a store, whatever is open."""
        self._opened.append(open_store(self.url, retention))
        return self._opened[-1]

    def clear(self) -> None:
        """Close what was opened."""
        for each in self._opened:
            each.close()
        self._opened.clear()


def submits(first: int, last: int, *, every_s: float = 1.0) -> list[LogEntry]:
    """Entries first..last, each of a job j<number>, one every second."""
    return [LogEntry(n, n * every_s, ev.Submit(Job(JobId(f"j{n}"), TeamId("t"), 8))) for n in range(first, last + 1)]


def entries(first: int, *events: ev.Event, every_s: float = 1.0) -> list[LogEntry]:
    """Entries of these events, from a number on."""
    return [LogEntry(n, n * every_s, event) for n, event in enumerate(events, first)]


def started(job: str, run: int = 1) -> ev.Report:
    """A report that a job started on node n1."""
    return ev.Report(JobId(job), NodeId("n1"), ev.Outcome.STARTED, run)


def decided(*starts: str, waits: int = 0) -> ev.Decided:
    """A decision that starts jobs on n1, and leaves so many waiting."""
    info = RoundInfo(Source.CP_SAT, Status.OPTIMAL, 0.0, 0, 0.5, 0.5, waits, waits)
    given = tuple(Start(JobId(job), {NodeId("n1"): (0, 1)}, "node") for job in starts)
    queued = tuple(Waiting(JobId(f"w{n}"), "no_domain_fits", f"{n} domains are full") for n in range(waits))
    return ev.Decided(Plan(info, given, queued=queued), 1)


def record(number: int, at: float | None = None, plan: bytes | None = b'{"starts": []}') -> RoundRecord:
    """A round, by default at 60 s times its number."""
    return RoundRecord(number, 60.0 * number if at is None else at, Source.GREEDY, 0.25, Bill(run_value=7.5), plan)


def all_history(store: Store, job: str) -> list[int]:
    """The numbers of the entries that concern a job."""
    return [entry.sequence for entry in store.history(JobId(job), 0, 1000)]


def known(store: Store, key: str) -> bytes | None:
    """The answer that was given under a key, None where it is not known."""
    return store.known_keys([key]).get(key)


Filler = Callable[[Store], None]
