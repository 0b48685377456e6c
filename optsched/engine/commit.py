"""Putting a plan into force: gang by gang, against what has changed since it was made. Never half a gang.

A start or move whose job or nodes changed since is dropped whole and planned again, and with it every stop that
nobody else needs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from optsched.engine.commands import Kind
from optsched.engine.draft import Draft
from optsched.engine.events import Cause, Decided, Waits
from optsched.engine.places import claimed
from optsched.engine.promises import tell_reserved
from optsched.engine.runs import stop_run
from optsched.engine.state import Change, Claim, JobRecord, StopCause, goes_on
from optsched.engine.tables import JobTrigger
from optsched.planner.instants import moment_text, span_text
from optsched.values.altered import altered
from optsched.values.cluster import NodeState
from optsched.values.ids import JobId, NodeId
from optsched.values.job import JobState, Placement, gpus_on
from optsched.values.plan import Move, Plan, Preemption, Waiting


@dataclass(frozen=True, slots=True)
class _Taker:
    """What a plan gives to one job."""

    job: JobId
    change: Change
    placement: Placement


def commit(draft: Draft, event: Decided) -> None:
    """Put a plan into force, as far as what it saw still stands."""
    plan = event.plan
    # What happened while the plan was made, it has not seen.
    draft.due = event.again or event.cause is not Cause.ROUND or draft.before.raised > event.seen
    rules_changed = draft.get("rules_changed")
    assert isinstance(rules_changed, int)
    if rules_changed > event.seen:
        draft.due = True
        draft.note(Kind.DROPPED, "the plan is dropped: teams, profile, reservations or nodes changed while it was made")
        return
    takers = _takers(plan)
    stops = {each.job: each for each in plan.preemptions}
    accepted, served = _accepted(draft, event, takers, stops)
    if len(accepted) < len(takers):
        draft.due = True
    over = _overbooked(draft, takers, stops, served, accepted)
    if over:
        # Planned again from the same state it would come out the same: wait until something changes.
        draft.due = draft.before.raised > event.seen
        accepted -= over
        for job in over:
            draft.put(replace(draft.job(job), rest=None))
    stopped = _apply(draft, event, {job: takers[job] for job in takers if job in accepted}, stops)
    if stopped and not (plan.settled and len(accepted) == len(takers)):
        # Others may have rights by what runs now that they did not have when the round began.
        draft.due = True
    if event.cause is Cause.ROUND:
        draft.set(reserved=plan.reservations, settled=draft.version)
        _remember(draft, plan)


def _takers(plan: Plan) -> dict[JobId, _Taker]:
    found = {each.job: _Taker(each.job, Change.START, each.placement) for each in plan.starts}
    found |= {each.job: _Taker(each.job, Change.MOVE, each.placement) for each in plan.migrations}
    return found | {each.job: _Taker(each.job, Change.RESIZE, each.placement) for each in plan.resizes}


def _accepted(
    draft: Draft, event: Decided, takers: Mapping[JobId, _Taker], stops: Mapping[JobId, Preemption]
) -> tuple[set[JobId], Mapping[JobId, set[JobId]]]:
    """Return the takers whose own job, nodes and givers are as the plan saw them; and whom each giver serves."""
    plan = event.plan
    givers: dict[JobId, set[JobId]] = defaultdict(set)
    served: dict[JobId, set[JobId]] = {}
    giving: Iterable[Preemption | Move] = (*plan.preemptions, *plan.migrations, *plan.resizes)
    for giver, beneficiaries in ((each.job, each.beneficiaries) for each in giving):
        served[giver] = set(beneficiaries) & takers.keys()
        for job in beneficiaries:
            givers[job].add(giver)
    accepted = {job for job, taker in takers.items() if _fresh(draft, taker, event.seen)}
    stale = {job for job in stops if not _stoppable(draft, job, event.seen)}
    while True:
        # Who gives to nobody that is left moves for its own good, or not at all.
        idle = {job for job in accepted if served.get(job) and served[job].isdisjoint(accepted)}
        refused = {job for job in accepted if givers[job] & stale or (givers[job] & takers.keys()) - accepted}
        if not idle and not refused:
            break
        accepted -= idle | refused
    for job in sorted(takers.keys() - accepted):
        draft.note(Kind.DROPPED, "planned on what has changed since: planned again", job)
    return accepted, served


def _fresh(draft: Draft, taker: _Taker, seen: int) -> bool:
    """Return whether a taker's job and all nodes that it would use are as they were."""
    record = draft.jobs.get(taker.job)
    if record is None or record.changed > seen or record.claim is not None:
        return False
    wanted = JobState.QUEUED if taker.change is Change.START else JobState.RUNNING
    if record.state is not wanted:
        return False
    for node in taker.placement:
        there = draft.nodes.get(node)
        if there is None or there.changed > seen:
            return False
        if there.node.state is not NodeState.UP and node not in record.job.placement:
            return False
    return True


def _stoppable(draft: Draft, job: JobId, seen: int) -> bool:
    """Return whether a victim runs as it did, and its team has lost nothing since that others may not take twice."""
    record = draft.jobs.get(job)
    if record is None or record.state is not JobState.RUNNING or record.changed > seen:
        return False
    return draft.before.left.get(record.job.team, 0) <= seen


def _overbooked(
    draft: Draft,
    takers: Mapping[JobId, _Taker],
    stops: Mapping[JobId, Preemption],
    served: Mapping[JobId, set[JobId]],
    accepted: set[JobId],
) -> set[JobId]:
    """Return the accepted takers that would overbook a node: the last guard, whatever a plan says."""
    leaving = {job for job in accepted if takers[job].change is not Change.START}
    leaving |= {job for job in stops if served.get(job, set()) & accepted}
    use: dict[NodeId, int] = defaultdict(int)
    for job in accepted:
        for node, gpus in takers[job].placement.items():
            use[node] += gpus_on(gpus)
    held = claimed(use.keys(), draft.jobs, draft.claims)
    full = set()
    for node, wanted in use.items():
        record = draft.node(node)
        stays = sum(
            gpus_on(each.gpus)
            for each in record.bookings
            if each.job not in leaving and goes_on(draft.jobs, each.job, each.run)
        )
        if wanted + stays + held.get(node, 0) > record.node.healthy_gpus and wanted:
            full.add(node)
    over = {job for job in accepted if not full.isdisjoint(takers[job].placement) and _gains(draft, takers[job], full)}
    if over:
        names = ", ".join(sorted(full)[:3])
        draft.note(Kind.ALARM, f"a plan overbooks {names}: dropped for {', '.join(sorted(over)[:3])}")
    return over


def _gains(draft: Draft, taker: _Taker, nodes: set[NodeId]) -> bool:
    """Return whether a taker has more on some of these nodes than it has now."""
    now = draft.job(taker.job).job.placement if taker.change is not Change.START else {}
    return any(gpus_on(gpus) > gpus_on(now.get(node, 0)) for node, gpus in taker.placement.items() if node in nodes)


def _apply(draft: Draft, event: Decided, takers: Mapping[JobId, _Taker], stops: Mapping[JobId, Preemption]) -> bool:
    """Stop the victims that somebody still needs, then give the room to those that take it.

    Returns whether anybody who ran was told to stop.
    """
    stopped = False
    needs: dict[JobId, list[JobId]] = defaultdict(list)
    for stop in stops.values():
        beneficiaries = tuple(job for job in stop.beneficiaries if job in takers)
        if not beneficiaries:
            continue
        for job in beneficiaries:
            needs[job].append(stop.job)
        stopped = True
        why = f"gives way to {', '.join(beneficiaries)}"
        stop_run(draft, draft.job(stop.job), StopCause.PLAN, beneficiaries, why=why)
        lost = f", {span_text(stop.lost_work_s)} of work lost" if stop.lost_work_s else ""
        draft.note(Kind.PREEMPTED, f"{why}: {span_text(stop.grace_s)} of grace{lost}", stop.job)
    for job, taker in takers.items():
        record = draft.job(job)
        claim = Claim(taker.change, taker.placement, draft.now, tuple(needs[job]))
        if taker.change is Change.START:
            verb = "is" if len(needs[job]) == 1 else "are"
            waits = f", once {', '.join(needs[job])} {verb} gone" if needs[job] else ""
            record = draft.claim(record, claim)
            if event.lent.get(job):
                draft.put(replace(record, on_call=event.lent[job]))
            kind = Kind.REPAIRED if event.cause is Cause.REPAIR else Kind.PROMISED if waits else Kind.PLACED
            draft.note(kind, f"{_where(taker.placement)}{waits}{_why(event, job)}", job)
            continue
        stopped = True
        before = record.job.placed_gpus
        after = sum(gpus_on(gpus) for gpus in taker.placement.values())
        record = replace(record, on_call=_on_call(draft, event, record, taker.placement))
        stop_run(draft, record, StopCause.ELSEWHERE, claim=claim, why="goes on elsewhere")
        off = _left_for_good(event, draft, job, taker.placement)
        if taker.change is Change.MOVE:
            draft.note(Kind.MOVED, f"goes on {_where(taker.placement)}{off}", job)
        else:
            draft.note(Kind.RESIZED, f"{before} → {after} GPUs, {_where(taker.placement)}{off}", job)
    return stopped


def _on_call(draft: Draft, event: Decided, record: JobRecord, placement: Placement) -> tuple[JobId, ...]:
    """Return who may stop a run that goes on elsewhere: whose room it is let into, and in whose room it stays."""
    lent = event.lent.get(record.id, ())
    rooms = event.plan.reservations if event.cause is Cause.ROUND else draft.before.reserved
    inside = {room.job for room in rooms if not room.planned.keys().isdisjoint(placement)}
    return (*lent, *(job for job in record.on_call if job in inside and job not in lent))


def _left_for_good(event: Decided, draft: Draft, job: JobId, placement: Placement) -> str:
    """Return which nodes a move is meant to empty, in words."""
    if event.cause is not Cause.LEAVE:
        return ""
    left = [node for node in draft.job(job).job.placement if node not in placement]
    shown = ", ".join(left[:3]) + (f" and {len(left) - 3} more nodes" if len(left) > 3 else "")
    return f", off {shown}, which {'is' if len(left) == 1 else 'are'} to become empty"


def _where(placement: Placement) -> str:
    total = sum(gpus_on(gpus) for gpus in placement.values())
    nodes = list(placement)
    shown = ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more nodes" if len(nodes) > 3 else "")
    return f"{total} GPUs on {shown}"


def _why(event: Decided, job: JobId) -> str:
    if event.cause is Cause.REPAIR:
        return ": what is left of its nodes, and others in place of the lost ones"
    if event.cause is Cause.HOLD:
        return ": its reservation is called in"
    if event.lent.get(job):
        return f", held for {', '.join(event.lent[job])}: gives way when that starts"
    return ""


def _remember(draft: Draft, plan: Plan) -> None:
    """Note why each job waits, where that is news; refuse what was submitted with a deadline that cannot be met."""
    starts = {room.job: room.start_estimate_at for room in plan.reservations}
    noted: dict[JobId, JobRecord] = {}
    for waiting in plan.queued:
        record = draft.jobs.get(waiting.job)
        if record is None or record.state is not JobState.QUEUED:
            continue
        hopeless = _hopeless(record, waiting, starts.get(waiting.job)) if record.unseen else ""
        if hopeless:
            reason = f"refused: its start deadline cannot be met, {hopeless}"
            draft.move(record, JobTrigger.REFUSE, reason=reason, unseen=False)
            draft.note(Kind.REFUSED, reason, record.id)
        elif is_news(record, waiting):
            noted[record.id] = _with_why(record, waiting)
    draft.note_all(noted)
    tell_reserved(draft, plan.reservations)


def is_news(record: JobRecord, waiting: Waiting) -> bool:
    """Return whether a job is not known yet to wait for that."""
    return record.unseen or record.reason != waiting.detail


def _with_why(record: JobRecord, waiting: Waiting) -> JobRecord:
    return altered(record, reason=waiting.detail, blocked_by=waiting.reason, unseen=False)


def waits(draft: Draft, event: Waits) -> None:
    """Note why jobs wait, of those that still do."""
    noted: dict[JobId, JobRecord] = {}
    for waiting in event.queued:
        record = draft.jobs.get(waiting.job)
        if record is not None and record.state is JobState.QUEUED and is_news(record, waiting):
            noted[record.id] = _with_why(record, waiting)
    draft.note_all(noted)


def _hopeless(record: JobRecord, waiting: Waiting, start: float | None) -> str:
    """Return why a start deadline can be seen to be missed, "" where it may be met or there is none."""
    deadline = record.job.start_deadline_at
    if deadline is None:
        return ""
    if waiting.reason == "impossible":
        return waiting.detail
    return f"the earliest start is {moment_text(start)}" if start is not None and start > deadline else ""
