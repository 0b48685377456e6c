"""What is wrong with a plan whose jobs have room and may do what they do: ceilings, holds, rights, floors, payment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from functools import cached_property

from optsched.rounds.assignment import Change, Flow
from optsched.rounds.check import (
    amount_of,
    below_floor,
    exceeded,
    granted_used,
    held_after,
    held_used,
    servable,
    unneeded,
    unpaid,
)
from optsched.rounds.line import fits_line
from optsched.rounds.problem import Problem
from optsched.rounds.rights import Claim, claim_key, exempt
from optsched.rounds.score import claims, gpu_type_of, served_by, size_of, use_after

Loss = Callable[[int], tuple[int, ...]]
"""How much what a job does would be missed."""

Enough = Callable[[Set[int]], bool]
"""Whether it would do to undo these."""

Place = tuple[int, int]
"""A place in a line: a team, and a key of its line."""


def fewest(candidates: Iterable[int], loss: Loss, enough: Enough) -> set[int]:
    """Return candidates that will do, the least missed; all of them where they are not enough."""
    order = sorted(candidates, key=loss)
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


class Wrongs:
    """What of one plan breaks a rule, and whose change is best undone for it."""

    def __init__(self, problem: Problem, flow: Flow, loss: Loss) -> None:
        self.problem, self.flow, self.loss = problem, flow, loss

    def undone(self, lines: Mapping[Place, Claim]) -> Set[int]:
        """Return whose change is to be undone for the first rule that is broken, nobody where none is.

        `lines` says inside which lines takers were before anything was undone.
        """
        rules: tuple[Callable[[], Set[int]], ...] = (
            self._exceeded,
            self._held,
            lambda: self._out_of_line(lines),
            lambda: self._without_right() | set(self._for_nothing),
            self._below_floor,
            self._unpaid,
        )
        return next((found for rule in rules if (found := rule())), frozenset())

    @cached_property
    def lines(self) -> dict[Place, Claim]:
        """Inside which lines those takers are that meet a giver."""
        known = claims(self.problem, self.flow)
        return {place: known[j] for j, place in self._places.items()}

    @cached_property
    def _places(self) -> dict[int, Place]:
        """Where in a line each taker stands that meets a giver."""
        jobs = self.problem.jobs
        takers = {taker for taker, _ in self.flow.meetings}
        return {j: (jobs[j].claim_team, claim_key(self.problem, jobs[j], self._size(j))) for j in takers}

    @cached_property
    def _served(self) -> Mapping[int, set[int]]:
        return served_by(self.problem, self.flow)

    @cached_property
    def _takers_of(self) -> Mapping[int, set[int]]:
        """Who has a right over each giver where they meet."""
        found: dict[int, set[int]] = {}
        for taker, givers in self._served.items():
            for giver in givers:
                found.setdefault(giver, set()).add(taker)
        return found

    @cached_property
    def _wronged(self) -> list[int]:
        """The nodes that break rule 11."""
        return [n for n, takes in self.flow.takes.items() if not self._servable(n, takes)]

    @cached_property
    def _for_nothing(self) -> list[int]:
        """The givers that break rule 12."""
        return unneeded(self.problem, self.flow, self._served)

    def _size(self, j: int) -> int:
        return size_of(self.flow.assignment.after(self.problem.jobs[j]))

    def _servable(self, n: int, takes: Mapping[int, int]) -> bool:
        return servable(self.problem, self.flow, self._served, n, takes)

    def _exceeded(self) -> Set[int]:
        """Rules 8 and 9."""
        problem, plan = self.problem, self.flow.assignment
        for index in exceeded(problem, self.flow):
            ceiling = problem.ceilings[index]
            under = [problem.jobs[j] for j in self.flow.changes if index in problem.ceilings_of[j]]
            held, _ = held_after(problem, self.flow, ceiling, [job.index for job in under])
            excess = held - ceiling.item.amount
            more = {
                job.index: amount_of(problem, job, plan.after(job), ceiling.item)
                - amount_of(problem, job, job.spread_now, ceiling.item)
                for job in under
                if self._size(job.index) > job.size_now
            }

            def enough(chosen: Set[int], more: Mapping[int, int] = more, excess: int = excess) -> bool:
                return sum(more[j] for j in chosen) >= excess

            return fewest(more, self.loss, enough)
        return frozenset()

    def _held(self) -> Set[int]:
        """Rule 16."""
        takes = self.flow.takes
        for n, _, binds in held_used(self.problem, self.flow):
            return {min(takes[n].keys() & binds, key=self.loss)}
        for hold in granted_used(self.problem, self.flow):
            inside = {j for n in set(hold.nodes) & takes.keys() for j in takes[n]}
            return {min(inside & hold.binds, key=self.loss)}
        return frozenset()

    def _out_of_line(self, lines: Mapping[Place, Claim]) -> Set[int]:
        """Return starts that keep others of their team from rights that they had before: of those the fewest."""
        near = set(self._wronged) | {n for j in self._for_nothing for n, _ in self.problem.jobs[j].spread_now}
        takers = {j for n in near for j in self.flow.takes.get(n, ())}
        places = {self._places[j] for j in takers & self._places.keys()} & lines.keys()
        lost = {place for place in places if self.lines[place] != lines[place]}
        return self._inside_again(min(lost), lines[min(lost)]) if lost else frozenset()

    def _inside_again(self, place: Place, claim: Claim) -> Set[int]:
        """Return starts without which a team is inside the lines of a claim again, up to a key."""
        problem, (team, key) = self.problem, place
        plan, use = self.flow.assignment, use_after(problem, self.flow.assignment, by_line=False)
        lines = [problem.lines.quota[team]] * claim.inside_quota
        lines += [problem.lines.entitlement[team]] * claim.inside_entitlement

        def enough(chosen: Set[int]) -> bool:
            gone = [(problem.jobs[j], self._size(j), gpu_type_of(problem, plan.changed[j])) for j in chosen]
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
        return fewest(starts, self.loss, enough)

    def _without_right(self) -> set[int]:
        """Rule 11."""
        found: set[int] = set()
        for n in self._wronged:
            takes = self.flow.takes[n]

            def enough(chosen: Set[int], n: int = n, takes: Mapping[int, int] = takes) -> bool:
                return self._servable(n, {j: count for j, count in takes.items() if j not in chosen})

            if found.isdisjoint(takes):
                found |= fewest(takes, self.loss, enough)
        return found

    def _below_floor(self) -> Set[int]:
        """Rule 14."""
        problem, plan = self.problem, self.flow.assignment
        for _, item, excess, losers in below_floor(problem, self.flow, self._served):
            lost = {
                job.index: amount_of(problem, job, job.spread_now, item)
                - amount_of(problem, job, plan.after(job), item)
                for job in losers
            }
            rivals = {giver: {j for j in self._takers_of[giver] if self._is_rival(j, giver)} for giver in lost}

            def enough(
                chosen: Set[int],
                lost: Mapping[int, int] = lost,
                rivals: Mapping[int, set[int]] = rivals,
                excess: int = excess,
            ) -> bool:
                return sum(amount for giver, amount in lost.items() if rivals[giver] <= chosen) >= excess

            return fewest(set().union(*rivals.values()), self.loss, enough)
        return frozenset()

    def _is_rival(self, taker: int, giver: int) -> bool:
        """Return whether a taker counts against the floor of a giver's team."""
        job = self.problem.jobs[taker]
        return job.team != self.problem.jobs[giver].team and not exempt(job)

    def _unpaid(self) -> Set[int]:
        """Rule 15: of the stops that nobody pays for the one whose takers are least missed."""
        stops = unpaid(self.problem, self.flow, self._served)

        def price(j: int) -> tuple[object, ...]:
            return max(self.loss(taker) for taker in self._takers_of[j]), -self.problem.jobs[j].costs.stop, j

        return {min(stops, key=price)} if stops else frozenset()
