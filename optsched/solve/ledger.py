"""The running account of a plan in the making: what is free, what teams use, what ceilings still allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import add, sub

import numpy as np

from optsched.rounds.check import amount_of
from optsched.rounds.line import TIERS, Line, fits_line, line_of, rows_by_team, use_now
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
        # What runs is ranked in the line of the team on whose quota it stands; only queued jobs can be lifted above it.
        self.line = use_now(problem.occupancy)
        self.claim = use_now(problem.occupancy)
        self._lines: dict[int, Line] = {}
        self._rows: dict[int, list[int]] = {}
        self.version = [0] * problem.shape[0]
        self.claim_version = [0] * problem.shape[0]
        self._leaning: dict[int, dict[tuple[int, bool], tuple[Item, ...]]] = {}
        self.held = [ceiling.held for ceiling in problem.ceilings]
        self._hold_arrays: dict[str, tuple[Ints, Ints]] = {}
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
                nodes, counts = self._arrays_of(hold)
                gpus[nodes] = np.maximum(0, gpus[nodes] - counts)
        for index, grant in enumerate(self.problem.domain_holds):
            if job.index in grant.binds and self.granted[index] > 0:
                inside = np.array(grant.nodes, dtype=np.int64)
                spare = int(gpus[inside].sum()) - self.granted[index]
                if spare < job.maximum:
                    gpus = gpus.copy()
                    gpus[inside] = 0 if spare < job.minimum else np.minimum(gpus[inside], spare)
        return gpus

    def _arrays_of(self, hold: Hold) -> tuple[Ints, Ints]:
        """Return the nodes of a hold and the GPUs held on each."""
        found = self._hold_arrays.get(hold.name)
        if found is None:
            nodes, counts = np.array(list(hold.gpus.items()), dtype=np.int64).reshape(-1, 2).T
            found = self._hold_arrays[hold.name] = (nodes, counts)
        return found

    def blocked_by(self, job: RoundJob, more: int, gpu_type: int) -> int | None:
        """Return the index of a ceiling that `more` GPUs of the job would exceed, None where none would be."""
        for index in self.problem.ceilings_of[job.index]:
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
        leaning = [
            (key, line) for (key, _), line in self._leaning.get(job.claim_team, {}).items() if key >= job.priority
        ]
        if not leaning:
            return True
        size = 0 if job.index in self.stopped else size_of(self.changed.get(job.index, job.spread_now))
        self.claim.book(job.claim_team, job, size + more, gpu_type)
        self.claim.book(job.claim_team, job, size, gpu_type, -1)
        kept = all(fits_line(self.claim, job.claim_team, key, line) for key, line in leaning)
        self.claim.book(job.claim_team, job, size + more, gpu_type, -1)
        self.claim.book(job.claim_team, job, size, gpu_type)
        return kept

    def lean_on(self, team: int, key: int, *, by_quota: bool) -> None:
        """Remember that a right rests on a team's staying inside its quota, or else its entitlement, through `key`."""
        lines = self.problem.lines
        line = lines.quota[team] if by_quota else lines.entitlement[team]
        self._leaning.setdefault(team, {})[key, by_quota] = line

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
        before = self.changed.get(job.index, job.spread_now)
        for sign, held in ((1, before), (-1, spread)):
            for n, count in held:
                self.gpus[n] += sign * count
                self.cpus_u[n] += sign * count * job.cpus_per_gpu_u
                self.memory_u[n] += sign * count * job.memory_per_gpu_u
        self.changed[job.index] = spread
        self._count(job, before, spread)

    def move_aside(self, job: RoundJob, home: Spread) -> dict[int, int]:
        """Book that a running job goes on elsewhere; returns what it leaves by node, for those with a right over it."""
        had, has = dict(job.spread_now), dict(home)
        left = {}
        for n in had.keys() | has.keys():
            more = has.get(n, 0) - had.get(n, 0)
            if more < 0:
                left[n] = -more
            self.gpus[n] -= max(0, more)
            self.cpus_u[n] -= more * job.cpus_per_gpu_u
            self.memory_u[n] -= more * job.memory_per_gpu_u
        self.changed[job.index] = home
        self._count(job, job.spread_now, home)
        return left

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

    def has_beside(self, job: RoundJob, n: int, count: int) -> bool:
        """Return whether the CPUs and memory that go with so many GPUs of a job are free on a node."""
        return bool(count * job.cpus_per_gpu_u <= self.cpus_u[n] and count * job.memory_per_gpu_u <= self.memory_u[n])

    def unshrink(self, job: RoundJob, kept: Spread) -> None:
        """Let a job keep more than it was to keep: nobody took it."""
        before, left = self.changed.pop(job.index), dict(kept)
        for n, count in before:
            left[n] -= count
        for n, count in left.items():
            self.cpus_u[n] -= count * job.cpus_per_gpu_u
            self.memory_u[n] -= count * job.memory_per_gpu_u
        if kept != job.spread_now:
            self.changed[job.index] = kept
        self._count(job, before, kept)

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

    def move(self, job: RoundJob, spread: Spread) -> None:
        """Book that a running job moves; what it leaves is free for anybody."""
        for sign, held in ((1, job.spread_now), (-1, spread)):
            for n, count in held:
                self.gpus[n] += sign * count
                self.cpus_u[n] += sign * count * job.cpus_per_gpu_u
                self.memory_u[n] += sign * count * job.memory_per_gpu_u
        self.changed[job.index] = spread
        self.retype(job, job.spread_now, spread)

    def retype(self, job: RoundJob, before: Spread, after: Spread) -> None:
        """Count a job's GPUs as those of another type, where it moves to one."""
        if gpu_type_of(self.problem, before) != gpu_type_of(self.problem, after):
            self._count(job, before, ())
            self._count(job, (), after)

    def _count(self, job: RoundJob, before: Spread, after: Spread) -> None:
        gpu_type, had, has = gpu_type_of(self.problem, after or before), size_of(before), size_of(after)
        for team, use in ((job.line_team, self.line), (job.claim_team, self.claim)):
            use.book(team, job, had, gpu_type, -1)
            use.book(team, job, has, gpu_type)
        self._rows.pop(job.line_team, None)
        self.version[job.line_team] += 1
        self.claim_version[job.claim_team] += 1
        for index in self.problem.ceilings_of[job.index]:
            item = self.problem.ceilings[index].item
            self.held[index] += amount_of(self.problem, job, after, item) - amount_of(self.problem, job, before, item)
        for index, hold in enumerate(self.problem.domain_holds):
            if job.index in hold.grantees:
                inside = set(hold.nodes)
                gain = sum(c for n, c in after if n in inside) - sum(c for n, c in before if n in inside)
                self.granted[index] = max(0, self.granted[index] - gain)

    def rows(self, line: Ints | None = None) -> Ints:
        """Return the GPUs of every rank by team as the plan stands, or as `line` (T, 2P, Y) says, shape (T, 8P)."""
        teams, held = np.arange(len(self.problem.team_names)), self.line.gpus if line is None else line
        return rows_by_team(self.problem.lines, held, teams, self.problem.deadline_team)

    def rows_if(self, starts: RoundJob, size: int, gpu_type: int, victims: Sequence[RoundJob]) -> list[int]:
        """Return the change of every rank's GPUs, 8P of them, if a job starts and others stop."""
        held: dict[int, list[list[int]]] = {}
        priorities = len(self.problem.priorities)
        movers = [(victim, victim.size_now, -1) for victim in victims]
        for job, count, sign in [(starts, size, 1), *movers]:
            kind = gpu_type if sign > 0 else gpu_type_of(self.problem, job.spread_now)
            team = job.line_team
            if team not in held:
                held[team] = self.line.gpus[team].tolist()
            minimum = min(count, job.minimum)
            held[team][job.priority][kind] += sign * minimum
            held[team][priorities + job.priority][kind] += sign * (count - minimum)
        change = [0] * (2 * TIERS * priorities)
        for team, gpus in held.items():
            then, now = self._line_of(team).rows(gpus), self._rows_now(team)
            change = list(map(add, change, map(sub, then, now)))
        return change

    def _line_of(self, team: int) -> Line:
        found = self._lines.get(team)
        if found is None:
            found = self._lines[team] = line_of(self.problem.lines, team, self.problem.deadline_team)
        return found

    def _rows_now(self, team: int) -> list[int]:
        """Return the GPUs of every rank of a team as the plan stands, 8P of them."""
        found = self._rows.get(team)
        if found is None:
            found = self._rows[team] = self._line_of(team).rows(self.line.gpus[team].tolist())
        return found
