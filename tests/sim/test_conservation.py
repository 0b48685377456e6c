"""Where every GPU·ms went: told by the engine's books and by the runs, and both agree to the unit."""

from __future__ import annotations

import pytest

from optsched.sim.accounts import AT_WORK
from optsched.sim.figures import gpu_time, metrics
from tests.sim.made import simulation


@pytest.mark.parametrize("seed", range(4))
def test_all_that_goes_in_is_told_to_the_unit(seed):
    """GPU·ms in = useful + placement loss + checkpoint + restart + lost + draining + held + idle + down.

    So it is at any instant while runs go on, and in the end, when whoever has ended owes no work.
    """
    running = simulation(seed)
    for stop_h in (0.3, 1.1, 2.7):
        running.run(stop_at_s=stop_h * 3600)
        found = gpu_time(running.end())
        assert found.capacity == 36 * running.now
        assert found.accounted == found.capacity
    assert running.run()
    end = running.end()
    found = gpu_time(end)
    assert found.capacity == 36 * end.now
    assert found.accounted == found.capacity
    # The engine's bookings and what the runs say of themselves come from different hands.
    assert found.at_work == end.books.spent[AT_WORK]
    assert min(getattr(found, name) for name in found.__slots__) >= 0
    assert metrics(end).jobs.get("completed", 0) > 0
    assert not running.world.now.runs
    assert not running.world.now.owed
