"""Parts of a plan searched anew: on some nodes everything is open again, all else stays as planned.

Places are found by rules of thumb, which leave GPUs over that nobody can have where they are. The exact model of a few
nodes, those with GPUs left over and some whose jobs could as well lie elsewhere, is small enough to be solved.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

import numpy as np

from optsched.errors import SolverFailed
from optsched.rounds.assignment import Assignment, Change, change_of
from optsched.rounds.check import check
from optsched.rounds.problem import Flags, Ints, Problem, RoundJob, Spread
from optsched.rounds.score import score
from optsched.solve.cpsat.decisions import Scope
from optsched.solve.cpsat.symmetry import shape_key
from optsched.solve.exact import ExactModel
from optsched.solve.result import Spent

MOST_NODES, LEAST_NODES = 24, 3
"""How many nodes with GPUs left over are open at once, and as many others ..."""

MOST_VARIABLES = 10_000
"""... but half as many, down to the least, after a model larger than this, which takes more than a second or two."""

SMALL_PART = 0.25
"""Others are nodes with a job of at most this part of the largest node: many places would do for it."""

MOST_ALIKE, MOST_WAITING = 2, 40
"""How many of the waiting jobs alike may start there, and how many in all."""

MOST_IN_VAIN = 20
"""After so many searches in a row that found nothing better no more are made."""

CHANGE_S = 2.5e-3
"""About how long the first search takes for each change of the plan, in seconds: none is begun without."""

SHARE = 0.5
"""The share of what is left of the time, and of the deterministic budget, that one search may use."""


class Neighbourhoods:
    """Draws nodes and searches what can be had on them, again and again."""

    def __init__(self, problem: Problem, scope: Scope, spent: Spent) -> None:
        self.problem, self.spent, self._all = problem, spent, scope
        self._random = np.random.default_rng(spent.budget.seed)
        self._most = MOST_NODES

    def improve(self, plan: Assignment, first: int, until_s: float) -> Assignment:
        """Return a plan that is at least as good, found while more than `until_s` seconds of the budget are left.

        `first` is the first stage in which there may be more to have; ranks are strict.
        """
        mode, in_vain = self.problem.profile.priority_mode, 0
        longest_s = CHANGE_S * len(plan.changed.keys() | plan.stopped)
        worth = score(self.problem, plan).key(mode)
        before: Flags | None = None
        while in_vain < MOST_IN_VAIN and not self.spent.exhausted:
            left_s, opened = self.spent.wall_left_s, self.opened(plan)
            if left_s - until_s <= longest_s or (before is not None and np.array_equal(opened, before)):
                break
            found = self.searched(plan, opened, first, left_s - until_s)
            longest_s = max(longest_s, left_s - self.spent.wall_left_s)
            before, in_vain = opened, in_vain + 1
            if found is None or check(self.problem, found):
                continue
            better = score(self.problem, found).key(mode)
            if better > worth:
                plan, worth, before, in_vain = found, better, None, 0
        return plan

    def searched(self, plan: Assignment, opened: Flags, first: int, wall_s: float) -> Assignment | None:
        """Return a plan that may be better on open nodes, within so many seconds; None where none is found."""
        left = self.spent.deterministic_left_s
        deterministic_s = None if left is None else left * SHARE
        budget = dataclasses.replace(self.spent.budget, wall_s=wall_s * SHARE, deterministic_s=deterministic_s)
        own = Spent(budget, self.spent.clock)
        part = _Part(self.problem, self._all, plan, opened, self._waiting(plan, opened))
        if part.variables > MOST_VARIABLES and self._most > LEAST_NODES:
            self._most = max(LEAST_NODES, self._most // 2)
            return None
        try:
            return part.solved(first, own)
        except SolverFailed:
            return None
        finally:
            self.spent.deterministic_s += own.deterministic_s

    def opened(self, plan: Assignment) -> Flags:
        """Draw the nodes that are open in the next search: shape (N,)."""
        left, small = left_over(self.problem, plan), self._with_small_jobs(plan)
        opened = np.zeros(len(left), bool)
        opened[self._some(np.flatnonzero(left), self._most)] = True
        opened[self._some(np.flatnonzero(small & ~left), self._most)] = True
        return opened

    def _waiting(self, plan: Assignment, opened: Flags) -> list[int]:
        """Draw some of the jobs that wait and could start on open nodes, of jobs alike the first ones."""
        problem, room = self.problem, int(self.problem.nodes.capacity[opened].sum())
        alike: Counter[object] = Counter()
        found = []
        for j in sorted(self._all.starts - plan.changed.keys()):
            job = problem.jobs[j]
            if job.minimum <= room and alike[shape := shape_key(problem, job)] < MOST_ALIKE:
                alike[shape] += 1
                found.append(j)
        drawn: list[int] = self._some(np.array(found, int), MOST_WAITING).tolist()
        return drawn

    def _some(self, these: Ints, most: int) -> Ints:
        """Draw some of these, all where there are no more."""
        return these if len(these) <= most else self._random.choice(these, most, replace=False)

    def _with_small_jobs(self, plan: Assignment) -> Flags:
        """Return the nodes with a small job that may lie elsewhere: shape (N,)."""
        problem = self.problem
        small = int(problem.nodes.capacity.max(initial=0) * SMALL_PART)
        able = self._all.stops | self._all.moves | self._all.resizes | plan.changed.keys()
        found = np.zeros(len(problem.nodes.capacity), bool)
        for j in able:
            for n, count in plan.after(problem.jobs[j]):
                found[n] |= count <= small
        return found


def left_over(problem: Problem, plan: Assignment) -> Flags:
    """Return the nodes that take work and have GPUs left over after a plan: shape (N,)."""
    free = problem.nodes.free.copy()
    for j in plan.changed.keys() | plan.stopped:
        job = problem.jobs[j]
        for n, count in job.spread_now:
            free[n] += count
        for n, count in plan.after(job):
            free[n] -= count
    left: Flags = (free > 0) & problem.nodes.taking
    return left


class _Part:
    """The exact model of open nodes: who lies there alone does what is best, all others do what is planned."""

    def __init__(
        self, problem: Problem, everything: Scope, plan: Assignment, opened: Flags, waiting: Sequence[int]
    ) -> None:
        self.problem, self.plan, self.opened, self._all = problem, plan, opened, everything
        self._starts: set[int] = set()
        self._stops: set[int] = set()
        self._moves: set[int] = set()
        self._resizes: set[int] = set()
        self._kept: set[int] = set()
        self._narrowed: dict[int, RoundJob] = {}
        self._open_of: dict[int, Flags] = {}
        for j in plan.changed.keys() | plan.stopped:
            self._reopen(problem.jobs[j])
        for job in problem.running:
            if job.index not in plan.changed and job.index not in plan.stopped and self._is_open(job.spread_now):
                self._open(job)
        for j in waiting:
            self._starts.add(j)
            self._narrow(problem.jobs[j], ())
        self._exact = self._model()

    @property
    def variables(self) -> int:
        """How many variables the model has."""
        return len(self._exact.model.proto.variables)

    def solved(self, first: int, spent: Spent) -> Assignment | None:
        """Return a plan that has more in the stages from the first on; None where none is found.

        Raises:
            SolverFailed: what is kept does not go together.
        """
        return self._exact.better(self.plan, first, spent)

    def _model(self) -> ExactModel:
        problem = dataclasses.replace(self.problem, jobs=self.problem.jobs.replaced(self._narrowed))
        starts, stops, moves, resizes = map(frozenset, (self._starts, self._stops, self._moves, self._resizes))
        exact = ExactModel(problem, Scope(starts, stops, moves, resizes))
        for j in sorted(self._kept):
            self._keep(exact, j)
        exact.hint(self.plan)
        return exact

    def _is_open(self, spread: Spread) -> bool:
        return all(self.opened[n] for n, _ in spread)

    def _open(self, job: RoundJob) -> None:
        """Let a running job do on open nodes whatever it may."""
        mine, whole = (self._stops, self._moves, self._resizes), (self._all.stops, self._all.moves, self._all.resizes)
        for part, everybody in zip(mine, whole, strict=True):
            if job.index in everybody:
                part.add(job.index)
        self._narrow(job, ())

    def _reopen(self, job: RoundJob) -> None:
        """Let a job do what is planned, or something else where all that it has and is to have is open."""
        after = self.plan.after(job)
        is_open = self._is_open(after) and self._is_open(job.spread_now)
        if is_open and job.running:
            self._open(job)
        change = change_of(job, after)
        planned = {Change.START: self._starts, Change.STOP: self._stops, Change.MOVE: self._moves}
        planned.get(change, self._resizes).add(job.index)
        if change is not Change.STOP:
            self._narrow(job, after)
        if not is_open:
            self._kept.add(job.index)

    def _narrow(self, job: RoundJob, planned: Spread) -> None:
        """Let a job lie where it is planned, and on open nodes unless that is elsewhere."""
        # Of jobs alike all have the same object: by that they are known as alike.
        nodes = self._open_of.setdefault(id(job.nodes), job.nodes & self.opened)
        if not self._is_open(planned):
            nodes = np.zeros(len(nodes), bool)
            nodes[[n for n, _ in planned]] = True
        self._narrowed[job.index] = dataclasses.replace(job, nodes=nodes)

    def _keep(self, exact: ExactModel, j: int) -> None:
        """Keep what is planned for one job."""
        decisions = exact.decisions
        if j in self.plan.stopped:
            exact.model.add(decisions.stops[j] == 1)
            return
        after = dict(self.plan.changed[j])
        for gangs in (decisions.starts, decisions.moves, decisions.resizes):
            if j in gangs:
                exact.model.add(gangs[j].active == 1)
                for n, gpus in gangs[j].gpus.items():
                    exact.model.add(gpus == after.get(n, 0))
