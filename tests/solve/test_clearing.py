"""A gang that insists on a domain starts where those who run there can go on elsewhere."""

from __future__ import annotations

import pytest

from optsched.rounds.build import build_problem
from optsched.rounds.check import check
from optsched.solve.greedy import Params, greedy
from optsched.values.snapshot import Snapshot
from tests.builders import job, racks, snapshot, team

TWO_OF_THREE = racks(4, r1="a b", r2="c d", r3="e f")
GANG = job("q").gang(8).per_node(4).within("rack")


def placed(snap: Snapshot, **params: bool) -> dict[str, dict[str, int]]:
    """Where greedy puts jobs anew, by name; its plan keeps every rule."""
    problem = build_problem(snap)
    plan = greedy(problem, Params(**params))
    assert check(problem, plan) == []
    assert not plan.stopped
    names = problem.tree.node_ids
    return {
        str(problem.jobs[j].job.id): {str(names[n]): count for n, count in spread} for j, spread in plan.changed.items()
    }


def test_whole_nodes_are_moved_out_of_a_domain():
    """Each rack has one node in use and 12 of 24 GPUs are free. v has lost least since its last checkpoint."""
    busy = [
        job(name).running({on: 4}, lost=lost) for name, on, lost in (("u", "a", 90), ("v", "c", 10), ("w", "e", 50))
    ]
    found = placed(snapshot(TWO_OF_THREE, *busy, GANG))
    assert found["q"] == {"c": 4, "d": 4}
    assert found["v"] in ({"b": 4}, {"f": 4})
    assert found.keys() == {"q", "v"}
    assert placed(snapshot(TWO_OF_THREE, *busy, GANG), move=False) == {}


def test_a_gang_moves_whole_and_keeps_what_it_has_elsewhere():
    """v has a node of each of two racks, w of the third does not move. v leaves one of its nodes for the other
    node of the rack in which it keeps one.
    """
    v = job("v").gang(8).per_node(4).running(a=4, c=4)
    w = job("w").rigid().running(e=4)
    found = placed(snapshot(TWO_OF_THREE, v, w, GANG))
    assert set(found["q"]) in ({"a", "b"}, {"c", "d"})
    assert found["v"] == ({"c": 4, "d": 4} if "a" in found["q"] else {"a": 4, "b": 4})


def test_who_requires_a_domain_too_stays_in_one():
    """v needs two nodes of one rack, and there are none but its own. So w makes way."""
    v = job("v").gang(8).per_node(4).within("rack").running(a=4, b=4)
    w = job("w").running(c=4)
    found = placed(snapshot(TWO_OF_THREE, v, w, job("x").rigid().running(e=4), GANG))
    assert found == {"q": {"c": 4, "d": 4}, "w": {"f": 4}}


def test_nobody_moves_without_room_elsewhere():
    """q needs 8 GPUs, and so many are free nowhere: 4 are."""
    busy = [job(name).running({on: 4}) for name, on in zip("rstuv", "abcde", strict=True)]
    assert placed(snapshot(TWO_OF_THREE, *busy, GANG)) == {}


def test_what_moves_lose_is_bounded_by_what_the_start_may_cost():
    """q gains 8 · 3600 = 28,800 GPU·s; v, on 4 GPUs, loses 4 · 7,200 = 28,800, or one second more on each."""

    def busy(lost: int):
        rigid = (job("w").rigid().running(c=4), job("x").rigid().running(e=4))
        return snapshot(TWO_OF_THREE, job("v").running({"a": 4}, since=9000, lost=lost), *rigid, GANG)

    assert placed(busy(7200)).keys() == {"q", "v"}
    assert placed(busy(7201)) == {}


@pytest.mark.parametrize(("waited", "starts"), [(21_599, False), (21_600, True)])
def test_those_inside_their_quota_make_way_for_a_starved_gang(waited: int, starts: bool):
    """In every rack there is one of team o, inside its quota of 12, which saves its work on the signal."""
    busy = [
        job(name).team("o").signal(restart_s=60).running({on: 4}) for name, on in (("u", "a"), ("v", "c"), ("w", "e"))
    ]
    found = placed(
        snapshot(
            TWO_OF_THREE, team("t").quota(12), team("o").quota(12), *busy, GANG.waiting(waited), starved_move_s=900.0
        )
    )
    assert ("q" in found) is starts
    assert len(found) == (2 if starts else 0)


def test_no_later_start_takes_the_team_out_of_the_line_on_which_a_move_rests():
    """Team t is inside its quota of 8 with q. With p, of the same priority, it would not be, so p waits."""
    busy = [job(name).team("o").signal().running({on: 4}) for name, on in (("u", "a"), ("v", "c"), ("w", "e"))]
    teams = (team("t").quota(8).weight(0), team("o").quota(12))
    found = placed(snapshot(TWO_OF_THREE, *teams, *busy, GANG.waiting(21_600), job("p").gang(4), starved_move_s=900.0))
    assert "q" in found
    assert "p" not in found
