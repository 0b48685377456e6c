"""Policies and plans of others on the same rounds: what each is worth against the best known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from optsched.clock import Clock
from optsched.files.plans import GivenPlan
from optsched.sim.policies.policy import Means, Policy
from optsched.sim.quality.best import Best, best_of
from optsched.sim.quality.collection import Round
from optsched.sim.quality.judge import Verdict, given_of, judge, missed
from optsched.values.ids import LevelName
from optsched.values.snapshot import Snapshot

Report = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Entry:
    """One plan of one round, by who made it.

    `short_gpus`: see `judge.missed`, against the best known plan. `bill_gap`: its bill above the best known one's, as
    a fraction of what running is worth, None where other jobs run at some rank. `at_best`: none known is better.
    `above`: it is better than the best known. `wall_s`: how long planning took, None for a plan that was given.
    """

    who: str
    verdict: Verdict
    short_gpus: int
    bill_gap: float | None
    gap: float
    at_best: bool
    above: bool
    wall_s: float | None


@dataclass(frozen=True, slots=True)
class Scored:
    """A round and its entries; `best` None where the table does not know it: the best entry stands in for it."""

    round: Round
    best: Best | None
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """One maker of plans over all rounds: how many of them, valid plans, those at the best known, the mean gap."""

    who: str
    rounds: int
    valid: int
    at_best: int
    mean_gap: float
    worst_gap: float
    short_gpus: int
    lost_work: int
    placement_loss: int
    preempted: int
    moved: int
    wall_s: float | None


def plan_of(policy: Policy, given: Round, means: Means, clock: Clock) -> tuple[GivenPlan, float]:
    """Return a policy's plan of a round, and the seconds that planning took."""
    snapshot = given.snapshot
    seen = replace(snapshot, profile=policy.profile(snapshot.profile))
    planner = policy.planner(replace(means, levels=required_levels(snapshot)))
    began = clock.monotonic_s()
    plan = planner(seen)
    return given_of(plan), clock.monotonic_s() - began


def required_levels(snapshot: Snapshot) -> frozenset[LevelName]:
    """Return the levels that some job requires, for itself or for its slices."""
    required = {job.required for job in snapshot.jobs if job.required is not None}
    return frozenset(required | {piece.within for job in snapshot.jobs for piece in job.slices})


def score_all(
    rounds: Sequence[Round],
    policies: Sequence[Policy],
    means: Means,
    clock: Clock,
    plans: Sequence[tuple[str, GivenPlan]] = (),
    report: Report = lambda stage, fraction: None,
) -> tuple[Scored, ...]:
    """Return what policies, and plans that were given, are worth on every round. `plans` are (name, plan)."""
    steps = _counted(len(rounds) * len(policies))
    scored = []
    for given in rounds:
        made: list[tuple[str, Verdict, float | None]] = [(who, judge(given.problem, plan), None) for who, plan in plans]
        for policy in policies:
            report(f"{given.name}: {policy.name}", next(steps))
            plan, wall_s = plan_of(policy, given, means, clock)
            made.append((policy.name, judge(given.problem, plan), wall_s))
        scored.append(compared(given, best_of(given), made))
    return tuple(scored)


def _counted(total: int) -> Iterator[float]:
    return (step / max(1, total) for step in range(total + 1))


def compared(given: Round, best: Best | None, made: Sequence[tuple[str, Verdict, float | None]]) -> Scored:
    """Return the entries of a round, each held against the best known plan, or else the best of them."""
    healthy = max(1, given.problem.healthy_gpus)
    key = best.worth.key if best is not None else max(verdict.worth.key for _, verdict, _ in made)
    wanted, most = key[:-3], -key[-1]
    entries = []
    for who, verdict, wall_s in made:
        worth = verdict.worth
        short = missed(wanted, worth.ranks)
        bill_gap = None
        if worth.ranks == wanted:
            bill_gap = max(0.0, (worth.bill - most) / worth.run_value) if worth.run_value else 0.0
        gap = max(short / healthy, bill_gap or 0.0)
        above = worth.key > key
        entries.append(Entry(who, verdict, short, bill_gap, gap, worth.key >= key, above, wall_s))
    return Scored(given, best, tuple(entries))


def summaries(scored: Sequence[Scored]) -> tuple[Summary, ...]:
    """Return one summary for everybody who made plans, in the order of the entries."""
    names = list(dict.fromkeys(entry.who for each in scored for entry in each.entries))
    return tuple(_summary(who, [e for each in scored for e in each.entries if e.who == who]) for who in names)


def _summary(who: str, entries: Sequence[Entry]) -> Summary:
    worths = [entry.verdict.worth for entry in entries]
    walls = [entry.wall_s for entry in entries if entry.wall_s is not None]
    return Summary(
        who=who,
        rounds=len(entries),
        valid=sum(entry.verdict.valid for entry in entries),
        at_best=sum(entry.at_best for entry in entries),
        mean_gap=math.fsum(entry.gap for entry in entries) / len(entries),
        worst_gap=max(entry.gap for entry in entries),
        short_gpus=sum(entry.short_gpus for entry in entries),
        lost_work=sum(worth.lost_work for worth in worths),
        placement_loss=sum(worth.placement_loss for worth in worths),
        preempted=sum(worth.preempted for worth in worths),
        moved=sum(worth.moved + worth.resized for worth in worths),
        wall_s=math.fsum(walls) if walls else None,
    )
