"""A placing that sees all of what was admitted at once, for what the quick one could not place."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from optsched.rounds.assignment import NO_CHANGE, Assignment
from optsched.rounds.problem import UNLIMITED, Cut, Ints, Problem, RoundJob
from optsched.solve.cpsat.admission import Admitted
from optsched.solve.cpsat.placing import Choice, Leaver, Mover, Placing, Seeker, Spots
from optsched.solve.cpsat.stages import Stages
from optsched.solve.fine import Fine
from optsched.solve.places import LEAST_WORTH, Style
from optsched.solve.result import Spent

WORTH = 10 * LEAST_WORTH
"""What a GPU in its place is worth in GPU-seconds, for each rank that it is above: more than all that it may cost."""

STYLE = Style(rank_first=False, zeal=1.0)
"""How to place what the model does not know."""


def settle(problem: Problem, admitted: Admitted, known: Assignment, spent: Spent, share: float) -> Assignment | None:
    """Return the plan that a model of all places gives, None where it is not valid or there was no time for it.

    `known` is a plan to start from.
    """
    model = Settling(problem, admitted, STYLE).model(known)
    stages = Stages(model.model, spent, lean=True)
    if stages.maximize(model.goal.linear, share).value is None:
        return None
    spots = model.spots(stages.value)
    free = {j for group in admitted.alike for j in group}
    admitted = replace(
        admitted, stops=admitted.stops - free | spots.stops, reclaimed=admitted.reclaimed - free | spots.taken
    )
    settling = Settling(problem, admitted, STYLE)
    settling.apply([seeker.jobs for seeker in model.seekers], spots)
    placed = settling.run()
    return None if placed.homeless or placed.dear or placed.wrong else placed.assignment


class Settling(Fine):
    """Places one admission by a model."""

    def model(self, known: Assignment = NO_CHANGE) -> Placing:
        """Return the model of all who wait for a place; gangs that it does not know are placed before."""
        gangs = [self.problem.jobs[j] for j in self.admitted.starts if not regular(self.problem.jobs[j])]
        for job in sorted(gangs, key=self._hardest_first):
            self._place_gang(job)
        leavers, choices = self._leavers()
        cpus, memory = self.ledger.cpus_u.copy(), self.ledger.memory_u.copy()
        for leaver in leavers:
            if leaver.choice >= 0 and leaver.stops:
                for n, count in leaver.job.spread_now:
                    cpus[n] -= count * leaver.job.cpus_per_gpu_u
                    memory[n] -= count * leaver.job.memory_per_gpu_u
        room = self.ledger.gpus, cpus, memory
        return Placing(self.problem, room, self._seekers(known), leavers, choices, self._movers(known))

    def apply(self, seekers: list[list[RoundJob]], spots: Spots) -> None:
        """Put everybody where the model says; what then does not fit is left to the quick placing."""
        for j, n in sorted(spots.moves.items()):
            job = self.problem.jobs[j]
            self.loose.lift_off(job)
            self.loose.settle(job, n)
        found = [
            (job, tuple((n, job.minimum if job.cut is Cut.ONE_NODE else job.unit) for n in nodes))
            for jobs, placed in zip(seekers, spots.pieces, strict=True)
            for job, nodes in zip(jobs, placed, strict=False)
            if nodes
        ]
        # Who may take from few is served first: from those.
        for job, spread in sorted(found, key=lambda each: (int(self._kind(each[0]).rights.sum()), each[0].index)):
            room = self._room(job, self._kind(job)).gpus
            if all(room[n] >= count for n, count in spread):
                self._book(job, self._kind(job), spread)

    def _seekers(self, known: Assignment) -> list[Seeker]:
        alike: dict[tuple[object, ...], list[RoundJob]] = defaultdict(list)
        for j in sorted(self.admitted.starts):
            job = self.problem.jobs[j]
            if regular(job):
                alike[self._alike_key(job)].append(job)
        ranks = sorted({self._rank(jobs[0]) for jobs in alike.values()}, reverse=True)
        return [
            Seeker(
                jobs,
                self._kind(jobs[0]),
                self._free_room(jobs[0]),
                WORTH * (1 + ranks.index(self._rank(jobs[0]))) * jobs[0].minimum,
                [dict(known.changed.get(job.index, ())) for job in jobs],
            )
            for jobs in alike.values()
        ]

    def _alike_key(self, job: RoundJob) -> tuple[object, ...]:
        side = (job.cpus_per_gpu_u, job.memory_per_gpu_u)
        holds = tuple(hold.name for hold in self.ledger.holds_on(job))
        shape = (job.cut, job.unit, job.minimum, id(job.nodes), job.type_speed, job.span_speed, job.required)
        chosen = self.admitted.types.get(job.index)
        return (job.team, id(self._kind(job)), self._rank(job), chosen, *shape, *side, holds)

    def _free_room(self, job: RoundJob) -> Ints:
        """Return what is free for a job on each node, less than 0 where it may not be, (N,)."""
        types = np.array(job.type_speed)[self.problem.nodes.gpu_type] > 0
        if job.index in self.admitted.types:
            types = self.problem.nodes.gpu_type == self._type_of(job)
        if job.required is not None:
            types &= self.problem.tree.domain_of[job.required] >= 0
        return np.where(types, self.ledger.free_for(job), -UNLIMITED)

    def _leavers(self) -> tuple[list[Leaver], list[Choice]]:
        gives: dict[int, dict[int, int]] = defaultdict(dict)
        pairs = self.supply.leaving
        for pair, left in zip(pairs.tolist(), self.supply.left(pairs).tolist(), strict=True):
            gives[int(self.supply.job[pair])][int(self.supply.node[pair])] = left
        stops, taken = self.admitted.stops, self.admitted.reclaimed
        choices, choice_of = [], {}
        for group in self.admitted.alike:
            if not any(self._touched(j) for j in group):
                choice_of.update(dict.fromkeys(group, len(choices)))
                choices.append(Choice(sum(j in stops for j in group), sum(j in taken for j in group)))
        for j in choice_of:
            gives[j] = dict(self.problem.jobs[j].spread_now)
        found = [
            Leaver(
                self.problem.jobs[j],
                on,
                stops=j in stops,
                taken=j in taken,
                needed=j in choice_of or (j in stops and not self._touched(j)),
                choice=choice_of.get(j, -1),
            )
            for j, on in sorted(gives.items())
        ]
        return found, choices

    def _touched(self, j: int) -> bool:
        """Return whether somebody has GPUs of a job that leaves."""
        return any(any(users.values()) for users in self.supply.used.get(j, {}).values())

    def _movers(self, known: Assignment) -> list[Mover]:
        inside = self.problem.takeable
        return [
            Mover(
                job,
                job.nodes & self._may_have(job),
                inside[job.index].inside_quota,
                known.changed.get(job.index, ((-1, 0),))[0][0],
            )
            for job in self.loose.all()
        ]


def regular(job: RoundJob) -> bool:
    """Return whether the model knows a job's cut."""
    return job.cut is Cut.ONE_NODE or (job.cut is Cut.PER_NODE and not job.slices and job.preferred is None)
