"""Requests about jobs: one function each, called by gRPC and REST alike. Plain data in, plain data out."""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import json
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from optsched.engine import events
from optsched.engine.ports import Store
from optsched.engine.state import JobRecord, State
from optsched.errors import Busy, Conflict, NotKnown, NotServed, Taken
from optsched.files.jobrules import check_job
from optsched.files.report import Scope
from optsched.policy.victims import grace_s
from optsched.server import asked
from optsched.server.caller import Caller
from optsched.server.checks import Plain, Rules, read_job, request, warn_of_size
from optsched.server.history import told
from optsched.server.leader import Leader, Prepared
from optsched.server.views import job_view
from optsched.values.ids import JobId
from optsched.values.job import Job, JobState

MAX_KNOWN = 500_000
"""Jobs that have not ended; beyond that none is taken in."""


@dataclass(slots=True)
class Jobs:
    """What may be asked about jobs. `default_team` is that of a job which names none, from a caller that has none."""

    leader: Leader
    store: Store
    rules: Rules
    default_team: str = ""
    most: int = MAX_KNOWN
    _answering: dict[str, asyncio.Lock] = field(default_factory=dict)

    # Submitting

    async def submit(self, data: Plain, caller: Caller) -> Plain:
        """Put one job into the queue; the same again returns it as it stands."""
        asking, scope = request(asked.SubmitJobRequest, data)
        found = await self._submit([asking.job], [scope.at("job")], asking.idempotency_key, caller)
        return {
            "job_id": found.ids[0],
            "state": self._state_of(found.ids[0]),
            "repeated_call": found.repeated,
            "warnings": found.warnings,
        }

    async def submit_many(self, data: Plain, caller: Caller) -> Plain:
        """Put many jobs into the queue, or none of them."""
        asking, scope = request(asked.SubmitJobsRequest, data)
        if asking.array is not None:
            raise NotServed("arrays are not served by this version: submit the members as jobs")
        if not asking.jobs:
            scope.fault("names no jobs", "1 to 1,000 jobs", "jobs")
            scope.report.raise_faults()
        places = [scope.at("jobs", number) for number in range(len(asking.jobs))]
        found = await self._submit(asking.jobs, places, asking.idempotency_key, caller)
        return {"job_ids": found.ids, "repeated_call": found.repeated, "warnings": found.warnings}

    async def _submit(self, given: list[object], places: list[Scope], key: str, caller: Caller) -> _Submitted:
        digest = _digest(given)
        name = f"request/{caller.team}/{key}" if key else ""
        async with self._one_at_a_time(name):
            known = await asyncio.to_thread(self.store.known_key, name) if name else None
            if known is not None:
                before = json.loads(known)
                if before["digest"] != digest:
                    raise Taken(f"the idempotency key {key} was used for another request")
                return _Submitted(before["ids"], True, [])
            bodies = await self._bodies(given)
            work = _Submitting(self, given, places, caller, digest, name, bodies)
            return await self.leader.ask(work.prepare)

    async def _bodies(self, given: list[object]) -> dict[str, str]:
        """Return, for ids that are known already, the digest of the body that they were submitted with."""
        found: dict[str, str] = {}
        for each in given:
            name = each.get("id") if isinstance(each, dict) else None
            if isinstance(name, str) and self.leader.state.record(JobId(name)) is not None:
                kept = await asyncio.to_thread(self.store.known_key, f"job/{name}")
                if kept is not None:
                    found[name] = kept.decode()
        return found

    @asynccontextmanager
    async def _one_at_a_time(self, name: str) -> AsyncIterator[None]:
        """Let requests with one idempotency key follow each other."""
        if not name:
            yield
            return
        lock = self._answering.setdefault(name, asyncio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.locked():
                self._answering.pop(name, None)

    def _state_of(self, job: str) -> str:
        record = self.leader.state.record(JobId(job))
        return JobState.QUEUED.value if record is None else record.state.value

    # Reading

    async def get(self, data: Plain, caller: Caller) -> Plain:
        """Return one job."""
        asking, _ = request(asked.GetJobRequest, data)
        return job_view(self._known(asking.id), self.leader.state)

    async def list(self, data: Plain, caller: Caller) -> Plain:
        """Return a page of jobs, in order of their submission."""
        asking, scope = request(asked.ListJobsRequest, data)
        after = read_token(asking.page_token, scope)
        state = self.leader.state
        return await asyncio.to_thread(_page, state, asking, after)

    async def events(self, data: Plain, caller: Caller) -> Plain:
        """Return what happened to a job."""
        asking, _ = request(asked.ListJobEventsRequest, data)
        self._known(asking.id)
        size = asking.page_size or 100
        entries = await asyncio.to_thread(self.store.history, JobId(asking.id), asking.after_sequence, size + 1)
        rows = [told(entry, JobId(asking.id)) for entry in entries[:size]]
        return {"events": rows, "more": len(entries) > size}

    def _known(self, job: str) -> JobRecord:
        return known_job(self.leader.state, job)

    # Changing

    async def update(self, data: Plain, caller: Caller) -> Plain:
        """Change priority, estimate or deadline."""
        asking, scope = request(asked.UpdateJobRequest, data)

        def prepare(state: State, now: float) -> Prepared[Plain]:
            record = known_job(state, asking.id)
            changes = self._changes(asking, scope, record, state, now)
            happened = (_asked(caller, "update", data, asking.id), events.Update(record.id, changes)) if changes else ()
            return Prepared(lambda after: job_view(known_job(after, asking.id), after), happened)

        return await self.leader.ask(prepare)

    def _changes(
        self, asking: asked.UpdateJobRequest, scope: Scope, record: JobRecord, state: State, now: float
    ) -> dict[str, object]:
        """Return the fields of a job that change. Raises InputError, or Conflict for a job that has ended."""
        about = self.rules.known(state, now)
        changes: dict[str, object] = {}
        if asking.priority is not None and (found := about.priority(asking.priority, scope, "priority")) is not None:
            changes |= {"priority": found[0], "priority_class": found[1]}
        for key, clear in (
            ("estimated_runtime_s", "clear_estimated_runtime"),
            ("start_deadline_at", "clear_start_deadline"),
        ):
            given = getattr(asking, key)
            if given is not None and getattr(asking, clear):
                scope.fault(f"given together with {key}", f"{key} or {clear}, not both", clear)
            elif given is not None:
                changes[key] = about.clock.seconds(given, scope, key) if key.endswith("_at") else given
            elif getattr(asking, clear):
                changes[key] = None
        job = replace(record.job, **changes, state=JobState.QUEUED, placement={}, started_at=None)  # type: ignore[arg-type]
        if "start_deadline_at" in changes:
            job = replace(job, submitted_at=now)
        check_job(job, set(), scope, about)
        scope.report.raise_faults()
        if changes and record.state in (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED):
            raise Conflict(f"job {record.id} is {record.state.value}: it cannot be changed any more")
        return changes

    async def cancel(self, data: Plain, caller: Caller) -> Plain:
        """Withdraw a job; one that has ended stays what it is."""
        asking, _ = request(asked.CancelJobRequest, data)

        def prepare(state: State, now: float) -> Prepared[Plain]:
            record = known_job(state, asking.id)
            ended = record.state in (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED)
            happened = () if ended else (_asked(caller, "cancel", data, asking.id), events.Cancel(record.id))
            return Prepared(lambda after: job_view(known_job(after, asking.id), after), happened)

        return await self.leader.ask(prepare)

    async def preempt(self, data: Plain, caller: Caller) -> Plain:
        """Stop a job that runs and queue it again. Raises Conflict for one that does not run."""
        asking, _ = request(asked.PreemptJobRequest, data)

        def prepare(state: State, now: float) -> Prepared[Plain]:
            record = known_job(state, asking.id)
            grace = grace_s(record.job, state.profile)
            saves = record.job.checkpoint.on_signal and record.state in (JobState.RUNNING, JobState.PREEMPTING)

            def answer(after: State) -> Plain:
                now_there = known_job(after, asking.id)
                left = grace if now_there.stop is None else max(0.0, now_there.stop.kill_at - now)
                return {
                    "checkpoint_triggered": saves,
                    "grace_period_s": left,
                    "job": job_view(now_there, after, full=False),
                }

            happened = (_asked(caller, "preempt", data, asking.id), events.Preempt(record.id, asking.reason))
            return Prepared(answer, happened)

        return await self.leader.ask(prepare)

    async def hold(self, data: Plain, caller: Caller) -> Plain:
        """Not served yet."""
        request(asked.HoldJobRequest, data)
        raise NotServed("holding jobs is not served by this version")

    async def release(self, data: Plain, caller: Caller) -> Plain:
        """Not served yet."""
        request(asked.ReleaseJobRequest, data)
        raise NotServed("holding jobs is not served by this version")


@dataclass(frozen=True, slots=True)
class _Submitted:
    ids: list[str]
    repeated: bool
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class _Submitting:
    """Jobs on their way into the queue. `bodies` are the digests of what known ids were submitted with."""

    jobs: Jobs
    given: list[object]
    places: list[Scope]
    caller: Caller
    digest: str
    key: str
    bodies: dict[str, str]

    def prepare(self, state: State, now: float) -> Prepared[_Submitted]:
        """Check the jobs against the state, all of them before any is taken in."""
        if len(state.jobs) + len(self.given) > self.jobs.most:
            raise Busy(f"{len(state.jobs):,} jobs are known, {self.jobs.most:,} are the most: try again later", 30.0)
        about = self.jobs.rules.known(state, now)
        team = self.caller.team or self.jobs.default_team
        team = team if team in state.teams else ""
        read = [
            read_job(each, place, self.jobs.rules, about, team, new_id())
            for each, place in zip(self.given, self.places, strict=True)
        ]
        report = self.places[0].report
        names = [job.id for job in read if job is not None]
        for number, job in enumerate(read):
            if job is not None and job.id in names[: names.index(job.id)]:
                self.places[number].fault("the job id is given twice", "each job id once", "id")
        report.raise_faults()
        fresh: list[Job] = []
        keys: dict[str, bytes] = {}
        for each, job, place in zip(self.given, read, self.places, strict=True):
            assert job is not None, "no job without a fault"
            record = state.record(job.id)
            body = _digest(each)
            if record is None:
                fresh.append(job)
                warn_of_size(job, state, place)
                if isinstance(each, dict) and each.get("id"):
                    keys[f"job/{job.id}"] = body.encode()
            else:
                _same(record, job, self.bodies.get(job.id), body)
        ids = [str(job.id) for job in read if job is not None]
        if self.key:
            keys[self.key] = json.dumps({"digest": self.digest, "ids": ids}).encode()
        warnings = list(report.warnings())
        return Prepared(
            lambda after: _Submitted(ids, not fresh, warnings),
            tuple(events.Submit(job) for job in fresh),
            keys if fresh or self.key else {},
        )


def _same(record: JobRecord, job: Job, before: str | None, body: str) -> None:
    """Raise Taken where a job that is known was submitted with another body, and say what differs."""
    if before is not None and before == body:
        return
    old = replace(record.job, estimated_runtime_s=record.estimate_s)
    names = [
        name
        for name in _ASKED_FIELDS
        if getattr(old, name) != getattr(job, name) and not (name == "priority_class" and old.priority != job.priority)
    ]
    if names or before is not None:
        differs = ", ".join(f"{name} {getattr(old, name)!r} is {getattr(job, name)!r} here" for name in names[:5])
        raise Taken(f"job {job.id} is known with another body: {differs or 'some key differs'}")


_ASKED_FIELDS = tuple(
    name
    for name in Job.__slots__
    if name
    not in ("id", "state", "placement", "started_at", "submitted_at", "last_checkpoint_at", "run", "preemptions")
)


def known_job(state: State, job: str) -> JobRecord:
    """Return a job. Raises NotKnown."""
    record = state.record(JobId(job))
    if record is None:
        raise NotKnown(f"no job is called {job}")
    return record


def new_id() -> str:
    """Return an id that no job has."""
    return f"job-{secrets.token_hex(8)}"


def _digest(given: object) -> str:
    """Return a digest of plain data, the same whatever the order of its keys."""
    return hashlib.sha256(json.dumps(given, sort_keys=True, default=str).encode()).hexdigest()


def _asked(caller: Caller, what: str, data: Plain, job: str) -> events.Asked:
    return events.Asked(caller.name, what, json.dumps(data, sort_keys=True, default=str), JobId(job))


# Lists


def read_token(token: str, scope: Scope) -> tuple[float, str] | None:
    """Return where the page before ended; None for the first. Raises InputError."""
    if not token:
        return None
    try:
        at, name = json.loads(bytes.fromhex(token))
        return float(at), str(name)
    except (ValueError, TypeError):
        scope.fault("given a token that no answer held", "next_page_token of the answer before", "page_token")
        scope.report.raise_faults()
        raise


def write_token(at: float, name: str) -> str:
    """Return where a page ended, as a word."""
    return json.dumps([at, name], separators=(",", ":")).encode().hex()


def matcher(wanted: asked.JobFilter) -> Callable[[JobRecord], bool]:
    """Return what tells whether a job meets a filter."""
    tests: list[Callable[[JobRecord], bool]] = []

    def among(names: Iterable[str], value: Callable[[JobRecord], str]) -> None:
        chosen = frozenset(names)
        if chosen:
            tests.append(lambda record: value(record) in chosen)

    among(wanted.states, lambda record: record.state.value)
    among(wanted.teams, lambda record: record.job.team)
    among(wanted.users, lambda record: record.job.user)
    among(wanted.ids, lambda record: record.id)
    if wanted.node:
        tests.append(lambda record: _is_on(record, wanted.node))
    if wanted.min_priority is not None:
        least = wanted.min_priority
        tests.append(lambda record: record.job.priority >= least)
    if wanted.array:
        tests.append(lambda record: False)
    return lambda record: all(test(record) for test in tests)


def _is_on(record: JobRecord, node: str) -> bool:
    return node in record.job.placement or (record.claim is not None and node in record.claim.placement)


def all_jobs(state: State) -> Iterator[JobRecord]:
    """Yield every job that is known, those that have ended last."""
    yield from state.jobs.values()
    yield from state.ended.values()


def _page(state: State, asking: asked.ListJobsRequest, after: tuple[float, str] | None) -> Plain:
    matches = matcher(asking.filter)
    found = [((record.job.submitted_at, record.id), record) for record in all_jobs(state) if matches(record)]
    later = found if after is None else [each for each in found if each[0] > after]
    rows = heapq.nsmallest(asking.size + 1, later, key=lambda each: each[0])
    page = rows[: asking.size]
    token = write_token(*page[-1][0]) if len(rows) > asking.size else ""
    return {
        "jobs": [job_view(record, state, full=asking.view == "full") for _, record in page],
        "next_page_token": token,
        "total": len(found),
    }
