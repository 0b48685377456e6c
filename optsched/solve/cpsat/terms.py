"""Linear terms: what the model's expressions are made of."""

from __future__ import annotations

from collections.abc import Sequence

from ortools.sat.python.cp_model import LinearExpr

Linear = LinearExpr | int
"""An expression over variables, or a plain number."""


def total(parts: Sequence[Linear]) -> Linear:
    """Return the sum of expressions and numbers; a plain number where no variable is among them."""
    expressions = [part for part in parts if not isinstance(part, int)]
    constant = sum(part for part in parts if isinstance(part, int))
    if not expressions:
        return constant
    result: Linear = LinearExpr.sum(expressions)
    return result + constant if constant else result
