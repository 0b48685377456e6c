"""One agent's stream: what goes out to it, and how it ends."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from optsched.engine.events import Outcome
from optsched.engine.state import State
from optsched.engine.tables import ENDS
from optsched.errors import OptschedError
from optsched.values.ids import JobId, NodeId
from optsched.wire.v1 import agent_pb2 as wire

MOST_WAITING = 4096
"""Messages that wait for one agent; one that takes none any more is cut off, and comes back."""

OUTCOMES = {
    wire.OUTCOME_RESERVED: Outcome.RESERVED,
    wire.OUTCOME_STARTED: Outcome.STARTED,
    wire.OUTCOME_OK: Outcome.OK,
    wire.OUTCOME_FAILED: Outcome.FAILED,
    wire.OUTCOME_INFRA: Outcome.INFRA,
    wire.OUTCOME_REFUSED: Outcome.REFUSED,
    wire.OUTCOME_RELEASED: Outcome.RELEASED,
}


@dataclass(eq=False, slots=True)
class Session:
    """An agent that is connected: who it is, and what it is to be sent. Ended, it takes nothing more."""

    node: NodeId
    agent: str
    number: int
    peer: str
    skew_s: float = 0.0
    error: OptschedError | None = None
    ended: bool = False
    _out: asyncio.Queue[wire.SchedulerMessage | None] = field(default_factory=asyncio.Queue)

    def send(self, message: wire.SchedulerMessage) -> None:
        """Send a message, as soon as the agent takes it."""
        if self.ended:
            return
        if self._out.qsize() >= MOST_WAITING:
            self.end()
            return
        self._out.put_nowait(message)

    def end(self, error: OptschedError | None = None) -> None:
        """End the stream once what waits has been sent; with a status, where there is an error."""
        if not self.ended:
            self.ended, self.error = True, error
            self._out.put_nowait(None)

    async def next(self) -> wire.SchedulerMessage | None:
        """Return what is to be sent next, None at the end. Raises the error that ended the stream."""
        message = await self._out.get()
        if message is None and self.error is not None:
            raise self.error
        return message


def refused(code: int, reason: str) -> wire.SchedulerMessage:
    """Return the word that an agent is not served."""
    return wire.SchedulerMessage(refused=wire.Refused(code=code, reason=reason))  # type: ignore[arg-type]


def ack(sequence: int, result: int, reason: str = "") -> wire.SchedulerMessage:
    """Return the word that a message need not be sent again."""
    return wire.SchedulerMessage(ack=wire.Ack(sequence=sequence, result=result, reason=reason))  # type: ignore[arg-type]


def judged(state: State, node: NodeId, report: wire.Report) -> tuple[int, str]:
    """Return what an agent is told of its report, and why: whether it is of a run that is, or was, on its node."""
    record = state.record(JobId(report.job))
    if record is None:
        return wire.ACK_RESULT_FOREIGN, f"no job is called {report.job}"
    if report.epoch < state.epoch:
        return wire.ACK_RESULT_STALE, f"epoch {report.epoch} is over, {state.epoch} is in force"
    if report.outcome == wire.OUTCOME_RELEASED:
        there = state.nodes.get(node)
        mine = [] if there is None else [each for each in there.bookings if each.job == record.id]
        if any(each.run == report.run for each in mine):
            return wire.ACK_RESULT_TAKEN, ""
        return wire.ACK_RESULT_STALE, "nothing of that run is booked here"
    if report.run < record.run:
        return wire.ACK_RESULT_STALE, f"run {record.run} is the present one"
    if report.run > record.run:
        return wire.ACK_RESULT_FOREIGN, f"run {record.run} is the newest"
    if node not in record.job.placement and record.state not in ENDS:
        return wire.ACK_RESULT_FOREIGN, f"run {record.run} is not on {node}"
    if record.state in ENDS and report.outcome != wire.OUTCOME_OK:
        return wire.ACK_RESULT_STALE, f"the job is {record.state.value}"
    if node not in record.job.placement:
        return wire.ACK_RESULT_FOREIGN, f"run {record.run} is not on {node}"
    return wire.ACK_RESULT_TAKEN, ""
