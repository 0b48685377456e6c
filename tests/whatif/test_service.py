"""The state of a running service as a snapshot: over REST and gRPC the same, and only read."""

from __future__ import annotations

import asyncio

import pytest

from optsched.clock import StoppedClock
from optsched.errors import UsageError
from optsched.values.ids import JobId
from optsched.values.job import JobState
from optsched.values.snapshot import Snapshot
from optsched.whatif.ask import Asking, answer
from optsched.whatif.executors import Here
from optsched.whatif.futures import FutureRules
from optsched.whatif.scenarios import Questions
from optsched.whatif.service import Access, read_service
from tests.server.service import RACKS, Served, served


async def snapshots(it: Served) -> tuple[Snapshot, Snapshot]:
    """Read over REST and over gRPC; other threads, since the service is in this one."""
    rest, _ = await asyncio.to_thread(read_service, f"http://{it.service.rest_address}", Access())
    grpc, _ = await asyncio.to_thread(read_service, f"grpc://{it.service.grpc_address}", Access())
    return rest, grpc


@served(cluster=RACKS)
async def test_a_service_is_read_over_both_apis_and_left_as_it_is(it: Served) -> None:
    await it.racks("a b", "c d")
    teams = {"teams": [{"id": "vision", "quota": {"gpus": 16}, "weight": 2}]}
    assert (await it.http.put("/v1/teams", json=teams)).status_code == 200
    runs = {"id": "runs", "team": "vision", "gpus": 16, "priority": "P2", "estimated_runtime_s": 3600}
    assert (await it.http.post("/v1/jobs", json=runs)).status_code == 202
    await it.job_is("runs", JobState.RUNNING)
    waits = {"id": "waits", "team": "vision", "gpus": 32, "priority": "P3", "estimated_runtime_s": 60}
    assert (await it.http.post("/v1/jobs", json=waits)).status_code == 202
    held = {"id": "held", "team": "vision", "gpus": 1, "hold": True}
    assert (await it.http.post("/v1/jobs", json=held)).status_code == 202
    await it.until(lambda state: not state.due)

    before = it.state
    rest, grpc = await snapshots(it)
    assert rest.cluster == grpc.cluster
    assert (rest.teams, rest.profile, rest.reservations) == (grpc.teams, grpc.profile, grpc.reservations)
    assert rest.jobs == grpc.jobs
    assert [(node.id, node.domains["rack"]) for node in rest.cluster.nodes] == [
        *(("a", "r0"), ("b", "r0")),
        *(("c", "r1"), ("d", "r1")),
    ]
    # A job that somebody holds back is no part of what may start.
    by_id = {job.id: job for job in rest.jobs}
    assert set(by_id) == {"runs", "waits"}
    record = before.jobs[JobId("runs")].job
    runs_as_read = by_id[JobId("runs")]
    assert (runs_as_read.state, runs_as_read.placement) == (JobState.RUNNING, record.placement)
    assert (runs_as_read.started_at, runs_as_read.priority) == (record.started_at, record.priority)
    assert by_id[JobId("waits")].state is JobState.QUEUED

    asking = Asking(FutureRules(horizon_s=7200.0), futures=2)
    found = await asyncio.to_thread(
        answer, rest, Questions((JobId("waits"),)), asking, Here(StoppedClock()), lambda stage, share: None
    )
    assert found.scenarios[0].now.jobs["waits"].fate == "waits"
    # The agents' signs of life aside, nothing has changed by being asked.
    assert it.state.jobs == before.jobs
    assert (it.state.teams, it.state.rules_changed) == (before.teams, before.rules_changed)


@pytest.mark.parametrize("address", ["127.0.0.1:7441", "ftp://127.0.0.1:1", "http://127.0.0.1", "http://a:b"])
def test_an_address_names_api_host_and_port(address: str) -> None:
    with pytest.raises(UsageError, match="allowed: http://HOST:PORT"):
        read_service(address, Access())


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_nobody_there_is_told_in_one_line(scheme: str) -> None:
    with pytest.raises(UsageError, match=r"allowed: the .* address of a service that runs") as caught:
        read_service(f"{scheme}://127.0.0.1:1", Access())
    assert "\n" not in str(caught.value)
