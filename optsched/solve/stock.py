"""What running jobs hold, node by node, at what price, and who has rights over them: what a round starts from.

Index letter q: one pair of a running job and a node that it holds GPUs on, 0..Q-1, sorted by node, and on a node by how
little the job's stop would be missed. Arrays over pairs have shape (Q,), over running jobs (F,).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optsched.rounds.line import TIERS
from optsched.rounds.problem import Flags, Ints, Problem
from optsched.solve.ledger import Ledger
from optsched.solve.victims import Victims

_SIZE = 1 << 24
_CLASS = 1 << 48
"""Weights that put a victim's rank, its size and its cost into one integer, each below the one before."""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Jobs with the same rights: `rights` (F,) over whom, `pairs` (Q,) the same by pair. Stopped jobs are included.

    `among` lists those pairs, ascending; `job`, `team`, `cost` and `row` say of each whom it belongs to, that job's
    team, what its stop costs, and at which rank.
    """

    rights: Flags
    pairs: Flags
    among: Ints
    job: Ints
    team: Ints
    cost: Ints
    row: Ints


class Stock:
    """What running jobs hold, at what price, before anybody is stopped; prices go by what teams have in their `line`.

    Nothing of it is ever changed; `kinds` are the rights over jobs none of which shrinks, as far as somebody asked.
    """

    def __init__(self, problem: Problem, ledger: Ledger, line: Ints) -> None:
        self.line = line
        self.victims = Victims(problem)
        self.row = self._rows(problem, ledger.rows(line))
        self.price = self._prices()
        job, node = self.victims.pair_job, self.victims.pair_node
        order = np.lexsort((job, self.price[job], node))
        self.job, self.node = job[order], node[order]
        self.gpus, self.cpus, self.memory = (
            each[order] for each in (self.victims.pair_gpus, self.victims.pair_cpus, self.victims.pair_memory)
        )
        self.width = np.bincount(self.job, minlength=problem.first_queued)
        self.by_job, self.ends = np.argsort(self.job, kind="stable"), self.width.cumsum().tolist()
        self.kinds: dict[object, Kind] = {}

    def _rows(self, problem: Problem, rows: Ints) -> Ints:
        """Return the rank that each running job's stop would cost, (F,): the last one of its team and priority."""
        priorities = len(problem.priorities)
        low = rows.reshape(len(rows), 2, TIERS, priorities)[:, 0]
        last = TIERS - 1 - np.argmax(low[:, ::-1] > 0, axis=1)
        found: Ints = last[problem.occupancy.team, self.victims.priority] * priorities + self.victims.priority
        return found

    def _prices(self) -> Ints:
        """Return how much one would rather not stop each running job, (F,): rank, then size, then cost."""
        victims = self.victims
        most = int(victims.cost.max(initial=0)) + 1
        above = int(self.row.max(initial=0)) - self.row
        price: Ints = above * _CLASS + victims.size * _SIZE + victims.cost * (_SIZE - 1) // most
        return price


def stock_of(problem: Problem, ledger: Ledger, line: Ints | None) -> Stock:
    """Return what running jobs hold, as it was found out before in this round where prices are the same."""
    line = ledger.line.gpus.copy() if line is None else line
    known = problem.takeable.known.get(Stock.__name__)
    if not isinstance(known, Stock) or not np.array_equal(known.line, line):
        known = problem.takeable.known[Stock.__name__] = Stock(problem, ledger, line)
    return known
