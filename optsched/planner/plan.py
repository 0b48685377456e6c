"""`plan_round`: the front door of a round. Snapshot in, plan out; the same inputs give the same plan."""

from __future__ import annotations

import dataclasses
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

from optsched.clock import Clock
from optsched.errors import UsageError
from optsched.planner.advice import Proof
from optsched.planner.assemble import assemble
from optsched.planner.explain import explain_waiting, untold_waiting
from optsched.planner.forecast import Reserved
from optsched.planner.memory import Memory, remembered
from optsched.planner.reservations import delayers, kept_clear, reserve
from optsched.planner.window import Beyond, Kinds, beyond_waiting, in_window
from optsched.rounds.assignment import Assignment
from optsched.rounds.build import build_problem
from optsched.rounds.check import check
from optsched.rounds.facts import Facts
from optsched.rounds.problem import Problem, RoundJob
from optsched.solve.coarse import EXACT_NODES
from optsched.solve.further import goes_further, starts_in_turn
from optsched.solve.greedy import greedy
from optsched.solve.ladder import Answer, SolverChoice, climb
from optsched.solve.result import Budget, Result
from optsched.topology.tree import Tree
from optsched.values.ids import JobId
from optsched.values.plan import Move, Plan, Preemption, Source, Start, Waiting
from optsched.values.snapshot import Snapshot

Progress = Callable[[str, float], None]


def silent(stage: str, fraction: float) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How to plan. `budget_s` (None: the profile's) bounds the search by the clock, `deterministic_s` by counted work.

    With `deterministic_s` and a budget that does not run out, the same snapshot and seed give the same plan. `tasks`
    adds every task's rank, node, GPUs and slice. `prove` bounds how many waiting jobs have their advice proven by
    planning again. Without `reasons` nobody is told why a job waits that could run: what is planned is the same.
    `bound_every`: of large rounds that follow one another about one in so many, drawn by its instant, has its gap
    worked out; the others say nothing of theirs.
    """

    budget_s: float | None = None
    solver: SolverChoice = SolverChoice.AUTO
    seed: int = 0
    deterministic_s: float | None = None
    tasks: bool = False
    prove: int = 20
    reasons: bool = True
    bound_every: int = 1


@dataclass(frozen=True, slots=True)
class Solved:
    """A round as it was solved, before it is put into words; `beyond` are queued jobs that it did not look at.

    `settled` is as in `Plan`.
    """

    problem: Problem
    beyond: Beyond
    reserved: tuple[Reserved, ...]
    answer: Answer
    wall_s: float
    settled: bool


PROVE_SHARE = 0.25
"""Advice to waiting jobs is proven for this share of the budget after the search ..."""

LEAST_PROVE_S = 0.25
"""... and for this many seconds more."""


MOST_KEPT_OFF = 2
"""So often a round is searched anew because jobs would take what is planned for others ahead of them."""


def _budget_s(snapshot: Snapshot, options: PlanOptions) -> float:
    """Return the seconds that a search may take."""
    return snapshot.profile.budget_s if options.budget_s is None else options.budget_s


def solve_round(
    snapshot: Snapshot,
    options: PlanOptions,
    clock: Clock,
    progress: Progress = silent,
    tree: Tree | None = None,
    turn: int | None = None,
    wanted: JobId | None = None,
    facts: Facts | None = None,
    kinds: Kinds | None = None,
    *,
    whole: bool = True,
) -> Solved:
    """Build and solve a round: entitlements, order, reservations, greedy, search, check.

    `turn` is given where rounds follow one another closely; see `Budget`. Of a long queue they look at a window only,
    which `wanted` is in; so does the first of them, for which it is not `whole`. `tree` and `facts` are as in
    `build_problem`, `kinds` as in `in_window`.
    """
    started = clock.monotonic_s()
    progress("reading the round", 0.0)
    snapshot, beyond = (snapshot, Beyond()) if whole and turn is None else in_window(snapshot, wanted, kinds)
    problem = build_problem(snapshot, tree, facts)
    eased = _nothing_due(problem)
    first = greedy(eased)
    # Where it leaves the holds alone it stands: the climb checks it, and plans anew if it does not.
    base = first if eased is problem else None
    problem, reserved = reserve(problem, first)
    held = problem
    if reserved:
        problem, base = _settled(kept_clear(problem, reserved), reserved, base)
    budget_s = _budget_s(snapshot, options)
    left = max(0.0, budget_s - (clock.monotonic_s() - started)) if budget_s > 0 else 0.0
    bounds = turn is None or _is_drawn(snapshot.now, options.bound_every)
    budget = Budget(left, options.deterministic_s, options.seed, turn=turn, bounds=bounds)

    def guard(given: Problem, plan: Assignment) -> Problem | None:
        late = delayers(given, reserved, plan)
        return _kept_off(given, late) if late else None

    # Rounds that follow one another closely have no time for another go.
    answer = climb(problem, options.solver, budget, clock, progress, base, None if turn is None else guard)
    for _ in range(MOST_KEPT_OFF):
        late = delayers(problem, reserved, answer.assignment)
        if not late:
            break
        problem = _kept_off(problem, late)
        left = max(0.0, budget_s - (clock.monotonic_s() - started)) if budget_s > 0 else 0.0
        answer = climb(problem, options.solver, dataclasses.replace(budget, wall_s=left), clock, progress)
    # What a search finds the next time is not known before.
    settled = options.solver is SolverChoice.GREEDY and not beyond.kinds and _settles(held, problem, reserved, answer)
    if beyond.kinds:
        answer = _unproven(answer)
    return Solved(problem, beyond, reserved, answer, clock.monotonic_s() - started, settled)


def _settles(held: Problem, problem: Problem, reserved: Sequence[Reserved], answer: Answer) -> bool:
    """Return whether another greedy round at the same instant could do nothing with this plan in force.

    `held` is the problem with its holds, before anybody was kept clear of what is planned for others: where one of
    these starts, nobody is kept clear of that any more. Of a plan that takes from nobody it is not asked: no other
    round is due after one.
    """
    plan, now = answer.assignment, problem.snapshot.now
    if not plan.stopped and all(j >= problem.first_queued for j in plan.changed):
        return False
    waiting = [each for each in reserved if each.job.index not in plan.changed]
    ready = [each.job for each in waiting if each.start_at is not None and each.start_at <= now]
    return not goes_further(problem if len(waiting) == len(reserved) else kept_clear(held, waiting), plan, ready)


def _is_drawn(instant: float, every: int) -> bool:
    """Return whether an instant is one of those drawn: about one in so many, whatever their distance."""
    return zlib.crc32(struct.pack("<d", instant)) % every == 0


def _unproven(answer: Answer) -> Answer:
    """Return the answer of a round that did not look at the whole queue: what is proven of a part is not of all."""
    result = Result(answer.assignment, deterministic_s=answer.result.deterministic_s)
    return dataclasses.replace(answer, result=result, why=f"{answer.why}; of a long queue only a window was looked at")


def _settled(
    problem: Problem, reserved: Sequence[Reserved], base: Assignment | None
) -> tuple[Problem, Assignment | None]:
    """Return the problem in which the greedy plan puts off no reservation, and that plan.

    The search starts from it, and mostly needs no second go.
    """
    for _ in range(MOST_KEPT_OFF):
        if base is None or check(problem, base):
            base = greedy(problem)
        late = delayers(problem, reserved, base)
        if not late:
            break
        problem, base = _kept_off(problem, late), None
    return problem, base


def _kept_off(problem: Problem, late: Mapping[int, Set[int]]) -> Problem:
    """Return the problem with some jobs kept off nodes, on which others count that are ahead of them."""
    kept: dict[int, RoundJob] = {}
    for j, nodes in late.items():
        allowed = problem.jobs[j].nodes.copy()
        allowed[list(nodes)] = False
        kept[j] = dataclasses.replace(problem.jobs[j], nodes=allowed)
    return dataclasses.replace(problem, jobs=problem.jobs.replaced(kept))


def _nothing_due(problem: Problem) -> Problem:
    """Return the problem as if no deadline were due: one that a reservation still meets displaces nobody."""
    eased = {job.index: dataclasses.replace(job, due=False) for job in problem.queued if job.due}
    return dataclasses.replace(problem, jobs=problem.jobs.replaced(eased)) if eased else problem


def prover(options: PlanOptions, clock: Clock, within_s: float) -> Proof:
    """Return what proves advice: plan again and see whether the job runs; nothing is proven once time is up."""
    until = clock.monotonic_s() + within_s

    def proof(snapshot: Snapshot, job_id: JobId) -> bool:
        left = until - clock.monotonic_s()
        if left <= 0:
            return False
        budget_s = min(_budget_s(snapshot, options), left)
        solved = solve_round(snapshot, dataclasses.replace(options, budget_s=budget_s), clock, wanted=job_id)
        return any(solved.problem.jobs[j].job.id == job_id for j in solved.answer.assignment.changed)

    return proof


def plan_round(
    snapshot: Snapshot, options: PlanOptions, clock: Clock, progress: Progress = silent, tree: Tree | None = None
) -> Plan:
    """Plan one round: what starts where, who is stopped, who waits and why, the bill and the bound.

    Raises InternalError only for bugs: a plan that goes out has passed the checker.
    """
    started = clock.monotonic_s()
    solved = solve_round(snapshot, options, clock, progress, tree)
    return _worded(snapshot, options, clock, progress, solved, started)


def plan_next(
    snapshot: Snapshot, options: PlanOptions, clock: Clock, memory: Memory | None, progress: Progress = silent
) -> tuple[Plan, Memory]:
    """Plan a round that follows another one closely, and return with it what the next is to know.

    Without a memory it is the first, which is planned like any single round, but for the window of a long queue: it has
    no more time than the others. Of large rounds at one instant only the first is searched: what follows is about what
    stopped jobs left over, for which greedy will do.
    """
    started = clock.monotonic_s()
    known = remembered(memory, snapshot.cluster)
    turn = None if memory is None else memory.turn
    if known.searched_at == snapshot.now and len(snapshot.cluster.nodes) > EXACT_NODES:
        options = dataclasses.replace(options, solver=SolverChoice.GREEDY)
    solved = solve_round(
        snapshot, options, clock, progress, known.tree, turn, facts=known.facts, kinds=known.kinds, whole=False
    )
    if options.solver is not SolverChoice.GREEDY:
        known = known.after_search(snapshot.now, better=solved.answer.source is Source.CP_SAT)
    return _worded(snapshot, options, clock, progress, solved, started), known


def may_start(snapshot: Snapshot, job_id: JobId, memory: Memory | None) -> bool:
    """Return whether a greedy round would start a queued job in free room if nothing were reserved for anybody."""
    known = remembered(memory, snapshot.cluster)
    seen, _ = in_window(snapshot, job_id, known.kinds)
    problem = _nothing_due(build_problem(seen, known.tree, known.facts))
    return any(job.job.id == job_id and starts_in_turn(problem, job) for job in problem.queued)


def _worded(
    snapshot: Snapshot, options: PlanOptions, clock: Clock, progress: Progress, solved: Solved, started: float
) -> Plan:
    """Return the plan of a solved round: who waits and why, names, costs."""
    progress("explaining", 0.9)
    waiting = _waiting(snapshot, options, clock, solved)
    waiting += beyond_waiting(solved.beyond, waiting)
    plan = assemble(solved.problem, solved.reserved, solved.answer, waiting, with_tasks=options.tasks)
    progress("done", 1.0)
    queued = plan.round.queued + solved.beyond.count
    info = dataclasses.replace(plan.round, queued=queued, wall_s=clock.monotonic_s() - started)
    return dataclasses.replace(plan, round=info, settled=solved.settled)


def _waiting(snapshot: Snapshot, options: PlanOptions, clock: Clock, solved: Solved) -> tuple[Waiting, ...]:
    """Return which of the jobs that were looked at wait, and why if reasons are asked for."""
    if not options.reasons:
        return untold_waiting(solved.problem, solved.answer.assignment)
    prove = options.prove if len(snapshot.cluster.nodes) <= EXACT_NODES else 0
    proof = prover(options, clock, PROVE_SHARE * _budget_s(snapshot, options) + LEAST_PROVE_S)
    return explain_waiting(solved.problem, solved.reserved, solved.answer.assignment, proof, prove)


Fate = Waiting | Start | Preemption | Move | None
"""What a round does with one job: it waits, starts, is stopped, moves or changes size; None: it runs on as it is."""


def explain_job(snapshot: Snapshot, job_id: JobId, options: PlanOptions, clock: Clock) -> Fate:
    """Say what the next round does with one job; if it waits, why, and what is proven to let it start.

    Raises UsageError for a job that the snapshot does not have.
    """
    if all(job.id != job_id for job in snapshot.jobs):
        raise UsageError(f"no job is called {job_id}")
    solved = solve_round(snapshot, options, clock, wanted=job_id)
    assignment = solved.answer.assignment
    proof = prover(options, clock, 3 * _budget_s(snapshot, options) + LEAST_PROVE_S)
    waiting = explain_waiting(solved.problem, solved.reserved, assignment, proof, 1, only=job_id)
    plan = assemble(solved.problem, solved.reserved, solved.answer, waiting, with_tasks=options.tasks)
    entries: list[Fate] = [*plan.queued, *plan.starts, *plan.preemptions, *plan.migrations, *plan.resizes]
    return next((entry for entry in entries if entry is not None and entry.job == job_id), None)
