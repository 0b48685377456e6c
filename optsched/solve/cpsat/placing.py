"""Places for what was admitted, as one model: who goes where, which of the jobs alike stop, who moves.

The quick placing takes job after job and now and then paints itself into a corner. This model sees all of them at
once, and it is small: admission has settled who starts and so what everybody's rights are, and jobs alike are counted
node by node.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from ortools.sat.python.cp_model import CpModel, IntVar

from optsched.rounds.problem import UNLIMITED, Flags, Ints, Problem, RoundJob
from optsched.rounds.score import loss_at
from optsched.solve.cpsat.linear import Sum
from optsched.solve.cpsat.terms import Linear
from optsched.solve.supply import Kind


@dataclass(frozen=True, slots=True)
class Seeker:
    """Starts alike: each of them wants `job.minimum` GPUs on one node, or `job.unit` on each of several.

    `rights` are what they may take from whom (F,), `room` what is free for them by node (N,), less than 0 where they
    may not be; `worth` is what a place for one is worth; `hint` their number by node in a placing that is known.
    """

    jobs: Sequence[RoundJob]
    kind: Kind
    room: Ints
    worth: int
    hint: Sequence[Mapping[int, int]]

    @property
    def job(self) -> RoundJob:
        """One that stands for all."""
        return self.jobs[0]

    @property
    def piece(self) -> int:
        """The GPUs on one node."""
        return self.job.minimum if self.width == 1 else self.job.unit

    @property
    def width(self) -> int:
        """The number of nodes of each."""
        return 1 if self.job.cut.name == "ONE_NODE" else self.job.minimum // self.job.unit


@dataclass(frozen=True, slots=True)
class Leaver:
    """A job that stops or shrinks, or could stop in place of one alike (`choice` says of which, -1: it does for sure).

    `gives` are its GPUs by node; `taken`: other teams may take them.
    """

    job: RoundJob
    gives: Mapping[int, int]
    stops: bool
    taken: bool
    needed: bool
    choice: int = -1


@dataclass(frozen=True, slots=True)
class Choice:
    """Of jobs alike `stops` stop, and of those `taken` are for other teams too."""

    stops: int
    taken: int


@dataclass(frozen=True, slots=True)
class Mover:
    """A running job on one node that may move to any of `may` (N,); bound ones leave room to their own team only.

    `hint` is where it goes in a placing that is known, -1: nowhere.
    """

    job: RoundJob
    may: Flags
    bound: bool
    hint: int = -1


@dataclass(frozen=True, slots=True)
class Spots:
    """Where everybody goes: the nodes of each seeker's jobs (of each a piece), the new node of each mover.

    Of those who had a choice, `stops` stop and from `taken` other teams may take.
    """

    pieces: Sequence[Sequence[Sequence[int]]]
    moves: Mapping[int, int]
    stops: frozenset[int]
    taken: frozenset[int]


class Placing:
    """The model. `free`, `cpus_u`, `memory_u` are what is free by node once all sure leavers have left, (N,)."""

    def __init__(
        self,
        problem: Problem,
        room: tuple[Ints, Ints, Ints],
        seekers: Sequence[Seeker],
        leavers: Sequence[Leaver],
        choices: Sequence[Choice],
        movers: Sequence[Mover],
    ) -> None:
        self.problem, self.model = problem, CpModel()
        self.free, self.cpus_u, self.memory_u = room
        self.seekers, self.leavers, self.choices, self.movers = seekers, leavers, choices, movers
        self.stop: dict[int, IntVar] = {}
        self.take: dict[int, IntVar] = {}
        self.out: dict[int, IntVar] = {}
        self.into: dict[tuple[object, ...], dict[int, IntVar]] = defaultdict(dict)
        self.kin: dict[tuple[object, ...], list[Mover]] = defaultdict(list)
        self.here: list[dict[int, IntVar]] = [{} for _ in seekers]
        self.units: list[list[dict[int, IntVar]]] = [[] for _ in seekers]
        self.goal = Sum()
        self._leaving: dict[int, list[Leaver]] = defaultdict(list)
        self._moving: dict[int, list[Mover]] = defaultdict(list)
        for leaver in leavers:
            for n in leaver.gives:
                self._leaving[n].append(leaver)
        for mover in movers:
            self._moving[mover.job.spread_now[0][0]].append(mover)
        self._add_leavers()
        self._add_movers()
        for index in range(len(seekers)):
            self._add_seeker(index)
        for n in range(len(self.free)):
            self._add_node(n)
        self._add_needs()
        self.model.maximize(self.goal.linear)

    def spots(self, value: Callable[[Linear], int]) -> Spots:
        """Return the places of a solution."""
        pieces = []
        for here, gangs in zip(self.here, self.units, strict=True):
            if gangs:
                pieces.append([[n for n, unit in units.items() if value(unit)] for units in gangs])
            else:
                pieces.append([[n] for n, count in here.items() for _ in range(value(count))])
        moves = {}
        for key, movers in self.kin.items():
            nodes = iter([n for n, into in self.into[key].items() for _ in range(value(into))])
            moves.update({m.job.index: next(nodes) for m in movers if value(self.out[m.job.index])})
        stops = frozenset(j for j, stop in self.stop.items() if value(stop))
        return Spots(pieces, moves, stops, frozenset(j for j, take in self.take.items() if value(take)))

    # --- variables

    def _add_leavers(self) -> None:
        stops: dict[int, list[IntVar]] = defaultdict(list)
        takes: dict[int, list[IntVar]] = defaultdict(list)
        for leaver in self.leavers:
            if leaver.choice < 0:
                continue
            j = leaver.job.index
            self.stop[j] = self.model.new_bool_var("")
            self.take[j] = self.model.new_bool_var("")
            self.model.add_hint(self.stop[j], leaver.stops)
            self.model.add_hint(self.take[j], leaver.taken)
            self.model.add_implication(self.take[j], self.stop[j])
            self.goal.add(self.stop[j], -leaver.job.costs.stop, 1)
            stops[leaver.choice].append(self.stop[j])
            takes[leaver.choice].append(self.take[j])
        for index, choice in enumerate(self.choices):
            self.model.add(sum(stops[index]) == choice.stops)
            self.model.add(sum(takes[index]) <= choice.taken)

    def _add_movers(self) -> None:
        """Out of where they are, one by one; into where they go, those alike together."""
        outs = np.zeros(len(self.free), dtype=np.int64)
        for mover in self.movers:
            outs[mover.job.spread_now[0][0]] += mover.job.size_now
        for mover in self.movers:
            job = mover.job
            self.out[job.index] = self.model.new_bool_var("")
            self.model.add_hint(self.out[job.index], mover.hint >= 0)
            if job.index in self.stop:
                self.model.add_implication(self.stop[job.index], ~self.out[job.index])
            self.goal.add(self.out[job.index], -job.costs.move - 1, 1)
            side = (job.cpus_per_gpu_u, job.memory_per_gpu_u)
            home = int(self.problem.nodes.gpu_type[job.spread_now[0][0]])
            key = (job.size_now, job.team if mover.bound else -1, id(job.nodes), home, job.type_speed, job.team, *side)
            self.kin[key].append(mover)
        for key, movers in self.kin.items():
            job, may = movers[0].job, movers[0].may
            home = int(self.problem.nodes.gpu_type[job.spread_now[0][0]])
            fits = may & (self.free > 0) & (self.free + outs >= job.size_now)
            for n in np.flatnonzero(fits).tolist():
                most = min(len(movers), int(self.free[n] + outs[n]) // job.size_now)
                into = self.into[key][n] = self.model.new_int_var(0, most, "")
                self.model.add_hint(into, min(most, sum(mover.hint == n for mover in movers)))
                y = int(self.problem.nodes.gpu_type[n])
                if y != home:
                    level = self.problem.tree.node_level
                    more = loss_at(self.problem, job, job.size_now, level, y) - loss_at(
                        self.problem, job, job.size_now, level, home
                    )
                    self.goal.add(into, -more - 1, most)
            left = [self.out[mover.job.index] for mover in movers]
            self.model.add(sum(left) == sum(self.into[key].values()))

    def _reachable(self, seeker: Seeker) -> tuple[Ints, Ints, Ints]:
        """Return what the seeker could have on each node at most: GPUs, CPUs and memory, (N,)."""
        job = seeker.job
        gpus, cpus, memory = seeker.room.copy(), self.cpus_u.copy(), self.memory_u.copy()
        for leaver in self.leavers:
            if seeker.kind.rights[leaver.job.index]:
                for n, count in leaver.gives.items():
                    gpus[n] += count
                    if leaver.choice >= 0:
                        cpus[n] += count * leaver.job.cpus_per_gpu_u
                        memory[n] += count * leaver.job.memory_per_gpu_u
        for mover in self.movers:
            if not mover.bound or mover.job.team == job.team:
                n, count = mover.job.spread_now[0]
                gpus[n] += count
                cpus[n] += count * mover.job.cpus_per_gpu_u
                memory[n] += count * mover.job.memory_per_gpu_u
        return gpus, cpus, memory

    def _add_seeker(self, index: int) -> None:
        seeker = self.seekers[index]
        job, piece, count = seeker.job, seeker.piece, len(seeker.jobs)
        gpus, cpus, memory = self._reachable(seeker)
        most = np.where(job.nodes, gpus, 0) // piece
        if job.cpus_per_gpu_u:
            most = np.minimum(most, cpus // (piece * job.cpus_per_gpu_u))
        if job.memory_per_gpu_u:
            most = np.minimum(most, memory // (piece * job.memory_per_gpu_u))
        barred = {
            n
            for leaver in self.leavers
            if leaver.choice < 0 and not leaver.taken and leaver.job.team != job.team
            if seeker.kind.rights[leaver.job.index]
            for n in leaver.gives
        }
        nodes = [n for n in np.flatnonzero(most > 0).tolist() if n not in barred]
        here = self.here[index]
        if seeker.width == 1:
            for n in nodes:
                limit = min(count, int(most[n]))
                here[n] = self.model.new_int_var(0, limit, "")
                self.goal.add(here[n], seeker.worth, limit)
                self.model.add_hint(here[n], sum(n in spread for spread in seeker.hint))
            self.model.add(sum(here.values()) <= count)
            return
        for spread in seeker.hint:
            self.units[index].append(self._add_gang(seeker, nodes, spread))
        for n in nodes:
            here[n] = self.model.new_int_var(0, min(count, int(most[n])), "")
            self.model.add(here[n] == sum(units[n] for units in self.units[index]))

    def _add_gang(self, seeker: Seeker, nodes: list[int], hint: Mapping[int, int]) -> dict[int, IntVar]:
        """Add one gang: `width` nodes of one domain, the narrower the better, or none."""
        job, tree = seeker.job, self.problem.tree
        units = {n: self.model.new_bool_var("") for n in nodes}
        for n, unit in units.items():
            self.model.add_hint(unit, n in hint)
        inside: dict[int, list[IntVar]] = defaultdict(list)
        chosen: list[IntVar] = []
        for level in range(-1, tree.node_level):
            if job.required is not None and level < job.required:
                continue
            members: dict[int, list[int]] = defaultdict(list)
            for n in nodes:
                members[int(tree.domain_of[level][n]) if level >= 0 else 0].append(n)
            for domain, those in members.items():
                if domain < 0 or len(those) < seeker.width:
                    continue
                literal = self.model.new_bool_var("")
                loss = min(
                    loss_at(self.problem, job, job.minimum, level, y)
                    for y, speed in enumerate(job.type_speed)
                    if speed > 0
                )
                self.goal.add(literal, seeker.worth - loss, 1)
                chosen.append(literal)
                for n in those:
                    inside[n].append(literal)
        self.model.add_at_most_one(chosen)
        self.model.add(sum(units.values()) == seeker.width * sum(chosen))
        for n, unit in units.items():
            self.model.add(unit <= sum(inside[n]))
        return units

    # --- rules

    def _add_node(self, n: int) -> None:
        """Room and rights on one node: each is served from what it may take, what is left over from what is free."""
        takers = [(seeker, here[n]) for seeker, here in zip(self.seekers, self.here, strict=True) if n in here]
        comers = [(key, into[n]) for key, into in self.into.items() if n in into]
        movers = self._moving.get(n, [])
        if not takers and not comers:
            for mover in movers:
                self.model.add(self.out[mover.job.index] == 0)
            return
        self._add_side(n, takers, comers)
        self._add_holds(n, takers, comers)
        alike: dict[tuple[int, int], list[tuple[Seeker, IntVar]]] = defaultdict(list)
        for seeker, count in takers:
            alike[seeker.job.team, id(seeker.kind)].append((seeker, count))
        from_free: dict[int, list[object]] = defaultdict(list)
        used: dict[int, list[IntVar]] = defaultdict(list)
        for (team, _), members in alike.items():
            wanted = sum(seeker.piece * count for seeker, count in members)
            drawn = []
            for leaver in self._leaving.get(n, ()):
                part = self._draw(n, leaver, members[0][0], team, members)
                if part is not None:
                    drawn.append(part)
                    used[leaver.job.index].append(part)
            rest = wanted - sum(drawn)
            if drawn:
                self.model.add(rest >= 0)
            from_free[team].append(rest)
        for leaver in self._leaving.get(n, ()):
            j, count = leaver.job.index, leaver.gives[n]
            if j in self.stop:
                self.model.add(sum(used[j]) <= count * self.stop[j])
            elif len(used[j]) > 1:
                self.model.add(sum(used[j]) <= count)
        for key, count in comers:
            from_free[self.kin[key][0].job.team].append(self.kin[key][0].job.size_now * count)
        self._add_free(n, from_free, movers)

    def _draw(
        self, n: int, leaver: Leaver, seeker: Seeker, team: int, members: list[tuple[Seeker, IntVar]]
    ) -> IntVar | None:
        j, count = leaver.job.index, leaver.gives[n]
        if not seeker.kind.rights[j]:
            return None
        part = self.model.new_int_var(0, count, "")
        if leaver.job.team != team and leaver.choice >= 0:
            self.model.add(part <= count * self.take[j])
            # Who may take from it and is on its node counts as taking, whoever serves it.
            most = int(self.problem.nodes.capacity[n])
            here = sum(one for _, one in members)
            self.model.add(here <= most * (1 - self.stop[j] + self.take[j]))
        return part

    def _add_free(self, n: int, from_free: dict[int, list[object]], movers: list[Mover]) -> None:
        left = sum(mover.job.size_now * self.out[mover.job.index] for mover in movers if not mover.bound)
        everything = sum(part for parts in from_free.values() for part in parts)  # type: ignore[misc]
        for team in {mover.job.team for mover in movers if mover.bound}:
            own = [mover for mover in movers if mover.bound and mover.job.team == team]
            if team not in from_free:
                for mover in own:
                    self.model.add(self.out[mover.job.index] == 0)
                continue
            most = sum(mover.job.size_now for mover in own)
            by_own = self.model.new_int_var(0, most, "")
            self.model.add(by_own <= sum(mover.job.size_now * self.out[mover.job.index] for mover in own))
            self.model.add(by_own <= sum(from_free[team]))  # type: ignore[arg-type]
            left = left + by_own
        self.model.add(everything - left <= int(self.free[n]))

    def _add_side(self, n: int, takers: list[tuple[Seeker, IntVar]], comers: list[tuple[tuple[object, ...], IntVar]]) -> None:
        for free, each in (
            (int(self.cpus_u[n]), lambda job: job.cpus_per_gpu_u),
            (int(self.memory_u[n]), lambda job: job.memory_per_gpu_u),
        ):
            if free >= UNLIMITED // 2:
                continue
            wanted = [(seeker.piece * each(seeker.job), count) for seeker, count in takers]
            wanted += [(self.kin[key][0].job.size_now * each(self.kin[key][0].job), count) for key, count in comers]
            given = [
                (mover.job.size_now * each(mover.job), self.out[mover.job.index]) for mover in self._moving.get(n, ())
            ]
            given += [
                (leaver.gives[n] * each(leaver.job), self.stop[leaver.job.index])
                for leaver in self._leaving.get(n, ())
                if leaver.choice >= 0
            ]
            self.model.add(sum(a * v for a, v in wanted if a) - sum(a * v for a, v in given if a) <= free)

    def _add_holds(self, n: int, takers: list[tuple[Seeker, IntVar]], comers: list[tuple[tuple[object, ...], IntVar]]) -> None:
        """Who is bound by a hold leaves it alone: what is free for it is less than what is free."""
        bound = [(seeker, count) for seeker, count in takers if seeker.room[n] < self.free[n]]
        if not bound:
            return
        least = min(int(seeker.room[n]) for seeker, _ in bound)
        given = sum(leaver.gives[n] * self.stop.get(leaver.job.index, 1) for leaver in self._leaving.get(n, ()))
        given = given + sum(mover.job.size_now * self.out[mover.job.index] for mover in self._moving.get(n, ()))
        taken = sum(seeker.piece * count for seeker, count in bound)
        taken = taken + sum(self.kin[key][0].job.size_now * count for key, count in comers)
        self.model.add(taken - given <= max(0, least))

    def _add_needs(self) -> None:
        """Who stops meets somebody with a right over it."""
        for leaver in self.leavers:
            if not leaver.needed:
                continue
            j = leaver.job.index
            met = [
                here[n]
                for seeker, here in zip(self.seekers, self.here, strict=True)
                if seeker.kind.rights[j]
                for n in leaver.gives
                if n in here
            ]
            idle = self.model.new_bool_var("")
            self.goal.add(idle, -NEEDLESS * leaver.job.size_now, 1)
            self.model.add(sum(met) + idle >= self.stop.get(j, 1))


NEEDLESS = 20_000
"""What it costs for each GPU, in GPU-seconds, to stop a job that nobody needs: somebody waits for want of it."""
