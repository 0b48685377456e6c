"""What the leader and those who follow it know, and that it is the same."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from optsched.engine.codec import restore_bytes
from optsched.errors import InternalError, StoreError
from optsched.planner.plan import PlanOptions
from optsched.server.answers import Answers
from optsched.server.runners import ProcessRunner
from optsched.store import MemoryStore
from optsched.values.ids import JobId
from optsched.values.job import JobState
from optsched.wire.v1 import scheduler_pb2, types_pb2
from tests.server.service import Served, serving
from tests.store.places import submits

QUICK = PlanOptions(budget_s=5.0, deterministic_s=0.5, prove=1)


async def submit(it: Served, count: int, gpus: int = 8) -> list[str]:
    jobs = [types_pb2.JobSpec(gpus=gpus) for _ in range(count)]
    answer = await it.scheduler.SubmitJobs(scheduler_pb2.SubmitJobsRequest(jobs=jobs))
    return list(answer.job_ids)


def test_a_process_that_follows_plans_and_saves_what_the_leader_has() -> None:
    """Gangs start by its plans; the state that it saves is the leader's; killed, it is started anew."""

    async def whole() -> None:
        runner = ProcessRunner(QUICK)
        async with serving(runner=runner) as it:
            await it.racks("a b")
            (first, *_) = await submit(it, 1)
            await it.job_is(first, JobState.RUNNING)
            leader = it.service.app.leader
            sequence, data = await runner.save()
            if sequence == leader.sequence:
                assert replace(restore_bytes(data), now=0.0) == replace(leader.state, now=0.0)
            assert runner._link is not None
            runner._link._process.kill()
            (second,) = await submit(it, 1)
            await it.job_is(second, JobState.RUNNING)

    asyncio.run(whole())


def test_a_process_that_went_astray_is_started_anew() -> None:
    """It misses a change: rather than plan on what is not so, it ends, and the next one is given the whole state."""

    async def whole() -> None:
        runner = ProcessRunner(QUICK)
        async with serving(runner=runner) as it:
            await it.racks("a")
            leader = it.service.app.leader
            leader.listeners.remove(runner)
            (job,) = await submit(it, 1)
            leader.listeners.append(runner)
            await it.job_is(job, JobState.RUNNING)

    asyncio.run(whole())


def test_the_state_is_saved_while_it_serves() -> None:
    """After so many entries, by whoever follows; what comes after is replayed."""

    async def whole() -> None:
        store = MemoryStore()
        async with serving(store, save_every=10) as it:
            names = await submit(it, 30)
            await submit(it, 1)
            saving = it.service.app.leader._saving
            assert saving is not None
            await saving
            sequence, _ = store._state or (0, b"")
            assert sequence >= 30
        found = store.open()
        assert found.state is not None
        assert {JobId(name) for name in names} <= restore_bytes(found.state).jobs.keys()

    asyncio.run(whole())


def test_pages_hold_every_job_once_in_the_order_of_submission() -> None:
    """Those of before a restart and those of after, ended ones too."""

    async def whole() -> None:
        store = MemoryStore()
        async with serving(store) as it:
            first = await submit(it, 7)
        async with serving(store) as it:
            second = await submit(it, 5)
            await it.scheduler.CancelJob(scheduler_pb2.CancelJobRequest(id=first[2]))
            seen: list[str] = []
            token = ""
            while True:
                asking = scheduler_pb2.ListJobsRequest(page_size=5, page_token=token)
                page = await it.scheduler.ListJobs(asking)
                assert page.total == 12
                seen += [each.id for each in page.jobs]
                token = page.next_page_token
                if not token:
                    break
            assert seen[:7] == sorted(first)
            assert seen[7:] == sorted(second)

    asyncio.run(whole())


def test_keys_that_are_asked_together_are_looked_up_together() -> None:
    """One look for the first, one for all that came meanwhile; a look that fails fails for those who asked."""

    class Counting(MemoryStore):
        looks: list[int]
        broken = False

        def known_keys(self, wanted):  # type: ignore[no-untyped-def]
            self.looks.append(len(wanted))
            if self.broken:
                raise StoreError("gone")
            return super().known_keys(wanted)

    async def whole() -> None:
        store = Counting()
        store.looks = []
        store.open()
        store.append(submits(1, 1), {"a": b"1", "b": b"2"})
        answers = Answers(store, set(store.key_prints()))
        assert await answers.known("c") is None
        assert store.looks == []
        first = asyncio.create_task(answers.known("a"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        rest = [asyncio.create_task(answers.known(key)) for key in ("a", "b", "c", "b")]
        assert [await first, *await asyncio.gather(*rest)] == [b"1", b"1", b"2", None, b"2"]
        assert store.looks == [1, 3]
        store.broken = True
        with pytest.raises(StoreError, match="gone"):
            await answers.known("a")
        store.broken = False
        assert await answers.known("b") == b"2"
        assert await answers.all_known([]) == {}

    asyncio.run(whole())


def test_a_bug_in_a_round_is_an_error_of_that_round() -> None:
    """Who follows goes on."""

    async def whole() -> None:
        runner = ProcessRunner(QUICK)
        async with serving() as it:
            runner.follow(it.service.app.leader)
            link = runner._link
            assert link is not None
            link.send("nonsense")
            with pytest.raises(InternalError, match="died"):
                await runner.decide()
            assert await runner.decide() is None
            runner.close()

    asyncio.run(whole())
