"""Requests about jobs: one function each, called by gRPC and REST alike. Plain data in, plain data out."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace

from optsched.engine import events
from optsched.engine.events import Hold, Unhold
from optsched.engine.ports import Store
from optsched.engine.state import JobRecord, State
from optsched.errors import Conflict, NotKnown
from optsched.files.jobrules import check_job
from optsched.files.report import Scope
from optsched.policy.victims import grace_s
from optsched.server import asked
from optsched.server.archive import Archive
from optsched.server.caller import Caller
from optsched.server.checks import Plain, Rules, request
from optsched.server.history import told
from optsched.server.leader import Leader, Prepared
from optsched.server.lists import Order, page_of_jobs, read_token
from optsched.server.submit import Given, Submitting, members_of
from optsched.server.views import job_view
from optsched.values.ids import JobId
from optsched.values.job import JobState


@dataclass(slots=True)
class Jobs:
    """What may be asked about jobs."""

    leader: Leader
    store: Store
    rules: Rules
    submitting: Submitting
    order: Order
    archive: Archive

    # Submitting

    async def submit(self, data: Plain, caller: Caller) -> Plain:
        """Put one job into the queue; the same again returns it as it stands."""
        asking, scope = request(asked.SubmitJobRequest, data)
        given = [Given(asking.job, scope.at("job"))]
        found = await self.submitting.submit(given, [asking.job], asking.idempotency_key, caller)
        name = JobId(found.ids[0])
        record = self.leader.state.record(name) or await self.archive.find(name)
        return {
            "job_id": found.ids[0],
            "state": JobState.QUEUED.value if record is None else record.state.value,
            "repeated_call": found.repeated,
            "warnings": found.warnings,
        }

    async def submit_many(self, data: Plain, caller: Caller) -> Plain:
        """Put many jobs, or an array, into the queue, or none of them."""
        asking, scope = request(asked.SubmitJobsRequest, data)
        if (asking.array is None) == (not asking.jobs):
            scope.fault("names no jobs, or jobs and an array", "1 to 1,000 jobs, or an array", "jobs")
            scope.report.raise_faults()
        if asking.array is not None:
            given = members_of(asking.array, scope.at("array", "template"))
        else:
            given = [Given(each, scope.at("jobs", number)) for number, each in enumerate(asking.jobs)]
        body = {"jobs": asking.jobs, "array": data.get("array")}
        found = await self.submitting.submit(given, body, asking.idempotency_key, caller)
        return {"job_ids": found.ids, "repeated_call": found.repeated, "warnings": found.warnings}

    # Reading

    async def get(self, data: Plain, caller: Caller) -> Plain:
        """Return one job."""
        asking, _ = request(asked.GetJobRequest, data)
        return job_view(await self._found(asking.id, caller), self.leader.state)

    async def _found(self, job: str, caller: Caller) -> JobRecord:
        """Return a job, also one that has ended long ago. Raises NotKnown or NotAllowed."""
        record = self.leader.state.record(JobId(job)) or await self.archive.find(JobId(job))
        return checked_job(record, job, caller)

    async def list(self, data: Plain, caller: Caller) -> Plain:
        """Return a page of jobs, in order of their submission."""
        asking, scope = request(asked.ListJobsRequest, data)
        after = read_token(asking.page_token, scope)
        keys = self.order.page(after, asking.size)
        return await asyncio.to_thread(page_of_jobs, self.leader.state, asking, after, caller, keys)

    async def events(self, data: Plain, caller: Caller) -> Plain:
        """Return what happened to a job."""
        asking, _ = request(asked.ListJobEventsRequest, data)
        await self._found(asking.id, caller)
        size = asking.page_size or 100
        entries = await asyncio.to_thread(self.store.history, JobId(asking.id), asking.after_sequence, size + 1)
        rows = [told(entry, JobId(asking.id)) for entry in entries[:size]]
        return {"events": rows, "more": len(entries) > size}

    # Changing

    async def update(self, data: Plain, caller: Caller) -> Plain:
        """Change priority, estimate or deadline."""
        asking, scope = request(asked.UpdateJobRequest, data)

        def prepare(state: State, now: float) -> Prepared[Plain]:
            record = known_job(state, asking.id, caller)
            changes = self._changes(asking, scope, record, state, now)
            happened = (_asked(caller, "update", data, asking.id), events.Update(record.id, changes)) if changes else ()
            return Prepared(lambda after: job_view(known_job(after, asking.id, caller), after), happened)

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
        if self.leader.state.record(JobId(asking.id)) is None:
            return job_view(await self._found(asking.id, caller), self.leader.state)

        def prepare(state: State, now: float) -> Prepared[Plain]:
            record = known_job(state, asking.id, caller)
            ended = record.state in (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED)
            happened = () if ended else (_asked(caller, "cancel", data, asking.id), events.Cancel(record.id))
            return Prepared(lambda after: job_view(known_job(after, asking.id, caller), after), happened)

        return await self.leader.ask(prepare)

    async def preempt(self, data: Plain, caller: Caller) -> Plain:
        """Stop a job that runs and queue it again. Raises Conflict for one that does not run."""
        asking, _ = request(asked.PreemptJobRequest, data)

        def prepare(state: State, now: float) -> Prepared[Plain]:
            record = known_job(state, asking.id, caller)
            grace = grace_s(record.job, state.profile)
            saves = record.job.checkpoint.on_signal and record.state in (JobState.RUNNING, JobState.PREEMPTING)

            def answer(after: State) -> Plain:
                now_there = known_job(after, asking.id, caller)
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
        """Keep a queued job from starting. Raises Conflict for one that does not wait."""
        asking, _ = request(asked.HoldJobRequest, data)
        return await self._keep(asking.id, caller, "hold", data, Hold(JobId(asking.id), asking.reason))

    async def release(self, data: Plain, caller: Caller) -> Plain:
        """Let a job that is held start."""
        asking, _ = request(asked.ReleaseJobRequest, data)
        return await self._keep(asking.id, caller, "release", data, Unhold(JobId(asking.id)))

    async def _keep(self, job: str, caller: Caller, what: str, data: Plain, event: Hold | Unhold) -> Plain:
        def prepare(state: State, now: float) -> Prepared[Plain]:
            known_job(state, job, caller)
            happened = (_asked(caller, what, data, job), event)
            return Prepared(lambda after: job_view(known_job(after, job, caller), after), happened)

        return await self.leader.ask(prepare)


def known_job(state: State, job: str, caller: Caller) -> JobRecord:
    """Return a job. Raises NotKnown, or NotAllowed for one of a team that is none of the caller's business."""
    return checked_job(state.record(JobId(job)), job, caller)


def checked_job(record: JobRecord | None, job: str, caller: Caller) -> JobRecord:
    """Return a job that was found. Raises as `known_job` does."""
    if record is None:
        raise NotKnown(f"no job is called {job}")
    caller.check_team(record.job.team, f"job {job}")
    return record


def _asked(caller: Caller, what: str, data: Plain, job: str) -> events.Asked:
    return events.Asked(caller.name, what, json.dumps(data, sort_keys=True, default=str), JobId(job))
