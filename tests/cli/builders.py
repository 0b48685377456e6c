"""A cluster of 8 nodes and a plan for it, worked out by hand, with something of every kind in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from optsched.files import parse_snapshot
from optsched.values.plan import (
    Bill,
    Move,
    Plan,
    Preemption,
    RankResult,
    ReservedRoom,
    RoundInfo,
    Source,
    Start,
    Status,
    TaskPlacement,
    Tier,
    Unblock,
    UnblockKind,
    Waiting,
)
from optsched.values.snapshot import Snapshot

HOUR_S = 3600


def data(**sections: object) -> dict[str, object]:
    """Now is 36,000. Two blocks of two racks of two nodes of 8 GPUs, all named by their place; b1r1n1 has 2 bad GPUs.

    64 GPUs, 62 healthy. In use: train on b0r0n0 and b0r0n1 (16), small on b0r1n0 (4), grow on b1r0n0 (8), nine on
    b1r1n1 (2): 30 GPUs.
    """
    nodes: list[dict[str, object]] = [
        {"id": f"b{b}r{r}n{n}", "domains": {"block": f"b{b}", "rack": f"b{b}r{r}"}, "gpus": 8, "gpu_type": "h100"}
        for b in range(2)
        for r in range(2)
        for n in range(2)
    ]
    nodes[-1]["gpus_bad"] = [0, 1]
    running = {"state": "running", "submitted_at": 0, "started_at": 10 * HOUR_S - 5400, "team": "nlp", "priority": "P3"}
    jobs: list[dict[str, object]] = [
        {"id": "train", "gpus": 16, **running, "placement": {"b0r0n0": list(range(8)), "b0r0n1": list(range(8))}},
        {"id": "small", "gpus": 4, **running, "placement": {"b0r1n0": [0, 1, 2, 3]}},
        {
            "id": "grow",
            "gpus": 8,
            "min_gpus": 4,
            "max_gpus": 16,
            "gpus_per_task": 4,
            **running,
            "placement": {"b1r0n0": list(range(8))},
        },
        {"id": "nine", "gpus": 2, **running, "placement": {"b1r1n1": [2, 3]}},
        {
            "id": "big",
            "team": "vision",
            "gpus": 16,
            "priority": "P1",
            "topology": {"required": "block", "preferred": "rack"},
            "submitted_at": 9 * HOUR_S,
        },
        {"id": "one", "team": "vision", "gpus": 1, "priority": "P2", "submitted_at": 9 * HOUR_S},
        {"id": "huge", "team": "vision", "gpus": 64, "priority": "P2", "submitted_at": 0},
        {"id": "wait-1", "team": "nlp", "gpus": 8, "priority": 7, "submitted_at": 9 * HOUR_S},
        {"id": "wait-2", "team": "nlp", "gpus": 8, "priority": 7, "submitted_at": 9 * HOUR_S},
    ]
    whole: dict[str, object] = {
        "now": 10 * HOUR_S,
        "cluster": {"name": "tiny", "levels": ["block", "rack"], "nodes": nodes},
        "teams": [{"id": "vision"}, {"id": "nlp"}],
        "jobs": jobs,
    }
    return whole | sections


def snapshot(**sections: object) -> Snapshot:
    return parse_snapshot(data(**sections))[0]


def write_file(folder: Path, name: str = "tiny.json") -> str:
    path = folder / name
    path.write_text(json.dumps(data()))
    return str(path)


def plan(**changes: object) -> Plan:
    """`big` takes both nodes of rack b0r0 from `train`; `one` starts beside `small`, which moves; `grow` shrinks.

    After it: 30 - 16 (train) + 16 (big) + 1 (one) - 4 (grow) = 27 GPUs.
    """
    whole = tuple(range(8))
    start_big = Start(
        job="big",  # type: ignore[arg-type]
        placement={"b0r0n0": whole, "b0r0n1": whole},  # type: ignore[dict-item]
        span="rack",
        waits_for=("train",),  # type: ignore[arg-type]
        tasks=(
            TaskPlacement(0, "b0r0n0", whole, (0,)),  # type: ignore[arg-type]
            TaskPlacement(1, "b0r0n1", whole, (0,)),  # type: ignore[arg-type]
        ),
    )
    start_one = Start("one", {"b0r1n1": (4,)}, "node", (), (TaskPlacement(0, "b0r1n1", (4,)),))  # type: ignore[arg-type, dict-item]
    info = RoundInfo(
        source=Source.CP_SAT,
        status=Status.OPTIMAL,
        gap=0.0,
        gap_gpus=0,
        wall_s=1.25,
        deterministic_s=0.5,
        considered=5,
        queued=5,
        ranks=(
            RankResult(Tier.GUARANTEED, "P1", False, 16, 16),
            RankResult(Tier.FAIR, "P2", False, 0, 0),
            RankResult(Tier.OPPORTUNISTIC, "P2", False, 1, 65),
            RankResult(Tier.OPPORTUNISTIC, "P3", False, 10, None),
            RankResult(Tier.OPPORTUNISTIC, "P3", True, 0, None),
        ),
    )
    made = Plan(
        round=info,
        starts=(start_big, start_one),
        preemptions=(Preemption("train", ("big",), 16 * 4500.0, 4320.0, 120.0),),  # type: ignore[arg-type]
        migrations=(Move("small", {"b0r1n1": (0, 1, 2, 3)}, ("one",), 1200.0),),  # type: ignore[arg-type, dict-item]
        resizes=(Move("grow", {"b1r0n0": (0, 1, 2, 3)}, (), 2400.5),),  # type: ignore[arg-type, dict-item]
        reservations=(
            ReservedRoom("huge", "b1", ("b1r1n0",), 10 * HOUR_S + 11_520.0),  # type: ignore[arg-type]
            ReservedRoom("wait-1", "b1/b1r1", (), None),  # type: ignore[arg-type]
        ),
        queued=(
            Waiting(
                "huge",  # type: ignore[arg-type]
                "no_domain_fits",
                "0 of 2 blocks can hold it: 2 with too few GPUs",
                Unblock(UnblockKind.WAIT_UNTIL, "huge", 47_520.0, "it can start in 3 h 12 min"),
            ),
            Waiting("wait-1", "limit", "would exceed the limit of team nlp"),  # type: ignore[arg-type]
            Waiting("wait-2", "limit", "would exceed the limit of team nlp"),  # type: ignore[arg-type]
        ),
        bill=Bill(97_200.0, 540.0, 72_000.0, 1200.0, 2400.5, 0.0, 10.0, 76_150.5),
        warnings=("quotas exceed the cluster",),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def info(**changes: object) -> Plan:
    """The plan with another round."""
    made = plan()
    return replace(made, round=replace(made.round, **changes))  # type: ignore[arg-type]


def fake_planner(monkeypatch: pytest.MonkeyPatch, answer: Callable[..., object]) -> None:
    """Put `answer` in the planner's place."""
    monkeypatch.setattr("optsched.planner.plan.plan_round", answer)
