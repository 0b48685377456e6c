"""Checkpoints in several tiers: each gets the interval of the failures that it is there for.

Host RAM outlives a crashed process, an object store a lost node. All of this is our own derivation, to first order:
valid while every δ is small against M. Times in seconds, as in `optsched.policy.checkpoint`.

Tier i, saved every τᵢ at the price of δᵢ, serves the share qᵢ of all failures. A failure that it serves loses τᵢ/2
and the Lᵢ seconds of its upload. With a = Σᵢ δᵢ/τᵢ and b = Σᵢ qᵢ·τᵢ/(2M), which are least together at
τᵢ = √(2·δᵢ·M/qᵢ), not below Lᵢ:

    useful share of the time = e^(−R/M) · e^(−Σᵢ qᵢ·Lᵢ/M) · (1 − b) / (1 + a)

For one tier and short restarts that is the ETTR of Kokolis et al. (HPCA 2025).

Which tier serves which kind of failure is chosen so that this is least: a tier that is hardly cheaper than the next
is not worth its own checkpoints. A failure may find a fresher checkpoint in a slower tier, so the waste is at most
what is said.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from optsched.errors import InternalError
from optsched.policy.checkpoint import Formula, Interval, Waste, auto_interval, waste
from optsched.values.job import Checkpoint, CheckpointTier

MAX_KINDS = 4
"""Kinds of failure that may be told apart; 16 tiers may serve 4 kinds in 65,536 ways, which are all compared."""

FAILURE_KINDS: Mapping[str, float] = MappingProxyType({"process": 151 / 419, "node": 268 / 419})
"""Share of failures by what is lost with them, where nothing better is known.

Llama 3 (2024), table 5: 268 of 419 interruptions were GPUs and their memory, so the node went away. Counting the
others, network and software above all, as failures that leave nodes as they are is our reading.
"""


@dataclass(frozen=True, slots=True)
class TierUse:
    """How one tier is used: every `every`-th checkpoint of the tier before it goes there (1 for the first)."""

    tier: CheckpointTier
    serves: tuple[str, ...]
    """The kinds of failure after which training goes on from this tier."""
    share: float
    """Their share of all failures."""
    interval_s: float
    every: int


@dataclass(frozen=True, slots=True)
class TierPlan:
    """The interval of the most frequent checkpoint, and the tiers in use, that one first."""

    interval: Interval
    uses: tuple[TierUse, ...]


def uncovered(tiers: Sequence[CheckpointTier], kinds: Mapping[str, float]) -> list[str]:
    """Return the kinds of failure that no tier survives, in the order of `kinds`."""
    return [kind for kind in kinds if not any(kind in tier.survives for tier in tiers)]


def plan_tiers(
    tiers: Sequence[CheckpointTier],
    mtbf_s: float,
    restart_s: float = 0.0,
    kinds: Mapping[str, float] = FAILURE_KINDS,
) -> TierPlan:
    """Return which tiers to use and how often.

    `tiers` have costs above 0; `kinds` are shares above 0 that sum to 1. Slower tiers are saved every n-th time of the
    tier before, so that each can be copied from there. Where one tier does for all, it is planned as if there were no
    tiers, without the limits of the first order. Raises InternalError where no tier survives some kind.
    """
    if uncovered(tiers, kinds) or len(kinds) > MAX_KINDS:
        raise InternalError(f"tiers must survive every kind of failure, of which there are at most {MAX_KINDS}")
    served = _served(tiers, mtbf_s, kinds)
    share_of = {index: sum(kinds[kind] for kind in serves) for index, serves in served.items()}
    order = sorted(served, key=lambda index: (_ideal_s(tiers[index], share_of[index], mtbf_s), index))
    used, part = [tiers[index] for index in order], [share_of[index] for index in order]
    if len(used) == 1:
        only = auto_interval(used[0].cost_s, mtbf_s, restart_s, used[0].upload_s)
        return TierPlan(only, (TierUse(used[0], tuple(kinds), 1.0, only.interval_s, 1),))
    every = min(
        _ratios([_ideal_s(tier, share, mtbf_s) for tier, share in zip(used, part, strict=True)]),
        key=lambda chain: (
            _tiered_waste(used, part, chain, _base_s(used, part, chain, mtbf_s), mtbf_s, restart_s).total,
            chain,
        ),
    )
    base_s = _base_s(used, part, every, mtbf_s)
    uses, interval_s = [], base_s
    for index, share, times in zip(order, part, every, strict=True):
        interval_s *= times
        uses.append(TierUse(tiers[index], served[index], share, interval_s, times))
    total = _tiered_waste(used, part, every, base_s, mtbf_s, restart_s)
    return TierPlan(Interval(base_s, Formula.TIERED, total), tuple(uses))


def waste_of(plan: TierPlan, factor: float, mtbf_s: float, restart_s: float) -> Waste:
    """Return what is wasted with all intervals of a plan times `factor`, should the MTBF be `mtbf_s`."""
    base_s, used = plan.interval.interval_s * factor, plan.uses
    if len(used) == 1:
        return waste(base_s, used[0].tier.cost_s, mtbf_s, restart_s, used[0].tier.upload_s)
    tiers, part, every = [use.tier for use in used], [use.share for use in used], [use.every for use in used]
    return _tiered_waste(tiers, part, every, base_s, mtbf_s, restart_s)


def durable_tier(cost_s: float, upload_s: float = 0.0, kinds: Mapping[str, float] = FAILURE_KINDS) -> CheckpointTier:
    """Return a job's own checkpoint, outside any tier, as a tier: it outlives every kind of failure."""
    return CheckpointTier("durable", cost_s, upload_s, tuple(kinds))


def job_interval(checkpoint: Checkpoint, mtbf_s: float, kinds: Mapping[str, float] = FAILURE_KINDS) -> Interval | None:
    """Return the interval of a job: its own where it names one, as it is, else what its costs and its MTBF recommend.

    The checkpoint that `cost_s` is the price of survives everything; tiers add to it. Neither counts where it is free:
    its price is not known. None where the rest does not survive every kind of failure.
    """
    tiers = [tier for tier in (*checkpoint.tiers, durable_tier(checkpoint.cost_s, kinds=kinds)) if tier.cost_s > 0.0]
    if uncovered(tiers, kinds):
        return None
    plan = plan_tiers(tiers, mtbf_s, checkpoint.restart_s, kinds)
    if checkpoint.interval_s is None:
        return plan.interval
    factor = checkpoint.interval_s / plan.interval.interval_s
    return Interval(checkpoint.interval_s, Formula.GIVEN, waste_of(plan, factor, mtbf_s, checkpoint.restart_s))


def _ideal_s(tier: CheckpointTier, share: float, mtbf_s: float) -> float:
    """Return the interval that suits one tier alone."""
    return max(tier.upload_s, math.sqrt(2.0 * tier.cost_s * mtbf_s / share))


def _served(tiers: Sequence[CheckpointTier], mtbf_s: float, kinds: Mapping[str, float]) -> dict[int, tuple[str, ...]]:
    """Return the kinds that each tier in use serves, by the tier's place in the list; ties go to the first tiers."""
    survivors = [[index for index, tier in enumerate(tiers) if kind in tier.survives] for kind in kinds]
    best: dict[int, tuple[str, ...]] = {}
    least = math.inf
    for choice in itertools.product(*survivors):
        served: dict[int, tuple[str, ...]] = {}
        for kind, index in zip(kinds, choice, strict=True):
            served[index] = (*served.get(index, ()), kind)
        cost = 0.0
        for index, serves in served.items():
            tier, share = tiers[index], sum(kinds[kind] for kind in serves)
            interval_s = _ideal_s(tier, share, mtbf_s)
            cost += tier.cost_s / interval_s + share * (interval_s / 2.0 + tier.upload_s) / mtbf_s
        if cost < least:
            best, least = served, cost
    return best


def _ratios(ideal_s: Sequence[float]) -> list[tuple[int, ...]]:
    """Return the whole numbers, each one below and one above, by which the interval may grow from tier to tier."""
    steps: list[set[int]] = [{1}]
    for before, after in itertools.pairwise(ideal_s):
        steps.append({max(1, math.floor(after / before)), math.ceil(after / before)})
    return list(itertools.product(*map(sorted, steps)))


def _multiples(every: Sequence[int]) -> list[int]:
    """Return how many intervals of the first tier that of each tier has."""
    result: list[int] = list(itertools.accumulate(every, operator.mul))
    return result


def _base_s(tiers: Sequence[CheckpointTier], part: Sequence[float], every: Sequence[int], mtbf_s: float) -> float:
    """Return the first tier's interval τ that makes (1 − bτ)/(1 + a/τ) largest, as far as uploads allow."""
    multiples = _multiples(every)
    writing = sum(tier.cost_s / times for tier, times in zip(tiers, multiples, strict=True))
    losing = sum(share * times for share, times in zip(part, multiples, strict=True)) / (2.0 * mtbf_s)
    allowed = max(tier.upload_s / times for tier, times in zip(tiers, multiples, strict=True))
    return max(allowed, math.sqrt(writing**2 + writing / losing) - writing)


def _tiered_waste(
    tiers: Sequence[CheckpointTier],
    part: Sequence[float],
    every: Sequence[int],
    base_s: float,
    mtbf_s: float,
    restart_s: float,
) -> Waste:
    writing = losing = uploading = 0.0
    for tier, share, times in zip(tiers, part, _multiples(every), strict=True):
        writing += tier.cost_s / (base_s * times)
        losing += share * base_s * times / (2.0 * mtbf_s)
        uploading += share * tier.upload_s / mtbf_s
    at_work = math.exp(-restart_s / mtbf_s)
    useful = at_work * math.exp(-uploading) * max(0.0, 1.0 - losing) / (1.0 + writing)
    return Waste(useful * writing, at_work - useful - useful * writing, 1.0 - at_work)
