"""Logs and terminals through the scheduler, with real agents: read, followed, resumed, typed into, refused."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from optsched.server.relay import WINDOW
from optsched.values.ids import JobId, NodeId
from optsched.values.job import JobState
from optsched.wire.v1 import agent_pb2 as wire
from optsched.wire.v1 import scheduler_pb2 as api
from optsched.wire.v1 import types_pb2
from tests.agent.agents import AgentProcess, agent, carriers, run, script
from tests.agent.test_end_to_end import cluster
from tests.server.service import Served, served, serving

SLEEP = ["sleep", "1000"]


@asynccontextmanager
async def node(folder: Path, name: str = "n1", **settings: object) -> AsyncIterator[tuple[Served, AgentProcess]]:
    """A service with one node of 4 GPUs."""
    async with serving(**settings) as it:
        port = int(it.service.grpc_address.rpartition(":")[2])
        async with agent(folder / name, port, node=name) as process:
            await up(it, name)
            yield it, process


async def up(it: Served, name: str) -> None:
    def there(state: Any) -> bool:
        record = state.nodes.get(NodeId(name))
        return record is not None and record.node.state.value == "up" and it.service.app.agents.connected(NodeId(name))

    await it.until(there)


async def submit(it: Served, job: str, command: list[str], state: JobState = JobState.RUNNING, **more: Any) -> None:
    spec = types_pb2.JobSpec(id=job, command=command, **({"gpus": 1} | more))
    await it.scheduler.SubmitJob(api.SubmitJobRequest(job=spec))
    await it.job_is(job, state)


async def text(it: Served, job: str, **more: Any) -> bytes:
    """All that a call reads."""
    return b"".join([row.data async for row in it.scheduler.ReadLogs(api.ReadLogsRequest(job=job, **more))])


async def refusal(it: Served, **asked: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async for _ in it.scheduler.ReadLogs(api.ReadLogsRequest(**asked)):
            pass
    return caught.value.code(), caught.value.details()


async def to_the_end(call: Any) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass


# Logs


def test_logs_are_read_whole_in_part_and_by_stream(tmp_path: Path) -> None:
    async def story() -> None:
        async with node(tmp_path) as (it, _):
            program = script("import sys; print('hello', flush=True); print('oh', file=sys.stderr)")
            await submit(it, "train", program, JobState.COMPLETED)
            assert await text(it, "train") == b"hello\n"
            assert await text(it, "train", stream=api.LOG_STREAM_STDERR) == b"oh\n"
            assert await text(it, "train", offset=2) == b"llo\n"
            assert await text(it, "train", offset=-3) == b"lo\n"
            assert await text(it, "train", offset=-100, follow=True) == b"hello\n", "it has ended, and so does this"
            assert await text(it, "train", offset=1000) == b""

    run(story())


def test_a_log_of_many_windows_comes_whole_and_in_order(tmp_path: Path) -> None:
    """Exactly three windows, and one byte more."""

    async def story() -> None:
        async with node(tmp_path) as (it, _):
            for job, size in (("even", 3 * WINDOW), ("odd", 3 * WINDOW + 1)):
                write = f"import sys; sys.stdout.write(''.join(chr(97 + n % 26) for n in range({size})))"
                await submit(it, job, script(write), JobState.COMPLETED)
                wanted = bytes(97 + n % 26 for n in range(size))
                offsets = [0]
                parts = []
                async for row in it.scheduler.ReadLogs(api.ReadLogsRequest(job=job)):
                    assert row.offset == offsets[-1]
                    offsets.append(row.offset + len(row.data))
                    parts.append(row.data)
                    assert len(row.data) <= 64 * 1024
                assert b"".join(parts) == wanted
                assert await text(it, job, follow=True) == wanted

    run(story())


def test_a_log_is_followed_to_the_end_of_its_run(tmp_path: Path) -> None:
    async def story() -> None:
        async with node(tmp_path) as (it, _):
            go = tmp_path / "go"
            program = f"""
import os, time
print('one', flush=True)
while not os.path.exists({str(go)!r}): time.sleep(0.02)
print('two', flush=True)
"""
            await submit(it, "train", script(program))
            call = it.scheduler.ReadLogs(api.ReadLogsRequest(job="train", follow=True))
            assert (await call.read()).data == b"one\n"
            go.touch()
            assert (await call.read()).data == b"two\n"
            assert await call.read() is grpc.aio.EOF

    run(story())


def test_the_log_of_each_run_stays_and_the_last_one_is_read_first(tmp_path: Path) -> None:
    async def story() -> None:
        async with node(tmp_path) as (it, _):
            await submit(it, "train", ["sh", "-c", "echo run $OPTSCHED_RUN; exec sleep 1000"])
            await it.scheduler.PreemptJob(api.PreemptJobRequest(id="train"))
            await it.until(lambda state: state.jobs[JobId("train")].run == 1 and not state.nodes[NodeId("n1")].bookings)
            assert await text(it, "train") == b"run 1\n", "also while it waits for its next run"
            it.now.ahead_s += 1000
            await it.until(lambda state: state.jobs[JobId("train")].run == 2)
            await it.job_is("train", JobState.RUNNING)
            assert (
                await it.scheduler.ReadLogs(api.ReadLogsRequest(job="train", follow=True)).read()
            ).data == b"run 2\n"
            assert await text(it, "train", run=1) == b"run 1\n"
            assert (await refusal(it, job="train", run=3))[0] is grpc.StatusCode.NOT_FOUND

    run(story())


def test_each_rank_of_a_gang_is_found_on_its_node_in_this_run_and_in_those_before(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path, "n1", "n2") as (it, _):
            program = ["sh", "-c", "echo rank $RANK of run $OPTSCHED_RUN; exec sleep 1000"]
            await submit(it, "gang", program, gpus=8, gpus_per_node=4)
            for rank in (0, 1):
                call = it.scheduler.ReadLogs(api.ReadLogsRequest(job="gang", rank=rank, follow=True))
                assert (await call.read()).data == b"rank %d of run 1\n" % rank
                call.cancel()
            code, words = await refusal(it, job="gang", rank=2)
            assert (code, words) == (
                grpc.StatusCode.INVALID_ARGUMENT,
                "rank: given 2; allowed: a rank of this gang: 0 to 1",
            )
            shell = await Typing(it, "gang", "sh", "-c", "echo $RANK on $OPTSCHED_NODE", rank=1).open()
            assert await shell.ended() == 0
            assert shell.seen.startswith(b"1 on n")
            await it.scheduler.PreemptJob(api.PreemptJobRequest(id="gang"))
            await it.until(lambda state: not any(each.bookings for each in state.nodes.values()))
            for rank in (0, 1):
                assert await text(it, "gang", run=1, rank=rank) == b"rank %d of run 1\n" % rank
            code, words = await refusal(it, job="gang", run=1, rank=5)
            assert code is grpc.StatusCode.NOT_FOUND

    run(story())


def test_what_cannot_be_read_is_refused_in_a_line(tmp_path: Path) -> None:
    async def story() -> None:
        async with node(tmp_path) as (it, process):
            await it.scheduler.SubmitJob(api.SubmitJobRequest(job=types_pb2.JobSpec(id="big", gpus=64)))
            code, words = await refusal(it, job="big")
            assert (code, words) == (
                grpc.StatusCode.FAILED_PRECONDITION,
                "job big was not started yet: it has written nothing",
            )
            assert (await refusal(it, job="none"))[0] is grpc.StatusCode.NOT_FOUND
            await submit(it, "train", SLEEP)
            code, words = await refusal(it, job="train", rank=4)
            assert (code, words) == (grpc.StatusCode.INVALID_ARGUMENT, "rank: given 4; allowed: 0: it has one task")
            assert (await refusal(it, job="train", rank=-1))[0] is grpc.StatusCode.INVALID_ARGUMENT
            assert (await refusal(it, job="../../etc"))[0] is grpc.StatusCode.INVALID_ARGUMENT
            (tmp_path / "n1" / "logs" / "train" / "1" / "rank-0.err").unlink()
            code, words = await refusal(it, job="train", stream=api.LOG_STREAM_STDERR)
            assert code is grpc.StatusCode.NOT_FOUND
            assert "is not on node n1" in words
            process.kill()
            await process.ended()
            await it.until(lambda state: not it.service.app.agents.connected(NodeId("n1")))
            code, words = await refusal(it, job="train")
            assert code is grpc.StatusCode.UNAVAILABLE
            assert words.endswith("is on node n1, whose agent is not connected: try again once it is back")

    run(story())


def test_a_reader_whose_agent_goes_is_told_and_goes_on_once_it_is_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with node(tmp_path) as (it, process):
            await submit(it, "train", ["sh", "-c", "echo one; exec sleep 1000"])
            call = it.scheduler.ReadLogs(api.ReadLogsRequest(job="train", follow=True))
            assert (await call.read()).data == b"one\n"
            process.kill()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call.read()
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
            assert "the agent of n1 is gone" in caught.value.details()
            port = int(it.service.grpc_address.rpartition(":")[2])
            async with agent(tmp_path / "n1", port, node="n1"):
                await up(it, "n1")
                assert await text(it, "train", offset=-4) == b"one\n"

    run(story())


@served()
async def test_an_agent_that_sends_more_than_was_asked_for_has_its_line_cut_and_nothing_else(it: Served) -> None:
    (fake,) = await it.racks("a")
    fake.deaf.add("read_log")
    await submit(it, "train", ["x"], gpus=8)
    call = it.scheduler.ReadLogs(api.ReadLogsRequest(job="train"))
    asked = await fake.asked("read_log")
    assert asked.limit == WINDOW
    for number in range(WINDOW // 65536 + 1):
        await fake.say(log=wire.LogChunk(request=asked.request, data=b"x" * 65536, offset=number * 65536))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await to_the_end(call)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "sends more than it was asked for" in caught.value.details()
    assert it.service.app.agents.connected(NodeId("a"))
    await fake.hears(lambda each: each.HasField("read_log") and each.read_log.cancel)


@served()
async def test_an_agent_answers_its_own_lines_only(it: Served) -> None:
    first, second = await it.racks("a b")
    await submit(it, "train", ["x"], gpus=8)
    call = it.scheduler.ReadLogs(api.ReadLogsRequest(job="train"))
    mine = first if "train" in {job for job, _ in first.held} else second
    other = second if mine is first else first
    asked = await mine.asked("read_log")
    await other.say(log=wire.LogChunk(request=asked.request, data=b"forged"))
    await other.say(heartbeat=wire.Heartbeat(clock_at=1))
    await mine.say(log=wire.LogChunk(request=asked.request, data=b"real"))
    await mine.say(log=wire.LogChunk(request=asked.request, offset=4, last=True))
    assert [row.data async for row in call] == [b"real"]


# Terminals


class Typing:
    """A caller of Attach."""

    def __init__(self, it: Served, job: str, *command: str, rows: int = 24, columns: int = 80, **more: Any) -> None:
        self.call = it.scheduler.Attach()
        size = api.TerminalSize(rows=rows, columns=columns)
        self.opening = api.AttachRequest(open=api.AttachOpen(job=job, command=command, size=size, **more))
        self.seen = b""
        self.exit_code: int | None = None

    async def open(self) -> Typing:
        await self.call.write(self.opening)
        return self

    async def type(self, data: bytes) -> None:
        await self.call.write(api.AttachRequest(input=data))

    async def until(self, wanted: bytes) -> None:
        while wanted not in self.seen:
            message = await self.call.read()
            assert message is not grpc.aio.EOF, self.seen
            self.seen += message.output

    async def ended(self) -> int:
        while (message := await self.call.read()) is not grpc.aio.EOF:
            self.seen += message.output
            if message.WhichOneof("body") == "exit_code":
                self.exit_code = message.exit_code
        assert self.exit_code is not None
        return self.exit_code

    async def refused(self) -> tuple[grpc.StatusCode, str]:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await to_the_end(self.call)
        return caught.value.code(), caught.value.details()


def test_a_terminal_has_the_tasks_environment_its_size_and_an_exit_code(tmp_path: Path) -> None:
    async def story() -> None:
        async with node(tmp_path) as (it, _):
            await submit(it, "train", SLEEP)
            told = "tty; stty size; echo gpus=$CUDA_VISIBLE_DEVICES job=$OPTSCHED_JOB term=$TERM; exit 7"
            shell = await Typing(it, "train", "sh", "-c", told, rows=50, columns=132, term="vt100").open()
            assert await shell.ended() == 7
            assert shell.seen.startswith(b"/dev/pts/")
            assert b"50 132" in shell.seen
            assert b"gpus=0 job=train term=vt100" in shell.seen

    run(story())


def test_a_shell_is_typed_into_interrupted_resized_and_left(tmp_path: Path) -> None:
    async def story() -> None:
        async with node(tmp_path) as (it, _):
            await submit(it, "train", SLEEP)
            shell = await Typing(it, "train", "sh").open()
            await shell.type(b"echo $((6*7))\n")
            await shell.until(b"42\r\n")
            # A program that says when it is interrupted: what is typed before the shell is back may be thrown away.
            await shell.type(b"sh -c 'trap \"echo caught; exit\" INT; echo ready; while :; do sleep 0.05; done'\n")
            await shell.until(b"ready\r\n")
            await shell.type(b"\x03")
            await shell.until(b"caught\r\n")
            await shell.type(b"echo back $((1+1))\n")
            await shell.until(b"back 2\r\n")
            await shell.call.write(api.AttachRequest(resize=api.TerminalSize(rows=10, columns=40)))
            await shell.type(b"stty size\n")
            await shell.until(b"10 40\r\n")
            await shell.type(b"exit 3\n")
            assert await shell.ended() == 3

    run(story())


def test_a_program_that_is_killed_has_the_code_of_its_signal(tmp_path: Path) -> None:
    async def story() -> None:
        async with node(tmp_path) as (it, _):
            await submit(it, "train", SLEEP)
            assert await (await Typing(it, "train", "sh", "-c", "kill -9 $$").open()).ended() == 128 + 9
            code, words = await (await Typing(it, "train", "no-such-program").open()).refused()
            assert code is grpc.StatusCode.FAILED_PRECONDITION
            assert "no-such-program" in words

    run(story())


def test_who_reads_slowly_holds_the_program_up_and_loses_nothing(tmp_path: Path) -> None:
    """The program writes eight windows; before they are read it is still there."""

    async def story() -> None:
        async with node(tmp_path) as (it, _):
            await submit(it, "train", SLEEP)
            done = tmp_path / "done"
            count = 8 * WINDOW // 64
            write = f"for n in range({count}): print('%063d' % n)\nopen({str(done)!r}, 'w').close()"
            shell = await Typing(it, "train", *script(write)).open()
            first = await shell.call.read()
            shell.seen += first.output
            assert await shell.ended() == 0
            assert done.exists()
            assert shell.seen.split() == [b"%063d" % number for number in range(count)]

    run(story())


def test_much_input_reaches_a_program_whole(tmp_path: Path) -> None:
    async def story() -> None:
        async with node(tmp_path) as (it, _):
            await submit(it, "train", SLEEP)
            size = 500_000
            read = f"""
import sys, termios, tty
tty.setraw(0)
print('raw', flush=True)
left = {size}
while left: left -= len(sys.stdin.buffer.raw.read(min(left, 65536)))
print('all', flush=True)
"""
            program = await Typing(it, "train", *script(read)).open()
            await program.until(b"raw")
            for start in range(0, size, 100_000):
                await program.type(b"y" * min(100_000, size - start))
            assert await program.ended() == 0
            assert b"all" in program.seen

    run(story())


def test_a_terminal_ends_with_its_caller_and_with_its_run(tmp_path: Path) -> None:
    """One is hung up; one does not heed that, and is gone with the run."""

    async def story() -> None:
        async with node(tmp_path) as (it, _):
            await submit(it, "train", SLEEP)
            before = set(carriers(tmp_path / "n1"))
            first = await Typing(it, "train", "sh", "-c", "echo here; read x; read y").open()
            deaf = await Typing(it, "train", "sh", "-c", "trap '' HUP; echo here; while :; do sleep 1000; done").open()
            await first.until(b"here")
            await deaf.until(b"here")
            hung_up = set(carriers(tmp_path / "n1")) - before
            first.call.cancel()
            deaf.call.cancel()
            while not any(not Path(f"/proc/{pid}").exists() for pid in hung_up):
                await asyncio.sleep(0.02)
            assert set(carriers(tmp_path / "n1")) - before, "the deaf one works on"
            late = await Typing(it, "train", "sh", "-c", "echo here; sleep 1000").open()
            await late.until(b"here")
            await it.scheduler.CancelJob(api.CancelJobRequest(id="train"))
            code, _ = await ended_somehow(late)
            assert code in (128 + 9, None)
            await it.until(lambda state: not state.nodes[NodeId("n1")].bookings)
            assert carriers(tmp_path / "n1") == []

    run(story())


async def ended_somehow(shell: Typing) -> tuple[int | None, str]:
    """The exit code of a terminal, or why there is none."""
    try:
        return await shell.ended(), ""
    except grpc.aio.AioRpcError as error:
        return None, str(error.details())


def test_terminals_that_are_hung_up_at_any_moment_do_not_harm_the_run(tmp_path: Path) -> None:
    """At once, as it starts, as it ends: the keeper may be writing about it just then."""

    async def story() -> None:
        async with node(tmp_path) as (it, _):
            await submit(it, "train", SLEEP)
            before = set(carriers(tmp_path / "n1"))
            for number in range(40):
                shell = await Typing(it, "train", "sh", "-c", "echo here; read x").open()
                if number % 2:
                    await shell.until(b"here")
                shell.call.cancel()
            last = await Typing(it, "train", "echo", "fine").open()
            assert await last.ended() == 0
            assert before <= set(carriers(tmp_path / "n1"))
            assert it.state.jobs[JobId("train")].run == 1
            while set(carriers(tmp_path / "n1")) != before:
                await asyncio.sleep(0.02)

    run(story())


def test_a_terminal_outlives_neither_its_agent_nor_the_wrong_state(tmp_path: Path) -> None:
    async def story() -> None:
        async with node(tmp_path) as (it, process):
            spec = types_pb2.JobSpec(id="big", gpus=64)
            await it.scheduler.SubmitJob(api.SubmitJobRequest(job=spec))
            code, words = await (await Typing(it, "big").open()).refused()
            assert (code, words) == (
                grpc.StatusCode.FAILED_PRECONDITION,
                "job big is queued: a terminal is for one that runs",
            )
            await submit(it, "train", SLEEP)
            code, words = await (await Typing(it, "train", rank=3).open()).refused()
            assert (code, words) == (grpc.StatusCode.INVALID_ARGUMENT, "rank: given 3; allowed: 0: it has one task")
            wrong = it.scheduler.Attach()
            await wrong.write(api.AttachRequest(input=b"x"))
            with pytest.raises(grpc.aio.AioRpcError, match="AttachOpen"):
                await wrong.read()
            shell = await Typing(it, "train", "sh", "-c", "echo here; sleep 1000").open()
            await shell.until(b"here")
            twice = api.AttachRequest(open=api.AttachOpen(job="train"))
            other = await Typing(it, "train", "sh").open()
            await other.call.write(twice)
            assert (await other.refused())[0] is grpc.StatusCode.INVALID_ARGUMENT
            os.kill(process.process.pid, signal.SIGKILL)
            assert (await shell.refused())[0] is grpc.StatusCode.UNAVAILABLE
            code, words = await (await Typing(it, "train").open()).refused()
            assert code is grpc.StatusCode.UNAVAILABLE
            assert "whose agent is not connected" in words

    run(story())
