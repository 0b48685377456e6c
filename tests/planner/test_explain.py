"""Why a job waits: the reason as a word, a sentence with counts, and advice that proves right."""

from __future__ import annotations

import dataclasses

import pytest

from optsched.clock import StoppedClock
from optsched.planner.advice import apply_advice
from optsched.planner.plan import PlanOptions, plan_round
from optsched.values.plan import UnblockKind, Waiting
from optsched.values.snapshot import Snapshot
from tests.builders import cordoned, job, node, nodes, outcome, racks, snapshot, team, window
from tests.oracle.rounds import tiny_round


def why(snap: Snapshot, name: str = "q") -> Waiting:
    """Why a job waits; its advice, if any but "never", starts it."""
    waiting = outcome(snap).why(name)
    if waiting.unblock is not None and waiting.unblock.kind is not UnblockKind.NEVER:
        after = apply_advice(snap, waiting.job, waiting.unblock)
        assert name in outcome(after).started
    return waiting


def test_a_full_cluster():
    """No node has room: how many are full, the nearest miss, and which GPUs to free."""
    held = [job(f"v{name}").rigid().team("u").running({name: 8}) for name in "ab"]
    waiting = why(snapshot(nodes("a b", 8), *held, job("q").gang(4)))
    assert waiting.reason == "no_room"
    assert "0 of 2 nodes fit" in waiting.detail
    assert "2 full" in waiting.detail
    assert "has 0 of the 4 GPUs" in waiting.detail
    assert (waiting.unblock.kind, waiting.unblock.value) == (UnblockKind.FREE, 4)


def test_what_is_kept_is_named_when_somebody_else_has_what_was_not_kept():
    """a and b are kept for big until 3600. e is nobody's, and x, who came first, has it now: q waits for the others."""
    there = racks(8, r1="a b c d", r2="e")
    held = [job(f"v{name}").rigid().runs_for(7200).running({name: 8}) for name in "cd"]
    big = job("big").rank("P1").gang(32).per_node(8).within("rack").rigid()
    asks = [job(name).gang(8).rigid().runs_for(9000).waiting(waits) for name, waits in (("x", 20), ("q", 10))]
    waiting = why(snapshot(there, *held, big, *asks))
    assert waiting.reason == "held"
    assert "kept for big, which starts in 1 h" in waiting.detail


def test_the_nearest_miss_is_named():
    """b has 3 of 4."""
    held = (job("v").rigid().team("u").running(a=8), job("w").rigid().team("u").running(b=5))
    waiting = why(snapshot(nodes("a b", 8), *held, job("q").gang(4)))
    assert "1 with too few free GPUs" in waiting.detail
    assert "has 3 of the 4 GPUs" in waiting.detail
    assert (waiting.unblock.target, waiting.unblock.value) == ("b", 1)


def test_no_domain_of_the_required_level():
    """Each rack has one free node, the gang needs two."""
    held = [job(f"v{name}").rigid().team("u").running({name: 8}) for name in "ac"]
    waiting = why(snapshot(racks(8, r1="a b", r2="c d"), *held, job("q").gang(16).per_node(8).within("rack")))
    assert waiting.reason == "no_domain_fits"
    assert "0 of 2 rack domains fit" in waiting.detail
    assert "has 8 of the 16 GPUs" in waiting.detail
    assert waiting.unblock.kind is UnblockKind.FREE


@pytest.mark.parametrize(
    ("there", "asks", "reason"),
    [
        ([node("a", 8, "h100")], job("q").types(a10=1.0), "no node has a GPU of type a10"),
        (nodes("a", 8), job("q").gang(16).within("node"), "the largest node has 8"),
        (nodes("a", 8), job("q").gang(16).per_node(16), "the largest node has 8"),
        (racks(8, r1="a", r2="b"), job("q").gang(16).per_node(8).within("rack"), "no single rack can hold 16 GPUs"),
        (nodes("a b", 8), job("q").gang(24).per_node(8), "the cluster has 16"),
        ([node("a", 8, cpus=8)], job("q").cpus(9), "CPUs"),
        ([node("a", 8, memory_gb=8)], job("q").memory(9), "memory"),
        (nodes("a", 8), job("q").where(zone="x"), "labels"),
    ],
)
def test_what_can_never_start_is_told_so(there, asks, reason):
    """With what is in the way, and `never` as advice."""
    waiting = why(snapshot(there, asks))
    assert waiting.reason == "impossible"
    assert reason in waiting.detail
    assert waiting.unblock.kind is UnblockKind.NEVER


def test_a_cordoned_node_is_the_advice():
    """b would do."""
    held = job("v").rigid().team("u").running(a=8)
    waiting = why(snapshot([node("a", 8), cordoned(node("b", 8))], held, job("q").gang(4)))
    assert "1 cordoned, draining or down" in waiting.detail
    assert (waiting.unblock.kind, waiting.unblock.target) == (UnblockKind.UNCORDON, "b")


def test_a_limit():
    """6 of 8 are held, 4 more are asked for: raise it to 10."""
    held = job("v").rigid().running(a=6)
    waiting = why(snapshot(nodes("a b", 8), team("t").limit(8), held, job("q").gang(4)))
    assert waiting.reason == "limit"
    assert "limit of team t: 6 GPUs are held, it needs 4 more, 8 are allowed" in waiting.detail
    assert (waiting.unblock.kind, waiting.unblock.target, waiting.unblock.value) == (UnblockKind.RAISE_LIMIT, "t", 10)


def test_a_user_limit():
    """Ada's own."""
    held = job("v").user("ada").rigid().running(a=6)
    waiting = why(snapshot(nodes("a b", 8), team("t").user_limit(8), held, job("q").user("ada").gang(4)))
    assert waiting.reason == "user_limit"
    assert (waiting.unblock.kind, waiting.unblock.target) == (UnblockKind.RAISE_LIMIT, "t/ada")


def test_the_quota_of_non_preemptible_work():
    """Quota 4, 2 run rigidly, 4 more are asked for: raise it to 6."""
    held = job("v").rigid().running(a=2)
    waiting = why(snapshot(nodes("a b", 8), team("t").quota(4), held, job("q").rigid().gang(4)))
    assert waiting.reason == "quota"
    assert "bounds non-preemptible work" in waiting.detail
    assert (waiting.unblock.kind, waiting.unblock.value) == (UnblockKind.RAISE_QUOTA, 6)


def test_a_limit_in_cpus_is_told_in_cpus():
    """16 are held of 20, 8 more are asked for."""
    held = job("v").rigid().cpus(16).running(a=2)
    waiting = outcome(snapshot(nodes("a", 8), team("t").limit(cpus=20), held, job("q").cpus(8))).why("q")
    assert "16 CPUs are held, it needs 8 more, 20 are allowed" in waiting.detail


def test_room_that_is_held_for_a_gang():
    """The gang starts at 1000: an estimate of at most 1000 s would let the job in before."""
    held = job("v").team("u").rigid().running(b=8).runs_for(3600 + 1000)
    gang = job("gang").rank("P1").gang(16).per_node(8)
    waiting = why(snapshot(nodes("a b", 8), held, gang, job("q").rank("P4").rigid().gang(4)))
    assert waiting.reason == "held"
    assert "kept for gang, which starts in 16 min 40 s (at 1000)" in waiting.detail
    assert (waiting.unblock.kind, waiting.unblock.target) == (UnblockKind.SET_FIELD, "jobs.q.estimated_runtime_s")
    assert waiting.unblock.value == 1000


def test_a_maintenance_window():
    """It begins at 500, and nobody knows when the job would end."""
    waiting = why(snapshot(nodes("a", 8), window("w", 500, 900, "a"), job("q").rigid()))
    assert waiting.reason == "maintenance"
    assert "when reservation w begins on a" in waiting.detail
    assert waiting.unblock.kind is UnblockKind.SET_FIELD


def test_a_window_that_has_begun():
    """Wait until it ends."""
    waiting = why(snapshot(nodes("a", 8), window("w", -5, 900, "a"), job("q")))
    assert waiting.reason == "maintenance"
    assert (waiting.unblock.kind, waiting.unblock.value) == (UnblockKind.WAIT_UNTIL, 900)


def test_cpus_that_are_missing_are_counted():
    """Four GPUs are free and no CPUs."""
    held = job("v").rigid().team("u").cpus(16).running(a=4)
    waiting = why(snapshot([node("a", 8, cpus=16)], held, job("q").gang(2).cpus(8)))
    assert "1 short of CPUs" in waiting.detail


def test_a_job_that_is_not_worth_a_preemption_is_told_when_it_can_start():
    """The running work of its own priority ends at 800 by its estimate."""
    held = job("v").rank("P1").running(a=8, b=8).runs_for(3600 + 800).per_node(8)
    waiting = why(snapshot(nodes("a b", 8), held, job("q").rank("P1").gang(16).per_node(8)))
    assert "it can start in 13 min 20 s (at 800)" in waiting.detail


def test_every_waiting_job_is_explained_in_queue_order():
    """And only they."""
    held = job("v").rigid().team("u").running(a=8)
    found = outcome(snapshot(nodes("a", 8), held, *(job(f"q{i}").gang(4).waiting(9 - i) for i in range(3))))
    assert [each.job for each in found.plan.queued] == ["q0", "q1", "q2"]


@pytest.mark.parametrize("chunk", range(6))
def test_all_advice_given_proves_right(chunk):
    """Over random rounds: applied and planned again, it starts the job."""
    options = PlanOptions(budget_s=1e9, deterministic_s=3.0)
    given = 0
    for seed in range(12 * chunk, 12 * chunk + 12):
        snap = tiny_round(seed)
        for waiting in plan_round(snap, options, StoppedClock()).queued:
            if waiting.unblock is None or waiting.unblock.kind is UnblockKind.NEVER:
                continue
            given += 1
            after = plan_round(apply_advice(snap, waiting.job, waiting.unblock), options, StoppedClock())
            assert waiting.job in {each.job for each in after.starts}, (seed, waiting)
    assert given


def test_without_proof_no_advice_is_given():
    """`prove` bounds how many jobs have theirs proven; the rest have a reason and none."""
    held = job("v").rigid().team("u").running(a=8)
    snap = snapshot(nodes("a", 8), held, *(job(f"q{i}").gang(4).waiting(9 - i) for i in range(3)))
    found = outcome(snap, prove=1).plan.queued
    assert [each.unblock is not None for each in found] == [True, False, False]


def test_advice_names_only_fields_that_a_user_can_set():
    """The field's path starts with the job."""
    waiting = why(snapshot(nodes("a", 8), window("w", 500, 900, "a"), job("q").rigid()))
    after = apply_advice(snapshot(nodes("a", 8), job("q").rigid()), waiting.job, waiting.unblock)
    assert after.jobs[0] == dataclasses.replace(job("q").rigid().made, estimated_runtime_s=500.0)
