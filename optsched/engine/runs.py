"""A run from its end on: stopped, failed, finished; what its GPUs and its job come to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from optsched.engine.commands import Kind, Verb
from optsched.engine.draft import Draft, of_run
from optsched.engine.records import Records
from optsched.engine.state import Claim, JobRecord, Rest, Saved, Stop, StopCause, tokens_at
from optsched.engine.tables import HOLDS_RUN, JobTrigger
from optsched.policy.victims import grace_s
from optsched.values.cluster import NodeState
from optsched.values.ids import JobId, NodeId, TeamId, UserId
from optsched.values.job import Job, JobState, gpus_on
from optsched.values.profile import Profile

LEAST_LEFT_S = 60.0
"""A job that goes on from a checkpoint is taken to need at least this long."""


def nodes_of_run(draft: Draft, record: JobRecord, run: int | None = None) -> list[NodeId]:
    """Return the nodes on which a run (None: the last one) still has bookings, in order of their names."""
    number = record.run if run is None else run
    return sorted(
        node
        for node in record.booked_on
        if node in draft.nodes and of_run(draft.node(node).bookings, record.id, number)
    )


def ask(draft: Draft, record: JobRecord, verb: Verb, nodes: Iterable[NodeId], grace: float = 0.0) -> None:
    """Ask the agents of some nodes for something about a run; a lost node hears nothing."""
    for node in nodes:
        if draft.node(node).node.state is not NodeState.DOWN:
            gpus = record.job.placement.get(node, 0)
            draft.command(verb, node, record.id, record.run, gpus=gpus, grace_s=grace)


def unbegun(record: JobRecord) -> bool:
    """Return whether no agent was asked to start anything of the run yet."""
    return record.launch is not None and record.launch.reserving


def left_s(record: JobRecord, more_s: float = 0.0) -> float | None:
    """Return the run time that a job states, less what is saved of it and `more_s`; None where it states none."""
    estimate, done = record.estimate_s, record.done_s + more_s
    return estimate if estimate is None or done <= 0 else max(min(estimate, LEAST_LEFT_S), estimate - done)


def queued_again(record: JobRecord, job: Job) -> Job:
    """Return a job as rounds see it while it waits for its next run."""
    return replace(job, state=JobState.QUEUED, placement={}, started_at=None, estimated_runtime_s=left_s(record))


def saved_s(record: JobRecord, now: float, profile: Profile, *, signalled: bool) -> float:
    """Return the run time of the last run that its checkpoints keep, in seconds."""
    started = record.job.started_at
    if started is None:
        return 0.0
    checkpoint = record.job.checkpoint
    if signalled and checkpoint.on_signal and checkpoint.cost_s <= grace_s(record.job, profile):
        return max(0.0, now - started)
    kept = good_checkpoint(record, now)
    return 0.0 if kept is None else max(0.0, kept.taken_at - started)


def good_checkpoint(record: JobRecord, now: float) -> Saved | None:
    """Return the newest checkpoint that outlives its nodes and was not found bad, None where there is none."""
    usable = [each for each in record.checkpoints if each.failures < BAD_AFTER and _safe(each, now)]
    return max(usable, key=lambda each: each.taken_at, default=None)


BAD_AFTER = 2
"""So many job-class failures on restoring one version mark it bad."""


def _safe(saved: Saved, now: float) -> bool:
    return saved.safe_at is not None and saved.safe_at <= now


def stop_run(
    draft: Draft,
    record: JobRecord,
    cause: StopCause,
    beneficiaries: tuple[JobId, ...] = (),
    claim: Claim | None = None,
    why: str = "",
) -> JobRecord:
    """Tell a run to stop: signals go out, its GPUs stay booked until they are confirmed free.

    With a claim the job goes on there, and that counts as no preemption. Whether another round is due by that is the
    caller's to say: who is planned a stop knows more than who orders one.
    """
    profile = draft.get("profile")
    assert isinstance(profile, Profile)
    grace = grace_s(record.job, profile)
    nodes = nodes_of_run(draft, record)
    unstarted = unbegun(record)
    ask(draft, record, Verb.RELEASE if unstarted else Verb.SIGNAL, nodes, 0.0 if unstarted else grace)
    done = record.done_s + saved_s(record, draft.now, profile, signalled=True)
    job = record.job
    changes: dict[str, object] = {"done_s": done, "launch": None, "reason": why}
    if unstarted:
        changes["never_began"] = record.never_began | {record.run}
    if cause is StopCause.PLAN:
        changes |= {"tokens": tokens_at(record, draft.now, profile) - 1.0, "tokens_at": draft.now}
        stopped = draft.get("stopped")
        assert isinstance(stopped, tuple)
        draft.set(stopped=(*stopped, (draft.now, job.placed_gpus)))
    if cause is not StopCause.ELSEWHERE:
        job = replace(job, preemptions=job.preemptions + 1)
    stop = Stop(cause, draft.now + grace, beneficiaries)
    record = draft.move(record, JobTrigger.PREEMPT, job=job, stop=stop, **changes)
    if claim is not None:
        record = draft.claim(record, claim)
    return drained(draft, record.id)


def drained(draft: Draft, job: JobId) -> JobRecord:
    """Put a stopped job back into the queue if all GPUs of its run are confirmed free; else leave it."""
    record = draft.job(job)
    if record.state is not JobState.PREEMPTING or nodes_of_run(draft, record):
        return record
    elsewhere = record.stop is not None and record.stop.cause is StopCause.ELSEWHERE
    reason = "goes on elsewhere" if record.claim else "stopped, in line for its next run"
    if not elsewhere:
        reason = record.reason or reason
    record = draft.move(
        record,
        JobTrigger.DRAINED,
        job=queued_again(record, record.job),
        stop=None,
        first_in_line=True,
        queued_at=draft.now,
        on_call=record.on_call if record.claim else (),
        reason=reason,
    )
    draft.due = True
    return record


def complete(draft: Draft, record: JobRecord) -> JobRecord:
    """End a job whose tasks all ended well; its GPUs stay booked until they are confirmed free."""
    _learn(draft, record)
    nodes = nodes_of_run(draft, record)
    record = _end(draft, record, JobTrigger.FINISH, "all its tasks ended well")
    ask(draft, record, Verb.RELEASE, nodes)
    draft.note(Kind.COMPLETED, "completed", record.id)
    return record


def _learn(draft: Draft, record: JobRecord) -> None:
    """Note how long the job ran, as a share of what was stated."""
    started, stated = record.job.started_at, record.estimate_s
    if started is None or not stated or record.state not in HOLDS_RUN:
        return
    history: Mapping[tuple[TeamId, UserId], tuple[float, ...]] = draft.get("history")  # type: ignore[assignment]
    settings = draft.before.settings
    ratio = (record.done_s + draft.now - started) / stated
    key = (record.job.team, record.job.user)
    known = (*history.get(key, ()), ratio)[-settings.history_kept :]
    draft.set(history=Records.of(history).put(key, known))


def _end(draft: Draft, record: JobRecord, trigger: JobTrigger, reason: str) -> JobRecord:
    record = abandon(draft, record, reason)
    draft.due = True
    return draft.move(record, trigger, reason=reason, launch=None, stop=None, rest=None)


def cancel(draft: Draft, record: JobRecord) -> JobRecord:
    """Withdraw a job: what runs is told to go, what was kept for it is given back."""
    profile = draft.get("profile")
    assert isinstance(profile, Profile)
    nodes = nodes_of_run(draft, record)
    unstarted = unbegun(record)
    record = _end(draft, record, JobTrigger.CANCEL, "withdrawn")
    grace = grace_s(record.job, profile)
    ask(draft, record, Verb.RELEASE if unstarted else Verb.SIGNAL, nodes, 0.0 if unstarted else grace)
    if nodes and record.stop is None:
        record = draft.put(replace(record, stop=Stop(StopCause.WITHDRAWN, draft.now + grace)))
    draft.note(Kind.CANCELLED, "cancelled", record.id)
    return record


def abandon(draft: Draft, record: JobRecord, why: str) -> JobRecord:
    """Take a job's claim away. Victims that nobody else needs are first in line for their own GPUs."""
    claim = record.claim
    if claim is None:
        return record
    record = draft.claim(record, None)
    draft.due = True
    profile = draft.get("profile")
    assert isinstance(profile, Profile)
    for name in claim.givers:
        giver = draft.record(name)
        if giver is None or giver.stop is None or record.id not in giver.stop.beneficiaries:
            continue
        others = tuple(job for job in giver.stop.beneficiaries if job != record.id)
        rest = giver.rest
        if not others and giver.stop.cause is StopCause.PLAN:
            gpus = {node: gpus_on(on) for node, on in giver.job.placement.items()}
            until = giver.stop.kill_at + profile.repair_wait_s
            rest = Rest(gpus, until, giver.job.placement)
        draft.put(replace(giver, stop=replace(giver.stop, beneficiaries=others), rest=rest))
    draft.note(Kind.DROPPED, f"its room is given back: {why}", record.id)
    return record


def fail(
    draft: Draft, record: JobRecord, *, infra: bool, why: str, bad: frozenset[NodeId] = frozenset(), lost: bool = False
) -> JobRecord:
    """End a run that failed, whole: the rest of the gang is killed, the job tried again while its budget lasts.

    `bad` are the nodes to blame; `lost`: they are gone, and the healthy rest is kept for the job.
    """
    profile, settings = draft.get("profile"), draft.before.settings
    assert isinstance(profile, Profile)
    if record.state is JobState.PREEMPTING:
        ask(draft, record, Verb.KILL, nodes_of_run(draft, record))
        return drained(draft, record.id)
    unstarted = unbegun(record)
    nodes = nodes_of_run(draft, record)
    ask(
        draft, record, Verb.RELEASE if unstarted else Verb.KILL, [node for node in nodes if node not in bad or not lost]
    )
    started = record.job.started_at if record.job.started_at is not None else draft.now
    early = draft.now - started < settings.early_s
    record = replace(
        record,
        infra_failures=record.infra_failures + infra,
        job_failures=record.job_failures + (not infra),
        failed_early=record.failed_early + 1 if early else 0,
        checkpoints=record.checkpoints if infra or not early else _blamed(record),
        done_s=record.done_s + saved_s(record, draft.now, profile, signalled=False),
        never_began=record.never_began | {record.run} if unstarted else record.never_began,
        launch=None,
    )
    budget = record.job.retries.infra if infra else record.job.retries.job
    spent = record.infra_failures if infra else record.job_failures
    klass = "infra" if infra else "job"
    draft.due = True
    if spent > budget:
        reason = f"gave up after {spent} failures of class {klass}: {why}"
        draft.note(Kind.FAILED, reason, record.id)
        return draft.move(record, JobTrigger.GIVE_UP, reason=reason, rest=None)
    rest = _rest(draft, record, bad, profile) if lost else None
    wait = _backoff_s(draft, record, infra=infra)
    reason = f"{why}; failure {spent} of class {klass}, {budget} are allowed"
    draft.note(Kind.REQUEUED, reason, record.id)
    return draft.move(
        record,
        JobTrigger.RETRY,
        job=queued_again(record, record.job),
        reason=reason,
        rest=rest,
        first_in_line=True,
        queued_at=draft.now,
        on_call=(),
        not_before=draft.now + wait if wait else None,
        avoid=record.avoid if lost else {**record.avoid, **dict.fromkeys(bad, draft.now + settings.avoid_s)},
    )


def _blamed(record: JobRecord) -> tuple[Saved, ...]:
    """Return the checkpoints with a failure more on the one that the run was restored from."""
    return tuple(
        replace(each, failures=each.failures + 1) if each.version == record.restored else each
        for each in record.checkpoints
    )


def _backoff_s(draft: Draft, record: JobRecord, *, infra: bool) -> float:
    """Return how long a failed job waits: not after a first failure, longer after each further one."""
    settings = draft.before.settings
    again = (record.failed_early if infra else record.job_failures) - 1
    return 0.0 if again <= 0 else min(settings.max_backoff_s, settings.backoff_s * 2.0 ** min(again - 1, 40))


def _rest(draft: Draft, record: JobRecord, bad: frozenset[NodeId], profile: Profile) -> Rest | None:
    """Return what is left of a failed gang's nodes, kept for it."""
    healthy = {
        node: gpus_on(on)
        for node, on in record.job.placement.items()
        if node not in bad and node in draft.nodes and draft.node(node).node.state is NodeState.UP
    }
    if not healthy:
        return None
    return Rest(healthy, draft.now + profile.repair_wait_s, record.job.placement)
