"""What a round does for the good of those who run, where somebody waits for them to end; and who stays a guest."""

from __future__ import annotations

from optsched.engine import events as ev
from optsched.values.ids import JobId
from tests.builders import job, nodes, racks, snapshot
from tests.engine.driven import Driven, report

HOUR = 3600.0


def grower(low: int = 8, high: int = 16):
    """Saves its work on the signal; an hour of its two is left."""
    return job("e").gang(low).elastic(low, high).per_node(8).signal(10.0, 20.0).runs_for(2 * HOUR)


def test_nobody_grows_where_that_would_put_off_a_start_that_was_told():
    """e and w end at 3600, and then big has rack r1. c is idle, but to grow e would have to stop and go on, at 120 s of
    grace, and end after 3600: it stays as it is. Without big it grows.
    """
    there = racks(8, r1="a b", r2="c")
    w = job("w").gang(8).rigid().runs_for(2 * HOUR).running(b=8, since=HOUR)
    big = job("big").gang(16).per_node(8).within("rack").rigid()
    e = grower().running(a=8, since=HOUR)
    cluster = Driven(snapshot(there, e, w, big)).settle()
    assert cluster.on("e") == {"a": 8}
    assert cluster.state.reserved[0].start_estimate_at == HOUR
    cluster.at(HOUR, ev.Finished(JobId("e")), ev.Finished(JobId("w")))
    assert (cluster.stands("big"), cluster.job("big").job.started_at) == ("running", HOUR)
    alone = Driven(snapshot(there, e, w)).settle()
    assert alone.on("e") == {"a": 8, "c": 8}


def test_who_shrinks_for_others_is_not_kept_from_it():
    """The same e with 16 GPUs: u, more urgent, gets the half of them, whoever waits for e to end."""
    there = racks(8, r1="a b", r2="c")
    w = job("w").gang(8).rigid().runs_for(2 * HOUR).running(b=8, since=HOUR)
    big = job("big").gang(16).per_node(8).within("rack").rigid()
    e = grower().running(a=8, c=8, since=HOUR)
    cluster = Driven(snapshot(there, e, w, big)).settle()
    cluster.at(10, ev.Submit(job("u").gang(8).rank("P0").made))
    assert (cluster.stands("u"), sum(cluster.on("e").values())) == ("running", 8)


def test_a_guest_that_grows_stays_a_guest_where_it_was():
    """g was let into a, held for big, and grows onto c, which is nobody's, when x leaves it: big still stops it."""
    there = racks(8, r1="a b", r2="c")
    w = job("w").gang(8).rigid().runs_for(2 * HOUR).running(b=8, since=HOUR)
    x = job("x").gang(8).rigid().running(c=8, since=HOUR)
    big = job("big").gang(16).per_node(8).within("rack").rigid().waiting(50)
    g = job("e").gang(8).elastic(8, 16).per_node(8).signal(10.0, 20.0).waiting(10)
    cluster = Driven(snapshot(there, w, x, big, g)).settle()
    assert (cluster.on("e"), cluster.job("e").on_call) == ({"a": 8}, ("big",))
    cluster.at(100, ev.Finished(JobId("x")))
    assert (cluster.on("e"), cluster.job("e").on_call) == ({"a": 8, "c": 8}, ("big",))
    cluster.at(HOUR, ev.Finished(JobId("w")))
    assert cluster.stands("big") == "running"


def test_a_job_whose_runs_failed_early_is_let_into_held_room_only_as_a_guest():
    """f broke twice within minutes. It may have a, which is held for big, on condition that big may stop it."""
    w = job("w").gang(8).rigid().runs_for(4 * HOUR).running(b=8, since=HOUR)
    big = job("big").gang(16).per_node(8).rigid().rank("P1")
    cluster = Driven(snapshot(nodes("a b", 8), w, big, job("f").gang(8).waiting(10))).settle()
    for at in (10, 100):
        assert cluster.on("f") == {"a": 8}
        cluster.at(at, report("f", "a", "failed"))
    cluster.at(1000)
    assert cluster.job("f").failed_early == 2
    assert (cluster.on("f"), cluster.job("f").on_call) == ({"a": 8}, ("big",))
    cluster.at(2 * HOUR, ev.Finished(JobId("w")))
    assert (cluster.stands("big"), cluster.stands("f")) == ("running", "queued")


def test_a_start_that_was_told_stands_while_what_it_waits_for_moves():
    """v saves its work and goes from a, which drains, to c. It is planned with what is left of it: big, which is to
    have b and c when both are free, is told 3720 and no other instant until then.
    """
    there = nodes("a b c", 8)
    v = job("v").gang(8).signal(10.0, 20.0).runs_for(2 * HOUR).running(a=8, since=HOUR)
    cluster = Driven(snapshot(there, v), prompt=False).settle()
    cluster.take(ev.Drain(next(iter(cluster.state.nodes))), 10)
    cluster.settle()
    assert cluster.stands("v") == "preempting"
    cluster.take(ev.Submit(job("big").gang(16).per_node(8).rigid().made), 11)
    cluster.settle()
    (room,) = cluster.state.reserved
    told = room.start_estimate_at
    # 7200 s stated, 3610 s of it saved at 10 s: from 11 on 3590 are left.
    assert told == 11 + 3590
    assert sorted(room.planned) == ["b", "c"]
