"""Of a long queue a round looks at the first of each kind; the others count as demand and learn why they wait."""

from __future__ import annotations

from dataclasses import replace

from optsched.clock import StoppedClock
from optsched.planner import window
from optsched.planner.plan import PlanOptions, plan_next
from optsched.planner.window import Kinds, beyond_waiting, in_window
from optsched.rounds.build import build_problem
from optsched.values.job import JobState
from optsched.values.plan import Waiting
from optsched.values.snapshot import Snapshot
from tests.builders import job, nodes, snapshot, team

GREEDY = PlanOptions(budget_s=0.0, prove=0)


def long_queue(monkeypatch) -> Snapshot:
    """Two kinds of thirty jobs each on two nodes of 8, with a window of two of each kind."""
    monkeypatch.setattr(window, "LONG_QUEUE", 10)
    monkeypatch.setattr(window, "LOOKED_AT", 4)
    small = [job(f"small-{k:02}").team("a").gang(1).waiting(100 - k) for k in range(30)]
    large = [job(f"large-{k:02}").team("b").gang(8).waiting(100 - k) for k in range(30)]
    return snapshot(nodes("n1 n2"), team("a").quota(gpus=4), team("b").quota(gpus=4), *small, *large)


def test_the_oldest_of_each_kind_are_looked_at(monkeypatch):
    shown, beyond = in_window(long_queue(monkeypatch))
    names = sorted(each.id for each in shown.jobs)
    assert names == ["large-00", "large-01", "small-00", "small-01"]
    assert len(beyond.jobs) == 56


def test_a_short_queue_is_looked_at_whole():
    whole = snapshot(nodes("n1"), job("a").gang(1))
    shown, beyond = in_window(whole)
    assert shown is whole
    assert beyond.jobs == ()


def test_a_job_that_is_asked_about_or_has_a_deadline_is_looked_at(monkeypatch):
    whole = long_queue(monkeypatch)
    due = replace(next(each for each in whole.jobs if each.id == "large-20"), start_deadline_at=1e6)
    whole = replace(whole, jobs=tuple(due if each.id == due.id else each for each in whole.jobs))
    shown, _ = in_window(whole, next(each.id for each in whole.jobs if each.id == "small-29"))
    assert {"large-20", "small-29"} <= {str(each.id) for each in shown.jobs}


def test_shares_follow_the_demand_of_the_whole_queue(monkeypatch):
    whole = long_queue(monkeypatch)
    shown, _ = in_window(whole)
    part, all_of_it = build_problem(shown).lines, build_problem(whole).lines
    assert part.entitlement == all_of_it.entitlement


def test_what_was_found_out_before_changes_nothing(monkeypatch):
    """Jobs come, one of those that are looked at goes, another one is asked for anew: as if it were the first look."""
    whole, kinds = long_queue(monkeypatch), Kinds()
    later = [job(f"small-{k}").team("a").gang(1).waiting(0).made for k in range(40, 45)]
    older = job("small-old").team("a").gang(1).waiting(500).made
    larger = replace(whole.jobs[1], gpus=4, min_gpus=4, max_gpus=4)
    steps = [whole.jobs, (*whole.jobs, *later), (*whole.jobs[1:], *later), (*whole.jobs, *later, older)]
    for jobs in [*steps, (whole.jobs[0], larger, *whole.jobs[2:])]:
        given = replace(whole, jobs=jobs)
        shown, beyond = in_window(given, None, kinds)
        fresh, anew = in_window(given)
        assert shown == fresh
        assert (sorted(each.id for each in beyond.jobs), beyond.count) == (
            sorted(each.id for each in anew.jobs),
            len(anew.jobs),
        )
        # Of every second kind somebody waits, the others start.
        why = [Waiting(each.last.id, "no_room", "full") for each in anew.kinds if each.last.gpus == 1]
        assert set(beyond_waiting(beyond, why)) == set(beyond_waiting(anew, why))


def test_every_queued_job_is_started_or_told_why_not_and_nothing_is_proven(monkeypatch):
    whole = long_queue(monkeypatch)
    first, memory = plan_next(whole, GREEDY, StoppedClock(), None)
    # It has no more time than those after it.
    assert (first.round.considered, first.round.queued, first.round.gap) == (4, 60, None)
    plan, _ = plan_next(whole, GREEDY, StoppedClock(), memory)
    told = {each.job for each in plan.queued} | {each.job for each in plan.starts}
    assert told == {each.id for each in whole.jobs if each.state is JobState.QUEUED}
    assert plan.round.queued == 60
    assert plan.round.considered == 4
    assert plan.round.gap is None
    assert plan.starts
