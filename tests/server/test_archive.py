"""Jobs that ended a while ago: in lists no more, but known to whoever asks for them by name; their ids are not free."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from optsched.engine.events import Tick
from optsched.engine.state import JobRecord
from optsched.errors import Busy
from optsched.files.document import Document
from optsched.files.report import Report, Scope
from optsched.server.archive import LONGEST_REASON, kept_of
from optsched.server.caller import Caller
from optsched.server.submit import Given, _Batch
from optsched.store import MemoryStore
from optsched.values.ids import JobId
from optsched.values.job import JobState
from optsched.wire.v1 import scheduler_pb2 as api
from optsched.wire.v1 import types_pb2
from tests.builders import job
from tests.server.service import Served, serving
from tests.server.test_submitting import refusal, spec


async def cancelled(it: Served, *jobs: str) -> None:
    """Jobs that were submitted and withdrawn."""
    for name in jobs:
        await it.scheduler.SubmitJob(api.SubmitJobRequest(job=spec(name, 8, user="ada"), idempotency_key=f"key-{name}"))
        await it.scheduler.CancelJob(api.CancelJobRequest(id=name))


async def forgotten(it: Served, *jobs: str) -> None:
    """The ticks that let go of them."""
    it.now.ahead_s += 120.0
    await it.service.app.leader.happen(Tick())
    assert not [job for job in jobs if it.state.record(JobId(job))]


async def still_known(it: Served) -> None:
    """What is asked of jobs a and b, which are in the state no more."""
    found = await it.scheduler.GetJob(api.GetJobRequest(id="a"))
    assert (found.state, found.id, found.gang_size, found.user) == (types_pb2.JOB_STATE_CANCELLED, "a", 8, "ada")
    assert found.reason == "withdrawn"
    again = await it.scheduler.CancelJob(api.CancelJobRequest(id="a"))
    assert again.state == types_pb2.JOB_STATE_CANCELLED
    told = await it.scheduler.ListJobEvents(api.ListJobEventsRequest(id="a"))
    assert [each.kind for each in told.events] == ["submitted", "asked", "cancelled"]
    # The same again is the same job, by its id and by its key; another body is refused.
    for asked in (
        api.SubmitJobRequest(job=spec("a", 8, user="ada")),
        api.SubmitJobRequest(job=spec("a", 8, user="ada"), idempotency_key="key-a"),
    ):
        answer = await it.scheduler.SubmitJob(asked)
        assert (answer.repeated_call, answer.job_id, answer.state) == (True, "a", types_pb2.JOB_STATE_CANCELLED)
    other = await refusal(it.scheduler.SubmitJob(api.SubmitJobRequest(job=spec("a", 16, user="ada"))))
    assert other.code() is grpc.StatusCode.ALREADY_EXISTS
    assert "gpus 8 is 16 here" in str(other.details())
    many = await it.scheduler.SubmitJobs(api.SubmitJobsRequest(jobs=[spec("b", 8, user="ada"), spec("c", 8)]))
    assert (list(many.job_ids), many.repeated_call) == (["b", "c"], False)
    assert [job for job in ("a", "b", "c") if it.state.record(JobId(job))] == ["c"]
    await it.scheduler.CancelJob(api.CancelJobRequest(id="c"))
    unknown = await refusal(it.scheduler.GetJob(api.GetJobRequest(id="z")))
    assert unknown.code() is grpc.StatusCode.NOT_FOUND


def test_a_job_that_has_left_the_state_is_known_by_its_name_and_its_id_is_not_free() -> None:
    async def whole() -> None:
        store = MemoryStore()
        async with asyncio.timeout(60), serving(store, ended_kept_s=60.0) as it:
            await cancelled(it, "a", "b")
            await forgotten(it, "a", "b")
            await still_known(it)
            await forgotten(it, "c")
        # Another scheduler on the same store knows as much.
        async with asyncio.timeout(60), serving(store, ended_kept_s=60.0) as it:
            assert not it.state.ended
            again = await it.scheduler.SubmitJob(api.SubmitJobRequest(job=spec("c", 8)))
            assert (again.repeated_call, again.state) == (True, types_pb2.JOB_STATE_CANCELLED)
            assert (await it.scheduler.GetJob(api.GetJobRequest(id="b"))).reason == "withdrawn"

    asyncio.run(whole())


def test_lists_go_on_without_those_that_have_left() -> None:
    """Of 30 jobs the first 20 are let go of between two pages: the next page has the others, all of them."""

    async def whole() -> None:
        async with asyncio.timeout(60), serving(ended_kept=10) as it:
            names = [f"j{number:02}" for number in range(30)]
            await cancelled(it, *names)
            first = await it.scheduler.ListJobs(api.ListJobsRequest(page_size=5))
            assert ([each.id for each in first.jobs], first.total) == (names[:5], 30)
            await forgotten(it, *names[:20])
            asking = api.ListJobsRequest(page_size=5, page_token=first.next_page_token)
            second = await it.scheduler.ListJobs(asking)
            assert ([each.id for each in second.jobs], second.total) == (names[20:25], 10)
            third = await it.scheduler.ListJobs(api.ListJobsRequest(page_size=5, page_token=second.next_page_token))
            assert ([each.id for each in third.jobs], third.next_page_token) == (names[25:], "")

    asyncio.run(whole())


def test_a_job_that_leaves_while_it_is_submitted_again_is_not_taken_for_a_new_one() -> None:
    """It was there when the request was looked at, and has left when its turn comes: the caller is to try again."""

    async def whole() -> None:
        async with asyncio.timeout(60), serving(ended_kept_s=60.0) as it:
            await cancelled(it, "a")
            submitting = it.service.app.jobs.submitting
            given = [Given({"id": "a", "gpus": 8, "user": "ada"}, Scope(Report(), Document({}, "request")))]
            work = _Batch(submitting, given, Caller(), "", "", {}, {}, frozenset({"a"}))
            assert work.prepare(it.state, it.now()).answer(it.state).repeated
            await forgotten(it, "a")
            with pytest.raises(Busy, match="try again"):
                work.prepare(it.state, it.now())

    asyncio.run(whole())


@pytest.mark.parametrize("length", [10, 1000])
def test_what_is_kept_is_short(length: int) -> None:
    """There may be a million of them."""
    record = JobRecord(job("a").gang(8).made, JobState.FAILED, reason="x" * length, ended_at=1764486000.123)
    (kept,) = kept_of([record]).values()
    assert len(kept) <= LONGEST_REASON + 80
