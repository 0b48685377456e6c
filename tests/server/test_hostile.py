"""Hostile input over both APIs: the right code, the field named, nothing stored, and the service goes on.

The cluster has two racks of two nodes of eight GPUs, and the teams `t` and `vision`.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import BadRequest
from google.rpc.status_pb2 import Status

from optsched.server.timely import Timely
from optsched.wire.convert import to_message
from optsched.wire.status import DETAILS_KEY
from optsched.wire.v1 import cluster_pb2 as cluster
from optsched.wire.v1 import scheduler_pb2 as api
from optsched.wire.v1 import types_pb2
from tests.server.service import Served, served

SMALL = str(Path(__file__).with_name("data") / "small.yaml")
CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "hostile.json"

Json = dict[str, Any]

JOB: Json = {"id": "j1", "team": "t", "gpus": 8}


def job(**more: object) -> Json:
    return JOB | more


BAD_JOBS: list[tuple[str, Json]] = [
    # The field that has to be named, and the job; each is one fault.
    *[("gpus", job(gpus=given)) for given in (-4, 0, 2.5, "8", None, True, [8], 2**31, 2**63 - 1, 2**64, 1e308)],
    *[("priority", job(priority=given)) for given in (2**63, -(10**9) - 1, 1.5, "P9", "", [1])],
    *[("estimated_runtime_s", job(estimated_runtime_s=given)) for given in (0, -1, 1e308, "2-12", "4:00", "60", None)],
    *[("cpus", job(cpus=given)) for given in (-1, 1e300, "4", None)],
    *[("memory_gb", job(memory_gb=given)) for given in (-0.5, 1e13)],
    ("gpus", job(gpus=10, gpus_per_node=8)),
    ("min_gpus", job(min_gpus=16, max_gpus=8)),
    ("min_gpus", job(min_gpus=0)),
    ("gpus", job(gpus=64, min_gpus=8, max_gpus=32)),
    ("gpus", job(gpus_per_node=16)),
    ("gpus_per_node", job(gpus_per_node=4, gpus_per_task=4)),
    *[("topology.required", job(topology={"required": level})) for level in ("pod", "Rack", "")],
    ("topology.preferred", job(topology={"required": "node", "preferred": "zone"})),
    ("topology", job(topology=["rack"])),
    ("topology_hint", job(topology_hint="the-moon")),
    ("topology_hint", job(topology_hint="rack", topology={"required": "rack"})),
    *[("start_deadline_at", job(start_deadline_at=at)) for at in (-5, "soon", 1e300)],
    *[
        ("id", job(id=name))
        for name in ("日本語-🚀", "a\x00b", "../../etc", "e\u0301", "é", "x" * 254, "", " ", "a\u202eb")
    ],
    *[("id", job(id=name)) for name in ("a b/c?d#e", "-rf", "a\n", "a\r\nSet-Cookie: x", 7, None)],
    *[("team", job(team=name)) for name in ("T", "nobody", "", "t ", 1)],
    ("priority", job(team="vision", priority="P0")),
    ("user", job(user="ada\x1b[2J")),
    ("exclude_nodes", job(exclude_nodes="n1")),
    ("gpu_types", job(gpu_types={"h100": -1})),
    ("gpu_types", job(gpu_types={"h100": 0})),
    ("slices[0].gpus", job(slices=[{"gpus": 3, "within": "node"}])),
    ("slices[0].within", job(slices=[{"gpus": 4, "within": "isle"}])),
    ("checkpoint.interval_s", job(checkpoint={"interval_s": 0})),
    ("checkpoint.interval_s", job(checkpoint={"interval_s": -900})),
    ("retries.infra", job(retries={"infra": -1})),
    ("grace_period_s", job(grace_period_s=-1)),
    ("after[0].job", job(after=[{"job": "ghost"}])),
    ("after[0].condition", job(after=[{"job": "j1", "condition": "sometime"}])),
    ("gpuz", job(gpuz=8)),
    ("state", job(state="running")),
    ("placement", job(placement={"r0n0": 8})),
    ("submitted_at", job(submitted_at=-1e9)),
    ("command", job(command="rm -rf /")),
    ("environment", job(environment={"A": 1})),
]


def names_of(error: grpc.aio.AioRpcError) -> list[str]:
    """The fields that a refusal names."""
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS_KEY:
            found = BadRequest()
            Status.FromString(value).details[0].Unpack(found)  # type: ignore[arg-type]
            return [each.field for each in found.field_violations]
    return []


def told(error: grpc.aio.AioRpcError) -> str:
    return f"{error.code().name}: {error.details()}"


def about(field: str, named: list[str]) -> bool:
    """Whether a refusal is about a field: that one, or something inside it."""
    return any(each == field or each.startswith((f"{field}.", f"{field}[")) for each in named)


async def over_rest(it: Served, verb: str, path: str, body: object) -> list[str]:
    """The fields that REST names in its refusal of a body."""
    answer = await it.http.request(verb, path, json=body)
    assert answer.status_code == 400, (body, answer.status_code, answer.text)
    error = answer.json()["error"]
    assert error["code"] == "INVALID_ARGUMENT"
    return [each["field"] for each in error["violations"]]


async def over_grpc(it: Served, call: Any, kind: type, plain: Json) -> list[str] | None:
    """The fields that gRPC names in its refusal; None where its messages cannot say such a thing."""
    try:
        message = to_message(kind, plain)
    except Exception:
        return None
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(message)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT, (plain, told(caught.value))
    return names_of(caught.value)


def is_absent(given: Json, field: str) -> bool:
    """Whether a message says with this value that there is none: an empty text, an absent number."""
    inner: Any = given
    for key in field.split("."):
        inner = inner.get(key) if isinstance(inner, dict) else None
    return inner in ("", None)


@served(start=SMALL)
async def test_a_job_that_is_wrong_is_refused_with_its_field_and_stored_nowhere(it: Served) -> None:
    await it.until(lambda state: not state.due)
    sequence = it.service.app.leader.sequence
    for field, given in BAD_JOBS:
        named = await over_rest(it, "POST", "/v1/jobs", given)
        assert about(field, named), (field, given, named)
        if is_absent(given, field):
            continue
        found = await over_grpc(it, it.scheduler.SubmitJob, api.SubmitJobRequest, {"job": given})
        assert found is None or about(f"job.{field}", found), (field, given, found)
    assert it.state.jobs == {}
    assert it.service.app.leader.sequence == sequence


BAD_TEAMS: list[tuple[str, list[Json]]] = [
    *[("teams[0].weight", [{"id": "a", "weight": given}]) for given in (-1, "NaN", "Infinity", 1e300, None)],
    ("teams[0].quota.gpus", [{"id": "a", "quota": {"gpus": -1}}]),
    ("teams[0].quota.gpus", [{"id": "a", "quota": {"gpus": 10**12}}]),
    ("teams[0].limit.cpus", [{"id": "a", "limit": {"cpus": -1.0}}]),
    ("teams[0].parent", [{"id": "a", "parent": "b"}, {"id": "b", "parent": "a"}]),
    ("teams[0].parent", [{"id": "a", "parent": "a"}]),
    ("teams[0].parent", [{"id": "a", "parent": "nobody"}]),
    ("teams[1].id", [{"id": "a"}, {"id": "a"}]),
    ("teams[0].id", [{"id": "a b"}]),
    ("teams[0].max_priority", [{"id": "a", "max_priority": "P9"}]),
    ("teams[0].wieght", [{"id": "a", "wieght": 2}]),
    ("teams", []),
]


@served(start=SMALL)
async def test_teams_that_are_wrong_change_nothing(it: Served) -> None:
    before = it.state.teams
    for field, given in BAD_TEAMS:
        named = await over_rest(it, "PUT", "/v1/teams", {"teams": given})
        assert about(field, named), (field, given, named)
        if given and given[0].get("weight", 0) is None:
            continue
        found = await over_grpc(it, it.cluster.SetTeams, cluster.SetTeamsRequest, {"teams": given})
        assert found is None or about(field, found), (field, given, found)
    circle = await it.http.put("/v1/teams", json={"teams": [{"id": "a", "parent": "b"}, {"id": "b", "parent": "a"}]})
    assert "a -> b -> a" in circle.text or "b -> a -> b" in circle.text
    assert it.state.teams == before


@served(start=SMALL)
async def test_a_weight_that_is_no_number_is_refused_in_both(it: Served) -> None:
    """JSON has no NaN; a message has."""
    raw = await it.http.put(
        "/v1/teams", content='{"teams": [{"id": "a", "weight": NaN}]}', headers={"content-type": "application/json"}
    )
    assert raw.status_code == 400
    for given in (float("nan"), float("inf")):
        team = types_pb2.Team(id="a", weight=given)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await it.cluster.SetTeams(cluster.SetTeamsRequest(teams=[team]))
        assert names_of(caught.value) == ["teams[0].weight"]
        spec = types_pb2.JobSpec(id="x", team="t", gpus=1, estimated_runtime_s=given)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await it.scheduler.SubmitJob(api.SubmitJobRequest(job=spec))
        assert names_of(caught.value) == ["job.estimated_runtime_s"]


@served(start=SMALL)
async def test_what_is_odd_but_lawful_is_taken_with_a_warning_that_names_the_numbers(it: Served) -> None:
    zero = {"teams": [{"id": "a", "weight": 0, "quota": {"gpus": 0}}, {"id": "b", "weight": 0, "quota": {"gpus": 0}}]}
    assert (await it.http.put("/v1/teams", json=zero)).json()["warnings"] == []
    much = {"teams": [{"id": "a", "quota": {"gpus": 30}}, {"id": "b", "quota": {"gpus": 30}}]}
    (warning,) = (await it.http.put("/v1/teams", json=much)).json()["warnings"]
    assert "60" in warning
    assert "32" in warning
    large = (await it.http.post("/v1/jobs", json=job(id="large", gpus=4096))).json()
    (warning,) = large["warnings"]
    assert "4096" in warning
    assert "32" in warning
    # A node has 8 GPUs, a rack 16.
    for level, gpus, most in (("node", 9, "8"), ("rack", 24, "16")):
        asked = job(id=f"in-{level}", gpus=gpus, topology={"required": level}) | (
            {"gpus_per_node": 8} if gpus > 9 else {}
        )
        (warning,) = (await it.http.post("/v1/jobs", json=asked)).json()["warnings"]
        assert f"the largest {level} has {most}" in warning
    shares = (await it.http.get("/v1/teams")).json()["teams"]
    assert all(each["dominant_share"] == 0.0 for each in shares)


BAD_NODES: list[tuple[str, list[Json]]] = [
    *[("nodes[0].gpus", [{"id": "n", "gpus": given}]) for given in (-1, 2**32 - 1, 2.5, "8")],
    ("nodes[0].domains", [{"id": "n", "gpus": 8, "domains": {"rack": ["r1", "r2"]}}]),
    ("nodes[0].domains.zone", [{"id": "n", "gpus": 8, "domains": {"zone": "z"}}]),
    ("nodes[1].id", [{"id": "n", "gpus": 8}, {"id": "n", "gpus": 8}]),
    ("nodes[0].state", [{"id": "n", "gpus": 8, "state": "up"}]),
    ("nodes[0].fabric", [{"id": "n", "gpus": 8, "fabric": "unknown"}]),
    ("nodes[0].gpus_bad", [{"id": "n", "gpus": 8, "gpus_bad": [8]}]),
    ("nodes[0].cpus", [{"id": "n", "gpus": 8, "cpus": -1.0}]),
]


@served(start=SMALL)
async def test_nodes_that_are_wrong_change_nothing(it: Served) -> None:
    before = it.state.nodes
    for field, given in BAD_NODES:
        named = await over_rest(it, "PUT", "/v1/nodes", {"nodes": given})
        assert about(field, named), (field, given, named)
        found = await over_grpc(it, it.cluster.SetNodes, cluster.SetNodesRequest, {"nodes": given})
        assert found is None or about(field, found), (field, given, found)
    assert it.state.nodes == before


BAD_WINDOWS: list[tuple[str, Json]] = [
    ("reservation.end_at", {"id": "w", "nodes": ["r0n0"], "start_at": 1000, "end_at": 1000}),
    ("reservation.end_at", {"id": "w", "nodes": ["r0n0"], "start_at": 2000, "end_at": 1000}),
    ("reservation.nodes", {"id": "w", "nodes": ["ghost"], "start_at": 1000, "end_at": 2000}),
    ("reservation.nodes", {"id": "w", "nodes": [], "start_at": 1000, "end_at": 2000}),
    ("reservation.teams", {"id": "w", "kind": "grant", "gpus": 8, "teams": ["x"], "start_at": 1000, "end_at": 2000}),
]


@served(start=SMALL)
async def test_windows_that_are_wrong_change_nothing(it: Served) -> None:
    for field, given in BAD_WINDOWS:
        named = await over_rest(it, "PUT", "/v1/reservations", {"reservation": given})
        assert about(field, named), (field, given, named)
        call, kind = it.cluster.SetReservation, cluster.SetReservationRequest
        found = await over_grpc(it, call, kind, {"reservation": given})
        assert found is None or about(field, found), (field, given, found)
    assert it.state.reservations == {}
    answer = await it.http.put("/v1/profile", json={"json": {"base": "default", "horizon_s": -1}})
    assert answer.json()["error"]["violations"][0]["field"] == "json.horizon_s"
    for name in ("ghost", "x" * 250, "/etc/passwd", "models/default.yaml", "a\x00b", "../models/default"):
        assert (await it.http.put("/v1/profile", json={"name": name})).status_code == 400, name
        assert (await it.http.put("/v1/profile", json={"json": {"base": name}})).status_code == 400, name
        snapshot = {"profile": name, "cluster": {"nodes": []}}
        assert (await it.http.post("/v1/plan", json={"snapshot": snapshot})).status_code == 400, name
        assert (await it.http.post("/v1/plan", json={"snapshot": {"cluster": name}})).status_code == 400, name


@served(start=SMALL, max_message_mib=1)
async def test_bodies_that_are_no_bodies_are_refused_before_they_cost_anything(it: Served) -> None:
    http, kind = it.http, {"content-type": "application/json"}

    async def status(content: bytes | str, **headers: str) -> tuple[int, str]:
        answer = await http.post("/v1/jobs", content=content, headers=kind | headers)
        return answer.status_code, answer.text

    assert (await status(b"x" * (2**20 + 1)))[0] == 413
    deep, text = await status("[" * 100_000)
    assert deep == 400
    assert "RecursionError" not in text
    nested, _ = await status('{"a":' * 50_000 + "1" + "}" * 50_000)
    assert nested == 400
    cut, text = await status('{"gpus": 8, "te')
    assert (cut, "line 1" in text) == (400, True)
    assert (await http.post("/v1/jobs", content="gpus=8", headers={"content-type": "text/plain"})).status_code == 415
    assert (await status(b'{"gpus": \xff}'))[0] == 400
    assert (await status('{"gpus": 8, "gpus": 16}'))[0] == 400
    assert (await status("[]"))[0] == 400
    assert (await status(""))[0] == 400
    assert (await status('{"gpus": 1}', **{"idempotency-key": "x" * 300}))[0] == 400
    assert (await http.get("/v1/jobs", params={"page_size": "many"})).status_code == 400
    assert (await http.get("/v1/jobs", params={"page_size": 10**6})).status_code == 400
    assert (await http.get("/v1/jobs", params={"stat": "queued"})).status_code == 400
    assert (await http.get("/v1/rounds/0")).status_code == 400
    assert (await http.delete("/v1/jobs")).status_code == 405
    assert (await http.get("/v2/jobs")).status_code == 404
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await it.scheduler.Plan(api.PlanRequest(snapshot="x" * (2**20 + 1)))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    raw = it.channel.unary_unary("/optsched.v1.Scheduler/SubmitJob")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await raw(b"\xff\xff\xff")
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert it.state.jobs == {}
    # Others did not notice.
    assert (await http.post("/v1/jobs", json=JOB)).status_code == 202


async def until_closed(address: str, *pieces: bytes) -> bytes:
    """Send pieces over a bare connection, and read until the other side closes it."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return await reader.read()
    finally:
        writer.close()


@served(start=SMALL, request_s=0.2)
async def test_who_sends_slowly_is_cut_off(it: Served) -> None:
    """A body that never comes, a head that never ends, and nothing at all."""
    head = b"POST /v1/jobs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n"
    answer = await until_closed(it.service.rest_address, head, b'{"gpus"')
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"did not come within" in answer
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Timely, "head_s", 0.05)
        assert await until_closed(it.service.rest_address, b"GET /v1/jobs HTTP/1.1\r\nhost") == b""
        assert await until_closed(it.service.rest_address) == b""
    assert (await it.http.get("/v1/status")).status_code == 200


@served(start=SMALL)
async def test_the_same_nodes_again_change_nothing(it: Served) -> None:
    body = {"nodes": [{"id": "r0n0", "gpus": 8, "gpu_type": "h100", "domains": {"rack": "r0"}}, {"id": "x", "gpus": 4}]}
    first = (await it.http.put("/v1/nodes", json=body)).json()["rules_version"]
    again = (await it.http.put("/v1/nodes", json=body)).json()["rules_version"]
    assert first == again
    moved = body["nodes"][0] | {"domains": {"rack": "r1"}}
    assert (await it.http.put("/v1/nodes", json={"nodes": [moved]})).json()["rules_version"] > again
    assert (await it.http.get("/v1/nodes/r0n0")).json()["spec"]["domains"] == {"rack": "r1"}


@served(start=SMALL)
async def test_a_crowd_of_dry_runs_is_sent_away_and_the_rest_goes_on(it: Served) -> None:
    answers = await asyncio.gather(*(it.http.post("/v1/plan", json={}) for _ in range(30)))
    codes = [each.status_code for each in answers]
    assert set(codes) == {200, 429}
    assert all("retry-after" in each.headers for each in answers if each.status_code == 429)


@served(start=SMALL, max_team_jobs=3)
async def test_one_teams_flood_leaves_room_for_others(it: Served) -> None:
    codes = [(await it.http.post("/v1/jobs", json={"gpus": 1, "team": "t"})).status_code for _ in range(5)]
    assert codes == [202, 202, 202, 429, 429]
    assert (await it.http.post("/v1/jobs", json={"gpus": 1, "team": "vision"})).status_code == 202


@served(start=SMALL)
async def test_a_dry_run_has_limits_of_its_own_and_touches_nothing(it: Served) -> None:
    await it.http.post("/v1/jobs", json=JOB)
    before = await it.until(lambda state: state.jobs["j1"].blocked_by != "")  # type: ignore[index]
    for body, field in (
        ({"without": ["ghost"]}, None),
        ({"budget_s": 3600}, "budget_s"),
        ({"profile": "ghost"}, "profile"),
        ({"jobs": [job(id="new")] * 1001}, "jobs"),
        ({"jobs": [job()]}, "jobs[0].id"),
        ({"snapshot": "- a list"}, "snapshot"),
        ({"snapshot": {"cluster": {"nodes": [{"id": "n", "gpus": -8}]}}}, "snapshot"),
    ):
        answer = await it.http.post("/v1/plan", json=body)
        assert answer.status_code == (404 if field is None else 400), answer.text
        if field is not None:
            named = [each["field"] for each in answer.json()["error"]["violations"]]
            assert about(field, named), (body, named)
    answer = await it.http.post("/v1/plan", json={"jobs": [job(id="new")], "without": ["j1"]})
    assert answer.status_code == 200
    assert it.state.jobs == before.jobs
    assert it.state.nodes.keys() == before.nodes.keys()


@pytest.mark.skipif(not CASES.is_file(), reason="the cases do not lie beside this checkout")
@served(start=SMALL)
async def test_the_cases_that_come_with_the_design_are_refused(it: Served) -> None:
    lawful = {("H07", 0), ("H09", 0), ("H09", 1)}
    for case in json.loads(CASES.read_text()):
        jobs = [each for each in case["give"] if isinstance(each, dict) and "gpus" in each and "id" in each]
        for number, given in enumerate(jobs):
            if case["id"] in ("H07", "H09", "H19") or (case["id"], number) in lawful:
                continue
            answer = await it.http.post("/v1/jobs", json=given)
            assert answer.status_code == 400, (case["id"], given, answer.text)
            assert answer.json()["error"]["violations"]
    assert it.state.jobs == {}
