"""What starts lose at least by where they could lie: by GPU type, at the narrowest level that could hold them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from optsched.rounds.problem import Ints, Problem, RoundJob
from optsched.rounds.room import usable
from optsched.rounds.score import loss_at
from optsched.solve.reach import Reach


class LeastLosses:
    """The least placement losses of queued jobs; those of jobs alike are worked out once."""

    def __init__(self, problem: Problem, reach: Reach) -> None:
        self.problem, self.reach = problem, reach
        self._all_inside = all(bool((inside >= 0).all()) for inside in problem.tree.domain_of)
        self._known: dict[tuple[object, ...], dict[int, int]] = {}

    def of(self, job: RoundJob) -> dict[int, int]:
        """Return the least placement loss at the minimum by GPU type, of those types that could hold the job."""
        # Jobs alike share what they are made of, so that it is known by where it lies.
        who = (job.team, job.claim_team, job.priority, job.emergency, job.due, job.may_break_quota, job.starved)
        shared = (id(job.nodes), id(job.type_speed), id(job.span_speed), id(job.slices), job.required, job.preferred)
        size = (job.cut.value, job.unit, job.minimum, job.maximum, job.cpus_per_gpu_u, job.memory_per_gpu_u)
        key = (*who, *shared, *size)
        found = self._known.get(key)
        if found is None:
            nodes = self.problem.nodes
            room = usable(job, nodes, self.reach.room(job), nodes.cpus_u, nodes.memory_u)
            one, found = len(self.problem.gpu_types) == 1, {}
            for y in (y for y, speed in enumerate(job.type_speed) if speed > 0):
                loss = self._least_loss(job, room if one else np.where(nodes.gpu_type == y, room, 0), y)
                if loss is not None:
                    found[y] = loss
            self._known[key] = found
        return found

    def _least_loss(self, job: RoundJob, room: Ints, y: int) -> int | None:
        """Return the least loss in this room, by the narrowest level that could hold the job; None if none could."""
        problem = self.problem
        levels: Iterable[int] = range(len(problem.tree.levels))
        # Where a node has room for it all, so have all domains that the node is in.
        if not (self._all_inside and int(room.max(initial=0)) >= job.minimum):
            if int(room.sum()) < job.minimum:
                return None
            levels = self._levels_with_room(job, room)
        spans = [-1] if job.required is None else []
        spans += [level for level in levels if job.required is None or level >= job.required]
        if not spans:
            return None
        # A larger size loses more, or gains more where a span is faster than full speed.
        return min(loss_at(problem, job, size, span, y) for span in spans for size in (job.minimum, job.maximum))

    def _levels_with_room(self, job: RoundJob, room: Ints) -> list[int]:
        """Return the levels of which a domain could hold the job at its minimum.

        However much moves, no more becomes free in one domain without force than is free in all.
        """
        tree, free = self.problem.tree, int(np.maximum(self.problem.nodes.free, 0).sum())
        forced, found = np.minimum(self.reach.forced(job), room), []
        for level in range(len(tree.levels)):
            most = np.minimum(tree.sum_per_domain(level, room), free + tree.sum_per_domain(level, forced))
            if int(most.max(initial=0)) >= job.minimum:
                found.append(level)
        return found
