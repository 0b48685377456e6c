"""The linear relaxation of a model: bounds in hundredths of a second where a search takes seconds."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from ortools.linear_solver import pywraplp
from ortools.sat.python.cp_model import CpModel

from optsched.rounds.problem import Ints
from optsched.solve.cpsat.terms import Linear

Floats = NDArray[np.float64]

SLACK, PRECISION = 1e-6, 1e-12
"""What is added to a bound against rounding before it is rounded down: as it is, and of each of its parts."""

LARGEST_ROW = 1e9
"""Rows with larger numbers narrow nothing: what they leave is not known to a whole number."""


NARROWINGS = 3
"""How often all rows narrow the ranges of the variables in them."""


class Relaxation:
    """Bounds sums over a model as if its variables need not be whole: linear rows and at-most-ones, the rest left out.

    A bound is worked out from the multipliers that the linear solver ends with, and holds whatever they are.
    """

    def __init__(self, model: CpModel) -> None:
        self._model = model.clone()
        domains = [list(variable.domain) for variable in self._model.proto.variables]
        self._least = np.array([domain[0] for domain in domains], dtype=np.float64)
        self._most = np.array([domain[-1] for domain in domains], dtype=np.float64)
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        ranges = zip(self._least.tolist(), self._most.tolist(), strict=True)
        self._variables = [self._solver.NumVar(low, high, "") for low, high in ranges]
        self._rows: list[object] = []
        self._low: list[float] = []
        self._high: list[float] = []
        self._row: list[int] = []
        self._column: list[int] = []
        self._factor: list[float] = []
        self._multipliers: Floats = np.zeros(0)
        for constraint in self._model.proto.constraints:
            enforced = list(constraint.enforcement_literal)
            if constraint.has_linear():
                linear = constraint.linear
                domain = list(linear.domain)
                self._add(list(linear.vars), list(linear.coeffs), domain[0], domain[-1], enforced)
            elif constraint.has_at_most_one() and not enforced:
                literals = list(constraint.at_most_one.literals)
                self._add(literals, [1] * len(literals), 0, 1, [])

    def fix(self, goal: Linear, value: int) -> None:
        """Add that a sum has this value."""
        if not isinstance(goal, int):
            columns, factors, offset = self._terms(goal)
            self._add_row(columns, factors, value - offset, value - offset)

    def most(self, goal: Linear) -> int:
        """Return a number that the sum cannot exceed."""
        if isinstance(goal, int):
            return goal
        columns, factors, offset = self._terms(goal)
        self._narrow()
        objective = self._solver.Objective()
        objective.Clear()
        for column, factor in zip(columns, factors, strict=True):
            objective.SetCoefficient(self._variables[column], factor)
        objective.SetMaximization()
        multipliers = np.zeros(len(self._rows))
        multipliers[: len(self._multipliers)] = self._multipliers
        if self._solver.Solve() == pywraplp.Solver.OPTIMAL:
            multipliers = np.array([row.dual_value() for row in self._rows])  # type: ignore[attr-defined]
        self._multipliers = multipliers
        return offset + math.floor(self._bound(columns, factors, multipliers))

    def _narrow(self) -> None:
        """Narrow the variables' ranges: what a row leaves for one, the others being at their best, in whole numbers."""
        row, column, factor, low, high = self._matrix()
        least, most = self._least.copy(), self._most.copy()
        reach = np.abs(factor) * np.maximum(np.abs(least), np.abs(most))[column]
        small = (np.bincount(row, reach, len(low)) < LARGEST_ROW)[row]
        row, column, factor = row[small], column[small], factor[small]
        for _ in range(NARROWINGS):
            for sign, side in ((1.0, high), (-1.0, -low)):
                each = sign * factor
                lowest = np.where(each > 0, each * least[column], each * most[column])
                left = (side - np.bincount(row, lowest, len(side)))[row]
                bound = left < np.inf
                steps = np.floor(left[bound] / np.abs(each[bound]) + SLACK)
                up, at = each[bound] > 0, column[bound]
                np.minimum.at(most, at[up], least[at[up]] + steps[up])
                np.maximum.at(least, at[~up], most[at[~up]] - steps[~up])
        changed = np.flatnonzero((least > self._least) | (most < self._most))
        for index in changed.tolist():
            self._variables[index].SetBounds(float(least[index]), float(most[index]))
        self._least, self._most = least, most

    def _matrix(self) -> tuple[Ints, Ints, Floats, Floats, Floats]:
        """Return row, column and factor of all that is not zero, and the least and most of each row."""
        row, column = np.array(self._row, dtype=np.int64), np.array(self._column, dtype=np.int64)
        factor, low, high = (np.array(each, dtype=np.float64) for each in (self._factor, self._low, self._high))
        return row, column, factor, low, high

    def _bound(self, columns: list[int], factors: list[float], multipliers: Floats) -> float:
        """Return the bound that these multipliers of the rows give: what they leave of the sum is at most its range."""
        row, column, factor, low, high = self._matrix()
        y = np.where((multipliers > 0) & (high < np.inf) | (multipliers < 0) & (low > -np.inf), multipliers, 0.0)
        left = np.zeros(len(self._variables))
        left[columns] = factors
        left -= np.bincount(column, factor * y[row], len(left))
        rows = y * np.where(y > 0, high, np.where(y < 0, low, 0.0))
        ranges = np.maximum(left * self._least, left * self._most)
        return float(rows.sum() + ranges.sum() + SLACK + PRECISION * (np.abs(rows).sum() + np.abs(ranges).sum()))

    def _terms(self, goal: Linear) -> tuple[list[int], list[float], int]:
        """Return a sum's variables, their factors and its constant."""
        self._model.maximize(goal)
        objective = self._model.proto.objective
        scale = objective.scaling_factor or 1.0
        offset = round(objective.offset * scale)
        return list(objective.vars), [factor * scale for factor in objective.coeffs], offset

    def _add(self, variables: list[int], factors: list[int], low: int, high: int, enforced: list[int]) -> None:
        """Add a row as far as it binds; one that holds only if literals do is loosened where one does not."""
        ranges = [self._range(v) for v in variables]
        least = sum(min(f * a, f * b) for f, (a, b) in zip(factors, ranges, strict=True))
        most = sum(max(f * a, f * b) for f, (a, b) in zip(factors, ranges, strict=True))
        if not enforced:
            if low > least or high < most:
                left, right = low if low > least else -math.inf, high if high < most else math.inf
                self._add_literals(variables, factors, left, right)
            return
        if high < most:
            # sum + (most - high) * (literals that hold) <= most + (most - high) * (how many there are - 1)
            slack = most - high
            right = high + slack * len(enforced)
            self._add_literals([*variables, *enforced], [*factors, *[slack] * len(enforced)], -math.inf, right)
        if low > least:
            slack = low - least
            left = low - slack * len(enforced)
            self._add_literals([*variables, *enforced], [*factors, *[-slack] * len(enforced)], left, math.inf)

    def _range(self, variable: int) -> tuple[int, int]:
        return (int(self._least[variable]), int(self._most[variable])) if variable >= 0 else (0, 1)

    def _add_literals(self, variables: list[int], factors: list[int], low: float, high: float) -> None:
        """Add a row in which a negative number stands for a negated literal."""
        shift, merged = 0, dict[int, int]()
        for variable, factor in zip(variables, factors, strict=True):
            if variable < 0:
                shift += factor
                variable, factor = -variable - 1, -factor
            merged[variable] = merged.get(variable, 0) + factor
        self._add_row([*merged], [float(f) for f in merged.values()], low - shift, high - shift)

    def _add_row(self, columns: list[int], factors: list[float], low: float, high: float) -> None:
        infinity = self._solver.infinity()
        row = self._solver.Constraint(max(low, -infinity), min(high, infinity))
        for column, factor in zip(columns, factors, strict=True):
            row.SetCoefficient(self._variables[column], factor)
        self._row += [len(self._rows)] * len(columns)
        self._column += columns
        self._factor += factors
        self._rows.append(row)
        self._low.append(low)
        self._high.append(high)
