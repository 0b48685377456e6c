"""A lab of two racks of two nodes of 8 GPUs, with two running jobs and one that waits."""

from __future__ import annotations

from optsched.files import parse_snapshot
from optsched.values.snapshot import Snapshot

HOUR_S = 3600.0

DATA: dict[str, object] = {
    "now": 36_000,
    "cluster": {"name": "lab", "levels": ["rack"], "groups": [{"counts": {"rack": 2, "node": 2}, "gpus": 8}]},
    "teams": [{"id": "language", "quota": {"gpus": 16}}, {"id": "vision", "quota": {"gpus": 16}}],
    "jobs": [
        {
            "id": "resnet",
            "team": "vision",
            "priority": "P2",
            "gpus": 16,
            "state": "running",
            "placement": {"r0n0": 8, "r0n1": 8},
            "submitted_at": 28_000,
            "started_at": 28_800,
            "estimated_runtime_s": 4 * HOUR_S,
        },
        {
            "id": "sweep",
            "team": "vision",
            "priority": "P3",
            "gpus": 8,
            "state": "running",
            "placement": {"r1n0": 8},
            "started_at": 30_600,
            "last_checkpoint_at": 35_100,
            "estimated_runtime_s": 2 * HOUR_S,
        },
        {"id": "eval", "team": "vision", "priority": "P3", "gpus": 16, "submitted_at": 35_970},
    ],
}


def lab() -> Snapshot:
    """resnet ends at 43,200 by its estimate, sweep at 37,800: eval, on both nodes of a rack, waits for that."""
    return parse_snapshot(DATA)[0]
