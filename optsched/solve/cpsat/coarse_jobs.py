"""What the coarse model decides about every job: starts, stops, moves, sizes, and in which cells."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
from ortools.sat.python.cp_model import CpModel, IntVar

from optsched.rounds.assignment import Change
from optsched.rounds.problem import Cut, Flags, Ints, Problem, RoundJob
from optsched.rounds.score import gpu_type_of, loss_at, scatter_price
from optsched.solve.cpsat.cells import Cells, choose_cells
from optsched.solve.cpsat.decisions import Decisions, Scope
from optsched.solve.cpsat.gang import Gang
from optsched.solve.cpsat.terms import Linear, total
from optsched.solve.reach import Reach
from optsched.solve.victims import Victims


class CoarseJobs:
    """Variables of every job in scope, and what each frees on which node.

    `split`: pieces of each gang by cell; jobs of one piece have none. `freed`: (GPUs, how many times, job, change) by
    node. `masks`: the sets of nodes that jobs may use. `lost` and `gained`: GPUs by which a job is resized, `shrunk` by
    node.
    """

    def __init__(self, problem: Problem, scope: Scope) -> None:
        self.problem, self.scope = problem, scope
        self.model = CpModel()
        self.cells: Cells = choose_cells(problem)
        self.decisions = Decisions(problem, self.model)
        self.split: dict[int, dict[int, IntVar]] = {}
        self.freed: dict[int, list[tuple[int, IntVar, int, Change]]] = defaultdict(list)
        self.masks: dict[int, Flags] = {}
        self.lost: dict[int, IntVar] = {}
        self.gained: dict[int, IntVar] = {}
        self.shrunk: dict[int, dict[int, IntVar]] = {}
        self._capacities: dict[tuple[object, ...], list[int]] = {}
        self._add_jobs()

    def _add_jobs(self) -> None:
        problem, model, decisions = self.problem, self.model, self.decisions
        self.could_free = problem.nodes.free.copy()
        for j in self.scope.stops | self.scope.moves | self.scope.resizes:
            for n, count in problem.jobs[j].spread_now:
                self.could_free[n] += count
        self.could_free = np.minimum(self.could_free, problem.nodes.capacity)
        self.on_node = Victims(problem).on_node
        self.reach = Reach(problem, self.scope.stops, self.scope.moves, self.scope.resizes)
        for j in sorted(self.scope.starts):
            self._add_start(problem.jobs[j])
        for j in sorted(self.scope.stops):
            job = problem.jobs[j]
            decisions.stops[j] = model.new_bool_var(f"stop {job.job.id}")
            self._frees(job, decisions.stops[j], Change.STOP)
        for j in sorted(self.scope.moves):
            job = problem.jobs[j]
            types = [y for y, speed in enumerate(job.type_speed) if speed > 0]
            if not types:
                continue
            active = model.new_bool_var(f"move {job.job.id}")
            by_type = self._choose_type(job, active, types)
            loss = total([self._least_loss(job, job.size_now, [y]) * chosen for y, chosen in by_type.items()])
            decisions.moves[j] = Gang(job, active, {}, job.size_now * active, loss, None, {}, by_type)
            self._frees(job, active, Change.MOVE)
        for j in sorted(self.scope.resizes):
            self._add_resize(problem.jobs[j])
        for job in problem.running:
            changes = decisions.stays_put(job)
            if len(changes) > 1:
                model.add_at_most_one(changes)

    def _frees(self, job: RoundJob, literal: IntVar, change: Change) -> None:
        for n, count in job.spread_now:
            self.freed[n].append((count, literal, job.index, change))

    def mask_of(self, job: RoundJob) -> int:
        """Return the number of the set of nodes that the job may use."""
        key = id(job.nodes)
        self.masks.setdefault(key, job.nodes)
        return key

    def _add_start(self, job: RoundJob) -> None:
        model = self.model
        allowed = [y for y, speed in enumerate(job.type_speed) if speed > 0]
        room = self._cell_room(job)
        cells = {c: most for c, most in room.items() if most > 0 and int(self.cells.gpu_type[c]) in allowed}
        if not cells:
            return
        active = model.new_bool_var(f"start {job.job.id}")
        size, above = self._size(job, active)
        by_type = self._types(job, active, cells)
        if self.piece(job) == job.maximum or job.cut is Cut.ONE_NODE:
            self.mask_of(job)
            size_priced = job.minimum if not job.elastic else job.maximum
            least = self._least_loss(job, size_priced, list(by_type))
            loss: Linear = (min(0, least) if job.elastic else least) * active
            self.decisions.starts[job.index] = Gang(job, active, {}, size, loss, above, {}, by_type)
            return
        split = {c: model.new_int_var(0, most, f"{job.job.id} in {c}") for c, most in cells.items()}
        self.split[job.index] = split
        unit = self.piece(job)
        model.add(unit * total(list(split.values())) == size)
        self._tie_types(split, by_type, cells)
        used = self._used(job, split, cells)
        loss = self._gang_loss(job, active, used, list(by_type))
        self.decisions.starts[job.index] = Gang(job, active, {}, size, loss, above, {}, by_type)

    def piece(self, job: RoundJob) -> int:
        """Return the least that the job has on a node that it uses, in GPUs."""
        if job.cut is Cut.ONE_NODE:
            return job.minimum
        if job.cut is Cut.WHOLE_NODES:
            return math.gcd(*self._whole_capacities(job)) or job.unit
        return job.unit

    def _whole_capacities(self, job: RoundJob) -> list[int]:
        """Return the capacities of nodes that the job could fill: those that add up to one of its sizes with others."""
        key = (id(job.nodes), job.sizes, tuple(n for n, _ in job.spread_now))
        if key not in self._capacities:
            mask = job.nodes.copy()
            mask[[n for n, _ in job.spread_now]] = True
            known = [int(c) for c in np.unique(self.problem.nodes.capacity[mask]) if 0 < c <= job.maximum]
            sums, within = 1, (1 << (job.maximum + 1)) - 1
            for capacity in known:
                step = capacity
                while step <= job.maximum:
                    sums |= sums << step & within
                    step *= 2
            self._capacities[key] = [
                c for c in known if any(size >= c and sums >> (size - c) & 1 for size in job.sizes)
            ]
        return self._capacities[key]

    def _size(self, job: RoundJob, active: IntVar) -> tuple[Linear, IntVar | None]:
        if not job.elastic:
            return job.minimum * active, None
        model = self.model
        extra = model.new_int_var(0, (job.maximum - job.minimum) // job.unit, f"extra {job.job.id}")
        model.add(extra == 0).only_enforce_if(~active)
        above = model.new_bool_var(f"above {job.job.id}")
        model.add(extra >= 1).only_enforce_if(above)
        model.add(extra == 0).only_enforce_if(~above)
        return job.minimum * active + job.unit * extra, above

    def _types(self, job: RoundJob, active: IntVar, cells: dict[int, int]) -> dict[int, IntVar]:
        return self._choose_type(job, active, sorted({int(self.cells.gpu_type[c]) for c in cells}))

    def _choose_type(self, job: RoundJob, active: IntVar, types: list[int]) -> dict[int, IntVar]:
        """Return literals of which exactly one is true if `active`, none otherwise."""
        if len(types) == 1:
            return {types[0]: active}
        chosen = {y: self.model.new_bool_var(f"{job.job.id} type {y}") for y in types}
        self.model.add_exactly_one([~active, *chosen.values()])
        return chosen

    def _tie_types(self, split: dict[int, IntVar], by_type: dict[int, IntVar], cells: dict[int, int]) -> None:
        if len(by_type) > 1:
            for c, units in split.items():
                self.model.add(units <= cells[c] * by_type[int(self.cells.gpu_type[c])])

    def _cell_room(self, job: RoundJob) -> dict[int, int]:
        """Return the most units of the job that each cell could ever give it in this round."""
        unit = self.piece(job)
        per_node = np.where(job.nodes, self.reach.room(job), 0)
        if job.cut is Cut.PER_NODE:
            units = (per_node >= unit).astype(np.int64)
        elif job.cut is Cut.WHOLE_NODES:
            capacity = self.problem.nodes.capacity
            fitting = np.isin(capacity, self._whole_capacities(job)) & (per_node >= capacity)
            units = np.where(fitting, capacity // unit, 0)
        else:
            units = per_node // unit
        if job.required is not None:
            units = self._only_where_it_fits(job, units)
        in_cell = np.bincount(self.cells.cell_of, units, self.cells.count).astype(np.int64)
        most = job.maximum // unit
        return {c: min(most, int(count)) for c, count in enumerate(in_cell) if count}

    def _only_where_it_fits(self, job: RoundJob, units: Ints) -> Ints:
        tree, level = self.problem.tree, job.required
        assert level is not None
        sums = tree.sum_per_domain(level, units) * self.piece(job)
        domain = tree.domain_of[level]
        return np.where((domain >= 0) & (sums[domain] >= job.minimum), units, 0)

    def _used(self, job: RoundJob, split: dict[int, IntVar], cells: dict[int, int]) -> dict[int, IntVar]:
        """Add whether the gang uses each cell, its required level, and whole slices per cell."""
        model, used = self.model, {}
        for c, units in split.items():
            literal = model.new_bool_var(f"{job.job.id} uses {c}")
            model.add(units >= 1).only_enforce_if(literal)
            model.add(units == 0).only_enforce_if(~literal)
            used[c] = literal
        if job.required is not None and self.cells.level >= 0:
            if job.required >= self.cells.level:
                groups: dict[int, list[IntVar]] = defaultdict(list)
                for c, literal in used.items():
                    groups[int(self.cells.domain[c])].append(literal)
            else:
                groups = defaultdict(list)
                for c, literal in used.items():
                    groups[int(self.problem.tree.domain_of[job.required][self.cells.nodes[c][0]])].append(literal)
            chosen = []
            for members in groups.values():
                inside = members[0]
                if len(members) > 1:
                    inside = model.new_bool_var(f"{job.job.id} inside")
                    model.add_max_equality(inside, members)
                chosen.append(inside)
            model.add(total(list(chosen)) <= 1)
        for piece, level in job.slices:
            if self.cells.level >= 0 and level >= self.cells.level and len(self.problem.gpu_types) == 1:
                for c, units in split.items():
                    whole = model.new_int_var(0, cells[c] * self.piece(job) // piece, f"{job.job.id} slices {c}")
                    model.add(self.piece(job) * units == piece * whole)
        return used

    def _least_loss(self, job: RoundJob, size: int, types: list[int]) -> int:
        """Return the least loss that `size` GPUs can have anywhere, per round."""
        span = self._narrowest(size)
        options = [s for s in range(-1, len(self.problem.tree.levels)) if s < 0 or s <= span]
        return min(loss_at(self.problem, job, size, s, y) for s in options for y in types)

    def _narrowest(self, size: int) -> int:
        """Return the narrowest level one domain of which could hold `size` GPUs."""
        for level in range(len(self.problem.tree.levels) - 1, -1, -1):
            if int(self.problem.domain_gpus[level].max(initial=0)) >= size:
                return level
        return -1

    def _gang_loss(
        self,
        job: RoundJob,
        active: IntVar,
        used: dict[int, IntVar],
        types: list[int],
    ) -> Linear:
        """Return the least loss that the split allows: by how wide it is spread, and over the preferred level."""
        if job.elastic:
            return min(0, self._least_loss(job, job.maximum, types)) * active
        problem, level = self.problem, self.cells.level
        best = self._least_loss(job, job.minimum, types)
        if level < 0:
            return best * active
        # Spread over several cells, its span is wider than a cell.
        wider = min(loss_at(problem, job, job.minimum, s, y) for s in range(-1, level) for y in types)
        loss: Linear = best * active
        if wider > best and len(used) > 1:
            several = self.model.new_bool_var(f"{job.job.id} several")
            self.model.add(total(list(used.values())) <= 1 + len(used) * several)
            loss = loss + (wider - best) * several
        if job.preferred is not None and job.preferred == level and len(used) > job.preferred_fewest:
            price = scatter_price(problem, job, job.minimum)
            excess = self.model.new_int_var(0, len(used), f"{job.job.id} scatter")
            self.model.add(excess >= total(list(used.values())) - job.preferred_fewest)
            loss = loss + price * excess
        return loss

    def _add_resize(self, job: RoundJob) -> None:
        problem, model = self.problem, self.model
        j = job.index
        active = model.new_bool_var(f"resize {job.job.id}")
        shrink, grow = model.new_bool_var(f"shrink {job.job.id}"), model.new_bool_var(f"grow {job.job.id}")
        model.add(shrink + grow == active)
        lost = model.new_int_var(0, max(0, job.size_now - job.minimum), f"{job.job.id} lost")
        gained = model.new_int_var(0, max(0, job.maximum - job.size_now), f"{job.job.id} gained")
        model.add(lost >= 1).only_enforce_if(shrink)
        model.add(lost == 0).only_enforce_if(~shrink)
        model.add(gained >= 1).only_enforce_if(grow)
        model.add(gained == 0).only_enforce_if(~grow)
        if not job.job.preemptible:
            model.add(shrink == 0)
        parts = {n: model.new_int_var(0, count, f"{job.job.id} gives {n}") for n, count in job.spread_now}
        model.add(total(list(parts.values())) == lost)
        self.shrunk[j] = parts
        for n, given in parts.items():
            self.freed[n].append((1, given, j, Change.SHRINK))
        size = job.size_now * active - lost + gained
        home = gpu_type_of(problem, job.spread_now)
        gain = min(0, self._least_loss(job, max(job.maximum, job.size_now), [home])) * active
        self.decisions.resizes[j] = Gang(job, active, {}, size, gain, None, {}, {home: active})
        self.decisions.shrinks[j], self.decisions.grows[j] = shrink, grow
        self.gained[j] = gained
        self.lost[j] = lost

    def mover_pieces(self, g: int) -> list[Linear]:
        """Return what moved jobs need elsewhere, in pieces of g GPUs."""
        parts: list[Linear] = []
        for j, gang in self.decisions.moves.items():
            job = self.problem.jobs[j]
            piece = self.mover_piece(job)
            pieces = ((job.size_now - self._stays_on_closed(job)) // max(1, piece)) * (piece // g)
            if pieces:
                parts.append(pieces * gang.active)
        return parts

    def _stays_on_closed(self, job: RoundJob) -> int:
        """Return the GPUs that a job which moves may keep where nobody else may go: they take no room."""
        if job.cut is Cut.ONE_NODE:
            return 0
        return sum(count for n, count in job.spread_now if not self.problem.nodes.taking[n])

    def mover_piece(self, job: RoundJob) -> int:
        """Return the least that a job which moves has on a node that it uses, in GPUs."""
        return job.size_now if job.cut is Cut.ONE_NODE else self.piece(job)

    def left_by_type_changes(self, y: int) -> Linear:
        """Return what moves to other GPU types leave of type y on nodes that take work, less what they take of it."""
        problem, parts = self.problem, list[Linear]()
        for j, gang in self.decisions.moves.items():
            spread = problem.jobs[j].spread_now
            if gpu_type_of(problem, spread) != y:
                if y in gang.types:
                    parts.append(-problem.jobs[j].size_now * gang.types[y])
                continue
            left = sum(count for n, count in spread if problem.nodes.taking[n])
            if left and list(gang.types) != [y]:
                parts.append(left * (gang.active - gang.types[y]) if y in gang.types else left * gang.active)
        return total(parts)
