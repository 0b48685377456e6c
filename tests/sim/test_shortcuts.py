"""What rounds and events of a simulation leave out or take over decides nothing: without it they decide the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optsched.clock import StoppedClock
from optsched.engine.decide import decide
from optsched.engine.draft import Draft
from optsched.planner import forecast
from optsched.planner.plan import PlanOptions, plan_round
from optsched.sim import kernel
from optsched.solve.ladder import SolverChoice
from optsched.solve.packing import pack
from tests.sim.made import simulation

SEEDS = range(2)
WHOLE = PlanOptions(budget_s=1e9, solver=SolverChoice.GREEDY, deterministic_s=0.05, prove=0)
"""Greedy rounds in which everybody is told why he waits."""


class Forgetful:
    """A planner that takes nothing over from one round to the next, and tells everybody why he waits."""

    turn = None

    def go_on(self, turn):
        """There is nothing to go on from."""

    def __call__(self, snapshot):
        return plan_round(snapshot, WHOLE, StoppedClock())


def decisions(seed, monkeypatch, planner=None):
    """All that is decided in a simulation: when, what starts, stops, moves and is reserved where, and at what price."""
    found = []

    def watched(state, given):
        decision = decide(state, given)
        if decision is not None:
            plan = decision.plan
            changes = (plan.starts, plan.preemptions, plan.migrations, plan.resizes, plan.reservations, plan.bill)
            waits = tuple(each.job for each in plan.queued)
            found.append((state.now, decision.cause, changes, plan.round.ranks, waits, decision.lent, decision.again))
        return decision

    with monkeypatch.context() as patched:
        patched.setattr(kernel, "decide", watched)
        running = simulation(seed)
        running.planner = planner or running.planner
        running.run()
    assert any(plan[0] for _, _, plan, *_ in found), "something starts"
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_rounds_with_a_memory_and_without_reasons_decide_the_same(seed, monkeypatch):
    """Facts, shares and moulds of jobs that are kept from round to round say what is found out anew without them."""
    assert decisions(seed, monkeypatch) == decisions(seed, monkeypatch, Forgetful())


@pytest.mark.parametrize("seed", SEEDS)
def test_looking_at_every_claim_after_every_event_starts_nothing_else(seed, monkeypatch):
    """An event that changes nothing on which a claim depends cannot let it begin."""
    quick = decisions(seed, monkeypatch)
    monkeypatch.setattr(Draft, "touches", lambda draft, record, claim: True)
    assert decisions(seed, monkeypatch) == quick


@pytest.mark.parametrize("seed", SEEDS)
def test_forecasts_by_sums_are_those_by_placements(seed, monkeypatch):
    """Whether a gang fits at an instant, told by sums, is whether it can be placed then."""
    quick = decisions(seed, monkeypatch)

    def placed(problem, job, gpus, cpus_u, memory_u):
        return pack(problem, job, gpus, cpus_u, memory_u, job.minimum) is not None

    monkeypatch.setattr(forecast, "fits", placed)
    assert decisions(seed, monkeypatch) == quick


def test_a_start_deadline_that_can_never_be_met_is_refused_without_reasons():
    """Nobody is told why he waits, but one that can never run is still refused for it."""
    running = simulation(1)
    arrival = running.setup.workload.arrivals[0]
    # 400 GPUs, and the cluster has 36.
    job = replace(arrival.job, gpus=400, min_gpus=400, max_gpus=400, gpus_per_node=4, start_deadline_at=1e6)
    running.setup = replace(
        running.setup, workload=replace(running.setup.workload, arrivals=(replace(arrival, job=job),))
    )
    running.run()
    assert running.state.record(job.id).state.value == "failed"
    assert "deadline cannot be met" in running.state.record(job.id).reason
