"""Places for single jobs, with moves where holes must be made: what the fine stage is made of.

Everybody is served by what stopped jobs leave over, the rarest first, before taking what anybody may have.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass

import numpy as np

from optsched.rounds.line import Use, line_of
from optsched.rounds.problem import UNLIMITED, Cut, Flags, Ints, Problem, RoundJob, Spread
from optsched.rounds.rights import claim_of, exempt
from optsched.rounds.score import gpu_type_of
from optsched.solve.cpsat.admission import Admitted
from optsched.solve.floors import Floors
from optsched.solve.foresight import Foresight, Taker
from optsched.solve.greedy import Params, Pass
from optsched.solve.ledger import Ledger
from optsched.solve.loose import Loose
from optsched.solve.shrinking import give_up
from optsched.solve.singles import Takers, share_out
from optsched.solve.stock import Kind
from optsched.solve.supply import Room, Supply

TIGHTNESS = 10
"""The price of one GPU left over on a node, in GPU-seconds: among equals the fullest node is taken."""

MOST_TRIED = 8
"""How many nodes are tried for one job on one node, best first."""

MOST_DISPLACED = 40
"""How many starts of worse ranks are tried to be displaced for one job."""

LEAST_WORTH, RAREST = 10_000, 40_000
"""What using a GPU of a stopped job instead of a free one is worth in GPU-seconds, and how much more if few may use it.

More than any span: what finds no place for want of the right GPUs costs a rank, a wide span only costs.
"""


@dataclass(frozen=True, slots=True)
class Style:
    """How to place: gangs by rank first or by size, and how much the right GPUs count against spans and moves.

    `run_on_first`: who need not stop runs on before others start in what is left over. `scarce_first`: who may have
    least of what stopped jobs leave comes first, among those who need whole nodes and among those of one size.
    `grow_first`: who is to grow does so once the gangs have their places, before single jobs have theirs.
    """

    rank_first: bool
    zeal: float
    run_on_first: bool = False
    scarce_first: bool = False
    grow_first: bool = False


class Places:
    """The state of one placing, and how one job is placed in it."""

    def __init__(self, problem: Problem, admitted: Admitted, style: Style, stuck: frozenset[int] = frozenset()) -> None:
        self.problem, self.admitted, self.style = problem, admitted, style
        self.ledger = Ledger(problem)
        self.supply = Supply(problem, self.ledger)
        self.floors = Floors(problem)
        for j, lost in sorted(admitted.shrinks.items()):
            give_up(problem, self.ledger, self.supply, self.floors, problem.jobs[j], lost)
        # What other teams are to take counts against its team's floor from the start: nothing else uses that up.
        for j in sorted(admitted.reclaimed):
            self.floors.take([problem.jobs[j]])
        self.supply.leave(sorted(admitted.stops))
        self.ledger.stop([problem.jobs[j] for j in sorted(admitted.stops)])
        self._after = self._use_after()
        self.fill = Pass(problem, Params(), self.ledger, self.supply, self.floors)
        self.loose = Loose(problem, self.ledger, admitted.stops | stuck)
        self._team_of_pair = self.supply.victims.team[self.supply.job]
        worth = style.zeal * (LEAST_WORTH + self._rarity()[self.supply.job])
        self._worth_of_pair = worth.astype(np.int64)
        self._gone = np.isin(self.supply.job, [*admitted.stops, *admitted.shrinks])
        self._to_retype = self._retyped(admitted)
        self._waiting: list[tuple[int, int, int, int]] = []
        self._options: dict[int, int] = {}
        self._largest = int(problem.nodes.capacity.max(initial=0))
        self._row_of: dict[tuple[int, int, int, int], int] = {}
        self._rank_of: dict[int, int] = {}
        self._unplaced: list[int] = []
        self._homeless: list[int] = []
        self._ones: list[RoundJob] = []
        self._closed: int | None = None
        self._late = False
        """Whether everybody had a turn: what is still left over is then for whoever may have it."""
        self._placed: dict[int, tuple[RoundJob, int]] = {}
        takers = [self._taker(problem.jobs[j]) for j in sorted(admitted.starts)]
        self.foresight = Foresight(problem, self.ledger, self.supply, self.loose, takers)

    def _taker(self, job: RoundJob) -> Taker:
        """Return what an admitted start may have."""
        kind, problem = self._kind(job), self.problem
        may = kind.rights
        if not exempt(job):
            may = may & (self.floors.taken | (self.supply.victims.team == job.team))
        typed = np.array([speed > 0 for speed in job.type_speed])
        if job.index in self.admitted.types:
            typed = np.arange(len(typed)) == self._type_of(job)
        nodes = job.nodes & typed[problem.nodes.gpu_type]
        return Taker(job, kind, may, nodes, self._piece(job), self._rank(job))

    def _piece(self, job: RoundJob) -> int:
        """Return the least that a job has on a node that it uses, in GPUs."""
        return {Cut.ONE_NODE: _need(job), Cut.WHOLE_NODES: self._largest}.get(job.cut, job.unit)

    def _look(self) -> None:
        """Bring up to date what is still to be placed and what is left over for it."""
        jobs, changed = self.problem.jobs, self.ledger.changed
        movers = [jobs[j] for *_, j in self._waiting if jobs[j].running]
        movers += [job for job in self._ones if job.running]
        gone = changed.keys() | set(self._unplaced)
        growth = {j: more for j, more in self.admitted.grows.items() if j not in changed}
        self.foresight.look([jobs[j] for j in self.admitted.starts - gone], movers, growth)

    def _place_waiting(self) -> None:
        """Place who waits, but those of one GPU: they come last, together."""
        while self._waiting:
            *_, j = heapq.heappop(self._waiting)
            job = self.problem.jobs[j]
            if _need(job) == 1:
                self._ones.append(job)
            elif not self._place(job) and not self._displace(job):
                (self._homeless if job.running else self._unplaced).append(j)

    def _wait(self, job: RoundJob, size: int) -> None:
        """Let a job of one node wait for its turn: larger ones first, and who has no home before who may stay out."""
        heapq.heappush(self._waiting, (-size, self._plenty(job), self._rank(job), job.index))

    def _hardest_first(self, job: RoundJob) -> tuple[int, ...]:
        """Gangs that are hard to place come first: in slices, then inside one domain, then by rank and size."""
        rank = self._rank(job) if self.style.rank_first else 0
        return (not job.slices, job.required is None, self._plenty(job), rank, -job.minimum, job.index)

    def _plenty(self, job: RoundJob) -> int:
        """Return how much of what stopped jobs leave the job may have, in GPUs; 0 where that is no question."""
        if not self.style.scarce_first or job.running:
            return 0
        kind = self._kind(job)
        if id(kind) not in self._options:
            self._options[id(kind)] = int(self.supply.leftovers(kind)[1].sum())
        return self._options[id(kind)]

    def _rank(self, job: RoundJob) -> int:
        """Return how much a place for the job matters, the most first: the first row that would lose without it.

        A running job that needs a new home comes before all.
        """
        if job.running:
            return -1
        found = self._rank_of.get(job.index)
        if found is None:
            found = self._rank_of[job.index] = self._first_loss(job)
        return found

    def _first_loss(self, job: RoundJob) -> int:
        """Return the first row that would lose without a place for a job."""
        key = (job.line_team, job.priority, job.minimum, y := self._type_of(job))
        found = self._row_of.get(key)
        if found is None:
            line = line_of(self.problem.lines, job.line_team, self.problem.deadline_team)
            held = self._line_after[job.line_team].copy()
            with_it = line.rows(held.tolist())
            held[job.priority, y] -= job.minimum
            without = line.rows(held.tolist())
            losses = [row for row, (a, b) in enumerate(zip(with_it, without, strict=True)) if a > b]
            found = self._row_of[key] = losses[0] if losses else len(with_it)
        return found

    def _use_after(self) -> Use:
        """Return what teams use once everything admitted has started."""
        use = self.ledger.claim
        self._line_after = self.ledger.line.gpus.copy()
        after = Use(use.gpus.copy(), use.cpus.copy(), use.memory.copy())
        for j in self.admitted.starts:
            job = self.problem.jobs[j]
            y = self._type_of(job)
            self._line_after[job.line_team, job.priority, y] += job.minimum
            after.gpus[job.claim_team, job.priority, y] += job.minimum
            after.cpus[job.claim_team, job.priority] += job.minimum * job.cpus_per_gpu_u
            after.memory[job.claim_team, job.priority] += job.minimum * job.memory_per_gpu_u
        return after

    def _type_of(self, job: RoundJob) -> int:
        """Return the GPU type that a start is to have: as admitted, else the first that it may have."""
        chosen = self.admitted.types.get(job.index)
        return next((y for y, speed in enumerate(job.type_speed) if speed > 0), 0) if chosen is None else chosen

    def _retyped(self, admitted: Admitted) -> Counter[tuple[int, int]]:
        """Return the GPUs of running jobs that are to move from one GPU type to another, by both."""
        found: Counter[tuple[int, int]] = Counter()
        for j, y in admitted.types.items():
            job = self.problem.jobs[j]
            if job.running:
                found[gpu_type_of(self.problem, job.spread_now), y] += job.size_now
        return found

    def _may_have(self, job: RoundJob) -> Flags:
        """Return the nodes of the GPU types that a running job may have, (N,): its own, or one that some are to have.

        Which of those alike change their type is all the same, but no more do than were admitted to.
        """
        home = gpu_type_of(self.problem, job.spread_now)
        types = [
            y == home or (speed > 0 and self.loose.retyped[home, y] + job.size_now <= self._to_retype[home, y])
            for y, speed in enumerate(job.type_speed)
        ]
        may: Flags = np.array(types)[self.problem.nodes.gpu_type]
        return may

    def _rarity(self) -> Ints:
        """Return how rare what each running job leaves is, (F,): the fewer GPUs may be started over it the rarer.

        What is on a node is drawn on in that order too.
        """
        mass = np.zeros(self.problem.first_queued, dtype=np.int64)
        team = self.supply.victims.team
        for j in self.admitted.starts:
            job = self.problem.jobs[j]
            mass += job.minimum * (self._kind(job).rights & (self.floors.taken | (team == job.team)))
        for leaving in self.supply.stopped_on.values():
            leaving.sort(key=lambda j: (int(mass[j]), j))
        most = max(1, int(mass.max(initial=0)))
        rarity: Ints = RAREST * (most - mass) // most
        # Of those who shrink the less urgent first: what nobody takes they keep.
        for j in self.admitted.shrinks:
            rarity[j] += RAREST * self.problem.jobs[j].priority // (8 * len(self.problem.priorities))
        return rarity

    def _kind(self, job: RoundJob) -> Kind:
        return self.supply.kind(job, claim_of(self.problem, job, job.minimum, self._after))

    def _room(self, job: RoundJob, kind: Kind) -> Room:
        """Return what the job may have on each node; nothing where its start would break a team's floor."""
        room = self.supply.room(job, kind)
        gpus = room.gpus
        barred = kind.pairs & self._gone & (self._team_of_pair != job.team) & ~self._for_others()[self.supply.job]
        if barred.any() and not exempt(job):
            gpus = gpus.copy()
            gpus[self.supply.node[barred]] = -UNLIMITED
        if self._closed is not None:
            gpus = gpus.copy()
            gpus[self._closed] = -UNLIMITED
        if job.index in self.admitted.types:
            gpus = np.where(self.problem.nodes.gpu_type == self._type_of(job), gpus, -UNLIMITED)
        return Room(self._unreserved(job, gpus), room.cpus_u, room.memory_u)

    def _for_others(self) -> Flags:
        """Return the running jobs from which other teams may take, (F,): as admitted; late all that floors allow."""
        return self.floors.within() if self._late else self.floors.taken

    def _unreserved(self, job: RoundJob, gpus: Ints) -> Ints:
        """Return `gpus` less what is free on nodes for another team alone."""
        others = [n for n, team in self.loose.reserved.items() if team != job.team]
        if others:
            gpus = gpus.copy()
            gpus[others] -= self.ledger.gpus[others]
        return gpus

    def _worth(self, kind: Kind, need: int) -> Ints:
        """Return what serving `need` GPUs of a kind is worth on each node for the stopped jobs' GPUs it uses, (N,)."""
        pairs, left = self.supply.leftovers(kind)
        count = len(self.problem.nodes.capacity)
        gpus = np.bincount(self.supply.node[pairs], left, count)
        worth = np.bincount(self.supply.node[pairs], left * self._worth_of_pair[pairs], count)
        return np.where(gpus > need, worth * need / np.maximum(gpus, 1), worth).astype(np.int64)

    def _book(self, job: RoundJob, kind: Kind, spread: Spread) -> bool:
        claim = claim_of(self.problem, job, job.minimum, self._after)
        if self.ledger.blocked_by(job, job.minimum, gpu_type_of(self.problem, spread)) is not None:
            return False
        if not self.fill.book(job, claim, kind, spread, []):
            return False
        if job.cut is Cut.ONE_NODE:
            self._placed[job.index] = job, spread[0][0]
        return True

    def _place(self, job: RoundJob) -> bool:
        return self._rehouse(job) if job.running else self._place_single(job)

    def _displace(self, job: RoundJob) -> bool:
        """Place a job where one of a worse rank is, which waits again: the worst of the smallest that will do."""
        need, free, rank = _need(job), self.ledger.gpus, self._rank(job)
        may = (job.nodes & self._may_have(job) if job.running else job.nodes).tolist()
        worse = [
            (-other.minimum, self._rank(other), other.index, n)
            for other, n in self._placed.values()
            if may[n] and other.minimum >= need and self._rank(other) > rank
            if not job.running or self._free_share(other, n) + free[n] >= need
        ]
        for size, *_, j, n in sorted(worse, reverse=True)[:MOST_DISPLACED]:
            other = self.problem.jobs[j]
            self.fill.unbook(other)
            del self._placed[j]
            if self._settle(job, n):
                self._wait(other, -size)
                return True
            if not self._settle(other, n):
                self._wait(other, -size)
        return False

    def _settle(self, job: RoundJob, n: int) -> bool:
        """Put a job of one node on a node if it fits there as things are."""
        room = self._room_of(job)
        if n not in self._fitting(job, moving=False, room=room):
            return False
        if job.running:
            self.loose.settle(job, n)
            return True
        return self._book(job, self._kind(job), ((n, job.minimum),))

    def _place_ones(self) -> None:
        """Give the jobs of one GPU theirs: as many as possible, better ranks first."""
        kinds: dict[tuple[object, ...], list[RoundJob]] = {}
        ones, self._ones = self._ones, []
        for job in ones:
            rights = None if job.running else id(self._kind(job))
            side = (job.cpus_per_gpu_u, job.memory_per_gpu_u, job.type_speed)
            home = gpu_type_of(self.problem, job.spread_now) if job.running else self.admitted.types.get(job.index, -1)
            kinds.setdefault((self._rank(job), rights, job.team, home, id(job.nodes), job.required, *side), []).append(
                job
            )
        ranks = sorted({self._rank(jobs[0]) for jobs in kinds.values()})
        pairs = self.supply.leaving
        free = np.flatnonzero((self.ledger.gpus > 0) & self.problem.nodes.taking)
        nodes = np.concatenate([free, self.supply.node[pairs]])
        amounts = np.concatenate([self.ledger.gpus[free], self.supply.left(pairs)])
        takers = []
        for jobs in kinds.values():
            job, may = jobs[0], np.zeros(len(nodes), dtype=bool)
            fits = np.zeros(len(self.problem.nodes.capacity), dtype=bool)
            fits[self._fitting(job, moving=False)] = True
            may[: len(free)] = fits[free]
            if not job.running:
                may[len(free) :] = fits[nodes[len(free) :]] & self._kind(job).pairs[pairs]
            takers.append(Takers(len(jobs), len(ranks) - ranks.index(self._rank(job)), may))
        shares = share_out(takers, amounts)
        for jobs, share in zip(kinds.values(), shares, strict=True):
            left = list(jobs)
            for source, count in share:
                for job in left[:count]:
                    if not self._settle(job, int(nodes[source])):
                        (self._homeless if job.running else self._unplaced).append(job.index)
                left = left[count:]
            for job in left:
                (self._homeless if job.running else self._unplaced).append(job.index)

    def _place_single(self, job: RoundJob) -> bool:
        kind = self._kind(job)
        room = self._room(job, kind)
        there = self._fitting(job, moving=True, room=room)
        if not len(there):
            return False
        price = self._price(job, room, there) - self._worth(kind, job.minimum)[there]
        at: list[int] = []
        self._look()

        def cheapest(dear: Ints, moving: bool) -> Spread | None:
            order = np.argsort(price + self.foresight.price(dear, kind, job.minimum)[there], kind="stable")
            nodes = there[order]
            if not moving:
                nodes = nodes[room.gpus[nodes] >= job.minimum]
            at[:] = nodes[:MOST_TRIED].tolist()
            return ((at[0], job.minimum),) if at else None

        spread = self.foresight.best(job, kind, room.gpus, cheapest)
        if spread is None:
            return False
        for n in dict.fromkeys([spread[0][0], *at]):
            if self._make_room(n, job.minimum - int(room.gpus[n]), job.minimum, job):
                return self._book(job, kind, ((n, job.minimum),))
        return False

    def _rehouse(self, job: RoundJob) -> bool:
        room = self._room_of(job)
        there = self._fitting(job, moving=True, room=room)
        price = self._price(job, room, there)
        price += LEAST_WORTH * (self.problem.nodes.gpu_type[there] != gpu_type_of(self.problem, job.spread_now))
        for n in there[np.argsort(price, kind="stable")[:MOST_TRIED]].tolist():
            if self._make_room(n, job.size_now - int(room.gpus[n]), job.size_now, job):
                return self._settle(job, n)
        return False

    def _price(self, job: RoundJob, room: Room, there: Ints) -> Ints:
        """Return what a job of one node costs on some nodes: to make room, and how tight it is."""
        need = _need(job)
        price = self.loose.below(need, job.team).price(np.maximum(0, need - room.gpus))[there]
        found: Ints = price + TIGHTNESS * np.maximum(0, room.gpus[there] - need)
        return found

    def _room_of(self, job: RoundJob) -> Room:
        """Return what a job of one node may have on each node as things are."""
        if not job.running:
            return self._room(job, self._kind(job))
        gpus = np.where(self._may_have(job), self._unreserved(job, self.ledger.free_for(job)), 0)
        return Room(gpus, self.ledger.cpus_u, self.ledger.memory_u)

    def _fitting(self, job: RoundJob, *, moving: bool, room: Room | None = None) -> Ints:
        """Return the nodes on which a job of one node fits, if others may move from there or as things are."""
        need, room = _need(job), room or self._room_of(job)
        gpus, cpus_u, memory_u = room.gpus, room.cpus_u, room.memory_u
        if moving:
            loose = self.loose.below(need, job.team)
            gpus, cpus_u, memory_u = gpus + loose.gpus, cpus_u + loose.cpus_u, memory_u + loose.memory_u
        fits = job.nodes & (gpus >= need)
        if len(self.problem.gpu_types) > 1:
            fits &= np.array(job.type_speed)[self.problem.nodes.gpu_type] > 0
        if job.cpus_per_gpu_u:
            fits &= cpus_u >= need * job.cpus_per_gpu_u
        if job.memory_per_gpu_u:
            fits &= memory_u >= need * job.memory_per_gpu_u
        if job.required is not None:
            fits &= self.problem.tree.domain_of[job.required] >= 0
        return np.flatnonzero(fits)

    def _make_room(self, n: int, deficit: int, below: int, job: RoundJob) -> bool:
        movers = self.loose.lift(n, deficit, below, job)
        for mover in movers or ():
            self._wait(mover, mover.size_now)
        return movers is not None

    def _free_share(self, taker: RoundJob, n: int) -> int:
        """Return the GPUs that a start has on a node of what is free for anybody."""
        here = ((n, dict(self.ledger.changed[taker.index])[n]),)
        return here[0][1] - sum(self.supply.drawn_by(taker.index, here).values())

    def _unbook(self, job: RoundJob) -> None:
        """Take a start back."""
        self.fill.unbook(job)
        self._placed.pop(job.index, None)


def _need(job: RoundJob) -> int:
    """Return the GPUs that a job of one node is to have."""
    return job.size_now if job.running else job.minimum
