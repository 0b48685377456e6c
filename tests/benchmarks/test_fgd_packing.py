"""FGD's packing experiment: its harness on a few machines, and on the published cluster for a moment."""

from __future__ import annotations

import numpy as np

from benchmarks.fgd_packing import UNITS, Count, Engine, Machines, Pod, Simple, arrivals, in_batches, one_by_one
from optsched.planner.plan import PlanOptions
from optsched.solve.ladder import SolverChoice

GREEDY = PlanOptions(1e9, SolverChoice.GREEDY, prove=0)


def machines(*gpus: int, cpus: float = 64) -> Machines:
    units = np.full((len(gpus), 8), -1, dtype=np.int64)
    for index, count in enumerate(gpus):
        units[index, :count] = UNITS
    return Machines(np.full(len(gpus), cpus), np.full(len(gpus), 256.0), units)


def pod(gpus: float, cpus: float = 1) -> Pod:
    return Pod(round(gpus * UNITS), cpus, 1)


def test_whole_gpus_are_not_made_of_what_is_left_of_shared_ones() -> None:
    """Two GPUs, 0.6 of each taken: 0.8 are free, but no whole one, and no 0.5 either."""
    engine = Engine(machines(2), GREEDY)
    assert engine.place([pod(0.6), pod(0.6)]) == [True, True]
    assert engine.place([pod(1)]) == [False]
    assert engine.place([pod(0.5)]) == [False]
    assert engine.place([pod(0.4), pod(0.4), pod(0.4)]) == [True, True, False]
    # A round shows one GPU of a machine, so that whoever is planned once may find no room where there is some.
    assert Engine(machines(2), GREEDY, once=True).place([pod(0.6), pod(0.6)]) == [True, False]


def test_a_gang_takes_whole_gpus_of_one_machine() -> None:
    engine = Engine(machines(4, 4), GREEDY)
    assert engine.place([pod(2), pod(4), pod(4)]) == [True, True, False]
    assert engine.place([pod(2)]) == [True]


def test_cpus_and_pods_without_a_gpu_count() -> None:
    engine = Engine(machines(8, cpus=10), GREEDY)
    assert engine.place([pod(0, cpus=6)]) == [True]
    assert engine.place([pod(1, cpus=6)]) == [False]
    assert engine.place([pod(1, cpus=4)]) == [True]


def test_the_share_allocated_is_read_when_enough_has_arrived() -> None:
    count = Count(10)
    for _ in range(12):
        count.take(pod(1), placed=count.allocated < 9 * UNITS)
    assert count.at == {80: 80, 90: 90, 100: 90, 110: 90, 120: 90}


def test_arrivals_are_all_pods_and_then_drawn_again() -> None:
    pods = [pod(1)] * 4 + [pod(2)]
    drawn = arrivals(pods, 10, seed=3)
    assert sum(entry.units for entry in drawn) >= 13 * UNITS
    assert sorted(entry.units for entry in drawn[:5]) == [UNITS] * 4 + [2 * UNITS]
    assert drawn == arrivals(pods, 10, seed=3)


def test_the_engine_fills_a_small_cluster_no_worse_than_at_random() -> None:
    rng = np.random.default_rng(5)
    pods = [pod(float(rng.choice([0.3, 0.5, 1, 1, 2, 4]))) for _ in range(120)]
    given = machines(*[8] * 12)
    order = arrivals(pods, given.gpus, seed=1)
    ours = in_batches(order, given.gpus, Engine(given, GREEDY), batch=10)
    theirs = one_by_one(order, given.gpus, Simple(given, 1, random=True).place)
    assert ours[100] >= theirs[100]
    assert 90 < ours[130] <= 100
