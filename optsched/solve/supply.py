"""What running jobs hold, node by node, and what stopped ones leave over: the greedy solver's account of force.

Index letter q: one pair of a running job and a node that it holds GPUs on, 0..Q-1, sorted by node, and on a node by how
little the job's stop would be missed. Arrays over pairs have shape (Q,), over nodes (N,), over running jobs (F,).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from optsched.rounds.line import TIERS
from optsched.rounds.problem import Flags, Ints, Problem, RoundJob, Spread
from optsched.rounds.rights import Claim
from optsched.rounds.room import usable
from optsched.solve.ledger import Ledger
from optsched.solve.stock import Kind, stock_of


@dataclass(frozen=True, slots=True)
class Room:
    """What a job may have for nothing on each node, each (N,): what is free and what stopped jobs leave over for it."""

    gpus: Ints
    cpus_u: Ints
    memory_u: Ints


def firsts_of(values: Ints) -> Ints:
    """Return the positions at which runs of equal values begin."""
    begins = np.empty(len(values), dtype=bool)
    begins[:1] = True
    np.not_equal(values[1:], values[:-1], out=begins[1:])
    return begins.nonzero()[0]


def lengths_of(firsts: Ints, count: int) -> Ints:
    """Return how long the runs are that begin at `firsts` among `count` values."""
    lengths = np.empty(len(firsts), dtype=np.int64)
    np.subtract(firsts[1:], firsts[:-1], out=lengths[:-1])
    lengths[-1:] = count - firsts[-1:]
    return lengths


class Supply:
    """Who may be stopped for whom at what price, and what those already stopped leave over, and for whom.

    Prices go by what teams have in their `line`, shape (T, 2P, Y); None: as the ledger stands.
    """

    def __init__(self, problem: Problem, ledger: Ledger, line: Ints | None = None) -> None:
        self.problem, self.ledger = problem, ledger
        stock = stock_of(problem, ledger, line)
        self.victims, self.row, self.price = stock.victims, stock.row, stock.price
        self.job, self.node = stock.job, stock.node
        self.gpus, self.cpus, self.memory = stock.gpus, stock.cpus, stock.memory
        self.width, self._by_job, self._ends = stock.width, stock.by_job, stock.ends
        self._alive = np.ones(len(self.job), dtype=bool)
        self._left = np.zeros(len(self.job), dtype=np.int64)
        self._leaving: Ints = np.zeros(0, dtype=np.int64)
        self._shrunk: Flags | None = None
        self._kinds = stock.kinds
        self._nodes_of_types: dict[tuple[float, ...], Flags] = {}
        self.kind_of: dict[int, Kind] = {}
        self.used: dict[int, dict[int, dict[int, int]]] = {}
        self.stopped_on: dict[int, list[int]] = {}

    def kind(self, job: RoundJob, claim: Claim) -> Kind:
        """Return over whom the job has rights with a claim; jobs alike share the answer."""
        key = (job.team, job.priority, job.due, job.emergency, job.may_break_quota, claim)
        found = self._kinds.get(key)
        if found is None:
            rights = self.victims.rights(job, claim)
            if self._shrunk is not None:
                rights = np.where(self._shrunk, self.victims.shrink_rights(job, claim), rights)
            pairs = rights[self.job]
            among = pairs.nonzero()[0]
            who = self.job[among]
            by_job = (each[who] for each in (self.victims.team, self.victims.cost, self.row))
            found = self._kinds[key] = Kind(rights, pairs, among, who, *by_job)
        return found

    def room(self, job: RoundJob, kind: Kind) -> Room:
        """Return what the job may have without stopping anybody more."""
        free = self.ledger.free_for(job)
        if len(self._leaving):
            mine = self._leaving[kind.pairs[self._leaving]]
            if len(mine):
                free = free.copy()
                np.add.at(free, self.node[mine], self._left[mine])
        return Room(free, self.ledger.cpus_u, self.ledger.memory_u)

    def leaves(self, kind: Kind) -> bool:
        """Return whether stopped jobs leave over anything for jobs of this kind."""
        return bool(len(self._leaving)) and bool(kind.pairs[self._leaving].any())

    def live(self, job: RoundJob, kind: Kind, within: Flags | None, first_row: int | None) -> Ints:
        """Return the pairs of the running jobs each of which alone could be stopped for a job of this kind, ascending.

        That is by what it costs; by floors, where `within` (F,) flags whom other teams may stop; and by rank, from
        `first_row` on.
        """
        found = self._alive[kind.among]
        found &= kind.cost <= job.pays_gpu_s
        if first_row is not None:
            found &= kind.row >= first_row
        if within is not None:
            found &= (kind.team == job.team) | within[kind.job]
        live: Ints = kind.among[found]
        return live

    def freed(self, chosen: Sequence[int], room: Room) -> Room:
        """Return the room once the chosen have stopped too."""
        if not chosen:
            return room
        pairs = np.concatenate([self._pairs_of(j) for j in chosen])
        nodes = self.node[pairs]
        freed = Room(room.gpus.copy(), room.cpus_u.copy(), room.memory_u.copy())
        np.add.at(freed.gpus, nodes, self.gpus[pairs])
        np.add.at(freed.cpus_u, nodes, self.cpus[pairs])
        np.add.at(freed.memory_u, nodes, self.memory[pairs])
        return freed

    def usable(self, job: RoundJob, room: Room) -> Ints:
        """Return the GPUs of the job that each node can take, (N,)."""
        return usable(job, self.problem.nodes, room.gpus, room.cpus_u, room.memory_u)

    def nodes_of_types(self, job: RoundJob) -> Flags | None:
        """Return the nodes of a type at which the job has a speed, (N,); None where that is no question."""
        if all(speed > 0 for speed in job.type_speed):
            return None
        found = self._nodes_of_types.get(job.type_speed)
        if found is None:
            speeds = np.array(job.type_speed)[self.problem.nodes.gpu_type]
            found = self._nodes_of_types[job.type_speed] = speeds > 0
        return found

    def first_enough(self, job: RoundJob, room: Room, live: Ints, need: int) -> tuple[Ints, Ints]:
        """Return, for each node that could take `need` GPUs, the first `live` pair there and the last that must stop.

        Both are positions in `live`: with the stop of that last and all before it on the node there is room.
        """
        nodes = self.node[live]
        enough = job.nodes[nodes]
        firsts = firsts_of(nodes)
        heads = np.repeat(firsts, lengths_of(firsts, len(live)))
        for amounts, free, each in (
            (self.gpus, room.gpus, 1),
            (self.cpus, room.cpus_u, job.cpus_per_gpu_u),
            (self.memory, room.memory_u, job.memory_per_gpu_u),
        ):
            if each:
                given = amounts[live]
                through = given.cumsum()
                enough &= through - (through - given)[heads] + free[nodes] >= need * each
        found = enough.nonzero()[0]
        last: Ints = found[firsts_of(nodes[found])]
        return heads[last], last

    def alone_enough(self, job: RoundJob, room: Room, live: Ints, need: int) -> Ints:
        """Return those of the `live` pairs each of which alone makes room for `need` GPUs on its node."""
        nodes = self.node[live]
        enough = job.nodes[nodes] & (self.gpus[live] + room.gpus[nodes] >= need)
        if job.cpus_per_gpu_u:
            enough &= self.cpus[live] + room.cpus_u[nodes] >= need * job.cpus_per_gpu_u
        if job.memory_per_gpu_u:
            enough &= self.memory[live] + room.memory_u[nodes] >= need * job.memory_per_gpu_u
        found: Ints = live[enough]
        return found

    def cost_of(self, chosen: Sequence[int]) -> tuple[int, ...]:
        """Return a price of stopping them all: GPUs by rank, the most important first, then cost and who they are."""
        by_row = [0] * (TIERS * len(self.problem.priorities))
        for j in chosen:
            by_row[self.row[j]] += int(self.victims.size[j])
        return (*by_row, sum(int(self.victims.cost[j]) for j in chosen), *sorted(chosen))

    def met(self, kind: Kind, spread: Spread) -> list[int]:
        """Return the stopped jobs over which the kind has a right on the nodes of a placement."""
        return sorted({j for n, _ in spread for j in self.stopped_on.get(n, ()) if kind.rights[j]})

    def leave(self, chosen: Sequence[int]) -> None:
        """Let jobs stop before it is known for whom."""
        for j in chosen:
            pairs = self._pairs_of(j)
            self._alive[pairs] = False
            self._left[pairs] = self.gpus[pairs]
            for n, _ in self.problem.jobs[j].spread_now:
                self.stopped_on.setdefault(n, []).append(j)
        self._note()

    def shrink(self, j: int, given: Spread) -> None:
        """Let a job give up GPUs on some nodes before it is known for whom. Comes before anybody's rights are asked."""
        if self._shrunk is None:
            self._shrunk, self._kinds = np.zeros(self.problem.first_queued, dtype=bool), {}
        self._shrunk[j] = True
        for n, count in given:
            self._left[self._pair(j, n)] = count
            self.stopped_on.setdefault(n, []).append(j)
        self._note()

    def unused(self, j: int) -> Spread:
        """Return what a job that shrinks gives up on nodes where nobody took any of it."""
        found = []
        for n, _ in self.problem.jobs[j].spread_now:
            left = int(self._left[self._pair(j, n)])
            if left and j in self.stopped_on.get(n, ()) and not any(self.used.get(j, {}).get(n, {}).values()):
                found.append((n, left))
        return tuple(found)

    def unshrink(self, j: int, nodes: Iterable[int]) -> None:
        """Take back what nobody used of a shrink on some nodes."""
        for n in nodes:
            self._left[self._pair(j, n)] = 0
            self.stopped_on[n].remove(j)
        self._note()

    def pin(self, jobs: Iterable[int]) -> None:
        """Take running jobs out of those that may still be stopped."""
        for j in jobs:
            self._alive[self._pairs_of(j)] = False

    def undraw(self, taker: int, spread: Spread) -> dict[int, int]:
        """Give back what a taker has of stopped jobs; returns the GPUs by node that it has of what was free."""
        free = {}
        for n, count in spread:
            for victim in self.stopped_on.get(n, ()):
                drawn = self.used.get(victim, {}).get(n, {}).pop(taker, 0)
                self._left[self._pair(victim, n)] += drawn
                count -= drawn
            if count:
                free[n] = count
        self._note()
        return free

    @property
    def leaving(self) -> Ints:
        """The pairs with leftovers, ascending."""
        return self._leaving

    def left(self, pairs: Ints) -> Ints:
        """Return the GPUs that are left over of each pair."""
        found: Ints = self._left[pairs]
        return found

    def drawn_by(self, taker: int, spread: Spread) -> dict[int, int]:
        """Return the GPUs that a taker has of each stopped job."""
        found: dict[int, int] = {}
        for n, _ in spread:
            for victim in self.stopped_on.get(n, ()):
                count = self.used.get(victim, {}).get(n, {}).get(taker, 0)
                if count:
                    found[victim] = found.get(victim, 0) + count
        return found

    def leaving_on(self, n: int) -> Iterator[tuple[int, int, int]]:
        """Yield who leaves GPUs on a node, with its pair and what is left of it, in the order of drawing on them."""
        for j in self.stopped_on.get(n, ()):
            pair = self._pair(j, n)
            yield j, pair, int(self._left[pair])

    def leftovers(self, kind: Kind) -> tuple[Ints, Ints]:
        """Return the pairs of which something is left over for a kind, and how many GPUs of each."""
        pairs = self._leaving[kind.pairs[self._leaving]]
        return pairs, self._left[pairs]

    def serve(self, job: RoundJob, kind: Kind, spread: Spread, chosen: Sequence[int]) -> dict[int, int]:
        """Book that a job starts over leftovers and the chosen; returns what it takes of the free GPUs by node."""
        self.leave(chosen)
        self.kind_of[job.index] = kind
        from_free = {}
        for n, count in spread:
            still = count
            for j in self.stopped_on.get(n, ()):
                if still and kind.rights[j]:
                    still -= self.draw(j, n, job.index, still)
            if still:
                from_free[n] = still
        self._note()
        return from_free

    def draw(self, victim: int, n: int, taker: int, most: int) -> int:
        """Take up to `most` GPUs of what a stopped job leaves over on a node; returns how many."""
        pair = self._pair(victim, n)
        taken = min(most, int(self._left[pair]))
        if taken:
            self._left[pair] -= taken
            users = self.used.setdefault(victim, {}).setdefault(n, {})
            users[taker] = users.get(taker, 0) + taken
        return taken

    def _pairs_of(self, j: int) -> Ints:
        """Return the pairs of a running job, ascending."""
        end = self._ends[j]
        pairs: Ints = self._by_job[end - int(self.width[j]) : end]
        return pairs

    def _pair(self, j: int, n: int) -> int:
        pairs = self._pairs_of(j)
        return int(pairs[np.searchsorted(self.node[pairs], n)])

    def _note(self) -> None:
        """Bring the list of pairs with leftovers up to date."""
        self._leaving = np.flatnonzero(self._left)

    def give_back(self, victim: RoundJob) -> dict[int, int] | None:
        """Let a stopped job run on if its takers can do without; returns what they take of free GPUs instead."""
        j, from_free = victim.index, dict[int, int]()
        changes: list[tuple[int, int, int, int]] = []
        spare: dict[int, int] = {}
        for n, users in self.used.get(j, {}).items():
            free = int(self.ledger.gpus[n])
            for taker, count in users.items():
                still = count
                for other in self.stopped_on[n]:
                    if other == j or not still or not self.kind_of[taker].rights[other]:
                        continue
                    pair = self._pair(other, n)
                    taken = min(still, spare.setdefault(pair, int(self._left[pair])))
                    if taken:
                        spare[pair] -= taken
                        still -= taken
                        changes.append((other, n, taker, taken))
                if still > free:
                    return None
                free -= still
                from_free[n] = from_free.get(n, 0) + still
        for other, n, taker, taken in changes:
            self.draw(other, n, taker, taken)
        self.used.pop(j, None)
        pairs = self._pairs_of(j)
        self._alive[pairs] = True
        self._left[pairs] = 0
        for n, _ in victim.spread_now:
            self.stopped_on[n].remove(j)
        self._note()
        return from_free
