"""Futures of a snapshot: what runs runs on, what waits starts when it can, and nothing outside is touched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optsched.clock import StoppedClock
from optsched.engine.state import initial
from optsched.sim.kernel import Simulation
from optsched.values.cluster import NodeState
from optsched.values.ids import JobId, LevelName, TeamId
from optsched.values.job import Job
from optsched.values.snapshot import Snapshot
from optsched.whatif.answers import Band, band, summary
from optsched.whatif.changes import AddJob, Drain, FailureRates, changed
from optsched.whatif.futures import Future, FutureRules, future
from optsched.whatif.position import position_of
from optsched.whatif.runtimes import RunTimes
from tests.sim.made import simulation
from tests.whatif.lab import lab

EXACT = FutureRules(run_times=RunTimes("stated"), arrivals=False, failures=FailureRates("none"))
"""What is stated is right, nothing comes, nothing fails."""


def ask(snapshot: Snapshot, job: str, rules: FutureRules = EXACT, seed: int = 0) -> Future:
    return future(snapshot, [JobId(job)], rules, seed, StoppedClock())


def test_a_job_starts_when_what_is_in_its_way_ends_by_its_estimate() -> None:
    # sweep ends in 1,800 s; a round follows within a minute, and agents confirm within 5 s.
    found = ask(lab(), "eval")
    start = found.starts["eval"]
    assert start is not None
    assert 1800 <= start <= 1800 + 60 + 5
    assert found.domains == {"eval": "r1"}
    assert found.stopped == ()


def test_now_is_between_two_rounds_and_all_seeds_agree_where_nothing_is_left_to_chance() -> None:
    starts = [ask(lab(), "eval", seed=seed).starts["eval"] for seed in range(8)]
    assert len(set(starts)) > 1
    assert all(at is not None and 1800 <= at <= 1865 for at in starts)


def test_who_is_stopped_for_a_job_is_told_with_its_cost() -> None:
    urgent = Job(
        JobId("urgent"), TeamId("language"), 16, priority=3000, required=LevelName("rack"), submitted_at=36_000.0
    )
    found = ask(changed(lab(), [AddJob(urgent)]), "urgent")
    assert [(each.job, each.team) for each in found.stopped] == [("sweep", "vision")]
    # 8 GPUs lose what was done since the checkpoint of 15 min ago, and up to a minute until the round.
    assert 8 * 900 <= found.stopped[0].cost_gpu_s <= 8 * 960


def test_a_job_that_does_not_start_within_the_horizon_has_no_start() -> None:
    found = ask(lab(), "eval", replace(EXACT, horizon_s=900.0))
    assert found.starts == {"eval": None}
    assert found.until_s == pytest.approx(900.0)


def test_a_drained_rack_is_no_room() -> None:
    found = ask(changed(lab(), [Drain("r1")]), "eval")
    # resnet ends in 7,200 s on the other rack; sweep had to leave r1 and is queued again.
    assert found.domains == {"eval": "r0"}


def test_a_node_that_is_down_comes_back_in_time() -> None:
    snapshot = lab()
    nodes = tuple(replace(node, state=NodeState.DOWN) if node.id == "r1n1" else node for node in snapshot.cluster.nodes)
    broken = replace(snapshot, cluster=replace(snapshot.cluster, nodes=nodes))
    assert ask(broken, "eval").starts["eval"] is not None


def test_as_many_jobs_come_as_run() -> None:
    rules = replace(EXACT, arrivals=True, horizon_s=16 * 3600.0)
    # 16 GPUs of resnet's kind and 8 of sweep's keep running in the mean, beside eval's 16 while they last: of 32.
    held = [future(lab(), [], rules, seed, StoppedClock()).held_gpus["vision"] for seed in range(2)]
    assert 16 <= sum(held) / len(held) <= 31


def test_the_same_seed_gives_the_same_future_and_the_snapshot_stays_as_it_is() -> None:
    snapshot, as_it_was = lab(), lab()
    rules = FutureRules(horizon_s=4 * 3600.0, failures=FailureRates("llama3", 500.0))
    first, second = ask(snapshot, "eval", rules, 3), ask(snapshot, "eval", rules, 3)
    assert first == second
    assert snapshot == as_it_was


def running_simulation() -> Simulation:
    made, at = simulation(5, jobs=20), 600.0
    while all(job.placement for job in position_of(made.state, made.state.now).jobs):
        at += 600.0
        made.run(stop_at_s=at)
    return made


def test_asking_about_a_simulation_leaves_it_alone() -> None:
    asked, left = running_simulation(), running_simulation()
    waits = next(iter(job.id for job in position_of(asked.state, asked.state.now).jobs if not job.placement))
    future(position_of(asked.state, asked.state.now), [waits], replace(EXACT, horizon_s=3600.0), 0, StoppedClock())
    asked.run()
    left.run()
    assert asked.collector.notes.jobs == left.collector.notes.jobs
    assert asked.account.books == left.account.books


def test_a_position_states_what_users_stated() -> None:
    made = running_simulation()
    for job in position_of(made.state, made.state.now).jobs:
        assert job.estimated_runtime_s == made.state.jobs[job.id].job.estimated_runtime_s
    initial(position_of(made.state, made.state.now))


def test_a_band_leaves_out_a_tenth_on_either_side() -> None:
    assert band([float(value) for value in range(21)]) == Band(2.0, 10.0, 18.0)
    assert band([5.0]) == Band(5.0, 5.0, 5.0)
    assert band([1.0, 2.0, float("inf"), float("inf")]) == Band(1.0, None, None)


def test_what_is_stopped_is_counted_over_all_futures() -> None:
    urgent = Job(
        JobId("urgent"), TeamId("language"), 16, priority=3000, required=LevelName("rack"), submitted_at=36_000.0
    )
    snapshot = changed(lab(), [AddJob(urgent)])
    found = summary([ask(snapshot, "urgent", seed=seed) for seed in range(4)])
    assert [(each.job, each.share) for each in found.stopped] == [("sweep", 1.0)]
    assert found.cost_gpu_s["language"] == 0
    assert 7200 <= found.cost_gpu_s["vision"] <= 7680
    assert found.jobs["urgent"].starts_within_horizon == 1.0
