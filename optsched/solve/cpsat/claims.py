"""Literals for "inside its quota" and "inside its entitlement" after the plan; rule 11."""

from __future__ import annotations

from ortools.sat.python.cp_model import CpModel, IntVar

from optsched.rounds.problem import Item, Problem, RoundJob, What
from optsched.rounds.score import gpu_type_of
from optsched.solve.cpsat.decisions import Decisions
from optsched.solve.cpsat.gang import Gang
from optsched.solve.cpsat.terms import Linear, total


class Claims:
    """Makes claim literals when they are first asked for, each defined in both directions."""

    def __init__(self, problem: Problem, decisions: Decisions) -> None:
        self._problem, self._decisions = problem, decisions
        self._model: CpModel = decisions.model
        self._inside: dict[tuple[int, int, bool], IntVar] = {}
        self._either: dict[tuple[int, int], IntVar] = {}
        self._members: dict[int, list[RoundJob]] = {}
        for job in problem.jobs:
            if job.running or job.index in decisions.starts:
                self._members.setdefault(job.claim_team, []).append(job)

    def literal(self, team: int, key: int, *, quota: bool, entitlement: bool) -> IntVar | bool:
        """Return the literal of the claims asked for (either of them, where both are)."""
        lines = self._problem.lines
        parts = []
        if quota and lines.quota[team]:
            parts.append(self._within(team, key, by_quota=True))
        if entitlement and lines.entitlement[team]:
            parts.append(self._within(team, key, by_quota=False))
        if not parts:
            return False
        if len(parts) == 1:
            return parts[0]
        if (team, key) not in self._either:
            either = self._model.new_bool_var(f"claim {team}.{key}")
            self._model.add_max_equality(either, parts)
            self._either[team, key] = either
        return self._either[team, key]

    def _within(self, team: int, key: int, *, by_quota: bool) -> IntVar:
        known = self._inside.get((team, key, by_quota))
        if known is not None:
            return known
        line = (self._problem.lines.quota if by_quota else self._problem.lines.entitlement)[team]
        literals = [self._item_within(team, key, item) for item in line]
        inside = literals[0]
        if len(literals) > 1:
            inside = self._model.new_bool_var(f"inside {team}.{key}.{by_quota}")
            self._model.add_min_equality(inside, literals)
        self._inside[team, key, by_quota] = inside
        return inside

    def _item_within(self, team: int, key: int, item: Item) -> IntVar:
        used = self.through(team, key, item)
        inside = self._model.new_bool_var(f"within {team}.{key}.{item.what.value}")
        self._model.add(used <= item.amount).only_enforce_if(inside)
        self._model.add(used >= item.amount + 1).only_enforce_if(~inside)
        return inside

    def through(self, team: int, key: int, item: Item) -> Linear:
        """Return what the team uses of one resource at keys up to and including `key`, after the plan."""
        priorities = len(self._problem.priorities)
        parts: list[Linear] = []
        for job in self._members.get(team, ()):
            if job.priority <= key:
                parts.append(self.part_of(job, item, above=False))
            if priorities + job.priority <= key:
                parts.append(self.part_of(job, item, above=True))
        return total(parts)

    def part_of(self, job: RoundJob, item: Item, *, above: bool) -> Linear:
        """Return what a part of a job uses of one resource after the plan."""
        amount = self._decisions.above_after(job) if above else self._decisions.minimum_after(job)
        if item.what is What.CPUS:
            return amount * job.cpus_per_gpu_u
        if item.what is What.MEMORY:
            return amount * job.memory_per_gpu_u
        if item.gpu_type is None:
            return amount
        return self._of_type(job, item.gpu_type, amount, above=above)

    def _of_type(self, job: RoundJob, gpu_type: int, amount: Linear, *, above: bool) -> Linear:
        """Return the part of `amount` that is of one GPU type; a job whose type is open may have it or not."""
        decisions = self._decisions
        if job.running and job.index not in decisions.moves:
            return amount if gpu_type_of(self._problem, job.spread_now) == gpu_type else 0
        if not job.running and job.index not in decisions.starts:
            return 0
        gang: Gang = decisions.moves[job.index] if job.running else decisions.starts[job.index]
        types = set(gang.types)
        if job.running:
            types.add(gpu_type_of(self._problem, job.spread_now))
        if gpu_type not in types:
            return 0
        if len(types) == 1:
            return amount
        return self._typed(job, gpu_type, amount, gang, above=above)

    def _typed(self, job: RoundJob, gpu_type: int, amount: Linear, gang: Gang, *, above: bool) -> Linear:
        known = self._decisions.typed.get((job.index, gpu_type, above))
        if known is None:
            model = self._model
            most = max(job.maximum, job.size_now)
            known = model.new_int_var(0, most, f"{job.job.id} of type {gpu_type}")
            here = gang.types.get(gpu_type)
            if job.running:
                home = gpu_type_of(self._problem, job.spread_now) == gpu_type
                # Not moved: its own type. Moved: the type of where it goes.
                if home:
                    model.add(known == amount).only_enforce_if(~gang.active)
                else:
                    model.add(known == 0).only_enforce_if(~gang.active)
                conditions = [gang.active]
            else:
                conditions = []
            if here is None:
                model.add(known == 0).only_enforce_if(conditions)
            else:
                model.add(known == amount).only_enforce_if([*conditions, here])
                model.add(known == 0).only_enforce_if([*conditions, ~here])
            self._decisions.typed[job.index, gpu_type, above] = known
        return known
