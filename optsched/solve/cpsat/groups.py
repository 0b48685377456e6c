"""Jobs that admission need not tell apart, as counts; what each of them uses where, as parts of teams' lines."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from ortools.sat.python.cp_model import IntVar, LinearExpr

from optsched.rounds.problem import Cut, Ints, Problem, RoundJob, What
from optsched.rounds.score import gpu_type_of, loss_at
from optsched.solve.cpsat.decisions import Scope
from optsched.solve.cpsat.losses import LeastLosses
from optsched.solve.cpsat.recorded import Recorded
from optsched.solve.reach import Reach


@dataclass(slots=True)
class Starts:
    """Queued jobs alike but for their age, the oldest first: `count` of them start, by GPU type `by_type`.

    An elastic job is alone in its group, with `extra` steps of `step` GPUs above its minimum. `loss` is the least
    placement loss of one at its minimum, by type.
    """

    jobs: list[RoundJob]
    piece: int
    count: IntVar
    by_type: dict[int, IntVar]
    loss: dict[int, int]
    step: int = 0
    extra: dict[int, tuple[IntVar, int]] | None = None

    @property
    def first(self) -> RoundJob:
        """A job that stands for all."""
        return self.jobs[0]


@dataclass(slots=True)
class Stops:
    """Running jobs alike but for what their stop costs, the cheapest first: `count` of them stop.

    `taken` of them are for other teams too, None where other teams have no right over them.
    """

    jobs: list[RoundJob]
    gpu_type: int
    count: IntVar
    open_gpus: int
    taken: IntVar | None = None

    @property
    def first(self) -> RoundJob:
        """A job that stands for all."""
        return self.jobs[0]


@dataclass(slots=True)
class Resize:
    """An elastic running job that may lose or gain steps of `step` GPUs, at most `most_lost` and `most_gained`.

    `taken` are the GPUs that other teams take, None where they have no right over it.
    """

    job: RoundJob
    gpu_type: int
    active: IntVar
    step: int
    lost: IntVar
    most_lost: int
    gained: IntVar
    most_gained: int
    taken: IntVar | None = None


@dataclass(slots=True)
class Retyping:
    """Running jobs alike that may move to another GPU type: `to` says how many to which.

    `stops` are the same jobs, the cheapest to stop first; None where they are not to be stopped.
    """

    jobs: list[RoundJob]
    home: int
    to: dict[int, IntVar]
    stops: Stops | None

    @property
    def first(self) -> RoundJob:
        """A job that stands for all."""
        return self.jobs[0]


@dataclass(frozen=True, slots=True)
class Part:
    """What one unit of a variable (None: always) adds to a team's line at a key: GPUs of a type."""

    key: int
    gpu_type: int
    variable: IntVar | None
    most: int
    gpus: int
    cpus_per_gpu_u: int
    memory_per_gpu_u: int


class Groups:
    """All variables of admission, and the parts that make up each team's line and claims.

    `line[t]`, `claim[t]` and `under[c]` list the parts of a team's line, of its claims, and of what a ceiling counts.
    """

    def __init__(self, problem: Problem, scope: Scope) -> None:
        self.problem, self.scope, self.model = problem, scope, Recorded()
        self.reach = Reach(problem, scope.stops, scope.moves, scope.resizes)
        self.starts: list[Starts] = []
        self.stops: list[Stops] = []
        self.stop_of: dict[int, Stops] = {}
        self.resizes: list[Resize] = []
        self.retypings: list[Retyping] = []
        self.line: dict[int, list[Part]] = defaultdict(list)
        self.claim: dict[int, list[Part]] = defaultdict(list)
        self.under: dict[int, list[Part]] = defaultdict(list)
        self.supplies: dict[tuple[object, ...], Ints] = {}
        ceilings_of = problem.ceilings_of
        self._ceilings = {j: tuple(ceilings_of[j]) for j in range(len(problem.jobs))} if problem.ceilings else {}
        lines = [*problem.lines.quota, *problem.lines.entitlement]
        named = {item.what for line in lines for item in line} | {ceiling.item.what for ceiling in problem.ceilings}
        self._counted = What.CPUS in named, What.MEMORY in named
        self.team = np.array([job.team for job in problem.running], dtype=np.int64)
        self.shrinkable = np.isin(np.arange(problem.first_queued), [*scope.resizes])
        # What is on a node may exceed what is left of it.
        pairs, count = problem.occupancy, len(problem.nodes.capacity)
        self._booked = np.bincount(pairs.pair_node, pairs.pair_gpus, count).astype(np.int64)
        self._capacities: dict[tuple[object, ...], int] = {}
        self._losses = LeastLosses(problem, self.reach)
        self._add_starts()
        self._add_stops()
        for j in sorted(scope.resizes):
            self._add_resize(problem.jobs[j])
        self._add_retypings()
        self._add_fixed_parts()

    def _side(self, job: RoundJob) -> tuple[int, int]:
        """Return the CPUs and memory for each GPU, where any quota, entitlement or limit counts them."""
        cpus, memory = self._counted
        return job.cpus_per_gpu_u if cpus else 0, job.memory_per_gpu_u if memory else 0

    # --- starts

    def _add_starts(self) -> None:
        alike: dict[tuple[object, ...], list[RoundJob]] = defaultdict(list)
        for j in sorted(self.scope.starts):
            job = self.problem.jobs[j]
            losses = self._losses.of(job)
            if losses:
                alike[self._start_key(job, losses)].append(job)
        for number, jobs in enumerate(alike.values()):
            self._add_start_group(number, jobs, self._losses.of(jobs[0]))

    def _start_key(self, job: RoundJob, losses: dict[int, int]) -> tuple[object, ...]:
        return (
            job.team,
            job.claim_team,
            job.line_team,
            job.priority,
            job.minimum,
            self.piece(job),
            tuple(losses.items()),
            id(job.nodes),
            *self._side(job),
            job.emergency,
            job.due,
            job.may_break_quota,
            job.starved,
            self._ceilings.get(job.index, ()),
            job.index if job.elastic else -1,
        )

    def _add_start_group(self, number: int, jobs: list[RoundJob], losses: dict[int, int]) -> None:
        model, first, size = self.model, jobs[0], len(jobs)
        count = model.new_int_var(0, size, f"start {number}")
        by_type = dict.fromkeys(losses, count)
        if len(losses) > 1:
            by_type = {y: model.new_int_var(0, size, f"start {number} on {y}") for y in losses}
            model.add(sum(by_type.values()) == count)
        group = Starts(jobs, self.piece(first), count, by_type, losses)
        self.starts.append(group)
        priorities = len(self.problem.priorities)
        for y, variable in by_type.items():
            self._part(first, first.priority, y, variable, size, first.minimum)
        if first.elastic:
            group.step = math.gcd(*(larger - first.minimum for larger in first.sizes[1:]))
            most = (first.maximum - first.minimum) // group.step
            group.extra = {}
            for y, variable in by_type.items():
                extra = model.new_int_var(0, most, f"extra {number} on {y}")
                model.add(extra <= most * variable)
                group.extra[y] = extra, most
                self._part(first, priorities + first.priority, y, extra, most, group.step)

    def piece(self, job: RoundJob) -> int:
        """Return the least that the job has on a node that it uses, in GPUs."""
        if job.cut is Cut.ONE_NODE:
            return job.minimum
        if job.cut is not Cut.WHOLE_NODES:
            return job.unit
        key = (id(job.nodes), job.maximum)
        if key not in self._capacities:
            known = {int(c) for c in np.unique(self.problem.nodes.capacity[job.nodes]) if 0 < c <= job.maximum}
            self._capacities[key] = math.gcd(*known)
        own = math.gcd(*(count for _, count in job.spread_now))
        return math.gcd(self._capacities[key], own) or 1

    # --- what runs

    def _add_stops(self) -> None:
        alike: dict[tuple[object, ...], list[RoundJob]] = defaultdict(list)
        for j in sorted(self.scope.stops):
            job = self.problem.jobs[j]
            alike[self._stop_key(job)].append(job)
        for number, jobs in enumerate(alike.values()):
            jobs.sort(key=lambda job: (self.stop_price(job), job.index))
            first = jobs[0]
            count = self.model.new_int_var(0, len(jobs), f"stop {number}")
            group = Stops(jobs, gpu_type_of(self.problem, first.spread_now), count, self.open_gpus(first))
            self.stops.append(group)
            for job in jobs:
                self.stop_of[job.index] = group
            kept = min(first.minimum, first.size_now)
            priorities = len(self.problem.priorities)
            self._part(first, first.priority, group.gpu_type, count, len(jobs), -kept)
            self._part(first, priorities + first.priority, group.gpu_type, count, len(jobs), kept - first.size_now)

    def _stop_key(self, job: RoundJob) -> tuple[object, ...]:
        takeable = self.problem.takeable[job.index]
        nodes = self.problem.nodes
        return (
            job.team,
            job.claim_team,
            job.line_team,
            job.priority,
            job.size_now,
            job.minimum,
            self.piece(job),
            tuple(sorted((count, bool(nodes.taking[n]), int(nodes.gpu_type[n])) for n, count in job.spread_now)),
            gpu_type_of(self.problem, job.spread_now),
            job.movable,
            self.targets(job),
            takeable.above_quota[0],
            takeable.above_entitlement[0],
            takeable.inside_quota,
            job.light,
            *self._side(job),
            self._ceilings.get(job.index, ()),
            job.index if job.index in self.scope.resizes else -1,
        )

    def kind_of_running(self, job: RoundJob) -> object:
        """Return what running jobs share that may stop, move and hold pieces alike."""
        stops = self.stop_of.get(job.index)
        return self._stop_key(job) if stops is None else id(stops)

    def open_gpus(self, job: RoundJob) -> int:
        """Return the GPUs that the job holds on nodes that take new work."""
        return sum(count for n, count in job.spread_now if self.problem.nodes.taking[n])

    def move_gain(self, job: RoundJob) -> int:
        """Return the most by which moving a running job could lower the bill, 0 or more."""
        return max(0, -self.move_cost(job)) if job.index in self.scope.moves else 0

    def move_cost(self, job: RoundJob) -> int:
        """Return the least that moving a running job adds to the bill; below 0 where it could pay."""
        key = ("least loss", job.type_speed, job.span_speed, job.size_now)
        best = self._capacities.get(key)
        if best is None:
            best = self._capacities[key] = min(
                loss_at(self.problem, job, job.size_now, span, y)
                for y, speed in enumerate(job.type_speed)
                if speed > 0
                for span in range(-1, self._narrowest(job.size_now, y) + 1)
            )
        return best + job.costs.move - self.problem.loss_now[job.index]

    def _narrowest(self, size: int, y: int) -> int:
        """Return the narrowest level that has a domain with `size` GPUs of a type, -1 where none has."""
        key = ("narrowest", size, y)
        if key not in self._capacities:
            tree, nodes = self.problem.tree, self.problem.nodes
            typed = np.where(nodes.gpu_type == y, np.maximum(nodes.capacity, self._booked), 0)
            fits = [
                level
                for level in range(len(tree.levels))
                if int(tree.sum_per_domain(level, typed).max(initial=0)) >= size
            ]
            self._capacities[key] = max(fits, default=-1)
        return self._capacities[key]

    def stop_price(self, job: RoundJob) -> int:
        """Return what a stop adds to the least bill."""
        return job.costs.stop - self.problem.loss_now[job.index] + self.move_gain(job)

    def _add_resize(self, job: RoundJob) -> None:
        model, j = self.model, job.index
        home = gpu_type_of(self.problem, job.spread_now)
        step = math.gcd(*(abs(size - job.size_now) for size in job.sizes if size != job.size_now)) or 1
        most_lost = max(0, job.size_now - job.minimum) // step if job.job.preemptible else 0
        most_gained = max(0, job.maximum - job.size_now) // step
        active = model.new_bool_var(f"resize {j}")
        lost, gained = model.new_int_var(0, most_lost, f"lost {j}"), model.new_int_var(0, most_gained, f"gained {j}")
        model.add(lost <= most_lost * active)
        model.add(gained <= most_gained * active)
        if most_lost and most_gained:
            shrinks = model.new_bool_var(f"shrink {j}")
            model.add(lost <= most_lost * shrinks)
            model.add(gained <= most_gained - most_gained * shrinks)
        if j in self.stop_of:
            model.add_at_most_one([active, self.stop_of[j].count])
        self.resizes.append(Resize(job, home, active, step, lost, most_lost, gained, most_gained))
        key = len(self.problem.priorities) + job.priority
        self._part(job, key, home, lost, most_lost, -step)
        self._part(job, key, home, gained, most_gained, step)

    def targets(self, job: RoundJob) -> tuple[int, ...]:
        """Return the other GPU types that a running job may move to: it may run on one that it allows no more."""
        if job.index not in self.scope.moves:
            return ()
        home = gpu_type_of(self.problem, job.spread_now)
        return tuple(y for y, speed in enumerate(job.type_speed) if speed > 0 and y != home)

    def free(self, y: int) -> int:
        """Return the GPUs of a type that are free to take, and those that jobs of another type may leave.

        What runs may lie on nodes of several types, and counts for that of the first.
        """
        nodes = self.problem.nodes
        return int(nodes.free[nodes.taking & (nodes.gpu_type == y)].sum()) + self._strays[y]

    @cached_property
    def _strays(self) -> Counter[int]:
        """The GPUs of each type that jobs of another type may leave."""
        nodes, scope, found = self.problem.nodes, self.scope, Counter[int]()
        gpu_type, taking = nodes.gpu_type.tolist(), nodes.taking.tolist()
        for j in scope.stops | scope.moves | scope.resizes:
            spread = self.problem.jobs[j].spread_now
            for n, count in spread:
                if taking[n] and gpu_type[n] != gpu_type[spread[0][0]]:
                    found[gpu_type[n]] += count
        return found

    def _add_retypings(self) -> None:
        alike: dict[object, list[RoundJob]] = defaultdict(list)
        for j in sorted(self.scope.moves):
            job = self.problem.jobs[j]
            if self.targets(job):
                alike[self.kind_of_running(job)].append(job)
        for number, jobs in enumerate(alike.values()):
            self._add_retyping_group(number, jobs)

    def _add_retyping_group(self, number: int, jobs: list[RoundJob]) -> None:
        """Add that each of jobs alike moves to one other type, stops, changes its size, or does none of this."""
        model, first, size = self.model, jobs[0], len(jobs)
        home, stops = gpu_type_of(self.problem, first.spread_now), self.stop_of.get(first.index)
        to = {y: model.new_int_var(0, size, f"retype {number} to {y}") for y in self.targets(first)}
        others = [] if stops is None else [stops.count]
        others += [resize.active for resize in self.resizes if resize.job is first]
        model.add(LinearExpr.sum([*to.values(), *others]) <= size)
        self.retypings.append(Retyping(jobs if stops is None else stops.jobs, home, to, stops))
        kept, priorities = min(first.minimum, first.size_now), len(self.problem.priorities)
        for y, variable in to.items():
            for key, gpus in ((first.priority, kept), (priorities + first.priority, first.size_now - kept)):
                self._part(first, key, home, variable, size, -gpus)
                self._part(first, key, y, variable, size, gpus)

    def _add_fixed_parts(self) -> None:
        """Add what all running jobs have now, those together that count for the same."""
        priorities, have = len(self.problem.priorities), Counter[tuple[int, int, object]]()
        one: dict[tuple[int, int, object], RoundJob] = {}
        for job in self.problem.running:
            home = gpu_type_of(self.problem, job.spread_now)
            kept = min(job.minimum, job.size_now)
            who = (job.line_team, job.claim_team, *self._side(job), self._ceilings.get(job.index, ()))
            for key, gpus in ((job.priority, kept), (priorities + job.priority, job.size_now - kept)):
                if gpus:
                    have[key, home, who] += gpus
                    one.setdefault((key, home, who), job)
        for (key, home, alike), job in one.items():
            self._part(job, key, home, None, 1, have[key, home, alike])

    def _part(self, job: RoundJob, key: int, gpu_type: int, variable: IntVar | None, most: int, gpus: int) -> None:
        if gpus and most:
            part = Part(key, gpu_type, variable, most, gpus, job.cpus_per_gpu_u, job.memory_per_gpu_u)
            self.line[job.line_team].append(part)
            self.claim[job.claim_team].append(part)
            for c in self._ceilings.get(job.index, ()):
                self.under[c].append(part)
