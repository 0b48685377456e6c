"""The coarse level: a few dozen cells, each the nodes of one domain and one GPU type."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optsched.rounds.problem import Ints, Problem

FEWEST, MOST = 8, 48
"""How many domains a coarse level should have."""


@dataclass(frozen=True, slots=True)
class Cells:
    """`cell_of` (N,): the cell of each node, -1 outside every one; `level`: the level whose domains the cells refine.

    `domain` and `gpu_type` (C,) describe each cell; `level` is -1 where domains were made up by grouping narrower ones,
    and then a cell says nothing about spans.
    """

    cell_of: Ints
    level: int
    domain: Ints
    gpu_type: Ints
    nodes: tuple[Ints, ...]

    @property
    def count(self) -> int:
        """The number of cells."""
        return len(self.domain)


def choose_cells(problem: Problem) -> Cells:
    """Choose the coarse level: the one with the number of domains nearest to FEWEST..MOST, the narrower of two alike.

    Nodes outside that level's domains share one extra domain each type. With no level but nodes, all nodes are one
    domain.
    """
    tree = problem.tree
    levels = list(range(tree.node_level))
    best, best_cost = -1, float("inf")
    for level in levels:
        count = tree.domain_count(level)
        cost = max(0.0, np.log(FEWEST / max(1, count)), np.log(count / MOST)) if count else float("inf")
        if cost < best_cost or (cost == best_cost and level > best):
            best, best_cost = level, float(cost)
    count = len(problem.nodes.capacity)
    domain = tree.domain_of[best].astype(np.int64) if best >= 0 else np.zeros(count, dtype=np.int64)
    outside = int(domain.max(initial=0)) + 1
    domain = np.where(domain < 0, outside, domain)
    pairs = domain * len(problem.gpu_types) + problem.nodes.gpu_type
    known, cell_of = np.unique(pairs, return_inverse=True)
    return Cells(
        cell_of=cell_of.astype(np.int64),
        level=best,
        domain=known // len(problem.gpu_types),
        gpu_type=known % len(problem.gpu_types),
        nodes=tuple(np.flatnonzero(cell_of == c) for c in range(len(known))),
    )
