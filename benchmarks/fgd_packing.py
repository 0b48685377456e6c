"""FGD's packing experiment on Alibaba's openb cluster: how much of 6,212 GPUs is allocated when requests pile up.

    python benchmarks/fgd_packing.py FOLDER [--seeds 10] [--solver greedy|coarse|none] [--batch 50] [--json FILE]

FOLDER holds `alibaba_openb2023_default.csv`, `alibaba_openb2023_nodes.csv` and
`reference/fgd2023_gpu_alloc_ratio.csv`, the results that the authors of FGD (USENIX ATC 2023) published. Pods arrive in
random order and never leave; after all have come once, they are drawn again, until 130 % of the GPUs are asked for. A
pod that finds no room is gone. Counted is the share of 6,212 GPUs that is allocated when 80 to 130 % have arrived.

How the model takes it: it books whole GPUs of a node, and pods ask for shares of one. So a machine is a node here, with
100 units for each of its GPUs, and its CPUs and memory. The planner says which machine; which GPU of it a share gets,
this script says: the one with the least room that suffices. A round holds either pods of whole GPUs, to which only
wholly free GPUs are shown, or shares, to which the GPU with most room is shown, so that what is planned always fits;
those that find no room are planned again until a round places none. Shares are hundredths, rounded up. Pods of a batch
are planned together, the whole ones first, so that their order holds up to a batch. Pods without a GPU are no jobs in
this model: this script puts them on machines by best fit, and they take CPUs and memory there; in the published results
they are scheduled like the others.

To tell what the harness is worth, two of the published policies are run in it as well (--solver none): Random and a
best fit, pod by pod. They come within two points of the published figures: no smaller difference means anything.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from optsched.clock import StoppedClock
from optsched.planner.plan import PlanOptions, plan_round
from optsched.solve.ladder import SolverChoice
from optsched.topology.tree import build_tree
from optsched.values.cluster import Cluster, Node
from optsched.values.ids import JobId, NodeId, TeamId
from optsched.values.job import Job
from optsched.values.profile import Profile
from optsched.values.snapshot import Carried, Occupied, Snapshot
from optsched.values.team import Team

UNITS = 100
MARKS = (80, 90, 100, 110, 120, 130)
TEAM = TeamId("all")
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pod:
    """What a pod asks for: whole GPUs, or a share of one, in units; CPUs and GiB."""

    units: int
    cpus: float
    memory_gib: float

    @property
    def gpus(self) -> float:
        return self.units / UNITS


@dataclass(frozen=True, slots=True, eq=False)
class Machines:
    """All machines, those without a GPU too: CPUs, GiB, and the free units of each of their GPUs (padded with -1)."""

    cpus: Floats
    memory_gib: Floats
    units: npt.NDArray[np.int64]

    @property
    def gpus(self) -> int:
        return int((self.units >= 0).sum())


def read_pods(folder: Path) -> list[Pod]:
    with (folder / "alibaba_openb2023_default.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [
        Pod(int(np.ceil(float(row["gpus"]) * UNITS - 1e-6)), float(row["cpus"]), float(row["mem_gb"])) for row in rows
    ]


def read_machines(folder: Path) -> Machines:
    with (folder / "alibaba_openb2023_nodes.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    units = np.full((len(rows), 8), -1, dtype=np.int64)
    for index, row in enumerate(rows):
        units[index, : int(row["gpus"])] = UNITS
    cpus, memory = (np.array([float(row[key]) for row in rows]) for key in ("cpus", "mem_gb"))
    return Machines(cpus, memory, units)


def arrivals(pods: Sequence[Pod], gpus: int, seed: int) -> list[Pod]:
    """Return pods in random order, drawn again once all have come, until enough GPUs are asked for."""
    rng = np.random.default_rng(seed)
    order = [pods[index] for index in rng.permutation(len(pods))]
    asked = sum(pod.units for pod in order)
    while asked < MARKS[-1] / 100 * gpus * UNITS:
        order.append(pods[rng.integers(len(pods))])
        asked += order[-1].units
    return order


@dataclass(slots=True)
class Count:
    """What has arrived and what is allocated, read at the marks."""

    gpus: int
    arrived: int = 0
    allocated: int = 0
    at: dict[int, float] | None = None

    def take(self, pod: Pod, placed: bool) -> None:
        """Count one pod; note the allocation when its arrival reaches a mark."""
        self.at = {} if self.at is None else self.at
        self.arrived += pod.units
        self.allocated += pod.units if placed else 0
        for mark in MARKS:
            if mark not in self.at and self.arrived >= mark / 100 * self.gpus * UNITS:
                self.at[mark] = 100 * self.allocated / (self.gpus * UNITS)


class Simple:
    """Places pods one by one at the machine of the least score among those that have room."""

    def __init__(self, machines: Machines, seed: int, random: bool) -> None:
        self.free = machines.units.copy()
        self.cpus = machines.cpus.copy()
        self.memory = machines.memory_gib.copy()
        self.scale = (machines.cpus.max(), machines.memory_gib.max(), 8 * UNITS)
        self.rng = np.random.default_rng([seed, 1])
        self.random = random

    def place(self, pod: Pod) -> bool:
        """Book a pod: a share on the GPU with the least room that suffices, whole GPUs the first empty ones."""
        if _whole(pod):
            fits = (self.free == UNITS).sum(axis=1) >= pod.units // UNITS
        else:
            fits = (self.free >= pod.units).any(axis=1) if pod.units else np.ones(len(self.free), dtype=bool)
        fits &= (self.cpus >= pod.cpus) & (self.memory >= pod.memory_gib)
        found = np.flatnonzero(fits)
        if not found.size:
            return False
        chosen = int(self.rng.choice(found)) if self.random else int(found[np.argmin(self._left(found))])
        return self.book(pod, chosen)

    def book(self, pod: Pod, chosen: int) -> bool:
        """Book a pod on a machine, if a GPU of it (or enough whole ones) has the room."""
        room = self.free[chosen]
        if _whole(pod):
            empty = np.flatnonzero(room == UNITS)[: pod.units // UNITS]
            if len(empty) < pod.units // UNITS:
                return False
            room[empty] = 0
        elif pod.units:
            best = int(np.argmin(np.where(room >= pod.units, room, 10**6)))
            if room[best] < pod.units:
                return False
            room[best] -= pod.units
        self.cpus[chosen] -= pod.cpus
        self.memory[chosen] -= pod.memory_gib
        return True

    def _left(self, found: npt.NDArray[np.int64]) -> Floats:
        """Return what would be left: the sum of the free shares of the largest machine's CPUs, memory and GPUs."""
        units = np.maximum(self.free[found], 0).sum(axis=1) / self.scale[2]
        left: Floats = units + self.cpus[found] / self.scale[0] + self.memory[found] / self.scale[1]
        return left


class Engine:
    """Places pods by rounds of the planner: batches in their order, each round from the room that the last one left."""

    def __init__(self, machines: Machines, options: PlanOptions, once: bool = False) -> None:
        self.room = Simple(machines, 0, random=False)
        self.has = (machines.units >= 0).sum(axis=1)
        self.cpus, self.memory = machines.cpus, machines.memory_gib
        nodes = [
            Node(
                _id(index),
                int(self.has[index]) * UNITS,
                cpus=float(self.cpus[index]),
                memory_gb=float(self.memory[index]),
            )
            for index in np.flatnonzero(self.has)
        ]
        self.cluster = Cluster(tuple(nodes))
        self.tree = build_tree(self.cluster)
        # Nobody is stopped or moved, nothing is kept for those that find no room: pods come, and stay or go.
        self.profile = Profile(migration=False, max_reservations=0, window_jobs=100_000)
        self.options = options
        self.once = once

    def place(self, pods: Sequence[Pod]) -> list[bool]:
        """Plan a batch, kind by kind, until a round places nothing more; return which pods were placed."""
        placed = [not pod.units and self.room.place(pod) for pod in pods]
        for whole in (True, False):
            left = [index for index, pod in enumerate(pods) if pod.units and _whole(pod) == whole]
            while left and self._round(pods, left, whole, placed):
                left = [] if self.once else [index for index in left if not placed[index]]
        return placed

    def _round(self, pods: Sequence[Pod], left: Sequence[int], whole: bool, placed: list[bool]) -> int:
        """Plan one round; return how many pods it placed."""
        jobs = [_job(index, pods[index]) for index in left]
        snapshot = Snapshot(
            now=0.0,
            profile=self.profile,
            cluster=self.cluster,
            teams=(Team(TEAM),),
            jobs=tuple(jobs),
            carried=Carried(occupied=self._occupied(whole)),
        )
        starts = plan_round(snapshot, self.options, StoppedClock(), tree=self.tree).starts
        for start in starts:
            index, (node,) = int(start.job), tuple(start.placement)
            placed[index] = self.room.book(pods[index], int(node[1:]))
            assert placed[index], "what is planned fits"
        return len(starts)

    def _occupied(self, whole: bool) -> tuple[Occupied, ...]:
        """Return what is taken: for whole GPUs all but the empty ones, for shares all but the one with most room."""
        free = self.room.free
        shown = np.where(free == UNITS, UNITS, 0).sum(axis=1) if whole else np.maximum(free.max(axis=1), 0)
        taken = self.has * UNITS - shown
        cpus, memory = self.cpus - self.room.cpus, self.memory - self.room.memory
        return tuple(
            Occupied(_id(index), int(taken[index]), float(cpus[index]), float(memory[index]), 1e11)
            for index in np.flatnonzero(self.has)
            if taken[index] or cpus[index] > 1e-9
        )


def _whole(pod: Pod) -> bool:
    return pod.units >= UNITS


def _id(index: int) -> NodeId:
    return NodeId(f"m{index}")


def _job(index: int, pod: Pod) -> Job:
    """Return the job of a pod, which no node may split: its units are one task."""
    return Job(
        JobId(str(index)),
        TEAM,
        pod.units,
        gpus_per_task=pod.units,
        cpus=pod.cpus,
        memory_gb=pod.memory_gib,
        preemptible=False,
        submitted_at=float(index - 10**6),
    )


def one_by_one(pods: Sequence[Pod], gpus: int, place: Callable[[Pod], bool]) -> dict[int, float]:
    count = Count(gpus)
    for pod in pods:
        count.take(pod, place(pod))
    return count.at or {}


def in_batches(pods: Sequence[Pod], gpus: int, engine: Engine, batch: int) -> dict[int, float]:
    count = Count(gpus)
    for start in range(0, len(pods), batch):
        part = pods[start : start + batch]
        for pod, placed in zip(part, engine.place(part), strict=True):
            count.take(pod, placed)
    return count.at or {}


def published(folder: Path) -> dict[str, dict[int, float]]:
    found: dict[str, dict[int, float]] = {}
    with (folder / "reference" / "fgd2023_gpu_alloc_ratio.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["workload"] == "openb_pod_list_default":
                found.setdefault(row["policy"], {})[int(row["arrived_pct_of_capacity"])] = float(row["alloc_pct_mean"])
    return found


def line(name: str, runs: Sequence[dict[int, float]]) -> str:
    cells = []
    for mark in MARKS:
        values = np.array([run[mark] for run in runs])
        cells.append(
            f"{values.mean():.1f} ({values.min():.1f}..{values.max():.1f})" if len(runs) > 1 else f"{values[0]:.1f}"
        )
    return f"| {name} | " + " | ".join(cells) + " |"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=10, help="how many")
    parser.add_argument("--from-seed", type=int, default=0)
    parser.add_argument(
        "--solver", choices=("greedy", "coarse", "none"), default="greedy", help="none: only the simple ones"
    )
    parser.add_argument("--deterministic", type=float, default=1.0, help="counted seconds of search for a round")
    parser.add_argument("--batch", type=int, default=50, help="pods of a round")
    parser.add_argument(
        "--once", action="store_true", help="plan every pod once, also where it found no room in its round"
    )
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(arguments)
    pods, machines = read_pods(args.folder), read_machines(args.folder)
    results: dict[str, list[dict[int, float]]] = {}
    for seed in range(args.from_seed, args.from_seed + args.seeds):
        order = arrivals(pods, machines.gpus, seed)
        if args.solver == "none":
            for name, random in (("Random, pod by pod", True), ("best fit, pod by pod", False)):
                simple = Simple(machines, seed, random)
                results.setdefault(name, []).append(one_by_one(order, machines.gpus, simple.place))
        else:
            began = time.monotonic()
            options = PlanOptions(1e9, SolverChoice(args.solver), seed, args.deterministic, prove=0)
            engine = Engine(machines, options, args.once)
            run = in_batches(order, machines.gpus, engine, args.batch)
            results.setdefault(f"optsched {args.solver}, rounds of {args.batch}", []).append(run)
            print(
                f"seed {seed}: {run} in {time.monotonic() - began:.0f} s",
                file=sys.stderr,
                flush=True,
            )
    print("| policy | " + " | ".join(f"{mark} %" for mark in MARKS) + " |")
    for name, runs in results.items():
        print(line(name, runs))
    for name, row in published(args.folder).items():
        print(line(f"published {name}", [row]))
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
