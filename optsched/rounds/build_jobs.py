"""Jobs of a snapshot as a round sees them: what one may be, where it stands, what it costs now."""

from __future__ import annotations

import statistics
from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np

from optsched.policy.ordering import class_weight
from optsched.rounds.build_nodes import Openings
from optsched.rounds.facts import Fact, Listed, Times, estimated_ends, flags
from optsched.rounds.line import no_use
from optsched.rounds.problem import UNLIMITED, Costs, Flags, Ints, Occupancy, Reals, RoundJob
from optsched.topology.tree import Tree
from optsched.values.altered import altered
from optsched.values.ids import JobId
from optsched.values.profile import Profile
from optsched.values.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Standings:
    """Where jobs stand, in the order of the round: their teams, priorities and tiers; which deadlines are due.

    `near` are the queued jobs that stand above their tier, `breaking` those of them that may break guarantees.
    """

    team: Sequence[int]
    claim_team: Sequence[int]
    priority: Sequence[int]
    tier: Sequence[int]
    near: Set[JobId]
    due: Set[JobId]
    breaking: Set[JobId]
    deadline_team: int


class JobBuilder:
    """Makes `RoundJob`s of what is listed in the order of the round, of which `occupancy` says what it says."""

    def __init__(
        self,
        snapshot: Snapshot,
        tree: Tree,
        listed: Listed,
        standings: Standings,
        priorities: Sequence[int],
        occupancy: Occupancy,
    ) -> None:
        self._snapshot = snapshot
        self._facts = listed.facts
        self._running = listed.running
        self._standings = standings
        self._openings = Openings(snapshot, listed.nodes, listed.hardware, tree.node_index)
        rows, times, profile = listed.rows, listed.times, snapshot.profile
        self._rows, self._times, self._held = rows, times, occupancy
        age_s = np.maximum(0.0, snapshot.now - times.submitted_at)
        age_s[: listed.running] = 0.0
        waited_s = _waited_s(snapshot, listed, age_s)
        # Where nobody makes way for the starved they are like others: admission counts jobs that are alike.
        self._starved = (waited_s >= profile.starve_after_s) & (profile.starved_move_s is not None)
        self._pays = _payable(rows.minimum, waited_s, profile)
        self._aging = _aging(age_s, standings, priorities, profile)

    def build(self, index: int) -> RoundJob:
        """Return the job with an index as the round sees it."""
        profile, stands = self._snapshot.profile, self._standings
        fact, held = self._facts[index], self._held
        job = fact.job
        running = index < self._running
        stop = int(held.stop_gpu_s[index]) if running else 0
        emergency = job.priority_class in profile.emergency_classes and job.priority_class != ""
        claim_team, due = stands.claim_team[index], job.id in stands.due
        if fact.mould is None:
            fact.mould = self._mould(fact, index)
        return altered(
            fact.mould,
            job=job,
            index=index,
            team=stands.team[index],
            claim_team=claim_team,
            line_team=stands.deadline_team if job.id in stands.near else claim_team,
            priority=stands.priority[index],
            nodes=self._openings.open_to(job, fact.mould.lawful),
            stoppable=running and bool(held.stoppable[index]),
            movable=running and bool(held.movable[index]),
            resizable=running and bool(held.resizable[index]),
            light=running and bool(held.light[index]),
            starved=not running and fact.mould.required is not None and bool(self._starved[index]),
            costs=Costs(stop=stop, move=stop, drain_s=round(float(self._times.checkpoint_s[index]))),
            pays_gpu_s=UNLIMITED if emergency or due else int(self._pays[index]),
            emergency=emergency,
            due=due,
            may_break_quota=job.id in stands.breaking,
            aging_milli=0 if running else int(self._aging[index]),
            ahead_of=len(self._facts) - index,
            tier=stands.tier[index],
        )

    def _mould(self, fact: Fact, index: int) -> RoundJob:
        """Return a job with what is the same in every round as long as its shape is; the rest is filled in."""
        form = fact.form
        assert form is not None
        return RoundJob(
            job=fact.job,
            index=index,
            running=index < self._running,
            team=0,
            claim_team=0,
            line_team=0,
            priority=0,
            cut=form.cut,
            unit=form.unit,
            sizes=fact.sizes,
            size_now=int(self._rows.size[index]),
            spread_now=fact.spread,
            nodes=form.lawful,
            lawful=form.lawful,
            type_speed=form.type_speed,
            span_speed=form.span_speed,
            required=form.required,
            preferred=form.preferred,
            preferred_fewest=form.preferred_fewest,
            slices=form.slices,
            cpus_per_gpu_u=form.cpus_per_gpu_u,
            memory_per_gpu_u=form.memory_per_gpu_u,
            stoppable=False,
            movable=False,
            resizable=False,
            light=False,
            starved=False,
            costs=Costs(0, 0, 0),
            pays_gpu_s=0,
            emergency=False,
            due=False,
            may_break_quota=False,
            can_ever_run=bool(self._rows.possible[index]),
            aging_milli=0,
            ahead_of=0,
            tier=0,
        )


def _waited_s(snapshot: Snapshot, listed: Listed, age_s: Reals) -> Reals:
    """Return how long each job has waited, (J,): since its submission, or since its last run ended."""
    since = snapshot.carried.waits_since
    if not since:
        return age_s
    waited_s = age_s.copy()
    for index, fact in enumerate(listed.facts[listed.running :], listed.running):
        if fact.job.id in since:
            waited_s[index] = max(0.0, snapshot.now - since[fact.job.id])
    return waited_s


def _payable(minimum: Ints, waited_s: Reals, profile: Profile) -> Ints:
    """Return the lost work in GPU-seconds that each job's start may cause, unless it is exempt, (J,)."""
    if profile.max_loss_ratio is None:
        return np.full(len(minimum), UNLIMITED, dtype=np.int64)
    doublings = np.full(len(minimum), 40.0)
    if profile.patience_s > 0:
        doublings = np.minimum(doublings, waited_s // profile.patience_s)
    return np.minimum(UNLIMITED, profile.max_loss_ratio * minimum * profile.horizon_s * 2.0**doublings).astype(np.int64)


def _aging(age_s: Reals, standings: Standings, priorities: Sequence[int], profile: Profile) -> Ints:
    """Return what its age adds to each job's w in the weighted mode, in thousandths, (J,)."""
    weight_of = class_weight(profile)
    weights = np.array([weight_of(priority) for priority in priorities])[np.array(standings.priority, dtype=np.int64)]
    gained = np.minimum(profile.max_aging, profile.aging_per_h * age_s / 3600.0)
    found: Ints = np.rint(1000 * weights * gained).astype(np.int64)
    return found


def median_start(listed: Listed) -> float | None:
    """Return what `policy.victims.median_reporting_start` does of the jobs that run."""
    reporting = flags(listed.rows.reports[: listed.running])
    starts: list[float] = listed.times.started_at[: listed.running][reporting].tolist()
    return statistics.median(starts) if starts else None


def build_occupancy(
    snapshot: Snapshot, listed: Listed, shape: tuple[int, int, int], claim: Ints, priority: Ints, tier: Ints
) -> Occupancy:
    """Return the running jobs as arrays, read-only: whoever counts on in them takes a copy.

    `claim`, `priority` and `tier` are the teams of their claims, indices of priority and tiers, (F,).
    """
    rows, times, now = listed.rows, listed.times, snapshot.now
    running = slice(listed.running)
    ids = [fact.job.id for fact in listed.facts[running]]
    mine = Times(*(column[running] for column in times))
    protected, pinned = (_named(ids, names) for names in (snapshot.carried.protected, snapshot.carried.pinned))
    lost_s, stoppable, soon = _stops(listed, mine, snapshot.profile, now)
    ends_at = estimated_ends(mine, now)
    elastic, light_s = flags(rows.elastic[running]), snapshot.profile.starved_move_s
    amounts = (rows.minimum, rows.size, rows.gpu_type, rows.cpus_u, rows.memory_u)
    minimum, size, gpu_type, cpus_u, memory_u = (column[running] for column in amounts)
    use = no_use(shape)
    use.book_all((claim, priority, minimum, size, gpu_type, cpus_u, memory_u))
    found = Occupancy(
        team=claim,
        priority=priority,
        minimum=minimum,
        size=size,
        gpu_type=gpu_type,
        cpus_u=cpus_u,
        memory_u=memory_u,
        pair_job=listed.pair_job,
        pair_node=listed.pair_node,
        pair_gpus=listed.pair_gpus,
        real_team=rows.team[running],
        tier=tier,
        stop_gpu_s=np.rint(size * lost_s).astype(np.int64),
        ends_at=ends_at,
        moved_ends_at=ends_at + np.maximum(lost_s, _undone(listed, mine, now)),
        began_at=np.where(np.isnan(mine.started_at), 0.0, mine.started_at),
        preemptible=flags(rows.preemptible[running]),
        protected=protected,
        stoppable=stoppable & ~protected & ~pinned,
        movable=flags(rows.preemptible[running]) & ~pinned & ~soon & (size > 0) & snapshot.profile.migration,
        light=lost_s <= (-1.0 if light_s is None else light_s),
        elastic=elastic,
        resizable=elastic & ~pinned,
        used=(use.gpus, use.cpus, use.memory),
    )
    for name in found.__slots__:
        for each in found.used if name == "used" else (getattr(found, name),):
            each.setflags(write=False)
    return found


def _stops(listed: Listed, times: Times, profile: Profile, now: float) -> tuple[Reals, Flags, Flags]:
    """Return, for each running job, the seconds that each GPU of it loses by a stop, and whether it may be stopped.

    As `policy.victims.stop_cost` and `may_be_stopped` say of one; and which jobs are waited for.
    """
    started = np.where(np.isnan(times.started_at), now, times.started_at)
    median = median_start(listed)
    hidden = started if median is None else np.maximum(started, median)
    saved = np.where(np.isnan(times.saved_at), hidden, times.saved_at)
    on_signal = flags(listed.rows.on_signal[: listed.running])
    lost = np.where(on_signal, 0.0, np.maximum(0.0, now - saved))
    ends = estimated_ends(times, now)
    soon = np.isfinite(ends) & (ends - now <= times.grace_s + times.checkpoint_s + times.restart_s)
    may = flags(listed.rows.preemptible[: listed.running]) & (now - started >= profile.min_runtime_s) & ~soon
    bucket = profile.preempt_tokens
    if bucket is not None:
        age_h = np.maximum(0.0, now - times.submitted_at) / 3600.0
        filled = bucket.burst + bucket.per_h * age_h - times.preemptions
        may &= np.minimum(bucket.burst, filled) >= 1.0
    return lost + times.checkpoint_s + times.restart_s, may, soon


def _undone(listed: Listed, times: Times, now: float) -> Reals:
    """Return, for each running job, the seconds of it that no checkpoint has; what a stop is priced at may be less."""
    began = np.where(np.isnan(times.started_at), now, times.started_at)
    saved = np.where(np.isnan(times.saved_at), began, times.saved_at)
    return np.where(flags(listed.rows.on_signal[: listed.running]), 0.0, np.maximum(0.0, now - saved))


def _named(running: Sequence[JobId], names: Set[JobId]) -> Flags:
    """Return which of the running jobs are among some names, (F,)."""
    if not names:
        return np.zeros(len(running), dtype=bool)
    return np.fromiter(map(names.__contains__, running), dtype=bool, count=len(running))
