"""What follows from one linear constraint at a time: the range of every variable, and of sums of them.

Exact arithmetic of whole numbers, a millisecond for a thousand constraints. Where a round is full and few may displace
anybody, this alone proves most of what a search would.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from ortools.sat.python.cp_model import CpModel, LinearExpr

from optsched.rounds.problem import Flags, Ints
from optsched.solve.cpsat.recorded import FAR, Goal, Recorded

MOST_SWEEPS = 40
"""How often all constraints are looked at; what is not found by then is left."""

MOST_PROBES = 12
"""How often a goal's bound is narrowed by asking what would follow if it were exceeded."""


class Rows(NamedTuple):
    """Constraints Σ factor · variable ≤ most as terms sorted by row; `starts` is where each row's terms begin."""

    row: Ints
    variable: Ints
    factor: Ints
    starts: Ints
    most: Ints

    def plus(self, goal: Goal, most: int) -> Rows:
        """Return the rows and one more: the goal, its constant left out, is at most `most`."""
        if not len(goal.variables):
            return self
        number = len(self.most)
        return Rows(
            np.append(self.row, np.full(len(goal.variables), number)),
            np.append(self.variable, goal.variables),
            np.append(self.factor, goal.factors),
            np.append(self.starts, len(self.row)),
            np.append(self.most, most),
        )


class Box:
    """Ranges of all variables, narrowed by everything that is known; `model` is what they are of.

    `feasible` is False once the constraints contradict each other.
    """

    def __init__(self, model: Recorded) -> None:
        self.model = model
        self.low, self.high = model.domains()
        self.rows = _rows(model, self.low, self.high)
        self._given = len(self.rows.most)
        self.feasible = True
        self._narrow_to(_narrowed(self.rows, self.low, self.high))

    def copy(self) -> Box:
        """Return a box that can be narrowed on its own."""
        other = object.__new__(Box)
        other.model, other.rows, other._given = self.model, self.rows, self._given
        other.low, other.high, other.feasible = self.low, self.high, self.feasible
        return other

    def at_least(self, goal: Goal, value: int) -> None:
        """Add that a goal reaches a value."""
        negated = goal.negated()
        self.rows = self.rows.plus(negated, -value - negated.constant)
        self._narrow_to(_narrowed(self.rows, self.low, self.high))

    def at_most(self, goal: Goal, value: int) -> None:
        """Add that a goal does not exceed a value."""
        self.rows = self.rows.plus(goal, value - goal.constant)
        self._narrow_to(_narrowed(self.rows, self.low, self.high))

    def _narrow_to(self, found: tuple[Ints, Ints] | None) -> None:
        self.feasible = self.feasible and found is not None
        if found is not None:
            self.low, self.high = found

    def most(self, goal: Goal) -> int:
        """Return what a goal cannot exceed for the ranges alone."""
        reach = np.where(goal.factors > 0, self.high[goal.variables], self.low[goal.variables])
        return goal.constant + int((goal.factors * reach).sum())

    def bound(self, goal: Goal, reached: int) -> int:
        """Return what no solution exceeds, at least `reached`, which a solution is known to reach."""
        least, most = reached, max(reached, self.most(goal))
        negated = goal.negated()
        step = 1
        # Mostly no more than what is reached can be, so that is tried first.
        for _ in range(MOST_PROBES):
            if least >= most:
                break
            ask = min(most, least + step)
            rows = self.rows.plus(negated, -ask - negated.constant)
            if self.feasible and _narrowed(rows, self.low, self.high) is not None:
                least, step = ask, 2 * step
            else:
                most, step = ask - 1, 1
        return most

    def reduced(self) -> CpModel:
        """Return the model with these ranges, without the constraints that always hold in them."""
        model = self.model.clone()
        if not self.feasible:
            return model
        for variable, low, high in zip(model.proto.variables, self.low.tolist(), self.high.tolist(), strict=True):
            domain = variable.domain
            domain[0], domain[len(domain) - 1] = low, high
        wanted = self._open()
        if self.model.complete():
            model.proto.constraints.clear()
        else:
            wanted[: self._given] = False
        open_terms = wanted[self.rows.row] & (self.low != self.high)[self.rows.variable]
        fixed = np.where(self.low == self.high, self.low, 0)[self.rows.variable] * self.rows.factor
        most = self.rows.most - _sums(self.rows, fixed)
        terms: dict[int, tuple[list[int], list[int]]] = {}
        for row, variable, factor in zip(
            self.rows.row[open_terms].tolist(),
            self.rows.variable[open_terms].tolist(),
            self.rows.factor[open_terms].tolist(),
            strict=True,
        ):
            variables, factors = terms.setdefault(row, ([], []))
            variables.append(variable)
            factors.append(factor)
        known = {v: model.get_int_var_from_proto_index(v) for v in {v for each, _ in terms.values() for v in each}}
        for row, (variables, factors) in terms.items():
            model.add(LinearExpr.weighted_sum([known[v] for v in variables], factors) <= int(most[row]))
        return model

    def _open(self) -> Flags:
        """Return which rows some values within the ranges break."""
        reach = np.where(self.rows.factor > 0, self.high[self.rows.variable], self.low[self.rows.variable])
        broken: Flags = _sums(self.rows, self.rows.factor * reach) > self.rows.most
        return broken


def _rows(model: Recorded, low: Ints, high: Ints) -> Rows:
    """Return a model's constraints; one with conditions is relaxed, where they fail, by as much as it can be missed."""
    lengths: list[int] = []
    variables: list[int] = []
    factors: list[int] = []
    most: list[int] = []
    lows, highs = low.tolist(), high.tolist()
    for row in model.rows():
        for sign, side in ((1, row.high), (-1, -row.low)):
            if side >= FAR or not row.variables:
                continue
            signed = [sign * factor for factor in row.factors]
            names = row.variables
            if row.conditions:
                reach = sum(f * (highs[v] if f > 0 else lows[v]) for f, v in zip(signed, names, strict=True))
                slack = max(0, reach - side)
                names = names + [c if c >= 0 else -c - 1 for c in row.conditions]
                signed += [slack if c >= 0 else -slack for c in row.conditions]
                side += slack * sum(c >= 0 for c in row.conditions)
            lengths.append(len(names))
            variables += names
            factors += signed
            most.append(side)
    ends = np.cumsum(lengths, dtype=np.int64)
    return Rows(
        np.repeat(np.arange(len(lengths), dtype=np.int64), lengths),
        np.array(variables, dtype=np.int64),
        np.array(factors, dtype=np.int64),
        ends - np.array(lengths, dtype=np.int64),
        np.array(most, dtype=np.int64),
    )


def _sums(rows: Rows, terms: Ints) -> Ints:
    """Return the sums of terms row by row, in whole numbers."""
    if not len(terms):
        return np.zeros(len(rows.most), dtype=np.int64)
    found: Ints = np.add.reduceat(terms, rows.starts)
    return found


def _narrowed(rows: Rows, low: Ints, high: Ints) -> tuple[Ints, Ints] | None:
    """Return the ranges that the rows leave of some, None where they leave nothing of one."""
    rising = rows.factor > 0
    falling = rows.factor < 0
    size = np.maximum(np.abs(rows.factor), 1)
    up, down = rows.variable[rising], rows.variable[falling]
    for _ in range(MOST_SWEEPS):
        least = _sums(rows, rows.factor * np.where(rising, low[rows.variable], high[rows.variable]))
        slack = rows.most - least
        if len(slack) and slack.min() < 0:
            return None
        room = slack[rows.row] // size
        new_high, new_low = high.copy(), low.copy()
        np.minimum.at(new_high, up, low[up] + room[rising])
        np.maximum.at(new_low, down, high[down] - room[falling])
        if (new_low > new_high).any():
            return None
        if (new_high == high).all() and (new_low == low).all():
            break
        low, high = new_low, new_high
    return low, high
