"""Signs of life of agents, timed by the scheduler's clock at receipt, and what their absence leads to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

from optsched.engine import events
from optsched.engine.commands import Kind
from optsched.engine.draft import Draft
from optsched.engine.health import gpus_changed, known, lose_all
from optsched.engine.records import Records
from optsched.engine.settings import Settings
from optsched.engine.state import NodeRecord, State
from optsched.values.cluster import NodeState
from optsched.values.ids import NodeId


def heartbeat(draft: Draft, event: events.Heartbeat) -> None:
    """An agent lives: its lease is counted from now, on our clock. Of two agents the newer session is served."""
    record = known(draft, event.node)
    if record is None:
        return
    if event.session < record.session:
        draft.note(Kind.STALE, f"{event.agent} speaks for an older session", node=event.node)
        return
    if event.session == record.session and record.agent not in ("", event.agent):
        text = f"two agents claim it: {record.agent} and {event.agent}; the second is refused"
        draft.note(Kind.ALARM, text, node=event.node)
        return
    fresh = replace(record, last_seen_at=draft.now, agent=event.agent, session=event.session, parted_at=None)
    draft.put_node(fresh, quietly=True)
    if event.gpus is not None and event.gpus != record.node.gpus:
        gpus_changed(draft, event.node, event.gpus)


def parted(draft: Draft, event: events.Parted) -> None:
    """An agent's stream broke: unless it is back soon, its node is given up before its lease has run out."""
    record = known(draft, event.node)
    if record is not None and record.last_seen_at is not None and record.session == event.session:
        draft.put_node(replace(record, parted_at=draft.now), quietly=True)


def ends_of_lease(record: NodeRecord, settings: Settings) -> tuple[float, float] | None:
    """Return the instants after which a node is late, and given up; None where its agent holds no lease."""
    if record.last_seen_at is None or record.node.state is NodeState.DOWN:
        return None
    late = record.last_seen_at + settings.lease_s
    gone = late + settings.lease_patience_s
    if record.parted_at is not None:
        late = min(late, record.parted_at + settings.stream_grace_s / 2)
        gone = min(gone, record.parted_at + settings.stream_grace_s)
    return late, gone


def _leased_of(chunk: Mapping[NodeId, NodeRecord]) -> list[NodeRecord]:
    return [each for each in chunk.values() if each.last_seen_at is not None and each.node.state is not NodeState.DOWN]


def leased(nodes: Mapping[NodeId, NodeRecord]) -> Iterator[NodeRecord]:
    """Return the nodes whose agents hold a lease."""
    return chain.from_iterable(Records.of(nodes).parts(_leased_of))


def expired(state: State, now: float) -> tuple[list[NodeId], list[NodeId]]:
    """Return the nodes whose agents are late, and of those the ones that are given up, on the scheduler's clock."""
    late, gone = [], []
    for record in leased(state.nodes):
        name, ends = record.node.id, ends_of_lease(record, state.settings)
        if ends is not None and now > ends[0]:
            late.append(name)
            if now > ends[1]:
                gone.append(name)
    return late, gone


def look(draft: Draft) -> None:
    """Give up nodes whose agents are silent. Where many fall silent together none is: starts pause, with an alarm."""
    state, settings = draft.before, draft.before.settings
    late, gone = expired(state, draft.now)
    paused = str(draft.get("paused"))
    if len(late) > max(settings.mass_nodes, settings.mass_share * len(state.nodes)):
        if not paused:
            text = (
                f"{len(late)} nodes fell silent together{common_domain(state, late)}: nothing starts, nothing is failed"
            )
            draft.set(paused=text)
            draft.note(Kind.ALARM, text)
        return
    if paused:
        draft.set(paused="")
        draft.due = True
        draft.note(Kind.ALARM, "most silent nodes are back: starts go on")
    lose_all(draft, {name: _why_gone(draft.node(name), settings, draft.now) for name in gone})


def _why_gone(record: NodeRecord, settings: Settings, now: float) -> str:
    silence_s = settings.lease_s + settings.lease_patience_s
    if record.last_seen_at is not None and now > record.last_seen_at + silence_s:
        return f"no sign of life for {silence_s:g} s"
    return f"its agent's stream broke, and it was not back within {settings.stream_grace_s:g} s"


def common_domain(state: State, nodes: list[NodeId]) -> str:
    """Return ", all in LEVEL NAME" for the narrowest domain that holds all of some nodes, or ""."""
    path = ""
    for level in state.cluster.levels:
        names = {state.nodes[node].node.domains.get(level) for node in nodes}
        if len(names) != 1 or None in names:
            break
        path = f", all in {level} {names.pop()}"
    return path
