"""Agents: who is served, what their words are worth, and what becomes of gangs when they go and come back."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from optsched.store import MemoryStore
from optsched.values.cluster import NodeState
from optsched.values.ids import JobId, NodeId
from optsched.values.job import JobState
from optsched.wire.v1 import agent_pb2 as wire
from optsched.wire.v1 import agent_pb2_grpc, types_pb2
from optsched.wire.v1 import cluster_pb2 as cluster
from optsched.wire.v1 import scheduler_pb2 as api
from tests.server.service import LONGEST_S, FakeAgent, Served, served, serving


async def submit(it: Served, job: str, gpus: int, **more: object) -> None:
    await it.scheduler.SubmitJob(api.SubmitJobRequest(job=types_pb2.JobSpec(id=job, gpus=gpus, **more)))  # type: ignore[arg-type]


def record(it: Served, job: str) -> object:
    return it.state.record(JobId(job))


def another(it: Served, like: FakeAgent, *, agent: str, session: int) -> FakeAgent:
    return FakeAgent(it, like.node, like.spec, agent=agent, session=session)


# Who is served


@served()
async def test_of_two_agents_of_one_node_the_second_is_refused_and_both_addresses_are_told(it: Served) -> None:
    (a,) = await it.racks("a")
    events = it.cluster.WatchEvents(cluster.WatchEventsRequest())
    await events.wait_for_connection()
    found = await another(it, a, agent="impostor", session=1).open()
    assert found.refused.code == wire.REFUSAL_CODE_TWO_AGENTS
    assert "agent-of-a" in found.refused.reason
    assert "impostor" in found.refused.reason
    assert found.refused.reason.count("127.0.0.1") == 2
    # A round that was under way may be told of before.
    while (told := await events.read()).kind != "alarm":
        assert told.kind == "dropped"
    assert told.node == "a"
    events.cancel()
    assert it.state.nodes[NodeId("a")].agent == "agent-of-a"


@served()
async def test_a_later_start_of_an_agent_takes_over_and_the_older_is_told_to_stop(it: Served) -> None:
    (old,) = await it.racks("a")
    await submit(it, "train", 8)
    await it.job_is("train", JobState.RUNNING)
    new = another(it, old, agent="agent-of-a", session=2)
    new.held = dict(old.held)
    await new.connect()
    told = await old.asked("refused")
    assert told.code == wire.REFUSAL_CODE_SUPERSEDED
    late = await another(it, old, agent="agent-of-a", session=1).open()
    assert late.refused.code == wire.REFUSAL_CODE_SUPERSEDED
    assert record(it, "train").state is JobState.RUNNING  # type: ignore[attr-defined]
    node = await it.cluster.GetNode(cluster.GetNodeRequest(id="a"))
    assert (node.session, node.connected, node.spec.gpus) == (2, True, 8)


@served(agents_may_join=False)
async def test_where_none_may_join_an_unknown_node_is_refused(it: Served) -> None:
    found = await FakeAgent(it, "x", types_pb2.NodeSpec(id="x", gpus=8)).open()
    assert found.refused.code == wire.REFUSAL_CODE_UNKNOWN_NODE
    assert it.state.nodes == {}


@pytest.mark.parametrize(
    ("spec", "field"),
    [({"gpus": -1}, "gpus"), ({"gpus": 4294967295}, "gpus"), ({"gpus": 8, "domains": {"zone": "z"}}, "zone")],
)
def test_a_description_that_cannot_be_is_refused_with_the_field(spec: dict[str, object], field: str) -> None:
    async def whole() -> None:
        async with asyncio.timeout(LONGEST_S), serving() as it:
            found = await FakeAgent(it, "x", types_pb2.NodeSpec(id="x", **spec)).open()  # type: ignore[arg-type]
            assert found.refused.code == wire.REFUSAL_CODE_INVALID
            assert field in found.refused.reason
            assert it.state.nodes == {}

    asyncio.run(whole())


@served()
async def test_a_stream_that_does_not_begin_with_register_is_ended(it: Served) -> None:
    call = agent_pb2_grpc.AgentStub(it.channel).Connect()
    await call.write(wire.AgentMessage(sequence=1, heartbeat=wire.Heartbeat()))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


# What their words are worth


@served()
async def test_the_same_report_again_changes_nothing(it: Served) -> None:
    (a,) = await it.racks("a")
    await submit(it, "train", 8)
    await it.job_is("train", JobState.RUNNING)
    for _ in range(3):
        assert (await a.acked(await a.report("train", 1, wire.OUTCOME_OK))).result == wire.ACK_RESULT_TAKEN
    for _ in range(3):
        await a.acked(await a.report("train", 1, wire.OUTCOME_RELEASED))
    await it.job_is("train", JobState.COMPLETED)
    status = await it.cluster.GetStatus(cluster.GetStatusRequest())
    assert (status.gpus, status.gpus_free) == (8, 8)


@served()
async def test_a_report_about_what_runs_elsewhere_is_foreign(it: Served) -> None:
    agents = {each.node: each for each in await it.racks("a b")}
    await submit(it, "train", 8)
    await it.job_is("train", JobState.RUNNING)
    (here,) = record(it, "train").job.placement  # type: ignore[attr-defined]
    other = agents["b" if here == "a" else "a"]
    answer = await other.acked(await other.report("train", 1, wire.OUTCOME_FAILED))
    assert (answer.result, str(other.node) in answer.reason) == (wire.ACK_RESULT_FOREIGN, True)
    assert record(it, "train").state is JobState.RUNNING  # type: ignore[attr-defined]
    ahead = await other.acked(await other.report("train", 7, wire.OUTCOME_OK))
    assert ahead.result == wire.ACK_RESULT_FOREIGN
    bad = await other.acked(await other.report("", 0, wire.OUTCOME_OK))
    assert bad.result == wire.ACK_RESULT_INVALID


@served()
async def test_an_epoch_that_is_over_is_answered_stale(it: Served) -> None:
    (a,) = await it.racks("a")
    await submit(it, "train", 8)
    await it.job_is("train", JobState.RUNNING)
    answer = await a.acked(await a.report("train", 1, wire.OUTCOME_FAILED, epoch=a.epoch - 1))
    assert answer.result == wire.ACK_RESULT_STALE
    assert record(it, "train").state is JobState.RUNNING  # type: ignore[attr-defined]


@served()
async def test_fewer_gpus_than_are_booked_leave_nothing_to_give_and_poison_no_total(it: Served) -> None:
    (a,) = await it.racks("a")
    await submit(it, "train", 8)
    await it.job_is("train", JobState.RUNNING)
    await a.say(heartbeat=wire.Heartbeat(gpus=3))
    await it.until(lambda state: state.nodes[NodeId("a")].node.gpus == 3)
    node = await it.cluster.GetNode(cluster.GetNodeRequest(id="a"))
    assert (node.free_gpus, node.spec.gpus, node.bookings[0].gpus) == (0, 3, 8)
    assert "3" in node.reason
    status = await it.cluster.GetStatus(cluster.GetStatusRequest())
    assert status.gpus_free == 0
    for absurd in (-1, 2**40):
        await a.say(heartbeat=wire.Heartbeat(gpus=absurd))
    await a.acked(await a.report("nobody", 1, wire.OUTCOME_OK))
    assert it.state.nodes[NodeId("a")].node.gpus == 3


@pytest.mark.parametrize("skew_s", [600.0, -600.0])
def test_an_agents_own_clock_is_shown_and_decides_nothing(skew_s: float) -> None:
    async def whole() -> None:
        async with asyncio.timeout(LONGEST_S), serving() as it:
            (a,) = await it.racks("a")
            await a.say(heartbeat=wire.Heartbeat(clock_at=it.now() + skew_s))
            await a.acked(await a.report("nobody", 1, wire.OUTCOME_OK))
            node = await it.cluster.GetNode(cluster.GetNodeRequest(id="a"))
            assert node.state == types_pb2.NODE_STATE_UP
            assert abs(node.clock_skew_s - skew_s) < 30

    asyncio.run(whole())


@served()
async def test_claims_of_checkpoints_that_cannot_be_are_refused_or_cut(it: Served) -> None:
    (a,) = await it.racks("a")
    await submit(it, "train", 8)
    await it.job_is("train", JobState.RUNNING)

    async def claim(version: str, age_s: float, run: int = 1) -> wire.Ack:
        found = wire.Checkpoint(job="train", run=run, version=version, age_s=age_s)
        return await a.acked(await a.say(checkpoint=found))

    assert (await claim("future", -3600.0)).result == wire.ACK_RESULT_INVALID
    assert (await claim("nan", float("nan"))).result == wire.ACK_RESULT_INVALID
    assert (await claim("other", 0.0, run=2)).result == wire.ACK_RESULT_STALE
    await claim("before-its-start", 1e6)
    assert record(it, "train").checkpoints == ()  # type: ignore[attr-defined]
    assert (await claim("good", 0.0)).result == wire.ACK_RESULT_TAKEN
    (saved,) = record(it, "train").checkpoints  # type: ignore[attr-defined]
    assert saved.version == "good"
    await a.report("train", 1, wire.OUTCOME_OK)
    await it.job_is("train", JobState.COMPLETED)
    await claim("late", 0.0)
    assert [each.version for each in record(it, "train").checkpoints] == ["good"]  # type: ignore[attr-defined]


# Races


@served()
async def test_what_is_cancelled_while_it_starts_is_told_to_stop_and_books_nothing_in_the_end(it: Served) -> None:
    (a,) = await it.racks("a")
    a.deaf.update(("start", "signal", "kill", "release"))
    await submit(it, "train", 8)
    await a.asked("start")
    await it.scheduler.CancelJob(api.CancelJobRequest(id="train"))
    await a.report("train", 1, wire.OUTCOME_STARTED)
    await a.hears(lambda each: each.WhichOneof("body") in ("signal", "kill", "release"))
    await a.report("train", 1, wire.OUTCOME_RELEASED)
    await it.until(lambda state: not state.nodes[NodeId("a")].bookings)
    assert record(it, "train").state is JobState.CANCELLED  # type: ignore[attr-defined]
    again = await it.scheduler.CancelJob(api.CancelJobRequest(id="train"))
    assert again.state == types_pb2.JOB_STATE_CANCELLED


@served(lease_s=30.0, stream_grace_s=3600.0)
async def test_a_node_that_falls_silent_is_given_up_and_its_gang_goes_on_elsewhere(it: Served) -> None:
    agents = {each.node: each for each in await it.racks("a b c")}
    await submit(it, "train", 16)
    await it.job_is("train", JobState.RUNNING)
    lost = sorted(record(it, "train").job.placement)[0]  # type: ignore[attr-defined]
    others = [each for name, each in agents.items() if name != lost]
    await agents[lost].leave()
    # Time passes in steps that are shorter than a lease; the others beat.
    while it.state.nodes[NodeId(lost)].node.state is not NodeState.DOWN:
        it.now.ahead_s += 5
        heard = it.now()
        for each in others:
            await each.say(heartbeat=wire.Heartbeat())
        await it.until(
            lambda state, at=heard: all((state.nodes[NodeId(x.node)].last_seen_at or 0) >= at for x in others)  # type: ignore[misc]
        )
    await it.job_is("train", JobState.RUNNING)
    await it.until(lambda state: state.jobs[JobId("train")].run == 2)
    # Its GPUs stay booked to the old run until somebody says that nothing works there.
    assert [each.run for each in it.state.nodes[NodeId(lost)].bookings] == [1]
    await it.cluster.FenceNode(cluster.FenceNodeRequest(id=lost))
    await it.until(lambda state: not state.nodes[NodeId(lost)].bookings)


@served(stream_grace_s=0.5)
async def test_a_node_whose_agents_stream_broke_is_given_up_though_its_lease_has_long_to_run(it: Served) -> None:
    agents = {each.node: each for each in await it.racks("a b c")}
    await submit(it, "train", 16)
    await it.job_is("train", JobState.RUNNING)
    lost = sorted(record(it, "train").job.placement)[0]  # type: ignore[attr-defined]
    await agents[lost].leave()
    await it.until(lambda state: state.jobs[JobId("train")].run == 2)
    await it.job_is("train", JobState.RUNNING)
    assert "stream broke" in it.state.nodes[NodeId(lost)].node.reason
    assert [each.run for each in it.state.nodes[NodeId(lost)].bookings] == [1]


@served(stream_grace_s=3600.0)
async def test_an_agent_that_comes_back_in_time_has_not_gone(it: Served) -> None:
    (a,) = await it.racks("a")
    for _ in range(2):
        await a.leave()
        await it.until(lambda state: state.nodes[NodeId("a")].parted_at is not None)
        await a.connect()
        await it.until(lambda state: state.nodes[NodeId("a")].parted_at is None)
    # One that is quick is not taken for gone afterwards.
    for _ in range(2):
        await a.leave()
        await a.connect()
    version = it.state.version
    await a.say(heartbeat=wire.Heartbeat())
    await it.until(lambda state: state.version > version)
    assert it.state.nodes[NodeId("a")].parted_at is None


# Restarts


def test_a_new_scheduler_adopts_what_agents_run_and_ends_what_nobody_knows() -> None:
    async def whole() -> None:
        store = MemoryStore()
        async with serving(store) as it:
            a, _ = await it.racks("a b")
            await submit(it, "train", 16)
            await it.job_is("train", JobState.RUNNING)
            await submit(it, "waits", 8)
            epoch = it.state.epoch
            held = dict(a.held)
        async with serving(store) as it:
            assert it.state.epoch > epoch
            assert record(it, "train").state is JobState.RUNNING  # type: ignore[attr-defined]
            assert record(it, "waits").state is JobState.QUEUED  # type: ignore[attr-defined]
            for name in ("a", "b"):
                agent = FakeAgent(it, name, types_pb2.NodeSpec(id=name, gpus=8), held=dict(held))
                if name == "a":
                    agent.held["ghost", 3] = wire.RUN_PHASE_STARTED
                await agent.connect()
            killed = await it.agents[0].asked("kill")
            assert (killed.header.job, killed.header.run) == ("ghost", 3)
            for agent in it.agents:
                # Of the run that is adopted nobody is asked anything.
                assert not any(each.HasField("start") or each.HasField("reserve") for each in agent.heard)
                await agent.report("train", 1, wire.OUTCOME_OK)
            await it.job_is("train", JobState.COMPLETED)
            await it.job_is("waits", JobState.RUNNING)

    asyncio.run(asyncio.wait_for(whole(), LONGEST_S))


def test_a_start_that_was_under_way_at_the_crash_is_carried_on() -> None:
    """The store is left as it was: the scheduler dies between Reserve and Start."""

    async def whole() -> None:
        store = MemoryStore()
        async with serving(store) as it:
            a, b = await it.racks("a b")
            b.deaf.add("reserve")
            await submit(it, "train", 16)
            await b.asked("reserve")
            await it.until(lambda state: len(state.jobs[JobId("train")].launch.ready) == 1)  # type: ignore[union-attr]
            held = dict(a.held)
        async with serving(store) as it:
            a = FakeAgent(it, "a", types_pb2.NodeSpec(id="a", gpus=8), held=dict(held))
            b = FakeAgent(it, "b", types_pb2.NodeSpec(id="b", gpus=8))
            await a.connect()
            await b.connect()
            asked = await b.asked("reserve")
            assert asked.header.epoch == it.state.epoch
            await it.job_is("train", JobState.RUNNING)
            assert record(it, "train").run == 1  # type: ignore[attr-defined]

    asyncio.run(asyncio.wait_for(whole(), LONGEST_S))


@served()
async def test_a_start_that_is_decided_in_one_go_with_a_registration_is_heard(it: Served) -> None:
    """While the store is busy b registers again, then a, the last one, has its room: both wait together."""
    leader = it.service.app.leader
    a, b = await it.racks("a b")
    a.deaf.add("reserve")
    await submit(it, "train", 16)
    await a.asked("reserve")
    await it.until(lambda state: len(state.jobs[JobId("train")].launch.ready) == 1)  # type: ignore[union-attr]
    busy, done, append = asyncio.Event(), asyncio.Event(), leader._append

    async def slowly(folded: object) -> None:
        busy.set()
        await done.wait()
        await append(folded)  # type: ignore[arg-type]

    async def until_wait(works: int) -> None:
        while leader.waiting < works:
            await asyncio.sleep(0.001)

    await b.leave()
    leader._append = slowly  # type: ignore[method-assign]
    other = asyncio.create_task(submit(it, "other", 8))
    await busy.wait()
    before = leader.waiting
    connecting = asyncio.create_task(b.connect())
    await until_wait(before + 1)
    await a.report("train", 1, wire.OUTCOME_RESERVED, port=29500)
    await until_wait(before + 2)
    done.set()
    await asyncio.gather(other, connecting)
    await it.job_is("train", JobState.RUNNING)
    await it.until(lambda state: state.jobs[JobId("train")].launch is None)


@served()
async def test_a_store_from_a_backup_begins_a_later_epoch_than_its_agents_know(it: Served) -> None:
    """All agents register again under it; what they run goes on, and commands are followed again."""
    a, b = await it.racks("a b")
    await it.scheduler.SubmitJob(api.SubmitJobRequest(job=types_pb2.JobSpec(id="train", gpus=8)))
    await it.job_is("train", JobState.RUNNING)
    runs = next(each for each in (a, b) if each.held)
    other = b if runs is a else a
    await other.leave()
    other.epoch, other.session = 41, 2
    await other.connect()
    assert (other.epoch, it.state.epoch) == (42, 42)
    await runs.leave()
    runs.session = 2
    await runs.connect()
    assert runs.epoch == 42
    assert it.state.jobs[JobId("train")].run == 1
    await it.scheduler.CancelJob(api.CancelJobRequest(id="train"))
    await it.job_is("train", JobState.CANCELLED)


@served()
async def test_an_epoch_that_never_was_is_refused(it: Served) -> None:
    """It would leave no room for those to come."""
    (a,) = await it.racks("a")
    await a.leave()
    a.epoch, a.session = 2**62, 2
    answer = await a.open()
    assert (answer.refused.code, answer.refused.reason) == (
        wire.REFUSAL_CODE_INVALID,
        f"epoch {2**62} was never in force",
    )
    assert it.state.epoch < 1000
