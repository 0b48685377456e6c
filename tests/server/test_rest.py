"""The REST side, over real HTTP: the three calls of the design, and the same answers as over gRPC."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from optsched.server.application import Application
from optsched.server.routes import ROUTES
from optsched.values.job import JobState
from optsched.wire.v1 import agent_pb2 as wire
from optsched.wire.v1 import cluster_pb2, scheduler_pb2
from tests.server.service import RACKS, Served, served

ASKED = {
    "gpus": 512,
    "topology_hint": "nvlink-domain",
    "priority": "P1",
    "checkpoint": {"interval_s": 900, "elastic": False},
}


@served(cluster="h100-10k")
async def test_a_job_is_submitted_as_the_design_shows_it(it: Served) -> None:
    answer = await it.http.post("/v1/jobs", json=ASKED)
    assert answer.status_code == 202
    assert answer.json() | {"job_id": ""} == {"job_id": "", "state": "queued", "repeated_call": False, "warnings": []}

    found = (await it.http.get(f"/v1/jobs/{answer.json()['job_id']}")).json()
    assert (found["state"], found["gang_size"], found["last_checkpoint"]) == ("queued", 512, None)
    assert found["priority"] == 3000
    assert found["spec"]["checkpoint"] == {"interval_s": 900}
    # An NVLink domain of this cluster is a box of 8: the gang is larger, so it is cut into eights, each inside one.
    assert found["spec"]["topology"] == {"preferred": "node"}
    assert found["spec"]["slices"] == [{"gpus": 8, "within": "node"}]


@served(cluster="gb200-nvl72-10k")
async def test_the_hint_means_the_rack_where_nvlink_spans_the_rack(it: Served) -> None:
    answer = await it.http.post("/v1/jobs", json=ASKED | {"id": "train", "gpus": 512})
    assert answer.status_code == 202
    spec = (await it.http.get("/v1/jobs/train")).json()["spec"]
    # A rack has 72 GPUs; 64 is the largest divisor of 512 that fits.
    assert spec["slices"][0]["gpus"] == 64
    assert spec["topology"]["preferred"] == spec["slices"][0]["within"] != "node"


@served()
async def test_preempting_over_rest_answers_with_the_grace(it: Served) -> None:
    (a,) = await it.racks("a")
    a.deaf.add("signal")
    body = {"id": "train", "gpus": 8, "checkpoint": {"on_signal": True}}
    assert (await it.http.post("/v1/jobs", json=body)).status_code == 202
    await it.job_is("train", JobState.RUNNING)
    await a.acked(await a.say(checkpoint=wire.Checkpoint(job="train", run=1, version="step-100", age_s=0.0)))
    answer = await it.http.post("/v1/jobs/train/preempt", json={"reason": "maintenance"})
    assert answer.status_code == 202
    assert answer.json()["checkpoint_triggered"] is True
    assert answer.json()["grace_period_s"] == 120.0
    job = (await it.http.get("/v1/jobs/train")).json()
    assert job["state"] == "preempting"
    assert job["checkpoints"][0]["version"] == "step-100"
    assert job["last_checkpoint"] == job["checkpoints"][0]["taken_at"]


@served()
async def test_what_cannot_be_preempted_is_a_conflict(it: Served) -> None:
    await it.http.post("/v1/jobs", json={"id": "waits", "gpus": 8})
    answer = await it.http.post("/v1/jobs/waits/preempt", json={"reason": "why not"})
    assert answer.status_code == 409
    assert answer.json()["error"]["code"] == "FAILED_PRECONDITION"
    assert (await it.http.post("/v1/jobs/nobody/preempt", json={})).status_code == 404


@served()
async def test_every_id_that_is_accepted_can_be_fetched_and_cancelled(it: Served) -> None:
    for name in ("a/b/c", "team@site:run+1", "x" * 253, "events", "a/events"):
        assert (await it.http.post("/v1/jobs", json={"id": name, "gpus": 1})).status_code == 202
        path = f"/v1/jobs/{quote(name, safe='')}"
        assert (await it.http.get(path)).json()["id"] == name
        assert (await it.http.get(f"{path}/events")).json()["events"][0]["job"] == name
        over_grpc = await it.scheduler.GetJob(scheduler_pb2.GetJobRequest(id=name))
        assert over_grpc.id == name
        assert (await it.http.post(f"{path}/cancel")).json()["state"] == "cancelled"


@served()
async def test_lists_come_page_by_page_and_by_filter(it: Served) -> None:
    for number in range(7):
        await it.http.post("/v1/jobs", json={"id": f"j{number}", "gpus": 1, "user": f"u{number % 2}"})
    seen: list[str] = []
    token = ""
    while True:
        page = (await it.http.get("/v1/jobs", params={"page_size": 3, "page_token": token})).json()
        assert page["total"] == 7
        seen += [job["id"] for job in page["jobs"]]
        token = page["next_page_token"]
        if not token:
            break
    assert seen == [f"j{number}" for number in range(7)]
    mine = (await it.http.get("/v1/jobs", params={"user": "u1", "state": ["queued", "running"]})).json()
    assert [job["id"] for job in mine["jobs"]] == ["j1", "j3", "j5"]
    assert (await it.http.get("/v1/jobs", params={"page_token": "zz"})).status_code == 400


@served(cluster=RACKS)
async def test_operators_change_the_rules_and_each_change_is_kept(it: Served) -> None:
    await it.racks("a", "b")
    teams = {"teams": [{"id": "vision", "quota": {"gpus": 8}}, {"id": "sub", "parent": "vision"}]}
    answer = await it.http.put("/v1/teams", json=teams)
    assert answer.status_code == 200
    version = answer.json()["rules_version"]
    stale = await it.http.put("/v1/teams", json=teams | {"expected_version": version - 1})
    assert (stale.status_code, stale.json()["error"]["code"]) == (409, "ABORTED")
    assert (await it.http.put("/v1/profile", json={"name": "quota"})).json()["name"] == "quota"
    window = {"id": "maint", "nodes": ["a"], "start_at": it.now() + 3600, "end_at": it.now() + 7200}
    assert (await it.http.put("/v1/reservations", json={"reservation": window})).status_code == 200
    assert (await it.http.get("/v1/reservations")).json()["reservations"][0]["id"] == "maint"
    assert (await it.http.post("/v1/nodes/b/cordon", json={"reason": "fan"})).json()["state"] == "cordoned"
    assert (await it.http.delete("/v1/reservations/maint")).status_code == 200
    changes = (await it.http.get("/v1/changes")).json()["changes"]
    kinds = [each["kind"] for each in changes]
    assert kinds == ["set_team", "set_profile", "set_reservation", "cordon", "drop_reservation"]
    assert changes[0]["json"] == teams
    over_grpc = await it.cluster.ListTeams(cluster_pb2.ListTeamsRequest())
    by_name = {each.team.id: each for each in over_grpc.teams}
    assert by_name["vision"].team.quota.gpus == 8
    assert by_name["sub"].team.parent == "vision"


@served()
async def test_watching_over_rest_sends_events(it: Served) -> None:
    async with it.http.stream("GET", "/v1/jobs:watch") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.aiter_lines()

        async def row() -> dict[str, object]:
            while not (line := await anext(lines)).startswith("data: "):
                continue
            return dict(json.loads(line.removeprefix("data: ")))

        assert (await row())["caught_up"] is True
        await it.http.post("/v1/jobs", json={"id": "late", "gpus": 1})
        found = await row()
        assert found["job"]["id"] == "late"  # type: ignore[index]


def test_every_method_of_the_contract_is_a_route() -> None:
    """All but those that are streams in both directions, or of bytes."""
    calls = {route.call for route in ROUTES}
    names = set()
    for module, service in ((scheduler_pb2, "Scheduler"), (cluster_pb2, "Cluster")):
        names |= {f"{service}.{method.name}" for method in module.DESCRIPTOR.services_by_name[service].methods}
    assert names - calls == {"Scheduler.Attach", "Scheduler.ReadLogs"}
    assert calls <= names


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.call)
def test_every_route_is_served(route: object) -> None:
    served_ = {*Application.answers(_Nothing()), *Application.streams(_Nothing())}  # type: ignore[arg-type]
    assert route.call in served_  # type: ignore[attr-defined]


class _Nothing:
    """Has whatever it is asked for."""

    def __getattr__(self, name: str) -> _Nothing:
        return self
