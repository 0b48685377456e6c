"""The rules that tie jobs together across nodes, one function each: ceilings, floors, payment, holds, draining."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ortools.sat.python.cp_model import IntVar

from optsched.rounds.assignment import Change
from optsched.rounds.check import amount_of
from optsched.rounds.problem import UNLIMITED, Problem, RoundJob
from optsched.rounds.rights import exempt
from optsched.solve.cpsat.claims import Claims
from optsched.solve.cpsat.decisions import Decisions
from optsched.solve.cpsat.flows import Flows, Group, right_literal
from optsched.solve.cpsat.terms import Linear, total


class Pairs:
    """Literals about a taker and a giver that meet on a node where the taker has a right over it."""

    def __init__(self, problem: Problem, decisions: Decisions, claims: Claims, flows: Flows) -> None:
        self.problem, self.decisions, self.claims, self.flows = problem, decisions, claims, flows
        self._giving: dict[tuple[int, int, Change], IntVar] = {}
        self._present: dict[tuple[int, int, Group], IntVar] = {}

    def active(self, giver: int, change: Change) -> IntVar:
        """Return whether the giver gives by this change."""
        decisions = self.decisions
        if change is Change.STOP:
            return decisions.stops[giver]
        return decisions.moves[giver].active if change is Change.MOVE else decisions.shrinks[giver]

    def giving(self, n: int, giver: int, change: Change) -> IntVar:
        """Return whether the giver gives anything on node n by this change."""
        gives = self.flows.gives[n][giver, change]
        if change is Change.STOP or not isinstance(gives, IntVar):
            return self.active(giver, change)
        if (n, giver, change) not in self._giving:
            model = self.decisions.model
            literal = model.new_bool_var(f"{giver} gives on {n}")
            model.add(gives >= 1).only_enforce_if(literal)
            model.add(gives <= 0).only_enforce_if(~literal)
            self._giving[n, giver, change] = literal
        return self._giving[n, giver, change]

    def present(self, n: int, taker: int, group: Group, gpus: Linear) -> IntVar:
        """Return whether a taker takes anything on node n as a member of `group`; defined in both directions."""
        key = (n, taker, group)
        if key not in self._present:
            model = self.decisions.model
            literal = model.new_bool_var(f"{taker} takes on {n}")
            model.add(gpus >= 1).only_enforce_if(literal)
            model.add(gpus <= 0).only_enforce_if(~literal)
            self._present[key] = literal
        return self._present[key]

    def meetings(self) -> Iterator[tuple[int, int, Group, Linear, int, Change, IntVar | bool]]:
        """Yield every meeting at which a taker may have a right over a giver.

        Each is (node, taker, group, GPUs taken, giver, change, right).
        """
        for n, gives in self.flows.gives.items():
            for taker, group, gpus in self.flows.takers_on.get(n, ()):
                for giver, change in gives:
                    if taker == giver:
                        continue
                    right = right_literal(self.problem, self.claims, self.flows, group, giver, change)
                    if right is not False:
                        yield n, taker, group, gpus, giver, change, right

    def meet(
        self, n: int, taker: int, group: Group, gpus: Linear, giver: int, change: Change, right: IntVar | bool
    ) -> list[IntVar]:
        """Return literals all of which are true exactly if the two meet on node n with a right."""
        literals = [self.present(n, taker, group, gpus), self.giving(n, giver, change)]
        return literals if isinstance(right, bool) else [*literals, right]


def add_ceilings(problem: Problem, decisions: Decisions, claims: Claims) -> None:
    """Rules 8 and 9: what is held after is within every ceiling, or nothing that it counts starts or grows."""
    model = decisions.model
    for ceiling in problem.ceilings:
        jobs = [problem.jobs[j] for j in ceiling.jobs]
        openings = [decisions.starts[job.index].active for job in jobs if job.index in decisions.starts]
        openings += [decisions.grows[job.index] for job in jobs if job.index in decisions.grows]
        if not openings:
            continue
        before = sum(amount_of(problem, job, job.spread_now, ceiling.item) for job in jobs)
        after = total([claims.part_of(job, ceiling.item, above=a) for job in jobs for a in (False, True)])
        if before <= ceiling.item.amount:
            model.add(after <= ceiling.item.amount)
            continue
        any_more = model.new_bool_var(f"more under {ceiling.kind} {ceiling.target}")
        for opening in openings:
            model.add_implication(opening, any_more)
        model.add(after <= ceiling.item.amount).only_enforce_if(any_more)


def add_stop_limit(problem: Problem, decisions: Decisions) -> None:
    """Rule 10: stopped GPUs stay within the cluster's limit."""
    if problem.max_stopped_gpus < UNLIMITED and decisions.stops:
        stopped = total([problem.jobs[j].size_now * stop for j, stop in decisions.stops.items()])
        decisions.model.add(stopped <= problem.max_stopped_gpus)


def add_needs(problem: Problem, decisions: Decisions, pairs: Pairs) -> None:
    """Rule 12: every giver meets a taker with a right over it; a move may also pay for itself."""
    model = decisions.model
    met: dict[tuple[int, Change], list[IntVar]] = defaultdict(list)
    for n, taker, group, gpus, giver, change, right in pairs.meetings():
        both = model.new_bool_var(f"{taker} needs {giver} on {n}")
        for literal in pairs.meet(n, taker, group, gpus, giver, change, right):
            model.add_implication(both, literal)
        met[giver, change].append(both)
    for j, stop in decisions.stops.items():
        model.add_bool_or([~stop, *met[j, Change.STOP]])
    for j, shrink in decisions.shrinks.items():
        model.add_bool_or([~shrink, *met[j, Change.SHRINK]])
    for j, gang in decisions.moves.items():
        job = problem.jobs[j]
        reasons = list(met[j, Change.MOVE])
        most_gain = problem.loss_now[j] - job.costs.move - 1
        if most_gain >= 0:
            pays = model.new_bool_var(f"{job.job.id} pays")
            model.add(gang.loss <= most_gain).only_enforce_if(pays)
            reasons.append(pays)
        model.add_bool_or([~gang.active, *reasons])


def add_floors(problem: Problem, decisions: Decisions, claims: Claims, pairs: Pairs) -> None:
    """Rule 14: other teams leave every team at least min(its quota, what it ran)."""
    model = decisions.model
    binding = _binding_floors(problem, decisions)
    reclaimed: dict[tuple[int, Change], IntVar] = {}
    for n, taker, group, gpus, giver, change, right in pairs.meetings():
        victim, other = problem.jobs[giver], problem.jobs[taker]
        if change is Change.MOVE or other.team == victim.team or exempt(other) or victim.claim_team not in binding:
            continue
        literals = pairs.meet(n, taker, group, gpus, giver, change, right)
        taken = reclaimed.get((giver, change))
        if taken is None:
            taken = reclaimed[giver, change] = model.new_bool_var(f"reclaimed {victim.job.id}")
        model.add_bool_or([taken, *(~literal for literal in literals)])
    for team in binding:
        members = [job for job in problem.running if job.claim_team == team]
        for item in problem.lines.quota[team]:
            ran = sum(amount_of(problem, job, job.spread_now, item) for job in members)
            slack = ran - min(item.amount, ran)
            lost: list[Linear] = []
            for job in members:
                held = amount_of(problem, job, job.spread_now, item)
                if (job.index, Change.STOP) in reclaimed:
                    lost.append(held * reclaimed[job.index, Change.STOP])
                if (job.index, Change.SHRINK) in reclaimed and held:
                    lost.append(_shrunk(decisions, job, held, reclaimed[job.index, Change.SHRINK]))
            if lost:
                model.add(total(lost) <= slack)


def _shrunk(decisions: Decisions, job: RoundJob, held: int, reclaimed: IntVar) -> Linear:
    """Return what a job loses by shrinking, if that is reclaimed."""
    per_gpu = held // job.size_now
    gang = decisions.resizes[job.index]
    lost = decisions.model.new_int_var(0, job.size_now, f"{job.job.id} loses")
    decisions.model.add(lost >= job.size_now * gang.active - gang.size).only_enforce_if(reclaimed)
    return per_gpu * lost


def _binding_floors(problem: Problem, decisions: Decisions) -> set[int]:
    """Return the teams that could lose more to others than what they have above their quota."""
    could_lose: dict[int, int] = defaultdict(int)
    for j in decisions.stops.keys() | decisions.shrinks.keys():
        job = problem.jobs[j]
        could_lose[job.claim_team] += job.size_now
    return {team for team in could_lose if problem.lines.quota[team]}


def add_payment(problem: Problem, decisions: Decisions, pairs: Pairs) -> None:
    """Rule 15: the stop costs can be divided among takers so that none pays more than its start is worth."""
    if problem.profile.max_loss_ratio is None or not decisions.stops:
        return
    model = decisions.model
    meets: dict[tuple[int, int], list[IntVar]] = defaultdict(list)
    for n, taker, group, gpus, giver, change, right in pairs.meetings():
        if change is Change.STOP and problem.jobs[giver].costs.stop:
            both = model.new_bool_var(f"{taker} meets {giver} on {n}")
            for literal in pairs.meet(n, taker, group, gpus, giver, change, right):
                model.add_implication(both, literal)
            meets[taker, giver].append(both)
    paid_for: dict[int, list[IntVar]] = defaultdict(list)
    paid_by: dict[int, list[IntVar]] = defaultdict(list)
    for (taker, giver), literals in meets.items():
        cost = problem.jobs[giver].costs.stop
        share = model.new_int_var(0, cost, f"{taker} pays for {giver}")
        model.add(share <= cost * total(list(literals)))
        paid_for[giver].append(share)
        paid_by[taker].append(share)
    for giver, shares in paid_for.items():
        model.add(total(list(shares)) >= problem.jobs[giver].costs.stop * decisions.stops[giver])
    for taker, shares in paid_by.items():
        if problem.jobs[taker].pays_gpu_s < UNLIMITED:
            model.add(total(list(shares)) <= problem.jobs[taker].pays_gpu_s)


def add_holds(problem: Problem, decisions: Decisions, flows: Flows) -> None:
    """Rule 16: held GPUs are left alone by those whom a hold binds, unless the reservation's gang starts."""
    model = decisions.model
    by_node: dict[int, list[int]] = defaultdict(list)
    for index, hold in enumerate(problem.holds):
        for n in hold.gpus:
            by_node[n].append(index)
    for n, indices in by_node.items():
        free = int(problem.nodes.free[n])
        given = total(list(flows.gives.get(n, {}).values()))
        here = [problem.holds[i] for i in indices]
        sets = [(hold.binds, hold.gpus[n], [hold]) for hold in here]
        if len(here) > 1:
            everybody = frozenset.intersection(*(hold.binds for hold in here))
            sets.append((everybody, sum(hold.gpus[n] for hold in here), here))
        for binds, held, group in sets:
            taken = [gpus for j, _, gpus in flows.takers_on.get(n, ()) if j in binds]
            if not taken:
                continue
            waived = [decisions.starts[h.unless].active for h in group if h.unless in decisions.starts]
            model.add(total(taken) <= max(0, free - held) + given).only_enforce_if([~w for w in waived])


def add_grants(problem: Problem, decisions: Decisions, flows: Flows) -> None:
    """Rule 16 for grants: what a grant keeps inside its domain is left for those it names."""
    model = decisions.model
    for hold in problem.domain_holds:
        taken: list[Linear] = []
        kept: list[Linear] = []
        for n in hold.nodes:
            for j, _, gpus in flows.takers_on.get(n, ()):
                (taken if j in hold.binds else kept if j in hold.grantees else []).append(gpus)
        if not taken:
            continue
        inside = set(hold.nodes)
        given = total([g for n in hold.nodes for g in flows.gives.get(n, {}).values()])
        free = sum(int(problem.nodes.free[n]) for n in hold.nodes)
        used_now = sum(c for j in hold.grantees for n, c in problem.jobs[j].spread_now if n in inside)
        left = sum(
            (gives for n in hold.nodes for (j, _), gives in flows.gives.get(n, {}).items() if j in hold.grantees),
            start=0,
        )
        any_taken = model.new_bool_var(f"others inside {hold.name}")
        model.add(total(taken) <= free * 1 + 10**6 * any_taken - free)
        model.add(total(taken) + total(kept) <= free + given).only_enforce_if(any_taken)
        model.add(total(taken) + hold.gpus - used_now + left <= free + given).only_enforce_if(any_taken)


def drain_costs(problem: Problem, decisions: Decisions, pairs: Pairs) -> list[Linear]:
    """Return, for each taker that may wait for a checkpoint to be written, its GPUs times the longest such wait."""
    model = decisions.model
    waits: dict[int, IntVar] = {}
    longest: dict[int, int] = defaultdict(int)
    meetings = [m for m in pairs.meetings() if problem.jobs[m[4]].costs.drain_s > 0]
    for _, taker, *_, giver, _, _ in meetings:
        longest[taker] = max(longest[taker], problem.jobs[giver].costs.drain_s)
    for n, taker, group, gpus, giver, change, right in meetings:
        if taker not in waits:
            waits[taker] = model.new_int_var(0, longest[taker], f"{taker} waits")
        literals = pairs.meet(n, taker, group, gpus, giver, change, right)
        model.add(waits[taker] >= problem.jobs[giver].costs.drain_s).only_enforce_if(literals)
    costs: list[Linear] = []
    for taker, wait in waits.items():
        job = problem.jobs[taker]
        # At most one of them is active: what an elastic job that moves or grows then has.
        ways = (decisions.starts, decisions.moves, decisions.resizes)
        size = total([gangs[taker].size for gangs in ways if taker in gangs])
        if len(job.sizes) == 1:
            costs.append(job.sizes[0] * wait)
            continue
        cost = model.new_int_var(0, longest[taker] * job.maximum, f"{taker} held")
        model.add_multiplication_equality(cost, [wait, size])
        costs.append(cost)
    return costs
