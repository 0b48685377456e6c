"""What can lie ahead in a simulation: everything that the kernel's calendar may hold."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from optsched.engine.events import Report
from optsched.values.ids import JobId, NodeId


class Mile(enum.Enum):
    """What a run comes to, if nothing comes between."""

    END = "end"
    """Its work is done, and it ends as the workload says."""
    PROCESS = "process"
    """It fails by the fault of network or software."""
    OWN = "own"
    """It fails by its own fault."""


class Part(enum.Enum):
    """What fails by itself."""

    GPU = "gpu"
    NODE = "node"
    DOMAIN = "domain"


@dataclass(frozen=True, slots=True)
class Arrives:
    """The next job of the workload is submitted."""

    index: int


@dataclass(frozen=True, slots=True)
class Answers:
    """Agents report; one whose node is dead by then stays silent."""

    reports: tuple[Report, ...]


@dataclass(frozen=True, slots=True)
class Reaches:
    """A run comes to something."""

    job: JobId
    run: int
    mile: Mile


@dataclass(frozen=True, slots=True)
class Saves:
    """A run has finished its checkpoint number `count`, 1 and up."""

    job: JobId
    run: int
    count: int


@dataclass(frozen=True, slots=True)
class Fails:
    """Something fails for the `count`-th time."""

    part: Part
    name: str
    count: int


@dataclass(frozen=True, slots=True)
class HangEnds:
    """It is noticed that a GPU of a node has failed, and with it a run, if one had it."""

    node: NodeId
    job: JobId | None
    run: int


@dataclass(frozen=True, slots=True)
class Missed:
    """It is noticed that a node is lost."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class Fences:
    """It is known that nothing runs on a lost node any more."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class Repaired:
    """A node is repaired, or was looked at."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class Probes:
    """A node's probe has passed."""

    node: NodeId


Happening = Arrives | Answers | Reaches | Saves | Fails | HangEnds | Missed | Fences | Repaired | Probes
