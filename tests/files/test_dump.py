"""What is written back loads again, equal to the last field."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optsched.files import load_scenario, parse_scenario, parse_snapshot, scenario_to_dict, snapshot_to_dict
from optsched.values.cluster import Cluster, Fabric, Link, Node, NodeState, Reservation, ReservationKind
from optsched.values.job import Checkpoint, CheckpointTier, Job, JobState, Retries, Slice
from optsched.values.profile import PreemptTokens, PriorityMode, Profile, Reclaim
from optsched.values.resources import Amounts
from optsched.values.snapshot import Snapshot
from optsched.values.team import Team
from tests.files.builders import SHARED, data, job, needs_cases, node

CASES = sorted(SHARED.glob("scenarios/*.yaml")) + sorted(SHARED.glob("peer/*.yaml"))
ROUNDS = [SHARED / "rounds" / name for name in ("rich-10k-0.json.gz", "mixed-10k-0.json.gz", "nvl72-10k-0.json.gz")]

counts = st.integers(1, 64)
seconds = st.floats(0, 1e6) | st.integers(0, 10**6).map(float)
labels = st.dictionaries(st.sampled_from(["a", "b"]), st.text("xyz é", max_size=3), max_size=2)
amounts = (
    st.none()
    | st.builds(Amounts, gpus=st.none() | st.integers(0, 99), cpus=st.none() | seconds, memory_gb=st.none() | seconds)
    | st.builds(Amounts, gpus_by_type=st.dictionaries(st.sampled_from(["h100", "a100"]), st.integers(0, 9), min_size=1))
)
nodes = st.builds(
    Node,
    id=st.just("n"),
    gpus=st.just(8),
    domains=st.dictionaries(st.sampled_from(["block", "rack"]), st.sampled_from(["x", "y"])),
    gpu_type=st.sampled_from(["", "h100"]),
    fabric=st.none() | st.just("f"),
    cpus=st.none() | st.just(64.0),
    cpus_reserved=st.sampled_from([0.0, 8.0]),
    memory_gb=st.none() | seconds,
    gpus_bad=st.sampled_from([(), (1, 2)]),
    labels=labels,
    spare=st.booleans(),
    state=st.sampled_from(NodeState),
    reason=st.text("ab ", max_size=3),
)
checkpoints = st.builds(
    Checkpoint,
    interval_s=st.none() | st.just(900.0),
    cost_s=seconds,
    restart_s=seconds,
    on_signal=st.booleans(),
    elastic=st.booleans(),
    tiers=st.sampled_from([(), (CheckpointTier("nvme", 5.0, 60.0, ("process",)), CheckpointTier("ram"))]),
)


@st.composite
def jobs(draw: st.DrawFn, profile: Profile) -> Job:
    step = draw(counts)
    gpus = step * 4
    cut = draw(st.sampled_from([{}, {"gpus_per_task": step}]))
    name = draw(st.none() | st.sampled_from(sorted(profile.classes)))
    start = {"state": JobState.RUNNING, "started_at": 5.0, "placement": {"n": draw(st.just(8) | st.just((0, 3)))}}
    return Job(
        id="j",  # type: ignore[arg-type]
        team="t",  # type: ignore[arg-type]
        gpus=gpus,
        priority=draw(st.integers(-9, 9)) if name is None else profile.classes[name],
        priority_class=name or "",
        user=draw(st.sampled_from(["", "ada"])),  # type: ignore[arg-type]
        cpus=draw(seconds),
        memory_gb=draw(seconds),
        gpu_types=draw(st.sampled_from([{}, {"h100": 1.0}, {"h100": 1.0, "a100": 0.45}])),  # type: ignore[arg-type]
        required=draw(st.none() | st.sampled_from(["block", "rack", "node"])),  # type: ignore[arg-type]
        preferred=draw(st.none() | st.sampled_from(["block", "rack", "node"])),  # type: ignore[arg-type]
        slices=draw(st.sampled_from([(), (Slice(2 * step, "rack"), Slice(step, "node"))])),  # type: ignore[arg-type]
        speed=draw(st.sampled_from([{}, {"rack": 0.5}])),  # type: ignore[arg-type]
        node_selector=draw(labels),
        exclude_nodes=draw(st.sampled_from([frozenset(), frozenset(["a", "b"])])),  # type: ignore[arg-type]
        preemptible=draw(st.booleans()),
        min_gpus=draw(st.sampled_from([0, 2 * step])),
        max_gpus=draw(st.sampled_from([0, 8 * step])),
        estimated_runtime_s=draw(st.none() | st.just(60.0)),
        start_deadline_at=draw(st.none() | st.just(70.5)),
        grace_period_s=draw(st.none() | seconds),
        checkpoint=draw(checkpoints),
        retries=draw(st.sampled_from([Retries(), Retries(1, 0)])),
        command=draw(st.sampled_from([(), ("python", "-c", "x")])),
        environment=draw(labels),
        working_directory=draw(st.sampled_from(["", "/data/run"])),
        submitted_at=draw(st.sampled_from([0.0, 4.25])),
        run=draw(st.integers(0, 3)),
        preemptions=draw(st.integers(0, 3)),
        **cut,
        **draw(st.sampled_from([{}, start])),
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    profile = replace(
        Profile(),
        name=draw(st.sampled_from(["default", "mine"])),
        priority_mode=draw(st.sampled_from(PriorityMode)),
        reclaim=draw(st.sampled_from(Reclaim)),
        max_loss_ratio=draw(st.none() | seconds),
        preempt_tokens=draw(st.none() | st.just(PreemptTokens(0.5, 1.5))),
        emergency_classes=draw(st.sampled_from([(), ("P0",)])),
        speed=draw(st.sampled_from([{}, {"rack": 0.5}])),  # type: ignore[arg-type]
    )
    fabric = Fabric((Link(0, 1, "nvlink", 900.5), Link(1, 2, "pcie")), ((0, 1), (2,)), {0: "rail0"})
    teams = (
        Team(id="p", quota=draw(amounts)),  # type: ignore[arg-type]
        Team(
            id="t",  # type: ignore[arg-type]
            parent=draw(st.none() | st.just("p")),  # type: ignore[arg-type]
            weight=draw(seconds),
            limit=draw(amounts),
            max_priority=draw(st.none() | st.just(10_000)),
            max_deadline_gpus=draw(st.integers(0, 9)),
            user_limit=draw(amounts),
        ),
    )
    grant = Reservation("g", 5.0, 9.5, ReservationKind.GRANT, gpus=4, within="n", teams=("t",), jobs=("j",))  # type: ignore[arg-type]
    window = Reservation("m", 1.0, 2.0, nodes=("n",))  # type: ignore[arg-type]
    return Snapshot(
        now=50.5,
        cluster=Cluster((draw(nodes),), ("block", "rack"), {"f": fabric}, draw(st.sampled_from(["", "c"]))),  # type: ignore[arg-type]
        teams=teams,
        jobs=(draw(jobs(profile)),),
        reservations=draw(st.sampled_from([(), (window, grant)])),
        profile=profile,
    )


@settings(max_examples=150, deadline=None)
@given(snapshots())
def test_a_snapshot_written_as_json_loads_equal(snapshot: Snapshot) -> None:
    text = json.dumps(snapshot_to_dict(snapshot), allow_nan=False)
    assert parse_snapshot(json.loads(text))[0] == snapshot


def test_events_of_every_kind_written_load_equal() -> None:
    names = ["node_down", "node_up", "node_removed", "cordon", "uncordon", "drain"]
    events = [
        {"at": 200, "type": "submit", "job": job("a", priority="P1", checkpoint={"interval_s": 60})},
        {
            "at": 201,
            "type": "job_update",
            "job": "a",
            "set": {"priority": 5, "gpus": 16, "topology": {"required": "rack"}, "checkpoint": {}},
        },
        {"at": 202, "type": "job_finished", "job": "a", "run": 1, "released_nodes": ["n0"]},
        {"at": 203, "type": "job_cancelled", "job": "a"},
        {"at": 204, "type": "preempt", "job": "a", "reason": "why"},
        {"at": 205, "type": "gpus_released", "job": "a", "node": "n0"},
        {"at": 206, "type": "task_finished", "job": "a", "node": "n0", "ok": False, "run": 2},
        {"at": 207, "type": "launch_failed", "job": "a", "node": "n0", "run": 1, "why": "disk"},
        {"at": 208, "type": "agent_report", "job": "a", "run": 1, "node": "n0", "outcome": "failed"},
        {"at": 209, "type": "checkpointed", "job": "a", "version": 7, "tier": "nvme"},
        {"at": 210, "type": "node_gpus_changed", "node": "n0", "gpus": 3},
        {"at": 211, "type": "node_probed", "node": "n0", "ok": False, "reason": "ECC errors"},
        {"at": 211, "type": "node_slow", "node": "n0", "factor": 0.7},
        {"at": 212, "type": "node_added", "node": node("n9")},
        {"at": 213, "type": "team_set", "team": {"id": "t", "weight": 3, "limit": {"gpus": {"h100": 8}}}},
        {"at": 214, "type": "profile_set", "profile": "quota"},
        {
            "at": 215,
            "type": "reservation_set",
            "reservation": {"id": "m", "nodes": ["n0"], "start_at": 300, "end_at": 400},
        },
        *({"at": 216 + i, "type": name, "node": "n0"} for i, name in enumerate(names)),
    ]
    scenario = parse_scenario(data(events=events))[0]
    assert len(scenario.events) == len(events)
    assert parse_scenario(json.loads(json.dumps(scenario_to_dict(scenario))))[0] == scenario


@needs_cases
@pytest.mark.parametrize("path", CASES + ROUNDS, ids=lambda path: path.name)
def test_every_case_and_round_loads_and_written_back_loads_equal(path) -> None:  # type: ignore[no-untyped-def]
    scenario = load_scenario(path)[0]
    assert parse_scenario(scenario_to_dict(scenario))[0] == scenario
