"""What a span costs: the relative speed of a gang for every level that may hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from optsched.values.ids import NODE_LEVEL, LevelName


def speed_per_level(
    levels: Sequence[LevelName], table: Mapping[LevelName, float], widest: float
) -> npt.NDArray[np.float64]:
    """Return the speed of a gang per span, shape (L + 1,): entry l for level l, the last one for the whole cluster.

    So the span -1 of `Tree.span_level` indexes it as it is. `levels` are a tree's, widest first, "node" last; `table`
    gives speeds by level name, and names that this cluster does not have are ignored. The whole cluster has the speed
    `widest`, a node 1 unless the table names it. Any other level that the table does not name lies on the straight
    line between its nearest named neighbours, by its position. The table need not be monotone: measured slowdown is
    not.
    """
    known = {-1: widest, len(levels) - 1: 1.0}
    known.update({index: table[level] for index, level in enumerate(levels) if level in table})
    if levels and levels[-1] != NODE_LEVEL:
        raise ValueError("the last level of a tree is the node")
    positions = sorted(known)
    speeds = np.interp(np.arange(-1, len(levels)), positions, [known[position] for position in positions])
    return np.roll(speeds, -1)


def merge_speeds(*tables: Mapping[LevelName, float]) -> dict[LevelName, float]:
    """Lay speed tables over each other, the later ones (a job's, a measurement's) over the earlier (the profile's)."""
    merged: dict[LevelName, float] = {}
    for table in tables:
        merged.update(table)
    return merged
