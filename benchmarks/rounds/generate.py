"""From a kind and a seed to the document of a snapshot, and to its bytes."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import numpy as np

from benchmarks.rounds.demand import Demand, Want
from benchmarks.rounds.features import Features, often_stopped, reservations
from benchmarks.rounds.kinds import KINDS, Kind
from benchmarks.rounds.layout import Layout, build_layout, close_some, fabrics, node_entry
from benchmarks.rounds.life import Life, Run
from benchmarks.rounds.teams import build_teams

Document = dict[str, object]

FRESH_S = 3000.0
"""Mean age of the queued jobs that have come since the last round."""

DEADLINES_S = (1800, 14_400, 86_400)
"""Start deadlines, from now, of gangs of the three largest sizes that wait; rich rounds have their own."""


def generate(kind: str | Kind, seed: int) -> Document:
    """Return the snapshot of a kind (its name in KINDS, or one made smaller) and a seed >= 0; always the same one."""
    kind = KINDS[kind] if isinstance(kind, str) else kind
    rng = np.random.default_rng(seed)
    layout = build_layout(kind, rng)
    teams = build_teams(kind, layout, rng)
    demand = Demand(kind, layout, teams, rng)
    life = Life(demand, layout, teams, rng)
    features = Features(demand, layout) if kind.rich else None
    life.fill(features.running() if features else [])
    for _ in range(kind.rounds):
        life.step()
    life.pause(round(kind.in_use * layout.open_gpus))
    if kind.rich:
        often_stopped(life)
    life.waiting = _queue(life, features.queued(life.now_s) if features else [])
    close_some(kind, layout.nodes, rng)
    return _document(kind, seed, layout, life)


def encode(document: Document) -> bytes:
    """Return the JSON of a snapshot, without spaces."""
    return json.dumps(document, separators=(",", ":")).encode()


def compress(data: bytes) -> bytes:
    """Return data gzipped, without a date in it."""
    return gzip.compress(data, compresslevel=9, mtime=0)


def _queue(life: Life, special: list[Want]) -> list[Want]:
    """Return `special`, what has waited, and fresh jobs, so that as many wait and ask for as much as should."""
    kind, rng, demand = life.kind, life.rng, life.demand
    queue = [*special, *sorted(life.waiting, key=lambda want: (want.submitted_s, want.id))]
    queue = queue[: kind.queued]
    while len(queue) < kind.queued:
        pool = demand.pool()
        size = demand.size(pool, running=True)
        queue.append(demand.draw(pool, size, life.now_s - rng.exponential(FRESH_S)))
    _weigh(queue, len(special), life)
    if not special:
        of_size = {want.gpus: i for i, want in enumerate(queue)}
        for size, after_s in zip(sorted(of_size, reverse=True), DEADLINES_S, strict=False):
            i = of_size[size]
            queue[i] = replace(queue[i], priority="P1", keys={**queue[i].keys, "start_deadline_at": after_s})
    return sorted(queue, key=lambda want: (want.submitted_s, want.id))


def _weigh(queue: list[Want], fixed: int, life: Life) -> None:
    """Replace jobs, but not the first `fixed`, until within a tenth the queue asks for as many GPUs as it should.

    Where it asks for too few, any job makes way for a larger gang; where for too many, the largest for a smaller job.
    """
    demand, rng = life.demand, life.rng
    goal = life.kind.asked * life.layout.gpus
    asked = sum(want.gpus for want in queue)
    for _ in range(20 * len(queue)):
        if abs(asked - goal) <= 0.1 * goal:
            return
        pool = demand.pool()
        if asked < goal:
            at, sizes = int(rng.integers(fixed, len(queue))), demand.gang_sizes(pool, 8 * pool.gpus)
        else:
            at = max(range(fixed, len(queue)), key=lambda i: (queue[i].gpus, i))
            sizes = [demand.size(pool, running=True)]
        sizes = [size for size in sizes if (size > queue[at].gpus) == (asked < goal)]
        if sizes:
            want = demand.draw(pool, sizes[int(rng.integers(len(sizes)))], queue[at].submitted_s)
            if asked + want.gpus - queue[at].gpus <= max(asked, 1.1 * goal):
                asked += want.gpus - queue[at].gpus
                queue[at] = want


def _document(kind: Kind, seed: int, layout: Layout, life: Life) -> Document:
    runs = sorted(life.running.values(), key=lambda run: (run.want.submitted_s, run.want.id))
    document: Document = {"about": {"kind": kind.name, "seed": seed, "what": kind.about}, "now": 0}
    if kind.rich:
        document["profile"] = {"base": "default", "emergency_classes": ["P0"], "deadline_classes": ["P1"]}
    cluster: Document = {"levels": list(layout.levels)}
    if kind.rich:
        cluster["fabrics"] = fabrics()
    document["cluster"] = cluster | {"nodes": [node_entry(layout.levels, node, kind.rich) for node in layout.nodes]}
    document["teams"] = life.teams.entries
    document["jobs"] = [
        *(_running_entry(run, life, layout, kind.rich) for run in runs),
        *(_entry(want, life.now_s) | {"state": "queued"} for want in life.waiting),
    ]
    if kind.rich:
        document["reservations"] = reservations(layout, life, life.rng)
    return document


def _entry(want: Want, now_s: float) -> Document:
    entry: Document = {"id": want.id, "team": want.team.id, "user": want.user, "priority": want.priority}
    entry["gpus"] = want.gpus
    if want.per_node is not None:
        entry["gpus_per_node"] = want.per_node
    if want.per_task is not None:
        entry["gpus_per_task"] = want.per_task
    entry |= {"cpus": want.gpus * want.cpus_per_gpu, "memory_gb": want.gpus * want.memory_per_gpu}
    if want.types:
        plain = all(speed == 1.0 for _, speed in want.types)
        entry["gpu_types"] = [name for name, _ in want.types] if plain else dict(want.types)
    topology = {"required": want.required, "preferred": want.preferred}
    if named := {key: level for key, level in topology.items() if level is not None}:
        entry["topology"] = named
    if want.slices:
        entry["slices"] = [{"gpus": gpus, "within": level} for gpus, level in want.slices]
    if want.selector:
        entry["node_selector"] = dict(want.selector)
    if want.excluded:
        entry["exclude_nodes"] = list(want.excluded)
    entry["preemptible"] = want.preemptible
    if want.minimum < want.maximum:
        entry |= {"min_gpus": want.minimum, "max_gpus": want.maximum}
    if want.estimate_s is not None:
        entry["estimated_runtime_s"] = want.estimate_s
    if want.preemptions:
        entry["preemptions"] = want.preemptions
    return entry | dict(want.keys) | {"submitted_at": round(want.submitted_s - now_s)}


def _running_entry(run: Run, life: Life, layout: Layout, rich: bool) -> Document:
    want, now_s = run.want, life.now_s
    started_at = round(run.started_s - now_s)
    entry = _entry(want, now_s) | {"state": "running", "started_at": started_at, "run": want.preemptions + 1}
    if not want.hidden:
        saved = -started_at // want.period_s * want.period_s
        entry["last_checkpoint_at"] = started_at + saved
    entry["placement"] = {
        layout.nodes[n].id: sorted(indices) if rich else len(indices) for n, indices in sorted(run.held.items())
    }
    return entry
