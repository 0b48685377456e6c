"""Who still holds a node that is to become empty, in words."""

from __future__ import annotations

from optsched.engine.commands import Kind
from optsched.engine.draft import Draft
from optsched.engine.tables import ENDS, GOES_ON
from optsched.planner.instants import moment_text
from optsched.policy.victims import estimated_end
from optsched.values.cluster import NodeState
from optsched.values.ids import JobId, NodeId
from optsched.values.job import gpus_on

MOST_NAMED = 5
"""So many jobs are named for one node."""


def held_by(draft: Draft, node: NodeId) -> str:
    """Return who has GPUs of a node, with how many, and until when; "" where nobody has."""
    found: dict[JobId, int] = {}
    for each in draft.node(node).bookings:
        found[each.job] = found.get(each.job, 0) + gpus_on(each.gpus)
    named = [f"{job} ({gpus} GPU{'' if gpus == 1 else 's'}, {_until(draft, job)})" for job, gpus in found.items()]
    more = len(named) - MOST_NAMED
    return ", ".join(named[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _until(draft: Draft, job: JobId) -> str:
    """Return how long a job may be expected to stay."""
    record = draft.job(job)
    if record.state in ENDS or record.state not in GOES_ON:
        return "on its way out"
    end = estimated_end(record.job, draft.now)
    by_estimate = "without a known end" if end is None else f"until {moment_text(end)} by its estimate"
    return by_estimate if record.job.preemptible else f"not preemptible, {by_estimate}"


def tell_drain(draft: Draft, node: NodeId) -> None:
    """Note what is left on a node that drains."""
    record = draft.nodes.get(node)
    if record is None or record.node.state is not NodeState.DRAINING:
        return
    left = held_by(draft, node)
    draft.note(Kind.NODE, f"still runs {left}" if left else "is empty", node=node)
