"""What follows from one linear constraint at a time: the range of every variable, and which constraints are left.

Exact arithmetic of whole numbers, some milliseconds for a thousand constraints. What is left is a much smaller model
with the same solutions.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from ortools.sat.python.cp_model import CpModel, LinearExpr

from optsched.errors import SolverFailed
from optsched.rounds.problem import Flags, Ints
from optsched.solve.cpsat.recorded import FAR, Recorded

MOST_SWEEPS = 40
"""How often all constraints are looked at; what is not found by then is left."""


class Rows(NamedTuple):
    """Constraints Σ factor · variable ≤ most as terms sorted by row; `starts` is where each row's terms begin."""

    row: Ints
    variable: Ints
    factor: Ints
    starts: Ints
    most: Ints


class Box:
    """The ranges of all variables, and the rows that some values in them break; `model` is of both alone.

    Raises SolverFailed where the constraints contradict each other.
    """

    def __init__(self, model: Recorded) -> None:
        low, high = model.domains()
        rows = _rows(model, low, high)
        found = narrowed(rows, low, high)
        if found is None:
            raise SolverFailed("what admission must keep contradicts itself")
        self.low, self.high = found
        self.rows = _left_open(rows, self.low, self.high)
        self._whole = model

    @cached_property
    def model(self) -> CpModel:
        """The model with these ranges, without the constraints that always hold in them; made when it is needed."""
        whole = self._whole
        model = whole.clone()
        for variable, low, high in zip(model.proto.variables, self.low.tolist(), self.high.tolist(), strict=True):
            domain = variable.domain
            domain[0], domain[len(domain) - 1] = low, high
        if not whole.complete():
            return model
        model.proto.constraints.clear()
        used = np.unique(self.rows.variable).tolist()
        known = {v: model.get_int_var_from_proto_index(v) for v in used}
        variables, factors, most = self.rows.variable.tolist(), self.rows.factor.tolist(), self.rows.most.tolist()
        starts = self.rows.starts.tolist()
        for start, end, side in zip(starts, [*starts[1:], len(variables)], most, strict=False):
            terms = LinearExpr.weighted_sum([known[v] for v in variables[start:end]], factors[start:end])
            model.add(terms <= side)
        return model


def _left_open(rows: Rows, low: Ints, high: Ints) -> Rows:
    """Return the rows that some values within the ranges break, without what is fixed."""
    fixed = low == high
    broken: Flags = (
        _sums(rows, rows.factor * np.where(rows.factor > 0, high[rows.variable], low[rows.variable])) > rows.most
    )
    most = rows.most - _sums(rows, np.where(fixed, low, 0)[rows.variable] * rows.factor)
    kept = broken[rows.row] & ~fixed[rows.variable]
    numbers, row = np.unique(rows.row[kept], return_inverse=True)
    starts = np.searchsorted(row, np.arange(len(numbers)))
    return Rows(row.astype(np.int64), rows.variable[kept], rows.factor[kept], starts.astype(np.int64), most[numbers])


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


def narrowed(rows: Rows, low: Ints, high: Ints) -> tuple[Ints, Ints] | None:
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
