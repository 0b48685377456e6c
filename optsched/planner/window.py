"""Long queues: which of the queued jobs a round looks at.

Of jobs that differ in nothing but their age and what they expect of the future, the oldest start first. So of each kind
only the first few are looked at; the others count as what their teams ask for. A plan for these is a plan for all; but
what could still be gained with the others is not known, so nothing is proven.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from optsched.values.ids import JobId
from optsched.values.job import Job, JobState
from optsched.values.plan import Waiting
from optsched.values.snapshot import Snapshot

LONG_QUEUE = 5_000
"""Up to so many queued jobs a round looks at all of them."""

LOOKED_AT = 3_000
"""In a longer queue about so many are looked at, as many of each kind, and one at least."""

Kind = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Beyond:
    """The jobs that a round does not look at, in queue order within their kinds, and who of its kind comes before."""

    jobs: tuple[Job, ...] = ()
    ahead: Mapping[JobId, Job] = field(default_factory=dict)


def in_window(snapshot: Snapshot, wanted: JobId | None = None) -> tuple[Snapshot, Beyond]:
    """Return the snapshot with the queued jobs that a round looks at (`wanted` among them), and the others."""
    if len(snapshot.jobs) <= LONG_QUEUE:
        return snapshot, Beyond()
    queued = [job for job in snapshot.jobs if job.state is JobState.QUEUED]
    if len(queued) <= LONG_QUEUE:
        return snapshot, Beyond()
    special = _special(snapshot, wanted)
    by_kind: dict[Kind, list[tuple[float, JobId, Job]]] = defaultdict(list)
    looked_at: set[JobId] = set()
    for job in queued:
        if job.start_deadline_at is not None or job.id in special:
            looked_at.add(job.id)
        else:
            by_kind[_kind(job, protected=job.id in snapshot.carried.protected)].append(
                (snapshot.placed_at(job), job.id, job)
            )
    ahead: dict[JobId, Job] = {}
    for alike in by_kind.values():
        first = heapq.nsmallest(max(1, LOOKED_AT // len(by_kind)), alike)
        looked_at.update(name for _, name, _ in first)
        ahead.update((name, first[-1][2]) for _, name, _ in alike)
    rest = [job for job in queued if job.id not in looked_at]
    jobs = tuple(job for job in snapshot.jobs if job.state is not JobState.QUEUED or job.id in looked_at)
    behind = Counter(ahead[job.id].id for job in rest)
    window = replace(snapshot, jobs=jobs, carried=replace(snapshot.carried, behind=behind))
    return window, Beyond(tuple(rest), {job.id: ahead[job.id] for job in rest})


def _special(snapshot: Snapshot, wanted: JobId | None) -> set[JobId]:
    """Return the jobs that something in the snapshot names."""
    carried = snapshot.carried
    named: list[Iterable[JobId]] = [carried.guests, carried.placed_at]
    named += [(each.job for each in carried.kept), () if wanted is None else (wanted,)]
    named += [reservation.jobs for reservation in snapshot.reservations]
    return {job for jobs in named for job in jobs}


def _kind(job: Job, *, protected: bool) -> Kind:
    """Return all that rules look at in a queued job but its age."""
    return (
        *(protected, job.team, job.user, job.priority, job.priority_class, job.preemptible),
        *(job.gpus, job.min_gpus, job.max_gpus, job.gpus_per_node, job.gpus_per_task, job.cpus, job.memory_gb),
        *(job.required, job.preferred, job.slices, job.exclude_nodes),
        tuple(job.gpu_types.items()) if job.gpu_types else (),
        tuple(job.node_selector.items()) if job.node_selector else (),
        tuple(job.speed.items()) if job.speed else (),
    )


def beyond_waiting(beyond: Beyond, waiting: Sequence[Waiting]) -> tuple[Waiting, ...]:
    """Return why the jobs wait that were not looked at: for what keeps the last before them of their kind."""
    reasons = {each.job: each.reason for each in waiting}
    # Sentences without numbers: what is said of so many jobs is not to change with every round.
    detail = "older jobs of its kind are ahead of it, and wait"
    found = ((job.id, reasons.get(beyond.ahead[job.id].id)) for job in beyond.jobs)
    return tuple(
        Waiting(name, "others_first", "older jobs of its kind are ahead of it, and start")
        if reason is None
        else Waiting(name, reason, detail)
        for name, reason in found
    )
