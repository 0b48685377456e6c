"""What callers see of the state: plain data with the keys of the contract's messages, for gRPC and REST alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from optsched.engine.kept import why_kept
from optsched.engine.state import Booking, JobRecord, NodeRecord, State
from optsched.files.dump import job_to_dict, node_to_dict, reservation_to_dict, team_to_dict
from optsched.values.cluster import Reservation
from optsched.values.ids import JobId
from optsched.values.job import JobState, Placement, gpus_on
from optsched.values.plan import ReservedRoom
from optsched.values.profile import Profile
from optsched.values.team import Team

Plain = dict[str, object]


def placement_view(placement: Placement) -> Plain:
    """Return GPUs by node: a count, or the indices where they are known."""
    return {node: gpus if isinstance(gpus, int) else list(gpus) for node, gpus in placement.items()}


def spec_view(record: JobRecord, profile: Profile) -> Plain:
    """Return what was asked for, in the schema of files."""
    spec = job_to_dict(record.job, profile)
    for key in ("state", "placement", "started_at", "submitted_at", "last_checkpoint_at", "run", "preemptions"):
        spec.pop(key, None)
    if record.estimate_s is not None:
        spec["estimated_runtime_s"] = record.estimate_s
    if record.after:
        spec["after"] = [{"job": each.job, "condition": each.condition.value} for each in record.after]
    return spec


def job_view(record: JobRecord, state: State, *, full: bool = True) -> Plain:
    """Return a job as it stands; `full`: with what was asked for."""
    job = record.job
    holds = record.state in (JobState.STARTING, JobState.RUNNING, JobState.PREEMPTING)
    saved = max((each.taken_at for each in record.checkpoints), default=None)
    found: Plain = {
        "id": job.id,
        "state": record.state.value,
        "team": job.team,
        "gang_size": job.placed_gpus if holds and job.placement else job.gpus,
        "priority": job.priority,
        "run": record.run,
        "submitted_at": job.submitted_at,
        "last_checkpoint": saved,
        "preemptions": job.preemptions,
        "migrations": record.migrations,
        "infra_failures": record.infra_failures,
        "job_failures": record.job_failures,
        "reason": record.reason,
        "held": False,
    }
    if record.array is not None:
        found |= {"array": record.array.id, "array_index": record.array.index}
    if job.user:
        found["user"] = job.user
    if job.priority_class:
        found["priority_class"] = job.priority_class
    if holds:
        found["placement"] = placement_view(job.placement)
        found["started_at"] = job.started_at
    if record.claim is not None:
        found["claim"] = placement_view(record.claim.placement)
    if record.checkpoints:
        found["checkpoints"] = [
            {"version": each.version, "taken_at": each.taken_at, "safe_at": each.safe_at, "failures": each.failures}
            for each in record.checkpoints
        ]
    if record.state is JobState.QUEUED:
        found |= _waiting(record, state)
    if record.stop is not None:
        found["kill_at"] = record.stop.kill_at
    if full:
        found["spec"] = spec_view(record, state.profile)
    return found


def _waiting(record: JobRecord, state: State) -> Plain:
    """Return what is known of the start of a queued job."""
    why = why_kept(record, state.jobs, state.ended)
    found: Plain = {"held": True, "reason": why} if why else {"blocked_by": record.blocked_by}
    if record.not_before is not None and record.not_before > state.now:
        found["not_before"] = record.not_before
    room = reserved_for(record.id, state.reserved)
    if room is not None and room.start_estimate_at is not None:
        found["start_estimate_at"] = room.start_estimate_at
    return found


def reserved_for(job: JobId, reserved: Iterable[ReservedRoom]) -> ReservedRoom | None:
    """Return the room that the last round planned for a blocked job."""
    return next((room for room in reserved if room.job == job), None)


def node_view(record: NodeRecord, *, connected: bool, skew_s: float | None) -> Plain:
    """Return a node as it stands."""
    node = record.node
    spec = node_to_dict(node)
    spec.pop("state", None)
    spec.pop("reason", None)
    found: Plain = {
        "spec": spec,
        "state": node.state.value,
        "reason": node.reason,
        "healthy_gpus": node.healthy_gpus,
        "free_gpus": max(0, node.healthy_gpus - record.booked_gpus),
        "bookings": [_booking(each) for each in record.bookings],
        "last_seen_at": record.last_seen_at,
        "agent": record.agent,
        "session": record.session,
        "connected": connected,
        "clock_skew_s": skew_s,
    }
    return {key: value for key, value in found.items() if value is not None}


def _booking(each: Booking) -> Plain:
    gpus = each.gpus if isinstance(each.gpus, int) else list(each.gpus)
    return {"job": each.job, "run": each.run, "gpus": gpus, "cpus": each.cpus, "memory_gb": each.memory_gb}


def team_view(team: Team, profile: Profile) -> Plain:
    """Return a team as it was set."""
    found = team_to_dict(team)
    named = {number: name for name, number in profile.classes.items()}
    if team.max_priority is not None and team.max_priority in named:
        found["max_priority"] = named[team.max_priority]
    return found


def reservation_view(entry: Reservation) -> Plain:
    """Return a reservation as it was set."""
    return reservation_to_dict(entry)


def gpus_by_team(state: State) -> Mapping[str, tuple[int, int, int, int]]:
    """Return, by team, the GPUs that run, the jobs that run, the GPUs that wait, the jobs that wait."""
    found: dict[str, list[int]] = {team: [0, 0, 0, 0] for team in state.teams}
    for record in state.jobs.values():
        row = found.setdefault(record.job.team, [0, 0, 0, 0])
        if record.state is JobState.QUEUED:
            row[2] += record.job.gpus
            row[3] += 1
        elif record.state in (JobState.STARTING, JobState.RUNNING, JobState.PREEMPTING):
            row[0] += sum(gpus_on(gpus) for gpus in record.job.placement.values())
            row[1] += 1
    return {team: (row[0], row[1], row[2], row[3]) for team, row in found.items()}
