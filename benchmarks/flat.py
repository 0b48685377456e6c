"""The flat formulation as a baseline: one CP-SAT model with a boolean per job and node, solved tier by tier.

This is the model of "Priority Matters" (arXiv 2511.08373) on a round of optsched: for every priority, highest first,
the most that can run with it and all above it, kept as a lower bound for the next; then as few running GPUs stopped,
and then as few jobs moved as can be. Like there, the first search starts from what runs now, each later one from the
last solution.

Different from the published model: tiers count GPUs, not jobs (as optsched's ranks do); what is stopped and moved is
counted once at the end, not after every tier; every search may take all the time that is left, not a share, so that
more tiers are proven; the first search may keep everything as it is; and a gang may have one equal part on each of
several nodes. With `rights`, freed GPUs go only to those who have a right over them, as in optsched: for one team, a
stopped job makes room for starts of higher priority only, a move for everybody. Without, a node has its one capacity
constraint, as published.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from ortools.sat.python import cp_model
from ortools.sat.python.cp_model import CpModel, CpSolver, IntVar, LinearExpr

from optsched.clock import Clock
from optsched.errors import UsageError
from optsched.rounds.assignment import Assignment
from optsched.rounds.problem import UNLIMITED, Cut, Problem, RoundJob
from optsched.solve.result import Budget, Spent
from optsched.values.profile import PriorityMode


@dataclass(frozen=True, slots=True)
class Stage:
    """One search: what it reached (None: nothing in time), what no plan passes (None: not known), whether they meet."""

    value: int | None
    bound: int | None
    optimal: bool


@dataclass(frozen=True, slots=True)
class FlatResult:
    """What the model found: `tiers` by priority, highest first, GPUs that run at it and the most that could.

    A tier's bound holds for plans with the tiers above it as they are here. `stopped` is GPUs, `moved` jobs; both are
    minimised, so their bounds are from below. The assignment is the last solution, which stops and moves more than is
    needed where time ran out before the searches for that; where no search found any, `found` is false and it changes
    nothing.
    """

    assignment: Assignment
    tiers: tuple[Stage, ...]
    stopped: Stage
    moved: Stage
    found: bool
    booleans: int


NOBODY = 1 << 30
"""Stands behind all priorities: movers, whom stops serve least, and moves, which serve everybody."""

NOT_SEARCHED = Stage(None, None, False)


def solve_flat(problem: Problem, budget: Budget, clock: Clock, *, rights: bool = True) -> FlatResult:
    """Solve a round with the flat model. Raises UsageError for a round that it does not know; see `refusal`."""
    reason = refusal(problem)
    if reason is not None:
        raise UsageError(f"the flat model does not know this round: {reason}")
    spent = Spent(budget, clock)
    return _Search(FlatModel(problem, rights=rights), spent).run()


def refusal(problem: Problem) -> str | None:
    """Return what the flat model does not know of a round, and what it allows; None where it knows all."""
    rules = (
        (problem.profile.priority_mode is not PriorityMode.STRICT, "priority_mode weighted; allowed: strict"),
        (problem.profile.max_loss_ratio is not None, "max_loss_ratio is set; allowed: null"),
        (problem.max_stopped_gpus < UNLIMITED, "max_stopped_gpus_per_h is set; allowed: null"),
        (len(problem.gpu_types) > 1, f"{len(problem.gpu_types)} GPU types; allowed: one"),
        (len({job.line_team for job in problem.jobs}) > 1, "jobs of several teams; allowed: one team"),
        (bool(problem.ceilings), "limits or quotas that bound jobs; allowed: none"),
        (bool(problem.holds) or bool(problem.domain_holds), "reservations; allowed: none"),
    )
    for broken, text in rules:
        if broken:
            return text
    for job in problem.jobs:
        wrong = _unknown_in(job, problem)
        if wrong:
            return f"job {job.job.id}: {wrong}"
    return None


def _unknown_in(job: RoundJob, problem: Problem) -> str | None:
    rules = (
        (job.elastic, "elastic; allowed: one size"),
        (job.cut not in (Cut.ONE_NODE, Cut.PER_NODE), "cut by task or whole nodes; allowed: one node, gpus_per_node"),
        (job.required is not None or bool(job.slices), "a required level or slices; allowed: none"),
        (bool(job.cpus_per_gpu_u or job.memory_per_gpu_u), "CPUs or memory; allowed: GPUs alone"),
        (job.emergency or job.due, "an emergency class or a due deadline; allowed: neither"),
        (job.line_team == problem.deadline_team, "a near deadline; allowed: none"),
        (job.claim_team != job.team, "a grant; allowed: none"),
    )
    return next((text for broken, text in rules if broken), None)


class FlatModel:
    """The CP-SAT model: `at[j][n]` a part of job j is on node n after the plan, `runs[j]` the job runs at all."""

    def __init__(self, problem: Problem, *, rights: bool) -> None:
        self.problem = problem
        self.rights = rights
        self.model = CpModel()
        self.at: list[dict[int, IntVar]] = []
        self.runs: list[IntVar] = []
        self.moved: list[LinearExpr] = []
        for job in problem.jobs:
            self._add_job(job)
        self._add_room()
        self.booleans = len(self.model.proto.variables)

    def part(self, job: RoundJob) -> int:
        """Return the GPUs of the job on each node that it uses."""
        return job.unit if job.cut is Cut.PER_NODE else job.maximum

    def _add_job(self, job: RoundJob) -> None:
        """A job runs whole or not at all; what runs stays where it may not be stopped or moved."""
        model, now = self.model, dict(job.spread_now)
        capacity = self.problem.nodes.capacity
        usable = [
            n for n, open_ in enumerate(job.nodes.tolist()) if n in now or (open_ and capacity[n] >= self.part(job))
        ]
        at = {n: model.new_bool_var(f"at {job.index}.{n}") for n in usable}
        runs = model.new_bool_var(f"runs {job.index}")
        model.add(LinearExpr.sum(list(at.values())) == job.maximum // self.part(job) * runs)
        if job.running and not job.stoppable:
            model.add(runs == 1)
        if not job.movable:
            for n in now:
                model.add(at[n] == runs)
        elif len(now) == 1:
            self.moved += [runs - at[n] for n in now]
        else:
            moved = model.new_bool_var(f"moved {job.index}")
            model.add_hint(moved, False)
            model.add_max_equality(moved, [runs - at[n] for n in now])
            self.moved.append(moved)
        self.at.append(at)
        self.runs.append(runs)
        model.add_hint(runs, job.running)
        for n, literal in at.items():
            model.add_hint(literal, n in now)

    def _add_room(self) -> None:
        """On every node: movers fit in what is free and what moves away; starts also in what stops below them.

        Those with the fewest suppliers are nested in those with more, so each such group is bounded on its own: all
        takers, then movers and starts at or below each priority at which something may be stopped.
        """
        problem = self.problem
        takes: dict[int, list[tuple[int, LinearExpr]]] = defaultdict(list)
        gives: dict[int, list[tuple[int, LinearExpr]]] = defaultdict(list)
        for job, at, runs in zip(problem.jobs, self.at, self.runs, strict=True):
            now = dict(job.spread_now)
            for n, literal in at.items():
                if n not in now:
                    takes[n].append((NOBODY if job.running else job.priority, self.part(job) * literal))
                else:
                    gives[n].append((NOBODY, now[n] * (runs - literal)))
                    gives[n].append((job.priority, now[n] * (1 - runs)))
        for n, takers in takes.items():
            levels = {priority for priority, _ in gives[n] if priority < NOBODY} if self.rights else set()
            for least in {0, *levels}:
                wanted = [taken for priority, taken in takers if priority >= least]
                freed = [given for priority, given in gives[n] if priority > least or not self.rights]
                room = LinearExpr.sum(wanted) - LinearExpr.sum(freed)
                self.model.add(room <= int(problem.nodes.free[n]))


class _Search:
    """Runs the stages, each on the same model with what came before fixed as a bound."""

    def __init__(self, flat: FlatModel, spent: Spent) -> None:
        self.flat, self.spent = flat, spent
        self.solution: list[int] | None = None

    def run(self) -> FlatResult:
        """Search tier by tier, then stops, then moves; nothing more once a search found no solution in time."""
        flat, problem = self.flat, self.flat.problem
        tiers: list[Stage] = []
        above = 0
        for p in range(len(problem.priorities)):
            found = self._stage(self._through(p), maximize=True)
            if found.value is None or found.bound is None:
                return self._result(tiers, NOT_SEARCHED, NOT_SEARCHED)
            flat.model.add(self._through(p) >= found.value)
            tiers.append(Stage(found.value - above, found.bound - above, found.optimal))
            above = found.value
        lost = LinearExpr.sum([job.size_now * (1 - flat.runs[job.index]) for job in problem.running])
        stopped = self._stage(lost, maximize=False)
        if stopped.value is None:
            return self._result(tiers, NOT_SEARCHED, NOT_SEARCHED)
        flat.model.add(lost <= stopped.value)
        moved = self._stage(LinearExpr.sum(flat.moved), maximize=False)
        return self._result(tiers, stopped, moved)

    def _through(self, priority: int) -> LinearExpr:
        """Return the GPUs that run at a priority and all above it."""
        flat = self.flat
        counted = [job for job in flat.problem.jobs if job.priority <= priority]
        return LinearExpr.sum([job.maximum * flat.runs[job.index] for job in counted])

    def _stage(self, goal: LinearExpr, *, maximize: bool) -> Stage:
        """Search for one goal in the time that is left; the solution found is the hint of the next search."""
        flat, spent = self.flat, self.spent
        if self.solution is not None:
            flat.model.clear_hints()  # type: ignore[no-untyped-call]
            for index, value in enumerate(self.solution):
                flat.model.add_hint(flat.model.get_int_var_from_proto_index(index), value)
        (flat.model.maximize if maximize else flat.model.minimize)(goal)
        solver = CpSolver()
        solver.parameters.max_time_in_seconds = max(0.01, spent.wall_left_s)
        solver.parameters.num_workers = spent.budget.workers
        solver.parameters.random_seed = spent.budget.seed
        if spent.deterministic_left_s is not None:
            solver.parameters.max_deterministic_time = max(1e-6, spent.deterministic_left_s)
            solver.parameters.num_workers = 1
        status = solver.solve(flat.model)
        spent.deterministic_s += solver.response_proto.deterministic_time
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return NOT_SEARCHED
        self.solution = list(solver.response_proto.solution)
        bound = solver.best_objective_bound
        whole = math.floor(bound + 1e-6) if maximize else math.ceil(bound - 1e-6)
        return Stage(round(solver.objective_value), whole, status == cp_model.OPTIMAL)

    def _result(self, tiers: list[Stage], stopped: Stage, moved: Stage) -> FlatResult:
        """Return what was found; tiers that were not searched have what the last solution runs there."""
        flat, problem = self.flat, self.flat.problem
        assignment = self._assignment()
        ran = [0] * len(problem.priorities)
        for job in problem.jobs:
            ran[job.priority] += job.maximum * bool(assignment.after(job))
        unseen = [Stage(gpus, None, False) for gpus in ran[len(tiers) :]]
        return FlatResult(assignment, (*tiers, *unseen), stopped, moved, self.solution is not None, flat.booleans)

    def _assignment(self) -> Assignment:
        """Return what the last solution does, in the indices of the round; nothing where there is none."""
        if self.solution is None:
            return Assignment()
        changed, stopped = {}, set()
        for job, at in zip(self.flat.problem.jobs, self.flat.at, strict=True):
            spread = tuple((n, self.flat.part(job)) for n, here in sorted(at.items()) if self.solution[here.index])
            if job.running and not spread:
                stopped.add(job.index)
            elif spread != job.spread_now:
                changed[job.index] = spread
        return Assignment(changed, frozenset(stopped))
