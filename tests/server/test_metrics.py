"""What is measured and logged: the numbers of a small story, and the ids in its lines."""

from __future__ import annotations

import json
import logging

import pytest
from prometheus_client.parser import text_string_to_metric_families

from optsched.server.logs import JsonLines
from optsched.values.job import JobState
from optsched.wire.v1 import agent_pb2 as wire
from tests.server.service import RACKS, Served, served


async def measured(it: Served) -> dict[tuple[str, ...], float]:
    """All samples: (name, labels…) to value."""
    answer = await it.http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (each.name, *each.labels.values()): each.value
        for family in text_string_to_metric_families(answer.text)
        for each in family.samples
    }


@served(cluster=RACKS)
async def test_the_numbers_tell_the_story(it: Served) -> None:
    """Four nodes of eight in two racks. One team has a quota of 8; x takes a rack, y half a node, z waits."""
    await it.racks("a b", "c d")
    await it.http.put("/v1/teams", json={"teams": [{"id": "vision", "quota": {"gpus": 8}}]})
    await it.http.post("/v1/jobs", json={"id": "x", "gpus": 16, "topology": {"required": "rack"}})
    await it.job_is("x", JobState.RUNNING)
    await it.http.post("/v1/jobs", json={"id": "y", "gpus": 4, "team": "vision"})
    await it.job_is("y", JobState.RUNNING)
    await it.http.post("/v1/jobs", json={"id": "z", "gpus": 16})
    await it.until(lambda state: not state.due and state.jobs["z"].blocked_by != "")  # type: ignore[index]
    found = await measured(it)
    assert found["optsched_team_gpus", "default", "running"] == 16
    assert found["optsched_team_gpus", "default", "queued"] == 16
    assert found["optsched_team_jobs", "vision", "running"] == 1
    assert found["optsched_team_entitlement_gpus", "", "vision"] == 4
    # 4 of 32 GPUs.
    assert found["optsched_team_dominant_share", "vision"] == pytest.approx(4 / 32)
    assert found["optsched_nodes", "up"] == 4
    assert found["optsched_gpus", "up"] == 32
    assert found["optsched_gpus_booked", "up"] == 20
    # One rack is full, of the other 12 of 16 are free, 8 of them a whole node.
    assert [found["optsched_domains", "rack", use] for use in ("empty", "full", "part")] == [0, 1, 1]
    assert [found["optsched_domains", "node", use] for use in ("empty", "full", "part")] == [1, 2, 1]
    assert found["optsched_largest_free_gpus", "rack"] == 12
    assert found["optsched_gpus_in_empty_domains", "node"] == 8
    assert found["optsched_agents_connected",] == 4
    assert found["optsched_wait_seconds_count", "9-64"] == 1
    assert found["optsched_wait_seconds_count", "2-8"] == 1
    rounds = sum(value for key, value in found.items() if key[0] == "optsched_rounds_total")
    assert rounds == found["optsched_round_seconds_count",] > 0
    assert "optsched_round_gap" in {key[0] for key in found}


@served()
async def test_preemptions_and_what_they_cost_are_counted(it: Served) -> None:
    (a,) = await it.racks("a")
    await it.http.post("/v1/jobs", json={"id": "sweep", "gpus": 8, "priority": 1})
    await it.job_is("sweep", JobState.RUNNING)
    it.now.ahead_s += 700
    await it.http.post("/v1/jobs", json={"id": "urgent", "gpus": 8, "priority": 9})
    await it.job_is("urgent", JobState.RUNNING)
    await a.acked(await a.report("nobody", 1, wire.OUTCOME_OK))
    found = await measured(it)
    assert found["optsched_preemptions_total",] == 1
    # Eight GPUs lose all the 700 s and more since the start.
    assert found["optsched_preemption_cost_gpu_seconds_total",] >= 8 * 700
    assert found["optsched_notes_total", "preempted"] == 1


def test_lines_carry_the_ids_of_jobs_nodes_and_rounds(caplog: pytest.LogCaptureFixture) -> None:
    @served()
    async def story(it: Served) -> None:
        await it.racks("a")
        await it.http.post("/v1/jobs", json={"id": "train", "gpus": 8})
        await it.job_is("train", JobState.RUNNING)
        await it.until(lambda state: not state.due)

    logging.getLogger("optsched").propagate = True
    with caplog.at_level(logging.INFO, logger="optsched"):
        story()
    lines = [json.loads(JsonLines().format(record)) for record in caplog.records]
    started = next(each for each in lines if each.get("job") == "train" and each["message"] == "started")
    assert started["sequence"] > 0
    assert started["level"] == "info"
    assert any(each["message"] == "round" and each["starts"] == 1 and each["round"] > 0 for each in lines)
    assert any(each.get("node") == "a" for each in lines)
