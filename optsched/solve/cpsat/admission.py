"""Admission: who starts and who makes way, cluster-wide, without a word about places.

It is a relaxation, so its optimum is a bound, and it is small: jobs that are alike are counted. What makes it tight is
that running jobs may be moved: nearly everything that fits by size can be packed. Section 5 of the formulation has the
proofs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

import numpy as np
from ortools.sat.python.cp_model import CpModel, IntVar

from optsched.rounds.assignment import Assignment
from optsched.rounds.problem import Problem
from optsched.rounds.score import gpu_type_of, loss_at, size_of
from optsched.solve.cpsat.admission_moves import moves_bill, waits_bill
from optsched.solve.cpsat.admission_rights import Claims, add_needs, add_rights
from optsched.solve.cpsat.admission_rules import add_ceilings, add_payment, add_room, add_stop_limit, sum_parts
from optsched.solve.cpsat.box import Box
from optsched.solve.cpsat.decisions import Scope
from optsched.solve.cpsat.groups import Groups, Part, Resize
from optsched.solve.cpsat.linear import Sum, sum_of
from optsched.solve.cpsat.objective import Ladder, age_scale, tiers_worth
from optsched.solve.cpsat.recorded import goal_of
from optsched.solve.cpsat.relaxation import Relaxation
from optsched.solve.cpsat.terms import Linear

MANY, FAR = 250, 16
"""Of a concave sum over more jobs alike than the first number few lines are told from the second job on."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """What a solution of admission does: who starts, who stops, by how much running jobs shrink and grow.

    Of those who stop or shrink, other teams may take from `reclaimed`. `types` names the GPU type of a start that could
    have another one, and of a running job that moves to another one.
    """

    starts: frozenset[int]
    stops: frozenset[int]
    reclaimed: frozenset[int]
    shrinks: Mapping[int, int]
    grows: Mapping[int, int]
    types: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Priced:
    """Admission's model once all that follows at once is worked out, and a bill in it."""

    box: Box
    bill: Linear


class Admission:
    """The relaxation of a round without places. `ladder`, `tie` and `bill` are what its stages maximise in turn."""

    def __init__(self, problem: Problem, scope: Scope) -> None:
        self.problem = problem
        self.groups = groups = Groups(problem, scope)
        self.model = groups.model
        add_ceilings(groups)
        add_stop_limit(groups)
        add_payment(groups)
        add_rights(groups, Claims(groups))
        add_needs(groups)
        add_room(groups)
        self.facts: list[Linear] = []
        self.ladder = _ladder(groups, self.facts)
        self._tie, self._bill = self._make_tie(), self._make_bill()
        self._box = Box(self.model)
        self._relaxation: Relaxation | None = None

    def relaxation(self, *, facts: bool = False) -> Relaxation:
        """Return the linear relaxation, with no goal kept; there is one, so it is for one use after the other.

        `facts`: with what bounds need where ranks are fixed below what they could be.
        """
        if self._relaxation is None:
            self._relaxation = Relaxation(self._box)
        self._relaxation.forget()
        for fact in self.facts if facts else ():
            self._relaxation.keep(goal_of(fact), 0)
        return self._relaxation

    def unstaged(self) -> CpModel:
        """Return a copy of what is left once all that follows at once is worked out, without what its stages added."""
        return self._box.model.clone()

    @cached_property
    def full(self) -> Priced:
        """The same with a bill that counts moves and waits too: a better bound, but slower, and no better to place."""
        bill = sum_of([self._bill, moves_bill(self.groups), waits_bill(self.groups)])
        return Priced(Box(self.model), bill.linear)

    def hint(self, model: CpModel, plan: Assignment) -> None:
        """Start a search of a copy of the model from what a plan does."""
        groups = self.groups
        counts = [(group.count, sum(job.index in plan.changed for job in group.jobs)) for group in groups.starts]
        counts += [(stops.count, sum(job.index in plan.stopped for job in stops.jobs)) for stops in groups.stops]
        for resize in groups.resizes:
            job = resize.job
            gained = 0 if job.index in plan.stopped else size_of(plan.after(job)) - job.size_now
            counts += [(resize.lost, max(0, -gained) // resize.step), (resize.gained, max(0, gained) // resize.step)]
        for retyping in groups.retypings:
            moved = Counter(
                gpu_type_of(self.problem, plan.after(job)) for job in retyping.jobs if job.index in plan.changed
            )
            counts += [(variable, moved[y]) for y, variable in retyping.to.items()]
        for variable, count in counts:
            model.add_hint(model.get_int_var_from_proto_index(variable.index), count)

    def tie(self) -> Linear:
        """Return what decides between plans of equal ranks: what runs stays, then the older of the queued."""
        return self._tie

    def bill(self) -> Linear:
        """Return the least bill: stops and resizes cost what they cost, starts lose the least that they could."""
        return self._bill.linear

    def worth(self) -> Linear:
        """Return the one sum of the weighted mode, in thousandths of GPU-seconds."""
        return tiers_worth(self.problem, self.ladder, self.bill()) + self._aging()

    def _aging(self) -> Linear:
        """Return what starts are worth for having waited."""
        horizon, result = self.problem.horizon_s, Sum()
        for group in self.groups.starts:
            values = [horizon * job.aging_milli * job.minimum for job in group.jobs]
            if any(values):
                result.add_all(self._best_first(group.count, values))
        return result.linear

    def _make_tie(self) -> Linear:
        scale, result = age_scale(self.problem), Sum()
        for stops in self.groups.stops:
            result.add(stops.count, -scale * stops.first.size_now, len(stops.jobs))
        for group in self.groups.starts:
            values = [job.minimum * job.ahead_of for job in group.jobs]
            result.add_all(self._best_first(group.count, values))
        return result.linear

    def _make_bill(self) -> Sum:
        groups, result = self.groups, Sum()
        result.add_constant(sum(self.problem.loss_now))
        result.add_constant(-sum(groups.move_gain(job) for job in self.problem.running))
        for stops in groups.stops:
            costs = [-groups.stop_price(job) for job in stops.jobs]
            spent = self._best_first(stops.count, costs)
            result.add_all(_negative(spent))
        for group in groups.starts:
            for y, variable in group.by_type.items():
                result.add(variable, group.loss[y], len(group.jobs))
        for resize in groups.resizes:
            result.add_all(self._resize_bill(resize))
        return result

    def _resize_bill(self, resize: Resize) -> Sum:
        """Return what a resize adds to the bill at least: less or more is lost, by its GPUs and maybe by its span."""
        problem, job, result = self.problem, resize.job, Sum()
        spread, y = job.spread_now, resize.gpu_type
        nodes = np.array([n for n, _ in spread])
        held = np.array([count for _, count in spread])
        here = problem.tree.span_level(nodes)
        each = loss_at(problem, job, 1, here, y)
        scatter = problem.loss_now[job.index] - each * job.size_now
        result.add(resize.active, job.costs.move - scatter, 1)
        result.add(resize.lost, -each * resize.step, resize.most_lost)
        if resize.most_gained:
            # Who grows has the same span or a wider one, which may be faster.
            best = min(loss_at(problem, job, 1, span, y) for span in range(-1, here + 1))
            result.add(resize.gained, best * resize.step, resize.most_gained)
            if best < each:
                faster = self.model.new_bool_var("")
                self.model.add(faster <= resize.gained)
                result.add(faster, (best - each) * job.size_now, 1)
        narrower = []
        for level in range(here + 1, len(problem.tree.levels)):
            domain = problem.tree.domain_of[level][nodes]
            most = int(np.bincount(domain[domain >= 0], held[domain >= 0], 1).max())
            gain = each - loss_at(problem, job, 1, level, y)
            if most >= job.minimum and gain > 0:
                into = self.model.new_bool_var("")
                self.model.add(resize.step * resize.lost >= (job.size_now - most) * into)
                result.add(into, -gain * most, 1)
                narrower.append(into)
        self.model.add_at_most_one(narrower)
        return result

    def _best_first(self, count: IntVar, values: list[int]) -> Sum:
        """Return a sum that is at most the total of the `count` largest of `values`: it is concave in the count.

        It lies below the line through any two neighbours. Of many some are not told: it may be a little more there.
        """
        result, ordered = Sum(), sorted(values, reverse=True)
        if ordered[0] == ordered[-1]:
            result.add(count, ordered[0], len(values))
            return result
        through = np.cumsum([0, *ordered]).tolist()
        least, most = min(through), max(through)
        total = self.model.new_int_var(least, most, "")
        told = 0
        for k, value in enumerate(ordered):
            if k == 0 or (value != ordered[k - 1] and k >= told):
                self.model.add(total <= value * count + through[k] - value * k)
                told = k + 1 + (k // FAR if len(ordered) > MANY else 0)
        return Sum(0, [total], [1], least, most)

    def decode(self, value: Callable[[Linear], int]) -> Admitted:
        """Return what a solution does: of jobs alike the oldest start and the cheapest stop."""
        groups = self.groups
        return Admitted(
            starts=frozenset(job.index for group in groups.starts for job in group.jobs[: value(group.count)]),
            stops=frozenset(job.index for stops in groups.stops for job in stops.jobs[: value(stops.count)]),
            reclaimed=frozenset(
                job.index
                for stops in groups.stops
                if stops.taken is not None
                for job in stops.jobs[: value(stops.taken)]
            )
            | {r.job.index for r in groups.resizes if r.taken is not None and value(r.taken)},
            shrinks={r.job.index: lost * r.step for r in groups.resizes if (lost := value(r.lost))},
            grows={r.job.index: gained * r.step for r in groups.resizes if (gained := value(r.gained))},
            types=self._types(value),
        )

    def _types(self, value: Callable[[Linear], int]) -> dict[int, int]:
        """Return the GPU types that a solution gives to those who could have another; of jobs alike any has any."""
        found: dict[int, int] = {}
        for retyping in self.groups.retypings:
            # The cheapest to stop are those who stop.
            staying = iter(retyping.jobs[0 if retyping.stops is None else value(retyping.stops.count) :])
            for y, variable in retyping.to.items():
                found.update({job.index: y for job in islice(staying, value(variable))})
        for group in self.groups.starts:
            if len(group.by_type) > 1:
                starting = iter(group.jobs[: value(group.count)])
                for y, variable in group.by_type.items():
                    found.update({job.index: y for job in islice(starting, value(variable))})
        return found


def _negative(amount: Sum) -> Sum:
    return Sum(-amount.constant, amount.variables, [-f for f in amount.factors], -amount.most, -amount.least)


def _ladder(groups: Groups, facts: list[Linear]) -> Ladder:
    """Return the tier sums along the keys; where nobody has a part, a key's sums are those of the key before."""
    problem = groups.problem
    keys = 2 * len(problem.priorities)
    by_key: dict[int, dict[int, list[Part]]] = defaultdict(lambda: defaultdict(list))
    for team, parts in groups.line.items():
        for part in parts:
            by_key[part.key][team].append(part)
    lines = {team: _Line(groups, team, facts) for team in groups.line}
    through: list[list[Linear]] = [[], [], [], []]
    now: list[Linear] = [0, 0, 0, 0]
    for key in range(keys):
        if key in by_key:
            for team, parts in by_key[key].items():
                lines[team].add(parts)
            now = [sum_of(line.tiers[tier] for line in lines.values()).linear for tier in range(4)]
        for tier, amount in enumerate(now):
            through[tier].append(amount)
    return Ladder(tuple(tuple(along) for along in through))


class _Line:
    """One team's line after the plan, key by key; `tiers` are its sums (deadline, guaranteed, and fair, all).

    Their variables may lie below what they stand for. `facts` collects what narrows that down: from key to key a sum
    grows by no more than the GPUs in between, from tier to tier by no more than the tier, and the smaller of a sum and
    a number lies above the chord of its ends.
    """

    def __init__(self, groups: Groups, team: int, facts: list[Linear]) -> None:
        self.groups, self.team, self.facts = groups, team, facts
        self.held = [Sum() for _ in groups.problem.gpu_types]
        self.tiers = (Sum(), Sum(), Sum(), Sum())
        self._before: dict[tuple[int, int | None], Sum] = {}

    def add(self, parts: list[Part]) -> None:
        """Go on to a key with parts."""
        more = [
            sum_parts([part for part in parts if part.gpu_type == y], lambda part: part.gpus)
            for y in range(len(self.held))
        ]
        for held, each in zip(self.held, more, strict=True):
            held.add_all(each)
        everything, more_in_all = sum_of(self.held), sum_of(more)
        if self.team == self.groups.problem.deadline_team:
            self.tiers = (everything, Sum(), Sum(), Sum())
            return
        lines, team = self.groups.problem.lines, self.team
        fair = [_constant(int(f)) for f in lines.fair_by_type[team]]
        if lines.typed[team]:
            quota = [int(q) for q in lines.quota_by_type[team]]
            within = [self._least(1, y, h, q, more[y]) for y, (h, q) in enumerate(zip(self.held, quota, strict=True))]
            both = [
                self._least(2, y, h, q + f.constant, more[y], sum_of([g, f]))
                for y, (h, q, f, g) in enumerate(zip(self.held, quota, fair, within, strict=True))
            ]
            guaranteed, entitled = sum_of(within), sum_of(both)
        else:
            quota_any = int(lines.quota_any[team])
            guaranteed = self._least(1, None, everything, quota_any, more_in_all)
            above = fair[0]
            if len(self.held) > 1:
                above = sum_of(
                    self._least(3, y, h, f.constant, more[y])
                    for y, (h, f) in enumerate(zip(self.held, fair, strict=True))
                )
            bound = sum_of([above, _constant(quota_any)])
            entitled = self._smaller(2, None, everything, bound, more_in_all, sum_of([guaranteed, above]))
        self.tiers = (Sum(), guaranteed, entitled, everything)

    def _least(self, tier: int, y: int | None, amount: Sum, bound: int, more: Sum, other: Sum | None = None) -> Sum:
        return self._smaller(tier, y, amount, _constant(bound), more, other)

    def _smaller(self, tier: int, y: int | None, amount: Sum, bound: Sum, more: Sum, other: Sum | None) -> Sum:
        """Return a sum that is at most both, and that the objective pushes up to the smaller of the two.

        What it stands for is at most `other` too, and what it was at the key before with `more`.
        """
        before = self._before.get((tier, y))
        if amount.most <= bound.least:
            found = sum_of([amount])
        elif bound.most <= amount.least:
            found = sum_of([bound])
        else:
            model, found = self.groups.model, Sum()
            most = min(amount.most, bound.most)
            least = model.new_int_var(min(0, amount.least, bound.least), most, "")
            model.add(least <= amount.linear)
            model.add(least <= bound.linear)
            found.add(least, 1, most)
            steps = [each for each in (other, before and sum_of([before, more])) if each is not None]
            self.facts += [each.linear - least for each in steps if each.least < most]
            if not bound.variables:
                low = max(0, amount.least)
                at, span = min(low, bound.constant), amount.most - low
                rise = min(bound.constant, amount.most) - at
                self.facts.append(span * least - rise * amount.linear - (span * at - rise * low))
        self._before[tier, y] = found
        return found


def _constant(amount: int) -> Sum:
    return Sum(amount, least=amount, most=amount)
