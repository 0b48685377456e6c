"""Sums in arrays and by differences are what a look at every job gives, on seeded rounds of 12 to 40 nodes."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.policy.shares import weighted_share, weighted_share_of_one
from optsched.rounds.assignment import NO_CHANGE
from optsched.rounds.build import build_problem
from optsched.rounds.line import line_of, rows_by_team, use_now, use_of
from optsched.rounds.score import gpu_type_of, placement_loss, placement_losses, size_of, use_after
from optsched.solve.greedy import greedy
from tests.oracle.rounds import small_round

SEEDS = (3, 17, 99, 256)


def same_use(one, other) -> bool:
    pairs = ((one.gpus, other.gpus), (one.cpus, other.cpus), (one.memory, other.memory))
    return all(np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_use_of_what_runs_is_the_sum_over_the_running_jobs(seed):
    problem = build_problem(small_round(seed))
    jobs = [(job.line_team, job, job.size_now, gpu_type_of(problem, job.spread_now)) for job in problem.running]
    assert problem.running
    assert same_use(use_now(problem.occupancy), use_of(problem.shape, jobs))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_use_after_a_plan_is_the_sum_over_all_that_runs_then(seed):
    problem = build_problem(small_round(seed))
    plan = greedy(problem)
    after = [(job, plan.after(job)) for job in problem.jobs]
    jobs = [(job.line_team, job, size_of(spread), gpu_type_of(problem, spread)) for job, spread in after if spread]
    assert plan != NO_CHANGE
    assert same_use(use_after(problem, plan, by_line=True), use_of(problem.shape, jobs))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_line_in_plain_numbers_gives_the_rows_of_the_arrays(seed):
    problem = build_problem(small_round(seed))
    held = use_now(problem.occupancy).gpus
    teams = np.arange(len(problem.team_names))
    rows = rows_by_team(problem.lines, held, teams, problem.deadline_team)
    for team in teams.tolist():
        line = line_of(problem.lines, team, problem.deadline_team)
        assert line.rows(held[team].tolist()) == rows[team].tolist()


@pytest.mark.parametrize("seed", SEEDS)
def test_losses_of_many_placements_are_those_of_each(seed):
    problem = build_problem(small_round(seed))
    placed = [(job, job.spread_now) for job in problem.running] + [(job, ()) for job in problem.queued]
    assert placement_losses(problem, placed) == tuple(placement_loss(problem, *each) for each in placed)
    assert problem.loss_now == placement_losses(problem, placed)[: problem.first_queued]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_ceiling_knows_what_its_running_jobs_hold(seed):
    problem = build_problem(small_round(seed))
    for ceiling in problem.ceilings:
        if ceiling.item.what.value == "gpus" and ceiling.item.gpu_type is None:
            assert ceiling.held == sum(problem.jobs[j].size_now for j in ceiling.jobs)


@pytest.mark.parametrize(
    ("usage", "capacity", "weight", "share"),
    [
        ((10.0, 4.0), (100.0, 8.0), 2.0, 0.25),  # 4 / 8 is dominant, halved by the weight
        ((10.0, 4.0), (100.0, 0.0), 1.0, 0.1),  # what the cluster lacks is no share
        ((10.0, 4.0), (100.0, 8.0), 0.0, float("inf")),
    ],
)
def test_the_weighted_share_of_one_team_is_that_of_many(usage, capacity, weight, share):
    assert weighted_share_of_one(usage, capacity, weight) == share
    assert float(weighted_share(np.array(usage), np.array(capacity), np.array(weight))) == share
