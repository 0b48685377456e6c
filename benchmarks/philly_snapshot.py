"""Derive a busy moment of the Microsoft Philly cluster, as a snapshot: optsched/examples/philly-busy.json.gz.

    python benchmarks/philly_snapshot.py FOLDER [OUTPUT]

FOLDER holds `philly2017_jobs.csv.gz` (job_id, submit_s, duration_s, gpus, team of 82,247 jobs: the table that the
artifact of Sia, SOSP'23, derived from the trace published with Jeon et al., USENIX ATC 2019),
`philly_nodes_original.csv` (552 machines) and `aux/philly_vc_nodes_heliosartifact.csv` (nodes per virtual cluster).
Same input, same bytes.

The trace offers its cluster 15 % of what it could run, has no placements, racks, priorities or estimates. What is
derived and what is assumed is said in ABOUT and ASSUMPTIONS, which go into the file.
"""

from __future__ import annotations

import bisect
import csv
import gzip
import heapq
import json
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import numpy as np

OFFERED_LOAD = 0.85
PATIENCE_S = 43_200
SEED = 2017
RACK_NODES = 16
QUOTA_FRACTION = 0.8
CHECKPOINT_S = 1800
DAY_S = 86_400
MAX_ESTIMATE_S = 30 * DAY_S
SAMPLE_S = 3600
OUTPUT = Path(__file__).resolve().parent.parent / "optsched" / "examples" / "philly-busy.json.gz"

ABOUT = {
    "what": "A busy moment of a real cluster of 552 machines and 2,490 GPUs, derived from the Microsoft Philly trace.",
    "source": (
        "Jobs (submit time, duration, GPUs, virtual cluster): the table in the artifact of Sia (SOSP'23), derived by "
        "its authors from the trace published with Jeon et al., 'Analysis of Large-Scale Multi-Tenant GPU Clusters for "
        "DNN Training Workloads' (USENIX ATC 2019). Machines (GPUs, GPU memory): the trace's machine list, as repeated "
        "by Philly-Trace-Scripts. Nodes per virtual cluster: HeliosArtifact."
    ),
    "licence": (
        "The trace's authors provide it 'as is' and ask to cite the paper. The Sia artifact states no licence at its "
        "root; Philly-Trace-Scripts is under the MIT License. Only facts derived from them are here."
    ),
    "derived": (
        "The jobs were replayed first come, best fit: a job that fits nowhere waits and those behind it may start, but "
        "once it has waited {patience_h:g} hours none behind it may take 8-GPU machines; the node with the fewest free "
        "GPUs that suffice is taken, lowest indices first; a gang larger than a node takes whole nodes. Running set, "
        "queue, start times and placements are those of the replay at one moment, not of the real cluster."
    ),
}
ASSUMPTIONS = (
    "The trace as it is fills 15 % of its cluster. Its jobs keep their order and durations, but submit times are "
    "spaced anew, so that the GPU time submitted by any moment is {load:.0%} of what the cluster has had until then. "
    "The moment is the hour with the largest gang in the queue, then with most GPUs queued in gangs of 16 and more, "
    "among the hours with 93 to 98 % of the GPUs in use and 100 to 300 jobs queued.",
    "The machine list has no racks. Machines of one kind are put into racks of {rack} by their number.",
    "GPU types are the list's '12GB' (2 per machine) and '24GB' (8 per machine). The trace does not say which a job "
    "used: jobs of 1 and 2 GPUs may use either, at the same speed; larger ones use 24GB.",
    "CPUs and memory are in neither table and are left out.",
    "Gangs of 16 and more GPUs take whole machines and prefer one rack; 12 GPUs are three tasks of 4.",
    "Quotas: {quota:.0%} of the cluster's GPUs, shared out as HeliosArtifact's nodes per virtual cluster; the four "
    "small virtual clusters that it lacks have no quota. Weight 2 for those with 64 nodes there, else 1.",
    "Estimates: the true duration divided by the fraction that is used of what is asked, 0.02 + 0.98 u^2.9 with u "
    "uniform (seed {seed}): median 0.15, as users of two large machines over-ask (0.18 and 0.15 in the logs of SDSC "
    "SP2 and KIT FH2 of the Parallel Workloads Archive); rounded up to whole hours, at most 30 days.",
    "Priority P2; P3 where the estimate is over a day. All jobs may be preempted.",
    "All jobs checkpoint every {checkpoint} s from their start, which costs 30 s, and restart in 120 s; not on signal.",
)


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One row of the job table; times in seconds, `submit_s` as spaced anew by `read_jobs`."""

    id: str
    submit_s: float
    duration_s: float
    gpus: int
    team: str
    estimate_s: int


@dataclass(slots=True)
class Machine:
    """One machine and its free GPU indices, sorted."""

    id: str
    gpu_type: str
    gpus: int
    rack: str
    free: list[int]


@dataclass(frozen=True, slots=True)
class Running:
    """A job that the replay has started."""

    job: TraceJob
    started_s: float
    placement: dict[int, list[int]]


@dataclass(frozen=True, slots=True)
class Moment:
    """The replay's state at an instant."""

    at_s: float
    running: tuple[Running, ...]
    queued: tuple[TraceJob, ...]

    def interest(self) -> tuple[int, int]:
        """Of two moments the one with the larger queued gang is taken, then the one with more GPUs queued in gangs."""
        gangs = [job.gpus for job in self.queued if job.gpus >= 16]
        return max(gangs, default=0), sum(gangs)


class Cluster:
    """Free GPUs per machine; machines of each (type, free count) are kept sorted so that a best fit is a look-up."""

    def __init__(self, machines: list[Machine]) -> None:
        self.machines = machines
        self.total = sum(machine.gpus for machine in machines)
        self.used = 0
        self._by_free: dict[tuple[str, int], list[int]] = {}
        for index, machine in enumerate(machines):
            self._by_free.setdefault((machine.gpu_type, len(machine.free)), []).append(index)

    def _find(self, types: tuple[str, ...], gpus: int) -> int | None:
        for free in range(gpus, 9):
            for gpu_type in types:
                if indices := self._by_free.get((gpu_type, free)):
                    return indices[0]
        return None

    def _move(self, index: int, change: list[int], *, take: bool) -> None:
        machine = self.machines[index]
        self._by_free[machine.gpu_type, len(machine.free)].remove(index)
        machine.free = [gpu for gpu in machine.free if gpu not in change] if take else sorted(machine.free + change)
        bisect.insort(self._by_free.setdefault((machine.gpu_type, len(machine.free)), []), index)
        self.used += len(change) if take else -len(change)

    def place(self, gpus: int, *, small_only: bool) -> dict[int, list[int]] | None:
        """Book a job whole, or return None and book nothing; `small_only` leaves the 8-GPU machines alone."""
        types = ("12GB",) * (gpus <= 2) + ("24GB",) * (not small_only)
        part = gpus if gpus <= 8 else 4 if gpus % 8 else 8
        placement: dict[int, list[int]] = {}
        for _ in range(gpus // part):
            index = self._find(types, part)
            if index is None:
                self.release(placement)
                return None
            chosen = self.machines[index].free[:part]
            self._move(index, chosen, take=True)
            placement[index] = sorted(placement.get(index, []) + chosen)
        return placement

    def release(self, placement: dict[int, list[int]]) -> None:
        for index, gpus in placement.items():
            self._move(index, gpus, take=False)


def read_jobs(folder: Path, cluster_gpus: int) -> list[TraceJob]:
    """Return the jobs in order, so spaced that the work submitted by any time is OFFERED_LOAD of capacity."""
    with gzip.open(folder / "philly2017_jobs.csv.gz", "rt", encoding="utf-8") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: (float(row["submit_s"]), row["job_id"]))
    used = 0.02 + 0.98 * np.random.default_rng(SEED).random(len(rows)) ** 2.9
    jobs, submit_s = [], 0.0
    for row, fraction in zip(rows, used, strict=True):
        duration_s = float(row["duration_s"])
        estimate_s = min(int(-(-duration_s / fraction // 3600)) * 3600, MAX_ESTIMATE_S)
        jobs.append(TraceJob(row["job_id"], submit_s, duration_s, int(row["gpus"]), row["team"], estimate_s))
        submit_s += duration_s * int(row["gpus"]) / (OFFERED_LOAD * cluster_gpus)
    return jobs


def read_machines(folder: Path) -> list[Machine]:
    with (folder / "philly_nodes_original.csv").open(encoding="utf-8") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: (row["gpu_type"], int(row["node_id"][1:])))
    machines, seen = [], dict.fromkeys(("12GB", "24GB"), 0)
    for row in rows:
        gpu_type, gpus = row["gpu_type"], int(row["gpus"])
        rack = f"{'a' if gpu_type == '12GB' else 'b'}{seen[gpu_type] // RACK_NODES + 1:02d}"
        seen[gpu_type] += 1
        machines.append(Machine(row["node_id"], gpu_type, gpus, rack, list(range(gpus))))
    return machines


def replay(jobs: list[TraceJob], cluster: Cluster) -> Moment:
    """Return the moment that ABOUT describes."""
    queues: dict[int, deque[TraceJob]] = {}
    running: dict[str, Running] = {}
    ends: list[tuple[float, str]] = []
    best: Moment | None = None
    next_job, sample_s = 0, SAMPLE_S

    while next_job < len(jobs):
        now = min(jobs[next_job].submit_s, ends[0][0] if ends else float("inf"), sample_s)
        while ends and ends[0][0] <= now:
            cluster.release(running.pop(heapq.heappop(ends)[1]).placement)
        while next_job < len(jobs) and jobs[next_job].submit_s <= now:
            queues.setdefault(jobs[next_job].gpus, deque()).append(jobs[next_job])
            next_job += 1
        held = False  # whether the 8-GPU machines are kept for a job that has waited too long
        stuck: set[int] = set()  # sizes that fit nowhere any more: starts only take room
        while open_ := [queue[0] for gpus, queue in queues.items() if queue and gpus not in stuck]:
            first = min(open_, key=lambda job: (job.submit_s, job.id))
            placement = cluster.place(first.gpus, small_only=held)
            if placement is None:
                stuck.add(first.gpus)
                held |= now - first.submit_s > PATIENCE_S
                continue
            queues[first.gpus].popleft()
            running[first.id] = Running(first, now, placement)
            heapq.heappush(ends, (now + first.duration_s, first.id))
        if now >= sample_s:
            sample_s += SAMPLE_S
            waiting = sum(len(queue) for queue in queues.values())
            if 0.93 <= cluster.used / cluster.total <= 0.98 and 100 <= waiting <= 300:
                queued = sorted((job for queue in queues.values() for job in queue), key=lambda job: job.submit_s)
                moment = Moment(now, tuple(running.values()), tuple(queued))
                if best is None or moment.interest() > best.interest():
                    best = moment
    if best is None:
        raise SystemExit("no hour is busy enough: raise OFFERED_LOAD")
    return best


def read_teams(folder: Path, jobs: list[TraceJob], gpus: int) -> list[dict[str, object]]:
    with (folder / "aux" / "philly_vc_nodes_heliosartifact.csv").open(encoding="utf-8") as file:
        nodes = {row["vc"]: int(row["node num"]) for row in csv.DictReader(file)}
    teams: list[dict[str, object]] = []
    for team in sorted({job.team for job in jobs}):
        entry: dict[str, object] = {"id": team, "weight": 2 if nodes.get(team) == 64 else 1}
        if team in nodes:
            entry["quota"] = {"gpus": int(QUOTA_FRACTION * gpus * nodes[team] / sum(nodes.values()))}
        teams.append(entry)
    return teams


def job_entry(job: TraceJob, now_s: float) -> dict[str, object]:
    entry: dict[str, object] = {
        "id": job.id,
        "team": job.team,
        "priority": "P3" if job.estimate_s > DAY_S else "P2",
        "gpus": job.gpus,
        "gpu_types": ["12GB", "24GB"] if job.gpus <= 2 else ["24GB"],
        "preemptible": True,
        "estimated_runtime_s": job.estimate_s,
        "checkpoint": {"interval_s": CHECKPOINT_S, "cost_s": 30, "restart_s": 120},
        "submitted_at": round(job.submit_s - now_s),
    }
    if job.gpus > 8 and job.gpus % 8:
        entry["gpus_per_task"] = 4
    elif job.gpus > 8:
        entry["gpus_per_node"] = 8
        entry["topology"] = {"preferred": "rack"}
    return entry


def snapshot(moment: Moment, machines: list[Machine], teams: list[dict[str, object]]) -> dict[str, object]:
    jobs = []
    for run in sorted(moment.running, key=lambda run: (run.job.submit_s, run.job.id)):
        started_at = round(run.started_s - moment.at_s)
        entry = job_entry(run.job, moment.at_s) | {"state": "running", "started_at": started_at, "run": 1}
        if -started_at >= CHECKPOINT_S:
            entry["last_checkpoint_at"] = started_at + -started_at // CHECKPOINT_S * CHECKPOINT_S
        entry["placement"] = {machines[index].id: gpus for index, gpus in sorted(run.placement.items())}
        jobs.append(entry)
    jobs += [job_entry(job, moment.at_s) for job in moment.queued]
    names = {
        "load": OFFERED_LOAD,
        "patience_h": PATIENCE_S / 3600,
        "rack": RACK_NODES,
        "quota": QUOTA_FRACTION,
        "seed": SEED,
        "checkpoint": CHECKPOINT_S,
    }
    texts = {key: text.format(**names) for key, text in ABOUT.items()}
    about = {**texts, "assumptions": [text.format(**names) for text in ASSUMPTIONS]}
    nodes = [
        {"id": machine.id, "domains": {"rack": machine.rack}, "gpus": machine.gpus, "gpu_type": machine.gpu_type}
        for machine in machines
    ]
    return {"about": about, "now": 0, "cluster": {"levels": ["rack"], "nodes": nodes}, "teams": teams, "jobs": jobs}


def main(arguments: list[str]) -> None:
    if not 1 <= len(arguments) <= 2:
        raise SystemExit(__doc__)
    folder = Path(arguments[0])
    output = Path(arguments[1]) if len(arguments) == 2 else OUTPUT
    machines = read_machines(folder)
    cluster = Cluster(machines)
    jobs = read_jobs(folder, cluster.total)
    moment = replay(jobs, cluster)
    result = snapshot(moment, machines, read_teams(folder, jobs, cluster.total))
    output.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=None, separators=(",", ":")).encode()
    output.write_bytes(gzip.compress(text, compresslevel=9, mtime=0))
    used = sum(run.job.gpus for run in moment.running)
    gangs = sorted((job.gpus for job in moment.queued if job.gpus >= 16), reverse=True)
    print(
        f"{output.name}: {len(machines)} nodes, {used} of {cluster.total} GPUs used by {len(moment.running)} jobs, "
        f"{len(moment.queued)} queued for {sum(job.gpus for job in moment.queued)} GPUs, gangs of {gangs}, "
        f"hour {moment.at_s / 3600:.0f} of the replay, {output.stat().st_size / 1000:.0f} kB"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
