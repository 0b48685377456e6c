"""The greedy solver: the queue in order, best fit, then the least missed victims, then growth. Always valid and fast.

It is the fallback of every round, the hint of every search, and what they are measured against.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence, Set
from dataclasses import dataclass

from optsched.clock import Clock
from optsched.rounds.assignment import Assignment
from optsched.rounds.check import check
from optsched.rounds.problem import UNLIMITED, Problem, RoundJob, Spread
from optsched.rounds.rights import NOTHING, Claim, claim_of, exempt
from optsched.rounds.score import gpu_type_of, size_of
from optsched.solve.clearing import book, clear
from optsched.solve.floors import Floors
from optsched.solve.growth import grow
from optsched.solve.ledger import Ledger
from optsched.solve.packing import pack
from optsched.solve.result import Budget, Result
from optsched.solve.stock import Kind
from optsched.solve.supply import Supply
from optsched.solve.swap import ways
from optsched.values.profile import PriorityMode


@dataclass(frozen=True, slots=True)
class Params:
    """What the greedy solver may do; `attempts` bounds how many blocked jobs look for victims.

    `leftovers`: what stopped jobs leave over goes to others, and who is not needed runs on. `move`: who insists on a
    domain may have others moved out of it.
    """

    preempt: bool = True
    move: bool = True
    grow: bool = True
    leftovers: bool = True
    attempts: int = 4000


class GreedySolver:
    """Plans in queue order; see `Params`."""

    def __init__(self, params: Params = Params()) -> None:
        self._params = params

    def solve(self, problem: Problem, hint: Assignment, budget: Budget, clock: Clock) -> Result:
        """Return a valid assignment; neither hint, budget nor clock are needed."""
        return Result(greedy(problem, self._params))


def greedy(problem: Problem, params: Params = Params()) -> Assignment:
    """Return a valid assignment, at worst without preemption."""
    made = Pass(problem, params)
    assignment = made.run()
    # A pass looks ahead only so far: what a later start did to an earlier one shows at the end.
    for fewer in (
        dataclasses.replace(params, leftovers=False, grow=False, move=False),
        dataclasses.replace(params, preempt=False, move=False),
    ):
        if not (assignment.stopped or made.moved) or not check(problem, assignment):
            break
        made = Pass(problem, fewer)
        assignment = made.run()
    return assignment


class Pass:
    """One pass along the queue; `ledger`, `supply` and `floors` may carry what was decided before it."""

    def __init__(
        self,
        problem: Problem,
        params: Params,
        ledger: Ledger | None = None,
        supply: Supply | None = None,
        floors: Floors | None = None,
    ) -> None:
        self.problem, self.params = problem, params
        self.ledger = ledger or Ledger(problem)
        self._supply, self._floors = supply, floors
        # What stops cost goes by what ran when the pass began.
        self._line = self.ledger.line.gpus.copy() if supply is None else None
        self._weighted = problem.profile.priority_mode is PriorityMode.WEIGHTED
        self._takers_on: dict[int, list[RoundJob]] = {}
        self._hopeless: set[object] = set()
        self._too_large: dict[object, int] = {}
        self._gains: dict[object, tuple[int, int]] = {}
        self._claims: dict[object, tuple[int, Claim]] = {}
        self._stopped_gpus = sum(problem.jobs[j].size_now for j in self.ledger.stopped)
        self._attempts = 0
        self.moved: set[int] = set()
        for j, spread in self.ledger.changed.items():
            if not problem.jobs[j].running:
                self._started(problem.jobs[j], spread)

    @property
    def supply(self) -> Supply:
        """Who may be stopped for whom; worked out when it is first asked for, which most passes never do."""
        if self._supply is None:
            self._supply = Supply(self.problem, self.ledger, self._line)
        return self._supply

    @property
    def floors(self) -> Floors:
        """What may still be taken from whom; likewise."""
        if self._floors is None:
            self._floors = Floors(self.problem)
        return self._floors

    def run(self) -> Assignment:
        """Start what can start, let run on who need not stop, grow what can grow."""
        for job in self.problem.queued:
            if job.index not in self.ledger.changed and job.can_ever_run:
                self.start(job)
        if self.params.leftovers:
            self.run_on()
        if self.params.grow:
            grow(self.problem, self.ledger)
        return Assignment(dict(self.ledger.changed), frozenset(self.ledger.stopped))

    def start(self, job: RoundJob) -> bool:
        """Start one queued job in free room, where others go on elsewhere, or over victims; return whether it does."""
        if self.start_in_free_room(job):
            return True
        if self.params.move and job.required is not None and self._start_by_moves(job):
            return True
        if self.params.preempt:
            self._start_over_victims(job)
        return job.index in self.ledger.changed

    def place(self, job: RoundJob) -> bool:
        """Start one queued job if that can be done; return whether it was."""
        if job.index not in self.ledger.changed and not self.start_in_free_room(job) and self.params.preempt:
            self._start_over_victims(job)
        return job.index in self.ledger.changed

    def start_in_free_room(self, job: RoundJob) -> bool:
        """Start one queued job in free room; return whether it does."""
        shape = self._shape(job)
        if self._too_large.get(shape, UNLIMITED) <= job.minimum:
            return False
        gpus = self.ledger.free_for(job)
        found = pack(self.problem, job, gpus, self.ledger.cpus_u, self.ledger.memory_u, job.minimum)
        if found is None:
            if not self.problem.domain_holds:
                self._too_large[shape] = job.minimum
            return False
        gpu_type = gpu_type_of(self.problem, found)
        if self.ledger.blocked_by(job, job.minimum, gpu_type) is not None:
            return False
        if not self.ledger.keeps_claims(job, job.minimum, gpu_type):
            return False
        if self._weighted and not self._worth_it(job, found, []):
            return False
        if self._supply is not None and any(n in self._supply.stopped_on for n, _ in found):
            met = [self.problem.jobs[j] for j in self.supply.met(self.supply.kind(job, self._claim(job)), found)]
            if not self.floors.take(self._reclaimed(job, found, [], met)):
                return False
        self._started(job, found)
        self.ledger.start(job, found)
        return True

    def _started(self, job: RoundJob, spread: Spread) -> None:
        """Remember who starts where."""
        for n, _ in spread:
            self._takers_on.setdefault(n, []).append(job)

    def takers_on(self, n: int) -> Sequence[RoundJob]:
        """Return who starts on a node."""
        return self._takers_on.get(n, ())

    def _reclaimed(
        self, job: RoundJob, spread: Spread, chosen: Sequence[RoundJob], met: Sequence[RoundJob]
    ) -> list[RoundJob]:
        """Return the stopped jobs that count as taken by another team once the job starts and the chosen stop."""
        found = [] if exempt(job) else [victim for victim in (*chosen, *met) if victim.team != job.team]
        for victim in chosen:
            takers = {taker.index: taker for n, _ in victim.spread_now for taker in self._takers_on.get(n, ())}
            for taker in takers.values():
                if taker.team != victim.team and not exempt(taker) and self.kind_now(taker).rights[victim.index]:
                    found.append(victim)
                    break
        return found

    def kind_now(self, taker: RoundJob) -> Kind:
        """Return the rights of a job that has started."""
        known = self.supply.kind_of.get(taker.index)
        return known or self.supply.kind(taker, claim_of(self.problem, taker, taker.minimum, self.ledger.claim))

    def _start_by_moves(self, job: RoundJob) -> bool:
        """Start a job that insists on a domain where those who may be moved go on elsewhere; return whether it does."""
        claim = self._claim(job)
        wish = ("moves", self._shape(job), job.team, job.minimum, job.starved, claim)
        if self._weighted or wish in self._hopeless or self._blocked_anyway(job):
            return False
        movable = self.supply.victims.move_rights(job, claim)
        placed_anew = [j for j in self.ledger.changed if j < self.problem.first_queued]
        movable[[*placed_anew, *self.ledger.stopped]] = False
        cleared = clear(self.supply, job, movable)
        if cleared is None:
            self._hopeless.add(wish)
            return False
        gpu_type = gpu_type_of(self.problem, cleared.spread)
        if self.ledger.blocked_by(job, job.minimum, gpu_type) is not None:
            return False
        if not self.ledger.keeps_claims(job, job.minimum, gpu_type):
            return False
        book(self.ledger, job, cleared)
        self._lean_on_moves(job, claim, [self.problem.jobs[j] for j in cleared.moves])
        self.moved |= cleared.moves.keys()
        self.supply.pin(cleared.moves)
        self._started(job, cleared.spread)
        return True

    def _start_over_victims(self, job: RoundJob) -> None:
        """Start the job in what stopped jobs leave over, else stop those least missed, if that is worth it."""
        if self._attempts >= self.params.attempts or self._blocked_anyway(job):
            return
        claim = self._claim(job)
        kind = self.supply.kind(job, claim)
        shape = self._shape(job)
        wish = (shape, id(kind))
        if (wish, job.minimum, job.line_team) in self._hopeless or not len(kind.among):
            return
        self._attempts += 1
        if self._start_over_leftovers(job, claim, kind):
            return
        within = None if exempt(job) else self.floors.within()
        live = self.supply.live(job, kind, within, None if self._weighted else self._gain_row(job))
        # Mostly nobody may be stopped who would be missed less: then no room has to be looked for.
        for stopped, spread in ways(self.supply, job, self.supply.room(job, kind), live) if len(live) else ():
            if self._swap(job, claim, kind, spread, [self.problem.jobs[j] for j in stopped]):
                return
        self._hopeless.add((wish, job.minimum, job.line_team))

    def _start_over_leftovers(self, job: RoundJob, claim: Claim, kind: Kind) -> bool:
        """Start the job in what is free and what stopped jobs leave over for it, if it fits there."""
        if not self.params.leftovers or not self.supply.leaves(kind):
            return False
        room = self.supply.room(job, kind)
        spread = pack(self.problem, job, room.gpus, room.cpus_u, room.memory_u, job.minimum)
        return spread is not None and self._swap(job, claim, kind, spread, [])

    def _swap(self, job: RoundJob, claim: Claim, kind: Kind, spread: Spread, chosen: list[RoundJob]) -> bool:
        """Book the start and the stops if rules and worth allow them."""
        gpu_type = gpu_type_of(self.problem, spread)
        if not self._allowed(job, gpu_type, chosen) or not self._worth_it(job, spread, chosen):
            return False
        return self.book(job, claim, kind, spread, chosen)

    def book(self, job: RoundJob, claim: Claim, kind: Kind, spread: Spread, chosen: list[RoundJob]) -> bool:
        """Book a start over stopped jobs and those chosen to stop; False, with nothing booked, if a floor breaks."""
        met = [self.problem.jobs[j] for j in self.supply.met(kind, spread)]
        if not self.floors.take(self._reclaimed(job, spread, chosen, met)):
            return False
        self._stopped_gpus += sum(victim.size_now for victim in chosen)
        from_free = self.supply.serve(job, kind, spread, [victim.index for victim in chosen])
        self._started(job, spread)
        self.ledger.start_over(job, spread, chosen, from_free)
        self._lean_on(job, claim, [*chosen, *met])
        return True

    def unbook(self, job: RoundJob) -> None:
        """Take a start back that was booked."""
        spread = self.ledger.changed[job.index]
        for n, _ in spread:
            self._takers_on[n].remove(job)
        self.ledger.unstart(job, self.supply.undraw(job.index, spread))

    def _shape(self, job: RoundJob) -> tuple[object, ...]:
        """Return what but its size decides where the job fits: where a smaller one alike does not, it cannot."""
        side = (job.cpus_per_gpu_u, job.memory_per_gpu_u)
        holds = tuple(hold.name for hold in self.ledger.holds_on(job)) if self.problem.holds else ()
        return (job.cut, job.unit, id(job.nodes), job.type_speed, job.required, job.slices, *side, holds)

    def _blocked_anyway(self, job: RoundJob) -> bool:
        """Return whether a limit keeps the job from starting on any type."""
        return all(
            self.ledger.blocked_by(job, job.minimum, gpu_type) is not None
            for gpu_type, speed in enumerate(job.type_speed)
            if speed > 0
        )

    def _claim(self, job: RoundJob) -> Claim:
        """Return the job's claim if it started now at its minimum."""
        gpu_type = next((y for y, speed in enumerate(job.type_speed) if speed > 0), 0)
        side = (job.cpus_per_gpu_u, job.memory_per_gpu_u)
        key = (job.claim_team, job.priority, job.minimum, gpu_type, *side)
        version, known = self._claims.get(key, (-1, NOTHING))
        now = self.ledger.claim_version[job.claim_team]
        if version == now:
            return known
        use = self.ledger.claim
        use.book(job.claim_team, job, job.minimum, gpu_type)
        claim = claim_of(self.problem, job, job.minimum, use)
        use.book(job.claim_team, job, job.minimum, gpu_type, -1)
        self._claims[key] = (now, claim)
        return claim

    def _lean_on(self, job: RoundJob, claim: Claim, chosen: Sequence[RoundJob]) -> None:
        """Remember the claims that the job's rights rest on: later starts must not take it out of its line."""
        others = [victim for victim in chosen if victim.team != job.team]
        if not others or exempt(job):
            return
        takeable = self.problem.takeable
        by_quota = [victim for victim in others if not takeable[victim.index].above_entitlement[0]]
        if by_quota or not claim.inside_entitlement:
            self.ledger.lean_on(job.claim_team, job.priority, by_quota=True)
        if len(by_quota) < len(others) and claim.inside_entitlement:
            self.ledger.lean_on(job.claim_team, job.priority, by_quota=False)

    def _lean_on_moves(self, job: RoundJob, claim: Claim, moved: Sequence[RoundJob]) -> None:
        """Remember the claim on which it rests that some of those who are moved make way."""
        takeable = self.problem.takeable
        if any(takeable[each.index].inside_quota and each.team != job.team for each in moved):
            self.ledger.lean_on(job.claim_team, job.priority, by_quota=not claim.inside_entitlement)

    def _allowed(self, job: RoundJob, gpu_type: int, chosen: Sequence[RoundJob]) -> bool:
        """Return whether limits, claims, the cluster's stop limit and the payment rule allow the swap."""
        problem = self.problem
        stopped = sum(victim.size_now for victim in chosen)
        if self._stopped_gpus + stopped > problem.max_stopped_gpus:
            return False
        if self.ledger.blocked_by(job, job.minimum, gpu_type) is not None:
            return False
        if not self.ledger.keeps_claims(job, job.minimum, gpu_type):
            return False
        return job.pays_gpu_s >= UNLIMITED or sum(victim.costs.stop for victim in chosen) <= job.pays_gpu_s

    def _gain_row(self, job: RoundJob) -> int:
        """Return the first rank that the job's start would add to."""
        gpu_type = next((y for y, speed in enumerate(job.type_speed) if speed > 0), 0)
        key = (job.line_team, job.priority, gpu_type, job.minimum)
        version, row = self._gains.get(key, (-1, 0))
        now = self.ledger.version[job.line_team]
        if version != now:
            change = self.ledger.rows_if(job, job.minimum, gpu_type, [])
            row = next((row for row, more in enumerate(change) if more), 0)
            self._gains[key] = (now, row)
        return row

    def _worth_it(self, job: RoundJob, spread: Spread, chosen: Sequence[RoundJob]) -> bool:
        """Return whether the plan with this start is better than without it."""
        if not self._weighted and not chosen:
            return True
        gpu_type = gpu_type_of(self.problem, spread)
        change = self.ledger.rows_if(job, size_of(spread), gpu_type, chosen)
        if self._weighted:
            weights: list[int] = self.problem.row_weight_milli.tolist()
            gain = sum(c * w for c, w in zip(change, weights, strict=True)) + job.aging_milli * job.minimum
            cost = sum(victim.costs.stop for victim in chosen)
            speed = job.type_speed[gpu_type] * min(job.span_speed)
            loss = size_of(spread) * self.problem.horizon_s * (1.0 - speed)
            return gain * self.problem.horizon_s > 1000 * (cost + loss)
        return next((more for more in change if more), 0) > 0

    def run_on(self, only: Set[int] | None = None) -> bool:
        """Let stopped jobs (`only` these) run on whose GPUs nobody needs after all, those missed most first.

        Returns whether any does.
        """
        if not (self.ledger.stopped if only is None else only):
            return False
        found = False
        held = {n for hold in self.problem.holds for n in hold.gpus} if self.problem.holds else set()
        ledger, price = self.ledger, self.supply.price
        for j in sorted(ledger.stopped if only is None else only, key=lambda each: (-int(price[each]), each)):
            victim = self.problem.jobs[j]
            gpu_type = gpu_type_of(self.problem, victim.spread_now)
            if any(n in held for n, _ in victim.spread_now) or self.problem.domain_holds:
                continue
            if any(
                count * victim.cpus_per_gpu_u > ledger.cpus_u[n] or count * victim.memory_per_gpu_u > ledger.memory_u[n]
                for n, count in victim.spread_now
            ):
                continue
            if ledger.blocked_by(victim, victim.size_now, gpu_type) is not None:
                continue
            if not ledger.keeps_claims(victim, victim.size_now, gpu_type):
                continue
            from_free = self.supply.give_back(victim)
            if from_free is not None:
                ledger.run_on(victim, from_free)
                self.floors.give_back(victim)
                found = True
        return found
