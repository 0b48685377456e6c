"""What admission must keep: room by type and piece size, ceilings, rights in sums, floors, the stop limit, payment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial

import numpy as np
from ortools.sat.python.cp_model import CpModel, IntVar

from optsched.rounds.problem import UNLIMITED, Flags, Ints, Item, RoundJob, What
from optsched.rounds.score import gpu_type_of
from optsched.solve.cpsat.groups import Groups, Part, Starts
from optsched.solve.cpsat.linear import Sum, at_most, sum_of
from optsched.values.profile import Reclaim


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
    """Add that what runs after the plan fits, type by type: in GPUs, and in pieces of at least g GPUs for every size g."""
    problem, nodes = groups.problem, groups.problem.nodes
    for y in range(len(problem.gpu_types)):
        here = nodes.taking & (nodes.gpu_type == y)
        _add_balance(groups, y, int(nodes.free[here].sum()))
        pieces = {group.piece for group in groups.starts if list(group.by_type) == [y]} - {1}
        if pieces:
            slots = _Slots(groups, y, here)
            for g in sorted(pieces):
                slots.add(g)


class _Slots:
    """Room for pieces of at least g GPUs on the nodes of one type.

    A node holds at most floor(room / g) of them. A running job that stays has there what it has now, one that moves has
    its pieces somewhere; who cannot go takes its GPUs off the room. So does who is inside its quota, for other teams: what
    it leaves is its own team's.
    """

    def __init__(self, groups: Groups, y: int, here: Flags) -> None:
        self.groups, self.y, self.here = groups, y, here
        problem = groups.problem
        could_go = groups.scope.stops | groups.scope.moves | groups.scope.resizes
        anybody = any(job.emergency or job.due for job in problem.jobs)
        self.room: Ints = problem.nodes.capacity.copy()
        self.inside: dict[int, Ints] = {}
        self.others: list[RoundJob] = []
        for job in problem.running:
            goes, takeable = job.index in could_go, problem.takeable[job.index]
            shrinks_for_others = job.index in groups.scope.resizes and takeable.above_quota[1]
            inside = goes and takeable.inside_quota and not anybody and not shrinks_for_others
            if goes and not inside:
                if gpu_type_of(problem, job.spread_now) == y:
                    self.others.append(job)
                continue
            for n, count in job.spread_now:
                self.room[n] -= count
                if inside:
                    team = self.inside.setdefault(job.team, np.zeros(len(self.room), dtype=np.int64))
                    team[n] += count
        self.room = np.where(here, np.maximum(self.room, 0), 0)

    def add(self, g: int) -> None:
        """Add the rule for one size."""
        wanted = Sum()
        own: dict[int, Sum] = defaultdict(Sum)
        for group in self.groups.starts:
            if list(group.by_type) == [self.y] and group.piece >= g:
                pieces = group.first.minimum // group.piece * (group.piece // g)
                for amount in (wanted, own[group.first.team]):
                    amount.add(group.count, pieces, len(group.jobs))
        for job in self.others:
            own[job.team].add_constant(self._add_kept(job, g, wanted))
        teams = sum((inside > 0 for inside in self.inside.values()), np.zeros(len(self.room), dtype=np.int64))
        for team, inside in self.inside.items():
            # Where several teams leave room, a few GPUs of each may add up to a slot of either.
            alone = (self.room + inside) // g - self.room // g
            most = int(np.where(self.here, np.where(teams > 1, -(-inside // g), alone), 0).sum())
            if most and own[team].most:
                by_own = self.groups.model.new_int_var(0, most, "")
                self.groups.model.add(by_own <= own[team].linear)
                wanted.add(by_own, -1, most)
        at_most(self.groups.model, wanted, int((self.room // g).sum()))

    def _add_kept(self, job: RoundJob, g: int, wanted: Sum) -> int:
        """Add the pieces that a running job has for sure unless it stops; returns how many it may have."""
        groups, held = self.groups, sum(count // g for n, count in job.spread_now if self.here[n])
        piece = groups.piece(job)
        most = max(held, job.size_now // piece * (piece // g))
        elsewhere = any(not self.here[n] for n, _ in job.spread_now)
        if held and job.index in groups.scope.resizes:
            held = 0 if elsewhere else min(held, job.minimum // piece * (piece // g))
        if held and job.index in groups.scope.moves:
            away = elsewhere or sum(speed > 0 for speed in job.type_speed) > 1
            held = 0 if away else min(held, job.size_now // piece * (piece // g))
        if held:
            wanted.add_constant(held)
            stops = groups.stop_of.get(job.index)
            # Jobs of one group hold alike: the first counts for all.
            if stops is not None and stops.first is job:
                wanted.add(stops.count, -held, len(stops.jobs))
        return most


def _add_balance(groups: Groups, y: int, free: int) -> None:
    """What starts and grows of one type fits in what is free and what is given up."""
    wanted = Sum()
    for group in groups.starts:
        if y in group.by_type:
            wanted.add(group.by_type[y], group.first.minimum, len(group.jobs))
            if group.extra is not None:
                wanted.add(group.extra[y][0], group.step, group.extra[y][1])
    for stops in groups.stops:
        if stops.gpu_type == y:
            wanted.add(stops.count, -stops.open_gpus, len(stops.jobs))
    for resize in groups.resizes:
        if resize.gpu_type == y:
            wanted.add(resize.lost, -resize.step, resize.most_lost)
            wanted.add(resize.gained, resize.step, resize.most_gained)
    _add_retyped(groups, y, wanted)
    at_most(groups.model, wanted, free)


def _add_retyped(groups: Groups, y: int, wanted: Sum) -> None:
    """Add what moves to other types take of type y, less what they leave of it."""
    for retyping in groups.retypings:
        for target, variable in retyping.to.items():
            if target == y:
                wanted.add(variable, retyping.job.size_now, 1)
            elif retyping.home == y:
                wanted.add(variable, -groups.open_gpus(retyping.job), 1)


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
    for group in groups.starts:
        pays = max(job.pays_gpu_s for job in group.jobs)
        if pays >= UNLIMITED:
            return
        lost.add(group.count, -pays, len(group.jobs))
    at_most(groups.model, lost, 0)


class Claims:
    """Literals that a team is inside a line up to a key; each only has to hold where a right rests on it."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._known: dict[tuple[int, int, bool], IntVar | bool] = {}

    def inside(self, team: int, key: int, *, quota: bool) -> IntVar | bool:
        """Return the literal, or what is known of it without one."""
        found = self._known.get((team, key, quota))
        if found is None:
            found = self._known[team, key, quota] = self._literal(team, key, quota=quota)
        return found

    def _literal(self, team: int, key: int, *, quota: bool) -> IntVar | bool:
        groups, lines = self._groups, self._groups.problem.lines
        line = (lines.quota if quota else lines.entitlement)[team]
        if not line or (not quota and groups.problem.profile.reclaim is not Reclaim.FAIR_SHARE):
            return False
        parts = [part for part in groups.claim[team] if part.key <= key]
        sums = [(item.amount, sum_parts(parts, partial(uses, item=item))) for item in line]
        if any(used.least > amount for amount, used in sums):
            return False
        open_sums = [(amount, used) for amount, used in sums if used.most > amount]
        if not open_sums:
            return True
        literal = groups.model.new_bool_var(f"inside {team}.{key}.{quota}")
        for amount, used in open_sums:
            groups.model.add(used.linear <= amount).only_enforce_if(literal)
        return literal


class Rights:
    """Rule 11 in sums of teams and of the cluster, for one GPU type: who is served from what others give up."""

    def __init__(self, groups: Groups, claims: Claims, y: int) -> None:
        self.groups, self.claims, self.y = groups, claims, y
        self.model: CpModel = groups.model
        self.own: dict[int, list[tuple[int, IntVar, int]]] = defaultdict(list)
        self.supply_own: dict[int, list[tuple[int, IntVar, int]]] = defaultdict(list)
        self.pool_quota, self.pool_fair = Sum(), Sum()
        self.reclaimed: dict[int, Sum] = defaultdict(Sum)
        self.sources: dict[tuple[int, int, int], tuple[Sum, Sum, Sum]] = {}
        self.for_growth = Sum()

    def add(self) -> None:
        """Add them."""
        problem, y = self.groups.problem, self.y
        self._add_givers()
        free = problem.nodes.taking & (problem.nodes.gpu_type == y)
        from_free, use_quota, use_fair = Sum(), Sum(), Sum()
        takers: dict[tuple[int, int, int], list[Starts]] = defaultdict(list)
        for group in self.groups.starts:
            job = group.first
            if list(group.by_type) == [y] and not job.emergency and not job.due:
                takers[job.team, job.claim_team, job.priority].append(group)
        for (team, claim_team, priority), members in takers.items():
            served, wanted = Sum(), Sum()
            for group in members:
                wanted.add(group.count, group.first.minimum, len(group.jobs))
            mine, others, free_part = Sum(), Sum(), Sum()
            self._serve(served, wanted.most, [from_free, free_part])
            self.own[team].append((priority, self._serve(served, wanted.most, [mine]), wanted.most))
            self.sources[team, claim_team, priority] = free_part, mine, others
            for quota, pool in ((True, use_quota), (False, use_fair)):
                claim = self.claims.inside(claim_team, priority, quota=quota)
                if claim is not False:
                    part = self._serve(served, wanted.most, [pool, others])
                    if claim is not True:
                        self.model.add(part <= wanted.most * claim)
            self.model.add(wanted.linear <= served.linear)
            for g in sorted({group.piece for group in members} - {1}):
                self._add_pieces(members, g, mine, others)
        self._add_growth(from_free)
        _add_retyped(self.groups, y, from_free)
        at_most(self.model, from_free, int(problem.nodes.free[free].sum()))
        self._within(use_fair, self.pool_fair)
        self._within(sum_of([use_fair, use_quota]), sum_of([self.pool_fair, self.pool_quota]))
        for team, parts in self.own.items():
            self._nested(parts, self.supply_own[team])

    def _add_pieces(self, members: list[Starts], g: int, mine: Sum, others: Sum) -> None:
        """Pieces of at least g GPUs use at most so much of what victims leave: it must lie together on nodes.

        On a node whose victims have v GPUs, s pieces use at most min(v, s * g) of them. The pieces that can use most
        come first: a concave curve.
        """
        pieces, rest = Sum(), Sum()
        for group in members:
            slots = group.first.minimum // group.piece * (group.piece // g)
            pieces.add(group.count, slots, len(group.jobs))
            rest.add(group.count, group.first.minimum - slots * g, len(group.jobs))
        # The smaller of a team may be inside its quota where the larger are not.
        kinds = list({self.groups.reach.kind(group.first): group.first for group in members}.values())
        most = np.max([self.groups.reach.room(job) for job in kinds], axis=0)
        room = np.where(self.groups.problem.nodes.gpu_type == self.y, most, 0)
        at_most(self.model, pieces, int((room // g).sum()))
        for own, foreign, used in ((True, False, mine), (False, True, others), (True, True, sum_of([mine, others]))):
            if used.variables:
                supply = np.max([self._supply(job, own=own, foreign=foreign) for job in kinds], axis=0)
                self._add_curve(g, pieces, rest, used, supply, room)

    def _add_curve(self, g: int, pieces: Sum, rest: Sum, used: Sum, supply: Ints, room: Ints) -> None:
        """Add used <= rest + the most that so many slots of g GPUs can use of the supply by node."""
        shares = [
            np.minimum(np.maximum(supply - (s - 1) * g, 0), g)[room >= s * g]
            for s in range(1, int(room.max(initial=0)) // g + 1)
        ]
        # Where the nodes end, nothing more can be used.
        ordered = np.append(-np.sort(-np.concatenate([np.zeros(0, dtype=np.int64), *shares])), 0)
        through = np.cumsum(ordered) - ordered
        for k in np.flatnonzero(np.diff(ordered, prepend=-1)).tolist():
            slope = int(ordered[k])
            if slope < g and k <= pieces.most:
                self.model.add(used.linear <= rest.linear + slope * pieces.linear + int(through[k]) - slope * k)

    def _supply(self, job: RoundJob, *, own: bool, foreign: bool) -> Ints:
        """Return the GPUs by node that those leave over whom the job may have a right, of its team or of others, (N,)."""
        problem, key = self.groups.problem, (*self.groups.reach.kind(job), own, foreign)
        if key not in self.groups.supplies:
            stopped, _ = self.groups.reach.givers(job)
            pairs = problem.occupancy
            gives = stopped | self.groups.shrinkable
            if own != foreign:
                gives &= (self.groups.team == job.team) == own
            here = gives[pairs.pair_job]
            count = len(problem.nodes.capacity)
            found = np.bincount(pairs.pair_node[here], pairs.pair_gpus[here], count).astype(np.int64)
            self.groups.supplies[key] = found
        return self.groups.supplies[key]

    def _serve(self, served: Sum, most: int, pools: list[Sum]) -> IntVar:
        """Add a variable for what serves a taker from one source."""
        part = self.model.new_int_var(0, most, "")
        for each in (served, *pools):
            each.add(part, 1, most)
        return part

    def _within(self, used: Sum, pool: Sum) -> None:
        if used.variables:
            self.model.add(used.linear <= pool.linear)

    def _add_givers(self) -> None:
        """Add what stops and shrinks give up, to the own team, to the pools of other teams, to growth.

        A job from which another team takes anything counts as taken whole (rule 14).
        """
        problem, y = self.groups.problem, self.y
        given: dict[tuple[int, int], Sum] = defaultdict(Sum)
        for stops in self.groups.stops:
            if stops.gpu_type == y:
                first, most = stops.first, stops.open_gpus * len(stops.jobs)
                given[first.team, first.priority].add(stops.count, stops.open_gpus, len(stops.jobs))
                takeable = problem.takeable[first.index]
                if takeable.above_quota[0]:
                    taken = stops.taken = self.model.new_int_var(0, len(stops.jobs), "")
                    self.model.add(taken <= stops.count)
                    self.reclaimed[first.claim_team].add(taken, first.size_now, len(stops.jobs))
                    to_pool = self._to_pool(first, most, fair=takeable.above_entitlement[0])
                    self.model.add(to_pool <= stops.open_gpus * taken)
                    given[first.team, first.priority].add(to_pool, -1, most)
        for resize in self.groups.resizes:
            if resize.gpu_type == y and resize.most_lost:
                job, most = resize.job, resize.step * resize.most_lost
                rest = given[job.team, job.priority]
                rest.add(resize.lost, resize.step, resize.most_lost)
                rest.add(self._serve(self.for_growth, most, []), -1, most)
                takeable = problem.takeable[job.index]
                if takeable.above_quota[1]:
                    to_pool = resize.taken = self._to_pool(job, most, fair=takeable.above_entitlement[1])
                    self.model.add(to_pool <= resize.step * resize.lost)
                    # What others take anything of counts whole.
                    touched = self.model.new_bool_var("")
                    whole = self._serve(self.reclaimed[job.claim_team], most, [])
                    self.model.add(to_pool <= most * touched)
                    self.model.add(whole >= resize.step * resize.lost - most + most * touched)
                    rest.add(to_pool, -1, most)
        for (team, priority), amount in given.items():
            to_own = self.model.new_int_var(0, amount.most, "")
            self.model.add(to_own <= amount.linear)
            self.supply_own[team].append((priority, to_own, amount.most))

    def _to_pool(self, job: RoundJob, most: int, *, fair: bool) -> IntVar:
        """Add a variable for what other teams take of a job's GPUs."""
        to_pool = self.model.new_int_var(0, most, "")
        (self.pool_fair if fair else self.pool_quota).add(to_pool, 1, most)
        return to_pool

    def _add_growth(self, from_free: Sum) -> None:
        """Growth and starts above a minimum are served by what is free and by shrinks."""
        growth = Sum()
        for resize in self.groups.resizes:
            if resize.gpu_type == self.y:
                growth.add(resize.gained, resize.step, resize.most_gained)
        for group in self.groups.starts:
            if group.extra is not None and list(group.by_type) == [self.y]:
                growth.add(group.extra[self.y][0], group.step, group.extra[self.y][1])
        if growth.variables:
            served = sum_of([self.for_growth])
            self._serve(served, growth.most, [from_free])
            self.model.add(growth.linear <= served.linear)

    def _nested(self, takers: list[tuple[int, IntVar, int]], givers: list[tuple[int, IntVar, int]]) -> None:
        """Inside a team only the more urgent take, from the less urgent: Hall's condition over nested sets."""
        for threshold in sorted({priority for priority, _, _ in takers}):
            less_urgent, lower = Sum(), Sum()
            for priority, variable, most in takers:
                if priority >= threshold:
                    less_urgent.add(variable, 1, most)
            for priority, variable, most in givers:
                if priority > threshold:
                    lower.add(variable, 1, most)
            self._within(less_urgent, lower)


def add_rights(groups: Groups, claims: Claims) -> list[Rights]:
    """Add and return the rights of every GPU type, and the floors (rule 14): others take no more than what is above the quota."""
    pools: dict[tuple[int, int | None], Sum] = defaultdict(Sum)
    found = [Rights(groups, claims, y) for y in range(len(groups.problem.gpu_types))]
    for y, rights in enumerate(found):
        rights.add()
        for team, pool in rights.reclaimed.items():
            pools[team, None].add_all(pool)
            pools[team, y].add_all(pool)
    ran: dict[tuple[int, int | None], int] = defaultdict(int)
    for job in groups.problem.running:
        ran[job.claim_team, None] += job.size_now
        ran[job.claim_team, gpu_type_of(groups.problem, job.spread_now)] += job.size_now
    for (team, kind), pool in pools.items():
        for item in groups.problem.lines.quota[team]:
            if item.what is What.GPUS and item.gpu_type == kind:
                at_most(groups.model, pool, ran[team, kind] - min(item.amount, ran[team, kind]))
    return found
