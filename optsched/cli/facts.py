"""What a plan means for its snapshot: counts before and after, room, and what can be said for sure about a place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from optsched.cli.places import Places, level_word
from optsched.cli.words import clean, number, percent
from optsched.topology.speeds import merge_speeds, speed_per_level
from optsched.topology.tree import Tree, build_tree
from optsched.values.cluster import NodeState
from optsched.values.ids import ANY_TYPE, JobId, NodeId
from optsched.values.job import Job, JobState, Placement, gpus_on
from optsched.values.plan import Plan
from optsched.values.snapshot import Snapshot

Amounts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Totals:
    """The cluster before or after a plan."""

    gpus: int
    running: int
    queued: int


class Facts:
    """A snapshot, and where a plan is known the changes that it makes; every lookup that rendering needs."""

    def __init__(self, snapshot: Snapshot, plan: Plan | None = None) -> None:
        self.snapshot = snapshot
        self._planned = plan is not None
        self.tree: Tree = build_tree(snapshot.cluster)
        self.places = Places(snapshot.cluster, self.tree)
        self.jobs: dict[JobId, Job] = {job.id: job for job in snapshot.jobs}
        self.capacity = np.array([max(node.healthy_gpus, 0) for node in snapshot.cluster.nodes], dtype=np.int64)
        self._types = np.array([node.gpu_type for node in snapshot.cluster.nodes], dtype=object)
        self._open = np.array([node.state is NodeState.UP for node in snapshot.cluster.nodes], dtype=bool)
        running = {job.id: job.placement for job in snapshot.jobs if job.state is JobState.RUNNING}
        after = dict(running)
        if plan is not None:
            for stop in plan.preemptions:
                after.pop(stop.job, None)
            for move in (*plan.migrations, *plan.resizes):
                after[move.job] = move.placement
            for start in plan.starts:
                after[start.job] = start.placement
        self._used = self._booked(running.values())
        self._used_after = self._booked(after.values())
        queued = len(snapshot.jobs) - len(running)
        started = len(plan.starts) if plan is not None else 0
        stopped = len(plan.preemptions) if plan is not None else 0
        self.before = Totals(int(self._used.sum()), len(running), queued)
        self.after = Totals(int(self._used_after.sum()), len(after), queued - started + stopped)

    @property
    def healthy_gpus(self) -> int:
        """GPUs of the cluster that may be used."""
        return int(self.capacity.sum())

    def gpus(self, job: JobId) -> int:
        """GPUs that a job holds, or asks for while it holds none."""
        known = self.jobs.get(job)
        return 0 if known is None else known.placed_gpus or known.gpus

    def team(self, job: JobId) -> str:
        """The team of a job."""
        return clean(self.jobs[job].team) if job in self.jobs else "?"

    def priority(self, job: JobId) -> str:
        """The priority of a job, by class where it has one."""
        known = self.jobs.get(job)
        return "?" if known is None else clean(known.priority_class) or str(known.priority)

    def why_there(self, job_id: JobId, placement: Placement) -> list[str]:
        """Return what speaks for a place, or what it costs; only what follows from the snapshot and the plan."""
        job, nodes = self.jobs.get(job_id), self.places.nodes(placement)
        if job is None or not nodes:
            return []
        level = self.tree.span_level(nodes)
        gpus = sum(gpus_on(booked) for booked in placement.values())
        said = [self._node(nodes[0], gpus)] if len(nodes) == 1 else []
        said.append(self._topology(job, nodes))
        said += [self._narrower(level, placement), self._speed(job, level, nodes)]
        if job.elastic and gpus != job.gpus:
            said.append(f"at {gpus:,} of {job.gpus:,} GPUs ({job.min_gpus:,} to {job.max_gpus:,} will do)")
        return [text for text in said if text]

    def _booked(self, placements: Iterable[Placement]) -> Amounts:
        used = np.zeros(len(self.tree.node_ids), dtype=np.int64)
        for placement in placements:
            for node, booked in placement.items():
                index = self.tree.node_index.get(NodeId(node))
                if index is not None:
                    used[index] += gpus_on(booked)
        return used

    def _topology(self, job: Job, nodes: list[int]) -> str:
        for level, word in ((job.preferred, "preferred"), (job.required, "required")):
            if level is None or level not in self.tree.level_index:
                continue
            row = self.tree.domain_of[self.tree.level_index[level], nodes]
            domains = len(set(row.tolist()) - {-1}) + int((row < 0).sum())
            if domains == 1:
                return f"inside one {clean(level)}, as {word}"
            return f"over {domains:,} {level_word(level, domains)}, one preferred"
        return ""

    def _speed(self, job: Job, level: int, nodes: list[int]) -> str:
        profile = self.snapshot.profile
        table = speed_per_level(self.tree.levels, merge_speeds(profile.speed, job.speed), profile.speed_widest)
        speed = float(table[level])
        gpu_type = self.snapshot.cluster.nodes[nodes[0]].gpu_type
        factor = job.gpu_types.get(gpu_type, 1.0) if gpu_type != ANY_TYPE else 1.0
        texts = []
        if speed != 1.0:
            span = self.tree.span_name(level)
            texts.append(f"{percent(speed)} of full speed at the span {clean(span)}")
        if factor != 1.0:
            texts.append(f"{percent(factor)} of full speed on {clean(gpu_type)}")
        return ", ".join(texts)

    def _narrower(self, level: int, placement: Placement) -> str:
        """Say that no domain of the next narrower level could hold the gang, where that is so.

        Room is what is free once the plan is carried out, with the gang's own GPUs; only nodes of its GPU type count.
        """
        if level == self.tree.node_level:
            return ""
        narrower = level + 1
        word = clean(self.tree.levels[narrower])
        own = self._booked([placement])
        gpus = int(own.sum())
        fits = self._types == self._types[int(own.argmax())]
        if self._largest(narrower, np.where(fits, self.capacity, 0)) < gpus:
            return "" if narrower == self.tree.node_level else f"larger than any {word}"
        if not self._planned:
            return ""
        free = np.where(fits & self._open, np.clip(self.capacity - self._used_after, 0, None), 0)
        if self._largest(narrower, free + own) < gpus:
            return f"no {word} has {number(gpus)} GPUs free beside the rest of the plan"
        return ""

    def _largest(self, level: int, per_node: Amounts) -> int:
        sums = self.tree.sum_per_domain(level, per_node)
        return int(sums.max()) if sums.size else 0

    def _node(self, node: int, gpus: int) -> str:
        if gpus >= self.capacity[node]:
            return "a whole node"
        if self._used[node] > 0:
            left = int(self.capacity[node] - self._used_after[node])
            return "fills up a node in part use" if self._planned and left <= 0 else "on a node already in part use"
        return "breaks up an empty node"
