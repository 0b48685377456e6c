"""What users ask for: time limits far above what they use, drawn as users of two large machines asked."""

from __future__ import annotations

import numpy as np

from optsched.sim.traces.tables import Floats, bands_of

MINUTE, HOUR, DAY = 60, 3600, 86_400
GRID = np.array(
    [m * MINUTE for m in (5, 10, 15, 20, 30, 45)]
    + [h * HOUR for h in (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 18, 24, 36, 48)]
    + [d * DAY for d in (3, 4, 5, 7, 10, 14, 21, 30)],
    dtype=float,
)
"""The limits that people type; above the last, whole days."""


def requested(run_s: Floats, uniform: Floats, longest_s: float) -> Floats:
    """Return a time limit for each run, drawn with `uniform` (0 to 1).

    The part of the limit that a run uses follows its length, as in the logs of SDSC SP2 and KIT FH2 (the table
    walltime_use.csv): median 0.02 for runs under a minute, 0.2 up to an hour, 0.8 over a day; the limit is that much
    longer, rounded up to what people type. No limit is below its run, and none above `longest_s` unless its run is.
    """
    used = bands_of("walltime_use", "run_below_s", upper_inside=False).draw(run_s, uniform)
    wished = np.minimum(run_s / np.maximum(used, 1e-3), longest_s)
    place = np.searchsorted(GRID, wished)
    whole_days = np.ceil(wished / DAY) * DAY
    typed = np.where(place < len(GRID), GRID[np.minimum(place, len(GRID) - 1)], whole_days)
    asked: Floats = np.maximum(np.minimum(typed, longest_s), run_s)
    return asked
