"""What the fine stage does where its first pass fell short: always an answer, if not for everybody.

Movers without a home go back to their old one, stops that nobody needs or pays for are taken back, and victims alike
change places.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from optsched.rounds.problem import Cut, RoundJob
from optsched.rounds.rights import exempt
from optsched.rounds.score import gpu_type_of
from optsched.solve.gangs import Gangs

MOST_MET = 10
"""How many starts are tried on the node of a stopped job that nobody needs yet."""


class Repairs(Gangs):
    """Places with repairs."""

    def _seal(self) -> None:
        """Keep from all others what is still free on nodes for one team alone."""
        for n in self.loose.reserved:
            self.ledger.gpus[n] = 0

    def _stay(self) -> None:
        """Let those stay where they are who moved for nothing: whose old room nobody took."""
        for job in [self.problem.jobs[j] for j in self.ledger.changed if self._moved(j)]:
            (n, _), (at, _) = job.spread_now[0], self.ledger.changed[job.index][0]
            if self.ledger.gpus[n] >= job.size_now and self.ledger.has_beside(job, n, job.size_now):
                self.loose.unsettle(job, at)
                self.loose.settle(job, n)
        self.parts.stay()

    def _moved(self, j: int) -> bool:
        """Return whether a job runs on one node and moves to another, rather than start, shrink or grow."""
        job, spread = self.problem.jobs[j], self.ledger.changed.get(j, ())
        return job.running and len(spread) == len(job.spread_now) == 1 and spread[0][1] == job.size_now

    def _without_right(self, served: Mapping[int, Set[int]]) -> list[RoundJob]:
        """Return the starts that have GPUs of somebody over whom they have no right as the plan stands.

        Rights were judged as if all that was admitted started, each on its first GPU type.
        """
        found = {
            taker
            for victim, nodes in self.supply.used.items()
            for users in nodes.values()
            for taker, count in users.items()
            if count and victim not in served.get(taker, ())
        }
        return [self.problem.jobs[taker] for taker in sorted(found)]

    def _take_back(self, stops: set[int]) -> None:
        """Let stopped jobs run on, their takers put elsewhere or left out."""
        for j in sorted(stops):
            self._exchange(self.problem.jobs[j])
        stops = stops & self.ledger.stopped
        takers: dict[int, RoundJob] = {}
        for j in sorted(stops):
            for users in self.supply.used.get(j, {}).values():
                takers.update({taker: self.problem.jobs[taker] for taker, count in users.items() if count})
        for taker in takers.values():
            self._unbook(taker)
        self.fill.run_on(stops)
        for victim in (self.problem.jobs[j] for j in sorted(stops & self.ledger.stopped)):
            if not self._meet(victim):
                self._trade(victim)
        self._unplaced += takers
        self._again()
        self._stay()

    def _exchange(self, victim: RoundJob) -> bool:
        """Let a stopped job run on whose room nobody took, and stop one alike: that moved, or met a taker."""
        n, problem = victim.spread_now[0][0], self.problem
        if self._used(victim) or len(victim.spread_now) > 1 or not self.ledger.has_beside(victim, n, victim.size_now):
            return False
        if problem.holds or problem.domain_holds:
            return False
        if self.ledger.blocked_by(victim, victim.size_now, gpu_type_of(problem, victim.spread_now)) is not None:
            return False
        others = [job for job in problem.running if job.index not in self.ledger.stopped and job.stoppable]
        left = victim.size_now
        changed = self.ledger.changed.keys()
        for other in sorted(others, key=lambda job: (job.index not in changed, -job.size_now, job.index)):
            if other.size_now <= left and self._alike(other, victim):
                left -= other.size_now * self._stop_instead(other, victim)
        return self.fill.run_on({victim.index})

    def _alike(self, one: RoundJob, other: RoundJob) -> bool:
        """Return whether it makes no difference to ranks and rights whose GPUs are given up, of two jobs."""
        takeable = self.problem.takeable
        return (
            len(one.spread_now) == 1
            and (one.team, one.line_team, one.claim_team, one.priority)
            == (other.team, other.line_team, other.claim_team, other.priority)
            and one.minimum == one.size_now
            and other.minimum == other.size_now
            and gpu_type_of(self.problem, one.spread_now) == gpu_type_of(self.problem, other.spread_now)
            and takeable[one.index] == takeable[other.index]
        )

    def _stop_instead(self, mover: RoundJob, victim: RoundJob) -> bool:
        """Stop a job that moved rather than another one, if somebody there has a right over it and can pay."""
        n, at = mover.spread_now[0][0], self.ledger.changed.get(mover.index)
        if at and not self._moved(mover.index):
            return False
        for taker in self.fill.takers_on(n):
            if not self.fill.kind_now(taker).rights[mover.index]:
                continue
            if at and self._free_share(taker, n) < mover.size_now:
                continue
            if mover.costs.stop > max(taker.pays_gpu_s // 4, victim.costs.stop):
                continue
            self.floors.give_back(victim)
            if taker.team != mover.team and not exempt(taker) and not self.floors.take([mover]):
                continue
            if at:
                self.loose.unsettle(mover, at[0][0])
                self.loose.settle(mover, n)
            self.loose.pin({mover.index})
            self.ledger.stop([mover])
            self.supply.leave([mover.index])
            if at:
                self.ledger.gpus[n] += self.supply.draw(mover.index, n, taker.index, mover.size_now)
            return True
        return False

    def _meet(self, victim: RoundJob) -> bool:
        """Put a start with a right over a stopped job on its node: then somebody needs its stop.

        It had to stop all the same where its team would not be inside a line with it.
        """
        if self._used(victim):
            return False
        able = [
            (job.team != victim.team, job.minimum, job.index, job, at)
            for job, at in self._placed.values()
            if victim.costs.stop <= job.pays_gpu_s and self.fill.kind_now(job).rights[victim.index]
            if not self.supply.drawn_by(job.index, ((at, job.minimum),))
        ]
        for n, _ in victim.spread_now:
            for *_, job, at in sorted(able)[:MOST_MET]:
                self._unbook(job)
                if self._settle(job, n):
                    return True
                if not self._settle(job, at):
                    self._unplaced.append(job.index)
        return False

    def _used(self, victim: RoundJob) -> bool:
        """Return whether somebody has GPUs of a stopped job."""
        return any(any(users.values()) for users in self.supply.used.get(victim.index, {}).values())

    def _trade(self, victim: RoundJob) -> bool:
        """Let a stopped job run on in place of a start of its own team, where its team may have only one of them."""
        alike = [
            job
            for job, _ in self._placed.values()
            if job.claim_team == victim.claim_team
            if job.minimum >= victim.size_now and job.priority >= victim.priority
        ]
        for job in sorted(alike, key=lambda job: (job.minimum, job.priority, -job.index))[:1]:
            self._unbook(job)
            self._unplaced.append(job.index)
            if self.fill.run_on({victim.index}):
                return True
        return False

    def _send_home(self) -> None:
        """Let those who found no new home have their old room: who is there now makes way, worst ranks first."""
        stuck: list[int] = []
        while self._homeless:
            homeless, self._homeless = self._homeless, []
            for job in (self.problem.jobs[j] for j in homeless):
                if not (self._place(job) or self._displace(job) or self._clear(job)):
                    stuck.append(job.index)
            self._place_waiting()
            self._place_ones()
        self._homeless = stuck

    def _clear(self, job: RoundJob) -> bool:
        """Put a running job back on its node, out of which others go as far as need be."""
        n = job.spread_now[0][0]
        there = [self.problem.jobs[j] for j, spread in self.ledger.changed.items() if any(m == n for m, _ in spread)]
        for other in sorted(there, key=lambda other: (-self._rank(other), other.minimum, other.index)):
            if self._return(job, n):
                return True
            if other.running and not self._moved(other.index):
                continue
            if other.running:
                self.loose.unsettle(other, n)
                self._wait(other, other.size_now)
            else:
                self._unbook(other)
                self._closed = n
                if other.cut is Cut.ONE_NODE or not self._place_gang(other):
                    self._unplaced.append(other.index)
                self._closed = None
        return self._return(job, n)

    def _return(self, job: RoundJob, n: int) -> bool:
        """Put a running job back on its node if there is room, whatever its state."""
        back = bool(self.ledger.gpus[n] >= job.size_now) and self.ledger.has_beside(job, n, job.size_now)
        if back:
            self.loose.settle(job, n)
        return back

    def _again(self) -> None:
        """Try those once more who found no place: there may be some by now."""
        # The pass that fills up may have started some of them.
        unplaced, self._unplaced = [j for j in self._unplaced if j not in self.ledger.changed], []
        for job in (self.problem.jobs[j] for j in unplaced):
            if job.cut is Cut.ONE_NODE:
                self._wait(job, job.minimum)
            elif not self._place_gang(job):
                self._unplaced.append(job.index)
        self._place_waiting()
        self._place_ones()
        self._send_home()
