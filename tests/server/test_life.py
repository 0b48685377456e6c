"""The life of gangs over real gRPC: a front end submits, agents do as they are told, everyone sees the same."""

from __future__ import annotations

from optsched.values.job import JobState
from optsched.wire.v1 import agent_pb2 as wire
from optsched.wire.v1 import cluster_pb2, scheduler_pb2, types_pb2
from tests.server.service import Served, served


def spec(job: str, gpus: int, **more: object) -> types_pb2.JobSpec:
    return types_pb2.JobSpec(id=job, gpus=gpus, **more)  # type: ignore[arg-type]


async def submit(it: Served, job: str, gpus: int, **more: object) -> scheduler_pb2.SubmitJobResponse:
    return await it.scheduler.SubmitJob(scheduler_pb2.SubmitJobRequest(job=spec(job, gpus, **more)))


async def get(it: Served, job: str) -> types_pb2.Job:
    return await it.scheduler.GetJob(scheduler_pb2.GetJobRequest(id=job))


@served()
async def test_a_gang_lives_from_its_submission_to_its_end(it: Served) -> None:
    a, b = await it.racks("a b")
    answer = await submit(it, "train", 16, command=["python", "train.py"], environment={"SEED": "1"})
    assert (answer.job_id, answer.state) == ("train", types_pb2.JOB_STATE_QUEUED)
    await it.job_is("train", JobState.RUNNING)

    found = await get(it, "train")
    assert found.state == types_pb2.JOB_STATE_RUNNING
    assert found.run == 1
    assert {each.node: each.gpus for each in found.placement} == {"a": 8, "b": 8}

    first, second = await a.asked("start"), await b.asked("start")
    assert list(first.command) == ["python", "train.py"]
    assert dict(first.environment) == {"SEED": "1"}
    assert {first.node_rank, second.node_rank} == {0, 1}
    assert first.node_count == second.node_count == 2
    assert {first.master_address, second.master_address} == {"a.test"}
    assert {first.master_port, second.master_port} == {29500}
    ranks = sorted(task.rank for start in (first, second) for task in start.tasks)
    assert ranks == list(range(first.world_size))

    for agent in (a, b):
        assert (await agent.acked(await agent.report("train", 1, wire.OUTCOME_OK))).result == wire.ACK_RESULT_TAKEN
    await it.job_is("train", JobState.COMPLETED)
    for agent in (a, b):
        await agent.asked("release")
    await it.until(lambda state: all(not each.bookings for each in state.nodes.values()))
    status = await it.cluster.GetStatus(cluster_pb2.GetStatusRequest())
    assert (status.gpus, status.gpus_free, status.agents_connected) == (16, 16, 2)
    assert dict(status.jobs_by_state) == {"completed": 1}


@served()
async def test_a_preempted_gang_has_its_grace_and_is_queued_again(it: Served) -> None:
    (a,) = await it.racks("a")
    await submit(it, "train", 8, checkpoint=types_pb2.CheckpointConfig(on_signal=True), grace_period_s=90.0)
    await it.job_is("train", JobState.RUNNING)
    a.deaf.add("signal")
    asked = scheduler_pb2.PreemptJobRequest(id="train", reason="the room is needed")
    answer = await it.scheduler.PreemptJob(asked)
    assert answer.checkpoint_triggered
    # The longer of the job's 90 s and the profile's 120 s.
    assert answer.grace_period_s == 120.0
    assert answer.job.state == types_pb2.JOB_STATE_PREEMPTING
    told = await a.asked("signal")
    assert (told.header.job, told.header.run, told.grace_s) == ("train", 1, 120.0)

    it.now.ahead_s += 121
    await a.asked("kill")
    state = await it.job_is("train", JobState.QUEUED)
    assert not state.nodes[a.spec.id].bookings  # type: ignore[index]
    found = await get(it, "train")
    assert found.preemptions == 1
    assert found.not_before > found.submitted_at
    assert "the room is needed" in found.reason

    it.now.ahead_s += 400
    await it.job_is("train", JobState.RUNNING)
    assert (await get(it, "train")).run == 2


@served()
async def test_a_more_urgent_gang_takes_the_place_of_another_and_both_learn_why(it: Served) -> None:
    (a,) = await it.racks("a")
    await submit(it, "sweep", 8, priority=1)
    await it.job_is("sweep", JobState.RUNNING)
    it.now.ahead_s += 700  # past the profile's min_runtime_s
    await submit(it, "urgent", 8, priority=9)
    await it.job_is("urgent", JobState.RUNNING)
    sweep = await get(it, "sweep")
    assert sweep.state == types_pb2.JOB_STATE_QUEUED
    told = await it.scheduler.ListJobEvents(scheduler_pb2.ListJobEventsRequest(id="sweep"))
    assert "gives way to urgent" in " ".join(each.text for each in told.events)
    signal = await a.asked("signal")
    assert signal.header.job == "sweep"
    rounds = await it.scheduler.ListRounds(scheduler_pb2.ListRoundsRequest())
    assert sum(each.preemption_cost for each in (row.bill for row in rounds.rounds)) > 0
    newest = await it.scheduler.GetRound(scheduler_pb2.GetRoundRequest(id=rounds.rounds[0].id))
    assert newest.HasField("plan")
    why = await it.scheduler.ExplainJob(scheduler_pb2.ExplainJobRequest(id="sweep"))
    assert why.WhichOneof("fate") == "waits"
    assert why.waits.detail


@served()
async def test_cancelling_stops_what_runs_and_withdraws_what_waits(it: Served) -> None:
    await it.racks("a")
    await submit(it, "runs", 8)
    await it.job_is("runs", JobState.RUNNING)
    await submit(it, "waits", 8)
    waits = await it.scheduler.CancelJob(scheduler_pb2.CancelJobRequest(id="waits"))
    assert waits.state == types_pb2.JOB_STATE_CANCELLED
    await it.scheduler.CancelJob(scheduler_pb2.CancelJobRequest(id="runs", reason="wrong data"))
    await it.job_is("runs", JobState.CANCELLED)
    again = await it.scheduler.CancelJob(scheduler_pb2.CancelJobRequest(id="runs"))
    assert again.state == types_pb2.JOB_STATE_CANCELLED


@served()
async def test_a_watcher_sees_every_change_of_a_job(it: Served) -> None:
    (a,) = await it.racks("a")
    watch = it.scheduler.WatchJobs(scheduler_pb2.WatchJobsRequest())
    assert (await watch.read()).caught_up
    await submit(it, "train", 8)
    await it.job_is("train", JobState.RUNNING)
    await a.report("train", 1, wire.OUTCOME_OK)
    seen: list[int] = []
    sequences: list[int] = []
    while not seen or seen[-1] != types_pb2.JOB_STATE_COMPLETED:
        row = await watch.read()
        seen.append(row.job.state)
        sequences.append(row.sequence)
    order = list(dict.fromkeys(seen))
    expected = ["QUEUED", "STARTING", "RUNNING", "COMPLETED"]
    assert order == [types_pb2.JobState.Value(f"JOB_STATE_{each}") for each in expected]
    assert sequences == sorted(sequences)
    watch.cancel()

    later = it.scheduler.WatchJobs(scheduler_pb2.WatchJobsRequest(after_sequence=sequences[0]))
    row = await later.read()
    assert row.sequence > sequences[0]
    later.cancel()


@served()
async def test_a_dry_run_changes_nothing(it: Served) -> None:
    await it.racks("a")
    await submit(it, "runs", 8)
    before = await it.job_is("runs", JobState.RUNNING)
    asked = scheduler_pb2.PlanRequest(jobs=[spec("new", 8)], without=["runs"], tasks=True)
    answer = await it.scheduler.Plan(asked)
    plan = answer.plan
    status = await it.cluster.GetStatus(cluster_pb2.GetStatusRequest())
    assert before.version <= answer.state_version <= status.state_version == it.state.version
    assert before.now <= answer.at <= it.now()
    fate = await it.scheduler.ExplainJob(scheduler_pb2.ExplainJobRequest(id="runs"))
    assert (fate.job.id, fate.state_version) == ("runs", it.state.version)
    assert [start.job for start in plan.starts] == ["new"]
    assert plan.starts[0].tasks
    assert plan.bill.run_value > 0
    assert it.state.jobs == before.jobs
    assert it.state.record("new") is None  # type: ignore[arg-type]


@served()
async def test_a_fenced_report_of_an_older_run_changes_nothing(it: Served) -> None:
    (a,) = await it.racks("a")
    await submit(it, "train", 8)
    await it.job_is("train", JobState.RUNNING)
    await a.report("train", 1, wire.OUTCOME_INFRA, why="the GPU fell off the bus")
    await it.until(lambda state: state.record("train").run == 2)  # type: ignore[arg-type, union-attr]
    await it.job_is("train", JobState.RUNNING)
    late = await a.acked(await a.report("train", 1, wire.OUTCOME_FAILED))
    assert late.result == wire.ACK_RESULT_STALE
    foreign = await a.acked(await a.report("nobody", 1, wire.OUTCOME_OK))
    assert foreign.result == wire.ACK_RESULT_FOREIGN
    assert (await get(it, "train")).state == types_pb2.JOB_STATE_RUNNING
