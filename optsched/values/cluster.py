"""Nodes, fabrics, reservations: the static side of a snapshot."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from optsched.values.ids import ANY_TYPE, GpuType, JobId, LevelName, NodeId, ReservationId, TeamId


class NodeState(enum.Enum):
    """Whether a node takes new work and keeps what it runs."""

    UP = "up"
    """Takes new work."""
    DRAINING = "draining"
    """Keeps what it runs, takes nothing new; is meant to become empty."""
    CORDONED = "cordoned"
    """Keeps what it runs, takes nothing new."""
    SUSPECT = "suspect"
    """Cordoned by the scheduler itself, for a stated reason."""
    PROBING = "probing"
    """Back from boot, repair or a cordon: takes nothing until its probe passes."""
    DOWN = "down"
    """Lost: what was booked there stays booked until it is confirmed gone."""

    __hash__ = object.__hash__
    """There is one object of each, and they are looked up at every step: by name that takes several times as long."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link between two GPU indices of one node; bandwidth in GB/s, None where it is not known."""

    first: int
    second: int
    kind: str
    bandwidth_gb_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Fabric:
    """How the GPUs inside one kind of node are wired.

    `islands` are groups of GPU indices with fast links among themselves; `nics` maps a GPU index to the name of its
    nearest rail.
    """

    links: tuple[Link, ...] = ()
    islands: tuple[tuple[int, ...], ...] = ()
    nics: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Node:
    """One machine. `gpus` counts all its GPUs, `gpus_bad` lists the indices that must not be used."""

    id: NodeId
    gpus: int
    domains: Mapping[LevelName, str] = field(default_factory=dict)
    gpu_type: GpuType = ANY_TYPE
    fabric: str | None = None
    cpus: float | None = None
    cpus_reserved: float = 0.0
    memory_gb: float | None = None
    gpus_bad: tuple[int, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    spare: bool = False
    state: NodeState = NodeState.UP
    reason: str = ""

    @property
    def healthy_gpus(self) -> int:
        """GPUs that may be used, >= 0."""
        return self.gpus - len(self.gpus_bad)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes and the levels, widest first, that their `domains` name; the level "node" is implicit and last."""

    nodes: tuple[Node, ...]
    levels: tuple[LevelName, ...] = ()
    fabrics: Mapping[str, Fabric] = field(default_factory=dict)
    name: str = ""


class ReservationKind(enum.Enum):
    """What an operator's reservation is for."""

    MAINTENANCE = "maintenance"
    """The nodes are given back by `start_at` and stay empty until `end_at`."""
    GRANT = "grant"
    """`gpus` inside `within` are kept for `teams` and `jobs`, whose use of them is guaranteed."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """An operator's reservation from `start_at` to `end_at` (instants, seconds)."""

    id: ReservationId
    start_at: float
    end_at: float
    kind: ReservationKind = ReservationKind.MAINTENANCE
    nodes: tuple[NodeId, ...] = ()
    gpus: int = 0
    within: str | None = None
    teams: tuple[TeamId, ...] = ()
    jobs: tuple[JobId, ...] = ()
