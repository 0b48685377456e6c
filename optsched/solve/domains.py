"""Where a gang of equal parts is best placed: the cheapest nodes of the domain in which nodes and span cost least."""

from __future__ import annotations

import numpy as np

from optsched.rounds.problem import Ints, Problem, RoundJob, Spread
from optsched.rounds.score import loss_at, scatter_price


def cheapest_nodes(problem: Problem, job: RoundJob, nodes: Ints, price: Ints) -> Spread | None:
    """Return `minimum / unit` of `nodes` (all can hold a part), least in price and placement loss, or None.

    `price` (N,) is what a part costs on each node, in GPU-seconds; negative where it saves something.
    """
    best: tuple[int, Ints] | None = None
    types = problem.nodes.gpu_type[nodes]
    for y in np.unique(types).tolist():
        if job.type_speed[y] <= 0:
            continue
        of_type = nodes[types == y]
        for level in range(problem.tree.node_level - 1, -2, -1):
            if job.required is not None and level < job.required:
                break
            for found in _in_one_domain(problem, job, of_type, price, level):
                loss = loss_at(problem, job, job.minimum, level, y) + _scatter(problem, job, found)
                value = int(price[found].sum()) + loss
                if best is None or value < best[0]:
                    best = value, found
    return None if best is None else tuple((n, job.unit) for n in sorted(best[1].tolist()))


def _in_one_domain(problem: Problem, job: RoundJob, nodes: Ints, price: Ints, level: int) -> list[Ints]:
    """Return good sets of nodes inside one domain of a level (-1: the whole cluster), the cheapest first."""
    count = job.minimum // job.unit
    domain = np.zeros(len(nodes), dtype=np.int64)
    if level >= 0:
        domain = problem.tree.domain_of[level][nodes].astype(np.int64)
        nodes, domain = nodes[domain >= 0], domain[domain >= 0]
    if len(nodes) < count:
        return []
    order = np.lexsort((nodes, price[nodes], domain))
    there = domain[order]
    firsts = np.flatnonzero(np.r_[True, there[1:] != there[:-1]])
    position = np.arange(len(order)) - np.repeat(firsts, np.diff(firsts, append=len(order)))
    taken = order[position < count]
    full = np.bincount(domain[taken]) == count
    if not full.any():
        return []
    sums = np.bincount(domain[taken], price[nodes[taken]])
    d = int(np.argmin(np.where(full, sums, np.inf)))
    found = [nodes[taken[domain[taken] == d]]]
    if job.preferred is not None and job.preferred > level:
        found.append(_few_domains(problem, job, nodes[domain == d], price, count))
    return found


def _few_domains(problem: Problem, job: RoundJob, nodes: Ints, price: Ints, count: int) -> Ints:
    """Return `count` nodes in few domains of the preferred level: those with most and cheapest nodes, one after another."""
    assert job.preferred is not None
    worth = np.sort(price[nodes])[count - 1]
    domain = problem.tree.domain_of[job.preferred][nodes].astype(np.int64)
    domain = np.where(domain < 0, domain.max(initial=0) + 1 + np.arange(len(nodes)), domain)
    cheap = np.bincount(domain, price[nodes] <= worth)
    every = np.bincount(domain)
    order = np.lexsort((nodes, price[nodes], -every[domain], domain, -cheap[domain]))
    found: Ints = nodes[order[:count]]
    return found


def _scatter(problem: Problem, job: RoundJob, nodes: Ints) -> int:
    if job.preferred is None:
        return 0
    domains = problem.tree.domain_of[job.preferred][nodes]
    used = len(np.unique(domains[domains >= 0])) + int((domains < 0).sum())
    return scatter_price(problem, job, job.minimum) * max(0, used - job.preferred_fewest)
