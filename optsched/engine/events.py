"""What may happen: requests, what agents report, what becomes of nodes, decisions, and time that passes.

A request that the state does not allow raises Conflict. A report is data: late, repeated or foreign, it changes
nothing. A run of None means the run that the job has by then.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from optsched.values.cluster import Node, Reservation
from optsched.values.ids import JobId, NodeId, ReservationId
from optsched.values.job import Job
from optsched.values.plan import Plan, Waiting
from optsched.values.profile import Profile
from optsched.values.team import Team


class Outcome(enum.Enum):
    """What an agent says about its part of a run."""

    RESERVED = "reserved"
    """The GPUs are set aside."""
    STARTED = "started"
    """The task runs."""
    OK = "ok"
    """The task ended well."""
    FAILED = "failed"
    """The task ended badly, by its own fault."""
    INFRA = "infra"
    """The task ended badly, by the fault of the machine."""
    REFUSED = "refused"
    """The task could not be started here."""
    RELEASED = "released"
    """The GPUs are free."""


# Requests


class Condition(enum.Enum):
    """How far a job has to have come before one that waits for it may start."""

    COMPLETED = "completed"
    """All its tasks ended well."""
    ENDED = "ended"
    """It has ended, however."""
    STARTED = "started"
    """All its tasks have worked once."""


@dataclass(frozen=True, slots=True)
class After:
    """A job that another one waits for."""

    job: JobId
    condition: Condition = Condition.COMPLETED


@dataclass(frozen=True, slots=True)
class Member:
    """A job's place in an array; at most `most` members hold GPUs at a time (0: as many as there are)."""

    id: JobId
    index: int
    most: int = 0


@dataclass(frozen=True, slots=True)
class Submit:
    """A job is submitted; the same job again changes nothing. `held`: it does not start before it is released."""

    job: Job
    held: bool = False
    after: tuple[After, ...] = ()
    array: Member | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """A queued job is kept from starting."""

    job: JobId
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Unhold:
    """A job that is held may start."""

    job: JobId


@dataclass(frozen=True, slots=True)
class Cancel:
    """A job is withdrawn."""

    job: JobId


@dataclass(frozen=True, slots=True)
class Update:
    """Fields of a job change, named as those of `Job`."""

    job: JobId
    changes: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Preempt:
    """An operator preempts a job that runs."""

    job: JobId
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SetTeam:
    """A team is created or replaced."""

    team: Team


@dataclass(frozen=True, slots=True)
class SetProfile:
    """Another profile holds from now on."""

    profile: Profile


@dataclass(frozen=True, slots=True)
class SetReservation:
    """A reservation is created or replaced."""

    reservation: Reservation


@dataclass(frozen=True, slots=True)
class DropReservation:
    """A reservation is withdrawn."""

    reservation: ReservationId


@dataclass(frozen=True, slots=True)
class Asked:
    """Somebody asked for what the next entries of the log do; it changes nothing by itself.

    `what` is the request as a word, `detail` as JSON. `job` is the one that the request is about; an empty id stands
    for the cluster and its rules.
    """

    by: str
    what: str
    detail: str = ""
    job: JobId = JobId("")


# What agents report


@dataclass(frozen=True, slots=True)
class Report:
    """An agent says what became of its part of a run. `epoch` None: one that states none."""

    job: JobId
    node: NodeId
    outcome: Outcome
    run: int | None = None
    why: str = ""
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Reports:
    """The agents of several nodes say the same of their parts of a run at one instant: as many reports in one."""

    job: JobId
    nodes: tuple[NodeId, ...]
    outcome: Outcome
    run: int | None = None
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """All tasks of a run ended well."""

    job: JobId
    run: int | None = None


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """A run has a new checkpoint, taken at `taken_at` (None: now)."""

    job: JobId
    run: int | None = None
    version: str | None = None
    tier: str | None = None
    taken_at: float | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A node's agent lives. `session` grows with every start of the agent; `agent` is who speaks."""

    node: NodeId
    agent: str = ""
    session: int = 0
    gpus: int | None = None


@dataclass(frozen=True, slots=True)
class Parted:
    """The stream of a node's agent broke, by no doing of ours: that is a fact, where silence is none yet."""

    node: NodeId
    session: int = 0


@dataclass(frozen=True, slots=True)
class Inventory:
    """What an agent holds after a restart of the scheduler or its own: {(job, run)}; all else on it is gone."""

    node: NodeId
    runs: frozenset[tuple[JobId, int]] = frozenset()


# What becomes of nodes


@dataclass(frozen=True, slots=True)
class NodeLost:
    """A node is lost; what it ran has failed, what is booked there stays booked until it is fenced."""

    node: NodeId
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fenced:
    """Nothing runs on a lost node any more: an operator or its power switch says so."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class NodeBack:
    """A lost node is back."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class Probed:
    """A probe of a node passed, or did not."""

    node: NodeId
    ok: bool = True
    why: str = ""


@dataclass(frozen=True, slots=True)
class GpusChanged:
    """A node reports another number of GPUs."""

    node: NodeId
    gpus: int


@dataclass(frozen=True, slots=True)
class Slow:
    """A node runs at `factor` of the speed of its gang's median."""

    node: NodeId
    factor: float


@dataclass(frozen=True, slots=True)
class SetNode:
    """A node joins, or is described anew (other domains, labels, CPUs)."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeRemoved:
    """A node leaves for good."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class Cordon:
    """An operator closes a node to new work."""

    node: NodeId
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Drain:
    """An operator wants a node empty."""

    node: NodeId
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Uncordon:
    """An operator opens a node again."""

    node: NodeId


# Decisions and time


class Cause(enum.Enum):
    """Why a decision was made."""

    ROUND = "round"
    """A scheduling round."""
    REPAIR = "repair"
    """A failed gang goes on with what is left of it and a few other nodes."""
    HOLD = "hold"
    """A reservation is called in: what ran in it on that condition gives way."""
    LEAVE = "leave"
    """Work goes on elsewhere, off nodes that are to become empty."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A plan, made of the state of version `seen`. A fact: replaying it decides nothing anew.

    `lent` names, by job that is let into held room, those that may stop it for that. `again`: the plan left jobs out
    that are to be looked at next.
    """

    plan: Plan
    seen: int
    cause: Cause = Cause.ROUND
    lent: Mapping[JobId, tuple[JobId, ...]] = field(default_factory=dict)
    again: bool = False


@dataclass(frozen=True, slots=True)
class Waits:
    """Why jobs wait: the rest of what a decision says of that."""

    queued: tuple[Waiting, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Lead:
    """A scheduler takes over; all that commands of a smaller epoch ask is void."""

    epoch: int


Event = (
    Submit
    | Hold
    | Unhold
    | Cancel
    | Update
    | Preempt
    | SetTeam
    | SetProfile
    | SetReservation
    | DropReservation
    | Asked
    | Report
    | Reports
    | Finished
    | Checkpointed
    | Heartbeat
    | Parted
    | Inventory
    | NodeLost
    | Fenced
    | NodeBack
    | Probed
    | GpusChanged
    | Slow
    | SetNode
    | NodeRemoved
    | Cordon
    | Drain
    | Uncordon
    | Decided
    | Waits
    | Tick
    | Lead
)
