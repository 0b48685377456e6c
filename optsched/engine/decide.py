"""Deciding: what the next plan is. Reads a state and changes nothing; the decision is an event like any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace

from optsched.engine.commit import is_news
from optsched.engine.events import Cause, Decided, Waits
from optsched.engine.kept import kept_back
from optsched.engine.leaving import leavers, moved_off, without_them
from optsched.engine.patience import without_delays
from optsched.engine.places import barred_nodes, claimed, held_for_others, lies_as_required, pick, stand_in, suits
from optsched.engine.seen import each_of
from optsched.engine.state import JobRecord, State
from optsched.engine.view import Viewer
from optsched.policy.victims import grace_s
from optsched.values.ids import JobId, NodeId
from optsched.values.job import JobState, Placement, gpus_on
from optsched.values.plan import Move, Plan, Preemption, RoundInfo, Source, Start, Status, Waiting
from optsched.values.snapshot import Snapshot

PART_ROWS = 500
"""Rows about who waits that are taken in at once, in a few milliseconds."""

Planner = Callable[[Snapshot], Plan]
"""What plans a round: the same snapshots in the same order give the same plans.

One that has a `viewer` has what is looked at from round to round remembered in it. One that has `quickly` says with it
what a round would do at least, without a search; one that has `may_start`, of a snapshot and a job, tells by it for
less yet where that would not start the job in free room.
"""


def decide(state: State, planner: Planner) -> Decided | None:
    """Return the next decision, None where nothing can have become possible since the last one, or starts pause."""
    if not state.due or state.paused:
        return None
    known = getattr(planner, "viewer", None)
    viewer = known if isinstance(known, Viewer) else Viewer()
    parts = viewer.seen.jobs(state.jobs, state.profile)
    repaired = _repair(state, list(each_of(parts, lambda part: part.resting)))
    if repaired is not None:
        return repaired
    snapshot = viewer.snapshot(state)
    limit = state.settings.early_failures
    frail = {each.id for each in each_of(parts, lambda part: part.frail) if each.failed_early >= limit}
    plan, again = _planned(snapshot, frail, lambda given: without_delays(state, given, planner(given)))
    called = _called_in(state, snapshot, plan, planner)
    if called is not None:
        return called
    going = leavers(state, snapshot)
    if going and not changes(plan):
        moves = moved_off(state, snapshot, going, planner(without_them(snapshot, going)))
        if moves is not None:
            return moves
    return Decided(plan, state.version, lent=_lent(plan), again=again or (bool(going) and changes(plan)))


def changes(plan: Plan) -> bool:
    """Return whether a plan changes anything that runs or waits."""
    return bool(plan.starts or plan.preemptions or plan.migrations or plan.resizes)


def in_parts(decided: Decided, state: State, most: int = PART_ROWS) -> tuple[Decided, tuple[Waits, ...]]:
    """Return a decision on a state in parts that are quickly taken in: with `most` rows about who waits, then the rest.

    What is no news of a job is left out. A job with a deadline that no round has seen yet stays with the decision: it
    may be refused there.
    """
    first: list[Waiting] = []
    later: list[Waiting] = []
    # A plain mapping: every job that waits is looked up.
    jobs = dict(state.jobs.items())
    for waiting in decided.plan.queued:
        record = jobs.get(waiting.job)
        if record is None or not is_news(record, waiting):
            continue
        judged = record.unseen and record.job.start_deadline_at is not None
        (first if judged or len(first) < most else later).append(waiting)
    parts = tuple(Waits(tuple(later[at : at + most])) for at in range(0, len(later), most))
    return replace(decided, plan=replace(decided.plan, queued=tuple(first))), parts


def _planned(snapshot: Snapshot, failing: Set[JobId], planner: Planner) -> tuple[Plan, bool]:
    """Return the plan of a round in which jobs whose last runs failed early displace nobody, and if it left them out.

    The others are planned first; once nothing is left to do for them, those start that need no one to make room.
    """
    frail = (
        {job.id for job in snapshot.jobs if job.state is JobState.QUEUED and job.id in failing} if failing else set()
    )
    if not frail:
        return planner(snapshot), False
    plan = planner(_less(snapshot, frail))
    if changes(plan):
        return plan, True
    whole = planner(snapshot)
    giving: tuple[Preemption | Move, ...] = (*whole.preemptions, *whole.migrations, *whole.resizes)
    served = {job for each in giving for job in each.beneficiaries}
    rest = tuple(each for each in whole.queued if each.job in frail)
    free = {each.job for each in whole.starts if each.job in frail and each.job not in served}
    # With them alone once more: what is planned for others, and who is let into it, has to be right too.
    some = planner(_less(snapshot, frail - free)) if free else plan
    if some.preemptions or some.migrations or some.resizes:
        some = plan
    told = {each.job for each in some.queued}
    queued = (*some.queued, *(each for each in rest if each.job not in told))
    return replace(some, queued=queued, settled=False), False


def _less(snapshot: Snapshot, jobs: Set[JobId]) -> Snapshot:
    """Return a snapshot without some jobs."""
    return replace(snapshot, jobs=tuple(job for job in snapshot.jobs if job.id not in jobs))


# Repair


def _repair(state: State, resting: Sequence[JobRecord]) -> Decided | None:
    """Return the restart of failed gangs on what is left of their nodes and a few others, None where none can be so.

    `resting` are the jobs that wait with room kept for them.
    """
    if not any(each.rest is not None and each.rest.until > state.now for each in resting):
        return None
    starts: list[Start] = []
    held = claimed(state.nodes.keys(), state.jobs, state.claims)
    barred = kept_back(state.jobs, state.ended)
    for record in resting:
        if record.state is not JobState.QUEUED or record.rest is None or record.rest.until <= state.now:
            continue
        if (
            record.id in barred
            or record.claim is not None
            or (record.not_before is not None and record.not_before > state.now)
        ):
            continue
        placement = _patched(state, record, held, _spoken_for(state, record))
        if placement is not None:
            starts.append(Start(record.id, placement, ""))
            for node, gpus in placement.items():
                held[node] = held.get(node, 0) + gpus_on(gpus)
    if not starts:
        return None
    info = RoundInfo(Source.NO_CHANGE, Status.FEASIBLE, None, None, 0.0, 0.0, len(starts), len(starts))
    return Decided(Plan(info, starts=tuple(starts)), state.version, Cause.REPAIR)


def _spoken_for(state: State, record: JobRecord) -> set[NodeId]:
    """Return the nodes that a failed gang may not take for itself before a round: those ahead of it come first.

    What is held for somebody is the round's to give. Of the rest, what was free when the last round ended is of no use
    to them; what changed since may be.
    """
    priority, found = record.job.priority, held_for_others(state.reserved, record.id)
    ahead = any(
        each.state is JobState.QUEUED
        and each.claim is None
        and (each.job.priority > priority or each.job.start_deadline_at is not None)
        for each in state.jobs.values()
    )
    if ahead:
        found.update(name for name, node in state.nodes.items() if node.changed > state.settled)
    return found


def _patched(state: State, record: JobRecord, held: dict[NodeId, int], spoken_for: set[NodeId]) -> Placement | None:
    """Return the placement that failed with equal free nodes in place of those that are gone, None where one has none.

    What the rest still has booked to the failed run is on its way to be free.
    """
    rest = record.rest
    assert rest is not None
    barred = barred_nodes(record.job, state.reservations, state.now)
    placement: dict[NodeId, int | tuple[int, ...]] = {}
    for node, gpus in rest.was.items():
        there = state.nodes.get(node)
        if there is None or node not in rest.gpus or not suits(there.node, record.job) or node in barred:
            continue
        others = sum(gpus_on(each.gpus) for each in there.bookings if each.job != record.id)
        if others + held.get(node, 0) + gpus_on(gpus) > there.node.healthy_gpus:
            continue
        placement[node] = gpus
    missing = [node for node in rest.was if node not in placement]
    if not placement or any(node not in state.nodes for node in missing):
        return None
    used: set[NodeId] = set(placement)
    barred |= spoken_for
    for node in missing:
        gpus = gpus_on(rest.was[node])
        other = stand_in(record, node, gpus, state.nodes, state.cluster.levels, held, used, barred)
        if other is None:
            return None
        used.add(other)
        placement[other] = pick(state.nodes[other], gpus)
    # Nodes may have been moved to other domains while the gang ran.
    return placement if lies_as_required(record.job, placement, state.nodes, state.cluster.levels) else None


# Holds


def _lent(plan: Plan) -> dict[JobId, tuple[JobId, ...]]:
    """Return, for each job that a plan lets into held room, the jobs that may stop it for that."""
    found: dict[JobId, tuple[JobId, ...]] = {}
    for room in plan.reservations:
        for guest in room.guests:
            found[guest] = (*found.get(guest, ()), room.job)
    return found


def _called_in(state: State, snapshot: Snapshot, plan: Plan, planner: Planner) -> Decided | None:
    """Return the start of a job whose hold is lent out, if those whom it was lent to make the room; else None.

    It is at the head of the line for that room, so that no search is needed to find it: one for each hold and round
    would take several times as long as the round itself.
    """
    guests = snapshot.carried.guests
    if not guests:
        return None
    quickly: Planner = getattr(planner, "quickly", planner)
    may_start: Callable[[Snapshot, JobId], bool] | None = getattr(planner, "may_start", None)
    # The forecast counts guests as gone: whoever could start now, were they gone, has a reservation for now.
    ready = [each for each in plan.reservations if each.start_estimate_at is not None]
    for waiting in (each for each in ready if (each.start_estimate_at or 0.0) <= state.now):
        mine = guests.get(waiting.job)
        if not mine:
            continue
        without = _less(snapshot, mine)
        if may_start is not None and not may_start(without, waiting.job):
            continue
        start = next((each for each in quickly(without).starts if each.job == waiting.job), None)
        if start is None or start.waits_for:
            continue
        placed = [(name, state.jobs[name]) for name in sorted(mine)]
        gone = [(name, each) for name, each in placed if not start.placement.keys().isdisjoint(each.job.placement)]
        allowed = snapshot.profile.max_stopped_gpus_per_h
        if not gone or (allowed is not None and sum(each.job.placed_gpus for _, each in gone) > allowed):
            continue
        stops = tuple(Preemption(name, (start.job,), 0.0, 0.0, _grace(state, each)) for name, each in gone)
        only = replace(plan, starts=(start,), preemptions=stops, migrations=(), resizes=())
        return Decided(only, state.version, Cause.HOLD)
    return None


def _grace(state: State, record: JobRecord) -> float:
    return grace_s(record.job, state.profile)
