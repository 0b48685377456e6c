"""The state of a running service as a snapshot: over REST and gRPC the same, and only read."""

from __future__ import annotations

import asyncio
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from optsched.clock import StoppedClock
from optsched.errors import NoAnswer, NotNamed, OptschedError, UsageError
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


@pytest.mark.parametrize(
    "address", ["127.0.0.1:7441", "ftp://127.0.0.1:1", "http://127.0.0.1", "http://a:b", "http://[::1", "grpc://[::1"]
)
def test_an_address_names_api_host_and_port(address: str) -> None:
    with pytest.raises(UsageError, match="allowed: http://HOST:PORT"):
        read_service(address, Access())


@pytest.mark.parametrize("scheme", ["http", "https", "grpc", "grpcs"])
def test_nobody_there_is_told_in_one_line(scheme: str) -> None:
    with pytest.raises(NoAnswer, match=r"127\.0\.0\.1.*onnection refused") as caught:
        read_service(f"{scheme}://127.0.0.1:1", Access())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_certificates_are_for_a_connection_that_is_encrypted(scheme: str) -> None:
    with pytest.raises(UsageError, match=f"--ca: given with {scheme}://; allowed: with https:// or grpcs://"):
        read_service(f"{scheme}://127.0.0.1:1", Access(ca="ca.pem"))


@pytest.mark.parametrize("scheme", ["https", "grpcs"])
def test_a_file_without_a_certificate_is_named_with_its_option(scheme: str, tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text("name: lab\n")
    with pytest.raises(UsageError, match=f"--ca: {path} holds no certificate; allowed: a PEM file with those to trust"):
        read_service(f"{scheme}://127.0.0.1:1", Access(ca=str(path)))


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Serve one answer, whatever is asked, and give the address."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.request.recv(65_536)
            self.wfile.write(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\n{}", UsageError, "does not answer as optsched serve does"),
        (b'HTTP/1.0 200 OK\r\n\r\n{"levels": 5}', UsageError, "does not answer as optsched serve does"),
        (b"HTTP/1.0 200 OK\r\n\r\n<html>", UsageError, "answers no JSON object"),
        (b"HTTP/1.0 200 OK\r\n\r\n[]", UsageError, "answers no JSON object"),
        (b"HTTP/1.0 404 Not Found\r\n\r\n", UsageError, "answers 404 Not Found; allowed: the REST address"),
        (b"HTTP/1.0 401 Unauthorized\r\n\r\n", NotNamed, "answers 401 Unauthorized; allowed: --token-file"),
        (b"HTTP/1.0 503 Away\r\n\r\n", NoAnswer, "answers 503 Away"),
        (b"hello\r\n", NoAnswer, "nobody answers at .*: hello"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{", NoAnswer, "nobody answers at .*IncompleteRead"),
        (b"", NoAnswer, "nobody answers at "),
    ],
)
def test_what_another_service_answers_is_told_in_one_line(answer: bytes, kind: type[OptschedError], said: str) -> None:
    with answering(answer) as address, pytest.raises(kind, match=said) as caught:
        read_service(address, Access())
    assert "\n" not in str(caught.value).strip()
