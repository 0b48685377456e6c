"""Who is served by whom on every node: rules 7, 11, 12 and 13 as a transportation of GPUs.

Takers are grouped by what decides their rights (`Group`); a giver's supply on a node goes to groups that have a right
over it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from ortools.sat.python.cp_model import IntVar

from optsched.rounds.assignment import Change
from optsched.rounds.problem import UNLIMITED, Cut, Problem, RoundJob
from optsched.rounds.rights import EVERYTHING, NOTHING, Claim, has_right
from optsched.solve.cpsat.claims import Claims
from optsched.solve.cpsat.decisions import Decisions
from optsched.solve.cpsat.gang import Gang
from optsched.solve.cpsat.terms import Linear, total


@dataclass(frozen=True, slots=True)
class Group:
    """Takers with the same rights: one team, priority, kind of deadline.

    `above`: more than their minimum, or growth; `moving`: they run.
    """

    team: int
    claim_team: int
    priority: int
    emergency: bool
    due: bool
    may_break_quota: bool
    starved: bool
    above: bool
    moving: bool


def group_of(job: RoundJob, above: bool, moving: bool = False) -> Group:
    """Return the group of a taker."""
    standing = (job.emergency, job.due, job.may_break_quota, job.starved)
    return Group(job.team, job.claim_team, job.priority, *standing, above, moving)


@dataclass
class Flows:
    """`takes[n][group]` and `gives[n][(giver, change)]` expressions by node; `takers_on[n]`: who takes there."""

    takes: dict[int, dict[Group, list[Linear]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    members: dict[Group, RoundJob] = field(default_factory=dict)
    takers_on: dict[int, list[tuple[int, Group, Linear]]] = field(default_factory=lambda: defaultdict(list))
    gives: dict[int, dict[tuple[int, Change], Linear]] = field(default_factory=lambda: defaultdict(dict))


def add_flows(problem: Problem, decisions: Decisions, claims: Claims) -> Flows:
    """Add node capacities and the transportation of what givers give up."""
    flows = Flows()
    _collect(problem, decisions, flows)
    _add_side_resources(problem, decisions)
    for n in sorted(flows.takes):
        _add_node(problem, decisions, claims, flows, n)
    _add_whole_nodes(problem, decisions, claims, flows)
    return flows


def _collect(problem: Problem, decisions: Decisions, flows: Flows) -> None:
    """Gather what every job may take and give on every node."""
    for j, gang in decisions.starts.items():
        _collect_start(problem.jobs[j], gang, decisions, flows)
    for j, stop in decisions.stops.items():
        for n, count in problem.jobs[j].spread_now:
            flows.gives[n][j, Change.STOP] = count * stop
    for j, gang in decisions.moves.items():
        _collect_change(problem.jobs[j], gang, decisions, flows, Change.MOVE)
    for j, gang in decisions.resizes.items():
        _collect_change(problem.jobs[j], gang, decisions, flows, Change.SHRINK)


def _collect_start(job: RoundJob, gang: Gang, decisions: Decisions, flows: Flows) -> None:
    low, high = group_of(job, above=False), group_of(job, above=True)
    model = decisions.model
    for n, gpus in gang.gpus.items():
        if gang.above is None:
            _take(flows, n, job, low, gpus)
            continue
        at_minimum = model.new_int_var(0, job.minimum, f"{job.job.id} low@{n}")
        beyond = model.new_int_var(0, job.maximum, f"{job.job.id} high@{n}")
        model.add(at_minimum + beyond == gpus)
        model.add(beyond == 0).only_enforce_if(~gang.above)
        model.add(at_minimum == 0).only_enforce_if(gang.above)
        _take(flows, n, job, low, at_minimum)
        _take(flows, n, job, high, beyond)


def _take(flows: Flows, n: int, job: RoundJob, group: Group, gpus: Linear) -> None:
    flows.takes[n][group].append(gpus)
    flows.takers_on[n].append((job.index, group, gpus))
    flows.members[group] = job


def _collect_change(job: RoundJob, gang: Gang, decisions: Decisions, flows: Flows, giving: Change) -> None:
    """A job that moves or changes size: what it has more of on a node it takes, what it has less of it gives."""
    model = decisions.model
    group = group_of(job, above=giving is Change.SHRINK, moving=giving is Change.MOVE)
    now = dict(job.spread_now)
    for n in sorted(now.keys() | gang.gpus.keys()):
        had, has = now.get(n, 0), gang.gpus.get(n, 0)
        if not had:
            _take(flows, n, job, group, has)
        elif isinstance(has, int):
            flows.gives[n][job.index, giving] = had * gang.active
        else:
            given = model.new_int_var(0, had, f"{job.job.id} gives@{n}")
            taken = model.new_int_var(0, job.maximum, f"{job.job.id} takes@{n}")
            model.add(taken - given == has - had * gang.active)
            gains = model.new_bool_var(f"{job.job.id} gains@{n}")
            model.add(given == 0).only_enforce_if(gains)
            model.add(taken == 0).only_enforce_if(~gains)
            _take(flows, n, job, group, taken)
            flows.gives[n][job.index, giving] = given


def _add_side_resources(problem: Problem, decisions: Decisions) -> None:
    """CPUs and memory of every node that counts them: what is gained fits in what is free and given up."""
    per_node: dict[int, list[tuple[RoundJob, Linear]]] = defaultdict(list)
    for j, gang in decisions.starts.items():
        for n, gpus in gang.gpus.items():
            per_node[n].append((problem.jobs[j], gpus))
    for changed in (decisions.moves, decisions.resizes):
        for j, gang in changed.items():
            job = problem.jobs[j]
            for n, gpus in gang.gpus.items():
                per_node[n].append((job, gpus))
            for n, count in job.spread_now:
                per_node[n].append((job, -count * gang.active))
    for j, stop in decisions.stops.items():
        for n, count in problem.jobs[j].spread_now:
            per_node[n].append((problem.jobs[j], -count * stop))
    nodes = problem.nodes
    for n, parts in per_node.items():
        for free, each in (
            (int(nodes.cpus_free_u[n]), [job.cpus_per_gpu_u * gpus for job, gpus in parts if job.cpus_per_gpu_u]),
            (int(nodes.memory_free_u[n]), [job.memory_per_gpu_u * gpus for job, gpus in parts if job.memory_per_gpu_u]),
        ):
            if each and free < UNLIMITED // 2:
                decisions.model.add(total(each) <= free)


def _add_node(problem: Problem, decisions: Decisions, claims: Claims, flows: Flows, n: int) -> None:
    """Serve every group on node n from free GPUs and from givers over whom it has a right."""
    model, free = decisions.model, int(problem.nodes.free[n])
    takes, gives = flows.takes[n], flows.gives.get(n, {})
    everything = [gpus for parts in takes.values() for gpus in parts]
    if not gives:
        model.add(total(everything) <= free)
        return
    model.add(total(everything) <= free + total(list(gives.values())))
    own_supply: dict[tuple[int, Change], list[IntVar]] = defaultdict(list)
    from_free: list[IntVar] = []
    for group, parts in takes.items():
        sources = [
            (giver, change, literal)
            for giver, change in gives
            if (literal := right_literal(problem, claims, flows, group, giver, change)) is not False
        ]
        if not sources:
            served = model.new_int_var(0, free, f"free {n}")
            model.add(total(parts) <= served)
            from_free.append(served)
            continue
        served = model.new_int_var(0, free, f"free {n}")
        from_free.append(served)
        flow_parts: list[Linear] = [served]
        for giver, change, literal in sources:
            most = int(dict(problem.jobs[giver].spread_now)[n])
            flow = model.new_int_var(0, most, f"{problem.jobs[giver].job.id}>{n}")
            if literal is not True:
                model.add(flow == 0).only_enforce_if(~literal)
            flow_parts.append(flow)
            own_supply[giver, change].append(flow)
        model.add(total(parts) == total(flow_parts))
    model.add(total(list(from_free)) <= free)
    for source, supplied in own_supply.items():
        model.add(total(list(supplied)) <= gives[source])


def _add_whole_nodes(problem: Problem, decisions: Decisions, claims: Claims, flows: Flows) -> None:
    """Add that a piece that fills a node needs everybody gone from it, by a right of its own or by a move.

    Redundant but strong.
    """
    model = decisions.model
    on_node: dict[int, list[RoundJob]] = defaultdict(list)
    for job in problem.running:
        for n, _ in job.spread_now:
            on_node[n].append(job)
    for j, gang in decisions.starts.items():
        job = problem.jobs[j]
        group = group_of(job, above=False)
        for n, unit in gang.units.items():
            whole = job.cut in (Cut.PER_NODE, Cut.WHOLE_NODES) and job.unit == int(problem.nodes.capacity[n])
            if not whole and not (job.cut is Cut.ONE_NODE and job.sizes == (int(problem.nodes.capacity[n]),)):
                continue
            for victim in on_node[n]:
                if victim.index in decisions.resizes:
                    continue
                ways = []
                if victim.index in decisions.moves:
                    ways.append(decisions.moves[victim.index].active)
                if victim.index in decisions.stops:
                    right = right_literal(problem, claims, flows, group, victim.index, Change.STOP)
                    if right is not False:
                        ways.append(decisions.stops[victim.index])
                        if right is not True and victim.index not in decisions.moves:
                            model.add_implication(unit, right)
                model.add_bool_or([~unit, *ways])


def right_literal(
    problem: Problem, claims: Claims, flows: Flows, group: Group, giver: int, change: Change
) -> IntVar | bool:
    """Return whether a group may take from a giver: never, always, or a literal."""
    taker, victim = flows.members[group], problem.jobs[giver]
    if taker.index == giver and change is not Change.MOVE:
        return False
    if (change is Change.STOP and group.above) or (group.moving and change is not Change.MOVE):
        return False
    if has_right(problem, taker, victim, change, NOTHING):
        return True
    if not has_right(problem, taker, victim, change, EVERYTHING):
        return False
    key = (len(problem.priorities) if group.above else 0) + group.priority
    by_quota = has_right(problem, taker, victim, change, Claim(inside_quota=True, inside_entitlement=False))
    by_fair = has_right(problem, taker, victim, change, Claim(inside_quota=False, inside_entitlement=True))
    return claims.literal(group.claim_team, key, quota=by_quota, entitlement=by_fair)
