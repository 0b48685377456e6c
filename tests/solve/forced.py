"""Valid plans of all kinds, and whether admission has room for them."""

from __future__ import annotations

import random
from collections.abc import Iterator

from ortools.sat.python import cp_model

from optsched.clock import StoppedClock
from optsched.rounds.assignment import NO_CHANGE, Assignment, Change, change_of, flow_of
from optsched.rounds.check import check
from optsched.rounds.problem import Problem, RoundJob
from optsched.rounds.score import Score, gpu_type_of, score, size_of
from optsched.solve.cpsat.admission import Admission
from optsched.solve.cpsat.decisions import full_scope
from optsched.solve.cpsat.hints import assignment_of
from optsched.solve.cpsat.stages import Stages
from optsched.solve.exact import ExactModel, stage_rows, through
from optsched.solve.goals import tie_value
from optsched.solve.greedy import greedy
from optsched.solve.result import Budget, Result, Spent
from optsched.values.profile import PriorityMode
from tests.oracle.rounds import tiny_holds, tiny_round
from tests.solve.test_agreement import with_holds
from tests.solve.twins import both


def tiny(seed: int) -> Problem:
    """A tiny round; every second one has holds."""
    problem, round_ = both(tiny_round(seed))
    if seed % 2:
        round_.holds = tuple(tiny_holds(seed, round_))
        problem = with_holds(problem, round_)
    return problem


def base(problem: Problem) -> Assignment:
    """The greedy plan, or none where it is not valid."""
    found = greedy(problem)
    return NO_CHANGE if check(problem, found) else found


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


def allowed_by(admission: Admission, plan: Assignment) -> bool:
    """Whether admission has a solution that decides as the plan does.

    It has the same ranks, a tie and a worth that are no lower, and a bill that is no higher. Of jobs alike the plan may
    have taken any.
    """
    problem, groups = admission.problem, admission.groups
    weighted_sum, bill = admission.worth(), admission.full.bill
    model = admission.model.clone()
    for fact in admission.facts:
        model.add(fact >= 0)
    changes = flow_of(problem, plan).changes
    decided = {
        Change.START: {job.index for group in groups.starts for job in group.jobs},
        Change.STOP: set(groups.stop_of),
        Change.MOVE: groups.scope.moves,
        Change.SHRINK: {resize.job.index for resize in groups.resizes},
        Change.GROW: {resize.job.index for resize in groups.resizes},
    }
    if any(j not in decided[change] for j, change in changes.items()):
        return False
    for variable, value in _decisions(admission, plan):
        model.add(variable == value)
    worth = score(problem, plan)
    for row in stage_rows(problem):
        reached = through(worth.rows, row, len(problem.priorities))
        model.add(admission.ladder.stage(row, len(problem.priorities)) - reached == _nothing(model))
    model.add(admission.tie() - tie_value(problem, worth) >= _nothing(model))
    model.add(bill - worth.costs.total <= _nothing(model))
    model.add(weighted_sum - worth.weighted >= _nothing(model))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = 5.0
    return bool(solver.solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE))


def _nothing(model: cp_model.CpModel) -> cp_model.IntVar:
    """A variable that is 0: it makes a comparison of two plain numbers a constraint."""
    return model.new_constant(0)


def _decisions(admission: Admission, plan: Assignment) -> Iterator[tuple[cp_model.LinearExprT, int]]:
    """What admission's variables are in a plan; the auxiliary ones are left free."""
    problem, groups = admission.problem, admission.groups

    def gpu_type(job: RoundJob) -> int:
        return gpu_type_of(problem, plan.after(job))

    for starts in groups.starts:
        started = [job for job in starts.jobs if job.index in plan.changed]
        yield starts.count, len(started)
        for y, variable in starts.by_type.items():
            here = [job for job in started if gpu_type(job) == y]
            yield variable, len(here)
            if starts.extra is not None:
                yield starts.step * starts.extra[y][0], sum(size_of(plan.after(job)) - job.minimum for job in here)
    for stops in groups.stops:
        yield stops.count, sum(job.index in plan.stopped for job in stops.jobs)
    for resize in groups.resizes:
        job = resize.job
        more = 0
        if job.index in plan.changed and change_of(job, plan.after(job)) is not Change.MOVE:
            more = size_of(plan.after(job)) - job.size_now
        yield resize.active, int(more != 0)
        yield resize.step * resize.lost, max(0, -more)
        yield resize.step * resize.gained, max(0, more)
    for retyping in groups.retypings:
        running = [job for job in retyping.jobs if job.index not in plan.stopped]
        for y, variable in retyping.to.items():
            yield variable, sum(gpu_type(job) == y for job in running)


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
