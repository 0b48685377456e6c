"""Valid plans of all kinds, and whether the coarse model has room for them."""

from __future__ import annotations

import random
from collections.abc import Iterator

from ortools.sat.python import cp_model

from optsched.clock import StoppedClock
from optsched.rounds.assignment import Assignment, Change, flow_of
from optsched.rounds.problem import Problem
from optsched.rounds.score import Score, gpu_type_of, score, size_of
from optsched.solve.coarse import tie_value
from optsched.solve.cpsat import objective
from optsched.solve.cpsat.coarse_model import CoarseModel
from optsched.solve.cpsat.decisions import full_scope
from optsched.solve.cpsat.hints import assignment_of
from optsched.solve.cpsat.stages import Stages
from optsched.solve.exact import ExactModel, stage_rows, through
from optsched.solve.result import Budget, Result, Spent
from optsched.values.profile import PriorityMode


def valid_plans(problem: Problem, rng: random.Random, count: int, work_s: float = 1.0) -> Iterator[Assignment]:
    """Plans that the exact model makes of so many random wishes, the good and the odd."""
    model = ExactModel(problem, full_scope(problem))
    decisions = model.decisions
    for _ in range(count):
        stop, move, resize = rng.choice((-1, 0, 1, 3)), rng.choice((-2, -1, 0, 2)), rng.choice((-2, -1, 0, 2))
        wishes = [rng.randint(0, 20) * gang.active for gang in decisions.starts.values()]
        wishes += [stop * rng.randint(0, 5) * literal for literal in decisions.stops.values()]
        wishes += [move * rng.randint(0, 5) * gang.active for gang in decisions.moves.values()]
        wishes += [resize * rng.randint(0, 5) * gang.active for gang in decisions.resizes.values()]
        sized = (*decisions.starts.values(), *decisions.resizes.values())
        wishes += [rng.choice((0, 0, 0, 1, 2)) * gang.size for gang in sized]
        model.model.clear_objective()
        if wishes:
            model.model.maximize(sum(wishes))
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_deterministic_time = work_s
        if solver.solve(model.model) in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            stages = Stages(model.model, Spent(Budget(1e9), StoppedClock()))
            stages._solver = solver
            yield assignment_of(problem, decisions, stages)


def allowed_by(coarse: CoarseModel, plan: Assignment) -> bool:
    """Whether the coarse model has a solution that decides as the plan does.

    Its ranks and worth are no lower, its bill is no higher.
    """
    problem, decisions, model = coarse.problem, coarse.decisions, coarse.model.clone()
    changes = flow_of(problem, plan).changes
    known = {Change.START: decisions.starts, Change.STOP: decisions.stops, Change.MOVE: decisions.moves}
    if any(j not in known.get(change, decisions.resizes) for j, change in changes.items()):
        return False
    for j, gang in decisions.starts.items():
        model.add(gang.active == int(j in changes))
        if j in changes:
            model.add(gang.size == size_of(plan.after(gang.job)))
            model.add(gang.types[gpu_type_of(problem, plan.after(gang.job))] == 1)
    for j, stop in decisions.stops.items():
        model.add(stop == int(j in plan.stopped))
    for j, gang in decisions.moves.items():
        model.add(gang.active == int(changes.get(j) is Change.MOVE))
        if changes.get(j) is Change.MOVE:
            model.add(gang.types[gpu_type_of(problem, plan.after(gang.job))] == 1)
    for j, gang in decisions.resizes.items():
        model.add(decisions.shrinks[j] == int(changes.get(j) is Change.SHRINK))
        model.add(decisions.grows[j] == int(changes.get(j) is Change.GROW))
        if changes.get(j) in (Change.SHRINK, Change.GROW):
            model.add(gang.size == size_of(plan.after(gang.job)))
    worth = score(problem, plan)
    for row in stage_rows(problem):
        model.add(
            coarse.ladder.stage(row, len(problem.priorities)) - through(worth.rows, row, len(problem.priorities)) >= 0
        )
    model.add(objective.tie(problem, decisions) - tie_value(problem, worth) == 0)
    model.add(coarse.bill - worth.costs.total <= 0)
    model.add(objective.worth(problem, decisions, coarse.ladder, coarse.bill) - worth.weighted >= 0)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = 5.0
    return bool(solver.solve(model) != cp_model.INFEASIBLE)


def beaten(problem: Problem, result: Result, other: Score) -> str:
    """Which bound of a result a valid plan of that score beats; empty where it beats none."""
    mine = score(problem, result.assignment)
    mode = problem.profile.priority_mode
    if result.proven and other.key(mode) > mine.key(mode):
        return "proven, but not the best"
    if mode is PriorityMode.WEIGHTED:
        beats = result.weighted_bound is not None and other.weighted > result.weighted_bound
        return f"weighted {other.weighted} > {result.weighted_bound}" if beats else ""
    for row, (bound, gpus, there) in enumerate(zip(result.row_bounds, mine.rows, other.rows, strict=True)):
        if bound is not None and there > bound:
            return f"row {row}: {there} > {bound}"
        if there != gpus:
            return ""
    if (mine.stay_gpus, mine.age) == (other.stay_gpus, other.age) and result.bill_bound is not None:
        return f"bill {other.costs.total} < {result.bill_bound}" if other.costs.total < result.bill_bound else ""
    return ""
