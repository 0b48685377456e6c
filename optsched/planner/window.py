"""Long queues: which of the queued jobs a round looks at.

Of jobs that differ in nothing but their age and what they expect of the future, the oldest start first. So of each kind
only the first few are looked at; the others count as what their teams ask for. A plan for these is a plan for all; but
what could still be gained with the others is not known, so nothing is proven.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter

from optsched.values.ids import JobId
from optsched.values.job import Job, JobState
from optsched.values.plan import Waiting
from optsched.values.snapshot import Snapshot

LONG_QUEUE = 5_000
"""Up to so many queued jobs a round looks at all of them."""

LOOKED_AT = 3_000
"""In a longer queue about so many are looked at, as many of each kind, and one at least."""

Kind = tuple[object, ...]

_age = attrgetter("submitted_at", "id")


@dataclass(slots=True)
class Alike:
    """The queued jobs of one kind: `first` are looked at, the oldest first, `rest` are not.

    What was last said of the rest is kept, since in most rounds it is the same again.
    """

    jobs: list[Job]
    first: list[Job]
    rest: list[Job]
    _reason: str | None = None
    _told: list[Waiting] = field(default_factory=list)

    @property
    def last(self) -> Job:
        """The youngest that is looked at: all of the rest come after it."""
        return self.first[-1]

    def grown(self, jobs: list[Job], most: int) -> bool:
        """Take in that there are these jobs now; False where more has changed than that younger ones have come."""
        known = len(self.jobs)
        if len(self.first) != most or len(jobs) < known or jobs[:known] != self.jobs:
            return False
        more, youngest = jobs[known:], _age(self.last)
        if any(_age(job) < youngest for job in more):
            return False
        self.jobs = jobs
        self.rest += more
        return True

    def told(self, reason: str | None) -> list[Waiting]:
        """Return why the rest wait: for what keeps the last before them, which starts where there is no `reason`."""
        if reason != self._reason:
            self._reason, self._told = reason, []
        # Sentences without numbers: what is said of so many jobs is not to change with every round.
        detail = f"older jobs of its kind are ahead of it, and {'start' if reason is None else 'wait'}"
        said = reason or "others_first"
        self._told += [Waiting(job.id, said, detail) for job in self.rest[len(self._told) :]]
        return self._told


class Kinds:
    """Which queued jobs are of one kind, kept from one round to the next: the same job is of the same kind."""

    def __init__(self) -> None:
        self._known: dict[JobId, tuple[Job, int]] = {}
        self._numbers: dict[Kind, int] = {}
        self._alike: dict[tuple[int, bool], Alike] = {}

    def alike(self, queued: Sequence[Job], protected: Set[JobId]) -> list[Alike]:
        """Return jobs by their kinds, so many of each to be looked at that in all it is about the window."""
        if len(self._known) > 2 * len(queued) + LOOKED_AT:
            self._known, self._numbers = {}, {}
        by_kind: dict[tuple[int, bool], list[Job]] = defaultdict(list)
        for job in queued:
            known = self._known.get(job.id)
            if known is None or known[0] is not job:
                known = self._known[job.id] = (job, self._numbers.setdefault(_kind(job), len(self._numbers)))
            by_kind[known[1], job.id in protected].append(job)
        share = max(1, LOOKED_AT // max(1, len(by_kind)))
        before, self._alike = self._alike, {}
        for kind, jobs in by_kind.items():
            most, found = min(share, len(jobs)), before.get(kind)
            if found is None or not found.grown(jobs, most):
                first = heapq.nsmallest(most, jobs, key=_age)
                names = {job.id for job in first}
                found = Alike(jobs, first, [job for job in jobs if job.id not in names])
            self._alike[kind] = found
        return list(self._alike.values())


@dataclass(frozen=True, slots=True)
class Beyond:
    """The jobs that a round does not look at, by their kinds."""

    kinds: tuple[Alike, ...] = ()

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs, in queue order within their kinds."""
        return tuple(chain.from_iterable(each.rest for each in self.kinds))

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(len(each.rest) for each in self.kinds)


def in_window(snapshot: Snapshot, wanted: JobId | None = None, kinds: Kinds | None = None) -> tuple[Snapshot, Beyond]:
    """Return the snapshot with the queued jobs that a round looks at (`wanted` among them), and the others.

    `kinds` are what the rounds before found out.
    """
    if len(snapshot.jobs) <= LONG_QUEUE:
        return snapshot, Beyond()
    queued = [job for job in snapshot.jobs if job.state is JobState.QUEUED]
    if len(queued) <= LONG_QUEUE:
        return snapshot, Beyond()
    special = _special(snapshot, wanted)
    looked_at = {job.id for job in queued if job.start_deadline_at is not None or job.id in special}
    # Nobody among the others has another place in the order than by its age: `special` has all those that do.
    others = [job for job in queued if job.id not in looked_at]
    found = (kinds or Kinds()).alike(others, snapshot.carried.protected)
    looked_at.update(job.id for each in found for job in each.first)
    jobs = tuple(job for job in snapshot.jobs if job.state is not JobState.QUEUED or job.id in looked_at)
    beyond = Beyond(tuple(each for each in found if each.rest))
    behind = {each.last.id: len(each.rest) for each in beyond.kinds}
    return replace(snapshot, jobs=jobs, carried=replace(snapshot.carried, behind=behind)), beyond


def _special(snapshot: Snapshot, wanted: JobId | None) -> set[JobId]:
    """Return the jobs that something in the snapshot names."""
    carried = snapshot.carried
    named: list[Iterable[JobId]] = [carried.guests, carried.placed_at]
    named += [(each.job for each in carried.kept), () if wanted is None else (wanted,)]
    named += [reservation.jobs for reservation in snapshot.reservations]
    return {job for jobs in named for job in jobs}


def _kind(job: Job) -> Kind:
    """Return all that rules look at in a queued job but its age."""
    return (
        *(job.team, job.user, job.priority, job.priority_class, job.preemptible),
        *(job.gpus, job.min_gpus, job.max_gpus, job.gpus_per_node, job.gpus_per_task, job.cpus, job.memory_gb),
        *(job.required, job.preferred, job.slices, job.exclude_nodes),
        tuple(job.gpu_types.items()) if job.gpu_types else (),
        tuple(job.node_selector.items()) if job.node_selector else (),
        tuple(job.speed.items()) if job.speed else (),
    )


def beyond_waiting(beyond: Beyond, waiting: Sequence[Waiting]) -> tuple[Waiting, ...]:
    """Return why the jobs wait that were not looked at: for what keeps the last before them of their kind."""
    reasons: Mapping[JobId, str] = {each.job: each.reason for each in waiting}
    return tuple(chain.from_iterable(each.told(reasons.get(each.last.id)) for each in beyond.kinds))
