"""Running CP-SAT: one objective after another on one model, each fixed before the next, inside one budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from ortools.sat.python import cp_model
from ortools.sat.python.cp_model import (
    CpModel,
    CpSolver,
    CpSolverSolutionCallback,
)

from optsched.errors import SolverFailed
from optsched.solve.cpsat.terms import Linear
from optsched.solve.result import Spent

SUBSOLVERS = ("max_lp", "default_lp")
"""What two workers do: both lean on the linear relaxation.

The sums of these models make it tight: several times as fast here.
"""

LARGEST_SUM = 1 << 44
"""Objectives are searched together while their sum stays below this: larger coefficients slow the search down."""

LEAST_ASK_S = 0.3
"""Less time than this, in seconds, tells nothing about a question."""

LARGEST_LEAN_SUM = 1 << 28
"""The same for models that live off their linear relaxation, which large coefficients make inexact."""

LIGHT_ROWS = 2500
"""Lean models with fewer constraints are solved in less time than it takes to presolve them, where rounds are brief."""


@dataclass(frozen=True, slots=True)
class StageResult:
    """The value reached (None: no solution in time), the bound that no solution passes, and whether they meet."""

    value: int | None
    bound: int
    optimal: bool


class Stages:
    """Solves stage after stage; the last solution found is the hint of the next stage and the answer in the end.

    `lean`: the model is small and tight. Presolving it thoroughly takes longer than solving it, and one worker that
    leans on the linear relaxation is as fast as two of them. A model that may never be searched can be given as what
    makes it.
    """

    def __init__(self, model: CpModel | Callable[[], CpModel], spent: Spent, *, lean: bool = False) -> None:
        self._given, self.spent, self.lean = model, spent, lean
        self._made: CpModel | None = None if callable(model) else model
        self._kept: list[tuple[Linear, int]] = []
        self.solution: list[int] | None = None
        self.seed = spent.budget.seed

    @property
    def model(self) -> CpModel:
        """The model, with all that is kept."""
        if self._made is None:
            assert callable(self._given)
            self._made = self._given()
        for linear, least in self._kept:
            self._made.add(linear >= least)
        self._kept.clear()
        return self._made

    def keep(self, linear: Linear, least: int) -> None:
        """Add that an expression is at least so much."""
        if not isinstance(linear, int):
            self._kept.append((linear, least))

    def maximize(self, objective: Linear, share: float, most: int | None = None) -> StageResult:
        """Maximise within `share` (0..1] of what is left of the budget; where `most` is reached nothing is searched."""
        if most is not None and self.solution is not None and self.value(objective) >= most:
            return StageResult(self.value(objective), self.value(objective), True)
        return self._run(objective, share, maximize=True)

    def maximize_in_order(
        self, objectives: Sequence[Linear], most: int, share: float, ceiling: Sequence[int] = ()
    ) -> list[StageResult]:
        """Maximise several objectives, each fixed before the next, in as few searches as possible; fixes all of them.

        No objective can exceed `most`; where it is reached nothing is searched. `ceiling` gives values, one for each
        objective, that no solution exceeds in this order (a later one may be exceeded where an earlier one is missed):
        a search stops there.
        """
        keys = [index if isinstance(each, int) else id(each) for index, each in enumerate(objectives)]
        distinct = dict(zip(keys, objectives, strict=True))
        found = self._in_order([*distinct.values()], most, share, ceiling if len(distinct) == len(keys) else ())
        known = dict(zip(distinct, found, strict=False))
        results = []
        for key in keys:
            if key not in known:
                break
            results.append(known[key])
        return results

    def _in_order(
        self, objectives: Sequence[Linear], most: int, share: float, ceiling: Sequence[int]
    ) -> list[StageResult]:
        results: list[StageResult] = []
        capped = len(ceiling) >= len(objectives)
        position = 0
        while position < len(objectives):
            group = self._group(objectives[position:], most)
            if self.solution is not None and all(self.value(each) >= most for each in group):
                results += [StageResult(most, most, True) for _ in group]
                self._keep(group, [most] * len(group))
                position += len(group)
                continue
            together: Linear = 0
            cap, missed = 0, not capped
            for index, objective in enumerate(group, position):
                if isinstance(objective, int):
                    missed = missed or objective < ceiling[index]
                    continue
                together = (most + 1) * together + objective
                cap = (most + 1) * cap + (most if missed else ceiling[index])
            if capped and not isinstance(together, int):
                self.model.add(together <= cap)
            found = self._run(together, share, maximize=True, enough=cap if capped else None)
            if found.value is None:
                return results
            results += self._apart(group, found, most)
            values = [self.value(objective) for objective in group]
            self._keep(group, values)
            capped = capped and values == list(ceiling[position : position + len(group)])
            position += len(group)
        return results

    def _keep(self, objectives: Sequence[Linear], values: Sequence[int]) -> None:
        """Add that what was reached is kept."""
        for objective, value in zip(objectives, values, strict=True):
            self.keep(objective, value)

    def _apart(self, group: Sequence[Linear], found: StageResult, most: int) -> list[StageResult]:
        """Read values and bounds of single objectives off the search for their weighted sum.

        The first of them is bounded by its digits of the sum's bound; a later one too, while those before it are at
        their bounds.
        """
        scale = (most + 1) ** sum(not isinstance(objective, int) for objective in group)
        left, closed = found.bound, True
        results = []
        for objective in group:
            value = self.value(objective)
            if isinstance(objective, int):
                results.append(StageResult(value, value, True))
                continue
            scale //= most + 1
            bound = max(value, min(most, left // scale)) if closed else most
            left -= value * scale
            results.append(StageResult(value, bound, closed and bound == value))
            closed = closed and bound == value
        return results

    def _group(self, objectives: Sequence[Linear], most: int) -> list[Linear]:
        """Return the first objectives that fit in one sum without overflow; a plain number costs nothing."""
        group: list[Linear] = []
        room = LARGEST_LEAN_SUM if self.lean else LARGEST_SUM
        for objective in objectives:
            if room <= most + 1:
                break
            group.append(objective)
            if not isinstance(objective, int):
                room //= most + 1
        return group or [objectives[0]]

    def _solver_for(self, share: float) -> CpSolver:
        """Return a solver with the parameters of `share` of what is left of the budget."""
        spent, model = self.spent, self.model
        solver = CpSolver()
        parameters = solver.parameters
        parameters.random_seed = self.seed
        parameters.catch_sigint_signal = False
        parameters.num_workers = spent.budget.workers
        parameters.max_time_in_seconds = max(0.01, spent.wall_left_s * share)
        if self.lean:
            parameters.num_workers = 1
            parameters.cp_model_probing_level = 0
            parameters.symmetry_level = 0
            parameters.max_presolve_iterations = 1
            if spent.budget.turn is not None and len(model.proto.constraints) < LIGHT_ROWS:
                parameters.cp_model_presolve = False
                parameters.use_sat_inprocessing = False
        left = spent.deterministic_left_s
        if left is not None:
            parameters.max_deterministic_time = max(1e-6, left * share)
            parameters.num_workers = 1
        if parameters.num_workers == len(SUBSOLVERS):
            parameters.subsolvers.extend(SUBSOLVERS)
        else:
            parameters.linearization_level = 2
        return solver

    def minimize_anew(self, objective: Linear, share: float, slack: int = 0) -> StageResult:
        """Minimise again by another path: among equally good solutions likely another one."""
        self.seed += 1
        self.solution = None
        self.model.clear_hints()  # type: ignore[no-untyped-call]
        return self.minimize(objective, share, slack)

    def minimize(self, objective: Linear, share: float, slack: int = 0) -> StageResult:
        """Minimise within `share` (0..1] of what is left of the budget, or until no more than `slack` is open."""
        return self._run(objective, share, maximize=False, slack=slack)

    def value(self, expression: Linear) -> int:
        """Return an expression's value in the last solution."""
        return expression if isinstance(expression, int) else int(self._solver.value(expression))

    def _run(
        self, objective: Linear, share: float, *, maximize: bool, enough: int | None = None, slack: int = 0
    ) -> StageResult:
        if isinstance(objective, int):
            return StageResult(objective, objective, True)
        model, spent = self.model, self.spent
        if self.solution is not None:
            model.clear_hints()  # type: ignore[no-untyped-call]
            hint = model.proto.solution_hint
            hint.vars.extend(range(len(self.solution)))
            hint.values.extend(self.solution)
        (model.maximize if maximize else model.minimize)(objective)
        solver = self._solver_for(share)
        solver.parameters.absolute_gap_limit = slack
        status = solver.solve(model) if enough is None else solver.solve(model, _StopAt(enough))
        spent.deterministic_s += solver.response_proto.deterministic_time
        if status in (cp_model.INFEASIBLE, cp_model.MODEL_INVALID):
            raise SolverFailed(f"CP-SAT says {solver.status_name(status)}: {model.validate()[:200]}")
        worst = 2**62 if maximize else -(2**62)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            # Without a solution the solver's bound may be one that it has not begun to work out.
            return StageResult(None, worst, False)
        self._solver = solver
        self.solution = list(solver.response_proto.solution)
        bound = _whole(solver.best_objective_bound, worst, maximize=maximize)
        value = round(solver.objective_value)
        if enough is not None and value >= enough:
            return StageResult(value, value, True)
        # Within the slack the solver calls optimal what may not be.
        optimal = status == cp_model.OPTIMAL and (not slack or bound == value)
        return StageResult(value, value if optimal else bound, optimal)


class _StopAt(CpSolverSolutionCallback):
    """Ends a maximisation when a solution is as good as is known to be possible."""

    def __init__(self, enough: int) -> None:
        super().__init__()
        self._enough = enough

    def on_solution_callback(self) -> None:
        """Look at a new solution."""
        if round(self.objective_value) >= self._enough:
            self.stop_search()


@dataclass(frozen=True, slots=True)
class Ask:
    """One objective of one model, to be bounded; `key` is whatever the asker knows it by."""

    key: int
    model: CpModel
    objective: Linear
    maximize: bool


def solve_all(asks: Sequence[Ask], spent: Spent) -> list[tuple[int, StageResult]]:
    """Return what is found out about independent questions within what is left of the budget, the first ones first.

    As many at once as there are workers, each by one of them; the solver works outside the interpreter's lock. Who
    is asked when nearly nothing is left gets no answer.
    """
    if not asks:
        return []
    workers = max(1, spent.budget.workers)
    rounds = -(-len(asks) // workers)
    left = spent.deterministic_left_s
    each = replace(
        spent.budget, workers=1, deterministic_s=None if left is None else left / len(asks), wall_s=spent.wall_left_s
    )

    def answer(number: int) -> tuple[StageResult | None, float]:
        ask, left_s = asks[number], spent.wall_left_s
        if left_s < LEAST_ASK_S / 2:
            return None, 0.0
        # Who is asked later has what those before left over.
        wall_s = max(left_s / max(1, rounds - number // workers), min(left_s, LEAST_ASK_S))
        own = Spent(replace(each, wall_s=wall_s), spent.clock)
        stages = Stages(ask.model, own, lean=True)
        found = stages.maximize(ask.objective, 1.0) if ask.maximize else stages.minimize(ask.objective, 1.0)
        return found, own.deterministic_s

    with ThreadPoolExecutor(workers) as pool:
        answers = list(pool.map(answer, range(len(asks))))
    spent.deterministic_s += sum(deterministic_s for _, deterministic_s in answers)
    return [(ask.key, result) for ask, (result, _) in zip(asks, answers, strict=True) if result is not None]


def known(bound: int) -> int | None:
    """Return a bound, or None where a search ended before it had one."""
    return bound if abs(bound) < 2**61 else None


def _whole(bound: float, worst: int, *, maximize: bool) -> int:
    """Return a bound as a whole number, rounded to the safe side."""
    if not math.isfinite(bound) or abs(bound) > 2**61:
        return worst
    return math.floor(bound + 1e-6) if maximize else math.ceil(bound - 1e-6)
