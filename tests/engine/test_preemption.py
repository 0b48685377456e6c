"""Preemption over time: grace, who waits for whom, how often, and what becomes of those who gave way."""

from __future__ import annotations

import pytest

from optsched.engine import events as ev
from optsched.engine.commands import Verb
from optsched.errors import Conflict
from optsched.values.ids import JobId, NodeId
from optsched.values.profile import PreemptTokens
from tests.builders import job, nodes, snapshot, team
from tests.engine.driven import Driven, report


def urgent(name: str = "u"):
    """A job of 16 GPUs on two nodes that outranks everything."""
    return job(name).gang(16).per_node(8).rank("P0")


def test_a_beneficiary_starts_when_the_last_gpu_is_confirmed_free():
    """v and w give way to u. v's node is free at 30, w's at 90: until then u waits, and nobody gets v's node."""
    victims = (job("v").gang(8).running(a=8), job("w").gang(8).running(b=8))
    cluster = Driven(snapshot(nodes("a b", 8), *victims, urgent()), prompt=False).settle()
    assert [cluster.stands(each) for each in "vwu"] == ["preempting", "preempting", "queued"]
    assert {c.grace_s for c in cluster.asked if c.verb is Verb.SIGNAL} == {120.0}
    cluster.take(ev.Submit(job("late").gang(8).rank("P1").made), 20)
    cluster.settle()
    cluster.take(report("v", "a", "released", 1), 30)
    cluster.settle()
    assert (cluster.stands("u"), cluster.stands("v"), cluster.stands("late")) == ("queued", "queued", "queued")
    assert cluster.booked("a") == 0
    cluster.take(report("w", "b", "released", 1), 90)
    assert cluster.stands("u") == "starting"
    assert cluster.on("u") == {"a": 8, "b": 8}


def test_a_victim_that_does_not_go_is_killed_when_its_grace_is_over():
    """Grace 120 s from the signal at 0; a job that asks for 600 s gets them, one that asks for 2 h the cap of 1 h."""
    for asked, killed in ((None, 120), (600.0, 600), (7200.0, 3600)):
        victim = job("v").gang(8).signal(1.0, grace_s=asked).running(a=8)
        cluster = Driven(snapshot(nodes("a", 8), victim, job("u").gang(8).rank("P0")), prompt=False).settle()
        cluster.take(ev.Tick(), killed - 1)
        assert cluster.asked_for(Verb.KILL) == []
        cluster.take(ev.Tick(), killed)
        assert cluster.asked_for(Verb.KILL) == ["a"]
        cluster.take(ev.Tick(), killed + 1)
        assert cluster.asked_for(Verb.KILL) == ["a"]


def test_a_victim_is_first_among_its_equals_and_keeps_priority_and_submission():
    """v and the older e are of one priority; v gave way, so it goes on before e, though e was submitted earlier."""
    victim = job("v").gang(8).running(a=8, since=3600)
    cluster = Driven(snapshot(nodes("a", 8), victim, job("e").gang(8).waiting(9000))).settle()
    assert cluster.stands("e") == "queued"
    cluster.at(10, ev.Submit(job("u").gang(8).rank("P0").made))
    assert (cluster.stands("u"), cluster.stands("v")) == ("running", "queued")
    assert cluster.job("v").job.submitted_at == -3600
    cluster.at(20, ev.Finished(JobId("u")))
    assert (cluster.stands("v"), cluster.stands("e"), cluster.job("v").job.preemptions) == ("running", "queued", 1)


def test_the_patience_of_a_victim_begins_when_it_waits_again():
    """v gives way to u at 0, after ten hours. w lost three hours of 8 GPUs if it gave way to v: three times what v's
    start may cost, so that v has to lose its patience twice, at 1800, however long ago it was submitted.
    """
    saving = job("v").gang(8).signal(1.0).rank("P2").running(a=8, since=36_000)
    dear = job("w").gang(8).rank("P3").running(b=8, since=10_800, lost=10_800)
    cluster = Driven(snapshot(nodes("a b", 8), saving, dear)).settle()
    cluster.at(0, ev.Submit(job("u").gang(8).rank("P0").made))
    assert [cluster.stands(each) for each in "uvw"] == ["running", "queued", "running"]
    assert cluster.job("v").waits_since == 0
    cluster.at(1790, ev.Tick())
    assert [cluster.stands(each) for each in "vw"] == ["queued", "running"]
    cluster.at(1810, ev.Tick())
    assert [cluster.stands(each) for each in "vw"] == ["running", "queued"]
    assert cluster.job("w").waits_since == 1800


def test_a_job_is_stopped_no_more_often_than_its_bucket_allows():
    """One token an hour, two at most, none used: stopped at 1000 and 2000. At 3000 0.56 tokens are back: u3 waits
    until 4600, 3600 s after the first was taken.
    """
    victim = job("v").gang(8).running(a=8, since=3600)
    tokens = PreemptTokens(per_h=1.0, burst=2.0)
    cluster = Driven(snapshot(nodes("a", 8), victim, min_runtime_s=0, preempt_tokens=tokens)).settle()
    for number, at in ((1, 1000.0), (2, 2000.0), (3, 3000.0)):
        name = f"u{number}"
        cluster.at(at, ev.Submit(job(name).gang(8).rank("P0").made))
        if number < 3:
            assert cluster.stands(name) == "running"
            cluster.at(at + 10, ev.Finished(JobId(name)))
            assert cluster.stands("v") == "running"
    assert cluster.stands("u3") == "queued"
    assert cluster.at(4590).stands("u3") == "queued"
    assert cluster.at(4700).stands("u3") == "running"
    assert cluster.job("v").job.preemptions == 3


def test_the_whole_cluster_stops_no_more_gpus_an_hour_than_the_profile_allows():
    """Quotas are cut from 32 to 0 for lender, whose four jobs run; taker claims 32. 16 GPUs an hour: two jobs in the
    first hour, the other two after it.
    """
    lender, taker = team("lender").quota(32), team("taker").quota(0)
    mine = [job(f"v{i}").team("lender").gang(8).running({each: 8}) for i, each in enumerate("abcd")]
    asks = [job(f"q{i}").team("taker").gang(8).waiting(10 - i) for i in range(4)]
    cluster = Driven(snapshot(nodes("a b c d", 8), lender, taker, *mine, *asks, max_stopped_gpus_per_h=16)).settle()
    assert not [name for name in cluster.state.jobs if cluster.stands(name) == "running" and name.startswith("q")]
    cut = [ev.SetTeam(team("lender").quota(0).made), ev.SetTeam(team("taker").quota(32).made)]
    cluster.at(100, *cut)
    assert sum(cluster.stands(f"q{i}") == "running" for i in range(4)) == 2
    assert sum(cluster.stands(f"q{i}") == "running" for i in range(4)) == 2
    cluster.at(3600)
    assert sum(cluster.stands(f"q{i}") == "running" for i in range(4)) == 2
    cluster.at(3800)
    assert sum(cluster.stands(f"q{i}") == "running" for i in range(4)) == 4


def test_victims_whose_beneficiary_goes_away_are_first_in_line_for_their_own_gpus():
    """v is told to stop for u, u is cancelled: v finishes stopping and goes on at once where it was; r, rigid and older
    than v, does not slip in.
    """
    victim = job("v").gang(8).running(a=8)
    cluster = Driven(snapshot(nodes("a", 8), victim, job("u").gang(8).rank("P0")), prompt=False).settle()
    cluster.take(ev.Submit(job("r").gang(8).rigid().waiting(90_000).made), 5)
    cluster.take(ev.Cancel(JobId("u")), 10)
    cluster.settle()
    assert cluster.stands("v") == "preempting"
    cluster.answer_all(at=20)
    cluster.settle().answer_all(at=20)
    assert (cluster.stands("v"), cluster.on("v"), cluster.stands("r")) == ("running", {"a": 8}, "queued")


def test_a_beneficiary_whose_node_is_lost_meanwhile_gives_its_room_back():
    """u waits for v on a; b, which was free for it, is lost. It is planned again, and v goes back."""
    cluster = Driven(snapshot(nodes("a b", 8), job("v").gang(8).running(a=8), urgent()), prompt=False).settle()
    assert cluster.state.claims == ("u",)
    cluster.take(ev.NodeLost(NodeId("b")), 5)
    assert cluster.state.claims == ()
    cluster.answer_all(at=10)
    cluster.settle().answer_all(at=10)
    assert (cluster.stands("u"), cluster.stands("v")) == ("queued", "running")


def test_an_operators_preempt_keeps_the_job_out_for_a_while():
    """requeue_delay_s 300: nobody else wants the node, and still j is not started before 310."""
    cluster = Driven(snapshot(nodes("a", 8), job("j").gang(8).running(a=8))).settle()
    cluster.at(10, ev.Preempt(JobId("j"), "firmware"))
    assert (cluster.stands("j"), cluster.booked("a")) == ("queued", 0)
    assert "firmware" in cluster.told("j")
    assert cluster.at(309).stands("j") == "queued"
    assert cluster.at(311).stands("j") == "running"


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (job("j").gang(8).waiting(10), "only what runs"),
        (job("j").gang(8).rigid().running(a=8), "not preemptible"),
    ],
)
def test_an_operators_preempt_of_what_cannot_be_preempted_is_a_conflict(given, wrong):
    """A job that waits (its node is cordoned), one that is not preemptible, one that nobody knows: nothing changes."""
    cluster = Driven(snapshot(nodes("a", 8), given))
    if not given.made.placement:
        cluster.take(ev.Cordon(NodeId("a")))
    before = cluster.state
    with pytest.raises(Conflict, match=wrong):
        cluster.take(ev.Preempt(JobId("j")))
    with pytest.raises(Conflict, match="no job"):
        cluster.take(ev.Preempt(JobId("nobody")))
    assert cluster.state is before


def test_two_jobs_of_one_rank_never_take_turns():
    """Both teams are entitled to half of the one node that only one can have: whoever runs stays. A day, no stop."""
    teams = (team("s").quota(0), team("t").quota(0))
    first = job("x").team("s").gang(8).running(a=8)
    cluster = Driven(snapshot(nodes("a", 8), *teams, first, job("y").team("t").gang(8), min_runtime_s=0)).settle()
    for hour in range(1, 25):
        cluster.at(3600.0 * hour)
    assert cluster.job("x").job.preemptions + cluster.job("y").job.preemptions == 0


def test_an_elastic_job_shrinks_before_anybody_is_stopped_and_grows_back():
    """e has 24 of 8..24, u needs 16: e goes on with 8, nobody is preempted; when u is done e has 24 again."""
    elastic = job("e").gang(24).elastic(8, 24).per_node(8).running(a=8, b=8, c=8)
    cluster = Driven(snapshot(nodes("a b c", 8), elastic)).settle()
    cluster.at(1000, ev.Submit(urgent().made))
    assert (cluster.stands("u"), sum(cluster.on("e").values())) == ("running", 8)
    assert cluster.job("e").job.preemptions == 0
    cluster.at(9000, ev.Finished(JobId("u")))
    assert sum(cluster.on("e").values()) == 24


def test_a_job_that_moves_is_not_preempted_and_keeps_its_place_until_the_new_one_is_free():
    """x moves from b to the rest of a, so that the gang of a whole node starts: counted as a migration."""
    small = job("x").gang(4).signal(5.0, 5.0).running(b=4)
    there = nodes("a b", 8)
    cluster = Driven(snapshot(there, job("r").gang(4).rigid().running(a=4), small), prompt=True).settle()
    cluster.at(1000, ev.Submit(job("g").gang(8).rank("P1").rigid().made))
    assert (cluster.stands("g"), cluster.on("x")) == ("running", {"a": 4})
    record = cluster.job("x")
    assert (record.job.preemptions, record.migrations, record.run) == (0, 1, 2)


def test_a_job_whose_runs_failed_early_displaces_nobody():
    """u outranks v; after two runs that broke within minutes it waits until there is room."""
    cluster = Driven(snapshot(nodes("a b", 8), job("v").gang(8).rigid().running(b=8), job("u").gang(8).rank("P0")))
    cluster.settle()
    assert cluster.stands("u") == "running"
    cluster.at(10, report("u", "a", "failed"))
    cluster.at(100, report("u", "a", "failed"))
    cluster.at(110, ev.Submit(job("w").gang(8).made))
    assert cluster.stands("w") == "running"
    cluster.at(9000)
    assert (cluster.stands("u"), cluster.stands("w")) == ("queued", "running")
    cluster.at(9100, ev.Finished(JobId("w")))
    assert cluster.stands("u") == "running"


def test_what_others_are_entitled_to_does_not_grow_while_a_job_stops():
    """48 GPUs, 16 for each of three teams. ours' 16 stop for 8 of its own; theirs has 8 and asks for 12 more, which
    would be within 20 if ours asked for no more than the 8: then it could stop one of the 24 of others.
    """
    ours = job("big").team("ours").gang(16).per_node(4).running(a=4, b=4, c=4, d=4)
    theirs = job("t").team("theirs").gang(8).per_node(4).running(e=4, f=4)
    others = [job(f"o{node}").team("others").gang(4).running({node: 4}) for node in "ghijkl"]
    teams = map(team, ("ours", "theirs", "others"))
    start = snapshot(nodes("a b c d e f g h i j k l", 4), *teams, ours, theirs, *others)
    cluster = Driven(start, prompt=False).settle()
    cluster.take(ev.Submit(job("u").team("ours").gang(8).per_node(4).rank("P0").avoiding(*"efghijkl").made), 10)
    cluster.settle()
    assert cluster.stands("big") == "preempting"
    cluster.take(ev.Submit(job("more").team("theirs").gang(12).per_node(4).made), 20)
    cluster.settle()
    assert {cluster.stands(f"o{node}") for node in "ghijkl"} == {"running"}
    cluster.answer_all(at=60)
    cluster.settle().answer_all(at=60)
    assert [cluster.stands(each) for each in ("u", "big", "more")] == ["running", "queued", "queued"]
