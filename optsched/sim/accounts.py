"""The books of a cluster: where every GPU·ms went, told from the engine's state alone, in whole numbers.

What runs came to is told by the runs themselves; that both agree to the unit is what conservation means here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import compress, zip_longest
from operator import is_not
from typing import TypeVar, cast

from optsched.engine.records import Records
from optsched.engine.state import JobRecord, NodeRecord, State
from optsched.engine.tables import GOES_ON
from optsched.values.cluster import NodeState
from optsched.values.ids import JobId, NodeId
from optsched.values.job import gpus_on

K = TypeVar("K")
V = TypeVar("V")

AT_WORK, DRAINING, HELD, IDLE, DOWN = range(5)
"""Where a GPU may be: with a run that goes on; with one that is over or told to stop, and not confirmed free; kept free
for somebody; free; out of service, booked or not."""

PLACES = ("at work", "draining", "held", "idle", "down")

Counts = tuple[int, int, int, int, int]
_NONE: Counts = (0, 0, 0, 0, 0)


def changed(old: Mapping[K, V], new: Mapping[K, V]) -> list[K]:
    """Return the keys whose values are not the very same object in two versions of a mapping."""
    found: list[K] = []
    if old is new:
        return found
    before, after = Records.of(old).chunks(), Records.of(new).chunks()
    for first, second in zip_longest(before, after, fillvalue=cast("Mapping[K, V]", {})):
        if first is second:
            continue
        if len(first) == len(second):
            # Entries keep their places: where the keys differ so do the values.
            differs = map(is_not, first.values(), second.values())
            found += [key for pair in compress(zip(first, second, strict=True), differs) for key in dict.fromkeys(pair)]
        else:
            found += [key for key, value in second.items() if first.get(key) is not value]
            found += [key for key in first if key not in second]
    return found


@dataclass(slots=True)
class Books:
    """GPU·ms by where they went up to `at` ms, and how many GPUs are where since; all that is saved of an account."""

    at: int = 0
    spent: list[int] = field(default_factory=lambda: [0] * 5)
    now: list[int] = field(default_factory=lambda: [0] * 5)


class Account:
    """Keeps the books of a cluster whose state goes from one version to the next; `jobs` changed with the last one."""

    def __init__(self, state: State, books: Books | None = None) -> None:
        self.books = books or Books(round(state.now * 1000))
        self._state = state
        self._wanted = _wanted(state)
        self._keepers = _keepers(state)
        self.jobs: list[JobId] = []
        self._of_node: dict[NodeId, Counts] = {}
        self.books.now = [0] * 5
        for name in state.nodes:
            self._look(name, state)

    def pass_time(self, now: int) -> None:
        """Book what every GPU did since the last time, up to an instant in ms."""
        span = now - self.books.at
        if span > 0:
            for place, gpus in enumerate(self.books.now):
                self.books.spent[place] += gpus * span
            self.books.at = now

    def follow(self, state: State) -> list[NodeId]:
        """Take in the state as it is now; return the nodes whose records have changed."""
        old = self._state
        if old is state:
            return []
        nodes = changed(old.nodes, state.nodes)
        look = set(nodes)
        jobs = changed(old.jobs, state.jobs)
        for job in jobs:
            before, after = old.jobs.get(job), state.jobs.get(job)
            if _standing(before) != _standing(after):
                for record in (before, after):
                    if record is not None:
                        look |= record.booked_on
        self.jobs = jobs
        if state.claims != old.claims or state.reserved is not old.reserved or not self._keepers.isdisjoint(jobs):
            self._keepers = _keepers(state)
            wanted = _wanted(state)
            look |= {n for n in wanted.keys() | self._wanted.keys() if wanted.get(n) != self._wanted.get(n)}
            self._wanted = wanted
        self._state = state
        for name in look:
            self._look(name, state)
        return nodes

    def _look(self, name: NodeId, state: State) -> None:
        """Count the GPUs of a node anew."""
        record = state.nodes.get(name)
        old, new = self._of_node.get(name, _NONE), _NONE
        if record is not None:
            new = counts_of(record, state, self._wanted.get(name, 0))
        self._of_node[name] = new
        for place in range(5):
            self.books.now[place] += new[place] - old[place]

    def expected(self) -> list[int]:
        """Return how many GPUs are where, counted over all nodes: what `books.now` must say too."""
        found, wanted = [0] * 5, _wanted(self._state)
        for name, record in self._state.nodes.items():
            for place, gpus in enumerate(counts_of(record, self._state, wanted.get(name, 0))):
                found[place] += gpus
        return found


def counts_of(record: NodeRecord, state: State, wanted: int) -> Counts:
    """Return how many GPUs of a node are where; `wanted` of the free ones are kept for somebody."""
    node = record.node
    at_work = draining = 0
    for each in record.bookings:
        owner = state.jobs.get(each.job)
        going = owner is not None and owner.run == each.run and owner.state in GOES_ON
        if going and owner is not None and node.id in owner.job.placement:
            at_work += gpus_on(each.gpus)
        else:
            draining += gpus_on(each.gpus)
    free = node.gpus - at_work - draining
    if node.state is NodeState.DOWN:
        return at_work, 0, 0, 0, node.gpus - at_work
    if node.state is not NodeState.UP:
        return at_work, draining, 0, 0, free
    bad = min(free, len(node.gpus_bad)) if free > 0 else 0
    held = min(max(0, free - bad), wanted)
    return at_work, draining, held, free - bad - held, bad


def _standing(record: JobRecord | None) -> object:
    return None if record is None else (record.run, record.state, id(record.job.placement))


def _keepers(state: State) -> frozenset[JobId]:
    """Return the jobs for whom something may be kept."""
    return frozenset((*state.claims, *(room.job for room in state.reserved)))


def _wanted(state: State) -> dict[NodeId, int]:
    """Return the GPUs, by node, that are kept for those who have a claim, a reservation or the rest of their nodes."""
    found: dict[NodeId, int] = {}
    for job in state.claims:
        record = state.jobs[job]
        for node, gpus in record.claim.placement.items() if record.claim else ():
            found[node] = found.get(node, 0) + gpus_on(gpus)
    for room in state.reserved:
        owner = state.jobs.get(room.job)
        if owner is None or owner.claim is not None or owner.state in GOES_ON:
            continue
        for node in room.nodes:
            found[node] = found.get(node, 0) + room.planned.get(node, 0)
    return found
