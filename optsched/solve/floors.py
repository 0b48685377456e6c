"""What other teams may still take from each team (rule 14), kept along a greedy pass."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from optsched.rounds.check import amount_of
from optsched.rounds.problem import Flags, Ints, Problem, RoundJob, Spread
from optsched.rounds.score import gpu_type_of, size_of


class Floors:
    """Counts, by team and resource that its quota names, what other teams took from stopped jobs."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._reclaimed: set[int] = set()
        self._lost: dict[int, list[int]] = {}
        self._slack: dict[int, list[int]] = {}
        self._members: dict[int, list[RoundJob]] = {}
        for job in problem.running:
            self._members.setdefault(job.claim_team, []).append(job)
        running = problem.running
        self._size = np.array([job.size_now for job in running], dtype=np.int64)
        self._team = np.array([job.claim_team for job in running], dtype=np.int64)
        self._type = np.array([gpu_type_of(problem, job.spread_now) for job in running], dtype=np.int64)
        self._given: dict[int, Spread] = {}
        self.taken = np.zeros(len(running), dtype=bool)
        self._gpus = self._gpu_slack()

    def _gpu_slack(self) -> Ints:
        """Return the GPUs of each type that others may take from each team now, (T, Y)."""
        lines, shape = self.problem.lines, (len(self.problem.team_names), len(self.problem.gpu_types))
        ran: Ints = np.zeros(shape, dtype=np.int64)
        np.add.at(ran, (self._team, self._type), self._size)
        total = ran.sum(axis=1)
        by_type = ran - np.minimum(lines.quota_by_type, ran)
        any_type = total - np.minimum(lines.quota_any, total)
        found: Ints = np.where(lines.typed[:, None], by_type, any_type[:, None])
        return found

    def shrink(self, victim: RoundJob, given: Spread) -> None:
        """Note that a job gives up only this, not all that it has."""
        self._given[victim.index] = given
        self._size[victim.index] = size_of(given)

    def within(self) -> Flags:
        """Return the running jobs whose GPUs another team may take without breaking a floor, (F,)."""
        found: Flags = self.taken | (self._size <= self._gpus[self._team, self._type])
        return found

    def _count(self, victim: RoundJob, sign: int) -> None:
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
            for item in self.problem.lines.quota[team]:
                ran = sum(amount_of(self.problem, job, job.spread_now, item) for job in self._members.get(team, ()))
                found.append(ran - min(item.amount, ran))
        return found
