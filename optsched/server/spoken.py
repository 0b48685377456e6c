"""What agents say, taken in: signs of life, reports, checkpoints, probes, progress and health."""

from __future__ import annotations

import logging
import statistics
from dataclasses import dataclass, field, replace

from optsched.engine import events
from optsched.engine.state import State
from optsched.errors import NotLeading, OptschedError
from optsched.server.commands import Addresses
from optsched.server.leader import Leader, Prepared
from optsched.server.session import OUTCOMES, Session, ack, judged
from optsched.values.cluster import NodeState
from optsched.values.ids import JobId, NodeId
from optsched.wire.v1 import agent_pb2 as wire

log = logging.getLogger(__name__)

TELL_EVERY_S = 60.0
"""So often it is logged of one agent that a report of it changed nothing."""


@dataclass(slots=True)
class Spoken:
    """Takes in what agents say; `addresses` learns the ports that they keep free."""

    leader: Leader
    addresses: Addresses
    _told: dict[NodeId, float] = field(default_factory=dict)
    _steps: dict[tuple[str, int], dict[NodeId, float]] = field(default_factory=dict)

    async def take(self, session: Session, message: wire.AgentMessage) -> None:
        """Take in one message. Raises NotLeading, or another OptschedError for what could not be stored."""
        match message.WhichOneof("body"):
            case "heartbeat":
                beat = message.heartbeat
                session.skew_s = beat.clock_at - self.leader.now() if beat.clock_at else session.skew_s
                if beat.HasField("gpus"):
                    await self._changed_gpus(session, beat.gpus)
            case "report":
                await self._report(session, message.sequence, message.report)
            case "checkpoint":
                await self._checkpoint(session, message.sequence, message.checkpoint)
            case "probe":
                await self.leader.happen(events.Probed(session.node, message.probe.ok, message.probe.why))
                session.send(ack(message.sequence, wire.ACK_RESULT_TAKEN))
            case "progress":
                await self._progress(session, message.progress)
            case "health":
                await self._health(session, message.health)
            case _:
                pass

    async def _changed_gpus(self, session: Session, gpus: int) -> None:
        record = self.leader.state.nodes.get(session.node)
        if record is not None and record.node.gpus != gpus:
            try:
                await self.leader.happen(events.GpusChanged(session.node, gpus))
            except NotLeading:
                raise
            except OptschedError as error:
                log.error("a heartbeat is out of bounds", extra={"node": session.node, "error": str(error)})

    async def _report(self, session: Session, sequence: int, report: wire.Report) -> None:
        outcome = OUTCOMES.get(report.outcome)
        if report.outcome == wire.OUTCOME_FENCED:
            log.warning("a command was fenced", extra={"node": session.node, "job": report.job, "run": report.run})
            session.send(ack(sequence, wire.ACK_RESULT_TAKEN))
            return
        if outcome is None or not report.job or report.run < 1:
            session.send(ack(sequence, wire.ACK_RESULT_INVALID, "job, run or outcome is missing or unknown"))
            return
        if outcome is events.Outcome.RESERVED and report.port:
            self.addresses.ports[JobId(report.job), report.run, session.node] = report.port
        happened = events.Report(JobId(report.job), session.node, outcome, report.run, _why(report), report.epoch)

        def prepare(state: State, now: float) -> Prepared[tuple[int, str]]:
            word = judged(state, session.node, report)
            return Prepared(lambda after: word, (happened,))

        result, reason = await self.leader.tell(prepare)
        if result != wire.ACK_RESULT_TAKEN:
            self._tell_of(session, report.job, reason)
        session.send(ack(sequence, result, reason))

    def _tell_of(self, session: Session, job: str, reason: str) -> None:
        """Log that a report changed nothing, now and then."""
        now = self.leader.now()
        if now >= self._told.get(session.node, 0.0) + TELL_EVERY_S:
            self._told[session.node] = now
            log.warning("a report changes nothing", extra={"node": session.node, "job": job, "why": reason})

    async def _checkpoint(self, session: Session, sequence: int, given: wire.Checkpoint) -> None:
        if not given.job or given.run < 1 or not given.age_s >= 0 or len(given.version) > 253:
            session.send(ack(sequence, wire.ACK_RESULT_INVALID, "job, run, version or age_s is out of bounds"))
            return

        def prepare(state: State, now: float) -> Prepared[tuple[int, str]]:
            record = state.record(JobId(given.job))
            if record is None or session.node not in record.job.placement:
                return Prepared(lambda after: (wire.ACK_RESULT_FOREIGN, "no such run is placed here"))
            if record.run != given.run:
                return Prepared(lambda after: (wire.ACK_RESULT_STALE, f"run {record.run} is the present one"))
            event = events.Checkpointed(
                record.id, given.run, given.version or None, given.tier or None, now - given.age_s
            )
            return Prepared(lambda after: (wire.ACK_RESULT_TAKEN, ""), (event,))

        result, reason = await self.leader.tell(prepare)
        session.send(ack(sequence, result, reason))

    async def _progress(self, session: Session, given: wire.Progress) -> None:
        """Compare how fast a run gets on here with the median of its gang; a slow node is told to the engine."""
        record = self.leader.state.record(JobId(given.job))
        if (
            record is None
            or record.run != given.run
            or session.node not in record.job.placement
            or not given.step_s > 0
        ):
            return
        key = (given.job, given.run)
        if key not in self._steps:
            ended = [
                each
                for each in self._steps
                if (r := self.leader.state.record(JobId(each[0]))) is None or r.run != each[1]
            ]
            for each in ended:
                del self._steps[each]
        steps = self._steps.setdefault(key, {})
        steps[session.node] = given.step_s
        if 2 * len(steps) <= len(record.job.placement) or len(steps) < 3:
            return
        factor = statistics.median(steps.values()) / given.step_s
        there = self.leader.state.nodes.get(session.node)
        if factor < self.leader.state.settings.slow_factor and there is not None and there.node.state is NodeState.UP:
            await self.leader.happen(events.Slow(session.node, round(factor, 3)))

    async def _health(self, session: Session, given: wire.Health) -> None:
        """Take GPUs out that an agent finds bad; they come back by an operator's word."""
        bad = {gpu.index for gpu in given.gpus if not gpu.ok}

        def prepare(state: State, now: float) -> Prepared[None]:
            record = state.nodes.get(session.node)
            fresh = {index for index in bad if record is not None and 0 <= index < record.node.gpus}
            if record is None or fresh <= set(record.node.gpus_bad):
                return Prepared(lambda after: None)
            node = replace(record.node, gpus_bad=tuple(sorted({*record.node.gpus_bad, *fresh})))
            return Prepared(lambda after: None, (events.SetNode(node),))

        await self.leader.tell(prepare)


def _why(report: wire.Report) -> str:
    """Return what an agent says of an end: its own words, and the exit that they are about."""
    parts = [report.why] if report.why else []
    rank = f"rank {report.rank}: " if report.HasField("rank") else ""
    if report.HasField("exit_signal"):
        parts.append(f"{rank}ended by signal {report.exit_signal}")
    elif report.HasField("exit_code"):
        parts.append(f"{rank}exit code {report.exit_code}")
    return "; ".join(parts)[:1000]
