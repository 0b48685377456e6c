"""What one round hands on to the next."""

from __future__ import annotations

from dataclasses import dataclass, replace

from optsched.planner.window import Kinds
from optsched.rounds.facts import Facts
from optsched.topology.tree import Tree, build_tree
from optsched.values.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Memory:
    """What a round may take over from the one before; nothing in it can make a plan invalid or a bound wrong.

    `tree` is the topology of `cluster`, which stays while nodes, levels and domains do. `facts` are what was worked out
    of jobs, `kinds` which jobs of a long queue are alike: memories that rounds add to. `turn`: which way of placing is
    to be tried: the same again while it is of use, else the next one, so that rounds one after the other try all.
    `searched_at` is the instant of the last round that was searched.
    """

    cluster: Cluster
    tree: Tree
    facts: Facts
    kinds: Kinds
    turn: int = 0
    searched_at: float | None = None

    def after_search(self, at: float, *, better: bool) -> Memory:
        """Return what the next round is to know: when this one was searched, and if that found what greedy did not."""
        return replace(self, turn=self.turn if better else self.turn + 1, searched_at=at)


def remembered(memory: Memory | None, cluster: Cluster) -> Memory:
    """Return what of a memory holds for a cluster; without one all is worked out."""
    if memory is not None and memory.cluster is cluster:
        return memory
    if memory is not None and _same_domains(memory.cluster, cluster):
        return replace(memory, cluster=cluster)
    return Memory(cluster, build_tree(cluster), Facts(), Kinds(), 0 if memory is None else memory.turn)


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
