"""What admission must keep but for rights: room by type and piece size, ceilings, the stop limit, payment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial

import numpy as np

from optsched.rounds.problem import UNLIMITED, Flags, Ints, Item, RoundJob, What
from optsched.rounds.score import gpu_type_of
from optsched.solve.cpsat.groups import Groups, Part
from optsched.solve.cpsat.linear import Sum, at_most


def uses(part: Part, *, item: Item) -> int:
    """Return what one unit of a part uses of one named resource."""
    if item.what is What.GPUS:
        return part.gpus if item.gpu_type in (None, part.gpu_type) else 0
    return part.gpus * (part.cpus_per_gpu_u if item.what is What.CPUS else part.memory_per_gpu_u)


def sum_parts(parts: list[Part], amount: Callable[[Part], int]) -> Sum:
    """Return the sum of parts, each unit of one counted by `amount`."""
    result = Sum()
    for part in parts:
        each = amount(part)
        if part.variable is None:
            result.add_constant(each)
        else:
            result.add(part.variable, each, part.most)
    return result


def add_room(groups: Groups) -> None:
    """Add that what runs after the plan fits, type by type: in GPUs, and in pieces of at least g for every size g."""
    problem, nodes = groups.problem, groups.problem.nodes
    stays: _Stays | None = None
    for y in range(len(problem.gpu_types)):
        here = nodes.taking & (nodes.gpu_type == y)
        _add_balance(groups, y)
        pieces = {group.piece for group in groups.starts if y in group.by_type} - {1}
        if pieces:
            stays = stays or _Stays(groups)
            slots = _Slots(groups, y, here, stays)
            for g in sorted(pieces):
                slots.add(g)


class _Stays:
    """What running jobs leave for others: `room` (N,) without those who cannot go.

    Nor with those who are inside their quota, for other teams: what they leave, `inside` (N,) by team, is their own
    team's, or for those that are starved. `others` go for anybody, by type those alike together.
    """

    def __init__(self, groups: Groups) -> None:
        problem = groups.problem
        could_go = groups.scope.stops | groups.scope.moves | groups.scope.resizes
        anybody = any(job.emergency or job.due for job in problem.jobs)
        self.room: Ints = problem.nodes.capacity.copy()
        self.inside: dict[int, Ints] = {}
        others: dict[int, dict[object, list[RoundJob]]] = defaultdict(dict)
        for job in problem.running:
            goes, takeable = job.index in could_go, problem.takeable[job.index]
            shrinks_for_others = job.index in groups.scope.resizes and takeable.above_quota[1]
            inside = goes and takeable.inside_quota and not anybody and not shrinks_for_others
            if goes and not inside:
                alike = others[gpu_type_of(problem, job.spread_now)]
                alike.setdefault(groups.kind_of_running(job), []).append(job)
                continue
            if inside and job.team not in self.inside:
                self.inside[job.team] = np.zeros(len(self.room), dtype=np.int64)
            for n, count in job.spread_now:
                self.room[n] -= count
                if inside:
                    self.inside[job.team][n] += count
        self.others = {y: [*alike.values()] for y, alike in others.items()}


class _Slots:
    """Room for pieces of at least g GPUs on the nodes of one type.

    A node holds at most floor(room / g) of them. A running job that stays has there what it has now, one that moves has
    its pieces somewhere; who cannot go takes its GPUs off the room, and so does who is inside its quota.
    """

    def __init__(self, groups: Groups, y: int, here: Flags, stays: _Stays) -> None:
        self.groups, self.y, self.here = groups, y, here
        self.inside, self.others = stays.inside, stays.others.get(y, [])
        self.room = np.where(here, np.maximum(stays.room, 0), 0)

    def add(self, g: int) -> None:
        """Add the rule for one size."""
        wanted = Sum()
        own: dict[int, Sum] = defaultdict(Sum)
        starved = Sum()
        for group in self.groups.starts:
            if self.y in group.by_type and group.piece >= g:
                pieces = group.first.minimum // group.piece * (group.piece // g)
                mine = (own[group.first.team], starved) if group.first.starved else (own[group.first.team],)
                for amount in (wanted, *mine):
                    amount.add(group.by_type[self.y], pieces, len(group.jobs))
        for jobs in self.others:
            own[jobs[0].team].add_constant(self._add_kept(jobs, g, wanted))
        teams = sum((inside > 0 for inside in self.inside.values()), np.zeros(len(self.room), dtype=np.int64))
        for team, inside in self.inside.items():
            # Where several teams leave room, a few GPUs of each may add up to a slot of either.
            alone = (self.room + inside) // g - self.room // g
            most = int(np.where(self.here, np.where(teams > 1, -(-inside // g), alone), 0).sum())
            if most and own[team].most + starved.most:
                by_own = self.groups.model.new_int_var(0, most, "")
                self.groups.model.add(by_own <= own[team].linear + starved.linear)
                wanted.add(by_own, -1, most)
        at_most(self.groups.model, wanted, int((self.room // g).sum()))

    def _add_kept(self, jobs: list[RoundJob], g: int, wanted: Sum) -> int:
        """Add the pieces that running jobs alike have for sure unless they stop; returns how many they may have."""
        groups, job = self.groups, jobs[0]
        held, piece = sum(count // g for n, count in job.spread_now if self.here[n]), groups.piece(job)
        most = max(held, job.size_now // piece * (piece // g))
        elsewhere = any(not self.here[n] for n, _ in job.spread_now)
        if held and job.index in groups.scope.resizes:
            held = 0 if elsewhere else min(held, job.minimum // piece * (piece // g))
        if held and job.index in groups.scope.moves:
            away = elsewhere or bool(groups.targets(job))
            held = 0 if away else min(held, job.size_now // piece * (piece // g))
        if held:
            wanted.add_constant(held * len(jobs))
            stops = groups.stop_of.get(job.index)
            if stops is not None:
                wanted.add(stops.count, -held, len(stops.jobs))
        return most * len(jobs)


def _add_balance(groups: Groups, y: int) -> None:
    """What starts and grows of one type fits in what is free and what is given up."""
    wanted = taken(groups, y)
    for stops in groups.stops:
        if stops.gpu_type == y:
            wanted.add(stops.count, -stops.open_gpus, len(stops.jobs))
    for resize in groups.resizes:
        if resize.gpu_type == y:
            wanted.add(resize.lost, -resize.step, resize.most_lost)
    at_most(groups.model, wanted, groups.free(y))


def taken(groups: Groups, y: int) -> Sum:
    """Return the GPUs of one type that starts, growth and moves to the type take, less what moves leave to another."""
    wanted = Sum()
    for group in groups.starts:
        if y in group.by_type:
            wanted.add(group.by_type[y], group.first.minimum, len(group.jobs))
            if group.extra is not None:
                wanted.add(group.extra[y][0], group.step, group.extra[y][1])
    for resize in groups.resizes:
        if resize.gpu_type == y:
            wanted.add(resize.gained, resize.step, resize.most_gained)
    add_retyped(groups, y, wanted)
    return wanted


def add_retyped(groups: Groups, y: int, wanted: Sum) -> None:
    """Add what moves to other types take of type y, less what they leave of it."""
    for retyping in groups.retypings:
        for target, variable in retyping.to.items():
            if target == y:
                wanted.add(variable, retyping.first.size_now, len(retyping.jobs))
            elif retyping.home == y:
                wanted.add(variable, -groups.open_gpus(retyping.first), len(retyping.jobs))


def add_ceilings(groups: Groups) -> None:
    """Rules 8 and 9: what is held after is within every ceiling, or nothing that it counts starts or grows."""
    model = groups.model
    retyped = {id(variable) for retyping in groups.retypings for variable in retyping.to.values()}
    for index, parts in groups.under.items():
        item = groups.problem.ceilings[index].item
        held = sum_parts(parts, partial(uses, item=item))
        if held.most <= item.amount:
            continue
        openings = [p for p in parts if p.variable is not None and p.gpus > 0 and id(p.variable) not in retyped]
        moved = any(id(part.variable) in retyped for part in parts)
        if held.constant <= item.amount and not moved:
            model.add(held.linear <= item.amount)
            continue
        more = model.new_bool_var(f"more under {index}")
        for part in openings:
            model.add(part.variable <= part.most * more)
        model.add(held.linear <= item.amount).only_enforce_if(more)


def add_stop_limit(groups: Groups) -> None:
    """Rule 10: stopped GPUs stay within the cluster's limit."""
    stopped = Sum()
    for stops in groups.stops:
        stopped.add(stops.count, stops.first.size_now, len(stops.jobs))
    if groups.problem.max_stopped_gpus < UNLIMITED:
        at_most(groups.model, stopped, groups.problem.max_stopped_gpus)


def add_payment(groups: Groups) -> None:
    """Rule 15 in one sum: what stopped jobs lose is at most what all starts are worth."""
    if groups.problem.profile.max_loss_ratio is None:
        return
    lost = Sum()
    for stops in groups.stops:
        lost.add(stops.count, min(job.costs.stop for job in stops.jobs), len(stops.jobs))
    at_stake = lost.most
    for group in groups.starts:
        pays = max(job.pays_gpu_s for job in group.jobs)
        if pays >= UNLIMITED:
            return
        lost.add(group.count, -min(pays, at_stake), len(group.jobs))
    at_most(groups.model, lost, 0)
