"""Tiers: which are worth their checkpoints, how often each is saved, and what that wastes."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optsched.errors import InternalError
from optsched.policy.checkpoint import Formula, auto_interval, waste
from optsched.policy.checkpoint_tiers import (
    FAILURE_KINDS,
    TierPlan,
    durable_tier,
    job_interval,
    plan_tiers,
    uncovered,
    waste_of,
)
from optsched.values.job import Checkpoint, CheckpointTier

HALF = {"process": 0.5, "node": 0.5}
M = 10_000.0


def tier(name: str, cost_s: float, *survives: str, upload_s: float = 0.0) -> CheckpointTier:
    return CheckpointTier(name, cost_s, upload_s, survives)


RAM = tier("ram", 1, "process")
STORE = tier("store", 64, "process", "node")


def used(plan: TierPlan) -> list[tuple[str, int, tuple[str, ...]]]:
    return [(use.tier.tier, use.every, use.serves) for use in plan.uses]


def test_each_tier_is_saved_for_the_failures_it_is_there_for() -> None:
    """√(2·1·10,000/0.5) = 200 s and √(2·64·10,000/0.5) = 1,600 s: every 8th goes to the store.

    Together: a = 1 + 64/8 = 9 s per interval, b = (0.5 + 0.5·8)/20,000; √(a² + a/b) − a = √(81 + 40,000) − 9 = 191.2.
    """
    plan = plan_tiers([RAM, STORE], M, kinds=HALF)
    assert used(plan) == [("ram", 1, ("process",)), ("store", 8, ("node",))]
    assert [use.interval_s for use in plan.uses] == pytest.approx([191.2, 8 * 191.2], abs=0.1)
    assert plan.interval.formula is Formula.TIERED
    # a/τ = 9/191.2 = 0.04707, b·τ = 2.25e-4·191.2 = 0.04302: 1 − 0.95698/1.04707 = 8.60 %
    assert plan.interval.waste.total == pytest.approx(0.0860, abs=1e-4)
    # The store alone, every √(2·64·10,000) = 1,131 s, wastes 10.9 %.
    assert auto_interval(64, M).waste.total == pytest.approx(0.1089, abs=5e-4)


def test_a_tier_hardly_cheaper_than_the_next_is_not_used() -> None:
    """Two tiers of equal cost waste √0.5 + √0.5 = 1.41 times as much as one."""
    plan = plan_tiers([tier("ram", 60, "process"), STORE], M, kinds=HALF)
    assert used(plan) == [("store", 1, ("process", "node"))]


def test_one_tier_that_is_cheapest_and_survives_everything_does_for_all() -> None:
    """As in-memory copies on peers do; it is planned as a job without tiers is."""
    peers = tier("peers", 0.5, "process", "node", upload_s=10)
    plan = plan_tiers([RAM, peers, STORE], M, 300, HALF)
    assert used(plan) == [("peers", 1, ("process", "node"))]
    assert plan.interval == auto_interval(0.5, M, 300, 10)


def test_no_tier_is_saved_before_its_last_upload_is_done() -> None:
    """An upload of 4,000 s: the store's turn comes no earlier, at whole multiples of the first tier's."""
    plan = plan_tiers([RAM, tier("store", 64, "process", "node", upload_s=4000)], M, kinds=HALF)
    assert plan.uses[1].interval_s >= 4000
    assert plan.uses[1].interval_s == pytest.approx(plan.uses[0].interval_s * plan.uses[1].every)


def test_multiples_are_rounded_to_what_wastes_least() -> None:
    """Half the failures each: √8.4 = 2.9 is 3, √11 = 3.3 is 3 as well."""
    for cost_s, every in ((8.4, 3), (11, 3)):
        plan = plan_tiers([RAM, tier("store", cost_s, "process", "node")], M, kinds=HALF)
        assert plan.uses[1].every == every


def test_an_upload_loses_its_time_in_the_failures_that_its_tier_serves() -> None:
    """200 s in half of the failures, M = 10,000 s: 0.5·200/10,000 = 1 % of what was useful; the intervals stay."""
    plan = plan_tiers([RAM, STORE], M, kinds=HALF)
    behind = plan_tiers([RAM, tier("store", 64, "process", "node", upload_s=200)], M, kinds=HALF)
    assert behind.interval.interval_s == plan.interval.interval_s
    assert 1 - behind.interval.waste.total == pytest.approx((1 - plan.interval.waste.total) * math.exp(-0.01))


def test_a_cheaper_tier_with_a_long_upload_may_be_the_worse_one() -> None:
    """√(2·8/M) + 500/M = 4 + 5 %; √(2·10/M) = 4.5 %."""
    slow, quick = tier("slow", 8, "process", "node", upload_s=500), tier("quick", 10, "process", "node")
    assert used(plan_tiers([slow, quick], M, kinds=HALF)) == [("quick", 1, ("process", "node"))]


def test_three_tiers_form_a_chain() -> None:
    """Process, node and rack: each slower tier takes every n-th checkpoint of the one before."""
    kinds = {"process": 0.5, "node": 0.4, "rack": 0.1}
    tiers = [RAM, tier("peers", 8, "process", "node"), tier("store", 100, "process", "node", "rack")]
    plan = plan_tiers(tiers, 40_000, 300, kinds)
    assert [use.tier.tier for use in plan.uses] == ["ram", "peers", "store"]
    assert [use.serves for use in plan.uses] == [("process",), ("node",), ("rack",)]
    for before, after in itertools.pairwise(plan.uses):
        assert after.interval_s == pytest.approx(before.interval_s * after.every)


def test_a_kind_of_failure_that_no_tier_survives_is_named() -> None:
    """It would lose all work."""
    assert uncovered([RAM], HALF) == ["node"]
    with pytest.raises(InternalError, match="survive"):
        plan_tiers([RAM], M, kinds=HALF)


def test_default_shares_are_those_of_llama_3() -> None:
    """268 of 419 failures were GPUs and their memory; shares sum to 1."""
    assert FAILURE_KINDS["node"] == pytest.approx(0.64, abs=0.001)
    assert sum(FAILURE_KINDS.values()) == pytest.approx(1)


COSTS = st.floats(0.1, 100)


@given(ram=COSTS, store=COSTS, share=st.floats(0.01, 0.99), mtbf_s=st.floats(5000, 1e6), factor=st.floats(0.2, 5))
def test_no_other_intervals_in_the_same_ratio_waste_less(ram, store, share, mtbf_s, factor) -> None:
    """A single tier by Young's formula aside, which is 0.001 % of the time off."""
    kinds = {"process": share, "node": 1 - share}
    plan = plan_tiers([tier("ram", ram, "process"), tier("store", store, "process", "node")], mtbf_s, 300, kinds)
    assert waste_of(plan, 1.0, mtbf_s, 300) == plan.interval.waste
    assert waste_of(plan, factor, mtbf_s, 300).total >= plan.interval.waste.total - 1e-5


@given(ram=COSTS, store=COSTS, share=st.floats(0.01, 0.99), mtbf_s=st.floats(20_000, 1e6))
def test_a_further_tier_never_makes_it_noticeably_worse(ram, store, share, mtbf_s) -> None:
    """Than the tier that survives everything alone: within what the first order leaves out, 2δ/M of the time."""
    kinds = {"process": share, "node": 1 - share}
    durable = tier("store", store, "process", "node")
    both = plan_tiers([tier("ram", ram, "process"), durable], mtbf_s, 300, kinds)
    alone = plan_tiers([durable], mtbf_s, 300, kinds)
    assert both.interval.waste.total <= alone.interval.waste.total + 2 * (ram + store) / mtbf_s


@given(cost_s=COSTS, share=st.floats(0.1, 0.9), mtbf_s=st.floats(5000, 1e6), more=st.floats(1.1, 10))
def test_more_is_wasted_with_a_dearer_tier_and_more_failures(cost_s, share, mtbf_s, more) -> None:
    """Rounding to whole multiples and a change of formulas aside, 0.2 % of the time."""
    kinds = {"process": share, "node": 1 - share}

    def total(store_s: float, m_s: float) -> float:
        return plan_tiers([RAM, tier("store", store_s, "process", "node")], m_s, 300, kinds).interval.waste.total

    assert total(cost_s * more, mtbf_s) >= total(cost_s, mtbf_s) - 0.002
    assert total(cost_s, mtbf_s / more) >= total(cost_s, mtbf_s) - 0.002


def test_a_simulation_of_two_tiers_wastes_as_much() -> None:
    """20,000 failures, seed 5, half of them of nodes, with the plan of the first test: within 0.3 % of the time."""
    plan = plan_tiers([RAM, STORE], M, kinds=HALF)
    interval_s, every = plan.uses[0].interval_s, plan.uses[1].every
    draw = np.random.default_rng(5)
    useful = total = 0.0
    since = 0  # intervals done since the last one that went to the store
    for until_failure, node_lost in zip(draw.exponential(M, 20_000), draw.random(20_000) < 0.5, strict=True):
        total += until_failure
        left, done = until_failure, 0
        while left >= (step := interval_s + 1 + (64 if (since + done + 1) % every == 0 else 0)):
            left, done = left - step, done + 1
        reached = since + done
        kept = reached - reached % every if node_lost else reached
        useful += (kept - since) * interval_s
        since = kept % every
    assert 1 - useful / total == pytest.approx(plan.interval.waste.total, abs=0.003)


def test_a_job_that_names_its_interval_keeps_it_and_learns_what_it_wastes() -> None:
    """δ = 30 s, M = 10,000 s."""
    given_one = job_interval(Checkpoint(interval_s=900, cost_s=30, restart_s=300), M)
    assert given_one is not None
    assert (given_one.interval_s, given_one.formula) == (900, Formula.GIVEN)
    assert given_one.waste.total == pytest.approx(waste(900, 30, M, 300).total)


def test_a_job_without_an_interval_gets_one_and_its_own_checkpoint_survives_everything() -> None:
    """Its tier survives only processes; `cost_s` is there for nodes."""
    nvme = tier("nvme", 2, "process", upload_s=60)
    alone = job_interval(Checkpoint(cost_s=30, restart_s=300), M)
    tiered = job_interval(Checkpoint(cost_s=30, restart_s=300, tiers=(nvme,)), M)
    assert alone == auto_interval(30, M, 300)
    assert tiered == plan_tiers([nvme, durable_tier(30)], M, 300).interval
    assert tiered is not None
    assert tiered.formula is Formula.TIERED


@pytest.mark.parametrize(
    "checkpoint",
    [Checkpoint(), Checkpoint(interval_s=900), Checkpoint(tiers=(RAM,)), Checkpoint(tiers=(tier("s", 0, "node"),))],
)
def test_a_job_of_which_too_little_is_known_gets_no_interval(checkpoint) -> None:
    """No price is known, or every node that fails takes all checkpoints with it."""
    assert job_interval(checkpoint, M) is None


def test_an_elastic_job_that_shrinks_checkpoints_less_often() -> None:
    """Half the nodes, twice M: √2 times the interval, to first order."""
    checkpoint = Checkpoint(cost_s=1, elastic=True)
    large, small = job_interval(checkpoint, M), job_interval(checkpoint, 2 * M)
    assert large is not None
    assert small is not None
    assert small.interval_s == pytest.approx(math.sqrt(2) * large.interval_s)
