"""What an agent knows: the runs on its node, and what it still has to say about them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

MOST_NEWEST = 10_000
"""Jobs whose newest run is remembered."""


class Phase(enum.Enum):
    """How far a run has come on this node."""

    RESERVING = "reserving"
    """Its GPUs are set aside; a port is being found, or an older run there still ends."""
    RESERVED = "reserved"
    """Its GPUs are set aside, and the scheduler was told."""
    STARTING = "starting"
    """Its tasks are being started."""
    RUNNING = "running"
    """Its tasks work."""
    STOPPING = "stopping"
    """Told to save its work and exit; the kill waits behind the grace."""
    KILLING = "killing"
    """Being ended by force."""
    ENDED = "ended"
    """Nothing of it works any more; the scheduler has not acknowledged that it is released."""


UNBEGUN = frozenset({Phase.RESERVING, Phase.RESERVED})
AT_WORK = frozenset({Phase.STARTING, Phase.RUNNING, Phase.STOPPING, Phase.KILLING})
TOLD_TO_END = frozenset({Phase.STOPPING, Phase.KILLING})


class Outcome(enum.Enum):
    """What an agent says about its part of a run."""

    RESERVED = "reserved"
    STARTED = "started"
    OK = "ok"
    """All its tasks ended well."""
    FAILED = "failed"
    """A task ended badly, by its own fault."""
    INFRA = "infra"
    """A task ended badly, by the fault of the machine."""
    REFUSED = "refused"
    """Could not be reserved or started here."""
    RELEASED = "released"
    """Nothing of the run works here any more."""
    FENCED = "fenced"
    """A command was not followed: its epoch or run is too old."""


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """One run of one job; a job has one part of it on a node."""

    job: str
    run: int


@dataclass(frozen=True, slots=True)
class Task:
    """One process group. `gpus` are indices on the node; `count` says how many where none are named."""

    rank: int
    local_rank: int
    gpus: tuple[int, ...]
    count: int
    slice: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StartSpec:
    """What starting a node's part of a run needs to know. Times in seconds; `interval_s` 0: the job's own choice."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    working_directory: str
    user: str
    team: str
    tasks: tuple[Task, ...]
    world_size: int
    node_count: int
    node_rank: int
    gang_gpus: int
    master_address: str
    master_port: int
    restore_version: str = ""
    interval_s: float = 0.0
    on_signal: bool = False
    grace_s: float = 0.0
    cpus: float = 0.0
    memory_gb: float = 0.0
    array_index: int | None = None


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """How one task ended: by itself with a code, or by a signal."""

    rank: int
    code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a node's part of a run ended.

    `first_bad` is the task that ended badly first, the others were ended because of it. `out_of_memory`: the kernel
    ended a process for want of memory meanwhile. `lost`: why nobody saw the end, "" where it was seen.
    `faults` are what the GPUs of the run reported meanwhile that is the machine's fault.
    """

    tasks: tuple[TaskEnd, ...] = ()
    first_bad: TaskEnd | None = None
    out_of_memory: bool = False
    lost: str = ""
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """One run on this node. `kill_at` and `say_at` are on the agent's clock, seconds since 1970.

    `say_at` is when it will be told that it failed, by `end`: what it is a consequence of is to be told first.
    """

    key: Key
    phase: Phase
    gpus: tuple[int, ...]
    port: int = 0
    start: StartSpec | None = None
    kill_at: float | None = None
    reports_read: int = 0
    says_done: bool = False
    end: RunEnd | None = None
    say_at: float | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """A report that waits for its acknowledgement. `at` is on the agent's clock."""

    id: int
    key: Key
    outcome: Outcome
    at: float
    why: str = ""
    exit_code: int | None = None
    exit_signal: int | None = None
    rank: int | None = None
    port: int = 0


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint that a job reported and that waits for its acknowledgement."""

    id: int
    key: Key
    version: str
    taken_at: float
    tier: str = ""
    bytes: int = 0
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Probed:
    """The answer to a probe, waiting for its acknowledgement."""

    id: int
    probe: int
    ok: bool
    why: str = ""


Pending = Said | Saved | Probed


@dataclass(frozen=True, slots=True)
class State:
    """All that outlives the agent's process: it is on disk before anything is done or said because of it.

    `epoch` is the largest that was seen. `newest` names each job's newest run; `gpus` is how many the node has, `bad`
    are those that must not be used.
    """

    gpus: int
    epoch: int = 0
    runs: Mapping[Key, Run] = field(default_factory=dict)
    newest: Mapping[str, int] = field(default_factory=dict)
    outbox: tuple[Pending, ...] = ()
    next_id: int = 1
    bad: frozenset[int] = frozenset()
