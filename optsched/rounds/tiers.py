"""The tier of each job: where along its team's line its last minimum GPU would lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optsched.policy.ordering import FAIR, GUARANTEED, OPPORTUNISTIC
from optsched.rounds.facts import Listed
from optsched.rounds.problem import Ints, Lines, Reals


def tiers_along(lines: Lines, listed: Listed, claim: Ints, placed: Reals) -> Ints:
    """Return the tier in which each job's last minimum GPU would lie if its team's line were filled in order, (J,).

    In order of priority, what runs first, then by `placed` (instants, (J,)) and id. `claim` are teams, (J,).
    """
    rows = listed.rows
    waits = np.arange(len(claim)) >= listed.running
    keys = (placed, waits, -rows.priority, claim)
    order = np.lexsort(keys)
    _by_id(order, keys, listed)
    team, gpu_type = claim[order], rows.gpu_type[order]
    gpus = np.zeros((len(order), lines.fair_by_type.shape[1]), dtype=np.int64)
    gpus[np.arange(len(order)), gpu_type] = rows.line[order]
    through = gpus.cumsum(axis=0)
    begins = np.flatnonzero(np.diff(team, prepend=-1))
    through -= np.repeat((through - gpus)[begins], np.diff(begins, append=len(order)), axis=0)
    mine, total = through[np.arange(len(order)), gpu_type], through.sum(axis=1)
    by_type, fair = lines.quota_by_type[team, gpu_type], lines.fair_by_type[team]
    typed = lines.typed[team]
    guaranteed = np.where(typed, mine <= by_type, total <= lines.quota_any[team])
    entitled = np.where(
        typed,
        mine <= by_type + lines.fair_by_type[team, gpu_type],
        total <= lines.quota_any[team] + np.minimum(fair, through).sum(axis=1),
    )
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.where(guaranteed, GUARANTEED, np.where(entitled, FAIR, OPPORTUNISTIC))
    return found


def _by_id(order: Ints, keys: Sequence[NDArray[Any]], listed: Listed) -> None:
    """Put those that keys leave equal into the order of their ids."""
    same = np.ones(max(0, len(order) - 1), dtype=bool)
    for key in keys:
        ordered = key[order]
        same &= ordered[1:] == ordered[:-1]
        if not same.any():
            return
    inside = np.concatenate([[False], same, [False]])
    edges = np.flatnonzero(inside[1:] != inside[:-1]).tolist()
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        alike = order[start : end + 1].tolist()
        order[start : end + 1] = sorted(alike, key=lambda j: listed.facts[j].job.id)
