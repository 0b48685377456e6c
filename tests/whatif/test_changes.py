"""What a scenario changes, and that what it names has to be there."""

from __future__ import annotations

import pytest

from optsched.errors import UsageError
from optsched.values.cluster import NodeState
from optsched.values.job import Job, JobState
from optsched.values.resources import Amounts
from optsched.values.snapshot import Snapshot
from optsched.whatif import changes as ch
from optsched.whatif.changes import changed
from tests.whatif.lab import lab


def job_of(snapshot: Snapshot, name: str) -> Job:
    return next(job for job in snapshot.jobs if job.id == name)


def test_nodes_are_added_in_a_domain_or_in_one_of_their_own() -> None:
    found = changed(lab(), [ch.AddNodes(1, "r1"), ch.AddNodes(2)])
    added = found.cluster.nodes[4:]
    assert [(node.id, dict(node.domains), node.gpus) for node in added] == [
        ("new-1", {"rack": "r1"}, 8),
        ("new-2", {"rack": "new-rack1"}, 8),
        ("new-3", {"rack": "new-rack1"}, 8),
    ]


def test_a_domain_is_copied_beside_itself() -> None:
    found = changed(lab(), [ch.AddLike("r0", copies=2)])
    assert [node.domains["rack"] for node in found.cluster.nodes] == [
        *("r0", "r0", "r1", "r1"),
        *("r0-new1", "r0-new1", "r0-new2", "r0-new2"),
    ]
    assert len({node.id for node in found.cluster.nodes}) == 8


def test_what_ran_on_removed_nodes_waits_again_from_its_last_checkpoint() -> None:
    found = changed(lab(), [ch.Remove("r1")])
    assert [node.id for node in found.cluster.nodes] == ["r0n0", "r0n1"]
    sweep = job_of(found, "sweep")
    assert (sweep.state, sweep.placement) == (JobState.QUEUED, {})
    # It ran from 30,600, and saved at 35,100: 4,500 of the 7,200 seconds are done.
    assert sweep.estimated_runtime_s == 2700
    assert job_of(found, "resnet").state is JobState.RUNNING


def test_a_domain_is_drained_for_good_or_for_a_window() -> None:
    for_good = changed(lab(), [ch.Drain("r0")])
    assert [node.state for node in for_good.cluster.nodes] == [NodeState.DRAINING] * 2 + [NodeState.UP] * 2
    window = changed(lab(), [ch.Drain("r0", 3600, 7200)]).reservations[0]
    assert (window.start_at, window.end_at, window.nodes) == (39_600, 43_200, ("r0n0", "r0n1"))


def test_quotas_and_weights_are_set() -> None:
    vision = changed(lab(), [ch.SetQuota("vision", 24), ch.SetWeight("vision", 3.0)]).teams[1]
    assert (vision.quota, vision.weight) == (Amounts(gpus=24), 3.0)


def test_the_snapshot_that_is_given_stays_as_it_is() -> None:
    snapshot, as_it_was = lab(), lab()
    changed(snapshot, [ch.Remove("r1"), ch.Drain("r0"), ch.SetQuota("vision", 0), ch.AddNodes(3)])
    assert snapshot == as_it_was


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (ch.Remove("r9"), "no node or domain is called 'r9'; allowed: domains and nodes: r0, r1"),
        (ch.AddLike("r0n0"), "'r0n0' is a node; allowed: a domain"),
        (ch.SetQuota("visoin", 1), "no team is called 'visoin'; allowed: did you mean 'vision'"),
        (ch.AddJob(Job("eval", "vision", 8)), "a job is called 'eval' already"),  # type: ignore[arg-type]
    ],
)
def test_what_is_not_there_is_refused(change: ch.Change, wrong: str) -> None:
    with pytest.raises(UsageError, match=wrong):
        changed(lab(), [change])


def test_all_nodes_cannot_be_removed() -> None:
    with pytest.raises(UsageError, match="is all there is"):
        changed(lab(), [ch.Remove("r0"), ch.Remove("r1")])


def test_failure_rates_are_multiplied() -> None:
    once, twice = ch.FailureRates("llama3").rates(), ch.FailureRates("llama3", 2.0).rates()
    assert (twice.gpu, twice.process) == (2 * once.gpu, 2 * once.process)
    assert once.domain_mtbf_h is not None
    assert twice.domain_mtbf_h == once.domain_mtbf_h / 2
    none = ch.FailureRates("llama3", 0.0).rates()
    assert (none.gpu, none.process, none.domain_mtbf_h) == (0, 0, None)
