"""Rules that show in one small moment, with all that a real moment has: a grace of 120 s of which agents need 60, CPUs
and memory that run short, two GPU types, slices.
"""

from __future__ import annotations

import heapq
from dataclasses import replace

from optsched.engine import events as ev
from optsched.engine.commands import Verb
from optsched.engine.draft import Step
from optsched.engine.events import Outcome
from optsched.values.cluster import Node
from optsched.values.ids import JobId, NodeId
from tests.builders import job, node, nodes, racks, snapshot, team, window
from tests.engine.driven import Driven

SAVING_S = 60.0
"""From the signal until a task has saved its work and its GPUs are free."""


class Slow(Driven):
    """A cluster whose agents answer at once, but need a while for what is told to stop."""

    def __init__(self, snapshot) -> None:
        super().__init__(snapshot)
        self.prompt = False
        self._later: list[tuple[float, int, ev.Event]] = []

    def take(self, event: ev.Event, at: float | None = None) -> Step:
        """One event; agents reserve, start and release at once."""
        first = super().take(event, at)
        while self.asked:
            command = self.asked.pop(0)
            if command.verb in (Verb.SIGNAL, Verb.KILL):
                due = self.state.now + (SAVING_S if command.verb is Verb.SIGNAL else 0.0)
                gone = ev.Report(command.job, command.node, Outcome.RELEASED, command.run)
                heapq.heappush(self._later, (due, len(self._later), gone))
            elif (answer := self._agents.answer(command, self.state.now)) is not None:
                super().take(answer)
        return first

    def at(self, now: float, *events: ev.Event) -> Driven:
        """Let time pass, with what agents have to say meanwhile."""
        while self._later and self._later[0][0] <= now:
            due, _, gone = heapq.heappop(self._later)
            super().at(due, gone)
        return super().at(now, *events)


def full(names: str, gpus: int = 8, kind: str = "h100", **keys: object) -> list[Node]:
    """Nodes of 8 GPUs, 64 CPUs and 512 GB."""
    return nodes(names, gpus, kind, cpus=64.0, memory_gb=512.0, **keys)


def heavy(name: str, gpus: int, cpus: float = 8.0, gb: float = 64.0):
    """A job that takes 8 CPUs and 64 GB with each GPU, all that there is."""
    return job(name).gang(gpus).cpus(cpus * gpus).memory(gb * gpus)


def standing(cluster: Driven, names: str) -> str:
    """The states of some jobs, in a row."""
    return " ".join(cluster.stands(name) for name in names.split())


def test_nobody_goes_where_all_that_may_go_would_not_be_enough():
    """Six rigid GPUs on each node, two that may go: eight GPUs in all, and none of H's whole nodes. After an hour still
    nobody has been told to stop.
    """
    parts = [job(f"r{n}").gang(6).rigid().running({n: 6}) for n in "abcd"]
    parts += [job(f"s{n}{i}").gang(1).rank("P4").running({n: 1}) for n in "abcd" for i in "12"]
    cluster = Slow(snapshot(full("a b c d"), *parts, heavy("H", 8).rank("P0"))).settle()
    cluster.at(3600)
    assert cluster.stands("H") == "queued"
    assert not any(record.job.preemptions for record in cluster.state.jobs.values())


def test_a_rack_is_cleared_for_a_gang_and_starts_when_the_last_has_saved_its_work():
    """All of r1 may go, r2 is rigid. v1 to v4 are told at 1000 and gone at 1060: till then H waits and has nothing."""
    there = [*full("a b c d", rack="r1"), *full("e f g h", rack="r2")]
    parts = [heavy(f"v{i}", 8).rank("P4").signal(30.0, 10.0).running({n: 8}) for i, n in enumerate("abcd", 1)]
    parts += [heavy(f"x{n}", 8).rigid().running({n: 8}) for n in "efgh"]
    cluster = Slow(snapshot(there, *parts)).settle()
    cluster.at(1000, ev.Submit(heavy("H", 32).per_node(8).within("rack").types(h100=1.0).rank("P1").made))
    assert standing(cluster, "v1 v2 v3 v4 H") == "preempting preempting preempting preempting queued"
    assert cluster.booked("a") == 8
    cluster.at(1059)
    assert cluster.stands("H") == "queued"
    cluster.at(1060)
    assert cluster.on("H") == {"a": 8, "b": 8, "c": 8, "d": 8}
    assert [cluster.job(f"v{i}").job.preemptions for i in (1, 2, 3, 4)] == [1, 1, 1, 1]


def test_whoever_does_not_save_in_time_is_killed_when_the_grace_is_over():
    """An agent that never answers the signal: at 1120 it is told to kill, and then the room is free."""
    cluster = Driven(snapshot(full("a"), heavy("v", 8).running(a=8)), prompt=False).settle()
    cluster.at(1000, ev.Submit(heavy("u", 8).rank("P0").made))
    assert cluster.asked_for(Verb.SIGNAL) == ["a"]
    cluster.at(1119)
    assert cluster.asked_for(Verb.KILL) == []
    cluster.at(1120)
    assert cluster.asked_for(Verb.KILL) == ["a"]
    cluster.at(1500)
    assert cluster.asked_for(Verb.KILL) == ["a"]
    assert cluster.stands("u") == "queued"


def test_an_elastic_job_gives_up_what_is_needed_and_no_more():
    """One GPU with its 8 CPUs and 64 GB for u: e goes on with seven of eight, and is not preempted."""
    e = heavy("e", 8).elastic(4, 8).per_task(1).rank("P4").signal(5.0, 5.0).running(a=8)
    cluster = Slow(snapshot(full("a"), e)).settle()
    cluster.at(1000, ev.Submit(heavy("u", 1).rank("P1").made))
    cluster.at(1100)
    assert (cluster.on("u"), cluster.on("e"), cluster.job("e").job.preemptions) == ({"a": 1}, {"a": 7}, 0)


def test_one_whole_gang_goes_and_not_a_node_of_each_of_two():
    """u needs two nodes. g2 saved its work lately, g1 did not: both nodes are g2's."""
    g1 = heavy("g1", 16).per_node(8).rank("P4").running(a=8, b=8, since=9000, lost=8000)
    g2 = heavy("g2", 16).per_node(8).rank("P4").running(c=8, d=8, since=9000, lost=100)
    cluster = Slow(snapshot(full("a b c d"), g1, g2)).settle()
    cluster.at(1000, ev.Submit(heavy("u", 16).per_node(8).rank("P1").made))
    cluster.at(1060)
    assert standing(cluster, "g1 g2 u") == "running queued running"
    assert cluster.on("u") == {"c": 8, "d": 8}


def test_a_gang_of_one_gpu_type_is_not_served_by_room_of_another():
    """H takes h100 or a100, but not both: stopping v on the a100 beside the free h100 would not help it."""
    there = [*full("a b"), *full("c", kind="a100")]
    r = heavy("r", 8).rigid().running(b=8)
    v = heavy("v", 8).rank("P4").running(c=8)
    cluster = Slow(snapshot(there, r, v, heavy("H", 16).per_node(8).types(h100=1.0, a100=0.5).rank("P0"))).settle()
    cluster.at(3600)
    assert standing(cluster, "v H") == "running queued"
    cluster.at(3700, ev.Finished(JobId("r")))
    assert cluster.on("H") == {"a": 8, "b": 8}


def test_a_reclaim_takes_from_whom_it_may_and_not_from_whom_is_cheapest():
    """lab is inside its quota, and its job would lose next to nothing; batch has none, and loses an hour: b goes."""
    teams = (team("lab").quota(8), team("batch").quota(0), team("t").quota(8))
    lab = heavy("l", 8).team("lab").signal(1.0).running(a=8, lost=1)
    batch = heavy("b", 8).team("batch").running(b=8, since=4000, lost=3600)
    cluster = Slow(snapshot(full("a b"), *teams, lab, batch)).settle()
    cluster.at(1000, ev.Submit(heavy("u", 8).made))
    cluster.at(1060)
    assert standing(cluster, "l b u") == "running queued running"


def test_a_job_above_quota_moves_nobody_that_is_inside_its_own():
    """m is inside its quota on a; with m beside it on b, p would have all of a. p has no claim, and waits."""
    teams = (team("m").quota(8), team("p").quota(0).weight(0))
    m = job("m").team("m").gang(4).cpus(32).memory(256).signal(1.0, 1.0).running(a=4)
    o = job("o").team("m").gang(4).cpus(32).memory(256).rigid().running(b=4)
    cluster = Slow(snapshot(full("a b"), *teams, m, o)).settle()
    cluster.at(1000, ev.Submit(heavy("p4", 8).team("p").rank("P0").made))
    cluster.at(2000)
    assert standing(cluster, "m o p4") == "running running queued"
    assert cluster.job("m").migrations == 0


def test_nobody_goes_for_one_who_starts_without_it():
    """u needs two nodes; one is free and v1's is the other. v2's is then left alone, however cheap, and w, which no
    longer fits anywhere, stops nobody.
    """
    v1 = heavy("v1", 8).rank("P4").running(a=8, since=9000, lost=100)
    v2 = heavy("v2", 8).rank("P4").running(b=8, since=9000, lost=200)
    cluster = Slow(snapshot(full("a b c"), v1, v2)).settle()
    asks = (heavy("u", 16).per_node(8).rank("P0"), heavy("w", 16).per_node(8).rank("P1"))
    cluster.at(1000, *(ev.Submit(each.made) for each in asks))
    cluster.at(4000)
    assert standing(cluster, "v1 v2 u w") == "queued running running queued"


def test_two_gangs_that_need_everything_take_turns_and_hold_nothing_from_each_other():
    """The older has all of it; the other starts when that is done, 60 s after nobody was told anything."""
    asks = (heavy("g1", 32).per_node(8).waiting(20), heavy("g2", 32).per_node(8).waiting(10))
    cluster = Slow(snapshot(full("a b c d"), *asks)).settle()
    assert standing(cluster, "g1 g2") == "running queued"
    assert all(cluster.booked(n) == 8 for n in "abcd")
    cluster.at(9000, ev.Finished(JobId("g1")))
    assert standing(cluster, "g1 g2") == "completed running"


def test_two_lost_nodes_are_two_repairs_and_not_a_new_start():
    """Of four nodes with slices of 16 in a rack, one in each rack is lost in the same moment. The spares with enough
    memory stand in, each in its rack; s1, which has too little, does not.
    """
    there = [*full("a b", rack="r1"), *full("c d", rack="r2")]
    spares = [*full("s1 s2", rack="r1"), *full("s3", rack="r2")]
    spares[0] = replace(spares[0], memory_gb=256.0)
    there += [replace(each, spare=True) for each in spares]
    g = heavy("g", 32).per_node(8).slices((16, "rack")).running(a=8, b=8, c=8, d=8)
    cluster = Slow(snapshot(there, g)).settle()
    cluster.take(ev.NodeLost(NodeId("a")), 10)
    cluster.take(ev.NodeLost(NodeId("c")), 10)
    cluster.settle().at(100)
    assert cluster.on("g") == {"b": 8, "s2": 8, "d": 8, "s3": 8}
    assert cluster.job("g").run == 2


def test_only_what_ends_in_time_goes_into_a_gap_and_only_with_the_memory_for_it():
    """big starts at 1000 on a and b, when x ends. b is held: t (900 s) may have it, u (without an end) and s (900 s,
    but twice the memory of a node) may not.
    """
    x = heavy("x", 8).rigid().runs_for(4600).running(a=8, since=3600)
    big = heavy("big", 16).per_node(8).rigid().rank("P1")
    asks = (heavy("t", 8).rigid().runs_for(900), heavy("u", 8).rigid(), heavy("s", 8, gb=128.0).rigid().runs_for(900))
    cluster = Slow(snapshot(full("a b"), x, big, *asks)).settle()
    assert standing(cluster, "big t u s") == "queued running queued queued"
    cluster.at(900, ev.Finished(JobId("t")))
    cluster.at(1000, ev.Finished(JobId("x")))
    assert standing(cluster, "big u s") == "running queued queued"


def test_a_window_is_kept_clear_of_what_would_not_end_before_it():
    """a closes at 1000. l (2000 s, rigid) does not start there, s (500 s) does; so does p, which may be stopped: it is
    told at 880, a grace before, is gone at 940, and goes on when the window is over.
    """
    asks = [heavy("l", 4).rigid().runs_for(2000), heavy("s", 4).rigid().runs_for(500), heavy("p", 4).runs_for(2000)]
    cluster = Slow(snapshot(full("a"), *asks, window("w", 1000, 5000, "a"))).settle()
    assert standing(cluster, "l s p") == "queued running running"
    cluster.at(500, ev.Finished(JobId("s")))
    cluster.at(879)
    assert standing(cluster, "l p") == "queued running"
    cluster.at(880)
    assert standing(cluster, "l p") == "queued preempting"
    cluster.at(4999)
    assert (standing(cluster, "l p"), cluster.booked("a")) == ("queued queued", 0)
    cluster.at(5000)
    assert standing(cluster, "l p") == "running running"


def test_nobody_is_stopped_for_a_deadline_that_what_ends_by_itself_meets():
    """Both nodes are free at 600, and the gang has to start by 1000: it does so at 600, and nobody was stopped."""
    parts = [heavy(f"v{n}", 8).rank("P4").runs_for(4200).running({n: 8}, since=3600) for n in "ab"]
    cluster = Slow(snapshot(full("a b"), *parts, heavy("d", 16).per_node(8).rank("P4").by(1000))).settle()
    cluster.at(599)
    assert standing(cluster, "va vb d") == "running running queued"
    cluster.at(600, ev.Finished(JobId("va")), ev.Finished(JobId("vb")))
    assert cluster.job("d").job.started_at == 600


def test_what_can_never_fit_is_told_and_nobody_makes_room_for_it():
    """Two nodes inside one rack, and every rack has one; and more memory on a node than any has."""
    there = [node(name, 8, "h100", rack=f"r{name}", cpus=64.0, memory_gb=512.0) for name in "abc"]
    parts = [heavy(f"v{n}", 8).rank("P4").running({n: 8}) for n in "ab"]
    asks = (heavy("g", 16).per_node(8).within("rack").rank("P0"), heavy("m", 8, gb=128.0).rank("P0"))
    cluster = Slow(snapshot(there, *parts, *asks)).settle()
    cluster.at(3600)
    assert standing(cluster, "va vb g m") == "running running queued queued"
    assert "never" in cluster.job("g").reason
    assert cluster.state.reserved == ()


def test_a_victim_comes_back_before_the_younger_and_with_its_work():
    """e2 saved on the signal what it had done; when e4 is done it is back before e3, younger than it, with an hour less
    to go.
    """
    e2 = heavy("e2", 8).rank("P3").signal(30.0, 20.0).runs_for(7200).running(a=8, since=3600)
    cluster = Slow(snapshot(full("a"), e2, heavy("e3", 8).rank("P3"))).settle()
    cluster.at(100, ev.Submit(heavy("e4", 8).rank("P1").made))
    cluster.at(160)
    assert standing(cluster, "e2 e3 e4") == "queued queued running"
    assert cluster.job("e2").job.estimated_runtime_s == 7200 - 3700
    cluster.at(3000, ev.Finished(JobId("e4")))
    assert standing(cluster, "e2 e3") == "running queued"


def test_one_rack_is_left_whole_for_the_gang_that_fits_only_there():
    """Y, of four h100 nodes with slices of 16 in a rack, fits only r1; X, of two, is given r2, in the same moment."""
    there = [*racks(8, r1="a b c d", r2="e f")]
    asks = (job("X").gang(16).per_node(8).within("rack"), job("Y").gang(32).per_node(8).within("rack"))
    cluster = Slow(snapshot(there, *asks)).settle()
    assert (set(cluster.on("X")), set(cluster.on("Y"))) == ({"e", "f"}, {"a", "b", "c", "d"})
