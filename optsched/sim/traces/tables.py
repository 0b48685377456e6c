"""The small tables that models and the generator draw from: CSV files beside this module, each naming its source."""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from importlib import resources

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@functools.cache
def rows_of(name: str) -> tuple[dict[str, str], ...]:
    """Return the rows of a table by column name."""
    text = resources.files("optsched.sim.traces").joinpath("tables", f"{name}.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def column(name: str, key: str) -> Floats:
    """Return a column of numbers."""
    return np.array([float(row[key]) for row in rows_of(name)])


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """Quantiles of something in bands of something else: `bounds` (B,) ascending, `values` (B, Q) for even steps."""

    bounds: Floats
    values: Floats
    upper_inside: bool

    def draw(self, keys: Floats, uniform: Floats, log: bool = False) -> Floats:
        """Return a value for each key, at the quantile that `uniform` (0 to 1) names; `log` interpolates logarithms."""
        above = np.searchsorted(self.bounds, keys, side="left" if self.upper_inside else "right")
        band = np.minimum(above, len(self.bounds) - 1)
        steps = self.values.shape[1] - 1
        place = uniform * steps
        lower = np.minimum(place.astype(int), steps - 1)
        low, high = self.values[band, lower], self.values[band, lower + 1]
        part = place - lower
        if log:
            drawn: Floats = np.exp(np.log(low) * (1 - part) + np.log(high) * part)
            return drawn
        value: Floats = low * (1 - part) + high * part
        return value


@functools.cache
def bands_of(name: str, key: str, upper_inside: bool) -> Bands:
    """Return a table of quantiles, whose other columns are q00, q05, ..., q100."""
    rows = rows_of(name)
    names = [column for column in rows[0] if column.startswith("q")]
    values = np.array([[float(row[column]) for column in names] for row in rows])
    return Bands(np.array([float(row[key]) for row in rows]), values, upper_inside)
