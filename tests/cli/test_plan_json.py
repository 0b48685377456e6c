"""The JSON of a plan, as documented."""

from __future__ import annotations

import json
from typing import Any

import pytest

from optsched.files.plan_json import plan_to_json
from tests.cli.builders import info, plan

BILL = ("run_value", "placement_loss", "preemption_cost", "migration_cost", "resize_cost", "hold_cost", "domain_cost")


def shown(tasks: bool = False) -> dict[str, Any]:
    found = json.loads(plan_to_json(plan(), tasks))
    assert isinstance(found, dict)
    return found


def test_the_keys_are_the_documented_ones() -> None:
    found = shown()
    assert list(found) == [
        *("round", "starts", "preemptions", "migrations", "resizes", "reservations", "queued", "bill")
    ]
    assert list(found["round"]) == [
        "source",
        "status",
        "gap",
        "gap_gpus",
        "wall_s",
        "deterministic_s",
        "window",
        "ranks",
    ]
    assert found["round"]["window"] == {"considered": 5, "queued": 5}
    assert list(found["starts"][0]) == ["job", "placement", "span", "waits_for"]
    assert list(found["preemptions"][0]) == ["job", "for", "cost_gpu_s", "lost_work_s", "grace_s"]
    assert list(found["migrations"][0]) == ["job", "placement", "for", "cost_gpu_s"]
    assert list(found["resizes"][0]) == ["job", "placement", "for", "cost_gpu_s"]
    assert list(found["reservations"][0]) == ["job", "domain", "nodes", "start_estimate_at"]
    assert list(found["queued"][0]) == ["job", "reason", "detail", "unblock"]
    assert list(found["queued"][0]["unblock"]) == ["kind", "target", "value", "text"]
    assert list(found["bill"]) == [*BILL, "bound"]


def test_values_stand_as_the_plan_has_them() -> None:
    found = shown()
    assert found["round"]["source"] == "cp_sat"
    assert found["round"]["status"] == "optimal"
    assert found["starts"][0]["placement"] == {"b0r0n0": list(range(8)), "b0r0n1": list(range(8))}
    assert found["preemptions"][0] == {
        "job": "train",
        "for": ["big"],
        "cost_gpu_s": 72_000,
        "lost_work_s": 4320,
        "grace_s": 120,
    }
    assert found["reservations"][1]["start_estimate_at"] is None
    assert found["queued"][0]["unblock"]["kind"] == "wait_until"
    assert found["queued"][1]["unblock"] is None
    assert found["bill"]["resize_cost"] == 2400.5


def test_whole_numbers_have_no_point() -> None:
    text = plan_to_json(plan())
    assert '"cost_gpu_s": 72000,' in text
    assert '"run_value": 97200,' in text
    assert '"start_estimate_at": 47520}' in text


def test_ranks_leave_out_empty_ones_and_mark_what_is_above_the_minimum() -> None:
    assert shown()["round"]["ranks"] == [
        {"tier": "guaranteed", "priority": "P1", "gpus": 16, "gpus_bound": 16},
        {"tier": "opportunistic", "priority": "P2", "gpus": 1, "gpus_bound": 65},
        {"tier": "opportunistic", "priority": "P3", "gpus": 10, "gpus_bound": None},
        {"tier": "opportunistic", "priority": "P3", "above_minimum": True, "gpus": 0, "gpus_bound": None},
    ]


def test_tasks_are_there_only_when_asked_for() -> None:
    assert shown(tasks=True)["starts"][0]["tasks"][1] == {
        "rank": 1,
        "node": "b0r0n1",
        "gpus": list(range(8)),
        "slice": [0],
    }
    assert "tasks" not in shown()["starts"][0]


def test_an_unknown_gap_is_null() -> None:
    assert json.loads(plan_to_json(info(gap=None, gap_gpus=None)))["round"]["gap"] is None


def test_what_is_no_number_is_never_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        plan_to_json(info(gap=float("nan")))
