"""What people ask for: jobs submitted, withdrawn, changed, preempted; teams, profile and reservations set anew.

Asked for twice, nothing changes the second time. What the state does not allow raises Conflict.
"""

from __future__ import annotations

from dataclasses import replace

from optsched.engine import events
from optsched.engine.commands import Kind
from optsched.engine.draft import Draft
from optsched.engine.runs import abandon, cancel, stop_run
from optsched.engine.state import JobRecord, StopCause
from optsched.engine.tables import ENDS
from optsched.errors import Conflict
from optsched.planner.instants import moment_text
from optsched.values.ids import JobId
from optsched.values.job import JobState
from optsched.values.profile import Profile


def submit(draft: Draft, event: events.Submit) -> None:
    """Take a job into the queue. One whose start deadline has passed already is refused."""
    job = event.job
    if draft.record(job.id) is not None:
        draft.note(Kind.STALE, "submitted again: it is one job, the first body holds", job.id)
        return
    if job.team not in _teams(draft):
        raise Conflict(f"job {job.id}: no team is called {job.team}")
    profile = draft.get("profile")
    assert isinstance(profile, Profile)
    bucket = profile.preempt_tokens
    if job.state is not JobState.QUEUED or job.placement or job.started_at is not None or job.run:
        job = replace(job, state=JobState.QUEUED, placement={}, started_at=None, run=0)
    record = JobRecord(
        job=job,
        state=JobState.QUEUED,
        changed=draft.version,
        estimate_s=job.estimated_runtime_s,
        tokens=0.0 if bucket is None else bucket.burst,
        tokens_at=draft.now,
        unseen=True,
        held="" if event.held else None,
        after=event.after,
        array=event.array,
    )
    deadline = job.start_deadline_at
    if deadline is not None and deadline <= draft.now:
        reason = f"refused: its start deadline {moment_text(deadline)} has passed"
        draft.put(replace(record, state=JobState.FAILED, reason=reason))
        draft.note(Kind.REFUSED, reason, job.id)
        return
    draft.put(record)
    awaited = [each.job for each in event.after if each.job in draft.jobs]
    if awaited:
        known = draft.get("awaited")
        assert isinstance(known, frozenset)
        draft.set(awaited=known | frozenset(awaited))
    draft.due = True
    draft.note(Kind.SUBMITTED, f"submitted by team {job.team}: {job.gpus} GPUs", job.id)


def _teams(draft: Draft) -> dict[object, object]:
    teams = draft.get("teams")
    assert isinstance(teams, dict)
    return teams


def withdraw(draft: Draft, job: JobId) -> None:
    """Cancel a job; one that has ended already stays what it is."""
    record = draft.record(job)
    if record is None:
        draft.note(Kind.STALE, "cannot be cancelled: no such job", job)
    elif record.state in ENDS:
        draft.note(Kind.STALE, f"already {record.state.value}", job)
    else:
        cancel(draft, record)


def update(draft: Draft, event: events.Update) -> None:
    """Change a job. What runs keeps its GPUs; a claim that the change may break is given back."""
    record = draft.record(event.job)
    if record is None:
        draft.note(Kind.STALE, "cannot be changed: no such job", event.job)
        return
    if record.state in ENDS:
        draft.note(Kind.STALE, f"cannot be changed: already {record.state.value}", event.job)
        return
    job = replace(record.job, **event.changes)  # type: ignore[arg-type]
    if job == record.job:
        return
    if record.claim is not None and record.state is JobState.QUEUED:
        record = abandon(draft, record, "it was changed")
    estimate = job.estimated_runtime_s if "estimated_runtime_s" in event.changes else record.estimate_s
    draft.put(replace(record, job=job, estimate_s=estimate, avoid={}))
    draft.due = True
    draft.note(Kind.SUBMITTED, f"changed: {', '.join(sorted(event.changes))}", event.job)


def preempt(draft: Draft, event: events.Preempt) -> None:
    """Stop a job that runs, because an operator says so; it is not started again for a while."""
    record = draft.record(event.job)
    if record is None:
        raise Conflict(f"no job is called {event.job}")
    if record.state is JobState.PREEMPTING:
        draft.note(Kind.STALE, "already told to stop", event.job)
        return
    if record.state not in (JobState.RUNNING, JobState.STARTING):
        raise Conflict(f"job {event.job} is {record.state.value}: only what runs can be preempted")
    if not record.job.preemptible:
        raise Conflict(f"job {event.job} is not preemptible; cancel it, or make it so")
    profile = draft.get("profile")
    assert isinstance(profile, Profile)
    why = f"preempted by an operator{f': {event.reason}' if event.reason else ''}"
    record = stop_run(draft, record, StopCause.OPERATOR, why=why)
    draft.due = True
    draft.put(replace(record, not_before=draft.now + profile.requeue_delay_s))
    draft.note(Kind.PREEMPTED, why, event.job)


def set_team(draft: Draft, event: events.SetTeam) -> None:
    """Create or replace a team."""
    teams, team = _teams(draft), event.team
    if teams.get(team.id) == team:
        return
    if team.parent is not None and team.parent not in teams:
        raise Conflict(f"team {team.id}: no team is called {team.parent}")
    above, seen = team.parent, {team.id}
    while above is not None:
        if above in seen:
            raise Conflict(f"team {team.id}: its parents form a circle")
        seen.add(above)
        above = teams[above].parent  # type: ignore[attr-defined]
    draft.set(teams={**teams, team.id: team})
    draft.rules()
    draft.note(Kind.RULES, f"team {team.id} is set")


def set_profile(draft: Draft, event: events.SetProfile) -> None:
    """Put another profile in force."""
    if draft.get("profile") != event.profile:
        draft.set(profile=event.profile)
        draft.rules()
        draft.note(Kind.RULES, f"profile {event.profile.name} is in force")


def set_reservation(draft: Draft, event: events.SetReservation) -> None:
    """Create or replace an operator's reservation."""
    entry, known = event.reservation, draft.get("reservations")
    assert isinstance(known, dict)
    if known.get(entry.id) != entry:
        draft.set(reservations={**known, entry.id: entry})
        draft.rules()
        text = f"{entry.kind.value} {entry.id} from {moment_text(entry.start_at)} to {moment_text(entry.end_at)}"
        draft.note(Kind.RULES, text)


def drop_reservation(draft: Draft, event: events.DropReservation) -> None:
    """Withdraw an operator's reservation."""
    known = draft.get("reservations")
    assert isinstance(known, dict)
    if event.reservation in known:
        draft.set(reservations={name: entry for name, entry in known.items() if name != event.reservation})
        draft.rules()
        draft.note(Kind.RULES, f"reservation {event.reservation} is withdrawn")
