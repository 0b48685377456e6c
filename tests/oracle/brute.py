"""Section 2: every plan there is, and the best of them.

`all_plans` is the plain enumeration. `best_plans` is the same with three shortcuts that lose nothing: what is known
before anything is placed (rows, limits, who has a right over whom) is looked at first; the sets of decisions are taken
in the order of what they can at best be worth; and a placement is left out where a node cannot possibly serve it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from optsched.values.job import Job, JobState
from optsched.values.profile import PriorityMode
from optsched.values.snapshot import Snapshot
from tests.oracle.facts import (
    GIVERS,
    GROW,
    KEEP,
    MOVE,
    QUEUED,
    SHRINK,
    START,
    STOP,
    TAKERS,
    After,
    Hold,
    Outcome,
    Placement,
    Plan,
    Round,
)
from tests.oracle.rights import Rights
from tests.oracle.rules import RULES, may_be_moved, may_be_stopped
from tests.oracle.rules import broken as broken_rules
from tests.oracle.shapes import shapes
from tests.oracle.worth import Score, change_cost, older, placement_loss, row_order, rows_and_value, score, stays

__all__ = ["Best", "Hold", "Plan", "Round", "Score", "all_plans", "best_plans", "broken_rules", "score_of", "solve"]

DECIDED = (
    "rule_1_",
    "rule_2_",
    "rule_3_",
    "rule_4_",
    "rule_5_",
    "rule_6_",
    "rule_8_",
    "rule_9_",
    "rule_10_",
    "rule_13_",
)
"""Rules that are settled before the last placement is known."""


@dataclass(frozen=True)
class Best:
    """The best score of a round, all plans that have it, and how many plans were looked at to the end."""

    score: Score
    plans: tuple[Plan, ...]
    looked_at: int

    @property
    def keys(self) -> set[tuple]:
        """The plans in a form that compares."""
        return {plan.key() for plan in self.plans}


def solve(
    snapshot: Snapshot,
    *,
    mode: PriorityMode | None = None,
    order: Sequence[str] | None = None,
    entitlement: Mapping[str, Mapping[str, int]] | None = None,
    holds: Sequence[Hold] = (),
    without: frozenset[str] = frozenset(),
) -> Best:
    """Return the best plans of a snapshot, in the profile's mode or another."""
    return best_plans(Round(snapshot, order=order, entitlement=entitlement, holds=holds, without=without), mode)


def score_of(round_: Round, plan: Plan, mode: PriorityMode | None = None) -> Score:
    """Return the score of one plan, valid or not."""
    return score(After(round_, plan), mode)


@dataclass(frozen=True)
class Option:
    """One thing to do with one job, and all placements that it may then have (none where nothing is placed anew)."""

    job: str
    outcome: Outcome
    placements: tuple[Placement, ...] = ()
    losses: tuple[int, ...] = ()
    cost: int = 0
    """What it puts on the bill at least: the change itself and the least placement loss."""


def options(r: Round, job: Job) -> list[Option]:
    """Return what may be done with a job as far as it alone is concerned (rules 1 to 6, and 10)."""
    if job.state is JobState.QUEUED:
        found = [Option(job.id, (QUEUED, 0, None))]
        for size, gpu_type in product(r.sizes(job), r.types):
            found += _option(r, job, (START, size, gpu_type), shapes(r, job, size, gpu_type))
        return found
    here, size, gpu_type = r.before[job.id], r.size(job), r.type_now(job)
    found = [Option(job.id, (KEEP, size, gpu_type), cost=placement_loss(r, job, here))]
    anyone = "rule_10_who_may_be_stopped" in r.without
    if anyone or may_be_stopped(r, job):
        found.append(Option(job.id, (STOP, 0, gpu_type), cost=change_cost(r, job)))
    if anyone or may_be_moved(r, job):
        for other in r.types:
            there = [where for where in shapes(r, job, size, other) if where != here]
            found += _option(r, job, (MOVE, size, other), there)
    for new in r.sizes(job):
        placed = shapes(r, job, new, gpu_type)
        if new < size and (anyone or job.preemptible):
            less = [where for where in placed if all(gpus <= here.get(node, 0) for node, gpus in where.items())]
            found += _option(r, job, (SHRINK, new, gpu_type), less)
        if new > size:
            more = [where for where in placed if all(where.get(node, 0) >= gpus for node, gpus in here.items())]
            found += _option(r, job, (GROW, new, gpu_type), more)
    return found


def _option(r: Round, job: Job, outcome: Outcome, placements: Sequence[Placement]) -> list[Option]:
    if not placements:
        return []
    priced = sorted(((placement_loss(r, job, where), i) for i, where in enumerate(placements)))
    change = 0 if outcome[0] == START else change_cost(r, job)
    losses = tuple(loss for loss, _ in priced)
    return [Option(job.id, outcome, tuple(placements[i] for _, i in priced), losses, change + losses[0])]


def all_plans(r: Round) -> Iterator[Plan]:
    """Return every plan that the decisions allow and that fits on the nodes by number of GPUs, valid or not."""
    for chosen in product(*(options(r, job) for job in r.snapshot.jobs)):
        for placements in product(*(option.placements for option in chosen if option.placements)):
            names = [option.job for option in chosen if option.placements]
            stopped = frozenset(option.job for option in chosen if option.outcome[0] == STOP)
            yield Plan(dict(zip(names, placements, strict=True)), stopped)


def best_plans(r: Round, mode: PriorityMode | None = None) -> Best:
    """Return the best score and every plan that has it."""
    mode = mode or r.profile.priority_mode
    heap = [(_hope(r, chosen, mode), i, chosen) for i, chosen in enumerate(_decisions(r))]
    heapq.heapify(heap)
    search = _Search(r, mode)
    while heap:
        hope, _, chosen = heapq.heappop(heap)
        if search.best is not None and hope > search.best_hope:
            break
        search.look_at(chosen, hope)
    assert search.best is not None, "to change nothing is always a plan"
    return Best(search.best, tuple(search.plans), search.looked_at)


def _decisions(r: Round) -> Iterator[tuple[Option, ...]]:
    """Return every set of decisions about jobs that keeps the rules which need no placement."""
    room = {
        name: sum(max(r.capacity[n], r.booked[n]) for n in r.nodes if r.nodes[n].gpu_type == name) for name in r.types
    }
    by_size = ("rule_8_", "rule_9_", "rule_10_")
    sizes_only = [rule for rule in RULES if rule.__name__.startswith(by_size) and rule.__name__ not in r.without]
    for chosen in product(*(options(r, job) for job in r.snapshot.jobs)):
        used = dict.fromkeys(r.types, 0)
        for option in chosen:
            if option.outcome[1]:
                used[option.outcome[2]] += option.outcome[1]
        if any(used[name] > room[name] for name in r.types):
            continue
        done = {option.outcome[0] for option in chosen}
        if not done.isdisjoint((STOP, SHRINK)) and done.isdisjoint(TAKERS) and "rule_12_needed" not in r.without:
            continue
        sketch = _Sketch(r, chosen)
        if all(rule(sketch) for rule in sizes_only):
            yield chosen


class _Sketch(After):
    """What is known of a plan before anything is placed: enough for the rules about sizes."""

    def __init__(self, r: Round, chosen: Sequence[Option]) -> None:
        self.round = r
        self.outcome = {option.job: option.outcome for option in chosen}
        self.plan = Plan({}, frozenset(job for job, outcome in self.outcome.items() if outcome[0] == STOP))


def _hope(r: Round, chosen: Sequence[Option], mode: PriorityMode) -> tuple:
    """Return what a set of decisions is worth at best; the smallest is the best, as a heap wants it."""
    outcome = {option.job: option.outcome for option in chosen}
    rows, value = rows_and_value(r, outcome)
    least_bill = sum(option.cost for option in chosen)
    if mode is PriorityMode.WEIGHTED:
        return (round(least_bill - value, 3),)
    return (*(-rows.get(row, 0) for row in row_order(r)), -stays(r, outcome), -older(r, outcome), least_bill)


class _Search:
    """Looks at all placements of one set of decisions after the other, and keeps the best plans."""

    def __init__(self, r: Round, mode: PriorityMode) -> None:
        self.r, self.mode = r, mode
        self.best: Score | None = None
        self.best_hope: tuple = ()
        self.plans: list[Plan] = []
        self.looked_at = 0
        self.nodes = list(r.nodes)
        self.room = {node: max(r.capacity[node], r.booked[node]) for node in r.nodes}
        self.rules = [
            rule for rule in RULES if not rule.__name__.startswith(DECIDED) and rule.__name__ not in r.without
        ]

    def look_at(self, chosen: Sequence[Option], hope: tuple) -> None:
        """Look at every way to place what is decided."""
        r = self.r
        outcome = {option.job: option.outcome for option in chosen}
        reach = self._reach(outcome)
        placed: list[tuple[Option, list[tuple[int, Placement]]]] = []
        used = dict.fromkeys(self.nodes, 0)
        for option in chosen:
            if option.outcome[0] == KEEP:
                for node, gpus in r.before[option.job].items():
                    used[node] += gpus
            if option.placements:
                old = r.before.get(option.job, {})
                here = [
                    (loss - option.losses[0], where)
                    for loss, where in zip(option.losses, option.placements, strict=True)
                    if all(gpus - old.get(node, 0) <= reach[option.job][node] for node, gpus in where.items())
                ]
                if not here:
                    return
                placed.append((option, here))
        placed.sort(key=lambda pair: len(pair[1]))
        stopped = frozenset(job for job, (done, _, _) in outcome.items() if done == STOP)
        self._place(placed, 0, used, {}, stopped, hope, 0)

    def _reach(self, outcome: Mapping[str, Outcome]) -> dict[str, dict[str, int]]:
        """Return how many GPUs each taker may at most gain per node: the free ones, and what it has a right over."""
        r = self.r
        rights = Rights(r, outcome)
        reach = {}
        for b, (done, _, _) in outcome.items():
            reach[b] = dict(r.free) if done in TAKERS else dict.fromkeys(self.nodes, 0)
            if "rule_11_rights" in r.without:
                reach[b] = dict(self.room)
            elif done in TAKERS:
                for v, (what, _, _) in outcome.items():
                    if what in GIVERS and rights.may_take(b, v):
                        for node, gpus in r.before[v].items():
                            reach[b][node] += gpus
        return reach

    def _place(
        self, placed: list, index: int, used: dict[str, int], done: dict, stopped: frozenset, hope: tuple, more: int
    ) -> None:
        if self._too_dear(hope, more):
            return
        if index == len(placed):
            self._judge(Plan(done, stopped))
            return
        option, here = placed[index]
        for loss, where in here:
            if self._too_dear(hope, more + loss):
                return  # They come by their loss: the rest is worse.
            if all(used[node] + gpus <= self.room[node] for node, gpus in where.items()):
                for node, gpus in where.items():
                    used[node] += gpus
                self._place(placed, index + 1, used, {**done, option.job: where}, stopped, hope, more + loss)
                for node, gpus in where.items():
                    used[node] -= gpus

    def _too_dear(self, hope: tuple, more: int) -> bool:
        """Return whether a plan that costs so much more than was hoped for is worse than the best."""
        return self.best is not None and (*hope[:-1], round(hope[-1] + more, 3)) > self.best_hope

    def _judge(self, plan: Plan) -> None:
        self.looked_at += 1
        a = After(self.r, plan)
        if not all(rule(a) for rule in self.rules):
            return
        found = score(a, self.mode)
        if self.best is None or found > self.best:
            self.best, self.plans = found, []
            self.best_hope = tuple(-part for part in found.key)
        if found == self.best:
            self.plans.append(plan)
