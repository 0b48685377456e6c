"""Jobs that have ended leave the state: by age, by number, and not as long as another one waits for them."""

from __future__ import annotations

from dataclasses import replace

from optsched.engine import events as ev
from optsched.engine.codec import restore_bytes, save_bytes
from optsched.engine.forget import forgotten
from optsched.engine.log import LogEntry, rebuild
from optsched.engine.settings import Settings
from optsched.engine.state import State, initial
from optsched.engine.step import step
from optsched.engine.timers import next_wake
from optsched.values.ids import JobId
from optsched.values.job import JobState
from tests.builders import job, nodes, snapshot, team


def ended(count: int, settings: Settings) -> State:
    """Jobs j0, j1, …, cancelled at 10, 20, …"""
    state = initial(snapshot(nodes("a", 8), team("t")), settings)
    for number in range(count):
        state = step(state, ev.Submit(job(f"j{number}").gang(8).made), 0.0).state
    for number in range(count):
        state = step(state, ev.Cancel(JobId(f"j{number}")), 10.0 * (number + 1)).state
    return state


def names(state: State) -> list[str]:
    return [*state.jobs, *state.ended]


def test_a_job_that_ended_long_ago_is_forgotten():
    """Kept for 100 s: at 115 the one that ended at 10 goes, the one of 20 stays; that is told by the step alone."""
    before = ended(2, Settings(ended_kept_s=100.0))
    after = step(before, ev.Tick(), 115.0).state
    assert names(after) == ["j1"]
    assert [each.id for each in forgotten(before, after)] == ["j0"]
    assert after.record(JobId("j0")) is None
    assert after.version > before.version
    assert forgotten(after, step(after, ev.Tick(), 116.0).state) == []


def test_of_many_the_ones_that_ended_first_are_forgotten():
    """Three are kept of 1,000."""
    state = step(ended(1000, Settings(ended_kept=3)), ev.Tick(), 20_000.0).state
    assert names(state) == ["j997", "j998", "j999"]


def test_without_a_limit_nobody_is_forgotten():
    """As in a replay, where every job ever known stays listed."""
    state = ended(50, Settings())
    assert step(state, ev.Tick(), 1e9).state is not state
    assert len(names(step(state, ev.Tick(), 1e9).state)) == 50


def test_what_became_of_a_job_is_known_as_long_as_another_waits_for_it():
    """b waits until j0 has ended; once b is withdrawn, j0 is let go of as well."""
    state = ended(2, Settings(ended_kept_s=100.0))
    waits = ev.After(JobId("j0"), ev.Condition.ENDED)
    state = step(state, ev.Submit(job("b").gang(8).made, after=(waits,)), 30.0).state
    state = step(state, ev.Tick(), 500.0).state
    assert names(state) == ["b", "j0"]
    state = step(state, ev.Cancel(JobId("b")), 510.0).state
    assert names(step(state, ev.Tick(), 520.0).state) == ["b"]


def test_time_is_looked_at_when_somebody_is_to_be_forgotten():
    """The first ended at 10 and is kept for 1,000 s: the next whole minute after 1,010 s is 1,020 s."""
    state = ended(2, Settings(ended_kept_s=1000.0))
    assert next_wake(state) == 1020.0
    assert next_wake(replace(state, settings=Settings(ended_kept=1))) == 60.0
    assert next_wake(replace(state, settings=Settings())) is None


def test_a_log_that_forgets_rebuilds_the_state_from_any_that_was_saved():
    """The same jobs are forgotten by the same ticks."""
    start = initial(snapshot(nodes("a", 8), team("t")), Settings(ended_kept_s=35.0, ended_kept=4))
    entries: list[LogEntry] = []
    states = [start]
    for number in range(12):
        at = 10.0 * number
        for event in (ev.Submit(job(f"j{number}").gang(8).made), ev.Cancel(JobId(f"j{number}")), ev.Tick()):
            entries.append(LogEntry(len(entries) + 1, at, event))
            states.append(step(states[-1], event, at).state)
    assert names(states[-1]) == ["j8", "j9", "j10", "j11"]
    for number in range(0, len(entries), 5):
        saved = restore_bytes(save_bytes(states[number]))
        assert rebuild(saved, entries[number:]) == states[-1]
    assert all(each.state is JobState.CANCELLED for each in states[-1].ended.values())
