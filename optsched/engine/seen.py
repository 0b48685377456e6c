"""What was found out of the jobs and nodes of a state, chunk by chunk, and is found out anew where one has changed.

A state has thousands of jobs, of which an event changes one. Versions of a state share the chunks of records in which
nothing changed, so what follows from records alone is known by the chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from optsched.engine.draft import SIDE_SLACK
from optsched.engine.records import Records
from optsched.engine.state import JobRecord, NodeRecord
from optsched.engine.tables import GOES_ON
from optsched.values.ids import JobId, NodeId, TeamId, UserId
from optsched.values.job import Job, JobState, gpus_on
from optsched.values.profile import Profile

K = TypeVar("K")
R = TypeVar("R")
P = TypeVar("P")

Owner = tuple[TeamId, UserId]


class ByChunk(Generic[K, R, P]):
    """What `look` finds out of each chunk of a mapping, remembered for the chunks of the mapping last asked about."""

    def __init__(self, look: Callable[[Mapping[K, R]], P]) -> None:
        self._look = look
        self._known: dict[int, tuple[Mapping[K, R], P]] = {}

    def of(self, records: Mapping[K, R]) -> list[P]:
        """Return what was found out, in the order of the chunks."""
        there: dict[int, tuple[Mapping[K, R], P]] = {}
        found: list[P] = []
        for chunk in Records.of(records).chunks():
            known = self._known.get(id(chunk))
            if known is None or known[0] is not chunk:
                known = (chunk, self._look(chunk))
            there[id(chunk)] = known
            found.append(known[1])
        self._known = there
        return found


@dataclass(slots=True)
class JobsSeen:
    """The jobs of a chunk. `plain` flags those that a round sees as they stand, whatever the time.

    `positions` are those of the jobs whose estimates history may correct, by owner. The others list records: `tied` may
    be kept from starting by somebody's word, `resting` wait with room kept for them, `frail` wait after runs that
    failed early, `unsettled` may have bookings of runs that do not go on, `guests` were let into what is held for
    others. `jobs` are what rounds see of the plain ones with the `ratios` of their owners, and hold until `until`.
    """

    records: tuple[JobRecord, ...]
    plain: tuple[bool, ...]
    positions: Mapping[Owner, Sequence[int]]
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
        self._jobs: ByChunk[JobId, JobRecord, JobsSeen] = ByChunk(self._look)
        self._fewest_tokens = 0.0

    def jobs(self, jobs: Mapping[JobId, JobRecord], profile: Profile) -> list[JobsSeen]:
        """Return what is known of the jobs of a state."""
        if profile is not self._profile:
            self._profile, self._jobs = profile, ByChunk(self._look)
            bucket = profile.preempt_tokens
            # Below one token a bucket fills with time; where it never holds one, nothing is plain.
            self._fewest_tokens = 0.0 if bucket is None else 1.0 if bucket.burst >= 1.0 else float("inf")
        return self._jobs.of(jobs)

    def overfull(self, nodes: Mapping[NodeId, NodeRecord]) -> set[NodeId]:
        """Return the nodes of which more is booked than they have by now."""
        return {name for names in Records.of(nodes).parts(_overfull_of) for name in names}

    def _look(self, chunk: Mapping[JobId, JobRecord]) -> JobsSeen:
        records = tuple(chunk.values())
        queued = [each for each in records if each.state is JobState.QUEUED]
        positions: dict[Owner, list[int]] = {}
        for position, each in enumerate(records):
            if each.job.estimated_runtime_s is not None:
                positions.setdefault((each.job.team, each.job.user), []).append(position)
        plain = tuple(each.tokens >= self._fewest_tokens and _as_it_stands(each) for each in records)
        return JobsSeen(
            records,
            plain=plain,
            positions=positions,
            tied=tuple(each for each in records if each.held is not None or each.after or each.array is not None),
            resting=tuple(each for each in queued if each.rest is not None),
            frail=tuple(each for each in queued if each.failed_early),
            unsettled=tuple(
                each for each in records if each.booked_on and (each.state not in GOES_ON or each.job.run > 1)
            ),
            guests=tuple(each for each in records if each.on_call),
            all_plain=all(plain),
        )


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


def _overfull_of(chunk: Mapping[NodeId, NodeRecord]) -> tuple[NodeId, ...]:
    return tuple(name for name, record in chunk.items() if overfull(record))


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
    return (record for part in parts for record in which(part))
