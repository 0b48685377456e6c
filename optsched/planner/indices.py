"""From counts to GPU indices: the exact choice of GPUs inside nodes, by link quality."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from optsched.rounds.assignment import Assignment
from optsched.rounds.problem import Problem, RoundJob, Spread
from optsched.topology.links import choose_common_gpus, choose_gpus
from optsched.values.cluster import Fabric
from optsched.values.ids import NodeId
from optsched.values.job import Placement


class Indices:
    """Hands out GPU indices after a plan. A node on which any booking is only a count gives counts too."""

    def __init__(self, problem: Problem, assignment: Assignment) -> None:
        self.problem = problem
        self._counted: set[int] = set()
        self._free: dict[int, set[int]] = {}
        index = problem.tree.node_index
        for room in problem.snapshot.carried.occupied:
            if isinstance(room.gpus, int):
                self._counted.add(index[room.node])
            else:
                self._room(index[room.node]).difference_update(room.gpus)
        for job in _holders(problem, assignment):
            if not assignment.after(job):
                continue
            shrinks = job.index in assignment.changed
            for node, booked in job.job.placement.items():
                if isinstance(booked, int) and booked:
                    self._counted.add(index[node])
                elif not isinstance(booked, int) and not shrinks:
                    self._room(index[node]).difference_update(booked)

    def _fabric(self, n: int) -> Fabric | None:
        cluster = self.problem.snapshot.cluster
        fabric = cluster.nodes[n].fabric
        return cluster.fabrics.get(fabric) if fabric else None

    def _room(self, n: int) -> set[int]:
        if n not in self._free:
            node = self.problem.snapshot.cluster.nodes[n]
            self._free[n] = set(range(node.gpus)) - set(node.gpus_bad)
        return self._free[n]

    def place(self, job: RoundJob, spread: Spread) -> Placement:
        """Return the placement of a start, a move or a resize, with indices wherever the node has them."""
        chosen: dict[NodeId, int | tuple[int, ...]] = {}
        exact = [(n, count) for n, count in spread if n not in self._counted and len(self._room(n)) >= count]
        common = self._common(job, exact, len(spread))
        for n, count in spread:
            node = self.problem.tree.node_ids[n]
            if (n, count) not in exact:
                chosen[node] = count
                continue
            own = self._own(job, n)
            if common is not None:
                gpus = common
            elif own and len(own) <= count:
                rest = tuple(sorted(self._room(n) - set(own)))
                gpus = (
                    tuple(sorted((*own, *choose_gpus(self._fabric(n), rest, count - len(own)))))
                    if count > len(own)
                    else own
                )
            elif own:
                gpus = choose_gpus(self._fabric(n), own, count)
            else:
                gpus = choose_gpus(self._fabric(n), tuple(sorted(self._room(n))), count)
            self._room(n).difference_update(gpus)
            chosen[node] = tuple(gpus)
        return chosen

    def _own(self, job: RoundJob, n: int) -> tuple[int, ...]:
        """Return the indices that a resized job has on the node and may keep."""
        booked = job.job.placement.get(self.problem.tree.node_ids[n], ()) if job.running else ()
        return () if isinstance(booked, int) else tuple(i for i in booked if i in self._room(n))

    def _common(self, job: RoundJob, exact: list[tuple[int, int]], nodes: int) -> tuple[int, ...] | None:
        """Return one set of indices for a part-node gang with the same count on several nodes, if there is one."""
        counts = {count for _, count in exact}
        if job.running or len(exact) < 2 or len(exact) != nodes or len(counts) != 1:
            return None
        count = counts.pop()
        if all(count == len(self._room(n)) for n, _ in exact):
            return None
        return choose_common_gpus([(self._fabric(n), tuple(sorted(self._room(n)))) for n, _ in exact], count)


def _holders(problem: Problem, assignment: Assignment) -> list[RoundJob]:
    """Return the running jobs that hold GPUs on a node on which the plan places something."""
    placed = np.zeros(len(problem.nodes.capacity), dtype=bool)
    placed[[n for spread in assignment.changed.values() for n, _ in spread]] = True
    occupancy = problem.occupancy
    return [problem.jobs[j] for j in np.unique(occupancy.pair_job[placed[occupancy.pair_node]]).tolist()]


def fabrics_of(problem: Problem) -> Mapping[NodeId, Fabric]:
    """Return the fabric of every node that has one."""
    cluster = problem.snapshot.cluster
    return {
        node.id: cluster.fabrics[node.fabric]
        for node in cluster.nodes
        if node.fabric is not None and node.fabric in cluster.fabrics
    }
