"""Jobs that somebody keeps from starting: held, waiting for others, or by the limit of their array."""

from __future__ import annotations

import pytest

from optsched.engine import events as ev
from optsched.engine.codec import restore_bytes, save_bytes
from optsched.engine.events import After, Condition, Member
from optsched.engine.kept import why_kept
from optsched.errors import Conflict
from optsched.values.ids import JobId
from tests.builders import job, nodes, snapshot, team
from tests.engine.driven import Driven, report


def cluster(gpus: int = 8, *, prompt: bool = True) -> Driven:
    return Driven(snapshot(nodes("a", gpus), team("t")), prompt=prompt)


def submit(name: str, gpus: int = 1, **more: object) -> ev.Submit:
    return ev.Submit(job(name).gang(gpus).made, **more)  # type: ignore[arg-type]


def after(name: str, condition: str = "completed") -> tuple[After, ...]:
    return (After(JobId(name), Condition(condition)),)


def why(it: Driven, name: str) -> str:
    return why_kept(it.job(name), it.state.jobs, it.state.ended)


def test_what_is_held_starts_once_it_is_released():
    it = cluster().at(0, submit("x", held=True))
    assert (it.stands("x"), why(it, "x")) == ("queued", "held")
    it.at(10, ev.Unhold(JobId("x")))
    assert it.stands("x") == "running"


def test_a_queued_job_can_be_held_and_says_why_and_what_runs_cannot():
    it = cluster().at(0, submit("x", 8), submit("y", 8))
    assert (it.stands("x"), it.stands("y")) == ("running", "queued")
    it.take(ev.Hold(JobId("y"), "data not ready"))
    it.at(10, ev.Finished(JobId("x")))
    assert (it.stands("y"), why(it, "y")) == ("queued", "held: data not ready")
    it.at(20, ev.Unhold(JobId("y")))
    assert it.stands("y") == "running"
    with pytest.raises(Conflict, match="running: only what waits can be held"):
        it.take(ev.Hold(JobId("y")))


def test_holding_gives_back_the_room_that_a_job_was_promised():
    """v is on its way out for the more urgent w; w is held before v is gone: the room is nobody's, v may have it."""
    it = Driven(snapshot(nodes("a", 8), job("v").gang(8).rank("P3").running(a=8)), prompt=False).settle()
    it.at(1000, ev.Submit(job("w").gang(8).rank("P1").made))
    assert (it.stands("v"), it.job("w").claim is not None) == ("preempting", True)
    it.take(ev.Hold(JobId("w")), 1000)
    assert it.job("w").claim is None
    it.take(report("v", "a", "released", 1), 1001)
    it.settle()
    assert (it.stands("v"), it.stands("w")) == ("starting", "queued")


@pytest.mark.parametrize(
    ("condition", "starts_with"), [("started", "running"), ("completed", "completed"), ("ended", "completed")]
)
def test_a_job_waits_for_another_to_come_so_far(condition: str, starts_with: str):
    it = cluster(prompt=False).at(0, submit("x"), submit("y", after=after("x", condition)))
    stood = []
    for step in ("reserved", "started", "ok", "released"):
        it.settle()
        if it.stands("y") != "queued":
            break
        assert "x" in why(it, "y")
        it.take(report("x", "a", step, 1))
        stood.append(it.stands("x"))
    it.settle()
    assert it.stands("y") == "starting"
    assert stood[-1] == starts_with


def test_a_job_whose_condition_can_no_longer_be_met_says_so_and_never_starts():
    it = cluster().at(0, submit("x"), submit("y", after=after("x")), submit("z", after=after("x", "ended")))
    it.at(10, ev.Cancel(JobId("x")))
    assert why(it, "y") == "never starts: it waits until x is completed, which is cancelled"
    assert (it.stands("y"), it.stands("z")) == ("queued", "running")
    assert it.state.awaited == frozenset()


def test_a_failure_that_is_retried_is_no_end():
    it = cluster().at(0, submit("x", 8), submit("y", after=after("x")))
    it.at(100, report("x", "a", "failed", 1))
    assert it.job("x").run == 2
    assert it.stands("y") == "queued"


def test_an_array_holds_gpus_with_so_many_members_at_a_time_in_order_of_their_index():
    members = [submit(f"s.{n}", array=Member(JobId("s"), n, 2)) for n in (10, 2, 1, 3)]
    it = cluster().at(0, *members, submit("other"))
    assert sorted(name for name, each in it.state.jobs.items() if each.job.placement) == ["other", "s.1", "s.2"]
    it.at(10, ev.Finished(JobId("s.1")))
    assert (it.stands("s.3"), it.stands("s.10")) == ("running", "queued")


def test_what_keeps_a_job_back_outlives_a_restart():
    it = cluster().at(0, submit("x"), submit("y", after=after("x")), submit("z", held=True))
    it.at(1, submit("s.1", array=Member(JobId("s"), 1, 1)))
    assert restore_bytes(save_bytes(it.state)) == it.state
