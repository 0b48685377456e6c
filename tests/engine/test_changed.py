"""A value with some fields changed is what `dataclasses.replace` makes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optsched.engine.state import initial
from optsched.values.changed import changed
from tests.builders import job, nodes, snapshot, team


def test_it_is_what_replace_makes():
    """A job, its record, the state that both are in."""
    state = initial(snapshot(nodes("a", 8), team("t"), job("j").gang(8)))
    record = state.jobs[job("j").made.id]
    assert changed(record.job, gpus=4, run=2) == replace(record.job, gpus=4, run=2)
    assert changed(record, reason="full") == replace(record, reason="full")
    assert changed(state, now=7.0, version=9) == replace(state, now=7.0, version=9)
    assert changed(record) == record


def test_a_field_that_is_none_is_refused():
    """By its name."""
    with pytest.raises(KeyError, match="colour"):
        changed(job("j").made, colour="red")
