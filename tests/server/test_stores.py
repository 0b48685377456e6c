"""The service on a store that outlives it: what was acknowledged is there again, and one scheduler leads at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from optsched.errors import StoreInUse, UsageError
from optsched.server.serve import Service, _lead, serve
from optsched.server.settings import Settings
from optsched.store import open_store
from optsched.values.ids import JobId
from optsched.values.job import JobState
from optsched.wire.v1 import scheduler_pb2, types_pb2
from tests.server.service import QUICK, serving


def settings_of(path: Path, **more: object) -> Settings:
    return Settings.model_validate(QUICK | {"store": f"sqlite:///{path}/store.db", "grpc_listen": "off"} | more)


def test_jobs_and_keys_outlive_a_restart(tmp_path: Path) -> None:
    """Of a service that is stopped in order, and of one that never got to close its store."""

    async def whole() -> None:
        asking = scheduler_pb2.SubmitJobRequest(job=types_pb2.JobSpec(gpus=8), idempotency_key="once")
        async with serving(open_store(f"sqlite:///{tmp_path}/store.db")) as it:
            first = await it.scheduler.SubmitJob(asking)
            epoch = it.state.epoch
        async with serving(open_store(f"sqlite:///{tmp_path}/store.db")) as it:
            assert it.state.jobs[JobId(first.job_id)].state is JobState.QUEUED
            assert it.state.epoch > epoch
            again = await it.scheduler.SubmitJob(asking)
            assert (again.job_id, again.repeated_call) == (first.job_id, True)

    asyncio.run(whole())


def test_a_store_that_is_in_use_ends_a_service_or_lets_it_stand_by(tmp_path: Path) -> None:
    """It takes the lead as soon as the other one is gone."""
    other = open_store(f"sqlite:///{tmp_path}/store.db")
    other.open()

    async def whole() -> None:
        settings = settings_of(tmp_path)
        with pytest.raises(StoreInUse, match="in use by process"):
            await _lead(Service(settings, open_store(settings.store)), asyncio.Event())
        standing = Service(settings_of(tmp_path, stand_by=True), open_store(settings.store))
        leading = asyncio.create_task(_lead(standing, asyncio.Event()))
        await asyncio.sleep(0)
        assert not leading.done()
        other.close()
        assert await leading
        assert standing.app.leader.state.epoch >= 2
        await standing.stop()

    asyncio.run(whole())


def test_who_stands_by_may_be_stopped(tmp_path: Path) -> None:
    """It has nothing to close."""
    other = open_store(f"sqlite:///{tmp_path}/store.db")
    other.open()

    async def whole() -> None:
        settings = settings_of(tmp_path, stand_by=True)
        stop = asyncio.Event()
        stop.set()
        assert not await _lead(Service(settings, open_store(settings.store)), stop)

    asyncio.run(whole())
    other.close()


def test_a_url_that_names_no_store_is_told() -> None:
    """Before anything is served."""
    with pytest.raises(UsageError, match="mysql is no kind of store"):
        asyncio.run(serve(Settings.model_validate({"store": "mysql://host/db"}), lambda service: None))
