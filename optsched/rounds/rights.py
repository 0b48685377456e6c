"""Who may take from whom: rule 11 of the formulation, as questions with one answer each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optsched.rounds.assignment import Change
from optsched.rounds.line import Over, Use, fits_line, use_now
from optsched.rounds.problem import Ints, Lines, Occupancy, Problem, RoundJob, Takeable, Takeables
from optsched.values.profile import Reclaim


@dataclass(frozen=True, slots=True)
class Claim:
    """What a taker may lay claim to across teams, given the use of its team after the plan."""

    inside_quota: bool
    inside_entitlement: bool


def claim_key(problem: Problem, job: RoundJob, size: int) -> int:
    """Return the key up to which a taker's line counts: its minimum part, or what lies above it."""
    above = size > job.minimum
    return len(problem.priorities) * above + job.priority


def claim_of(problem: Problem, job: RoundJob, size: int, use_after: Use) -> Claim:
    """Return whether a taker of that size is inside its quota and inside its entitlement after the plan."""
    team, key = job.claim_team, claim_key(problem, job, size)
    quota, entitlement = problem.lines.quota[team], problem.lines.entitlement[team]
    return Claim(
        inside_quota=bool(quota) and fits_line(use_after, team, key, quota),
        inside_entitlement=bool(entitlement) and fits_line(use_after, team, key, entitlement),
    )


EVERYTHING = Claim(inside_quota=True, inside_entitlement=True)
NOTHING = Claim(inside_quota=False, inside_entitlement=False)


def part_given(change: Change) -> int:
    """Return which part of its line a giver gives: 0 its minimum (a stop), 1 what is above it (a shrink)."""
    return 1 if change is Change.SHRINK else 0


def has_right(problem: Problem, taker: RoundJob, giver: RoundJob, change: Change, claim: Claim) -> bool:
    """Return whether `taker` may be served from what `giver` gives up by `change`."""
    takeable = problem.takeable[giver.index]
    higher = taker.priority < giver.priority
    not_lower = taker.priority <= giver.priority
    if taker.emergency and higher:
        return True
    if taker.due and taker.may_break_quota and not_lower:
        return True
    if change is Change.MOVE:
        if taker.team == giver.team or not takeable.inside_quota:
            return True
        return makes_way(taker, giver) and (claim.inside_quota or claim.inside_entitlement)
    if taker.team == giver.team:
        return higher or (taker.due and not_lower)
    part = part_given(change)
    if not takeable.above_quota[part]:
        return False
    if claim.inside_quota or (taker.due and not_lower):
        return True
    fair_share = problem.profile.reclaim is Reclaim.FAIR_SHARE
    return fair_share and claim.inside_entitlement and takeable.above_entitlement[part]


def makes_way(taker: RoundJob, giver: RoundJob) -> bool:
    """Return whether a job inside its quota moves for another team's all the same, if that has a claim to its room."""
    return taker.starved and giver.light


def exempt(taker: RoundJob) -> bool:
    """Return whether what a taker takes is outside floors: emergencies, and deadlines that may break guarantees."""
    return taker.emergency or (taker.due and taker.may_break_quota)


def takeables(lines: Lines, occupancy: Occupancy) -> Takeables:
    """Return which part of each running job lies above its team's quota and entitlement, once somebody asks."""
    return Takeables(len(occupancy.size), lambda: _takeable(lines, occupancy))


def _takeable(lines: Lines, occupancy: Occupancy) -> tuple[list[Takeable], Ints]:
    """Return the same as kinds, and the kind of each job."""
    use = use_now(occupancy)
    teams, keys, types = use.gpus.shape
    priorities = keys // 2
    # Jobs of one team, priority and type that use the same resources lie alike.
    sides = (occupancy.cpus_u > 0, occupancy.memory_u > 0)
    columns = (occupancy.team, occupancy.priority, occupancy.gpu_type, *sides)
    dimensions = (teams, priorities, types, 2, 2)
    kinds, kind_of = np.unique(np.ravel_multi_index(columns, dimensions), return_inverse=True)
    over: dict[int, tuple[Over, Over]] = {}
    found = []
    each_of = (column.tolist() for column in np.unravel_index(kinds, dimensions))
    for team, priority, gpu_type, cpus, memory in zip(*each_of, strict=True):
        quota, entitlement = lines.quota[team], lines.entitlement[team]
        if team not in over:
            over[team] = Over(use, team, quota), Over(use, team, entitlement)
        parts = (priority, priorities + priority)
        uses = (gpu_type, bool(cpus), bool(memory))
        above_quota, above_entitlement = (tuple(each.above(key, *uses) for key in parts) for each in over[team])
        found.append(
            Takeable(
                above_quota=(not quota or above_quota[0], not quota or above_quota[1]),
                above_entitlement=(
                    bool(entitlement) and above_entitlement[0],
                    bool(entitlement) and above_entitlement[1],
                ),
                inside_quota=bool(quota) and not above_quota[0],
            )
        )
    return found, kind_of.astype(np.int64).reshape(-1)
