"""How calls are made again, and what becomes of errors: against a server that does what a test says."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest

from optsched.client.calls import Patience, Time
from optsched.client.client import Client
from optsched.client.settings import Settings, load_settings
from optsched.errors import (
    Away,
    Busy,
    Conflict,
    Fault,
    InputError,
    NoAnswer,
    NotAllowed,
    NotKept,
    NotKnown,
    NotLeading,
    NotNamed,
    NotServed,
    OptschedError,
    Outdated,
    StoreFull,
    Taken,
    TooSlow,
    UsageError,
)
from optsched.wire.status import answer_of, trailers_of
from optsched.wire.v1 import scheduler_pb2 as api
from optsched.wire.v1 import types_pb2 as t


@dataclass
class Clock(Time):
    """A clock that moves only by waiting."""

    at: float = 0.0
    waited: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.now = lambda: self.at
        self.sleep = self._sleep
        self.draw = lambda least, most: most

    def _sleep(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.at += seconds


@dataclass
class Scripted:
    """A scheduler that answers each call with the next of what it is given: a message, messages, or an error."""

    answers: list[object]
    heard: list[Any] = field(default_factory=list)
    address: str = ""

    def next(self, request: Any, context: grpc.ServicerContext) -> Any:
        self.heard.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, OptschedError):
            told = answer_of(answer)
            context.set_trailing_metadata(trailers_of(told))
            context.abort(told.code, told.message)
        if isinstance(answer, grpc.StatusCode):
            context.abort(answer, "as a proxy says it")
        return answer

    def stream(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        self.heard.append(request)
        for each in self.answers.pop(0):  # type: ignore[attr-defined]
            if isinstance(each, OptschedError):
                told = answer_of(each)
                context.set_trailing_metadata(trailers_of(told))
                context.abort(told.code, told.message)
            yield each


@contextmanager
def scheduler(*answers: object) -> Iterator[Scripted]:
    made = Scripted(list(answers))
    server = grpc.server(ThreadPoolExecutor(2))

    def unary(taken: Any, given: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(made.next, taken.FromString, given.SerializeToString)

    def rows(taken: Any, given: Any) -> Any:
        return grpc.unary_stream_rpc_method_handler(made.stream, taken.FromString, given.SerializeToString)

    handlers = {
        "GetJob": unary(api.GetJobRequest, t.Job),
        "SubmitJob": unary(api.SubmitJobRequest, api.SubmitJobResponse),
        "PreemptJob": unary(api.PreemptJobRequest, api.PreemptJobResponse),
        "WatchJobs": rows(api.WatchJobsRequest, api.WatchJobsResponse),
        "ReadLogs": rows(api.ReadLogsRequest, api.ReadLogsResponse),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("optsched.v1.Scheduler", handlers),))
    made.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield made
    finally:
        server.stop(None)


def client(made: Scripted, clock: Clock | None = None, **more: Any) -> Client:
    return Client(Settings(scheduler=made.address, **more), clock or Clock())


def test_a_call_is_made_again_with_longer_waits_until_somebody_answers() -> None:
    clock = Clock()
    lost = grpc.StatusCode.UNAVAILABLE
    with (
        scheduler(lost, lost, NotLeading("wait for the other"), api.SubmitJobResponse(job_id="a")) as made,
        client(made, clock) as it,
    ):
        assert it.submit(t.JobSpec(gpus=1)).id == "a"
    assert clock.waited == [0.1, 0.2, 0.4]
    keys = {request.idempotency_key for request in made.heard}
    assert len(keys) == 1, "it is the same submission each time"
    assert len(keys.pop()) == 32


def test_patience_ends() -> None:
    """Waits of 0.1, 0.2, 0.4 and 0.8 s fit into 2 s; the next of 1.6 s does not."""
    clock = Clock()
    with (
        scheduler(*[grpc.StatusCode.UNAVAILABLE] * 9) as made,
        client(made, clock, patience_s=2) as it,
        pytest.raises(NoAnswer, match="as a proxy says it"),
    ):
        it.job("a")
    assert clock.waited == pytest.approx([0.1, 0.2, 0.4, 0.8])


def test_who_has_too_much_to_do_says_when_to_come_back() -> None:
    clock = Clock()
    with scheduler(Busy("in a moment", 3.0), t.Job(id="a")) as made, client(made, clock) as it:
        assert it.job("a").id == "a"
    assert clock.waited == [3.0]


def test_what_may_do_harm_twice_is_asked_once() -> None:
    with scheduler(grpc.StatusCode.UNAVAILABLE) as made, client(made) as it, pytest.raises(NoAnswer):
        it.preempt("a")
    assert len(made.heard) == 1


def test_the_next_address_is_tried_where_one_does_not_answer() -> None:
    with (
        scheduler(t.Job(id="a"), t.Job(id="b")) as made,
        Client(Settings(scheduler=f"127.0.0.1:9,{made.address}"), Clock()) as it,
    ):
        assert it.job("a").id == "a"
        assert it.job("b").id == "b"


@pytest.mark.parametrize(
    "error",
    [
        InputError(
            [Fault("request", None, "job.gpus", "given 0", "a whole number"), Fault("request", None, "x", "y", "z")]
        ),
        UsageError("no such thing"),
        NotKnown("no job is called a"),
        Taken("a is there"),
        Outdated("version 3 is in force"),
        NotKept("the oldest is 7"),
        NotNamed("a token is needed"),
        NotAllowed("not yours"),
        StoreFull("no room"),
        NotServed("not by this version"),
        Conflict("it does not run"),
        TooSlow("not done in time"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_the_service_is_the_same_error_here(error: OptschedError) -> None:
    with scheduler(error) as made, client(made) as it, pytest.raises(type(error)) as caught:
        it.job("a")
    if isinstance(error, InputError):
        assert isinstance(caught.value, InputError)
        assert caught.value.faults == error.faults
    else:
        assert str(caught.value) == str(error)


def test_a_bug_of_the_service_is_told_and_not_repeated() -> None:
    with (
        scheduler(grpc.StatusCode.INTERNAL) as made,
        client(made) as it,
        pytest.raises(NoAnswer, match="the scheduler failed: as a proxy says it"),
    ):
        it.job("a")


# Watching


def row(sequence: int, job: str = "", caught_up: bool = False) -> api.WatchJobsResponse:
    return api.WatchJobsResponse(sequence=sequence, job=t.Job(id=job) if job else None, caught_up=caught_up)


def seen(it: Client, last: str) -> list[str]:
    found = []
    for change in it.watch():
        found.append("." if change.caught_up else change.job.id)
        if found[-1] == last:
            return found
    raise AssertionError


def after(made: Scripted) -> list[int]:
    return [request.after_sequence for request in made.heard]


BROKEN = Away("broken")


def test_a_watch_goes_on_after_the_last_sequence_that_it_has_seen_whole() -> None:
    """Of sequence 6 it saw one of two rows: 6 comes again, and only the other one of it is told."""
    first = [row(4, "a"), row(4, "b"), row(4, caught_up=True), row(5, "a"), row(6, "b"), BROKEN]
    second = [row(6, "b"), row(6, "c"), row(6, caught_up=True), row(8, "d")]
    with scheduler(first, second) as made, client(made) as it:
        assert seen(it, "d") == ["a", "b", ".", "a", "b", "c", "d"]
    assert after(made) == [0, 5]


def test_a_watch_that_is_broken_before_it_knows_how_things_stand_begins_anew() -> None:
    with (
        scheduler([row(4, "a"), BROKEN], [row(4, "a"), row(4, "b"), row(4, caught_up=True), row(9, "z")]) as made,
        client(made) as it,
    ):
        assert seen(it, "z") == ["a", "a", "b", ".", "z"]
    assert after(made) == [0, 0]


def test_a_watch_whose_past_is_kept_no_longer_begins_anew() -> None:
    first = [row(4, "a"), row(4, caught_up=True), row(5, "b"), BROKEN]
    with (
        scheduler(first, [NotKept("the oldest is 9")], [row(9, "a"), row(9, caught_up=True), row(10, "z")]) as made,
        client(made) as it,
    ):
        assert seen(it, "z") == ["a", ".", "b", "a", ".", "z"]
    assert after(made) == [0, 4, 0]


def test_a_stream_that_ends_is_opened_again_and_one_that_is_too_slow_goes_on() -> None:
    first = [row(4, "a"), row(4, caught_up=True)]
    with scheduler(first, [row(5, "b"), Busy("2000 changes behind", 0.1)], [row(6, "z")]) as made, client(made) as it:
        assert seen(it, "z") == ["a", ".", "b", "z"]
    assert after(made) == [0, 4, 4]


def test_a_log_that_is_broken_off_goes_on_at_its_byte() -> None:
    first = [api.ReadLogsResponse(data=b"one", offset=100), BROKEN]
    with scheduler(first, [api.ReadLogsResponse(data=b"two", offset=103)]) as made, client(made) as it:
        assert b"".join(it.logs("a", run=2, offset=-3, follow=True)) == b"onetwo"
    assert [request.offset for request in made.heard] == [-3, 103]


def test_patience_begins_anew_once_somebody_has_answered() -> None:
    clock = Clock()
    patience = Patience(1.0, clock)
    for _ in range(3):
        patience.wait(NoAnswer("x"))
    patience.succeed()
    clock.at += 100
    patience.wait(NoAnswer("x"))
    assert clock.waited == pytest.approx([0.1, 0.2, 0.4, 0.1])


# Settings


def test_settings_come_from_flags_then_the_environment_then_a_file(tmp_path: Any) -> None:
    own = tmp_path / "optsched" / "client.yaml"
    own.parent.mkdir()
    own.write_text("scheduler: file:1\ntoken_file: file.token\ntimeout_s: 7\n")
    environment = {
        "XDG_CONFIG_HOME": str(tmp_path),
        "OPTSCHED_CLIENT_SCHEDULER": "env:2",
        "OPTSCHED_CLIENT_TIMEOUT_S": "8",
    }
    found = load_settings({"scheduler": "flag:3"}, environment, None)
    assert (found.scheduler, found.timeout_s, found.token_file) == ("flag:3", 8.0, "file.token")
    assert load_settings({}, environment, None).scheduler == "env:2"
    assert load_settings({}, {"XDG_CONFIG_HOME": str(tmp_path)}, None).scheduler == "file:1"
    other = tmp_path / "other.yaml"
    other.write_text("patience_s: 0\n")
    named = {"XDG_CONFIG_HOME": str(tmp_path), "OPTSCHED_CLIENT_CONFIG": str(other)}
    found = load_settings({}, named, None)
    assert (found.scheduler, found.patience_s) == ("127.0.0.1:7440", 0.0), "a file that is named stands alone"


@pytest.mark.parametrize(
    ("flags", "environment", "words"),
    [
        (
            {"scheduler": "nowhere"},
            {},
            "command line: --scheduler: given 'nowhere'; allowed: where the scheduler serves gRPC",
        ),
        ({}, {"OPTSCHED_CLIENT_TIMEOUT_S": "0"}, "environment: OPTSCHED_CLIENT_TIMEOUT_S: given 0"),
        ({"token": "a", "token_file": "b"}, {}, "token, token_file: both are given; allowed: one of them"),
        ({"tls_key": "a"}, {}, "tls_certificate, tls_key: one is given alone"),
    ],
)
def test_settings_that_are_wrong_are_told(flags: dict[str, str], environment: dict[str, str], words: str) -> None:
    with pytest.raises((InputError, UsageError)) as caught:
        load_settings(flags, {"HOME": "/nonexistent"} | environment, None)
    assert words in str(caught.value)
