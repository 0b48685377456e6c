"""What is handed to another process arrives as it was."""

from __future__ import annotations

import pickle

from optsched.engine import events as ev
from optsched.engine.state import initial
from optsched.engine.step import step
from optsched.server.handing import hand_over_quickly
from tests.builders import job, nodes, snapshot, team


def test_states_and_events_arrive_as_they_were():
    """A job that runs, one that waits, one that is submitted, and their nodes: equal, in order, with their types."""
    hand_over_quickly()
    given = snapshot(nodes("a b", 8), team("t"), job("runs").running(a=8), job("waits").gang(16))
    state = step(initial(given), ev.Submit(job("more").gang(8).made), 5.0).state
    again = pickle.loads(pickle.dumps(state))
    assert again == state
    assert [repr(each) for each in again.jobs.values()] == [repr(each) for each in state.jobs.values()]
    assert list(again.nodes) == list(state.nodes)
    event = ev.Submit(job("x").gang(8).made, held=True, after=(ev.After(job("y").made.id),))
    assert pickle.loads(pickle.dumps(event)) == event
