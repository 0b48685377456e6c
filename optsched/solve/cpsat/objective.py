"""Ranks and bill as expressions; section 4 of the formulation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optsched.rounds.problem import Item, Problem, RoundJob, What
from optsched.solve.cpsat.claims import Claims
from optsched.solve.cpsat.constraints import Pairs, drain_costs
from optsched.solve.cpsat.decisions import Decisions
from optsched.solve.cpsat.flows import Flows
from optsched.solve.cpsat.terms import Linear, total

DEADLINE, GUARANTEED, ENTITLED, ALL = range(4)


@dataclass(frozen=True, slots=True)
class Ladder:
    """`through[tier][key]`: GPUs that run at tiers up to `tier` (the deadline tier by itself) and keys up to `key`.

    Maximising these sums in the order of the ranks, each fixed before the next, maximises the ranks in their order.
    """

    through: tuple[tuple[Linear, ...], ...]

    def stage(self, row: int, priorities: int) -> Linear:
        """Return the sum whose maximum decides a rank, the higher ranks being fixed."""
        part, rest = divmod(row, 4 * priorities)
        tier, priority = divmod(rest, priorities)
        return self.through[tier][part * priorities + priority]


def add_ladder(problem: Problem, decisions: Decisions, claims: Claims) -> Ladder:
    """Add the tier sums; each is bounded from above by its definition and pushed up by the objective."""
    keys = 2 * len(problem.priorities)
    by_team: dict[int, list[RoundJob]] = {}
    for job in problem.jobs:
        if job.running or job.index in decisions.starts:
            by_team.setdefault(job.line_team, []).append(job)
    sums: list[list[list[Linear]]] = [[[] for _ in range(keys)] for _ in range(4)]
    for team, jobs in by_team.items():
        line = _TeamLine(problem, decisions, claims, team, jobs)
        for key in range(keys):
            held = line.through(key)
            if team == problem.deadline_team:
                sums[DEADLINE][key].append(line.amount(key))
                continue
            sums[GUARANTEED][key].append(line.guaranteed(key, held))
            sums[ENTITLED][key].append(line.entitled(key, held))
            sums[ALL][key].append(line.amount(key))
    return Ladder(tuple(tuple(total(parts) for parts in tier) for tier in sums))


class _TeamLine:
    """One team's line after the plan."""

    def __init__(self, problem: Problem, decisions: Decisions, claims: Claims, team: int, jobs: list[RoundJob]) -> None:
        self.problem, self.decisions, self.claims, self.team, self.jobs = problem, decisions, claims, team, jobs
        self.priorities = len(problem.priorities)

    def of_type(self, key: int, gpu_type: int | None) -> Linear:
        """Return the GPUs of one type (None: of any) at keys up to `key`."""
        item = Item(What.GPUS, gpu_type, 0)
        parts: list[Linear] = []
        for job in self.jobs:
            if job.priority <= key:
                parts.append(self.claims.part_of(job, item, above=False))
            if self.priorities + job.priority <= key:
                parts.append(self.claims.part_of(job, item, above=True))
        return total(parts)

    def amount(self, key: int) -> Linear:
        """Return all GPUs at keys up to `key`."""
        return self.of_type(key, None)

    def through(self, key: int) -> list[Linear]:
        """Return the GPUs by type at keys up to `key`."""
        types = len(self.problem.gpu_types)
        return [self.of_type(key, y if types > 1 else None) for y in range(types)]

    def guaranteed(self, key: int, held: list[Linear]) -> Linear:
        """Return the guaranteed GPUs at keys up to `key`."""
        lines = self.problem.lines
        if lines.typed[self.team]:
            return total(
                [self._least(f"g{key}", h, int(lines.quota_by_type[self.team, y])) for y, h in enumerate(held)]
            )
        return self._least(f"g{key}", total(held), int(lines.quota_any[self.team]))

    def entitled(self, key: int, held: list[Linear]) -> Linear:
        """Return the guaranteed and fair GPUs at keys up to `key`."""
        lines = self.problem.lines
        fair = [int(f) for f in lines.fair_by_type[self.team]]
        if lines.typed[self.team]:
            quota = lines.quota_by_type[self.team]
            return total([self._least(f"f{key}", h, int(quota[y]) + fair[y]) for y, h in enumerate(held)])
        quota_any = int(lines.quota_any[self.team])
        if len(held) == 1:
            return self._least(f"f{key}", held[0], quota_any + fair[0])
        above = total([self._least(f"f{key}", h, fair[y]) for y, h in enumerate(held)])
        return self._least(f"f{key}", total(held), quota_any + above)

    def _least(self, name: str, amount: Linear, bound: Linear) -> Linear:
        """Return an expression that is at most both, and that the objective pushes up to the smaller of the two."""
        if isinstance(amount, int | np.integer) and isinstance(bound, int):
            return min(int(amount), bound)
        if isinstance(bound, int):
            if bound == 0:
                return 0
            if sum(max(job.maximum, job.size_now) for job in self.jobs) <= bound:
                return amount
        most = sum(max(job.maximum, job.size_now) for job in self.jobs)
        least = self.decisions.model.new_int_var(0, most, f"line {self.team}.{name}")
        self.decisions.model.add(least <= amount)
        self.decisions.model.add(least <= bound)
        return least


def stay(problem: Problem, decisions: Decisions) -> Linear:
    """Return the GPUs of running jobs that are stopped (to be made small)."""
    return total([problem.jobs[j].size_now * stop for j, stop in decisions.stops.items()])


def age(problem: Problem, decisions: Decisions) -> Linear:
    """Return how old what starts is: minimum GPUs times the number of queued jobs behind it, plus one."""
    return total(
        [problem.jobs[j].minimum * problem.jobs[j].ahead_of * gang.active for j, gang in decisions.starts.items()]
    )


def age_scale(problem: Problem) -> int:
    """Return a number above every value of `age`, so that one stopped GPU outweighs any age."""
    return 1 + sum(job.minimum * job.ahead_of for job in problem.queued)


def tie(problem: Problem, decisions: Decisions) -> Linear:
    """Return what decides between plans of equal ranks: what runs stays, then the older of the queued."""
    return age(problem, decisions) - age_scale(problem) * stay(problem, decisions)


def bill(problem: Problem, decisions: Decisions, pairs: Pairs, flows: Flows) -> Linear:
    """Return the bill of the plan in GPU-seconds."""
    parts: list[Linear] = [sum(problem.loss_now)]
    for gang in decisions.starts.values():
        parts.append(gang.loss)
    for j, stop in decisions.stops.items():
        job = problem.jobs[j]
        parts.append((job.costs.stop - problem.loss_now[j]) * stop)
    for changed in (decisions.moves, decisions.resizes):
        for j, gang in changed.items():
            parts.append(gang.loss + (problem.jobs[j].costs.move - problem.loss_now[j]) * gang.active)
    parts += drain_costs(problem, decisions, pairs)
    parts += _idle_holds(problem, decisions, flows)
    parts += _broken_domains(problem, decisions, flows)
    return total(parts)


def _net(flows: Flows, n: int) -> Linear:
    taken = total([gpus for parts in flows.takes.get(n, {}).values() for gpus in parts])
    return taken - total(list(flows.gives.get(n, {}).values()))


def _idle_holds(problem: Problem, decisions: Decisions, flows: Flows) -> list[Linear]:
    """Return the price of held GPUs left idle, for every hold and node."""
    model = decisions.model
    costs: list[Linear] = []
    for hold in problem.holds:
        waived = [decisions.starts[hold.unless].active] if hold.unless in decisions.starts else []
        for n, held in hold.gpus.items():
            free = int(problem.nodes.free[n])
            idle = model.new_int_var(0, held, f"idle {n}")
            left = model.new_int_var(-(2**20), 2**20, f"left {n}")
            model.add(left == free - _net(flows, n))
            whole = model.new_bool_var(f"all idle {n}")
            model.add(idle >= left).only_enforce_if([~whole, *(~w for w in waived)])
            model.add(idle >= held).only_enforce_if([whole, *(~w for w in waived)])
            costs.append(hold.until_s * idle)
    return costs


def _broken_domains(problem: Problem, decisions: Decisions, flows: Flows) -> list[Linear]:
    """Return the price of every empty domain that is in use and not full after the plan."""
    model, tree = decisions.model, problem.tree
    costs: list[Linear] = []
    touched = sorted(n for n in flows.takes if problem.nodes.free[n] == problem.nodes.capacity[n])
    for level, price in enumerate(problem.domain_price):
        if not price:
            continue
        inside: dict[int, list[int]] = {}
        for n in touched:
            domain = int(tree.domain_of[level][n])
            if domain >= 0 and problem.empty_domains[level][domain]:
                inside.setdefault(domain, []).append(n)
        for domain, members in inside.items():
            used = total([_net(flows, n) for n in members])
            gpus = int(problem.domain_gpus[level][domain])
            broken = model.new_bool_var(f"broken {level}.{domain}")
            full = model.new_bool_var(f"full {level}.{domain}")
            model.add(used >= gpus).only_enforce_if(full)
            model.add(used <= 0).only_enforce_if([~broken, ~full])
            costs.append(price * broken)
    return costs


def worth(problem: Problem, decisions: Decisions, ladder: Ladder, cost: Linear) -> Linear:
    """Return the weighted sum in thousandths of GPU-seconds; `cost` is the bill."""
    result = tiers_worth(problem, ladder, cost)
    for j, gang in decisions.starts.items():
        job = problem.jobs[j]
        if job.aging_milli:
            result = result + problem.horizon_s * job.aging_milli * job.minimum * gang.active
    return result


def tiers_worth(problem: Problem, ladder: Ladder, cost: Linear) -> Linear:
    """Return what the ranks are worth, less the bill, in thousandths of GPU-seconds."""
    priorities, horizon = len(problem.priorities), problem.horizon_s
    weights = problem.row_weight_milli.reshape(2, 4, priorities).transpose(1, 0, 2).reshape(4, 2 * priorities)
    through = ladder.through
    result: Linear = -1000 * cost
    # A sum through a tier is worth what its weight exceeds the next tier's by; the deadline tier stands by itself.
    exceeds = [weights[0], weights[1] - weights[2], weights[2] - weights[3], weights[3]]
    for tier, along in enumerate(exceeds):
        for key in range(2 * priorities):
            here = int(along[key]) - (int(along[key + 1]) if key + 1 < 2 * priorities else 0)
            if here:
                result = result + horizon * here * through[tier][key]
    return result
