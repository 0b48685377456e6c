"""What reaches the core, and what it asks its shell for."""

from __future__ import annotations

from dataclasses import dataclass

from optsched.agent.values import Key, Outcome, RunEnd, StartSpec

# From the scheduler


@dataclass(frozen=True, slots=True)
class Registered:
    """This agent is served, under an epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Reserve:
    """Set GPUs aside: those of `gpus`, or `count` where none are named."""

    epoch: int
    key: Key
    count: int
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Start:
    """Start the tasks of a run."""

    epoch: int
    key: Key
    spec: StartSpec


@dataclass(frozen=True, slots=True)
class Signal:
    """Tell the tasks to save their work and exit, within a grace."""

    epoch: int
    key: Key
    grace_s: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Kill:
    """End the tasks at once."""

    epoch: int
    key: Key
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Release:
    """Give the GPUs back."""

    epoch: int
    key: Key


@dataclass(frozen=True, slots=True)
class Probe:
    """Test the node."""

    epoch: int
    probe: int


@dataclass(frozen=True, slots=True)
class Acked:
    """A pending word need not be said again. `taken`: the scheduler took it in."""

    id: int
    taken: bool = True


# From the shell


@dataclass(frozen=True, slots=True)
class PortHeld:
    """A port is kept free for a run; 0: none could be found."""

    key: Key
    port: int


@dataclass(frozen=True, slots=True)
class Launched:
    """All tasks of a run work; also told of those that are found at work after a restart."""

    key: Key


@dataclass(frozen=True, slots=True)
class NotLaunched:
    """No task of a run works, because one could not be started; `outcome` says whose fault it is."""

    key: Key
    outcome: Outcome
    why: str
    exit_code: int | None = None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing of a run works any more."""

    key: Key
    end: RunEnd


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A job has saved its work."""

    version: str
    taken_at: float
    tier: str = ""
    bytes: int = 0
    step: int | None = None


@dataclass(frozen=True, slots=True)
class JobSaid:
    """A run has written in its reports, up to `read` bytes. `done`: its work is complete, however it ends."""

    key: Key
    read: int
    checkpoints: tuple[Checkpoint, ...] = ()
    done: bool = False


@dataclass(frozen=True, slots=True)
class ProbeEnded:
    """A probe that was asked for has ended."""

    probe: int
    ok: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Inventory:
    """What the node has: how many GPUs, and which must not be used."""

    gpus: int
    bad: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


Message = (
    Registered
    | Reserve
    | Start
    | Signal
    | Kill
    | Release
    | Probe
    | Acked
    | PortHeld
    | Launched
    | NotLaunched
    | Ended
    | JobSaid
    | ProbeEnded
    | Inventory
    | Tick
)

# To the shell


@dataclass(frozen=True, slots=True)
class HoldPort:
    """Find a port that is free and keep it so; answered by PortHeld."""

    key: Key


@dataclass(frozen=True, slots=True)
class FreePort:
    """Let a port go."""

    key: Key


@dataclass(frozen=True, slots=True)
class Launch:
    """Start the tasks; answered by Launched or NotLaunched, and later by Ended."""

    key: Key


@dataclass(frozen=True, slots=True)
class SignalTasks:
    """Send SIGTERM to the tasks."""

    key: Key


@dataclass(frozen=True, slots=True)
class KillTasks:
    """End all that works of a run; answered by Ended."""

    key: Key


@dataclass(frozen=True, slots=True)
class Forget:
    """Clear away what is kept on disk of a run, but for its logs."""

    key: Key


@dataclass(frozen=True, slots=True)
class RunProbe:
    """Test the GPUs that are idle; answered by ProbeEnded."""

    probe: int
    gpus: tuple[int, ...]


Action = HoldPort | FreePort | Launch | SignalTasks | KillTasks | Forget | RunProbe
