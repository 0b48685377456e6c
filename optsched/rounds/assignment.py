"""A solver's answer: who starts, stops, moves and changes size, in the indices of a round."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from optsched.rounds.problem import Problem, RoundJob, Spread


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who is placed anew, and who is stopped.

    `changed` gives the placement after the plan of every job that starts, moves or changes size.
    """

    changed: Mapping[int, Spread] = field(default_factory=dict)
    stopped: frozenset[int] = frozenset()

    def after(self, job: RoundJob) -> Spread:
        """Return the job's placement after the plan; empty where it holds nothing."""
        if job.index in self.stopped:
            return ()
        return self.changed.get(job.index, job.spread_now)


NO_CHANGE = Assignment()


class Change(enum.Enum):
    """What an assignment does to one job."""

    START = "start"
    STOP = "stop"
    MOVE = "move"
    SHRINK = "shrink"
    GROW = "grow"

    __hash__ = object.__hash__
    """There is one object of each, and they are looked up at every step: by name that takes several times as long."""


def change_of(job: RoundJob, after: Spread) -> Change:
    """Return what a placement that differs from the present one means."""
    if not job.running:
        return Change.START
    if not after:
        return Change.STOP
    now, then = dict(job.spread_now), dict(after)
    if all(then.get(n, 0) <= count for n, count in now.items()) and then.keys() <= now.keys():
        return Change.SHRINK
    if all(then.get(n, 0) >= count for n, count in now.items()):
        return Change.GROW
    return Change.MOVE


@dataclass(frozen=True)
class Flow:
    """What an assignment gives and takes: `changes` by job, `takes` and `gives` as {node: {job: GPUs > 0}}."""

    problem: Problem
    assignment: Assignment
    changes: Mapping[int, Change]
    takes: Mapping[int, Mapping[int, int]]
    gives: Mapping[int, Mapping[int, int]]

    @cached_property
    def takers(self) -> tuple[int, ...]:
        """Jobs that take anything, ascending."""
        return tuple(sorted({j for on in self.takes.values() for j in on}))

    @cached_property
    def givers(self) -> tuple[int, ...]:
        """Jobs that give anything, ascending."""
        return tuple(sorted({j for on in self.gives.values() for j in on}))

    @cached_property
    def meetings(self) -> tuple[tuple[int, int], ...]:
        """Every (taker, giver) that meet on some node, each pair once, in the order of `shared`."""
        return tuple(dict.fromkeys((taker, giver) for _, taker, giver in self.shared))

    @cached_property
    def shared(self) -> tuple[tuple[int, int, int], ...]:
        """Every (node, taker, giver) that meet on a node, a job never with itself."""
        return tuple(
            (n, taker, giver)
            for n in sorted(self.takes.keys() & self.gives.keys())
            for taker in self.takes[n]
            for giver in self.gives[n]
            if taker != giver
        )


def flow_of(problem: Problem, assignment: Assignment) -> Flow:
    """Return who gives and takes what, where."""
    takes: dict[int, dict[int, int]] = defaultdict(dict)
    gives: dict[int, dict[int, int]] = defaultdict(dict)
    changes: dict[int, Change] = {}
    for j in sorted(assignment.changed.keys() | assignment.stopped):
        job = problem.jobs[j]
        after = assignment.after(job)
        if after == job.spread_now:
            continue
        changes[j] = change_of(job, after)
        gains = dict(after)
        for n, count in job.spread_now:
            gains[n] = gains.get(n, 0) - count
        for n in sorted(gains):
            gain = gains[n]
            if gain > 0:
                takes[n][j] = gain
            elif gain < 0:
                gives[n][j] = -gain
    return Flow(problem, assignment, changes, dict(takes), dict(gives))
