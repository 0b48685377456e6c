"""Small stories with one right end, of the kinds that go wrong in schedulers: with a grace of 120 s, CPUs, memory, GPU
types and slices. An agent here answers at once unless a test says otherwise.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from optsched.engine import events as ev
from optsched.values.ids import JobId, NodeId
from tests.builders import job, node, nodes, racks, snapshot, team
from tests.engine.driven import Driven, report


def done(name: str) -> ev.Finished:
    """A job's tasks ended well."""
    return ev.Finished(JobId(name))


def lost(name: str) -> ev.NodeLost:
    """A node is lost."""
    return ev.NodeLost(NodeId(name))


def test_gpus_are_given_out_only_when_all_agents_have_confirmed_them():
    """A is over at 100; n1 confirms at once, n2 at 160. B needs both, C only CPUs that A still has on n2: both wait."""
    there = nodes("n1 n2", 8, cpus=64)
    a = job("A").gang(14).per_node(7).cpus(112).rigid().running(n1=7, n2=7)
    b = job("B").gang(16).per_node(8).rigid().waiting(50)
    c = job("C").gang(1).cpus(16).rigid().waiting(40).avoiding("n1")
    cluster = Driven(snapshot(there, a, b, c), prompt=False).settle()
    cluster.take(done("A"), 100)
    cluster.take(report("A", "n1", "released", 1), 100)
    cluster.settle()
    assert [cluster.stands(each) for each in "ABC"] == ["completed", "queued", "queued"]
    cluster.take(report("A", "n2", "released", 1), 160)
    cluster.settle()
    assert cluster.stands("B") == "starting"


def test_a_victims_cpus_and_memory_are_free_no_sooner_than_its_gpus():
    """One GPU of eight, but all CPUs: u needs 8 of them. It waits for v to go, not for GPUs, which are idle."""
    there = nodes("a", 8, cpus=64, memory_gb=512.0)
    v = job("v").gang(1).cpus(64).memory(500).running(a=1)
    cluster = Driven(snapshot(there, v, job("u").gang(2).cpus(8).memory(64).rank("P0")), prompt=False).settle()
    assert (cluster.stands("v"), cluster.stands("u")) == ("preempting", "queued")
    cluster.take(ev.Submit(job("w").gang(2).rank("P1").made), 5)
    cluster.settle()
    assert cluster.stands("w") == "starting"
    cluster.take(report("v", "a", "released", 1), 60)
    assert cluster.stands("u") == "starting"


@pytest.mark.parametrize("side", ["cpus", "memory"])
def test_a_lost_node_is_replaced_only_by_one_with_enough_of_everything(side: str):
    """J needs 32 CPUs and 256 GB a node. s has too little of one of them; t has both."""
    there = nodes("a b t", 8, rack="r", cpus=64, memory_gb=512.0)
    short = {"cpus": 16.0, "memory_gb": 512.0} if side == "cpus" else {"cpus": 64.0, "memory_gb": 128.0}
    there.insert(2, node("s", 8, rack="r", **short))
    gang = job("J").gang(16).per_node(8).cpus(64).memory(512).within("rack").running(a=8, b=8)
    cluster = Driven(snapshot(there, gang)).settle()
    assert cluster.at(10, lost("a")).on("J") == {"b": 8, "t": 8}


def test_a_lost_node_is_replaced_only_by_one_of_the_same_type():
    """An A100 beside seven H100 would make a gang of two types."""
    there = [*nodes("a b", 8, "h100", rack="r"), node("s", 8, "a100", rack="r"), node("t", 8, "h100", rack="r")]
    gang = job("J").gang(16).per_node(8).types(h100=1.0, a100=0.4).running(a=8, b=8)
    cluster = Driven(snapshot(there, gang)).settle()
    assert cluster.at(10, lost("a")).on("J") == {"b": 8, "t": 8}


def test_slices_stay_inside_their_rack_when_a_node_is_replaced():
    """Slices of 16 inside a rack: a (rack r1) may be replaced by c of r1 only, though e of r2 is free as well."""
    there = racks(8, r1="a b c", r2="d x e")
    gang = job("J").gang(32).per_node(8).slices((16, "rack")).running(a=8, b=8, d=8, x=8)
    cluster = Driven(snapshot(there, gang)).settle()
    assert cluster.at(10, lost("a")).on("J") == {"b": 8, "c": 8, "d": 8, "x": 8}


def test_a_gang_that_cannot_be_patched_moves_as_a_whole():
    """r1 has nobody to stand in: J goes to r2, and neither waits for r1 nor lies in both."""
    there = racks(8, r1="a b", r2="c d")
    cluster = Driven(snapshot(there, job("J").gang(16).per_node(8).within("rack").running(a=8, b=8))).settle()
    assert cluster.at(10, lost("a")).on("J") == {"c": 8, "d": 8}


def test_growing_leaves_the_freed_node_to_the_job_that_waits():
    """E has 16 of 8..24 and K waits for CPUs that only the freed node has: K gets it."""
    there = nodes("a b c", 8, cpus=64)
    e = job("E").gang(16).elastic(8, 24).per_node(8).cpus(32).running(a=8, b=8)
    w = job("w").gang(8).rigid().cpus(64).running(c=8)
    cluster = Driven(snapshot(there, e, w, job("K").gang(8).cpus(64))).settle()
    assert cluster.stands("K") == "queued"
    cluster.at(100, done("w"))
    assert (cluster.on("K"), sum(cluster.on("E").values())) == ({"c": 8}, 16)


def test_idle_gpus_are_grown_into_up_to_the_maximum():
    """8 of 8..16, two nodes become free: 16, on the node of its own type."""
    there = [node("a", 8, "h100"), node("b", 8, "h100"), node("c", 8, "a100")]
    e = job("E").gang(8).elastic(8, 16).per_node(8).types(h100=1.0, a100=1.0).running(a=8)
    w = (job("w").gang(8).rigid().running(b=8), job("x").gang(8).rigid().running(c=8))
    cluster = Driven(snapshot(there, e, *w)).settle()
    cluster.at(100, done("w"), done("x"))
    assert cluster.on("E") == {"a": 8, "b": 8}


def test_of_two_victims_the_cheaper_goes_and_resumes_before_the_younger():
    """e2 saves its work on the signal and loses 10 s for that, e1 an hour: e2 gives way, and is the first back."""
    e1 = job("e1").gang(4).rank(40).running(a=4, since=7200, lost=3600)
    e2 = job("e2").gang(4).rank(40).signal(10.0, 20.0).running(a=4, since=7200, lost=3600)
    cluster = Driven(snapshot(nodes("a", 8), e1, e2, job("e3").gang(4).rank(40))).settle()
    cluster.at(100, ev.Submit(job("e4").gang(4).rank(60).made))
    assert [cluster.stands(f"e{i}") for i in (1, 2, 3, 4)] == ["running", "queued", "queued", "running"]
    cluster.at(700, done("e4"))
    assert [cluster.stands(f"e{i}") for i in (1, 2, 3)] == ["running", "running", "queued"]


def test_work_that_was_saved_on_the_signal_is_not_done_again():
    """j says 10 h and has run for 4 when it gives way with a checkpoint: it needs 6 more, and is planned so."""
    j = job("j").gang(8).signal(10.0, 20.0).runs_for(36_000).running(a=8, since=14_400)
    cluster = Driven(snapshot(nodes("a", 8), j, job("u").gang(8).rank("P0"))).settle()
    assert cluster.stands("j") == "queued"
    assert cluster.job("j").job.estimated_runtime_s == 36_000 - 14_400


def test_weight_zero_is_last_in_line_and_not_never():
    """w's job first, z's when nobody else wants the node; with CPUs as the scarce thing."""
    teams = (team("z").weight(0).quota(0), team("w").quota(0))
    asks = (job("jz").team("z").gang(4).cpus(64).waiting(20), job("jw").team("w").gang(4).cpus(64).waiting(10))
    cluster = Driven(snapshot(nodes("a", 8, cpus=64), *teams, *asks)).settle()
    assert (cluster.stands("jw"), cluster.stands("jz")) == ("running", "queued")
    assert cluster.at(100, done("jw")).stands("jz") == "running"


def test_more_than_is_needed_is_not_held():
    """big will start in r1; the long rigid job may have r2 at once."""
    there = racks(8, r1="a b", r2="c d")
    w = job("w").gang(8).rigid().runs_for(1000).running(a=8, since=0)
    g = job("g").gang(8).rigid().runs_for(9000).running(c=8, since=0)
    big = job("big").gang(16).per_node(8).within("rack").rigid().rank(10)
    long = job("l").gang(8).rigid().runs_for(5000)
    cluster = Driven(snapshot(there, w, g, big, long)).settle()
    assert cluster.on("l") == {"d": 8}
    cluster.at(1000, done("w"))
    assert cluster.on("big") == {"a": 8, "b": 8}


def test_a_spare_runs_only_what_stops_at_once_and_gives_way_to_a_repair():
    """i stops without writing anything and may use the spare, the rigid k may not. When a is lost, J outranks i: it
    goes on with b and the spare.
    """
    there = [replace(each, spare=each.id == "s") for each in racks(8, r="a b s")]
    gang = job("J").gang(16).per_node(8).rank("P1").running(a=8, b=8)
    cluster = Driven(snapshot(there, gang, job("i").gang(8), job("k").gang(8).rigid())).settle()
    assert (cluster.on("i"), cluster.stands("k")) == ({"s": 8}, "queued")
    cluster.at(1000, lost("a"))
    assert (cluster.on("J"), cluster.stands("i")) == ({"b": 8, "s": 8}, "queued")


def test_a_change_of_quota_at_run_time_is_in_the_very_next_round():
    """t's non-preemptible job waits for a quota of 8; once it is raised the job starts."""
    cluster = Driven(snapshot(nodes("a", 8), team("t").quota(4), job("j").gang(8).rigid())).settle()
    assert cluster.stands("j") == "queued"
    assert cluster.at(10, ev.SetTeam(team("t").quota(8).made)).stands("j") == "running"


def test_a_new_profile_holds_from_the_next_round_on():
    """min_runtime_s 600 keeps v from being stopped at 100; set to 0, u starts."""
    v = job("v").gang(8).running(a=8, since=0)
    cluster = Driven(snapshot(nodes("a", 8), v)).settle()
    cluster.at(100, ev.Submit(job("u").gang(8).rank("P0").made))
    assert cluster.stands("u") == "queued"
    shorter = replace(cluster.state.profile, min_runtime_s=0.0)
    assert cluster.at(110, ev.SetProfile(shorter)).stands("u") == "running"
