"""Plans at the edges of what a file may say: overbooked nodes, speeds above full speed, slices of what moves."""

from __future__ import annotations

import json

import pytest

from optsched.clock import StoppedClock
from optsched.files import parse_snapshot
from optsched.planner.plan import PlanOptions, plan_round
from optsched.values.plan import Status


def plan(text: str):
    """Return the plan of a snapshot given as JSON, with a budget that is counted and not timed."""
    snapshot, _ = parse_snapshot(json.loads(text))
    return plan_round(snapshot, PlanOptions(budget_s=1e9, deterministic_s=5.0), StoppedClock())


def test_a_node_with_a_bad_gpu_that_is_booked_whole_starts_nothing():
    """Eight are booked of seven healthy: stopping a job of four would leave three for a gang of four."""
    found = plan(
        """{"cluster": {"nodes": [{"id": "n0", "gpus": 8, "gpus_bad": [3]}]}, "teams": [{"id": "t"}], "jobs": [
        {"id": "a", "team": "t", "gpus": 4, "state": "running", "started_at": -3600, "priority": "P3",
         "placement": {"n0": [0, 1, 2, 3]}},
        {"id": "b", "team": "t", "gpus": 4, "state": "running", "started_at": -3600, "priority": "P1",
         "placement": {"n0": [4, 5, 6, 7]}},
        {"id": "q", "team": "t", "gpus": 4, "priority": "P2"}]}"""
    )
    assert not found.starts
    assert not found.preemptions


@pytest.mark.parametrize("profile", ["default", "weighted"])
def test_types_faster_than_full_speed_have_a_bound_that_holds(profile):
    """The h100 runs at twice full speed: it loses -3600 GPU-s per GPU, and the bound is no higher than the bill."""
    found = plan(
        f"""{{"profile": "{profile}", "cluster": {{"nodes": [{{"id": "n0", "gpus": 4, "gpu_type": "a100"}},
        {{"id": "n1", "gpus": 4, "gpu_type": "h100"}}]}}, "teams": [{{"id": "t"}}], "jobs": [
        {{"id": "q", "team": "t", "gpus": 2, "gpu_types": {{"a100": 1, "h100": 2}}}}]}}"""
    )
    assert found.starts[0].placement == {"n1": (0, 1)}
    assert found.bill.placement_loss == -2 * 3600
    assert found.round.status is Status.OPTIMAL
    assert found.round.gap == 0
