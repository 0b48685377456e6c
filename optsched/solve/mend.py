"""A plan that breaks rules, mended: what breaks them is undone, as little and as unimportant as can be told quickly.

Every step undoes changes and makes none, and a plan without changes is valid. So however broken a plan was there is an
end, and what is left there breaks no rule. Who is undone starts not, stops not, moves not or keeps its size; where its
room has been given to others, these are undone in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from functools import partial

from optsched.rounds.assignment import Assignment, Change, Flow, flow_of
from optsched.rounds.check import forbidden, overbooked, shape_faults, stopped_gpus
from optsched.rounds.problem import Problem
from optsched.solve.wrongs import Wrongs, fewest

NOTHING_LOST, ROOM_LOST = (-1 << 30,), (-1 << 29,)
"""How much a resize and a move into whose old room nobody came would be missed: less than any start."""


def mend(problem: Problem, plan: Assignment) -> Assignment:
    """Return what is left of a plan once all that breaks a rule is undone; all of it where it is valid."""
    return _Mend(problem, plan).run()


class _Mend:
    """A plan in the undoing: `changes`, `takes` and `gives` are those of its flow."""

    def __init__(self, problem: Problem, plan: Assignment) -> None:
        self.problem = problem
        self.changed, self.stopped = dict(plan.changed), set(plan.stopped)
        flow = flow_of(problem, plan)
        self.changes = dict(flow.changes)
        self.takes = {n: dict(takes) for n, takes in flow.takes.items()}
        self.gives = {n: dict(gives) for n, gives in flow.gives.items()}

    def run(self) -> Assignment:
        """Undo until nothing is broken: first what concerns jobs and nodes alone, then what concerns rights."""
        self._undo(self._misshapen())
        self._undo(self._forbidden())
        self._settle(n for n, _ in overbooked(self.problem, self._flow()))
        lines = Wrongs(self.problem, self._flow(), self._loss).lines
        while undone := Wrongs(self.problem, self._flow(), self._loss).undone(lines):
            self._settle(self._undo(undone))
        return Assignment(dict(self.changed), frozenset(self.stopped))

    def _flow(self) -> Flow:
        plan = Assignment(dict(self.changed), frozenset(self.stopped))
        return Flow(self.problem, plan, self.changes, self.takes, self.gives)

    def _undo(self, jobs: Iterable[int]) -> set[int]:
        """Undo what jobs do; returns the nodes on which they have GPUs again."""
        back: set[int] = set()
        for j in jobs:
            nodes = {n for n, _ in (*self.problem.jobs[j].spread_now, *self.changed.pop(j, ()))}
            self.stopped.discard(j)
            self.changes.pop(j, None)
            for n in nodes:
                self.takes.get(n, {}).pop(j, None)
                if self.gives.get(n, {}).pop(j, None):
                    back.add(n)
                for side in (self.takes, self.gives):
                    if n in side and not side[n]:
                        del side[n]
        return back

    def _settle(self, nodes: Iterable[int]) -> None:
        """Undo starts and moves for which nodes have no room, and so on where who moved comes back (rule 7)."""
        waiting = set(nodes)
        while waiting:
            n = min(waiting)
            waiting.remove(n)
            if n in self.takes and not self._fits(n, frozenset()):
                waiting |= self._undo(fewest(self.takes[n], self._loss, partial(self._fits, n)))

    def _fits(self, n: int, without: Set[int]) -> bool:
        """Return whether a node has room for its takers, but for some of them."""
        nodes, jobs = self.problem.nodes, self.problem.jobs
        gpus = cpus_u = memory_u = 0
        for sign, side in ((1, self.takes), (-1, self.gives)):
            for j, count in side.get(n, {}).items():
                if j not in without:
                    gpus += sign * count
                    cpus_u += sign * count * jobs[j].cpus_per_gpu_u
                    memory_u += sign * count * jobs[j].memory_per_gpu_u
        return (
            gpus <= max(0, int(nodes.free[n]))
            and cpus_u <= max(0, int(nodes.cpus_free_u[n]))
            and memory_u <= max(0, int(nodes.memory_free_u[n]))
        )

    def _loss(self, j: int) -> tuple[int, ...]:
        """Return how much what a job does would be missed: the better rank the more, then by its GPUs.

        A move is missed as much as who would have to leave the old room.
        """
        job = self.problem.jobs[j]
        if not job.running:
            return (-job.tier, -job.priority, job.minimum, -j)
        if self.changes[j] is not Change.MOVE:
            return (*NOTHING_LOST, -j)
        starts = {
            taker for n, _ in job.spread_now for taker in self.takes.get(n, ()) if not self.problem.jobs[taker].running
        }
        return max((self._loss(taker) for taker in starts), default=(*ROOM_LOST, -j))

    def _misshapen(self) -> set[int]:
        """Rules 1-6."""
        jobs = self.problem.jobs
        found = {j for j in self.stopped if not jobs[j].running or j in self.changed}
        for j, spread in self.changed.items():
            if spread != jobs[j].spread_now and shape_faults(self.problem, jobs[j], spread):
                found.add(j)
        return found

    def _forbidden(self) -> set[int]:
        """Rule 10."""
        flow, jobs = self._flow(), self.problem.jobs
        found = {j for j, _ in forbidden(self.problem, flow)}
        excess = stopped_gpus(self.problem, flow) - self.problem.max_stopped_gpus
        if excess <= 0:
            return found
        return found | fewest(
            self.stopped,
            lambda j: (-jobs[j].priority, jobs[j].costs.stop, j),
            lambda chosen: sum(jobs[j].size_now for j in chosen) >= excess,
        )
