"""Where a gang of equal parts is best placed: the cheapest nodes of the domain in which nodes and span cost least."""

from __future__ import annotations

import numpy as np

from optsched.rounds.problem import Ints, Problem, RoundJob, Spread
from optsched.rounds.score import loss_at, scatter_price


def cheapest_nodes(problem: Problem, job: RoundJob, nodes: Ints, price: Ints) -> Spread | None:
    """Return `minimum / unit` of `nodes` (all can hold a part), least in price and placement loss, or None.

    `price` (N,) is what a part costs on each node, in GPU-seconds; negative where it saves something. With slices of
    one level each slice's nodes are the cheapest that are left of one domain there.
    """
    best: tuple[int, Ints] | None = None
    types = problem.nodes.gpu_type[nodes]
    widest = job.slices[0][1] if job.slices else problem.tree.node_level
    for y in np.unique(types).tolist():
        if job.type_speed[y] <= 0:
            continue
        of_type = nodes[types == y]
        groups = _slices(problem, job, of_type, price) if job.slices else of_type[:, None]
        if not len(groups):
            continue
        heads = groups[:, 0]
        of = np.zeros(len(problem.nodes.capacity), dtype=np.int64)
        of[heads] = np.arange(len(heads))
        each = np.zeros(len(problem.nodes.capacity), dtype=np.int64)
        each[heads] = price[groups].sum(axis=1)
        for level in range(min(widest, problem.tree.node_level - 1), -2, -1):
            if job.required is not None and level < job.required:
                break
            for chosen in _in_one_domain(problem, job, heads, each, level, groups.shape[1]):
                found = groups[of[chosen]].ravel()
                loss = loss_at(problem, job, job.minimum, level, y) + _scatter(problem, job, found)
                value = int(price[found].sum()) + loss
                if best is None or value < best[0]:
                    best = value, found
    return None if best is None else tuple((n, job.unit) for n in sorted(best[1].tolist()))


def _slices(problem: Problem, job: RoundJob, nodes: Ints, price: Ints) -> Ints:
    """Return the nodes slice by slice, (slices, nodes of one): the cheapest of each domain first."""
    piece, level = job.slices[0]
    width = piece // job.unit
    domain = problem.tree.domain_of[level][nodes].astype(np.int64)
    nodes, domain = nodes[domain >= 0], domain[domain >= 0]
    order = np.lexsort((nodes, price[nodes], domain))
    nodes, there = nodes[order], domain[order]
    firsts = np.flatnonzero(np.r_[True, there[1:] != there[:-1]]) if len(there) else np.zeros(0, dtype=np.int64)
    lengths = np.diff(firsts, append=len(there))
    position = np.arange(len(there)) - np.repeat(firsts, lengths)
    whole: Ints = nodes[position < np.repeat(lengths // width * width, lengths)].reshape(-1, width)
    return whole


def _in_one_domain(problem: Problem, job: RoundJob, nodes: Ints, price: Ints, level: int, width: int) -> list[Ints]:
    """Return good sets of nodes inside one domain of a level (-1: the whole cluster), the cheapest first.

    Each stands for `width` nodes.
    """
    count = job.minimum // job.unit // width
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
    """Return `count` nodes in few domains of the preferred level: those with most and cheapest nodes first."""
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
