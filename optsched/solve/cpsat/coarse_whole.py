"""Pieces that fill nodes, node by node: who must leave, by which right, and where those go who move."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from ortools.sat.python.cp_model import IntVar

from optsched.rounds.assignment import Change
from optsched.rounds.problem import Flags
from optsched.solve.cpsat.coarse_jobs import CoarseJobs
from optsched.solve.cpsat.terms import Linear, total

MOST_NODE_LITERALS = 30_000
"""Up to this many (kind, node) pairs the jobs that fill nodes are given their nodes one by one: a tighter bound."""


class WholeNodes:
    """The jobs whose every piece fills the nodes that it may use.

    `kinds`: those with the same rights, piece and nodes.
    """

    def __init__(self, jobs: CoarseJobs) -> None:
        self.jobs, self.problem, self.model = jobs, jobs.problem, jobs.model
        self.cells, self.decisions = jobs.cells, jobs.decisions
        self.kinds = self._kinds()

    @property
    def affordable(self) -> bool:
        """Whether there are few enough of them to be given their nodes one by one."""
        return len(self.kinds) * len(self.problem.nodes.capacity) <= MOST_NODE_LITERALS

    def _kinds(self) -> dict[tuple[object, ...], list[int]]:
        """Return the jobs whose every piece fills the nodes that it may use, by kind."""
        kinds: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for j in self.decisions.starts:
            job = self.problem.jobs[j]
            piece = self.jobs.piece(job)
            roomy = self.problem.nodes.capacity[job.nodes & (self.problem.nodes.capacity >= piece)]
            if len(roomy) and int(roomy.max()) == piece and not job.elastic:
                kinds[(*self.jobs.reach.kind(job), piece, id(job.nodes))].append(j)
        return kinds

    def add(self) -> None:
        """Add that a piece that fills a node needs everybody gone from it, by a right of its own kind or by a move.

        One kind per node.
        """
        model = self.model
        given: dict[int, list[IntVar]] = defaultdict(list)
        for jobs in self.kinds.values():
            first = self.problem.jobs[jobs[0]]
            piece = self.jobs.piece(first)
            stops, moves = self.jobs.reach.givers(first)
            literals: dict[int, IntVar] = {}
            for n in np.flatnonzero(first.nodes & (self.jobs.reach.room(first) >= piece)).tolist():
                literal = model.new_bool_var(f"node {n} for {first.job.id}")
                literals[n] = literal
                given[n].append(literal)
                self._leaves(n, literal, stops, moves)
            cells = {c for j in jobs for c in self.jobs.split.get(j, {})}
            for c in cells:
                inside = [literals[n] for n in self.cells.nodes[c].tolist() if n in literals]
                model.add(
                    total([self.jobs.split[j][c] for j in jobs if c in self.jobs.split.get(j, {})])
                    <= total(list(inside))
                )
            wanted: list[Linear] = [
                (self.problem.jobs[j].minimum // piece) * self.decisions.starts[j].active for j in jobs
            ]
            model.add(total(wanted) <= total(list(literals.values())))
        for literals_here in given.values():
            if len(literals_here) > 1:
                model.add_at_most_one(literals_here)
        self._add_room_for_moves(given)

    def _add_room_for_moves(self, given: dict[int, list[IntVar]]) -> None:
        """Moved jobs displace nobody: they fit in what is free and what moves leave, on nodes that no piece fills."""
        problem, model = self.problem, self.model
        movers = list(self.decisions.moves.values())
        if not movers:
            return
        left: dict[int, Linear] = {}
        for n in np.flatnonzero(problem.nodes.taking).tolist():
            vacated = [(count, way, j) for count, way, j, change in self.jobs.freed.get(n, ()) if change is Change.MOVE]
            free = int(problem.nodes.free[n])
            if not vacated and not free:
                continue
            most = int(problem.nodes.capacity[n])
            room = model.new_int_var(0, most, f"room for moves {n}")
            if n in given:
                filled = total(list(given[n]))
                left_by_moves = [count * self._leaves_room(n, j, filled) for count, _, j in vacated]
                model.add(room <= free - free * filled + total(left_by_moves))
            else:
                model.add(room <= free + total([count * way for count, way, _ in vacated]))
            left[n] = room
        for g in sorted({self.jobs.mover_piece(gang.job) for gang in movers} | {1}):
            wanted = self.jobs.mover_pieces(g)
            model.add(total(wanted) <= total([self._pieces(n, room, g) for n, room in left.items()]))

    def _leaves_room(self, n: int, j: int, filled: Linear) -> IntVar:
        """Return whether job j moves off node n and leaves room there.

        It leaves none where the node is filled, for which it had to go.
        """
        moved = self.decisions.moves[j].active
        leaves = self.model.new_bool_var(f"{j} leaves room on {n}")
        self.model.add_implication(leaves, moved)
        self.model.add(leaves <= 1 - filled)
        if j not in self.decisions.resizes:
            gone = moved + self.decisions.stops[j] if j in self.decisions.stops else moved
            self.model.add(leaves <= gone - filled)
        return leaves

    def _pieces(self, n: int, room: Linear, g: int) -> Linear:
        """Return how many pieces of g GPUs fit in an open amount of room on node n."""
        if g == 1:
            return room
        most = int(self.problem.nodes.capacity[n]) // g
        if not most:
            return 0
        fits = self.model.new_int_var(0, most, f"moves {n}.{g}")
        self.model.add(g * fits <= room)
        return fits

    def _leaves(self, n: int, literal: IntVar, stops: Flags, moves: Flags) -> None:
        """Add that every job on node n leaves it if `literal`, by a way that counts."""
        ways: dict[int, list[IntVar]] = {
            job: [] for job, _ in self.jobs.on_node.get(n, ()) if job not in self.decisions.resizes
        }
        for _, way, j, change in self.jobs.freed.get(n, ()):
            if j in ways and (moves if change is Change.MOVE else stops)[j]:
                ways[j].append(way)
        for each in ways.values():
            self.model.add_bool_or([~literal, *each])
