"""A plan that breaks rules, mended: what breaks them is undone, as little and as unimportant as can be told quickly.

Every step undoes changes and makes none, and a plan without changes is valid. So however broken a plan was there is an
end, and what is left there breaks no rule. Who is undone starts not, stops not, moves not or keeps its size; where its
room has been given to others, these are undone in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from functools import cached_property

from optsched.rounds.assignment import Assignment, Change, flow_of
from optsched.rounds.check import (
    amount_of,
    below_floor,
    exceeded,
    forbidden,
    granted_used,
    held_after,
    held_used,
    overbooked,
    servable,
    shape_faults,
    stopped_gpus,
    unneeded,
    unpaid,
)
from optsched.rounds.line import fits_line
from optsched.rounds.problem import Problem, RoundJob
from optsched.rounds.rights import Claim, claim_key, exempt
from optsched.rounds.score import claims, gpu_type_of, served_by, size_of, use_after

Enough = Callable[[Set[int]], bool]
"""Whether it would do if these were undone."""

Place = tuple[int, int]
"""A place in a line: a team, and a key of its line."""


def mend(problem: Problem, plan: Assignment) -> Assignment:
    """Return what is left of a plan once all that breaks a rule is undone; all of it where it is valid."""
    changed, stopped = dict(plan.changed), set(plan.stopped)
    lines = _Broken(problem, plan).lines
    while True:
        plan = Assignment(dict(changed), frozenset(stopped))
        undone = _Broken(problem, plan).undone(lines)
        if not undone:
            return plan
        for j in undone:
            changed.pop(j, None)
            stopped.discard(j)


class _Broken:
    """What of one plan breaks rules, and what is best undone of it."""

    def __init__(self, problem: Problem, plan: Assignment) -> None:
        self.problem, self.plan = problem, plan
        self.flow = flow_of(problem, plan)

    @cached_property
    def served(self) -> Mapping[int, set[int]]:
        return served_by(self.problem, self.flow)

    @cached_property
    def takers_of(self) -> Mapping[int, set[int]]:
        """Who has a right over each giver where they meet."""
        found: dict[int, set[int]] = {}
        for taker, givers in self.served.items():
            for giver in givers:
                found.setdefault(giver, set()).add(taker)
        return found

    @cached_property
    def places(self) -> Mapping[int, Place]:
        """Where in a line each taker that meets a giver stands."""
        jobs, sizes = self.problem.jobs, self._size
        return {
            j: (jobs[j].claim_team, claim_key(self.problem, jobs[j], sizes(j))) for j, _ in self.flow.meetings
        }

    @cached_property
    def lines(self) -> Mapping[Place, Claim]:
        """Inside which lines the takers are."""
        known = claims(self.problem, self.flow)
        return {place: known[j] for j, place in self.places.items()}

    def undone(self, lines: Mapping[Place, Claim]) -> Set[int]:
        """Return whose change is to be undone for the first rule that is broken, nobody where none is.

        `lines` says inside which lines takers were before anything was undone.
        """
        rules: tuple[Callable[[], Set[int]], ...] = (
            self._misshapen,
            self._forbidden,
            self._overbooked,
            self._exceeded,
            self._holding,
            lambda: self._out_of_line(lines),
            self._without_right,
            self._unneeded,
            self._below_floor,
            self._unpaid,
        )
        return next((found for rule in rules if (found := rule())), frozenset())

    def _size(self, j: int) -> int:
        return size_of(self.plan.after(self.problem.jobs[j]))

    def _loss(self, j: int) -> tuple[int, ...]:
        """Return how much the change of a job would be missed: the better rank the more, then by its GPUs.

        Who moved is missed as those are who would have to leave its old room.
        """
        job = self.problem.jobs[j]
        if not job.running:
            return (-job.tier, -job.priority, job.minimum, -j)
        if self.flow.changes[j] is not Change.MOVE:
            return (-1 << 30, 0, 0, -j)
        takers = {taker for n, _ in job.spread_now for taker in self.flow.takes.get(n, ())}
        return max((self._loss(each) for each in takers if each >= self.problem.first_queued), default=(-1 << 29,))

    def _fewest(self, candidates: Iterable[int], enough: Enough) -> set[int]:
        """Return candidates that will do, the least missed; all where none are enough."""
        order = sorted(candidates, key=self._loss)
        chosen: list[int] = []
        for j in order:
            chosen.append(j)
            if enough(set(chosen)):
                break
        else:
            return set(order)
        for j in reversed(chosen[:-1]):
            fewer = [other for other in chosen if other != j]
            if enough(set(fewer)):
                chosen = fewer
        return set(chosen)

    def _misshapen(self) -> Set[int]:
        """Rules 1-6."""
        jobs, plan = self.problem.jobs, self.plan
        found = {j for j in plan.stopped if not jobs[j].running or j in plan.changed}
        for j, spread in plan.changed.items():
            if spread != jobs[j].spread_now and shape_faults(self.problem, jobs[j], spread):
                found.add(j)
        return found

    def _forbidden(self) -> Set[int]:
        """Rule 10."""
        found = {j for j, _ in forbidden(self.problem, self.flow)}
        excess = stopped_gpus(self.problem, self.flow) - self.problem.max_stopped_gpus
        if found or excess <= 0:
            return found
        jobs = self.problem.jobs
        return self._fewest(self.plan.stopped, lambda chosen: sum(jobs[j].size_now for j in chosen) >= excess)

    def _overbooked(self) -> Set[int]:
        """Rule 7."""
        found: set[int] = set()
        for n, _ in overbooked(self.problem, self.flow):
            takes, gives = self.flow.takes[n], self.flow.gives.get(n, {})
            if found.isdisjoint(takes):
                found |= self._fewest(takes, lambda chosen, takes=takes, gives=gives, n=n: self._fits(n, takes, gives, chosen))
        return found

    def _fits(self, n: int, takes: Mapping[int, int], gives: Mapping[int, int], without: Set[int]) -> bool:
        """Return whether a node has room for its takers without some of them."""
        nodes, jobs = self.problem.nodes, self.problem.jobs
        room = [int(nodes.free[n]), int(nodes.cpus_free_u[n]), int(nodes.memory_free_u[n])]
        gained = [0, 0, 0]
        for sign, side in ((1, takes), (-1, gives)):
            for j, count in side.items():
                if j not in without:
                    for at, each in enumerate((1, jobs[j].cpus_per_gpu_u, jobs[j].memory_per_gpu_u)):
                        gained[at] += sign * count * each
        return all(more <= max(0, left) for more, left in zip(gained, room, strict=True))

    def _exceeded(self) -> Set[int]:
        """Rules 8 and 9."""
        problem, found = self.problem, set[int]()
        for index in exceeded(problem, self.flow):
            ceiling = problem.ceilings[index]
            under = [j for j in self.flow.changes if index in problem.ceilings_of[j]]
            held, _ = held_after(problem, self.flow, ceiling, under)
            excess = held - ceiling.item.amount
            more = {
                j: amount_of(problem, job, self.plan.after(job), ceiling.item)
                - amount_of(problem, job, job.spread_now, ceiling.item)
                for j in under
                if self._size(j) > (job := problem.jobs[j]).size_now
            }
            if found.isdisjoint(more):
                found |= self._fewest(more, lambda chosen, more=more, excess=excess: sum(more[j] for j in chosen) >= excess)
        return found

    def _holding(self) -> Set[int]:
        """Rule 16."""
        found: set[int] = set()
        for n, _, binds in held_used(self.problem, self.flow):
            bound = self.flow.takes[n].keys() & binds
            if found.isdisjoint(bound):
                found.add(min(bound, key=self._loss))
        for hold in granted_used(self.problem, self.flow):
            inside = set(hold.nodes)
            bound = {j for n in inside & self.flow.takes.keys() for j in self.flow.takes[n]} & hold.binds
            if found.isdisjoint(bound):
                found.add(min(bound, key=self._loss))
        return found

    @cached_property
    def _wronged(self) -> list[int]:
        """The nodes that break rule 11."""
        return [
            n for n, takes in self.flow.takes.items() if not servable(self.problem, self.flow, self.served, n, takes)
        ]

    @cached_property
    def _for_nothing(self) -> list[int]:
        """The givers that break rule 12."""
        return unneeded(self.problem, self.flow, self.served)

    def _out_of_line(self, lines: Mapping[Place, Claim]) -> Set[int]:
        """Return starts that keep others of their team from rights that they had before: of those the fewest."""
        jobs = self.problem.jobs
        near = set(self._wronged) | {n for j in self._for_nothing for n, _ in jobs[j].spread_now}
        lost = {
            place
            for j in {j for n in near for j in self.flow.takes.get(n, ())}
            if (place := self.places.get(j)) in lines and self.lines[place] != lines[place]
        }
        return set().union(*(self._inside_again(place, lines[place]) for place in sorted(lost)[:1]))

    def _inside_again(self, place: Place, claim: Claim) -> set[int]:
        """Return starts without which a team is inside the lines of a claim again, up to a key."""
        problem, (team, key) = self.problem, place
        use = use_after(problem, self.plan, by_line=False)
        lines = [problem.lines.quota[team]] * claim.inside_quota
        lines += [problem.lines.entitlement[team]] * claim.inside_entitlement

        def enough(chosen: Set[int]) -> bool:
            gone = [(problem.jobs[j], self._size(j), gpu_type_of(problem, self.plan.changed[j])) for j in chosen]
            for job, size, y in gone:
                use.book(team, job, size, y, -1)
            fits = all(fits_line(use, team, key, line) for line in lines)
            for job, size, y in gone:
                use.book(team, job, size, y)
            return fits

        starts = [
            j
            for j, change in self.flow.changes.items()
            if change is Change.START and problem.jobs[j].claim_team == team and problem.jobs[j].priority <= key
        ]
        return self._fewest(starts, enough)

    def _without_right(self) -> Set[int]:
        """Rule 11."""
        found: set[int] = set()
        for n in self._wronged:
            takes = self.flow.takes[n]

            def enough(chosen: Set[int], n: int = n, takes: Mapping[int, int] = takes) -> bool:
                left = {j: count for j, count in takes.items() if j not in chosen}
                return servable(self.problem, self.flow, self.served, n, left)

            if found.isdisjoint(takes):
                found |= self._fewest(takes, enough)
        return found

    def _unneeded(self) -> Set[int]:
        """Rule 12."""
        return set(self._for_nothing)

    def _below_floor(self) -> Set[int]:
        """Rule 14."""
        problem = self.problem
        for team, item, excess, losers in below_floor(problem, self.flow, self.served):
            lost = {
                job.index: amount_of(problem, job, job.spread_now, item)
                - amount_of(problem, job, self.plan.after(job), item)
                for job in losers
            }
            rivals = {giver: {j for j in self.takers_of[giver] if self._is_rival(j, giver)} for giver in lost}

            def enough(chosen: Set[int], lost: Mapping[int, int] = lost, excess: int = excess) -> bool:
                return sum(amount for giver, amount in lost.items() if rivals[giver] <= chosen) >= excess

            return self._fewest(set().union(*rivals.values()), enough)
        return frozenset()

    def _is_rival(self, taker: int, giver: int) -> bool:
        """Return whether a taker counts as another team's against the floor of a giver's team."""
        job = self.problem.jobs[taker]
        return job.team != self.problem.jobs[giver].team and not exempt(job)

    def _unpaid(self) -> Set[int]:
        """Rule 15: of those who are not paid for the one whose takers are least missed."""
        stops = unpaid(self.problem, self.flow, self.served)
        if not stops:
            return stops
        jobs: Mapping[int, RoundJob] = {j: self.problem.jobs[j] for j in stops}

        def price(j: int) -> tuple[object, ...]:
            return max(self._loss(taker) for taker in self.takers_of[j]), -jobs[j].costs.stop, j

        return {min(stops, key=price)}
