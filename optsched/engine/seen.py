"""What was found out of the jobs and nodes of a state, chunk by chunk, and is found out anew where one has changed.

A state has thousands of jobs, of which an event changes one. Versions of a state share the chunks of records in which
nothing changed, so what follows from records alone is known by the chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import chain

from optsched.engine.draft import SIDE_SLACK
from optsched.engine.records import Records
from optsched.engine.state import JobRecord, NodeRecord
from optsched.engine.tables import GOES_ON
from optsched.values.ids import JobId, NodeId, TeamId, UserId
from optsched.values.job import Job, JobState, gpus_on
from optsched.values.profile import Profile

Owner = tuple[TeamId, UserId]


@dataclass(slots=True)
class JobsSeen:
    """The jobs of a chunk. `plain` flags those that a round sees as they stand, whatever the time, unless all are.

    `marks` are what is known of each record, `owners` the owners of those whose estimates history may correct.
    `positions` are those of the jobs whose estimates history may correct, by owner. The others list records: `tied` may
    be kept from starting by somebody's word, `resting` wait with room kept for them, `frail` wait after runs that
    failed early, `unsettled` may have bookings of runs that do not go on, `guests` were let into what is held for
    others. `jobs` are what rounds see of the plain ones with the `ratios` of their owners, and hold until `until`.
    """

    records: tuple[JobRecord, ...]
    plain: tuple[bool, ...]
    marks: dict[JobId, int]
    owners: list[Owner | None]
    positions: dict[Owner, list[int]]
    tied: tuple[JobRecord, ...]
    resting: tuple[JobRecord, ...]
    frail: tuple[JobRecord, ...]
    unsettled: tuple[JobRecord, ...]
    guests: tuple[JobRecord, ...]
    all_plain: bool
    jobs: list[Job] | None = None
    ratios: Mapping[Owner, float] = field(default_factory=dict)
    until: float = 0.0


class Seen:
    """What is known of a state's jobs and nodes; for one profile, so that another one forgets it all."""

    def __init__(self) -> None:
        self._profile: Profile | None = None
        self._known: list[JobsSeen] = []
        self._mark = _marking(0.0)

    def overfull(self, nodes: Mapping[NodeId, NodeRecord]) -> set[NodeId]:
        """Return the nodes of which more is booked than they have by now."""
        marks = Records.of(nodes).marks(overfull)
        return {name for chunk in marks if True in chunk.values() for name, over in chunk.items() if over}

    def jobs(self, jobs: Mapping[JobId, JobRecord], profile: Profile) -> list[JobsSeen]:
        """Return what is known of the jobs of a state."""
        if profile is not self._profile:
            bucket = profile.preempt_tokens
            # Below one token a bucket fills with time; where it never holds one, nothing is plain.
            fewest = 0.0 if bucket is None else 1.0 if bucket.burst >= 1.0 else float("inf")
            self._profile, self._known, self._mark = profile, [], _marking(fewest)
        records = Records.of(jobs)
        found: list[JobsSeen] = []
        for number, (chunk, marks) in enumerate(zip(records.chunks(), records.marks(self._mark), strict=True)):
            before = self._known[number] if number < len(self._known) else None
            if before is not None and before.marks is marks:
                found.append(before)
            else:
                found.append(_jobs_seen(chunk, marks, before))
        self._known = found
        return found


_PLAIN, _TIED, _RESTING, _FRAIL, _UNSETTLED, _GUEST, _ESTIMATED = (1 << bit for bit in range(7))
"""What there may be to a record, one bit each."""


@cache
def _marking(fewest_tokens: float) -> Callable[[JobRecord], int]:
    """Return what tells which bits a record has; below so many tokens none is plain."""

    def mark(record: JobRecord) -> int:
        found = _ESTIMATED if record.job.estimated_runtime_s is not None else 0
        if record.tokens >= fewest_tokens and _as_it_stands(record):
            found |= _PLAIN
        if record.held is not None or record.after or record.array is not None:
            found |= _TIED
        if record.state is JobState.QUEUED:
            found |= (record.rest is not None) * _RESTING | (record.failed_early > 0) * _FRAIL
        if record.booked_on and (record.state not in GOES_ON or record.job.run > 1):
            found |= _UNSETTLED
        return found | bool(record.on_call) * _GUEST

    return mark


def _jobs_seen(chunk: Mapping[JobId, JobRecord], marked: dict[JobId, int], before: JobsSeen | None) -> JobsSeen:
    """Return what is known of a chunk, given what was of the one in its place."""
    records, marks = tuple(chunk.values()), list(marked.values())
    there, always = 0, _PLAIN
    for each in set(marks):
        there, always = there | each, always & each

    def those(bit: int) -> tuple[JobRecord, ...]:
        return tuple(each for each, mark in zip(records, marks, strict=True) if mark & bit) if there & bit else ()

    if before is not None and len(before.records) == len(records):
        pairs = zip(records, marks, before.records, before.owners, strict=True)
        owners = [owner if each is old else _owner(each, mark) for each, mark, old, owner in pairs]
    else:
        owners = [_owner(each, mark) for each, mark in zip(records, marks, strict=True)]
    if before is not None and before.owners == owners:
        positions = before.positions
    else:
        positions = {}
        for position, owner in enumerate(owners):
            if owner is not None:
                positions.setdefault(owner, []).append(position)
    return JobsSeen(
        records,
        plain=() if always else tuple([bool(mark & _PLAIN) for mark in marks]),
        marks=marked,
        owners=owners,
        positions=positions,
        tied=those(_TIED),
        resting=those(_RESTING),
        frail=those(_FRAIL),
        unsettled=those(_UNSETTLED),
        guests=those(_GUEST),
        all_plain=bool(always),
    )


def _owner(record: JobRecord, mark: int) -> Owner | None:
    return (record.job.team, record.job.user) if mark & _ESTIMATED else None


def _as_it_stands(record: JobRecord) -> bool:
    """Return whether a round sees a job as it stands, whatever the time, given that its bucket has a token."""
    if record.claim is not None:
        return False
    if record.state is JobState.RUNNING:
        return not record.done_on and record.moved_at is None
    return (
        record.state is JobState.QUEUED
        and record.rest is None
        and record.not_before is None
        and not record.avoid
        and not record.first_in_line
        and record.job.start_deadline_at is None
        and record.held is None
        and not record.after
        and record.array is None
    )


def overfull(record: NodeRecord) -> bool:
    """Return whether more of a node is booked than it has by now."""
    node, gpus, cpus, memory = record.node, 0, 0.0, 0.0
    for each in record.bookings:
        gpus += gpus_on(each.gpus)
        cpus += each.cpus
        memory += each.memory_gb
    return (
        gpus > node.healthy_gpus
        or (node.cpus is not None and cpus > node.cpus - node.cpus_reserved + SIDE_SLACK)
        or (node.memory_gb is not None and memory > node.memory_gb + SIDE_SLACK)
    )


def each_of(parts: list[JobsSeen], which: Callable[[JobsSeen], tuple[JobRecord, ...]]) -> Iterator[JobRecord]:
    """Yield one list of all chunks, in order."""
    return chain.from_iterable(map(which, parts))
