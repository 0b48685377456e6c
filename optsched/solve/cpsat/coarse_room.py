"""Room in the coarse model: sums of pieces over cells, over sets of nodes, and over the whole cluster."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from ortools.sat.python.cp_model import IntVar

from optsched.rounds.assignment import Change
from optsched.rounds.problem import UNLIMITED, Flags, Ints
from optsched.rounds.score import gpu_type_of
from optsched.solve.cpsat.coarse_jobs import CoarseJobs
from optsched.solve.cpsat.coarse_whole import WholeNodes
from optsched.solve.cpsat.gang import Gang
from optsched.solve.cpsat.terms import Linear, total


class Room:
    """Adds that what is used fits in what could be free; `singles` counts one-node jobs by (mask, GPUs) and cell."""

    def __init__(self, jobs: CoarseJobs) -> None:
        self.jobs, self.problem, self.model = jobs, jobs.problem, jobs.model
        self.cells, self.decisions = jobs.cells, jobs.decisions
        self.singles: dict[tuple[int, int], dict[int, IntVar]] = {}
        self._slot_cache: dict[tuple[int, int, frozenset[tuple[int, Change]]], Linear] = {}

    def add(self) -> None:
        """Slot sums: for every piece size, cell and set of nodes, what is used fits in what could be free."""
        problem, model = self.problem, self.model
        sizes = sorted({self.jobs.piece(problem.jobs[j]) for j in self.decisions.starts})
        slots = {g: self._slots(g) for g in sizes}
        self._add_singles()
        self._add_gang_rights()
        masks = list(self.jobs.masks.items())
        for _, mask in masks:
            inside = {other for other, m in masks if not (m & ~mask).any()}
            for g in sizes:
                demand: dict[int, list[Linear]] = defaultdict(list)
                self._demand(inside, g, demand)
                for c, parts in demand.items():
                    nodes = self.cells.nodes[c]
                    nodes = nodes[mask[nodes]]
                    model.add(total(parts) <= self._supply(slots[g], nodes))
                everywhere = [part for parts in demand.values() for part in parts]
                movers = self.jobs.mover_pieces(g)
                if everywhere and movers:
                    nodes = np.flatnonzero(mask)
                    wide = [part for part in movers if (problem.nodes.taking & ~mask).sum() == 0]
                    if wide:
                        model.add(total(everywhere + wide) <= self._supply(slots[g], nodes))
        self._add_balance()

    def _slots(self, g: int, allowed: tuple[Flags, Flags] | None = None) -> dict[int, Linear]:
        """Return, for every node that takes work, the pieces of g GPUs that fit in what could be free there.

        `allowed` (stops, moves) counts only what those running jobs free.
        """
        nodes = self.problem.nodes
        slots: dict[int, Linear] = {}
        for n in np.flatnonzero(nodes.taking).tolist():
            free = int(nodes.free[n])
            freed = self.jobs.freed.get(n, [])
            if allowed is not None:
                stops, moves = allowed
                freed = [
                    each
                    for each in freed
                    if each[3] is Change.SHRINK or (moves if each[3] is Change.MOVE else stops)[each[2]]
                ]
            slots[n] = self._slot(n, g, free, freed) if freed else free // g
        return slots

    def _slot(self, n: int, g: int, free: int, freed: list[tuple[int, IntVar, int, Change]]) -> Linear:
        """Return the pieces of g GPUs on one node, given what of it may be freed."""
        most = {j: max(count, 0) for count, _, j, _ in freed}
        could = min(int(self.problem.nodes.capacity[n]), free + sum(most.values()) if g > 1 else UNLIMITED)
        shrinks = any(change is Change.SHRINK for *_, change in freed)
        if could // g <= free // g and not shrinks:
            return free // g
        gain = total([count * literal for count, literal, _, _ in freed])
        if g == 1:
            return free + gain
        key = (n, g, frozenset((j, change) for _, _, j, change in freed))
        if key not in self._slot_cache:
            most_slots = int(self.jobs.could_free[n]) // g
            fits = self.model.new_int_var(0, most_slots, f"slots {n}.{g}")
            self.model.add(g * fits <= free + gain)
            self._slot_cache[key] = fits
        return self._slot_cache[key]

    def _supply(self, slots: dict[int, Linear], nodes: Ints) -> Linear:
        return total([slots[n] for n in nodes.tolist() if n in slots])

    def _add_singles(self) -> None:
        """Count one-node jobs by mask and size, and split the counts over cells."""
        problem, model = self.problem, self.model
        by_kind: dict[tuple[int, int], list[IntVar]] = defaultdict(list)
        for j, gang in self.decisions.starts.items():
            if j not in self.jobs.split:
                job = problem.jobs[j]
                by_kind[self.jobs.mask_of(job), job.minimum].append(gang.active)
        for j in self.jobs.split:
            self.jobs.mask_of(problem.jobs[j])
        for (key, size), actives in by_kind.items():
            mask = self.jobs.masks[key]
            could = np.where(mask, self.jobs.could_free // size, 0)
            in_cell = np.bincount(self.cells.cell_of, could, self.cells.count).astype(np.int64)
            counts = {
                c: model.new_int_var(0, min(len(actives), int(most)), f"{size} x in {c}")
                for c, most in enumerate(in_cell)
                if most
            }
            model.add(total(list(counts.values())) == total(list(actives)))
            self.singles[key, size] = counts

    def _add_gang_rights(self) -> None:
        """A gang's pieces fit in what is free and in what those over whom it may have a right free, cell by cell."""
        kinds: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for j in self.jobs.split:
            job = self.problem.jobs[j]
            kinds[(*self.jobs.reach.kind(job), self.jobs.piece(job), id(job.nodes))].append(j)
        whole = WholeNodes(self.jobs)
        if whole.affordable:
            whole.add()
            kinds = {kind: jobs for kind, jobs in kinds.items() if kind not in whole.kinds}
        for jobs in kinds.values():
            first = self.problem.jobs[jobs[0]]
            slots = self._slots(self.jobs.piece(first), self.jobs.reach.givers(first))
            cells = {c for j in jobs for c in self.jobs.split[j]}
            for c in cells:
                nodes = self.cells.nodes[c]
                nodes = nodes[first.nodes[nodes]]
                units: list[Linear] = [self.jobs.split[j][c] for j in jobs if c in self.jobs.split[j]]
                self.model.add(total(units) <= self._supply(slots, nodes))

    def _demand(self, masks: set[int], g: int, demand: dict[int, list[Linear]]) -> None:
        problem = self.problem
        for (key, size), counts in self.singles.items():
            if key in masks and size >= g:
                for c, count in counts.items():
                    demand[c].append((size // g) * count)
        for j, split in self.jobs.split.items():
            job = problem.jobs[j]
            piece = self.jobs.piece(job)
            if id(job.nodes) in masks and piece >= g:
                for c, units in split.items():
                    demand[c].append((piece // g) * units)

    def _add_balance(self) -> None:
        """By GPU type and in all: what starts and grows, less what stops and shrinks, fits in what is free."""
        problem = self.problem
        for y in (None, *range(len(problem.gpu_types))) if len(problem.gpu_types) > 1 else (None,):
            here = problem.nodes.taking & True if y is None else problem.nodes.taking & (problem.nodes.gpu_type == y)
            parts = [self._of_type(gang, y) for gang in self.decisions.starts.values()]
            for j, stop in self.decisions.stops.items():
                parts.append(-sum(count for n, count in problem.jobs[j].spread_now if here[n]) * stop)
            for j in self.decisions.resizes:
                if y is None or gpu_type_of(problem, problem.jobs[j].spread_now) == y:
                    parts.append(self.jobs.gained[j])
                    parts += [-given for n, given in self.jobs.shrunk[j].items() if here[n]]
            # A job on a closed node that moves takes room without leaving any.
            left = 0 if y is None else self.jobs.left_by_type_changes(y)
            wanted = total([part for part in parts if not isinstance(part, int)])
            if not isinstance(wanted, int):
                self.model.add(wanted <= int(problem.nodes.free[here].sum()) + left)

    def _of_type(self, gang: Gang, y: int | None) -> Linear:
        """Return the GPUs of one type (None: of any) that a gang takes at least."""
        if y is None or list(gang.types) == [y]:
            return gang.size
        return gang.job.minimum * gang.types[y] if y in gang.types else 0
