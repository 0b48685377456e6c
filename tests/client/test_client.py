"""The client against a real service: submit, wait, watch and resume, logs, terminals; refusals as exceptions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from optsched.client import Client, JobFilter, JobSpec, Settings, word
from optsched.errors import (
    Away,
    Conflict,
    InputError,
    NoAnswer,
    NotAllowed,
    NotKnown,
    NotNamed,
    Outdated,
    Taken,
    TooSlow,
    UsageError,
)
from optsched.store import open_store
from optsched.wire.v1 import scheduler_pb2 as api
from optsched.wire.v1 import types_pb2 as t
from tests.agent.agents import script
from tests.server.service import serving
from tests.server.test_access import TOKENS, Role, write_tokens
from tests.server.threaded import Threaded, threaded

SLEEP = ["sleep", "1000"]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Threaded]:
    with threaded(tmp_path_factory.mktemp("here"), "n1") as made:
        yield made


def running(client: Client, job: str) -> t.Job:
    for change in client.watch(JobFilter(ids=[job])):
        if not change.caught_up and word(change.job) == "running":
            return change.job
    raise AssertionError


def test_a_job_is_submitted_and_waited_for_in_a_few_lines(here: Threaded) -> None:
    with here.client() as client:
        given = client.submit(JobSpec(gpus=1, command=script("print('done')")))
        job = client.wait(given.id)
        assert word(job) == "completed"
        assert b"".join(client.logs(given.id)) == b"done\n"
        assert client.wait(given.id).state == job.state, "also of one that has ended"


def test_each_submission_has_a_key_of_its_own_unless_it_is_named(here: Threaded) -> None:
    with here.client() as client:
        spec = JobSpec(gpus=64)
        assert client.submit(spec).id != client.submit(spec).id
        named = [client.submit(spec, key="night-17").id for _ in range(2)]
        assert named[0] == named[1]
        with pytest.raises(Taken):
            client.submit(JobSpec(gpus=65), key="night-17")
        many = client.submit_many([JobSpec(gpus=64), JobSpec(gpus=64)])
        array = client.submit_array(api.JobArray(template=JobSpec(id="a", gpus=64), count=3, max_running=1))
        assert array.ids == ("a.0", "a.1", "a.2")
        assert {job.id for job in client.jobs(JobFilter(array="a"))} == set(array.ids)
        for job in (*named[:1], *many.ids, *array.ids):
            assert word(client.cancel(job)) == "cancelled"
        assert "never start" in client.submit(spec).warnings[0]


def test_every_field_that_is_wrong_is_a_fault(here: Threaded) -> None:
    with here.client() as client, pytest.raises(InputError) as caught:
        client.submit(JobSpec(gpus=12, gpus_per_node=8, team="nobody"))
    faults = {fault.field: (fault.wrong, fault.allowed) for fault in caught.value.faults}
    assert faults["job.gpus"] == ("12 is not a multiple of gpus_per_node 8", "a multiple of 8")
    assert "unknown team" in faults["job.team"][0]


def test_what_is_refused_is_an_exception_of_its_own(here: Threaded) -> None:
    with here.client() as client:
        with pytest.raises(NotKnown, match="no job is called none"):
            client.job("none")
        with pytest.raises(NotKnown):
            client.wait("none")
        waiting = client.submit(JobSpec(gpus=64)).id
        with pytest.raises(Conflict):
            client.preempt(waiting)
        with pytest.raises(Conflict, match="was not started yet"):
            list(client.logs(waiting))
        with pytest.raises(Conflict, match="a terminal is for one that runs"), client.attach(waiting) as terminal:
            list(terminal)
        with pytest.raises(TooSlow, match=r"has not ended within 0\.2 s"):
            client.wait(waiting, timeout_s=0.2)
        version = client.teams().rules_version
        with pytest.raises(Outdated):
            client.set_teams([t.Team(id="default")], expected_version=version + 1)
        client.cancel(waiting)


def test_a_terminal_is_typed_into_and_ends_with_its_code(here: Threaded) -> None:
    with here.client() as client:
        job = client.submit(JobSpec(gpus=1, command=SLEEP)).id
        running(client, job)
        with client.attach(
            job, ["sh", "-c", "read x; echo got $x; stty size; exit 4"], rows=10, columns=99
        ) as terminal:
            terminal.send(b"word\n")
            seen = b"".join(terminal)
        assert terminal.exit_code == 4
        assert not terminal.hung_up
        assert b"got word\r\n10 99\r\n" in seen
        with client.attach(job, SLEEP) as terminal:
            threading.Timer(0.2, terminal.close).start()
            assert b"".join(terminal) == b""
        assert terminal.hung_up
        assert terminal.exit_code is None
        with pytest.raises(Conflict, match="no-such"), client.attach(job, ["no-such-program"]) as terminal:
            list(terminal)
        client.cancel(job)


def test_who_is_nobody_or_may_not_is_told_so(tmp_path: Path) -> None:
    """The same for logs and terminals: jobs of other teams are none of a submitter's business."""
    tokens = write_tokens(tmp_path)
    small = str(Path(__file__).parents[1] / "server" / "data" / "small.yaml")
    with threaded(tmp_path, start=small, tokens=tokens) as made:
        with made.client() as client, pytest.raises(NotNamed):
            client.status()
        with made.client(token=TOKENS[Role.OPERATOR]) as ops:
            ops.submit(JobSpec(id="theirs", gpus=8, team="vision"))
        with made.client(token=TOKENS[Role.SUBMITTER]) as ada:
            assert ada.status().leads
            with pytest.raises(NotAllowed, match=r"Cluster\.CordonNode is for operator; ada is submitter"):
                ada.cordon("a")
            for ask in (
                lambda: ada.job("theirs"),
                lambda: list(ada.logs("theirs", run=1)),
                lambda: list(ada.attach("theirs")),
            ):
                with pytest.raises(NotAllowed, match="job theirs is of another team"):
                    ask()
        file = tmp_path / "ops.token"
        file.write_text(TOKENS[Role.OPERATOR] + "\n")
        with made.client(token_file=str(file)) as ops:
            assert ops.job("theirs").team == "vision"


def test_logs_of_a_node_that_is_away_are_refused_with_its_name(tmp_path: Path) -> None:
    with threaded(tmp_path, "n1") as made, made.client(patience_s=0.2) as client:
        job = client.submit(JobSpec(gpus=1, command=SLEEP)).id
        running(client, job)
        made.agents["n1"].process.kill()

        def gone(it: object) -> object:
            async def wait() -> None:
                while made.it.service.app.agents.connected("n1"):  # type: ignore[arg-type]
                    await asyncio.sleep(0.01)

            return wait()

        made.do(gone)  # type: ignore[arg-type]
        for ask in (lambda: list(client.logs(job)), lambda: list(client.attach(job))):
            with pytest.raises(Away, match="on node n1, whose agent is not connected"):
                ask()


def test_a_watch_goes_on_over_a_restart_of_the_scheduler(tmp_path: Path) -> None:
    """Nothing is missed: a job that comes while nobody serves is there afterwards, whatever happened to the stream."""
    place = f"sqlite:///{tmp_path / 'state.db'}"

    async def whole() -> None:
        async with serving(open_store(place)) as it:
            where = it.service.grpc_address
            client = Client(Settings(scheduler=where, patience_s=60))
            seen: list[str] = []

            def watch() -> None:
                for change in client.watch():
                    if not change.caught_up:
                        seen.append(f"{change.job.id} {word(change.job)}")
                    if seen[-1:] == ["second cancelled"]:
                        return

            await asyncio.to_thread(client.submit, JobSpec(id="first", gpus=64))
            watching = asyncio.create_task(asyncio.to_thread(watch))
            while "first queued" not in seen:
                await asyncio.sleep(0.01)
        async with serving(open_store(place), grpc_listen=where):
            await asyncio.to_thread(client.submit, JobSpec(id="second", gpus=64))
            await asyncio.to_thread(client.cancel, "second")
            await watching
            client.close()
        assert seen[0].startswith("first")
        assert "second cancelled" in seen

    asyncio.run(asyncio.wait_for(whole(), 120))


def test_nobody_there_is_said_in_a_line() -> None:
    for address, words in (("127.0.0.1:9", "Connection refused"), ("no-such-host.invalid:1", "no-such-host.invalid")):
        with (
            Client(Settings(scheduler=address, patience_s=0)) as client,
            pytest.raises(NoAnswer, match=words) as caught,
        ):
            client.status()
        assert str(caught.value).startswith(f"no scheduler answers at {address}: ")


def test_a_file_that_cannot_be_read_is_said_in_a_line(tmp_path: Path) -> None:
    for settings in ({"token_file": "none.token"}, {"tls_ca": "none.pem"}):
        with Client(Settings(**settings)) as client, pytest.raises(UsageError, match=r"none\.\w+ cannot be read"):  # type: ignore[arg-type]
            client.status()
