"""The snapshot of a state that a round plans on: what runs, what waits, what is on its way to be free or taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from optsched.engine.kept import kept_back
from optsched.engine.state import Booking, Claim, JobRecord, NodeRecord, State, booking_of, goes_on, tokens_at
from optsched.policy.victims import grace_s
from optsched.values.ids import JobId, NodeId, TeamId, UserId
from optsched.values.job import Job, JobState, gpus_on
from optsched.values.profile import Profile
from optsched.values.snapshot import Carried, Kept, Occupied, Snapshot

FIRST_S = 1e12
"""So much earlier than its submission a job counts in the order that was stopped or failed: before all its equals."""

QUANTILE = 0.9
"""Of the known ratios of real to stated run time this quantile corrects an estimate: few jobs then run over it."""

HOUR_S = 3600.0


def snapshot_of(state: State) -> Snapshot:
    """Return what a round sees. Whoever has a claim counts as running there; who is told to stop as gone."""
    jobs: list[Job] = []
    placed_at: dict[JobId, float] = {}
    protected: set[JobId] = set()
    pinned: set[JobId] = set()
    kept: list[Kept] = []
    late: set[JobId] = set()
    profile, now = state.profile, state.now
    ratios = _ratios(state)
    barred = kept_back(state.jobs, state.ended)
    for record in state.jobs.values():
        if record.claim is not None:
            jobs.append(_placed(record, record.claim, now))
            pinned.add(record.id)
            continue
        if record.state is JobState.QUEUED:
            if record.rest is not None and record.rest.until > now:
                gpus = {node: count for node, count in record.rest.gpus.items() if node in state.nodes}
                kept.append(Kept(record.id, gpus, record.rest.until))
            if record.id in barred or (record.not_before is not None and record.not_before > now):
                continue
            job = _avoiding(record, state)
            if tokens_at(record, now, profile) < 1.0:
                protected.add(record.id)
            deadline = job.start_deadline_at
            if deadline is not None and now > deadline - grace_s(job, profile):
                late.add(record.id)
            if record.first_in_line:
                placed_at[record.id] = job.submitted_at - FIRST_S
        elif record.state in (JobState.STARTING, JobState.RUNNING):
            job = record.job
            if record.state is JobState.STARTING or record.done_on or _just_moved(record, now, profile):
                pinned.add(record.id)
            elif tokens_at(record, now, profile) < 1.0:
                protected.add(record.id)
        else:
            continue
        ratio = ratios.get((job.team, job.user)) if ratios else None
        jobs.append(_corrected(job, ratio, now) if ratio is not None else job)
    carried = Carried(
        occupied=_occupied(state),
        kept=tuple(kept),
        protected=frozenset(protected),
        pinned=frozenset(pinned),
        guests=guests_of(state),
        placed_at=placed_at,
        late=frozenset(late),
    )
    return Snapshot(
        now=now,
        cluster=replace(state.cluster, nodes=tuple(record.node for record in state.nodes.values())),
        teams=tuple(state.teams.values()),
        jobs=tuple(jobs),
        reservations=tuple(state.reservations.values()),
        profile=_left_to_stop(state),
        carried=carried,
    )


def guests_of(state: State) -> dict[JobId, frozenset[JobId]]:
    """Return, by job that waits, the jobs that run in what is held for it on condition that it may stop them."""
    found: dict[JobId, set[JobId]] = {}
    for record in state.jobs.values():
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
        gpus=record.job.gpus,
        min_gpus=min(record.job.min_gpus, size),
        max_gpus=max(record.job.max_gpus, size),
    )


def _just_moved(record: JobRecord, now: float, profile: Profile) -> bool:
    return record.moved_at is not None and now - record.moved_at < profile.min_runtime_s


def _avoiding(record: JobRecord, state: State) -> Job:
    """Return a queued job less the nodes on which its launch failed, as long as some other node could do."""
    avoid = {node for node, until in record.avoid.items() if until > state.now and node in state.nodes}
    job = record.job
    if not avoid:
        return job
    others = 0
    for name, each in state.nodes.items():
        node = each.node
        if name in avoid or name in job.exclude_nodes or (job.gpu_types and node.gpu_type not in job.gpu_types):
            continue
        if job.node_selector.items() <= node.labels.items():
            unit = job.gpus_per_node or job.gpus_per_task or min(job.min_gpus, node.healthy_gpus)
            others += node.healthy_gpus if node.healthy_gpus >= unit else 0
    return replace(job, exclude_nodes=job.exclude_nodes | avoid) if others >= job.min_gpus else job


def _ratios(state: State) -> Mapping[tuple[TeamId, UserId], float]:
    """Return, for teams and users with enough history, what share of the stated run time their jobs need at most."""
    found = {}
    for key, ratios in state.history.items():
        if len(ratios) >= state.settings.history_runs:
            ordered = sorted(ratios)
            found[key] = ordered[min(len(ordered) - 1, int(QUANTILE * len(ordered)))]
    return found


def _corrected(job: Job, ratio: float, now: float) -> Job:
    """Return a job with its run time corrected; one that has run for longer already is taken at its word again."""
    stated = job.estimated_runtime_s
    if stated is None:
        return job
    likely = stated * ratio
    if job.started_at is not None and job.started_at + likely <= now:
        likely = stated
    return replace(job, estimated_runtime_s=likely)


def _left_to_stop(state: State) -> Profile:
    """Return the profile with what is left of the preemptions that the cluster allows in an hour."""
    limit = state.profile.max_stopped_gpus_per_h
    if limit is None:
        return state.profile
    spent = sum(gpus for at, gpus in state.stopped if at > state.now - HOUR_S)
    return replace(state.profile, max_stopped_gpus_per_h=max(0, limit - spent))


def _occupied(state: State) -> tuple[Occupied, ...]:
    """Return what is booked to runs that are over or told to stop, less what claims will take of it."""
    claims: dict[NodeId, list[Booking]] = {}
    for name in state.claims:
        record = state.jobs[name]
        for node, gpus in record.claim.placement.items() if record.claim else ():
            claims.setdefault(node, []).append(booking_of(record.job, 0, gpus))
    rooms = (_draining(state, record, claims.get(node, [])) for node, record in state.nodes.items() if record.bookings)
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
