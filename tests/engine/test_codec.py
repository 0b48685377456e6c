"""What is stored is told apart from what is not, and from what a later version stored."""

from __future__ import annotations

import pytest

from optsched.engine.codec import from_plain, restore, save, to_plain
from optsched.engine.state import initial
from optsched.errors import InternalError
from optsched.values.job import JobState
from tests.builders import job, nodes, snapshot


def test_a_state_comes_back_in_the_same_order():
    """Jobs and nodes in the order in which they were known: the next round depends on it."""
    state = initial(snapshot(nodes("b a", 8), job("y").running(b=1), job("x")))
    again = restore(save(state))
    assert again == state
    assert list(again.jobs) == ["y", "x"]
    assert list(again.nodes) == ["b", "a"]


def test_what_is_at_its_default_is_left_out_and_still_comes_back():
    """An enum by its value, a job by what was said of it."""
    plain = to_plain(job("x").gang(8).made)
    assert plain == {"$": "job.Job", "id": "x", "team": "t", "gpus": 8, "min_gpus": 8, "max_gpus": 8}
    assert from_plain(plain) == job("x").gang(8).made
    assert to_plain(JobState.QUEUED) == {"$enum": "job.JobState", "value": "queued"}


@pytest.mark.parametrize(
    ("data", "wrong"),
    [({"format": 2, "state": None}, "reads format 1"), ({"format": 1, "state": 7}, "no state"), ({}, "format None")],
)
def test_what_cannot_be_read_is_refused(data: dict[str, object], wrong: str):
    """A format from the future, no state, nothing."""
    with pytest.raises(InternalError, match=wrong):
        restore(data)


def test_nobody_stores_a_function():
    """Nor anything else that is no value."""
    with pytest.raises(InternalError, match="cannot be stored"):
        to_plain(len)
    with pytest.raises(InternalError, match="unknown"):
        from_plain({"$": "os.system"})
