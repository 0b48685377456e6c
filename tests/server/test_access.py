"""Who may do what: every method for every role over both APIs, teams, nodes, rates, TLS, and what stands open."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import trustme
from google.protobuf.message_factory import GetMessageClass

from optsched.errors import InputError, UsageError
from optsched.server.access import METHODS, digest_of, load_tokens
from optsched.server.caller import Role
from optsched.server.grpc_api import SERVICES
from optsched.server.routes import ROUTES
from optsched.server.security import check_exposure
from optsched.server.settings import Settings
from optsched.store import MemoryStore
from optsched.values.ids import JobId
from optsched.wire.v1 import agent_pb2 as wire
from optsched.wire.v1 import agent_pb2_grpc, cluster_pb2_grpc, scheduler_pb2_grpc, types_pb2
from optsched.wire.v1 import cluster_pb2 as cluster
from optsched.wire.v1 import scheduler_pb2 as api
from tests.server.service import LONGEST_S, FakeAgent, Served, serving

HERE = Path(__file__).parent
SMALL = str(HERE / "data" / "small.yaml")

TOKENS = {role: f"secret-of-the-{role.value}" for role in Role}


def write_tokens(folder: Path) -> str:
    path = folder / "tokens.yaml"
    rows = [
        f"- {{name: ada, role: submitter, sha256: {digest_of(TOKENS[Role.SUBMITTER])}, teams: [t]}}",
        f"- {{name: ops, role: operator, sha256: {digest_of(TOKENS[Role.OPERATOR])}}}",
        f"- {{name: node-a, role: agent, sha256: {digest_of(TOKENS[Role.AGENT])}, nodes: [a]}}",
        "- {name: by-cert, role: operator, certificate: front-end}",
    ]
    path.write_text("tokens:\n" + "\n".join(rows))
    return str(path)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_tokens(tmp_path_factory.mktemp("tokens"))


def bearer(token: str | None) -> tuple[tuple[str, str], ...]:
    return () if token is None else (("authorization", f"Bearer {token}"),)


def run(whole: Any) -> None:
    asyncio.run(asyncio.wait_for(whole(), LONGEST_S))


# The matrix


def test_every_method_of_the_contract_is_in_the_table() -> None:
    named = {f"{service.name}.{method.name}" for service in SERVICES for method in service.methods}
    assert METHODS.keys() - {"metrics"} == named
    assert {route.call for route in ROUTES} <= METHODS.keys()


async def code_of(it: Served, service: Any, method: Any, token: str | None) -> grpc.StatusCode:
    """What a method answers to an empty request, or OK where it begins to stream.

    A call may be refused before its first request is written: that shows as an internal error of the client's own.
    """
    code = grpc.StatusCode.INTERNAL
    for _ in range(5):
        if code is grpc.StatusCode.INTERNAL:
            code = await _code_of(it, service, method, token)
    return code


async def _code_of(it: Served, service: Any, method: Any, token: str | None) -> grpc.StatusCode:
    path = f"/{service.full_name}/{method.name}"
    taken, given = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    how = {"request_serializer": taken.SerializeToString, "response_deserializer": given.FromString}
    try:
        if method.client_streaming:
            call = it.channel.stream_stream(path, **how)(metadata=bearer(token))
            await call.write(taken())
            await call.done_writing()
            await call.read()
        elif method.server_streaming:
            call = it.channel.unary_stream(path, **how)(taken(), metadata=bearer(token))
            await call.wait_for_connection()
            call.cancel()
        else:
            await it.channel.unary_unary(path, **how)(taken(), metadata=bearer(token))
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


SHUT = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)


def test_over_grpc_each_method_is_open_to_its_roles_and_shut_to_all_others(tokens: str) -> None:
    async def whole() -> None:
        async with serving(start=SMALL, tokens=tokens) as it:
            for service in SERVICES:
                for method in service.methods:
                    name = f"{service.name}.{method.name}"
                    for role in Role:
                        code = await code_of(it, service, method, TOKENS[role])
                        if role in METHODS[name]:
                            assert code not in SHUT, (name, role)
                        else:
                            assert code is grpc.StatusCode.PERMISSION_DENIED, (name, role, code)
                    for token in (None, "wrong", TOKENS[Role.OPERATOR] + "x"):
                        code = await code_of(it, service, method, token)
                        assert code is grpc.StatusCode.UNAUTHENTICATED, (name, token, code)

    run(whole)


def test_over_rest_each_route_is_open_to_its_roles_and_shut_to_all_others(tokens: str) -> None:
    async def whole() -> None:
        async with serving(start=SMALL, tokens=tokens) as it:
            rows = [(route.call, route.verb, route.path.replace("{id}", "1")) for route in ROUTES if not route.streams]
            for call, verb, path in [*rows, ("metrics", "GET", "/metrics")]:
                for role in Role:
                    answer = await it.http.request(verb, path, headers=dict(bearer(TOKENS[role])))
                    if role in METHODS[call]:
                        assert answer.status_code not in (401, 403), (call, role, answer.text)
                    else:
                        assert answer.status_code == 403, (call, role, answer.text)
                for header in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic b3BzOng="}):
                    answer = await it.http.request(verb, path, headers=header)
                    assert answer.status_code == 401, (call, header, answer.text)
                    assert answer.headers["www-authenticate"] == "Bearer"
            # What says nothing about anybody is open: is it alive, and what can be asked.
            assert (await it.http.get("/healthz")).status_code == 200
            assert (await it.http.get("/openapi.json")).status_code == 200

    run(whole)


# Teams


def test_a_submitter_sees_and_changes_the_jobs_of_its_teams_only(tokens: str) -> None:
    async def whole() -> None:
        async with serving(start=SMALL, tokens=tokens) as it:
            ada, ops = dict(bearer(TOKENS[Role.SUBMITTER])), dict(bearer(TOKENS[Role.OPERATOR]))
            mine = await it.http.post("/v1/jobs", json={"id": "mine", "gpus": 8}, headers=ada)
            assert mine.status_code == 202
            # The team comes from the token.
            assert it.state.jobs[JobId("mine")].job.team == "t"
            theirs = {"id": "theirs", "gpus": 8, "team": "vision"}
            assert (await it.http.post("/v1/jobs", json=theirs, headers=ada)).status_code == 403
            assert (await it.http.post("/v1/jobs", json=theirs, headers=ops)).status_code == 202
            for verb, path in (
                ("GET", "/v1/jobs/theirs"),
                ("PATCH", "/v1/jobs/theirs"),
                ("GET", "/v1/jobs/theirs/events"),
                ("GET", "/v1/jobs/theirs/explain"),
                *(("POST", f"/v1/jobs/theirs/{what}") for what in ("cancel", "preempt", "hold", "release")),
            ):
                assert (await it.http.request(verb, path, headers=ada)).status_code == 403, path
            listed = (await it.http.get("/v1/jobs", headers=ada)).json()
            assert ([each["id"] for each in listed["jobs"]], listed["total"]) == (["mine"], 1)
            batch = {"jobs": [{"id": "x", "gpus": 1}, {"id": "y", "gpus": 1, "team": "vision"}]}
            assert (await it.http.post("/v1/jobs:batch", json=batch, headers=ada)).status_code == 403
            plan = await it.http.post("/v1/plan", json={"without": ["theirs"]}, headers=ada)
            assert plan.status_code == 403
            plan = await it.http.post("/v1/plan", json={"jobs": [{"gpus": 1, "team": "vision"}]}, headers=ada)
            assert plan.status_code == 403
            assert set(it.state.jobs) == {"mine", "theirs"}
            watch = scheduler_pb2_grpc.SchedulerStub(it.channel).WatchJobs(
                api.WatchJobsRequest(), metadata=bearer(TOKENS[Role.SUBMITTER])
            )
            first = await watch.read()
            assert first.job.id == "mine"
            assert (await watch.read()).caught_up
            watch.cancel()

    run(whole)


def test_an_idempotency_key_is_the_callers_own(tokens: str) -> None:
    async def whole() -> None:
        async with serving(start=SMALL, tokens=tokens) as it:
            ids = set()
            for role in (Role.SUBMITTER, Role.OPERATOR):
                headers = dict(bearer(TOKENS[role])) | {"idempotency-key": "1"}
                answer = await it.http.post("/v1/jobs", json={"gpus": 1, "team": "t"}, headers=headers)
                ids.add(answer.json()["job_id"])
            assert len(ids) == 2

    run(whole)


def test_an_agent_speaks_for_the_nodes_of_its_token_only(tokens: str) -> None:
    async def whole() -> None:
        async with serving(tokens=tokens) as it:
            for node, served in (("a", True), ("b", False)):
                call = agent_pb2_grpc.AgentStub(it.channel).Connect(metadata=bearer(TOKENS[Role.AGENT]))
                spec = types_pb2.NodeSpec(id=node, gpus=8)
                await call.write(wire.AgentMessage(register=wire.Register(node=node, agent="x", session=1, spec=spec)))
                if served:
                    assert (await call.read()).HasField("registered")
                else:
                    with pytest.raises(grpc.aio.AioRpcError) as caught:
                        await call.read()
                    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
                call.cancel()
            assert list(it.state.nodes) == ["a"]

    run(whole)


def test_who_asks_too_often_is_sent_away_and_others_are_not(tokens: str) -> None:
    async def whole() -> None:
        async with serving(start=SMALL, tokens=tokens, rate_per_s=5) as it:
            ada, ops = dict(bearer(TOKENS[Role.SUBMITTER])), dict(bearer(TOKENS[Role.OPERATOR]))
            answers = [await it.http.get("/v1/status", headers=ada) for _ in range(40)]
            refused = [each for each in answers if each.status_code == 429]
            assert refused
            assert int(refused[0].headers["retry-after"]) >= 1
            assert (await it.http.get("/v1/status", headers=ops)).status_code == 200

    run(whole)


# Secrets


def test_no_secret_is_ever_logged(tokens: str, caplog: pytest.LogCaptureFixture) -> None:
    async def whole() -> None:
        async with serving(start=SMALL, tokens=tokens, log_level="debug") as it:
            job = {"gpus": 1, "team": "t", "environment": {"API_KEY": "hunter2-secret"}}
            for token in ("not-a-token-but-secret", TOKENS[Role.SUBMITTER]):
                await it.http.post("/v1/jobs", json=job, headers=dict(bearer(token)))
                await code_of(it, SERVICES[0], SERVICES[0].methods[0], token)

    logging.getLogger("optsched").propagate = True
    with caplog.at_level(logging.DEBUG):
        run(whole)
    assert caplog.records
    for record in caplog.records:
        assert "secret" not in f"{record.getMessage()} {record.__dict__}"


# Files of tokens


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ("{name: a, role: root, sha256: " + "ab" * 32 + "}", "role"),
        ("{name: a, role: operator}", "sha256"),
        ("{name: a, role: operator, sha256: my-token}", "sha256"),
        ("{name: a, role: submitter, sha256: " + "ab" * 32 + "}", "teams"),
        ("{name: a, role: operator, teams: [t], sha256: " + "ab" * 32 + "}", "teams"),
        ("{name: a, role: operator, nodes: [n], sha256: " + "ab" * 32 + "}", "nodes"),
        ("{name: a, role: operator, token: my-token, sha256: " + "ab" * 32 + "}", "token"),
    ],
)
def test_a_file_of_tokens_that_is_wrong_is_refused_with_the_field(tmp_path: Path, row: str, field: str) -> None:
    path = tmp_path / "tokens.yaml"
    path.write_text(f"tokens:\n- {row}\n")
    with pytest.raises(InputError) as caught:
        load_tokens(str(path))
    assert any(field in fault.field for fault in caught.value.faults)


# What stands open


def settings(**more: object) -> Settings:
    return Settings.model_validate(more)


def test_loopback_without_configuration_is_open_and_says_so() -> None:
    (notice,) = check_exposure(settings())
    assert "everything" in notice


@pytest.mark.parametrize("listen", ["0.0.0.0:7440", "[::]:7440", "scheduler.example:7440", "10.1.2.3:7440"])
def test_beyond_loopback_tokens_and_tls_are_needed_or_an_explicit_word(listen: str) -> None:
    with pytest.raises(UsageError, match="--tokens FILE, a loopback address, or --allow-open true"):
        check_exposure(settings(grpc_listen=listen))
    with pytest.raises(UsageError, match="--allow-plaintext true"):
        check_exposure(settings(grpc_listen=listen, tokens="t.yaml"))
    assert check_exposure(settings(grpc_listen=listen, tokens="t", tls_certificate="c", tls_key="k")) == []
    assert len(check_exposure(settings(grpc_listen=listen, allow_open=True, allow_plaintext=True))) == 2


@pytest.mark.parametrize("half", [{"tls_key": "k"}, {"tls_certificate": "c"}, {"tls_client_ca": "ca"}])
def test_half_of_a_tls_configuration_is_refused(half: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="tls_"):
        check_exposure(settings(**half))


# TLS


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pki")
    ca, other = trustme.CA(), trustme.CA()
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    server = ca.issue_cert("localhost", "127.0.0.1")
    client = ca.issue_cert("front-end.test", common_name="front-end")
    stranger = other.issue_cert("front-end.test", common_name="front-end")
    found = {"ca": str(folder / "ca.pem")}
    for name, cert in (("server", server), ("client", client), ("stranger", stranger)):
        cert.private_key_pem.write_to_path(str(folder / f"{name}.key"))
        cert.cert_chain_pems[0].write_to_path(str(folder / f"{name}.pem"))
        found |= {f"{name}.key": str(folder / f"{name}.key"), f"{name}.pem": str(folder / f"{name}.pem")}
    return found


def secure_channel(address: str, pki: dict[str, str], who: str | None) -> grpc.aio.Channel:
    pair: dict[str, bytes] = {}
    if who is not None:
        pair = {
            "private_key": Path(pki[f"{who}.key"]).read_bytes(),
            "certificate_chain": Path(pki[f"{who}.pem"]).read_bytes(),
        }
    credentials = grpc.ssl_channel_credentials(Path(pki["ca"]).read_bytes(), **pair)
    return grpc.aio.secure_channel(address, credentials)


async def status_over(channel: grpc.aio.Channel, token: str | None = None) -> grpc.StatusCode:
    stub: Any = cluster_pb2_grpc.ClusterStub(channel)
    try:
        await stub.GetStatus(cluster.GetStatusRequest(), metadata=bearer(token), timeout=10)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def tls(pki: dict[str, str], *, mutual: bool) -> dict[str, str]:
    found = {"tls_certificate": pki["server.pem"], "tls_key": pki["server.key"]}
    return found | {"tls_client_ca": pki["ca"]} if mutual else found


def client_context(pki: dict[str, str], who: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=pki["ca"])
    if who is not None:
        context.load_cert_chain(pki[f"{who}.pem"], pki[f"{who}.key"])
    return context


def test_tls_is_spoken_on_both_sides_and_nothing_else(pki: dict[str, str], tokens: str) -> None:
    async def whole() -> None:
        async with serving(store=MemoryStore(), tokens=tokens, **tls(pki, mutual=False)) as it:
            token = TOKENS[Role.OPERATOR]
            async with secure_channel(it.service.grpc_address, pki, None) as channel:
                assert await status_over(channel, token) is grpc.StatusCode.OK
                assert await status_over(channel) is grpc.StatusCode.UNAUTHENTICATED
            assert await status_over(it.channel, token) is grpc.StatusCode.UNAVAILABLE
            url = f"https://{it.service.rest_address}/v1/status"
            async with httpx.AsyncClient(verify=client_context(pki, None), trust_env=False) as http:
                assert (await http.get(url, headers=dict(bearer(token)))).status_code == 200
            with pytest.raises(httpx.HTTPError):
                await it.http.get("/v1/status", headers=dict(bearer(token)))

    run(whole)


def test_mutual_tls_lets_in_whom_the_authority_vouches_for_and_names_them(pki: dict[str, str], tokens: str) -> None:
    async def whole() -> None:
        async with serving(store=MemoryStore(), tokens=tokens, **tls(pki, mutual=True)) as it:
            for who, expected in (("client", "OK"), ("stranger", "UNAVAILABLE"), (None, "UNAVAILABLE")):
                async with secure_channel(it.service.grpc_address, pki, who) as channel:
                    # The certificate's name is that of an operator in the file of tokens: no token is needed.
                    assert (await status_over(channel)).name == expected, who
            url = f"https://{it.service.rest_address}/v1/status"
            token = dict(bearer(TOKENS[Role.OPERATOR]))
            async with httpx.AsyncClient(verify=client_context(pki, "client"), trust_env=False) as http:
                assert (await http.get(url, headers=token)).status_code == 200
            async with httpx.AsyncClient(verify=client_context(pki, None), trust_env=False) as http:
                with pytest.raises(httpx.HTTPError):
                    await http.get(url, headers=token)

    run(whole)


def test_agents_of_an_open_service_need_no_token() -> None:
    async def whole() -> None:
        async with serving() as it:
            agent = FakeAgent(it, "a", types_pb2.NodeSpec(id="a", gpus=8))
            await agent.connect()

    run(whole)
