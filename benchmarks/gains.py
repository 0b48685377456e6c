"""What one plan of a round gains over another: GPUs by rank, then victims, moves and the bill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from optsched.values.plan import Plan, RankResult, Tier

TIERS = tuple(Tier)
PROTECTED = (Tier.DEADLINE, Tier.GUARANTEED)

RankKey = tuple[bool, int, int]
"""Sorts ranks from the highest down: GPUs above a minimum last, then by tier, then by priority."""


@dataclass(frozen=True, slots=True)
class Gains:
    """A plan against a base of the same snapshot; every number is the plan's less the base's.

    `rank` is the highest rank at which they run different GPUs ("" where none is) and `rank_gpus` by how many;
    `gpus` counts all ranks. `placement_loss`, `lost_work` (the preemption cost), `moving` (migration and resize cost)
    and `bill` (everything) are in GPU-seconds. `victims` are jobs stopped, `moves` migrations and resizes.
    """

    rank: str
    rank_gpus: int
    gpus: int
    placement_loss: float
    lost_work: float
    moving: float
    bill: float
    victims: int
    moves: int


def gains(base: Plan, plan: Plan, classes: Mapping[str, int]) -> Gains:
    """Return what `plan` gains over `base`; `classes` are the profile's, to put ranks in their order."""
    before, after = by_rank(base, classes), by_rank(plan, classes)
    first = next((key for key in sorted(before | after) if _gpus(before, key) != _gpus(after, key)), None)
    return Gains(
        rank="" if first is None else _name((after if first in after else before)[first]),
        rank_gpus=0 if first is None else _gpus(after, first) - _gpus(before, first),
        gpus=sum(rank.gpus for rank in after.values()) - sum(rank.gpus for rank in before.values()),
        placement_loss=plan.bill.placement_loss - base.bill.placement_loss,
        lost_work=plan.bill.preemption_cost - base.bill.preemption_cost,
        moving=_moving(plan) - _moving(base),
        bill=plan.bill.total - base.bill.total,
        victims=len(plan.preemptions) - len(base.preemptions),
        moves=_moves(plan) - _moves(base),
    )


def by_rank(plan: Plan, classes: Mapping[str, int]) -> dict[RankKey, RankResult]:
    """Return the ranks that a plan names, by a key that sorts them from the highest down."""
    found = {}
    for rank in plan.round.ranks:
        priority = classes[rank.priority] if rank.priority in classes else int(rank.priority)
        found[rank.above_minimum, TIERS.index(rank.tier), -priority] = rank
    return found


def guaranteed_proven(plan: Plan) -> bool:
    """Return whether no plan runs more at any guaranteed rank that this one names, or at a due deadline's.

    The GPUs of elastic jobs above their minimum stand below all minima and are not meant.
    """
    ranks = [rank for rank in plan.round.ranks if rank.tier in PROTECTED and not rank.above_minimum]
    return all(rank.gpus_bound == rank.gpus for rank in ranks)


def _gpus(ranks: Mapping[RankKey, RankResult], key: RankKey) -> int:
    return ranks[key].gpus if key in ranks else 0


def _name(rank: RankResult) -> str:
    return f"{rank.tier.value} {rank.priority}{' above minimum' if rank.above_minimum else ''}"


def _moving(plan: Plan) -> float:
    return plan.bill.migration_cost + plan.bill.resize_cost


def _moves(plan: Plan) -> int:
    return len(plan.migrations) + len(plan.resizes)
