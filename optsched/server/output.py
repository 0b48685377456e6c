"""What tasks write, and terminals beside them: relayed between callers and the agents of the nodes that have them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from optsched.engine.state import JobRecord
from optsched.errors import Away, Conflict, NotKnown, OptschedError, UsageError
from optsched.files.fields import Id, Strict, Text
from optsched.server.agents import Agents
from optsched.server.caller import Caller
from optsched.server.checks import Plain, request
from optsched.server.jobs import known_job
from optsched.server.leader import Leader
from optsched.server.relay import WINDOW, Line, too_much
from optsched.server.whereabouts import Whereabouts
from optsched.values.ids import NodeId
from optsched.values.job import JobState
from optsched.wire.convert import to_plain
from optsched.wire.v1 import agent_pb2 as wire
from optsched.wire.v1 import scheduler_pb2 as api

FIRST_S = 10.0
"""So soon the first message of a terminal has to come, in seconds."""

TYPED_AHEAD = 64 * 1024
"""Bytes of input that are under way to one program; more is not read from its caller before."""

Rank = Annotated[int, Field(ge=0, lt=1_000_000, description="a whole number from 0 to 999,999")]
Run = Annotated[int, Field(ge=0, lt=2**31, description="a whole number of at least 0")]
Offset = Annotated[int, Field(ge=-(2**62), le=2**62, description="a whole number of bytes")]
Side = Annotated[int, Field(ge=0, lt=2**16, description="a whole number from 0 to 65,535")]

_STREAMS = {"stdout": api.LOG_STREAM_STDOUT, "stderr": api.LOG_STREAM_STDERR}


class ReadLogsRequest(Strict):
    """What of a task's output."""

    job: Id
    run: Run = 0
    rank: Rank = 0
    stream: Annotated[Literal["stdout", "stderr"], Field(description="stdout or stderr")] = "stdout"
    offset: Offset = 0
    follow: bool = False


class TerminalSize(Strict):
    """How large a terminal is."""

    rows: Side = 0
    columns: Side = 0


class AttachOpen(Strict):
    """What terminal."""

    job: Id
    rank: Rank = 0
    command: list[Text] = Field(default_factory=list, max_length=10_000, description="a list of at most 10,000 words")
    size: TerminalSize = TerminalSize()
    term: Annotated[str, Field(pattern=r"^[A-Za-z0-9.+_-]{0,64}$", description="a kind of terminal, as in TERM")] = ""


@dataclass(slots=True)
class Output:
    """Logs and terminals of jobs, for who may see those jobs."""

    leader: Leader
    agents: Agents
    places: Whereabouts

    # Logs

    async def read(self, data: Plain, caller: Caller) -> AsyncGenerator[Plain, None]:
        """Yield what a task has written, and on as it writes where that is wanted.

        Raises Conflict for a job that was never started, NotKnown where nothing is kept, Away while its node is.
        """
        asking, _ = request(ReadLogsRequest, data)
        state = self.leader.state
        record = known_job(state, asking.job, caller)
        run = asking.run or record.run
        if run == 0:
            raise Conflict(f"job {asking.job} was not started yet: it has written nothing")
        nodes = await self.places.of_run(record, run, asking.rank, state)
        missing: OptschedError | None = None
        for node in nodes:
            begun = False
            try:
                async for row in self._from(node, asking, run):
                    begun = True
                    yield row
                return
            except (NotKnown, Away) as error:
                if begun:
                    raise
                # Another node of the run may have it; one that is away may too.
                missing = missing if isinstance(missing, Away) else error
        assert missing is not None, "there is a node to ask"
        raise missing

    async def _from(self, node: NodeId, asking: ReadLogsRequest, run: int) -> AsyncGenerator[Plain, None]:
        """Yield what one node has, a window at a time: the next is asked for once this one is taken."""
        what = f"what rank {asking.rank} of run {run} of {asking.job} has written"
        offset = asking.offset
        with self.agents.relay.line(self.agents.session(node), node, what) as line:
            try:
                while True:
                    self._ask(line, asking, run, offset)
                    got = 0
                    while not (chunk := await line.next()).last:  # type: ignore[union-attr]
                        assert isinstance(chunk, wire.LogChunk)
                        got += len(chunk.data)
                        if got > WINDOW:
                            raise too_much(node)
                        offset = chunk.offset + len(chunk.data)
                        yield {"data": chunk.data, "offset": chunk.offset}
                    assert isinstance(chunk, wire.LogChunk)
                    if chunk.error:
                        raise NotKnown(f"{what} is not on node {node}: {chunk.error}")
                    if got == 0 or (not asking.follow and got < WINDOW):
                        return
            finally:
                line.send(wire.SchedulerMessage(read_log=wire.ReadLog(request=line.number, cancel=True)))

    def _ask(self, line: Line, asking: ReadLogsRequest, run: int, offset: int) -> None:
        wanted = wire.ReadLog(
            request=line.number,
            job=asking.job,
            run=run,
            rank=asking.rank,
            stream=_STREAMS[asking.stream],
            offset=offset,
            follow=asking.follow,
            limit=WINDOW,
        )
        line.send(wire.SchedulerMessage(read_log=wanted))

    # Terminals

    async def attach(
        self, incoming: AsyncIterator[api.AttachRequest], caller: Caller
    ) -> AsyncGenerator[api.AttachResponse, None]:
        """Serve a terminal inside a job: yield what its program writes, and at last its exit code.

        Raises Conflict for a job that does not run, or where the agent cannot open one; Away while its node is.
        """
        record, asking, rank_node = await self._opened(incoming, caller)
        what = f"rank {asking.rank} of {asking.job}"
        with self.agents.relay.line(self.agents.session(rank_node), rank_node, what) as line:
            self._open(line, record, asking)
            hands = _Hands(line)
            typing = asyncio.create_task(hands.type(incoming))
            try:
                async for word in hands.output():
                    yield word
            finally:
                typing.cancel()
                with suppress(asyncio.CancelledError):
                    await asyncio.gather(typing, return_exceptions=True)
                line.send(_to(line, close=True))

    async def _opened(
        self, incoming: AsyncIterator[api.AttachRequest], caller: Caller
    ) -> tuple[JobRecord, AttachOpen, NodeId]:
        """Return what terminal a caller wants, and where. Raises what refuses it."""
        try:
            first = await asyncio.wait_for(anext(incoming, None), FIRST_S)
        except TimeoutError:
            raise UsageError(f"no AttachOpen within {FIRST_S:g} s") from None
        if first is None or first.WhichOneof("body") != "open":
            raise UsageError("the first message of a terminal is AttachOpen")
        asking, _ = request(AttachOpen, to_plain(first.open))
        state = self.leader.state
        record = known_job(state, asking.job, caller)
        if record.state not in (JobState.RUNNING, JobState.PREEMPTING):
            raise Conflict(f"job {asking.job} is {record.state.value}: a terminal is for one that runs")
        return record, asking, self.places.now(record, asking.rank, state)

    def _open(self, line: Line, record: JobRecord, asking: AttachOpen) -> None:
        header = wire.CommandHeader(epoch=self.leader.state.epoch, job=record.id, run=record.run)
        size = api.TerminalSize(rows=asking.size.rows, columns=asking.size.columns)
        wanted = wire.TerminalOpen(
            header=header, rank=asking.rank, command=asking.command, size=size, window=WINDOW, term=asking.term
        )
        line.send(_to(line, open=wanted))


class _Hands:
    """Both directions of one terminal."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._typed = self._taken = 0
        self._moved = asyncio.Event()

    async def type(self, incoming: AsyncIterator[api.AttachRequest]) -> None:
        """Pass on what the caller types, as fast as the program takes it."""
        try:
            async for message in incoming:
                match message.WhichOneof("body"):
                    case "input":
                        for start in range(0, len(message.input), TYPED_AHEAD):
                            await self._pass_on(message.input[start : start + TYPED_AHEAD])
                    case "resize":
                        self._line.send(_to(self._line, resize=message.resize))
                    case _:
                        raise UsageError("a terminal is opened once; after that, input and resize")
        except OptschedError as error:
            self._line.end(error)

    async def _pass_on(self, data: bytes) -> None:
        while self._typed > self._taken and self._typed + len(data) - self._taken > TYPED_AHEAD:
            self._moved.clear()
            await self._moved.wait()
        self._typed += len(data)
        self._line.send(_to(self._line, input=data))

    async def output(self) -> AsyncGenerator[api.AttachResponse, None]:
        """Yield what the program writes, and say to the agent how much of that was passed on."""
        passed = told = 0
        while True:
            word = await self._line.next()
            assert isinstance(word, wire.TerminalOutput)
            match word.WhichOneof("body"):
                case "output":
                    yield api.AttachResponse(output=word.output)
                    passed += len(word.output)
                    if passed - told >= WINDOW // 4:
                        told = passed
                        self._line.send(_to(self._line, taken=told))
                case "taken":
                    self._taken = max(self._taken, word.taken)
                    self._moved.set()
                case "exit_code":
                    yield api.AttachResponse(exit_code=word.exit_code)
                    return
                case "error":
                    raise Conflict(word.error)
                case _:
                    continue


def _to(line: Line, **body: object) -> wire.SchedulerMessage:
    return wire.SchedulerMessage(terminal=wire.TerminalInput(terminal=line.number, **body))  # type: ignore[arg-type]
