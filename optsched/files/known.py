"""What a file has defined so far: what a job, a reservation or an event may refer to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from optsched.files.document import PathOf
from optsched.files.report import Scope, known, show
from optsched.values.cluster import Cluster, Fabric, Node
from optsched.values.ids import ANY_TYPE, NODE_LEVEL, GpuType, JobId, LevelName, NodeId, TeamId
from optsched.values.profile import Profile
from optsched.values.team import Team


@dataclass(slots=True)
class Clock:
    """The clock of one file: all its instants are numbers, or all are RFC 3339."""

    number_at: PathOf | None = None
    text_at: PathOf | None = None

    def seconds(self, value: float | str, scope: Scope, key: str) -> float:
        """Return an instant in seconds (RFC 3339: since 1970). A date that does not exist is a fault."""
        if not isinstance(value, str):
            if self.number_at is None:
                self.number_at = (*scope.path, key)
            return float(value)
        if self.text_at is None:
            self.text_at = (*scope.path, key)
        try:
            return datetime.fromisoformat(value.upper()).timestamp()
        except (ValueError, OverflowError):
            scope.fault(f"given {show(value)}", "a date and time that exist", key)
            return 0.0

    def check(self, scope: Scope) -> None:
        """Note a fault where both kinds were used; `scope` is the top of the file."""
        if self.number_at is not None and self.text_at is not None:
            other = scope.at(*self.text_at).name
            scope.fault(
                f"a number, while {other} is RFC 3339", "all instants of a file in the same way", *self.number_at
            )


@dataclass(slots=True)
class Known:
    """What is defined, and under which profile and clock the rest is read.

    `cluster_known` is false where the cluster is so wrong that nothing can be checked against it. `team_ids` and
    `node_ids` also hold the ids of entries that are wrong in themselves.
    """

    now: float
    clock: Clock
    profile: Profile
    cluster_known: bool = False
    levels: tuple[LevelName, ...] = ()
    fabrics: Mapping[str, Fabric] = field(default_factory=dict)
    nodes: dict[NodeId, Node] = field(default_factory=dict)
    node_ids: set[str] = field(default_factory=set)
    teams: dict[TeamId, Team] = field(default_factory=dict)
    team_ids: set[str] = field(default_factory=set)
    job_ids: set[str] = field(default_factory=set)
    largest_node: int = 0
    gpu_types: set[GpuType] = field(default_factory=set)
    missing_types: dict[GpuType, list[JobId]] = field(default_factory=dict)
    rank_of: dict[str, int] = field(default_factory=dict)

    def set_cluster(self, cluster: Cluster, node_ids: set[str]) -> None:
        """Take in the cluster."""
        self.cluster_known = True
        self.levels, self.fabrics = cluster.levels, cluster.fabrics
        self.rank_of = {level: rank for rank, level in enumerate((*cluster.levels, NODE_LEVEL))}
        self.node_ids |= node_ids
        for node in cluster.nodes:
            self.add_node(node)

    def add_node(self, node: Node) -> None:
        """Take in a node of the cluster or of an event."""
        self.nodes[node.id] = node
        self.node_ids.add(node.id)
        self.largest_node = max(self.largest_node, node.gpus)
        if node.gpu_type != ANY_TYPE:
            self.gpu_types.add(node.gpu_type)

    def level(self, name: str, scope: Scope, *key: str) -> LevelName | None:
        """Return a level by its exact name; None where it is unknown (a fault) or cannot be checked."""
        if name in self.rank_of or not self.cluster_known:
            return LevelName(name)
        scope.fault(f"unknown level {show(name)}", known(list(self.rank_of), name, "known levels"), *key)
        return None

    def priority(self, given: int | str, scope: Scope, key: str) -> tuple[int, str] | None:
        """Return a priority as a number with the name of its class ('' for a plain number)."""
        if not isinstance(given, str):
            return given, ""
        if given in self.profile.classes:
            return self.profile.classes[given], given
        classes = list(self.profile.classes)
        scope.fault(
            f"unknown priority class {show(given)}", known(classes, given, "known classes") + ", or a whole number", key
        )
        return None

    def check_team(self, name: str, scope: Scope, *key: str | int) -> None:
        """Note a fault where no team has this name."""
        if name not in self.team_ids:
            scope.fault(f"unknown team {show(name)}", known(sorted(self.team_ids), name, "known teams"), *key)

    def check_node(self, name: str, scope: Scope, *key: str | int) -> None:
        """Note a fault where no node has this name."""
        if self.cluster_known and name not in self.node_ids:
            scope.fault(f"unknown node {show(name)}", known(sorted(self.node_ids), name, "known nodes"), *key)
