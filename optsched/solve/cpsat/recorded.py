"""A model whose linear constraints are also kept as rows of whole numbers, for reasoning without the solver."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from ortools.sat.python.cp_model import BoundedLinearExpression, Constraint, CpModel, IntVar
from ortools.sat.python.cp_model_helper import FlatIntExpr

from optsched.rounds.problem import Ints
from optsched.solve.cpsat.terms import Linear

FAR = 1 << 61
"""A side of a constraint that is at least so far away is none."""


@dataclass(frozen=True, slots=True)
class Row:
    """Σ factors · variables, by the variables' numbers, lies in low..high; only while all of `conditions` hold.

    A condition is a variable's number, or -1 less the number of one that has to be 0.
    """

    variables: list[int]
    factors: list[int]
    low: int
    high: int
    conditions: list[int]


class Recorded(CpModel):
    """A `CpModel` that remembers what was added to it by `add` and `add_at_most_one`."""

    def __init__(self) -> None:
        super().__init__()
        self._added: list[tuple[BoundedLinearExpression, Constraint]] = []
        self._exclusive: list[list[int]] = []
        self._empty = 0

    def add(self, ct: BoundedLinearExpression | bool | np.bool_) -> Constraint:
        """Add a linear constraint."""
        constraint: Constraint = super().add(ct)
        if isinstance(ct, BoundedLinearExpression):
            self._added.append((ct, constraint))
        elif ct:
            self._empty += 1
        return constraint

    def add_at_most_one(self, literals: Iterable[IntVar]) -> Constraint:  # type: ignore[override]
        """Add that at most one of some variables is 1."""
        constraint = super().add_at_most_one(literals)
        self._exclusive.append(list(constraint.proto.at_most_one.literals))
        return constraint

    def complete(self) -> bool:
        """Whether the rows are all that there is."""
        return len(self._added) + len(self._exclusive) + self._empty == len(self.proto.constraints)

    def rows(self) -> Iterable[Row]:
        """Yield the constraints; of a domain with holes only its ends."""
        for ct, constraint in self._added:
            ends, offset = ct.bounds.flattened_intervals(), ct.offset
            conditions = constraint.proto.enforcement_literal
            yield Row(
                [variable.index for variable in ct.vars],
                ct.coeffs,
                ends[0] - offset if ends[0] > -FAR else -FAR,
                ends[-1] - offset if ends[-1] < FAR else FAR,
                list(conditions) if len(conditions) else [],
            )
        for literals in self._exclusive:
            negated = sum(literal < 0 for literal in literals)
            yield Row(
                [literal if literal >= 0 else -literal - 1 for literal in literals],
                [1 if literal >= 0 else -1 for literal in literals],
                -FAR,
                1 - negated,
                [],
            )

    def domains(self) -> tuple[Ints, Ints]:
        """Return the least and the largest value of every variable."""
        ends = [(domain[0], domain[len(domain) - 1]) for each in self.proto.variables for domain in [each.domain]]
        low, high = np.array(ends, dtype=np.int64).reshape(-1, 2).T.copy()
        return low, high


@dataclass(frozen=True, slots=True)
class Goal:
    """An expression as arrays: `constant` + Σ factors · variables."""

    variables: Ints
    factors: Ints
    constant: int

    def negated(self) -> Goal:
        """Return the expression times -1."""
        return Goal(self.variables, -self.factors, -self.constant)


def goal_of(expression: Linear) -> Goal:
    """Return an expression as arrays."""
    if isinstance(expression, int):
        none = np.zeros(0, dtype=np.int64)
        return Goal(none, none, expression)
    flat = FlatIntExpr(expression)
    variables = np.array([variable.index for variable in flat.vars], dtype=np.int64)
    return Goal(variables, np.array(flat.coeffs, dtype=np.int64), int(flat.offset))
