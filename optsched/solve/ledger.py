"""The running account of a plan in the making: what is free, what teams use, what ceilings still allow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from optsched.rounds.check import amount_of
from optsched.rounds.line import TIERS, Use, fits_line, rows_by_team, rows_of_one, use_of
from optsched.rounds.problem import Hold, Ints, Item, Problem, RoundJob, Spread, What
from optsched.rounds.score import gpu_type_of, size_of


class Ledger:
    """Books starts, stops and growth; `gpus`, `cpus_u`, `memory_u` are what is free per node, (N,).

    What stopped jobs leave over is not free for others in this round: only takers with a right over them may have it.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.gpus = problem.nodes.free.copy()
        self.cpus_u = problem.nodes.cpus_free_u.copy()
        self.memory_u = problem.nodes.memory_free_u.copy()
        self.changed: dict[int, Spread] = {}
        self.stopped: set[int] = set()
        running = [(job, gpu_type_of(problem, job.spread_now)) for job in problem.running if job.size_now]
        shape = (len(problem.team_names), len(problem.priorities), len(problem.gpu_types))
        self.line = use_of(shape, [(job.line_team, job, job.size_now, y) for job, y in running])
        # What runs is ranked in the line of the team on whose quota it stands; only queued jobs can be lifted above it.
        self.claim = Use(self.line.gpus.copy(), self.line.cpus.copy(), self.line.memory.copy())
        self._rows: dict[int, list[int]] = {}
        self.version = [0] * shape[0]
        self.claims: dict[tuple[int, int, tuple[Item, ...]], None] = {}
        self.held = [
            sum(amount_of(problem, problem.jobs[j], problem.jobs[j].spread_now, c.item) for j in c.jobs)
            for c in problem.ceilings
        ]
        self._ceilings_of: dict[int, list[int]] = defaultdict(list)
        for index, ceiling in enumerate(problem.ceilings):
            for j in ceiling.jobs:
                self._ceilings_of[j].append(index)
        self.granted = [self._granted(index) for index in range(len(problem.domain_holds))]

    def _granted(self, index: int) -> int:
        """Return how many GPUs a grant still keeps from others."""
        hold = self.problem.domain_holds[index]
        inside = set(hold.nodes)
        used = sum(count for j in hold.grantees for n, count in self.problem.jobs[j].spread_now if n in inside)
        return max(0, hold.gpus - used)

    def holds_on(self, job: RoundJob) -> list[Hold]:
        """Return the holds that bind the job now."""
        return [
            hold
            for hold in self.problem.holds
            if job.index in hold.binds and (hold.unless is None or hold.unless not in self.changed)
        ]

    def free_for(self, job: RoundJob) -> Ints:
        """Return the GPUs per node that are free for this job, holds and grants taken off, shape (N,)."""
        gpus = self.gpus
        holds = self.holds_on(job)
        if holds:
            gpus = gpus.copy()
            for hold in holds:
                for n, count in hold.gpus.items():
                    gpus[n] = max(0, gpus[n] - count)
        for index, grant in enumerate(self.problem.domain_holds):
            if job.index in grant.binds and self.granted[index] > 0:
                inside = np.array(grant.nodes, dtype=np.int64)
                spare = int(gpus[inside].sum()) - self.granted[index]
                if spare < job.maximum:
                    gpus = gpus.copy()
                    gpus[inside] = 0 if spare < job.minimum else np.minimum(gpus[inside], spare)
        return gpus

    def blocked_by(self, job: RoundJob, more: int, gpu_type: int) -> int | None:
        """Return the index of a ceiling that `more` GPUs of the job would exceed, None where none would be."""
        for index in self._ceilings_of.get(job.index, ()):
            item = self.problem.ceilings[index].item
            if item.what is What.GPUS:
                gain = more if item.gpu_type in (None, gpu_type) else 0
            else:
                gain = more * (job.cpus_per_gpu_u if item.what is What.CPUS else job.memory_per_gpu_u)
            if self.held[index] + gain > item.amount:
                return index
        return None

    def keeps_claims(self, job: RoundJob, more: int, gpu_type: int) -> bool:
        """Return whether `more` GPUs of a job leave everybody inside the line on which a right already used rests."""
        leaning = [(key, line) for team, key, line in self.claims if team == job.claim_team and key >= job.priority]
        if not leaning:
            return True
        priorities = len(self.problem.priorities)
        size = 0 if job.index in self.stopped else size_of(self.changed.get(job.index, job.spread_now))
        _add(self.claim, job.claim_team, job, size + more, gpu_type, 1, priorities)
        _add(self.claim, job.claim_team, job, size, gpu_type, -1, priorities)
        kept = all(fits_line(self.claim, job.claim_team, key, line) for key, line in leaning)
        _add(self.claim, job.claim_team, job, size + more, gpu_type, -1, priorities)
        _add(self.claim, job.claim_team, job, size, gpu_type, 1, priorities)
        return kept

    def leave(self, job: RoundJob) -> None:
        """Book that a running job is gone and what it held is free for anybody: the settled outcome."""
        self.stopped.add(job.index)
        for n, count in job.spread_now:
            self.gpus[n] += count
            self.cpus_u[n] += count * job.cpus_per_gpu_u
            self.memory_u[n] += count * job.memory_per_gpu_u
        self._count(job, job.spread_now, ())

    def start(self, job: RoundJob, spread: Spread) -> None:
        """Book a start, or another placement of what the job has."""
        before = dict(self.changed.get(job.index, job.spread_now))
        then = dict(spread)
        for n in before.keys() | then.keys():
            gain = then.get(n, 0) - before.get(n, 0)
            self.gpus[n] -= gain
            self.cpus_u[n] -= gain * job.cpus_per_gpu_u
            self.memory_u[n] -= gain * job.memory_per_gpu_u
        self.changed[job.index] = spread
        self._count(job, tuple(sorted(before.items())), spread)

    def stop(self, victims: Sequence[RoundJob]) -> None:
        """Book that jobs stop; their GPUs are for those with a right over them."""
        for victim in victims:
            self.stopped.add(victim.index)
            self._count(victim, victim.spread_now, ())
            for n, count in victim.spread_now:
                self.cpus_u[n] += count * victim.cpus_per_gpu_u
                self.memory_u[n] += count * victim.memory_per_gpu_u

    def shrink(self, job: RoundJob, kept: Spread) -> None:
        """Book that a running job keeps only `kept`; what it gives up is for those with a right over it."""
        left = dict(kept)
        for n, count in job.spread_now:
            given = count - left.get(n, 0)
            self.cpus_u[n] += given * job.cpus_per_gpu_u
            self.memory_u[n] += given * job.memory_per_gpu_u
        self.changed[job.index] = kept
        self._count(job, job.spread_now, kept)

    def unshrink(self, job: RoundJob) -> bool:
        """Let a job keep what it has after all, if the CPUs and memory of what it gave up are still there."""
        kept = self.changed[job.index]
        left = dict(kept)
        given = {n: count - left.get(n, 0) for n, count in job.spread_now}
        for n, count in given.items():
            if count * job.cpus_per_gpu_u > self.cpus_u[n] or count * job.memory_per_gpu_u > self.memory_u[n]:
                return False
        for n, count in given.items():
            self.cpus_u[n] -= count * job.cpus_per_gpu_u
            self.memory_u[n] -= count * job.memory_per_gpu_u
        del self.changed[job.index]
        self._count(job, kept, job.spread_now)
        return True

    def start_over(
        self, job: RoundJob, spread: Spread, victims: Sequence[RoundJob], from_free: Mapping[int, int]
    ) -> None:
        """Book a start in place of victims; `from_free`: the GPUs by node that it takes of what anybody may have."""
        self.stop(victims)
        for n, count in from_free.items():
            self.gpus[n] -= count
        for n, count in spread:
            self.cpus_u[n] -= count * job.cpus_per_gpu_u
            self.memory_u[n] -= count * job.memory_per_gpu_u
        self.changed[job.index] = spread
        self._count(job, (), spread)

    def unstart(self, job: RoundJob, free: Mapping[int, int]) -> None:
        """Take a start back; `free`: the GPUs by node that it had of what anybody may have."""
        spread = self.changed.pop(job.index)
        for n, count in free.items():
            self.gpus[n] += count
        for n, count in spread:
            self.cpus_u[n] += count * job.cpus_per_gpu_u
            self.memory_u[n] += count * job.memory_per_gpu_u
        self._count(job, spread, ())

    def run_on(self, victim: RoundJob, from_free: Mapping[int, int]) -> None:
        """Take a stop back; `from_free` are the GPUs by node that its takers now take of what is free for anybody."""
        self.stopped.remove(victim.index)
        for n, count in from_free.items():
            self.gpus[n] -= count
        for n, count in victim.spread_now:
            self.cpus_u[n] -= count * victim.cpus_per_gpu_u
            self.memory_u[n] -= count * victim.memory_per_gpu_u
        self._count(victim, (), victim.spread_now)

    def _count(self, job: RoundJob, before: Spread, after: Spread) -> None:
        gpu_type = gpu_type_of(self.problem, after or before)
        for team, use in ((job.line_team, self.line), (job.claim_team, self.claim)):
            for spread, sign in ((before, -1), (after, 1)):
                _add(use, team, job, size_of(spread), gpu_type, sign, len(self.problem.priorities))
        self._rows.pop(job.line_team, None)
        self.version[job.line_team] += 1
        for index in self._ceilings_of.get(job.index, ()):
            item = self.problem.ceilings[index].item
            self.held[index] += amount_of(self.problem, job, after, item) - amount_of(self.problem, job, before, item)
        for index, hold in enumerate(self.problem.domain_holds):
            if job.index in hold.grantees:
                inside = set(hold.nodes)
                gain = sum(c for n, c in after if n in inside) - sum(c for n, c in before if n in inside)
                self.granted[index] = max(0, self.granted[index] - gain)

    def rows(self) -> Ints:
        """Return the GPUs of every rank by team as the plan stands, shape (T, 8P)."""
        teams = np.arange(len(self.problem.team_names))
        return rows_by_team(self.problem.lines, self.line.gpus, teams, self.problem.deadline_team)

    def rows_if(self, starts: RoundJob, size: int, gpu_type: int, victims: Sequence[RoundJob]) -> Ints:
        """Return the change of every rank's GPUs, shape (8P,), if a job starts and others stop."""
        held: dict[int, Ints] = {}
        priorities = len(self.problem.priorities)
        movers = [(victim, victim.size_now, -1) for victim in victims]
        for job, count, sign in [(starts, size, 1), *movers]:
            kind = gpu_type if sign > 0 else gpu_type_of(self.problem, job.spread_now)
            team = job.line_team
            if team not in held:
                held[team] = self.line.gpus[team].copy()
            minimum = min(count, job.minimum)
            held[team][job.priority, kind] += sign * minimum
            held[team][priorities + job.priority, kind] += sign * (count - minimum)
        lines, deadline = self.problem.lines, self.problem.deadline_team
        change: Ints = np.zeros(2 * TIERS * priorities, dtype=np.int64)
        for team, gpus in held.items():
            then = rows_of_one(lines, gpus, team, deadline)
            change += np.subtract(then, self._rows_now(team))
        return change

    def _rows_now(self, team: int) -> list[int]:
        """Return the GPUs of every rank of a team as the plan stands, 8P of them."""
        found = self._rows.get(team)
        if found is None:
            found = rows_of_one(self.problem.lines, self.line.gpus[team], team, self.problem.deadline_team)
            self._rows[team] = found
        return found


def _add(use: Use, team: int, job: RoundJob, size: int, gpu_type: int, sign: int, priorities: int) -> None:
    minimum = min(size, job.minimum)
    for key, part in ((job.priority, minimum), (priorities + job.priority, size - minimum)):
        if part:
            use.gpus[team, key, gpu_type] += sign * part
            use.cpus[team, key] += sign * part * job.cpus_per_gpu_u
            use.memory[team, key] += sign * part * job.memory_per_gpu_u
