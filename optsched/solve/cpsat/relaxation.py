"""Bounds without a search: the linear relaxation of a model, solved by the simplex method goal after goal.

Each goal starts from the basis of the one before, which takes a few milliseconds. What the simplex method says is not
trusted: its multipliers, whatever they are, prove a bound in whole numbers (section 5 of the formulation).
"""

from __future__ import annotations

import math

import numpy as np
from ortools.linear_solver import pywraplp

from optsched.rounds.problem import Ints
from optsched.solve.cpsat.box import Box, Rows, narrowed
from optsched.solve.cpsat.recorded import Goal

MOST_STEPS = 20_000
"""How many steps of the simplex method one goal may take; a bound follows from wherever it stops."""

FINEST = 32
"""Multipliers are rounded to this many binary digits, to fewer where sums could overflow."""

LARGEST = 2.0**61
"""No sum of the proof may exceed this."""

INCREMENTALITY_OFF = 0
"""What the linear solver calls starting anew."""


class Relaxation:
    """The rows and ranges of a box, without whole numbers; goals are kept where their values are known."""

    def __init__(self, box: Box) -> None:
        self._low, self._high = self._range = box.low, box.high
        self._narrow = False
        self._solver = solver = pywraplp.Solver.CreateSolver("GLOP")
        solver.SetSolverSpecificParametersAsString(f"max_number_of_iterations: {MOST_STEPS}")
        limits = zip(box.low.tolist(), box.high.tolist(), strict=True)
        self._variables = [solver.NumVar(low, high, "") for low, high in limits]
        self._constraints = [solver.Constraint(-solver.infinity(), most) for most in box.rows.most.tolist()]
        terms = zip(box.rows.row.tolist(), box.rows.variable.tolist(), box.rows.factor.tolist(), strict=True)
        for row, variable, factor in terms:
            self._constraints[row].SetCoefficient(self._variables[variable], factor)
        self._given = box.rows
        self._row, self._variable, self._factor, _, self._most = box.rows

    def forget(self) -> None:
        """Drop all that was kept."""
        for constraint in self._constraints[len(self._given.most) :]:
            constraint.Clear()
            constraint.SetUb(self._solver.infinity())
        del self._constraints[len(self._given.most) :]
        self._row, self._variable, self._factor, _, self._most = self._given
        self._set_ranges(*self._range)
        self._narrow = False

    def keep(self, goal: Goal, least: int, most: int | None = None) -> None:
        """Add that a goal is at least, and maybe at most, so much."""
        self._add(goal.negated(), -least)
        if most is not None:
            self._add(goal, most)

    def most(self, goal: Goal, enough: int | None = None) -> int:
        """Return what a goal cannot exceed; a bound of `enough` need not be better."""
        self._narrow_ranges()
        # The ranges alone are a proof as well.
        found = self._proven(goal, np.zeros(len(self._constraints)))
        if enough is not None and goal.constant + found <= enough:
            return goal.constant + found
        objective = self._solver.Objective()
        objective.Clear()
        for variable, factor in zip(goal.variables.tolist(), goal.factors.tolist(), strict=True):
            objective.SetCoefficient(self._variables[variable], factor)
        objective.SetMaximization()
        solved = self._solver.Solve() == pywraplp.Solver.OPTIMAL
        if not solved:
            # From the last basis it may get lost in rounding errors; then it starts anew.
            anew = pywraplp.MPSolverParameters()
            anew.SetIntegerParam(pywraplp.MPSolverParameters.INCREMENTALITY, INCREMENTALITY_OFF)
            solved = self._solver.Solve(anew) == pywraplp.Solver.OPTIMAL
        if solved:
            multipliers = np.array([each.dual_value() for each in self._constraints], dtype=np.float64)
            multipliers = np.where(np.isfinite(multipliers), np.maximum(multipliers, 0.0), 0.0)
            found = min(found, self._proven(goal, multipliers))
        return goal.constant + found

    def least(self, goal: Goal) -> int:
        """Return what a goal cannot fall short of."""
        return -self.most(goal.negated())

    def _narrow_ranges(self) -> None:
        """Narrow the ranges by what was kept since the last time: a job of which not all may go then stays whole."""
        if not self._narrow:
            return
        self._narrow = False
        starts = np.searchsorted(self._row, np.arange(len(self._most)))
        rows = Rows(self._row, self._variable, self._factor, starts, self._most)
        found = narrowed(rows, self._low, self._high)
        if found is not None:
            self._set_ranges(*found)

    def _set_ranges(self, low: Ints, high: Ints) -> None:
        for variable in np.flatnonzero((low != self._low) | (high != self._high)).tolist():
            self._variables[variable].SetBounds(float(low[variable]), float(high[variable]))
        self._low, self._high = low, high

    def _add(self, goal: Goal, most: int) -> None:
        """Add a row: the goal is at most so much."""
        if not len(goal.variables):
            return
        self._narrow = True
        constraint = self._solver.Constraint(-self._solver.infinity(), most - goal.constant)
        for variable, factor in zip(goal.variables.tolist(), goal.factors.tolist(), strict=True):
            constraint.SetCoefficient(self._variables[variable], factor)
        number = len(self._constraints)
        self._constraints.append(constraint)
        self._row = np.append(self._row, np.full(len(goal.variables), number))
        self._variable = np.append(self._variable, goal.variables)
        self._factor = np.append(self._factor, goal.factors)
        self._most = np.append(self._most, most - goal.constant)

    def _proven(self, goal: Goal, multipliers: np.ndarray[tuple[int], np.dtype[np.float64]]) -> int:
        """Return the bound that multipliers of the rows prove, for a goal without its constant.

        Multipliers y >= 0 of the rows A x <= b give c x <= y b + (c - y A) x <= y b + the most of (c - y A) x in the
        ranges. All in whole numbers, y in parts of a power of two.
        """
        used = multipliers[self._row] * np.abs(self._factor)
        reach = np.maximum(np.abs(self._low), np.abs(self._high)).astype(np.float64)
        size = float((multipliers * np.abs(self._most)).sum() + (used * reach[self._variable]).sum())
        size += float((np.abs(goal.factors) * reach[goal.variables]).sum()) + 1.0
        digits = min(FINEST, math.floor(math.log2(LARGEST / size)))
        if digits < 0:
            return 1 << 62
        whole = np.floor(multipliers * 2.0**digits).astype(np.int64)
        rest = np.zeros(len(self._low), dtype=np.int64)
        np.add.at(rest, goal.variables, goal.factors << digits)
        np.subtract.at(rest, self._variable, whole[self._row] * self._factor)
        most = int((whole * self._most).sum()) + int(np.where(rest > 0, rest * self._high, rest * self._low).sum())
        return most >> digits
