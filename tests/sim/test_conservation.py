"""Where every GPU·ms went: told by the engine's books and by the runs, and both agree to the unit."""

from __future__ import annotations

import pytest

from optsched.sim.accounts import AT_WORK
from optsched.sim.figures import gpu_time, metrics
from tests.sim.made import simulation


@pytest.mark.parametrize("seed", range(6))
def test_all_that_goes_in_is_told_to_the_unit(seed):
    """GPU·ms in = useful + placement loss + checkpoint + restart + lost + draining + held + idle + down."""
    running = simulation(seed)
    assert running.run()
    end = running.end()
    found = gpu_time(end)
    assert found.capacity == 36 * end.now
    assert found.accounted == found.capacity
    # The engine's bookings and what the runs say of themselves come from different hands.
    assert found.at_work == end.books.spent[AT_WORK]
    assert min(getattr(found, name) for name in found.__slots__) >= 0


@pytest.mark.parametrize("stop_h", [0.3, 1.1, 2.7])
def test_it_holds_at_any_instant_while_runs_go_on(stop_h):
    """Runs that have not ended are counted up to now."""
    running = simulation(3)
    running.run(stop_at_s=stop_h * 3600)
    found = gpu_time(running.end())
    assert running.world.now.runs
    assert found.capacity == 36 * running.now
    assert found.accounted == found.capacity


@pytest.mark.parametrize("seed", range(3))
def test_jobs_that_end_undisturbed_have_done_their_work_and_no_more(seed):
    """What a job is owed when it completes is nothing; what it was owed is its work at its own size."""
    running = simulation(seed)
    running.run()
    done = metrics(running.end())
    assert done.jobs.get("completed", 0) > 0
    assert not running.world.now.runs
    assert not running.world.now.owed, "whatever has ended owes nothing"
