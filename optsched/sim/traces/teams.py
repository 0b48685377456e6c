"""Teams of a workload: those of the trace, or made up; with quotas by what they use."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from optsched.sim.traces.tables import Floats
from optsched.values.ids import TeamId
from optsched.values.resources import Amounts
from optsched.values.team import Team

REST = "other"


def share_out(given: Sequence[str], work: Floats, count: int, uniform: Floats) -> list[str]:
    """Return a team for each job: the trace's own, "other" for the jobs without one.

    Where no job has one, `count` teams are made up, and the n-th gets 1/n of the jobs of the first.
    """
    if any(given):
        return [re.sub(r"[^A-Za-z0-9._:@+-]", "_", name).lstrip("._:@+-") or REST for name in given]
    weights = 1 / np.arange(1, count + 1)
    lines = np.cumsum(weights) / weights.sum()
    drawn = np.minimum(np.searchsorted(lines, uniform, side="right"), count - 1)
    return [f"team-{int(index) + 1:02d}" for index in drawn]


def with_quotas(teams: Sequence[str], work: Floats, gpus: int, share: float) -> tuple[Team, ...]:
    """Return the teams by name, with `share` of the GPUs promised, in proportion to their GPU-seconds, rounded down.

    With `share` 0 no team has a quota: the weights, 1 each, alone decide.
    """
    names = sorted(set(teams))
    total = float(work.sum()) if len(work) else 0.0
    used = dict.fromkeys(names, 0.0)
    for name, amount in zip(teams, work, strict=True):
        used[name] += float(amount)
    return tuple(
        Team(TeamId(name), quota=Amounts(gpus=int(share * gpus * used[name] / total)) if share and total else None)
        for name in names
    )
