"""Altered copies are what `dataclasses.replace` makes."""

from __future__ import annotations

import dataclasses

import pytest

from optsched.engine.state import JobRecord
from optsched.values.altered import altered
from optsched.values.ids import JobId, TeamId
from optsched.values.job import Job, JobState

JOB = Job(JobId("j"), TeamId("t"), 8, min_gpus=4, placement={})


def test_they_differ_in_what_is_given_and_share_the_rest():
    """And the value itself stays as it is."""
    record = JobRecord(JOB, JobState.QUEUED, changed=3, reason="waits")
    copy = altered(record, state=JobState.RUNNING, changed=4)
    assert copy == dataclasses.replace(record, state=JobState.RUNNING, changed=4)
    assert (record.state, record.changed) == (JobState.QUEUED, 3)
    assert copy.job is record.job


def test_what_a_class_does_once_it_is_made_is_done():
    """A job without a smallest size has its only one."""
    assert altered(JOB, min_gpus=0) == dataclasses.replace(JOB, min_gpus=0)
    assert altered(JOB, min_gpus=0).min_gpus == 8


def test_a_field_that_is_none_is_an_error():
    """As everywhere."""
    with pytest.raises(KeyError):
        altered(JOB, gpu=1)
