"""Who may take from whom, in sums of teams and of the cluster: rights (rule 11) and floors (rule 14)."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial

import numpy as np
from ortools.sat.python.cp_model import CpModel, IntVar

from optsched.rounds.problem import Ints, Item, RoundJob, What
from optsched.rounds.score import gpu_type_of
from optsched.solve.cpsat.admission_rules import add_retyped, sum_parts, uses
from optsched.solve.cpsat.groups import Groups, Part, Starts
from optsched.solve.cpsat.linear import Sum, at_most, concave, sum_of
from optsched.values.profile import Reclaim


class Claims:
    """Literals that a team is inside a line up to a key; each only has to hold where a right rests on it."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._known: dict[tuple[int, int, bool], IntVar | bool] = {}
        self._slack: dict[tuple[int, int, bool], list[tuple[Item, int]]] = {}

    def inside(self, team: int, key: int, *, quota: bool) -> IntVar | bool:
        """Return the literal, or what is known of it without one."""
        found = self._known.get((team, key, quota))
        if found is None:
            found = self._known[team, key, quota] = self._literal(team, key, quota=quota)
        return found

    def most(self, members: list[Starts], y: int, *, quota: bool) -> int:
        """Return the most GPUs of a type that takers of one team and priority have, all started inside the line.

        A group of which one alone would leave the line has no part in it.
        """
        first = members[0].first
        slack = self._slack.get((first.claim_team, first.priority, quota), [])
        most = sum(group.first.minimum * self._fits(group, y, slack) for group in members)
        return min([most, *(left for item, left in slack if item.what is What.GPUS and item.gpu_type in (None, y))])

    def _fits(self, group: Starts, y: int, slack: list[tuple[Item, int]]) -> int:
        """Return how many jobs of a group there can be inside a line with so much left of its resources."""
        job, most = group.first, len(group.jobs)
        part = Part(job.priority, y, None, 1, job.minimum, job.cpus_per_gpu_u, job.memory_per_gpu_u)
        for item, left in slack:
            each = uses(part, item=item)
            if each:
                most = min(most, left // each)
        return most

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
        self._slack[team, key, quota] = [
            (item, amount - used.least) for item, (amount, used) in zip(line, sums, strict=True)
        ]
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
        self.for_growth = Sum()

    def add(self) -> None:
        """Add them."""
        y = self.y
        self._add_givers()
        from_free, use_quota, use_fair = Sum(), Sum(), Sum()
        takers: dict[tuple[int, int, int], list[Starts]] = defaultdict(list)
        for group in self.groups.starts:
            job = group.first
            if y in group.by_type and not job.emergency and not job.due:
                takers[job.team, job.claim_team, job.priority].append(group)
        for (team, claim_team, priority), members in takers.items():
            served, wanted = Sum(), Sum()
            for group in members:
                wanted.add(group.by_type[y], group.first.minimum, len(group.jobs))
            mine, others = Sum(), Sum()
            self._serve(served, wanted.most, [from_free])
            self.own[team].append((priority, self._serve(served, wanted.most, [mine]), wanted.most))
            for quota, pool in ((True, use_quota), (False, use_fair)):
                claim = self.claims.inside(claim_team, priority, quota=quota)
                most = 0 if claim is False else wanted.most
                if claim is not True and claim is not False:
                    most = self.claims.most(members, y, quota=quota)
                if most:
                    part = self._serve(served, most, [pool, others])
                    if claim is not True:
                        self.model.add(part <= most * claim)
            self.model.add(wanted.linear <= served.linear)
            for g in sorted({group.piece for group in members} - {1}):
                self._add_pieces(members, g, mine, others)
        self._add_growth(from_free)
        add_retyped(self.groups, y, from_free)
        at_most(self.model, from_free, self.groups.free(y))
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
            pieces.add(group.by_type[self.y], slots, len(group.jobs))
            rest.add(group.by_type[self.y], group.first.minimum - slots * g, len(group.jobs))
        # The smaller of a team may be inside its quota where the larger are not.
        kinds = list({self.groups.reach.kind(group.first): group.first for group in members}.values())
        most = _highest([self.groups.reach.room(job) for job in kinds])
        room = np.where(self.groups.problem.nodes.gpu_type == self.y, most, 0)
        at_most(self.model, pieces, int((room // g).sum()))
        for own, foreign, used in ((True, False, mine), (False, True, others), (True, True, sum_of([mine, others]))):
            if used.variables:
                supply = _highest([self._supply(job, own=own, foreign=foreign) for job in kinds])
                self._add_curve(g, pieces, rest, used, supply, room)

    def _add_curve(self, g: int, pieces: Sum, rest: Sum, used: Sum, supply: Ints, room: Ints) -> None:
        """Add used <= rest + the most that so many slots of g GPUs can use of the supply by node."""
        for slope, constant in concave(supply, room, g, pieces.most):
            self.model.add(used.linear <= rest.linear + slope * pieces.linear + constant)

    def _supply(self, job: RoundJob, *, own: bool, foreign: bool) -> Ints:
        """Return the GPUs by node that those leave over whom the job may have a right, its team's or others', (N,)."""
        problem, key = self.groups.problem, (*self.groups.reach.kind(job), own, foreign)
        if key not in self.groups.supplies:
            stopped, _ = self.groups.reach.givers(job)
            gives = stopped | self.groups.shrinkable
            if own != foreign:
                gives &= (self.groups.team == job.team) == own
            pairs, count = problem.occupancy, len(problem.nodes.capacity)
            here = gives[pairs.pair_job]
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
            if group.extra is not None and self.y in group.by_type:
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


def _highest(amounts: list[Ints]) -> Ints:
    """Return the largest of some amounts node by node, (N,)."""
    found: Ints = amounts[0] if len(amounts) == 1 else np.max(amounts, axis=0)
    return found


def add_rights(groups: Groups, claims: Claims) -> None:
    """Add the rights of every GPU type, and the floors (rule 14): others take what is above the quota."""
    pools: dict[tuple[int, int | None], Sum] = defaultdict(Sum)
    for y in range(len(groups.problem.gpu_types)):
        rights = Rights(groups, claims, y)
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


def add_needs(groups: Groups) -> None:
    """Add that somebody needs each stop (rule 12): another team, which counts for floors, or who meets it on a node.

    Those are starts of its own team that are more urgent, and starts that take from anybody. Comes after the rights.
    """
    anybody: list[Starts] = []
    own: dict[int, list[Starts]] = defaultdict(list)
    for group in groups.starts:
        exempt = group.first.emergency or group.first.due
        (anybody if exempt else own[group.first.team]).append(group)
    for stops in groups.stops:
        victim, count = stops.first, len(stops.jobs)
        unmet = Sum()
        unmet.add(stops.count, 1, count)
        if stops.taken is not None:
            unmet.add(stops.taken, -1, count)
        on_node: Counter[int] = Counter(n for job in stops.jobs for n, _ in job.spread_now)
        crowd = max(on_node.values(), default=0)
        for group in (*anybody, *(each for each in own[victim.team] if each.first.priority < victim.priority)):
            pieces = group.first.minimum // group.piece
            unmet.add(group.count, -min(count, crowd * pieces), len(group.jobs))
        at_most(groups.model, unmet, 0)
