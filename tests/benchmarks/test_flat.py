"""The flat formulation against brute force, against the exact model, and on rounds that it does not know."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from benchmarks.flat import FlatResult, solve_flat
from benchmarks.priority_matters import family_round
from optsched.clock import StoppedClock
from optsched.errors import UsageError
from optsched.files import parse_snapshot
from optsched.rounds.assignment import NO_CHANGE
from optsched.rounds.build import build_problem
from optsched.rounds.check import check
from optsched.rounds.problem import Problem
from optsched.rounds.score import score
from optsched.solve.exact import ExactSolver
from optsched.solve.result import Budget
from optsched.values.profile import PriorityMode
from optsched.values.snapshot import Snapshot
from tests.builders import grant, job, node, nodes, snapshot, team
from tests.oracle.brute import best_plans
from tests.solve.twins import both, rows_of

ENOUGH = Budget(wall_s=1e9, deterministic_s=60.0)
CLASSES = ("P0", "P1", "P2", "P3")
OPEN = {"max_loss_ratio": None, "preempt_tokens": None, "min_runtime_s": 0.0}
"""What the flat model does not know, switched off."""


def tiny(seed: int) -> Snapshot:
    """Two or three nodes of 4 or 8 GPUs and up to six pods of 1 to 8: some run, some of those may not be stopped."""
    rng = np.random.default_rng(seed)
    capacity = rng.choice([4, 8], size=int(rng.integers(2, 4))).tolist()
    free = list(capacity)
    parts = []
    for number in range(int(rng.integers(3, 7))):
        size = min(max(capacity), int(rng.choice([1, 2, 3, 4, 8], p=[0.2, 0.25, 0.15, 0.25, 0.15])))
        pod = job(f"pod{number}").rank(str(rng.choice(CLASSES))).gang(size)
        n = int(rng.integers(len(capacity)))
        if size <= free[n] and rng.random() < 0.6:
            free[n] -= size
            pod = pod.running({f"n{n}": size})
        if rng.random() < 0.15:
            pod = pod.rigid()
        parts.append(pod)
    cluster = [node(f"n{n}", gpus) for n, gpus in enumerate(capacity)]
    return snapshot(cluster, *parts, levels="", **OPEN)


def best_of_all(problem: Problem) -> tuple[list[int], int, int]:
    """Return (GPUs by priority, GPUs stopped, jobs moved) of the best of all ways to put each pod on a node or nowhere.

    With one capacity constraint per node, as published: nobody asks who may take from whom.
    """
    nowhere = -1
    choices = []
    for each in problem.jobs:
        here = each.spread_now[0][0] if each.running else nowhere
        fixed = each.running and not each.stoppable
        open_to = [n for n, gpus in enumerate(problem.nodes.capacity) if gpus >= each.maximum]
        choices.append([here] if fixed else [nowhere, *open_to])
    best = None
    for chosen in itertools.product(*choices):
        used = [0] * len(problem.nodes.capacity)
        gpus, stopped, moved = [0] * len(problem.priorities), 0, 0
        for each, n in zip(problem.jobs, chosen, strict=True):
            if n != nowhere:
                used[n] += each.maximum
                gpus[each.priority] += each.maximum
                moved += each.running and n != each.spread_now[0][0]
            else:
                stopped += each.size_now
        if all(used <= problem.nodes.capacity):
            key = ([-count for count in gpus], stopped, moved)
            best = key if best is None else min(best, key)
    assert best is not None, "to keep what runs is always possible"
    return [-count for count in best[0]], best[1], best[2]


def values(result: FlatResult) -> list[int | None]:
    """The GPUs of every tier; all of them are proven."""
    assert all(tier.optimal and tier.bound == tier.value for tier in result.tiers)
    return [tier.value for tier in result.tiers]


@pytest.mark.parametrize("chunk", range(4))
def test_it_finds_what_trying_everything_finds(chunk):
    """With one capacity constraint per node: GPUs of every tier, then GPUs stopped, then jobs moved."""
    for seed in range(chunk * 25, chunk * 25 + 25):
        problem = build_problem(tiny(seed))
        result = solve_flat(problem, ENOUGH, StoppedClock(), rights=False)
        gpus, stopped, moved = best_of_all(problem)
        assert (values(result), result.stopped.value, result.moved.value) == (gpus, stopped, moved), seed
        assert result.stopped.optimal, seed
        assert result.moved.optimal, seed


@pytest.mark.parametrize("chunk", range(4))
def test_with_rights_it_runs_what_the_oracle_and_the_exact_model_run(chunk):
    """Its plan passes the checker, and its ranks are those of the brute force that is written from the text alone."""
    changed = 0
    for seed in range(chunk * 25, chunk * 25 + 25):
        problem, round_ = both(tiny(seed))
        result = solve_flat(problem, ENOUGH, StoppedClock())
        assert check(problem, result.assignment) == [], seed
        exact = ExactSolver().solve(problem, NO_CHANGE, ENOUGH, StoppedClock())
        mine = score(problem, result.assignment)
        assert mine.rows == score(problem, exact.assignment).rows, seed
        best = best_plans(round_).score
        assert rows_of(problem, mine) == {row: gpus for row, gpus in best.rows.items() if gpus}, seed
        assert mine.stay_gpus == best.stays, seed
        changed += bool(result.assignment.stopped)
    assert changed >= 2, "some of these rounds must be decided by who is stopped"


@pytest.mark.parametrize("seed", range(6))
def test_gangs_have_one_part_on_a_node(seed):
    """Gangs of two or three nodes among pods, running and queued: the exact model's ranks, a plan that is valid."""
    rng = np.random.default_rng(seed)
    parts = [
        job("old").rank("P2").gang(8).per_node(4).running({"a": 4, "b": 4}),
        job("low").rank("P3").gang(2).running({"c": 2}),
        job("new").rank("P1").gang(int(rng.choice([12, 16]))).per_node(int(rng.choice([4, 2]))),
        job("pod").rank("P0").gang(int(rng.choice([2, 8]))),
    ]
    problem = build_problem(snapshot(nodes("a b c d"), *parts, levels="", **OPEN))
    result = solve_flat(problem, ENOUGH, StoppedClock())
    exact = ExactSolver().solve(problem, NO_CHANGE, ENOUGH, StoppedClock())
    assert check(problem, result.assignment) == []
    assert score(problem, result.assignment).rows == score(problem, exact.assignment).rows


@pytest.mark.parametrize("seed", range(3))
def test_on_the_family_every_pod_runs_and_the_moves_are_the_exact_models(seed):
    """Eight nodes: demand equals capacity, so every GPU runs; each move costs 480 GPU-seconds and nothing else does."""
    problem = build_problem(parse_snapshot(family_round(8, seed))[0])
    result = solve_flat(problem, ENOUGH, StoppedClock(), rights=False)
    exact = ExactSolver().solve(problem, NO_CHANGE, ENOUGH, StoppedClock())
    assert sum(filter(None, values(result))) == 64
    assert check(problem, result.assignment) == []
    assert exact.proven
    assert result.moved.optimal
    assert 480 * (result.moved.value or 0) == score(problem, exact.assignment).costs.total


def test_a_stopped_job_makes_room_for_higher_priority_only():
    """The running pod of P1 must not go for one of its own priority that is larger; without rights it does."""
    round_ = snapshot(
        [node("a", 4)],
        job("small").rank("P1").running({"a": 2}),
        job("large").rank("P1").gang(4),
        levels="",
        **OPEN,
    )
    problem = build_problem(round_)
    assert values(solve_flat(problem, ENOUGH, StoppedClock())) == [2]
    assert values(solve_flat(problem, ENOUGH, StoppedClock(), rights=False)) == [4]


def test_without_time_it_changes_nothing_and_proves_nothing():
    """The plan that changes nothing is what is left; what runs is counted, no bound is claimed."""
    problem = build_problem(parse_snapshot(family_round(64, 0))[0])
    result = solve_flat(problem, Budget(wall_s=1e9, deterministic_s=1e-9), StoppedClock())
    assert not result.found
    assert result.assignment == NO_CHANGE
    assert sum(tier.value or 0 for tier in result.tiers) == sum(each.size_now for each in problem.running)
    assert all(tier.bound is None for tier in result.tiers)


POD = job("pod").gang(2)
AB = nodes("a b")


@pytest.mark.parametrize(
    ("round_", "why"),
    [
        (snapshot(AB, POD, **OPEN | {"priority_mode": PriorityMode.WEIGHTED}), "priority_mode weighted; allowed: str"),
        (snapshot(AB, POD, **OPEN | {"max_loss_ratio": 1.0}), "max_loss_ratio is set; allowed: null"),
        (snapshot(AB, POD, max_stopped_gpus_per_h=4, **OPEN), "max_stopped_gpus_per_h is set; allowed: null"),
        (snapshot([node("a"), node("b", 8, "h100")], POD, **OPEN), "2 GPU types; allowed: one"),
        (snapshot(AB, POD, job("other").team("u"), **OPEN), "jobs of several teams; allowed: one team"),
        (snapshot(AB, POD, team("t").limit(4), **OPEN), "limits or quotas that bound jobs; allowed: none"),
        (snapshot(AB, POD, grant("g", 4, teams="t"), **OPEN), "reservations; allowed: none"),
        (snapshot(AB, POD.elastic(1, 4), **OPEN), "job pod: elastic; allowed: one size"),
        (snapshot(AB, POD.per_task(1), **OPEN), "job pod: cut by task or whole nodes; allowed: one node, gpus_per"),
        (snapshot(nodes("a b", rack="r"), POD.within("rack"), **OPEN), "job pod: a required level or slices; allowed"),
        (snapshot(AB, POD.cpus(4), **OPEN), "job pod: CPUs or memory; allowed: GPUs alone"),
        (snapshot(AB, POD.rank("P0"), emergency_classes=("P0",), **OPEN), "job pod: an emergency class or a due dead"),
        (snapshot(AB, POD.by(400), **OPEN), "job pod: a near deadline; allowed: none"),
    ],
)
def test_a_round_that_it_does_not_know_is_refused_in_one_line(round_, why):
    """What it is, and what is allowed."""
    with pytest.raises(UsageError, match=f"^the flat model does not know this round: {why}") as raised:
        solve_flat(build_problem(round_), ENOUGH, StoppedClock())
    assert "\n" not in str(raised.value)
