"""How long jobs really run: what the models promise."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest

from optsched.errors import UsageError
from optsched.values.ids import JobId, TeamId
from optsched.values.job import Job
from optsched.whatif.runtimes import RunTimes, run_times

JOB = Job(JobId("a"), TeamId("t"), 8, estimated_runtime_s=36_000.0)
SEEDS = range(200)


def draws(model: RunTimes, job: Job, elapsed_s: float = 0.0) -> list[float]:
    return [model.draw(job, elapsed_s, seed) for seed in SEEDS]


def test_a_time_limit_is_an_upper_bound_of_which_little_is_used() -> None:
    found = draws(RunTimes(), JOB)
    # Stated times within 30 % of each other are taken together, so the bound is that of the step.
    assert min(found) > 0
    assert max(found) <= 36_000
    assert statistics.median(found) < 18_000


def test_what_has_run_for_a_while_runs_on() -> None:
    for model in (RunTimes(), RunTimes("stated"), RunTimes("spread", 0.5)):
        for elapsed_s in (60.0, 30_000.0, 50_000.0):
            assert min(draws(model, JOB, elapsed_s)) > elapsed_s, (model, elapsed_s)


def test_stated_is_stated() -> None:
    assert set(draws(RunTimes("stated"), JOB)) == {36_000.0}
    assert RunTimes("stated").mean(JOB) == 36_000


def test_a_spread_is_around_what_is_stated() -> None:
    found = draws(RunTimes("spread", 0.5), JOB)
    assert statistics.median(found) == pytest.approx(36_000, rel=0.15)
    assert sum(each < 36_000 for each in found) in range(80, 121)


def test_a_job_that_states_nothing_runs_as_its_like_do() -> None:
    silent = replace(JOB, estimated_runtime_s=None)
    for model in (RunTimes(), RunTimes("stated")):
        # The median of Philly's jobs of 8 GPUs is 23,683 s.
        assert statistics.median(draws(model, silent)) == pytest.approx(23_683, rel=0.3)


def test_the_same_seed_and_job_give_the_same_time() -> None:
    assert draws(RunTimes(), JOB) == draws(RunTimes(), JOB)
    assert draws(RunTimes(), JOB) != draws(RunTimes(), replace(JOB, id=JobId("b")))


@pytest.mark.parametrize("text", ["guessed", "spread", "spread=0", "spread=x", "spread=4", "stated=1"])
def test_an_unknown_model_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="allowed: published, stated, or spread=S"):
        run_times(text)
