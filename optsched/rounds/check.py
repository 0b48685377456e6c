"""The independent checker: every rule of section 3 of the formulation, without a solver. Runs on every plan.

Each function answers one rule with a list of violations, empty where the rule is kept.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set

import networkx as nx

from optsched.rounds.assignment import Assignment, Change, Flow, flow_of
from optsched.rounds.line import use_now
from optsched.rounds.problem import UNLIMITED, Ceiling, Cut, DomainHold, Item, Problem, RoundJob, Spread, What
from optsched.rounds.rights import exempt
from optsched.rounds.score import gpu_type_of, placement_loss, served_by, size_of


def check(problem: Problem, assignment: Assignment) -> list[str]:
    """Return every rule that the assignment breaks, as sentences; empty for a valid plan."""
    broken = shapes(problem, assignment)
    if broken:
        return broken
    flow = flow_of(problem, assignment)
    served = served_by(problem, flow)
    return [
        *room(problem, flow),
        *ceilings(problem, flow),
        *permitted(problem, flow),
        *rights(problem, flow, served),
        *needed(problem, flow, served),
        *floors(problem, flow, served),
        *must_pay(problem, flow, served),
        *holds(problem, flow),
        *grants(problem, flow),
    ]


def shapes(problem: Problem, assignment: Assignment) -> list[str]:
    """Rules 1-6: size, cut, nodes, type, required level and slices of every job that is placed anew."""
    broken = []
    for j in assignment.stopped:
        if not 0 <= j < problem.first_queued:
            broken.append(f"job {j} is stopped but does not run")
    for j, spread in assignment.changed.items():
        if j in assignment.stopped:
            broken.append(f"{problem.jobs[j].job.id} is both stopped and placed")
        elif spread != problem.jobs[j].spread_now:
            name = problem.jobs[j].job.id
            broken += [f"{name}: {fault}" for fault in shape_faults(problem, problem.jobs[j], spread)]
    return broken


def shape_faults(problem: Problem, job: RoundJob, spread: Spread) -> list[str]:
    """Return what is wrong with one placement of one job."""
    nodes = [n for n, _ in spread]
    size, now = size_of(spread), dict(job.spread_now)
    if not spread or len(set(nodes)) != len(nodes) or any(count < 1 for _, count in spread):
        return ["its placement is empty or names a node twice"]
    faults = []
    if size not in job.sizes:
        faults.append(f"{size} GPUs is not one of its sizes")
    faults += [
        f"{count} GPUs on {_node(problem, n)} break its cut"
        for n, count in spread
        if not _cut_ok(problem, job, n, count)
    ]
    if job.cut is Cut.ONE_NODE and len(nodes) > 1:
        faults.append("it must be on one node")
    faults += [
        f"it may not use {_node(problem, n)}" for n in nodes if not job.nodes[n] and now.get(n, 0) < dict(spread)[n]
    ]
    types = {int(problem.nodes.gpu_type[n]) for n in nodes}
    if len(types) > 1 or job.type_speed[next(iter(types))] <= 0:
        faults.append("it mixes GPU types or uses one that it does not allow")
    if job.required is not None:
        domains = {int(problem.tree.domain_of[job.required][n]) for n in nodes}
        if len(domains) > 1 or -1 in domains:
            faults.append(f"it leaves its {problem.tree.levels[job.required]}")
    for piece, level in job.slices:
        inside: dict[int, int] = defaultdict(int)
        for n, count in spread:
            inside[int(problem.tree.domain_of[level][n])] += count
        if -1 in inside or any(count % piece for count in inside.values()):
            faults.append(f"a slice of {piece} GPUs leaves its {problem.tree.levels[level]}")
    return faults


def _cut_ok(problem: Problem, job: RoundJob, n: int, count: int) -> bool:
    if job.cut is Cut.PER_NODE:
        return count == job.unit
    if job.cut is Cut.PER_TASK:
        return count % job.unit == 0
    if job.cut is Cut.WHOLE_NODES:
        return count == int(problem.nodes.capacity[n])
    return True


def _node(problem: Problem, n: int) -> str:
    return problem.tree.node_ids[n]


def room(problem: Problem, flow: Flow) -> list[str]:
    """Rule 7: GPUs, CPUs and memory of every node."""
    return [f"{_node(problem, n)} is overbooked in {what}" for n, what in overbooked(problem, flow)]


def overbooked(problem: Problem, flow: Flow) -> list[tuple[int, str]]:
    """Return the nodes that break rule 7, and in what."""
    found = []
    nodes = problem.nodes
    taken = sorted(flow.takes)
    frees = zip(
        nodes.free[taken].tolist(), nodes.cpus_free_u[taken].tolist(), nodes.memory_free_u[taken].tolist(), strict=True
    )
    for n, (free, cpus_free, memory_free) in zip(taken, frees, strict=True):
        gpus = cpus = memory = 0
        for sign, side in ((1, flow.takes[n]), (-1, flow.gives.get(n, {}))):
            for j, count in side.items():
                job = problem.jobs[j]
                gpus += sign * count
                cpus += sign * count * job.cpus_per_gpu_u
                memory += sign * count * job.memory_per_gpu_u
        found += [
            (n, what)
            for what, gained, left in (("GPUs", gpus, free), ("CPUs", cpus, cpus_free), ("memory", memory, memory_free))
            if gained > max(left, 0) and left < UNLIMITED // 2
        ]
    return found


def held_after(problem: Problem, flow: Flow, ceiling: Ceiling, jobs: Iterable[int]) -> tuple[int, bool]:
    """Return what a ceiling's jobs hold after the plan that changes `jobs` of them, and whether any starts or grows."""
    held, more = ceiling.held, False
    for j in jobs:
        job = problem.jobs[j]
        then = flow.assignment.after(job)
        held += amount_of(problem, job, then, ceiling.item) - amount_of(problem, job, job.spread_now, ceiling.item)
        more = more or size_of(then) > job.size_now
    return held, more


def amount_of(problem: Problem, job: RoundJob, spread: Spread, item: Item) -> int:
    """Return how much of one named resource a job holds at a placement."""
    if not spread:
        return 0
    size = job.size_now if spread is job.spread_now else size_of(spread)
    if item.what is What.GPUS:
        return size if item.gpu_type in (None, gpu_type_of(problem, spread)) else 0
    return size * (job.cpus_per_gpu_u if item.what is What.CPUS else job.memory_per_gpu_u)


def ceilings(problem: Problem, flow: Flow) -> list[str]:
    """Rules 8 and 9: limits, user limits, and non-preemptible work within quota."""
    return [
        f"{ceiling.kind} of {ceiling.target} is exceeded in {ceiling.item.what.value}"
        for ceiling in (problem.ceilings[index] for index in exceeded(problem, flow))
    ]


def exceeded(problem: Problem, flow: Flow) -> list[int]:
    """Return the indices of the ceilings that are broken."""
    found = []
    changed: dict[int, list[int]] = defaultdict(list)
    for j in flow.changes:
        for index in problem.ceilings_of[j]:
            changed[index].append(j)
    for index in sorted(changed):
        ceiling = problem.ceilings[index]
        held, more = held_after(problem, flow, ceiling, changed[index])
        if more and held > ceiling.item.amount:
            found.append(index)
    return found


def permitted(problem: Problem, flow: Flow) -> list[str]:
    """Rule 10: only jobs that may be stopped, moved or resized are."""
    broken = [f"{problem.jobs[j].job.id} {fault}" for j, fault in forbidden(problem, flow)]
    stopped = stopped_gpus(problem, flow)
    if stopped > problem.max_stopped_gpus:
        broken.append(f"{stopped} GPUs are stopped, {problem.max_stopped_gpus} are allowed")
    return broken


def forbidden(problem: Problem, flow: Flow) -> list[tuple[int, str]]:
    """Return the jobs that may not be changed as they are, and what of it is not allowed."""
    found = []
    for j, change in flow.changes.items():
        job = problem.jobs[j]
        if change is Change.STOP and not job.stoppable:
            found.append((j, "may not be stopped"))
        elif change is Change.MOVE and not (job.movable and size_of(flow.assignment.after(job)) == job.size_now):
            found.append((j, "may not be moved so"))
        elif change is Change.SHRINK and not (job.resizable and job.job.preemptible):
            found.append((j, "may not be shrunk"))
        elif change is Change.GROW and not job.resizable:
            found.append((j, "may not grow"))
    return found


def stopped_gpus(problem: Problem, flow: Flow) -> int:
    """Return the GPUs of all jobs that are stopped."""
    return sum(problem.jobs[j].size_now for j, change in flow.changes.items() if change is Change.STOP)


Served = Mapping[int, set[int]]
_NOBODY: frozenset[int] = frozenset()


def rights(problem: Problem, flow: Flow, served: Served) -> list[str]:
    """Rules 11 and 13: on every node takers are served by free GPUs and by givers over whom they have a right."""
    return [
        f"on {_node(problem, n)} somebody takes from a job over which it has no right"
        for n, takes in flow.takes.items()
        if not servable(problem, flow, served, n, takes)
    ]


MAX_HALL = 8
"""Up to this many takers on a node every group of them is looked at; for more a flow is computed."""


def servable(problem: Problem, flow: Flow, served: Served, n: int, takes: Mapping[int, int]) -> bool:
    """Return whether `takes` on a node can be served from free GPUs and from givers over whom takers have a right."""
    gives, free = flow.gives.get(n, {}), int(problem.nodes.free[n])
    everything = sum(takes.values())
    if everything <= free:
        return True
    if all(gives.keys() <= served.get(taker, _NOBODY) for taker in takes):
        return everything <= free + sum(gives.values())
    if len(takes) <= MAX_HALL:
        # Hall's condition: no group of takers asks for more than free GPUs and its givers together have.
        return all(
            sum(takes[taker] for taker in group)
            <= free
            + sum(gives[g] for g in set().union(*(served.get(taker, _NOBODY) for taker in group)) & gives.keys())
            for size in range(1, len(takes) + 1)
            for group in itertools.combinations(takes, size)
        )
    graph: nx.DiGraph[object] = nx.DiGraph()
    graph.add_edge("source", "free", capacity=free)
    for giver, count in gives.items():
        graph.add_edge("source", ("giver", giver), capacity=count)
    for taker, count in takes.items():
        graph.add_edge(("taker", taker), "sink", capacity=count)
        graph.add_edge("free", ("taker", taker))
        for giver in served.get(taker, _NOBODY) & gives.keys():
            graph.add_edge(("giver", giver), ("taker", taker))
    return bool(nx.maximum_flow_value(graph, "source", "sink") >= everything)


def needed(problem: Problem, flow: Flow, served: Served) -> list[str]:
    """Rule 12: nobody is stopped, shrunk or moved for nothing."""
    return [
        f"{problem.jobs[j].job.id}: nobody with a right over it needs its {flow.changes[j].value}"
        for j in unneeded(problem, flow, served)
    ]


def unneeded(problem: Problem, flow: Flow, served: Served) -> list[int]:
    """Return the givers that break rule 12."""
    wanted = {giver for givers in served.values() for giver in givers}
    found = []
    for j, change in flow.changes.items():
        job = problem.jobs[j]
        if j in wanted or change in (Change.START, Change.GROW):
            continue
        if change is Change.MOVE:
            gain = problem.loss_now[j] - placement_loss(problem, job, flow.assignment.after(job))
            if gain > job.costs.move:
                continue
        found.append(j)
    return found


def floors(problem: Problem, flow: Flow, served: Served) -> list[str]:
    """Rule 14: other teams leave every team min(its quota, what it ran)."""
    return [
        f"{problem.team_names[team]} is pushed below its quota in {item.what.value}"
        for team, item, _, _ in below_floor(problem, flow, served)
    ]


def below_floor(problem: Problem, flow: Flow, served: Served) -> list[tuple[int, Item, int, list[RoundJob]]]:
    """Return the teams that other teams push below their quota, in what, by how much, and by whose GPUs."""
    reclaimed = {
        giver
        for taker, givers in served.items()
        for giver in givers
        if problem.jobs[taker].team != problem.jobs[giver].team
        and not exempt(problem.jobs[taker])
        and flow.changes[giver] in (Change.STOP, Change.SHRINK)
    }
    found = []
    use, last = use_now(problem.occupancy), 2 * len(problem.priorities) - 1
    losers: dict[int, list[RoundJob]] = defaultdict(list)
    for j in reclaimed:
        losers[problem.jobs[j].claim_team].append(problem.jobs[j])
    for team in sorted(losers):
        for item in problem.lines.quota[team]:
            ran = use.through(team, last, item)
            lost = sum(
                amount_of(problem, job, job.spread_now, item)
                - amount_of(problem, job, flow.assignment.after(job), item)
                for job in losers[team]
            )
            excess = min(item.amount, ran) - (ran - lost)
            if excess > 0:
                found.append((team, item, excess, losers[team]))
    return found


def must_pay(problem: Problem, flow: Flow, served: Served) -> list[str]:
    """Rule 15: takers can share what stopped jobs lose so that none pays more than its start is worth."""
    if unpaid(problem, flow, served):
        return ["the stopped jobs lose more than their beneficiaries gain"]
    return []


def unpaid(problem: Problem, flow: Flow, served: Served) -> set[int]:
    """Return stopped jobs that remain unpaid however takers share what is lost; empty if all can be paid."""
    if problem.profile.max_loss_ratio is None:
        return set()
    victims = {j for j, change in flow.changes.items() if change is Change.STOP}
    wanted = {giver for givers in served.values() for giver in givers}
    unwanted = {j for j in victims - wanted if problem.jobs[j].costs.stop > 0}
    victims &= wanted
    owed = {giver: problem.jobs[giver].costs.stop for giver in victims}
    if _paid_in_turn(problem, owed, served):
        return unwanted
    graph: nx.DiGraph[object] = nx.DiGraph()
    graph.add_nodes_from(("source", "sink"))
    for giver, cost in owed.items():
        graph.add_edge("source", ("victim", giver), capacity=cost)
    for taker, givers in served.items():
        graph.add_edge(("taker", taker), "sink", capacity=problem.jobs[taker].pays_gpu_s)
        for giver in givers & victims:
            graph.add_edge(("victim", giver), ("taker", taker))
    _, paid = nx.maximum_flow(graph, "source", "sink")
    return unwanted | {giver for giver, cost in owed.items() if paid["source"][("victim", giver)] < cost}


def _paid_in_turn(problem: Problem, owed: Mapping[int, int], served: Served) -> bool:
    """Return whether everything is paid if takers pay one after the other: sufficient, not necessary."""
    left = {giver: cost for giver, cost in owed.items() if cost}
    for taker in sorted(served, key=lambda each: (len(served[each]), each)):
        purse = problem.jobs[taker].pays_gpu_s
        for giver in sorted(served[taker] & left.keys()):
            paid = min(purse, left[giver])
            purse -= paid
            left[giver] -= paid
            if not left[giver]:
                del left[giver]
    return not left


def holds(problem: Problem, flow: Flow) -> list[str]:
    """Rule 16: held GPUs are left alone by those whom the hold binds."""
    return [f"on {_node(problem, n)} GPUs held for {name} are used" for n, name, _ in held_used(problem, flow)]


def held_used(problem: Problem, flow: Flow) -> list[tuple[int, str, Set[int]]]:
    """Return the nodes on which held GPUs are used, the holds' names, and whom these bind."""
    found: list[tuple[int, str, Set[int]]] = []
    in_force = [hold for hold in problem.holds if hold.unless is None or hold.unless not in flow.assignment.changed]
    for n in sorted({n for hold in in_force for n in hold.gpus} & flow.takes.keys()):
        here = [hold for hold in in_force if n in hold.gpus]
        takes, free = flow.takes[n], int(problem.nodes.free[n])
        groups = [(hold.binds, hold.gpus[n], hold.name) for hold in here]
        if len(here) > 1:
            everywhere = frozenset.intersection(*(hold.binds for hold in here))
            groups.append((everywhere, sum(hold.gpus[n] for hold in here), "the reservations"))
        for binds, held, name in groups:
            taken = sum(count for j, count in takes.items() if j in binds)
            if taken and taken > max(0, free - held) + sum(flow.gives.get(n, {}).values()):
                found.append((n, name, binds))
    return found


def grants(problem: Problem, flow: Flow) -> list[str]:
    """Rule 16 for grants: what is granted inside a domain is left for those it names."""
    return [f"GPUs of {hold.name} are used by others" for hold in granted_used(problem, flow)]


def granted_used(problem: Problem, flow: Flow) -> list[DomainHold]:
    """Return the grants whose GPUs others use."""
    found = []
    for hold in problem.domain_holds:
        inside = set(hold.nodes)
        taken = sum(c for n in inside & flow.takes.keys() for j, c in flow.takes[n].items() if j in hold.binds)
        if not taken:
            continue
        given = sum(sum(flow.gives[n].values()) for n in inside & flow.gives.keys())
        free = sum(int(problem.nodes.free[n]) for n in inside)
        used = sum(count for j in hold.grantees for n, count in flow.assignment.after(problem.jobs[j]) if n in inside)
        started = sum(
            count for n in inside & flow.takes.keys() for j, count in flow.takes[n].items() if j in hold.grantees
        )
        if taken > max(0, free + given - started - max(0, hold.gpus - used)):
            found.append(hold)
    return found
