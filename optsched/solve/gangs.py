"""Places for gangs, with moves where holes must be made.

Gangs of equal parts have the cheapest nodes for which others miss least. Where a gang is bound to domains, jobs as
large as its parts make way there too, and parts of other gangs.
"""

from __future__ import annotations

from collections.abc import Set

import numpy as np

from optsched.rounds.problem import Cut, Ints, Problem, RoundJob, Spread
from optsched.rounds.room import usable
from optsched.solve.apart import Parts
from optsched.solve.cpsat.admission import Admitted
from optsched.solve.domains import cheapest_nodes
from optsched.solve.loose import Loosened
from optsched.solve.packing import pack
from optsched.solve.places import TIGHTNESS, Places, Style
from optsched.solve.stock import Kind
from optsched.solve.supply import Room

MOST_CLEARED = 8
"""How often a gang looks for other nodes because who is on those that it would have has nowhere to go."""


class Gangs(Places):
    """Places with gangs."""

    def __init__(self, problem: Problem, admitted: Admitted, style: Style, stuck: frozenset[int] = frozenset()) -> None:
        super().__init__(problem, admitted, style, stuck)
        self.parts = Parts(problem, self.ledger, admitted.stops | admitted.grows.keys() | stuck)

    def _place_gang(self, job: RoundJob) -> bool:
        kind = self._kind(job)
        room = self._room(job, kind)
        below = job.unit if job.cut is not Cut.WHOLE_NODES else self._largest
        if job.cut is not Cut.PER_NODE or len(job.slices) > 1 or any(piece % job.unit for piece, _ in job.slices):
            spread = self._pack(job, room, below)
        elif not _is_bound(job):
            spread = self._cheapest(job, kind, room, below)
        else:
            below += 1
            spread = self._cleared(job, kind, room, below)
            room = self._room(job, kind)
        if spread is None:
            return False
        for n, count in spread:
            if count > room.gpus[n] and not self._make_room(n, count - int(room.gpus[n]), max(below, count), job):
                return False
        return self._book(job, kind, spread)

    def _pack(self, job: RoundJob, room: Room, below: int) -> Spread | None:
        """Return a placement of an irregular gang: without moves if there is one, else over what could move."""
        gpus = np.maximum(room.gpus, 0)
        spread = pack(self.problem, job, gpus, room.cpus_u, room.memory_u, job.minimum)
        if spread is None:
            loose = self.loose.below(below, job.team)
            gpus = np.maximum(room.gpus + loose.gpus, 0)
            cpus_u, memory_u = room.cpus_u + loose.cpus_u, room.memory_u + loose.memory_u
            spread = pack(self.problem, job, gpus, cpus_u, memory_u, job.minimum)
        return spread

    def _cleared(self, job: RoundJob, kind: Kind, room: Room, below: int) -> Spread | None:
        """Return the nodes of a gang that is bound to domains, after parts of other gangs went on elsewhere."""
        stuck: set[int] = set()
        for _ in range(MOST_CLEARED):
            spread = self._cheapest(job, kind, room, below, stuck)
            if spread is None:
                break
            loose = self.loose.below(below, job.team).gpus
            short = {n: more for n, count in spread if (more := count - int(room.gpus[n])) > loose[n]}
            asides, nowhere = self.parts.asides(short, {n for n, _ in spread}, job)
            if not nowhere:
                self.loose.reserved.update(self.parts.move(asides))
                return spread
            stuck |= nowhere
        return None

    def _cheapest(
        self, job: RoundJob, kind: Kind, room: Room, below: int, stuck: Set[int] = frozenset()
    ) -> Spread | None:
        """Return the nodes of a gang of equal parts for which others miss least.

        Jobs smaller than `below` make way; parts of other gangs too, for one that is bound to domains, but for those
        that are `stuck` on their nodes.
        """
        worth = self._worth(kind, job.unit)
        stays, leaves = [self.loose.below(0, job.team)], [self.loose.below(below, job.team)]
        if _is_bound(job):
            leaves.append(self.parts.loosened(job, stuck))
        self._look()

        def cheapest(dear: Ints, moving: bool) -> Spread | None:
            worth_now = worth - self.foresight.price(dear, kind, job.unit)
            return self._equal_nodes(job, room, worth_now, leaves if moving else stays)

        return self.foresight.best(job, kind, room.gpus, cheapest)

    def _equal_nodes(self, job: RoundJob, room: Room, worth: Ints, leaves: list[Loosened]) -> Spread | None:
        """Return the cheapest nodes for a gang with `unit` GPUs on each; on a node the first way that will do is taken.

        A way is what those who make way would leave.
        """
        nodes, deficit = self.problem.nodes, np.maximum(0, job.unit - room.gpus)
        fits = np.zeros(len(deficit), dtype=bool)
        cost = np.zeros(len(deficit), dtype=np.int64)
        for way in leaves:
            gpus, cpus_u, memory_u = room.gpus + way.gpus, room.cpus_u + way.cpus_u, room.memory_u + way.memory_u
            more = (usable(job, nodes, gpus, cpus_u, memory_u) > 0) & ~fits
            cost[more] = way.price(deficit)[more]
            fits |= more
        price = cost - worth + TIGHTNESS * np.maximum(0, room.gpus - job.unit)
        return cheapest_nodes(self.problem, job, np.flatnonzero(fits), price)


def _is_bound(job: RoundJob) -> bool:
    """Return whether a gang has to be in some domain, and could not have any other nodes instead."""
    return bool(job.slices) or job.required is not None
