"""The tables are the whole of what jobs and nodes can become."""

from __future__ import annotations

import itertools

import pytest

from optsched.engine.tables import ENDS, JOB_TABLE, NODE_TABLE, JobTrigger, NodeTrigger, job_after, node_after
from optsched.errors import IllegalTransition
from optsched.values.cluster import NodeState
from optsched.values.job import JobState


def test_every_pair_is_in_the_table_or_raises():
    """Seven states and nine triggers of jobs, six states and eight triggers of nodes: 111 pairs, no third way."""
    for state, trigger in itertools.product(JobState, JobTrigger):
        if (state, trigger) in JOB_TABLE:
            assert job_after(state, trigger) is JOB_TABLE[state, trigger]
        else:
            with pytest.raises(IllegalTransition, match=f"{state.value} cannot {trigger.value}"):
                job_after(state, trigger)
    for place, trigger in itertools.product(NodeState, NodeTrigger):
        if (place, trigger) in NODE_TABLE:
            assert node_after(place, trigger) is NODE_TABLE[place, trigger]
        else:
            with pytest.raises(IllegalTransition, match=f"{place.value} cannot {trigger.value}"):
                node_after(place, trigger)


def test_nothing_leads_out_of_an_end_and_everything_else_leads_to_one():
    """A job is never brought back; and from wherever it stands it can still be cancelled."""
    assert not [state for state, _ in JOB_TABLE if state in ENDS]
    for state in JobState:
        assert (state in ENDS) is ((state, JobTrigger.CANCEL) not in JOB_TABLE)


def test_every_state_can_be_reached():
    """Jobs from queued, nodes from probing, which is how one joins."""
    for table, start, states in ((JOB_TABLE, JobState.QUEUED, JobState), (NODE_TABLE, NodeState.PROBING, NodeState)):
        found = {start}
        for _ in states:
            found |= {then for (state, _), then in table.items() if state in found}
        assert found == set(states)


def test_no_node_takes_work_before_a_probe():
    """Only a probe that passes leads to up."""
    assert [trigger for (_, trigger), then in NODE_TABLE.items() if then is NodeState.UP] == [NodeTrigger.PASS]
