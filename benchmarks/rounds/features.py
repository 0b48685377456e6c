"""What a rich round must have, however small it is: jobs made for one feature each, and operators' reservations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from benchmarks.rounds.demand import Demand, Want
from benchmarks.rounds.layout import Layout
from benchmarks.rounds.life import Life, Run

HOUR_S = 3600.0
TIERS = [
    {"tier": "ram", "cost_s": 1, "upload_s": 5, "survives": ["process"]},
    {"tier": "nvme", "cost_s": 5, "upload_s": 60, "survives": ["process", "job"]},
    {"tier": "store", "cost_s": 20, "upload_s": 300, "survives": ["process", "job", "node"]},
]
ON_SIGNAL: Mapping[str, object] = {
    "checkpoint": {"interval_s": 1800, "cost_s": 30, "restart_s": 300, "on_signal": True}
}
DEADLINES_S = {"far": 86_400.0, "near": 500.0, "due": 150.0}
"""From now. Under the default profile a deadline is near from 720 s on and due from 240 s on."""


class Features:
    """Makes the jobs. All are of the first pool and of teams without a limit, so that each can be placed."""

    def __init__(self, demand: Demand, layout: Layout) -> None:
        self._demand, self._layout = demand, layout
        self._pool = demand.kind.pools[0]
        self._node = self._pool.gpus
        limited = set(demand.teams.limit) | set(demand.teams.user_limit)
        self._free = [team for team in demand.teams.leaves if limited.isdisjoint(team.above) and not team.best_class]
        self._made = 0
        self._hurried = next(t for t in demand.teams.leaves if t.id in demand.teams.user_limit)
        self._rack = layout.levels[-1]
        self._wide = layout.levels[-2]

    def _job(self, gpus: int, submitted_s: float = 0.0, **what: object) -> Want:
        """Return a plain job of a size, with what makes it special."""
        drawn = self._demand.draw(self._pool, gpus, submitted_s)
        team = self._free[self._made % len(self._free)]
        self._made += 1
        plain = replace(
            drawn,
            team=team,
            user=f"{team.id}-u0",
            priority="P2",
            per_node=self._node if gpus > self._node and "per_task" not in what else None,
            per_task=None,
            minimum=gpus,
            maximum=gpus,
            cpus_per_gpu=8,
            memory_per_gpu=64,
            types=((self._pool.gpu_type, 1.0),) if drawn.types else (),
            required=None,
            preferred=None,
            slices=(),
            selector=(),
            preemptible=True,
            hidden=False,
            estimate_s=7 * 86_400,
            keys={},
        )
        return replace(plain, **what)  # type: ignore[arg-type]

    def _nested(self, gpus: int) -> tuple[tuple[int, str], ...]:
        return ((2 * self._node, self._rack), (self._node, "node")) if gpus <= 4 * self._node else (
            (4 * self._node, self._wide), (2 * self._node, self._rack), (self._node, "node")
        )  # fmt: skip

    def running(self) -> list[Want]:
        """Return jobs that start before all others and outlive the round."""
        node = self._node
        tiered = {"interval_s": "auto", "cost_s": 5, "restart_s": 300, "elastic": True, "tiers": TIERS}
        return [
            self._job(4 * node, slices=self._nested(4 * node), period_s=1800),
            self._job(2 * node, minimum=node, maximum=4 * node, keys={"checkpoint": tiered}),
            self._job(4 * node, minimum=2 * node, maximum=4 * node, keys=ON_SIGNAL),
            self._job(node, minimum=2, maximum=node, per_task=2, keys=ON_SIGNAL),
            self._job(node + node // 2, per_task=node // 4, preferred=self._rack),
            self._job(2 * node, hidden=True, estimate_s=None),
            self._job(
                node, team=self._demand.teams.leaves[0], preemptible=False, required="node",
                keys={"retries": {"infra": 5, "job": 1}},
            ),
            self._job(1, estimate_s=60),
            self._job(1, cpus_per_gpu=self._pool.cpus - 16, memory_per_gpu=64),
            self._job(1, cpus_per_gpu=8, memory_per_gpu=self._pool.memory_gb * 15 // 16),
        ]  # fmt: skip

    def queued(self, now_s: float) -> list[Want]:
        """Return jobs that wait in the round."""
        node, wide = self._node, self._wide
        ago_s = now_s - 2 * HOUR_S
        deadline = {name: {"start_deadline_at": after_s} for name, after_s in DEADLINES_S.items()}
        out = tuple(machine.id for machine in self._layout.nodes[:2])
        command = {
            "command": ["python", "train.py"],
            "environment": {"NCCL_DEBUG": "WARN"},
            "working_directory": "/data",
        }
        asks: list[tuple[int, dict[str, object]]] = [
            (4 * node, {"slices": self._nested(4 * node), "priority": "P1"}),
            (8 * node, {"slices": self._nested(8 * node)}),
            (2 * node, {"minimum": node, "maximum": 4 * node, "keys": ON_SIGNAL}),
            (node + node // 2, {"per_task": node // 4, "required": self._rack}),
            (4 * node, {"priority": "P1", "keys": deadline["far"], "preferred": wide}),
            (2 * node, {"priority": "P2", "keys": deadline["near"], "team": self._hurried}),
            (2 * node, {"priority": "P1", "keys": deadline["due"], "team": self._hurried}),
            (node, {"priority": "P0", "keys": {"grace_period_s": 300}}),
            (node, {"preemptible": False, "estimate_s": None}),
            (2, {"priority": 1500, "keys": command}),
            (2 * node, {"keys": {"speed": {self._rack: 0.95, wide: 0.8}}, "preferred": self._rack}),
            (2, {"selector": (("disk", "nvme"), ("zone", "a"))}),
            (node, {"excluded": out}),
            (2, {"cpus_per_gpu": self._pool.cpus // 4, "memory_per_gpu": self._pool.memory_gb // 4}),
        ]
        if self._demand.kind.giant:
            giant = self._demand.kind.giant
            slices = ((32 * node, wide), (4 * node, self._rack))
            asks.append((giant, {"slices": slices, "priority": "P1", "keys": {"start_deadline_at": 172_800.0}}))
        found = [self._job(gpus, ago_s, **what) for gpus, what in asks]
        found = [replace(want, user=f"{want.team.id}-u{i % 3}") for i, want in enumerate(found)]
        return found + self._of_two_types(ago_s)

    def _of_two_types(self, submitted_s: float) -> list[Want]:
        """Return jobs that may use the first pool's GPUs or another one's, where there is another one."""
        node, speeds = self._node, self._demand.kind.speeds
        types = {pool.gpu_type for pool in self._demand.kind.pools if pool.gpus == node}
        pairs = [pair for pair in speeds if pair[0] == self._pool.gpu_type and pair[1] in types]
        if not pairs:
            return []
        both = ((pairs[0][0], 1.0), (pairs[0][1], speeds[pairs[0]]))
        return [self._job(gpus, submitted_s, types=both) for gpus in (2 * node, node)]


def often_stopped(life: Life) -> None:
    """Let a few young running jobs have been preempted so often that none of their tokens is left (default bucket)."""
    young = [
        run
        for run in sorted(life.running.values(), key=lambda run: run.want.id)
        if run.want.preemptible
        and life.now_s - run.started_s > 600.0
        and life.now_s - run.want.submitted_s < 1.5 * HOUR_S
    ]
    for run in young[:: max(1, len(young) // max(1, len(life.running) // 40))]:
        life.running[run.want.id] = replace(run, want=replace(run.want, preemptions=3))


def reservations(layout: Layout, life: Life, rng: np.random.Generator) -> list[dict[str, object]]:
    """Return a window to come on one domain, one that is on for the nodes that are down, and grants."""
    depth = len(layout.levels) - (2 if len(layout.nodes) > 200 else 1)
    domains = sorted({node.path[depth] or "" for node in layout.nodes if node.pool.gpus > 1} - {""})
    window, granted = (domains[i] for i in rng.choice(len(domains), 2, replace=False).tolist())
    down = [node.id for node in layout.nodes if node.state == "down"]
    inside = [node.id for node in layout.nodes if node.path[depth] == window]
    room = sum(node.pool.gpus for node in layout.nodes if node.path[depth] == granted)
    small = [want for want in life.waiting if 8 < want.gpus <= max(16, layout.gpus // 100)]
    promised = max(small, key=lambda want: (want.gpus, want.id))
    runs = [run for run in life.running.values() if len(run.held) > 1]
    lucky: Run = max(runs, key=lambda run: (run.gpus, run.want.id))
    grant = {"kind": "grant", "start_at": -3600, "end_at": 7 * 86_400}
    return [
        {"id": "power-work", "nodes": inside, "start_at": 7200, "end_at": 14_400},
        {"id": "repair", "kind": "maintenance", "nodes": down, "start_at": -3600, "end_at": 7200},
        {"id": "grant-team", **grant, "gpus": max(8, room // 8), "within": granted, "teams": [life.teams.leaves[3].id]},
        {"id": "grant-run", **grant, "gpus": lucky.gpus, "jobs": [lucky.want.id]},
        {"id": "grant-queued", **grant, "gpus": promised.gpus, "jobs": [promised.id]},
    ]
