"""Nodes that fall silent, come back and misbehave; gangs that are repaired, and gangs that start."""

from __future__ import annotations

from dataclasses import replace

from optsched.engine import events as ev
from optsched.engine.commands import Kind, Verb
from optsched.values.ids import JobId, NodeId
from tests.builders import job, nodes, racks, snapshot
from tests.engine.driven import Driven, report


def beat(cluster: Driven, names: str, at: float) -> None:
    """Heartbeats of some nodes, received at an instant."""
    for name in names.split():
        cluster.take(ev.Heartbeat(NodeId(name), f"agent-{name}"), at)


def test_a_node_is_lost_when_its_lease_has_run_out_by_our_clock():
    """Leases of 30 s and 10 s of patience, counted from the receipt: a and b spoke at 0, b again at 30. At 39 nobody is
    lost, at 41 a is, and the gang on both with it, whole.
    """
    cluster = Driven(snapshot(nodes("a b c", 8), job("j").gang(16).per_node(8).running(a=8, b=8)))
    beat(cluster, "a b c", 0)
    beat(cluster, "b c", 30)
    cluster.at(39)
    assert (cluster.node("a"), cluster.stands("j")) == ("up", "running")
    cluster.at(41)
    assert cluster.node("a") == "down"
    assert cluster.on("j") == {"b": 8, "c": 8}
    assert cluster.job("j").run == 2


def test_a_node_whose_agents_stream_broke_is_lost_before_its_lease_has_run_out():
    """A grace of 6 s from 10 on: at 15 nobody is lost, at 17 a is. That of b broke at 10 too, and b spoke at 14."""
    cluster = Driven(snapshot(nodes("a b c", 8), job("j").gang(8).running(a=8), job("k").gang(8).running(b=8)))
    beat(cluster, "a b c", 5)
    for name in "ab":
        cluster.take(ev.Parted(NodeId(name)), 10)
    beat(cluster, "b", 14)
    cluster.at(15)
    assert (cluster.node("a"), cluster.stands("j")) == ("up", "running")
    cluster.at(17)
    assert (cluster.node("a"), cluster.on("j")) == ("down", {"c": 8})
    reason = cluster.state.nodes[NodeId("a")].node.reason
    assert reason == "its agent's stream broke, and it was not back within 6 s"
    cluster.at(30)
    assert (cluster.node("b"), cluster.job("k").run) == ("up", 1)


def test_the_broken_stream_of_an_older_session_is_no_news():
    """The agent had started anew, as session 2, when the word of session 1 came."""
    cluster = Driven(snapshot(nodes("a", 8)))
    cluster.take(ev.Heartbeat(NodeId("a"), "agent-a", 2), 0)
    cluster.take(ev.Parted(NodeId("a"), 1), 1)
    assert cluster.at(20).node("a") == "up"


def test_many_streams_that_break_together_are_no_reason_to_fail_anything():
    """25 of 40 nodes, which is more than 20: starts pause, and a job on one of them runs on when they are back."""
    there = nodes(" ".join(f"n{i}" for i in range(40)), 8)
    cluster = Driven(snapshot(there, job("j").gang(8).running(n0=8)))
    names = " ".join(each.id for each in there)
    beat(cluster, names, 0)
    for each in there[:25]:
        cluster.take(ev.Parted(each.id), 1)
    cluster.at(20, ev.Submit(job("k").gang(8).made))
    assert (cluster.stands("j"), cluster.stands("k")) == ("running", "queued")
    beat(cluster, names, 21)
    cluster.at(22)
    assert (cluster.stands("j"), cluster.job("j").run, cluster.stands("k")) == ("running", 1, "running")


def test_what_was_on_a_lost_node_stays_booked_until_it_is_fenced():
    """Nobody knows whether the old run still works there; an operator's fence says that it does not."""
    cluster = Driven(snapshot(nodes("a b", 8), job("j").gang(8).running(a=8)))
    cluster.at(10, ev.NodeLost(NodeId("a")))
    assert cluster.on("j") == {"b": 8}
    assert cluster.booked("a") == 8
    cluster.at(20, ev.Fenced(NodeId("a")))
    assert cluster.booked("a") == 0
    assert cluster.on("j") == {"b": 8}


def test_many_nodes_that_fall_silent_together_are_not_failed_and_nothing_starts():
    """25 of 40 nodes, all in rack r1: more than 20. An alarm names the rack; a job that fits waits. When they speak
    again, it starts, and nothing was lost.
    """
    there = racks(8, r1=" ".join(f"a{i}" for i in range(25)), r2=" ".join(f"b{i}" for i in range(15)))
    cluster = Driven(snapshot(there, job("j").gang(8).running(a0=8)))
    names = " ".join(each.id for each in there)
    silent = " ".join(each.id for each in there if each.id.startswith("a"))
    beat(cluster, names, 0)
    for at in (20, 40, 60):
        beat(cluster, " ".join(each.id for each in there if each.id.startswith("b")), at)
    cluster.at(61, ev.Submit(job("k").gang(8).made))
    assert cluster.stands("j") == "running"
    assert cluster.stands("k") == "queued"
    alarms = [note.text for note in cluster.notes if note.kind is Kind.ALARM]
    assert alarms == ["25 nodes fell silent together, all in rack r1: nothing starts, nothing is failed"]
    beat(cluster, silent, 62)
    cluster.at(63)
    assert (cluster.stands("j"), cluster.job("j").run) == ("running", 1)
    assert cluster.stands("k") == "running"


def test_a_node_serves_only_after_its_probe():
    """Back from repair, uncordoned or new: it is probed first, and takes nothing until the probe has passed."""
    cluster = Driven(snapshot(nodes("a", 8), job("j").gang(8)), prompt=False)
    cluster.take(ev.NodeLost(NodeId("a")))
    cluster.take(ev.NodeBack(NodeId("a")))
    assert (cluster.node("a"), cluster.asked_for(Verb.PROBE)) == ("probing", ["a"])
    assert cluster.settle().stands("j") == "queued"
    cluster.take(ev.Probed(NodeId("a"), ok=False, why="NCCL all-reduce at 3 GB/s"))
    assert cluster.node("a") == "suspect"
    assert cluster.settle().stands("j") == "queued"
    cluster.take(ev.Uncordon(NodeId("a")))
    cluster.take(ev.Probed(NodeId("a")))
    assert cluster.settle().stands("j") == "starting"


def test_an_idle_node_that_fails_a_probe_of_its_own_is_suspected():
    """Its agent tests it now and then, unasked: a failure closes the node, a pass that nobody waits for is nothing."""
    cluster = Driven(snapshot(nodes("a", 8)))
    cluster.take(ev.Probed(NodeId("a")))
    assert cluster.node("a") == "up"
    cluster.take(ev.Probed(NodeId("a"), ok=False, why="a value is wrong"))
    assert cluster.node("a") == "suspect"
    assert "a value is wrong" in cluster.state.nodes[NodeId("a")].node.reason


def test_a_node_cordoned_while_it_was_lost_stays_cordoned():
    """The operator's word outlives the repair."""
    cluster = Driven(snapshot(nodes("a b", 8)))
    cluster.at(1, ev.NodeLost(NodeId("a")), ev.Cordon(NodeId("a")))
    assert cluster.at(2, ev.NodeBack(NodeId("a"))).node("a") == "cordoned"
    assert cluster.at(3, ev.Uncordon(NodeId("a"))).node("a") == "up"


def test_a_node_on_which_three_gangs_fail_within_a_day_is_suspected():
    """The third failure closes it, with the number as the reason; what else runs there is left alone."""
    cluster = Driven(snapshot(nodes("a", 8), job("i").gang(4).running(a=4), job("j").gang(4).running(a=4)))
    for at in (1000, 5000, 9000):
        cluster.at(at - 10)
        cluster.at(at, report("j", "a", "infra", None, "XID 79"))
    assert cluster.node("a") == "suspect"
    assert cluster.state.nodes[NodeId("a")].node.reason == "3 gangs failed on it"
    assert cluster.stands("i") == "running"


def test_a_node_that_runs_slower_than_four_fifths_of_its_gang_is_suspected():
    """0.9 is noted, 0.7 closes it with both numbers."""
    cluster = Driven(snapshot(nodes("a", 8)))
    assert cluster.at(1, ev.Slow(NodeId("a"), 0.9)).node("a") == "up"
    assert cluster.at(2, ev.Slow(NodeId("a"), 0.7)).node("a") == "suspect"
    assert "0.7" in cluster.state.nodes[NodeId("a")].node.reason


def test_two_agents_that_claim_one_node_are_not_both_served():
    """B with the session of A is refused, with an alarm that names both; with a newer one it takes over, and A's word
    counts no more.
    """
    cluster = Driven(snapshot(nodes("a", 8)))
    a = NodeId("a")
    cluster.take(ev.Heartbeat(a, "10.0.0.1", 7), 1)
    cluster.take(ev.Heartbeat(a, "10.0.0.2", 7), 2)
    assert "10.0.0.1 and 10.0.0.2" in cluster.told("a")
    assert cluster.state.nodes[a].last_seen_at == 1
    cluster.take(ev.Heartbeat(a, "10.0.0.2", 8), 3)
    assert (cluster.state.nodes[a].agent, cluster.state.nodes[a].last_seen_at) == ("10.0.0.2", 3)
    cluster.take(ev.Heartbeat(a, "10.0.0.1", 7), 4)
    assert cluster.state.nodes[a].last_seen_at == 3


# Repair


def test_a_gang_goes_on_where_it_was_with_a_spare_in_place_of_the_lost_node():
    """Rack r1 has a spare; r2 is free and would do as well. Of four nodes b and c are lost: what is left of the gang
    stays, and the spare comes first.
    """
    there = racks(8, r1="a b c d s t", r2="e f g h")
    there = [replace(each, spare=each.id == "t") for each in there]
    gang = job("j").gang(32).per_node(8).within("rack").running(a=8, b=8, c=8, d=8)
    cluster = Driven(snapshot(there, gang)).settle()
    cluster.at(10, ev.NodeLost(NodeId("b")), ev.NodeLost(NodeId("c")))
    assert cluster.on("j") == {"a": 8, "d": 8, "s": 8, "t": 8}
    assert cluster.job("j").job.preemptions == 0


def test_the_rest_of_a_failed_gang_is_kept_for_it_against_those_behind():
    """a is lost and nothing is free. For 300 s b waits for j, though the rigid k would fit; at 200 a is back, and j
    goes on. Were a not back, k would have b at 310.
    """
    gang = job("j").gang(16).per_node(8).running(a=8, b=8)
    for back, runs in ((True, "j"), (False, "k")):
        cluster = Driven(snapshot(nodes("a b", 8), gang, job("k").gang(8).rigid())).settle()
        cluster.at(10, ev.NodeLost(NodeId("a")), ev.Fenced(NodeId("a")))
        cluster.at(190)
        assert (cluster.stands("j"), cluster.stands("k")) == ("queued", "queued")
        if back:
            cluster.at(200, ev.NodeBack(NodeId("a")))
        cluster.at(320)
        assert cluster.stands(runs) == "running"
        assert cluster.stands("k" if back else "j") == "queued"


def test_an_elastic_gang_goes_on_with_what_is_left():
    """24 GPUs on three nodes, one is lost, nothing is free: 16."""
    gang = job("j").gang(24).elastic(8, 24).per_node(8).running(a=8, b=8, c=8)
    cluster = Driven(snapshot(nodes("a b c", 8), gang))
    cluster.at(10, ev.NodeLost(NodeId("c")))
    assert cluster.on("j") == {"a": 8, "b": 8}


def test_a_repair_takes_nothing_that_somebody_ahead_of_it_could_have():
    """w ends on s in the very moment in which a is lost. u, more urgent, waits for a node: s is u's, not J's; with a
    second node free, t, both run, J with b and t.
    """
    gang = job("J").gang(16).per_node(8).rank("P2").rigid().running(a=8, b=8)
    asks = (gang, job("w").gang(8).rigid().running(s=8), job("u").gang(8).rank("P0"))
    for more in ((), ("t",)):
        there = nodes(" ".join(("a", "b", "s", *more)), 8, rack="r")
        busy = [job("x").gang(8).rigid().running({each: 8}) for each in more]
        cluster = Driven(snapshot(there, *asks, *busy)).settle()
        ends = [ev.Finished(JobId("w")), *(ev.Finished(JobId("x")) for _ in more)]
        cluster.at(1000, *ends, ev.NodeLost(NodeId("a")))
        assert cluster.stands("u") == "running"
        assert cluster.stands("J") == ("running" if more else "queued")


# Gang starts


def test_a_gang_reserves_on_all_nodes_before_it_starts_on_any():
    """Two phases: the last reservation sends the starts, the last start makes it run."""
    cluster = Driven(snapshot(nodes("a b", 8), job("j").gang(16).per_node(8)), prompt=False).settle()
    assert cluster.asked_for(Verb.RESERVE) == ["a", "b"]
    cluster.take(report("j", "a", "reserved", 1))
    assert cluster.asked_for(Verb.START) == []
    cluster.take(report("j", "b", "reserved", 1))
    assert cluster.asked_for(Verb.START) == ["a", "b"]
    cluster.take(report("j", "b", "started", 1))
    assert cluster.stands("j") == "starting"
    cluster.take(report("j", "a", "started", 1))
    assert cluster.stands("j") == "running"


def test_an_agent_that_does_not_answer_is_swapped_for_an_equal_node_of_its_rack():
    """One of the two nodes says nothing for 10 s: it is suspected, the third of the rack stands in, and the same run
    goes on; the free nodes of r2 are as good, but not in the rack.
    """
    there = racks(8, r1="a b c", r2="d")
    cluster = Driven(snapshot(there, job("j").gang(16).per_node(8).within("rack")), prompt=False).settle()
    silent = sorted(cluster.on("j"))[1]
    cluster.answer_all(but=silent)
    cluster.take(ev.Tick(), 10.0)
    assert cluster.node(silent) == "suspect"
    assert set(cluster.on("j")) == {"a", "b", "c"} - {silent}
    cluster.answer_all(but=silent)
    assert (cluster.stands("j"), cluster.job("j").run) == ("running", 1)


def test_without_an_equal_node_all_abort_and_the_retry_avoids_the_silent_one():
    """Rack r1 has nobody to stand in: both give back, the gang starts anew in r2."""
    there = racks(8, r1="a b", r2="c d")
    gang = job("j").gang(16).per_node(8).within("rack")
    cluster = Driven(snapshot(there, gang), prompt=False).settle()
    first = sorted(cluster.on("j"))
    cluster.answer_all(but=first[1])
    cluster.take(ev.Tick(), 10.0)
    assert cluster.stands("j") == "queued"
    assert first[0] in cluster.asked_for(Verb.RELEASE)
    cluster.settle().answer_all(but=first[1])
    cluster.settle().answer_all(but=first[1])
    assert cluster.stands("j") == "running"
    assert set(cluster.on("j")).isdisjoint(first)
    assert cluster.job("j").run == 2


def test_a_silent_node_is_tried_again_where_no_other_domain_could_hold_the_gang():
    """Only r1 holds 16 GPUs; r2 and r3 do so together, which is not what the gang requires."""
    there = racks(8, r1="a b", r2="c", r3="d")
    gang = job("j").gang(16).per_node(8).within("rack")
    cluster = Driven(snapshot(there, gang), prompt=False).settle()
    cluster.answer_all(but="b")
    cluster.take(ev.Tick(), 10.0)
    assert (cluster.stands("j"), cluster.node("b")) == ("queued", "suspect")
    cluster.take(ev.Uncordon(NodeId("b")))
    cluster.settle().answer_all()
    cluster.settle().answer_all()
    assert (cluster.stands("j"), set(cluster.on("j"))) == ("running", {"a", "b"})


# A new scheduler


def test_a_scheduler_that_takes_over_says_again_what_may_not_have_been_heard():
    """Under epoch 2: reserve for the gang that starts, signal to the run that is told to stop, release what is over."""
    there = nodes("a b c", 8)
    running = (job("p").gang(8).running(a=8), job("q").gang(8).running(b=8))
    cluster = Driven(snapshot(there, *running, job("j").gang(8)), prompt=False).settle()
    cluster.take(ev.Preempt(JobId("p")))
    cluster.take(ev.Finished(JobId("q")))
    cluster.asked.clear()
    cluster.take(ev.Lead(2))
    again = {(command.verb, str(command.node)) for command in cluster.asked}
    assert again == {(Verb.RESERVE, "c"), (Verb.SIGNAL, "a"), (Verb.RELEASE, "b")}
    assert {command.epoch for command in cluster.asked} == {2}


def test_a_scheduler_that_takes_over_waits_for_answers_anew():
    """It takes over 9 s after the gang was asked: agents have 6 s to come back, and 10 s to answer from then on."""
    cluster = Driven(snapshot(nodes("a b", 8), job("j").gang(16).per_node(8)), prompt=False).settle()
    cluster.take(ev.Lead(2), 9.0)
    cluster.take(ev.Tick(), 24.9)
    assert (cluster.stands("j"), cluster.node("a"), cluster.job("j").run) == ("starting", "up", 1)
    cluster.take(ev.Tick(), 25.0)
    assert (cluster.node("a"), cluster.node("b")) == ("suspect", "suspect")


def test_what_an_agent_holds_and_nobody_knows_of_is_killed():
    """After a restart the agent of a lists run 4 of x: an orphan. Of run 1 of j it knows nothing: j has failed."""
    cluster = Driven(snapshot(nodes("a b", 8), job("j").gang(8).running(a=8)), prompt=False)
    cluster.take(ev.Inventory(NodeId("a"), frozenset({(JobId("x"), 4)})))
    assert [(str(c.job), c.run) for c in cluster.asked if c.verb is Verb.KILL and c.job == "x"] == [("x", 4)]
    assert cluster.booked("a") == 0
    assert cluster.stands("j") == "queued"
    assert "no longer has its task" in cluster.job("j").reason
