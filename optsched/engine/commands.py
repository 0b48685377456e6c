"""What the engine asks of agents, and what it has to tell people.

Every command carries an epoch and a run: an agent refuses one with an older epoch, or for a run older than one that it
knows.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from optsched.values.ids import JobId, NodeId


class Verb(enum.Enum):
    """What an agent is asked to do."""

    RESERVE = "reserve"
    """Set GPUs aside for a run; nothing runs yet."""
    START = "start"
    """Start the task on the GPUs that were set aside."""
    SIGNAL = "signal"
    """Tell the task to checkpoint and exit, within the grace period."""
    KILL = "kill"
    """End the task at once."""
    RELEASE = "release"
    """Give the GPUs back, nothing running on them; report when that is so."""
    PROBE = "probe"
    """Test the node."""


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that one agent is asked to do. `job` and `run` are empty for a probe; `grace_s` is for a signal."""

    verb: Verb
    epoch: int
    node: NodeId
    job: JobId = JobId("")
    run: int = 0
    gpus: int | tuple[int, ...] = 0
    grace_s: float = 0.0


class Kind(enum.Enum):
    """What a note is about."""

    SUBMITTED = "submitted"
    STARTED = "started"
    PLACED = "placed"
    PROMISED = "promised"
    WAITS = "waits"
    PREEMPTED = "preempted"
    MOVED = "moved"
    RESIZED = "resized"
    REQUEUED = "requeued"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    RESERVED = "reserved"
    REPAIRED = "repaired"
    NODE = "node"
    RULES = "rules"
    STALE = "stale"
    DROPPED = "dropped"
    DEADLINE = "deadline"
    ALARM = "alarm"


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a person may want to know: what happened to whom, and why, in a sentence."""

    at: float
    kind: Kind
    text: str
    job: JobId | None = None
    node: NodeId | None = None
