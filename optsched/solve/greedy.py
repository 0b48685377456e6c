"""The greedy solver: the queue in order, best fit, then the cheapest victims, then growth. Always valid, in milliseconds.

It is the fallback of every round, the hint of every search, and what they are measured against.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optsched.clock import Clock
from optsched.rounds.assignment import Assignment
from optsched.rounds.check import check
from optsched.rounds.problem import UNLIMITED, Cut, Flags, Ints, Problem, RoundJob, Spread
from optsched.rounds.rights import Claim, claim_of, exempt
from optsched.rounds.room import room_in_cluster, slice_down, usable, whole_slices
from optsched.rounds.score import gpu_type_of, size_of
from optsched.solve.ledger import Ledger
from optsched.solve.packing import pack
from optsched.solve.result import Budget, Result
from optsched.solve.victims import Victims
from optsched.values.profile import PriorityMode

MAX_DOMAINS = 4
"""How many domains are looked at for victims of one job."""

MAX_PRUNED = 8
"""How many victims of one job are tried for whether the job can start without them."""


@dataclass(frozen=True, slots=True)
class Params:
    """What the greedy solver may do; `attempts` bounds how many blocked jobs look for victims."""

    preempt: bool = True
    grow: bool = True
    attempts: int = 400


class GreedySolver:
    """Plans in queue order; see `Params`."""

    def __init__(self, params: Params = Params()) -> None:
        self._params = params

    def solve(self, problem: Problem, hint: Assignment, budget: Budget, clock: Clock) -> Result:
        """Return a valid assignment; neither hint, budget nor clock are needed."""
        return Result(greedy(problem, self._params))


def greedy(problem: Problem, params: Params = Params()) -> Assignment:
    """Return a valid assignment, at worst without preemption."""
    assignment = _Greedy(problem, params).run()
    if assignment.stopped and check(problem, assignment):
        assignment = _Greedy(problem, Params(preempt=False, grow=params.grow)).run()
    return assignment


class _Greedy:
    def __init__(self, problem: Problem, params: Params) -> None:
        self.problem, self.params = problem, params
        self.ledger = Ledger(problem)
        self.victims = Victims(problem)
        self._hopeless: set[object] = set()
        self._stopped_gpus = 0
        self._attempts = 0

    def run(self) -> Assignment:
        for job in self.problem.queued:
            if job.can_ever_run and not self._start_in_free_room(job) and self.params.preempt:
                self._start_over_victims(job)
        if self.params.grow:
            self._grow()
        return Assignment(dict(self.ledger.changed), frozenset(self.ledger.stopped))

    def _start_in_free_room(self, job: RoundJob) -> bool:
        holds = bool(self.problem.holds or self.problem.domain_holds)
        shape = self._shape(job)
        if shape in self._hopeless:
            return False
        gpus = self.ledger.free_for(job)
        found = pack(self.problem, job, gpus, self.ledger.cpus_u, self.ledger.memory_u, job.minimum)
        if found is None:
            if not holds:
                self._hopeless.add(shape)
            return False
        gpu_type = gpu_type_of(self.problem, found)
        if self.ledger.blocked_by(job, job.minimum, gpu_type) is not None:
            return False
        if not self.ledger.keeps_claims(job, job.minimum, gpu_type):
            return False
        if self.problem.profile.priority_mode is PriorityMode.WEIGHTED and not self._worth_it(job, found, []):
            return False
        self.ledger.start(job, found)
        return True

    def _start_over_victims(self, job: RoundJob) -> None:
        """Stop the cheapest jobs over which this one has a right, if the plan is the better for it."""
        claim = self._claim(job)
        wish = (self._shape(job), job.team, job.claim_team, job.priority, claim, job.due, job.emergency)
        if self._attempts >= self.params.attempts or wish in self._hopeless:
            return
        rights = self.victims.rights(job, claim, self.ledger.stopped)
        if not rights.any():
            return
        self._attempts += 1
        for chosen, spread in self._candidates(job, rights):
            gpu_type = gpu_type_of(self.problem, spread)
            if self._allowed(job, gpu_type, chosen) and self._worth_it(job, spread, chosen):
                self._stopped_gpus += sum(victim.size_now for victim in chosen)
                self.ledger.start_over(job, spread, chosen)
                self._lean_on(job, claim, chosen)
                return
        self._hopeless.add(wish)

    def _shape(self, job: RoundJob) -> tuple[object, ...]:
        """Return what decides where the job fits: of two alike, the second cannot fit where the first could not."""
        side = (job.cpus_per_gpu_u, job.memory_per_gpu_u)
        return (job.cut, job.unit, job.minimum, id(job.nodes), job.required, job.slices, *side)

    def _claim(self, job: RoundJob) -> Claim:
        """Return the job's claim if it started now at its minimum."""
        team, key = job.claim_team, job.priority
        use = self.ledger.claim
        gpu_type = next((y for y, speed in enumerate(job.type_speed) if speed > 0), 0)
        use.gpus[team, key, gpu_type] += job.minimum
        use.cpus[team, key] += job.minimum * job.cpus_per_gpu_u
        use.memory[team, key] += job.minimum * job.memory_per_gpu_u
        claim = claim_of(self.problem, job, job.minimum, use)
        use.gpus[team, key, gpu_type] -= job.minimum
        use.cpus[team, key] -= job.minimum * job.cpus_per_gpu_u
        use.memory[team, key] -= job.minimum * job.memory_per_gpu_u
        return claim

    def _lean_on(self, job: RoundJob, claim: Claim, chosen: list[RoundJob]) -> None:
        """Remember the claims that the job's rights over other teams rest on: later starts must not take it out of its line."""
        others = [victim for victim in chosen if victim.team != job.team]
        if not others or exempt(job):
            return
        lines, takeable = self.problem.lines, self.problem.takeable
        by_quota = [victim for victim in others if not takeable[victim.index].above_entitlement[0]]
        if by_quota or not claim.inside_entitlement:
            self.ledger.claims.append((job.claim_team, job.priority, lines.quota[job.claim_team]))
        if len(by_quota) < len(others) and claim.inside_entitlement:
            self.ledger.claims.append((job.claim_team, job.priority, lines.entitlement[job.claim_team]))

    def _allowed(self, job: RoundJob, gpu_type: int, chosen: list[RoundJob]) -> bool:
        """Return whether limits, floors, the cluster's stop limit and the payment rule allow the swap."""
        problem = self.problem
        stopped = sum(victim.size_now for victim in chosen)
        if self._stopped_gpus + stopped > problem.max_stopped_gpus:
            return False
        if self.ledger.blocked_by(job, job.minimum, gpu_type) is not None:
            return False
        if not self.ledger.keeps_claims(job, job.minimum, gpu_type):
            return False
        if job.pays_gpu_s < UNLIMITED and sum(victim.costs.stop for victim in chosen) > job.pays_gpu_s:
            return False
        return exempt(job) or self.victims.floors_kept(job, chosen)

    def _worth_it(self, job: RoundJob, spread: Spread, chosen: list[RoundJob]) -> bool:
        """Return whether the plan with this start is better than without it."""
        gpu_type = gpu_type_of(self.problem, spread)
        change = self.ledger.rows_if(job, size_of(spread), gpu_type, chosen)
        if self.problem.profile.priority_mode is PriorityMode.WEIGHTED:
            gain = int((change * self.problem.row_weight_milli).sum()) + job.aging_milli * job.minimum
            cost = sum(victim.costs.stop for victim in chosen)
            speed = job.type_speed[gpu_type] * min(job.span_speed)
            loss = size_of(spread) * self.problem.horizon_s * (1.0 - speed)
            return gain * self.problem.horizon_s > 1000 * (cost + loss)
        first = change[np.flatnonzero(change)[:1]]
        return bool(len(first)) and bool(first[0] > 0)

    def _candidates(self, job: RoundJob, rights: Flags) -> list[tuple[list[RoundJob], Spread]]:
        """Return ways to start the job over victims, the cheapest first."""
        room = self._room(job, rights)
        found: list[tuple[tuple[int, ...], list[RoundJob], Spread]] = []
        for inside in self._domains(job, room):
            chosen = (
                self._on_one_node(job, rights, inside)
                if job.cut is Cut.ONE_NODE
                else self._cheapest(job, rights, inside)
            )
            if chosen is not None:
                victims, spread = chosen
                found.append((self.victims.price(victims), victims, spread))
        found.sort(key=lambda each: each[0])
        return [(victims, spread) for _, victims, spread in found]

    def _room(self, job: RoundJob, gone: Flags) -> Ints:
        """Return the room for the job per node if the running jobs in `gone` were gone, shape (N,)."""
        gpus, cpus, memory = self._without(job, gone)
        return slice_down(job, self.problem.tree, usable(job, self.problem.nodes, gpus, cpus, memory))

    def _without(self, job: RoundJob, gone: Flags) -> tuple[Ints, Ints, Ints]:
        freed, cpus, memory = self.victims.freed(gone)
        ledger = self.ledger
        return ledger.free_for(job) + freed, ledger.cpus_u + cpus, ledger.memory_u + memory

    def _domains(self, job: RoundJob, room: Ints) -> list[Flags]:
        """Return the domains in which the job could start, those with the most free room first."""
        tree, need = self.problem.tree, job.minimum
        level = tree.node_level if job.cut is Cut.ONE_NODE else job.required
        if level is None:
            return [np.ones(len(room), dtype=bool)] if room_in_cluster(job, tree, room) >= need else []
        totals = room if level == tree.node_level else whole_slices(job, tree, room, level)
        fitting = np.flatnonzero(totals >= need)
        free = tree.sum_per_domain(level, np.minimum(self.ledger.gpus, room))
        order = fitting[np.lexsort((fitting, -free[fitting]))]
        if level == tree.node_level:
            price = self.victims.node_price
            order = fitting[np.lexsort((fitting, price[fitting], -free[fitting]))]
        return [tree.domain_of[level] == domain for domain in order[:MAX_DOMAINS]]

    def _on_one_node(self, job: RoundJob, rights: Flags, inside: Flags) -> tuple[list[RoundJob], Spread] | None:
        """Return the victims on one node that let the job start there: least urgent, then small, then cheap."""
        n = int(np.flatnonzero(inside)[0])
        need = job.minimum
        missing = {
            "gpus": need - int(self.ledger.free_for(job)[n]),
            "cpus": need * job.cpus_per_gpu_u - int(self.ledger.cpus_u[n]),
            "memory": need * job.memory_per_gpu_u - int(self.ledger.memory_u[n]),
        }

        def gives(j: int, count: int) -> tuple[int, int, int]:
            victim = self.problem.jobs[j]
            return count, count * victim.cpus_per_gpu_u, count * victim.memory_per_gpu_u

        here = sorted(
            ((j, gives(j, count)) for j, count in self.victims.on_node.get(n, ()) if rights[j]),
            key=lambda each: self.victims.weight(each[0]),
        )
        short = np.array(list(missing.values()), dtype=np.int64)
        chosen: list[tuple[int, tuple[int, int, int]]] = []
        for j, given in here:
            if (short <= 0).all():
                break
            chosen.append((j, given))
            short = short - given
        if (short > 0).any() or not chosen:
            return None
        for each in sorted(chosen, key=lambda one: self.victims.weight(one[0]), reverse=True):
            if len(chosen) > 1 and (short + each[1] <= 0).all():
                chosen.remove(each)
                short = short + each[1]
        return [self.problem.jobs[j] for j, _ in chosen], ((n, need),)

    def _cheapest(self, job: RoundJob, rights: Flags, inside: Flags) -> tuple[list[RoundJob], Spread] | None:
        """Return few and cheap victims inside some nodes that let the job start there, and where it then is."""
        order = self.victims.cheapest_first(rights, inside)
        low, high = 1, len(order)
        if not high:
            return None
        while low < high:
            middle = (low + high) // 2
            if self._fits(job, order[:middle], inside):
                high = middle
            else:
                low = middle + 1
        chosen = [int(j) for j in order[:low]]
        for victim in sorted(chosen, key=self.victims.weight, reverse=True)[:MAX_PRUNED]:
            fewer = [each for each in chosen if each != victim]
            if fewer and self._fits(job, np.array(fewer), inside):
                chosen = fewer
        gpus, cpus, memory = self._without(job, self._gone(np.array(chosen)))
        spread = pack(self.problem, job, gpus, cpus, memory, job.minimum, inside)
        if spread is None:
            return None
        used = {n for n, _ in spread}
        victims = [self.problem.jobs[j] for j in chosen]
        needed = [victim for victim in victims if any(n in used for n, _ in victim.spread_now)]
        return (needed, spread) if needed else None

    def _gone(self, chosen: Ints) -> Flags:
        gone = np.zeros(self.problem.first_queued, dtype=bool)
        gone[chosen] = True
        return gone

    def _fits(self, job: RoundJob, chosen: Ints, inside: Flags) -> bool:
        """Return whether the sums allow the job inside some nodes once the chosen are gone."""
        room = np.where(inside, self._room(job, self._gone(chosen)), 0)
        if len(self.problem.gpu_types) > 1:
            by_type = [
                np.where(self.problem.nodes.gpu_type == y, room, 0) for y, s in enumerate(job.type_speed) if s > 0
            ]
        else:
            by_type = [room]
        if job.required is None:
            return any(room_in_cluster(job, self.problem.tree, each) >= job.minimum for each in by_type)
        return any(
            int(whole_slices(job, self.problem.tree, each, job.required).max(initial=0)) >= job.minimum
            for each in by_type
        )

    def _grow(self) -> None:
        """Give elastic jobs, best rank first, what is idle: no queued job could use it, they had their turn."""
        elastic = [
            job
            for job in self.problem.jobs
            if job.elastic
            and (job.resizable or job.index in self.ledger.changed)
            and job.index not in self.ledger.stopped
        ]
        for job in sorted(elastic, key=lambda each: (each.tier, each.priority, each.index)):
            self._grow_one(job)

    def _grow_one(self, job: RoundJob) -> None:
        """Grow one job by adding to where it is, to the largest size that fits."""
        if self._uses_victims(job):
            return
        present = self.ledger.changed.get(job.index, job.spread_now)
        size = size_of(present)
        for target in reversed([each for each in job.sizes if each > size]):
            grown = self._grown(job, present, target)
            if grown is None:
                continue
            more = target - size
            gpu_type = gpu_type_of(self.problem, present)
            if self.ledger.blocked_by(job, more, gpu_type) is None and self.ledger.keeps_claims(job, more, gpu_type):
                self.ledger.start(job, grown)
                return

    def _uses_victims(self, job: RoundJob) -> bool:
        """Return whether the job starts over stopped jobs: then it starts at its minimum."""
        mine = {n for n, _ in self.ledger.changed.get(job.index, ())}
        return any(n in mine for j in self.ledger.stopped for n, _ in self.problem.jobs[j].spread_now)

    def _grown(self, job: RoundJob, present: Spread, target: int) -> Spread | None:
        """Return the placement at a larger size that keeps what the job has, None where there is none."""
        problem, tree = self.problem, self.problem.tree
        held = dict(present)
        gpus = self.ledger.free_for(job).copy()
        same_type = problem.nodes.gpu_type == gpu_type_of(problem, present)
        gpus[~same_type] = 0
        if job.required is not None:
            home = tree.domain_of[job.required][present[0][0]]
            gpus[tree.domain_of[job.required] != home] = 0
        cpus, memory = self.ledger.cpus_u.copy(), self.ledger.memory_u.copy()
        for n, count in present:
            if job.cut is Cut.PER_NODE or job.cut is Cut.WHOLE_NODES:
                gpus[n] = 0
        if job.cut is Cut.ONE_NODE:
            n = present[0][0]
            more = target - held[n]
            fits = gpus[n] >= more and self._side_fits(job, n, more)
            return ((n, target),) if fits else None
        missing = target - size_of(present)
        found = pack(problem, job, gpus, cpus, memory, missing)
        if found is None:
            return None
        for n, count in found:
            held[n] = held.get(n, 0) + count
        return tuple(sorted(held.items())) if self._slices_whole(job, held) else None

    def _side_fits(self, job: RoundJob, n: int, more: int) -> bool:
        return bool(
            self.ledger.cpus_u[n] >= more * job.cpus_per_gpu_u
            and self.ledger.memory_u[n] >= more * job.memory_per_gpu_u
            and job.nodes[n]
        )

    def _slices_whole(self, job: RoundJob, held: dict[int, int]) -> bool:
        for piece, level in job.slices:
            inside: dict[int, int] = {}
            for n, count in held.items():
                domain = int(self.problem.tree.domain_of[level][n])
                inside[domain] = inside.get(domain, 0) + count
            if any(count % piece for count in inside.values()):
                return False
        return True
