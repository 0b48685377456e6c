"""The snapshot of a state that a round plans on: what runs, what waits, what is on its way to be free or taken."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import cache
from itertools import chain
from operator import is_not

from optsched.engine.kept import kept_back
from optsched.engine.records import Records
from optsched.engine.runs import left_s
from optsched.engine.seen import JobsSeen, Owner, Seen, each_of
from optsched.engine.state import Booking, Claim, JobRecord, NodeRecord, State, booking_of, goes_on, tokens_at
from optsched.engine.tables import GOES_ON
from optsched.policy.victims import grace_s
from optsched.values.altered import altered
from optsched.values.cluster import Cluster, Node
from optsched.values.ids import NODE_LEVEL, JobId, LevelName, NodeId
from optsched.values.job import Job, JobState, gpus_on
from optsched.values.profile import Profile
from optsched.values.snapshot import Carried, Kept, Occupied, Snapshot

FIRST_S = 1e12
"""So much earlier than its submission a job counts in the order that was stopped or failed: before all its equals."""

QUANTILE = 0.9
"""Of the known ratios of real to stated run time this quantile corrects an estimate: few jobs then run over it."""

HOUR_S = 3600.0

Ratios = Mapping[Owner, float]
"""By team and user, what share of the stated run time jobs need."""


class Viewer:
    """Looks at states one after the other, and remembers what it saw of what does not change between them."""

    def __init__(self) -> None:
        self.seen = Seen()
        self._corrected: dict[JobId, tuple[Job, Job]] = {}
        self._ratios = _History()
        self._cluster: tuple[Cluster | None, Cluster] = (None, Cluster(()))

    def snapshot(self, state: State) -> Snapshot:
        """Return what a round sees. Whoever has a claim counts as running there; who is told to stop as gone."""
        parts = self.seen.jobs(state.jobs, state.profile)
        looked = _Look(
            state,
            kept_back(state.jobs, state.ended, each_of(parts, lambda part: part.tied)),
            self.seen.overfull(state.nodes),
            self._corrected,
            self._ratios.before,
            self._ratios.of(state),
        )
        jobs = tuple(chain.from_iterable([_jobs_of(part, looked) for part in parts]))
        if len(self._corrected) > 2 * len(jobs) + 64:
            self._corrected = {job.id: self._corrected[job.id] for job in jobs if job.id in self._corrected}
        carried = Carried(
            occupied=_occupied(state, {node for each in each_of(parts, _unsettled) for node in _left_on(state, each)}),
            kept=tuple(looked.kept),
            protected=frozenset(looked.protected),
            pinned=frozenset(looked.pinned),
            guests=guests_of(each_of(parts, lambda part: part.guests)),
            placed_at=looked.placed_at,
            waits_since=looked.waits_since,
            late=frozenset(looked.late),
            reserved=state.reserved,
            stopping=tuple(looked.stopping),
        )
        return Snapshot(
            now=state.now,
            cluster=self._cluster_of(state),
            teams=tuple(state.teams.values()),
            jobs=jobs,
            reservations=tuple(state.reservations.values()),
            profile=_left_to_stop(state),
            carried=carried,
        )

    def _cluster_of(self, state: State) -> Cluster:
        """Return the cluster with its nodes, the same object as long as none of it has changed."""
        nodes = tuple(chain.from_iterable(Records.of(state.nodes).parts(_nodes_of)))
        base, before = self._cluster
        if base is not state.cluster or before.nodes != nodes:
            self._cluster = (state.cluster, replace(state.cluster, nodes=nodes))
        return self._cluster[1]


def _nodes_of(chunk: Mapping[NodeId, NodeRecord]) -> list[Node]:
    return [record.node for record in chunk.values()]


def snapshot_of(state: State) -> Snapshot:
    """Return what a round sees of one state."""
    return Viewer().snapshot(state)


def _unsettled(part: JobsSeen) -> tuple[JobRecord, ...]:
    return part.unsettled


def _left_on(state: State, record: JobRecord) -> Iterable[NodeId]:
    """Return the nodes on which a job has anything booked that does not go on."""
    if record.state not in GOES_ON:
        return record.booked_on
    name, run = record.id, record.run
    there = [node for node in map(state.nodes.get, record.booked_on) if node is not None]
    return [node.node.id for node in there if any(each.job == name and each.run != run for each in node.bookings)]


class _Look:
    """One look at a state: how its jobs appear to a round, and what is noted of them on the way."""

    def __init__(
        self,
        state: State,
        barred: Set[JobId],
        overfull: Set[NodeId],
        corrected: dict[JobId, tuple[Job, Job]],
        before: Ratios,
        ratios: Ratios,
    ) -> None:
        self.state, self.barred, self.overfull = state, barred, overfull
        self._corrected = corrected
        self.before, self.ratios = before, ratios
        owners: Set[Owner] = set() if ratios is before else ratios.keys() | before.keys()
        self.changed = [owner for owner in owners if ratios.get(owner) != before.get(owner)]
        self.placed_at: dict[JobId, float] = {}
        self.waits_since: dict[JobId, float] = {}
        self.protected: set[JobId] = set()
        self.pinned: set[JobId] = set()
        self.kept: list[Kept] = []
        self.late: set[JobId] = set()
        self.stopping: list[Job] = []

    def at(self, record: JobRecord) -> Job | None:
        """Return a job as the round sees it, None where it does not."""
        job = self._uncorrected(record)
        return None if job is None else self.corrected(job)

    def corrected(self, job: Job) -> Job:
        """Return a job with its run time corrected by what its owner's jobs needed, the same object while it can."""
        ratio = self.ratios.get((job.team, job.user)) if self.ratios else None
        if ratio is None or job.estimated_runtime_s is None:
            return job
        likely_s = _likely_s(job, job.estimated_runtime_s, ratio, self.state.now)
        known = self._corrected.get(job.id)
        if known is None or known[0] is not job or known[1].estimated_runtime_s != likely_s:
            known = self._corrected[job.id] = (job, altered(job, estimated_runtime_s=likely_s))
        return known[1]

    def _uncorrected(self, record: JobRecord) -> Job | None:
        profile, now = self.state.profile, self.state.now
        if record.claim is not None:
            self.pinned.add(record.id)
            return _placed(record, record.claim, now)
        if record.state is JobState.QUEUED:
            return self._waiting(record)
        if record.state is JobState.PREEMPTING and not self._kept_back(record):
            self.stopping.append(record.job)
        if record.state not in (JobState.STARTING, JobState.RUNNING):
            return None
        if record.state is JobState.STARTING or record.done_on or _just_moved(record, now, profile):
            self.pinned.add(record.id)
        elif tokens_at(record, now, profile) < 1.0:
            self.protected.add(record.id)
        return record.job if self.overfull.isdisjoint(record.job.placement) else _as_large(record.job)

    def _waiting(self, record: JobRecord) -> Job | None:
        state, profile, now = self.state, self.state.profile, self.state.now
        if record.rest is not None and record.rest.until > now:
            gpus = {node: count for node, count in record.rest.gpus.items() if node in state.nodes}
            self.kept.append(Kept(record.id, gpus, record.rest.until))
        if self._kept_back(record):
            return None
        job = _avoiding(record, state)
        if tokens_at(record, now, profile) < 1.0:
            self.protected.add(record.id)
        deadline = job.start_deadline_at
        if deadline is not None and now > deadline - grace_s(job, profile):
            self.late.add(record.id)
        if record.first_in_line:
            self.placed_at[record.id] = job.submitted_at - FIRST_S
            self.waits_since[record.id] = record.waits_since
        return job

    def _kept_back(self, record: JobRecord) -> bool:
        """Return whether a job may not start yet, whatever room there is."""
        return record.id in self.barred or (record.not_before is not None and record.not_before > self.state.now)


def _jobs_of(part: JobsSeen, look: _Look) -> Sequence[Job]:
    """Return the jobs of a chunk that the round sees."""
    if look.overfull:
        return [job for record in part.records if (job := look.at(record)) is not None]
    now, ratios = look.state.now, look.ratios
    if part.jobs is None or now >= part.until:
        again: Iterable[int] = range(len(part.records)) if ratios else ()
        part.jobs, part.until = [record.job for record in part.records], math.inf
    else:
        again = [
            position
            for owner in (look.changed if part.ratios is look.before else ratios.keys() | part.ratios.keys())
            if ratios.get(owner) != part.ratios.get(owner)
            for position in part.positions.get(owner, ())
        ]
    part.ratios = ratios
    for position in again:
        job = part.jobs[position] = look.corrected(part.records[position].job)
        if job.started_at is not None and job.estimated_runtime_s is not None:
            likely = job.started_at + job.estimated_runtime_s
            part.until = min(part.until, likely) if likely > now else part.until
    if part.all_plain:
        return part.jobs
    found: list[Job] = []
    for record, job, plain in zip(part.records, part.jobs, part.plain, strict=True):
        if plain:
            found.append(job)
        elif (seen := look.at(record)) is not None:
            found.append(seen)
    return found


def guests_of(records: Iterable[JobRecord]) -> dict[JobId, frozenset[JobId]]:
    """Return, by job that waits, the jobs that run in what is held for it on condition that it may stop them."""
    found: dict[JobId, set[JobId]] = {}
    for record in records:
        if record.on_call and record.state is JobState.RUNNING:
            for holder in record.on_call:
                found.setdefault(holder, set()).add(record.id)
    return {holder: frozenset(guests) for holder, guests in found.items()}


def _placed(record: JobRecord, claim: Claim, now: float) -> Job:
    """Return a job with a claim as one that runs there."""
    size = sum(gpus_on(gpus) for gpus in claim.placement.values())
    return replace(
        record.job,
        state=JobState.RUNNING,
        placement=claim.placement,
        started_at=now,
        estimated_runtime_s=left_s(record),
        gpus=record.job.gpus,
        min_gpus=min(record.job.min_gpus, size),
        max_gpus=max(record.job.max_gpus, size),
    )


def _as_large(job: Job) -> Job:
    """Return a job that keeps its size: to resize is to start anew, and its node would not take it again."""
    return replace(job, min_gpus=job.placed_gpus, max_gpus=job.placed_gpus)


def _just_moved(record: JobRecord, now: float, profile: Profile) -> bool:
    return record.moved_at is not None and now - record.moved_at < profile.min_runtime_s


def _avoiding(record: JobRecord, state: State) -> Job:
    """Return a queued job less the nodes on which its launch failed, as long as others could do, as it requires."""
    avoid = {node for node, until in record.avoid.items() if until > state.now and node in state.nodes}
    job = record.job
    if not avoid:
        return job
    others: dict[str, int] = {}
    for name, each in state.nodes.items():
        node = each.node
        if name in avoid or name in job.exclude_nodes or (job.gpu_types and node.gpu_type not in job.gpu_types):
            continue
        if job.node_selector.items() <= node.labels.items():
            unit = job.gpus_per_node or job.gpus_per_task or min(job.min_gpus, node.healthy_gpus)
            inside = _inside(node, job.required)
            if inside is not None and node.healthy_gpus >= unit:
                others[inside] = others.get(inside, 0) + node.healthy_gpus
    enough = max(others.values(), default=0) >= job.min_gpus
    return replace(job, exclude_nodes=job.exclude_nodes | avoid) if enough else job


def _inside(node: Node, required: LevelName | None) -> str | None:
    """Return in which domain of the level that is required a node is, None where it is in none."""
    if required is None:
        return ""
    return str(node.id) if required == NODE_LEVEL else node.domains.get(required)


class _History:
    """What share of the stated run time the jobs of teams and users with enough history need at most."""

    def __init__(self) -> None:
        self._parts: list[Ratios] = []
        self.before: Ratios = {}

    def of(self, state: State) -> Ratios:
        """Return it as it is in a state, the same object as `before` where nothing of it has changed."""
        parts = Records.of(state.history).parts(_ratios_after(state.settings.history_runs))
        if len(parts) != len(self._parts) or any(map(is_not, parts, self._parts)):
            self._parts, self.before = parts, {owner: ratio for part in parts for owner, ratio in part.items()}
        return self.before


@cache
def _ratios_after(runs: int) -> Callable[[Mapping[Owner, tuple[float, ...]]], Ratios]:
    """Return what finds the ratios of a chunk of histories of so many runs at least."""

    def ratios_of(chunk: Mapping[Owner, tuple[float, ...]]) -> Ratios:
        found = {}
        for owner, ratios in chunk.items():
            if len(ratios) >= runs:
                ordered = sorted(ratios)
                found[owner] = ordered[min(len(ordered) - 1, int(QUANTILE * len(ordered)))]
        return found

    return ratios_of


def _likely_s(job: Job, stated_s: float, ratio: float, now: float) -> float:
    """Return a run time, corrected; of a job that has run for longer already what was stated."""
    likely_s = stated_s * ratio
    return stated_s if job.started_at is not None and job.started_at + likely_s <= now else likely_s


def _left_to_stop(state: State) -> Profile:
    """Return the profile with what is left of the preemptions that the cluster allows in an hour."""
    limit = state.profile.max_stopped_gpus_per_h
    if limit is None:
        return state.profile
    spent = sum(gpus for at, gpus in state.stopped if at > state.now - HOUR_S)
    return replace(state.profile, max_stopped_gpus_per_h=max(0, limit - spent))


def _occupied(state: State, unsettled: Set[NodeId]) -> tuple[Occupied, ...]:
    """Return what is booked to runs that are over or told to stop, less what claims will take of it.

    Only `unsettled` nodes have such bookings.
    """
    if not unsettled:
        return ()
    claims: dict[NodeId, list[Booking]] = {}
    for name in state.claims:
        record = state.jobs[name]
        for node, gpus in record.claim.placement.items() if record.claim else ():
            claims.setdefault(node, []).append(booking_of(record.job, 0, gpus))
    chunks = (chunk for chunk in Records.of(state.nodes).chunks() if not unsettled.isdisjoint(chunk))
    nodes = ((name, record) for chunk in chunks for name, record in chunk.items() if name in unsettled)
    rooms = (_draining(state, record, claims.get(name, [])) for name, record in nodes)
    return tuple(room for room in rooms if room is not None)


def _draining(state: State, record: NodeRecord, claims: list[Booking]) -> Occupied | None:
    """Return what of a node is on its way to be free and that no claim waits for, None where nothing is."""
    leaving = [each for each in record.bookings if not goes_on(state.jobs, each.job, each.run)]
    if not leaving:
        return None
    node = record.node
    until = max(_gone_at(state, each.job) for each in leaving)
    exact = not any(isinstance(each.gpus, int) for each in (*leaving, *claims))
    indices: tuple[int, ...] = ()
    if exact:
        indices = tuple(sorted(_indices(leaving) - _indices(claims)))
        left = len(indices)
    else:
        unbooked = max(0, node.healthy_gpus - record.booked_gpus)
        left = sum(gpus_on(each.gpus) for each in leaving)
        left -= max(0, sum(gpus_on(each.gpus) for each in claims) - unbooked)
    if left <= 0:
        return None
    taken = [each for each in record.bookings if each not in leaving] + claims
    cpus = sum(each.cpus for each in leaving)
    if node.cpus is not None:
        cpus = min(cpus, node.cpus - node.cpus_reserved - sum(each.cpus for each in taken))
    memory = sum(each.memory_gb for each in leaving)
    if node.memory_gb is not None:
        memory = min(memory, node.memory_gb - sum(each.memory_gb for each in taken))
    return Occupied(node.id, indices if exact else left, max(0.0, cpus), max(0.0, memory), until)


def _indices(bookings: list[Booking]) -> set[int]:
    return {index for each in bookings if not isinstance(each.gpus, int) for index in each.gpus}


def _gone_at(state: State, job: JobId) -> float:
    record = state.jobs.get(job)
    stop = None if record is None else record.stop
    return state.now if stop is None else max(state.now, stop.kill_at)
