"""What agents say: late, twice, of another run, of nobody's job. It is noted, and changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optsched.engine import events as ev
from optsched.engine.commands import Verb
from optsched.values.ids import JobId, NodeId
from tests.builders import job, nodes, racks, snapshot
from tests.engine.driven import Driven, report


def one_running() -> Driven:
    """j runs on a and b, k waits for room."""
    there = nodes("a b", 8, rack="r")
    return Driven(snapshot(there, job("j").gang(16).per_node(8).running(a=8, b=8), job("k").gang(8))).settle()


def unchanged(cluster: Driven, *events: ev.Event) -> str:
    """Let reports come in that must change nothing, and return what was noted."""
    before, noted = cluster.state, len(cluster.notes)
    for event in events:
        assert cluster.take(event).state == before
    return "; ".join(note.text for note in cluster.notes[noted:])


def test_a_completion_that_is_reported_three_times_frees_its_gpus_once():
    """The first report ends the job and k starts on a; the repeats find nothing to end."""
    cluster = one_running().at(10, ev.Finished(JobId("j"), 1))
    assert cluster.stands("j") == "completed"
    assert cluster.stands("k") == "running"
    free = 16 - cluster.booked("a") - cluster.booked("b")
    assert free == 8
    told = unchanged(cluster, ev.Finished(JobId("j"), 1), ev.Finished(JobId("j"), 1), report("j", "a", "ok", 1))
    assert told.count("completed already") == 3
    assert 16 - cluster.booked("a") - cluster.booked("b") == free


def test_a_report_about_an_older_run_changes_nothing():
    """Run 1 of j was preempted by an operator, run 2 is under way: run 1 failed, says a late report."""
    cluster = one_running()
    cluster.at(10, ev.Cancel(JobId("k")), ev.Preempt(JobId("j")))
    cluster.at(400)
    assert (cluster.stands("j"), cluster.job("j").run) == ("running", 2)
    for outcome in ("failed", "ok", "infra", "refused"):
        told = unchanged(cluster, report("j", "a", outcome, 1))
        assert "run 2 is the present one" in told


def test_a_report_under_an_older_epoch_is_answered_stale():
    """The scheduler that gave the command is gone; its successor's epoch is 2."""
    cluster = one_running()
    cluster.take(ev.Lead(2))
    assert "epoch 1 is over" in unchanged(cluster, report("j", "a", "failed", 1, epoch=1))
    assert "epoch 2 is over" not in cluster.told("j")


def test_a_report_about_an_unknown_job_or_another_nodes_job_is_refused_with_the_reason():
    """Nobody's job, and a node on which j does not run."""
    there = nodes("a b c", 8)
    cluster = Driven(snapshot(there, job("j").gang(8).running(a=8))).settle()
    assert "nobody knows" in unchanged(cluster, report("nope", "a", "ok", 1))
    assert "a node that the run is not on" in unchanged(cluster, report("j", "b", "failed", 1))


def test_gpus_that_a_run_still_has_are_not_freed_by_a_report():
    """An agent says that the GPUs of j on a are free, while j runs there."""
    cluster = one_running()
    assert "still has" in unchanged(cluster, report("j", "a", "released", 1))
    assert cluster.booked("a") == 8


def test_one_task_that_ends_well_leaves_the_others_alone():
    """j is done when both are; until then all its GPUs stay booked, and nobody is killed."""
    cluster = one_running().at(10, report("j", "a", "ok", 1))
    assert cluster.stands("j") == "running"
    assert cluster.booked("a") == 8
    assert not cluster.asked
    assert cluster.at(20, report("j", "b", "ok", 1)).stands("j") == "completed"


def test_one_task_that_fails_takes_the_whole_gang_with_it_at_once():
    """All are told to kill their part; the GPUs stay booked until they say that it is done."""
    cluster = Driven(snapshot(nodes("a b", 8), job("j").gang(16).per_node(8).running(a=8, b=8)), prompt=False)
    cluster.take(report("j", "a", "failed", 1, "exit code 1"))
    assert cluster.stands("j") == "queued"
    assert cluster.asked_for(Verb.KILL) == ["a", "b"]
    assert (cluster.booked("a"), cluster.booked("b")) == (8, 8)
    assert "exit code 1" in cluster.job("j").reason


def test_budgets_are_kept_apart():
    """retries {infra: 20, job: 2}: three failures of the machine leave the job queued, the third of its own ends it."""
    cluster = Driven(snapshot(nodes("a b c d e f g h", 8), job("j").gang(8).running(a=8)))
    cluster.settle()
    for failure in range(3):
        at = 5000.0 * (failure + 1)
        node = next(iter(cluster.on("j")))
        cluster.at(at, report("j", node, "infra", None, "XID 79"))
        assert cluster.at(at + 4000).stands("j") == "running"
    for failure in range(3):
        at = 100_000.0 * (failure + 1)
        node = next(iter(cluster.on("j")))
        cluster.at(at, report("j", node, "failed", None, "exit code 1"))
        cluster.at(at + 50_000)
    assert cluster.stands("j") == "failed"
    assert "gave up after 3 failures of class job" in cluster.job("j").reason


def test_a_job_is_not_launched_again_on_the_node_that_could_not_start_it():
    """Both nodes fit; the launch on a failed, so the next is on b. Where only a fits it is tried there again."""
    two = Driven(snapshot(nodes("a b", 8), job("j").gang(8).running(a=8)))
    two.at(5, report("j", "a", "refused", 1, "no space left"))
    assert two.on("j") == {"b": 8}
    assert two.booked("a") == 0
    one = Driven(snapshot(nodes("a", 8), job("j").gang(8).running(a=8)))
    assert one.at(5, report("j", "a", "refused", 1)).on("j") == {"a": 8}


# Checkpoints


def test_checkpoint_claims_that_cannot_be_true_change_nothing():
    """Before the run began, older than the known one, of a job that has ended: refused. Of the future: cut to now."""
    cluster = Driven(snapshot(nodes("a", 8), job("j").gang(8).running(a=8, since=3600, lost=100)))
    for taken in (-3700.0, -200.0):
        unchanged(cluster, ev.Checkpointed(JobId("j"), taken_at=taken))
    cluster.take(ev.Checkpointed(JobId("j"), taken_at=3600.0))
    assert cluster.job("j").job.last_checkpoint_at == 0.0
    assert "of the future" in cluster.told("j")
    cluster.at(10, ev.Finished(JobId("j")))
    unchanged(cluster, ev.Checkpointed(JobId("j")))


def test_a_flood_of_checkpoints_counts_as_one_every_ten_seconds():
    """A claim each second for a minute: at 0, 10, ... 60 they count, seven in all."""
    cluster = Driven(snapshot(nodes("a", 8), job("j").gang(8).running(a=8, lost=None)))
    for second in range(61):
        cluster.take(ev.Checkpointed(JobId("j")), float(second))
    assert [each.taken_at for each in cluster.job("j").checkpoints] == [0, 10, 20, 30, 40, 50, 60]


def test_what_is_saved_soon_after_another_takes_its_place_and_not_its_instant():
    """Saved at 100 and, on the signal to stop, at 104: it goes on from the second, and counts as saved at 100.

    A copy in host memory at 106 takes the place of none that outlives the node.
    """
    cluster = Driven(snapshot(nodes("a", 8), job("j").gang(8).running(a=8, lost=None)))
    for second, version, tier in ((100.0, "v1", "store"), (104.0, "v2", "store"), (106.0, "v3", "ram")):
        cluster.take(ev.Checkpointed(JobId("j"), version=version, tier=tier), second)
    (saved,) = cluster.job("j").checkpoints
    assert (saved.version, saved.taken_at) == ("v2", 100.0)
    assert cluster.job("j").job.last_checkpoint_at == 100.0


def test_a_copy_in_host_memory_that_is_uploaded_soon_counts_from_then_on():
    """v1 is in memory at 100 and on the store at 103."""
    cluster = Driven(snapshot(nodes("a", 8), job("j").gang(8).running(a=8, lost=None)))
    cluster.take(ev.Checkpointed(JobId("j"), version="v1", tier="ram"), 100.0)
    assert cluster.job("j").job.last_checkpoint_at is None
    cluster.take(ev.Checkpointed(JobId("j"), version="v1", tier="store", taken_at=100.0), 103.0)
    (saved,) = cluster.job("j").checkpoints
    assert saved.safe_at is not None
    assert cluster.job("j").job.last_checkpoint_at == 100.0


def test_a_checkpoint_in_host_memory_is_not_counted_as_saved_work():
    """It goes with its node; the one on the object store 100 s ago is what a stop would fall back to."""
    cluster = Driven(snapshot(nodes("a", 8), job("j").gang(8).running(a=8, lost=100)))
    cluster.take(ev.Checkpointed(JobId("j"), tier="ram"), 50.0)
    assert cluster.job("j").job.last_checkpoint_at == -100.0
    cluster.take(ev.Checkpointed(JobId("j"), tier="store"), 70.0)
    assert cluster.job("j").job.last_checkpoint_at == 70.0


def test_a_version_on_which_two_restores_failed_is_not_restored_a_third_time():
    """Versions 1 and 2. Two runs in a row fail within minutes of restoring 2: the third is restored from 1."""
    cluster = Driven(snapshot(nodes("a", 8), job("j").gang(8).running(a=8, lost=None))).settle()
    cluster.at(100, ev.Checkpointed(JobId("j"), version="1"))
    cluster.at(200, ev.Checkpointed(JobId("j"), version="2"))
    given = cluster.job("j")
    cluster.state = replace(
        cluster.state,
        jobs={given.id: replace(given, job=replace(given.job, retries=replace(given.job.retries, job=9)))},
    )
    restored = []
    at = 5000.0
    for _ in range(3):
        cluster.at(at, report("j", "a", "failed", None, "cannot load"))
        cluster.at(at + 200)
        restored.append(cluster.job("j").restored)
        at = cluster.state.now
    assert restored == ["2", "2", "1"]


# Races


def test_a_job_cancelled_while_it_starts_stays_cancelled_and_its_gpus_come_free():
    """The agents are told to give the GPUs back; that a task started nevertheless is stale."""
    cluster = Driven(snapshot(nodes("a b", 8), job("j").gang(16).per_node(8)), prompt=False).settle()
    assert cluster.stands("j") == "starting"
    cluster.take(ev.Cancel(JobId("j")))
    cluster.take(ev.Cancel(JobId("j")))
    assert "already cancelled" in cluster.told("j")
    cluster.take(report("j", "a", "started", 1))
    assert cluster.stands("j") == "cancelled"
    assert cluster.asked_for(Verb.RELEASE) == ["a", "b"]
    cluster.answer_all()
    assert (cluster.booked("a"), cluster.booked("b")) == (0, 0)


def test_a_node_lost_while_a_gang_starts_fails_the_start_and_a_late_word_of_it_changes_nothing():
    """a is lost before it started its task; the start fails whole, and is tried on b and c."""
    cluster = Driven(snapshot(nodes("a b c", 8), job("j").gang(16).per_node(8)), prompt=False).settle()
    first = set(cluster.on("j"))
    lost = sorted(first)[0]
    cluster.take(ev.NodeLost(NodeId(lost)))
    assert cluster.stands("j") == "queued"
    told = unchanged(cluster, report("j", lost, "started", 1))
    assert "does not run" in told
    cluster.answer_all()
    cluster.settle().answer_all()
    assert cluster.stands("j") == "running"
    assert lost not in cluster.on("j")
    assert cluster.booked(lost) == 8


@pytest.mark.parametrize("change", [ev.Cordon(NodeId("a")), ev.NodeLost(NodeId("a")), ev.Drain(NodeId("a"))])
def test_what_was_decided_before_a_node_was_closed_is_planned_again(change: ev.Event):
    """Decided: j on a. Then a is closed, then the decision is committed: the gang is dropped whole, and goes to b."""
    from optsched.engine.decide import decide
    from tests.engine.driven import PLANNER

    there = [replace(each, spare=each.id == "z") for each in racks(8, r="a b")]
    cluster = Driven(snapshot(there, job("j").gang(8).avoiding("b")))
    decision = decide(cluster.state, PLANNER)
    assert decision is not None
    assert decision.plan.starts[0].placement.keys() == {"a"}
    cluster.take(change)
    cluster.take(decision)
    assert cluster.stands("j") == "queued"
    assert not cluster.state.claims
    assert "planned again" in cluster.told("j")
