"""One run: when it ends, what it has saved, and what its time came to, in whole numbers."""

from __future__ import annotations

from optsched.sim.runs import FULL, Run, Split
from optsched.values.ids import JobId, NodeId


def run(rate=FULL, gpus=1, owed=1000, **more):
    """A run of `owed` ms of work of one GPU, booked at 0, that trains from 100 on."""
    fields = {"trains_from": 100, "booked_at": 0, "span": 0, "nodes": (NodeId("n"),)} | more
    return Run(JobId("j"), 1, gpus, rate=rate, owed=owed * FULL, **fields)


def test_it_ends_when_its_work_is_done_at_the_speed_of_its_span():
    """1,000 ms of work at full speed, at half speed, and on two GPUs."""
    assert run().ends_at() == 1100
    assert run(rate=FULL // 2).ends_at() == 2100
    assert run(rate=2 * FULL, gpus=2).ends_at() == 600


def test_checkpoints_hold_it_up_but_for_one_at_the_very_end():
    """Every 250 ms of training one of 10 ms: after 250, 500 and 750; at 1,000 it is done."""
    saves = run(every=250, cost=10)
    assert saves.ends_at() == 100 + 1000 + 30
    assert saves.at_training(250) == 350
    assert [saves.trained(at) for at in (50, 100, 350, 355, 360, 361)] == [0, 0, 250, 250, 250, 251]


def test_a_checkpoint_counts_once_it_is_whole_and_durable():
    """The first is begun at 350 and done at 360; with an upload of 40 ms it survives from 400 on."""
    assert [run(every=250, cost=10).saved(at) for at in (359, 360, 619, 620)] == [0, 250, 250, 500]
    assert [run(every=250, cost=10, durable=40).saved(at) for at in (399, 400)] == [0, 250]
    assert run(every=250, cost=10, durable=None).saved(900) == 0
    assert run().saved(900) == 0


def test_every_ms_is_told():
    """From 0 to 700 on two GPUs at half speed: 100 waits, 2 x 10 of checkpoints, 580 trained, 500 of it kept."""
    saves = run(rate=FULL, gpus=2, every=250, cost=10)
    found = saves.split(700, saves.saved(700))
    assert found == Split(useful=500, placement_loss=500, checkpoint=40, restart=200, lost=160)
    assert found.total == 2 * 700


def test_a_gang_that_hangs_loses_the_time_until_that_is_noticed():
    """It hangs at 300 and that is seen at 900: nothing was saved, so all from 100 on is lost."""
    hung = run(hung_at=300)
    assert hung.trained(900) == 200
    assert hung.split(900, hung.saved(900)) == Split(restart=100, lost=800)


def test_a_run_that_never_came_to_train_has_only_started():
    """All its time counts as the start's."""
    assert run(trains_from=None).split(80, 0) == Split(restart=80)
    assert run().split(80, 0) == Split(restart=80)
