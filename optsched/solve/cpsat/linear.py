"""Sums in the making: cheaper to add to than expressions, and they know their range."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from ortools.sat.python.cp_model import CpModel, IntVar, LinearExpr

from optsched.rounds.problem import Ints
from optsched.solve.cpsat.terms import Linear


@dataclass(slots=True)
class Sum:
    """A constant and multiples of variables, with the range [least, most] that the variables' domains give it."""

    constant: int = 0
    variables: list[IntVar] = field(default_factory=list)
    factors: list[int] = field(default_factory=list)
    least: int = 0
    most: int = 0

    def add(self, variable: IntVar, factor: int, most: int) -> None:
        """Add a multiple of a variable that lies in 0..most."""
        if factor and most:
            self.variables.append(variable)
            self.factors.append(factor)
            self.least += min(0, factor * most)
            self.most += max(0, factor * most)

    def add_constant(self, amount: int) -> None:
        """Add a number."""
        self.constant += amount
        self.least += amount
        self.most += amount

    def add_all(self, other: Sum) -> None:
        """Add another sum."""
        self.constant += other.constant
        self.variables += other.variables
        self.factors += other.factors
        self.least += other.least
        self.most += other.most

    @property
    def linear(self) -> Linear:
        """The sum as an expression; a plain number where it has no variable."""
        if not self.variables:
            return self.constant
        weighted = LinearExpr.weighted_sum(self.variables, self.factors)
        return weighted + self.constant if self.constant else weighted


def sum_of(parts: Iterable[Sum]) -> Sum:
    """Return the sum of sums."""
    result = Sum()
    for part in parts:
        result.add_all(part)
    return result


def at_most(model: CpModel, left: Sum, bound: int) -> None:
    """Add left <= bound where that is not so anyway."""
    if left.most > bound:
        model.add(left.linear <= bound)


def concave(amount: Ints, room: Ints, g: int, most: int) -> list[tuple[int, int]]:
    """Return lines (slope, constant) whose least is the most that p slots of g GPUs can have of `amount` by node, (N,).

    Up to `most` slots, on each node no more than fit in its `room`; the slots that can have most come first.
    """
    counts = np.zeros(g + 1, dtype=np.int64)
    for s in range(1, int(room.max(initial=0)) // g + 1):
        shares = np.clip(amount - (s - 1) * g, 0, g)[room >= s * g]
        counts += np.bincount(shares, minlength=g + 1)
    # Where the nodes end, nothing more can be had.
    counts[0] += 1
    lines, slots, through = [], 0, 0
    for slope, count in zip(range(g, -1, -1), counts[::-1].tolist(), strict=True):
        if slope < g and count and slots <= most:
            lines.append((slope, through - slope * slots))
        slots += count
        through += slope * count
    return lines
