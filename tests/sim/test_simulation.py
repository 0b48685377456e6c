"""Simulations drive the engine itself: its invariants hold, a seed gives the same figures, a pause changes nothing."""

from __future__ import annotations

import pytest

from optsched.engine.step import step
from optsched.sim import kernel
from optsched.sim.figures import gangs, metrics, series
from optsched.sim.saving import load, save
from optsched.sim.settings import SimSettings
from tests.engine.invariants import faults_of
from tests.sim.made import BREAKS, simulation


def told(running):
    """All that a simulation has to say."""
    end = running.end()
    return metrics(end), series(end), gangs(end)


@pytest.mark.parametrize("seed", range(2))
def test_the_engine_keeps_its_invariants_throughout(seed, monkeypatch):
    """Every step of a run is held against what must hold after every event."""
    faults = []

    def watched(state, event, now):
        found = step(state, event, now)
        faults.extend(f"{now:g} {type(event).__name__}: {fault}" for fault in faults_of(state, found))
        return found

    monkeypatch.setattr(kernel, "step", watched)
    running = simulation(seed)
    running.run()
    assert not faults, faults[:5]
    assert sum(running.collector.notes.failures.values()) > 10


def test_the_same_seed_gives_the_same_figures_and_another_one_others():
    """No clock and no chance but the seed's comes in."""
    runs = [simulation(5, jobs=15) for _ in range(2)]
    for each in runs:
        each.run()
    assert told(runs[0]) == told(runs[1])
    other = simulation(5, settings=SimSettings(seed=6, failures=BREAKS, sample_every_s=600.0), jobs=15)
    other.run()
    assert told(other) != told(runs[0])


@pytest.mark.parametrize(("policy", "jobs"), [("greedy", 15), ("optsched", 5)])
def test_saved_and_resumed_it_has_the_same_future(policy, jobs, tmp_path):
    """Where it was saved and loaded again makes no difference."""
    whole = simulation(7, policy, jobs=jobs)
    whole.run()
    first = simulation(7, policy, jobs=jobs)
    assert not first.run(stop_at_s=4000.0)
    (tmp_path / "at.sim").write_bytes(save(first, policy))
    second = simulation(7, policy, jobs=jobs)
    load(second, tmp_path / "at.sim", policy)
    assert second.state == first.state
    assert second.run()
    assert told(second) == told(whole)
    assert second.state == whole.state
