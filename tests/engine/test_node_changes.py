"""Nodes that report nonsense, have less than they had, are moved, join and leave; what runs or is promised there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optsched.engine import events as ev
from optsched.errors import Conflict
from optsched.values.ids import JobId, LevelName, NodeId
from tests.builders import job, node, nodes, racks, snapshot
from tests.engine.driven import Driven


def test_a_node_with_fewer_gpus_than_are_booked_has_nothing_to_give_and_poisons_no_total():
    """3 of 8 GPUs, 8 booked: j is left, k waits though b's total is 8, l starts on b. Nonsense counts are refused."""
    cluster = Driven(snapshot(nodes("a b", 8), job("j").gang(8).running(a=8)))
    a = NodeId("a")
    cluster.at(1, ev.GpusChanged(a, 3), ev.Submit(job("k").gang(16).per_node(8).made), ev.Submit(job("l").gang(8).made))
    assert "8 are booked" in cluster.told("a")
    assert [cluster.stands(each) for each in "jkl"] == ["running", "queued", "running"]
    for count in (-1, 4294967295):
        before = cluster.state
        with pytest.raises(Conflict, match="allowed: 0 to 1,024"):
            cluster.take(ev.GpusChanged(a, count))
        assert cluster.state is before


@pytest.mark.parametrize(
    "change",
    [ev.GpusChanged(NodeId("a"), 4), ev.SetNode(replace(nodes("a", 8, cpus=64)[0], cpus=32.0))],
)
def test_an_elastic_job_on_a_node_that_has_less_than_is_booked_keeps_its_size(change):
    """It would have to start anew on a, which does not take it any more. When a has all again, it grows onto b."""
    there = nodes("a b", 8, cpus=64)
    e = job("e").gang(8).elastic(8, 16).per_node(8).cpus(64).signal(1.0, 1.0).running(a=8)
    w = job("w").gang(8).rigid().running(b=8)
    cluster = Driven(snapshot(there, e, w)).settle()
    cluster.at(1, change, ev.Finished(JobId("w")))
    assert cluster.on("e") == {"a": 8}
    cluster.at(2000, ev.SetNode(replace(there[0], gpus=8)), ev.GpusChanged(NodeId("a"), 8))
    assert cluster.on("e") == {"a": 8, "b": 8}


def test_the_same_topology_sent_again_changes_nothing():
    """Not the state, and not what plans were made on."""
    there = racks(8, r1="a b")
    cluster = Driven(snapshot(there, job("j").gang(16).per_node(8).within("rack").running(a=8, b=8))).settle()
    before = cluster.state
    for each in there:
        cluster.take(ev.SetNode(each))
    assert cluster.state is before


def test_a_node_moved_to_another_rack_leaves_what_runs_there_alone():
    """j requires one rack and now lies in two: it is told so, and runs on; k is judged by the new map, and waits."""
    there = racks(8, r1="a b", r2="c")
    cluster = Driven(snapshot(there, job("j").gang(16).per_node(8).within("rack").running(a=8, b=8))).settle()
    moved = replace(there[0], domains={LevelName("rack"): "r2"})
    cluster.at(1, ev.SetNode(moved), ev.Submit(job("k").gang(16).per_node(8).within("rack").made))
    assert "j may no longer lie as required" in cluster.told("a")
    assert (cluster.stands("j"), cluster.job("j").run) == ("running", 1)
    where = "a in r2, b in r1; it runs on, and is placed anew when it next starts"
    assert cluster.job("j").reason == f"no longer meets its requirement, one rack: {where}"
    assert where in cluster.told("j")
    cluster.at(2, ev.Finished(JobId("j")))
    assert cluster.on("k") == {"a": 8, "c": 8}


def test_a_job_that_lies_as_required_again_is_told_so():
    """A slice of 16 inside one rack: with a in no rack it is not; with a back in r1 it is."""
    there = racks(8, r1="a b")
    sliced = job("j").gang(16).per_node(8).slices((16, "rack")).running(a=8, b=8)
    cluster = Driven(snapshot(there, sliced)).settle()
    cluster.at(1, ev.SetNode(replace(there[0], domains={})))
    assert "each 16 GPUs inside one rack: a in no rack, b in r1" in cluster.job("j").reason
    cluster.at(2, ev.SetNode(there[0]))
    assert (cluster.job("j").reason, cluster.stands("j")) == ("", "running")


def test_a_gang_whose_node_was_moved_to_another_rack_is_not_repaired_across_racks():
    """j ran on a and b of r1, then a was said to be in r2. b is lost: c of r1 is free, but a is not there any more. In
    r2 a and d are free: j goes there.
    """
    there = racks(8, r1="a b c", r2="d")
    cluster = Driven(snapshot(there, job("j").gang(16).per_node(8).within("rack").running(a=8, b=8))).settle()
    cluster.at(1, ev.SetNode(replace(there[0], domains={LevelName("rack"): "r2"})))
    cluster.at(2, ev.NodeLost(NodeId("b")))
    assert cluster.on("j") == {"a": 8, "d": 8}


@pytest.mark.parametrize(
    "change",
    [ev.GpusChanged(NodeId("a"), 4), ev.SetNode(replace(racks(8, r1="a")[0], domains={LevelName("rack"): "r2"}))],
)
def test_room_that_is_promised_on_a_node_is_planned_again_when_the_node_is_not_what_it_was(change):
    """u, of rack r1, is to have a once v has left it; then a has four GPUs, or is in another rack. u goes to b."""
    there = racks(8, r1="a b")
    running = (job("v").gang(8).running(a=8), job("w").gang(8).rigid().running(b=8))
    asks = job("u").gang(8).within("rack").rank("P0")
    cluster = Driven(snapshot(there, *running, asks), prompt=False).settle()
    assert cluster.state.claims == ("u",)
    cluster.take(change, 5)
    assert cluster.state.claims == ()
    cluster.take(ev.Finished(JobId("w")), 6)
    cluster.answer_all(at=7)
    cluster.settle().answer_all(at=7)
    assert cluster.on("u") == {"b": 8}


def test_a_node_that_joins_is_probed_and_one_that_leaves_takes_its_work_with_it():
    """j moves to the new node when the old one is removed."""
    cluster = Driven(snapshot(nodes("a", 8), job("j").gang(8).running(a=8)))
    cluster.at(1, ev.SetNode(node("b", 8)))
    assert cluster.node("b") == "up"
    cluster.at(2, ev.NodeRemoved(NodeId("a")))
    assert cluster.on("j") == {"b": 8}
    assert "a" not in cluster.state.nodes
