"""A decision about many who wait is taken in part by part, and leads where the whole would."""

from __future__ import annotations

from dataclasses import replace

from optsched.engine import events as ev
from optsched.engine.decide import in_parts
from optsched.engine.state import State, initial
from optsched.engine.step import step
from optsched.engine.timers import Dutiful, next_wake
from optsched.values.ids import JobId
from optsched.values.job import JobState
from optsched.values.plan import Plan, RoundInfo, Source, Status, Waiting
from tests.builders import nodes, snapshot, team
from tests.store.places import submits


def waiting(count: int, **more: object) -> State:
    """A state with jobs w0, w1, … that were submitted, and that no round has seen yet."""
    state = initial(snapshot(nodes("n1", 8), team("t")))
    for number in range(count):
        given = replace(submits(number, number)[0].event.job, id=JobId(f"w{number}"), **more)
        state = step(state, ev.Submit(given), float(number)).state
    return state


def decided(state: State, *detail: str) -> ev.Decided:
    """A decision that says of each job in turn why it waits."""
    info = RoundInfo(Source.GREEDY, Status.FEASIBLE, None, None, 0.0, 0.0, len(detail), len(detail))
    queued = tuple(Waiting(JobId(f"w{n}"), "no_domain_fits", text) for n, text in enumerate(detail))
    return ev.Decided(Plan(info, queued=queued), state.version)


def reasons(state: State) -> list[tuple[str, str, bool]]:
    return [(record.reason, record.blocked_by, record.unseen) for record in state.jobs.values()]


def test_the_parts_lead_where_the_whole_leads():
    """Seven jobs in parts of three: three with the decision, then three, then one."""
    state = waiting(7)
    whole = decided(state, *[f"{n} domains are full" for n in range(7)])
    first, rest = in_parts(whole, state, 3)
    assert [len(part.queued) for part in (first.plan, *rest)] == [3, 3, 1]
    after = step(state, first, 10.0).state
    for part in rest:
        after = step(after, part, 10.0).state
    assert reasons(after) == reasons(step(state, whole, 10.0).state)
    assert reasons(after)[6] == ("6 domains are full", "no_domain_fits", False)
    assert (after.due, first.seen) == (False, state.version)


def test_what_is_no_news_is_left_out():
    """Of three that are told the same again and one for which it is another reason, one row is left."""
    state = waiting(4)
    state = step(state, decided(state, "a", "b", "c", "d"), 10.0).state
    first, rest = in_parts(decided(state, "a", "b", "c", "e"), state)
    assert ([each.job for each in first.plan.queued], rest) == ([JobId("w3")], ())


def test_a_job_that_may_be_refused_stays_with_the_decision():
    """All have a deadline and none was seen: the decision keeps them, however many they are."""
    state = waiting(5, start_deadline_at=5000.0)
    first, rest = in_parts(decided(state, *"abcde"), state, 2)
    assert (len(first.plan.queued), rest) == (5, ())


def test_a_part_says_nothing_of_jobs_that_wait_no_more():
    """One has been cancelled meanwhile, one was never known."""
    state = waiting(2)
    state = step(state, ev.Cancel(JobId("w0")), 10.0).state
    rows = tuple(Waiting(JobId(name), "no_domain_fits", "full") for name in ("w0", "w1", "other"))
    after = step(state, ev.Waits(rows), 11.0).state
    assert after.jobs[JobId("w1")].reason == "full"
    assert after.record(JobId("w0")).state is JobState.CANCELLED
    assert after.record(JobId("w0")).reason != "full"


def test_the_next_instant_is_the_same_whatever_was_known_before():
    """With what was found out for older states, over hundreds of changes."""
    dutiful = Dutiful()
    state = waiting(600)
    for number in range(0, 600, 7):
        name = JobId(f"w{number}")
        state = step(state, ev.Update(name, {"start_deadline_at": 4000.0 + number}), 700.0 + number).state
        assert next_wake(state, dutiful) == next_wake(state)
        if number % 3 == 0:
            state = step(state, ev.Cancel(name), 700.0 + number).state
            assert next_wake(state, dutiful) == next_wake(state)
