"""Figures from many values: quantiles by nearest rank, and groups of jobs by size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from optsched.sim.results import Quantiles

SIZES: tuple[tuple[str, int, int], ...] = (
    ("1", 1, 1),
    ("2-7", 2, 7),
    ("8", 8, 8),
    ("9-63", 9, 63),
    ("64-255", 64, 255),
    ("256+", 256, 1 << 40),
)
"""Groups of jobs by the GPUs that they ask for: name, least, most."""


def quantiles(values: Iterable[float]) -> Quantiles:
    """Return the distribution of some values: the p-quantile is the smallest value that a share p does not exceed."""
    ordered = sorted(values)
    if not ordered:
        return Quantiles()
    return Quantiles(
        len(ordered),
        math.fsum(ordered) / len(ordered),
        _rank(ordered, 0.5),
        _rank(ordered, 0.9),
        _rank(ordered, 0.99),
        ordered[-1],
    )


def _rank(ordered: Sequence[float], share: float) -> float:
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
