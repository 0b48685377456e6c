"""The planner of consecutive rounds: what does not change between them is worked out once."""

from __future__ import annotations

from optsched.clock import Clock
from optsched.planner.plan import PlanOptions, plan_round
from optsched.topology.tree import Tree, build_tree
from optsched.values.cluster import Cluster
from optsched.values.plan import Plan
from optsched.values.snapshot import Snapshot


class RoundPlanner:
    """Plans rounds one after the other. The topology is built anew only where nodes, levels or domains changed.

    It remembers nothing that could change a plan: each is the one that `plan_round` gives for its snapshot alone.
    """

    def __init__(self, options: PlanOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._cluster: Cluster | None = None
        self._tree: Tree | None = None

    def __call__(self, snapshot: Snapshot) -> Plan:
        """Return the plan of a snapshot."""
        return plan_round(snapshot, self._options, self._clock, tree=self._tree_of(snapshot.cluster))

    def _tree_of(self, cluster: Cluster) -> Tree:
        if self._tree is None or self._cluster is None or not _same_domains(self._cluster, cluster):
            self._tree = build_tree(cluster)
        self._cluster = cluster
        return self._tree


def _same_domains(first: Cluster, second: Cluster) -> bool:
    """Return whether two clusters have the same nodes in the same domains, whatever state they are in."""
    return (
        first.levels == second.levels
        and len(first.nodes) == len(second.nodes)
        and all(
            a is b or (a.id == b.id and (a.domains is b.domains or a.domains == b.domains))
            for a, b in zip(first.nodes, second.nodes, strict=True)
        )
    )
