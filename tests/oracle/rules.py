"""Section 3, rule by rule: each function says whether a plan keeps one rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations

import networkx as nx

from optsched.policy import victims
from optsched.values.job import Job
from tests.oracle.facts import (
    MOVE,
    SHRINK,
    START,
    STOP,
    After,
    Plan,
    Round,
    amounts_of,
    exact,
    usage,
)
from tests.oracle.rights import rights, takers_of
from tests.oracle.shapes import keeps_cut, keeps_required, keeps_slices

# Shape


def rule_1_size(a: After) -> bool:
    """A job runs at one of its sizes; a move keeps the size."""
    r = a.round
    return all(
        a.size(job.id) in r.sizes(job) and (a.done(job.id) != MOVE or a.size(job.id) == r.size(job))
        for job in a.changed()
    )


def rule_2_cut(a: After) -> bool:
    """What a job takes on each of its nodes follows its cut."""
    return all(keeps_cut(a.round, job, a.where[job.id]) for job in a.changed())


def rule_3_nodes(a: After) -> bool:
    """A job stands only on nodes that it may use."""
    return all(a.round.may_use(job) >= set(a.where[job.id]) for job in a.changed())


def rule_4_one_type(a: After) -> bool:
    """All nodes of a job have one GPU type."""
    return all(len({a.round.nodes[node].gpu_type for node in a.where[job.id]}) == 1 for job in a.changed())


def rule_5_required(a: After) -> bool:
    """All nodes of a job lie in one domain of its required level."""
    return all(keeps_required(a.round, job, a.where[job.id]) for job in a.changed())


def rule_6_slices(a: After) -> bool:
    """Inside each domain of a slice's level a job has a multiple of the slice's GPUs, and none outside the level."""
    return all(keeps_slices(a.round, job, a.where[job.id]) for job in a.changed())


# Room


def rule_7_room(a: After) -> bool:
    """GPUs, CPUs and memory in use on a node are at most what it has, or no more than before."""
    r = a.round
    gpus_now = a.used()
    if any(gpus > max(r.capacity[node], r.booked[node]) for node, gpus in gpus_now.items()):
        return False
    for node in r.nodes.values():
        cpus = None if node.cpus is None else exact(node.cpus) - exact(node.cpus_reserved)
        memory = None if node.memory_gb is None else exact(node.memory_gb)
        for which, has in enumerate((cpus, memory)):
            if has is None:
                continue
            used = sum(r.per_gpu(r.jobs[job])[which] * where.get(node.id, 0) for job, where in a.where.items())
            before = sum(r.per_gpu(r.jobs[job])[which] * where.get(node.id, 0) for job, where in r.before.items())
            if used > max(has, before):
                return False
    return True


# Shares


def rule_8_limit(a: After) -> bool:
    """Limits and user limits hold; where one is exceeded already, nothing under it starts or grows."""
    r = a.round
    for team in r.teams.values():
        members = r.members(team.id)
        if team.limit is not None and not within(a, members, amounts_of(team.limit)):
            return False
        if team.user_limit is not None:
            for user in {job.user for job in members}:
                if not within(a, [job for job in members if job.user == user], amounts_of(team.user_limit)):
                    return False
    return True


def rule_9_non_preemptible_within_quota(a: After) -> bool:
    """Non-preemptible jobs of a team and all below stay within its quota; jobs that a grant names are not counted."""
    r = a.round
    for team in r.teams.values():
        if team.quota is not None:
            fixed = [job for job in r.members(team.id) if not job.preemptible and job.id not in r.granted]
            if not within(a, fixed, amounts_of(team.quota)):
                return False
    return True


def within(a: After, jobs: Iterable[Job], line: Mapping) -> bool:
    """Return whether the jobs stay within each named resource, or none of them uses more of it than before."""
    r = a.round
    for resource, most in line.items():
        total, more = 0, False
        for job in jobs:
            _, size, gpu_type = a.outcome[job.id]
            now = usage(r, job, size, gpu_type, resource)
            total += now
            more = more or now > usage(r, job, r.size(job), r.type_now(job), resource)
        if total > most and more:
            return False
    return True


# Stopping, moving and shrinking


def rule_10_who_may_be_stopped(a: After) -> bool:
    """Only jobs that may be stopped, moved or shrunk are, and not too many GPUs are stopped."""
    r = a.round
    for job in r.running:
        if (
            (a.done(job.id) == STOP and not may_be_stopped(r, job))
            or (a.done(job.id) == MOVE and not may_be_moved(r, job))
            or (a.done(job.id) == SHRINK and not job.preemptible)
        ):
            return False
    most = r.profile.max_stopped_gpus_per_h
    return most is None or sum(r.size(r.jobs[job]) for job in a.plan.stopped) <= most


def may_be_stopped(r: Round, job: Job) -> bool:
    """Preemptible, has run long enough, has a token, is not about to end."""
    return victims.may_be_stopped(job, r.now, r.profile, r.cost[job.id])


def may_be_moved(r: Round, job: Job) -> bool:
    """Preemptible, not about to end, and the profile allows migration."""
    return r.profile.migration and job.preemptible and not victims.waited_for(job, r.now, r.cost[job.id])


Source = tuple[int, Callable[[str], bool]]
"""Some GPUs, and whom they may serve."""


def served(demand: Mapping[str, int], sources: list[Source]) -> bool:
    """Hall's condition: whatever group of takers one looks at, what may serve any of them is enough for all of them."""
    for count in range(1, len(demand) + 1):
        for group in combinations(demand, count):
            wanted = sum(demand[b] for b in group)
            if wanted > sum(gpus for gpus, serves in sources if any(serves(b) for b in group)):
                return False
    return True


def from_givers(a: After, node: str) -> list[Source]:
    """Return what givers give up on a node, each for those with a right over it."""
    may_take = rights(a).may_take
    return [(supply[node], lambda b, v=v: may_take(b, v)) for v, supply in a.supply.items() if node in supply]


def rule_11_rights(a: After) -> bool:
    """On every node the takers are served from what is free and from givers over which they have a right."""
    return _all_nodes_served(a, lambda node: [(a.round.free[node], lambda b: True)])


def rule_13_minimum_by_force(a: After) -> bool:
    """Stopped jobs serve only takers that start at their minimum, or move: `Rights.may_take` knows it."""
    return rule_11_rights(a)


def _all_nodes_served(a: After, free_of: Callable[[str], list[Source]]) -> bool:
    for node in {node for gains in a.gains.values() for node in gains}:
        demand = {b: gains[node] for b, gains in a.gains.items() if node in gains}
        if not served(demand, free_of(node) + from_givers(a, node)):
            return False
    return True


def rule_12_needed(a: After) -> bool:
    """Every giver has a taker with a right over it on a shared node, or is a move that pays for itself."""
    from tests.oracle.worth import change_cost, placement_loss

    r = a.round
    for v in a.supply:
        if takers_of(a, v):
            continue
        if a.done(v) != MOVE:
            return False
        job = r.jobs[v]
        if placement_loss(r, job, r.before[v]) - placement_loss(r, job, a.where[v]) <= change_cost(r, job):
            return False
    return True


def rule_14_floors(a: After) -> bool:
    """Other teams' takers leave a team at least min(its quota, what it ran), in all that its quota names."""
    r = a.round
    for team in r.teams.values():
        if team.quota is None:
            continue
        own = [job for job in r.running if job.team == team.id]
        lost = {}
        for job in own:
            if a.done(job.id) in (STOP, SHRINK):
                others = [b for b in takers_of(a, job.id) if r.jobs[b].team != team.id and not exempt_from_floors(a, b)]
                if others:
                    lost[job.id] = sum(a.supply[job.id].values())
        for resource, quota in amounts_of(team.quota).items():
            ran = sum(usage(r, job, r.size(job), r.type_now(job), resource) for job in own)
            gone = sum(usage(r, r.jobs[v], gpus, r.type_now(r.jobs[v]), resource) for v, gpus in lost.items())
            if ran - gone < min(quota, ran):
                return False
    return True


def exempt_from_floors(a: After, b: str) -> bool:
    """Return whether a taker is of an emergency class, or due and allowed to break guarantees."""
    job = a.round.jobs[b]
    return a.round.emergency(job) or (a.round.due(job) and rights(a).breaks_guarantees(job))


def rule_15_must_pay(a: After) -> bool:
    """Takers can divide the stop costs so that none pays too much; emergency and due ones pay without limit."""
    from tests.oracle.worth import change_cost

    r = a.round
    ratio = r.profile.max_loss_ratio
    costs = {v: change_cost(r, r.jobs[v]) for v in a.plan.stopped}
    if ratio is None or not sum(costs.values()):
        return True
    purse = {
        b: exact(ratio) * exact(r.profile.horizon_s) * r.jobs[b].min_gpus * 2 ** patience_lost(r, r.jobs[b])
        for b in a.gains
        if not r.emergency(r.jobs[b]) and not r.due(r.jobs[b])
    }
    scale = math.lcm(*(amount.denominator for amount in purse.values()))
    flow = nx.DiGraph()
    flow.add_nodes_from(("bill", "paid"))
    for v, cost in costs.items():
        flow.add_edge("bill", ("victim", v), capacity=cost * scale)
        flow.add_edges_from((("victim", v), ("taker", b)) for b in takers_of(a, v))
    for b in a.gains:
        if b in purse:
            flow.add_edge(("taker", b), "paid", capacity=int(purse[b] * scale))
        else:
            flow.add_edge(("taker", b), "paid")
    return nx.maximum_flow_value(flow, "bill", "paid") == sum(costs.values()) * scale


def patience_lost(r: Round, job: Job) -> int:
    """Return how often a job's patience has run out while it waited."""
    return math.floor(exact(r.waited(job)) / exact(r.profile.patience_s))


def rule_16_holds(a: After) -> bool:
    """Held GPUs serve nobody whom the hold binds, unless its gang starts; a grant keeps its GPUs in the same way."""
    return _holds_of_reservations(a) and _grants(a)


def _holds_of_reservations(a: After) -> bool:
    r = a.round
    binding = [hold for hold in r.holds if hold.unless is None or a.done(hold.unless) != START]
    if not binding:
        return True

    def free_of(node: str) -> list[Source]:
        left, sources = r.free[node], []
        for hold in binding:
            held = min(left, hold.gpus.get(node, 0))
            left -= held
            sources.append((held, lambda b, hold=hold: b not in hold.binds))
        return [*sources, (left, lambda b: True)]

    return _all_nodes_served(a, free_of)


def _grants(a: After) -> bool:
    """What those whom a grant names do not use of it stays free in its domain, or nobody else goes there."""
    r = a.round
    used = a.used()
    for grant in r.grants():
        nodes = grant_nodes(r, grant.within)
        named = r.named_by(grant)
        at_work = sum(gpus for job in named for node, gpus in a.where.get(job, {}).items() if node in nodes)
        free = sum(max(0, r.capacity[node] - used[node]) for node in nodes if r.takes_work(node))
        if at_work + free >= grant.gpus:
            continue
        for b, gains in a.gains.items():
            job = r.jobs[b]
            excused = r.profile.backfill_preemptible and job.preemptible
            if b not in named and not excused and not nodes.isdisjoint(gains):
                return False
    return True


def grant_nodes(r: Round, within_domain: str | None) -> set[str]:
    """Return the nodes of a grant's domain, named by its path or, failing that, by its own name; all without one."""
    if within_domain is None:
        return set(r.nodes)
    paths = {(node, level): r.domain(node, level) for node in r.nodes for level in r.levels}
    texts = {
        at: "/".join("-" if name is None else name for name in path) for at, path in paths.items() if path is not None
    }
    whole = {node for (node, _), text in texts.items() if text == within_domain}
    return whole or {node for (node, _), text in texts.items() if text.endswith(f"/{within_domain}")}


RULES: tuple[Callable[[After], bool], ...] = (
    rule_1_size,
    rule_2_cut,
    rule_3_nodes,
    rule_4_one_type,
    rule_5_required,
    rule_6_slices,
    rule_7_room,
    rule_8_limit,
    rule_9_non_preemptible_within_quota,
    rule_10_who_may_be_stopped,
    rule_11_rights,
    rule_12_needed,
    rule_13_minimum_by_force,
    rule_14_floors,
    rule_15_must_pay,
    rule_16_holds,
)


def broken(round_: Round, plan: Plan) -> list[str]:
    """Return the names of the rules that a plan breaks; none where it is valid."""
    a = After(round_, plan)
    return [rule.__name__ for rule in RULES if not rule(a)]
