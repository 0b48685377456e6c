"""Agents that are connected: they register, report and hear what the engine asks of them.

Nothing is kept here that a restart would lose: what an agent has not done is found again in the state when it comes
back. Leases are counted from what is received, on the scheduler's clock.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from optsched.engine import events
from optsched.engine.state import NodeRecord, State
from optsched.errors import InputError, NotLeading, OptschedError, Outdated, UsageError
from optsched.files.document import Document
from optsched.files.report import Report, Scope
from optsched.server.caller import Caller
from optsched.server.checks import Rules, read_nodes
from optsched.server.commands import Addresses, Gangs, message_of, outstanding
from optsched.server.leader import Change, Leader, Prepared
from optsched.server.relay import Relay
from optsched.server.session import Session, refused
from optsched.server.spoken import Spoken
from optsched.values.cluster import Node, NodeState
from optsched.values.ids import JobId, NodeId
from optsched.wire.convert import to_plain
from optsched.wire.v1 import agent_pb2 as wire

log = logging.getLogger(__name__)

MOST_AHEAD = 1_000_000
"""By so many epochs an agent may know more than a store that was restored; each start of a scheduler is one."""


GOING = "the scheduler shuts down: connect again"


@dataclass(frozen=True, slots=True)
class AgentRules:
    """How agents are served.

    They beat every `heartbeat_s`; a beat is taken in with others of the same `gather_s`. `may_join`: an agent of an
    unknown node brings it along. A stream whose first message takes longer than `register_s` is ended.
    """

    heartbeat_s: float = 10.0
    gather_s: float = 0.5
    may_join: bool = True
    register_s: float = 10.0


@dataclass(slots=True)
class Agents:
    """All agents that are connected."""

    leader: Leader
    rules: Rules
    how: AgentRules = field(default_factory=AgentRules)
    relay: Relay = field(default_factory=Relay)
    _sessions: dict[NodeId, Session] = field(default_factory=dict)
    _beats: dict[NodeId, events.Heartbeat] = field(default_factory=dict)
    _parted: dict[NodeId, events.Parted] = field(default_factory=dict)
    _coming: Counter[NodeId] = field(default_factory=Counter)
    _ending: bool = False
    _gangs: Gangs = field(default_factory=Gangs)
    _addresses: Addresses = field(default_factory=Addresses)
    _spoken: Spoken = field(init=False)

    def __post_init__(self) -> None:
        self._spoken = Spoken(self.leader, self._addresses)
        self.leader.listeners.append(self)

    # For those who ask

    @property
    def count(self) -> int:
        """How many are connected."""
        return len(self._sessions)

    def connected(self, node: NodeId) -> bool:
        """Return whether a node's agent is connected."""
        return node in self._sessions

    def skew_s(self, node: NodeId) -> float | None:
        """Return by how much an agent's clock is ahead."""
        session = self._sessions.get(node)
        return None if session is None else session.skew_s

    def session(self, node: NodeId) -> Session | None:
        """Return the stream of a node's agent."""
        return self._sessions.get(node)

    # What the engine asks

    def __call__(self, changes: Sequence[Change]) -> None:
        """Send what durable changes ask of agents. Who is not there hears of it when it comes back."""
        for change in changes:
            for command in change.commands:
                session = self._sessions.get(command.node)
                if session is None:
                    continue
                message = message_of(command, change.after, self._gangs, self._addresses)
                if message is not None:
                    session.send(message)

    async def beat(self) -> None:
        """Take in heartbeats, many at a time, until the leader stops."""
        while not self.leader.stopped.is_set():
            if self._beats or self._parted:
                beats, self._beats = self._beats, {}
                try:
                    await self.leader.tell(partial(self._signs, tuple(beats.values())))
                except NotLeading:
                    return
                except OptschedError as error:
                    log.error("heartbeats were not taken in", extra={"error": str(error)})
                self._addresses.forget(self.leader.state)
            with suppress(TimeoutError):
                async with asyncio.timeout(self.how.gather_s):
                    await self.leader.stopped.wait()

    def _signs(self, beats: Sequence[events.Heartbeat], state: State, now: float) -> Prepared[None]:
        """Return what was heard of agents. One that has registered again, or is about to, has not gone."""
        for node in self._parted.keys() & self._sessions.keys():
            del self._parted[node]
        gone = [each for node, each in self._parted.items() if not self._coming[node]]
        for each in gone:
            del self._parted[each.node]
        return Prepared(lambda after: None, (*beats, *gone))

    def end_all(self) -> None:
        """End all streams: agents keep what runs, and connect again."""
        self._ending = True
        for session in list(self._sessions.values()):
            session.end(NotLeading(GOING))

    # One stream

    async def connect(
        self, incoming: AsyncIterator[wire.AgentMessage], peer: str, caller: Caller
    ) -> AsyncGenerator[wire.SchedulerMessage, None]:
        """Serve one agent's stream: yield what it is sent, until one of both ends it."""
        try:
            async with asyncio.timeout(self.how.register_s):
                first = await anext(incoming, None)
        except TimeoutError:
            raise UsageError(f"no Register within {self.how.register_s:g} s") from None
        if first is None:
            return
        if first.WhichOneof("body") != "register":
            raise UsageError("the first message of a stream is Register")
        caller.check_node(first.register.node)
        found = await self._register(first.register, peer)
        if not isinstance(found, Session):
            yield found
            return
        if self._ending:
            found.end(NotLeading(GOING))
        reader = asyncio.create_task(self._read(found, incoming))
        try:
            while (message := await found.next()) is not None:
                yield message
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
            if self._sessions.get(found.node) is found:
                del self._sessions[found.node]
                if not self._ending:
                    self._parted[found.node] = events.Parted(found.node, found.number)
            self.relay.gone(found)
            log.info("agent gone", extra={"node": found.node, "agent": found.agent})

    async def _register(self, given: wire.Register, peer: str) -> Session | wire.SchedulerMessage:
        """Return the session of an agent that is served, else the word that it is not."""
        if not given.node or not given.agent or given.session < 0 or len(given.agent) > 253:
            return refused(wire.REFUSAL_CODE_INVALID, "node, agent or session is missing or out of bounds")
        session = Session(NodeId(given.node), given.agent, given.session, peer)
        held = frozenset((JobId(each.job), int(each.run)) for each in given.held)

        def prepare(state: State, now: float) -> Prepared[Session | wire.SchedulerMessage]:
            return self._registering(given, session, held, state, now)

        self._coming[session.node] += 1
        try:
            found = await self.leader.tell(prepare)
        except InputError as error:
            return refused(wire.REFUSAL_CODE_INVALID, "; ".join(str(fault) for fault in error.faults))
        except OptschedError as error:
            if isinstance(error, NotLeading):
                return refused(wire.REFUSAL_CODE_NOT_LEADER, str(error))
            return refused(wire.REFUSAL_CODE_INVALID, str(error))
        finally:
            self._coming -= Counter((session.node,))
        if isinstance(found, Session):
            log.info("agent registered", extra={"node": found.node, "agent": found.agent, "peer": peer})
        return found

    def _registering(
        self,
        given: wire.Register,
        session: Session,
        held: frozenset[tuple[JobId, int]],
        state: State,
        now: float,
    ) -> Prepared[Session | wire.SchedulerMessage]:
        """Return what a registration is, on the state as it is."""
        record = state.nodes.get(session.node)
        spec = self._described(given, state, now)
        if record is None:
            if not self.how.may_join:
                word = refused(wire.REFUSAL_CODE_UNKNOWN_NODE, f"no node is called {session.node}")
                return Prepared(lambda after: word)
            joining: tuple[events.Event, ...] = (events.SetNode(spec),)
        else:
            beaten = self._beaten(session, record)
            if beaten is not None:
                return beaten
            joining = ()
        ahead = given.epoch - state.epoch
        if ahead > MOST_AHEAD:
            return Prepared(lambda after: refused(wire.REFUSAL_CODE_INVALID, f"epoch {given.epoch} was never in force"))
        # The store is one from a backup: the agent would follow no command of the epochs that are still to come.
        renewed = (events.Lead(given.epoch + 1),) if ahead > 0 else ()
        happened: list[events.Event] = [
            *renewed,
            *joining,
            events.Heartbeat(session.node, session.agent, session.number, spec.gpus),
        ]
        if record is not None and record.node.state is NodeState.DOWN:
            happened.append(events.NodeBack(session.node))
        # Room that a gang was given, and that the agent was not asked for yet, is not lost: it is asked now.
        happened.append(events.Inventory(session.node, held | _unasked(record, state)))

        def answer(after: State) -> Session:
            if renewed:
                log.warning("an agent knows a later epoch: a new one begins", extra={"epoch": after.epoch})
                for each in list(self._sessions.values()):
                    each.end(Outdated(f"epoch {after.epoch} is in force: register again"))
            # What came right after it, in one go with it, may ask something of the agent already.
            present = self.leader.state
            self._serve(session, given, held, present if session.node in present.nodes else after, now)
            return session

        return Prepared(answer, tuple(happened))

    def _described(self, given: wire.Register, state: State, now: float) -> Node:
        """Return the node as its agent describes it. Raises InputError."""
        plain = to_plain(given.spec) | {"id": given.node}
        scope = Scope(Report(), Document({"spec": plain}, "register"))
        found = read_nodes([plain], scope, self.rules.known(state, now))
        scope.report.raise_faults()
        return found[0]

    def _beaten(self, session: Session, record: NodeRecord) -> Prepared[Session | wire.SchedulerMessage] | None:
        """Return the refusal of an agent where another one is served for its node; the engine raises the alarm."""
        if session.number < record.session:
            why = f"session {record.session} of {session.node} is served, by {record.agent}"
            word = refused(wire.REFUSAL_CODE_SUPERSEDED, why)
        elif session.number == record.session and record.agent not in ("", session.agent):
            served = self._sessions.get(session.node)
            at = f" at {served.peer}" if served else ""
            why = f"{session.node} is served by {record.agent}{at}; {session.agent} at {session.peer} claims it too"
            word = refused(wire.REFUSAL_CODE_TWO_AGENTS, why)
            log.error("two agents claim one node", extra={"node": session.node, "why": why})
        else:
            return None
        return Prepared(lambda after: word, (events.Heartbeat(session.node, session.agent, session.number),))

    def _serve(
        self, session: Session, given: wire.Register, held: frozenset[tuple[JobId, int]], after: State, now: float
    ) -> None:
        """Put a session in the place of an older one, and say what its agent may not have heard."""
        old = self._sessions.get(session.node)
        if old is not None:
            old.send(refused(wire.REFUSAL_CODE_SUPERSEDED, f"{session.agent} at {session.peer} is served now"))
            old.end()
        self._sessions[session.node] = session
        session.skew_s = given.clock_at - now if given.clock_at else 0.0
        self._addresses.of_node[session.node] = given.address or given.node
        for each in given.held:
            if each.port:
                self._addresses.ports[JobId(each.job), each.run, session.node] = each.port
        record = after.nodes[session.node]
        settings = after.settings
        session.send(
            wire.SchedulerMessage(
                registered=wire.Registered(
                    epoch=after.epoch,
                    heartbeat_every_s=self.how.heartbeat_s,
                    lease_s=settings.lease_s + settings.lease_patience_s,
                    state=f"NODE_STATE_{record.node.state.name}",
                    clock_at=now,
                )
            )
        )
        booked = {(each.job, each.run) for each in record.bookings}
        for job, run in sorted(held - booked):
            header = wire.CommandHeader(epoch=after.epoch, job=job, run=run)
            session.send(wire.SchedulerMessage(kill=wire.Kill(header=header, reason="nobody knows of it")))
        for command in outstanding(after, session.node):
            message = message_of(command, after, self._gangs, self._addresses)
            if message is not None:
                session.send(message)

    # What an agent says

    async def _read(self, session: Session, incoming: AsyncIterator[wire.AgentMessage]) -> None:
        """Take in what an agent says, one after the other."""
        try:
            async for message in incoming:
                if session.ended:
                    return
                if not self._lives(session):
                    return
                if not self.relay.heard(session, message):
                    await self._spoken.take(session, message)
        except asyncio.CancelledError:
            raise
        except OptschedError as error:
            session.end(error)
        except Exception:
            log.exception("an agent's stream failed", extra={"node": session.node})
        finally:
            session.end()

    def _lives(self, session: Session) -> bool:
        """Note a sign of life; False, and the stream ended, where the node was given up or taken out meanwhile."""
        record = self.leader.state.nodes.get(session.node)
        if record is None or record.node.state is NodeState.DOWN:
            session.end(Outdated(f"{session.node} was given up or taken out: register again"))
            return False
        beat = self._beats.get(session.node)
        if beat is None or beat.session < session.number:
            self._beats[session.node] = events.Heartbeat(session.node, session.agent, session.number)
        return True


def _unasked(record: NodeRecord | None, state: State) -> frozenset[tuple[JobId, int]]:
    """Return the runs whose room on a node is booked, and that its agent has not confirmed yet."""
    found = set()
    for booking in record.bookings if record is not None else ():
        owner = state.record(booking.job)
        if owner is None or owner.run != booking.run or owner.launch is None:
            continue
        if owner.launch.reserving and record is not None and record.node.id not in owner.launch.ready:
            found.add((booking.job, booking.run))
    return frozenset(found)
