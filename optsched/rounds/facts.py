"""What jobs are whatever the instant: a row of numbers for each, kept from one round to the next.

A round has thousands of jobs, and between two rounds a few of them change. What can be said of a job from its request
and its placement alone is worked out when the job is first seen, and again when it is another object: jobs are values,
so the same object says the same. What the instant, the queue or the other jobs decide is not in here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter, is_
from typing import NamedTuple

import numpy as np

from optsched.policy.team_tree import TeamTree, build_team_tree
from optsched.policy.victims import grace_s, saves_on_signal
from optsched.rounds.build_nodes import Hardware, build_nodes, hardware_of, per_gpu_u
from optsched.rounds.problem import Flags, Ints, Nodes, Reals, RoundJob, Spread
from optsched.rounds.score import placement_losses
from optsched.rounds.shapes import Form, Shapes, sizes_of
from optsched.topology.tree import Tree
from optsched.values.cluster import Node
from optsched.values.ids import JobId
from optsched.values.job import Job, JobState, gpus_on
from optsched.values.profile import Profile
from optsched.values.snapshot import Snapshot
from optsched.values.team import Team


class Row(NamedTuple):
    """Whole numbers of some jobs, one array each; of one job while it is worked out.

    `priority` is the job's own with its team's ceiling applied, not an index. `size` and `nodes` count what a running
    job holds. `gpu_type` is that of its first node, of a queued job the one that it wants. `line` are the GPUs that it
    takes of its team's line, `demand` those that its team asks for with it: 0 where it could not run. `minimum` is its
    smallest size; `possible` tells whether an empty cluster could hold it, whatever is closed. `loss` is the placement
    loss of a running job. Flags are 0 or 1: `reports` checkpoints and its start.
    """

    team: Ints
    priority: Ints
    cpus_u: Ints
    memory_u: Ints
    size: Ints
    nodes: Ints
    preemptible: Ints
    on_signal: Ints
    reports: Ints
    deadline: Ints
    gpu_type: Ints
    line: Ints
    demand: Ints
    minimum: Ints
    elastic: Ints
    possible: Ints
    loss: Ints


FIRST_OF_SHAPE = Row._fields.index("gpu_type")
"""From this column on a row says what depends on the nodes that take new work."""


class Times(NamedTuple):
    """Real numbers of some jobs: instants (NaN where there is none), seconds, totals of CPUs and GB, GPUs.

    `ends_at` is the start plus the estimate; `saved_at` the last checkpoint; `checkpoint_s` is 0 unless the job saves
    its work when it is told to stop.
    """

    submitted_at: Reals
    started_at: Reals
    ends_at: Reals
    saved_at: Reals
    checkpoint_s: Reals
    restart_s: Reals
    grace_s: Reals
    preemptions: Reals
    cpus: Reals
    memory_gb: Reals
    gpus: Reals


REPORTS, ENDS_AT, SAVED_AT = Row._fields.index("reports"), *map(Times._fields.index, ("ends_at", "saved_at"))
"""What rows say of the two fields of a job that change while it runs ..."""

_lasting = attrgetter(
    *(each.name for each in dataclasses.fields(Job) if each.name not in ("last_checkpoint_at", "estimated_runtime_s"))
)
"""... and all its other fields, on which the rest depends."""


class Fact:
    """One job, where it is, and the number of its row; `form`, `sizes` and `mould` hold as long as `shapes` do.

    The `mould` is the job as a round saw it, for what is the same in every round.
    """

    __slots__ = ("form", "job", "mould", "runs", "shapes", "sizes", "slot", "spread")

    def __init__(self, job: Job, spread: Spread, slot: int) -> None:
        self.job, self.spread, self.slot = job, spread, slot
        self.runs = job.state is JobState.RUNNING
        self.form: Form | None = None
        self.sizes: tuple[int, ...] = ()
        self.mould: RoundJob | None = None
        self.shapes: Shapes | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """The jobs of a round, first those that run, then those that wait, in the snapshot's order; rows likewise.

    Pairs of a running job and a node are as in `Occupancy`. `teams` is the tree of the snapshot's.
    """

    teams: TeamTree
    hardware: Hardware
    nodes: Nodes
    shapes: Shapes
    facts: Sequence[Fact]
    running: int
    rows: Row
    times: Times
    pair_job: Ints
    pair_node: Ints
    pair_gpus: Ints

    def in_order(self, along: Ints) -> Listed:
        """Return the same with the jobs in another order of those that wait; `along` are their positions now."""
        if np.array_equal(along, np.arange(len(along))):
            return self
        facts = [self.facts[j] for j in along.tolist()]
        rows = Row(*(column[along] for column in self.rows))
        times = Times(*(column[along] for column in self.times))
        return dataclasses.replace(self, facts=facts, rows=rows, times=times)


class Facts:
    """Rows of jobs by id, for rounds one after the other; a pure memory: a round comes out the same without it."""

    def __init__(self) -> None:
        self._around: tuple[Tree, tuple[Node, ...], tuple[Team, ...], Profile] | None = None
        self._clear()

    def _clear(self) -> None:
        self._known: dict[JobId, Fact] = {}
        # By the job's identity: as long as a fact is here its job is the only object with that.
        self._by_object: dict[int, Fact] = {}
        self._pairs = _Pairs()
        self._teams: TeamTree | None = None
        self._free: list[int] = []
        self._rows = np.zeros((len(Row._fields), 0), dtype=np.int64)
        self._times = np.zeros((len(Times._fields), 0), dtype=np.float64)
        self._shapes: Shapes | None = None
        self._hardware: Hardware | None = None

    def of(self, snapshot: Snapshot, tree: Tree) -> Listed:
        """Return what is known of the jobs of a snapshot, having worked out what was not."""
        # What is left of an hour's preemptions changes from round to round, and no row depends on it.
        profile = snapshot.profile
        if profile.max_stopped_gpus_per_h is not None:
            profile = dataclasses.replace(profile, max_stopped_gpus_per_h=None)
        around = (tree, snapshot.cluster.nodes, snapshot.teams, profile)
        before = self._around
        if before is None or before[0] is not tree or before[1:] != around[1:] or self._hardware is None:
            self._clear()
            self._hardware = hardware_of(snapshot.cluster.nodes)
        if self._teams is None:
            self._teams = build_team_tree(snapshot.teams)
        self._around = around
        facts, running = self._listed(snapshot, tree, profile)
        slots = np.fromiter(map(_slot_of, facts), dtype=np.int64, count=len(facts))
        pairs = self._pairs.of(slots[:running])
        nodes = self._nodes(snapshot, tree, self._hardware, slots[:running], pairs)
        shapes = self._shapes
        if shapes is None or not np.array_equal(shapes.nodes.taking, nodes.taking):
            shapes = self._shapes = Shapes(snapshot.cluster.nodes, profile, tree, nodes, self._hardware.gpu_types)
        self._fill_shapes([fact for fact in facts if fact.shapes is not shapes], shapes, tree, profile)
        return Listed(
            self._teams,
            self._hardware,
            nodes,
            shapes,
            facts,
            running,
            Row(*self._rows[:, slots]),
            Times(*self._times[:, slots]),
            *pairs,
        )

    def _listed(self, snapshot: Snapshot, tree: Tree, profile: Profile) -> tuple[list[Fact], int]:
        """Return the facts of the jobs, those that run first, and how many run."""
        seen = list(map(self._by_object.get, map(id, snapshot.jobs)))
        new: list[Fact] = []
        went_on: list[Fact] = []
        for at in [at for at, fact in enumerate(seen) if fact is None]:
            job = snapshot.jobs[at]
            old = self._known.get(job.id)
            if old is not None and all(map(is_, _lasting(job), _lasting(old.job))):
                fact = self._going_on(job, old)
                went_on.append(fact)
            else:
                fact = self._new(job, old, tree)
                new.append(fact)
            seen[at] = fact
        if went_on:
            self._go_on(went_on)
        if new:
            self._fill(new, snapshot.teams, profile)
            self._pairs.fill(new, self._known)
        if len(self._known) > 2 * len(seen) + 64:
            self._forget({job.id for job in snapshot.jobs})
        running = [fact for fact in seen if fact is not None and fact.runs]
        queued = [fact for fact in seen if fact is not None and not fact.runs]
        return running + queued, len(running)

    def _new(self, job: Job, old: Fact | None, tree: Tree) -> Fact:
        """Return the fact of a job that was not known as it is, with a row that is still to be filled."""
        slot = old.slot if old is not None else self._free.pop() if self._free else len(self._known)
        spread: Spread = ()
        if job.state is JobState.RUNNING:
            index = tree.node_index
            held = [(index[node], count) for node, on in job.placement.items() if (count := gpus_on(on))]
            spread = tuple(sorted(held))
        if old is not None:
            self._by_object.pop(id(old.job), None)
        fact = self._known[job.id] = self._by_object[id(job)] = Fact(job, spread, slot)
        return fact

    def _going_on(self, job: Job, old: Fact) -> Fact:
        """Return the fact of a job of which another estimate or checkpoint is known, and nothing else."""
        fact = self._known[job.id] = self._by_object[id(job)] = Fact(job, old.spread, old.slot)
        fact.form, fact.sizes, fact.shapes, fact.mould = old.form, old.sizes, old.shapes, old.mould
        self._by_object.pop(id(old.job), None)
        return fact

    def _go_on(self, facts: Sequence[Fact]) -> None:
        """Fill what rows say of estimates and checkpoints."""
        slots = [fact.slot for fact in facts]
        self._rows[REPORTS, slots] = [_reports(fact.job) for fact in facts]
        self._times[ENDS_AT, slots] = [_ends_at(fact.job) for fact in facts]
        self._times[SAVED_AT, slots] = [_saved_at(fact.job) for fact in facts]

    def _forget(self, left: set[JobId]) -> None:
        """Forget the jobs that are gone."""
        for name in [name for name in self._known if name not in left]:
            fact = self._known.pop(name)
            self._by_object.pop(id(fact.job), None)
            self._free.append(fact.slot)

    def _fill(self, new: Sequence[Fact], teams: Sequence[Team], profile: Profile) -> None:
        """Fill what rows say whatever the nodes are."""
        last = max(fact.slot for fact in new)
        if last >= self._rows.shape[1]:
            more = max(64, 2 * (last + 1)) - self._rows.shape[1]
            self._rows = np.pad(self._rows, ((0, 0), (0, more)))
            self._times = np.pad(self._times, ((0, 0), (0, more)))
        slots = [fact.slot for fact in new]
        index = {team.id: t for t, team in enumerate(teams)}
        ceilings = priority_ceilings(teams)
        rows, times = [], []
        for fact in new:
            job, size = fact.job, sum(count for _, count in fact.spread)
            highest = ceilings[job.team]
            rows.append(
                (
                    index[job.team],
                    job.priority if highest is None else min(job.priority, highest),
                    per_gpu_u(job.cpus, job.gpus),
                    per_gpu_u(job.memory_gb, job.gpus),
                    size,
                    len(fact.spread),
                    job.preemptible,
                    saves_on_signal(job, profile),
                    _reports(job),
                    job.start_deadline_at is not None,
                )
            )
            times.append(_times(job, profile))
        self._rows[:FIRST_OF_SHAPE, slots] = np.array(rows, dtype=np.int64).T
        self._times[:, slots] = np.array(times, dtype=np.float64).T

    def _nodes(
        self, snapshot: Snapshot, tree: Tree, hardware: Hardware, slots: Ints, pairs: tuple[Ints, Ints, Ints]
    ) -> Nodes:
        """Return the arrays over nodes, with what runs taken off."""
        job, node, gpus = pairs
        side = self._rows[[Row._fields.index("cpus_u"), Row._fields.index("memory_u")]][:, slots]
        count = len(hardware.capacity)
        booked = tuple(np.zeros(count, dtype=np.int64) for _ in range(3))
        for total, amount in zip(booked, (gpus, gpus * side[0][job], gpus * side[1][job]), strict=True):
            np.add.at(total, node, amount)
        return build_nodes(snapshot, hardware, tree.node_index, (booked[0], booked[1], booked[2]))

    def _fill_shapes(self, new: Sequence[Fact], shapes: Shapes, tree: Tree, profile: Profile) -> None:
        """Fill what rows say that depends on which nodes take new work."""
        if not new:
            return
        types = shapes.nodes.gpu_type.tolist()
        forms = [(fact, shapes.form(fact.job)) for fact in new]
        losses = placement_losses(
            _Ground(tree, shapes.nodes, round(profile.horizon_s), profile),
            [(form, fact.spread) for fact, form in forms],
        )
        rows = []
        for (fact, form), loss in zip(forms, losses, strict=True):
            job, size = fact.job, sum(count for _, count in fact.spread)
            fact.form, fact.shapes, fact.mould = form, shapes, None
            sizes = fact.sizes = sizes_of(job, form, size)
            possible = job.state is JobState.RUNNING or shapes.possible_size(form, sizes, only_up=False) > 0
            if job.state is JobState.RUNNING:
                gpu_type = types[fact.spread[0][0]] if fact.spread else 0
                line, demand = min(size, job.min_gpus), max(size, job.max_gpus) if fact.spread else 0
            else:
                gpu_type, demand = shapes.wanted(job, form)
                line = job.min_gpus if demand else 0
            rows.append((gpu_type, line, demand, sizes[0], len(sizes) > 1, possible, loss))
        self._rows[FIRST_OF_SHAPE:, [fact.slot for fact in new]] = np.array(rows, dtype=np.int64).T


@dataclass(frozen=True, slots=True)
class _Ground:
    """What the loss of a placement depends on but for the job."""

    tree: Tree
    nodes: Nodes
    horizon_s: int
    profile: Profile


def _reports(job: Job) -> bool:
    return job.last_checkpoint_at is not None and job.started_at is not None


def _ends_at(job: Job) -> float:
    started, estimate = job.started_at, job.estimated_runtime_s
    return np.nan if started is None or estimate is None else started + estimate


def _saved_at(job: Job) -> float:
    return np.nan if job.last_checkpoint_at is None else job.last_checkpoint_at


def _times(job: Job, profile: Profile) -> tuple[float, ...]:
    return (
        job.submitted_at,
        np.nan if job.started_at is None else job.started_at,
        _ends_at(job),
        _saved_at(job),
        job.checkpoint.cost_s if saves_on_signal(job, profile) else 0.0,
        job.checkpoint.restart_s,
        grace_s(job, profile),
        job.preemptions,
        job.cpus,
        job.memory_gb,
        job.gpus,
    )


_slot_of = attrgetter("slot")


class _Pairs:
    """The pairs of a job and a node of all that is known, by the job's slot: `first` there, and how many."""

    def __init__(self) -> None:
        self._node, self._gpus = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self._first, self._width = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self._end = 0

    def fill(self, new: Sequence[Fact], known: Mapping[JobId, Fact]) -> None:
        """Take in where some jobs are; `known` are all that there are by now, these among them."""
        most = max(fact.slot for fact in new) + 1
        if most > len(self._first):
            self._first, self._width = (np.pad(each, (0, 2 * most - len(each))) for each in (self._first, self._width))
        more = sum(len(fact.spread) for fact in new)
        if self._end + more > len(self._node):
            # What was there of jobs that are elsewhere by now goes: all are put in anew.
            new, self._end = list(known.values()), 0
            more = sum(len(fact.spread) for fact in new)
            self._node, self._gpus = (np.zeros(2 * more + 1024, dtype=np.int64) for _ in range(2))
        spreads = [fact.spread for fact in new]
        flat: Iterable[int] = chain.from_iterable(chain.from_iterable(spreads))
        end = self._end + more
        self._node[self._end : end], self._gpus[self._end : end] = (
            np.fromiter(flat, dtype=np.int64, count=2 * more).reshape(-1, 2).T
        )
        width = np.fromiter(map(len, spreads), dtype=np.int64, count=len(spreads))
        slots = np.fromiter(map(_slot_of, new), dtype=np.int64, count=len(new))
        self._width[slots], self._first[slots] = width, self._end + width.cumsum() - width
        self._end = end

    def of(self, slots: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the pairs of the running jobs with these slots as jobs (positions in `slots`), nodes and GPUs."""
        width, first = self._width[slots], self._first[slots]
        through = width.cumsum()
        at = np.repeat(first - through + width, width) + np.arange(int(width.sum()))
        return np.repeat(np.arange(len(slots), dtype=np.int64), width), self._node[at], self._gpus[at]


def priority_ceilings(teams: Sequence[Team]) -> dict[str, int | None]:
    """Return the largest priority that each team's jobs may use: its own ceiling and those of the teams above it."""
    by_id = {team.id: team for team in teams}
    found: dict[str, int | None] = {}
    for team in teams:
        known: list[int] = []
        above: Team | None = team
        while above is not None:
            if above.max_priority is not None:
                known.append(above.max_priority)
            above = None if above.parent is None else by_id[above.parent]
        found[str(team.id)] = min(known, default=None)
    return found


def estimated_ends(times: Times, now: float) -> Reals:
    """Return when each running job is estimated to end, infinity without an estimate or past it."""
    return np.where(times.ends_at > now, times.ends_at, np.inf)


def flags(column: Ints) -> Flags:
    """Return a column of 0 and 1 as flags."""
    return column.astype(bool)
