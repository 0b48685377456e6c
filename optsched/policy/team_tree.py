"""The team tree as arrays, depth by depth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optsched.errors import InternalError
from optsched.policy.filling import Floats, Group, Ints
from optsched.values.ids import TeamId
from optsched.values.team import Team


@dataclass(frozen=True, slots=True)
class Depth:
    """The tree nodes (E,) of one depth, sorted by their parent; `parents` (G,) of each group, -1 at the roots."""

    nodes: Ints
    parents: Ints
    group: Group


@dataclass(frozen=True, slots=True)
class TeamTree:
    """The teams as arrays, n of them, in the order in which they were given.

    `parent` (n,) is an index or -1 for a root, `weight` (n,) >= 0, `order` lists all teams, each after the teams below
    it. For another weighting (say, by past usage) use `dataclasses.replace(tree, weight=...)`.
    """

    team_ids: tuple[TeamId, ...]
    parent: Ints
    weight: Floats
    order: Ints
    own_node: Ints
    """(n,) the tree node that stands for a team's own jobs: itself, or an extra child where others are below."""
    node_parent: Ints
    """(N,) parents among the N >= n tree nodes, the first n of which are the teams."""
    depths: tuple[Depth, ...]
    """Tree nodes by depth, roots first."""


def build_team_tree(teams: Sequence[Team]) -> TeamTree:
    """Return the tree of `teams`; raises InternalError where a parent is unknown or a team is above itself."""
    index = {team.id: position for position, team in enumerate(teams)}
    count = len(teams)
    parents: list[int] = []
    for team in teams:
        if team.parent is not None and team.parent not in index:
            raise InternalError(f"team {team.id}: unknown parent {team.parent}")
        parents.append(-1 if team.parent is None else index[team.parent])
    inner = sorted(set(parents) - {-1})
    node_parents = parents + inner
    depth_of: list[int] = []
    for node in range(len(node_parents)):
        depth, above = 0, node_parents[node]
        while above >= 0:
            depth, above = depth + 1, node_parents[above]
            if depth > count:
                raise InternalError(f"team {teams[node % count].id} is above itself")
        depth_of.append(depth)
    node_parent, depth_array = np.array(node_parents, dtype=np.int64), np.array(depth_of, dtype=np.int64)
    depths = []
    for depth in range(max(depth_of, default=-1) + 1):
        nodes = np.flatnonzero(depth_array == depth)
        nodes = nodes[np.argsort(node_parent[nodes], kind="stable")]
        group_parents, starts, of = np.unique(node_parent[nodes], return_index=True, return_inverse=True)
        depths.append(Depth(nodes, group_parents, Group(of.astype(np.int64), starts.astype(np.int64))))
    own_node = np.arange(count, dtype=np.int64)
    own_node[inner] = count + np.arange(len(inner))
    return TeamTree(
        team_ids=tuple(team.id for team in teams),
        parent=node_parent[:count],
        weight=np.array([team.weight for team in teams], dtype=np.float64),
        order=np.argsort(-depth_array[:count], kind="stable").astype(np.int64),
        own_node=own_node,
        node_parent=node_parent,
        depths=tuple(depths),
    )


def sums_below(tree: TeamTree, per_node: Floats) -> Floats:
    """Return sums over each node and all below it of amounts (N, ...) that the nodes with own jobs hold."""
    total = per_node.copy()
    for depth in reversed(tree.depths[1:]):
        total[depth.parents] += depth.group.sums(total[depth.nodes])
    return total
