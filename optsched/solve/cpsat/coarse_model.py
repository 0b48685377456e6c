"""The coarse model: who starts, who stops, and how each gang is split over cells. A relaxation, so its optimum is a bound.

Every valid plan gives a solution of this model with the same ranks and a bill that is no lower:

* **room**: a node with s free GPUs holds at most floor(s / g) pieces of g GPUs, so in every set of nodes, for every piece size g,
  sum over pieces of floor(piece / g) is at most the sum over its nodes of floor(free / g). `free` counts what stops, moves and shrinks
  free there. Pieces are what a job has on one node at least: its unit, its task, or all of it.
* **moves** free their old nodes; what they need elsewhere counts only in the sums over the whole cluster.
* **rights** hold in the sums of a team and of the cluster: what a group of takers uses comes from free GPUs, from its own team's less urgent
  jobs, or from the pools of what other teams have above their quotas and entitlements, the latter only while the group is inside its line.
* **ranks, limits, claims** are linear in who starts, stops and changes size, and are the same as in the exact model.
* **bill**: stops, moves and resizes cost what they cost; placement loss is the least that the split over cells allows; draining, broken domains
  and idle holds count nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
from ortools.sat.python.cp_model import CpModel, IntVar

from optsched.rounds.assignment import Change
from optsched.rounds.problem import UNLIMITED, Cut, Flags, Ints, Problem, RoundJob, What
from optsched.rounds.score import gpu_type_of, loss_at, scatter_price
from optsched.solve.cpsat import objective
from optsched.solve.cpsat.cells import Cells, choose_cells
from optsched.solve.cpsat.claims import Claims
from optsched.solve.cpsat.constraints import add_ceilings, add_stop_limit
from optsched.solve.cpsat.decisions import Decisions, Scope, full_scope
from optsched.solve.cpsat.gang import Gang
from optsched.solve.cpsat.symmetry import order_equal_jobs
from optsched.solve.cpsat.terms import Linear, total
from optsched.solve.reach import Reach
from optsched.solve.victims import Victims

MOST_NODE_LITERALS = 30_000
"""Up to this many (kind, node) pairs the jobs that fill nodes are given their nodes one by one: a tighter bound."""


class CoarseModel:
    """The relaxation of a round over cells; see the module's text for why it is one."""

    def __init__(self, problem: Problem, scope: Scope | None = None, *, payment: bool = True) -> None:
        self.problem = problem
        self.cells: Cells = choose_cells(problem)
        self.model = CpModel()
        self.scope = scope or full_scope(problem)
        self.decisions = Decisions(problem, self.model)
        self.split: dict[int, dict[int, IntVar]] = {}
        """units of each gang by cell"""
        self.singles: dict[tuple[int, int], dict[int, IntVar]] = {}
        """number of one-node jobs by (mask, GPUs) and cell"""
        self._masks: dict[int, Flags] = {}
        self._freed: dict[int, list[tuple[int, IntVar, int, Change]]] = defaultdict(list)
        self._slot_cache: dict[tuple[int, int, frozenset[tuple[int, Change]]], Linear] = {}
        self._shrunk: dict[int, dict[int, IntVar]] = {}
        self._capacities: dict[tuple[object, ...], list[int]] = {}
        self._add_jobs()
        self._add_room()
        self._add_balance()
        self.claims = Claims(problem, self.decisions)
        add_ceilings(problem, self.decisions, self.claims)
        add_stop_limit(problem, self.decisions)
        _Rights(self).add()
        if payment:
            self._add_payment()
        order_equal_jobs(problem, self.decisions)
        self.ladder = objective.add_ladder(problem, self.decisions, self.claims)
        self.bill = self._bill()

    # Jobs

    def _add_jobs(self) -> None:
        problem, model, decisions = self.problem, self.model, self.decisions
        self._could_free = problem.nodes.free.copy()
        for j in self.scope.stops | self.scope.moves | self.scope.resizes:
            for n, count in problem.jobs[j].spread_now:
                self._could_free[n] += count
        self._could_free = np.minimum(self._could_free, problem.nodes.capacity)
        self._on_node = Victims(problem).on_node
        self._reach = Reach(problem, self.scope.stops, self.scope.moves, self.scope.resizes)
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
            self._freed[n].append((count, literal, job.index, change))

    def mask_of(self, job: RoundJob) -> int:
        """Return the number of the set of nodes that the job may use."""
        key = id(job.nodes)
        self._masks.setdefault(key, job.nodes)
        return key

    def _add_start(self, job: RoundJob) -> None:
        problem, model = self.problem, self.model
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
            loss = self._least_loss(job, job.minimum, list(by_type)) * active if not job.elastic else 0
            self.decisions.starts[job.index] = Gang(job, active, {}, size, loss, above, {}, by_type)
            return
        split = {c: model.new_int_var(0, most, f"{job.job.id} in {c}") for c, most in cells.items()}
        self.split[job.index] = split
        unit = self.piece(job)
        model.add(unit * total(list(split.values())) == size)
        self._tie_types(split, by_type, cells)
        used = self._used(job, split, cells)
        loss = self._gang_loss(job, active, size, split, used, list(by_type))
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
        per_node = np.where(job.nodes, self._reach.room(job), 0)
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
            active = self.decisions_active(job, used)
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
            del active
        for piece, level in job.slices:
            if self.cells.level >= 0 and level >= self.cells.level and len(self.problem.gpu_types) == 1:
                for c, units in split.items():
                    whole = model.new_int_var(0, cells[c] * self.piece(job) // piece, f"{job.job.id} slices {c}")
                    model.add(self.piece(job) * units == piece * whole)
        return used

    def decisions_active(self, job: RoundJob, used: dict[int, IntVar]) -> list[IntVar]:
        """Return the literals that say where the gang is."""
        return list(used.values())

    # Losses

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
        size: Linear,
        split: dict[int, IntVar],
        used: dict[int, IntVar],
        types: list[int],
    ) -> Linear:
        """Return the least loss that the split allows: by how wide it is spread, and over the preferred level."""
        if job.elastic:
            return 0
        problem, tree, level = self.problem, self.problem.tree, self.cells.level
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
        del tree, split, size
        return loss

    # Resizes

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
        self._shrunk[j] = parts
        for n, given in parts.items():
            self._freed[n].append((1, given, j, Change.SHRINK))
        size = job.size_now * active - lost + gained
        home = gpu_type_of(problem, job.spread_now)
        self.decisions.resizes[j] = Gang(job, active, {}, size, 0, None, {}, {home: active})
        self.decisions.shrinks[j], self.decisions.grows[j] = shrink, grow
        self.gained = getattr(self, "gained", {})
        self.gained[j] = gained
        self.lost = getattr(self, "lost", {})
        self.lost[j] = lost

    # Room

    def _add_room(self) -> None:
        """Slot sums: for every piece size, cell and set of nodes, what is used fits in what could be free."""
        problem, model = self.problem, self.model
        sizes = sorted({self.piece(problem.jobs[j]) for j in self.decisions.starts})
        slots = {g: self._slots(g) for g in sizes}
        self._add_singles()
        self._add_gang_rights()
        masks = list(self._masks.items())
        for key, mask in masks:
            inside = {other for other, m in masks if not (m & ~mask).any()}
            for g in sizes:
                demand: dict[int, list[Linear]] = defaultdict(list)
                self._demand(inside, g, demand)
                for c, parts in demand.items():
                    nodes = self.cells.nodes[c]
                    nodes = nodes[mask[nodes]]
                    model.add(total(parts) <= self._supply(slots[g], nodes))
                everywhere = [part for parts in demand.values() for part in parts]
                movers = self._mover_pieces(g)
                if everywhere and movers:
                    nodes = np.flatnonzero(mask)
                    wide = [part for part in movers if (problem.nodes.taking & ~mask).sum() == 0]
                    if wide:
                        model.add(total(everywhere + wide) <= self._supply(slots[g], nodes))

    def _slots(self, g: int, allowed: tuple[Flags, Flags] | None = None) -> dict[int, Linear]:
        """Return, for every node that takes work, the pieces of g GPUs that fit in what could be free there.

        `allowed` (stops, moves) counts only what those running jobs free.
        """
        nodes = self.problem.nodes
        slots: dict[int, Linear] = {}
        for n in np.flatnonzero(nodes.taking).tolist():
            free = int(nodes.free[n])
            freed = self._freed.get(n, [])
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
            most_slots = int(self._could_free[n]) // g
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
            if j not in self.split:
                job = problem.jobs[j]
                by_kind[self.mask_of(job), job.minimum].append(gang.active)
        for j in self.split:
            self.mask_of(problem.jobs[j])
        for (key, size), actives in by_kind.items():
            mask = self._masks[key]
            could = np.where(mask, self._could_free // size, 0)
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
        for j in self.split:
            job = self.problem.jobs[j]
            kinds[(*self._reach.kind(job), self.piece(job), id(job.nodes))].append(j)
        whole = self._whole_node_kinds()
        if len(whole) * len(self.problem.nodes.capacity) <= MOST_NODE_LITERALS:
            self._add_whole_nodes(whole)
            kinds = {kind: jobs for kind, jobs in kinds.items() if kind not in whole}
        for jobs in kinds.values():
            first = self.problem.jobs[jobs[0]]
            slots = self._slots(self.piece(first), self._reach.givers(first))
            cells = {c for j in jobs for c in self.split[j]}
            for c in cells:
                nodes = self.cells.nodes[c]
                nodes = nodes[first.nodes[nodes]]
                units: list[Linear] = [self.split[j][c] for j in jobs if c in self.split[j]]
                self.model.add(total(units) <= self._supply(slots, nodes))

    def _whole_node_kinds(self) -> dict[tuple[object, ...], list[int]]:
        """Return the jobs whose every piece fills the nodes that it may use, by kind."""
        kinds: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for j in self.decisions.starts:
            job = self.problem.jobs[j]
            piece = self.piece(job)
            roomy = self.problem.nodes.capacity[job.nodes & (self.problem.nodes.capacity >= piece)]
            if len(roomy) and int(roomy.max()) == piece and not job.elastic:
                kinds[(*self._reach.kind(job), piece, id(job.nodes))].append(j)
        return kinds

    def _add_whole_nodes(self, kinds: dict[tuple[object, ...], list[int]]) -> None:
        """A piece that fills a node needs everybody gone from it, by a right of its own kind or by a move; one kind per node."""
        model, nodes = self.model, self.problem.nodes
        given: dict[int, list[IntVar]] = defaultdict(list)
        for jobs in kinds.values():
            first = self.problem.jobs[jobs[0]]
            piece = self.piece(first)
            stops, moves = self._reach.givers(first)
            literals: dict[int, IntVar] = {}
            for n in np.flatnonzero(first.nodes & (self._reach.room(first) >= piece)).tolist():
                literal = model.new_bool_var(f"node {n} for {first.job.id}")
                literals[n] = literal
                given[n].append(literal)
                self._leaves(n, literal, stops, moves)
            cells = {c for j in jobs for c in self.split.get(j, {})}
            for c in cells:
                inside = [literals[n] for n in self.cells.nodes[c].tolist() if n in literals]
                model.add(total([self.split[j][c] for j in jobs if c in self.split.get(j, {})]) <= total(list(inside)))
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
            vacated = [(count, way, j) for count, way, j, change in self._freed.get(n, ()) if change is Change.MOVE]
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
        for g in sorted({self._mover_piece(gang.job) for gang in movers} | {1}):
            wanted = self._mover_pieces(g)
            model.add(total(wanted) <= total([self._pieces(n, room, g) for n, room in left.items()]))

    def _leaves_room(self, n: int, j: int, filled: Linear) -> IntVar:
        """Return whether job j moves off node n and leaves room there: not where the node is filled, for which it had to go."""
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
            job: [] for job, _ in self._on_node.get(n, ()) if job not in self.decisions.resizes
        }
        for _, way, j, change in self._freed.get(n, ()):
            if j in ways and (moves if change is Change.MOVE else stops)[j]:
                ways[j].append(way)
        for each in ways.values():
            self.model.add_bool_or([~literal, *each])

    def _demand(self, masks: set[int], g: int, demand: dict[int, list[Linear]]) -> None:
        problem = self.problem
        for (key, size), counts in self.singles.items():
            if key in masks and size >= g:
                for c, count in counts.items():
                    demand[c].append((size // g) * count)
        for j, split in self.split.items():
            job = problem.jobs[j]
            piece = self.piece(job)
            if id(job.nodes) in masks and piece >= g:
                for c, units in split.items():
                    demand[c].append((piece // g) * units)

    def _mover_pieces(self, g: int) -> list[Linear]:
        """Return what moved jobs need elsewhere, in pieces of g GPUs."""
        parts: list[Linear] = []
        for j, gang in self.decisions.moves.items():
            job = self.problem.jobs[j]
            piece = self._mover_piece(job)
            pieces = ((job.size_now - self._stays_on_closed(job)) // max(1, piece)) * (piece // g)
            if pieces:
                parts.append(pieces * gang.active)
        return parts

    def _stays_on_closed(self, job: RoundJob) -> int:
        """Return the GPUs that a job which moves may keep where nobody else may go: they take no room."""
        if job.cut is Cut.ONE_NODE:
            return 0
        return sum(count for n, count in job.spread_now if not self.problem.nodes.taking[n])

    def _mover_piece(self, job: RoundJob) -> int:
        return job.size_now if job.cut is Cut.ONE_NODE else self.piece(job)

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
                    parts.append(self.gained[j])
                    parts += [-given for n, given in self._shrunk[j].items() if here[n]]
            # A job on a closed node that moves takes room without leaving any.
            left = 0 if y is None else self.left_by_type_changes(y)
            wanted = total([part for part in parts if not isinstance(part, int)])
            if not isinstance(wanted, int):
                self.model.add(wanted <= int(problem.nodes.free[here].sum()) + left)

    def _of_type(self, gang: Gang, y: int | None) -> Linear:
        """Return the GPUs of one type (None: of any) that a gang takes at least."""
        if y is None or list(gang.types) == [y]:
            return gang.size
        return gang.job.minimum * gang.types[y] if y in gang.types else 0

    def left_by_type_changes(self, y: int) -> Linear:
        """Return what jobs that move to another GPU type leave of type y on nodes that take work, less what they take of it."""
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

    # Payment and bill

    def _add_payment(self) -> None:
        """What stopped jobs lose is at most what all starts are worth."""
        problem = self.problem
        if problem.profile.max_loss_ratio is None or not self.decisions.stops:
            return
        pays = [(problem.jobs[j].pays_gpu_s, gang.active) for j, gang in self.decisions.starts.items()]
        if any(amount >= UNLIMITED for amount, _ in pays) or any(
            problem.jobs[j].pays_gpu_s >= UNLIMITED for j in self.decisions.moves
        ):
            return
        worth: list[Linear] = [amount * active for amount, active in pays]
        worth += [problem.jobs[j].pays_gpu_s * gang.active for j, gang in self.decisions.moves.items()]
        lost = total([problem.jobs[j].costs.stop * stop for j, stop in self.decisions.stops.items()])
        self.model.add(lost <= total(worth))

    def _bill(self) -> Linear:
        problem, decisions = self.problem, self.decisions
        parts: list[Linear] = [sum(problem.loss_now)]
        parts += [gang.loss for gang in decisions.starts.values()]
        for j, stop in decisions.stops.items():
            job = problem.jobs[j]
            parts.append((job.costs.stop - problem.loss_now[j]) * stop)
        for j, gang in decisions.moves.items():
            job = problem.jobs[j]
            parts.append(gang.loss + (job.costs.move - problem.loss_now[j]) * gang.active)
        for j, gang in decisions.resizes.items():
            job = problem.jobs[j]
            parts.append((job.costs.move - problem.loss_now[j]) * gang.active)
        return total(parts)


class _Rights:
    """Rights in the sums: who may be served from what others give up, by team and over the cluster, for each GPU type."""

    def __init__(self, coarse: CoarseModel) -> None:
        self.coarse = coarse
        self.problem, self.model, self.decisions = coarse.problem, coarse.model, coarse.decisions

    def add(self) -> None:
        for y in range(len(self.problem.gpu_types)):
            self._add_type(y)

    def _add_type(self, y: int) -> None:
        problem, model = self.problem, self.model
        here = (problem.nodes.gpu_type == y) & problem.nodes.taking
        free = int(problem.nodes.free[here].sum())
        takers = self._takers(y)
        if not takers:
            return
        given = self._given(y)
        own: dict[int, list[tuple[int, IntVar]]] = defaultdict(list)
        supply_own: dict[int, list[tuple[int, IntVar]]] = defaultdict(list)
        pool_quota: list[IntVar] = []
        pool_fair: list[IntVar] = []
        by_claim_team: dict[int, list[IntVar]] = defaultdict(list)
        for (team, claim_team, priority, above_quota, above_fair), amounts in given.items():
            most = sum(amount for amount, _ in amounts)
            to_own = model.new_int_var(0, most, f"own {team}.{priority}")
            to_pool = model.new_int_var(0, most if above_quota else 0, f"pool {team}.{priority}")
            model.add(to_own + to_pool <= total([gpus for _, gpus in amounts]))
            supply_own[team].append((priority, to_own))
            if above_quota:
                (pool_fair if above_fair else pool_quota).append(to_pool)
                by_claim_team[claim_team].append(to_pool)
        from_free: list[Linear] = []
        use_fair: list[Linear] = []
        use_quota: list[Linear] = []
        for (team, claim_team, priority, above), sizes in takers.items():
            most = sum(amount for amount, _ in sizes)
            y_free = model.new_int_var(0, most, f"free {team}.{priority}")
            t_own = model.new_int_var(0, most, f"from own {team}.{priority}")
            p_quota = model.new_int_var(0, most, f"by quota {team}.{priority}")
            p_fair = model.new_int_var(0, most, f"by share {team}.{priority}")
            model.add(total([gpus for _, gpus in sizes]) <= y_free + t_own + p_quota + p_fair)
            from_free.append(y_free)
            own[team].append((priority, t_own))
            key = (len(problem.priorities) if above else 0) + priority
            self._claim(p_quota, claim_team, key, quota=True)
            self._claim(p_fair, claim_team, key, quota=False)
            use_quota.append(p_quota)
            use_fair.append(p_fair)
        # What moves leave is served to others, what they take displaces nobody: only changes of type count.
        model.add(total(from_free) <= free + self.coarse.left_by_type_changes(y))
        model.add(total(use_fair) <= total(list(pool_fair)))
        model.add(total(use_fair + use_quota) <= total(list(pool_fair)) + total(list(pool_quota)))
        for team, parts in own.items():
            for threshold in sorted({priority for priority, _ in parts}):
                less_urgent: list[Linear] = [t for priority, t in parts if priority >= threshold]
                lower: list[Linear] = [a for priority, a in supply_own[team] if priority > threshold]
                model.add(total(less_urgent) <= total(lower))
        self._floors(by_claim_team)

    def _claim(self, amount: IntVar, team: int, key: int, *, quota: bool) -> None:
        from optsched.values.profile import Reclaim

        if not quota and self.problem.profile.reclaim is not Reclaim.FAIR_SHARE:
            self.model.add(amount == 0)
            return
        literal = self.coarse.claims.literal(team, key, quota=quota, entitlement=not quota)
        if literal is False:
            self.model.add(amount == 0)
        elif literal is not True:
            self.model.add(amount == 0).only_enforce_if(~literal)

    def _takers(self, y: int) -> dict[tuple[int, int, int, bool], list[tuple[int, Linear]]]:
        """Return what groups of takers want of one type, as (most, GPUs); jobs whose rights or type are open are left out."""
        takers: dict[tuple[int, int, int, bool], list[tuple[int, Linear]]] = defaultdict(list)
        for gang in self.decisions.starts.values():
            job = gang.job
            if list(gang.types) != [y] or job.emergency or job.due:
                continue
            # Above its minimum a job needs the stronger claim; in the sums it is held to the weaker one.
            takers[job.team, job.claim_team, job.priority, False].append((job.minimum, job.minimum * gang.active))
        return takers

    def _given(self, y: int) -> dict[tuple[int, int, int, bool, bool], list[tuple[int, Linear]]]:
        """Return what stops and shrinks give up of one type, by team, priority and what lies above which line."""
        problem = self.problem
        given: dict[tuple[int, int, int, bool, bool], list[tuple[int, Linear]]] = defaultdict(list)
        for j, stop in self.decisions.stops.items():
            job, takeable = problem.jobs[j], problem.takeable[j]
            if gpu_type_of(problem, job.spread_now) == y:
                above = takeable.above_quota[0]
                key = (job.team, job.claim_team, job.priority, above, above and takeable.above_entitlement[0])
                given[key].append((job.size_now, job.size_now * stop))
        for j in self.decisions.resizes:
            job, takeable = problem.jobs[j], problem.takeable[j]
            if gpu_type_of(problem, job.spread_now) == y:
                above = takeable.above_quota[1]
                key = (job.team, job.claim_team, job.priority, above, above and takeable.above_entitlement[1])
                given[key].append((job.size_now, self.coarse.lost[j]))
        return given

    def _floors(self, by_claim_team: dict[int, list[IntVar]]) -> None:
        """Other teams take no more of a team than it has above its quota (of any type)."""
        problem = self.problem
        for team, pools in by_claim_team.items():
            for item in problem.lines.quota[team]:
                if item.what is What.GPUS and item.gpu_type is None:
                    ran = sum(job.size_now for job in problem.running if job.claim_team == team)
                    self.model.add(total(list(pools)) <= ran - min(item.amount, ran))


__all__ = ["Change", "CoarseModel"]
