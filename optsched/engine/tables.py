"""Where jobs and nodes may go from where they stand: the tables that code, tests and docs read.

A move that a table does not have is a bug of the caller: it raises, and the state stays as it was.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from optsched.errors import IllegalTransition
from optsched.values.cluster import NodeState
from optsched.values.job import JobState


class JobTrigger(enum.Enum):
    """What moves a job from one state to another."""

    START = "start"
    """All GPUs of a committed plan are free: they are booked and the agents asked to reserve them."""
    UP = "up"
    """The last task runs."""
    PREEMPT = "preempt"
    """Told to stop, or to go on elsewhere."""
    DRAINED = "drained"
    """The last GPU of the stopped run is confirmed free."""
    FINISH = "finish"
    """All tasks ended well."""
    RETRY = "retry"
    """The run failed and its budget allows another."""
    GIVE_UP = "give_up"
    """The run failed and its budget is spent."""
    CANCEL = "cancel"
    """Its owner withdraws it."""
    REFUSE = "refuse"
    """The first round that looks at it finds that its start deadline cannot be met."""

    __hash__ = object.__hash__
    """There is one object of each, and they are looked up at every step: by name that takes several times as long."""


class NodeTrigger(enum.Enum):
    """What moves a node from one state to another."""

    LOSE = "lose"
    """Its lease ran out, or it is reported lost."""
    RETURN = "return"
    """It is back from boot or repair."""
    PASS = "pass"
    """Its probe passed."""
    MISS = "miss"
    """Its probe failed."""
    SUSPECT = "suspect"
    """It failed gangs, did not answer, or is slow."""
    CORDON = "cordon"
    """An operator closes it."""
    DRAIN = "drain"
    """An operator wants it empty."""
    UNCORDON = "uncordon"
    """An operator opens it again."""

    __hash__ = object.__hash__
    """There is one object of each, and they are looked up at every step: by name that takes several times as long."""


J, N = JobState, NodeState

JOB_TABLE: Mapping[tuple[JobState, JobTrigger], JobState] = {
    (J.QUEUED, JobTrigger.START): J.STARTING,
    (J.QUEUED, JobTrigger.CANCEL): J.CANCELLED,
    (J.QUEUED, JobTrigger.REFUSE): J.FAILED,
    (J.STARTING, JobTrigger.UP): J.RUNNING,
    (J.STARTING, JobTrigger.PREEMPT): J.PREEMPTING,
    (J.STARTING, JobTrigger.FINISH): J.COMPLETED,
    (J.STARTING, JobTrigger.RETRY): J.QUEUED,
    (J.STARTING, JobTrigger.GIVE_UP): J.FAILED,
    (J.STARTING, JobTrigger.CANCEL): J.CANCELLED,
    (J.RUNNING, JobTrigger.PREEMPT): J.PREEMPTING,
    (J.RUNNING, JobTrigger.FINISH): J.COMPLETED,
    (J.RUNNING, JobTrigger.RETRY): J.QUEUED,
    (J.RUNNING, JobTrigger.GIVE_UP): J.FAILED,
    (J.RUNNING, JobTrigger.CANCEL): J.CANCELLED,
    (J.PREEMPTING, JobTrigger.DRAINED): J.QUEUED,
    (J.PREEMPTING, JobTrigger.FINISH): J.COMPLETED,
    (J.PREEMPTING, JobTrigger.CANCEL): J.CANCELLED,
}
"""Completed, failed and cancelled are ends. A run that fails while it is told to stop is gone all the same."""

NODE_TABLE: Mapping[tuple[NodeState, NodeTrigger], NodeState] = {
    **{(state, NodeTrigger.LOSE): N.DOWN for state in NodeState if state is not N.DOWN},
    (N.DOWN, NodeTrigger.RETURN): N.PROBING,
    (N.PROBING, NodeTrigger.PASS): N.UP,
    (N.PROBING, NodeTrigger.MISS): N.SUSPECT,
    (N.UP, NodeTrigger.SUSPECT): N.SUSPECT,
    (N.PROBING, NodeTrigger.SUSPECT): N.SUSPECT,
    **{(state, NodeTrigger.CORDON): N.CORDONED for state in (N.UP, N.DRAINING, N.SUSPECT, N.PROBING)},
    **{(state, NodeTrigger.DRAIN): N.DRAINING for state in (N.UP, N.CORDONED, N.SUSPECT, N.PROBING)},
    **{(state, NodeTrigger.UNCORDON): N.PROBING for state in (N.CORDONED, N.DRAINING, N.SUSPECT)},
}
"""A node that is cordoned or drained while it is down stays closed once its probe has passed."""

ENDS = frozenset({J.COMPLETED, J.FAILED, J.CANCELLED})
"""Job states that nothing leads out of."""

GOES_ON = frozenset({J.STARTING, J.RUNNING})
"""Job states with a run that is not told to stop."""

HOLDS_RUN = frozenset({J.STARTING, J.RUNNING, J.PREEMPTING})
"""Job states with a run in progress."""


def job_after(state: JobState, trigger: JobTrigger) -> JobState:
    """Return the state that a trigger leads to. Raises IllegalTransition where the table has none."""
    found = JOB_TABLE.get((state, trigger))
    if found is None:
        raise IllegalTransition(f"a job that is {state.value} cannot {trigger.value}")
    return found


def node_after(state: NodeState, trigger: NodeTrigger) -> NodeState:
    """Return the state that a trigger leads to. Raises IllegalTransition where the table has none."""
    found = NODE_TABLE.get((state, trigger))
    if found is None:
        raise IllegalTransition(f"a node that is {state.value} cannot {trigger.value}")
    return found


def diagram(table: Mapping[tuple[enum.Enum, enum.Enum], enum.Enum]) -> str:
    """Return a table as text, a line for each pair of states: "queued --start--> starting"."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for (state, trigger), then in table.items():
        arrows.setdefault((str(state.value), str(then.value)), []).append(str(trigger.value))
    wide = max(len(state) for state, _ in arrows)
    lines = [f"{state:<{wide}} --{', '.join(triggers)}--> {then}" for (state, then), triggers in arrows.items()]
    return "\n".join(lines)
