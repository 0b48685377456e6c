"""What must hold after every event, whatever happened: checked on a step of the engine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Set

from optsched.engine.commands import Kind
from optsched.engine.draft import Step
from optsched.engine.state import JobRecord, NodeRecord, State, StopCause, tokens_at
from optsched.engine.tables import ENDS, HOLDS_RUN
from optsched.values.job import JobState, gpus_on


def faults_of(before: State, step: Step, displaced: Set[tuple[str, int]] = frozenset()) -> list[str]:
    """Return what a step broke. `displaced` are runs under which a node was moved elsewhere: they are left alone."""
    after = step.state
    return [
        *_nodes(before, after),
        *_jobs(after, displaced),
        *_life(before, step),
        *_stops(before, step),
        *_floors(before, after),
    ]


def _nodes(before: State, state: State) -> list[str]:
    """No GPU has two owners, no node gives more than it reports, and no room is promised twice.

    A node that reports less than it did keeps what it has, and gets nothing more.
    """
    faults = []
    promised = defaultdict(int)
    for job in state.claims:
        claim = state.jobs[job].claim
        assert claim is not None, f"{job} is among the claims and has none"
        for node, gpus in claim.placement.items():
            promised[node] += gpus_on(gpus)
    for name, record in state.nodes.items():
        taken: set[int] = set()
        for each in record.bookings:
            if not isinstance(each.gpus, int):
                if taken & set(each.gpus):
                    faults.append(f"{name}: GPUs {sorted(taken & set(each.gpus))} have two owners")
                taken |= set(each.gpus)
            if state.record(each.job) is None or name not in state.record(each.job).booked_on:
                faults.append(f"{name}: booked for {each.job}, which does not know of it")
        faults += _within(record, before.nodes.get(name))
        stay = sum(gpus_on(each.gpus) for each in record.bookings if _stays(state, each.job, each.run))
        if promised[name] and stay + promised[name] > record.node.healthy_gpus:
            faults.append(f"{name}: {stay} GPUs run and {promised[name]} are promised")
    return faults


def _within(record: NodeRecord, old: NodeRecord | None) -> list[str]:
    """Return of what a node has given away more than it has, and did not before."""
    node, faults = record.node, []
    was = {} if old is None else _booked(old)
    has = {
        "GPUs": node.healthy_gpus,
        "CPUs": None if node.cpus is None else node.cpus - node.cpus_reserved,
        "GB": node.memory_gb,
    }
    for what, amount in _booked(record).items():
        limit = has[what]
        if limit is not None and amount > limit + 1e-6 and amount > was.get(what, 0.0):
            faults.append(f"{node.id}: {amount:g} of {limit:g} {what} are booked")
    return faults


def _booked(record: NodeRecord) -> dict[str, float]:
    return {
        "GPUs": record.booked_gpus,
        "CPUs": sum(each.cpus for each in record.bookings),
        "GB": sum(each.memory_gb for each in record.bookings),
    }


def _stays(state: State, job: str, run: int) -> bool:
    record = state.jobs.get(job)
    return record is not None and record.run == run and record.state in (JobState.STARTING, JobState.RUNNING)


def _jobs(state: State, displaced: Set[tuple[str, int]]) -> list[str]:
    """A gang that starts or runs has all its GPUs, one that waits or has ended is owed none."""
    faults = []
    booked: dict[tuple[str, int], dict[str, int]] = defaultdict(dict)
    for name, record in state.nodes.items():
        for each in record.bookings:
            booked[each.job, each.run][name] = gpus_on(each.gpus)
    for name, record in state.jobs.items():
        job = record.job
        if name in state.ended:
            faults.append(f"{name} is listed twice")
        mine = booked.get((name, record.run), {})
        if record.state in (JobState.STARTING, JobState.RUNNING):
            want = {node: gpus_on(gpus) for node, gpus in job.placement.items()}
            extra = {node: gpus for node, gpus in mine.items() if node not in want}
            if {**want, **extra} != mine:
                faults.append(f"{name} runs on {want}, and has {mine}")
            if not job.min_gpus <= sum(want.values()) <= job.max_gpus:
                faults.append(f"{name} runs on {sum(want.values())} GPUs, not {job.min_gpus} to {job.max_gpus}")
            judged = (name, record.run) not in displaced
            if judged and job.required is not None and job.required != "node":
                there = {state.nodes[node].node.domains.get(job.required) for node in want}
                if len(there) != 1 or None in there:
                    faults.append(f"{name} leaves its {job.required}: {there}")
            faults += _shape(state, record, want) if judged else []
        if record.state is JobState.QUEUED and job.placement:
            faults.append(f"{name} waits, and has a placement")
        if record.claim is not None and name not in state.claims:
            faults.append(f"{name} has a claim that nobody knows")
        if record.state in ENDS and not record.booked_on:
            faults.append(f"{name} has ended and is listed as live")
        stopping = record.state is JobState.PREEMPTING
        if stopping > (record.stop is not None) or (record.stop and not stopping and record.state not in ENDS):
            faults.append(f"{name} is {record.state.value} and its stop is {record.stop}")
        if (record.state is JobState.STARTING) != (record.launch is not None):
            faults.append(f"{name} is {record.state.value} and its launch is {record.launch}")
    return faults


def _shape(state: State, record: JobRecord, placement: dict[str, int]) -> list[str]:
    """A gang is of one GPU type that it allows, cut as it says, and its slices are whole."""
    job, faults = record.job, []
    types = {state.nodes[node].node.gpu_type for node in placement}
    if len(types) != 1 or (job.gpu_types and not types <= job.gpu_types.keys()):
        faults.append(f"{record.id} runs on {sorted(types)} and may on {sorted(job.gpu_types)}")
    unit = job.gpus_per_node or job.gpus_per_task
    if any(gpus % unit if job.gpus_per_node is None else gpus != unit for gpus in placement.values() if unit):
        faults.append(f"{record.id} comes in {unit} and lies as {placement}")
    for piece in job.slices:
        inside: dict[object, int] = defaultdict(int)
        for node, gpus in placement.items():
            inside[state.nodes[node].node.domains.get(piece.within)] += gpus
        if None in inside or any(gpus % piece.gpus for gpus in inside.values()):
            faults.append(f"{record.id}: slices of {piece.gpus} within {piece.within} lie as {dict(inside)}")
    return faults


def _life(before: State, step: Step) -> list[str]:
    """No job is lost, none comes back from its end, runs only grow, claims end in a start or are given back."""
    after, faults = step.state, []
    given_back = {note.job for note in step.notes if note.kind in (Kind.DROPPED, Kind.CANCELLED)}
    known = {**before.ended, **before.jobs}
    for name, old in known.items():
        new = after.record(name)
        if new is None:
            faults.append(f"{name} is lost")
            continue
        if old.state in ENDS and new.state is not old.state:
            faults.append(f"{name} was {old.state.value} and is {new.state.value}")
        if not old.run <= new.run <= old.run + 1:
            faults.append(f"{name} went from run {old.run} to {new.run}")
        if new.run > old.run and (old.claim is None and new.claim is None and old.state is not JobState.QUEUED):
            faults.append(f"{name} started run {new.run} without a claim")
        started = new.run > old.run
        gone = started or new.state in ENDS
        if old.claim is not None and new.claim is None and not gone and name not in given_back:
            faults.append(f"the room of {name} vanished")
    return faults


def _stops(before: State, step: Step) -> list[str]:
    """Who is stopped for others is preemptible, within its rate, and for somebody who has room or will have it."""
    after, faults = step.state, []
    for name, new in after.jobs.items():
        old = before.jobs.get(name)
        if new.stop is None or (old is not None and old.stop is not None):
            continue
        if new.stop.cause is not StopCause.PLAN:
            continue
        assert old is not None
        if not old.job.preemptible:
            faults.append(f"{name} is not preemptible and was stopped")
        if tokens_at(old, after.now, before.profile) < 1.0:
            faults.append(f"{name} was stopped beyond its rate")
        ran = after.now - (old.job.started_at or 0.0)
        if set(old.on_call).isdisjoint(new.stop.beneficiaries) and ran < before.profile.min_runtime_s:
            faults.append(f"{name} was stopped after {ran:g} s")
        if new.claim is not None:
            faults.append(f"{name} was stopped for others, and is given room by the same plan")
        if not new.stop.beneficiaries:
            faults.append(f"{name} was stopped for nobody")
        for job in new.stop.beneficiaries:
            taker = after.jobs[job]
            if taker.claim is None and taker.state is not JobState.STARTING:
                faults.append(f"{name} was stopped for {job}, which gets nothing")
    limit = after.profile.max_stopped_gpus_per_h
    if limit is not None and len(after.stopped) > len(before.stopped):
        spent = sum(gpus for at, gpus in after.stopped if at > after.now - 3600)
        if spent > limit:
            faults.append(f"{spent} GPUs were stopped within an hour, {limit} are allowed")
    return faults


def _floors(before: State, after: State) -> list[str]:
    """A team whose jobs other teams stopped keeps at least what its quota guarantees, or what it ran.

    Who was let into held room gives it back to the holder whatever it stands on.
    """
    stopped: dict[str, set[str]] = defaultdict(set)
    for name, new in after.jobs.items():
        old = before.jobs.get(name)
        if old is not None and old.stop is None and new.stop is not None and new.stop.cause is StopCause.PLAN:
            lent = set(new.stop.beneficiaries) & set(old.on_call)
            if not lent and all(after.jobs[job].job.team != new.job.team for job in new.stop.beneficiaries):
                stopped[new.job.team].add(name)
    faults = []
    for team, names in stopped.items():
        quota = after.teams[team].quota
        if quota is None or quota.gpus is None:
            continue
        ran = sum(_held(record) for record in before.jobs.values() if record.job.team == team)
        lost = sum(_held(before.jobs[name]) for name in names)
        if ran - lost < min(quota.gpus, ran):
            faults.append(f"{team} ran {ran} GPUs, lost {lost} to others, and {quota.gpus} are guaranteed to it")
    return faults


def _held(record: object) -> int:
    claim = record.claim
    if claim is not None:
        return sum(gpus_on(gpus) for gpus in claim.placement.values())
    return record.job.placed_gpus if record.state in HOLDS_RUN and record.stop is None else 0
