"""Nodes that are to become empty: who leaves, when, where to, and what is said about those who stay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optsched.engine import events as ev
from optsched.engine.commands import Kind
from optsched.values.cluster import NodeState
from optsched.values.ids import JobId, NodeId
from tests.builders import JobBuilder, job, node, nodes, racks, snapshot, team, window
from tests.engine.driven import Driven

DRAIN_A = ev.Drain(NodeId("a"), "firmware")


def cheap(name: str) -> JobBuilder:
    """A job of one node that saves its work in 10 s when it is told to go."""
    return job(name).gang(8).signal(10.0, 20.0)


def test_what_is_preemptible_goes_on_elsewhere_and_the_rest_is_left_to_finish():
    """v moves to b, and that is no preemption; r, which may not be stopped, stays until it is done. Both are named."""
    there = nodes("a b", 8)
    v, r = cheap("v").gang(4).running(a=4), job("r").gang(4).rigid().runs_for(9000).running(a=4, since=3600)
    cluster = Driven(snapshot(there, v, r)).settle().at(100, DRAIN_A)
    assert (cluster.on("v"), cluster.on("r")) == ({"b": 4}, {"a": 4})
    assert (cluster.job("v").job.preemptions, cluster.job("v").migrations) == (0, 1)
    told = cluster.told("a")
    assert "still runs v (4 GPUs, without a known end), r (4 GPUs, not preemptible, until 5400 by its estimate)" in told
    assert "off a, which is to become empty" in cluster.told("v")
    cluster.at(5000, ev.Finished(JobId("r")))
    assert cluster.told("a").endswith("is empty")


def test_without_room_elsewhere_nobody_is_stopped_and_the_move_comes_when_there_is():
    """b is full until 500."""
    parts = (cheap("v").running(a=8), job("w").gang(8).rigid().running(b=8))
    cluster = Driven(snapshot(nodes("a b", 8), *parts)).settle().at(100, DRAIN_A)
    assert cluster.at(400).on("v") == {"a": 8}
    assert cluster.at(500, ev.Finished(JobId("w"))).on("v") == {"b": 8}


def test_a_drain_stops_and_moves_nobody_else_and_takes_no_room_from_those_who_wait():
    """u is of lower priority than v and stays. When c is free, k, which waits, has it, and v stays."""
    v = cheap("v").rank("P2").running(a=8)
    parts = (v, job("u").gang(8).rank("P4").running(b=8), job("w").gang(8).rigid().running(c=8))
    cluster = Driven(snapshot(nodes("a b c", 8), *parts, job("k").gang(8).rank("P4").rigid())).settle()
    cluster.at(100, DRAIN_A)
    assert (cluster.on("v"), cluster.on("u"), cluster.job("u").job.preemptions) == ({"a": 8}, {"b": 8}, 0)
    cluster.at(200, ev.Finished(JobId("w")))
    assert (cluster.on("k"), cluster.on("v")) == ({"c": 8}, {"a": 8})


def test_a_gang_leaves_one_node_and_keeps_the_others():
    """In rack r1 only d is free, and a rack is required: b and c are kept."""
    there = racks(8, r1="a b c d", r2="e f g")
    gang = job("v").gang(24).per_node(8).within("rack").signal(10.0).running(a=8, b=8, c=8)
    busy = [job(f"w{name}").gang(8).rigid().running({name: 8}) for name in "efg"]
    cluster = Driven(snapshot(there, gang, *busy)).settle().at(100, DRAIN_A)
    assert cluster.on("v") == {"b": 8, "c": 8, "d": 8}


def test_an_elastic_job_goes_on_smaller_where_there_is_no_room():
    """16 of 8..16 on a and b; nothing is free: 8 on b."""
    e = job("e").gang(16).elastic(8, 16).per_node(8).signal(10.0).running(a=8, b=8)
    cluster = Driven(snapshot(nodes("a b", 8), e)).settle().at(100, DRAIN_A)
    assert cluster.on("e") == {"b": 8}


def test_a_move_must_pay_and_pays_the_sooner_the_longer_the_node_drains():
    """v would lose 14,400 s on 8 GPUs, 115,200 GPU·s; emptying 8 GPUs may cost 8 x 3600 = 28,800, twice that after
    900 s, four times after 1,800 s, by when v's work of 16,200 s is worth 129,600; eight times after 2,700 s: it goes.
    """
    v = job("v").gang(8).running(a=8, since=20_000, lost=14_300)
    cluster = Driven(snapshot(nodes("a b", 8), v)).settle().at(100, DRAIN_A)
    assert cluster.at(2700).on("v") == {"a": 8}
    assert cluster.at(2880).on("v") == {"b": 8}


def test_a_checkpoint_makes_a_move_cheap():
    """The same v, which saves its work at 200."""
    v = job("v").gang(8).running(a=8, since=20_000, lost=14_300)
    cluster = Driven(snapshot(nodes("a b", 8), v)).settle().at(100, DRAIN_A)
    assert cluster.on("v") == {"a": 8}
    assert cluster.at(200, ev.Checkpointed(JobId("v"))).on("v") == {"b": 8}


def test_a_job_about_to_end_is_waited_for_and_one_that_just_moved_is_left_alone():
    """v ends in 100 s, within its grace. x moves from a to b, then b drains: x stays until 600 s after its move."""
    v = cheap("v").runs_for(3800).running(a=8, since=3600)
    cluster = Driven(snapshot(nodes("a b c", 8), v)).settle().at(100, DRAIN_A)
    assert cluster.on("v") == {"a": 8}
    cluster = Driven(snapshot(nodes("a b", 8), cheap("x").running(a=8))).settle().at(100, DRAIN_A)
    assert cluster.on("x") == {"b": 8}
    cluster.at(150, ev.Uncordon(NodeId("a")), ev.Drain(NodeId("b")))
    assert cluster.at(600).on("x") == {"b": 8}
    assert cluster.at(800).on("x") == {"a": 8}


@pytest.mark.parametrize("profile", [{"migration": False}, {}])
def test_without_migration_nobody_leaves_a_draining_node(profile: dict[str, object]):
    """The profile says whether jobs are moved at all."""
    cluster = Driven(snapshot(nodes("a b", 8), cheap("v").running(a=8), **profile)).settle().at(100, DRAIN_A)
    assert cluster.on("v") == ({"a": 8} if profile else {"b": 8})


def test_a_node_that_drains_in_the_snapshot_is_emptied_too():
    """An incident may begin in the middle of a drain."""
    there = [replace(node("a", 8), state=NodeState.DRAINING), node("b", 8)]
    assert Driven(snapshot(there, cheap("v").running(a=8))).settle().on("v") == {"b": 8}


def test_a_job_inside_its_quota_goes_too_and_held_room_is_lent_to_it_only():
    """big holds b and c until d is free at 9000; v, inside its quota, goes to b as big's guest, and on when big starts:
    back in the queue, for there is no other room.
    """
    teams = (team("t").quota(8), team("big").quota(24))
    parts = (cheap("v").running(a=8), job("w").team("big").gang(8).rigid().runs_for(12_600).running(d=8, since=3600))
    big = job("big").team("big").gang(24).per_node(8).rigid().rank("P1")
    cluster = Driven(snapshot(nodes("a b c d", 8), *teams, *parts, big)).settle().at(100, DRAIN_A)
    assert set(cluster.on("v")) < {"b", "c"}
    assert cluster.job("v").on_call == ("big",)
    cluster.at(9000, ev.Finished(JobId("w")))
    assert (cluster.stands("big"), cluster.stands("v")) == ("running", "queued")


# Maintenance windows


def test_work_is_moved_before_a_maintenance_window_where_there_is_room():
    """A window on a from 5000 on: from 240 s before (grace 120, latency 60, margin 60) j looks for another place."""
    cluster = Driven(snapshot(nodes("a b", 8), cheap("j").running(a=8), window("w", 5000, 9000, "a"))).settle()
    assert cluster.at(4750).on("j") == {"a": 8}
    cluster.at(4820)
    assert cluster.on("j") == {"b": 8}
    assert (cluster.job("j").job.preemptions, cluster.job("j").migrations) == (0, 1)


def test_what_finds_no_room_is_told_to_stop_a_grace_before_the_window():
    """b is full: at 4880 j is stopped, and when b is free it goes on there."""
    parts = (cheap("j").running(a=8), job("r").gang(8).rigid().running(b=8), window("w", 5000, 9000, "a"))
    cluster = Driven(snapshot(nodes("a b", 8), *parts)).settle()
    assert cluster.at(4870).on("j") == {"a": 8}
    assert cluster.at(4890).stands("j") == "queued"
    assert cluster.job("j").job.preemptions == 1
    assert "w begins at 5000" in cluster.told("j")
    assert cluster.at(6000, ev.Finished(JobId("r"))).on("j") == {"b": 8}


def test_a_window_that_begins_over_running_work_is_an_alarm():
    """r may not be stopped and does not end in time: at 5000 an operator is told that a is not empty."""
    parts = (job("r").gang(8).rigid().running(a=8), window("w", 5000, 9000, "a"))
    cluster = Driven(snapshot(nodes("a b", 8), *parts)).settle()
    cluster.at(5001)
    assert cluster.stands("r") == "running"
    alarms = [note.text for note in cluster.notes if note.kind is Kind.ALARM]
    assert alarms == ["w begins, and it still runs r (8 GPUs, not preemptible, without a known end)"]
