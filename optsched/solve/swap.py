"""Ways to start one blocked job by stopping others, the least missed first. Used by the greedy solver."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from optsched.rounds.problem import Cut, Flags, Ints, RoundJob, Spread
from optsched.rounds.room import room_in_cluster, slice_down, whole_slices
from optsched.solve.packing import pack
from optsched.solve.supply import Room, Supply, firsts_of, lengths_of

MAX_NODES = 4
"""How many nodes are looked at for one job on one node, by victims alone and by victims together."""

MAX_DOMAINS = 3
"""How many domains are looked at for one gang."""

MAX_PRUNED = 8
"""How many victims of one job are tried for whether the job can start without them."""

Way = tuple[list[int], Spread]
"""Whom to stop, and where the job then starts."""


def ways(supply: Supply, job: RoundJob, room: Room, live: Ints) -> Iterator[Way]:
    """Yield ways to start the job over the `live` pairs, best first as far as can be told cheaply."""
    if job.cut is Cut.ONE_NODE:
        yield from _on_one_node(supply, job, room, live)
    elif job.cut is Cut.PER_NODE and not job.slices:
        yield from _on_equal_nodes(supply, job, room, live)
    else:
        yield from _anywhere(supply, job, room, live)


def _on_one_node(supply: Supply, job: RoundJob, room: Room, live: Ints) -> Iterator[Way]:
    need = job.minimum
    allowed = supply.nodes_of_types(job)
    if allowed is not None:
        live = live[allowed[supply.node[live]]]
    alone = supply.alone_enough(job, room, live, need)
    tried: list[tuple[tuple[int, ...], list[int], int]] = []
    if len(alone):
        spare = supply.gpus[alone] + room.gpus[supply.node[alone]]
        for q in alone[_least(supply.price[supply.job[alone]], spare)].tolist():
            tried.append((supply.cost_of([int(supply.job[q])]), [int(supply.job[q])], int(supply.node[q])))
    heads, lasts = supply.first_enough(job, room, live, need)
    if len(lasts):
        # The last of a prefix has the most important rank; what the prefix sums to decides among those.
        who = supply.job[live]
        sizes = supply.victims.size[who]
        through = sizes.cumsum()
        size = through[lasts] - through[heads] + sizes[heads]
        for i in _least(-supply.row[who[lasts]], size).tolist():
            n = int(supply.node[live[lasts[i]]])
            chosen = _pruned_on_node(supply, job, room, who[heads[i] : lasts[i] + 1].tolist(), n)
            tried.append((supply.cost_of(chosen), chosen, n))
    tried.sort(key=lambda each: each[0])
    for _, chosen, n in tried:
        yield chosen, ((n, need),)


def _least(first: Ints, second: Ints) -> Ints:
    """Return the positions of the least `MAX_NODES` by two keys."""
    if len(first) > MAX_NODES:
        worst = np.partition(first, MAX_NODES - 1)[MAX_NODES - 1]
        near = (first <= worst).nonzero()[0]
    else:
        near = np.arange(len(first))
    best: Ints = near[np.lexsort((near, second[near], first[near]))[:MAX_NODES]]
    return best


def _pruned_on_node(supply: Supply, job: RoundJob, room: Room, chosen: list[int], n: int) -> list[int]:
    """Leave out who need not stop for the job to start on the node, those missed most first."""
    need = job.minimum
    jobs = supply.problem.jobs
    gives = {j: next(count for node, count in jobs[j].spread_now if node == n) for j in chosen}
    gpus = int(room.gpus[n]) + sum(gives.values()) - need
    cpus = int(room.cpus_u[n]) + sum(gives[j] * jobs[j].cpus_per_gpu_u for j in chosen) - need * job.cpus_per_gpu_u
    memory = int(room.memory_u[n]) + sum(gives[j] * jobs[j].memory_per_gpu_u for j in chosen)
    memory -= need * job.memory_per_gpu_u
    for j in sorted(chosen, key=lambda each: (-int(supply.price[each]), -each)):
        less = gives[j], gives[j] * jobs[j].cpus_per_gpu_u, gives[j] * jobs[j].memory_per_gpu_u
        fits = gpus >= less[0]
        fits = fits and (not job.cpus_per_gpu_u or cpus >= less[1])
        fits = fits and (not job.memory_per_gpu_u or memory >= less[2])
        if fits and len(chosen) > 1:
            chosen = [each for each in chosen if each != j]
            gpus, cpus, memory = gpus - less[0], cpus - less[1], memory - less[2]
    return chosen


def _on_equal_nodes(supply: Supply, job: RoundJob, room: Room, live: Ints) -> Iterator[Way]:
    """Yield ways for a gang with `unit` GPUs on each of k nodes: the k nodes of a domain that are cheapest to clear."""
    problem, tree = supply.problem, supply.problem.tree
    k = job.minimum // job.unit
    ready = supply.usable(job, room).nonzero()[0]
    heads, lasts = supply.first_enough(job, room, live, job.unit)
    is_ready = np.zeros(len(room.gpus), dtype=bool)
    is_ready[ready] = True
    still = ~is_ready[supply.node[live[lasts]]]
    heads, lasts = heads[still], lasts[still]
    # A victim on many nodes is paid by as many of them as the gang can use.
    victim = supply.job[live]
    shares = supply.victims.size[victim] / np.minimum(supply.width[victim], k)
    through = shares.cumsum()
    none = np.full(len(ready), -1)
    nodes = np.concatenate([ready, supply.node[live[lasts]]])
    rank = np.concatenate([np.full(len(ready), -(1 << 30)), -supply.row[victim[lasts]]])
    paid = np.concatenate([np.zeros(len(ready)), np.round(through[lasts] - through[heads] + shares[heads], 6)])
    first, last = np.concatenate([none, heads]), np.concatenate([none, lasts])
    who = np.concatenate([none, victim[lasts]])
    group = problem.nodes.gpu_type[nodes]
    if job.required is not None:
        group = tree.domain_of[job.required][nodes] * len(problem.gpu_types) + group
    order = np.lexsort((nodes, who, paid, rank, group))
    allowed = np.array(job.type_speed)[problem.nodes.gpu_type[nodes[order]]] > 0
    order = order[allowed & (group[order] >= 0)]
    firsts = firsts_of(group[order])
    firsts = firsts[lengths_of(firsts, len(order)) >= k]
    if not len(firsts):
        return
    sums = np.concatenate([[0.0], paid[order].cumsum()])
    best = np.lexsort((firsts, np.round(sums[firsts + k] - sums[firsts], 3), rank[order[firsts + k - 1]]))
    for at in firsts[best[:MAX_DOMAINS]].tolist():
        taken = [i for i in order[at : at + k].tolist() if last[i] >= 0]
        chosen = sorted({j for i in taken for j in victim[first[i] : last[i] + 1].tolist()})
        alike = group[order[at]]
        inside = np.zeros(len(room.gpus), dtype=bool)
        inside[nodes[group == alike]] = True
        way = settled(supply, job, room, chosen, inside, supply.price)
        if way is not None:
            yield way


def settled(supply: Supply, job: RoundJob, room: Room, chosen: list[int], inside: Flags, price: Ints) -> Way | None:
    """Return the way that a choice of givers makes, without those that turn out not to be needed, the dearest first.

    `price` is what one would pay for each running job, (F,).
    """
    for j in sorted(chosen, key=lambda each: -int(price[each]))[:MAX_PRUNED]:
        fewer = [each for each in chosen if each != j]
        if fewer and _fits(supply, job, supply.freed(fewer, room), inside):
            chosen = fewer
    freed = supply.freed(chosen, room)
    spread = pack(supply.problem, job, freed.gpus, freed.cpus_u, freed.memory_u, job.minimum, inside)
    if spread is None:
        return None
    used = {n for n, _ in spread}
    needed = [j for j in chosen if any(n in used for n, _ in supply.problem.jobs[j].spread_now)]
    return (needed, spread) if needed else None


def _fits(supply: Supply, job: RoundJob, room: Room, inside: Flags) -> bool:
    """Return whether the sums allow the job inside some nodes."""
    problem, tree = supply.problem, supply.problem.tree
    usable = np.where(inside, supply.usable(job, room), 0)
    by_type = [usable]
    if len(problem.gpu_types) > 1:
        by_type = [np.where(problem.nodes.gpu_type == y, usable, 0) for y, s in enumerate(job.type_speed) if s > 0]
    for each in by_type:
        cut = slice_down(job, tree, each)
        if job.required is None:
            most = room_in_cluster(job, tree, cut)
        else:
            most = int(whole_slices(job, tree, cut, job.required).max(initial=0))
        if most >= job.minimum:
            return True
    return False


def _anywhere(supply: Supply, job: RoundJob, room: Room, live: Ints) -> Iterator[Way]:
    """Yield ways for any gang: in each promising domain the shortest list of the least missed jobs that makes room."""
    tree = supply.problem.tree
    everybody = np.unique(supply.job[live])
    if not len(everybody):
        return
    whole = slice_down(job, tree, supply.usable(job, supply.freed(everybody.tolist(), room)))
    if job.required is None:
        domains = [np.ones(len(whole), dtype=bool)] if room_in_cluster(job, tree, whole) >= job.minimum else []
    else:
        totals = whole_slices(job, tree, whole, job.required)
        fitting = (totals >= job.minimum).nonzero()[0]
        free = tree.sum_per_domain(job.required, np.minimum(room.gpus, whole))
        order = fitting[np.lexsort((fitting, -free[fitting]))]
        domains = [tree.domain_of[job.required] == domain for domain in order[:MAX_DOMAINS]]
    found = []
    for inside in domains:
        chosen = shortest(supply, job, room, live, inside, supply.price)
        way = None if chosen is None else settled(supply, job, room, chosen, inside, supply.price)
        if way is not None:
            found.append((supply.cost_of(way[0]), way))
    for _, way in sorted(found, key=lambda each: each[0]):
        yield way


def shortest(supply: Supply, job: RoundJob, room: Room, live: Ints, inside: Flags, price: Ints) -> list[int] | None:
    """Return the shortest list of the jobs of the least `price` (F,) inside some nodes that makes room for the job."""
    touching = np.unique(supply.job[live[inside[supply.node[live]]]])
    order = touching[np.lexsort((touching, price[touching]))].tolist()
    low, high = 1, len(order)
    if not high:
        return None
    while low < high:
        middle = (low + high) // 2
        if _fits(supply, job, supply.freed(order[:middle], room), inside):
            high = middle
        else:
            low = middle + 1
    return [int(j) for j in order[:low]]
