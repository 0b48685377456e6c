"""Submitting: the same again is one job, many or none, arrays, holds, and jobs that wait for others."""

from __future__ import annotations

import grpc
import pytest
from google.rpc.error_details_pb2 import BadRequest, RetryInfo
from google.rpc.status_pb2 import Status

from optsched.values.job import JobState
from optsched.wire.status import DETAILS_KEY
from optsched.wire.v1 import agent_pb2 as wire
from optsched.wire.v1 import scheduler_pb2 as api
from optsched.wire.v1 import types_pb2
from tests.server.service import Served, served


def spec(job: str = "", gpus: int = 1, **more: object) -> types_pb2.JobSpec:
    return types_pb2.JobSpec(id=job, gpus=gpus, **more)  # type: ignore[arg-type]


async def refusal(call: object) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call  # type: ignore[misc]
    return caught.value


def details(error: grpc.aio.AioRpcError, kind: type) -> object:
    metadata = dict([*(error.trailing_metadata() or ())])
    found = kind()
    for each in Status.FromString(metadata[DETAILS_KEY]).details:
        if each.Unpack(found):
            return found
    raise AssertionError(f"no {kind.__name__} in {error}")


@served()
async def test_the_same_job_again_is_one_job_over_both_apis(it: Served) -> None:
    first = await it.scheduler.SubmitJob(api.SubmitJobRequest(job=spec("train", 8, user="ada")))
    assert not first.repeated_call
    again = await it.scheduler.SubmitJob(api.SubmitJobRequest(job=spec("train", 8, user="ada")))
    assert again.repeated_call
    over_rest = await it.http.post("/v1/jobs", json={"id": "train", "gpus": 8, "user": "ada"})
    assert over_rest.status_code == 200
    assert over_rest.json()["repeated_call"] is True
    other = await refusal(it.scheduler.SubmitJob(api.SubmitJobRequest(job=spec("train", 16, user="ada"))))
    assert other.code() is grpc.StatusCode.ALREADY_EXISTS
    assert "gpus 8 is 16 here" in str(other.details())
    assert len(it.state.jobs) == 1


@served()
async def test_an_idempotency_key_is_honoured_over_both_apis(it: Served) -> None:
    asked = api.SubmitJobRequest(job=spec(gpus=4), idempotency_key="attempt-1")
    first = await it.scheduler.SubmitJob(asked)
    again = await it.scheduler.SubmitJob(asked)
    assert (again.job_id, again.repeated_call) == (first.job_id, True)
    over_rest = await it.http.post("/v1/jobs", json={"gpus": 4}, headers={"Idempotency-Key": "attempt-1"})
    assert (over_rest.status_code, over_rest.json()["job_id"]) == (200, first.job_id)
    other = await it.http.post("/v1/jobs", json={"gpus": 5}, headers={"Idempotency-Key": "attempt-1"})
    assert (other.status_code, other.json()["error"]["code"]) == (409, "ALREADY_EXISTS")
    assert len(it.state.jobs) == 1


@served()
async def test_many_jobs_are_taken_all_or_none(it: Served) -> None:
    good, bad = spec("a", 1), spec("b", 12, gpus_per_node=8)
    error = await refusal(it.scheduler.SubmitJobs(api.SubmitJobsRequest(jobs=[good, bad])))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    found = details(error, BadRequest)
    assert [each.field for each in found.field_violations] == ["jobs[1].gpus"]  # type: ignore[attr-defined]
    assert it.state.jobs == {}
    answer = await it.scheduler.SubmitJobs(api.SubmitJobsRequest(jobs=[good, spec("b", 16)]))
    assert list(answer.job_ids) == ["a", "b"]


@served()
async def test_an_array_runs_so_many_members_at_a_time(it: Served) -> None:
    (a,) = await it.racks("a")
    array = api.JobArray(template=spec("sweep", 1), count=4, first_index=7, max_running=2)
    asked = api.SubmitJobsRequest(array=array, idempotency_key="sweep")
    answer = await it.scheduler.SubmitJobs(asked)
    assert list(answer.job_ids) == ["sweep.7", "sweep.8", "sweep.9", "sweep.10"]
    assert (await it.scheduler.SubmitJobs(asked)).repeated_call
    await it.job_is("sweep.7", JobState.RUNNING)
    await it.job_is("sweep.8", JobState.RUNNING)
    starts = [each.start for each in a.heard if each.HasField("start")]
    assert {(each.header.job, each.array_index) for each in starts} == {("sweep.7", 7), ("sweep.8", 8)}
    listed = await it.scheduler.ListJobs(api.ListJobsRequest(filter=api.JobFilter(array="sweep")))
    assert [each.array_index for each in listed.jobs] == [10, 7, 8, 9]
    assert it.state.record("sweep.9").state is JobState.QUEUED  # type: ignore[arg-type, union-attr]
    await a.report("sweep.8", 1, wire.OUTCOME_OK)
    await it.job_is("sweep.9", JobState.RUNNING)
    assert it.state.record("sweep.10").state is JobState.QUEUED  # type: ignore[arg-type, union-attr]


@served()
async def test_a_job_may_be_submitted_held_and_wait_for_others(it: Served) -> None:
    (a,) = await it.racks("a")
    await it.scheduler.SubmitJob(api.SubmitJobRequest(job=spec("data", 1, hold=True)))
    after = [types_pb2.Dependency(job="data", condition=types_pb2.DEPENDENCY_CONDITION_COMPLETED)]
    await it.scheduler.SubmitJob(api.SubmitJobRequest(job=spec("train", 8, after=after)))
    held = await it.scheduler.GetJob(api.GetJobRequest(id="data"))
    assert (held.held, held.reason) == (True, "held")
    waits = await it.scheduler.GetJob(api.GetJobRequest(id="train"))
    assert (waits.held, waits.reason) == (True, "waits until data is completed")
    assert waits.spec.after[0].job == "data"
    await it.scheduler.ReleaseJob(api.ReleaseJobRequest(id="data"))
    await it.job_is("data", JobState.RUNNING)
    await a.report("data", 1, wire.OUTCOME_OK)
    await it.job_is("train", JobState.RUNNING)
    error = await refusal(it.scheduler.HoldJob(api.HoldJobRequest(id="train")))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION


@served()
async def test_a_job_cannot_wait_for_one_that_nobody_knows_or_for_itself(it: Served) -> None:
    for name in ("ghost", "me"):
        after = [types_pb2.Dependency(job=name)]
        error = await refusal(it.scheduler.SubmitJob(api.SubmitJobRequest(job=spec("me", 1, after=after))))
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        field = details(error, BadRequest).field_violations[0].field  # type: ignore[attr-defined]
        assert field.startswith("job.after")


@served(max_jobs=3)
async def test_beyond_the_stated_number_of_jobs_there_is_no_room_and_a_hint_when_to_come_back(it: Served) -> None:
    for _ in range(3):
        await it.scheduler.SubmitJob(api.SubmitJobRequest(job=spec()))
    error = await refusal(it.scheduler.SubmitJob(api.SubmitJobRequest(job=spec())))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert details(error, RetryInfo).retry_delay.seconds > 0  # type: ignore[attr-defined]
    answer = await it.http.post("/v1/jobs", json={"gpus": 1})
    assert (answer.status_code, int(answer.headers["retry-after"]) > 0) == (429, True)


@served()
async def test_what_can_be_changed_of_a_job_is_changed_and_checked(it: Served) -> None:
    await it.scheduler.SubmitJob(api.SubmitJobRequest(job=spec("x", 8, estimated_runtime_s=60.0)))
    job = await it.scheduler.UpdateJob(api.UpdateJobRequest(id="x", priority_class="P1", clear_estimated_runtime=True))
    assert (job.priority, job.priority_class) == (3000, "P1")
    assert not job.spec.HasField("estimated_runtime_s")
    bad = await it.http.patch("/v1/jobs/x", json={"priority": "P9", "gpus": 4})
    assert bad.status_code == 400
    assert {each["field"] for each in bad.json()["error"]["violations"]} >= {"gpus"}
    assert it.state.record("x").job.priority == 3000  # type: ignore[arg-type, union-attr]
