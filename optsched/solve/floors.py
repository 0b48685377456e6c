"""What other teams may still take from each team (rule 14), kept along a greedy pass."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from optsched.rounds.check import amount_of
from optsched.rounds.line import use_now
from optsched.rounds.problem import Flags, Ints, Problem, RoundJob, Spread
from optsched.rounds.score import size_of


class Floors:
    """Counts, by team and resource that its quota names, what other teams took from stopped jobs."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._reclaimed: set[int] = set()
        self._lost: dict[int, list[int]] = {}
        self._slack: dict[int, list[int]] = {}
        self._ran = use_now(problem.occupancy)
        self._size, self._team = problem.occupancy.size.copy(), problem.occupancy.team
        self._type = problem.occupancy.gpu_type
        self._given: dict[int, Spread] = {}
        self.taken = np.zeros(len(self._size), dtype=bool)
        self._gpus = self._gpu_slack()
        self._within: Flags | None = None

    def _gpu_slack(self) -> Ints:
        """Return the GPUs of each type that others may take from each team now, (T, Y)."""
        lines, ran = self.problem.lines, self._ran.gpus.sum(axis=1)
        total = ran.sum(axis=1)
        by_type = ran - np.minimum(lines.quota_by_type, ran)
        any_type = total - np.minimum(lines.quota_any, total)
        found: Ints = np.where(lines.typed[:, None], by_type, any_type[:, None])
        return found

    def shrink(self, victim: RoundJob, given: Spread) -> None:
        """Note that a job gives up only this, not all that it has."""
        self._given[victim.index] = given
        self._size[victim.index] = size_of(given)
        self._within = None

    def within(self) -> Flags:
        """Return the running jobs whose GPUs another team may take without breaking a floor, (F,)."""
        if self._within is None:
            self._within = self.taken | (self._size <= self._gpus[self._team, self._type])
        return self._within

    def _count(self, victim: RoundJob, sign: int) -> None:
        self._within = None
        team, gpu_type = victim.claim_team, int(self._type[victim.index])
        where = (team, gpu_type) if self.problem.lines.typed[team] else (team, slice(None))
        self._gpus[where] -= sign * int(self._size[victim.index])
        self.taken[victim.index] = sign > 0

    def take(self, victims: Iterable[RoundJob]) -> bool:
        """Book that other teams take from these jobs, each once; False, and nothing booked, if a floor would break."""
        fresh = {victim.index: victim for victim in victims if victim.index not in self._reclaimed}
        lost = dict[int, list[int]]()
        for victim in fresh.values():
            team = victim.claim_team
            amounts = self._amounts(victim)
            before = lost.get(team) or self._lost.get(team, [0] * len(amounts))
            lost[team] = [old + new for old, new in zip(before, amounts, strict=True)]
        for team, amounts in lost.items():
            if any(amount > slack for amount, slack in zip(amounts, self._slack_of(team), strict=True)):
                return False
        self._lost.update(lost)
        self._reclaimed.update(fresh)
        for victim in fresh.values():
            self._count(victim, 1)
        return True

    def give_back(self, victim: RoundJob) -> None:
        """Book that a job runs on after all."""
        if victim.index in self._reclaimed:
            self._reclaimed.remove(victim.index)
            self._count(victim, -1)
            before = self._lost[victim.claim_team]
            self._lost[victim.claim_team] = [old - new for old, new in zip(before, self._amounts(victim), strict=True)]

    def _amounts(self, victim: RoundJob) -> list[int]:
        """Return what the job gives up of each resource that its team's quota names."""
        items = self.problem.lines.quota[victim.claim_team]
        given = self._given.get(victim.index, victim.spread_now)
        return [amount_of(self.problem, victim, given, item) for item in items]

    def _slack_of(self, team: int) -> list[int]:
        """Return what others may take from a team of each resource that its quota names."""
        found = self._slack.get(team)
        if found is None:
            found = self._slack[team] = []
            last = self._ran.gpus.shape[1] - 1
            for item in self.problem.lines.quota[team]:
                ran = self._ran.through(team, last, item)
                found.append(ran - min(item.amount, ran))
        return found
