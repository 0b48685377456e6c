"""Elastic jobs that give up GPUs: which, and taken back where nobody took them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from optsched.rounds.check import shape_faults
from optsched.rounds.problem import Problem, RoundJob
from optsched.solve.floors import Floors
from optsched.solve.ledger import Ledger
from optsched.solve.supply import Supply


def give_up(problem: Problem, ledger: Ledger, supply: Supply, floors: Floors, job: RoundJob, lost: int) -> None:
    """Let an elastic job give up GPUs where others may have them and it has least, so that what stays is together."""
    tree = problem.tree
    held = np.zeros(len(problem.nodes.capacity), dtype=np.int64)
    for n, count in job.spread_now:
        held[n] = count
    sums = [tree.sum_per_domain(level, held) for level in range(tree.node_level)]

    def order(n: int) -> tuple[int, ...]:
        domains = [int(tree.domain_of[level][n]) for level in range(tree.node_level)]
        held_by_level = (int(held[d]) if d >= 0 else 0 for held, d in zip(sums, domains, strict=True))
        return (not problem.nodes.taking[n], *held_by_level, n)

    chunk, at = job.slices[0] if job.slices else (job.unit, tree.node_level)
    kept, left = dict(job.spread_now), lost
    for n in sorted(kept, key=order):
        inside = [m for m in kept if tree.domain_of[at][m] == tree.domain_of[at][n] and kept[m]]
        most = min(left, sum(kept[m] for m in inside)) // chunk * chunk
        left -= most
        for m in sorted(inside, key=lambda m: (kept[m], m)):
            part = min(most, kept[m])
            kept[m] -= part
            most -= part
    spread = tuple((n, count) for n, count in kept.items() if count)
    if left == 0 and not shape_faults(problem, job, spread):
        given = tuple((n, count - kept[n]) for n, count in job.spread_now if count > kept[n])
        supply.shrink(job.index, given)
        ledger.shrink(job, spread)
        floors.shrink(job, given)


def take_back_unused(problem: Problem, ledger: Ledger, supply: Supply, shrinks: Iterable[int]) -> None:
    """Let those keep what they have whose GPUs nobody took, node by node, the more urgent first."""
    for j in sorted(shrinks, key=lambda j: (problem.jobs[j].priority, j)):
        job, kept = problem.jobs[j], ledger.changed.get(j)
        if kept is None:
            continue
        unused = [(n, count) for n, count in supply.unused(j) if ledger.has_beside(job, n, count)]
        while unused:
            back = dict(kept)
            for n, count in unused:
                back[n] = back.get(n, 0) + count
            spread = tuple(sorted(back.items()))
            if spread == job.spread_now or not shape_faults(problem, job, spread):
                ledger.unshrink(job, spread)
                supply.unshrink(j, [n for n, _ in unused])
                break
            unused.pop()
