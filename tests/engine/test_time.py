"""Time: reservations that hold across rounds, deadlines, windows, estimates that are corrected."""

from __future__ import annotations

import numpy as np
import pytest

from optsched.engine import events as ev
from optsched.engine.commands import Kind
from optsched.values.ids import JobId
from optsched.values.profile import PreemptTokens
from tests.builders import job, nodes, racks, snapshot, team
from tests.engine.driven import Driven


def gang(name: str = "big"):
    """Four whole nodes."""
    return job(name).gang(32).per_node(8).rigid()


def test_a_reservation_is_kept_across_rounds_and_backfill_ends_before_it():
    """big starts at 3600, when what runs on c and d should end. a and b are held: an hour's work goes in, two hours'
    and work without an estimate does not, however often is decided. big starts at 3600.
    """
    running = [job(f"w{name}").gang(8).rigid().runs_for(7200).running({name: 8}, since=3600) for name in "cd"]
    asks = [
        gang().rank("P1"),
        job("short").gang(8).rigid().runs_for(3000),
        job("long").gang(8).rigid().runs_for(7200),
        job("open").gang(8).rigid(),
    ]
    cluster = Driven(snapshot(nodes("a b c d", 8), *running, *asks)).settle()
    for at in (0, 1000, 2000, 2990):
        cluster.at(at)
        assert cluster.stands("short") == "running"
        assert [cluster.stands(each) for each in ("long", "open", "big")] == ["queued"] * 3
        assert cluster.state.reserved[0].start_estimate_at == 3600
    cluster.at(3000, ev.Finished(JobId("short")))
    assert [cluster.stands(each) for each in ("long", "open", "big")] == ["queued"] * 3
    cluster.at(3600, ev.Finished(JobId("wc")), ev.Finished(JobId("wd")))
    assert cluster.stands("big") == "running"


def test_an_overrun_moves_the_start_visibly():
    """wd should end at 3600 and does not: big's start is told to be unknown, then, once the job ends, big starts."""
    running = job("wd").gang(8).rigid().runs_for(7200).running(d=8, since=3600)
    cluster = Driven(snapshot(nodes("a b c d", 8), running, gang())).settle()
    assert "to start at 3600" in cluster.told("big")
    cluster.at(4000)
    assert cluster.state.reserved == ()
    assert cluster.stands("big") == "queued"
    assert cluster.at(5000, ev.Finished(JobId("wd"))).stands("big") == "running"


def test_preemptible_work_is_let_into_a_hold_and_gives_way_when_it_is_called_in():
    """guest, of the same priority as big and without an estimate, may use a until big can start: then it goes, whatever
    its tier, and however short it has run. rigid work without an estimate is not let in.
    """
    running = job("w").gang(8).rigid().runs_for(4000).running(d=8, since=3600)
    asks = (gang().waiting(50), job("guest").gang(8).waiting(10), job("stiff").gang(8).rigid().waiting(20))
    cluster = Driven(snapshot(nodes("a b c d", 8), running, *asks)).settle()
    assert [cluster.stands(each) for each in ("big", "guest", "stiff")] == ["queued", "running", "queued"]
    assert cluster.job("guest").on_call == ("big",)
    cluster.at(400, ev.Finished(JobId("w")))
    assert (cluster.stands("big"), cluster.stands("guest")) == ("running", "queued")
    assert cluster.job("guest").job.preemptions == 1


@pytest.mark.parametrize("seed", range(6))
def test_backfill_never_delays_a_reservation_while_estimates_are_right(seed: int):
    """Sixteen nodes, forty rigid jobs of 1 to 4 nodes that end exactly when they said, a gang of ten nodes at the head:
    from round to round its start only comes nearer, and it starts no later than was first said.
    """
    draw = np.random.default_rng(seed)
    names = [f"n{i:02}" for i in range(16)]
    ends: dict[str, float] = {}
    parts = [job("big").gang(80).per_node(8).rigid().rank("P1").waiting(100)]
    for i in range(12):
        left = float(draw.integers(600, 6000))
        parts.append(job(f"r{i:02}").gang(8).rigid().runs_for(left + 600).running({names[i]: 8}, since=600))
        ends[f"r{i:02}"] = left
    for i in range(40):
        made = job(f"q{i:02}").gang(8 * int(draw.integers(1, 5))).per_node(8).rigid().waiting(90.0 - i)
        parts.append(made.runs_for(float(draw.integers(300, 5000))))
    cluster = Driven(snapshot(nodes(" ".join(names), 8), *parts)).settle()
    said: list[float] = []
    while cluster.stands("big") != "running":
        estimate = next(room.start_estimate_at for room in cluster.state.reserved if room.job == "big")
        assert estimate is not None
        said.append(estimate)
        for name, record in cluster.state.jobs.items():
            if record.job.started_at is not None and record.estimate_s is not None:
                ends[str(name)] = record.job.started_at + record.estimate_s
        at, first = min((end, name) for name, end in ends.items())
        del ends[first]
        cluster.at(at, ev.Finished(JobId(first)))
    assert said == sorted(said, reverse=True), (seed, said)
    assert cluster.job("big").job.started_at <= said[0], seed


@pytest.mark.parametrize("seed", range(4))
def test_the_wait_of_an_entitled_job_is_bounded(seed: int):
    """Team t is entitled to all of its quota of 8 nodes. Others keep coming: preemptible ones, and rigid ones of at
    most 2 h in their own team's quota. The gang of 6 nodes waits at most starve_after_s (1 h) and the longest rigid
    remainder (2 h) and the grace (120 s), and the 500 s after which an end is reported at the latest here.
    """
    draw = np.random.default_rng(seed)
    names = [f"n{i}" for i in range(8)]
    teams = (team("t").quota(64), team("o").quota(16))
    cluster = Driven(snapshot(nodes(" ".join(names), 8), *teams, starve_after_s=3600, min_runtime_s=600))
    ends: dict[str, float] = {}
    submitted, number = 1000.0, 0
    at = 0.0
    while at < 30_000:
        at += float(draw.integers(100, 500))
        number += 1
        made = job(f"o{number:03}").team("o").gang(8 * int(draw.integers(1, 3))).per_node(8)
        made = made.rigid().runs_for(7200) if draw.random() < 0.4 else made
        events: list[ev.Event] = [ev.Finished(JobId(name)) for name, end in ends.items() if end <= at]
        ends = {name: end for name, end in ends.items() if end > at}
        if at >= submitted:
            submitted = float("inf")
            events.append(ev.Submit(job("big").team("t").gang(48).per_node(8).rigid().made))
        cluster.at(at, *events, ev.Submit(made.made))
        for name, record in cluster.state.jobs.items():
            if record.job.started_at is not None and not record.job.preemptible and name != "big":
                ends.setdefault(str(name), record.job.started_at + 7200)
        if "big" in cluster.state.jobs and cluster.stands("big") == "running":
            break
    started = cluster.job("big").job.started_at
    assert started is not None
    assert started - 1000 <= 3600 + 7200 + 120 + 500, seed


def test_a_deadline_is_met_by_displacing_only_when_nothing_else_meets_it():
    """Deadline 3600, grace 120, latency 60, margin 60: due from 3360 on. v is of equal priority and has no known end:
    nobody is stopped before 3360, and the gang starts by 3600.
    """
    running = job("v").gang(8).running(a=8)
    cluster = Driven(snapshot(nodes("a", 8), running, job("d").gang(8).by(3600))).settle()
    assert cluster.at(3350).stands("d") == "queued"
    assert cluster.at(3365).stands("d") == "running"
    assert cluster.job("d").job.started_at == 3360


@pytest.mark.parametrize("deadline", [0.0, -5.0])
def test_a_deadline_that_has_passed_is_refused_at_submission(deadline: float):
    """Not queued for ever, and nobody is stopped for it."""
    cluster = Driven(snapshot(nodes("a", 8), team("t"))).settle()
    cluster.take(ev.Submit(job("d").gang(8).by(deadline).made))
    assert cluster.stands("d") == "failed"
    assert "has passed" in cluster.job("d").reason


def test_a_deadline_before_the_earliest_start_is_refused_with_that_instant():
    """v ends at 4000. d, submitted at 10 with a deadline 30 s later, could not start before: nobody is stopped for it,
    though v could be. e, with a deadline at 4500, is accepted and starts when v is done.
    """
    running = job("v").gang(8).rank("P1").runs_for(7600).running(a=8)
    cluster = Driven(snapshot(nodes("a", 8), running)).settle()
    cluster.at(10, ev.Submit(job("d").gang(8).rank("P1").by(40).made))
    assert (cluster.stands("d"), cluster.stands("v")) == ("failed", "running")
    assert "earliest start is 4000" in cluster.job("d").reason
    cluster.at(20, ev.Submit(job("e").gang(8).by(4500).made))
    assert cluster.stands("e") == "queued"
    assert cluster.at(4000, ev.Finished(JobId("v"))).stands("e") == "running"


def test_a_deadline_of_a_job_that_fits_nowhere_is_refused_with_the_reason():
    """4,096 GPUs on one of 8, within a second. Without a deadline it waits, and is told that it waits for ever."""
    cluster = Driven(snapshot(nodes("a", 8), team("t"))).settle()
    cluster.at(10, ev.Submit(job("d").gang(4096).per_node(8).by(11).made))
    assert cluster.stands("d") == "failed"
    assert "cannot be met, needs 4096 GPUs and the cluster has 8" in cluster.job("d").reason
    cluster.at(20, ev.Submit(job("w").gang(4096).per_node(8).made))
    assert cluster.stands("w") == "queued"
    assert "can never start" in cluster.job("w").reason


def test_nobody_is_stopped_for_a_deadline_that_is_missed_all_the_same():
    """d, of two nodes, is due from 760 on, but rigid r is on one of them until 2000. Its deadline of 1000 passes. At
    2000 d is late: x, of its priority, whom it might have stopped before 880, is left alone.
    """
    running = (job("r").gang(8).rigid().running(a=8), job("x").gang(8).running(b=8))
    cluster = Driven(snapshot(nodes("a b", 8), *running, job("d").gang(16).per_node(8).by(1000))).settle()
    cluster.at(2000, ev.Finished(JobId("r")))
    assert (cluster.stands("d"), cluster.stands("x")) == ("queued", "running")
    cluster.at(3000, ev.Finished(JobId("x")))
    assert cluster.stands("d") == "running"


def test_a_deadline_missed_for_want_of_healthy_nodes_is_reported_and_the_job_stays_at_the_head():
    """Rigid work holds the node until 5000. The deadline of 4000 passes, which is said; at 5000 d starts before the
    older and more urgent u.
    """
    running = job("v").gang(8).rigid().running(a=8)
    asks = (job("d").gang(8).by(4000), job("u").gang(8).rank("P0").waiting(9000))
    cluster = Driven(snapshot(nodes("a", 8), running, *asks)).settle()
    cluster.at(4500)
    assert [note.kind for note in cluster.notes if note.kind is Kind.DEADLINE] == [Kind.DEADLINE]
    cluster.at(5000, ev.Finished(JobId("v")))
    assert (cluster.stands("d"), cluster.stands("u")) == ("running", "queued")


def test_estimates_are_corrected_by_what_the_users_jobs_really_took():
    """ada's last five jobs took a tenth of what she said. Her next, said to take 10 h, is counted as one of 1 h, so the
    gang is expected after that; once it has run for longer it is taken at its word again.
    """
    parts = [job(f"h{i}").user("ada").gang(8).runs_for(36_000).running({"abcde"[i]: 8}, since=0) for i in range(5)]
    cluster = Driven(snapshot(nodes("a b c d e", 8), *parts)).settle()
    cluster.at(3600, *(ev.Finished(JobId(f"h{i}")) for i in range(5)))
    asks = (job("n").user("ada").gang(8).rigid().runs_for(36_000), job("big").gang(40).per_node(8).rigid())
    cluster.at(4000, ev.Submit(asks[0].made))
    cluster.at(4001, ev.Submit(asks[1].made))
    assert cluster.state.reserved[0].start_estimate_at == 4000 + 3600
    cluster.at(4000 + 3700)
    assert cluster.state.reserved[0].start_estimate_at == 4000 + 36_000


def test_a_reservation_dies_with_its_job():
    """What was held is free for others the moment big is cancelled."""
    running = job("w").gang(8).rigid().runs_for(9000).running(d=8, since=3600)
    cluster = Driven(snapshot(nodes("a b c d", 8), running, gang(), job("open").gang(8).rigid())).settle()
    assert cluster.stands("open") == "queued"
    assert cluster.at(10, ev.Cancel(JobId("big"))).stands("open") == "running"


def test_time_that_passes_alone_lets_a_costly_preemption_pay():
    """v lost 4 h of work on 16 GPUs if it is stopped: 230,400 GPU·s. u gains 8 GPUs x 3600 s = 28,800 and may cost that
    much, doubled with every 900 s of wait: after three doublings, at 2700, it is 230,400, and u starts.
    """
    victim = job("v").gang(16).per_node(8).running(a=8, b=8, since=20_000, lost=14_400 - 2700)
    tokens = PreemptTokens(per_h=1.0, burst=2.0)
    cluster = Driven(snapshot(nodes("a b", 8), victim, job("u").gang(8).rank("P0"), preempt_tokens=tokens)).settle()
    assert cluster.at(2690).stands("u") == "queued"
    assert cluster.at(2710).stands("u") == "running"


def test_a_rack_is_swept_for_a_starved_gang_without_estimates():
    """Nothing in the rack states an end, so big has no start and holds nothing, until after 6 h it collects what
    becomes free: k, which came later and fits on a, is not let in.
    """
    there = racks(8, r1="a b")
    running = [job(f"w{name}").gang(8).rigid().running({name: 8}) for name in "ab"]
    cluster = Driven(snapshot(there, *running, job("big").gang(16).per_node(8).rigid().within("rack"))).settle()
    assert cluster.state.reserved == ()
    cluster.at(21_700)
    assert [(room.job, room.start_estimate_at) for room in cluster.state.reserved] == [("big", None)]
    cluster.at(22_000, ev.Finished(JobId("wa")), ev.Submit(job("k").gang(8).rigid().made))
    assert cluster.stands("k") == "queued"
    cluster.at(30_000, ev.Finished(JobId("wb")))
    assert cluster.stands("big") == "running"
