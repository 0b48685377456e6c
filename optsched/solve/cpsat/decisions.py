"""What happens to every job, as variables: start, stop, move, shrink, grow, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ortools.sat.python.cp_model import CpModel, IntVar

from optsched.rounds.assignment import Change
from optsched.rounds.problem import Cut, Flags, Problem, RoundJob
from optsched.rounds.rights import EVERYTHING, has_right
from optsched.solve.cpsat.gang import Gang, add_gang
from optsched.solve.cpsat.terms import Linear
from optsched.solve.reach import Reach


@dataclass
class Decisions:
    """Variables by job index. A job without an entry cannot be started, stopped, moved or resized in this model."""

    problem: Problem
    model: CpModel
    starts: dict[int, Gang] = field(default_factory=dict)
    stops: dict[int, IntVar] = field(default_factory=dict)
    moves: dict[int, Gang] = field(default_factory=dict)
    resizes: dict[int, Gang] = field(default_factory=dict)
    shrinks: dict[int, IntVar] = field(default_factory=dict)
    grows: dict[int, IntVar] = field(default_factory=dict)
    typed: dict[tuple[int, int, bool], IntVar] = field(default_factory=dict)

    def minimum_after(self, job: RoundJob) -> Linear:
        """Return the GPUs of the job's minimum that run after the plan."""
        if not job.running:
            return job.minimum * self.starts[job.index].active if job.index in self.starts else 0
        kept = min(job.minimum, job.size_now)
        return kept - kept * self.stops[job.index] if job.index in self.stops else kept

    def above_after(self, job: RoundJob) -> Linear:
        """Return the GPUs above the job's minimum that run after the plan."""
        if not job.running:
            if job.index not in self.starts or not job.elastic:
                return 0
            gang = self.starts[job.index]
            return gang.size - job.minimum * gang.active
        extra = max(0, job.size_now - job.minimum)
        if job.index not in self.stops and job.index not in self.resizes:
            return extra
        total: Linear = extra
        if job.index in self.stops:
            total = total - extra * self.stops[job.index]
        if job.index in self.resizes:
            gang = self.resizes[job.index]
            total = total + gang.size - job.size_now * gang.active
        return total

    def stays_put(self, job: RoundJob) -> list[IntVar]:
        """Return literals, at most one of which is true: how a running job changes."""
        j = job.index
        changes = [self.stops[j]] if j in self.stops else []
        changes += [self.moves[j].active] if j in self.moves else []
        changes += [self.shrinks[j]] if j in self.shrinks else []
        return changes + ([self.grows[j]] if j in self.grows else [])


@dataclass(frozen=True, slots=True)
class Scope:
    """Which jobs a model may touch, and (`within`) on which nodes only some of those that start may be put."""

    starts: frozenset[int]
    stops: frozenset[int]
    moves: frozenset[int]
    resizes: frozenset[int]
    within: Mapping[int, Flags] = field(default_factory=dict)


def full_scope(problem: Problem) -> Scope:
    """Return the scope of the exact model: every start, and every stop, move and resize that could have a reason."""
    queued = [job for job in problem.queued if job.can_ever_run]
    growing = [job for job in problem.running if job.elastic and job.size_now < job.maximum]
    movers = [job for job in problem.running if job.movable]
    takers = [*queued, *growing]
    # Jobs of one team, priority and standing have the same rights: one of each kind is asked, and a second,
    # lest a job be asked about itself.
    kinds: dict[tuple[object, ...], list[RoundJob]] = {}
    for taker in takers:
        standing = (taker.emergency, taker.due, taker.may_break_quota, taker.starved)
        kind = (taker.team, taker.claim_team, taker.priority, *standing)
        kinds.setdefault(kind, []).append(taker)
    asking = [taker for same in kinds.values() for taker in same[:2]]
    asked = {taker.index for taker in asking}
    known: dict[tuple[object, ...], bool] = {}

    def wanted(job: RoundJob, change: Change) -> bool:
        key = (job.team, job.priority, problem.takeable[job.index], job.light, change)
        if key not in known or job.index in asked:
            known[key] = any(
                has_right(problem, taker, job, change, EVERYTHING) for taker in asking if taker.index != job.index
            )
        return known[key]

    stops = {job.index for job in problem.running if job.stoppable and wanted(job, Change.STOP)}
    shrinks = {
        job.index
        for job in problem.running
        if job.resizable and (job.size_now < job.maximum or wanted(job, Change.SHRINK))
    }
    # Where a placement may be faster than full speed, even who loses nothing may gain.
    pays = any(
        problem.loss_now[job.index] > job.costs.move or max(job.type_speed) * max(job.span_speed) > 1.0
        for job in movers
    )
    reasons_to_move = bool(queued or growing) or pays or len(problem.gpu_types) > 1
    moves = {job.index for job in movers} if reasons_to_move else set()
    return Scope(frozenset(job.index for job in queued), frozenset(stops), frozenset(moves), frozenset(shrinks))


def in_window(problem: Problem, scope: Scope) -> Scope:
    """Return the scope with starts only from the head of the queue, as far as the profile's window goes."""
    last = problem.first_queued + problem.profile.window_jobs
    if len(problem.jobs) <= last:
        return scope
    return replace(scope, starts=frozenset(j for j in scope.starts if j < last))


def add_decisions(problem: Problem, model: CpModel, scope: Scope) -> Decisions:
    """Add the variables of every job in scope."""
    decisions = Decisions(problem, model)
    most_free = _most_free(problem, scope)
    reach = Reach(problem, scope.stops, scope.moves, scope.resizes)
    for j in sorted(scope.starts):
        job = problem.jobs[j]
        candidates = candidates_of(problem, job, reach.room(job).tolist(), {})
        if j in scope.within:
            candidates = {n: most for n, most in candidates.items() if scope.within[j][n]}
        if sum(candidates.values()) >= job.minimum:
            active = model.new_bool_var(f"start {job.job.id}")
            decisions.starts[j] = add_gang(model, problem, job, str(job.job.id), active, candidates, job.sizes)
    for j in sorted(scope.stops):
        decisions.stops[j] = model.new_bool_var(f"stop {problem.jobs[j].job.id}")
    for j in sorted(scope.moves):
        _add_move(problem, model, decisions, problem.jobs[j], most_free)
    for j in sorted(scope.resizes):
        _add_resize(problem, model, decisions, problem.jobs[j], most_free)
    for job in problem.running:
        changes = decisions.stays_put(job)
        if len(changes) > 1:
            model.add_at_most_one(changes)
    return decisions


def _most_free(problem: Problem, scope: Scope) -> list[int]:
    """Return, for each node, the GPUs that could be free there if everything in scope left it."""
    most = problem.nodes.free.tolist()
    for j in scope.stops | scope.moves | scope.resizes:
        for n, count in problem.jobs[j].spread_now:
            most[n] += count
    return [min(a, int(b)) for a, b in zip(most, problem.nodes.capacity, strict=True)]


def candidates_of(problem: Problem, job: RoundJob, most_free: list[int], own: Mapping[int, int]) -> dict[int, int]:
    """Return the nodes that could hold part of the job, and the most GPUs that each could give it."""
    found = {}
    for n in [int(n) for n in job.nodes.nonzero()[0]] + [n for n in own if not job.nodes[n]]:
        room = min(most_free[n], job.maximum) if job.nodes[n] else own[n]
        if job.cut is Cut.PER_NODE:
            room = job.unit if room >= job.unit else 0
        elif job.cut is Cut.PER_TASK:
            room = room // job.unit * job.unit
        elif job.cut is Cut.WHOLE_NODES:
            room = room if room >= int(problem.nodes.capacity[n]) > 0 else 0
        elif room < job.minimum:
            room = 0
        if job.type_speed[int(problem.nodes.gpu_type[n])] <= 0:
            room = 0
        if room:
            found[n] = room
    return found


def _add_move(problem: Problem, model: CpModel, decisions: Decisions, job: RoundJob, most_free: list[int]) -> None:
    own = {n: count for n, count in job.spread_now if not _would_break_cut(problem, job, n, count)}
    candidates = candidates_of(problem, job, most_free, own)
    if sum(candidates.values()) < job.size_now:
        return
    active = model.new_bool_var(f"move {job.job.id}")
    gang = add_gang(model, problem, job, f"{job.job.id}'", active, candidates, (job.size_now,))
    decisions.moves[job.index] = gang
    # A move leaves the present placement: on some node it has less than now.
    less = []
    for n, count in job.spread_now:
        if n not in gang.gpus:
            return
        literal = model.new_bool_var(f"{job.job.id} leaves {n}")
        model.add(gang.gpus[n] <= count - 1).only_enforce_if(literal)
        less.append(literal)
    model.add_bool_or([~active, *less])


def _would_break_cut(problem: Problem, job: RoundJob, n: int, count: int) -> bool:
    if job.cut is Cut.PER_NODE:
        return count != job.unit
    if job.cut is Cut.PER_TASK:
        return count % job.unit != 0
    return job.cut is Cut.WHOLE_NODES and count != int(problem.nodes.capacity[n])


def _add_resize(problem: Problem, model: CpModel, decisions: Decisions, job: RoundJob, most_free: list[int]) -> None:
    """A resize keeps where the job is: a shrunk job gains on no node, a grown one loses on none."""
    now = dict(job.spread_now)
    if any(_would_break_cut(problem, job, n, count) for n, count in now.items()):
        return
    candidates = candidates_of(problem, job, most_free, now)
    if not now.keys() <= candidates.keys():
        return
    sizes = [size for size in job.sizes if size != job.size_now]
    active = model.new_bool_var(f"resize {job.job.id}")
    gang = add_gang(model, problem, job, f"{job.job.id}*", active, candidates, sizes)
    shrink = model.new_bool_var(f"shrink {job.job.id}")
    grow = model.new_bool_var(f"grow {job.job.id}")
    model.add(shrink + grow == active)
    for n, gpus in gang.gpus.items():
        if not isinstance(gpus, int):
            model.add(gpus <= now.get(n, 0)).only_enforce_if(shrink)
            if n in now:
                model.add(gpus >= now[n]).only_enforce_if(grow)
    if not job.job.preemptible or min(sizes) > job.size_now:
        model.add(shrink == 0)
    if len(sizes) == 1:
        model.add((grow if sizes[0] < job.size_now else shrink) == 0)
    else:
        model.add(gang.size <= job.size_now).only_enforce_if(shrink)
        model.add(gang.size >= job.size_now).only_enforce_if(grow)
    decisions.resizes[job.index] = gang
    decisions.shrinks[job.index], decisions.grows[job.index] = shrink, grow
