"""What is kept from one round to the next changes nothing: every view and every round problem of a random history is
as if it were worked out from nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from optsched.engine import seen
from optsched.engine.state import State, initial
from optsched.engine.step import step
from optsched.engine.view import Viewer, _occupied, snapshot_of
from optsched.planner.memory import Memory, remembered
from optsched.policy.victims import may_be_stopped, median_reporting_start, stop_cost, waited_for
from optsched.rounds.build import build_problem
from optsched.rounds.problem import Problem
from tests.builders import job, nodes, snapshot, team
from tests.engine.world import World

SEEDS = range(3)


@cache
def history(seed: int) -> tuple[State, ...]:
    """The states of a world in which jobs, nodes, teams and rules change all the time, one after each event."""
    world = World(seed)
    world.live(60)
    state, found = world.start, []
    for entry in world.log:
        state = step(state, entry.event, entry.at).state
        found.append(state)
    return tuple(found)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_state_looks_as_it_does_at_first_sight(seed: int) -> None:
    viewer = Viewer()
    for state in history(seed):
        assert viewer.snapshot(state) == snapshot_of(state)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_state_looks_the_same_where_each_job_is_looked_at_closely(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the nodes: whatever is booked to a run that does not go on is found."""
    quick = [snapshot_of(state) for state in history(seed)]
    monkeypatch.setattr(seen, "_as_it_stands", lambda record: False)
    for state, found in zip(history(seed), quick, strict=True):
        assert found == snapshot_of(state)
        assert found.carried.occupied == _occupied(state, state.nodes.keys())


def test_estimates_are_corrected_by_what_was_needed_and_by_time() -> None:
    """a's user needs half of what is stated: a, with 1,000 s, is seen with 500 s, and from then on with 1,000 s."""
    whole = snapshot(nodes("n1"), job("a").running(n1=1).runs_for(1000), job("b").gang(1).runs_for(60))
    viewer = Viewer()
    known = dataclasses.replace(initial(whole), history={(whole.jobs[0].team, whole.jobs[0].user): (0.5,) * 50})
    began = known.jobs[whole.jobs[0].id].job.started_at
    assert began is not None
    seen_at = [
        [each.estimated_runtime_s for each in viewer.snapshot(dataclasses.replace(known, now=began + at)).jobs]
        for at in (0.0, 499.0, 500.0, 501.0)
    ]
    assert seen_at == [[500.0, 30.0], [500.0, 30.0], [1000.0, 30.0], [1000.0, 30.0]]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_round_problem_is_as_if_it_were_built_from_nothing(seed: int) -> None:
    memory: Memory | None = None
    viewer = Viewer()
    for state in history(seed)[::2]:
        found = viewer.snapshot(state)
        memory = remembered(memory, found.cluster)
        kept, anew = build_problem(found, memory.tree, memory.facts), build_problem(found)
        assert list(differences(kept, anew)) == [], state.now


@pytest.mark.parametrize("seed", SEEDS)
def test_arrays_of_running_jobs_say_what_policy_says_of_each(seed: int) -> None:
    for state in history(seed)[::5]:
        problem = build_problem(snapshot_of(state))
        held = problem.occupancy
        found, profile = problem.snapshot, problem.profile
        pinned, median = found.carried.pinned, median_reporting_start(found.jobs)
        for each in problem.running:
            j, cost = each.index, stop_cost(each.job, found.now, profile, median)
            free = each.job.id not in pinned
            may_stop = free and each.job.id not in found.carried.protected
            may_move = free and each.job.preemptible and profile.migration and each.size_now > 0
            assert each.stoppable == (may_stop and may_be_stopped(each.job, found.now, profile, cost))
            assert each.movable == (may_move and not waited_for(each.job, found.now, cost))
            assert each.resizable == (free and len(each.sizes) > 1)
            assert each.costs.stop == each.costs.move == round(each.size_now * cost.per_gpu_s)
            assert each.costs.drain_s == round(cost.drain_s)
            assert each.stoppable == held.stoppable[j]
            assert each.resizable == held.resizable[j]
            assert each.elastic == held.elastic[j]
            assert each.costs.stop == held.stop_gpu_s[j]
            assert (each.team, each.claim_team, each.tier) == (held.real_team[j], held.team[j], held.tier[j])
            assert (each.minimum, each.size_now, each.priority) == (held.minimum[j], held.size[j], held.priority[j])
            assert each.line_team == each.claim_team
        for j in range(len(problem.jobs)):
            assert list(problem.ceilings_of[j]) == [c for c, each in enumerate(problem.ceilings) if j in each.jobs]


def test_jobs_are_made_when_they_are_asked_for_and_once():
    problem = build_problem(snapshot(nodes("n1"), team("t"), job("a").running(n1=2), job("b").gang(1)))
    assert problem.jobs[0] is problem.jobs[0]
    assert [each.index for each in problem.jobs] == [0, 1]
    other = dataclasses.replace(problem.jobs[1], due=True)
    changed = problem.jobs.replaced({1: other})
    assert changed[1] is other
    assert changed[0] is problem.jobs[0]
    assert not problem.jobs[1].due
    with pytest.raises(IndexError):
        problem.jobs[2]


def differences(one: Problem, other: Problem) -> Iterator[str]:
    """Where two problems differ, field by field."""
    for field in dataclasses.fields(Problem):
        first, second = (plain(getattr(each, field.name)) for each in (one, other))
        if first != second:
            yield f"{field.name}: {first} is not {second}"


def plain(value: object) -> object:
    """Anything in a problem as data that can be compared."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if hasattr(value, "_ends"):
        return (value._which, value._ends)
    if type(value).__name__ == "Tree":
        return value.node_ids
    if dataclasses.is_dataclass(value):
        return tuple(plain(getattr(value, field.name)) for field in dataclasses.fields(value))
    if isinstance(value, str) or not hasattr(value, "__len__") or isinstance(value, (dict, set, frozenset)):
        return value
    return tuple(plain(each) for each in value)
