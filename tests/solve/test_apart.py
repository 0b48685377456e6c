"""Parts of running gangs go on on another node where a gang is bound to a domain, and only there."""

from __future__ import annotations

import random

import pytest

from optsched.rounds.build import build_problem
from optsched.rounds.check import check
from optsched.rounds.problem import Problem
from optsched.solve.fine import STYLES, place
from tests.builders import JobBuilder, job, nodes, racks, snapshot, team
from tests.solve.test_fine import admitted, choice_of, placed

THREE_RACKS = racks(8, r1="a1 a2", r2="b1 b2", r3="c1 c2")
SLICED = job("q").gang(16).per_node(8).slices((16, "rack"))
INSISTS = job("q").gang(16).per_node(8).within("rack")


def scattered(seed: int) -> Problem:
    """Six racks of three nodes: gangs run across them, and what is queued comes in slices or insists on a rack."""
    rng = random.Random(seed)
    racked = {f"r{r}": " ".join(f"n{r}{i}" for i in range(3)) for r in range(6)}
    free = [name for names in racked.values() for name in names.split()]
    rng.shuffle(free)
    jobs: list[JobBuilder] = []
    for number in range(9):
        size = min(len(free), rng.choice((1, 1, 2, 2, 3, 4)))
        held = {free.pop(): rng.choice((8, 8, 8, 4, 1)) if size == 1 else 8 for _ in range(size)}
        running = job(f"r{number}").team(rng.choice("xyz")).rank(rng.choice(("P2", "P3")))
        running = running.per_node(8) if size > 1 else running
        running = rng.choice((running, running.signal(restart_s=rng.randint(1, 900))))
        running = running.rigid() if rng.random() < 0.1 else running
        jobs += [running.running(held)] if held else []
    for number in range(6):
        waiting = job(f"q{number}").team(rng.choice("xyz")).rank(rng.choice(("P1", "P2")))
        wide = waiting.gang(rng.choice((16, 32))).per_node(8).slices((16, "rack"))
        jobs.append(rng.choice((wide, waiting.gang(16).per_node(8).within("rack"), waiting.gang(rng.randint(1, 8)))))
    teams = (team(name).quota(rng.choice((0, 24, 48))) for name in "xyz")
    return build_problem(snapshot(racks(8, **racked), *teams, *jobs))


def round_of(*jobs: JobBuilder, **more: float) -> Problem:
    """Three racks of two nodes; what is on the second node of each stays unless it is a gang."""
    return build_problem(snapshot(THREE_RACKS, team("x").quota(32), team("t").quota(0), *jobs, **more))


def wide(name: str = "wide", **on: int) -> JobBuilder:
    """A gang on whole nodes that comes back quickly."""
    return job(name).per_node(8).signal(restart_s=5).running(**on)


@pytest.mark.parametrize("gang", [SLICED, INSISTS], ids=["slices", "required"])
@pytest.mark.parametrize("style", STYLES, ids=str)
def test_one_part_of_a_gang_makes_way_and_the_rest_stays(gang, style):
    """Every rack has one node of a gang and one that is free or fixed: wide leaves a1 for b2, no other way is there."""
    problem = round_of(wide(a1=8, b1=8), job("fixed").rigid().running(c1=8), gang)
    assert placed(problem, admitted(problem, "q"), style) in (
        {"q": {"a1": 8, "a2": 8}, "wide": {"b1": 8, "b2": 8}},
        {"q": {"a1": 8, "a2": 8}, "wide": {"b1": 8, "c2": 8}},
        {"q": {"b1": 8, "b2": 8}, "wide": {"a1": 8, "a2": 8}},
        {"q": {"b1": 8, "b2": 8}, "wide": {"a1": 8, "c2": 8}},
    )


def test_a_part_goes_where_a_domain_is_broken_up_anyway():
    """Wide is to leave a1: for c2, beside a fixed job, and not for a node of the empty rack that q avoids."""
    problem = build_problem(
        snapshot(
            racks(8, r1="a1 a2", r2="b1 b2", r3="c1 c2", r4="d1 d2"),
            wide(a1=8, b1=8),
            *(job(f"on-{name}").rigid().running({name: 8}) for name in ("b2", "c1")),
            SLICED.avoiding("d1"),
        )
    )
    assert placed(problem, admitted(problem, "q")) == {"q": {"a1": 8, "a2": 8}, "wide": {"b1": 8, "c2": 8}}


def test_a_gang_that_may_have_any_nodes_moves_nobody():
    problem = round_of(wide(a1=8, b1=8), job("fixed").rigid().running(c1=8), job("q").gang(16).per_node(8))
    plan = placed(problem, admitted(problem, "q"))
    assert plan.keys() == {"q"}
    assert set(plan["q"]) < {"a2", "b2", "c2"}


def test_a_whole_job_of_the_size_of_a_part_makes_way_too():
    problem = round_of(
        job("one").gang(8).signal().running(a1=8),
        *(job(f"on-{n}").rigid().running({n: 8}) for n in ("b1", "c1")),
        SLICED,
    )
    plan = placed(problem, admitted(problem, "q"))
    assert plan["q"] == {"a1": 8, "a2": 8}
    assert plan["one"] in ({"b2": 8}, {"c2": 8})


def test_who_is_inside_its_quota_makes_way_for_its_own_team_alone():
    guarded = wide(a1=8, b1=8).team("x")
    fixed = job("fixed").rigid().running(c1=8)
    for_another = round_of(guarded, fixed, SLICED)
    assert placed(for_another, admitted(for_another, "q")) == {}
    for_its_own = round_of(guarded, fixed, SLICED.team("x"))
    assert "wide" in placed(for_its_own, admitted(for_its_own, "q"))


def test_nobody_makes_way_who_would_lose_more_than_the_gang_gains():
    """The gang gains 16 GPUs for an hour at most; wide would lose 16 GPUs for more than that."""
    dear = job("wide").per_node(8).running(a1=8, b1=8, lost=4000.0, since=9000.0)
    fixed = job("fixed").rigid().running(c1=8)
    problem = round_of(dear, fixed, SLICED)
    assert placed(problem, admitted(problem, "q")) == {}
    unbounded = build_problem(snapshot(THREE_RACKS, team("t").quota(0), dear, fixed, SLICED, max_loss_ratio=None))
    assert "wide" in placed(unbounded, admitted(unbounded, "q"))


def test_another_domain_is_cleared_where_in_the_first_somebody_has_nowhere_to_go():
    """Cheap is in the way in r1 but has to stay in its block, where no other node is free; dear leaves r2."""
    places = [
        *nodes("a1 a2", 8, block="k1", rack="r1"),
        *nodes("e1", 8, block="k1", rack="r5"),
        *nodes("b1 b2", 8, block="k2", rack="r2"),
        *nodes("c1 d1", 8, block="k2", rack="r4"),
    ]
    cheap = wide("cheap", a1=8, e1=8).within("block")
    dear = wide("dear", b1=8, c1=8).restarts_in(500)
    problem = build_problem(snapshot(places, cheap, dear, SLICED, levels="block rack"))
    plan = placed(problem, admitted(problem, "q"))
    assert plan["q"] == {"b1": 8, "b2": 8}
    assert plan["dear"] in ({"c1": 8, "d1": 8}, {"a2": 8, "c1": 8})


def test_parts_go_back_when_nobody_takes_their_room():
    """q is not inside its limit: it starts not, and nobody moved for it."""
    problem = build_problem(
        snapshot(THREE_RACKS, team("t").limit(24), wide(a1=8, b1=8), job("fixed").rigid().running(c1=8), SLICED)
    )
    assert placed(problem, admitted(problem, "q")) == {}


def test_plans_are_valid_where_parts_make_way():
    """In several of these rounds some gang on several nodes is moved."""
    moved = 0
    for seed in range(60):
        problem = scattered(seed)
        choice = choice_of(problem, seed)
        plans = [place(problem, choice, style) for style in STYLES[:3]]
        assert [check(problem, plan) for plan in plans] == [[]] * 3, seed
        wide_moves = {j for plan in plans for j in plan.changed if len(problem.jobs[j].spread_now) > 1}
        moved += bool(wide_moves)
    assert moved >= 6
