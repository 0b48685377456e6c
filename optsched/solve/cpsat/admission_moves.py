"""What moves and waits cost at least.

Pieces that start need room together on nodes, and what is free lies scattered; who takes more than is free waits for
checkpoints.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from ortools.sat.python.cp_model import IntVar

from optsched.rounds.problem import Flags, Ints
from optsched.rounds.score import gpu_type_of
from optsched.solve.cpsat.admission_rules import taken
from optsched.solve.cpsat.groups import Groups, Starts
from optsched.solve.cpsat.linear import Sum, at_most, concave


def moves_bill(groups: Groups) -> Sum:
    """Return what the moves that starts need add to the least bill."""
    result, running = Sum(), groups.problem.running
    if not groups.scope.moves:
        return result
    each = np.array([max(0, groups.move_cost(job)) if job.index in groups.scope.moves else 0 for job in running])
    costs = each // np.maximum(1, np.array([job.size_now for job in running]))
    for y in range(len(groups.problem.gpu_types)):
        pieces = {group.piece for group in groups.starts if y in group.by_type} - {1}
        if pieces:
            moves = _Moves(groups, y, costs, int(each.sum()))
            for g in sorted(pieces):
                moves.add(g)
            result.add(moves.cost, 1, moves.most)
    return result


def waits_bill(groups: Groups) -> Sum:
    """Return what waiting for the checkpoints of those who stop or shrink adds to the least bill.

    Each taker waits with all its GPUs, so at least with those that it has of each of them.
    """
    result = Sum()
    for y in range(len(groups.problem.gpu_types)):
        supply: dict[int, Sum] = defaultdict(Sum)
        for stops in groups.stops:
            if stops.gpu_type == y:
                wait_s = min(job.costs.drain_s for job in stops.jobs)
                supply[wait_s].add(stops.count, stops.open_gpus, len(stops.jobs))
        for resize in groups.resizes:
            if resize.gpu_type == y:
                supply[resize.job.costs.drain_s].add(resize.lost, resize.step, resize.most_lost)
        if any(wait_s and amount.most for wait_s, amount in supply.items()):
            short = taken(groups, y)
            for wait_s, amount in sorted(supply.items()):
                used = groups.model.new_int_var(0, amount.most, "")
                groups.model.add(used <= amount.linear)
                short.add(used, -1, amount.most)
                result.add(used, wait_s, amount.most)
            at_most(groups.model, short, groups.free(y))
    return result


class _Moves:
    """Moves on the nodes of one GPU type: `cost` is what they cost at least, `most` what it could come to.

    `costs` (F,) are what the move of each running job costs by GPU, rounded down.
    """

    def __init__(self, groups: Groups, y: int, costs: Ints, most: int) -> None:
        self.groups, self.y = groups, y
        nodes = groups.problem.nodes
        self.here: Flags = nodes.taking & (nodes.gpu_type == y)
        self.costs, self.most = costs, most
        self.cost: IntVar = groups.model.new_int_var(0, self.most, "")
        self.left = self._left()

    def _left(self) -> Sum:
        """Return what stops and shrinks leave on the type at most."""
        groups, left = self.groups, Sum()
        for stops in groups.stops:
            if stops.gpu_type == self.y:
                left.add(stops.count, stops.open_gpus, len(stops.jobs))
        for resize in groups.resizes:
            if resize.gpu_type == self.y:
                left.add(resize.lost, resize.step, resize.most_lost)
        for j in groups.scope.stops | groups.scope.resizes:
            spread = groups.problem.jobs[j].spread_now
            if gpu_type_of(groups.problem, spread) != self.y:
                left.add_constant(sum(count for n, count in spread if self.here[n]))
        return left

    def add(self, g: int) -> None:
        """Add, for pieces of at least g GPUs: of what is free they have what lies together, the rest is left by others.

        On a node with f free GPUs s slots of g have at most min(f, s * g) of them.
        """
        model, nodes = self.groups.model, self.groups.problem.nodes
        short, slots = Sum(), Sum()
        members = [group for group in self.groups.starts if self.y in group.by_type and group.piece >= g]
        for group in members:
            count = group.first.minimum // group.piece * (group.piece // g)
            short.add(group.by_type[self.y], count * g, len(group.jobs))
            slots.add(group.by_type[self.y], count, len(group.jobs))
        room, costs = self._room_and_costs(members, g)
        moved = model.new_int_var(0, len(costs), "")
        for slope, rest in concave(np.minimum(nodes.free, room), room, g, slots.most):
            model.add(short.linear <= slope * slots.linear + rest + self.left.linear + moved)
        # The cheapest move first: convex in the GPUs that are left.
        through = np.cumsum(costs) - costs
        for k in np.flatnonzero(np.diff(costs, prepend=0)).tolist():
            each = int(costs[k])
            model.add(self.cost >= each * moved + int(through[k]) - each * k)

    def _room_and_costs(self, members: list[Starts], g: int) -> tuple[Ints, Ints]:
        """Return the room of the nodes where a slot of g could be, (N,), and what its movers cost by GPU, ascending."""
        pairs = self.groups.problem.occupancy
        room: Ints = np.zeros(len(self.here), dtype=np.int64)
        serves = np.zeros(len(pairs.pair_job), dtype=bool)
        kinds = {(self.groups.reach.kind(group.first), id(group.first.nodes)): group.first for group in members}
        for first in kinds.values():
            reached = self.groups.reach.room(first)
            there = self.here & first.nodes & (reached >= g)
            room = np.maximum(room, np.where(there, reached, 0))
            serves |= self.groups.reach.givers(first)[1][pairs.pair_job] & there[pairs.pair_node]
        costs = np.repeat(self.costs[pairs.pair_job[serves]], pairs.pair_gpus[serves])
        return room, np.sort(costs)
