"""A gang that insists on a domain does not wait for days where its room could be made by moves.

Three racks of three nodes of 4 GPUs. Nine jobs of team b fill them; six end after an hour, and in each rack one goes on
for 20 h. At 2 h a gang of team a comes that needs a whole rack: 24 of 36 GPUs are free, and no rack is.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from optsched.clock import StoppedClock
from optsched.sim.failures import FAILURES
from optsched.sim.figures import gangs
from optsched.sim.kernel import Setup, Simulation
from optsched.sim.policies.policy import Means
from optsched.sim.policies.registry import POLICIES
from optsched.sim.settings import SimSettings
from optsched.sim.workload import Arrival, Ending, Workload
from optsched.values.ids import JobId, LevelName, TeamId
from optsched.values.job import Checkpoint, Job
from optsched.values.resources import Amounts
from optsched.values.team import Team
from tests.sim.made import SLOW, cluster

HOUR = 3600.0


def wait_h(policy: str, quota: int, **knobs: object) -> float:
    """How long the gang waits, in hours, where team b has a quota of so many GPUs."""
    saves = Checkpoint(600.0, 5.0, 60.0, on_signal=True)
    arrivals = [
        Arrival(
            0.0,
            Job(JobId(f"b{i}"), TeamId("b"), 4, estimated_runtime_s=24 * HOUR, checkpoint=saves),
            20 * HOUR if i % 3 == 0 else HOUR,
            Ending.COMPLETED,
        )
        for i in range(9)
    ]
    gang = Job(JobId("gang"), TeamId("a"), 12, gpus_per_node=4, required=LevelName("rack"), estimated_runtime_s=HOUR)
    arrivals.append(Arrival(2 * HOUR, gang, HOUR, Ending.COMPLETED))
    teams = (Team(TeamId("a"), quota=Amounts(gpus=12)), Team(TeamId("b"), quota=Amounts(gpus=quota)))
    settings = SimSettings(round_every_s=300.0, failures=FAILURES["none"], gantt_gpus=12, checked=True)
    chosen, profile = POLICIES[policy], replace(SLOW, **knobs)
    setup = Setup(cluster(), Workload("starving", tuple(arrivals), teams), chosen.profile(profile), SLOW, settings)
    running = Simulation(setup, chosen.planner(Means(0, 0.05, frozenset({LevelName("rack")}))), StoppedClock())
    running.run()
    start = next(each.runs[0].start_s for each in gangs(running.end()) if each.gpus == 12)
    return start / HOUR - 2


@pytest.mark.parametrize("policy", ["greedy", "optsched"])
def test_whoever_is_not_inside_its_quota_is_moved_at_once(policy: str):
    """Without a quota of b's the gang needs no patience, and nobody stops for it."""
    assert wait_h(policy, 0) < 0.2


@pytest.mark.parametrize("policy", ["greedy", "optsched"])
def test_whoever_is_inside_its_quota_makes_way_for_a_starved_gang_where_the_profile_says_so(policy: str):
    """After the 6 h of `starve_after_s`, for the price of a restart of 65 s; else it waits until one of them ends."""
    assert 6 <= wait_h(policy, 24, starved_move_s=900.0) < 6.3
    assert wait_h(policy, 24) >= 17.9
