"""How much room each node could have for whoever starts there, if all who may go there went."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optsched.rounds.problem import Flags, Ints, Problem, RoundJob
from optsched.solve.cpsat.decisions import Scope
from optsched.solve.reach import Reach

FEW = 3
"""Where no more teams could have a piece on a node, it is known of each; where more could, they count as anybody."""

ANYBODY = -1
"""More than a few teams."""


class NodeRoom:
    """`gpus` (N,): what would be free for anybody. `inside[t]` (N,): how much more for team t, alone.

    Who cannot go takes its GPUs off the room. So does who is inside its quota, for other teams: what it leaves is its
    own team's. `going` are the jobs that could go for others.
    """

    def __init__(self, problem: Problem, scope: Scope) -> None:
        could_go = scope.stops | scope.moves | scope.resizes
        anybody = any(job.emergency or job.due for job in problem.jobs)
        room: Ints = problem.nodes.capacity.copy()
        self.inside: dict[int, Ints] = {}
        self.going: list[RoundJob] = []
        for job in problem.running:
            goes, takeable = job.index in could_go, problem.takeable[job.index]
            shrinks_for_others = job.index in scope.resizes and takeable.above_quota[1]
            inside = goes and takeable.inside_quota and not anybody and not shrinks_for_others
            if goes and not inside:
                self.going.append(job)
                continue
            for n, count in job.spread_now:
                room[n] -= count
                if inside:
                    team = self.inside.setdefault(job.team, np.zeros(len(room), dtype=np.int64))
                    team[n] += count
        self.gpus = np.where(problem.nodes.taking, np.maximum(room, 0), 0)


class Lying:
    """On which nodes pieces of at least g GPUs could lie, for each g in `sizes` and the team of whoever may start."""

    def __init__(self, reach: Reach, starts: Sequence[tuple[RoundJob, int]], sizes: Sequence[int]) -> None:
        """`starts` are jobs, each with the size of its pieces."""
        self.sizes = sizes
        self._on: dict[int, dict[int, Flags]] = {g: {} for g in sizes}
        for job, piece in {(reach.kind(job), piece): (job, piece) for job, piece in starts}.values():
            room = reach.room(job)
            for g in sizes:
                if g <= piece:
                    before = self._on[g].get(job.team, False)
                    self._on[g][job.team] = before | (room >= g)
        self._many = {g: sum(on.values()) > FEW for g, on in self._on.items()}
        self._known: dict[int, tuple[tuple[int, ...], ...]] = {}

    def teams(self, n: int) -> tuple[tuple[int, ...], ...]:
        """Return for each size which teams could have a piece on a node: all of them if they are few, else anybody."""
        if n not in self._known:
            self._known[n] = tuple(
                (ANYBODY,)
                if self._is_for_many(g, n)
                else tuple(team for team, there in self._on[g].items() if there[n])
                for g in self.sizes
            )
        return self._known[n]

    def _is_for_many(self, g: int, n: int) -> bool:
        many = self._many[g]
        return not isinstance(many, bool) and bool(many[n])

    def may(self, n: int, g: int, team: int) -> bool:
        """Return whether a team could have a piece of g GPUs on a node; ANYBODY: whether many could."""
        if team == ANYBODY:
            return self._is_for_many(g, n)
        there = self._on[g].get(team)
        return there is not None and bool(there[n])
