"""Clearing a domain for a gang that insists on one: who runs there, and may be moved, goes on elsewhere.

There may be room for the gang many times over, and in each domain somebody. Then nobody needs to stop for it, and to
wait until a domain is empty by itself can take days. Used by the greedy solver; the search moves gangs out node by node
(`apart.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from optsched.rounds.problem import Flags, Ints, Problem, RoundJob, Spread
from optsched.rounds.rights import exempt
from optsched.rounds.room import slice_down, whole_slices
from optsched.rounds.score import gpu_type_of
from optsched.solve.ledger import Ledger
from optsched.solve.packing import pack
from optsched.solve.supply import Room, Supply
from optsched.solve.swap import settled, shortest

MOST_DOMAINS = 4
"""How many domains are looked at for one gang, the cheapest to clear first."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """Where the gang then starts, and where those go on who run there now."""

    spread: Spread
    moves: Mapping[int, Spread]


def clear(supply: Supply, job: RoundJob, movable: Flags) -> Cleared | None:
    """Return a way to start the gang in a domain of the level that it requires by moves alone, None where none is.

    `movable` (F,) flags whom the gang may have moved. Together they lose at most what a preemption for it might at
    first; that does not grow with its wait, for it rests on no right over them.
    """
    ledger = supply.ledger
    if job.required is None or int(np.maximum(ledger.gpus, 0).sum()) < job.minimum:
        # Whoever makes way needs as much room elsewhere.
        return None
    most = most_lost(supply.problem, job)
    room = Room(ledger.free_for(job), ledger.cpus_u, ledger.memory_u)
    live = movable[supply.job].nonzero()[0]
    for inside in _domains(supply, job, room, live):
        price = _dearness(supply, live[inside[supply.node[live]]])
        chosen = shortest(supply, job, room, live, inside, price)
        way = None if chosen is None else settled(supply, job, room, chosen, inside, price)
        if way is None or sum(int(supply.victims.cost[j]) for j in way[0]) > most:
            continue
        moves = _homes(supply, way[0], way[1])
        if moves is not None:
            return Cleared(way[1], moves)
    return None


def most_lost(problem: Problem, job: RoundJob) -> float:
    """Return the GPU-seconds that all moves for a job may cost."""
    ratio = problem.profile.max_loss_ratio
    return math.inf if ratio is None or exempt(job) else ratio * job.minimum * problem.horizon_s


def _domains(supply: Supply, job: RoundJob, room: Room, live: Ints) -> Iterator[Flags]:
    """Yield the nodes of domains that would hold the gang, were all of the `live` pairs gone, the cheapest first."""
    tree, level = supply.problem.tree, job.required
    assert level is not None
    everybody = np.unique(supply.job[live])
    whole = slice_down(job, tree, supply.usable(job, supply.freed(everybody.tolist(), room)))
    fitting = (whole_slices(job, tree, whole, level) >= job.minimum).nonzero()[0]
    if not len(fitting):
        return
    domain_of, count = tree.domain_of[level], len(tree.domain_names[level])
    there = live[domain_of[supply.node[live]] >= 0]
    domain = domain_of[supply.node[there]]
    # Who runs in several domains would have to leave each of them whole.
    touched, who = np.unique(np.stack([domain, supply.job[there]]), axis=1)
    cost = np.bincount(touched, supply.victims.cost[who], count)
    held = np.bincount(domain, supply.gpus[there], count)
    short = np.maximum(0, job.minimum - tree.sum_per_domain(level, np.minimum(np.maximum(room.gpus, 0), whole)))
    price = cost * short / np.maximum(1, held)
    for best in fitting[np.lexsort((fitting, price[fitting]))][:MOST_DOMAINS].tolist():
        yield domain_of == best


def _dearness(supply: Supply, there: Ints) -> Ints:
    """Return what moving each running job costs for each GPU that it has in some pairs, (F,); 0 for all others."""
    cost = supply.victims.cost
    held = np.bincount(supply.job[there], supply.gpus[there], len(cost)).astype(np.int64)
    found: Ints = np.where(held > 0, cost // np.maximum(1, held), 0)
    return found


def _homes(supply: Supply, movers: list[int], taken: Spread) -> dict[int, Spread] | None:
    """Return where the movers go on off the nodes that are taken, in what is free; None where one finds no home.

    The largest are placed first. A gang may keep what it has elsewhere.
    """
    problem, ledger = supply.problem, supply.ledger
    gpus_used, cpus_used, memory_used = (np.zeros(len(ledger.gpus), dtype=np.int64) for _ in range(3))
    open_to = np.ones(len(ledger.gpus), dtype=bool)
    open_to[[n for n, _ in taken]] = False
    homes: dict[int, Spread] = {}
    for mover in sorted((problem.jobs[j] for j in movers), key=lambda each: (-each.size_now, each.index)):
        gpus = ledger.free_for(mover) - gpus_used
        cpus_u, memory_u = ledger.cpus_u - cpus_used, ledger.memory_u - memory_used
        for n, count in mover.spread_now:
            gpus[n] += count
            cpus_u[n] += count * mover.cpus_per_gpu_u
            memory_u[n] += count * mover.memory_per_gpu_u
        allowed = open_to & (problem.nodes.gpu_type == gpu_type_of(problem, mover.spread_now))
        home = pack(problem, mover, gpus, cpus_u, memory_u, mover.size_now, allowed)
        if home is None:
            return None
        homes[mover.index] = home
        had = dict(mover.spread_now)
        for n, count in home:
            # What it leaves elsewhere is not free for others in this round.
            more = max(0, count - had.get(n, 0))
            gpus_used[n] += more
            cpus_used[n] += more * mover.cpus_per_gpu_u
            memory_used[n] += more * mover.memory_per_gpu_u
    return homes


def book(ledger: Ledger, job: RoundJob, cleared: Cleared) -> None:
    """Book the start and the moves. What movers leave and the gang does not take is nobody's in this round."""
    left: Counter[int] = Counter()
    for j, home in cleared.moves.items():
        left.update(ledger.move_aside(ledger.problem.jobs[j], home))
    from_free = {n: more for n, count in cleared.spread if (more := count - left[n]) > 0}
    ledger.start_over(job, cleared.spread, [], from_free)
