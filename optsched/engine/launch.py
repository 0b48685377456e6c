"""Gang starts: claims become runs when all their room is free; all agents reserve, then all start."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from optsched.engine.commands import Kind, Verb
from optsched.engine.draft import Draft, room_on, side_fits
from optsched.engine.health import suspect
from optsched.engine.places import barred_nodes, claimed, held_for_others, lies_as_required, pick, stand_in, without
from optsched.engine.records import Records
from optsched.engine.runs import abandon, fail, good_checkpoint
from optsched.engine.state import Change, Claim, JobRecord, Launch, NodeRecord, share_of
from optsched.engine.tables import JobTrigger
from optsched.values.altered import altered
from optsched.values.cluster import NodeState
from optsched.values.ids import JobId, NodeId
from optsched.values.job import JobState, gpus_on


def promote(draft: Draft, *, anew: bool) -> None:
    """Start every claim whose GPUs are all confirmed free; drop those whose nodes were lost or closed.

    Before the event none could be started: only those are looked at for which it changed something, or all `anew`.
    """
    starting: int | None = None
    for name in draft.claims:
        record = draft.job(name)
        claim = record.claim
        if claim is None or record.state is not JobState.QUEUED:
            continue
        touched = anew or draft.touches(record, claim)
        if not touched and not draft.ended_start:
            continue
        if starting is None:
            starting = sum(Records.of(draft.jobs).parts(_starting_nodes))
        too_many = starting > 0 and starting + len(claim.placement) > draft.before.settings.max_starting_nodes
        if too_many and not touched:
            continue
        nodes = [(n, draft.nodes.get(n), on) for n, on in claim.placement.items()]
        closed = [n for n, there, _ in nodes if there is None or there.node.state is not NodeState.UP]
        if closed:
            abandon(draft, record, f"{closed[0]} takes no new work")
            continue
        if too_many or draft.get("paused") or not all(there and _free(there, record, on) for _, there, on in nodes):
            continue
        if _old_run_lives(draft, record):
            continue
        starting += len(claim.placement)
        _begin(draft, record, claim)


def _starting_nodes(chunk: Mapping[JobId, JobRecord]) -> int:
    return sum(len(each.job.placement) for each in chunk.values() if each.launch is not None)


def _old_run_lives(draft: Draft, record: JobRecord) -> bool:
    """Return whether a run before may still work somewhere: a job never runs twice. A lost node is not waited for."""
    return any(
        each.job == record.id and each.run not in record.never_began
        for node in record.booked_on
        if draft.node(node).node.state is not NodeState.DOWN
        for each in draft.node(node).bookings
    )


def _free(node: NodeRecord, record: JobRecord, gpus: int | tuple[int, ...]) -> bool:
    """Return whether one node's part of a claim is confirmed free: its GPUs, and the CPUs and memory with them."""
    return gpus_on(gpus) <= room_on(node, gpus) and side_fits(node, *share_of(record.job, gpus_on(gpus)))


def _begin(draft: Draft, record: JobRecord, claim: Claim) -> None:
    """Book the GPUs of a claim for a new run and ask the agents to reserve them."""
    kept = good_checkpoint(record, draft.now)
    # Its nodes change as they are booked.
    draft.claims = tuple(name for name in draft.claims if name != record.id)
    job = altered(
        record.job,
        state=JobState.RUNNING,
        run=record.job.run + 1,
        placement=claim.placement,
        started_at=draft.now,
        last_checkpoint_at=draft.now if record.checkpoints or record.done_s else None,
    )
    moved = claim.change is not Change.START
    record = draft.move(
        record,
        JobTrigger.START,
        claim=None,
        job=job,
        launch=Launch(reserving=True, since=draft.now),
        booked_on=record.booked_on | claim.placement.keys(),
        done_on=frozenset(),
        restored=None if kept is None else kept.version,
        stop=None,
        rest=None,
        first_in_line=False,
        not_before=None,
        reason="",
        blocked_by="",
        migrations=record.migrations + (claim.change is Change.MOVE),
        moved_at=draft.now if moved else record.moved_at,
    )
    draft.book(job, claim.placement)
    for node, gpus in claim.placement.items():
        draft.command(Verb.RESERVE, node, job.id, job.run, gpus=gpus)


def ready(draft: Draft, record: JobRecord, nodes: Set[NodeId], *, reserved: bool) -> None:
    """Take in that some nodes have done their part of a stage; the last one ends the stage."""
    launch = record.launch
    if launch is None or launch.reserving is not reserved or nodes <= launch.ready:
        return
    done = launch.ready | nodes
    job = record.job
    if len(done) < len(job.placement):
        draft.put(altered(record, launch=replace(launch, ready=done)), quietly=True)
    elif reserved:
        draft.put(altered(record, launch=Launch(reserving=False, since=draft.now)), quietly=True)
        for each, gpus in job.placement.items():
            draft.command(Verb.START, each, job.id, job.run, gpus=gpus)
    else:
        draft.move(record, JobTrigger.UP, launch=None)
        draft.note(Kind.STARTED, "runs", job.id)


def overdue(draft: Draft, record: JobRecord) -> None:
    """Deal with agents that did not answer in time: swapped for equal nodes if they are few, else all start anew."""
    launch, settings = record.launch, draft.before.settings
    if launch is None:
        return
    limit = settings.reserve_timeout_s if launch.reserving else settings.start_timeout_s
    if draft.now < launch.since + limit:
        return
    missing = [node for node in record.job.placement if node not in launch.ready]
    for node in missing:
        suspect(draft, node, f"did not answer {record.id} within {limit:g} s")
    record = draft.job(record.id)
    if launch.reserving and len(missing) <= max(1, int(settings.swap_share * len(record.job.placement))):
        swapped = _swap(draft, record, missing)
        if swapped:
            return
    names = ", ".join(missing[:3])
    fail(draft, record, infra=True, why=f"no answer from {names}", bad=frozenset(missing))


def _swap(draft: Draft, record: JobRecord, missing: list[NodeId]) -> bool:
    """Put equal free nodes in the place of those that do not answer; False, and nothing done, where one has none."""
    job = record.job
    held = claimed(draft.nodes.keys(), draft.jobs, draft.claims)
    reservations = draft.get("reservations")
    assert isinstance(reservations, dict)
    barred = barred_nodes(job, reservations, draft.now) | held_for_others(draft.before.reserved, job.id)
    used = set(job.placement)
    found: dict[NodeId, NodeId] = {}
    for node in missing:
        gpus = gpus_on(job.placement[node])
        other = stand_in(record, node, gpus, draft.nodes, draft.before.cluster.levels, held, used, barred)
        if other is None:
            return False
        used.add(other)
        found[node] = other
    fresh = {other: pick(draft.node(other), gpus_on(job.placement[node])) for node, other in found.items()}
    placement = {**without(job.placement, set(missing)), **fresh}
    launch = record.launch
    if launch is None or not lies_as_required(job, placement, draft.nodes, draft.before.cluster.levels):
        return False
    record = draft.put(
        replace(
            record,
            job=replace(job, placement=placement),
            booked_on=record.booked_on | fresh.keys(),
            launch=replace(launch, since=draft.now),
        )
    )
    draft.book(record.job, fresh)
    for node, other in found.items():
        draft.command(Verb.RELEASE, node, job.id, job.run, gpus=job.placement[node])
        draft.command(Verb.RESERVE, other, job.id, job.run, gpus=fresh[other])
        draft.note(Kind.REPAIRED, f"{other} stands in for {node}, which does not answer", job.id, other)
    return True
