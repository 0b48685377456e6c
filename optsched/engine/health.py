"""Nodes through time: lost and back, probed, suspected, closed and opened, described anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from optsched.engine import events
from optsched.engine.commands import Kind, Verb
from optsched.engine.draft import Draft
from optsched.engine.holders import tell_drain
from optsched.engine.places import UNMET, unmet
from optsched.engine.runs import abandon, drained, fail
from optsched.engine.state import JobRecord, NodeRecord
from optsched.engine.tables import GOES_ON, HOLDS_RUN, NODE_TABLE, NodeTrigger
from optsched.errors import Conflict
from optsched.values.cluster import NodeState
from optsched.values.ids import JobId, NodeId


def lose(draft: Draft, node: NodeId, reason: str) -> None:
    """A node is lost: what ran there fails, whole and at once, and stays booked until the node is fenced."""
    lose_all(draft, {node: reason})


def lose_all(draft: Draft, reasons: Mapping[NodeId, str]) -> None:
    """Several nodes are lost at once, each for a reason: each gang fails once, whatever it lost."""
    gone = [node for node in reasons if node in draft.nodes and draft.node(node).node.state is not NodeState.DOWN]
    for node in gone:
        record, reason = draft.node(node), reasons[node]
        opens_as = record.node.state if record.node.state in _CLOSED else record.opens_as
        draft.move_node(record, NodeTrigger.LOSE, reason, opens_as=opens_as, last_seen_at=None, parted_at=None)
        draft.note(Kind.NODE, f"lost{f': {reason}' if reason else ''}", node=node)
        draft.due = True
    lost = frozenset(gone)
    hit: dict[JobId, None] = {}
    for node in gone:
        for booking in draft.node(node).bookings:
            hit[booking.job] = None
    for job in hit:
        record_of = draft.job(job)
        mine = lost & record_of.job.placement.keys()
        if record_of.state in HOLDS_RUN and mine:
            names = ", ".join(sorted(mine)[:3])
            fail(draft, record_of, infra=True, why=f"lost {names}", bad=frozenset(mine), lost=True)
    drop_claims(draft, lost, "a node of it was lost")


_CLOSED = frozenset({NodeState.CORDONED, NodeState.DRAINING})


def drop_claims(draft: Draft, nodes: frozenset[NodeId], why: str) -> None:
    """Take away the claims that rest on some nodes."""
    for job in draft.claims:
        record = draft.job(job)
        if record.claim is not None and not nodes.isdisjoint(record.claim.placement):
            abandon(draft, record, why)


def fence(draft: Draft, node: NodeId) -> None:
    """Free what is booked on a node to runs that are over: nothing of them is left there."""
    record = known(draft, node)
    if record is None:
        return
    for booking in record.bookings:
        owner = draft.job(booking.job)
        if owner.run != booking.run or owner.state not in HOLDS_RUN or record.node.state is NodeState.DOWN:
            draft.release(booking.job, (node,), booking.run)
            drained(draft, booking.job)
            tell_drain(draft, node)


def back(draft: Draft, node: NodeId) -> None:
    """A lost node is back: it serves once its probe has passed. What is booked there waits for its agent's word."""
    record = known(draft, node)
    if record is None:
        return
    if record.node.state is not NodeState.DOWN:
        draft.note(Kind.STALE, f"is back, and was {record.node.state.value}", node=node)
        return
    draft.move_node(record, NodeTrigger.RETURN)
    draft.command(Verb.PROBE, node)
    for booking in draft.node(node).bookings:
        draft.command(Verb.RELEASE, node, booking.job, booking.run, gpus=booking.gpus)
    draft.note(Kind.NODE, "back, is probed", node=node)


def probed(draft: Draft, event: events.Probed) -> None:
    """A probe passed, and a node that waits for it opens; or it did not, and the node is suspected."""
    record = known(draft, event.node)
    if record is not None and record.node.state is NodeState.UP and not event.ok:
        # An idle node that its agent has tested unasked.
        suspect(draft, event.node, f"probe failed: {event.why}" if event.why else "probe failed")
        return
    if record is None or record.node.state is not NodeState.PROBING:
        draft.note(Kind.STALE, "a probe that nobody waits for", node=event.node)
        return
    if not event.ok:
        draft.move_node(record, NodeTrigger.MISS, f"probe failed: {event.why}" if event.why else "probe failed")
        draft.note(Kind.ALARM, f"probe failed{f': {event.why}' if event.why else ''}", node=event.node)
        return
    opens_as = record.opens_as
    record = draft.move_node(record, NodeTrigger.PASS, opens_as=NodeState.UP, failures=())
    if opens_as in _CLOSED:
        draft.move_node(record, NodeTrigger.CORDON if opens_as is NodeState.CORDONED else NodeTrigger.DRAIN)
    draft.due = True
    draft.note(Kind.NODE, "in service", node=event.node)


def suspect(draft: Draft, node: NodeId, reason: str) -> None:
    """Close a node that does not behave; what is closed already stays as it is."""
    record = draft.nodes.get(node)
    if record is None or (record.node.state, NodeTrigger.SUSPECT) not in NODE_TABLE:
        return
    draft.move_node(record, NodeTrigger.SUSPECT, reason)
    draft.note(Kind.ALARM, f"suspected: {reason}", node=node)
    draft.due = True


def blame(draft: Draft, node: NodeId) -> None:
    """Count a gang that failed on a node; one that fails several within a day is suspected."""
    record, settings = draft.nodes.get(node), draft.before.settings
    if record is None:
        return
    recent = tuple(at for at in record.failures if at > draft.now - settings.suspect_within_s)
    draft.put_node(replace(record, failures=(*recent, draft.now)))
    if len(recent) + 1 >= settings.suspect_failures:
        suspect(draft, node, f"{len(recent) + 1} gangs failed on it")


def close(draft: Draft, node: NodeId, trigger: NodeTrigger, reason: str) -> None:
    """An operator cordons, drains or opens a node. Asked for again, nothing changes."""
    record = known(draft, node)
    if record is None:
        raise Conflict(f"no node is called {node}")
    wanted = {NodeTrigger.CORDON: NodeState.CORDONED, NodeTrigger.DRAIN: NodeState.DRAINING}.get(trigger)
    state = record.node.state
    if state is NodeState.DOWN:
        draft.put_node(replace(record, opens_as=wanted or NodeState.UP))
        draft.note(Kind.NODE, f"is lost; {wanted.value if wanted else 'open'} once it is back", node=node)
        return
    if state is wanted or (wanted is None and state in (NodeState.UP, NodeState.PROBING)):
        return
    draft.move_node(record, trigger, reason, opens_as=NodeState.UP)
    draft.due = True
    if wanted is None:
        draft.command(Verb.PROBE, node)
        draft.note(Kind.NODE, "opened, is probed", node=node)
    else:
        drop_claims(draft, frozenset({node}), f"{node} was {wanted.value}")
        draft.note(Kind.NODE, f"{wanted.value}{f': {reason}' if reason else ''}", node=node)
        tell_drain(draft, node)


def gpus_changed(draft: Draft, node: NodeId, gpus: int) -> None:
    """A node reports another number of GPUs. With fewer than are booked it has nothing to give; what runs is left."""
    record = known(draft, node)
    if record is None or record.node.gpus == gpus:
        return
    if not 0 <= gpus <= draft.before.settings.max_node_gpus:
        allowed = f"0 to {draft.before.settings.max_node_gpus:,}"
        raise Conflict(f"{node} reports {gpus} GPUs; allowed: {allowed}")
    bad = tuple(index for index in record.node.gpus_bad if index < gpus)
    booked = record.booked_gpus
    short = gpus < booked
    reason = f"reports {gpus} of {record.node.gpus} GPUs, {booked} are booked" if short else ""
    draft.put_node(replace(record, node=replace(record.node, gpus=gpus, gpus_bad=bad, reason=reason)))
    draft.rules()
    if gpus < record.node.gpus:
        drop_claims(draft, frozenset({node}), f"{node} has fewer GPUs")
    text = f"has {gpus} GPUs, had {record.node.gpus}{f', and {booked} are booked' if short else ''}"
    draft.note(Kind.ALARM if short else Kind.NODE, text, node=node)


def slow(draft: Draft, node: NodeId, factor: float) -> None:
    """A node runs slower than its gang: below a factor it is suspected, with both numbers."""
    if known(draft, node) is None:
        return
    least = draft.before.settings.slow_factor
    if factor < least:
        suspect(draft, node, f"runs at {factor:g} of its gang's median, {least:g} is the least")
    else:
        draft.note(Kind.NODE, f"runs at {factor:g} of its gang's median", node=node)


def set_node(draft: Draft, event: events.SetNode) -> None:
    """A node joins, and is probed; or is described anew, and what it runs is left alone."""
    given = event.node
    record = draft.nodes.get(given.id)
    if record is None:
        node = given if given.state in _CLOSED else replace(given, state=NodeState.PROBING)
        draft.put_node(NodeRecord(node))
        draft.rules()
        if node.state is NodeState.PROBING:
            draft.command(Verb.PROBE, given.id)
        draft.note(Kind.NODE, f"joins with {given.gpus} GPUs", node=given.id)
        return
    node = replace(given, state=record.node.state, reason=record.node.reason)
    if node == record.node:
        return
    draft.put_node(replace(record, node=node))
    draft.rules()
    drop_claims(draft, frozenset({given.id}), f"{given.id} is described anew")
    for owner in dict.fromkeys(booking.job for booking in record.bookings):
        _judge_place(draft, draft.job(owner))
    text = "is described anew"
    owners = sorted({booking.job for booking in record.bookings})
    if node.domains != record.node.domains and owners:
        text += f"; {', '.join(owners)} may no longer lie as required, and is left as it is"
    draft.note(Kind.NODE, text, node=given.id)


def _judge_place(draft: Draft, record: JobRecord) -> None:
    """Say of a run whether it still lies as its job requires; it is left where it is."""
    if record.state not in GOES_ON:
        return
    why = unmet(record.job, record.job.placement, draft.nodes, draft.before.cluster.levels)
    if why == record.reason or not (why or record.reason.startswith(UNMET)):
        return
    draft.put(replace(record, reason=why), quietly=True)
    draft.note(Kind.ALARM if why else Kind.NODE, why or "meets its requirement again", record.id)


def remove(draft: Draft, node: NodeId) -> None:
    """A node leaves for good: what ran there fails, and its bookings go with it."""
    record = known(draft, node)
    if record is None:
        return
    lose(draft, node, "removed")
    fence(draft, node)
    draft.drop_node(node)
    draft.rules()
    draft.note(Kind.NODE, "removed", node=node)


def known(draft: Draft, node: NodeId) -> NodeRecord | None:
    """Return a node, None and a note where no node has that name."""
    record = draft.nodes.get(node)
    if record is None:
        draft.note(Kind.STALE, "no node has this name", node=node)
    return record


def inventory(draft: Draft, event: events.Inventory) -> None:
    """An agent says what it holds: what it lost is over, what nobody knows of is killed."""
    record = known(draft, event.node)
    if record is None:
        return
    booked = {(booking.job, booking.run) for booking in record.bookings}
    for job, run in sorted(booked - event.runs):
        owner = draft.job(job)
        current = owner.run == run and owner.state in HOLDS_RUN
        draft.release(job, (event.node,), run)
        tell_drain(draft, event.node)
        if current and owner.launch is None and event.node not in owner.done_on:
            why = f"{event.node} no longer has its task"
            fail(draft, draft.job(job), infra=True, why=why, bad=frozenset({event.node}), lost=True)
        elif current and owner.launch is not None:
            fail(draft, draft.job(job), infra=True, why=f"{event.node} lost its part of the start")
        drained(draft, job)
    for job, run in sorted(event.runs - booked):
        draft.command(Verb.KILL, event.node, job, run)
        draft.note(Kind.STALE, f"run {run} of {job} is nobody's: killed", node=event.node)
