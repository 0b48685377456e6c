"""Every policy by name: its plans pass the checker, the engine's invariants hold, and it does what it is named for."""

from __future__ import annotations

import pytest

from optsched.clock import StoppedClock
from optsched.engine.step import step
from optsched.sim import kernel
from optsched.sim.figures import gpu_time, metrics
from optsched.sim.policies.names import ABOUT
from optsched.sim.policies.policy import Means
from optsched.sim.policies.registry import POLICIES
from tests.builders import QUIET, racks, snapshot, team
from tests.engine.invariants import faults_of
from tests.sim.made import simulation

SEARCHING = {"optsched", "no-lost-work-price", "no-reservations", "no-topology", "unbounded-backfill"}


def test_every_policy_is_told_in_a_sentence():
    """The names that help shows are those that there are."""
    assert list(ABOUT) == list(POLICIES)


@pytest.mark.parametrize("policy", POLICIES)
def test_plans_are_valid_and_the_engine_keeps_its_invariants(policy, monkeypatch):
    """No plan is refused by the checker, no step breaks what must hold, and the books agree."""
    faults = []

    def watched(state, event, now):
        found = step(state, event, now)
        faults.extend(f"{now:g} {type(event).__name__}: {fault}" for fault in faults_of(state, found))
        return found

    monkeypatch.setattr(kernel, "step", watched)
    running = simulation(2, policy, jobs=6 if policy in SEARCHING else 30)
    running.run()
    assert not faults, faults[:5]
    found = metrics(running.end())
    assert "no_change" not in found.rounds.sources or policy in SEARCHING
    assert set(found.jobs) <= {"completed", "failed", "cancelled"}
    assert gpu_time(running.end()).accounted == gpu_time(running.end()).capacity


def planned(policy, *jobs, nodes=None, teams=None):
    """The plan of a policy for one round on four nodes of 8 GPUs in two racks, as {job: nodes}."""
    given = snapshot(nodes or racks(8, r1="a b", r2="c d"), jobs, teams or [team("t")], profile=QUIET)
    plan = POLICIES[policy].planner(Means(StoppedClock()))(given)
    return {str(each.job): sorted(map(str, each.placement)) for each in plan.starts}, plan
