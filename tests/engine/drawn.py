"""Clusters and jobs drawn at random for worlds in which everything happens at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from optsched.values.job import Job
from optsched.values.profile import PreemptTokens
from optsched.values.snapshot import Snapshot
from tests.builders import job, racks, snapshot, team


def drawn_cluster(draw: np.random.Generator, names: list[str]) -> Snapshot:
    """Twelve empty nodes of 8 GPUs, 64 CPUs and 512 GB in three racks, one of them of another type; a spare; a grace of
    120 s. Three teams, of which the last has no quota.
    """
    there = racks(8, r1=" ".join(names[:4]), r2=" ".join(names[4:8]), r3=" ".join(names[8:]))
    there = [
        replace(each, cpus=64.0, memory_gb=512.0, spare=i == 3, gpu_type="h100" if i < 8 else "a100")
        for i, each in enumerate(there)
    ]
    return snapshot(
        there,
        *(team("a").quota(32), team("b").quota(16), team("c").quota(0).weight(0.5)),
        min_runtime_s=float(draw.choice([0, 300])),
        preempt_tokens=PreemptTokens(per_h=1.0, burst=2.0),
        max_stopped_gpus_per_h=int(draw.choice([24, 64])) if draw.random() < 0.5 else None,
        max_loss_ratio=None if draw.random() < 0.5 else 1.0,
    )


def drawn_job(draw: np.random.Generator, name: str, now: float) -> Job:
    """A job of 1 to 32 GPUs in one of the ways in which jobs are cut, bound, timed and saved."""
    pick = draw.choice
    made = job(name).team(str(pick(["a", "b", "c"]))).rank(int(pick([0, 0, 1000, 2000])))
    size = int(pick([1, 2, 4, 8, 16, 24, 32]))
    made = made.gang(size)
    if size > 8 or draw.random() < 0.3:
        made = made.per_node(8) if size >= 8 else made.per_task(1)
    if draw.random() < 0.3:
        made = made.within("rack")
    if draw.random() < 0.2 and size >= 16:
        made = made.elastic(8, size + 8)
    elif draw.random() < 0.3 and size in (16, 32):
        made = made.slices((16, "rack"))
    kinds = draw.random()
    if kinds < 0.2:
        made = made.types(h100=1.0)
    elif kinds < 0.6:
        made = made.types(h100=1.0, a100=0.5)
    if draw.random() < 0.25:
        made = made.rigid()
    if draw.random() < 0.6:
        made = made.runs_for(float(pick([600, 3600, 20000])))
    if draw.random() < 0.1:
        made = made.by(now + float(pick([-5, 600, 4000])))
    if draw.random() < 0.3:
        made = made.signal(10.0, 20.0)
    made = made.cpus(float(int(pick([4, 4, 8])) * size)).memory(float(int(pick([16, 32, 64])) * size))
    return replace(made.made, submitted_at=now)
