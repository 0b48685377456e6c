"""Plans as files: what ours write is read, what others write as far as it decides, and every fault is told."""

from __future__ import annotations

import json

import pytest

from optsched.clock import StoppedClock
from optsched.errors import InputError
from optsched.files.plan_json import plan_to_json
from optsched.files.plans import GivenPlan, load_plan, parse_plan
from optsched.planner.plan import PlanOptions, plan_round
from optsched.sim.quality.collection import load_round
from optsched.sim.quality.judge import given_of
from optsched.solve.ladder import SolverChoice

SNAPSHOT = load_round("elastic-shrink").snapshot


def faults(data: dict[str, object]) -> list[str]:
    """What is told of a plan that cannot be read."""
    with pytest.raises(InputError) as caught:
        parse_plan(data, SNAPSHOT, "plan.json")
    return [str(fault) for fault in caught.value.faults]


@pytest.mark.parametrize("name", ["elastic-shrink", "chain-of-moves", "floors"])
def test_what_optsched_writes_is_read_as_it_was_meant(name, tmp_path):
    """Starts, stops, moves and new sizes, with indices or counts."""
    snapshot = load_round(name).snapshot
    plan = plan_round(snapshot, PlanOptions(1e9, SolverChoice.EXACT, deterministic_s=2.0), StoppedClock())
    (tmp_path / "plan.json").write_text(plan_to_json(plan, tasks=True), encoding="utf-8")
    found = load_plan(tmp_path / "plan.json", snapshot)
    assert found == given_of(plan)
    assert found.starts
    assert found.stopped or found.changes


def test_an_empty_plan_changes_nothing():
    """All four lists may be left out."""
    assert parse_plan({}, SNAPSHOT) == GivenPlan()


def test_faults_are_told_all_at_once_a_line_each():
    """Unknown keys, jobs and nodes, entries of the wrong kind, states that do not fit, doubles."""
    data: dict[str, object] = {
        "starts": [
            {"job": "gang", "placement": {"r9n0": 8}},
            {"job": "cheap", "placement": {"r0n0": 8}},
            {"job": "gang", "placement": {}},
        ],
        "preemptions": [{"job": "cheep"}, {"job": "dear"}, {"job": "dear", "why": "cheap"}, {"job": "dear"}],
        "migrations": [{"job": "elastic-a", "placement": {"r0n0": [0, 0]}}],
        "stops": [],
    }
    assert faults(json.loads(json.dumps(data))) == [
        "plan.json: starts[0].placement.r9n0: unknown node 'r9n0'; allowed: did you mean 'r1n0'? known nodes: r0n0, "
        "r0n1, r0n2, r0n3, r1n0, r1n1, r1n2, r1n3",
        "plan.json: starts[1].job: the job 'cheap' runs; allowed: a job that is queued",
        "plan.json: starts[2].placement: given a mapping of 0 keys; allowed: a mapping of nodes to a number of GPUs "
        "from 1 to 1,024, or to a list of GPU indices",
        "plan.json: preemptions[0].job: unknown job 'cheep'; allowed: did you mean 'cheap'? known jobs: elastic-a, "
        "elastic-b, elastic-c, cheap, dear, gang",
        "plan.json: preemptions[2].why: unknown key 'why'; allowed: known keys: job, for, cost_gpu_s, "
        "lost_work_s, grace_s",
        "plan.json: preemptions[3].job: the job 'dear' is named twice in the plan; allowed: each job once in all lists",
        "plan.json: migrations[0].placement.r0n0: a GPU index is given twice; allowed: each GPU index once",
        "plan.json: stops: unknown key 'stops'; allowed: known keys: starts, preemptions, migrations, resizes, round, "
        "reservations, queued, bill",
    ]


def test_what_is_no_plan_at_all_is_refused():
    """A list is no mapping."""
    with pytest.raises(InputError, match="given a list of 0"):
        parse_plan([], SNAPSHOT)  # type: ignore[arg-type]
