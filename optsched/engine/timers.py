"""What time alone changes: graces that end, agents that do not answer, windows that begin, and when to look again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from optsched.engine import leases
from optsched.engine.commands import Kind, Verb
from optsched.engine.draft import Draft
from optsched.engine.forget import forget, next_forgetting
from optsched.engine.holders import held_by
from optsched.engine.launch import overdue
from optsched.engine.leases import ends_of_lease, leased
from optsched.engine.leaving import next_looks, to_leave, windows_ahead
from optsched.engine.records import Records
from optsched.engine.runs import ask, nodes_of_run, stop_run
from optsched.engine.state import JobRecord, State, StopCause, tokens_at
from optsched.planner.instants import moment_text
from optsched.policy.victims import estimated_end, grace_s
from optsched.values.altered import altered
from optsched.values.ids import JobId
from optsched.values.job import JobState
from optsched.values.profile import Profile

HOUR_S = 3600.0
MOST_DOUBLINGS = 8
"""After so many doublings of what a start may cost others, its patience is no longer worth a timer."""


def tick(draft: Draft) -> None:
    """Do what is due by now, and look again where waiting may have changed something."""
    leases.look(draft)
    forget(draft)
    for record in list(chain.from_iterable(Records.of(draft.jobs).parts(_under_way))):
        if record.state is JobState.STARTING:
            overdue(draft, record)
        else:
            _kill(draft, record)
    _give_back(draft)
    stopped = draft.get("stopped")
    assert isinstance(stopped, tuple)
    recent = tuple(each for each in stopped if each[0] > draft.now - HOUR_S)
    if len(recent) < len(stopped):
        draft.set(stopped=recent)
    waiting = list(chain.from_iterable(Records.of(draft.jobs).parts(_waiting)))
    for record in waiting:
        deadline = record.job.start_deadline_at
        if deadline is not None and draft.before.now < deadline <= draft.now:
            draft.note(Kind.DEADLINE, "its start deadline is missed: it stays at the head of the queue", record.id)
    if waiting or to_leave(altered(draft.before, now=draft.now)):
        draft.due = True


def _under_way(chunk: Mapping[JobId, JobRecord]) -> list[JobRecord]:
    """Return the jobs of a chunk that start or stop."""
    return [each for each in chunk.values() if each.state is JobState.STARTING or each.stop is not None]


def _waiting(chunk: Mapping[JobId, JobRecord]) -> list[JobRecord]:
    return [each for each in chunk.values() if each.state is JobState.QUEUED]


def _kill(draft: Draft, record: JobRecord) -> None:
    """End a run whose grace is over."""
    stop = record.stop
    if stop is None or stop.killed or draft.now < stop.kill_at:
        return
    ask(draft, record, Verb.KILL, nodes_of_run(draft, record))
    draft.put(replace(record, stop=replace(stop, killed=True)), quietly=True)


def _give_back(draft: Draft) -> None:
    """Stop preemptible jobs in time for the windows that close their nodes; tell who is there when one begins."""
    profile, reservations = draft.get("profile"), draft.get("reservations")
    assert isinstance(profile, Profile)
    assert isinstance(reservations, dict)
    for window in windows_ahead(reservations, draft.now):
        if draft.before.now < window.start_at <= draft.now:
            for node in window.nodes:
                if node in draft.nodes and (left := held_by(draft, node)):
                    draft.note(Kind.ALARM, f"{window.id} begins, and it still runs {left}", node=node)
        closing = frozenset(window.nodes)
        for record in list(draft.jobs.values()):
            if record.state is not JobState.RUNNING or closing.isdisjoint(record.job.placement):
                continue
            end = estimated_end(record.job, draft.now)
            ends_itself = end is not None and end <= window.start_at
            if not record.job.preemptible or ends_itself:
                continue
            if draft.now >= window.start_at - grace_s(record.job, profile):
                why = f"{window.id} begins at {moment_text(window.start_at)} on its nodes"
                stop_run(draft, record, StopCause.MAINTENANCE, why=why)
                draft.due = True
                draft.note(Kind.PREEMPTED, why, record.id)


# When to look again


@dataclass(frozen=True, slots=True)
class _Looked:
    """What was found out about a chunk of jobs: those with a duty, if any waits for room, and its next chances.

    Both chances are of one profile, and stand until the first of them has come. `waiting` is that of jobs that wait,
    `running` that of those that run, which counts only where somebody waits.
    """

    chunk: Mapping[JobId, JobRecord]
    dutiful: tuple[JobRecord, ...]
    waits: bool
    profile: Profile
    waiting: float
    running: float

    def stands(self, profile: Profile, now: float) -> bool:
        """Return whether all of it is still so, as long as the chunk is the same."""
        return self.profile is profile and min(self.waiting, self.running) > now


class Dutiful:
    """What time alone may change in jobs, looked for anew only where something has changed since it was last asked."""

    def __init__(self) -> None:
        self._known: dict[int, _Looked] = {}

    def look(self, jobs: Mapping[JobId, JobRecord], profile: Profile, now: float) -> list[_Looked]:
        """Return what is known of some jobs, chunk by chunk."""
        there: dict[int, _Looked] = {}
        for chunk in Records.of(jobs).chunks():
            found = self._known.get(id(chunk))
            if found is None or found.chunk is not chunk or not found.stands(profile, now):
                found = _looked(chunk, profile, now)
            there[id(chunk)] = found
        self._known = there
        return list(there.values())


def _looked(chunk: Mapping[JobId, JobRecord], profile: Profile, now: float) -> _Looked:
    waits, waiting, running = False, math.inf, math.inf
    dutiful: list[JobRecord] = []
    for record in chunk.values():
        if _has_duty(record):
            dutiful.append(record)
        if record.state is JobState.QUEUED:
            if record.claim is None:
                waits = True
                waiting = min(waiting, _chance_of_waiting(record, profile, now))
        elif record.state is JobState.RUNNING and record.job.preemptible:
            running = min(running, _chance_of_running(record, profile, now))
    return _Looked(chunk, tuple(dutiful), waits, profile, waiting, running)


def _chance_of_waiting(record: JobRecord, profile: Profile, now: float) -> float:
    """Return the next instant from which a job that waits may get what it could not: it has waited long enough."""
    since = record.waits_since
    starves = since + profile.starve_after_s
    found = starves if starves > now else math.inf
    waited = max(0.0, now - since)
    if profile.max_loss_ratio is not None and waited < MOST_DOUBLINGS * profile.patience_s:
        at = since + (math.floor(waited / profile.patience_s) + 1) * profile.patience_s
        if at > now:
            found = min(found, at)
    return found


def _chance_of_running(record: JobRecord, profile: Profile, now: float) -> float:
    """Return the next instant from which a job that runs may be stopped for others."""
    started, bucket = record.job.started_at, profile.preempt_tokens
    if started is None:
        return math.inf
    found = started + profile.min_runtime_s
    if found <= now:
        found = math.inf
    if bucket is not None and tokens_at(record, now, profile) < 1.0:
        full = record.tokens_at + (1.0 - record.tokens) / bucket.per_h * HOUR_S
        if full > now:
            found = min(found, full)
    return found


def _has_duty(record: JobRecord) -> bool:
    if record.state is not JobState.QUEUED:
        return True
    waits = record.not_before is not None or record.rest is not None or record.job.start_deadline_at is not None
    return waits or bool(record.avoid) or record.launch is not None or record.stop is not None


def next_wake(state: State, dutiful: Dutiful | None = None) -> float | None:
    """Return the next instant after now at which time alone may change something, None where there is none.

    What is only worth a new round, and no duty to anybody, is put off to a whole `round_every_s`. `dutiful` is what was
    found out the last time that it was asked.
    """
    looked = (dutiful or Dutiful()).look(state.jobs, state.profile, state.now)
    hard = min((at for at in _duties(state, looked) if at > state.now), default=math.inf)
    soft = min((at for at in _chances(state, looked) if at > state.now), default=math.inf)
    every = state.settings.round_every_s
    if soft < math.inf:
        soft = math.ceil(soft / every) * every
        soft = soft if soft > state.now else soft + every
    found = min(hard, soft)
    return None if math.isinf(found) else found


def _duties(state: State, looked: Sequence[_Looked]) -> Iterator[float]:
    """Yield the instants at which something has to be done, or something that was kept back is not any more."""
    settings, profile = state.settings, state.profile
    for node in leased(state.nodes):
        ends = ends_of_lease(node, settings)
        if ends is not None:
            yield ends[0] + 0.001
            yield ends[1] + 0.001
    windows = windows_ahead(state.reservations, state.now)
    for window in windows:
        yield window.start_at
        yield window.end_at
    for entry in state.reservations.values():
        yield entry.start_at
        yield entry.end_at
    for record in (each for chunk in looked for each in chunk.dutiful):
        if record.launch is not None:
            limit = settings.reserve_timeout_s if record.launch.reserving else settings.start_timeout_s
            yield record.launch.since + limit
        elif record.stop is not None and not record.stop.killed:
            yield record.stop.kill_at
        elif record.state is JobState.QUEUED:
            yield from _of_waiting(record, profile)
        elif record.state is JobState.RUNNING and record.job.preemptible:
            for window in windows:
                if not set(window.nodes).isdisjoint(record.job.placement):
                    yield window.start_at - grace_s(record.job, profile)


def _of_waiting(record: JobRecord, profile: Profile) -> Iterator[float]:
    if record.not_before is not None:
        yield record.not_before
    if record.rest is not None:
        yield record.rest.until
    yield from record.avoid.values()
    deadline = record.job.start_deadline_at
    if deadline is not None:
        grace = grace_s(record.job, profile)
        yield deadline - 4 * (grace + profile.start_latency_s)
        yield deadline - (grace + profile.start_latency_s + profile.deadline_margin_s)
        yield deadline


def _chances(state: State, looked: Sequence[_Looked]) -> Iterator[float]:
    """Yield the instants from which a round may find what the last one could not."""
    yield from next_looks(state)
    yield next_forgetting(state)
    if not any(chunk.waits for chunk in looked):
        return
    for room in state.reserved:
        if room.start_estimate_at is not None:
            yield room.start_estimate_at
            yield room.start_estimate_at - state.profile.hold_horizon_s
    for chunk in looked:
        yield chunk.waiting
        yield chunk.running
    for at, _ in state.stopped if state.profile.max_stopped_gpus_per_h is not None else ():
        yield at + HOUR_S
