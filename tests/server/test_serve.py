"""The service as a program: settings and where they come from, start, end, standing by; pressure, and a full disk."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from optsched.engine.log import LogEntry
from optsched.engine.ports import NO_KEYS
from optsched.errors import InputError, StoreFull
from optsched.server.settings import Settings, load_settings
from optsched.store import MemoryStore
from optsched.values.job import JobState
from optsched.wire.v1 import scheduler_pb2 as api
from optsched.wire.v1 import types_pb2
from tests.server.service import LONGEST_S, Served, served, serving

ROOT = Path(__file__).resolve().parents[2]

# Settings


def test_a_flag_goes_before_the_environment_before_the_file_before_the_default(tmp_path: Path) -> None:
    path = tmp_path / "service.yaml"
    path.write_text("max_jobs: 1\nmax_waiting: 2\nmax_message_mib: 3\n")
    environment = {"OPTSCHED_MAX_JOBS": "10", "OPTSCHED_MAX_WAITING": "20", "PATH": "/bin"}
    found = load_settings({"max_jobs": "100"}, environment, str(path))
    assert (found.max_jobs, found.max_waiting, found.max_message_mib) == (100, 20, 3)
    assert found.save_every == Settings().save_every
    by_name = load_settings({}, {"OPTSCHED_CONFIG": str(path)}, None)
    assert by_name.max_jobs == 1


def test_every_fault_of_the_settings_is_told_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "service.yaml"
    path.write_text("max_jobs: many\nlisten: 0.0.0.0:1\n")
    with pytest.raises(InputError) as caught:
        load_settings({"grpc_listen": "nowhere"}, {"OPTSCHED_BUDGET_S": "-1"}, str(path))
    told = str(caught.value)
    for part in ("service.yaml:1: max_jobs", "service.yaml:2: listen", "OPTSCHED_BUDGET_S", "--grpc-listen"):
        assert part in told
    assert len(caught.value.faults) == 4


# The program


class Program:
    """`optsched serve`, running."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "optsched.cli", "serve", "--grpc-listen", "127.0.0.1:0"]
        command += ["--rest-listen", "127.0.0.1:0", "--rounds-in", "thread", *arguments]
        self.process = Popen(command, cwd=ROOT, stdout=PIPE, stderr=PIPE, text=True)
        self.lines: list[str] = []

    def line(self, part: str) -> str:
        """Read until a line has some words, and return it."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if part in line:
                return line
        raise AssertionError(f"{part!r} was never said: {''.join(self.lines)}")

    def addresses(self) -> tuple[str, str]:
        line = self.line("optsched serves:")
        words = line.replace(",", "").split()
        return words[words.index("gRPC") + 1], words[words.index("REST") + 1]

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Tell it to end; return the exit code, and what it said."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, "".join(self.lines) + errors


@contextmanager
def program(*arguments: str) -> Iterator[Program]:
    made = Program(*arguments)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.process.kill()
            made.process.wait()
        for stream in (made.process.stdout, made.process.stderr):
            if stream is not None and not stream.closed:
                stream.close()


def test_it_starts_says_that_it_is_open_serves_and_ends_in_order(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'store.db'}"
    with program("--store", store, "--log-format", "json") as it:
        assert "everything" in it.line("open: no tokens")
        _, rest = it.addresses()
        answer = httpx.post(f"http://{rest}/v1/jobs", json={"id": "train", "gpus": 8}, trust_env=False)
        assert answer.status_code == 202
        with program("--store", store) as second:
            code, told = second.wait()
            assert code == 1
            assert "in use by process" in told
            assert "Traceback" not in told
        code, told = it.end()
        assert code == 0, told
        assert "stopped" in told
    with program("--store", store) as again:
        _, rest = again.addresses()
        found = httpx.get(f"http://{rest}/v1/jobs/train", trust_env=False).json()
        assert found["state"] == "queued"
        assert again.end(signal.SIGINT)[0] == 0


def test_one_that_stands_by_leads_once_the_other_is_gone(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'store.db'}"
    with program("--store", store) as first:
        _, rest = first.addresses()
        httpx.post(f"http://{rest}/v1/jobs", json={"id": "train", "gpus": 8}, trust_env=False)
        with program("--store", store, "--stand-by", "true") as second:
            second.line("standing by")
            first.process.kill()
            _, rest = second.addresses()
            found = httpx.get(f"http://{rest}/v1/status", trust_env=False).json()
            assert (found["epoch"], found["jobs_by_state"]) == (2, {"queued": 1})


def test_one_that_stands_by_can_be_told_to_end(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'store.db'}"
    with program("--store", store) as first:
        first.addresses()
        with program("--store", store, "--stand-by", "true") as second:
            second.line("standing by")
            assert second.end()[0] == 0


def test_what_cannot_be_served_is_one_line_and_an_exit_code(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for flag in ("--rest-listen", "--grpc-listen"):
            with program("--store", "memory:", flag, f"127.0.0.1:{port}") as it:
                code, told = it.wait()
                assert code == 2, told
                assert f"127.0.0.1:{port} cannot be listened on" in told
                assert "Traceback" not in told
    for arguments in (
        ("--grpc-listen", "0.0.0.0:0"),
        ("--tokens", str(tmp_path / "none.yaml")),
        ("--tls-certificate", "c.pem", "--tls-key", "k.pem"),
        ("--store", "mysql://x"),
        ("--cluster", "ghost"),
    ):
        with program("--store", "memory:", *arguments) as it:
            code, told = it.wait()
            assert code == 2, told
            assert "Traceback" not in told


# What it says of itself


@served()
async def test_it_tells_that_it_is_up_and_what_it_offers(it: Served) -> None:
    stub: Any = health_pb2_grpc.HealthStub(it.channel)
    for name in ("", "optsched.v1.Scheduler", "optsched.v1.Cluster", "optsched.v1.Agent"):
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=name))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    assert (await it.http.get("/healthz")).json() == {"status": "ok"}

    def reflected() -> set[str]:
        with grpc.insecure_channel(it.service.grpc_address) as channel:
            return set(ProtoReflectionDescriptorDatabase(channel).get_services())

    names = await asyncio.to_thread(reflected)
    assert {"optsched.v1.Scheduler", "optsched.v1.Cluster", "optsched.v1.Agent", "grpc.health.v1.Health"} <= names


async def code_at_the_end(call: Any) -> grpc.StatusCode:
    """Read a stream to its end, and return its status."""
    try:
        while await call.read() is not grpc.aio.EOF:
            continue
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@served()
async def test_a_deadline_is_respected(it: Served) -> None:
    """A watch has no end of its own."""
    call = it.scheduler.WatchJobs(api.WatchJobsRequest(), timeout=0.2)
    assert await code_at_the_end(call) is grpc.StatusCode.DEADLINE_EXCEEDED
    hub = it.service.app.hub
    while hub.count:
        await asyncio.sleep(0)


# Pressure


class SlowStore(MemoryStore):
    """A disk that waits for a word, and that may be full."""

    def __init__(self) -> None:
        super().__init__()
        self.blocked = False
        self.full = False
        self.waits = False
        self.refused = 0

    def append(self, entries: Sequence[LogEntry], keys: Mapping[str, bytes] = NO_KEYS) -> None:
        while self.blocked:
            self.waits = True
            time.sleep(0.001)
        if self.full:
            self.refused += 1
            raise StoreFull("no room is left; nothing was stored")
        super().append(entries, keys)


def test_more_than_is_taken_in_is_sent_away_and_reads_go_on() -> None:
    async def whole() -> None:
        store = SlowStore()
        async with serving(store, max_waiting=20) as it:
            await it.until(lambda state: not state.due)
            store.blocked = True
            try:
                calls = [asyncio.ensure_future(it.http.post("/v1/jobs", json={"gpus": 1})) for _ in range(60)]
                while sum(call.done() for call in calls) < 30:
                    await asyncio.sleep(0.001)
                refused = [call.result() for call in calls if call.done()]
                assert {each.status_code for each in refused} == {429}
                assert all("retry-after" in each.headers for each in refused)
                # What only reads waits for nobody.
                assert (await it.http.get("/v1/status")).status_code == 200
            finally:
                store.blocked = False
            answers = [await call for call in calls]
            taken = [each for each in answers if each.status_code == 202]
            assert len(taken) + len(refused) >= 60 - 30
            assert len(it.state.jobs) == len(taken) > 0

    asyncio.run(asyncio.wait_for(whole(), LONGEST_S))


def test_who_gives_up_before_its_turn_leaves_no_trace() -> None:
    async def whole() -> None:
        store = SlowStore()
        async with serving(store) as it:
            await it.until(lambda state: not state.due)
            store.blocked = True
            try:
                first = asyncio.ensure_future(it.http.post("/v1/jobs", json={"id": "first", "gpus": 1}))
                while not store.waits:
                    await asyncio.sleep(0.001)
                asked = api.SubmitJobRequest(job=types_pb2.JobSpec(id="late", gpus=1))
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await it.scheduler.SubmitJob(asked, timeout=0.3)
                assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
                # The caller may know of it a moment before the server does.
                inbox = it.service.app.leader._inbox
                while not all(work.future.done() for work in inbox._queue):
                    await asyncio.sleep(0.001)
            finally:
                store.blocked = False
            assert (await first).status_code == 202
            assert (await it.http.post("/v1/jobs", json={"id": "last", "gpus": 1})).status_code == 202
            assert set(it.state.jobs) == {"first", "last"}

    asyncio.run(asyncio.wait_for(whole(), LONGEST_S))


def test_a_full_disk_refuses_what_is_asked_and_loses_nothing() -> None:
    async def whole() -> None:
        store = SlowStore()
        async with serving(store) as it:
            assert (await it.http.post("/v1/jobs", json={"id": "before", "gpus": 1})).status_code == 202
            store.full = True
            job = types_pb2.JobSpec(id="during", gpus=1)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await it.scheduler.SubmitJob(api.SubmitJobRequest(job=job))
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            # Rounds and ticks, too, are tried again once there is room.
            it.now.ahead_s += 1e6
            while store.refused < 3:
                await asyncio.sleep(0.01)
            store.full = False
            answer = await it.scheduler.SubmitJob(api.SubmitJobRequest(job=job))
            assert not answer.repeated_call
            assert set(it.state.jobs) == {"before", "during"}
            await it.racks("a")
            await it.job_is("during", JobState.RUNNING)

    asyncio.run(asyncio.wait_for(whole(), LONGEST_S))


def test_at_the_end_streams_are_told_and_nothing_new_is_taken_in() -> None:
    async def whole() -> None:
        store = MemoryStore()
        async with serving(store) as it:
            (agent,) = await it.racks("a")
            watch = it.scheduler.WatchJobs(api.WatchJobsRequest())
            assert (await watch.read()).caught_up
            await it.service.stop()
            assert await watch.read() is grpc.aio.EOF
            assert await code_at_the_end(agent.call) is grpc.StatusCode.UNAVAILABLE
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await it.scheduler.SubmitJob(api.SubmitJobRequest(job=types_pb2.JobSpec(gpus=1)), timeout=5)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE

    asyncio.run(asyncio.wait_for(whole(), LONGEST_S))
